"""One chain's relays, asked in turn for one round until an answer verifies.

A signature is unique and proves itself, so the first that verifies is the round; no quorum is needed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from beacon.clock import Clock
from beacon.rounds.refusals import WAITING, Reason, Refusal
from beacon.rounds.relays import Relay
from beacon.rounds.verify import RoundVerifier
from verifier.drand import ChainInfo, VerifiedRound

USEFUL_PERIODS: Final = 3
USEFUL_MS: Final = 10_000
"""By rule 6.11 a round tells the time until this many periods and ms after it fell due."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a chain is followed. Times in ms.

    lead: how long after a round is due it is asked for, at the most a tenth of the period.
    idle_age: how old the newest verified round may be before the current one is fetched though nobody waits for it.
    attempts, first_backoff, max_backoff: passes over the relays within one period, and the pauses between them.
    timeout: for one HTTP request.
    """

    lead: int = 400
    idle_age: int = 9_000
    attempts: int = 20
    first_backoff: int = 150
    max_backoff: int = 3_000
    timeout: int = 4_000

    def lead_of(self, chain: ChainInfo) -> int:
        """How long after time(R) a chain's rounds are asked for."""
        return min(self.lead, 100 * chain.period)

    def fallback(self, chain: ChainInfo) -> int:
        """How many rounds before the current one are tried when it does not come: as far back as 6.11 makes use of."""
        return USEFUL_PERIODS + -(-USEFUL_MS // (1_000 * chain.period))

    def budget(self, chain: ChainInfo) -> int:
        """How long one pass over what is due may take, so that the next wake finds it done."""
        return 800 * chain.period

    def backoffs(self) -> Iterator[int]:
        """The pauses between attempts: doubling, bounded, each cut by up to a half at random."""
        pause = self.first_backoff
        for _ in range(self.attempts - 1):
            yield int(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, guards nothing
            pause = min(2 * pause, self.max_backoff)


class NotFetched(Exception):  # noqa: N818 - named by what happened
    """No relay had the round. reasons: per relay URL."""

    def __init__(self, round_number: int, reasons: dict[str, Reason]) -> None:
        super().__init__(f"round {round_number}: " + ", ".join(f"{url} {why}" for url, why in reasons.items()))
        self.round = round_number
        self.reasons = reasons

    @property
    def waiting(self) -> bool:
        """Whether some relay said "not yet": the round may be late, and one before it may be there."""
        return any(reason in WAITING for reason in self.reasons.values())


class Fetcher:
    """Asks the relays of one chain: the last one that had a good answer first, those that failed last."""

    def __init__(self, chain: ChainInfo, relays: Sequence[Relay], verifier: RoundVerifier, clock: Clock) -> None:
        self.chain: Final = chain
        self._order = list(relays)
        self._verifier = verifier
        self._clock = clock

    async def fetch(self, round_number: int) -> VerifiedRound:
        """One pass over the relays for a round that is due. Raises NotFetched."""
        reasons: dict[str, Reason] = {}
        for relay in tuple(self._order):
            since = self._clock.now()
            try:
                stated = await relay.fetch(self.chain, round_number)
                verified = await self._verifier.verify(self.chain, stated)
            except Refusal as refusal:
                relay.failed(self.chain, round_number, refusal)
                reasons[relay.url] = refusal.reason
                if refusal.reason not in WAITING:
                    self._move(relay, len(self._order))
            else:
                relay.succeeded(self.chain, since)
                self._move(relay, 0)
                return verified
        raise NotFetched(round_number, reasons)

    def _move(self, relay: Relay, place: int) -> None:
        self._order.remove(relay)
        self._order.insert(place, relay)
