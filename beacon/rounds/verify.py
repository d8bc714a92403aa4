"""Verification of rounds in a process of its own: a pairing in pure Python would hold the event loop up."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Final, Protocol, TypeAlias, TypeVar

from beacon.rounds.refusals import Reason, Refusal
from verifier.bls.errors import PointError, PointFault
from verifier.bls.verify import best_backend
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round, verify_rounds
from verifier.errors import Code, VerifierError

T = TypeVar("T")

Checked: TypeAlias = VerifiedRound | tuple[Reason, str]

_POINT_REASONS: Final = {PointFault.IDENTITY: Reason.IDENTITY, PointFault.SUBGROUP: Reason.SUBGROUP}


class RoundVerifier(Protocol):
    """Turns stated rounds into verified ones."""

    async def verify(self, chain: ChainInfo, stated: Round) -> VerifiedRound:
        """Raises Refusal."""
        ...

    async def verify_many(self, chain: ChainInfo, stated: Sequence[Round]) -> list[VerifiedRound | Refusal]:
        """One outcome for each, in order."""
        ...


class VerifyPool:
    """One worker process, started anew when it dies."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> None:
        """Start the worker and its imports now, so that the first round does not wait for them."""
        if self._pool is None:
            self._pool = _open_pool()
            self._pool.submit(_nothing)

    async def verify(self, chain: ChainInfo, stated: Round) -> VerifiedRound:
        """Verify one round; raises Refusal, and BrokenProcessPool when the worker dies twice over it."""
        outcome = outcome_of(await self._twice(check, chain, stated))
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    async def verify_many(self, chain: ChainInfo, stated: Sequence[Round]) -> list[VerifiedRound | Refusal]:
        """Verify rounds of one chain together, which takes far less than one by one."""
        return [outcome_of(checked) for checked in await self._twice(check_many, chain, list(stated))]

    async def _twice(self, work: Callable[..., T], *arguments: object) -> T:
        try:
            return await self._run(work, *arguments)
        except BrokenProcessPool:
            return await self._run(work, *arguments)

    async def _run(self, work: Callable[..., T], *arguments: object) -> T:
        self.start()
        pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            raise

    async def stop(self) -> None:
        """End the worker; what it is at is finished, what waits for it is cancelled."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def check(chain: ChainInfo, stated: Round) -> Checked:
    """Verify in this process. A refusal is returned rather than raised, since it crosses a process boundary."""
    try:
        return verify_round(chain, stated)
    except VerifierError as error:
        return _reason(error)


def check_many(chain: ChainInfo, stated: Sequence[Round]) -> list[Checked]:
    """Verify rounds of one chain in this process, all together on the best backend; one outcome each, in order."""
    return [
        checked if isinstance(checked, VerifiedRound) else _reason(checked)
        for checked in verify_rounds(chain, stated, best_backend())
    ]


def _reason(error: VerifierError) -> tuple[Reason, str]:
    if isinstance(error, PointError):
        return _POINT_REASONS.get(error.fault, Reason.ENCODING), error.message
    return (Reason.SIGNATURE if error.code is Code.ROUND_SIGNATURE else Reason.FIELDS), error.message


def outcome_of(checked: Checked) -> VerifiedRound | Refusal:
    """The round, or why it is none."""
    return checked if isinstance(checked, VerifiedRound) else Refusal(*checked)


def _open_pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_prepare_worker)


def _nothing() -> None:
    """Sent to the worker to have it started."""


def _prepare_worker() -> None:
    """Leave interrupts to the parent, and never outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
