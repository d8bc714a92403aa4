"""Where outcomes are computed: light draws at the moment of their entry, heavy ones before, in a process of their own.

The log's writer thread decides and appends; a draw of thousands of numbers would hold everybody up there. So it is made
beforehand, for the numbers that come next, and its entry is appended only if they still do.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final

from beacon.sessions.draws import Drawing

LIGHT: Final = 2_000
"""Uniform numbers that the writer's thread may make by itself: a few milliseconds."""


class Drawers:
    """One worker process, begun when the first heavy draw is asked for."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def make(self, asked: Drawing, seed: bytes) -> list[Any]:
        """The outcomes of a heavy drawing under the seed (32 bytes)."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._worker(), asked.outcomes, seed)
        except BrokenProcessPool:
            self._pool = None
            return await loop.run_in_executor(self._worker(), asked.outcomes, seed)

    def close(self) -> None:
        """End the worker. Again is no error."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _worker(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        return self._pool
