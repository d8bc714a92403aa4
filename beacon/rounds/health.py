"""What each relay has done for each chain, and in which order the relays are asked because of it.

A relay's cost is the milliseconds that it is expected to take, the price of its failures included: a moving average of
what happened, which drifts back to where it began while the relay is not asked. So a relay that was slow or wrong is
asked last, and is given another chance later. Only ratios of these numbers matter; nothing of it guards anything, since
every round is verified.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from beacon.rounds.refusals import LIES, WAITING, Reason

PRIOR_MS: Final = 300.0
"""What a relay is expected to cost before it has answered."""
HALF_LIFE_SECONDS: Final = 300.0
WEIGHT: Final = 0.5
NOT_YET_MS: Final = 500.0
FAILURE_MS: Final = 2_000.0
LIE_MS: Final = 60_000.0
LEAST_HEDGE_MS: Final = 100.0


@dataclass
class RelayHealth:
    """What one relay has done for one chain since the start.

    Times in ms of the service's clock. latency: of the last good answer, ms by a clock that never leaps; cost: see the
    module. last_round: the highest round of it that was verified. beaten: how often another relay was faster.
    """

    url: str
    answered: int = 0
    beaten: int = 0
    refused: Counter[Reason] = field(default_factory=Counter)
    failures_in_a_row: int = 0
    last_answer: int | None = None
    last_round: int | None = None
    last_failure: int | None = None
    last_reason: Reason | None = None
    latency: int | None = None
    cost: float = PRIOR_MS
    costed_at: float | None = None

    def succeeded(self, round_number: int, latency: float, now: int, timer: float) -> None:
        """A round of this relay was verified, `latency` ms after it was asked. now: ms; timer: monotonic seconds."""
        self.answered += 1
        self.failures_in_a_row = 0
        self.last_answer, self.latency = now, round(latency)
        self.last_round = max(round_number, self.last_round or 0)
        self._note(latency, timer)

    def failed(self, reason: Reason, elapsed: float, now: int, timer: float) -> None:
        """An answer, or the lack of one after `elapsed` ms, was refused."""
        self.refused[reason] += 1
        self.failures_in_a_row += 1
        self.last_failure, self.last_reason = now, reason
        if reason in WAITING:
            self._note(elapsed + NOT_YET_MS, timer)
        elif reason in LIES:
            self._note(LIE_MS, timer)
        else:
            self._note(min(elapsed + FAILURE_MS * 2.0 ** min(self.failures_in_a_row - 1, 8), LIE_MS), timer)

    def outrun(self, elapsed: float, timer: float) -> None:
        """Another relay's answer was verified while this one had not answered for `elapsed` ms."""
        self.beaten += 1
        self._note(max(elapsed, self.expected(timer)), timer)

    def expected(self, timer: float) -> float:
        """The cost now, ms."""
        if self.costed_at is None:
            return self.cost
        return PRIOR_MS + (self.cost - PRIOR_MS) * math.exp2((self.costed_at - timer) / HALF_LIFE_SECONDS)

    def _note(self, sample: float, timer: float) -> None:
        self.cost = (1 - WEIGHT) * self.expected(timer) + WEIGHT * sample
        self.costed_at = timer


def ranked(healths: Sequence[RelayHealth], timer: float) -> list[int]:
    """The positions of the relays in the order in which to ask them; equals stay as configured."""
    return sorted(range(len(healths)), key=lambda position: healths[position].expected(timer))


def hedge_after(health: RelayHealth, timer: float, limit: int) -> float:
    """How long to wait for this relay before a second one is asked as well, ms: twice what it is expected to take."""
    return min(max(2 * health.expected(timer), LEAST_HEDGE_MS), limit)
