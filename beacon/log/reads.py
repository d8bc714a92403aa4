"""Reading the log: what it holds, and proofs from stored hashes. Blocking; for any thread with a connection of its own.

Nothing is handed out that does not fit: an entry must hash to its stored leaf, and a receipt's proof is checked before
it leaves (`Log.receipt_proof`). LogDamaged says that the file was changed behind the service's back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlite_utils import Database

from beacon.log import keys, tree
from beacon.log.tree import Node
from beacon.store.errors import LogDamaged
from verifier.errors import VerifierError
from verifier.merkle import HASH_BYTES, leaf_hash
from verifier.note import Checkpoint, Note

ROWS_AT_ONCE: Final = 500


class SignedCheckpoint(NamedTuple):
    """A published state of the log. root: 32 bytes; note: the C2SP signed note; time: of its newest entry, in ms."""

    size: int
    root: bytes
    note: str
    time: int


def fetch_nodes(db: Database, nodes: Iterable[Node]) -> dict[Node, bytes]:
    """Read stored hashes, 32 bytes each, with one query. Raises LogDamaged when one is not there."""
    wanted = list(nodes)
    found = hash_rows(db, {node.row for node in wanted})
    return {node: _part(found.get(node.row, b""), node.level) for node in wanted}


def hash_rows(db: Database, rows: Iterable[int]) -> dict[int, bytes]:
    """Read the rows of `hashes` that exist, each the nodes that its leaf completes, with one query."""
    wanted = tuple(rows)
    query = f"SELECT i, nodes FROM hashes WHERE i IN ({','.join('?' * len(wanted))})"  # noqa: S608 - only question marks
    return dict(db.conn.execute(query, wanted).fetchall())


def receipt_proof(db: Database, index: int, least: int) -> tuple[SignedCheckpoint, bytes, list[bytes]]:
    """Give the first checkpoint that covers an entry of the log, its stored leaf hash, and its proof that leads there.

    least: the least size of a checkpoint that may be given.
    Hashes are 32 bytes each; whether the proof verifies is not asked here. Raises LogDamaged.
    """
    checkpoint = checkpoint_covering(db, max(index, least - 1))
    leaf = Node(0, index)
    nodes = fetch_nodes(db, [leaf, *(node for part in tree.path(leaf, checkpoint.size) for node in part)])
    return checkpoint, nodes[leaf], tree.prove_inclusion(lambda _nodes: nodes, index, checkpoint.size)


def inclusion_proofs(db: Database, indices: Sequence[int], size: int) -> list[list[bytes]]:
    """Give the proofs of several leaves in the tree of `size` leaves, in few queries. Raises ValueError, LogDamaged."""
    needed = {node.row for index in indices for part in tree.path(Node(0, index), size) for node in part}
    rows: dict[int, bytes] = {}
    wanted = sorted(needed)
    for start in range(0, len(wanted), ROWS_AT_ONCE):
        rows |= hash_rows(db, wanted[start : start + ROWS_AT_ONCE])

    def fetch(nodes: Iterable[Node]) -> dict[Node, bytes]:
        return {node: _part(rows.get(node.row, b""), node.level) for node in nodes}

    return [tree.prove_inclusion(fetch, index, size) for index in indices]


def consistency_proof(db: Database, old_size: int, size: int) -> list[bytes]:
    """Give the proof from `old_size` >= 1 to `size`, 32 bytes each. Raises ValueError, LogDamaged."""
    return tree.prove_consistency(lambda nodes: fetch_nodes(db, nodes), old_size, size)


def root_at(db: Database, size: int) -> bytes:
    """32 bytes: the root of the first `size` leaves, from stored hashes."""
    return tree.root_at(lambda nodes: fetch_nodes(db, nodes), size)


def entry(db: Database, index: int) -> bytes:
    """Give the exact bytes of an entry. Raises IndexError when there is none, LogDamaged."""
    found = entries(db, index, index + 1)
    if not found:
        raise IndexError(f"the log has no entry {index}")
    return found[0]


def entries(db: Database, first: int, end: int) -> list[bytes]:
    """Give the bytes of the entries first..end-1 that exist. Raises LogDamaged when one does not hash to its leaf."""
    rows = db.conn.execute(
        """SELECT i, entry, substr(nodes, 1, 32) FROM entries LEFT JOIN hashes USING (i)
        WHERE i >= ? AND i < ? ORDER BY i""",
        (first, end),
    ).fetchall()
    for offset, (index, data, leaf) in enumerate(rows):
        if index != first + offset or leaf_hash(data) != leaf:
            raise LogDamaged(f"entry {index} is not the one that was logged")
    return [data for _, data, _ in rows]


def leaf_hashes(db: Database, first: int, end: int) -> list[bytes]:
    """Give the stored leaf hashes first..end-1 that exist, 32 bytes each."""
    rows = db.conn.execute("SELECT substr(nodes, 1, 32) FROM hashes WHERE i >= ? AND i < ? ORDER BY i", (first, end))
    return [row[0] for row in rows.fetchall()]


def checkpoint_note(db: Database, size: int) -> str | None:
    """Give the signed checkpoint of exactly this size; None when no commit ended there.

    Under it stand all keys of the log that signed it, also one that signs only from there on.
    """
    row = db.conn.execute("SELECT note FROM checkpoints WHERE size = ?", (size,)).fetchone()
    return None if row is None else str(row[0]) + keys.lines(keys.stored(db), size)


def signed_note(db: Database, size: int) -> str:
    """As `checkpoint_note`, of one that must be there. Raises LogDamaged."""
    note = checkpoint_note(db, size)
    if note is None:
        raise LogDamaged(f"there is no checkpoint of size {size}")
    return note


def checkpoint_sizes(db: Database, above: int, below: int, limit: int) -> list[int]:
    """The sizes of checkpoints between two sizes, neither included, the newest first: so many at most."""
    query = "SELECT size FROM checkpoints WHERE size > ? AND size < ? ORDER BY size DESC LIMIT ?"
    return [size for (size,) in db.conn.execute(query, (above, below, limit))]


def checkpoint_covering(db: Database, index: int) -> SignedCheckpoint:
    """Give the first checkpoint that covers an entry of the log. Raises LogDamaged."""
    row = db.conn.execute(
        "SELECT size, note, time FROM checkpoints WHERE size > ? ORDER BY size LIMIT 1", (index,)
    ).fetchone()
    if row is None:
        raise LogDamaged(f"no checkpoint covers entry {index}")
    try:
        root = Checkpoint.parse(Note.parse(row[1]).text).root
    except VerifierError as error:
        raise LogDamaged(f"the checkpoint of size {row[0]} is not one") from error
    return SignedCheckpoint(row[0], root, row[1] + keys.lines(keys.stored(db), row[0]), row[2])


def _part(nodes: bytes, level: int) -> bytes:
    part = nodes[HASH_BYTES * level : HASH_BYTES * (level + 1)]
    if len(part) != HASH_BYTES:
        raise LogDamaged("a stored hash is missing")
    return part
