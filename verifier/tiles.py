"""The tiles of a log as static resources (C2SP tlog-tiles): paths, widths, entry bundles.

    tile/<level>/<index>[.p/<width>]      256 (partial: width) hashes of 32 bytes
    tile/entries/<index>[.p/<width>]      256 (partial: width) entries, each u16 length, then the entry
    index                                 groups of three digits, all but the last after an x: 1234067 = x001/x234/067

Parse means canonical: no other spelling of a path is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from verifier.errors import Code, FormatError

TILE_WIDTH: Final = 256
ENTRIES: Final = -1
MAX_LEVEL: Final = 63
MAX_INDEX: Final = 2**63 - 1
MAX_ENTRY_BYTES: Final = 2**16 - 1

_PATH = re.compile(
    r"tile/(?P<level>entries|[0-9]{1,2})/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[0-9]{1,3}))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile. level: 0-63, or ENTRIES for an entry bundle; width: 256 when full, 1-255 when partial."""

    level: int
    index: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """The path, canonical, without the log's prefix."""
        if self.level == ENTRIES:
            return entry_path(self.index, self.width)
        return tile_path(self.level, self.index, self.width)


@dataclass(frozen=True, slots=True)
class TileLevel:
    """What one level has at some tree size: `full` tiles, then, when partial_width is not 0, one partial tile."""

    level: int
    full: int
    partial_width: int


def tile_path(level: int, index: int, width: int = TILE_WIDTH) -> str:
    """Give the path of a tile of hashes. 0 <= level <= 63, 0 <= index < 2**63, 1 <= width <= 256 (full).

    Raises FormatError(TILE).
    """
    if not 0 <= level <= MAX_LEVEL:
        raise FormatError(Code.TILE, f"a tile's level is 0 to {MAX_LEVEL}")
    return f"tile/{level}/{_index_path(index, width)}"


def entry_path(index: int, width: int = TILE_WIDTH) -> str:
    """Give the path of an entry bundle. 0 <= index < 2**63, 1 <= width <= 256 (full). Raises FormatError(TILE)."""
    return f"tile/entries/{_index_path(index, width)}"


def bundle_of(entry_index: int, tree_size: int) -> Tile:
    """Find the bundle that holds an entry at a tree size. Raises FormatError(TILE) unless index < size < 2**63."""
    if not 0 <= entry_index < tree_size <= MAX_INDEX:
        raise FormatError(Code.TILE, "no such entry in a tree of that size")
    index = entry_index // TILE_WIDTH
    return Tile(ENTRIES, index, min(TILE_WIDTH, tree_size - index * TILE_WIDTH))


def parse_tile_path(path: str) -> Tile:
    """Parse the path of a tile or an entry bundle, without the log's prefix. Raises FormatError(TILE)."""
    match = _PATH.fullmatch(path)
    if not match:
        raise FormatError(Code.TILE, "not the path of a tile")
    level = ENTRIES if match["level"] == "entries" else int(match["level"])
    index = int(match["index"].replace("x", "").replace("/", ""))
    width = int(match["width"]) if match["width"] else TILE_WIDTH
    tile = Tile(level, index, width)
    if tile.path != path:
        raise FormatError(Code.TILE, "the path of a tile, but not its canonical spelling")
    return tile


def tile_layout(size: int) -> list[TileLevel]:
    """List the levels of a tree of `size` leaves from 0 up, none for the empty tree. 0 <= size < 2**63.

    Raises FormatError(TILE).
    """
    if not 0 <= size <= MAX_INDEX:
        raise FormatError(Code.TILE, "no tree has that size")
    layout: list[TileLevel] = []
    hashes = size
    while hashes:
        full, partial = divmod(hashes, TILE_WIDTH)
        layout.append(TileLevel(len(layout), full, partial))
        hashes = full
    return layout


def encode_bundle(entries: Sequence[bytes]) -> bytes:
    """Concatenate 1-256 entries of at most 65,535 bytes, each after its u16 length. Raises FormatError(TILE)."""
    if not 1 <= len(entries) <= TILE_WIDTH:
        raise FormatError(Code.TILE, f"a bundle holds 1 to {TILE_WIDTH} entries")
    if any(len(entry) > MAX_ENTRY_BYTES for entry in entries):
        raise FormatError(Code.TILE, f"an entry has at most {MAX_ENTRY_BYTES} bytes")
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def parse_bundle(data: bytes) -> list[bytes]:
    """Split a bundle into its 1-256 entries. Raises FormatError(TILE)."""
    entries = []
    position = 0
    while position < len(data):
        start = position + 2
        end = start + int.from_bytes(data[position:start], "big")
        if end > len(data):
            raise FormatError(Code.TILE, "the bundle ends inside an entry")
        entries.append(data[start:end])
        position = end
    if not 1 <= len(entries) <= TILE_WIDTH:
        raise FormatError(Code.TILE, f"a bundle holds 1 to {TILE_WIDTH} entries")
    return entries


def _index_path(index: int, width: int) -> str:
    if not 0 <= index <= MAX_INDEX:
        raise FormatError(Code.TILE, "a tile's index is 0 to 2^63 - 1")
    if not 1 <= width <= TILE_WIDTH:
        raise FormatError(Code.TILE, f"a tile's width is 1 to {TILE_WIDTH}")
    digits = str(index)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    path = "".join(f"x{group}/" for group in groups[:-1]) + groups[-1]
    return path if width == TILE_WIDTH else f"{path}.p/{width}"
