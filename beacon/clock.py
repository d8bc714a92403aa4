"""The service's clock. Everything that asks for the time is handed one of these, so that tests bring their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since the Unix epoch, UTC. May be wrong, and may jump; rule 6.11 is what guards against that."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ShiftedClock:
    """Another clock, `offset_ms` ahead (or behind, where negative): to stand beside recorded rounds."""

    def __init__(self, offset_ms: int, base: Clock | None = None) -> None:
        self._offset_ms = offset_ms
        self._base = base or SystemClock()

    def now(self) -> int:
        return self._base.now() + self._offset_ms
