"""What the rounds need of a store. The service's one is in log.db; tests bring one in memory."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from verifier.drand import ChainInfo, Round, VerifiedRound


class Put(StrEnum):
    """NEW: stored now. SAME: stored before, with this signature. CONFLICT: stored with another; nothing changed.

    DAMAGED: what is stored does not verify. A store never says so, since it verifies nothing; who reads it does.
    """

    NEW = "new"
    SAME = "same"
    CONFLICT = "conflict"
    DAMAGED = "damaged"


class RoundStore(Protocol):
    """Rounds, one per (chain hash, round), for ever; and the evidence of chains that signed a round twice.

    Only verified rounds are put in; what is read back is no more than what the store states.
    Every call may raise the store's errors. What `put` and `add_evidence` have returned from is durable.
    """

    async def put(self, verified: VerifiedRound) -> Put: ...

    async def get(self, chain: ChainInfo, round_number: int) -> Round | None: ...

    async def newest(self, chain: ChainInfo) -> Round | None:
        """The stored round of the chain with the highest number."""
        ...

    async def add_evidence(self, verified: VerifiedRound) -> None:
        """Keep a second valid signature of a stored round, beside the first. The same one again is no error."""
        ...

    async def evidence(self, chain: ChainInfo) -> Sequence[Round]:
        """What `add_evidence` was given for the chain, in any order."""
        ...
