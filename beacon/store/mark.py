"""A file that remembers one short text, durably, and survives being cut off while it is written.

Two slots of SLOT_BYTES, written in turn: a write that a power cut tears leaves the text of the one before it. The file
has its whole size from the start, so that a full disk does not stop it later.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from beacon.settings import sync_directory
from beacon.store.errors import CannotOpen, WriteFailed

SLOT_BYTES: Final = 4_096
SLOTS: Final = 2


class MarkFile:
    """The two slots of a file. One thread at a time."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened or made yet."""
        self.path: Final = path
        self._fd: int | None = None

    def read(self) -> list[bytes] | None:
        """What stands in each slot, without its padding; None when there is no file. Raises CannotOpen."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CannotOpen(f"{self.path}: {error.strerror}") from error
        return [data[SLOT_BYTES * slot : SLOT_BYTES * (slot + 1)].rstrip(b"\0") for slot in range(SLOTS)]

    def write(self, slot: int, text: bytes) -> None:
        """Put a text into a slot, durably when this returns. Raises WriteFailed, and then the slot holds anything."""
        if len(text) > SLOT_BYTES:
            raise WriteFailed(f"{self.path}: a text of {len(text)} bytes")
        try:
            if self._fd is None:
                self._fd = self._open()
            _write_all(self._fd, text.ljust(SLOT_BYTES, b"\0"), SLOT_BYTES * slot)
            os.fdatasync(self._fd)
        except OSError as error:
            raise WriteFailed(f"{self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Again is no error."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size < SLOTS * SLOT_BYTES:
                _write_all(fd, bytes(SLOTS * SLOT_BYTES - size), size)
                os.fsync(fd)
                sync_directory(self.path.parent)
        except BaseException:
            os.close(fd)
            raise
        return fd


def _write_all(fd: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
