import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.errors import Code, FormatError
from verifier.tiles import (
    ENTRIES,
    Tile,
    TileLevel,
    bundle_of,
    encode_bundle,
    entry_path,
    parse_bundle,
    parse_tile_path,
    tile_layout,
    tile_path,
)
from verifier.vectors_tlog import run_section

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())
SECTIONS = ["tile_path", "tile_path_parse", "tile_layout", "tile_bytes", "entry_bundle"]
CASES = [pytest.param(section, case, id=case["id"]) for section in SECTIONS for case in VECTORS[section]]

LEVELS = st.integers(0, 63)
INDICES = st.integers(0, 2**63 - 1) | st.sampled_from([0, 999, 1000, 999_999, 1_000_000, 10**18, 2**63 - 1])
WIDTHS = st.integers(1, 256)


def refused(function, *arguments):
    with pytest.raises(FormatError) as caught:
        function(*arguments)
    return caught.value.code is Code.TILE


@pytest.mark.parametrize(("section", "case"), CASES)
def test_known_answers(section, case):
    assert run_section(section, case) is None


@given(LEVELS, INDICES, WIDTHS)
def test_paths_parse_to_what_they_were_made_of(level, index, width):
    tile, bundle = Tile(level, index, width), Tile(ENTRIES, index, width)
    assert parse_tile_path(tile.path) == tile
    assert tile.path == tile_path(level, index, width)
    assert parse_tile_path(bundle.path) == bundle
    assert bundle.path == entry_path(index, width)


@given(LEVELS, INDICES, WIDTHS, st.data())
def test_a_path_with_one_character_changed_is_another_tile_or_none(level, index, width, data):
    path = tile_path(level, index, width)
    at = data.draw(st.integers(0, len(path) - 1))
    character = data.draw(st.sampled_from("0123456789x/.p e-+\n٣"))
    for other in (
        path[:at] + character + path[at + 1 :],
        path[:at] + path[at + 1 :],
        path[:at] + character + path[at:],
    ):
        try:
            parsed = parse_tile_path(other)
        except FormatError:
            continue
        assert parsed.path == other


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile",
        "tile/",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/0/00",
        "tile/0/0000",
        "tile/0/1000",
        "tile/0/x000",
        "tile/0/x000/",
        "tile/0/x000/001",
        "tile/0/000/001",
        "tile/0/X001/000",
        "tile/0/x001/x000",
        "tile/0/x001//000",
        "tile/0/x01/000",
        "tile/0/x001/00",
        "tile/0/-01",
        "tile/0/+01",
        "tile/0/00a",
        "tile/0/\u0661\u0662\u0663",
        "tile/0/ 00",
        "tile/0/000 ",
        "tile/0/000\n",
        "tile/0/000/",
        "/tile/0/000",
        "tile/0/000.p",
        "tile/0/000.p/",
        "tile/0/000.p/0",
        "tile/0/000.p/01",
        "tile/0/000.p/256",
        "tile/0/000.p/999",
        "tile/0/000.p/1000",
        "tile/0/000.p/-1",
        "tile/0/000.P/1",
        "tile/0/000.p/1/",
        "tile/0/000.p/1.p/1",
        "tile/00/000",
        "tile/064/000",
        "tile/64/000",
        "tile/100/000",
        "tile/-1/000",
        "tile/+1/000",
        "tile//000",
        "tile/Entries/000",
        "tile/entries",
        "tile/entries/0/000",
        "tiles/0/000",
        "tile/0/x009/x223/x372/x036/x854/x775/808",
        "tile/0/x001/x000/x000/x000/x000/x000/x000/000",
    ],
)
def test_no_other_spelling_is_a_path(path):
    assert refused(parse_tile_path, path)


def test_the_largest_index():
    path = "tile/0/x009/x223/x372/x036/x854/x775/807"
    assert parse_tile_path(path) == Tile(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("level", "index", "width"), [(-1, 0, 1), (64, 0, 1), (0, -1, 1), (0, 2**63, 1), (0, 0, 0), (0, 0, -1), (0, 0, 257)]
)
def test_what_no_tile_has(level, index, width):
    assert refused(tile_path, level, index, width)
    assert level or refused(entry_path, index, width)


@given(st.integers(0, 2**63 - 1))
def test_layout_is_the_formula_of_the_specification(size):
    layout = tile_layout(size)
    assert [level.level for level in layout] == list(range(len(layout)))
    for level in layout:
        assert level.partial_width == size // 256**level.level % 256
        assert level.full == size // 256 ** (level.level + 1)
        assert level.full + level.partial_width > 0
    assert size // 256 ** len(layout) == 0


@pytest.mark.parametrize(
    ("size", "layout"),
    [
        (0, []),
        (1, [TileLevel(0, 0, 1)]),
        (65_536, [TileLevel(0, 256, 0), TileLevel(1, 1, 0), TileLevel(2, 0, 1)]),
    ],
)
def test_layouts(size, layout):
    assert tile_layout(size) == layout


@pytest.mark.parametrize("size", [-1, 2**63])
def test_sizes_that_no_tree_has(size):
    assert refused(tile_layout, size)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_bundle_of_an_entry_holds_it_and_ends_with_the_tree(index, beyond):
    size = index + 1 + beyond
    bundle = bundle_of(index, size)
    first = bundle.index * 256
    assert first <= index < first + bundle.width <= size
    assert bundle.width == 256 or first + bundle.width == size


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (-1, 1), (0, 2**63)])
def test_an_entry_outside_the_tree_has_no_bundle(index, size):
    assert refused(bundle_of, index, size)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=256))
def test_bundles_parse_to_their_entries(entries):
    assert parse_bundle(encode_bundle(entries)) == entries


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_a_bundle_cut_inside_an_entry_is_refused(entries, data):
    whole = encode_bundle(entries)
    ends = [len(encode_bundle(entries[:count])) for count in range(1, len(entries) + 1)]
    cut = data.draw(st.integers(0, len(whole)))
    if cut in ends:
        assert parse_bundle(whole[:cut]) == entries[: ends.index(cut) + 1]
    else:
        assert refused(parse_bundle, whole[:cut])


def test_the_limits_of_bundles():
    longest = bytes(65_535)
    assert parse_bundle(encode_bundle([longest] * 256)) == [longest] * 256
    assert refused(encode_bundle, [])
    assert refused(encode_bundle, [b""] * 257)
    assert refused(encode_bundle, [bytes(65_536)])
    assert refused(parse_bundle, b"")
    assert refused(parse_bundle, b"\0\0" * 257)
