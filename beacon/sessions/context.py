"""What every command of a session stands on: the log, the book, the chains, and who may command which session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.log import reads, wire
from beacon.log.log import Log
from beacon.log.sequencer import Appended
from beacon.memory import forget_oldest
from beacon.metrics import SIZES, Histogram
from beacon.rounds.rounds import Rounds
from beacon.sessions import rules
from beacon.sessions.book import Book, as_of, chain_info, load
from beacon.sessions.custody import Custody
from beacon.sessions.doubt import ClockDoubt
from beacon.sessions.locks import Locks
from beacon.sessions.requests import Written
from beacon.sessions.state import SessionState, as_json, fold
from beacon.sessions.transcripts import Transcripts
from beacon.sessions.worker import Worker
from beacon.store.private import Kept, KeptAnswer, KeptSeed
from verifier import entries
from verifier.drand import ChainInfo, VerifiedRound
from verifier.encoding import lp
from verifier.merkle import leaf_hash
from verifier.seeds import sha256

ENDED_KEPT: Final = 256
_KEY: Final = lp(b"fair-beacon/idempotency-key")


class Host(Protocol):
    """Who commands: the name that stands in the seal, and whether it plays tests only."""

    @property
    def name(self) -> str: ...
    @property
    def sandbox(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Key:
    """name: of a request, 32 bytes; fingerprint: of what it asks, 32 bytes."""

    name: bytes
    fingerprint: bytes

    @classmethod
    def of(cls, owner: str, key: str, what: str, body: bytes) -> Key:
        """The key that `owner` (a host) chose for a request. what: the operation and its place; body: what it says."""
        return cls(sha256(_KEY + lp(owner.encode()) + lp(key.encode())), sha256(lp(what.encode()) + lp(body)))


class Ahead:
    """What the earlier steps of one write have decided, before any of it is in the book."""

    def __init__(self) -> None:
        self.seals: Final[Counter[str]] = Counter()
        self.chains: Final[set[bytes]] = set()
        self.commitments: Final[set[bytes]] = set()
        self._states: Final[dict[bytes, SessionState]] = {}
        self._decided: Final[dict[bytes, list[entries.SessionEntry]]] = {}

    def put(self, *decided: entries.SessionEntry) -> list[bytes]:
        """The bytes of the sessions' entries that this step decides; later steps see the sessions after them."""
        for entry in decided:
            self._decided.setdefault(entry.session, []).append(entry)
        return [wire.encode(entry) for entry in decided]

    def after(self, state: SessionState) -> SessionState:
        """A session after what was decided of it. state: as the book has it."""
        state = self._states.get(state.session, state)
        for entry in self._decided.pop(state.session, ()):
            state = self._states[state.session] = fold(state, state.last_index, entry)
        return state


Step = Callable[[int, Ahead], list[bytes]]
"""Decides one thing that was asked for, at the entry's time in ms, on the writer's thread."""


@contextmanager
def of_item(number: int, of: int) -> Iterator[None]:
    """A refusal of one of several things that were asked for together says which: `item`, from 0."""
    try:
        yield
    except ApiError as error:
        if of == 1:
            raise
        extra = {**error.extra, "item": number}
        raise ApiError(
            error.code, f"item {number}: {error.detail}", extra=extra, retry_after=error.retry_after
        ) from error


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
        worker: Worker,
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
        self.worker: Final = worker
        self.locks: Final = Locks(worker)
        self.chains: Final = dict(chains)
        self._by_hash: Final = {chain.hash: chain for chain in chains.values()}
        self.settled: Final = Histogram(SIZES)
        """How many draws of live sessions the service made at a time."""
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

    def staged(self, session: bytes, ahead: Ahead) -> SessionState:
        """On the writer's thread: the session as everything before has left it. Raises ApiError once it has ended."""
        return rules.open_session(ahead.after(rules.open_session(self.book.staged(session))))

    async def find(self, session: bytes) -> SessionState:
        """Any session. Raises ApiError(session-unknown)."""
        state = self.book.get(session) or self._ended.get(session)
        if state is None:
            state = await self.transcripts.read(lambda db: load(db, session))
            if state is None:
                raise ApiError("session-unknown", f"no session {session.hex()}")
            if state.end is not None:
                self._ended[session] = state
                forget_oldest(self._ended, ENDED_KEPT)
        return state

    async def own(self, host: Host, session: bytes) -> SessionState:
        """An open session of this host's."""
        state = await self.find(session)
        if state.seal.host != host.name:
            raise ApiError("not-your-session", f"the session belongs to the host {state.seal.host}")
        self.chain_of(state)
        return rules.open_session(state)

    async def write(self, *steps: Step, key: Key | None = None, seeds: Sequence[KeptSeed] = ()) -> list[Written]:
        """Append what the steps decide, all or nothing, durably; seeds, and which request is answered, are kept first.

        An answer for each thing that was asked for, with the session as this write's last entry has left it; none when
        nothing was decided.
        """

        def build(time: int) -> list[bytes]:
            ahead, built = Ahead(), []
            for number, step in enumerate(steps):
                with of_item(number, len(steps)):
                    built += step(time, ahead)
            return built

        states: dict[bytes, SessionState] = {}

        def staged(appended: Sequence[Appended]) -> list[Kept]:
            for item in appended:
                name = _session_of(item)
                state = None if name is None else self.book.staged(name)
                if state is not None:
                    states[state.session] = state
            answer = [_answer(key, appended)] if key is not None and appended else []
            return [*seeds, *answer]

        return await self._written(await self.log.append(build, staged), states)

    async def again(self, first: int, count: int) -> list[Written]:
        """The answers of a write whose entries are the `count` of them from log index `first` on: as they were."""
        appended = await self.transcripts.read(lambda db: _logged(db, first, count))
        for item in appended:
            item.proof, item.checkpoint = await self.log.receipt_proof(item.index)
        known = [await self.find(name) for name in {_session_of(item) for item in appended} if name is not None]
        end = first + count
        states = await self.transcripts.read(lambda db: {state.session: as_of(db, state, end) for state in known})
        return await self._written(appended, states)

    async def _written(self, appended: Sequence[Appended], states: Mapping[bytes, SessionState]) -> list[Written]:
        answers: list[Written] = []
        for item in appended:
            name = _session_of(item)
            if name is None:
                continue
            state, entry = states[name], wire.parse(item.entry)
            receipt = self.transcripts.first_receipt(item, await self.info_of(state))
            if isinstance(entry, entries.Close) and answers and answers[-1].session == name:
                answers[-1].receipts.append(receipt)
                continue
            written = Written(name, self.as_json(state), [receipt])
            if isinstance(entry, entries.Draw):
                written = replace(written, outcomes=list(entry.outcomes), first_n=entry.n)
            elif isinstance(entry, entries.Call):
                written = replace(written, call=entry)
            answers.append(written)
        return answers

    async def info_of(self, state: SessionState) -> Mapping[str, Any]:
        """The info of a session's chain, followed or not: its seven fields."""
        chain = self._by_hash.get(state.seal.chain)
        if chain is not None:
            return chain.as_dict()
        return await self.log.read(lambda db: chain_info(db, state.seal.chain)) or {}

    def as_json(self, state: SessionState) -> dict[str, Any]:
        """The JSON of a session."""
        chain = self._by_hash.get(state.seal.chain)
        lock, lock_time = state.lock, None
        if lock is not None and (locked := self._by_hash.get(lock[0])) is not None:
            lock_time = locked.time(lock[1])
        return as_json(state, None if chain is None else chain.time, lock_time)


def _session_of(item: Appended) -> bytes | None:
    """The session (32 bytes) that an entry belongs to; None for those of no session."""
    entry = wire.parse(item.entry)
    if isinstance(entry, entries.Seal):
        return item.leaf_hash
    return None if isinstance(entry, entries.Log | entries.Chain | entries.Round) else entry.session


def _answer(key: Key, appended: Sequence[Appended]) -> KeptAnswer:
    return KeptAnswer(key.name, key.fingerprint, appended[0].index, len(appended), appended[-1].leaf_hash)


def _logged(db: Database, first: int, count: int) -> list[Appended]:
    found = reads.entries(db, first, first + count)
    return [Appended(index, wire.parse(data).time, data, leaf_hash(data)) for index, data in enumerate(found, first)]
