"""Exact binomial tails, and the exact odds that the largest of many equal cells is that large.

"Exact" means the binomial law itself, no normal approximation; sums in floats, good to about 1e-12 of their value.
"""

from __future__ import annotations

import bisect
import cmath
import math
from collections.abc import Callable, Iterable
from typing import Final

from verifier.statistics.special import deviance, poisson_weight, stirling_error

_ENOUGH: Final = 1e-18


def pmf(n: int, k: int, p: float) -> float:
    """The probability of exactly k of n. 0 < p < 1."""
    if not 0 <= k <= n:
        return 0.0
    q = 1 - p
    if k in {0, n}:
        return math.exp(n * math.log1p(-p)) if k == 0 else p**n
    log = stirling_error(n) - stirling_error(k) - stirling_error(n - k) - deviance(k, n * p) - deviance(n - k, n * q)
    return math.exp(log) * math.sqrt(n / (2 * math.pi * k * (n - k)))


def at_least(n: int, k: int, p: float) -> float:
    """P(X >= k) for X of n trials with 0 < p < 1. ValueError for another p or a negative n."""
    _check(n, p)
    if k <= 0:
        return 1.0
    if k > n:
        return 0.0
    return _upper(n, k, p) if k > n * p else 1 - _lower(n, k - 1, p)


def at_most(n: int, k: int, p: float) -> float:
    """P(X <= k) for X of n trials with 0 < p < 1. ValueError for another p or a negative n."""
    _check(n, p)
    if k >= n:
        return 1.0
    if k < 0:
        return 0.0
    return _lower(n, k, p) if k < n * p else 1 - _upper(n, k + 1, p)


def two_sided(n: int, k: int, p: float) -> float:
    """Twice the smaller tail, at most 1."""
    return min(1.0, 2 * min(at_least(n, k, p), at_most(n, k, p)))


def band(n: int, p: float, outside: float) -> range:
    """The counts that chance seldom leaves: below them are at most outside / 2 of all, and above them as many."""
    below = _first(n + 1, lambda k: at_most(n, k, p) > outside / 2)
    beyond = _first(n + 1, lambda k: at_least(n, k + 1, p) <= outside / 2)
    return range(below, beyond + 1)


def _first(end: int, holds: Callable[[int], bool]) -> int:
    """The first of 0 .. end - 1 for which it holds, given that it holds from there on."""
    return bisect.bisect_left(range(end), True, key=holds)


def bonferroni(p: float, tests: int) -> float:
    """An upper bound on the odds that the smallest of `tests` p-values is that small, however they depend."""
    return min(1.0, p * tests)


def sidak(p: float, tests: int) -> float:
    """The same odds, exactly, if the tests were independent."""
    return -math.expm1(tests * math.log1p(-p)) if p < 1 else 1.0


def largest_at_least(n: int, cells: int, count: int) -> float:
    """The exact odds that the fullest of `cells` >= 2 equal cells holds `count` or more of n >= 0.

    The cells of a fixed total are independent Poisson counts given their sum: with X of mean n / cells,
    P(all < count) = P(X < count for each, and their sum = n) / P(Poisson(n) = n), the numerator being a Fourier sum.
    That is good to 1e-13 of 1; below 1e-7 the bound of Bonferroni, which is then as close, stands in its place.
    """
    _check(n, 1 / cells)
    if count * cells <= n or count <= 0:
        return 1.0
    if count > n:
        return 0.0
    bound = bonferroni(at_least(n, count, 1 / cells), cells)
    if bound < 1e-7:
        return bound
    return min(1.0, max(0.0, 1 - _all_below(n, cells, count) / poisson_weight(n, n)))


def _all_below(n: int, cells: int, count: int) -> float:
    mean = n / cells
    first = max(0, math.floor(mean - _reach(mean)))
    last = min(count - 1, math.ceil(mean + _reach(mean)))
    cut = [(k - mean, poisson_weight(k, mean)) for k in range(first, last + 1)]
    span = 2 * math.ceil(_reach(n))
    terms: list[float] = []
    for turn in range(span // 2 + 1):
        angle = 2j * math.pi * turn / span
        wave = sum(weight * cmath.exp(angle * value) for value, weight in cut) ** cells
        terms.append(wave.real * (1 if turn in {0, span // 2} else 2))
        if abs(wave) < _ENOUGH * terms[0]:
            break
    return math.fsum(terms) / span


def _reach(mean: float) -> float:
    """How far from its mean a Poisson count never is, to 1e-20."""
    return 12 * math.sqrt(mean) + 40


def _check(n: int, p: float) -> None:
    if n < 0 or not 0 < p < 1:
        raise ValueError("n trials with a probability between 0 and 1")


def _upper(n: int, k: int, p: float) -> float:
    return _tail(pmf(n, k, p), ((n - i) / (i + 1) * (p / (1 - p)) for i in range(k, n)))


def _lower(n: int, k: int, p: float) -> float:
    return _tail(pmf(n, k, p), (i / (n - i + 1) * ((1 - p) / p) for i in range(k, 0, -1)))


def _tail(first: float, ratios: Iterable[float]) -> float:
    """The sum of first, first * ratio, ...: terms of a tail, which fall ever faster."""
    terms = [first]
    term = total = first
    for ratio in ratios:
        term *= ratio
        terms.append(term)
        total += term
        if term <= total * _ENOUGH:
            break
    return math.fsum(terms)
