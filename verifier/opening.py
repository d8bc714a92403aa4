"""A session finished without its operator: its seed by the timelock, and every draw that follows (PROTOCOL.md 7.3).

What is at hand may be a transcript, or receipts of the same session from several players: `unite` makes one of them.
Nothing is decided here about the log, which is what `check` and `evidence.LogClaim` are for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from verifier import entries
from verifier.custody import open_lock
from verifier.drand import VerifiedRound
from verifier.draws import Deal, Dealer
from verifier.encoding import Json, encode_json
from verifier.errors import Code, FormatError, VerificationError
from verifier.seeds import Stream, binding, seed_chain
from verifier.session import Session, collect
from verifier.transcript import Event, Transcript

MAX_DRAWS: Final = 10_000
Rounds = Callable[[int], VerifiedRound | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One draw. k: 0 in a match. claimed: what the documents say, None if they do not; `why`: it cannot be computed."""

    recipe: str
    n: int
    k: int
    purpose: str
    outcome: Json
    claimed: Json
    why: str = ""

    @property
    def same(self) -> bool | None:
        """Whether the documents say the same; None where there is nothing to compare."""
        if self.claimed is None or self.why:
            return None
        return encode_json([self.outcome]) == encode_json([self.claimed])

    def as_dict(self) -> dict[str, Json]:
        return {
            "recipe": self.recipe,
            "n": self.n,
            "draw": self.k or None,
            "purpose": self.purpose,
            "outcome": self.outcome,
            "transcript": self.claimed,
            "same": self.same,
            "why": self.why,
        }


def unite(documents: Sequence[Transcript]) -> Transcript:
    """The entries of several documents as one, under the newest checkpoint; without proofs, which each has for its own.

    Raises FormatError for documents of other logs or sessions, or without the seal; VerificationError(CONSISTENCY) for
    two entries at one index: two histories.
    """
    found: dict[int, Event] = {}
    newest = max(documents, key=lambda one: one.signed.checkpoint.size)
    for document in documents:
        if document.origin != newest.origin:
            raise FormatError(Code.DOCUMENT, f"documents of two logs, {document.origin} and {newest.origin}")
        for event in document.events:
            if found.setdefault(event.index, event).data != event.data:
                raise VerificationError(Code.CONSISTENCY, f"two entries at index {event.index}: two histories")
    united = replace(newest, events=tuple(found[index] for index in sorted(found)), evidence=())
    if united.seal is None:
        raise FormatError(Code.DOCUMENT, "the seal is in none of the documents: add its receipt")
    sessions = {event.leaf for event in united.events if isinstance(event.entry, entries.Seal)}
    sessions |= {event.entry.session for event in united.events if isinstance(event.entry, entries.SessionEntry)}
    if len(sessions) > 1:
        raise FormatError(Code.DOCUMENT, "documents of several sessions")
    return united


def session_of(document: Transcript) -> Session:
    """The session of a document with a seal that carries a timelock. Raises FormatError(DOCUMENT)."""
    session = collect(document)
    if session is None:
        raise FormatError(Code.DOCUMENT, "the document has no seal: give the transcript, or the seal's receipt too")
    if session.seal.entry.timelock is None:
        raise FormatError(Code.DOCUMENT, "the seal carries no timelock: only its holder can reveal the seed")
    return session


def needed_rounds(session: Session) -> list[int]:
    """The rounds of the seal's chain that its outcomes rest on."""
    if session.seal.entry.round is not None:
        return [session.seal.entry.round]
    return sorted({call.entry.round for call in session.calls.values()})


def open_session(
    session: Session, lock_round: VerifiedRound, round_of: Rounds, wanted: Mapping[str, int]
) -> tuple[bytes, list[Row]]:
    """The last link s_N, 32 bytes, and every draw that was made, planned, called or `wanted` (recipe: how many).

    lock_round: the timelock's; round_of: a verified round of the seal's chain, None where it is not known.
    Raises VerificationError(DECRYPTION) if the timelock does not open to what was sealed, be it because it is none, and
    FormatError(USAGE) for too many draws or an unknown recipe.
    """
    seal = session.seal.entry
    unknown = sorted(wanted.keys() - seal.recipes.keys())
    if unknown:
        raise FormatError(Code.USAGE, f"the seal has no recipe {unknown[0]!r}; it has {', '.join(seal.recipes)}")
    try:
        seed = open_lock(seal, lock_round)
    except FormatError as error:
        raise VerificationError(Code.DECRYPTION, f"the timelock does not open: {error.message}") from error
    opening = _Opening(session, seed_chain(seed, seal.links), round_of)
    return seed, [opening.row(*asked) for asked in (_called(session) if session.live else _drawn(session, wanted))]


def _called(session: Session) -> list[tuple[entries.Call | None, str, int]]:
    return [(call.entry, call.entry.recipe, call.entry.n) for _, call in sorted(session.calls.items())]


def _drawn(session: Session, wanted: Mapping[str, int]) -> list[tuple[entries.Call | None, str, int]]:
    """All draws of a match from n = 1 on."""
    counts = dict.fromkeys(session.seal.entry.recipes, 0) | dict(session.seal.entry.plan or {})
    for name, count in wanted.items():
        counts[name] = max(counts[name], count)
    for draw in session.draws:
        last = draw.entry.n + len(draw.entry.outcomes) - 1
        counts[draw.entry.recipe] = max(counts.get(draw.entry.recipe, 0), last)
    if sum(counts.values()) > MAX_DRAWS:
        raise FormatError(Code.USAGE, f"at most {MAX_DRAWS} draws at a time")
    return [(None, name, n) for name, count in counts.items() for n in range(1, count + 1)]


class _Missing(Exception):  # noqa: N818 - no error: the documents do not show it
    """Why a draw cannot be computed."""


class _Opening:
    """One pass over a session's draws; of a recipe they are asked for in order of n."""

    def __init__(self, session: Session, links: Sequence[bytes], round_of: Rounds) -> None:
        """links: s_0 to s_N."""
        self._session: Final = session
        self._links: Final = links
        self._round_of: Final = round_of
        self._dealer: Final = Dealer()
        self._lost: Final[set[str]] = set()
        self._claimed: Final = {
            (draw.entry.recipe, n): (outcome, draw.entry.purpose)
            for draw in session.draws
            for n, outcome in enumerate(draw.entry.outcomes, draw.entry.n)
        }

    def row(self, call: entries.Call | None, name: str, n: int) -> Row:
        k, purpose = (call.draw, call.purpose) if call is not None else (0, "")
        claimed, purpose = self._claimed.get((name, n), (None, purpose))
        try:
            return Row(name, n, k, purpose, self._outcome(call, name, n), claimed)
        except (_Missing, VerificationError) as error:
            self._lost.add(name)
            return Row(name, n, k, purpose, None, claimed, str(error))

    def _outcome(self, call: entries.Call | None, name: str, n: int) -> Json:
        seal, close = self._session.seal.entry, self._session.close
        k, number = (call.draw, call.round) if call is not None else (0, seal.round)
        recipe = seal.recipes.get(name)
        assert number is not None
        if recipe is None or k >= len(self._links):
            raise _Missing("no such recipe or link was sealed")
        if isinstance(recipe, Deal) and name in self._lost:
            raise _Missing("the deck cannot be followed, since a draw before this one is missing")
        if seal.close_at is not None and close is None:
            raise _Missing("the close of the contributions is not among the documents")
        if close is not None and close.entry.digest != self._session.digest():
            count = close.entry.contributions
            raise _Missing(f"contributions are not among the documents: the close counts {count}")
        verified = self._round_of(number)
        if verified is None:
            raise _Missing(f"round {number} is not known: give its signature")
        called = [(item.participant, item.entropy) for item in call.contributions] if call is not None else []
        bound = binding(self._session.digest(), k, called, number, verified.randomness)
        outcome = self._dealer.draw(name, recipe, Stream(self._links[k or 1], bound, name, n))
        return list(outcome) if isinstance(outcome, list) else outcome
