"""Key files: 32 secret bytes that only their owner may read."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from beacon.settings.errors import ConfigurationError

KEY_BYTES: Final = 32

_KEY_TEXT = re.compile(rb"[0-9a-f]{64}\n?")


def read_key(path: Path) -> bytes:
    """The 32 bytes of a key file: 64 lower-case hex digits that nobody but the owner may read.

    Raises ConfigurationError for a file that is missing, unreadable, open to others or malformed.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(2 * KEY_BYTES + 2)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: {error.strerror}. Without this key file the service does not start; restore it from its backup."
        ) from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigurationError(f"{path}: mode {mode:04o} lets others at this key. Do `chmod 600 {path}`.")
    if not _KEY_TEXT.fullmatch(text):
        raise ConfigurationError(f"{path}: a key file holds {2 * KEY_BYTES} lower-case hex digits and nothing else.")
    return bytes.fromhex(text.decode("ascii"))


def write_key(path: Path, key: bytes) -> None:
    """Write 32 bytes as a new key file with mode 0600: whole and durable, or not there.

    An existing file is never overwritten (FileExistsError).
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes")
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.hex().encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
