"""One chain followed: what is due is fetched, verified, stored, and told to whoever listens.

Level-triggered: each `tick` asks anew what is due, so a lost wake costs time and never a round. What is due:

    wanted rounds    those that somebody waits for and whose time has come, in ascending order; a wanted round stays
                     wanted until it is stored and every listener has taken it
    the current one  when the newest verified round is older than `idle_age`: so the service knows the time by the
                     chain (rule 6.11). When it does not come, the last few before it are tried.

A round that relays hold back keeps no other waiting: after a short while the pass goes on with the next, and takes the
first when it comes. A round is never replaced by another (6.9): drand late or halted means that it stays wanted.

By what is due alone a slow clock would never show. So at the start, and whenever the current round was due by its age,
`look_ahead` asks for one that no relay has if the clock is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import structlog

from beacon.clock import Clock
from beacon.rounds.fetcher import Fetcher, NotFetched, Policy
from beacon.rounds.health import RelayHealth
from beacon.rounds.refusals import TellAgain
from beacon.rounds.store_protocol import Put, RoundStore
from beacon.rounds.stored import StoredRounds
from beacon.rounds.verify import RoundVerifier
from beacon.rounds.waiters import Waiters
from verifier.drand import ChainInfo, VerifiedRound

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

MAX_WAITERS: Final = 1_000

Listener: TypeAlias = Callable[[VerifiedRound], Awaitable[None]]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class Follower:
    """The state of one chain. Everything runs on one event loop."""

    def __init__(
        self,
        chain: ChainInfo,
        fetcher: Fetcher,
        store: RoundStore,
        verifier: RoundVerifier,
        clock: Clock,
        *,
        policy: Policy,
        listeners: Sequence[Listener],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.chain: Final = chain
        self.waiters: Final = Waiters(MAX_WAITERS)
        self.newest: VerifiedRound | None = None
        self.evidence: tuple[VerifiedRound, ...] = ()
        self._fetcher = fetcher
        self._stored = StoredRounds(chain, store, verifier)
        self._clock = clock
        self._policy = policy
        self._listeners = listeners
        self._sleep = sleep
        self._wanted: set[int] = set()
        self._resume_after = 0
        self._waiting = False
        self._held = False
        self._ahead_due = True
        self._behind = False
        self._accepting: set[asyncio.Future[bool]] = set()
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Take up what the store has and verifies: the newest round, and evidence that the chain is broken."""
        self.newest = await self._stored.newest()
        self.evidence = await self._stored.evidence()

    @property
    def damaged(self) -> tuple[int, ...]:
        """The rounds of which something is stored that does not verify."""
        return tuple(sorted(self._stored.damaged))

    @property
    def wanted(self) -> tuple[int, ...]:
        return tuple(sorted(self._wanted))

    def relay_healths(self) -> tuple[RelayHealth, ...]:
        """What each relay has done, in the order in which they would be asked now."""
        return tuple(relay.health(self.chain) for relay in self._fetcher.order())

    def want(self, round_number: int) -> bool:
        """Wait for a round; whether it is due already. ValueError for a round that the chain never has."""
        if not 1 <= round_number <= self.chain.final_round:
            raise ValueError(f"the chain has rounds 1 to {self.chain.final_round}")
        self._wanted.add(round_number)
        return round_number <= self._current()

    def forget(self, round_number: int) -> None:
        """Nobody waits for the round any more."""
        self._wanted.discard(round_number)

    async def get(self, round_number: int) -> VerifiedRound | None:
        """The stored round, verified, for anybody who asks; nothing is fetched."""
        return await self._stored.look_up(round_number)

    async def accept(self, verified: VerifiedRound) -> bool:
        """Store a verified round from anywhere and tell the listeners; whether all of them took it.

        Another signature of a stored round is evidence of a broken chain: it is kept, and told to nobody. Beside a row
        that does not verify the round is told as ever: sessions that wait for it end with what the chain signed.
        """
        if await self._stored.put(verified) is Put.CONFLICT:
            await self._keep_evidence(verified)
            return False
        self.waiters.arrived(verified.round, verified)
        if self.newest is None or verified.round > self.newest.round:
            self.newest = verified
            self.waiters.arrived(None, verified)
        return await self._tell(verified)

    async def tick(self) -> None:
        """Fetch what is due. Returns when all of it is in, or after about a period."""
        async with self._lock:
            self._ahead_due |= self._is_stale()
            deadline = self._clock.now() + self._policy.budget(self.chain)
            pauses = self._policy.backoffs()
            tried = await self._attempt(deadline)
            while tried and self._clock.now() < deadline:
                pause = next(pauses, None)
                if pause is None:
                    break
                await self._sleep(pause / 1000)
                tried = await self._attempt(deadline)
            if self._is_stale() and (self._waiting or self._held):
                await self._fall_back()
            if late := self._due():
                _log.info("rounds due and not in", chain=self.chain.beacon_id, count=len(late), first=min(late))

    async def look_ahead(self) -> None:
        """Ask for a round that is not due yet; one that verifies becomes the newest, and shows that the clock is slow.

        Once at the start, once for each tick that refreshed the current round, and after every tick while the clock is
        known to be slow, so that it does not catch up with the newest round unnoticed. To be called beside `tick` and
        not in it: relays may take their time over it.
        """
        current = self._current()
        if current < 1 or not (self._ahead_due or self._behind):
            return
        self._ahead_due = False
        round_number = current + self._policy.ahead(self.chain)
        while round_number in self._wanted:
            round_number += 1
        if round_number > self.chain.final_round or (self.newest and self.newest.round >= round_number):
            return
        found = await self._fetcher.look_ahead(round_number)
        if found and not self._behind:
            _log.error("the clock is slow: a later round exists", chain=self.chain.beacon_id, round=round_number)
        self._behind = bool(found)
        if found:
            await self._accept_all(found)

    async def drain(self) -> None:
        """After a `tick` was cancelled: let what it had begun to store and tell come to its end."""
        await asyncio.gather(*self._accepting, return_exceptions=True)

    async def _attempt(self, deadline: int) -> bool:
        """One pass over what is due; whether something still is. A pass that is cut short goes on in the next one."""
        under_way: set[asyncio.Task[bool]] = set()
        try:
            for round_number in self._due():
                task = asyncio.create_task(self._settle(round_number))
                under_way.add(task)
                await asyncio.wait({task}, timeout=self._policy.patience / 1000)
                if self._clock.now() >= deadline:
                    self._resume_after = round_number
                    break
            else:
                self._resume_after = 0
            if under_way:
                await asyncio.wait(under_way)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        return bool(self._due())

    def _due(self) -> list[int]:
        current = self._current()
        wanted = sorted(number for number in self._wanted if number <= current)
        wanted.sort(key=lambda number: number <= self._resume_after)
        if not self._is_stale():
            return wanted
        return [current, *(number for number in wanted if number != current)]

    def _current(self) -> int:
        return min(self.chain.current(self._clock.now()), self.chain.final_round)

    def _is_stale(self) -> bool:
        """Whether a newer round exists and the newest verified one is too old to know the time by."""
        current = self._current()
        if current < self.chain.current(self._clock.now()):
            return False
        if self.newest is None:
            return current > 0
        return current > self.newest.round and self._clock.now() - self.newest.time >= self._policy.idle_age

    async def _fall_back(self) -> None:
        least = self.newest.round if self.newest else 0
        current = self._current()
        holds = 0
        for round_number in range(current - 1, max(least, current - 1 - self._policy.fallback(self.chain)), -1):
            if await self._settle(round_number) or not (self._waiting or self._held):
                return
            # One round may be held, because it is the next one to come; a relay that hangs is not tried for ever.
            holds += self._held
            if holds > 1:
                return

    async def _settle(self, round_number: int) -> bool:
        """Have one round stored and told; whether it is in. What fails is logged, and due again at the next tick."""
        try:
            verified = await self._stored.get(round_number)
            valid = await self._fetcher.fetch(round_number) if verified is None else (verified,)
            if await self._accept_all(valid):
                self._wanted.discard(round_number)
            else:
                self._wanted.add(round_number)
        except NotFetched as error:
            self._waiting, self._held = error.waiting, error.held
            _log.debug("round not in", chain=self.chain.beacon_id, detail=str(error))
            return False
        except Exception:  # noqa: BLE001 - due again at the next tick
            self._waiting = self._held = False
            _log.exception("round not stored", chain=self.chain.beacon_id, round=round_number)
            return False
        return True

    async def _accept_all(self, valid: Sequence[VerifiedRound]) -> bool:
        """Accept a round, and whatever else the chain signed in its place; whether the first was taken by all.

        What has begun is not cancelled with whoever asked for it.
        """
        taken = []
        for verified in valid:
            accepting = asyncio.ensure_future(self.accept(verified))
            self._accepting.add(accepting)
            accepting.add_done_callback(self._accepting.discard)
            taken.append(await asyncio.shield(accepting))
        return taken[0]

    async def _tell(self, verified: VerifiedRound) -> bool:
        told = True
        for listener in self._listeners:
            try:
                await listener(verified)
            except TellAgain as why:
                told = False
                _log.info("a round waits", chain=self.chain.beacon_id, round=verified.round, reason=str(why))
            except Exception:  # noqa: BLE001 - told again at the next tick
                told = False
                _log.exception("listener failed", chain=self.chain.beacon_id, round=verified.round)
        return told

    async def _keep_evidence(self, verified: VerifiedRound) -> None:
        await self._stored.add_evidence(verified)
        self.evidence = await self._stored.evidence()
        _log.critical(
            "the chain signed one round twice, differently; nothing is sealed on it any more",
            chain=self.chain.hash.hex(),
            beacon=self.chain.beacon_id,
            round=verified.round,
            signature=verified.signature.hex(),
        )
