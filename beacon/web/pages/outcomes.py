"""Outcomes as pictures: six-sided dice, cards of a deck of 52, and numbers for all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from verifier.draws import Bytes, Deal, Dice, Recipe, Sample, Shuffle
from verifier.encoding import Json

MAX_SHOWN: Final = 60
"""Numbers of one outcome that are shown; the transcript has all."""
MAX_HEX: Final = 128
DECK: Final = 52
SUITS: Final = ("clubs", "diamonds", "hearts", "spades")
RANKS: Final = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")


@dataclass(frozen=True, slots=True)
class Card:
    """A card of 52 in the usual order: clubs, diamonds, hearts, spades, each from ace to king. number: from 0."""

    number: int
    rank: str
    suit: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was drawn. more: how many numbers are not shown."""

    kind: Literal["dice", "cards", "numbers", "hex"]
    dice: tuple[int, ...] = ()
    cards: tuple[Card, ...] = ()
    numbers: tuple[str, ...] = ()
    hex: str = ""
    more: int = 0

    @property
    def size(self) -> int:
        return len(self.dice) + len(self.cards) + len(self.numbers) + 1


def outcome_of(recipe: Recipe, value: Json) -> Outcome:
    """A logged outcome of a recipe; numbers as they are where they are none of its own."""
    if isinstance(value, str):
        return Outcome("hex", hex=value[:MAX_HEX], more=max(0, len(value) - MAX_HEX) // 2)
    listed = value if isinstance(value, list) else []
    shown = [one for one in listed[:MAX_SHOWN] if isinstance(one, int)]
    more = len(listed) - len(shown)
    if isinstance(recipe, Dice) and recipe.sides == 6 and all(1 <= one <= 6 for one in shown):
        return Outcome("dice", dice=tuple(shown), more=more)
    deck = isinstance(recipe, Deal | Sample | Shuffle) and recipe.size == DECK
    if deck and all(0 <= one < DECK for one in shown):
        return Outcome("cards", cards=tuple(card(one) for one in shown), more=more)
    return Outcome("numbers", numbers=tuple(map(str, shown)), more=more)


def card(number: int) -> Card:
    """The card that a number from 0 to 51 usually is."""
    return Card(number, RANKS[number % 13], SUITS[number // 13])


def is_costly(recipe: Recipe, n: int) -> bool:
    """Whether to make a draw again takes more than a page should."""
    if isinstance(recipe, Bytes):
        return False
    if isinstance(recipe, Deal):
        return n * recipe.count > 1_000
    return (recipe.size if isinstance(recipe, Shuffle) else recipe.count) > 1_000
