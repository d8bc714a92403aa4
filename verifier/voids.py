"""When a session may end without a result (PROTOCOL.md, 6.12), as far as one document can show it.

A void that is not allowed fails the claim `custody`. Without the chain what needs its clock is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from verifier.drand import ChainInfo
from verifier.rules import wait
from verifier.session import Session
from verifier.verdict import ClaimName, Finding

Known: TypeAlias = Sequence[tuple[int, int]]


def void(session: Session, known: Known, chain: ChainInfo | None) -> Iterator[Finding]:
    """6.12, and 6.7 for a live session that is void though nothing was left to draw. known: as of `signatures`."""
    if session.void is None:
        return
    event, seal = session.void, session.seal.entry
    entry = event.entry
    allowed = _VOIDS.get(entry.reason)
    problem = "no reason that the protocol knows" if allowed is None else allowed(session, known, chain)
    if problem:
        yield Finding(ClaimName.CUSTODY, "6.12", f"void for {entry.reason!r}: {problem}", event.index)
    if seal.round is None and session.calls and entry.reason not in {"no-round", "missed-reveal"}:
        yield Finding(ClaimName.CUSTODY, "6.12", "after the first call a session does not end so", event.index)
    if session.live and entry.reason == "missed-reveal" and not any(session.open_calls()):
        text = "a live session with every call drawn is revealed by the service"
        yield Finding(ClaimName.COMPLETE, "6.7", text, event.index)


def _known(session: Session, known: Known, number: int) -> bool:
    """Whether a signature of the round or a later one stands below the void."""
    at = session.void.index if session.void else 0
    return any(index < at and shown >= number for index, shown in known)


def _host(session: Session, known: Known, chain: ChainInfo | None) -> str | None:
    assert session.void is not None
    number = session.seal.entry.round
    if number is None:
        return None  # after the first call `void` itself refuses it
    if chain is not None and session.void.entry.time >= chain.time(number):
        return "at or after the round's time"
    return "the round was known already" if _known(session, known, number) else None


def _below_minimum(session: Session, _: Known, chain: ChainInfo | None) -> str | None:
    assert session.void is not None
    seal, time = session.seal.entry, session.void.entry.time
    if session.close is not None or seal.close_at is None:
        return "it stands in place of a close"
    if len(session.contributions) >= seal.min_contributions:
        return "the minimum was reached"
    if time <= seal.close_at:
        return "before close_at had passed"
    if chain is not None and seal.round is not None and time >= chain.time(seal.round):
        return "at or after the round's time"
    return None


def _missed_close(session: Session, _: Known, chain: ChainInfo | None) -> str | None:
    assert session.void is not None
    seal = session.seal.entry
    if seal.round is None or seal.close_at is None or session.close is not None:
        return "only of a match that takes contributions and was not closed"
    early = chain is not None and session.void.entry.time < chain.time(seal.round)
    return "before the round's time" if early else None


def _no_round(session: Session, known: Known, _: ChainInfo | None) -> str | None:
    assert session.void is not None
    if session.void.entry.time < session.seal.entry.reveal_by:
        return "before reveal_by"
    number = session.seal.entry.round
    waiting = [number] if number is not None else [call.entry.round for call in session.open_calls()]
    if not waiting:
        return "no call waits for a round"
    return "the round was known already" if _known(session, known, max(waiting)) else None


def _missed_reveal(session: Session, _: Known, chain: ChainInfo | None) -> str | None:
    assert session.void is not None
    seal, time, index = session.seal.entry, session.void.entry.time, session.void.index
    if time < seal.reveal_by:
        return "before reveal_by"
    numbers = [seal.round] if seal.round is not None else [call.entry.round for call in session.calls.values()]
    needed = [(seal.chain, number) for number in numbers]
    if seal.timelock is not None:
        needed.append((seal.timelock.chain, seal.timelock.round))
    known = [session.rounds[key] for key in needed if key in session.rounds and session.rounds[key].index < index]
    if len(known) < len(needed):
        return "before a round that it needed was logged"
    waited = [event.entry.time for event in known[: len(numbers)]]
    too_soon = chain is not None and bool(waited) and time < max(waited) + wait(chain)
    return "too soon after the last round it needed" if too_soon else None


_VOIDS: Final = {
    "host": _host,
    "below-minimum": _below_minimum,
    "missed-close": _missed_close,
    "no-round": _no_round,
    "missed-reveal": _missed_reveal,
}
REASONS: Final = frozenset(_VOIDS)
"""The reasons that a void may state (6.12)."""
