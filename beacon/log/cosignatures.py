"""What witnesses say of the log's checkpoints, in log.db: cosignatures, each of a checkpoint that is there.

Only what verified is put here, and `fsck` verifies it again. Of a witness and a checkpoint the first one stays: its
time is the earliest. Blocking; `add` is a job of the log's writer, the rest is for readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from sqlite_utils import Database

from beacon.store.errors import LogDamaged
from verifier.errors import VerifierError
from verifier.note import Signature, VerifierKey

LOOKED_AT: Final = 512
"""Rows that are compared where the checkpoint with the most cosignatures is looked for."""


class Cosigned(NamedTuple):
    """A witness's cosignature of the checkpoint of `size`. signature: POSIX seconds (8 bytes), then what signs them."""

    size: int
    witness: VerifierKey
    signature: bytes

    @property
    def time(self) -> int:
        """POSIX seconds, as the witness says."""
        return int.from_bytes(self.signature[:8], "big")

    @property
    def line(self) -> str:
        """The line under the checkpoint's note, newline included."""
        return Signature(self.witness.name, self.witness.key_id, self.signature).encode()


_parsed = lru_cache(maxsize=256)(VerifierKey.parse)


def add(db: Database, cosigned: Cosigned) -> bool:
    """Keep a verified cosignature; whether it is the first of this witness for this checkpoint. A writer's job."""
    vkey = str(cosigned.witness)
    row = db.conn.execute("SELECT id FROM witnesses WHERE vkey = ?", (vkey,)).fetchone()
    if row is None:
        row = db.conn.execute("SELECT coalesce(max(id), 0) + 1 FROM witnesses").fetchone()
        db.conn.execute("INSERT INTO witnesses (id, vkey) VALUES (?, ?)", (row[0], vkey))
    key = (cosigned.size, row[0])
    if db.conn.execute("SELECT 1 FROM cosignatures WHERE size = ? AND witness = ?", key).fetchone():
        return False
    db.conn.execute("INSERT INTO cosignatures VALUES (?, ?, ?)", (*key, cosigned.signature))
    return True


def witnesses(db: Database) -> dict[int, VerifierKey]:
    """Every witness that ever cosigned, by its id. Raises LogDamaged."""
    try:
        return {row[0]: _parsed(row[1]) for row in db.conn.execute("SELECT id, vkey FROM witnesses")}
    except VerifierError as error:
        raise LogDamaged(f"a witness's key is none: {error}") from error


def of(db: Database, size: int) -> list[Cosigned]:
    """The cosignatures of the checkpoint of this size, in the order of the witnesses' ids."""
    rows = db.conn.execute("SELECT witness, signature FROM cosignatures WHERE size = ? ORDER BY witness", (size,))
    known = witnesses(db)
    return [Cosigned(size, known[witness], signature) for witness, signature in rows.fetchall()]


def newest_sizes(db: Database) -> dict[VerifierKey, int]:
    """The largest size that each witness has cosigned."""
    newest = "SELECT max(size) FROM cosignatures WHERE witness = ?"
    found = {key: db.conn.execute(newest, (number,)).fetchone()[0] for number, key in witnesses(db).items()}
    return {key: size for key, size in found.items() if size is not None}


def newest_first(db: Database) -> Iterator[list[Cosigned]]:
    """The cosignatures of each cosigned checkpoint, those of the largest first."""
    size = 2**63 - 1
    while True:
        row = db.conn.execute("SELECT max(size) FROM cosignatures WHERE size < ?", (size,)).fetchone()
        if row[0] is None:
            return
        size = row[0]
        yield of(db, size)


def first_covering(db: Database, index: int, size: int) -> set[int]:
    """For each witness the smallest checkpoint of at most `size` that covers the entry and that it has cosigned."""
    query = "SELECT min(size) FROM cosignatures WHERE witness = ? AND size > ? AND size <= ?"
    numbers = [row[0] for row in db.conn.execute("SELECT id FROM witnesses").fetchall()]
    found = (db.conn.execute(query, (number, index, size)).fetchone()[0] for number in numbers)
    return {one for one in found if one is not None}


def best_covering(db: Database, index: int, size: int) -> int | None:
    """The checkpoint of at most `size` that covers the entry and has the most cosignatures; the first of several."""
    row = db.conn.execute(
        """SELECT size FROM (SELECT size FROM cosignatures WHERE size > ? AND size <= ? ORDER BY size LIMIT ?)
        GROUP BY size ORDER BY count(*) DESC, size LIMIT 1""",
        (index, size, LOOKED_AT),
    ).fetchone()
    return None if row is None else int(row[0])
