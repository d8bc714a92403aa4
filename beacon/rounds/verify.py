"""Verification of fetched rounds in a process of its own: a pairing in pure Python would hold the event loop up."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Final, Protocol

from beacon.rounds.refusals import Reason, Refusal
from verifier.bls.errors import PointError, PointFault
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round
from verifier.errors import Code, VerifierError

_POINT_REASONS: Final = {PointFault.IDENTITY: Reason.IDENTITY, PointFault.SUBGROUP: Reason.SUBGROUP}


class RoundVerifier(Protocol):
    """Turns a stated round into a verified one, or raises Refusal."""

    async def verify(self, chain: ChainInfo, stated: Round) -> VerifiedRound: ...


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
        try:
            outcome = await self._run(chain, stated)
        except BrokenProcessPool:
            outcome = await self._run(chain, stated)
        if isinstance(outcome, VerifiedRound):
            return outcome
        raise Refusal(*outcome)

    async def _run(self, chain: ChainInfo, stated: Round) -> VerifiedRound | tuple[Reason, str]:
        self.start()
        pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, check, chain, stated)
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            raise

    async def stop(self) -> None:
        """End the worker; what it is at is finished, what waits for it is cancelled."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def check(chain: ChainInfo, stated: Round) -> VerifiedRound | tuple[Reason, str]:
    """Verify in this process. A refusal is returned rather than raised, since it crosses a process boundary."""
    try:
        return verify_round(chain, stated)
    except PointError as error:
        return _POINT_REASONS.get(error.fault, Reason.ENCODING), error.message
    except VerifierError as error:
        return (Reason.SIGNATURE if error.code is Code.ROUND_SIGNATURE else Reason.FIELDS), error.message


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
