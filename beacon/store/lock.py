"""One writer at a time, across processes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from beacon.store.errors import AlreadyOpen


class FileLock:
    """An flock on `<path>.lock`, held until `release` or until the process ends, however it ends.

    The file stays: removing it would let two processes lock two files of one name. A link is not followed: it would
    have root make a file wherever the service's user wants one.
    """

    def __init__(self, path: Path) -> None:
        """Raise AlreadyOpen when somebody holds the lock; never wait."""
        self._fd: int | None = os.open(
            path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise AlreadyOpen(f"{path} is open for writing elsewhere") from error

    def release(self) -> None:
        """Give the lock up; again is no error."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
