"""Readers of a database: a few threads, each with a connection of its own that cannot write."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from sqlite_utils import Database

from beacon.store.schema import open_readonly

T = TypeVar("T")
Query = Callable[[Database], T]


class Reader:
    """Runs functions that read. Each sees one moment of the database, from its first statement to its return."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        """The database must exist when the first function runs."""
        self.path: Final = path
        self._local: Final = threading.local()
        self._open: Final[list[sqlite3.Connection]] = []
        self._pool: Final = ThreadPoolExecutor(threads, thread_name_prefix=f"reader {path.name}")

    async def run(self, query: Query[T]) -> T:
        """Run `query` on a reader's thread. It returns values, never a cursor or generator: TypeError."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._call, query)

    def submit(self, query: Query[T]) -> Future[T]:
        """As `run`, for threads."""
        return self._pool.submit(self._call, query)

    def close(self) -> None:
        """Wait for what runs and close the connections. Again is no error."""
        self._pool.shutdown(wait=True)
        while self._open:
            self._open.pop().close()

    def _call(self, query: Query[T]) -> T:
        db = self._connection()
        db.conn.execute("BEGIN")
        try:
            result = query(db)
        finally:
            db.conn.execute("ROLLBACK")
        if isinstance(result, Iterator | sqlite3.Cursor):
            raise TypeError("a reader returns values: a half-read query would hold the WAL back")
        return result

    def _connection(self) -> Database:
        db: Database | None = getattr(self._local, "db", None)
        if db is None:
            db = open_readonly(self.path, closed_elsewhere=True)
            self._local.db = db
            self._open.append(db.conn)
        return db
