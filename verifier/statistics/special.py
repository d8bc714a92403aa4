"""The regularized incomplete gamma function, and the two terms that keep a binomial or Poisson weight accurate.

Weights are written as exp(-deviance) / sqrt(2 pi ...) with Stirling's error apart (C. Loader, "Fast and accurate
computation of binomial probabilities", 2000): differences of large logarithms, which lose digits, never come up.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

_ENOUGH: Final = 1e-17
_TINY: Final = 1e-300
_STIRLING: Final = (1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188)
_HALF_LOG_TWO_PI: Final = 0.5 * math.log(2 * math.pi)
MAX_TERMS: Final = 1_000_000


@lru_cache(maxsize=4096)
def stirling_error(n: float) -> float:
    """Stirling's error: log Gamma(n + 1) - log(sqrt(2 pi n) (n / e)^n) for n > 0."""
    if n <= 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_TWO_PI
    a, b, c, d, e = _STIRLING
    square = n * n
    return (a - (b - (c - (d - e / square) / square) / square) / square) / n


def deviance(x: float, mean: float) -> float:
    """How unlike its mean x is: x log(x / mean) + mean - x, for x, mean > 0, without cancellation."""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    ratio = (x - mean) / (x + mean)
    total = (x - mean) * ratio
    term, power = 2 * x * ratio, ratio * ratio
    for odd in range(3, 1_000, 2):
        term *= power
        before, total = total, total + term / odd
        if total == before:
            break
    return total


def poisson_weight(k: float, mean: float) -> float:
    """mean^k e^-mean / Gamma(k + 1) for k >= 0, mean >= 0; k need not be whole."""
    if mean == 0:
        return 1.0 if k == 0 else 0.0
    if k == 0:
        return math.exp(-mean)
    return math.exp(-stirling_error(k) - deviance(k, mean)) / math.sqrt(2 * math.pi * k)


def gamma_q(a: float, x: float) -> float:
    """Q(a, x) = Gamma(a, x) / Gamma(a), the upper tail, for a > 0 and x >= 0 (DLMF 8.2.4). ValueError otherwise.

    The series of P below a + 1, the continued fraction of Q from there on (DLMF 8.11.4, 8.9.2).
    """
    if not (a > 0 and x >= 0 and math.isfinite(a)):
        raise ValueError("Q(a, x) is for a > 0 and x >= 0")
    if x == 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    weight = poisson_weight(a, x)
    if x < a + 1:
        return 1 - min(1.0, weight * _series(a, x))
    return weight * a * _fraction(a, x)


def gamma_p(a: float, x: float) -> float:
    """P(a, x) = 1 - Q(a, x), the lower tail, accurate where it is small."""
    if 0 < x < a + 1:
        return min(1.0, poisson_weight(a, x) * _series(a, x))
    return 1 - gamma_q(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1.0
    for k in range(1, MAX_TERMS):
        term *= x / (a + k)
        total += term
        if term < total * _ENOUGH:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Lentz's method for 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)))."""
    b = x + 1 - a
    c = 1 / _TINY
    d = 1 / b if b else 1 / _TINY
    total = d
    for k in range(1, MAX_TERMS):
        an = -k * (k - a)
        b += 2
        d = an * d + b
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = b + an / c
        c = c if abs(c) > _TINY else _TINY
        factor = c * d
        total *= factor
        if abs(factor - 1) < 1e-16:
            break
    return total
