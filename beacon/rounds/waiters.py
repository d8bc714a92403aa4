"""Whoever waits for a round: one future each, no thread, no poll, and no more of them than a limit."""

from __future__ import annotations

import asyncio
from typing import Final

from verifier.drand import VerifiedRound


class Waiters:
    """Futures by round number, and under None those for whatever round is newest next. On one event loop."""

    def __init__(self, limit: int) -> None:
        """limit: how many may wait at once; further ones are sent away."""
        self._limit: Final = limit
        self._count = 0
        self._futures: dict[int | None, set[asyncio.Future[VerifiedRound | None]]] = {}

    def __len__(self) -> int:
        return self._count

    async def wait(self, key: int | None, seconds: float) -> VerifiedRound | None:
        """What `arrived` is told of next under this key; None when it did not come in time, or too many wait."""
        if self._count >= self._limit:
            return None
        future: asyncio.Future[VerifiedRound | None] = asyncio.get_running_loop().create_future()
        self._futures.setdefault(key, set()).add(future)
        self._count += 1
        try:
            await asyncio.wait({future}, timeout=seconds)
            return future.result() if future.done() else None
        finally:
            self._count -= 1
            waiting = self._futures.get(key, set())
            waiting.discard(future)
            if not waiting:
                self._futures.pop(key, None)

    def arrived(self, key: int | None, verified: VerifiedRound | None) -> None:
        """Let go all who wait under the key."""
        for future in self._futures.pop(key, set()):
            if not future.done():
                future.set_result(verified)

    def release(self) -> None:
        """Let everybody go with nothing."""
        for key in tuple(self._futures):
            self.arrived(key, None)
