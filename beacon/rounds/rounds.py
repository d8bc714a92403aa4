"""The facade: all chains that the service follows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import aiohttp
import structlog

from beacon.clock import Clock
from beacon.rounds.fetcher import USEFUL_MS, USEFUL_PERIODS, Fetcher, Policy
from beacon.rounds.follower import Follower, Listener, Sleep
from beacon.rounds.health import RelayHealth
from beacon.rounds.relays import Relay, open_session
from beacon.rounds.schedule import Schedule
from beacon.rounds.spool import Spool
from beacon.rounds.store_protocol import RoundStore
from beacon.rounds.taking_in import take_in
from beacon.rounds.verify import RoundVerifier, VerifyPool
from verifier.drand import ChainInfo, VerifiedRound

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

TROUBLES: Final = ("chain-broken", "rounds-damaged", "chain-retired", "no-verified-round", "clock-unsure")
"""The codes with which seals on a chain that is followed may be refused."""
_AHEAD_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Followed:
    """A chain to follow, and the base URLs of its relays."""

    chain: ChainInfo
    relays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """What is known of one chain now, judged by the service's clock and the chain's schedule.

    wanted: rounds that somebody waits for; overdue: those of them whose time has come. expected: the round that is
    current by the clock. stale: whether the newest verified round is too old to tell the time by (6.11). evidence:
    rounds that the chain signed twice. relays: in the order in which they would be asked now. log_ahead: where the
    trouble is the time that an entry would have to take, and not the clock, by how many ms it is ahead of the clock.
    """

    chain: ChainInfo
    newest: VerifiedRound | None
    trouble: str | None
    wanted: tuple[int, ...]
    overdue: int
    expected: int
    stale: bool
    evidence: tuple[int, ...]
    waiters: int
    relays: tuple[RelayHealth, ...]
    log_ahead: int = 0


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
        spool: Spool | None = None,
    ) -> None:
        """verifier: None for a worker process of its own. sleep: for tests with a clock of their own.

        spool: where other processes leave rounds for this one.
        """
        self._chains = {followed.chain.hash: followed for followed in chains}
        self._store = store
        self._clock = clock
        self._policy = policy or Policy()
        self._pool = VerifyPool() if verifier is None else None
        self._verifier = verifier or self._pool
        self._sleep = sleep
        self._spool = spool
        self._listeners: list[Listener] = []
        self._followers: dict[bytes, Follower] = {}
        self._relays: dict[bytes, tuple[Relay, ...]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._schedule: Schedule | None = None
        self._looking: dict[bytes, asyncio.Task[None]] = {}

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
        if self._spool is not None:
            await asyncio.to_thread(self._spool.sweep)
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
                work = partial(self._wake, follower)
                self._schedule.add(follower.chain, work, self._policy.lead_of(follower.chain))
            self._schedule.start()

    async def stop(self) -> None:
        """End the wakes, what they began, the connections and the worker."""
        if self._schedule is not None:
            await self._schedule.stop()
            self._schedule = None
        for looking in self._looking.values():
            looking.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)
        self._looking.clear()
        for follower in self._followers.values():
            follower.waiters.release()
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

    async def wait(self, chain_hash: bytes, round_number: int | None, seconds: float) -> VerifiedRound | None:
        """A stored round, or the next to be stored if it comes in time; None for a number: whatever is newest next.

        Nothing is fetched because somebody waits here, and who waits holds nothing but a future. None is the answer
        too when very many wait already, and when the service stops.
        """
        follower = self._followers[chain_hash]
        coming = asyncio.ensure_future(follower.waiters.wait(round_number, seconds))
        try:
            if round_number is not None and (stored := await follower.get(round_number)) is not None:
                return stored
            return await coming
        finally:
            coming.cancel()

    def release(self) -> None:
        """Let go everybody who waits in `wait`: the service is about to stop."""
        for follower in self._followers.values():
            follower.waiters.release()

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
        """One level-triggered pass over every chain: fetch what is due now, then see that the clock is not slow."""
        await asyncio.gather(*(self._work(follower) for follower in self._followers.values()))
        await asyncio.gather(*(self._look_ahead(follower) for follower in self._followers.values()))

    async def _wake(self, follower: Follower) -> None:
        """What the schedule calls. The look ahead goes on by itself, so that no later wake waits for it."""
        await self._work(follower)
        looking = self._looking.get(follower.chain.hash)
        if looking is None or looking.done():
            self._looking[follower.chain.hash] = asyncio.create_task(self._look_ahead(follower))

    async def _look_ahead(self, follower: Follower) -> None:
        try:
            await follower.look_ahead()
        except Exception:  # noqa: BLE001 - asked again later
            _log.exception("look ahead failed", chain=follower.chain.beacon_id)

    async def _work(self, follower: Follower) -> None:
        """What is due first, then what other processes left."""
        await follower.tick()
        if self._spool is not None and self._verifier is not None:
            await take_in(self._spool, follower.chain, self._verifier, follower, self._policy.budget(follower.chain))

    def trouble(self, chain_hash: bytes, time: int | None = None) -> str | None:
        """Why nothing may be sealed, contributed, closed or called on a chain at `time` (ms; None: now), or None.

        A code of beacon.errors: chain-unknown, chain-broken (6.8), rounds-damaged, no-verified-round, clock-unsure
        (6.11).
        """
        follower = self._followers.get(chain_hash)
        if follower is None:
            return "chain-unknown"
        if follower.evidence:
            return "chain-broken"
        if follower.damaged:
            return "rounds-damaged"
        if follower.newest is None:
            return "no-verified-round"
        at = self._clock.now() if time is None else time
        within = follower.newest.time - _AHEAD_MS <= at <= _useful_until(follower.newest)
        return None if within else "clock-unsure"

    def status(self, chain_hash: bytes, not_before: int = 0) -> ChainStatus:
        """For health and metrics. not_before: the least time that an entry can take (ms; 6.2)."""
        follower = self._followers[chain_hash]
        chain, now = follower.chain, self._clock.now()
        expected = min(chain.current(now), chain.final_round)
        newest, trouble, ahead = follower.newest, self.trouble(chain_hash), 0
        if trouble is None and not_before > now:
            trouble = self.trouble(chain_hash, not_before)
            ahead = 0 if trouble is None else not_before - now
        if trouble not in ("chain-broken", "rounds-damaged") and expected == chain.last_round:
            trouble, ahead = "chain-retired", 0
        return ChainStatus(
            chain=chain,
            newest=newest,
            trouble=trouble,
            wanted=follower.wanted,
            overdue=sum(number <= expected for number in follower.wanted),
            expected=expected,
            stale=expected > 0 and (newest is None or now > _useful_until(newest)),
            evidence=tuple(sorted({verified.round for verified in follower.evidence})),
            waiters=len(follower.waiters),
            relays=follower.relay_healths(),
            log_ahead=ahead,
        )

    def _follow(self, chain: ChainInfo) -> Follower:
        assert self._verifier is not None
        relays = self._relays[chain.hash]
        fetcher = Fetcher(chain, relays, self._verifier, self._clock, hedge=self._policy.hedge)
        return Follower(
            chain,
            fetcher,
            self._store,
            self._verifier,
            self._clock,
            policy=self._policy,
            listeners=self._listeners,
            sleep=self._sleep,
        )


def _useful_until(newest: VerifiedRound) -> int:
    """The last ms at which a round still tells the time (6.11)."""
    return newest.time + USEFUL_PERIODS * 1_000 * newest.chain.period + USEFUL_MS
