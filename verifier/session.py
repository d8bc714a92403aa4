"""One session as a document shows it: entries sorted by what they are, the first of each being the valid one (6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from verifier import entries
from verifier.errors import Code, FormatError
from verifier.seeds import session_digest
from verifier.transcript import Event, Transcript, rounds_used
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
    """A session's valid entries in log order, the rounds it uses, and the findings against 6.1, 6.5 and 6.8 on the way.

    `contributions` are those before the close, over which S is made; `calls` is by k, in log order; `taken` holds what
    may stand only once.
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
    _digest: bytes | None = None

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

    def found(self, claim: ClaimName, rule: str, text: str, index: int) -> None:
        self.findings.append(Finding(claim, rule, text, index))

    def round_of(self, number: int | None) -> Logged[entries.Round] | None:
        """The shown `round` entry of a round of the session's chain."""
        return self.rounds.get((self.seal.entry.chain, number)) if number is not None else None

    def call_of(self, k: int | None) -> Logged[entries.Call] | None:
        return self.calls.get(k) if k is not None else None

    def digest(self) -> bytes:
        """S, 32 bytes, over the contributions before the close (4.1)."""
        if self._digest is None:
            pairs = [(event.entry.participant, event.entry.entropy) for event in self.contributions]
            self._digest = session_digest(self.seal.leaf, pairs)
        return self._digest

    def is_drawn(self, k: int) -> bool:
        """Whether draw k of a live session is there."""
        return ("draw", k) in self.taken

    def open_calls(self) -> Iterator[Logged[entries.Call]]:
        """Calls whose draw is not there."""
        return (call for call in self.calls.values() if not self.is_drawn(call.entry.draw))


def collect(transcript: Transcript) -> Session | None:
    """The session of a document; None if it shows no seal. FormatError for entries of the other profile (3.6)."""
    event = transcript.seal
    if event is None:
        return None
    assert isinstance(event.entry, entries.Seal)
    session = Session(Logged(event.index, event.leaf, event.entry))
    used = rounds_used(transcript)
    for other in transcript.events:
        if other is event:
            continue
        if isinstance(other.entry, entries.Round):
            if (other.entry.chain, other.entry.round) in used:
                _add_round(session, other, other.entry)
        elif isinstance(other.entry, entries.SessionEntry) and other.entry.session == session.seal.leaf:
            add(session, other, other.entry)
        elif other.data == event.data:
            session.found(ClaimName.SOLE, "6.1", "the same seal once more", other.index)
    return session


def _add_round(session: Session, event: Event, entry: entries.Round) -> None:
    key = (entry.chain, entry.round)
    first = session.rounds.setdefault(key, Logged(event.index, event.leaf, entry))
    if first.index == event.index:
        return
    text = f"a second entry of round {entry.round}"
    session.found(ClaimName.SOLE, "6.8", text, event.index)
    if first.entry.signature != entry.signature:
        text += " with another signature: the chain is broken, or one of the two is forged"
    session.found(ClaimName.ROUND, "6.8", text, event.index)


def add(session: Session, event: Event, entry: entries.SessionEntry) -> None:
    """Take one of the session's entries, in log order after those that it has. FormatError as in `collect`."""
    _check_profile(session, event, entry)
    if event.index < session.seal.index:
        session.found(ClaimName.LOG, "6.1", f"a {entry.type} of the session stands before its seal", event.index)
    if session.end is not None:
        text = f"a {entry.type} after the session's end"
        session.found(ClaimName.SOLE, "6.1", text, event.index)
        session.found(ClaimName.COMPLETE, "6.1", text, event.index)
        return
    match entry:
        case entries.Contribution():
            if not _first(
                session, event, f"contribution of {entry.participant!r}", ("contribution", entry.participant)
            ):
                return
            if session.close is not None:
                session.found(ClaimName.UNPREDICTABLE, "6.5", "a contribution after the close", event.index)
                return
            session.contributions.append(Logged(event.index, event.leaf, entry))
        case entries.Close():
            if _first(session, event, "close", ("close", "")):
                session.close = Logged(event.index, event.leaf, entry)
        case entries.Call():
            if _first(session, event, f"call {entry.draw}", ("call", entry.draw)):
                session.calls[entry.draw] = Logged(event.index, event.leaf, entry)
        case entries.Draw():
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
        session.found(ClaimName.SOLE, "6.1", f"a second {what}", event.index)
        return False
    session.taken.update(keys)
    return True


def _check_profile(session: Session, event: Event, entry: entries.SessionEntry) -> None:
    """Calls, and draws with their k and link, are exactly in live sessions (3.6)."""
    live_only = isinstance(entry, entries.Call) or (isinstance(entry, entries.Draw) and entry.draw is not None)
    match_only = isinstance(entry, entries.Draw) and entry.draw is None
    if (live_only and not session.live) or (match_only and session.live):
        profile = session.seal.entry.profile
        raise FormatError(Code.ENTRY, f"entry {event.index}: not of the form that the profile {profile} has")
