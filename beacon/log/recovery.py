"""What is read and checked before a log takes anything: the same at every start, after a crash or not.

The newest checkpoint must be signed by a key of ours and cover exactly the entries and hashes that are there; its root
must follow from the stored right edge; the newest entries must hash to their leaves, and these to the nodes above them;
and the checkpoints before it must fit the same tree. `fsck` checks all the rest. Raises LogDamaged.
"""

from __future__ import annotations

from typing import Final

from sqlite_utils import Database

from beacon.log import keys, reads
from beacon.log.reads import SignedCheckpoint
from beacon.log.sequencer import State
from beacon.log.tree import Edge, Node, edge_nodes
from beacon.store.errors import LogDamaged
from verifier.encoding import parse_canonical_json
from verifier.errors import VerifierError
from verifier.log_keys import LogTrust, Signed, as_keys, name_of, signed_by
from verifier.merkle import HASH_BYTES, node_hash
from verifier.note import Checkpoint, Note

RECENT_ENTRIES: Final = 1_024
RECENT_CHECKPOINTS: Final = 16


def recover(db: Database, trust: LogTrust) -> State:
    """Read the durable state of the log that these keys sign; the origin is their name. Raises LogDamaged."""
    trust = keys.trusted(db, trust)
    size = _size(db)
    if size == 0:
        return State(Edge(), None)
    newest = db.execute(
        "SELECT size, note, time FROM checkpoints ORDER BY size DESC LIMIT ?", [RECENT_CHECKPOINTS]
    ).fetchall()
    rows = keys.stored(db)
    signed = [
        SignedCheckpoint(size, open_checkpoint(note, size, trust), note + keys.lines(rows, size), time)
        for size, note, time in newest
    ]
    for checkpoint in signed:
        if reads.root_at(db, checkpoint.size) != checkpoint.root:
            raise LogDamaged(f"the hashes do not lead to the root of checkpoint {checkpoint.size}")
    nodes = edge_nodes(size)
    hashes = reads.fetch_nodes(db, nodes)
    edge = Edge(size, [hashes[node] for node in nodes])
    _check_first(db, name_of(trust))
    _check_recent(db, size, signed[0].time)
    return State(edge, signed[0])


def open_checkpoint(note: str, size: int, trust: LogTrust) -> bytes:
    """32 bytes: the root that a checkpoint of this log and size states, signed by a key for it. Raises LogDamaged."""
    try:
        parsed = Note.parse(note)
        checkpoint = Checkpoint.parse(parsed.text)
        found = signed_by(parsed, checkpoint.size, as_keys(trust).keys)
    except VerifierError as error:
        raise LogDamaged(f"checkpoint {size} is not one that {name_of(trust)} signed: {error}") from error
    if found is not Signed.YES:
        raise LogDamaged(f"checkpoint {size} is not one that {name_of(trust)} signed: {found.value}")
    if checkpoint.origin != name_of(trust) or checkpoint.size != size or checkpoint.extensions:
        raise LogDamaged(f"checkpoint {size} is another log's or another size's")
    return checkpoint.root


def entry_time(entry: bytes, index: int) -> int:
    """Give the time of an entry in ms. Raises LogDamaged when it is not canonical or has none."""
    try:
        time = parse_canonical_json(entry).get("time")
    except VerifierError as error:
        raise LogDamaged(f"entry {index} is not canonical: {error}") from error
    if not isinstance(time, int) or isinstance(time, bool) or time < 0:
        raise LogDamaged(f"entry {index} has no time")
    return time


def _size(db: Database) -> int:
    entries, hashes, checkpoint = db.execute(
        """SELECT (SELECT coalesce(max(i) + 1, 0) FROM entries), (SELECT coalesce(max(i) + 1, 0) FROM hashes),
        (SELECT coalesce(max(size), 0) FROM checkpoints)"""
    ).fetchone()
    if not entries == hashes == checkpoint:
        raise LogDamaged(f"{entries} entries, {hashes} leaf hashes, and a checkpoint of {checkpoint}")
    return int(entries)


def _check_first(db: Database, origin: str) -> None:
    first = parse_canonical_json(reads.entry(db, 0))
    if first.get("type") != "log" or first.get("origin") != origin:
        raise LogDamaged("the first entry names another log")


def _check_recent(db: Database, size: int, newest_time: int) -> None:
    first = max(0, size - RECENT_ENTRIES)
    time = 0
    for offset, entry in enumerate(reads.entries(db, first, size)):
        previous, time = time, entry_time(entry, first + offset)
        if time < previous:
            raise LogDamaged(f"entry {first + offset} is older than the one before")
    if time != newest_time:
        raise LogDamaged("the newest checkpoint has not the time of the newest entry")
    rows = dict(db.execute("SELECT i, nodes FROM hashes WHERE i >= ?", [first]).fetchall())
    outside = {
        node
        for index in rows
        for level in range(len(rows[index]) // HASH_BYTES - 1)
        if (node := _left(index, level)).row < first
    }
    hashes = reads.fetch_nodes(db, outside) if outside else {}
    for index in range(first, size):
        nodes = rows.get(index, b"")
        for level in range(len(nodes) // HASH_BYTES - 1):
            left = _left(index, level)
            left_hash = hashes[left] if left in hashes else _at(rows[left.row], level)
            if node_hash(left_hash, _at(nodes, level)) != _at(nodes, level + 1):
                raise LogDamaged(f"a stored hash above entry {index} does not follow from the ones below it")


def _left(row: int, level: int) -> Node:
    """Give the left sibling of the node of this level in `row`, where the row holds one more above it."""
    return Node(level, ((row + 1) >> level) - 2)


def _at(nodes: bytes, level: int) -> bytes:
    return nodes[HASH_BYTES * level : HASH_BYTES * (level + 1)]
