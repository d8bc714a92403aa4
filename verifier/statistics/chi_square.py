"""Pearson's chi-square: how far counts are from what was due, and how often chance alone goes as far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from verifier.statistics.special import gamma_q

LEAST_EXPECTED: Final = 5
"""Below this expected count in a cell the p-value is a rough guide only (Cochran's rule of thumb)."""


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """The statistic, its degrees of freedom, the upper tail, and whether every cell was due LEAST_EXPECTED or more."""

    statistic: float
    df: int
    p: float
    enough: bool


def upper_tail(statistic: float, df: int) -> float:
    """P(chi-square with df degrees of freedom >= statistic). df >= 1, statistic >= 0; ValueError otherwise."""
    if df < 1:
        raise ValueError("at least one degree of freedom")
    return gamma_q(df / 2, statistic / 2)


def of_equal_cells(counts: Sequence[int], spread: float = 1.0) -> ChiSquare | None:
    """The test of two or more equally likely cells; None when nothing was counted. ValueError for fewer cells.

    spread: the variance of these counts in that of independent throws. For c different faces a roll out of s it is
    (s - c) / (s - 1), since a face that came keeps out of the roll's other dice.
    """
    if len(counts) < 2:
        raise ValueError("a test needs two cells")
    total = sum(counts)
    if not total:
        return None
    due = total / len(counts)
    statistic = math.fsum((count - due) ** 2 for count in counts) / due / spread
    df = len(counts) - 1
    return ChiSquare(statistic, df, upper_tail(statistic, df), due >= LEAST_EXPECTED)
