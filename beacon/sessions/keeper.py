"""What happens to sessions by itself: closing, anchoring, revealing, voiding at their deadlines.

Level-triggered: the book's states say what is due, a deadline only says when to look. A look that finds nothing to do,
or is refused (an unsure clock), looks again later; a restart looks at every open session anew.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

import structlog

from beacon.errors import ApiError
from beacon.log import wire
from beacon.sessions import calls, commands, draws, rules, settling
from beacon.sessions.context import Context
from beacon.sessions.state import RoundKey, SessionState
from beacon.sessions.worker import LIGHT
from beacon.store.errors import StoreError
from verifier.drand import ChainInfo, Round, VerifiedRound
from verifier.entries import SessionEntry

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)
RETRY_MS: Final = 500
POLL_SECONDS: Final = 0.1
BATCH: Final = 500
AT_ONCE: Final = 100_000
"""Uniform numbers that are made while rounds and deadlines wait: about a tenth of a second."""


class Keeper:
    """Keeps the deadlines of all open sessions. `tick` and `on_round` run on the event loop."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context
        self._book: Final = context.book
        self._log: Final = context.log
        self._rounds: Final = context.rounds
        self._clock: Final = context.clock
        self._chains: Final = {chain.hash: chain for chain in context.chains.values()}
        self._inbox: Final[deque[SessionState]] = deque()
        self._deadlines: Final[list[tuple[int, bytes]]] = []
        self._next: Final[dict[bytes, int]] = {}
        self._called: Final[dict[bytes, int]] = {}
        self._waiting: Final[set[bytes]] = set()
        self._making: Final[dict[bytes, asyncio.Task[None]]] = {}

    def start(self) -> None:
        """Take up every open session, and be told of each change from now on."""
        self._book.listen(self._inbox.extend)
        self._inbox.extend(self._book.all_open())
        self._rounds.on_round(self.on_round)
        self._drain()

    async def run(self) -> None:
        """Tick until cancelled, or until the log takes no more writes."""
        try:
            while True:
                more = await self.tick()
                await asyncio.sleep(0 if more else POLL_SECONDS)
        finally:
            making = list(self._making.values())
            for task in making:
                task.cancel()
            await asyncio.gather(*making, return_exceptions=True)

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
        await self._draw_calls()
        return bool(self._deadlines) and self._deadlines[0][0] <= self._clock.now()

    async def on_round(self, verified: VerifiedRound) -> None:
        """Log a round that open sessions wait for. Raises what keeps it out; whoever tells of rounds tells again."""
        key = (verified.chain.hash, verified.round)
        if not self._book.waits(key):
            return

        def build(time: int) -> list[bytes]:
            if self._book.has_round(key):
                return []
            doubt = self._context.doubt.about(verified.chain)
            if doubt is not None:
                raise rules.NotYetError(doubt)
            return [wire.encode(commands.round_entry(verified, time))]

        for appended in await self._log.append(build):
            _log.info("round logged", chain=verified.chain.beacon_id, round=verified.round, index=appended.index)
        self._drain()
        await self._draw_calls()

    async def _draw_calls(self) -> None:
        """Draw every call whose round is in the log, of all sessions at once; look again later where it failed."""
        now = self._clock.now()
        named = [name for name, time in self._called.items() if time <= now and name not in self._making]
        states = [state for session in named if (state := self._book.get(session)) is not None and state.due]
        for session in named:
            del self._called[session]
        if not states:
            return
        light: list[SessionState] = []
        left = AT_ONCE
        for state in states:
            work = calls.work(state)
            if work > min(left, LIGHT):
                making = settling.draw_one_by_one(self._context, state)
                self._make_aside(state.session, making, partial(self._called.__setitem__, state.session))
            else:
                light.append(state)
                left -= work
        failed = {state.session for state in light}
        try:
            failed = await settling.draw_calls(self._context, light)
        except ApiError as error:
            _log.warning("calls wait for their draws", reason=f"{error.code}: {error.detail}")
        except StoreError as error:
            _log.error("calls could not be drawn", reason=str(error))
        for session in failed:
            self._called[session] = now + RETRY_MS

    def _make_aside(
        self, session: bytes, making: Coroutine[Any, Any, bool | None], again: Callable[[int], object]
    ) -> None:
        """Make what is much work for one session while everything else goes on.

        making: gives False where nothing was done; again: has the session looked at again at a time, in ms, if it is
        still open.
        """
        if session in self._making:
            making.close()
            again(self._clock.now() + RETRY_MS)
            return

        async def make() -> None:
            pause = 0
            try:
                pause = RETRY_MS if await making is False else 0
            except ApiError as error:
                pause = RETRY_MS
                _log.warning("draws wait", session=session.hex(), reason=f"{error.code}: {error.detail}")
            except StoreError as error:
                pause = RETRY_MS
                _log.error("draws could not be made", session=session.hex(), reason=str(error))
            except Exception:  # noqa: BLE001 - tried again
                pause = RETRY_MS
                _log.exception("draws could not be made", session=session.hex())
            finally:
                del self._making[session]
                if self._book.get(session) is not None:
                    again(self._clock.now() + pause)

        self._making[session] = asyncio.create_task(make())

    def _drain(self) -> None:
        while self._inbox:
            state = self._inbox.popleft()
            if state.end is not None:
                self._next.pop(state.session, None)
                self._called.pop(state.session, None)
                self._context.custody.forget(state.seal.commitment)
                continue
            chain = self._chains.get(state.seal.chain)
            if chain is None:
                _log.error("an open session waits on a chain that is not configured", session=state.session.hex())
                continue
            for key in state.waits_for:
                self._rounds.want(*key)
            if state.due and state.seal.custody == "beacon":
                self._called.setdefault(state.session, 0)
            self._look_at(self._deadline(state), state.session)

    def _look_at(self, time: int, session: bytes) -> None:
        """Look at a session at `time`, and at no other time that was set before."""
        if self._next.get(session) != time:
            self._next[session] = time
            heapq.heappush(self._deadlines, (time, session))

    def _deadline(self, state: SessionState) -> int:
        seal = state.seal
        if state.takes_contributions and seal.close_at is not None:
            return seal.time if state.everyone_contributed else seal.close_at + 1
        if seal.custody == "beacon" and seal.plan is not None and state.round is not None:
            return seal.time
        chain = self._chains[seal.chain]
        without = commands.no_round_due(state, chain)
        if without is not None:
            return without
        if seal.custody == "host" and not (state.live and not state.pending):
            if state.lock is not None and not state.waits_for:
                return seal.time if state.unlocked is not None else self._unlocks(state.lock, seal.reveal_by)
            return commands.missed_reveal_due(state, chain) or seal.reveal_by
        return seal.reveal_by

    def _unlocks(self, lock: RoundKey, reveal_by: int) -> int:
        """When a timelock's round falls due, in ms. A chain that is not followed any more is looked for again."""
        chain = self._chains.get(lock[0])
        return reveal_by if chain is None else chain.time(lock[1])

    async def _keep(self, session: bytes) -> None:
        """Look at one session whose deadline has come; look again later while it is still due and nothing was done."""
        state = self._book.get(session)
        if state is None or self._deadline(state) > self._clock.now():
            return
        chain = self._chains[state.seal.chain]
        doubt = self._context.doubt.about(chain)
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
            self._wait(chain, f"{error.code}: {error}")
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
        if state.takes_contributions:
            seed = await self._seed(state)
            return await self._append(state, lambda current, time: self._closing(current, chain, seed, time))
        if state.waits_for:
            newest, seed = self._rounds.newest, await self._seed(state)
            return await self._append(
                state, lambda current, time: commands.no_round(current, chain, newest(chain.hash), seed, time)
            )
        if state.live and not state.pending:
            return await self._append(state, lambda current, time: _reveal_live(current, chain, time))
        seed = None if state.live else await self._seed(state)
        if seed is None and state.lock is not None:
            return self._unlock(state, state.lock)
        if seed is None:
            return await self._miss(state, chain)
        if state.seal.plan is not None:
            finishing = settling.finish_plan(self._context, state, seed)
            await self._finish(state, draws.plan_work(state), finishing)
            return True
        known = seed
        return await self._append(
            state, lambda current, time: [commands.reveal(current, chain, "service", known, time)]
        )

    async def _finish(self, state: SessionState, work: int, finishing: Coroutine[Any, Any, None]) -> None:
        """Draw what is left and reveal. work: about how many uniform numbers that takes."""
        if work > LIGHT:
            self._make_aside(state.session, finishing, lambda time: self._look_at(time, state.session))
        else:
            await finishing

    def _unlock(self, state: SessionState, lock: RoundKey) -> bool:
        """Open a timelock while everything else goes on: many may be to one round. Later where it is not in the log."""
        locked, logged = self._chains.get(lock[0]), state.unlocked
        if locked is None:
            raise ApiError("chain-unknown", "a timelock waits for a round of a chain that is not followed any more")
        if logged is None:
            now = self._clock.now()
            if now >= locked.time(lock[1]):
                self._rounds.want(*lock)
            self._look_at(max(locked.time(lock[1]), now + RETRY_MS), state.session)
            return True
        opening = self._open(state, locked, Round(lock[1], logged.signature))
        self._make_aside(state.session, opening, lambda time: self._look_at(time, state.session))
        return True

    async def _open(self, state: SessionState, locked: ChainInfo, logged: Round) -> bool:
        """End a session by its timelock; whether that went. logged: the timelock's round, of the chain `locked`."""
        opened = await self._context.locks.open(state.seal, locked, logged)
        if opened is None:
            _log.warning("a timelock does not open to its commitment", session=state.session.hex())
            return await self._miss(state, self._chains[state.seal.chain])
        await settling.finish_opened(self._context, state, opened)
        return True

    async def _miss(self, state: SessionState, chain: ChainInfo) -> bool:
        return await self._append(state, lambda current, time: commands.missed_reveal(current, chain, time))

    def _close_only(self, state: SessionState, chain: ChainInfo, time: int) -> list[SessionEntry]:
        """The close, which needs no seed; nothing where a void is due."""
        if commands.missed_close(state, chain, None, time):
            return []
        return commands.close(state, chain, self._context.known_time(chain, time), None, time)

    def _closing(self, state: SessionState, chain: ChainInfo, seed: bytes | None, time: int) -> list[SessionEntry]:
        missed = commands.missed_close(state, chain, seed, time)
        return missed or commands.close(state, chain, self._context.known_time(chain, time), seed, time)

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
        """The seed that an end shows now (3.6): s_1 of a match, s_K of a live session; None where it is not known."""
        custody, seal = self._context.custody, state.seal
        if seal.custody == "host" or (state.live and not state.calls):
            return None
        try:
            if state.live:
                return (await custody.chain(seal.commitment, seal.links)).link(state.calls)
            return await custody.open(seal.commitment)
        except ApiError as error:
            _log.error("a seed cannot be opened", session=state.session.hex(), reason=error.detail)
            return None


def _reveal_live(state: SessionState, chain: ChainInfo, time: int) -> list[SessionEntry]:
    """6.7: a live session with every call drawn is revealed by the service; its last link is public already."""
    return [commands.reveal(state, chain, "service", state.last_link, time)]
