"""A running count of what the log's dice showed, which goes on from where it is and never holds up the service.

Nothing is counted before somebody asks. Then one task reads the entries that are new, some at a time, on the log's
readers, and counts them on another thread; whoever asks waits a moment for it, and is told how far it is. How far it
came stands in a file beside the log, with the root of the tree there, so that a restart goes on from it. Whoever can
write that file can at most make the pages show other counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlite_utils import Database

from beacon.log.log import Log
from beacon.log.reads import entries, root_at
from beacon.store.errors import StoreError
from verifier.encoding import encode_json, parse_document_json
from verifier.entries import Seal
from verifier.errors import VerifierError
from verifier.statistics import figures, odds
from verifier.statistics.counts import Counter, Counts
from verifier.statistics.figures import Figure

AT_ONCE: Final = 512
PATIENCE: Final = 1.0
"""How long a reader waits for the count to reach the log's end (s)."""
MOST_REST: Final = 0.1
MAX_KEPT: Final = 32
SAVED_EVERY: Final = 100_000
"""Entries after which the place is written down: a minute's counting at the most is done again."""
FILE: Final = "log-statistics.json"
_FORMAT: Final = "fair-beacon/counts/v1"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is about: a host, or all hosts for None; games or tests."""

    host: str | None
    tests: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """What the log's first `entries` entries, of `size`, show of what was asked for."""

    entries: int
    size: int
    counts: Counts
    figures: tuple[Figure, ...]


class Counting:
    """The count of one log."""

    def __init__(self) -> None:
        self._counter = Counter(_group)
        self._saved: int | None = None
        """How many entries the file counts; None before it was looked for."""
        self._log: Log | None = None
        self._free: Final = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._kept: Final[OrderedDict[tuple[Asked, int], Counted]] = OrderedDict()

    async def counted(self, log: Log, asked: Asked) -> Counted:
        """What is asked for, up to the log's end if that is reached in PATIENCE. Raises the store's errors."""
        size = log.latest().size
        if self._counter.entries < size:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._go_on(log))
            done, _ = await asyncio.wait({self._task}, timeout=PATIENCE)
            for task in done:
                task.result()
        async with self._free:
            found = await self._figures(asked)
        return replace(found, size=max(size, found.entries))

    async def stop(self) -> None:
        """Count no further, and write down where the count is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._log is not None:
            await self._save(self._log, 1)

    async def _go_on(self, log: Log) -> None:
        """Count to the end, and rest as long as each piece took: at most half a processor is spent."""
        clock, rest = asyncio.get_running_loop().time, 0.0
        if self._saved is None:
            self._log = log
            await self._resume(log)
        while (first := self._counter.entries) < (size := log.latest().size):
            await asyncio.sleep(rest)
            begun = clock()
            end = min(first + AT_ONCE, size)
            read = await log.read(partial(_entries, first=first, end=end))
            async with self._free:
                await asyncio.to_thread(self._take, read)
            await self._save(log, SAVED_EVERY)
            rest = min(clock() - begun, MOST_REST)

    async def _resume(self, log: Log) -> None:
        """Go on from the file, where it is of this log."""
        found = await asyncio.to_thread(_read, log.path.with_name(FILE))
        if found is not None and 0 < found.entries <= log.latest().size:
            root = await log.read(lambda db: root_at(db, found.entries))
            if root == found.root:
                self._counter = found.counter
        self._saved = self._counter.entries

    async def _save(self, log: Log, least: int) -> None:
        """Write down where the count is, if it is so many entries further than the file. A disk that fails loses it."""
        counter = self._counter
        if self._saved is None or counter.entries < self._saved + least:
            return
        async with self._free:
            with contextlib.suppress(StoreError, sqlite3.Error):
                root = await log.read(lambda db: root_at(db, counter.entries))
                await asyncio.to_thread(_write, log.path.with_name(FILE), counter, root)
            self._saved = counter.entries

    def _take(self, read: list[bytes]) -> None:
        for entry in read:
            self._counter.take(entry)

    async def _figures(self, asked: Asked) -> Counted:
        key = (asked, self._counter.entries)
        if key not in self._kept:
            self._kept[key] = await asyncio.to_thread(self._drawn, asked)
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]

    def _drawn(self, asked: Asked) -> Counted:
        def wanted(name: Hashable) -> bool:
            assert isinstance(name, tuple)
            host, tests = name
            return bool(tests) == asked.tests and asked.host in {None, host}

        counts, entries_read = self._counter.total(wanted), self._counter.entries
        return Counted(entries_read, entries_read, counts, tuple(figures.of_counts(counts)))


@dataclass(frozen=True, slots=True)
class _Found:
    """What the file says: a count of the first `entries` of a log whose tree has this root there."""

    entries: int
    root: bytes
    counter: Counter


def _group(seal: Seal) -> Hashable:
    return seal.host, seal.sandbox


def _read(path: Path) -> _Found | None:
    """None where there is no file, or none that this version can read."""
    try:
        kept: dict[str, Any] = parse_document_json(path.read_bytes())
        if kept["format"] != _FORMAT:
            return None
        counter = Counter.resumed(_group, kept["counts"])
        return _Found(counter.entries, bytes.fromhex(kept["root"]), counter)
    except (OSError, VerifierError, LookupError, TypeError, ValueError, AttributeError):
        return None


def _write(path: Path, counter: Counter, root: bytes) -> None:
    kept: dict[str, Any] = {"format": _FORMAT, "root": root.hex(), "counts": counter.kept()}
    beside = path.with_name(f"{path.name}.new")
    with contextlib.suppress(OSError):
        beside.write_bytes(encode_json(kept))
        beside.replace(path)


def _entries(db: Database, first: int, end: int) -> list[bytes]:
    return entries(db, first, end)


@lru_cache(maxsize=MAX_KEPT)
def of_game(rolls: int, games: int) -> tuple[Figure, ...]:
    """The odds of a game, and of so many of them. Some ms of work where they are not known yet."""
    return tuple(figures.of_game(odds.expect(rolls, games)))


COUNTING: Final = web.AppKey("counting", Counting)


async def release(app: web.Application) -> None:
    """Let the service stop."""
    await app[COUNTING].stop()
