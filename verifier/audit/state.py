"""What an auditor keeps between two audits: one SQLite file, written in one transaction for each segment of the log.

So an audit that is stopped anywhere goes on where it was, and memory does not grow with the log.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from verifier.encoding import Json
from verifier.errors import Code, FormatError
from verifier.merkle import HASH_BYTES
from verifier.tiles import TILE_WIDTH

APPLICATION_ID: Final = 0x66626175
VERSION: Final = 2
"""Of the schema: the file's user_version, one more with each change. One that is higher is a newer verifier's."""
FILE: Final = "audit.db"
MAX_KEPT: Final = 100_000
"""Findings that are kept; the rest is counted."""

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


@dataclass(frozen=True, slots=True)
class Found:
    """Something an audit saw. grave: it makes the audit fail; else it is a note on a host's account.

    claim: of verdict.ClaimName, or `host`; rule: of PROTOCOL.md; index: the log index, None where it is of the whole;
    session: hex.
    """

    claim: str
    rule: str
    text: str
    index: int | None = None
    session: str | None = None
    host: str | None = None
    grave: bool = True

    def as_dict(self) -> dict[str, Json]:
        return {"kind": "finding" if self.grave else "note", **{k: v for k, v in asdict(self).items() if k != "grave"}}


class State:
    """The file, for one process at a time. Nothing is kept before `commit`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db: Final = db
        self._begin()

    def get(self, name: str) -> Any:
        """A value of `meta`, None when there is none."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Json) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, json.dumps(value)])

    def commit(self) -> None:
        self.db.execute("COMMIT")
        self._begin()

    def rollback(self) -> None:
        self.db.execute("ROLLBACK")
        self._begin()

    def _begin(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def add_leaves(self, first: int, hashes: list[bytes]) -> None:
        """Keep leaf hashes from index `first` on, where those kept before end."""
        while hashes:
            tile, place = divmod(first, TILE_WIDTH)
            taken = hashes[: TILE_WIDTH - place]
            before = self._leaves(tile)[: place * HASH_BYTES]
            self.db.execute("INSERT OR REPLACE INTO leaves VALUES (?, ?)", [tile, before + b"".join(taken)])
            first, hashes = first + len(taken), hashes[len(taken) :]

    def leaves(self, size: int) -> Iterator[bytes]:
        """The hashes of the first `size` leaves, which are kept."""
        for first in range(0, size, TILE_WIDTH):
            data = self._leaves(first // TILE_WIDTH)
            for at in range(0, HASH_BYTES * min(TILE_WIDTH, size - first), HASH_BYTES):
                yield data[at : at + HASH_BYTES]

    def _leaves(self, tile: int) -> bytes:
        row = self.db.execute("SELECT hashes FROM leaves WHERE tile = ?", [tile]).fetchone()
        return b"" if row is None else bytes(row[0])

    def add(self, found: Iterable[Found]) -> list[Found]:
        """Keep what was found; gives those that were not known yet."""
        new = []
        for one in found:
            if (self.get("found") or 0) >= MAX_KEPT:
                self.put("more", (self.get("more") or 0) + 1)
                continue
            index = -1 if one.index is None else one.index
            row = (one.grave, one.claim, one.rule, index, one.text, one.session, one.host)
            columns = "grave, claim, rule, i, text, session, host"
            added = self.db.execute(f"INSERT OR IGNORE INTO findings ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            if added.rowcount:
                self.put("found", (self.get("found") or 0) + 1)
                new.append(one)
        return new

    def found(self) -> Iterator[Found]:
        """Everything that was found, in the order in which it was."""
        rows = self.db.execute("SELECT claim, rule, text, i, session, host, grave FROM findings ORDER BY number")
        for claim, rule, text, index, session, host, grave in rows:
            yield Found(claim, rule, text, None if index < 0 else index, session, host, bool(grave))

    def grave(self) -> int:
        """How many findings make the audit fail."""
        return int(self.db.execute("SELECT count(*) FROM findings WHERE grave").fetchone()[0])


@contextmanager
def opened(directory: Path | None) -> Iterator[State]:
    """The state in a directory, which is made; without one a state of this audit alone, in a temporary file.

    Raises FormatError(USAGE) where it cannot be, is in use, or is none.
    """
    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        where = "" if directory is None else str(directory / FILE)
        with closing(sqlite3.connect(where, isolation_level=None, timeout=1, cached_statements=256)) as db:
            _prepare(db, where)
            yield State(db)
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise FormatError(
            Code.USAGE, f"cannot keep the audit's state in {directory or 'a temporary file'}: {error}"
        ) from error


def _prepare(db: sqlite3.Connection, where: str) -> None:
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
    made = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    db.executescript(f"BEGIN; {_SCHEMA} {made} COMMIT")


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
