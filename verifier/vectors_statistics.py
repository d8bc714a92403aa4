"""Known answers of the statistics: the odds of a game, chi-square tails, the largest of many cells.

Each answer is compared in the digits in which it is stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from verifier.statistics import binomial, chi_square, odds

Case = Mapping[str, Any]

_CELLS: Final = 36
_ONE_IN: Final = {2: "two", 3: "three", 4: "four", 5: "five"}
_ODDS: Final[Mapping[str, Callable[[int], Fraction]]] = {
    "p_at_least_one_double": lambda rolls: odds.any_hit(rolls, odds.DOUBLE),
    "p_run_of_2": lambda rolls: odds.streak(rolls, 2, odds.DOUBLE),
    "p_run_of_3": lambda rolls: odds.streak(rolls, 3, odds.DOUBLE),
    "p_opponent_two_or_more_ahead": lambda rolls: odds.opponent_ahead(rolls, 2, odds.DOUBLE),
}


def game(given: Case, expected: Case) -> Case:
    """The exact odds of doubles in a game, as fractions and decimals, and the published percentages."""
    rolls = given["rolls_per_player"]
    exact = {"mean_doubles": rolls * odds.DOUBLE, **{name: of(rolls) for name, of in _ODDS.items()}}
    streaks = odds.in_games(exact["p_run_of_3"], 20)
    found = {
        name: {"fraction": str(value), "decimal": _as_stated(float(value), expected[name]["decimal"])}
        for name, value in exact.items()
    }
    percents = [*list(exact.values())[1:], streaks]
    return {
        **found,
        "p_run_of_3_in_20_games": _as_stated(float(streaks), expected["p_run_of_3_in_20_games"]),
        "published_percent": [_as_stated(float(100 * p), want) for p, want in _pairs(percents, expected)],
    }


def chi_squares(given: Case, expected: Case) -> Case:
    """The upper tails, and the published ones."""
    tails = [chi_square.upper_tail(float(Fraction(statistic)), df) for statistic, df in given["cases"]]
    return {
        "p": [_as_stated(p, stated) for p, stated in zip(tails, expected["p"], strict=True)],
        "published": [_as_stated(p, stated) for p, stated in zip(tails, expected["published"], strict=True)],
    }


def largest(given: Case, expected: Case) -> Case:
    """The odds that the fullest of 36 cells is that full: exact, and as if cells were independent."""
    rolls, count = given["rolls"], given["top_count"]
    alone = binomial.at_least(rolls, count, 1 / _CELLS)
    exact = binomial.largest_at_least(rolls, _CELLS, count)
    return {
        "p_exact": _as_stated(exact, expected["p_exact"]),
        "p_independent_cells": _as_stated(binomial.sidak(alone, _CELLS), expected["p_independent_cells"]),
        "published": f"about one in {_ONE_IN.get(round(1 / exact))}",
    }


def _pairs(percents: list[Fraction], expected: Case) -> list[tuple[Fraction, float]]:
    return list(zip(percents, expected["published_percent"], strict=True))


def _as_stated(value: float, stated: str | float) -> str | float:
    """`stated` where the value rounds to it, else the value."""
    digits = len(str(stated).partition(".")[2])
    return stated if float(f"{value:.{digits}f}") == float(stated) else value


ALGORITHMS: Final[Mapping[str, Callable[[Case, Case], Case]]] = {
    "exact dice probabilities": game,
    "upper tail of chi-square": chi_squares,
    "largest of 36 cells, one sided": largest,
}
