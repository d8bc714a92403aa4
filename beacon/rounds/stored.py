"""The stored rounds of one chain, none of which is used before it was verified in this process.

The triggers of log.db stand against change and removal, not against a row that somebody adds while the service is
stopped. So a row is no more than what somebody states, like a relay's answer. One that does not verify can be neither
removed nor replaced: it is never used, and `damaged` names its round from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from beacon.memory import forget_oldest
from beacon.rounds.refusals import Refusal
from beacon.rounds.store_protocol import Put, RoundStore
from beacon.rounds.verify import RoundVerifier
from verifier.drand import ChainInfo, Round, VerifiedRound

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

REMEMBERED: Final = 4_096


class StoredRounds:
    """What one chain has in the store. damaged: the rounds whose rows, or second signatures, do not verify."""

    def __init__(self, chain: ChainInfo, store: RoundStore, verifier: RoundVerifier) -> None:
        self._chain: Final = chain
        self._store: Final = store
        self._verifier: Final = verifier
        self._outcomes: Final[dict[Round, VerifiedRound | Refusal]] = {}
        self.damaged: Final[set[int]] = set()
        self._one_at_a_time: Final = asyncio.Lock()

    async def newest(self) -> VerifiedRound | None:
        """The stored round with the highest number; None too where it does not verify."""
        return await self._usable(await self._store.newest(self._chain))

    async def get(self, round_number: int) -> VerifiedRound | None:
        """The stored round of this number; None too where it does not verify."""
        return await self._usable(await self._store.get(self._chain, round_number))

    async def look_up(self, round_number: int) -> VerifiedRound | None:
        """As `get`, for anybody who asks: they are verified one at a time, so that no other work waits for many."""
        stated = await self._store.get(self._chain, round_number)
        if stated is None or stated in self._outcomes:
            return await self._usable(stated)
        async with self._one_at_a_time:
            return await self._usable(stated)

    async def put(self, verified: VerifiedRound) -> Put:
        """Store a round. CONFLICT: another one of its number is there, and verifies as well.

        DAMAGED: another row is there that does not verify; it stays, since rows only grow.
        """
        self._remember(Round(verified.round, verified.signature, verified.previous_signature), verified)
        outcome = await self._store.put(verified)
        if outcome is Put.CONFLICT and await self.get(verified.round) is None:
            return Put.DAMAGED
        return outcome

    async def add_evidence(self, verified: VerifiedRound) -> None:
        """Keep a second valid signature of a stored round."""
        await self._store.add_evidence(verified)

    async def evidence(self) -> tuple[VerifiedRound, ...]:
        """The second signatures that verify, of rounds whose stored row verifies with another."""
        found = []
        seconds = await self._store.evidence(self._chain)
        for second in await self._verify(seconds):
            if second is None:
                continue
            first = await self.get(second.round)
            if first is None or first.signature == second.signature:
                self._report(second.round, "a second signature without another first one")
            else:
                found.append(second)
        return tuple(found)

    async def _usable(self, stated: Round | None) -> VerifiedRound | None:
        return None if stated is None else (await self._verify([stated]))[0]

    async def _verify(self, stated: Sequence[Round]) -> list[VerifiedRound | None]:
        """The verified round for each, or None for one that is none: reported, and never asked for again soon."""
        fresh = [one for one in dict.fromkeys(stated) if one not in self._outcomes]
        answers = dict(zip(fresh, await self._verifier.verify_many(self._chain, fresh), strict=True)) if fresh else {}
        outcomes = [answers.get(one) or self._outcomes[one] for one in stated]
        for one, answer in answers.items():
            self._remember(one, answer)
        for one, outcome in zip(stated, outcomes, strict=True):
            if isinstance(outcome, Refusal):
                self._report(one.round, str(outcome))
        return [outcome if isinstance(outcome, VerifiedRound) else None for outcome in outcomes]

    def _remember(self, stated: Round, outcome: VerifiedRound | Refusal) -> None:
        self._outcomes[stated] = outcome
        forget_oldest(self._outcomes, REMEMBERED)

    def _report(self, round_number: int, why: str) -> None:
        if round_number in self.damaged:
            return
        self.damaged.add(round_number)
        _log.critical(
            "a stored round does not verify; it is not used, and nothing is sealed on the chain any more",
            chain=self._chain.hash.hex(),
            beacon=self._chain.beacon_id,
            round=round_number,
            reason=why,
        )
