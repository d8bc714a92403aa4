"""Backgammon: which of the thirty-six rolls reach a checker that many points away, with no point in between blocked."""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Final

FACES: Final = range(1, 7)
FARTHEST: Final = 24
"""Four sixes."""
ROLLS: Final = 36


class Reach(StrEnum):
    """How a roll gets there: one die by itself, several moves of the same checker, or not."""

    DIRECT = "direct"
    COMBINED = "combined"
    NONE = "none"


def reach(distance: int, first: int, second: int) -> Reach:
    """How the roll covers exactly `distance` points; a double is moved four times."""
    if distance in {first, second}:
        return Reach.DIRECT
    sums = {times * first for times in (2, 3, 4)} if first == second else {first + second}
    return Reach.COMBINED if distance in sums else Reach.NONE


def grid(distance: int) -> list[list[Reach]]:
    """Every roll: the first die down, the second across."""
    return [[reach(distance, first, second) for second in FACES] for first in FACES]


def shots(distance: int) -> tuple[int, int]:
    """How many of the thirty-six rolls reach it directly, and how many combined."""
    found = [reach(distance, first, second) for first, second in product(FACES, FACES)]
    return found.count(Reach.DIRECT), found.count(Reach.COMBINED)
