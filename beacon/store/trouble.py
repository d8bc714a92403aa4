"""What a writer knows of its disk: whether there is room to begin a write, and whether writes fail or wait now."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

RESERVE: Final = 64 * 1024 * 1024
"""Bytes that one transaction, the WAL that is copied back and the other database may take meanwhile."""
TOLD_SECONDS: Final = 30.0
"""For how long after a failed write it is told, if none has succeeded since: nobody may be writing."""
STALLED_SECONDS: Final = 5.0


def require_room(path: Path) -> None:
    """Raise OSError(ENOSPC) where the disk of a database has less than RESERVE bytes free for its owner."""
    found = os.statvfs(path.parent)
    if found.f_bavail * found.f_frsize < RESERVE:
        raise OSError(errno.ENOSPC, f"less than {RESERVE // 2**20} MB are free on the disk")


class Trouble:
    """How the writes of one database go. The writer's thread tells; any thread may ask. clock: monotonic seconds."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name: Final = name
        self._clock: Final = clock
        self._begun: float | None = None
        self._failed: tuple[str, float] | None = None

    def begin(self) -> None:
        """A write begins."""
        self._begun = self._clock()

    def end(self, failure: str | None) -> None:
        """It has ended. failure: why nothing was written, where only time mends it."""
        self._failed = None if failure is None else (failure, self._clock())
        self._begun = None

    def __str__(self) -> str:
        """Why a write would likely fail or wait now; empty while all is well."""
        begun, failed, now = self._begun, self._failed, self._clock()
        if begun is not None and now - begun > STALLED_SECONDS:
            return f"a write to {self._name} has been under way for {now - begun:.0f} s"
        if failed is not None and now - failed[1] < TOLD_SECONDS:
            return f"{self._name}: {failed[0]}"
        return ""
