"""The way into log.db for rounds that another process fetched: a folder of files, taken in by whoever owns the log.

log.db has one writer. So `beacon rounds fetch` and `import` leave what they have verified here, as JSON lines in files
of one chain each: written under another name, made durable, then renamed, so that a file is there whole or not at all.
The running service looks here at each wake, verifies every round again, and stores it as one of its own; a file is
removed once all of it is stored. When no service runs, the command takes the files in. Whoever can write into the
folder can at most make the service verify rounds in vain.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beacon.rounds.lines import LineRefused, encode_line, known, read_lines
from beacon.settings import sync_directory
from verifier.drand import ChainInfo, Round, VerifiedRound

MAX_ROUNDS: Final = 32
"""Rounds in one file: what a service verifies between two looks at what is due."""
MAX_BYTES: Final = 128 * 1024
LEFT_SECONDS: Final = 3_600
"""After which a file that is not whole is nobody's: one is written in a moment, and then whole or gone."""
_MODE: Final = 0o644  # rounds are public, and the service may run as another user than the command


class Spool:
    """The files that wait for the owner of one log.db."""

    def __init__(self, folder: Path) -> None:
        """folder: made when the first file is added."""
        self.folder: Final = folder

    def add(self, chain: ChainInfo, rounds: Sequence[VerifiedRound]) -> None:
        """Leave rounds of one chain; they are durable when this returns. Raises OSError."""
        if not rounds:
            return
        self._make()
        for first in range(0, len(rounds), MAX_ROUNDS):
            part = rounds[first : first + MAX_ROUNDS]
            name = f"{chain.hash.hex()}-{part[0].round:016d}-{secrets.token_hex(8)}"
            self._write(name, b"".join(encode_line(chain, verified) for verified in part))
        sync_directory(self.folder)

    def files(self, chain: ChainInfo) -> list[Path]:
        """The files that wait for this chain, by their first rounds."""
        return sorted(self.folder.glob(f"{chain.hash.hex()}-*.jsonl")) if self.folder.is_dir() else []

    def read(self, path: Path, chain: ChainInfo) -> list[Round]:
        """What a file says. Raises LineRefused, for what is too large or no plain file too; OSError."""
        with os.fdopen(_open_plain(path), "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise LineRefused(1, f"a file of more than {MAX_BYTES} bytes")
            return [stated for _, stated in read_lines(file, known([chain]))]

    def rounds(self, chain: ChainInfo) -> dict[int, Round]:
        """All that waits for the chain, by number; files that cannot be read, or hold no rounds, are passed over."""
        found: dict[int, Round] = {}
        for path in self.files(chain):
            try:
                found |= {stated.round: stated for stated in self.read(path, chain)}
            except (LineRefused, OSError):
                continue
        return found

    def done(self, path: Path) -> None:
        """All of the file is stored."""
        path.unlink(missing_ok=True)

    def refuse(self, path: Path) -> None:
        """Put a file aside that is not what it should be: it stays, under another name, and is not looked at again."""
        path.rename(path.with_suffix(".refused"))

    def sweep(self) -> None:
        """Remove what commands that were killed have left half written. Who still writes one is told by an OSError."""
        for path in self.folder.glob(".*") if self.folder.is_dir() else ():
            with contextlib.suppress(OSError):
                if path.lstat().st_mtime < time.time() - LEFT_SECONDS:
                    path.unlink()

    def _make(self) -> None:
        if self.folder.is_dir():
            return
        self.folder.mkdir(mode=0o755, exist_ok=True)
        if os.geteuid() == 0:
            owner = self.folder.parent.stat()
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            finally:
                os.close(descriptor)
        sync_directory(self.folder.parent)

    def _write(self, name: str, data: bytes) -> None:
        temporary = self.folder / f".{name}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), _MODE)
                os.fsync(file.fileno())
            temporary.rename(self.folder / f"{name}.jsonl")
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _open_plain(path: Path) -> int:
    """Open a file without waiting for whoever writes into it; LineRefused for a pipe, a link, a folder or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise LineRefused(1, "no plain file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LineRefused(1, "no plain file")
    return descriptor
