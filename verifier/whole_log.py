"""A whole log, entry by entry: from its database, or from its tiles (C2SP tlog-tiles). Memory does not grow with it.

    with of_database(path) as log:                with of_tiles(prefix, download) as log:
        for entry in log.entries(): ...
        log.check(key)

What `entries` gives is unverified until `check` has compared all of it with the log's checkpoint.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Final

from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.log_keys import LogTrust, require_signed
from verifier.merkle import Frontier, leaf_hash
from verifier.note import Signature, VerifierKey
from verifier.tiles import MAX_ENTRY_BYTES, TILE_WIDTH, bundle_of, parse_bundle
from verifier.transcript import SignedCheckpoint

SQLITE_HEADER: Final = b"SQLite format 3\x00"
APPLICATION_ID: Final = 0x66626C67
MAX_CHECKPOINT_BYTES: Final = 1 << 20
MAX_WITNESSES: Final = 90
"""Of one checkpoint; a note has at most 100 signatures."""
MAX_BUNDLE_BYTES: Final = TILE_WIDTH * (2 + MAX_ENTRY_BYTES)
_TABLES: Final = ("entries", "checkpoints")
_parsed = lru_cache(maxsize=256)(VerifierKey.parse)

Batch = Callable[[int, int], list[bytes]]
"""(first, end) -> the entries first .. end - 1, at most TILE_WIDTH of them and never across a bundle's end."""


@dataclass(slots=True)
class WholeLog:
    """A log as somebody hands it over: its newest checkpoint, and its entries up to there, to be read once.

    cosigned: (size) -> the larger checkpoints that are there with cosignatures, in order; nothing of them is verified.
    """

    signed: SignedCheckpoint
    batch: Batch
    cosigned: Callable[[int], Iterator[SignedCheckpoint]] = lambda _: iter(())
    frontier: Frontier = field(default_factory=Frontier)

    @property
    def size(self) -> int:
        """How many entries the checkpoint covers."""
        return self.signed.checkpoint.size

    def entries(self) -> Iterator[bytes]:
        """Give the exact bytes of every entry, in order. Raises FormatError where one is missing."""
        while self.frontier.size < self.size:
            first = self.frontier.size
            end = min(first - first % TILE_WIDTH + TILE_WIDTH, self.size)
            read = self.batch(first, end)
            if len(read) != end - first:
                raise FormatError(Code.DOCUMENT, f"the entries {first} to {end - 1} are not all there")
            for entry in read:
                self.frontier.append(leaf_hash(entry))
                yield entry

    def check(self, key: LogTrust | None) -> None:
        """Compare what was read, all of it, with the checkpoint; and its signature, if the log's key is given.

        Raises VerificationError(INCLUSION, SIGNATURE).
        """
        if self.frontier.root() != self.signed.checkpoint.root or self.frontier.size != self.size:
            raise VerificationError(Code.INCLUSION, "the entries are not those that the log's checkpoint covers")
        if key is not None:
            require_signed(self.signed.note, self.signed.checkpoint, key)


def is_database(path: Path | str) -> bool:
    """Whether a file begins as those of SQLite do."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except OSError:
        return False


@contextmanager
def of_database(path: Path | str) -> Iterator[WholeLog]:
    """Open a log.db for reading; a service may write it meanwhile. Raises FormatError(USAGE, CHECKPOINT, NOTE)."""
    try:
        with closing(_connect(Path(path))) as db:
            yield _log_of(db, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter for SQLite's own words on a damaged file
        raise FormatError(Code.USAGE, f"cannot read {path}: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; as immutable where SQLite may not even make its lock files.

    No row that is longer than a log has any is read: a file of somebody else's may hold gigabytes, or compute them.
    """
    uri = path.absolute().as_uri()
    db = sqlite3.connect(f"{uri}?mode=ro", uri=True)
    try:
        db.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError:
        db.close()
        if path.with_name(path.name + "-wal").exists():
            raise
        db = sqlite3.connect(f"{uri}?immutable=1", uri=True)
    db.execute("PRAGMA trusted_schema = OFF")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CHECKPOINT_BYTES)
    return db


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ? AND sql LIKE 'CREATE TABLE %'"
    return bool(db.execute(tables, [name]).fetchone()[0])


def _log_of(db: sqlite3.Connection, path: Path | str) -> WholeLog:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID or not all(_has_table(db, name) for name in _TABLES):
        raise FormatError(Code.USAGE, f"{path} is a database, but not that of a log")
    newest = db.execute("SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1").fetchone()
    if newest is None or not isinstance(newest[0], str):
        raise FormatError(Code.USAGE, f"{path} has no checkpoint")

    def batch(first: int, end: int) -> list[bytes]:
        wanted = "SELECT i, entry FROM entries WHERE i >= ? AND i < ? AND length(entry) <= ? ORDER BY i"
        rows = db.execute(wanted, [first, end, MAX_ENTRY_BYTES]).fetchall()
        found = [entry for place, (i, entry) in enumerate(rows, first) if i == place and isinstance(entry, bytes)]
        return found if len(found) == len(rows) else []

    signed = SignedCheckpoint.parse(newest[0])
    more = "".join(_key_lines(db).get(signed.checkpoint.size, []))
    return WholeLog(SignedCheckpoint.parse(newest[0] + more), batch, lambda size: _cosigned(db, size))


def _key_lines(db: sqlite3.Connection) -> dict[int, list[str]]:
    """The lines of keys that the log changed to, by the size of the checkpoint that each begins with."""
    found: dict[int, list[str]] = {}
    if _has_table(db, "log_keys"):
        wanted = "SELECT first, vkey, signature FROM log_keys WHERE signature IS NOT NULL LIMIT ?"
        for first, vkey, signature in db.execute(wanted, [MAX_WITNESSES]):
            with suppress(VerifierError, TypeError, ValueError, AttributeError):
                found.setdefault(first, []).append(_line(vkey, signature))
    return found


def _cosigned(db: sqlite3.Connection, size: int) -> Iterator[SignedCheckpoint]:
    """The checkpoints above `size` with their cosignatures; where the tables or a row hold no such thing, nothing."""
    if not all(_has_table(db, name) for name in ("witnesses", "cosignatures")):
        return
    keys = dict(db.execute("SELECT id, vkey FROM witnesses LIMIT ?", [MAX_WITNESSES]))
    began = _key_lines(db)
    wanted = "SELECT size, note, witness, signature FROM checkpoints JOIN cosignatures USING (size) WHERE size > ?"
    rows = db.execute(f"{wanted} ORDER BY size", [size])
    for _, several in groupby(rows, key=itemgetter(0)):
        shown = list(islice(several, MAX_WITNESSES))
        with suppress(VerifierError, TypeError, ValueError, AttributeError, LookupError):
            lines = [*began.get(shown[0][0], []), *(_line(keys[key], signature) for _, _, key, signature in shown)]
            yield SignedCheckpoint.parse(shown[0][1] + "".join(lines))


def _line(vkey: str, signature: bytes) -> str:
    key = _parsed(vkey)
    return Signature(key.name, key.key_id, signature).encode()


def of_tiles(prefix: str, download: Callable[[str, int], bytes]) -> WholeLog:
    """The log whose resources stand below `prefix`. Raises FormatError, and what download(address, limit) raises."""
    prefix = prefix.rstrip("/")
    try:
        note = download(f"{prefix}/checkpoint", MAX_CHECKPOINT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(Code.CHECKPOINT, f"{prefix}/checkpoint is no checkpoint") from error
    signed = SignedCheckpoint.parse(note)
    size = signed.checkpoint.size

    def batch(first: int, _: int) -> list[bytes]:
        return parse_bundle(download(f"{prefix}/{bundle_of(first, size).path}", MAX_BUNDLE_BYTES))

    return WholeLog(signed, batch)
