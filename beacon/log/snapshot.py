"""A copy of log.db at one moment, for whoever wants to audit the whole log from a file.

SQLite makes it (VACUUM INTO) from a reader's connection, in a thread of its own, one at a time: the writer goes on
meanwhile. A copy is kept for a while, beside the log; the one before it stays until the next, for those who read it.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beacon.log import reads
from beacon.store.errors import LogDamaged, WriteFailed
from beacon.store.schema import open_readonly

KEPT_SECONDS: Final = 600
"""For how long a copy is given though the log has grown."""

LEAST_ROOM: Final = 2
"""How many times the log's size must be free on its disk: whoever asks for copies must not end the log's own writes."""
LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy. size: entries that its newest checkpoint covers; note: that checkpoint; made: when, monotonic s."""

    path: Path
    size: int
    note: str
    made: float


class Snapshots:
    """The copies of one log, on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._kept: list[Snapshot] = []
        self._making: asyncio.Task[None] | None = None
        self._db: sqlite3.Connection | None = None

    async def newest(self, path: Path, size: int, seconds: float) -> Snapshot | None:
        """The copy that there is; where there is none the first, if it is made within so many seconds.

        path: of log.db; size: how many entries it has now. A copy that is old, of a log that has grown, is given once
        more while a new one is made.
        """
        old = not self._kept or (self._kept[-1].size < size and self._clock() - self._kept[-1].made >= KEPT_SECONDS)
        if old and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make(path))
        if not self._kept and self._making is not None:
            await asyncio.wait({self._making}, timeout=seconds)
            if self._making.done():
                self._making.result()
        return self._kept[-1] if self._kept else None

    async def close(self) -> None:
        """Give up what is being made."""
        making = self._making
        while making is not None and not making.done():
            if self._db is not None:
                self._db.interrupt()
            await asyncio.wait({making}, timeout=LOOK_SECONDS)
        if making is not None and not making.cancelled():
            making.exception()

    async def _make(self, path: Path) -> None:
        made = await asyncio.to_thread(self._copy, path)
        self._kept = [*self._kept[-1:], made]
        await asyncio.to_thread(_remove, path, {one.path for one in self._kept})

    def _copy(self, path: Path) -> Snapshot:
        beside = path.with_name("log-snapshot.new")
        try:
            copy(path, beside, self._opened)
        finally:
            self._db = None
        with closing(open_readonly(beside)) as db:
            size = db.execute("SELECT max(size) FROM checkpoints").fetchone()[0]
            if size is None:
                raise LogDamaged("the log has no checkpoint")
            note = reads.signed_note(db, size)
        target = path.with_name(f"log-snapshot-{size}.db")
        beside.replace(target)
        return Snapshot(target, size, note, self._clock())

    def _opened(self, conn: sqlite3.Connection) -> None:
        self._db = conn


def copy(path: Path, target: Path, opened: Callable[[sqlite3.Connection], None] = lambda _: None) -> None:
    """Copy the log at `path` as it is now into a file, beside the writer, leaving no half of a copy.

    opened: told the connection, which another thread may interrupt. Raises WriteFailed where the disk has too little
    room, sqlite3.Error, OSError.
    """
    target.unlink(missing_ok=True)
    if shutil.disk_usage(target.parent).free < LEAST_ROOM * path.stat().st_size:
        raise WriteFailed("the disk has no room for a copy of the log")
    with closing(open_readonly(path, closed_elsewhere=True)) as db:
        opened(db.conn)
        try:
            db.conn.execute("VACUUM INTO ?", [str(target)])
        except sqlite3.Error:
            target.unlink(missing_ok=True)
            raise


def _remove(path: Path, but: set[Path]) -> None:
    """Remove the copies that nobody is given any more, of earlier runs too."""
    for old in path.parent.glob("log-snapshot-*.db"):
        if old not in but:
            old.unlink(missing_ok=True)
