"""What is counted where it happens, at little cost, for Prometheus to read: histograms, and the time of commits."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES: Final = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)


class Histogram:
    """How many values were at most each bound, and their sum. One thread observes, any may read."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """bounds: ascending."""
        self._bounds: Final = tuple(bounds)
        self._counts: Final = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Each bound and how many values were at most that, as Prometheus has them; the last one is +Inf."""
        names = [*map(repr, self._bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


class CommitTimer:
    """Told of a writer's steps, on its thread: how long each transaction took from its begin until it was durable."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """clock: seconds."""
        self._clock: Final = clock
        self._begun = 0.0
        self.seconds: Final = Histogram(SECONDS)

    def step(self, name: str) -> None:
        """One step of a write, as beacon.store.writer names them."""
        if name == "begun":
            self._begun = self._clock()
        elif name == "committed":
            self.seconds.observe(self._clock() - self._begun)
