"""What every command of a session stands on: the log, the book, the chains, and who may command which session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.log.log import Log
from beacon.log.sequencer import Appended
from beacon.rounds.rounds import Rounds
from beacon.sessions import rules
from beacon.sessions.book import Book, load
from beacon.sessions.custody import Custody
from beacon.sessions.doubt import ClockDoubt
from beacon.sessions.drawing import Drawers
from beacon.sessions.requests import Written
from beacon.sessions.state import SessionState, as_json
from beacon.sessions.transcripts import Transcripts
from verifier.drand import ChainInfo, VerifiedRound

ENDED_KEPT: Final = 256


class Host(Protocol):
    """Who commands: the name that stands in the seal, and whether it plays tests only."""

    @property
    def name(self) -> str: ...
    @property
    def sandbox(self) -> bool: ...


class Context:
    """The parts that commands share, and what is asked of all of them. A session is named by 32 bytes."""

    def __init__(
        self,
        *,
        book: Book,
        log: Log,
        rounds: Rounds,
        custody: Custody,
        transcripts: Transcripts,
        clock: Clock,
        doubt: ClockDoubt,
        drawers: Drawers,
        chains: Mapping[str, ChainInfo],
    ) -> None:
        """chains: the followed ones by name."""
        self.book: Final = book
        self.log: Final = log
        self.rounds: Final = rounds
        self.custody: Final = custody
        self.transcripts: Final = transcripts
        self.clock: Final = clock
        self.doubt: Final = doubt
        self.drawers: Final = drawers
        self.chains: Final = dict(chains)
        self._by_hash: Final = {chain.hash: chain for chain in chains.values()}
        self._ended: Final[dict[bytes, SessionState]] = {}

    def chain_of(self, state: SessionState) -> ChainInfo:
        """The chain of a session. Raises ApiError(chain-unknown) when it is not followed any more."""
        chain = self._by_hash.get(state.seal.chain)
        if chain is None:
            raise ApiError("chain-unknown", "the session's chain is not followed any more")
        return chain

    def known_time(self, chain: ChainInfo, time: int) -> VerifiedRound:
        """6.11: V, if it fits the clock and `time` (ms)."""
        return rules.known_time(self.rounds, self.clock, chain, time)

    def no_doubt(self, chain: ChainInfo) -> None:
        """Raises ApiError(clock-unsure) while the clock is in doubt."""
        reason = self.doubt.about(chain)
        if reason is not None:
            raise ApiError("clock-unsure", reason, retry_after=chain.period)

    def staged(self, session: bytes) -> SessionState:
        """On the writer's thread: the session as everything before has left it. Raises ApiError once it has ended."""
        return rules.open_session(self.book.staged(session))

    async def find(self, session: bytes) -> SessionState:
        """Any session. Raises ApiError(session-unknown)."""
        state = self.book.get(session) or self._ended.get(session)
        if state is None:
            state = await self.transcripts.read(lambda db: load(db, session))
            if state is None:
                raise ApiError("session-unknown", f"no session {session.hex()}")
            if state.end is not None:
                while len(self._ended) >= ENDED_KEPT:
                    del self._ended[next(iter(self._ended))]
                self._ended[session] = state
        return state

    async def own(self, host: Host, session: bytes) -> SessionState:
        """An open session of this host's."""
        state = await self.find(session)
        if state.seal.host != host.name:
            raise ApiError("not-your-session", f"the session belongs to the host {state.seal.host}")
        self.chain_of(state)
        return rules.open_session(state)

    async def written(self, session: bytes, appended: Iterable[Appended]) -> Written:
        """What a durable write gives back."""
        state = await self.find(session)
        info = self.chain_of(state).as_dict()
        receipts = [await self.transcripts.receipt(item.index, item.entry, info) for item in appended]
        return Written(session, self.as_json(state), receipts)

    def as_json(self, state: SessionState) -> dict[str, Any]:
        """The JSON of a session."""
        chain = self._by_hash.get(state.seal.chain)
        return as_json(state, None if chain is None else chain.time)
