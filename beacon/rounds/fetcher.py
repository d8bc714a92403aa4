"""One chain's relays, asked for one round until an answer verifies.

A signature is unique and proves itself, so the first answer that verifies is the round; no quorum is needed. The relays
are asked in the order of what they are expected to cost. While the first has not answered for a short time a second is
asked as well, then a third; a refused answer has the next one asked at once. The first round that verifies ends the
race, and the requests under way are given up. An answer that was in by then and says otherwise is verified too: two
valid signatures of one round are what only a broken chain can show.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import structlog

from beacon.clock import Clock
from beacon.relay_urls import public_name
from beacon.rounds.health import hedge_after, ranked
from beacon.rounds.refusals import WAITING, Reason, Refusal
from beacon.rounds.relays import Relay, timer
from beacon.rounds.verify import RoundVerifier
from verifier.drand import ChainInfo, Round, VerifiedRound

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

USEFUL_PERIODS: Final = 3
USEFUL_MS: Final = 10_000
"""By rule 6.11 a round tells the time until this many periods and ms after it fell due."""

HEDGE_MS: Final = 1_000
AHEAD_MS: Final = 1_000
"""How long relays are waited for when they are asked for a round that should not be there yet."""
LEAST_AHEAD: Final = 2
LEAST_AHEAD_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Policy:
    """How a chain is followed. Times in ms.

    lead: how long after a round is due it is asked for, at the most a tenth of the period.
    idle_age: how old the newest verified round may be before the current one is fetched though nobody waits for it.
    attempts, first_backoff, max_backoff: passes over the relays within one period, and the pauses between them.
    timeout: for one HTTP request; None: a period of the chain, within limits, since relays hold requests.
    hedge: how long one relay is waited for, at the most, before the next is asked as well.
    patience: how long a pass waits for one round before it turns to the next one that is due.
    """

    lead: int = 400
    idle_age: int = 9_000
    attempts: int = 20
    first_backoff: int = 150
    max_backoff: int = 3_000
    timeout: int | None = None
    hedge: int = HEDGE_MS
    patience: int = 2_000

    def lead_of(self, chain: ChainInfo) -> int:
        """How long after time(R) a chain's rounds are asked for."""
        return min(self.lead, 100 * chain.period)

    def fallback(self, chain: ChainInfo) -> int:
        """How many rounds before the current one are tried when it does not come: as far back as 6.11 makes use of."""
        return USEFUL_PERIODS + -(-USEFUL_MS // (1_000 * chain.period))

    def ahead(self, chain: ChainInfo) -> int:
        """How many rounds after the current one no relay has one yet, if the service's clock is right."""
        return max(LEAST_AHEAD, -(-LEAST_AHEAD_MS // (1_000 * chain.period)))

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
        super().__init__(
            f"round {round_number}: " + ", ".join(f"{public_name(url)} {why}" for url, why in reasons.items())
        )
        self.round = round_number
        self.reasons = reasons

    @property
    def waiting(self) -> bool:
        """Whether some relay said "not yet": the round may be late, and one before it may be there."""
        return any(reason in WAITING for reason in self.reasons.values())

    @property
    def held(self) -> bool:
        """Whether some relay did not answer in time, as one that waits for a late round does."""
        return Reason.TIMEOUT in self.reasons.values()


class Fetcher:
    """Asks the relays of one chain."""

    def __init__(
        self,
        chain: ChainInfo,
        relays: Sequence[Relay],
        verifier: RoundVerifier,
        clock: Clock,
        *,
        hedge: int = HEDGE_MS,
    ) -> None:
        self.chain: Final = chain
        self._relays: Final = tuple(relays)
        self._verifier = verifier
        self._clock = clock
        self._hedge = hedge

    def order(self) -> tuple[Relay, ...]:
        """The relays as they would be asked now."""
        healths = [relay.health(self.chain) for relay in self._relays]
        return tuple(self._relays[position] for position in ranked(healths, timer()))

    async def fetch(self, round_number: int) -> tuple[VerifiedRound, ...]:
        """One race of the relays for a round that is due.

        The round that came first; any further ones are other valid signatures of it, which prove a broken chain.
        Raises NotFetched; ValueError when the round is not due.
        """
        if self.chain.time(round_number) > self._clock.now():
            raise ValueError(f"round {round_number} is not due")
        race = _Race(self.chain, round_number, self._verifier, self.order(), self._hedge)
        try:
            return await race.run()
        finally:
            await race.give_up()

    async def look_ahead(self, round_number: int) -> tuple[VerifiedRound, ...]:
        """A round that should not exist yet, asked of every relay at once, once and not for long; empty: not there.

        More than one: the chain signed the round twice. Answers and refusals do not count for or against a relay.
        """
        answers = await asyncio.gather(*(self._peek(relay, round_number) for relay in self._relays))
        found = []
        for stated in dict.fromkeys(answer for answer in answers if answer is not None):
            try:
                found.append(await self._verifier.verify(self.chain, stated))
            except Refusal as refusal:
                _log.debug("no round ahead", chain=self.chain.beacon_id, round=round_number, reason=str(refusal.reason))
        return tuple(found)

    async def _peek(self, relay: Relay, round_number: int) -> Round | None:
        try:
            async with asyncio.timeout(AHEAD_MS / 1000):
                return await relay.fetch(self.chain, round_number, ahead=True)
        except (Refusal, TimeoutError):
            return None


_Answer: TypeAlias = "asyncio.Task[tuple[Round | Refusal, float]]"


@dataclass
class _Race:
    """The state of one race. asked: what is under way or not yet looked at, with when it was asked."""

    chain: ChainInfo
    round: int
    verifier: RoundVerifier
    order: Sequence[Relay]
    hedge: int
    reasons: dict[str, Reason] = field(default_factory=dict)
    asked: dict[_Answer, tuple[Relay, float]] = field(default_factory=dict)
    won: bool = False

    async def run(self) -> tuple[VerifiedRound, ...]:
        waiting = deque(self.order)
        while True:
            if waiting and not self.asked:
                self._ask(waiting.popleft())
            if not self.asked:
                raise NotFetched(self.round, self.reasons)
            limit = self._patience() if waiting else None
            done, _ = await asyncio.wait(self.asked, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            for answer in sorted(done, key=lambda answer: self.asked[answer][1]):
                verified = await self._look_at(answer)
                if verified is not None:
                    self.won = True
                    return verified, *await self._others(verified)
            for _ in range(min(len(waiting), len(done) or 1)):
                self._ask(waiting.popleft())

    def _patience(self) -> float:
        """Seconds until another relay is asked beside those that are."""
        latest, since = list(self.asked.values())[-1]
        return hedge_after(latest.health(self.chain), timer(), self.hedge) / 1000 - (timer() - since)

    async def give_up(self) -> None:
        """End what is under way; where there is a winner, whoever had not answered was outrun."""
        for answer, (relay, since) in self.asked.items():
            if not answer.done():
                answer.cancel()
                if self.won:
                    relay.outrun(self.chain, 1000 * (timer() - since))
        if self.asked:
            await asyncio.wait(self.asked)
        self.asked.clear()

    def _ask(self, relay: Relay) -> None:
        self.asked[asyncio.create_task(self._answer(relay))] = relay, timer()

    async def _answer(self, relay: Relay) -> tuple[Round | Refusal, float]:
        since = timer()
        try:
            return await relay.fetch(self.chain, self.round), 1000 * (timer() - since)
        except Refusal as refusal:
            return refusal, 1000 * (timer() - since)

    async def _look_at(self, answer: _Answer) -> VerifiedRound | None:
        """Judge an answer that is in. None: refused."""
        relay, _ = self.asked.pop(answer)
        stated, elapsed = answer.result()
        if isinstance(stated, Round):
            try:
                verified = await self.verifier.verify(self.chain, stated)
            except Refusal as refusal:
                stated = refusal
            else:
                relay.succeeded(self.chain, self.round, elapsed)
                return verified
        relay.failed(self.chain, self.round, stated, elapsed)
        self.reasons[relay.url] = stated.reason
        return None

    async def _others(self, first: VerifiedRound) -> list[VerifiedRound]:
        """The other valid signatures among the answers that are in by now."""
        others: dict[bytes, VerifiedRound] = {}
        for answer in [answer for answer in self.asked if answer.done()]:
            stated, elapsed = answer.result()
            if stated == Round(first.round, first.signature, first.previous_signature):
                relay, _ = self.asked.pop(answer)
                relay.succeeded(self.chain, self.round, elapsed)
            elif (verified := await self._look_at(answer)) is not None:
                others[verified.signature] = verified
        return [verified for signature, verified in others.items() if signature != first.signature]
