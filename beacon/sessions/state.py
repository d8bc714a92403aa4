"""The state of one session: a fold over its entries in log order, and nothing else.

    match: sealed -> closed -> anchored -> drawing -> revealed | void
    live:  sealed -> closed -> called <-> drawing  -> revealed | void

sealed: contributions are taken. closed: they are not, or no more; a match waits for its round, a live session for its
first call. anchored: the match's round is in the log. called: a call waits for its round, or for its draw. drawing:
something was drawn. States are values: `fold` returns a new one, so that what is not durable yet can be thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile
from typing import Any, Final, Literal, TypeAlias, cast

from verifier import entries
from verifier.draws import Deal, encode_recipe

EVENT_BYTES: Final = 2_500
MAX_SIZE: Final = 60 * 1024 * 1024

Name: TypeAlias = Literal["sealed", "closed", "anchored", "called", "drawing", "revealed", "void"]
RoundKey: TypeAlias = tuple[bytes, int]
"""(chain hash, round)."""


def name_of(
    end: entries.Reveal | entries.Void | None, *, called: bool, drawn: bool, closed: bool, anchored: bool
) -> Name:
    """What a session's state is called. called: whether a call waits; anchored: whether a match's round is in."""
    if end is not None:
        return "revealed" if isinstance(end, entries.Reveal) else "void"
    if called:
        return "called"
    if drawn:
        return "drawing"
    if not closed:
        return "sealed"
    return "anchored" if anchored else "closed"


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """A `round` entry: its log index, its time in ms, and the round's signature."""

    index: int
    time: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """A call that is not drawn yet: its log index, and its round's entry once that is in the log."""

    index: int
    call: entries.Call
    round: LoggedRound | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """What the log says of one session. session: the seal's leaf hash, 32 bytes; indices are the log's.

    round: a match's; unlocked: the timelock's. calls: how many a live session has had; called: how many of each recipe;
    pending: those that are not drawn, in order; link: the last link that is public, 32 bytes, the commitment at first;
    dealt: the cards that have left each deck. size: about how many bytes its events take in a transcript. last_index:
    of its newest entry, or of a `round` entry that it uses if that is newer.
    """

    session: bytes
    index: int
    seal: entries.Seal
    contributions: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    close: entries.Close | None = None
    close_index: int | None = None
    round: LoggedRound | None = None
    unlocked: LoggedRound | None = None
    calls: int = 0
    called: Mapping[str, int] = field(default_factory=dict, hash=False)
    pending: tuple[Pending, ...] = ()
    link: bytes = b""
    dealt: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    drawn: Mapping[str, int] = field(default_factory=dict, hash=False)
    end: entries.Reveal | entries.Void | None = None
    end_index: int | None = None
    size: int = 0
    last_index: int = -1

    @property
    def name(self) -> Name:
        """Where the session stands."""
        return name_of(
            self.end,
            called=bool(self.pending),
            drawn=bool(self.drawn),
            closed=not self.takes_contributions,
            anchored=self.round is not None,
        )

    @property
    def live(self) -> bool:
        return self.seal.profile == "live"

    @property
    def last_link(self) -> bytes | None:
        """s_K of a live session whose K calls are drawn, 32 bytes; None when nothing was called."""
        return self.link if self.calls else None

    @property
    def takes_contributions(self) -> bool:
        return self.seal.close_at is not None and self.close is None and self.end is None

    @property
    def everyone_contributed(self) -> bool:
        """Whether an early close is allowed (6.5)."""
        listed = self.seal.participants
        return not self.seal.open and all(participant.id in self.contributions for participant in listed)

    @property
    def waits_for(self) -> frozenset[RoundKey]:
        """The rounds that the session needs and whose entries are not in the log."""
        if self.end is not None:
            return frozenset()
        if self.seal.round is not None:
            return frozenset() if self.round is not None else frozenset({(self.seal.chain, self.seal.round)})
        return frozenset((self.seal.chain, pending.call.round) for pending in self.pending if pending.round is None)

    @property
    def lock(self) -> RoundKey | None:
        """The round that the seed is sealed to."""
        return lock_of(self.seal)

    @property
    def logs(self) -> frozenset[RoundKey]:
        """The rounds whose entries belong into the log when they come: those that it waits for, and the timelock's."""
        lock = self.lock
        if lock is None or self.unlocked is not None or self.end is not None:
            return self.waits_for
        return self.waits_for | {lock}

    @property
    def due(self) -> tuple[Pending, ...]:
        """The calls that can be drawn now, in order: their rounds are in the log."""
        return tuple(takewhile(lambda pending: pending.round is not None, self.pending))


def lock_of(seal: entries.Seal) -> RoundKey | None:
    """The round that a seal's timelock is to."""
    return None if seal.timelock is None else (seal.timelock.chain, seal.timelock.round)


def sealed(index: int, leaf: bytes, seal: entries.Seal) -> SessionState:
    """The state of a session whose seal is the entry at `index`, with leaf hash `leaf` (32 bytes)."""
    return SessionState(leaf, index, seal, link=seal.commitment, last_index=index)


def fold(state: SessionState, index: int, entry: entries.SessionEntry) -> SessionState:
    """The state after one more of the session's entries."""
    match entry:
        case entries.Contribution(participant=participant, entropy=entropy):
            return replace(state, contributions={**state.contributions, participant: entropy}, last_index=index)
        case entries.Close():
            return replace(state, close=entry, close_index=index, last_index=index)
        case entries.Call(recipe=recipe, n=n):
            pending = (*state.pending, Pending(index, entry))
            called = {**state.called, recipe: n}
            return replace(state, calls=entry.draw, called=called, pending=pending, last_index=index)
        case entries.Draw():
            return _drawn(state, index, entry)
        case entries.Reveal() | entries.Void():
            return replace(state, end=entry, end_index=index, last_index=index)


def _drawn(state: SessionState, index: int, entry: entries.Draw) -> SessionState:
    name = entry.recipe
    if entry.seed is not None:
        state = replace(state, pending=state.pending[1:], link=entry.seed)
    if isinstance(state.seal.recipes[name], Deal):
        cards = (*state.dealt.get(name, ()), *chain.from_iterable(cast(tuple[list[int], ...], entry.outcomes)))
        state = replace(state, dealt={**state.dealt, name: cards})
    return replace(state, drawn={**state.drawn, name: entry.n + len(entry.outcomes) - 1}, last_index=index)


def grown(state: SessionState, entry_bytes: int) -> SessionState:
    """The state with one more entry of this many bytes in its transcript: written as a JSON string, with its proof."""
    return replace(state, size=state.size + entry_bytes + entry_bytes // 4 + EVENT_BYTES)


def anchored(state: SessionState, key: RoundKey, logged: LoggedRound) -> SessionState:
    """The state once a round that the session uses is in the log."""
    last, number = state.last_index if state.end is not None else max(state.last_index, logged.index), key[1]
    if key == state.lock:
        return replace(state, unlocked=logged, last_index=last)
    if state.seal.round is not None:
        return replace(state, round=logged, last_index=last)
    pending = (replace(item, round=logged) if item.call.round == number else item for item in state.pending)
    return replace(state, pending=tuple(pending), last_index=last)


def as_json(
    state: SessionState, round_time: Callable[[int], int] | None, lock_time: int | None = None
) -> dict[str, Any]:
    """What `GET /v1/sessions/{id}` shows; `contributed` lists 200 ids at the most, the transcript all.

    round_time: from a round's number to when it falls due, in ms; None where the chain is not followed. lock_time: when
    the timelock's does.
    """
    seal = state.seal
    return {
        "session": state.session.hex(),
        "state": state.name,
        "index": state.index,
        "time": seal.time,
        "host": seal.host,
        "host_seq": seal.host_seq,
        "label": seal.label,
        "replaces": None if seal.replaces is None else seal.replaces.hex(),
        "profile": seal.profile,
        "custody": seal.custody,
        "sandbox": seal.sandbox,
        "commitment": seal.commitment.hex(),
        "chain": seal.chain.hex(),
        "round": seal.round,
        "round_time": None if round_time is None or seal.round is None else round_time(seal.round),
        "links": seal.links,
        "lead": seal.lead,
        "close_at": seal.close_at,
        "reveal_by": seal.reveal_by,
        "timelock": _lock(state, lock_time),
        "participants": [_participant(participant) for participant in seal.participants],
        "open": seal.open,
        "min_contributions": seal.min_contributions,
        "plan": None if seal.plan is None else dict(seal.plan),
        "recipes": {name: encode_recipe(recipe) for name, recipe in seal.recipes.items()},
        "attachments": [{"name": item.name, "sha256": item.sha256.hex()} for item in seal.attachments],
        "contributions": len(state.contributions),
        "contributed": list(islice(state.contributions, entries.MAX_PARTICIPANTS)),
        "close_index": state.close_index,
        "round_index": None if state.round is None else state.round.index,
        "calls": state.calls,
        "pending": [_pending(item, round_time) for item in state.pending],
        "called": {name: state.called.get(name, 0) for name in seal.recipes} if state.live else None,
        "drawn": {name: state.drawn.get(name, 0) for name in seal.recipes},
        "end_index": state.end_index,
        "last_index": state.last_index,
        "reason": state.end.reason if isinstance(state.end, entries.Void) else None,
        "seed": state.end.seed.hex() if state.end is not None and state.end.seed is not None else None,
    }


def _lock(state: SessionState, time: int | None) -> dict[str, Any] | None:
    lock, logged = state.seal.timelock, state.unlocked
    if lock is None:
        return None
    index = None if logged is None else logged.index
    return {"chain": lock.chain.hex(), "round": lock.round, "round_time": time, "round_index": index}


def _pending(pending: Pending, round_time: Callable[[int], int] | None) -> dict[str, Any]:
    call = pending.call
    return {
        "index": pending.index,
        "draw": call.draw,
        "recipe": call.recipe,
        "n": call.n,
        "purpose": call.purpose,
        "round": call.round,
        "round_time": None if round_time is None else round_time(call.round),
        "round_index": None if pending.round is None else pending.round.index,
    }


def _participant(participant: entries.Participant) -> dict[str, str]:
    key = {} if participant.key is None else {"key": participant.key.hex()}
    return {"id": participant.id, **key}
