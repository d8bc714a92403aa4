"""What both databases share: how a file is recognised, migrated and compared with the schema it must have."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database, Migrations

from beacon.store.errors import CannotOpen, DatabaseDamaged, SchemaNewer, SchemaOlder, SchemaRefused, StoreError

Connect = Callable[[str], sqlite3.Connection]

BUSY_SECONDS = 5.0
CACHED_STATEMENTS = 256
WAL_CHECKPOINT_PAGES = 4_000

# What reading a damaged file may raise: what it holds need not have the types that the schema gives it.
DAMAGE = (sqlite3.Error, LookupError, TypeError, ValueError, AttributeError)

_ENVIRONMENT = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)


@dataclass(frozen=True, slots=True)
class Schema:
    """One kind of database file. application_id stands in its header; mode is the permission of a new file."""

    name: str
    application_id: int
    mode: int
    migrations: Migrations

    def objects(self, db: Database) -> dict[str, str]:
        """Name -> SQL of what `db` has of this schema, and of any other trigger. Raises SchemaRefused."""
        rows = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        if not all(isinstance(value, str) for row in rows for value in row):
            raise SchemaRefused(f"{self.name}: the schema cannot be read")
        known = self.expected()
        return {name: sql for kind, name, sql in rows if kind == "trigger" or name in known}

    def expected(self) -> dict[str, str]:
        """Name -> SQL of every table, index and trigger that a new database has."""
        with Database(memory=True, execute_plugins=False) as fresh:
            self.migrations.apply(fresh)
            rows = fresh.execute(
                "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name <> ?",
                [self.migrations.migrations_table],
            ).fetchall()
        return dict(rows)

    def check(self, db: Database) -> None:
        """Raise SchemaRefused unless `db` is of this kind, not newer, and has exactly these tables and triggers."""
        self.check_kind(db)
        expected, found = self.expected(), self.objects(db)
        for name in sorted(expected.keys() | found.keys()):
            if name not in found:
                raise SchemaRefused(f"{self.name}: {name} is missing")
            if name not in expected:
                raise SchemaRefused(f"{self.name}: there is a trigger {name} that does not belong")
            if found[name] != expected[name]:
                raise SchemaRefused(f"{self.name}: {name} was altered")

    def require_current(self, db: Database) -> None:
        """Raise SchemaOlder when `db` is of an older version: opening it for writing brings it up to date."""
        self.check_kind(db)
        with Database(memory=True, execute_plugins=False) as fresh:
            names = [str(migration.name) for migration in self.migrations.pending(fresh)]
        applied = [name for name in names if name in {str(migration.name) for migration in self.migrations.applied(db)}]
        to_come = names[len(applied) :]
        if applied and to_come and applied == names[: len(applied)]:
            raise SchemaOlder(
                f"{self.name}: made by an older version of this program ({', '.join(to_come)} is to come). The service "
                "brings it up to date when it starts; until then use the version that made it"
            )

    def prepare(self, db: Database) -> None:
        """Bring `db` up to date in one transaction and check it. Raises SchemaRefused."""
        db.execute("BEGIN IMMEDIATE")
        try:
            if not db.table_names() and _application_id(db) == 0:
                db.execute(f"PRAGMA application_id = {self.application_id}")
            self.check_kind(db)
            self.migrations.apply(db)
            self.check(db)
            db.commit()
        except BaseException:
            db.rollback()
            raise

    def check_kind(self, db: Database) -> None:
        """Raise SchemaRefused unless `db` is of this kind, SchemaNewer when it was made by a newer version."""
        found = _application_id(db)
        if found != self.application_id:
            raise SchemaRefused(f"not a {self.name}: its application id is {found}, not {self.application_id}")
        with Database(memory=True, execute_plugins=False) as fresh:
            known = {migration.name for migration in self.migrations.pending(fresh)}
        try:
            unknown = sorted({str(migration.name) for migration in self.migrations.applied(db)} - known)
        except LookupError as error:
            raise SchemaRefused(f"{self.name}: its record of migrations cannot be read") from error
        if unknown:
            raise SchemaNewer(
                f"{self.name}: made by a newer version of this program ({', '.join(unknown)}). "
                "There is no way back for it: run that version, or a newer one"
            )


def refusal(path: Path, error: BaseException) -> StoreError:
    """Tell what is wrong with a file from what opening or reading it raised."""
    text = f"{path}: {type(error).__name__}: {error}"
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _ENVIRONMENT:
        return CannotOpen(text)
    return DatabaseDamaged(text)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise CannotOpen or DatabaseDamaged in place of whatever reading the file raises."""
    try:
        yield
    except DAMAGE as error:
        raise refusal(path, error) from error


def connect(path: str) -> sqlite3.Connection:
    """Open a connection for writing, for the thread that calls this."""
    return sqlite3.connect(path, timeout=BUSY_SECONDS, cached_statements=CACHED_STATEMENTS)


def open_writable(path: Path, schema: Schema, connector: Connect = connect) -> Database:
    """Open, create or migrate the database for the calling thread: WAL, synchronous=FULL, recursive triggers on.

    A new file gets schema.mode before anything is in it. Raises SchemaRefused, CannotOpen, DatabaseDamaged, OSError.
    """
    if not path.exists():
        path.touch(mode=schema.mode)
    with reading(path):
        conn = connector(str(path))
        try:
            db = Database(conn, execute_plugins=False, recursive_triggers=True)
            db.enable_wal()
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}")
            schema.prepare(db)
        except SchemaRefused as error:
            conn.close()
            raise type(error)(f"{path}: {error}") from error
        except BaseException:
            conn.close()
            raise
    return db


def open_readonly(path: Path, *, closed_elsewhere: bool = False) -> Database:
    """Open for reading, for the calling thread. Nothing can be written through it. Raises sqlite3.Error.

    closed_elsewhere: another thread may close it, once the calling thread has ended.
    """
    conn = sqlite3.connect(
        readonly_uri(path),
        uri=True,
        timeout=BUSY_SECONDS,
        cached_statements=CACHED_STATEMENTS,
        check_same_thread=not closed_elsewhere,
    )
    try:
        db = Database(conn, execute_plugins=False, recursive_triggers=True)
    except BaseException:
        conn.close()
        raise
    return db


def readonly_uri(path: Path) -> str:
    """Give the URI under which SQLite reads the file and cannot write it. Raises sqlite3.Error when it cannot be read.

    A file in WAL mode that stands alone in a directory where nothing can be created is read as immutable.
    """
    uri = path.absolute().as_uri()
    try:
        _try(uri + "?mode=ro")
    except sqlite3.OperationalError:
        if not path.exists() or path.with_name(path.name + "-wal").exists():
            raise
        _try(uri + "?immutable=1")
        return uri + "?immutable=1"
    return uri + "?mode=ro"


def _try(uri: str) -> None:
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as conn:
        conn.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _application_id(db: Database) -> int:
    return int(db.execute("PRAGMA application_id").fetchone()[0])
