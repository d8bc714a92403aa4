"""When the service must not act on its own clock.

Rule 6.11 guards what hosts ask for. What the service does by itself at a deadline has to go on while drand is halted,
so it cannot always wait for a fitting round. It waits where the clock, not the chain, is at fault:

    the clock leapt against the machine's monotonic one, and no round has confirmed it since;
    rounds keep coming in at their pace, but do not fit the clock.

Right after the start nothing is known of either, so the same patience holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from beacon.clock import Clock
from beacon.sessions.rules import Rounds
from verifier.drand import ChainInfo
from verifier.rules import period

LEAP_MS: Final = 5_000
PATIENCE_PERIODS: Final = 3
PATIENCE_MS: Final = 10_000
_OF_THE_CLOCK: Final = frozenset({"clock-unsure", "no-verified-round"})
"""Any other trouble of a chain says nothing of the clock, and does not pass by waiting."""


def machine_ms() -> int:
    """Milliseconds of the machine's monotonic clock."""
    return time.monotonic_ns() // 1_000_000


class _Seen(NamedTuple):
    """The newest round, since when (ms, monotonic), and whether it came faster than time passes: a chain that makes up
    for a halt, while the clock may well be right.
    """

    number: int | None
    since: int
    at: int
    fast: bool


class ClockDoubt:
    """Compares the clock with the chains and with a monotonic clock, each time it is asked. Any thread."""

    def __init__(self, rounds: Rounds, clock: Clock, monotonic: Callable[[], int] = machine_ms) -> None:
        self._rounds: Final = rounds
        self._clock: Final = clock
        self._monotonic: Final = monotonic
        self._started: Final = monotonic()
        self._confirmed = (clock.now(), self._started)
        self._seen: Final[dict[bytes, _Seen]] = {}

    def about(self, chain: ChainInfo) -> str | None:
        """Why the clock is in doubt now, or None."""
        now, elapsed = self._clock.now(), self._monotonic()
        newest = self._rounds.newest(chain.hash)
        number = None if newest is None else newest.round
        seen = self._seen.get(chain.hash)
        if seen is None:
            seen = _Seen(number, self._started, elapsed, fast=False)
        elif number != seen.number:
            came = ((number or 0) - (seen.number or 0)) * period(chain)
            seen = _Seen(number, elapsed, elapsed, fast=seen.number is not None and came > 2 * (elapsed - seen.at))
        self._seen[chain.hash] = seen
        trouble = self._rounds.trouble(chain.hash, now)
        if trouble is None:
            self._confirmed = (now, elapsed)
            return None
        leap = (now - self._confirmed[0]) - (elapsed - self._confirmed[1])
        if abs(leap) > LEAP_MS:
            return f"the clock leapt by {leap} ms, and no round has confirmed it since"
        if trouble not in _OF_THE_CLOCK or seen.fast:
            return None
        if elapsed - seen.since < PATIENCE_PERIODS * period(chain) + PATIENCE_MS:
            return "the clock and the newest round do not fit, and it is too soon to say that the chain stands still"
        return None
