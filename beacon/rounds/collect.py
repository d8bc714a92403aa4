"""Rounds fetched by a command rather than by the service: some, a range, or what open sessions need; once or for good.

Each round is asked for by its number, when it is due, and verified; what is verified is left in the spool in small
files, so that a command that is stopped loses next to nothing. Which rounds are there already is for the caller to say:
those are not asked for again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from beacon.clock import Clock
from beacon.rounds.fetcher import Fetcher, NotFetched, Policy
from beacon.rounds.spool import MAX_ROUNDS, Spool
from verifier.drand import ChainInfo, VerifiedRound

JOBS: Final = 16
"""Requests under way at once."""
HOPELESS: Final = 16
"""After so many failures in a row each further round is asked for once only, until one comes."""


@dataclass
class Collected:
    """What became of the rounds of one chain.

    missing: by round, why the relays did not have it. twice: rounds that were signed twice, differently.
    """

    chain: ChainInfo
    fetched: int = 0
    known: int = 0
    not_due: list[int] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)
    twice: list[int] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every round that was asked for is there."""
        return not self.not_due and not self.missing

    @property
    def done(self) -> int:
        return self.fetched + self.known + len(self.missing)


Progress = Callable[[Collected], None]


class Collector:
    """Collects rounds of one chain into the spool."""

    def __init__(
        self,
        chain: ChainInfo,
        fetcher: Fetcher,
        spool: Spool,
        clock: Clock,
        *,
        policy: Policy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jobs: int = JOBS,
    ) -> None:
        self.chain: Final = chain
        self._fetcher = fetcher
        self._spool = spool
        self._clock = clock
        self._policy = policy
        self._sleep = sleep
        self._jobs = jobs
        self._failures = 0

    async def collect(
        self, numbers: Sequence[int], known: Iterable[int], progress: Progress = lambda _: None
    ) -> Collected:
        """One pass over the rounds, each asked for until it is there or, at the most, for about a period."""
        there = {*known, *self._spool.rounds(self.chain)}
        current = min(self.chain.current(self._clock.now()), self.chain.final_round)
        found = Collected(self.chain, known=sum(number in there for number in numbers))
        found.not_due = [number for number in numbers if number > current and number not in there]
        waiting = [number for number in numbers if number <= current and number not in there]
        batch: list[VerifiedRound] = []
        waiting.reverse()
        workers = [asyncio.create_task(self._work(waiting, found, batch, progress)) for _ in range(self._jobs)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._keep(batch)
        return found

    async def _work(self, waiting: list[int], found: Collected, batch: list[VerifiedRound], progress: Progress) -> None:
        while waiting:
            number = waiting.pop()
            try:
                valid = await self._fetch(number)
            except NotFetched as error:
                found.missing[number] = _most(error)
            else:
                found.fetched += 1
                batch += valid
                if len(valid) > 1:
                    found.twice.append(number)
                if len(batch) >= MAX_ROUNDS:
                    self._keep(batch)
            progress(found)

    async def _fetch(self, number: int) -> tuple[VerifiedRound, ...]:
        """Ask until the round is there, with growing pauses; NotFetched after about a period."""
        deadline = self._clock.now() + self._policy.budget(self.chain)
        pauses = self._policy.backoffs()
        while True:
            try:
                valid = await self._fetcher.fetch(number)
            except NotFetched:
                self._failures += 1
                pause = next(pauses, None)
                if pause is None or self._failures > HOPELESS or self._clock.now() + pause >= deadline:
                    raise
                await self._sleep(pause / 1000)
            else:
                self._failures = 0
                return valid

    def _keep(self, batch: list[VerifiedRound]) -> None:
        """Leave in the spool what is there; a second signature of a round goes into a file after that of the first."""
        kept, batch[:] = sorted(batch, key=lambda verified: verified.round), []
        self._spool.add(self.chain, kept)


def _most(error: NotFetched) -> str:
    """The reason that most relays gave."""
    reasons = Counter(str(reason) for reason in error.reasons.values())
    return reasons.most_common(1)[0][0] if reasons else "no-relay"
