"""witness.db: what a witness of other logs has signed. It is the witness's memory: an older copy of it may sign twice.

identity  the vkey of the one key that signs with this database
logs      origin -> the keys whose signature makes a checkpoint of that origin one of the log's
states    origin -> the newest checkpoint that was cosigned: size, root (32 bytes), the log's note, the cosignature
          and its time (POSIX seconds). It only grows
forks     checkpoints that a log signed and that do not fit what was cosigned: `ours` and `theirs` are signed notes.
          kind `fork`: of one size with two roots, which proves it to anybody; `unproven`: theirs is larger, and the
          proof that came with it (old: from which size) does not lead there
"""

from __future__ import annotations

from typing import Final

from sqlite_utils import Database, Migrations

from beacon.store.schema import Schema

APPLICATION_ID: Final = 0x66627774  # "fbwt"

TABLES: Final = (
    "CREATE TABLE identity (one INTEGER PRIMARY KEY CHECK (one = 1), vkey TEXT NOT NULL) STRICT",
    """CREATE TRIGGER identity_once BEFORE INSERT ON identity WHEN EXISTS (SELECT 1 FROM identity)
    BEGIN SELECT RAISE(ABORT, 'a witness has one key'); END""",
    """CREATE TABLE logs (origin TEXT NOT NULL, vkey TEXT NOT NULL, added INTEGER NOT NULL, PRIMARY KEY (origin, vkey))
    STRICT, WITHOUT ROWID""",
    """CREATE TABLE states (origin TEXT PRIMARY KEY, size INTEGER NOT NULL CHECK (size >= 0),
    root BLOB NOT NULL CHECK (length(root) = 32), note TEXT NOT NULL, line TEXT NOT NULL, time INTEGER NOT NULL)
    STRICT, WITHOUT ROWID""",
    """CREATE TRIGGER states_once BEFORE INSERT ON states
    WHEN EXISTS (SELECT 1 FROM states WHERE origin = NEW.origin)
    BEGIN SELECT RAISE(ABORT, 'a state is updated, never replaced'); END""",
    """CREATE TRIGGER states_grow BEFORE UPDATE ON states
    WHEN NEW.origin IS NOT OLD.origin OR NEW.size < OLD.size OR NEW.time < OLD.time
    OR (NEW.size = OLD.size AND NEW.root IS NOT OLD.root)
    BEGIN SELECT RAISE(ABORT, 'what was cosigned only grows'); END""",
    """CREATE TABLE forks (id INTEGER PRIMARY KEY, origin TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('fork', 'unproven')), size INTEGER NOT NULL, root BLOB NOT NULL,
    ours TEXT NOT NULL, theirs TEXT NOT NULL, old INTEGER NOT NULL, proof TEXT NOT NULL, time INTEGER NOT NULL)
    STRICT""",
    "CREATE UNIQUE INDEX forks_once ON forks (origin, kind, size, root)",
    "CREATE TRIGGER states_no_delete BEFORE DELETE ON states BEGIN SELECT RAISE(ABORT, 'states only grow'); END",
    *(
        f"""CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}
    BEGIN SELECT RAISE(ABORT, '{table} only grow'); END"""
        for table in ("identity", "forks")
        for verb in ("UPDATE", "DELETE")
    ),
)

migrations = Migrations("fair-beacon-witness")


@migrations()
def m001_witness(db: Database) -> None:
    """Create everything of the first version."""
    for statement in TABLES:
        db.execute(statement)


WITNESS_SCHEMA: Final = Schema("witness database", APPLICATION_ID, 0o600, migrations)
