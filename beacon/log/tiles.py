"""The log as tiles (C2SP tlog-tiles): any tile of hashes or bundle of entries at a size, from the database.

A full tile exists once all its 256 hashes or entries do; a partial one at every width up to what exists. So each is the
same bytes for ever.
"""

from __future__ import annotations

from sqlite_utils import Database

from beacon.log import reads
from beacon.log.tree import Node
from beacon.store.errors import LogDamaged
from verifier.tiles import ENTRIES, TILE_WIDTH, Tile, encode_bundle


def tile_bytes(db: Database, tile: Tile, size: int) -> bytes | None:
    """Give the bytes of a tile of the tree of `size` leaves; None when it does not have that many hashes or entries.

    Raises LogDamaged.
    """
    level = max(tile.level, 0)
    start = tile.index * TILE_WIDTH
    end = start + tile.width
    if end > size >> (8 * level):
        return None
    if tile.level == ENTRIES:
        return encode_bundle(_whole(reads.entries(db, start, end), tile))
    if level == 0:
        return b"".join(_whole(reads.leaf_hashes(db, start, end), tile))
    nodes = [Node(8 * level, n) for n in range(start, end)]
    hashes = reads.fetch_nodes(db, nodes)
    return b"".join(hashes[node] for node in nodes)


def _whole(parts: list[bytes], tile: Tile) -> list[bytes]:
    if len(parts) != tile.width:
        raise LogDamaged(f"{tile.path} is not whole")
    return parts
