"""The pair of databases: copied from under their writer, and looked over as a pair.

log.db first, private.db second. The service makes a seed durable in private.db before its seal is in log.db, and never
deletes one; so whatever is sealed in the earlier moment has its seed in the later one. The other way round a seal could
be in the copy without its seed. Each copy is of one moment: it is read in one transaction, however long that takes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from sqlite_utils import Database

from beacon.backup.manifest import Progress
from beacon.log import cosignatures, reads
from beacon.log.recovery import recover
from beacon.store.errors import LogDamaged
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import open_readonly, reading
from verifier.entries import Seal, parse_entry
from verifier.errors import VerifierError
from verifier.note import VerifierKey

PAGES: Final = 4_096
ROWS_AT_ONCE: Final = 500


class Pair(NamedTuple):
    """What two databases say together. size, note: of the newest checkpoint; open, missing: see Manifest."""

    size: int
    note: str
    witnesses: dict[VerifierKey, int]
    open: int
    missing: int


def copy(source: Path, target: Path, progress: Progress) -> None:
    """Copy a database as it is at one moment into a new file of mode 0600, one that stands alone.

    Raises CannotOpen, DatabaseDamaged, OSError.
    """
    target.touch(mode=0o600, exist_ok=False)

    def told(_status: int, remaining: int, total: int) -> None:
        progress(f"copying {source.name}", total - remaining, total)

    with reading(source), closing(open_readonly(source)) as db, closing(sqlite3.connect(target)) as out:
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_schema").fetchone()
        db.conn.backup(out, pages=PAGES, progress=told)
        out.execute("PRAGMA journal_mode = DELETE").fetchone()


def look_over(log: Path, private: Path, vkey: VerifierKey) -> Pair:
    """Check what the start of a service would, and every page; whether the seeds of open sessions are there.

    Raises SchemaRefused, DatabaseDamaged, CannotOpen.
    """
    with reading(log), closing(open_readonly(log)) as db:
        LOG_SCHEMA.check_kind(db)
        _whole(db, log)
        state = recover(db, vkey)
        if state.checkpoint is None:
            raise LogDamaged(f"{log} has no checkpoint")
        commitments = _open_commitments(db)
        witnesses = cosignatures.newest_sizes(db)
    with reading(private), closing(open_readonly(private)) as db:
        PRIVATE_SCHEMA.check_kind(db)
        _whole(db, private)
        missing = len(commitments) - sum(_kept(db, commitment) for commitment in commitments)
    return Pair(state.checkpoint.size, state.checkpoint.note, witnesses, len(commitments), missing)


def holds(log: Path, size: int, root: bytes) -> bool:
    """Whether the first `size` entries of the log are those of that root (32 bytes). Raises DatabaseDamaged."""
    with reading(log), closing(open_readonly(log)) as db:
        (there,) = db.execute("SELECT coalesce(max(size), 0) FROM checkpoints").fetchone()
        return size <= there and reads.root_at(db, size) == root


def _whole(db: Database, path: Path) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise LogDamaged(f"{path}: {found}")


def _open_commitments(db: Database) -> list[bytes]:
    """Of every session without an end whose seed the service holds."""
    query = "SELECT seal_index FROM sessions WHERE end_index IS NULL AND custody = 'beacon' ORDER BY seal_index"
    indices = [row[0] for row in db.execute(query).fetchall()]
    found = []
    for index in indices:
        try:
            seal = parse_entry(reads.entry(db, index))
        except VerifierError as error:
            raise LogDamaged(f"entry {index} is no entry: {error.message}") from error
        if not isinstance(seal, Seal):
            raise LogDamaged(f"entry {index} is no seal")
        found.append(seal.commitment)
    return found


def _kept(db: Database, commitment: bytes) -> bool:
    return db.execute("SELECT 1 FROM seeds WHERE commitment = ?", [commitment]).fetchone() is not None
