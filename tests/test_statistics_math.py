"""The mathematics under the statistics: published tables and exact fractions first, then properties."""

from __future__ import annotations

import json
import math
from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.statistics import binomial, chi_square, odds, special

PEERS = json.loads((Path(__file__).parent / "vectors" / "seeds-and-peers.json").read_text())["vectors"]
FIELD: dict[str, dict[str, Any]] = {case["id"]: case for case in PEERS if case["id"].startswith("stats-")}
SIXTH = Fraction(1, 6)

# a, x, P(a, x): the table GAMMA_INC_VALUES (J. Burkardt), after Abramowitz and Stegun, 1964, and Wolfram, 1999.
GAMMA_INC_VALUES = [
    (0.10, 0.03, 0.7382350532339351), (0.10, 0.30, 0.9083579897300343), (0.10, 1.50, 0.9886559833621947),
    (0.50, 0.075, 0.3014646416966613), (0.50, 0.75, 0.7793286380801532), (0.50, 3.50, 0.9918490284064973),
    (1.00, 0.10, 0.09516258196404043), (1.00, 1.00, 0.6321205588285577), (1.00, 5.00, 0.9932620530009145),
    (1.10, 0.10, 0.07205974576054322), (1.10, 1.00, 0.5891809618706485), (1.10, 5.00, 0.9915368159845525),
    (2.00, 0.15, 0.01018582711118352), (2.00, 1.50, 0.4421745996289254), (2.00, 7.00, 0.9927049442755639),
    (6.00, 2.50, 0.04202103819530612), (6.00, 12.00, 0.9796589705830716), (11.00, 16.00, 0.9226039842296429),
    (26.00, 25.00, 0.4470785799755852), (41.00, 45.00, 0.744454922071869),
]  # fmt: skip
# Upper critical values of chi-square, NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4: df, tail, value.
CRITICAL = [
    (1, 0.10, 2.706), (1, 0.05, 3.841), (1, 0.025, 5.024), (1, 0.01, 6.635), (1, 0.001, 10.828),
    (5, 0.10, 9.236), (5, 0.05, 11.070), (5, 0.025, 12.833), (5, 0.01, 15.086), (5, 0.001, 20.515),
    (10, 0.05, 18.307), (35, 0.05, 49.802), (35, 0.01, 57.342), (100, 0.05, 124.342), (100, 0.001, 149.449),
]  # fmt: skip


@pytest.mark.parametrize(("a", "x", "p"), GAMMA_INC_VALUES)
def test_the_published_table_of_the_incomplete_gamma(a: float, x: float, p: float) -> None:
    assert special.gamma_p(a, x) == pytest.approx(p, rel=2e-14)
    assert special.gamma_q(a, x) == pytest.approx(1 - p, abs=2e-14)


@pytest.mark.parametrize(("df", "tail", "value"), CRITICAL)
def test_the_published_critical_values_of_chi_square(df: int, tail: float, value: float) -> None:
    low, high = (chi_square.upper_tail(value + off, df) for off in (0.0006, -0.0006))
    assert low < tail < high


def whole_q(a: int, x: str) -> Decimal:
    """Q(a, x) for whole a: e^-x times the sum of x^k / k! below a, in 60 digits."""
    getcontext().prec = 60
    term, total = Decimal(1), Decimal(0)
    for k in range(a):
        total += term
        term = term * Decimal(x) / (k + 1)
    return total * (-Decimal(x)).exp()


@pytest.mark.parametrize("a", [1, 2, 5, 17, 18, 50, 200, 999])
@pytest.mark.parametrize("factor", ["0.5", "0.9", "1", "1.1", "1.5", "3"])
def test_whole_orders_agree_with_sixty_digits(a: int, factor: str) -> None:
    x = str(Decimal(factor) * a)
    q = whole_q(a, x)
    assert special.gamma_q(a, float(x)) == pytest.approx(float(q), rel=1e-12)
    assert special.gamma_p(a, float(x)) == pytest.approx(float(1 - q), rel=1e-12)


@given(st.integers(1, 60), st.floats(0.01, 200))
def test_half_orders_agree_with_the_error_function(half: int, x: float) -> None:
    """Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1), from Q(1/2, x) = erfc(sqrt x)."""
    a, q = 0.5, math.erfc(math.sqrt(x))
    for _ in range(half):
        q += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    assert special.gamma_q(a, x) == pytest.approx(q, rel=1e-12)


@given(st.floats(0.05, 1e4), st.floats(0, 2e4), st.floats(0, 100))
def test_the_tail_is_a_probability_and_falls(a: float, x: float, more: float) -> None:
    q = special.gamma_q(a, x)
    assert 0 <= q <= 1
    assert special.gamma_q(a, x + more) <= q + 1e-12
    assert special.gamma_p(a, x) + q == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("a", "x"), [(0, 1), (-1, 1), (1, -1), (math.inf, 1), (math.nan, 1), (1, math.nan)])
def test_no_other_arguments_of_the_incomplete_gamma(a: float, x: float) -> None:
    with pytest.raises(ValueError, match="is for a > 0"):
        special.gamma_q(a, x)


def test_the_ends_of_the_incomplete_gamma() -> None:
    assert special.gamma_q(3, 0) == 1
    assert special.gamma_p(3, 0) == 0
    assert special.gamma_q(3, math.inf) == 0


# --- binomial ---------------------------------------------------------------------------------------------------------


def exact_at_least(n: int, k: int, p: Fraction) -> Fraction:
    return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(max(k, 0), n + 1)), Fraction())


@given(st.integers(0, 250), st.data(), st.sampled_from([Fraction(1, 36), SIXTH, Fraction(1, 2), Fraction(5, 6)]))
def test_tails_agree_with_fractions(n: int, data: st.DataObject, p: Fraction) -> None:
    k = data.draw(st.integers(-1, n + 1))
    above = exact_at_least(n, k, p)
    assert binomial.at_least(n, k, float(p)) == pytest.approx(float(above), rel=1e-12)
    assert binomial.at_most(n, k - 1, float(p)) == pytest.approx(float(1 - above), rel=1e-12)


@pytest.mark.parametrize("k", [12_185, 12_447, 13_000, 11_000])
def test_the_tail_of_a_large_count_agrees_with_whole_numbers(k: int) -> None:
    """n = 438,679 at 1/36: weights from exact powers, each term an exact ratio of the one before, 2,000 bits kept."""
    n, bits = 438_679, 2_000
    term = Fraction(math.comb(n, k) * 35 ** (n - k) * 2**bits // 36**n)
    total, i = term, k
    if k * 36 > n:
        while term > 2 ** (bits - 1_200) and i < n:
            term, i = Fraction(int(term * (n - i) / ((i + 1) * 35))), i + 1
            total += term
        assert binomial.at_least(n, k, 1 / 36) == pytest.approx(float(total / 2**bits), rel=1e-11)
    else:
        while term > 2 ** (bits - 1_200) and i > 0:
            term, i = Fraction(int(term * i * 35 / (n - i + 1))), i - 1
            total += term
        assert binomial.at_most(n, k, 1 / 36) == pytest.approx(float(total / 2**bits), rel=1e-11)


@given(st.integers(0, 200), st.sampled_from([SIXTH, Fraction(1, 36), Fraction(1, 2)]), st.sampled_from([0.01, 0.2]))
def test_the_band_leaves_out_just_as_much_as_it_may(n: int, p: Fraction, outside: float) -> None:
    band = binomial.band(n, float(p), outside)
    below, above = 1 - exact_at_least(n, band.start, p), exact_at_least(n, band.stop, p)
    assert below <= outside / 2 < 1 - exact_at_least(n, band.start + 1, p)
    assert above <= outside / 2 < exact_at_least(n, band.stop - 1, p)


def test_a_tail_needs_trials_and_a_probability() -> None:
    for n, p in ((-1, 0.5), (5, 0.0), (5, 1.0), (5, math.nan)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            binomial.at_least(n, 1, p)
        with pytest.raises(ValueError, match="between 0 and 1"):
            binomial.at_most(n, 1, p)


def test_the_largest_of_the_thirty_six_as_the_field_has_it() -> None:
    case = FIELD["stats-top-of-36"]
    n, count = case["input"]["rolls"], case["input"]["top_count"]
    one = binomial.at_least(n, count, 1 / 36)
    assert binomial.largest_at_least(n, 36, count) == pytest.approx(case["expected"]["p_exact"], abs=5e-5)
    assert binomial.sidak(one, 36) == pytest.approx(case["expected"]["p_independent_cells"], abs=5e-4)
    assert binomial.sidak(one, 36) < binomial.largest_at_least(n, 36, count) < binomial.bonferroni(one, 36)


def exact_largest(n: int, cells: int, count: int) -> Fraction:
    """All ways to throw n into the cells, by the counts' generating function."""
    ways = [Fraction(1)] + [Fraction(0)] * n
    for _ in range(cells):
        ways = [
            sum((ways[m - k] / math.factorial(k) for k in range(min(m, count - 1) + 1)), Fraction())
            for m in range(n + 1)
        ]
    return 1 - ways[n] * math.factorial(n) / Fraction(cells) ** n


@pytest.mark.parametrize("cells", [2, 6, 36])
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_the_largest_cell_agrees_with_fractions(cells: int, n: int) -> None:
    for count in range(-(-n // cells), n + 2):
        exact = exact_largest(n, cells, count) if count else Fraction(1)
        got = binomial.largest_at_least(n, cells, count)
        assert got == pytest.approx(float(exact), rel=5e-6, abs=2e-13), (n, cells, count)


@given(st.floats(0, 1), st.integers(1, 100))
def test_sidak_is_never_above_bonferroni(p: float, tests: int) -> None:
    assert p * (1 - 1e-12) <= binomial.sidak(p, tests) <= binomial.bonferroni(p, tests) * (1 + 1e-12)


# --- chi-square -------------------------------------------------------------------------------------------------------


def test_the_chi_squares_of_the_field() -> None:
    case = FIELD["stats-chi2"]
    for (statistic, df), p, published in zip(
        case["input"]["cases"], case["expected"]["p"], case["expected"]["published"], strict=True
    ):
        got = chi_square.upper_tail(float(statistic), df)
        assert got == pytest.approx(float(p), rel=1e-11)
        assert round(got, 2) == published


def test_the_statistic_of_counts() -> None:
    """The textbook die: 60 throws, 5, 8, 9, 8, 10 and 20 of its faces."""
    result = chi_square.of_equal_cells([5, 8, 9, 8, 10, 20])
    assert result is not None
    assert (result.statistic, result.df, result.enough) == (pytest.approx(13.4), 5, True)
    assert result.p == pytest.approx(0.01991, abs=5e-5)


def test_little_or_nothing_counted() -> None:
    assert chi_square.of_equal_cells([0, 0]) is None
    few = chi_square.of_equal_cells([1, 2])
    assert few is not None
    assert not few.enough
    with pytest.raises(ValueError, match="two cells"):
        chi_square.of_equal_cells([3])
    with pytest.raises(ValueError, match="degree"):
        chi_square.upper_tail(1, 0)


# --- odds -------------------------------------------------------------------------------------------------------------


def test_the_odds_of_the_field() -> None:
    case = FIELD["stats-25-rolls"]
    rolls, expected = case["input"]["rolls_per_player"], case["expected"]
    exact = {
        "p_at_least_one_double": odds.any_hit(rolls, SIXTH),
        "p_run_of_2": odds.streak(rolls, 2, SIXTH),
        "p_run_of_3": odds.streak(rolls, 3, SIXTH),
        "p_opponent_two_or_more_ahead": odds.opponent_ahead(rolls, 2, SIXTH),
    }
    for name, fraction in exact.items():
        assert fraction == Fraction(expected[name]["fraction"])
    assert odds.in_games(exact["p_run_of_3"], 20) == pytest.approx(Fraction(expected["p_run_of_3_in_20_games"]))
    game = odds.expect(rolls, 20)
    assert game.mean == pytest.approx(float(Fraction(expected["mean_doubles"]["fraction"])))
    shown = [game.streaks[0], game.streaks[1], game.streaks[2], game.ahead[1], game.streaks_in_games[2]]
    assert [round(100 * one, 2) for one in shown] == expected["published_percent"]


@pytest.mark.parametrize("rolls", [0, 1, 2, 5, 7])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_streaks_agree_with_all_games_written_out(rolls: int, length: int) -> None:
    p = Fraction(1, 3)
    total = Fraction()
    for game in product((0, 1), repeat=rolls):
        if "1" * length in "".join(map(str, game)):
            total += p ** sum(game) * (1 - p) ** (rolls - sum(game))
    assert odds.streak(rolls, length, p) == total


@pytest.mark.parametrize("by", [1, 2, 3])
def test_the_opponent_agrees_with_all_pairs_of_games(by: int) -> None:
    p = Fraction(1, 3)
    weights = {k: math.comb(4, k) * p**k * (1 - p) ** (4 - k) for k in range(5)}
    total = sum((a * b for (x, a), (y, b) in product(weights.items(), repeat=2) if x - y >= by), Fraction())
    assert odds.opponent_ahead(4, by, p) == total


@given(st.integers(1, 300), st.integers(1, 8), st.sampled_from([SIXTH, Fraction(1, 36), Fraction(35, 36)]))
def test_floats_agree_with_fractions(rolls: int, length: int, p: Fraction) -> None:
    exact = odds.streak(rolls, length, p)
    assert odds.streak(rolls, length, float(p)) == pytest.approx(float(exact), rel=1e-12)
    ahead = odds.opponent_ahead(rolls % 60, length, p)
    assert odds.opponent_ahead(rolls % 60, length, float(p)) == pytest.approx(float(ahead), rel=1e-11)
    assert odds.in_games(float(exact), 20) == pytest.approx(float(odds.in_games(exact, 20)), rel=1e-12)


@given(st.integers(0, 400), st.integers(1, 6))
def test_longer_games_have_more_streaks_and_longer_streaks_are_rarer(rolls: int, length: int) -> None:
    curve = odds.streak_curve(rolls + 1, length, 1 / 6)
    assert curve == sorted(curve)
    assert odds.streak(rolls, length + 1, 1 / 6) <= curve[-1]


def test_a_game_has_a_length() -> None:
    for rolls, games in ((0, 1), (odds.MAX_ROLLS + 1, 1), (25, 0)):
        with pytest.raises(ValueError, match="game"):
            odds.expect(rolls, games)
    with pytest.raises(ValueError, match="streak"):
        odds.streak(25, 0, SIXTH)
    with pytest.raises(ValueError, match="streak"):
        odds.streak(-1, 1, SIXTH)


def test_the_longest_game_is_computed() -> None:
    game = odds.expect(odds.MAX_ROLLS, 1)
    assert game.streaks[0] == pytest.approx(1)
    assert 0.4 < game.ahead[0] < 0.5
    assert odds.in_games(1.0, 3) == 1
