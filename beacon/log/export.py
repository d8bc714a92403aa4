"""The log as static files (C2SP tlog-tiles), for any web server or bucket: what the service answers, byte for byte.

Files that are there and right are left alone, so an export that was stopped goes on, and one of a grown log adds what
is new; partial tiles of earlier exports stay, since clients may still ask for them. The checkpoint is written last: it
never covers a file that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from beacon.log import cosignatures, reads
from beacon.log.tiles import tile_bytes
from beacon.store.errors import LogDamaged
from beacon.store.schema import open_readonly, reading
from verifier.errors import VerifierError
from verifier.note import Checkpoint, Note, VerifierKey
from verifier.tiles import ENTRIES, Tile, tile_layout

CHECKPOINT: Final = "checkpoint"


class ExportRefused(Exception):  # noqa: N818 - named by what happened
    """The directory holds another log than this one, or a later state of it."""


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
    with reading(path), closing(open_readonly(path)) as db:
        newest = db.execute("SELECT max(size) FROM checkpoints").fetchone()[0]
        if newest is None:
            raise LogDamaged("the log has no checkpoint")
        note = reads.signed_note(db, newest) + _lines(db, newest, witnesses)
        _check_grown(db, directory / CHECKPOINT, newest, vkey)
        layout = tile_layout(newest)
        files = sum(level.full + bool(level.partial_width) for level in (layout[0], *layout)) + 2
        written = 0
        for done, tile in enumerate(tiles(newest), 1):
            data = tile_bytes(db, tile, newest)
            if data is None:
                raise LogDamaged(f"{tile.path} is not whole")
            written += _write(directory / tile.path, data)
            progress(done, files)
        written += _write(directory / "vkey", f"{vkey}\n".encode())
        written += _write(directory / CHECKPOINT, note.encode(), sync=True)
        progress(files, files)
    return Exported(newest, files, written)


def tiles(size: int) -> Iterator[Tile]:
    """The bundles and tiles of a tree of that size: all full ones, and of each level the partial one at its edge."""
    layout = tile_layout(size)
    for number, level in [(ENTRIES, layout[0]), *((level.level, level) for level in layout)]:
        yield from (Tile(number, index) for index in range(level.full))
        if level.partial_width:
            yield Tile(number, level.full, level.partial_width)


def _lines(db: Database, size: int, witnesses: Sequence[VerifierKey]) -> str:
    found = {cosigned.witness: cosigned.line for cosigned in cosignatures.of(db, size)}
    return "".join(found[key] for key in witnesses if key in found)


def _check_grown(db: Database, path: Path, newest: int, vkey: VerifierKey) -> None:
    """Raise ExportRefused unless what was exported last, if anything, is of this log and not newer."""
    try:
        there = Checkpoint.parse(Note.parse(path.read_bytes()).text)
    except FileNotFoundError:
        return
    except VerifierError as error:
        raise ExportRefused(f"{path} is no checkpoint: {error.message}") from error
    if there.origin != vkey.name:
        raise ExportRefused(f"{path} is of another log, {there.origin}")
    if there.size > newest:
        raise ExportRefused(f"{path} covers {there.size} entries, and this log has {newest}")
    if there.size == 0 or reads.root_at(db, there.size) != there.root:
        raise ExportRefused(f"{path} is of another history of this log")


def _write(path: Path, data: bytes, *, sync: bool = False) -> bool:
    """Put the file in place whole, unless it is there already; whether it was not."""
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
    return True
