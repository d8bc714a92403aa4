"""manifest.json: what a backup holds and of which moment it is. It is written last, so a folder without it is none."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from beacon.settings import explain
from verifier.encoding import parse_document_json
from verifier.errors import VerifierError
from verifier.fetch import read_file

NAME: Final = "manifest.json"
FORMAT: Final = "fair-beacon/backup/v1"
LOG_DB: Final = "log.db"
PRIVATE_DB: Final = "private.db"
CHUNK: Final = 1 << 20
MAX_BYTES: Final = 1 << 20
LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_STATE: Final = (NAME, "log.mark", "-wal", "-shm", "-journal", ".lock")
"""Ends of names of what the service and SQLite make anew: restored, these would say what the databases do not."""

Progress = Callable[[str, int, int], None]
"""Told (what is being done, bytes done, in all)."""


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Nobody wants to know."""


class BackupRefused(Exception):  # noqa: N818 - named by what happened
    """A backup that cannot be made there, is not whole, or cannot be put back."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Kept(_Part):
    """A file. name: below the backup's folder; sha256: hex, of its bytes."""

    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$")
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")

    @field_validator("name")
    @classmethod
    def _no_state(cls, name: str) -> str:
        if name.endswith(_STATE) or name.startswith("rounds-in/"):
            raise ValueError("not a file that is backed up")
        return name


class Cosigned(_Part):
    """A witness, by its public key, and the newest size that it has cosigned."""

    vkey: str
    size: int


class Manifest(_Part):
    """made: ms since the epoch. log_key: the log's vkey; checkpoint: the newest one, signed.

    mark: the size that log.mark said just before; None where there was none. open_sessions: in the beacon's custody;
    seeds_missing: of how many of these the seed is not in private.db, because it was lost before. master_key: the id of
    the key that the seeds are under, None where it was not found. keys: whether the keys are in the backup.
    """

    format: Literal["fair-beacon/backup/v1"] = FORMAT
    made: int = Field(ge=0, le=LAST_MS)
    origin: str
    log_key: str
    size: int
    checkpoint: str
    mark: int | None
    witnesses: list[Cosigned]
    open_sessions: int
    seeds_missing: int
    master_key: str | None
    keys: bool
    files: list[Kept]

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: list[Kept]) -> list[Kept]:
        if len({one.name for one in files}) != len(files):
            raise ValueError("a file stands there twice")
        return files


def read(folder: Path) -> Manifest:
    """The manifest of a backup. Raises BackupRefused."""
    path = folder / NAME
    if not path.is_file():
        raise BackupRefused(f"{folder} is no backup: it has no {NAME}")
    try:
        return Manifest.model_validate(parse_document_json(read_file(path, MAX_BYTES)))
    except ValidationError as error:
        raise BackupRefused(f"{path} is not a manifest that this version knows: {explain(error)}") from error
    except VerifierError as error:
        raise BackupRefused(f"{path} is no manifest: {error.message}") from error


def check_files(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Raise BackupRefused unless every file of the manifest is there as it says."""
    total, done = sum(one.bytes for one in manifest.files), 0
    for one in manifest.files:
        path = folder / one.name
        try:
            status = path.stat()
            same = stat.S_ISREG(status.st_mode) and status.st_size == one.bytes and digest_of(path) == one.sha256
        except OSError as error:
            raise BackupRefused(f"{path}: {error.strerror}") from error
        if not same:
            raise BackupRefused(f"{path} is not the file that was backed up: its bytes have another hash or number")
        done += one.bytes
        progress("checking", done, total)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            found.update(data)
    return found.hexdigest()


def sync(path: Path) -> None:
    """Make the bytes of a file durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_new(path: Path, data: bytes, mode: int) -> None:
    """A new file, durable; the folders on its way too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
