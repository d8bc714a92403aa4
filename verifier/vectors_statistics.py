"""Known answers of statistics: exact odds of dice games, tails of chi-square, the fullest of many cells.

Facts as in `vectors_systems`; a Fraction or float stands for a number that a vector may state with fewer digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from verifier.statistics import binomial, chi_square, odds

Facts = Mapping[str, Any]

_WORDS: Final = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_RUN: Final = re.compile(r"p_run_of_(\d+)")
_RUN_IN: Final = re.compile(r"p_run_of_(\d+)_in_(\d+)_games")
_AHEAD: Final = re.compile(r"p_opponent_([a-z]+)_or_more_ahead")
_FAIR: Final = Fraction(1, 6)


def dice_odds(given: Facts, expected: Facts) -> Facts:
    """Doubles in a game of `rolls_per_player`. published_percent: the probabilities, in the order of the others."""
    rolls = given["rolls_per_player"]
    numbers: dict[str, Fraction] = {}
    for name in expected:
        if name == "mean_doubles":
            numbers[name] = rolls * _FAIR
        elif name == "p_at_least_one_double":
            numbers[name] = odds.any_hit(rolls, _FAIR)
        elif found := _RUN.fullmatch(name):
            numbers[name] = odds.streak(rolls, int(found[1]), _FAIR)
        elif found := _RUN_IN.fullmatch(name):
            numbers[name] = odds.in_games(odds.streak(rolls, int(found[1]), _FAIR), int(found[2]))
        elif (found := _AHEAD.fullmatch(name)) and found[1] in _WORDS:
            numbers[name] = odds.opponent_ahead(rolls, _WORDS.index(found[1]), _FAIR)
    facts: dict[str, Any] = {
        name: {"fraction": str(value), "decimal": value} if isinstance(expected[name], Mapping) else value
        for name, value in numbers.items()
    }
    return facts | {"published_percent": [100 * value for name, value in numbers.items() if name.startswith("p_")]}


def chi_square_tails(given: Facts, _: Facts) -> Facts:
    tails = [chi_square.upper_tail(float(statistic), df) for statistic, df in given["cases"]]
    return {"p": tails, "published": tails}


def fullest_cell(given: Facts, _: Facts, cells: int) -> Facts:
    rolls, count = given["rolls"], given["top_count"]
    exact = binomial.largest_at_least(rolls, cells, count)
    odds_against = round(1 / exact) if exact else 0
    return {
        "p_exact": exact,
        "p_independent_cells": binomial.sidak(binomial.at_least(rolls, count, 1 / cells), cells),
        "published": f"about one in {_WORDS[odds_against]}" if odds_against < len(_WORDS) else None,
    }
