"""The facade: all chains that the service follows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import aiohttp

from beacon.clock import Clock
from beacon.rounds.fetcher import USEFUL_MS, USEFUL_PERIODS, Fetcher, Policy
from beacon.rounds.follower import Follower, Listener, Sleep
from beacon.rounds.relays import Relay, RelayHealth, open_session
from beacon.rounds.schedule import Schedule
from beacon.rounds.store_protocol import RoundStore
from beacon.rounds.verify import RoundVerifier, VerifyPool
from verifier.drand import ChainInfo, VerifiedRound

_AHEAD_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Followed:
    """A chain to follow, and the base URLs of its relays."""

    chain: ChainInfo
    relays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """What is known of one chain now. wanted: rounds that somebody waits for."""

    chain: ChainInfo
    newest: VerifiedRound | None
    trouble: str | None
    wanted: tuple[int, ...]
    relays: tuple[RelayHealth, ...]


class Rounds:
    """Follows chains. Between `start` and `stop`, on one event loop. A chain is named by its chain hash (32 bytes)."""

    def __init__(
        self,
        chains: Iterable[Followed],
        store: RoundStore,
        clock: Clock,
        *,
        policy: Policy | None = None,
        verifier: RoundVerifier | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """verifier: None for a worker process of its own. sleep: for tests with a clock of their own."""
        self._chains = {followed.chain.hash: followed for followed in chains}
        self._store = store
        self._clock = clock
        self._policy = policy or Policy()
        self._pool = VerifyPool() if verifier is None else None
        self._verifier = verifier or self._pool
        self._sleep = sleep
        self._listeners: list[Listener] = []
        self._followers: dict[bytes, Follower] = {}
        self._relays: dict[bytes, tuple[Relay, ...]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._schedule: Schedule | None = None

    async def start(self, *, scheduled: bool = True) -> None:
        """Read what is stored and begin to follow. scheduled=False: only `tick` does anything."""
        try:
            await self._start(scheduled=scheduled)
        except BaseException:
            await self.stop()
            raise

    async def _start(self, *, scheduled: bool) -> None:
        if self._pool is not None:
            self._pool.start()
        self._session = open_session()
        for chain_hash, followed in self._chains.items():
            self._relays[chain_hash] = tuple(
                Relay(url, self._session, self._clock, self._policy.timeout) for url in followed.relays
            )
            self._followers[chain_hash] = self._follow(followed.chain)
            await self._followers[chain_hash].load()
        if scheduled:
            self._schedule = Schedule(self._clock)
            for follower in self._followers.values():
                self._schedule.add(follower.chain, follower.tick, self._policy.lead_of(follower.chain))
            self._schedule.start()

    async def stop(self) -> None:
        """End the wakes, what they began, the connections and the worker."""
        if self._schedule is not None:
            await self._schedule.stop()
            self._schedule = None
        for follower in self._followers.values():
            await follower.drain()
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._pool is not None:
            await self._pool.stop()

    def on_round(self, listener: Listener) -> None:
        """Have `listener` called with every round that is verified, and with wanted ones that were stored before.

        At least once each; a listener that raises gets the round again at the next tick.
        """
        self._listeners.append(listener)

    def chain(self, chain_hash: bytes) -> ChainInfo:
        """KeyError for a chain that is not followed, as in all methods here but `trouble`."""
        return self._chains[chain_hash].chain

    def newest(self, chain_hash: bytes) -> VerifiedRound | None:
        """V of rule 6.11."""
        return self._followers[chain_hash].newest

    async def get(self, chain_hash: bytes, round_number: int) -> VerifiedRound | None:
        """A stored round; nothing is fetched."""
        return await self._followers[chain_hash].get(round_number)

    def want(self, chain_hash: bytes, round_number: int) -> None:
        """Fetch this round when it is due, and until it is there; listeners are told. ValueError if it never comes."""
        follower = self._followers[chain_hash]
        if follower.want(round_number) and self._schedule is not None:
            self._schedule.wake(follower.chain)

    def forget(self, chain_hash: bytes, round_number: int) -> None:
        """Nobody waits for this round any more."""
        self._followers[chain_hash].forget(round_number)

    async def accept(self, verified: VerifiedRound) -> bool:
        """Take a round that was verified elsewhere; whether it agrees with the store and every listener took it."""
        return await self._followers[verified.chain.hash].accept(verified)

    async def tick(self) -> None:
        """One level-triggered pass over every chain: fetch what is due now."""
        await asyncio.gather(*(follower.tick() for follower in self._followers.values()))

    def trouble(self, chain_hash: bytes, time: int | None = None) -> str | None:
        """Why nothing may be sealed, contributed, closed or called on a chain at `time` (ms; None: now), or None.

        A code of beacon.errors: chain-unknown, chain-broken (6.8), no-verified-round, clock-unsure (6.11).
        """
        follower = self._followers.get(chain_hash)
        if follower is None:
            return "chain-unknown"
        if follower.evidence:
            return "chain-broken"
        if follower.newest is None:
            return "no-verified-round"
        at = self._clock.now() if time is None else time
        latest = follower.newest.time + USEFUL_PERIODS * 1_000 * follower.chain.period + USEFUL_MS
        return None if follower.newest.time - _AHEAD_MS <= at <= latest else "clock-unsure"

    def status(self, chain_hash: bytes) -> ChainStatus:
        """For health and metrics."""
        follower = self._followers[chain_hash]
        health = tuple(relay.health(follower.chain) for relay in self._relays[chain_hash])
        return ChainStatus(follower.chain, follower.newest, self.trouble(chain_hash), follower.wanted, health)

    def _follow(self, chain: ChainInfo) -> Follower:
        assert self._verifier is not None
        fetcher = Fetcher(chain, self._relays[chain.hash], self._verifier, self._clock)
        return Follower(
            chain,
            fetcher,
            self._store,
            self._clock,
            policy=self._policy,
            listeners=self._listeners,
            sleep=self._sleep,
        )
