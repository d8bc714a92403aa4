"""Seeds, bindings, streams and recipes (PROTOCOL.md, sections 4 and 5). The known answers run in test_vectors.py."""

import hashlib
import hmac
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_entries import recipes
from verifier import draws, seeds
from verifier.draws import Dealer, Deck, alike, draw, encode_recipe, fits, parse_recipe, redraw
from verifier.encoding import MAX_INTEGER, encode_json
from verifier.errors import Code, FormatError, VerificationError
from verifier.keccak import keccak256, keccak_dice
from verifier.seeds import Stream

KNOWN = json.loads((Path(__file__).parent / "vectors" / "protocol.json").read_text())
SEED, BINDING = bytes(range(32)), bytes(range(32, 64))
HASHES = st.binary(min_size=32, max_size=32)


def stream(recipe="r", n=1, seed=SEED):
    return Stream(seed, BINDING, recipe, n)


class Given:
    """A stream whose bytes are given."""

    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count
        return taken

    uniform = Stream.uniform


# --- seeds -----------------------------------------------------------------------------------------------------------


@given(HASHES, st.integers(1, 40))
def test_a_seed_chain_opens_at_every_link(last, links):
    chain = seeds.seed_chain(last, links)
    assert len(chain) == links + 1
    assert chain[links] == last
    for k in range(1, links + 1):
        assert seeds.opens(chain[k], k, chain[0])
        assert not seeds.opens(chain[k], k + 1, chain[0])
        assert hashlib.sha256(chain[k]).digest() == chain[k - 1]


@given(st.dictionaries(st.text(max_size=5), st.binary(min_size=1, max_size=4), max_size=6), st.randoms())
def test_the_order_of_contributions_means_nothing(contributions, source):
    items = list(contributions.items())
    shuffled = source.sample(items, len(items))
    assert seeds.contribution_list(items) == seeds.contribution_list(shuffled)


def test_contributions_are_sorted_by_their_utf8_bytes():
    listed = seeds.contribution_list([("\U00010000", b"1"), ("\uffff", b"2"), ("a", b"3"), ("B", b"4")])
    assert listed == (
        b"\0\0\0\4" b"\0\0\0\1B\0\0\0\0014" b"\0\0\0\1a\0\0\0\0013"
        b"\0\0\0\3\xef\xbf\xbf\0\0\0\0012" b"\0\0\0\4\xf0\x90\x80\x80\0\0\0\0011"
    )  # fmt: skip
    assert seeds.contribution_list([]) == bytes(4)


def test_no_two_lists_are_the_same_bytes():
    lists = [[], [("a", b"b")], [("ab", b"")], [("a", b""), ("b", b"")], [("", b"ab")], [("a", b"b"), ("", b"")]]
    assert len({seeds.contribution_list(items) for items in lists}) == len(lists)


def test_every_part_counts_in_a_binding_and_in_what_is_signed():
    base = (b"\1" * 32, 1, [("a", b"b")], 5, b"\2" * 32)
    others = [(b"\3" * 32, None), (2, None), ([("a", b"c")], None), (6, None), (b"\4" * 32, None)]
    bindings = {seeds.binding(*base[:i], other, *base[i + 1 :]) for i, (other, _) in enumerate(others)}
    assert len(bindings | {seeds.binding(*base)}) == 6
    signed = (b"\1" * 32, 1, "turn", 1, "why", "white", b"e")
    other_signed = (b"\2" * 32, 2, "tur", 2, "nwhy", "black", b"f")
    messages = {seeds.contribution_message(*signed[:i], other_signed[i], *signed[i + 1 :]) for i in range(7)}
    assert len(messages | {seeds.contribution_message(*signed)}) == 8


# --- stream ----------------------------------------------------------------------------------------------------------


@given(
    HASHES, HASHES, st.text(min_size=1, max_size=5), st.integers(1, 2**32 - 1), st.lists(st.integers(0, 70), max_size=8)
)
def test_a_stream_is_its_blocks_one_after_the_other(seed, bound, recipe, n, counts):
    made = Stream(seed, bound, recipe, n)
    taken = b"".join(made.take(count) for count in counts)
    whole = b""
    for j in range(20):
        message = (
            bound
            + len(recipe.encode()).to_bytes(4, "big")
            + recipe.encode()
            + n.to_bytes(4, "big")
            + j.to_bytes(4, "big")
        )
        whole += hmac.new(seed, message, hashlib.sha256).digest()
    assert taken == whole[: sum(counts)]
    assert made.word == whole[:32]
    assert b"".join(made.blocks) == whole[: 32 * len(made.blocks)]


@settings(max_examples=300)
@given(st.integers(1, 2**64), HASHES)
def test_uniform_is_below_n_and_by_rejection(n, seed):
    number = stream(seed=seed).uniform(n)
    assert 0 <= number < n
    if n == 1:
        assert number == 0
        return
    width = 1
    while 256**width < n:
        width += 1
    limit, data = 256**width - 256**width % n, stream(seed=seed).take(64 * width)
    numbers = [int.from_bytes(data[i : i + width], "big") for i in range(0, len(data), width)]
    assert number == next(x for x in numbers if x < limit) % n


def test_uniform_of_one_takes_nothing():
    nothing = Given(b"")
    assert nothing.uniform(1) == 0


@pytest.mark.parametrize(
    ("n", "data", "number", "left"),
    [
        (6, "ff", None, 0), (6, "fc01", 1, 0), (6, "fb", 5, 0), (256, "ff", 255, 0), (257, "ffff0100", 256, 0),
        (2**64, "ff" * 8, 2**64 - 1, 0), (2, "8300", 1, 1), (3, "ff02", 2, 0), (255, "fe", 254, 0), (255, "ff00", 0, 0),
    ],
)  # fmt: skip
def test_uniform_on_given_bytes(n, data, number, left):
    given_bytes = Given(bytes.fromhex(data))
    if number is None:
        with pytest.raises(AssertionError):
            given_bytes.uniform(n)
        return
    assert given_bytes.uniform(n) == number
    assert len(given_bytes.data) == left


def test_uniform_covers_every_value_evenly():
    """All one-byte streams: each face the same number of times."""
    for n in (2, 3, 6, 7, 100, 255, 256):
        limit = 256 - 256 % n
        counts = Counter(Given(bytes([x])).uniform(n) for x in range(limit))
        assert set(counts) == set(range(n))
        assert len(set(counts.values())) == 1


# --- recipes ---------------------------------------------------------------------------------------------------------

BAD_RECIPES = [
    None, 5, "dice", [], {}, {"kind": "coin"}, {"kind": ["dice"]}, {"kind": "dice"}, {"kind": "dice", "count": 1},
    {"kind": "dice", "count": 0, "sides": 6}, {"kind": "dice", "count": 1001, "sides": 6},
    {"kind": "dice", "count": 1, "sides": 1}, {"kind": "dice", "count": 1, "sides": 2**32 + 1},
    {"kind": "dice", "count": True, "sides": 6}, {"kind": "dice", "count": 1, "sides": 6, "x": 0},
    {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": False}, {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": 1},
    {"kind": "dice", "count": 3, "sides": 2, "reroll_ties": True}, {"kind": "dice", "count": 11, "sides": 10, "reroll_ties": True},
    {"kind": "dice", "count": 34, "sides": 112, "reroll_ties": True},
    {"kind": "dice", "count": 2, "sides": 8, "mapping": "keccak"}, {"kind": "dice", "count": 2, "sides": 6, "mapping": "sha3"},
    {"kind": "dice", "count": 2, "sides": 6, "mapping": None},
    {"kind": "dice", "count": 2, "sides": 6, "mapping": "keccak", "reroll_ties": True},
    {"kind": "integers", "min": 1, "max": 0, "count": 1}, {"kind": "integers", "min": -(2**53), "max": 0, "count": 1},
    {"kind": "integers", "min": 0, "max": 2**53, "count": 1}, {"kind": "integers", "min": 0, "max": 1, "count": 1001},
    {"kind": "shuffle", "size": 0}, {"kind": "shuffle", "size": 10_001}, {"kind": "shuffle", "size": 5, "count": 5},
    {"kind": "sample", "size": 5, "count": 6}, {"kind": "sample", "size": 2**32 + 1, "count": 1},
    {"kind": "sample", "size": 10_000, "count": 5001}, {"kind": "deal", "size": 5, "count": 6},
    {"kind": "deal", "size": 10_001, "count": 1}, {"kind": "weighted", "weights": [], "count": 1},
    {"kind": "weighted", "weights": [0], "count": 1}, {"kind": "weighted", "weights": [-1, 2], "count": 1},
    {"kind": "weighted", "weights": [1, True], "count": 1}, {"kind": "weighted", "weights": [2**53 - 1, 1], "count": 1},
    {"kind": "weighted", "weights": [1] * 10_001, "count": 1}, {"kind": "weighted", "weights": {"0": 1}, "count": 1},
    {"kind": "bytes", "count": 0}, {"kind": "bytes", "count": 1025},
]  # fmt: skip
EDGES = [
    {"kind": "dice", "count": 11, "sides": 11, "reroll_ties": True}, {"kind": "weighted", "weights": [1], "count": 1},
    {"kind": "dice", "count": 1000, "sides": 2**32}, {"kind": "dice", "count": 10, "sides": 10, "reroll_ties": True},
    {"kind": "dice", "count": 34, "sides": 113, "reroll_ties": True}, {"kind": "dice", "count": 1, "sides": 2, "reroll_ties": True},
    {"kind": "integers", "min": -MAX_INTEGER, "max": MAX_INTEGER, "count": 1000}, {"kind": "integers", "min": 5, "max": 5, "count": 1},
    {"kind": "shuffle", "size": 10_000}, {"kind": "sample", "size": 2**32, "count": 5000},
    {"kind": "deal", "size": 10_000, "count": 10_000}, {"kind": "weighted", "weights": [2**53 - 1] + [0] * 9999, "count": 1000},
    {"kind": "bytes", "count": 1024}, {"kind": "dice", "count": 1000, "sides": 6, "mapping": "keccak"},
]  # fmt: skip


@pytest.mark.parametrize("recipe", BAD_RECIPES)
def test_bad_recipes_are_refused(recipe):
    with pytest.raises(FormatError) as caught:
        parse_recipe(recipe)
    assert caught.value.code is Code.RECIPE


@pytest.mark.parametrize("recipe", EDGES)
def test_recipes_at_their_limits(recipe):
    parsed = parse_recipe(recipe)
    assert encode_recipe(parsed) == recipe
    assert fits(parsed, draw(parsed, stream()))


def values(recipe):
    """The least and the greatest number that a recipe can give."""
    match recipe:
        case draws.Dice(_, sides):
            return 1, sides
        case draws.Integers(low, high):
            return low, high
        case draws.Shuffle(size) | draws.Sample(size) | draws.Deal(size):
            return 0, size - 1
        case draws.Weighted(weights):
            return 0, len(weights) - 1


@settings(max_examples=150, deadline=None)
@given(recipes(), HASHES)
def test_outcomes_have_their_shape_and_range(recipe, seed):
    outcome = draw(recipe, stream(seed=seed))
    assert parse_recipe(encode_recipe(recipe)) == recipe
    assert draw(recipe, stream(seed=seed)) == outcome
    assert fits(recipe, json.loads(encode_json([outcome]))[0])
    if isinstance(recipe, draws.Bytes):
        assert outcome == stream(seed=seed).take(recipe.count).hex()
        return
    low, high = values(recipe)
    assert all(low <= number <= high for number in outcome)
    different = isinstance(recipe, draws.Shuffle | draws.Sample | draws.Deal) or getattr(recipe, "reroll_ties", False)
    if different:
        assert len(set(outcome)) == len(outcome)
    if isinstance(recipe, draws.Weighted):
        assert all(recipe.weights[number] for number in outcome)


@given(st.integers(1, 60), st.data(), HASHES)
def test_no_card_leaves_a_deck_twice(size, data, seed):
    count = data.draw(st.integers(1, size))
    recipe, dealer, gone = draws.Deal(size, count), Dealer(), []
    for n in range(1, size // count + 1):
        gone += dealer.draw("deck", recipe, Stream(seed, BINDING, "deck", n))
        assert redraw(seed, BINDING, "deck", recipe, n)[0] == gone[-count:]
    assert len(set(gone)) == len(gone) == size // count * count
    with pytest.raises(VerificationError) as caught:
        dealer.draw("deck", recipe, Stream(seed, BINDING, "deck", size // count + 1))
    assert caught.value.code is Code.DRAW_PAST_END
    with pytest.raises(VerificationError):
        redraw(seed, BINDING, "deck", recipe, 2**32 - 1)


def test_a_whole_deck_is_dealt_as_one_sample():
    assert draw(draws.Deal(52, 52), stream()) == draw(draws.Sample(52, 52), stream())
    assert sorted(draw(draws.Shuffle(52), stream())) == list(range(52))


def test_decks_of_two_recipes_are_two_decks():
    dealer, recipe = Dealer(), draws.Deal(3, 3)
    assert sorted(dealer.draw("a", recipe, stream("a"))) == sorted(dealer.draw("b", recipe, stream("b"))) == [0, 1, 2]


def test_a_deck_deals_by_swapping():
    deck = Deck(4)
    assert deck.deal(Given(bytes([3, 0])), 2) == [3, 1]
    assert deck.deal(Given(bytes([1])), 2) == [0, 2]


def test_a_shuffle_runs_from_the_end():
    assert draw(draws.Shuffle(3), Given(bytes([0, 0]))) == [1, 2, 0]
    assert draw(draws.Shuffle(3), Given(bytes([2, 1]))) == [0, 1, 2]


def test_ties_are_rolled_again_on_the_same_stream():
    assert draw(draws.Dice(2, 6, reroll_ties=True), Given(bytes([4, 4, 1, 1, 0, 5]))) == [1, 6]


def test_weights():
    recipe = draws.Weighted((1, 0, 10, 100, 0), 4)
    assert draw(recipe, Given(bytes([0, 1, 10, 11]))) == [0, 2, 2, 3]
    assert draw(recipe, Given(bytes([110, 0, 0, 0]))) == [3, 0, 0, 0]


def test_keccak_is_not_sha3():
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"") != hashlib.sha3_256(b"").digest()


@given(HASHES, st.integers(1, 200))
def test_onchain_dice_run_on_through_the_hashes(word, count):
    dice, at, expected = keccak_dice(word, count), word, []
    while len(expected) < count:
        expected += [byte % 6 + 1 for byte in at if byte < 252]
        at = keccak256(at)
    assert dice == expected[:count]


def test_a_word_has_32_bytes():
    with pytest.raises(FormatError):
        keccak_dice(b"\xff", 2)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"kind": "dice", "count": 2, "sides": 6}, {"kind": "dice", "count": 2, "sides": 6, "mapping": "keccak"}, True),
        ({"kind": "dice", "count": 2, "sides": 6}, {"kind": "integers", "min": 1, "max": 6, "count": 2}, True),
        ({"kind": "dice", "count": 2, "sides": 6}, {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True}, False),
        ({"kind": "dice", "count": 1, "sides": 6}, {"kind": "dice", "count": 1, "sides": 6, "reroll_ties": True}, True),
        ({"kind": "shuffle", "size": 5}, {"kind": "sample", "size": 5, "count": 5}, True),
        ({"kind": "sample", "size": 5, "count": 2}, {"kind": "deal", "size": 5, "count": 2}, True),
        ({"kind": "sample", "size": 5, "count": 1}, {"kind": "integers", "min": 0, "max": 4, "count": 1}, True),
        ({"kind": "sample", "size": 5, "count": 2}, {"kind": "integers", "min": 0, "max": 4, "count": 2}, False),
        ({"kind": "weighted", "weights": [2, 4], "count": 1}, {"kind": "weighted", "weights": [1, 2, 0], "count": 1}, True),
        ({"kind": "weighted", "weights": [0, 3, 3], "count": 1}, {"kind": "integers", "min": 1, "max": 2, "count": 1}, True),
        ({"kind": "weighted", "weights": [1, 2], "count": 1}, {"kind": "weighted", "weights": [2, 1], "count": 1}, False),
        ({"kind": "weighted", "weights": [1, 0, 1], "count": 1}, {"kind": "integers", "min": 0, "max": 2, "count": 1}, False),
        ({"kind": "bytes", "count": 2}, {"kind": "integers", "min": 0, "max": 255, "count": 2}, False),
    ],
)  # fmt: skip
def test_recipes_of_equal_distribution(one, other, same):
    named = {"a": parse_recipe(one), "b": parse_recipe(other)}
    assert alike(named) == ([["a", "b"]] if same else [])


def test_what_does_not_fit_a_recipe():
    assert not fits(draws.Dice(2, 6), "0102")
    assert not fits(draws.Dice(2, 6), [1])
    assert not fits(draws.Bytes(2), [1, 2])
    assert not fits(draws.Bytes(2), "000")
    assert not fits(draws.Bytes(2), "00AB")
    assert not fits(draws.Bytes(2), "00 0")
    assert not fits(draws.Shuffle(3), None)
    assert fits(draws.Bytes(2), "0000")
