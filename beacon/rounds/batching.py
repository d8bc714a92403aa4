"""Verification of many rounds at once for a command that has no event loop to keep free: batches, in a thread.

Whatever has come in while one batch is verified is the next batch, so the more rounds arrive the less each one costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from beacon.memory import forget_oldest
from beacon.rounds.refusals import Refusal
from beacon.rounds.verify import Checked, check_many, outcome_of
from verifier.drand import ChainInfo, Round, VerifiedRound

REMEMBERED: Final = 262_144
"""Rounds that are known to be valid, some 100 MB: what is forgotten is verified again."""


class BatchVerifier:
    """Verifies rounds together on the best backend there is. What was valid lately is not asked again."""

    def __init__(self) -> None:
        self._waiting: list[tuple[ChainInfo, Round, asyncio.Future[Checked]]] = []
        self._valid: Final[dict[tuple[bytes, Round], None]] = {}
        self._worker: asyncio.Task[None] | None = None

    async def verify(self, chain: ChainInfo, stated: Round) -> VerifiedRound:
        """Raises Refusal."""
        outcome = outcome_of(await self._enqueue(chain, stated))
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    async def verify_many(self, chain: ChainInfo, stated: Sequence[Round]) -> list[VerifiedRound | Refusal]:
        """One outcome for each, in order."""
        futures = [self._enqueue(chain, one) for one in stated]
        return [outcome_of(await future) for future in futures]

    def _enqueue(self, chain: ChainInfo, stated: Round) -> asyncio.Future[Checked]:
        future: asyncio.Future[Checked] = asyncio.get_running_loop().create_future()
        if (chain.hash, stated) in self._valid:
            future.set_result(VerifiedRound(chain, stated.round, stated.signature, stated.previous_signature))
            return future
        self._waiting.append((chain, stated, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return future

    async def _work(self) -> None:
        while self._waiting:
            chain = self._waiting[0][0]
            batch = [item for item in self._waiting if item[0] == chain]
            self._waiting = [item for item in self._waiting if item[0] != chain]
            try:
                checked = await asyncio.to_thread(check_many, chain, [stated for _, stated, _ in batch])
            except Exception as error:  # noqa: BLE001 - handed to all who wait
                for _, _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, stated, future), answer in zip(batch, checked, strict=True):
                if isinstance(answer, VerifiedRound):
                    self._valid[chain.hash, stated] = None
                if not future.done():
                    future.set_result(answer)
            forget_oldest(self._valid, REMEMBERED)
