"""Recipes, and from bytes to outcomes (PROTOCOL.md, section 5).

A recipe is parsed strictly into one of the frozen classes below; `draw` turns a stream into an outcome.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from verifier.encoding import MAX_INTEGER, Json
from verifier.errors import Code, FormatError, VerificationError
from verifier.keccak import keccak_dice
from verifier.seeds import Stream

Outcome: TypeAlias = "list[int] | str"
MAX_N: Final = 2**32 - 1
_HEX_DIGITS: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Dice:
    """`count` dice of `sides` sides, 1 .. sides each."""

    count: int
    sides: int
    reroll_ties: bool = False
    mapping: Literal["keccak"] | None = None


@dataclass(frozen=True, slots=True)
class Integers:
    """`count` numbers, min .. max each."""

    min: int
    max: int
    count: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A permutation of 0 .. size-1."""

    size: int


@dataclass(frozen=True, slots=True)
class Sample:
    """`count` different numbers of 0 .. size-1, in order."""

    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Deal:
    """`count` cards a draw from one deck of `size`, which lasts over the draws of the session."""

    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Weighted:
    """`count` indices of `weights`, each with probability weight / total."""

    weights: tuple[int, ...]
    count: int
    cumulative: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cumulative", tuple(itertools.accumulate(self.weights)))


@dataclass(frozen=True, slots=True)
class Bytes:
    """The first `count` bytes of the stream."""

    count: int


Recipe: TypeAlias = Dice | Integers | Shuffle | Sample | Deal | Weighted | Bytes


def parse_recipe(value: Json) -> Recipe:
    """The recipe of a JSON object (5.2). Raises FormatError(RECIPE)."""
    if not isinstance(value, dict):
        raise FormatError(Code.RECIPE, "a recipe is an object")
    fields = dict(value)
    kind = fields.pop("kind", None)
    if kind == "dice":
        recipe: Recipe = _dice(fields)
    elif kind == "integers":
        low, high = _integer(fields, "min", -MAX_INTEGER), _integer(fields, "max", -MAX_INTEGER)
        recipe = Integers(low, high, _integer(fields, "count", 1, 1_000))
        _require(low <= high, "min is above max")
    elif kind == "shuffle":
        recipe = Shuffle(_integer(fields, "size", 1, 10_000))
    elif kind == "sample":
        size = _integer(fields, "size", 1, 2**32)
        recipe = Sample(size, _integer(fields, "count", 1, min(size, 5_000)))
    elif kind == "deal":
        size = _integer(fields, "size", 1, 10_000)
        recipe = Deal(size, _integer(fields, "count", 1, size))
    elif kind == "weighted":
        recipe = Weighted(_weights(fields.pop("weights", None)), _integer(fields, "count", 1, 1_000))
    elif kind == "bytes":
        recipe = Bytes(_integer(fields, "count", 1, 1_024))
    else:
        raise FormatError(Code.RECIPE, "unknown kind; one of dice, integers, shuffle, sample, deal, weighted, bytes")
    _require(not fields, f"unknown field {next(iter(fields), '')!r}")
    return recipe


def encode_recipe(recipe: Recipe) -> dict[str, Json]:
    """The JSON object that `parse_recipe` reads."""
    match recipe:
        case Dice(count, sides, reroll_ties, mapping):
            value: dict[str, Json] = {"kind": "dice", "count": count, "sides": sides}
            if reroll_ties:
                value["reroll_ties"] = True
            if mapping is not None:
                value["mapping"] = mapping
            return value
        case Integers(low, high, count):
            return {"kind": "integers", "min": low, "max": high, "count": count}
        case Shuffle(size):
            return {"kind": "shuffle", "size": size}
        case Sample(size, count):
            return {"kind": "sample", "size": size, "count": count}
        case Deal(size, count):
            return {"kind": "deal", "size": size, "count": count}
        case Weighted(weights, count):
            return {"kind": "weighted", "weights": list(weights), "count": count}
        case Bytes(count):
            return {"kind": "bytes", "count": count}


def _dice(fields: dict[str, Json]) -> Dice:
    count, sides = _integer(fields, "count", 1, 1_000), _integer(fields, "sides", 2, 2**32)
    reroll = "reroll_ties" in fields
    _require(fields.pop("reroll_ties", True) is True, "reroll_ties is true or absent")
    mapping: Literal["keccak"] | None = "keccak" if "mapping" in fields else None
    _require(fields.pop("mapping", "keccak") == "keccak", "mapping is keccak or absent")
    if reroll:
        _require(count <= sides and count * (count - 1) <= 10 * sides, "reroll_ties would roll too often")
    if mapping:
        _require(sides == 6 and not reroll, "the keccak mapping is for six-sided dice without reroll_ties")
    return Dice(count, sides, reroll, mapping)


def _weights(value: Json) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 10_000:
        raise FormatError(Code.RECIPE, "weights is a list of 1 to 10,000 integers")
    weights = tuple(_integer({"weight": weight}, "weight", 0) for weight in value)
    _require(1 <= sum(weights) <= MAX_INTEGER, "the total of the weights is 1 to 2^53 - 1")
    return weights


def _integer(fields: dict[str, Json], name: str, low: int, high: int = MAX_INTEGER) -> int:
    value = fields.pop(name, None)
    if type(value) is not int or not low <= value <= high:
        raise FormatError(Code.RECIPE, f"{name} is an integer from {low} to {high}")
    return value


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise FormatError(Code.RECIPE, message)


class Deck:
    """The cards of one `deal` recipe in one session; they leave it draw by draw (5.2)."""

    def __init__(self, size: int, dealt: Sequence[int] = ()) -> None:
        """dealt: the cards that have left the deck already, in order; each is there once and below `size`."""
        self._cards = list(range(size))
        self._dealt = len(dealt)
        places = list(range(size))
        for i, card in enumerate(dealt):
            moved, j = self._cards[i], places[card]
            self._cards[i], self._cards[j] = card, moved
            places[card], places[moved] = i, j

    def deal(self, stream: Stream, count: int) -> list[int]:
        """The next `count` cards. Raises VerificationError(DRAW_PAST_END) when the deck has fewer."""
        first, end = self._dealt, self._dealt + count
        if end > len(self._cards):
            raise VerificationError(
                Code.DRAW_PAST_END, f"the deck of {len(self._cards)} has {len(self._cards) - first} cards left"
            )
        for i in range(first, end):
            j = i + stream.uniform(len(self._cards) - i)
            self._cards[i], self._cards[j] = self._cards[j], self._cards[i]
        self._dealt = end
        return self._cards[first:end]


class Dealer:
    """Draws every recipe of one session in order of n, keeping the decks. One per session and pass."""

    def __init__(self) -> None:
        self._decks: dict[str, Deck] = {}

    def draw(self, name: str, recipe: Recipe, stream: Stream) -> Outcome:
        """The outcome of `recipe` on `stream`; draws of a deal must be asked for in order of n."""
        deck = self._decks.setdefault(name, Deck(recipe.size)) if isinstance(recipe, Deal) else None
        return draw(recipe, stream, deck)


def draw(recipe: Recipe, stream: Stream, deck: Deck | None = None) -> Outcome:
    """The outcome of one draw: integers, or hex for `bytes` (5.2, 5.3).

    `stream` is fresh. A `deal` takes its cards from `deck`, which the caller keeps over the session's draws.
    """
    match recipe:
        case Dice(mapping="keccak"):
            return keccak_dice(stream.word, recipe.count)
        case Dice(count, sides):
            while True:
                roll = [stream.uniform(sides) + 1 for _ in range(count)]
                if not recipe.reroll_ties or len(set(roll)) == count:
                    return roll
        case Integers(low, high, count):
            return [low + stream.uniform(high - low + 1) for _ in range(count)]
        case Shuffle(size):
            cards = list(range(size))
            for i in range(size - 1, 0, -1):
                j = stream.uniform(i + 1)
                cards[i], cards[j] = cards[j], cards[i]
            return cards
        case Sample(size, count):
            return _sample(stream, size, count)
        case Deal(size, count):
            return (deck if deck is not None else Deck(size)).deal(stream, count)
        case Weighted(_, count):
            total = recipe.cumulative[-1]
            return [bisect_right(recipe.cumulative, stream.uniform(total)) for _ in range(count)]
        case Bytes(count):
            return stream.take(count).hex()


def redraw(seed: bytes, binding: bytes, name: str, recipe: Recipe, n: int) -> tuple[Outcome, Stream]:
    """The outcome of draw n of one recipe, and the stream that it used.

    seed (s_k) and binding (B): 32 bytes; 1 <= n < 2**32. A deal is replayed from draw 1 under the same seed and
    binding, as in a match. Raises VerificationError(DRAW_PAST_END).
    """
    deck = Deck(recipe.size) if isinstance(recipe, Deal) else None
    for earlier in range(1, n) if deck is not None else ():
        draw(recipe, Stream(seed, binding, name, earlier), deck)
    stream = Stream(seed, binding, name, n)
    return draw(recipe, stream, deck), stream


def fits(recipe: Recipe, outcome: Json) -> bool:
    """Whether a value has the shape of an outcome (5.3): an array as long as the recipe says, for `bytes` hex."""
    if isinstance(recipe, Bytes):
        return isinstance(outcome, str) and len(outcome) == 2 * recipe.count and set(outcome) <= _HEX_DIGITS
    length = recipe.size if isinstance(recipe, Shuffle) else recipe.count
    return isinstance(outcome, list) and len(outcome) == length


def alike(recipes: Mapping[str, Recipe]) -> list[list[str]]:
    """The names of recipes whose single draws have the same distribution, two or more together (section 8, custody)."""
    groups: dict[Hashable, list[str]] = {}
    for name, recipe in recipes.items():
        groups.setdefault(_distribution(recipe), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _distribution(recipe: Recipe) -> Hashable:
    """A key that recipes of equal distribution share: independent values with their weights, or a part of a deck."""
    match recipe:
        case Dice(count, sides, reroll_ties):
            if reroll_ties and count > 1:
                return "different", 1, sides, count
            return "even", 1, sides, count
        case Integers(low, high, count):
            return "even", low, high, count
        case Shuffle(size):
            return _different(size, size)
        case Sample(size, count) | Deal(size, count):
            return _different(size, count)
        case Weighted(weights, count):
            possible = [i for i, weight in enumerate(weights) if weight]
            divisor = math.gcd(*weights)
            low, high = possible[0], possible[-1]
            if len(possible) == high - low + 1 and len({weights[i] for i in possible}) == 1:
                return "even", low, high, count
            return tuple(weight // divisor for weight in weights[: high + 1]), count
        case Bytes(count):
            return "bytes", count


def _different(size: int, count: int) -> Hashable:
    return ("even", 0, size - 1, 1) if count == 1 else ("different", 0, size - 1, count)


def _sample(stream: Stream, size: int, count: int) -> list[int]:
    moved: dict[int, int] = {}
    chosen = []
    for i in range(count):
        j = i + stream.uniform(size - i)
        chosen.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return chosen
