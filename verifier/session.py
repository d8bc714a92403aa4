"""One session as a document shows it: entries sorted by what they are, the first of each being the valid one (6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from verifier import entries
from verifier.errors import Code, FormatError
from verifier.transcript import Event, Transcript
from verifier.verdict import ClaimName, Finding

E_co = TypeVar("E_co", bound=entries.Entry, covariant=True)


@dataclass(frozen=True, slots=True)
class Logged(Generic[E_co]):
    """An entry at its log index; `leaf` is its leaf hash, 32 bytes."""

    index: int
    leaf: bytes
    entry: E_co


@dataclass(slots=True)
class Session:
    """A session's valid entries in log order, the rounds it uses, and the findings against rule 6.1 on the way.

    `calls` is by k, in log order; `taken` holds what may stand only once.
    """

    seal: Logged[entries.Seal]
    contributions: list[Logged[entries.Contribution]] = field(default_factory=list)
    close: Logged[entries.Close] | None = None
    calls: dict[int, Logged[entries.Call]] = field(default_factory=dict)
    draws: list[Logged[entries.Draw]] = field(default_factory=list)
    reveal: Logged[entries.Reveal] | None = None
    void: Logged[entries.Void] | None = None
    rounds: dict[tuple[bytes, int], Logged[entries.Round]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    taken: set[tuple[str, str | int]] = field(default_factory=set)

    @property
    def live(self) -> bool:
        return self.seal.entry.profile == "live"

    @property
    def end(self) -> Logged[entries.Reveal] | Logged[entries.Void] | None:
        return self.reveal or self.void

    @property
    def anchor(self) -> Logged[entries.Seal] | Logged[entries.Close] | None:
        """What pins a match before its round: the close, or the seal where no contributions are taken (7.1)."""
        return self.seal if self.seal.entry.close_at is None else self.close

    def round_of(self, number: int | None) -> Logged[entries.Round] | None:
        """The shown `round` entry of a round of the session's chain."""
        return self.rounds.get((self.seal.entry.chain, number)) if number is not None else None

    def call_of(self, k: int | None) -> Logged[entries.Call] | None:
        return self.calls.get(k) if k is not None else None

    def open_calls(self) -> Iterator[Logged[entries.Call]]:
        """Calls whose draw is not there."""
        drawn = {draw.entry.draw for draw in self.draws}
        return (call for call in self.calls.values() if call.entry.draw not in drawn)


def collect(transcript: Transcript) -> Session | None:
    """The session of a document; None if it shows no seal. FormatError for entries of the other profile (3.6)."""
    event = transcript.seal
    if event is None:
        return None
    assert isinstance(event.entry, entries.Seal)
    session = Session(Logged(event.index, event.leaf, event.entry))
    for other in transcript.events:
        if other is event:
            continue
        if isinstance(other.entry, entries.Round):
            _add_round(session, other, other.entry)
        elif isinstance(other.entry, entries.SessionEntry) and other.entry.session == event.leaf:
            _add(session, other, other.entry)
    return session


def _add_round(session: Session, event: Event, entry: entries.Round) -> None:
    key = (entry.chain, entry.round)
    first = session.rounds.setdefault(key, Logged(event.index, event.leaf, entry))
    if first.index == event.index:
        return
    text = f"a second entry of round {entry.round}"
    session.findings.append(Finding(ClaimName.SOLE, "6.8", text, event.index))
    if first.entry.signature != entry.signature:
        text += " with another signature: the chain is broken, or one of the two is forged"
    session.findings.append(Finding(ClaimName.ROUND, "6.8", text, event.index))


def _add(session: Session, event: Event, entry: entries.SessionEntry) -> None:
    if event.index < session.seal.index:
        text = f"a {entry.type} of the session stands before its seal"
        session.findings.append(Finding(ClaimName.LOG, "6.1", text, event.index))
    if session.end is not None:
        text = f"a {entry.type} after the session's end"
        session.findings.append(Finding(ClaimName.SOLE, "6.1", text, event.index))
        session.findings.append(Finding(ClaimName.COMPLETE, "6.1", text, event.index))
        return
    match entry:
        case entries.Contribution():
            if _first(session, event, f"contribution of {entry.participant!r}", ("contribution", entry.participant)):
                session.contributions.append(Logged(event.index, event.leaf, entry))
        case entries.Close():
            if _first(session, event, "close", ("close", "")):
                session.close = Logged(event.index, event.leaf, entry)
        case entries.Call():
            _require_live(session, event, live=True)
            if _first(session, event, f"call {entry.draw}", ("call", entry.draw)):
                session.calls[entry.draw] = Logged(event.index, event.leaf, entry)
        case entries.Draw():
            _require_live(session, event, live=entry.draw is not None)
            last = entry.n + len(entry.outcomes) - 1
            match_numbers = [("draw " + entry.recipe, n) for n in range(entry.n, last + 1)]
            numbers = match_numbers if entry.draw is None else [("draw", entry.draw)]
            if _first(session, event, f"draw of {entry.recipe} {entry.n}", *numbers):
                session.draws.append(Logged(event.index, event.leaf, entry))
        case entries.Reveal():
            session.reveal = Logged(event.index, event.leaf, entry)
        case entries.Void():
            session.void = Logged(event.index, event.leaf, entry)


def _first(session: Session, event: Event, what: str, *keys: tuple[str, str | int]) -> bool:
    """Whether nothing of these keys was there before; the keys are taken then, else it is a finding (6.1)."""
    if any(key in session.taken for key in keys):
        session.findings.append(Finding(ClaimName.SOLE, "6.1", f"a second {what}", event.index))
        return False
    session.taken.update(keys)
    return True


def _require_live(session: Session, event: Event, *, live: bool) -> None:
    if session.live != live:
        profile = session.seal.entry.profile
        raise FormatError(Code.ENTRY, f"entry {event.index}: not of the form that the profile {profile} has")
