"""Timelocks of seeds: sealed before the seal is public, opened by the service itself where nobody reveals (7.3).

With the native pairing it takes a few milliseconds of a thread; without it a quarter of a second of a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from beacon.errors import ApiError
from beacon.sessions.worker import Worker
from verifier import entries
from verifier.bls.verify import REFERENCE, Backend, best_backend
from verifier.custody import open_lock, parse_lock
from verifier.drand import ChainInfo, Round, verify_round
from verifier.encoding import encode_base64
from verifier.errors import Code, VerificationError, VerifierError
from verifier.timelock import can_carry, check_point, seal_timelock

T = TypeVar("T")
OPENING: Final = 2
"""Timelocks that are opened at once: many may be to one round, and others need the threads and the process."""
MARGIN_MS: Final = 60_000
"""From reveal_by to the timelock's round: the seal's time, and with it its reveal_by, is known a moment later."""


def lock_round(chain: ChainInfo, reveal_by: int) -> int | None:
    """The round that a seed is sealed to: some time after reveal_by (ms); None where the chain can carry none then."""
    number = chain.first_at(reveal_by + MARGIN_MS)
    return number if can_carry(chain.scheme) and number <= chain.final_round else None


class Locks:
    """Seals and opens, never on the event loop."""

    def __init__(self, worker: Worker, backend: Backend | None = None) -> None:
        """backend: the best that is installed if left out."""
        self._worker: Final = worker
        self._backend: Final = best_backend() if backend is None else backend
        self._opening: Final = asyncio.Semaphore(OPENING)

    async def seal(self, chain: ChainInfo, number: int, seed: bytes, now: int) -> entries.Timelock:
        """The timelock of a seed (32 bytes) to a round of a chain that can carry it."""
        ciphertext = await self._run(_sealed, chain, number, seed, now)
        return entries.Timelock(chain.hash, number, encode_base64(ciphertext))

    async def check(self, lock: entries.Timelock, chain: ChainInfo) -> None:
        """Raises ApiError(seal-timelock-invalid) for a host's timelock that cannot open, as far as that can be seen."""
        if not can_carry(chain.scheme):
            raise ApiError("seal-timelock-invalid", f"chains of {chain.scheme.name} cannot carry a timelock")
        try:
            await self._run(_checked, lock, chain)
        except VerifierError as error:
            raise ApiError("seal-timelock-invalid", error.message) from error

    async def open(self, seal: entries.Seal, chain: ChainInfo, logged: Round) -> bytes | None:
        """The last link s_N, 32 bytes; None where the timelock does not open to the commitment.

        logged: the timelock's round as the log has it. Raises ApiError(rounds-damaged) if the chain did not sign it.
        """
        try:
            async with self._opening:
                return await self._run(_opened, seal, chain, logged)
        except VerifierError as error:
            if error.code == Code.ROUND_SIGNATURE:
                raise ApiError("rounds-damaged", f"round {logged.round} in the log: {error.message}") from error
            return None

    async def _run(self, call: Callable[..., T], *arguments: object) -> T:
        if self._backend is REFERENCE:
            return await self._worker.run(call, *arguments)
        return await asyncio.to_thread(call, *arguments, self._backend)


def _sealed(chain: ChainInfo, number: int, seed: bytes, now: int, backend: Backend = REFERENCE) -> bytes:
    return seal_timelock(chain, number, seed, now=now, backend=backend)


def _checked(lock: entries.Timelock, chain: ChainInfo, backend: Backend = REFERENCE) -> None:
    check_point(parse_lock(lock, chain), chain, backend)


def _opened(seal: entries.Seal, chain: ChainInfo, logged: Round, backend: Backend = REFERENCE) -> bytes:
    try:
        verified = verify_round(chain, logged, backend)
    except VerifierError as error:
        raise VerificationError(Code.ROUND_SIGNATURE, error.message) from error
    return open_lock(seal, verified, backend)
