"""Pages that many ask for at once, as all who watch a session do after each of its events: each is made once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Final

from aiohttp import web

from beacon.memory import forget_oldest

KEPT: Final = 64
AT_ONCE: Final = 2
"""Pages that are made at once: each takes a thread some time, and others need threads and the processor too."""


class Made:
    """The pages that were made last, by what they were made of. Of one event loop."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit: Final = limit
        self._making: Final = asyncio.Semaphore(AT_ONCE)
        self._tasks: Final[dict[Hashable, asyncio.Task[bytes]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """What `make` gives for a key, once for all who ask while and after it is made; a failure is not kept."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._made(make))
            task.add_done_callback(partial(self._done, key))
            forget_oldest(self._tasks, self._limit)
        return await asyncio.shield(task)

    async def _made(self, make: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        async with self._making:
            return await make()

    def _done(self, key: Hashable, task: asyncio.Task[bytes]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._tasks.get(key) is task:
            del self._tasks[key]


MADE: Final = web.AppKey("made", Made)
