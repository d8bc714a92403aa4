"""What the service refuses: the rules of PROTOCOL.md, section 6, at the moment of an entry (6.2).

Every function takes the entry's own time in ms and raises ApiError with the rule's code, or returns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.rounds.refusals import TellAgain
from beacon.sessions.state import SessionState
from verifier import ed25519, entries
from verifier.drand import ChainInfo, VerifiedRound
from verifier.errors import VerifierError
from verifier.rules import CLOCK_SLACK, MAX_REVEAL, MAX_TIMELOCK, period, wait
from verifier.seeds import contribution_message, opens

MAX_PENDING: Final = 64
MIN_DIFFERENT: Final = 12

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


class NotYetError(TellAgain):
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


def running(chain: ChainInfo, time: int) -> None:
    """2.5: nothing new rests on a chain that has ended by `time` (ms), whether or not its rounds are known here."""
    if chain.last_round is not None and chain.current(time) >= chain.last_round:
        raise ApiError("chain-retired", f"the chain has ended with round {chain.last_round}")


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
    """6.3 and 6.4 for a seal."""
    if chain.last_round is not None and newest.round >= chain.last_round:
        raise ApiError("chain-retired", f"the chain has ended with round {chain.last_round}")
    if entry.round is not None:
        _round(entry.round, entry.time, chain, newest)
    _close_at(entry, chain)
    last = max(entry.time, entry.close_at or 0) + (entry.lead or 0) if entry.round is None else chain.time(entry.round)
    if entry.reveal_by < last + wait(chain):
        raise ApiError("seal-reveal-by-too-early", f"the earliest reveal_by is {last + wait(chain)}")
    if entry.reveal_by > entry.time + MAX_REVEAL:
        raise ApiError("seal-reveal-by-too-late", f"the latest reveal_by is {entry.time + MAX_REVEAL}")


def timelock(entry: entries.Seal, chain: ChainInfo) -> None:
    """6.3 and 2.5 for a seal's timelock, under its own chain."""
    assert entry.timelock is not None
    number = entry.timelock.round
    if number > chain.final_round:
        raise ApiError("seal-timelock-invalid", f"the last round of its chain is {chain.final_round}")
    first, last = chain.first_at(entry.reveal_by), chain.current(entry.reveal_by + MAX_TIMELOCK)
    if not first <= number <= last:
        raise ApiError("seal-timelock-invalid", f"with this reveal_by its round is one from {first} to {last}")


def _round(number: int, time: int, chain: ChainInfo, newest: VerifiedRound) -> None:
    earliest = max(newest.round + 2, chain.first_at(time + 2 * period(chain)))
    if chain.last_round is not None and number > chain.last_round:
        raise ApiError("chain-retired", f"the chain's last round is {chain.last_round}")
    if number > chain.final_round:
        raise ApiError("seal-round-too-late", f"the chain's last round that can be named is {chain.final_round}")
    if number < earliest:
        text = f"round {number} is too near; the earliest is {earliest}"
        raise ApiError("seal-round-too-early", text, extra={"earliest_round": earliest})


def _close_at(entry: entries.Seal, chain: ChainInfo) -> None:
    if entry.close_at is None:
        if entry.min_contributions:
            raise ApiError("seal-contributions-mismatch", "without `close_at`, `min_contributions` is 0")
        if entry.round is not None and (entry.participants or entry.open):
            text = "nobody can contribute to a match without `close_at`, so `participants` and `open` are out"
            raise ApiError("seal-contributions-mismatch", text)
        return
    if not entry.participants and not entry.open:
        raise ApiError("seal-contributions-mismatch", "with `close_at`, list participants or set `open`")
    if not entry.open and entry.min_contributions > len(entry.participants):
        raise ApiError("seal-contributions-mismatch", "`min_contributions` is above the number of participants")
    if entry.round is not None and entry.close_at > (latest := chain.time(entry.round) - period(chain)):
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


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a contribution is for (4.4): a session's (k = 0 and nothing else), or one call's."""

    k: int = 0
    recipe: str = ""
    n: int = 0
    purpose: str = ""


def contributor(
    seal: entries.Seal,
    session: bytes,
    entry: entries.Contribution | entries.CallContribution,
    drawn: Drawn = Drawn(),
) -> None:
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
    what = (drawn.k, drawn.recipe, drawn.n, drawn.purpose)
    message = contribution_message(session, *what, entry.participant, entry.entropy)
    try:
        ed25519.verify(key, message, entry.signature)
    except VerifierError as error:
        raise ApiError("signature-invalid", error.message) from error


def may_close(state: SessionState, chain: ChainInfo, newest: VerifiedRound, time: int) -> bool:
    """6.5 and 6.11: whether a close at `time` is allowed; ApiError is for callers, this is for the service itself."""
    seal = state.seal
    if not state.takes_contributions:
        return False
    if seal.round is not None and (newest.round >= seal.round or time >= chain.time(seal.round)):
        return False
    assert seal.close_at is not None
    return time > seal.close_at or state.everyone_contributed


def draw(state: SessionState, recipe: str, chain: ChainInfo, time: int) -> None:
    """6.3, 6.4 and 6.7 for draws of a match that its host asks for."""
    known_recipe(state, recipe)
    if state.seal.plan is not None:
        raise ApiError("planned", "the seal's plan says what is drawn, and the service draws it by itself")
    needs_round(state, chain, time, "draw-before-round")
    if time >= state.seal.reveal_by:
        raise ApiError("draw-after-reveal-by", f"reveal_by was {state.seal.reveal_by}")


def known_recipe(state: SessionState, recipe: str) -> None:
    """The seal names what can be drawn."""
    if recipe not in state.seal.recipes:
        raise ApiError("unknown-recipe", f"{recipe!r} is not among {', '.join(state.seal.recipes)}")


def needs_round(state: SessionState, chain: ChainInfo, time: int, code: str) -> None:
    """6.7: match draws and the reveal come after the entry of the session's round, and after the close (6.4)."""
    assert state.seal.round is not None
    if state.round is not None:
        if state.takes_contributions:
            text = "the contributions were not closed before the round; the session ends void"
            raise ApiError("not-closed", text)
        return
    raise ApiError(code, **not_in_yet(state.seal.round, chain, time))


def not_in_yet(number: int, chain: ChainInfo, time: int) -> dict[str, Any]:
    """What ApiError says of something that has to come after a round that is not in the log: which one, and when."""
    due = chain.time(number)
    extra = {"round": number, "round_time": due}
    return {"detail": f"round {number} is not in the log yet", "extra": extra, "retry_after": seconds(due - time)}


def call(entry: entries.Call, state: SessionState, chain: ChainInfo, newest: VerifiedRound) -> None:
    """6.3, 6.4, 6.6 and 6.11 for a call."""
    seal, due = state.seal, chain.time(entry.round)
    if state.takes_contributions:
        assert seal.close_at is not None
        text = "the session takes contributions until they are closed; the first call comes after that"
        raise ApiError("call-before-close", text, retry_after=seconds(seal.close_at - entry.time))
    if entry.draw > seal.links:
        raise ApiError("links-used-up", f"the session was sealed with {seal.links} links, and has had as many calls")
    if len(state.pending) >= MAX_PENDING:
        wait_for = chain.time(state.pending[0].call.round) - entry.time
        raise ApiError("too-many-calls", f"{MAX_PENDING} calls wait for their rounds", retry_after=seconds(wait_for))
    if due >= seal.reveal_by:
        raise ApiError("call-after-reveal-by", f"its round would come at {due}, reveal_by is {seal.reveal_by}")
    if chain.last_round is not None and entry.round > chain.last_round:
        raise ApiError("chain-retired", f"the chain's last round is {chain.last_round}")
    if entry.round <= newest.round:
        raise ApiError("clock-unsure", _TROUBLE["clock-unsure"], retry_after=chain.period)


def reveal(state: SessionState, chain: ChainInfo, time: int) -> None:
    """6.7: when a session can end in a reveal."""
    if not state.live:
        needs_round(state, chain, time, "reveal-before-round")
    elif state.pending:
        wait_for = chain.time(state.pending[0].call.round) - time
        raise ApiError(
            "reveal-before-draws", f"call {state.pending[0].call.draw} is not drawn yet", retry_after=seconds(wait_for)
        )
    elif state.takes_contributions:
        assert state.seal.close_at is not None
        text = "the contributions are not closed; void the session, or wait for their close"
        raise ApiError("reveal-before-close", text, retry_after=seconds(state.seal.close_at - time))


def may_void(state: SessionState, chain: ChainInfo, newest: VerifiedRound, time: int) -> None:
    """6.12 `host` and 6.11."""
    number = state.seal.round
    if number is None:
        if state.calls:
            raise ApiError("void-too-late", "the session has been called")
    elif newest.round >= number or time >= chain.time(number):
        raise ApiError("void-too-late", f"round {number} exists")


def hosts_seed(state: SessionState, seed: bytes | None) -> bytes:
    """4.1: the seed of a match whose host holds it, 32 bytes: it opens the commitment, and is not plainly weak."""
    if seed is None:
        raise ApiError("seed-missing", "the host holds the seed: send it")
    if not opens(seed, 1, state.seal.commitment):
        raise ApiError("seed-wrong", "the seed does not open the commitment of the seal")
    if plainly_weak(seed):
        raise ApiError("seed-weak", "the seed is no random number: anybody could have guessed it")
    return seed


def plainly_weak(seed: bytes) -> bool:
    """Whether 32 bytes are no random ones: few different bytes, steps of one size, or text. 1 in 10^13 random ones."""
    steps = {(after - before) % 256 for before, after in pairwise(seed)}
    return len(set(seed)) < MIN_DIFFERENT or len(steps) == 1 or all(0x20 <= byte < 0x7F for byte in seed)


def clock_allows(entry_time: int, verified: VerifiedRound) -> None:
    """6.10: an entry that holds the round's signature is not earlier than the round, less a second; else it waits."""
    if entry_time < verified.time - CLOCK_SLACK:
        raise NotYetError(f"round {verified.round} falls due in {verified.time - entry_time} ms by this clock")


def seconds(milliseconds: int) -> int:
    """Whole seconds for Retry-After, 1 or more."""
    return max(1, math.ceil(milliseconds / 1000))
