"""What happens to sessions by itself: closing, anchoring, revealing, voiding at their deadlines.

Level-triggered: the book's states say what is due, a deadline only says when to look. A look that finds nothing to do,
or is refused (an unsure clock), looks again later; a restart looks at every open session anew.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.log.log import Log
from beacon.rounds.rounds import Rounds
from beacon.sessions import commands, rules, wire
from beacon.sessions.book import Book
from beacon.sessions.custody import Custody
from beacon.sessions.doubt import ClockDoubt
from beacon.sessions.state import SessionState
from beacon.store.errors import StoreError
from verifier.drand import ChainInfo, VerifiedRound
from verifier.entries import SessionEntry

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)
RETRY_MS: Final = 500
POLL_SECONDS: Final = 0.1
BATCH: Final = 500


class Keeper:
    """Keeps the deadlines of all open sessions. `tick` and `on_round` run on the event loop."""

    def __init__(
        self,
        book: Book,
        log: Log,
        rounds: Rounds,
        custody: Custody,
        clock: Clock,
        doubt: ClockDoubt,
        chains: Mapping[bytes, ChainInfo],
    ) -> None:
        self._book: Final = book
        self._log: Final = log
        self._rounds: Final = rounds
        self._custody: Final = custody
        self._clock: Final = clock
        self._doubt: Final = doubt
        self._chains: Final = chains
        self._inbox: Final[deque[SessionState]] = deque()
        self._deadlines: Final[list[tuple[int, bytes]]] = []
        self._next: Final[dict[bytes, int]] = {}
        self._waiting: Final[set[bytes]] = set()

    def start(self) -> None:
        """Take up every open session, and be told of each change from now on."""
        self._book.listener = self._inbox.extend
        self._inbox.extend(self._book.all_open())
        self._rounds.on_round(self.on_round)
        self._drain()

    async def run(self) -> None:
        """Tick until cancelled, or until the log takes no more writes."""
        while True:
            more = await self.tick()
            await asyncio.sleep(0 if more else POLL_SECONDS)

    async def tick(self) -> bool:
        """Do what is due now, at most a batch of it; whether more is due."""
        self._drain()
        now = self._clock.now()
        due: set[bytes] = set()
        while self._deadlines and self._deadlines[0][0] <= now and len(due) < BATCH:
            deadline, session = heapq.heappop(self._deadlines)
            if self._next.get(session) == deadline:
                del self._next[session]
                due.add(session)
        await asyncio.gather(*(self._keep(session) for session in due))
        return bool(self._deadlines) and self._deadlines[0][0] <= self._clock.now()

    async def on_round(self, verified: VerifiedRound) -> None:
        """Log a round that open sessions wait for. Raises what keeps it out; whoever tells of rounds tells again."""
        key = (verified.chain.hash, verified.round)
        if not self._book.waits(key):
            return

        def build(time: int) -> list[bytes]:
            if self._book.has_round(key):
                return []
            doubt = self._doubt.about(verified.chain)
            if doubt is not None:
                raise rules.NotYetError(doubt)
            return [wire.encode(commands.round_entry(verified, time))]

        for appended in await self._log.append(build):
            _log.info("round logged", chain=verified.chain.beacon_id, round=verified.round, index=appended.index)

    def _drain(self) -> None:
        while self._inbox:
            state = self._inbox.popleft()
            if state.end is not None:
                self._next.pop(state.session, None)
                continue
            chain = self._chains.get(state.seal.chain)
            if chain is None:
                _log.error("an open session waits on a chain that is not configured", session=state.session.hex())
                continue
            if state.round is None:
                self._rounds.want(*state.waits_for)
            self._look_at(self._deadline(state), state.session)

    def _look_at(self, time: int, session: bytes) -> None:
        """Look at a session at `time`, and at no other time that was set before."""
        if self._next.get(session) != time:
            self._next[session] = time
            heapq.heappush(self._deadlines, (time, session))

    def _deadline(self, state: SessionState) -> int:
        if state.takes_contributions and state.seal.close_at is not None:
            return state.seal.time if state.everyone_contributed else state.seal.close_at + 1
        return state.seal.reveal_by

    async def _keep(self, session: bytes) -> None:
        """Look at one session whose deadline has come; look again later while it is still due and nothing was done."""
        state = self._book.get(session)
        if state is None or self._deadline(state) > self._clock.now():
            return
        chain = self._chains[state.seal.chain]
        doubt = self._doubt.about(chain)
        if doubt is not None:
            self._wait(chain, doubt)
            self._look_at(self._clock.now() + RETRY_MS, session)
            return
        try:
            done = await self._act(state, chain)
            self._waiting.discard(chain.hash)
        except ApiError as error:
            self._wait(chain, f"{error.code}: {error.detail}")
            done = False
        except StoreError as error:
            _log.error("a deadline could not be kept", session=session.hex(), reason=str(error))
            done = False
        except Exception:  # noqa: BLE001 - one session must not stop the others
            _log.exception("a deadline could not be kept", session=session.hex())
            done = False
        if not done:
            self._look_at(self._clock.now() + RETRY_MS, session)

    def _wait(self, chain: ChainInfo, reason: str) -> None:
        """Say once for a chain that deadlines wait, however many sessions look how often, until one can act again."""
        if chain.hash not in self._waiting:
            self._waiting.add(chain.hash)
            _log.warning("deadlines wait", chain=chain.beacon_id, reason=reason)

    async def _act(self, state: SessionState, chain: ChainInfo) -> bool:
        if state.takes_contributions and len(state.contributions) >= state.seal.min_contributions:
            closed = await self._append(state, lambda current, time: self._close_only(current, chain, time))
            if closed:
                return True
        seed = await self._seed(state)
        if state.takes_contributions:
            return await self._append(state, lambda current, time: self._closing(current, chain, seed, time))
        if state.round is None:
            newest = self._rounds.newest
            return await self._append(
                state, lambda current, time: commands.no_round(current, newest(chain.hash), seed, time)
            )
        if seed is None:
            return await self._append(state, lambda current, time: commands.missed_reveal(current, chain, time))
        known = seed
        return await self._append(state, lambda current, time: commands.reveal(current, chain, known, time))

    def _close_only(self, state: SessionState, chain: ChainInfo, time: int) -> list[SessionEntry]:
        """The close, which needs no seed; nothing where a void is due."""
        if commands.missed_close(state, chain, None, time):
            return []
        newest = rules.known_time(self._rounds, self._clock, chain, time)
        return commands.close(state, chain, newest, None, time)

    def _closing(self, state: SessionState, chain: ChainInfo, seed: bytes | None, time: int) -> list[SessionEntry]:
        missed = commands.missed_close(state, chain, seed, time)
        if missed:
            return missed
        newest = rules.known_time(self._rounds, self._clock, chain, time)
        return commands.close(state, chain, newest, seed, time)

    async def _append(self, state: SessionState, decide: Callable[[SessionState, int], Iterable[SessionEntry]]) -> bool:
        def build(time: int) -> list[bytes]:
            current = self._book.staged(state.session)
            if current is None or current.end is not None or current.takes_contributions != state.takes_contributions:
                return []
            return [wire.encode(entry) for entry in decide(current, time)]

        appended = await self._log.append(build)
        for entry in appended:
            _log.debug("kept a deadline", session=state.session.hex(), index=entry.index)
        return bool(appended)

    async def _seed(self, state: SessionState) -> bytes | None:
        try:
            return await self._custody.open(state.seal.commitment)
        except ApiError as error:
            _log.error("a seed cannot be opened", session=state.session.hex(), reason=error.detail)
            return None
