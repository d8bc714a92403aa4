"""What the service refuses: the rules of PROTOCOL.md, section 6, at the moment of an entry (6.2).

Every function takes the entry's own time in ms and raises ApiError with the rule's code, or returns.
"""

from __future__ import annotations

import math
from typing import Any, Final, Protocol

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.sessions.state import SessionState
from verifier import ed25519, entries
from verifier.drand import ChainInfo, VerifiedRound
from verifier.errors import VerifierError
from verifier.rules import CLOCK_SLACK, MAX_REVEAL, period, wait
from verifier.seeds import contribution_message

_TROUBLE: Final = {
    "chain-unknown": "this service does not follow the chain",
    "chain-broken": "the chain signed one round twice, differently",
    "rounds-damaged": "a stored round of the chain does not verify",
    "no-verified-round": "no round of the chain has been verified yet",
    "clock-unsure": "the newest verified round of the chain does not fit the service's clock",
}


class Rounds(Protocol):
    """What the rules ask of the chains."""

    def newest(self, chain_hash: bytes) -> VerifiedRound | None: ...
    def trouble(self, chain_hash: bytes, time: int | None = None) -> str | None: ...


class NotYetError(Exception):
    """The entry would break 6.10 now: it waits."""


def known_time(rounds: Rounds, clock: Clock, chain: ChainInfo, time: int) -> VerifiedRound:
    """6.11: V, the newest verified round, if it fits both the clock and the entry's time."""
    for at in (clock.now(), time):
        trouble = rounds.trouble(chain.hash, at)
        if trouble is not None:
            raise ApiError(trouble, _TROUBLE.get(trouble, "the chain cannot be used now"), retry_after=chain.period)
    newest = rounds.newest(chain.hash)
    assert newest is not None
    return newest


def open_session(state: SessionState | None) -> SessionState:
    """6.1: nothing follows a session's end. None: the session has ended, or there is none."""
    if state is None or state.end is None:
        if state is None:
            raise ApiError("session-ended", "the session has ended")
        return state
    if isinstance(state.end, entries.Void):
        raise ApiError("session-void", f"the session is void: {state.end.reason}")
    raise ApiError("session-ended", "the session has been revealed")


def seal(entry: entries.Seal, chain: ChainInfo, newest: VerifiedRound) -> None:
    """6.3 and 6.4 for a match's seal."""
    assert entry.round is not None
    earliest = max(newest.round + 2, chain.first_at(entry.time + 2 * period(chain)))
    if chain.last_round is not None and entry.round > chain.last_round:
        raise ApiError("chain-retired", f"the chain's last round is {chain.last_round}")
    if entry.round > chain.final_round:
        raise ApiError("seal-round-too-late", f"the chain's last round that can be named is {chain.final_round}")
    if entry.round < earliest:
        text = f"round {entry.round} is too near; the earliest is {earliest}"
        raise ApiError("seal-round-too-early", text, extra={"earliest_round": earliest})
    _close_at(entry, chain)
    due = chain.time(entry.round)
    if entry.reveal_by < due + wait(chain):
        raise ApiError("seal-reveal-by-too-early", f"the earliest reveal_by is {due + wait(chain)}")
    if entry.reveal_by > entry.time + MAX_REVEAL:
        raise ApiError("seal-reveal-by-too-late", f"the latest reveal_by is {entry.time + MAX_REVEAL}")


def _close_at(entry: entries.Seal, chain: ChainInfo) -> None:
    assert entry.round is not None
    if entry.close_at is None:
        if entry.min_contributions or entry.participants or entry.open:
            text = "without `close_at` nobody can contribute, so `participants`, `open` and `min_contributions` are out"
            raise ApiError("seal-contributions-mismatch", text)
        return
    if not entry.participants and not entry.open:
        raise ApiError("seal-contributions-mismatch", "with `close_at`, list participants or set `open`")
    if not entry.open and entry.min_contributions > len(entry.participants):
        raise ApiError("seal-contributions-mismatch", "`min_contributions` is above the number of participants")
    latest = chain.time(entry.round) - period(chain)
    if entry.close_at > latest:
        raise ApiError("seal-close-too-late", f"the latest close_at for this round is {latest}")
    if entry.close_at <= entry.time:
        raise ApiError("seal-close-in-past", f"close_at is {entry.close_at}, it is {entry.time} now")


def contribution(state: SessionState, entry: entries.Contribution, newest: VerifiedRound) -> None:
    """6.4 and 6.11, without the signature."""
    seal = state.seal
    if seal.close_at is None:
        raise ApiError("no-contributions-taken", "the session was sealed without contributions")
    if state.close is not None:
        raise ApiError("contributions-closed", f"closed by entry {state.close_index}")
    if entry.participant in state.contributions:
        raise ApiError("already-contributed", f"{entry.participant!r} has contributed already")
    if entry.time > seal.close_at:
        raise ApiError("contributions-closed", "close_at has passed")
    if seal.round is not None and newest.round >= seal.round - 1:
        raise ApiError("contribution-too-late", f"round {newest.round} is known; the session's is {seal.round}")
    if len(state.contributions) >= entries.MAX_CONTRIBUTIONS:
        raise ApiError("too-many-contributions", f"a session takes {entries.MAX_CONTRIBUTIONS} at most")


def contributor(seal: entries.Seal, session: bytes, entry: entries.Contribution) -> None:
    """6.4 and 4.4: who contributes, and whether it is signed as the seal says. Takes a few milliseconds of CPU."""
    listed = {participant.id: participant.key for participant in seal.participants}
    if entry.participant not in listed and not seal.open:
        raise ApiError("not-a-participant", f"{entry.participant!r} is not listed")
    key = listed.get(entry.participant)
    if key is None:
        if entry.signature is not None:
            raise ApiError("signature-not-expected", f"the seal lists no key for {entry.participant!r}")
        return
    if entry.signature is None:
        raise ApiError("signature-missing", f"the seal lists a key for {entry.participant!r}")
    message = contribution_message(session, 0, "", 0, "", entry.participant, entry.entropy)
    try:
        ed25519.verify(key, message, entry.signature)
    except VerifierError as error:
        raise ApiError("signature-invalid", error.message) from error


def may_close(state: SessionState, chain: ChainInfo, newest: VerifiedRound, time: int) -> bool:
    """6.5 and 6.11: whether a close at `time` is allowed; ApiError is for callers, this is for the service itself."""
    seal = state.seal
    assert seal.round is not None
    if not state.takes_contributions or newest.round >= seal.round or time >= chain.time(seal.round):
        return False
    assert seal.close_at is not None
    return time > seal.close_at or state.everyone_contributed


def closed(state: SessionState) -> None:
    """6.4: nothing is drawn or revealed while contributions are not closed; if they never are, the session is void."""
    if state.takes_contributions:
        raise ApiError("not-closed", "the contributions were not closed before the round; the session ends void")


def draw(state: SessionState, recipe: str, chain: ChainInfo, time: int) -> None:
    """6.3, 6.4 and 6.7."""
    seal = state.seal
    if recipe not in seal.recipes:
        raise ApiError("unknown-recipe", f"{recipe!r} is not among {', '.join(seal.recipes)}")
    needs_round(state, chain, time, "draw-before-round")
    if time >= seal.reveal_by:
        raise ApiError("draw-after-reveal-by", f"reveal_by was {seal.reveal_by}")


def needs_round(state: SessionState, chain: ChainInfo, time: int, code: str) -> None:
    """6.7: match draws and the reveal come after the entry of the session's round, and after the close (6.4)."""
    assert state.seal.round is not None
    if state.round is not None:
        closed(state)
        return
    due = chain.time(state.seal.round)
    extra: dict[str, Any] = {"round": state.seal.round, "round_time": due}
    raise ApiError(
        code, f"round {state.seal.round} is not in the log yet", extra=extra, retry_after=seconds(due - time)
    )


def may_void(state: SessionState, chain: ChainInfo, newest: VerifiedRound, time: int) -> None:
    """6.12 `host` and 6.11."""
    assert state.seal.round is not None
    if newest.round >= state.seal.round or time >= chain.time(state.seal.round):
        raise ApiError("void-too-late", f"round {state.seal.round} exists")


def clock_allows(entry_time: int, verified: VerifiedRound) -> None:
    """6.10: an entry that holds the round's signature is not earlier than the round, less a second; else it waits."""
    if entry_time < verified.time - CLOCK_SLACK:
        raise NotYetError(f"round {verified.round} falls due in {verified.time - entry_time} ms by this clock")


def seconds(milliseconds: int) -> int:
    """Whole seconds for Retry-After, 1 or more."""
    return max(1, math.ceil(milliseconds / 1000))
