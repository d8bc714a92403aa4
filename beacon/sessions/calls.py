"""Live sessions: the call that names a draw's round before it exists, and the draw once it does (6.6, 6.7).

A call is decided on the log's writer thread like every command. Its draw follows by itself where the service holds the
seed; a host that holds its own hands in the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beacon.errors import ApiError
from beacon.sessions import draws, rules
from beacon.sessions.draws import Drawing
from beacon.sessions.state import Pending, SessionState
from verifier import entries
from verifier.drand import ChainInfo, VerifiedRound
from verifier.draws import Deal
from verifier.seeds import opens


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for. draw, n: what the caller takes for the next numbers; None leaves them to the service."""

    recipe: str
    purpose: str
    contributions: tuple[entries.CallContribution, ...]
    draw: int | None = None
    n: int | None = None


def call(state: SessionState, asked: Asked, chain: ChainInfo, newest: VerifiedRound, time: int) -> entries.Call:
    """The call at `time`; its signatures are for `check_contributors`."""
    rules.known_recipe(state, asked.recipe)
    draws.check_size(state)
    k, n = state.calls + 1, state.called.get(asked.recipe, 0) + 1
    for what, wanted, due in (("draw", asked.draw, k), ("n", asked.n, n)):
        if wanted is not None and wanted != due:
            extra = {"next_draw": k, "next_n": n}
            raise ApiError("call-number", f"`{what}` is {wanted}, the next one is {due}", extra=extra)
    draws.check_deck(state.seal.recipes[asked.recipe], n - 1, 1)
    assert state.seal.lead is not None
    number = chain.first_at(time + state.seal.lead)
    entry = entries.Call(time, state.session, k, asked.recipe, n, asked.purpose, number, asked.contributions)
    rules.call(entry, state, chain, newest)
    return entry


def check_contributors(state: SessionState, asked: Asked) -> None:
    """6.4 and 4.4 for the contributions of a call, which sign its numbers. Takes milliseconds of CPU for each."""
    ids = {item.participant for item in asked.contributions}
    if len(ids) < len(asked.contributions):
        raise ApiError("already-contributed", "a participant contributes once to a call")
    signed = any(item.signature is not None for item in asked.contributions)
    if signed and (asked.draw is None or asked.n is None):
        raise ApiError("call-number", "signed contributions name `draw` and `n`: give them, as the participants signed")
    what = rules.Drawn(asked.draw or 0, asked.recipe, asked.n or 0, asked.purpose)
    for item in asked.contributions:
        rules.contributor(state.seal, state.session, item, what)


def drawings(state: SessionState) -> list[tuple[Pending, Drawing]]:
    """The draws of the calls whose rounds are in the log, in order; of each deal one at a time."""
    found: list[tuple[Pending, Drawing]] = []
    decks: set[str] = set()
    for pending in state.due:
        name = pending.call.recipe
        if isinstance(state.seal.recipes[name], Deal):
            if name in decks:
                break
            decks.add(name)
        found.append((pending, draws.called(state, pending)))
    return found


def work(state: SessionState) -> int:
    """About how many uniform numbers the draws take that `drawings` gives."""
    return sum(drawing.work for _, drawing in drawings(state))


def draw(state: SessionState, pending: Pending, link: bytes, outcome: Any, time: int) -> entries.Draw:
    """The entry of a call's draw: link is s_k, 32 bytes."""
    call = pending.call
    return entries.Draw(time, state.session, call.recipe, call.n, call.purpose, (outcome,), draw=call.draw, seed=link)


def host_link(state: SessionState, k: int, link: bytes, chain: ChainInfo, time: int) -> Pending:
    """Custody `host`: the call that a link (s_k, 32 bytes) is for. Refused out of order, early, or of another chain."""
    if not state.pending or state.pending[0].call.draw != k:
        due = f"call {state.pending[0].call.draw} is" if state.pending else "no call is"
        raise ApiError("call-number", f"{due} waiting for its draw", extra={"next_draw": state.calls + 1})
    pending = state.pending[0]
    if pending.round is None:
        raise ApiError("draw-before-round", **rules.not_in_yet(pending.call.round, chain, time))
    if not opens(link, 1, state.link):
        raise ApiError("seed-wrong", f"the hash of this link is not link {k - 1} of the sealed chain")
    return pending


def sorted_contributions(items: Sequence[entries.CallContribution]) -> tuple[entries.CallContribution, ...]:
    """By the UTF-8 bytes of the participants' ids (2.8)."""
    return tuple(sorted(items, key=lambda item: item.participant.encode("utf-8")))
