"""A log's tree by its tiles, each authenticated against the checkpoint before it is used (C2SP tlog-tiles).

The tiles at the right edge of all levels give the root together; if it is the checkpoint's, each of their hashes is
true, and every other tile is compared with the one hash that stands for it a level higher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from verifier.errors import Code, FormatError, VerificationError
from verifier.merkle import EMPTY_ROOT, HASH_BYTES, leaf_hash, node_hash, tree_root
from verifier.tiles import ENTRIES, MAX_ENTRY_BYTES, TILE_WIDTH, Tile, bundle_of, parse_bundle, tile_layout

MAX_BUNDLE_BYTES: Final = TILE_WIDTH * (2 + MAX_ENTRY_BYTES)
_TILE_BYTES: Final = TILE_WIDTH * HASH_BYTES
_CACHED: Final = 512

Read = Callable[[str, int], bytes]
"""(path, limit) -> the resource of a log at a path below its prefix."""


class Tree:
    """The tree of `size` leaves with `root` (32 bytes), read as it is asked for. Memory: some hundred tiles."""

    def __init__(self, read: Read, size: int, root: bytes) -> None:
        self.size: Final = size
        self.root: Final = root
        self._read: Final = read
        self._edge: Final[dict[int, list[bytes]]] = {}
        self._full: Final = lru_cache(maxsize=_CACHED)(self._read_full)

    def check(self) -> None:
        """Read the right edge. Raises VerificationError(INCLUSION) if it does not lead to the root."""
        self._edge.clear()
        root: bytes | None = None
        for level in tile_layout(self.size):
            if level.partial_width:
                hashes = self._hashes(Tile(level.level, level.full, level.partial_width))
                self._edge[level.level] = hashes
                left = tree_root(hashes)
                root = left if root is None else _over(hashes, root)
        if (EMPTY_ROOT if root is None else root) != self.root:
            raise VerificationError(Code.INCLUSION, "the tiles are not those that the log's checkpoint covers")

    def bundle(self, index: int) -> list[bytes]:
        """The entries of bundle `index`, all that the tree has of it. Raises VerificationError(INCLUSION)."""
        return self.hashed_bundle(index)[0]

    def hashed_bundle(self, index: int) -> tuple[list[bytes], list[bytes]]:
        """As `bundle`, and the entries' leaf hashes."""
        tile = bundle_of(index * TILE_WIDTH, self.size)
        entries = parse_bundle(self._read(tile.path, MAX_BUNDLE_BYTES))
        if len(entries) != tile.width:
            raise FormatError(Code.TILE, f"{tile.path} has {len(entries)} entries")
        leaves = [leaf_hash(entry) for entry in entries]
        true = leaves == self._edge[0] if tile.width < TILE_WIDTH else tree_root(leaves) == self._parent(0, index)
        if not true:
            raise VerificationError(Code.INCLUSION, f"{tile.path} is not what the log's checkpoint covers")
        return entries, leaves

    def node(self, height: int, index: int) -> bytes:
        """The root of the complete subtree of 2**height leaves, the index-th from the left. 32 bytes."""
        level, above = divmod(height, 8)
        width, tile = 1 << above, (index << above) // TILE_WIDTH
        start = (index << above) % TILE_WIDTH
        return tree_root(self.tile(level, tile)[start : start + width])

    def tile(self, level: int, index: int) -> Sequence[bytes]:
        """The authenticated hashes of a tile, all that the tree has of it."""
        if index == self.size >> (8 * (level + 1)):
            return self._edge[level]
        return self._full(level, index)

    def root_of(self, first: int, end: int) -> bytes:
        """The root of the leaves first..end-1, where RFC 6962 has such a subtree or an older tree."""
        count = end - first
        if count & (count - 1) == 0:
            height = count.bit_length() - 1
            return self.node(height, first >> height)
        split = 1 << ((count - 1).bit_length() - 1)
        return node_hash(self.root_of(first, first + split), self.root_of(first + split, end))

    def root_at(self, size: int) -> bytes:
        """32 bytes: the root that this tree had at an earlier size, 0 <= size <= its own."""
        return self.root_of(0, size) if size else EMPTY_ROOT

    def consistency(self, old: int) -> list[bytes]:
        """The proof that the tree of the first `old` leaves is a prefix of this one (RFC 6962, 2.1.2). 0 < old."""
        return self._subproof(old, 0, self.size, whole=True)

    def _subproof(self, old: int, first: int, end: int, *, whole: bool) -> list[bytes]:
        if old == end - first:
            return [] if whole else [self.root_of(first, end)]
        split = 1 << ((end - first - 1).bit_length() - 1)
        middle = first + split
        if old <= split:
            return [*self._subproof(old, first, middle, whole=whole), self.root_of(middle, end)]
        return [*self._subproof(old - split, middle, end, whole=False), self.root_of(first, middle)]

    def _parent(self, level: int, index: int) -> bytes:
        return self.tile(level + 1, index // TILE_WIDTH)[index % TILE_WIDTH]

    def _read_full(self, level: int, index: int) -> Sequence[bytes]:
        hashes = self._hashes(Tile(level, index))
        if tree_root(hashes) != self._parent(level, index):
            raise VerificationError(Code.INCLUSION, f"{Tile(level, index).path} is not what the checkpoint covers")
        return hashes

    def _hashes(self, tile: Tile) -> list[bytes]:
        assert tile.level != ENTRIES
        data = self._read(tile.path, _TILE_BYTES)
        if len(data) != tile.width * HASH_BYTES:
            raise FormatError(Code.TILE, f"{tile.path} has {len(data)} bytes")
        return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


def _over(hashes: Sequence[bytes], right: bytes) -> bytes:
    """The root of complete subtrees of one height with a smaller tree to the right of them."""
    first, count = 0, len(hashes)
    parts = []
    while count:
        width = 1 << (count.bit_length() - 1)
        parts.append(tree_root(hashes[first : first + width]))
        first, count = first + width, count - width
    for left in reversed(parts):
        right = node_hash(left, right)
    return right
