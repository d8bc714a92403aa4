"""Checking a whole log file, and rebuilding what follows from its entries.

`check` trusts nothing but the keys it is given: every entry is parsed and hashed again, every stored hash, root and
signature compared with what follows from the entries, and every derived row with what the projections make of them.
Every drand round that an entry or a table states is verified under its chain's key. It reads one moment of the file,
also beside a running service, in memory that does not grow with the log. Projections are told of the same commits as
when the log was written: one at each checkpoint.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from sqlite_utils import Database

from beacon.log import keys
from beacon.log.fsck_cosignatures import CosignaturesCheck
from beacon.log.fsck_rounds import RoundsCheck
from beacon.log.projection import Loading, Projection
from beacon.log.recovery import open_checkpoint
from beacon.log.tree import Edge
from beacon.store.errors import CannotOpen, LogDamaged, SchemaNewer, SchemaOlder, SchemaRefused
from beacon.store.lock import FileLock
from beacon.store.log_schema import DERIVED, HASHES, LOG_SCHEMA, immutable
from beacon.store.rows import insert_rows
from beacon.store.schema import DAMAGE, connect, open_readonly, readonly_uri, refusal
from verifier import entries
from verifier.errors import VerifierError
from verifier.log_keys import LogTrust, name_of
from verifier.merkle import leaf_hash, node_hash

Progress = Callable[[int, int], None]

MAX_FINDINGS: Final = 100
PROGRESS_EVERY: Final = 1_000
_CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    where: schema, database, key, entry, hash, checkpoint, cosignature, derived, round, evidence or mark.
    index: the entry's index, the hash row's, the checkpoint's size, the first size of a key, or the number of a stored
    round (round) or of one that was signed twice (evidence); None where it is about the whole.
    """

    where: str
    index: int | None
    message: str

    def __str__(self) -> str:
        return f"{self.where}{'' if self.index is None else f' {self.index}'}: {self.message}"


@dataclass(slots=True)
class Report:
    """What a check read, and the first MAX_FINDINGS findings; `more` counts the rest. root: hex, of all entries.

    rounds: rows of that table. rounds_checked: whether rounds were verified. rounds_verified, rounds_unverified:
    distinct (chain, round, signature) of entries and tables that verify, and of which it was not asked; rounds_foreign:
    those of the latter whose chain is known neither to the log nor to this software. cosignatures: those that verify.
    """

    size: int = 0
    checkpoints: int = 0
    cosignatures: int = 0
    rounds: int = 0
    rounds_checked: bool = False
    rounds_verified: int = 0
    rounds_unverified: int = 0
    rounds_foreign: int = 0
    derived_checked: bool = False
    root: str = ""
    findings: list[Finding] = field(default_factory=list)
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def add(self, where: str, index: int | None, message: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(where, index, message))
        else:
            self.more += 1


def check(
    path: Path,
    trust: LogTrust,
    projections: Sequence[Projection] | None = None,
    progress: Progress | None = None,
    *,
    rounds: bool = True,
    round_progress: Progress | None = None,
) -> Report:
    """Check a whole log file; the origin is the keys' name. Writes nothing to it and needs no lock.

    projections: fresh ones, used for this alone; without them the derived tables are not checked.
    progress: called with (entries done, entries in all). rounds: False compares the rounds and does not verify them.
    round_progress: called with (distinct rounds done, in all). Raises CannotOpen, SchemaNewer, SchemaOlder.
    """
    report = Report(rounds_checked=rounds)
    with tempfile.TemporaryDirectory() as directory:
        try:
            with closing(open_readonly(path)) as db:
                _check_schema(db, report)
            with closing(_beside(path, Path(directory) / "scratch.db")) as db:
                whole = _Check(db, trust, projections, progress or _no_progress, report)
                whole.run(round_progress or _no_progress)
        except DAMAGE as error:
            reason = refusal(path, error)
            if isinstance(reason, CannotOpen):
                raise reason from error
            report.add("database", None, f"{type(error).__name__}: {error}")
    return report


def rebuild(path: Path, trust: LogTrust, projections: Sequence[Projection], progress: Progress | None = None) -> int:
    """Rebuild the stored hashes and the derived tables from the entries, in one transaction. Gives how many entries.

    Nothing is changed unless every checkpoint then has the root that its signature covers. projections: fresh ones,
    used for this alone. Raises AlreadyOpen while a service runs, SchemaRefused, CannotOpen, DatabaseDamaged.
    """
    if not path.exists():
        raise LogDamaged(f"there is no log at {path}")
    lock = FileLock(path)
    try:
        with closing(Database(connect(str(path)), execute_plugins=False, recursive_triggers=True)) as db:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            try:
                size = _rebuild(db, trust, projections, progress or _no_progress)
                LOG_SCHEMA.check(db)
                db.commit()
            except BaseException:
                db.rollback()
                raise
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    finally:
        lock.release()
    return size


def _check_schema(db: Database, report: Report) -> None:
    try:
        LOG_SCHEMA.require_current(db)
        LOG_SCHEMA.check(db)
    except (SchemaNewer, SchemaOlder):
        raise
    except SchemaRefused as error:
        report.add("schema", None, str(error))


class _Check:
    """One pass over the entries, with everything that is stored beside them read in step."""

    def __init__(
        self,
        db: Database,
        trust: LogTrust,
        projections: Sequence[Projection] | None,
        progress: Progress,
        report: Report,
    ) -> None:
        self._db: Final = db
        self._trust: Final = keys.trusted(db, trust)
        self._projections: Final = projections or ()
        self._progress: Final = progress
        self._report: Final = report
        self._stack: list[tuple[int, bytes]] = []
        self._time = 0
        self._rounds: Final = RoundsCheck(db, report.add)
        self._cosignatures: CosignaturesCheck
        report.derived_checked = projections is not None

    def run(self, round_progress: Progress) -> None:
        """Read everything, inside one transaction, so at one moment."""
        self._db.execute("BEGIN")
        for (line,) in self._db.execute("PRAGMA log.integrity_check").fetchall():
            if line != "ok":
                self._report.add("database", None, line)
        self._report.rounds = self._db.execute("SELECT count(*) FROM log.rounds").fetchone()[0]
        for size, text in keys.complaints(self._db, name_of(self._trust)):
            self._report.add("key", size, text)
        _open_all(self._projections, self._db)
        self._cosignatures = CosignaturesCheck(self._db, self._report.add)
        self._check_entries()
        self._cosignatures.rest()
        self._report.cosignatures = self._cosignatures.verified
        if self._report.derived_checked:
            for table in DERIVED:
                self._check_derived(table)
        counts = self._rounds.run(round_progress, verify=self._report.rounds_checked)
        self._report.rounds_verified, self._report.rounds_unverified = counts.verified, counts.unverified
        self._report.rounds_foreign = counts.foreign

    def _check_entries(self) -> None:
        total = self._db.execute("SELECT count(*) FROM log.entries").fetchone()[0]
        hashes = _Rows(self._db.execute("SELECT i, nodes FROM log.hashes ORDER BY i"))
        checkpoints = _Rows(self._db.execute("SELECT size, note, time FROM log.checkpoints ORDER BY size"))
        expected = 0
        for index, entry in self._db.execute("SELECT i, entry FROM log.entries ORDER BY i"):
            if index != expected:
                self._report.add("entry", expected, f"entries {expected} to {index - 1} are missing")
                return
            leaf = leaf_hash(entry)
            self._check_entry(index, entry)
            self._check_hashes(index, b"".join(self._add(leaf)), hashes)
            covered = checkpoints.take(index + 1)
            if covered is not None:
                self._check_checkpoint(*covered)
                self._cosignatures.covered(*covered[:2])
            self._apply(index, entry, leaf, committed=covered is not None)
            expected += 1
            if expected % PROGRESS_EVERY == 0:
                self._progress(expected, total)
        self._progress(expected, total)
        self._report.size = expected
        self._report.root = self._root().hex() if expected else ""
        for index, *_ in hashes.rest():
            self._report.add("hash", index, "a hash of an entry that is not there")
        for size, *_ in checkpoints.rest():
            self._report.add("checkpoint", size, "covers more than there is")
        if checkpoints.last != (expected or None):
            self._report.add("checkpoint", checkpoints.last, f"the newest one, but there are {expected} entries")

    def _check_entry(self, index: int, data: bytes) -> None:
        try:
            entry = entries.parse_entry(data)
        except VerifierError as error:
            self._report.add("entry", index, str(error))
            return
        if entry.time < self._time:
            self._report.add("entry", index, "is older than the one before")
        self._time = entry.time
        if (index == 0) != isinstance(entry, entries.Log):
            self._report.add("entry", index, "the first entry, and no other, is of type log")
        elif isinstance(entry, entries.Log) and entry.origin != name_of(self._trust):
            self._report.add("entry", index, f"names another log, {entry.origin}")
        self._rounds.see(index, entry)

    def _check_hashes(self, index: int, nodes: bytes, stored: _Rows) -> None:
        row = stored.take(index)
        if row is None:
            self._report.add("hash", index, "is missing")
        elif row[1] != nodes:
            self._report.add("hash", index, "does not follow from the entries")

    def _check_checkpoint(self, size: int, note: str, time: int) -> None:
        self._report.checkpoints += 1
        try:
            root = open_checkpoint(note, size, self._trust)
        except LogDamaged as error:
            self._report.add("checkpoint", size, str(error))
            return
        if root != self._root():
            self._report.add("checkpoint", size, "signs another root than the entries have")
        if time != self._time:
            self._report.add("checkpoint", size, "has not the time of its newest entry")

    def _add(self, leaf: bytes) -> list[bytes]:
        """Add a leaf to the tree; gives all nodes that it completes, itself first."""
        nodes, level = [leaf], 0
        while self._stack and self._stack[-1][0] == level:
            nodes.append(node_hash(self._stack.pop()[1], nodes[-1]))
            level += 1
        self._stack.append((level, nodes[-1]))
        return nodes

    def _root(self) -> bytes:
        root = self._stack[-1][1]
        for _, left in reversed(self._stack[:-1]):
            root = node_hash(left, root)
        return root

    def _apply(self, index: int, entry: bytes, leaf: bytes, *, committed: bool) -> None:
        for projection in self._projections:
            try:
                projection.applied(self._db, index, entry, leaf)
                if committed:
                    projection.before_commit(self._db)
            except Exception as error:  # noqa: BLE001 - it folds what may be damaged; the report says so
                self._report.add("derived", index, f"cannot be applied: {type(error).__name__}: {error}")
            if committed:
                projection.committed()

    def _check_derived(self, table: str) -> None:
        keys = ", ".join(self._db[table].pks)  # type: ignore[union-attr]
        stored, due = (
            self._db.execute(f"SELECT * FROM {schema}.{table} ORDER BY {keys}")  # noqa: S608 - names of ours
            for schema in ("log", "main")
        )
        for has, should in zip_longest(stored, due):
            if has != should:
                self._report.add("derived", None, f"{table}: a row is {_show(has)} and should be {_show(should)}")
                return


class _Rows:
    """Rows in the order of their first column, taken one by one when their turn comes."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows: Final = rows
        self._next: tuple[Any, ...] | None = next(rows, None)
        self.last: int | None = None

    def take(self, key: int) -> tuple[Any, ...] | None:
        """Give the row of this key, if it is there."""
        while self._next is not None and self._next[0] < key:
            self._advance()
        return self._advance() if self._next is not None and self._next[0] == key else None

    def rest(self) -> Iterator[tuple[Any, ...]]:
        """Give what was not taken."""
        while (row := self._advance()) is not None:
            yield row

    def _advance(self) -> tuple[Any, ...] | None:
        row = self._next
        if row is not None:
            self.last = row[0]
            self._next = next(self._rows, None)
        return row


def _beside(path: Path, scratch: Path) -> Database:
    """Open a new database for derived tables, with the log attached, read-only, as `log`."""
    conn = sqlite3.connect(scratch.as_uri(), uri=True)
    try:
        db = Database(conn, execute_plugins=False, recursive_triggers=True)
        db.execute("PRAGMA synchronous = OFF")
        for statements in DERIVED.values():
            for statement in statements:
                db.execute(statement)
        db.execute("ATTACH ? AS log", [readonly_uri(path)])
    except BaseException:
        conn.close()
        raise
    return db


def _rebuild(db: Database, trust: LogTrust, projections: Sequence[Projection], progress: Progress) -> int:
    LOG_SCHEMA.check_kind(db)
    trust = keys.trusted(db, trust)
    for table, statements in (("hashes", (*HASHES, *immutable("hashes"))), *DERIVED.items()):
        db.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in statements:
            db.execute(statement)
    signed = {size: open_checkpoint(note, size, trust) for size, note in _checkpoints(db)}
    total = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
    if total != max(signed, default=0):
        raise LogDamaged(f"{total} entries, and a checkpoint of {max(signed, default=0)}")
    _open_all(projections, db)
    edge = Edge()
    while edge.size < total:
        _rebuild_chunk(db, edge, signed, projections)
        progress(edge.size, total)
    return total


def _rebuild_chunk(db: Database, edge: Edge, signed: dict[int, bytes], projections: Sequence[Projection]) -> None:
    first, hashes = edge.size, []
    for index, entry in db.execute(
        "SELECT i, entry FROM entries WHERE i >= ? ORDER BY i LIMIT ?", [first, _CHUNK]
    ).fetchall():
        if index != edge.size:
            raise LogDamaged(f"entry {edge.size} is missing")
        leaf = leaf_hash(entry)
        hashes.append((index, edge.append(leaf)))
        if edge.size in signed and edge.root() != signed[edge.size]:
            raise LogDamaged(f"checkpoint {edge.size} signs another root than the entries have")
        for projection in projections:
            projection.applied(db, index, entry, leaf)
            if edge.size in signed:
                projection.before_commit(db)
                projection.committed()
    insert_rows(db, "hashes (i, nodes)", hashes)


def _checkpoints(db: Database) -> list[tuple[int, str]]:
    return [(size, note) for size, note in db.execute("SELECT size, note FROM checkpoints").fetchall()]


def _open_all(projections: Sequence[Projection], db: Database) -> None:
    for projection in projections:
        if isinstance(projection, Loading):
            projection.opened(db)


def _show(row: tuple[Any, ...] | None) -> str:
    if row is None:
        return "absent"
    return "(" + ", ".join(value.hex() if isinstance(value, bytes) else repr(value) for value in row) + ")"


def _no_progress(_done: int, _total: int) -> None:
    pass
