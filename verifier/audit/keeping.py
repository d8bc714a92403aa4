"""The file in which an audit's state is kept: made, opened, and told when it is damaged."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from verifier.audit import damage
from verifier.audit.state import State, StateError
from verifier.errors import Code, FormatError, VerifierError

APPLICATION_ID: Final = 0x66626175
VERSION: Final = 2
"""Of the schema: the file's user_version, one more with each change. One that is higher is a newer verifier's."""
FILE: Final = "audit.db"

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE leaves (tile INTEGER PRIMARY KEY, hashes BLOB NOT NULL);
CREATE TABLE chains (chain BLOB PRIMARY KEY, info TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE stated (
    chain BLOB, round INTEGER, signature BLOB, previous BLOB NOT NULL, error TEXT,
    PRIMARY KEY (chain, round, signature, previous)
) WITHOUT ROWID;
CREATE TABLE rounds (
    chain BLOB, round INTEGER, i INTEGER, entry BLOB NOT NULL, PRIMARY KEY (chain, round, i)
) WITHOUT ROWID;
CREATE TABLE newest (chain BLOB, i INTEGER, round INTEGER NOT NULL, PRIMARY KEY (chain, i)) WITHOUT ROWID;
CREATE TABLE sessions (
    session BLOB PRIMARY KEY, i INTEGER NOT NULL, host TEXT NOT NULL, label TEXT NOT NULL, overdue INTEGER NOT NULL,
    ended TEXT
) WITHOUT ROWID;
CREATE INDEX open_sessions ON sessions (i) WHERE ended IS NULL;
CREATE TABLE pending (session BLOB, i INTEGER, entry BLOB NOT NULL, PRIMARY KEY (session, i)) WITHOUT ROWID;
CREATE TABLE locks (chain BLOB, round INTEGER, session BLOB, PRIMARY KEY (chain, round, session)) WITHOUT ROWID;
CREATE TABLE used (value BLOB PRIMARY KEY, session BLOB NOT NULL, i INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hosts (host TEXT PRIMARY KEY, account TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE labels (host TEXT, label TEXT, session BLOB NOT NULL, PRIMARY KEY (host, label)) WITHOUT ROWID;
CREATE TABLE findings (
    number INTEGER PRIMARY KEY, grave INTEGER NOT NULL, claim TEXT NOT NULL, rule TEXT NOT NULL, i INTEGER NOT NULL,
    text TEXT NOT NULL, session TEXT, host TEXT, UNIQUE (claim, rule, i, text)
);
CREATE TABLE dice (
    host TEXT, sandbox INTEGER, counts TEXT NOT NULL, PRIMARY KEY (host, sandbox)
) WITHOUT ROWID;
CREATE TABLE cosigned (
    size INTEGER, witness TEXT, type INTEGER NOT NULL, time INTEGER NOT NULL, PRIMARY KEY (size, witness)
) WITHOUT ROWID;
"""


_FAULTS: Final = (
    *(sqlite3.Error, VerifierError, ValueError, TypeError, LookupError, AttributeError, AssertionError),
    *(ArithmeticError, MemoryError, RecursionError),
)
_TEMPORARY: Final = "a temporary file"
_AGAIN: Final = "move it away, and audit the log again from its beginning"


@contextmanager
def opened(directory: Path | None) -> Iterator[State]:
    """The state in a directory, which is made; without one a state of this audit alone, in a temporary file.

    Raises FormatError(USAGE) where it cannot be, is in use, is none, or turns out to be damaged.
    """
    where = directory / FILE if directory is not None else None
    try:
        if where is not None:
            where.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(where or "", isolation_level=None, timeout=1, cached_statements=256)) as db:
            _prepare(db, where)
            with _blaming_damage(db, where):
                yield State(db)
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise FormatError(
            Code.USAGE, f"cannot keep the audit's state in {where or 'a temporary file'}: {error}"
        ) from error


def check(state: State, directory: Path | None) -> None:
    """Raises FormatError(USAGE) if a state is damaged: before its log is accused of what may be the file's fault."""
    problem = damage.found(state.db)
    if problem is not None:
        raise _damaged(directory / FILE if directory is not None else None, problem)


@contextmanager
def _blaming_damage(db: sqlite3.Connection, where: Path | None) -> Iterator[None]:
    """What goes wrong is the file's fault where the file is wrong."""
    try:
        yield
    except (StateError, sqlite3.IntegrityError) as error:
        raise _damaged(where, str(error)) from error
    except _FAULTS as error:
        plain = isinstance(error, VerifierError) and error.code == Code.USAGE
        problem = None if plain else damage.found(db)
        if problem is None:
            raise
        raise _damaged(where, problem) from error


def _damaged(where: Path | None, problem: str) -> FormatError:
    return FormatError(
        Code.USAGE, f"the audit's state in {where or 'a temporary file'} is damaged ({problem}): {_AGAIN}"
    )


def _prepare(db: sqlite3.Connection, where: Path | None) -> None:
    db.execute("PRAGMA synchronous = NORMAL" if where else "PRAGMA synchronous = OFF")
    kind = db.execute("PRAGMA application_id").fetchone()[0]
    if kind == APPLICATION_ID:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise FormatError(
                Code.USAGE,
                f"{where} was written by a newer version of this program (its schema is {version}, this program's "
                f"{VERSION}): run that version, or begin another state",
            )
        if version < VERSION:
            _upgrade(db)
        return
    if kind or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise FormatError(Code.USAGE, f"{where} is another program's database")
    db.executescript(
        f"BEGIN; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT"
    )


def _upgrade(db: sqlite3.Connection) -> None:
    """Bring an older state up to date. What it has judged is not looked at again: what version 0 did not count, dice
    and proven sessions, is counted from here on.
    """
    missing = re.sub("^CREATE (TABLE|INDEX)", r"CREATE \1 IF NOT EXISTS", _SCHEMA, flags=re.MULTILINE)
    counted = (
        "INSERT OR IGNORE INTO meta SELECT 'dice_from', value FROM meta "
        "WHERE name = 'size' AND (SELECT user_version FROM pragma_user_version) = 0;"
    )
    proven = "UPDATE meta SET value = json_insert(value, '$.proven', 0) WHERE name = 'totals';"
    db.executescript(f"BEGIN IMMEDIATE; {missing} {counted} {proven} PRAGMA user_version = {VERSION}; COMMIT")
