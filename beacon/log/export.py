"""The log as static files (C2SP tlog-tiles), for any web server or bucket: what the service answers, byte for byte.

Files that are there and right are left alone, so an export that was stopped goes on, and one of a grown log adds what
is new; partial tiles of earlier exports stay, since clients may still ask for them. The checkpoint is written last: it
never covers a file that is not there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from beacon.log import cosignatures, keys, reads
from beacon.log.recovery import open_checkpoint
from beacon.log.snapshot import copy
from beacon.log.tiles import tile_bytes
from beacon.store.errors import LogDamaged
from beacon.store.schema import DAMAGE, open_readonly, reading
from verifier.errors import VerifierError
from verifier.note import Checkpoint, Note, VerifierKey
from verifier.tiles import ENTRIES, Tile, tile_layout

CHECKPOINT: Final = "checkpoint"
FULL_MARK: Final = "full-tiles"
"""The checkpoint whose full tiles are there; not one that clients read, since they would miss the partial ones."""
DATABASE: Final = "log.db"
TILES: Final = "tile"


class ExportRefused(Exception):  # noqa: N818 - named by what happened
    """The directory holds another log than this one, or a later state of it, or another export is writing there."""


@dataclass(frozen=True, slots=True)
class Exported:
    """size: of the tree; files: how many it has; written: how many of them were not there yet, or not right."""

    size: int
    files: int
    written: int


def export(
    path: Path,
    directory: Path,
    vkey: VerifierKey,
    witnesses: Sequence[VerifierKey] = (),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Exported:
    """Write the newest tree of a log file below `directory`, which is made. It may run beside the service.

    witnesses: whose cosignatures the checkpoint carries, in this order. progress: called with (files done, in all).
    Raises ExportRefused, LogDamaged, CannotOpen, OSError.
    """
    with _alone(directory / TILES, directory), reading(path), closing(open_readonly(path)) as db:
        newest = _newest(db)
        note = reads.signed_note(db, newest) + _lines(db, newest, witnesses)
        _check_grown(db, directory / CHECKPOINT, newest, vkey)
        layout = tile_layout(newest)
        files = sum(level.full + bool(level.partial_width) for level in (layout[0], *layout)) + 3
        written = 0
        for done, tile in enumerate(tiles(newest), 1):
            written += _write(directory / tile.path, _bytes(db, tile, newest))
            progress(done, files)
        written += _write(directory / "vkey", f"{vkey}\n".encode())
        written += _write(directory / "vkeys", f"{keys.known(db, vkey)}\n".encode())
        written += _write(directory / CHECKPOINT, note.encode(), sync=True)
        progress(files, files)
    return Exported(newest, files, written)


def export_full(
    path: Path, directory: Path, vkey: VerifierKey, progress: Callable[[int, int], None] = lambda *_: None
) -> Exported:
    """Write the full tiles of the newest tree below `directory` that an earlier export there did not. Else as `export`.

    Of what is there only the mark is read: whoever removed a file removes the mark too.
    """
    mark = directory / FULL_MARK
    with _alone(directory / TILES, directory), reading(path), closing(open_readonly(path)) as db:
        newest = _newest(db)
        done = _check_grown(db, mark, newest, vkey)
        due = list(full_tiles(newest, done))
        for number, tile in enumerate(due, 1):
            _write(directory / tile.path, _bytes(db, tile, newest), sync=True)
            progress(number, len(due))
        marked = bool(due) or done == 0
        if marked:
            _write(mark, reads.signed_note(db, newest).encode(), sync=True)
        files = sum(1 for _ in full_tiles(newest, 0)) + 1
    return Exported(newest, files, len(due) + marked)


def export_database(path: Path, directory: Path, vkey: VerifierKey) -> Exported:
    """Write the log as one file, `log.db`, into `directory`, in the place of an earlier one. Else as `export`.

    Raises ExportRefused, WriteFailed where the disk has too little room, LogDamaged, CannotOpen, OSError.
    """
    target = directory / DATABASE
    if target.exists() and target.samefile(path):
        raise ExportRefused(f"{target} is the log itself")
    with _alone(directory, directory):
        with reading(path), closing(open_readonly(path)) as db:
            there, size = _size_there(target, vkey), _newest(db)
        if there > size:
            raise ExportRefused(f"{target} covers {there} entries, and this log has {size}")
        if there == size:
            return Exported(size, 1, 0)
        beside = directory / f"{DATABASE}.new"
        with reading(path):
            copy(path, beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        size = _size_there(beside, vkey)
        beside.replace(target)
        return Exported(size, 1, 1)


@contextmanager
def _alone(place: Path, directory: Path) -> Iterator[None]:
    """One export at a time, by an flock on a folder, which is made: two would write into one another's files.

    Where a file system has no such lock it is done without. Raises ExportRefused.
    """
    place.mkdir(parents=True, exist_ok=True)
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ExportRefused(f"another export to {directory} is under way") from error
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        yield
    finally:
        os.close(fd)


def _size_there(path: Path, vkey: VerifierKey) -> int:
    """How many entries a copy of this log covers, 0 where there is none. Raises ExportRefused for any other file."""
    if not path.exists():
        return 0
    try:
        with closing(open_readonly(path)) as db:
            size = _newest(db)
            open_checkpoint(reads.signed_note(db, size), size, vkey)
    except (*DAMAGE, LogDamaged) as error:
        raise ExportRefused(f"{path} is no copy of this log: {error}") from error
    return size


def full_tiles(size: int, done: int) -> Iterator[Tile]:
    """The full bundles and tiles of a tree of `size` entries that one of `done` entries has not."""
    before = [level.full for level in tile_layout(done)]
    for level in tile_layout(size):
        first = before[level.level] if level.level < len(before) else 0
        if level.level == 0:
            yield from (Tile(ENTRIES, index) for index in range(first, level.full))
        yield from (Tile(level.level, index) for index in range(first, level.full))


def tiles(size: int) -> Iterator[Tile]:
    """The bundles and tiles of a tree of that size: all full ones, and of each level the partial one at its edge."""
    layout = tile_layout(size)
    for number, level in [(ENTRIES, layout[0]), *((level.level, level) for level in layout)]:
        yield from (Tile(number, index) for index in range(level.full))
        if level.partial_width:
            yield Tile(number, level.full, level.partial_width)


def _newest(db: Database) -> int:
    size = db.execute("SELECT max(size) FROM checkpoints").fetchone()[0]
    if size is None:
        raise LogDamaged("the log has no checkpoint")
    return int(size)


def _bytes(db: Database, tile: Tile, size: int) -> bytes:
    data = tile_bytes(db, tile, size)
    if data is None:
        raise LogDamaged(f"{tile.path} is not whole")
    return data


def _lines(db: Database, size: int, witnesses: Sequence[VerifierKey]) -> str:
    found = {cosigned.witness: cosigned.line for cosigned in cosignatures.of(db, size)}
    return "".join(found[key] for key in witnesses if key in found)


def _check_grown(db: Database, path: Path, newest: int, vkey: VerifierKey) -> int:
    """The size of what was exported last, 0 for nothing. Raises ExportRefused unless it is of this log."""
    try:
        there = Checkpoint.parse(Note.parse(path.read_bytes()).text)
    except FileNotFoundError:
        return 0
    except VerifierError as error:
        raise ExportRefused(f"{path} is no checkpoint: {error.message}") from error
    if there.origin != vkey.name:
        raise ExportRefused(f"{path} is of another log, {there.origin}")
    if there.size > newest:
        raise ExportRefused(f"{path} covers {there.size} entries, and this log has {newest}")
    if there.size == 0 or reads.root_at(db, there.size) != there.root:
        raise ExportRefused(f"{path} is of another history of this log")
    return there.size


def _write(path: Path, data: bytes, *, sync: bool = False) -> bool:
    """Put the file in place whole, unless it is there already; whether it was not."""
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    with beside.open("xb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
    return True
