"""Tiles from the database: known answers, every tile of every size, and a client that trusts only the checkpoint."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_utils import Database

from beacon.log.tiles import tile_bytes
from beacon.log.tree import Edge
from beacon.store.errors import LogDamaged
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.rows import insert_rows
from tests.log_support import SIGNER, contributions, open_log
from verifier import merkle
from verifier.note import Checkpoint, open_note
from verifier.tiles import ENTRIES, TILE_WIDTH, Tile, parse_bundle, parse_tile_path, tile_layout

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())["tile_bytes"]


def database(entries):
    """The entries and hashes of a log in memory, whatever the entries hold."""
    db = Database(memory=True, execute_plugins=False)
    LOG_SCHEMA.migrations.apply(db)
    edge = Edge()
    rows = [(index, edge.append(merkle.leaf_hash(entry))) for index, entry in enumerate(entries)]
    db.execute("BEGIN")
    insert_rows(db, "entries (i, entry)", list(enumerate(entries)))
    insert_rows(db, "hashes (i, nodes)", rows)
    db.commit()
    return db


def all_tiles(size):
    """Every tile that a log of this size publishes: all full ones, and of each level the partial one at its edge."""
    levels = tile_layout(size)
    for level, full, partial in [(ENTRIES, levels[0].full, levels[0].partial_width)] + [
        (level.level, level.full, level.partial_width) for level in levels
    ]:
        yield from (Tile(level, index) for index in range(full))
        if partial:
            yield Tile(level, full, partial)


def leaves_of(given):
    if "entries_utf8" in given:
        return [text.encode() for text in given["entries_utf8"]]
    return [(given["leaf_format"] % number).encode() for number in range(given["from"], given["from"] + given["count"])]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_known_tiles(vector):
    entries, expect = leaves_of(vector["input"]), vector["expect"]
    with closing(database(entries)) as db:
        files = {tile.path: tile_bytes(db, tile, len(entries)) for tile in all_tiles(len(entries))}
    if "files_hex" in expect:
        assert {path: data.hex() for path, data in files.items()} == expect["files_hex"]
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    if "sha256_by_path" in expect:
        assert digests == expect["sha256_by_path"]
    if "digest_hex" in expect:
        lines = "".join(f"{path} {digests[path]}\n" for path in sorted(digests, key=str.encode))
        assert len(files) == expect["file_count"]
        assert hashlib.sha256(lines.encode()).hexdigest() == expect["digest_hex"]
    assert expect.keys() & {"files_hex", "sha256_by_path", "digest_hex"}


SIZE = 600
LEAVES = [b'{"n":%d}' % number for number in range(SIZE)]


@pytest.fixture(scope="module")
def db():
    with closing(database(LEAVES)) as db:
        yield db


def expected_tile(tile, size):
    """By the definition: what the tile holds, or None."""
    per_hash = TILE_WIDTH ** max(tile.level, 0)
    parts = []
    for position in range(tile.index * TILE_WIDTH, tile.index * TILE_WIDTH + tile.width):
        leaves = LEAVES[position * per_hash : (position + 1) * per_hash]
        if (position + 1) * per_hash > size:
            return None
        if tile.level == ENTRIES:
            parts.append(len(leaves[0]).to_bytes(2, "big") + leaves[0])
        else:
            parts.append(merkle.tree_root([merkle.leaf_hash(leaf) for leaf in leaves]))
    return b"".join(parts)


@given(
    st.integers(1, SIZE),
    st.builds(Tile, st.sampled_from([ENTRIES, 0, 1, 2, 63]), st.integers(0, 4), st.integers(1, TILE_WIDTH)),
)
@settings(deadline=None, max_examples=200)
def test_any_tile_at_any_size(db, size, tile):
    assert tile_bytes(db, tile, size) == expected_tile(tile, size)


@pytest.mark.parametrize("level", [ENTRIES, 0])
@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 513])
def test_the_edge_of_what_exists(db, level, size):
    full, partial = divmod(size, TILE_WIDTH)
    for index in range(full):
        assert tile_bytes(db, Tile(level, index), size) == expected_tile(Tile(level, index), size)
    assert tile_bytes(db, Tile(level, full), size) is None
    for width in range(1, TILE_WIDTH):
        assert (tile_bytes(db, Tile(level, full, width), size) is not None) == (width <= partial)


def test_a_tile_never_changes(db):
    seen = {}
    for size in (300, 400, 512, 600):
        for tile in [*all_tiles(size), Tile(0, 1, 40), Tile(ENTRIES, 1, 40), Tile(1, 0, 1)]:
            data = tile_bytes(db, tile, size)
            assert data is not None
            assert seen.setdefault(tile, data) == data


def test_far_away_tiles_do_not_exist(db):
    for tile in (Tile(0, 2**62), Tile(63, 0, 1), Tile(63, 2**62), Tile(ENTRIES, 2**62), Tile(8, 0, 1)):
        assert tile_bytes(db, tile, SIZE) is None


def test_nothing_exists_of_an_empty_log():
    with closing(database([])) as db:
        for tile in (Tile(0, 0, 1), Tile(0, 0), Tile(ENTRIES, 0, 1), Tile(1, 0, 1)):
            assert tile_bytes(db, tile, 0) is None


@pytest.mark.parametrize("table", ["entries", "hashes"])
def test_a_tile_with_a_hole_is_not_served(table):
    with closing(database(LEAVES[:300])) as db:
        db.execute(f"DROP TRIGGER {table}_no_delete")
        db.execute(f"DELETE FROM {table} WHERE i = 255")
        tile = Tile(ENTRIES, 0) if table == "entries" else Tile(0, 0)
        with pytest.raises(LogDamaged):
            tile_bytes(db, tile, 300)
        if table == "hashes":
            for other in (Tile(1, 0, 1), Tile(ENTRIES, 0)):
                with pytest.raises(LogDamaged):
                    tile_bytes(db, other, 300)


def test_an_altered_entry_is_not_served():
    with closing(database(LEAVES[:300])) as db:
        db.execute("DROP TRIGGER entries_no_update")
        db.execute("UPDATE entries SET entry = x'7b7d' WHERE i = 17")
        with pytest.raises(LogDamaged, match="17"):
            tile_bytes(db, Tile(ENTRIES, 0), 300)


async def test_a_client_rebuilds_the_whole_log_from_its_tiles(tmp_path):
    log = open_log(tmp_path / "log.db")
    await log.append(contributions(*(f"p{number}" for number in range(299))))
    await log.append(contributions(*(f"q{number}" for number in range(230))))
    checkpoint = Checkpoint.parse(open_note(log.latest().note, [SIGNER.vkey]).text)
    entries = []
    for tile in all_tiles(checkpoint.size):
        data = await log.tile(parse_tile_path(tile.path))
        assert data is not None
        if tile.level == ENTRIES:
            entries += parse_bundle(data)
        elif tile.level == 0:
            start = tile.index * TILE_WIDTH
            assert data == b"".join(merkle.leaf_hash(entry) for entry in entries[start : start + tile.width])
    assert len(entries) == checkpoint.size == 530
    assert merkle.tree_root([merkle.leaf_hash(entry) for entry in entries]) == checkpoint.root
    assert await log.tile(Tile(0, 2)) is None
    assert await log.tile(Tile(0, 2, 19)) is None
    log.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        assert [row[0] for row in db.execute("SELECT entry FROM entries ORDER BY i")] == entries
