"""The commands and views of sessions, as the API calls them. Every write is durable when it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.log.log import Log
from beacon.log.sequencer import Appended
from beacon.rounds.rounds import Rounds
from beacon.sessions import commands, rules, wire
from beacon.sessions.book import Book, chain_info, load, session_events
from beacon.sessions.custody import Custody
from beacon.sessions.doubt import ClockDoubt
from beacon.sessions.drawing import LIGHT, Drawers
from beacon.sessions.requests import SealRequest, Written
from beacon.sessions.state import SessionState, as_json
from beacon.sessions.transcripts import Transcripts
from beacon.settings import SessionSettings
from verifier import entries
from verifier.drand import ChainInfo
from verifier.merkle import leaf_hash

ENDED_KEPT: Final = 256


class Host(Protocol):
    """Who commands: the name that stands in the seal, and whether it plays tests only."""

    @property
    def name(self) -> str: ...
    @property
    def sandbox(self) -> bool: ...


class Sessions:
    """Seal, contribute, draw, reveal, void; view and transcript. A session is named by 32 bytes."""

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
        origin: str,
        chains: Mapping[str, ChainInfo],
        sandbox_only: Iterable[str],
        default_chain: str,
        defaults: SessionSettings,
    ) -> None:
        """chains: the followed ones by name; sandbox_only: names of those that only sandbox hosts may use."""
        self._book: Final = book
        self._log: Final = log
        self._rounds: Final = rounds
        self._custody: Final = custody
        self._transcripts: Final = transcripts
        self._clock: Final = clock
        self._doubt: Final = doubt
        self._drawers: Final = drawers
        self._ended: Final[dict[bytes, SessionState]] = {}
        self._origin: Final = origin
        self._chains: Final = dict(chains)
        self._by_hash: Final = {chain.hash: chain for chain in chains.values()}
        self._sandbox_only: Final = frozenset(sandbox_only)
        self._default_chain: Final = default_chain
        self._defaults: Final = defaults

    async def seal(self, host: Host, request: SealRequest) -> Written:
        """Seal a session: the seed is kept before the seal is public."""
        chain = self._chain(host, request)
        await self._check_replaces(host, request)
        has_keys = any(participant.key is not None for participant in request.participants)
        arguments = (self._origin, host.name, host.sandbox, request, chain)
        terms = (
            await asyncio.to_thread(commands.seal_terms, *arguments) if has_keys else commands.seal_terms(*arguments)
        )

        def decide(commitment: bytes, host_seq: int, time: int) -> entries.Seal:
            newest = rules.known_time(self._rounds, self._clock, chain, time)
            return commands.seal(terms, commitment, host_seq, newest, self._defaults, time)

        decide(bytes(entries.HASH_BYTES), 1, self._clock.now())
        commitment = await self._custody.make()

        def build(time: int) -> list[bytes]:
            seal = wire.encode(decide(commitment, self._book.next_sequence(host.name), time))
            if self._book.knows_chain(chain.hash):
                return [seal]
            return [wire.encode(entries.Chain(time, chain.as_dict())), seal]

        appended = await self._log.append(build)
        return await self._written(appended[-1].leaf_hash, appended[-1:])

    async def contribute(
        self, host: Host, session: bytes, *, participant: str, entropy: bytes, signature: bytes | None
    ) -> Written:
        """Add a participant's entropy; when it is the last that is due, the close follows in the same write.

        The same contribution again, a retry whose answer was lost, gives the receipts of the first one.
        """
        again = await self._repeated(host, session, entries.Contribution(0, session, participant, entropy, signature))
        if again is not None:
            return again
        state = await self._own(host, session)
        chain = self._by_hash[state.seal.chain]
        draft = entries.Contribution(self._clock.now(), session, participant, entropy, signature)
        rules.contribution(state, draft, rules.known_time(self._rounds, self._clock, chain, draft.time))
        await asyncio.to_thread(rules.contributor, state.seal, session, draft)

        def build(time: int) -> list[bytes]:
            current = rules.open_session(self._book.staged(session))
            newest = rules.known_time(self._rounds, self._clock, chain, time)
            entry = entries.Contribution(time, session, participant, entropy, signature)
            return [wire.encode(item) for item in commands.contribute(current, entry, chain, newest)]

        return await self._written(session, await self._log.append(build))

    async def _repeated(self, host: Host, session: bytes, asked: entries.Contribution) -> Written | None:
        state = await self._find(session)
        if state.seal.host != host.name or state.contributions.get(asked.participant) != asked.entropy:
            return None
        logged = []
        for index, data in await self._transcripts.read(lambda db: list(session_events(db, session))):
            entry = wire.parse(data)
            if isinstance(entry, entries.Contribution) and entry.participant == asked.participant:
                if entry.signature != asked.signature:
                    return None
                logged.append(Appended(index, entry.time, data, leaf_hash(data)))
            elif isinstance(entry, entries.Close) and logged and index == logged[0].index + 1:
                logged.append(Appended(index, entry.time, data, leaf_hash(data)))
        return await self._written(session, logged)

    async def draw(self, host: Host, session: bytes, *, recipe: str, count: int, purpose: str) -> Written:
        """Make the next draws of a recipe. Heavy ones are made before their entry, and again if others came between."""
        state = await self._own(host, session)
        seed = await self._custody.open(state.seal.commitment)
        chain = self._by_hash[state.seal.chain]
        while True:
            self._no_doubt(chain)
            asked = commands.drawing(state, recipe, count, chain, self._clock.now())
            ready = await self._drawers.make(asked, seed) if asked.work > LIGHT else None
            written = await self._drawn(state, asked, seed, ready, purpose)
            if written is not None:
                return written
            state = await self._own(host, session)

    async def _drawn(
        self, state: SessionState, asked: commands.Drawing, seed: bytes, ready: list[Any] | None, purpose: str
    ) -> Written | None:
        """Append the draws; None if others took their numbers while heavy ones were made."""
        chain = self._by_hash[state.seal.chain]
        made: list[Any] = []

        def build(time: int) -> list[bytes]:
            self._no_doubt(chain)
            current = rules.open_session(self._book.staged(state.session))
            now = commands.drawing(current, asked.name, asked.count, chain, time)
            if ready is not None and now != asked:
                return []
            made[:] = ready if ready is not None else now.outcomes(seed)
            return [wire.encode(commands.draw(current, now, made, purpose, time))]

        appended = await self._log.append(build)
        if not appended:
            return None
        entry = wire.parse(appended[0].entry)
        assert isinstance(entry, entries.Draw)
        return replace(await self._written(state.session, appended), outcomes=made, first_n=entry.n)

    async def reveal(self, host: Host, session: bytes) -> Written:
        """End a session: its seed is public from now on."""
        state = await self._own(host, session)
        rules.needs_round(state, self._by_hash[state.seal.chain], self._clock.now(), "reveal-before-round")
        return await self._seeded(state, commands.reveal)

    async def void(self, host: Host, session: bytes) -> Written:
        """Give a session up before its round exists."""

        def decide(state: SessionState, chain: ChainInfo, seed: bytes, time: int) -> list[entries.SessionEntry]:
            newest = rules.known_time(self._rounds, self._clock, chain, time)
            return commands.void(state, chain, newest, seed, time)

        return await self._seeded(await self._own(host, session), decide)

    async def view(self, session: bytes) -> dict[str, Any]:
        """The JSON of a session."""
        return self._as_json(await self._find(session))

    async def receipt(self, session: bytes, index: int) -> dict[str, Any]:
        """The receipt of one of the session's entries, or of the `round` entry that it uses, by its log index."""
        state = await self._find(session)
        for shown, entry in await self._transcripts.read(lambda db: list(session_events(db, session))):
            if shown == index:
                info = await self._log.read(lambda db: chain_info(db, state.seal.chain))
                return await self._transcripts.receipt(index, entry, info or {})
        raise ApiError("not-found", f"the session has no entry {index}")

    async def transcript(self, session: bytes) -> bytes:
        """The document of a session."""
        document = await self._transcripts.transcript(session)
        if document is None:
            raise ApiError("session-unknown", f"no session {session.hex()}")
        return document

    async def _seeded(
        self,
        state: SessionState,
        decide: Callable[[SessionState, ChainInfo, bytes, int], Iterable[entries.SessionEntry]],
    ) -> Written:
        session, chain = state.session, self._by_hash[state.seal.chain]
        seed = await self._custody.open(state.seal.commitment)

        def build(time: int) -> list[bytes]:
            self._no_doubt(chain)
            current = rules.open_session(self._book.staged(session))
            return [wire.encode(entry) for entry in decide(current, chain, seed, time)]

        return await self._written(session, await self._log.append(build))

    def _no_doubt(self, chain: ChainInfo) -> None:
        reason = self._doubt.about(chain)
        if reason is not None:
            raise ApiError("clock-unsure", reason, retry_after=chain.period)

    async def _written(self, session: bytes, appended: Iterable[Appended]) -> Written:
        state = await self._find(session)
        info = self._by_hash[state.seal.chain].as_dict()
        receipts = [await self._transcripts.receipt(item.index, item.entry, info) for item in appended]
        return Written(session, self._as_json(state), receipts)

    async def _find(self, session: bytes) -> SessionState:
        state = self._book.get(session) or self._ended.get(session)
        if state is None:
            state = await self._transcripts.read(lambda db: load(db, session))
            if state is None:
                raise ApiError("session-unknown", f"no session {session.hex()}")
            if state.end is not None:
                while len(self._ended) >= ENDED_KEPT:
                    del self._ended[next(iter(self._ended))]
                self._ended[session] = state
        return state

    async def _own(self, host: Host, session: bytes) -> SessionState:
        state = await self._find(session)
        if state.seal.host != host.name:
            raise ApiError("not-your-session", f"the session belongs to the host {state.seal.host}")
        if state.seal.chain not in self._by_hash:
            raise ApiError("chain-unknown", "the session's chain is not followed any more")
        return rules.open_session(state)

    def _as_json(self, state: SessionState) -> dict[str, Any]:
        chain = self._by_hash.get(state.seal.chain)
        return as_json(state, None if chain is None or state.seal.round is None else chain.time(state.seal.round))

    def _chain(self, host: Host, request: SealRequest) -> ChainInfo:
        wanted = self._default_chain if request.chain is None else request.chain
        for name, chain in self._chains.items():
            if wanted in {name, chain.hash.hex()}:
                if name in self._sandbox_only and not host.sandbox:
                    raise ApiError("sandbox-only-chain", f"{name} is for sandbox hosts")
                return chain
        raise ApiError("chain-unknown", f"no chain {wanted!r} here")

    async def _check_replaces(self, host: Host, request: SealRequest) -> None:
        if request.replaces is None:
            return
        query = "SELECT 1 FROM sessions WHERE session = ? AND host = ?"
        found = await self._log.read(lambda db: db.conn.execute(query, (request.replaces, host.name)).fetchone())
        if found is None:
            raise ApiError("seal-replaces-unknown", "`replaces` is no earlier session of this host")
