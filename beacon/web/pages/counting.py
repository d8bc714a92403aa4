"""A running count of what the log's dice showed, which goes on from where it is and never holds up the service.

Nothing is counted before somebody asks. Then one task reads the entries that are new, some at a time, on the log's
readers, and counts them on another thread; whoever asks waits a moment for it, and is told how far it is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from aiohttp import web
from sqlite_utils import Database

from beacon.log.log import Log
from beacon.log.reads import entries
from verifier.statistics import figures, odds
from verifier.statistics.counts import Counter, Counts
from verifier.statistics.figures import Figure

AT_ONCE: Final = 512
PATIENCE: Final = 1.0
"""How long a reader waits for the count to reach the log's end (s)."""
MOST_REST: Final = 0.1
MAX_KEPT: Final = 32


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
        self._counter: Final = Counter(lambda seal: (seal.host, seal.sandbox))
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
        """Count no further."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _go_on(self, log: Log) -> None:
        """Count to the end, and rest as long as each piece took: at most half a processor is spent."""
        clock, rest = asyncio.get_running_loop().time, 0.0
        while (first := self._counter.entries) < (size := log.latest().size):
            await asyncio.sleep(rest)
            begun = clock()
            end = min(first + AT_ONCE, size)
            read = await log.read(partial(_entries, first=first, end=end))
            async with self._free:
                await asyncio.to_thread(self._take, read)
            rest = min(clock() - begun, MOST_REST)

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
