"""The commands and views of sessions, as the API calls them. Every write is durable when it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from beacon.errors import ApiError
from beacon.log import wire
from beacon.memory import forget_oldest
from beacon.sessions import commands, draws, ledger, rules
from beacon.sessions.context import Ahead, Context, Host, Key, Step, of_item
from beacon.sessions.joining import Joining
from beacon.sessions.live import Live
from beacon.sessions.locks import lock_round
from beacon.sessions.requests import (
    ContributionRequest,
    DrawRequest,
    LinkRequest,
    SealRequest,
    TimelockRequest,
    Written,
)
from beacon.sessions.settling import draw_plan
from beacon.sessions.state import SessionState
from beacon.sessions.trail import contributed, shown_entry
from beacon.sessions.worker import LIGHT
from beacon.settings import SessionSettings
from beacon.store.private import KeptSeed
from verifier import entries
from verifier.drand import ChainInfo

LEDGER_SECONDS: Final = 2.0
LEDGERS_KEPT: Final = 1_000


class Sessions:
    """Seal, contribute, draw, reveal, void; view and transcript. A session is named by 32 bytes."""

    def __init__(
        self,
        context: Context,
        joining: Joining,
        *,
        origin: str,
        sandbox_only: Iterable[str],
        default_chain: str,
        defaults: SessionSettings,
        room: int = 0,
    ) -> None:
        """sandbox_only: names of the chains that only sandbox hosts may use. room: as in `commands.seal`."""
        self._context: Final = context
        self._live: Final = Live(context)
        self._joining: Final = joining
        self._ledgers: Final[dict[str, tuple[float, dict[str, Any]]]] = {}
        self._origin: Final = origin
        self._sandbox_only: Final = frozenset(sandbox_only)
        self._default_chain: Final = default_chain
        self._defaults: Final = defaults
        self._room: Final = room

    async def seal(self, host: Host, request: SealRequest, key: Key | None = None) -> Written:
        """Seal a session: the seed is kept before the seal is public."""
        return (await self.seals(host, [request], key))[0]

    async def seals(self, host: Host, requests: Sequence[SealRequest], key: Key | None = None) -> list[Written]:
        """Seal several sessions, all or none."""
        steps, seeds = [], []
        for number, request in enumerate(requests):
            with of_item(number, len(requests)):
                step, seed = await self._sealing(host, request)
            steps.append(step)
            seeds += seed
        return await self._context.write(*steps, key=key, seeds=seeds)

    async def _sealing(self, host: Host, request: SealRequest) -> tuple[Step, list[KeptSeed]]:
        context, chain = self._context, self._chain(host, request.chain)
        await self._check_replaces(host, request)
        has_keys = any(participant.key is not None for participant in request.participants)
        arguments = (self._origin, host.name, host.sandbox, request, chain)
        terms = (
            await asyncio.to_thread(commands.seal_terms, *arguments) if has_keys else commands.seal_terms(*arguments)
        )

        seeds = [] if request.commitment is not None else [await context.custody.make(request.links_or_default)]
        commitment = request.commitment or seeds[0].commitment
        lock = await self._lock(host, terms, seeds)

        def step(time: int, ahead: Ahead) -> list[bytes]:
            known = commitment in ahead.commitments or (request.commitment and context.book.has_commitment(commitment))
            if known:
                raise ApiError("seal-commitment-invalid", "the log has this commitment, seed or link already")
            rules.running(chain, time)
            number = context.book.next_sequence(host.name) + ahead.seals[host.name]
            newest = context.known_time(chain, time)
            seal = wire.encode(commands.seal(terms, commitment, number, newest, self._defaults, time, self._room, lock))
            built = []
            for named in (chain, chain if lock is None else lock.chain):
                if not context.book.knows_chain(named.hash) and named.hash not in ahead.chains:
                    built.append(wire.encode(entries.Chain(time, named.as_dict())))
                    ahead.chains.add(named.hash)
            ahead.seals[host.name] += 1
            ahead.commitments.add(commitment)
            return [*built, seal]

        return step, seeds

    async def _lock(self, host: Host, terms: commands.SealTerms, seeds: Sequence[KeptSeed]) -> commands.Locked | None:
        """The seal's timelock: what the host sealed, or the service's own seed, by the request or the settings."""
        context, chain, asked = self._context, terms.chain, terms.request.timelock
        if isinstance(asked, TimelockRequest):
            locked = chain if asked.chain is None else self._chain(host, asked.chain)
            made = entries.Timelock(locked.hash, asked.round, asked.ciphertext)
            await context.locks.check(made, locked)
            return commands.Locked(made, locked)
        if not seeds or not (self._defaults.timelock if asked is None else asked):
            return None
        now = context.clock.now()
        rules.running(chain, now)
        newest, commitment = context.known_time(chain, now), seeds[0].commitment
        draft = commands.seal(terms, commitment, 1, newest, self._defaults, now, self._room)
        number = lock_round(chain, draft.reveal_by)
        if number is None and asked:
            raise ApiError("seal-timelock-invalid", "the chain cannot carry a timelock after reveal_by")
        if number is None:
            return None
        made = await context.locks.seal(chain, number, context.custody.kept(seeds[0]), now)
        return commands.Locked(made, chain)

    async def contribute(
        self,
        host: Host | None,
        session: bytes,
        request: ContributionRequest,
        key: Key | None = None,
        *,
        join: str | None = None,
    ) -> Written:
        """Add a participant's entropy; when it is the last that is due, the close follows in the same write.

        host: None for a participant who comes without one: with a join token, or to an open session. The same
        contribution again, a retry whose answer was lost, gives the receipts of the first one.
        """
        context = self._context
        said = (session, request.participant, request.entropy, request.signature)
        if join is not None and not self._joining.admits(join, session, request.participant):
            raise ApiError("unauthorized", "The join token is not this participant's for this session.")
        again = await self._repeated(host, session, entries.Contribution(0, *said), joins=join is not None)
        if again is not None:
            return again
        state = await self._contributable(host, session, joins=join is not None)
        chain = context.chain_of(state)
        draft = entries.Contribution(context.clock.now(), *said)
        rules.contribution(state, draft, context.known_time(chain, draft.time))
        await asyncio.to_thread(rules.contributor, state.seal, session, draft)

        def step(time: int, ahead: Ahead) -> list[bytes]:
            now, newest = context.staged(session, ahead), context.known_time(chain, time)
            return ahead.put(*commands.contribute(now, entries.Contribution(time, *said), chain, newest))

        return (await context.write(step, key=key))[0]

    async def _contributable(self, host: Host | None, session: bytes, *, joins: bool) -> SessionState:
        if host is not None:
            return await self._context.own(host, session)
        state = rules.open_session(await self._context.find(session))
        if not state.seal.open and not joins:
            raise ApiError("unauthorized", "Only open sessions take contributions without a token.")
        self._context.chain_of(state)
        return state

    async def _repeated(
        self, host: Host | None, session: bytes, asked: entries.Contribution, *, joins: bool
    ) -> Written | None:
        context = self._context
        state = await context.find(session)
        foreign = not (state.seal.open or joins) if host is None else state.seal.host != host.name
        if foreign or state.contributions.get(asked.participant) != asked.entropy:
            return None
        place = list(state.contributions).index(asked.participant)
        found = await context.transcripts.read(lambda db: contributed(db, session, place))
        if found is None or replace(found[1], time=asked.time) != asked:
            return None
        first = found[0]
        return (await context.again(first, 2 if state.close_index == first + 1 else 1))[0]

    async def draw(self, host: Host, session: bytes, request: DrawRequest, key: Key | None = None) -> Written:
        """Make the next draws of a match's recipe, or call the next draw of a live session."""
        while True:
            state = await self._context.own(host, session)
            written = await self._context.write(await self._drawing(state, request), key=key)
            if written:
                return written[0]

    async def draws(
        self, host: Host, requests: Sequence[tuple[bytes, DrawRequest]], key: Key | None = None
    ) -> list[Written]:
        """Draw from several sessions, or several times from one, all or none."""
        if len(requests) == 1:
            return [await self.draw(host, *requests[0], key)]
        steps = []
        for number, (session, request) in enumerate(requests):
            with of_item(number, len(requests)):
                state = await self._context.own(host, session)
                steps.append(await self._drawing(state, request, alone=False))
        return await self._context.write(*steps, key=key)

    async def _drawing(self, state: SessionState, request: DrawRequest, *, alone: bool = True) -> Step:
        if state.live:
            return await self._live.calling(state, request)
        if request.contributions or request.draw is not None:
            raise ApiError("not-live", "contributions and `draw` are for the calls of live sessions")
        if state.seal.custody == "host":
            return self._claiming(state, request)
        if request.outcomes is not None:
            raise ApiError("not-your-seed", "the service holds the seed, and says what was drawn")
        context, chain = self._context, self._context.chain_of(state)
        seed = await context.custody.open(state.seal.commitment)
        context.no_doubt(chain)
        asked = draws.asked(state, request.recipe, request.count, chain, context.clock.now())
        if asked.work > LIGHT and not alone:
            raise ApiError("draw-count", "these draws are too much work beside others: ask for them alone")
        ready = await context.worker.run(asked.outcomes, seed) if asked.work > LIGHT else None

        def step(time: int, ahead: Ahead) -> list[bytes]:
            """Heavy draws were made before; nothing if others have taken their numbers meanwhile."""
            context.no_doubt(chain)
            staged = context.staged(state.session, ahead)
            now = draws.asked(staged, asked.name, asked.count, chain, time)
            _check_number(request, now.first)
            if ready is not None and now != asked:
                return []
            made = tuple(ready if ready is not None else now.outcomes(seed))
            return ahead.put(entries.Draw(time, state.session, now.name, now.first, request.purpose, made))

        return step

    def _claiming(self, state: SessionState, request: DrawRequest) -> Step:
        """Custody `host`: the outcomes are the host's claim until its seed is revealed."""
        context, chain = self._context, self._context.chain_of(state)
        outcomes = request.outcomes
        if outcomes is None:
            raise ApiError("outcomes-missing", "the host holds the seed: send the `outcomes` that it gives")

        def step(time: int, ahead: Ahead) -> list[bytes]:
            context.no_doubt(chain)
            staged = context.staged(state.session, ahead)
            entry = draws.claimed(staged, request.recipe, outcomes, request.purpose, chain, time)
            _check_number(request, entry.n)
            return ahead.put(entry)

        return step

    async def hand_in(self, host: Host, session: bytes, request: LinkRequest, key: Key | None = None) -> Written:
        """Custody `host`, live: the link of a call, which makes its draw."""
        return await self._live.hand_in(await self._context.own(host, session), request, key)

    async def reveal(self, host: Host, session: bytes, seed: bytes | None = None, key: Key | None = None) -> Written:
        """End a session: its seed is public from now on. seed: of a match whose host holds it, 32 bytes."""
        context, state = self._context, await self._context.own(host, session)
        chain, held = context.chain_of(state), state.seal.custody == "host"
        if state.seal.plan is not None and not held:
            raise ApiError("planned", "the service draws the plan and reveals by itself")
        rules.reveal(state, chain, context.clock.now())
        if state.live:
            _no_seed(seed, "a live session's links are public already")
            return await self._end(
                state, lambda now, time: commands.reveal(now, chain, "service", now.last_link, time), key
            )
        if not held:
            _no_seed(seed, "the service holds the seed, and reveals it")
            kept = await context.custody.open(state.seal.commitment)
            return await self._end(state, lambda now, time: commands.reveal(now, chain, "service", kept, time), key)
        given = rules.hosts_seed(state, seed)
        await draw_plan(context, state, given)
        return await self._end(state, lambda now, time: commands.reveal(now, chain, "host", given, time), key)

    async def void(self, host: Host, session: bytes, key: Key | None = None) -> Written:
        """Give a session up before its round exists, or its first call."""
        context, state = self._context, await self._context.own(host, session)
        chain = context.chain_of(state)
        known = state.seal.custody == "beacon" and not state.live
        seed = await context.custody.open(state.seal.commitment) if known else None

        def decide(now: SessionState, time: int) -> entries.SessionEntry:
            return commands.void(now, chain, context.known_time(chain, time), seed, time)

        return await self._end(state, decide, key)

    async def state(self, session: bytes) -> SessionState:
        """What the log says of a session."""
        return await self._context.find(session)

    async def view(self, session: bytes) -> dict[str, Any]:
        """The JSON of a session."""
        return self._context.as_json(await self._context.find(session))

    async def page(self, asked: ledger.Asked) -> dict[str, Any]:
        """A page of a host's sessions."""
        return await self._context.transcripts.read(lambda db: ledger.page(db, asked, self._context.book.get))

    async def ledger(self, host: str) -> dict[str, Any]:
        """The public ledger of a host; one that is asked for often is counted once in LEDGER_SECONDS."""
        loop = asyncio.get_running_loop()
        made, shown = self._ledgers.get(host, (-LEDGER_SECONDS, None))
        if shown is None or loop.time() - made >= LEDGER_SECONDS:
            shown = await self._context.transcripts.read(lambda db: ledger.ledger(db, host))
            if shown is None:
                raise ApiError("host-unknown", "no session of such a host is in the log")
            self._ledgers[host] = (loop.time(), shown)
            forget_oldest(self._ledgers, LEDGERS_KEPT)
        return shown

    async def join_tokens(self, host: Host, session: bytes, participants: Sequence[str]) -> dict[str, str]:
        """A token for each of these participants, with which each may contribute once, without the host's."""
        state = await self._context.own(host, session)
        if state.seal.close_at is None:
            raise ApiError("no-contributions-taken", "the session was sealed without contributions")
        listed = {participant.id for participant in state.seal.participants}
        for participant in participants:
            if participant not in listed and not state.seal.open:
                raise ApiError("not-a-participant", f"{participant!r} is not listed")
        return {participant: self._joining.token(session, participant) for participant in participants}

    async def receipt(self, session: bytes, index: int) -> dict[str, Any]:
        """The receipt of one of the session's entries, or of a `round` entry that it uses, by its log index."""
        context, state = self._context, await self._context.find(session)
        entry = await self._entry(session, index)
        return await context.transcripts.receipt(index, entry, await context.info_of(state))

    async def tlog_proof(self, session: bytes, index: int) -> str:
        """The same as a C2SP tlog-proof."""
        await self._context.find(session)
        return await self._context.transcripts.tlog_proof(index, await self._entry(session, index))

    async def _entry(self, session: bytes, index: int) -> bytes:
        entry = await self._context.transcripts.read(lambda db: shown_entry(db, session, index))
        if entry is None:
            raise ApiError("not-found", f"the session has no entry {index}")
        return entry

    async def transcript(self, session: bytes) -> bytes:
        """The document of a session."""
        document = await self._context.transcripts.transcript(session)
        if document is None:
            raise ApiError("session-unknown", f"no session {session.hex()}")
        return document

    async def _end(
        self, state: SessionState, decide: Callable[[SessionState, int], entries.SessionEntry], key: Key | None
    ) -> Written:
        context, chain = self._context, self._context.chain_of(state)

        def step(time: int, ahead: Ahead) -> list[bytes]:
            context.no_doubt(chain)
            return ahead.put(decide(context.staged(state.session, ahead), time))

        return (await context.write(step, key=key))[0]

    def _chain(self, host: Host, name: str | None) -> ChainInfo:
        """The chain of that name or chain hash, or the default one."""
        wanted = self._default_chain if name is None else name
        for known, chain in self._context.chains.items():
            if wanted in {known, chain.hash.hex()}:
                if known in self._sandbox_only and not host.sandbox:
                    raise ApiError("sandbox-only-chain", f"{known} is for sandbox hosts")
                return chain
        raise ApiError("chain-unknown", f"no chain {wanted!r} here")

    async def _check_replaces(self, host: Host, request: SealRequest) -> None:
        if request.replaces is None:
            return
        query = "SELECT 1 FROM sessions WHERE session = ? AND host = ?"
        log = self._context.log
        found = await log.read(lambda db: db.conn.execute(query, (request.replaces, host.name)).fetchone())
        if found is None:
            raise ApiError("seal-replaces-unknown", "`replaces` is no earlier session of this host")


def _no_seed(seed: bytes | None, why: str) -> None:
    if seed is not None:
        raise ApiError("not-your-seed", why)


def _check_number(request: DrawRequest, due: int) -> None:
    if request.n is not None and request.n != due:
        raise ApiError("call-number", f"`n` is {request.n}, the next one is {due}", extra={"next_n": due})
