"""A process beside the service, for work that would hold up the event loop or the log's writer.

The log's writer thread decides and appends; a draw of thousands of numbers would hold everybody up there. So it is made
beforehand, for the numbers that come next, and its entry is appended only if they still do.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LIGHT: Final = 2_000
"""Uniform numbers that the writer's thread may make by itself: a few milliseconds."""


class Worker:
    """One process, begun when it is first asked for something."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, call: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
        """What a call gives that changes nothing; again, once, if the process ends meanwhile."""
        assert not more, "arguments of a call in another process have places, not names"
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._process(), call, *arguments)
        except BrokenProcessPool:
            self._pool = None
            return await loop.run_in_executor(self._process(), call, *arguments)

    def close(self) -> None:
        """End the process. Again is no error."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _process(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        return self._pool
