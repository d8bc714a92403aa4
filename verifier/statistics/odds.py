"""What chance does in a game of so many rolls: doubles, streaks of them, an opponent with more. Exact.

Each function takes the probability of a hit as a Fraction, and then answers with the exact Fraction, or as a float,
and then answers with a float that is good to about 1e-13 of its value: only sums of positive terms come up.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

from verifier.statistics import binomial

P = TypeVar("P", Fraction, float)

DOUBLE: Final = Fraction(1, 6)
MAX_ROLLS: Final = 10_000
LONGEST: Final = 6
AHEAD: Final = 5


def any_hit(rolls: int, p: P) -> P:
    """At least one hit in `rolls` >= 0 rolls."""
    return streak(rolls, 1, p)


def streak(rolls: int, length: int, p: P) -> P:
    """At least `length` >= 1 hits in a row, somewhere in `rolls` >= 0 rolls. ValueError for a shorter streak.

    A Markov chain over the length of the streak that is going on: 0 .. length - 1, and reached, which is left no more.
    """
    return streak_curve(rolls, length, p)[-1]


def streak_curve(rolls: int, length: int, p: P) -> list[P]:
    """`streak` for 0, 1, ... `rolls` rolls."""
    if length < 1 or rolls < 0:
        raise ValueError("a streak of one or more, in no or more rolls")
    zero, one = p * 0, p * 0 + 1
    state: list[P] = [one] + [zero] * (length - 1)
    curve: list[P] = [zero]
    for _ in range(rolls):
        curve.append(curve[-1] + state[-1] * p)
        after: list[P] = [zero]
        for weight in state:
            after[0] = after[0] + weight * (one - p)
            after.append(weight * p)
        state = after[:-1]
    return curve


def hits(rolls: int, p: P) -> list[P]:
    """The odds of 0, 1, ... `rolls` hits, 0 < p < 1."""
    if isinstance(p, Fraction):
        return [math.comb(rolls, k) * p**k * (1 - p) ** (rolls - k) for k in range(rolls + 1)]
    return [binomial.pmf(rolls, k, p) for k in range(rolls + 1)]


def opponent_ahead(rolls: int, by: int, p: P) -> P:
    """The odds that of two players with `rolls` rolls each one, named before, has `by` >= 1 or more hits more."""
    theirs = hits(rolls, p)
    mine_at_most = itertools.accumulate(theirs)
    return sum((weight * mine for weight, mine in zip(theirs[by:], mine_at_most, strict=False)), p * 0)


def in_games(p: P, games: int) -> P:
    """What happens in one game with p happens in at least one of `games` >= 0 independent ones."""
    if isinstance(p, Fraction):
        return 1 - (1 - p) ** games
    return -math.expm1(games * math.log1p(-p)) if p < 1 else p * 0 + (games > 0)


@dataclass(frozen=True, slots=True)
class Game:
    """What to expect of doubles in one game, and in `games` of that length. Probabilities, but for the mean.

    streaks[r - 1]: r doubles in a row; ahead[d - 1]: the opponent, with as many rolls, has d or more doubles more.
    """

    rolls: int
    games: int
    mean: float
    streaks: tuple[float, ...]
    ahead: tuple[float, ...]
    streaks_in_games: tuple[float, ...]


def expect(rolls: int, games: int, p: Fraction = DOUBLE) -> Game:
    """The odds of a game of 1 to MAX_ROLLS rolls a player. ValueError beyond that, or for no game."""
    if not 1 <= rolls <= MAX_ROLLS or games < 1:
        raise ValueError(f"a game has 1 to {MAX_ROLLS} rolls")
    chance = float(p)
    streaks = tuple(streak(rolls, length, chance) for length in range(1, LONGEST + 1))
    ahead = tuple(opponent_ahead(rolls, by, chance) for by in range(1, AHEAD + 1))
    return Game(rolls, games, rolls * chance, streaks, ahead, tuple(in_games(one, games) for one in streaks))
