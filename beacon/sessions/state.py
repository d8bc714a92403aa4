"""The state of one session: a fold over its entries in log order, and nothing else.

    sealed -> closed -> anchored -> drawing -> revealed | void

sealed: contributions are taken. closed: they are not, or no more; the session waits for its round. anchored: the round
is in the log. drawing: something was drawn. States are values: `fold` returns a new one, so that what is not durable
yet can be thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from verifier import entries
from verifier.draws import encode_recipe

EVENT_BYTES: Final = 2_500
MAX_SIZE: Final = 60 * 1024 * 1024

Name: TypeAlias = Literal["sealed", "closed", "anchored", "drawing", "revealed", "void"]


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """A `round` entry: its log index, its time in ms, and the round's signature."""

    index: int
    time: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class SessionState:
    """What the log says of one session. session: the seal's leaf hash, 32 bytes; indices are the log's.

    size: about how many bytes its events take in a transcript.
    """

    session: bytes
    index: int
    seal: entries.Seal
    contributions: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    close: entries.Close | None = None
    close_index: int | None = None
    round: LoggedRound | None = None
    drawn: Mapping[str, int] = field(default_factory=dict, hash=False)
    end: entries.Reveal | entries.Void | None = None
    end_index: int | None = None
    size: int = 0

    @property
    def name(self) -> Name:
        """Where the session stands."""
        if self.end is not None:
            return "revealed" if isinstance(self.end, entries.Reveal) else "void"
        if self.drawn:
            return "drawing"
        if self.takes_contributions:
            return "sealed"
        return "closed" if self.round is None else "anchored"

    @property
    def takes_contributions(self) -> bool:
        return self.seal.close_at is not None and self.close is None and self.end is None

    @property
    def everyone_contributed(self) -> bool:
        """Whether an early close is allowed (6.5)."""
        listed = self.seal.participants
        return not self.seal.open and all(participant.id in self.contributions for participant in listed)

    @property
    def waits_for(self) -> tuple[bytes, int]:
        """(chain hash, round) of a match."""
        assert self.seal.round is not None
        return self.seal.chain, self.seal.round


def sealed(index: int, leaf: bytes, seal: entries.Seal) -> SessionState:
    """The state of a session whose seal is the entry at `index`, with leaf hash `leaf` (32 bytes)."""
    return SessionState(leaf, index, seal)


def fold(state: SessionState, index: int, entry: entries.SessionEntry) -> SessionState:
    """The state after one more of the session's entries."""
    match entry:
        case entries.Contribution(participant=participant, entropy=entropy):
            return replace(state, contributions={**state.contributions, participant: entropy})
        case entries.Close():
            return replace(state, close=entry, close_index=index)
        case entries.Draw(recipe=recipe, n=n, outcomes=outcomes):
            return replace(state, drawn={**state.drawn, recipe: n + len(outcomes) - 1})
        case entries.Reveal() | entries.Void():
            return replace(state, end=entry, end_index=index)
        case entries.Call():
            raise NotImplementedError("live sessions are not served by this version")


def grown(state: SessionState, entry_bytes: int) -> SessionState:
    """The state with one more entry of this many bytes in its transcript: written as a JSON string, with its proof."""
    return replace(state, size=state.size + entry_bytes + entry_bytes // 4 + EVENT_BYTES)


def anchored(state: SessionState, logged: LoggedRound) -> SessionState:
    """The state once the session's round is in the log."""
    return replace(state, round=logged)


def as_json(state: SessionState, round_time: int | None) -> dict[str, Any]:
    """What `GET /v1/sessions/{id}` shows; `contributed` lists 200 ids at the most, the transcript all.

    round_time: when the round falls due, in ms, where the chain is followed.
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
        "round_time": round_time,
        "close_at": seal.close_at,
        "reveal_by": seal.reveal_by,
        "participants": [_participant(participant) for participant in seal.participants],
        "open": seal.open,
        "min_contributions": seal.min_contributions,
        "recipes": {name: encode_recipe(recipe) for name, recipe in seal.recipes.items()},
        "attachments": [{"name": item.name, "sha256": item.sha256.hex()} for item in seal.attachments],
        "contributions": len(state.contributions),
        "contributed": list(islice(state.contributions, entries.MAX_PARTICIPANTS)),
        "close_index": state.close_index,
        "round_index": None if state.round is None else state.round.index,
        "drawn": {name: state.drawn.get(name, 0) for name in seal.recipes},
        "end_index": state.end_index,
        "reason": state.end.reason if isinstance(state.end, entries.Void) else None,
        "seed": state.end.seed.hex() if state.end is not None and state.end.seed is not None else None,
    }


def _participant(participant: entries.Participant) -> dict[str, str]:
    key = {} if participant.key is None else {"key": participant.key.hex()}
    return {"id": participant.id, **key}
