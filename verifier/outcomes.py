"""Every draw recomputed from the seed, the round and the contributions (PROTOCOL.md, sections 4 and 5).

The work is bounded by the document: an outcome of the wrong shape is refused before it is computed, and after a number
of wrong outcomes the rest is not looked at, since nothing can mend the claim any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from verifier import entries
from verifier.draws import Deal, Dealer, Outcome, fits
from verifier.encoding import Json, encode_json
from verifier.errors import VerificationError
from verifier.seeds import Stream, binding, opens, seed_chain, sha256
from verifier.session import Logged, Session
from verifier.verdict import ClaimName, Finding, State

MAX_WRONG: Final = 20
MAX_ROWS: Final = 10_000


@dataclass(slots=True)
class Seeds:
    """The claim `seed`: every link and seed that was shown opens the seal's commitment (4.1)."""

    session: Session
    findings: list[Finding] = field(default_factory=list)

    def claim(self) -> tuple[State, str]:
        session, shown = self.session, 0
        known, link = 0, session.seal.entry.commitment
        for draw in sorted(session.draws, key=lambda draw: draw.entry.draw or 0):
            k, seed = draw.entry.draw, draw.entry.seed
            if seed is None or k is None:
                continue
            shown += 1
            if k > entries.MAX_LINKS or not opens(seed, k - known, link):
                self._broken(f"link {k} is not of the sealed chain", draw.index)
                break
            known, link = k, seed
        end = session.end
        if end is not None and not self.findings:
            links = len(session.calls) if session.live else 1
            if end.entry.seed is not None:
                shown += 1
                if not max(known, 1) <= links <= entries.MAX_LINKS or not opens(end.entry.seed, links - known, link):
                    self._broken("the seed does not open the commitment", end.index)
            elif session.reveal is not None and links > 0:
                self._broken("revealed without a seed", end.index)
        if not shown:
            return State.UNKNOWN, "no seed has been shown"
        return State.PROVEN, "what was revealed opens the commitment of the seal"

    def _broken(self, text: str, index: int) -> None:
        self.findings.append(Finding(ClaimName.SEED, "4.1", text, index))


@dataclass(frozen=True, slots=True)
class Keys:
    """What the stream of a draw is keyed with: `seed` is s_k, `binding` is B, 32 bytes each; None: it is not shown."""

    seed: bytes | None
    binding: bytes | None

    def as_dict(self) -> dict[str, Json]:
        """Hex, or null."""
        return {
            "seed": self.seed.hex() if self.seed is not None else None,
            "binding": self.binding.hex() if self.binding is not None else None,
        }


def keys(session: Session, call: Logged[entries.Call] | None, seed: bytes | None) -> Keys:
    """The keys of a match, or of one call of a live session; `seed` is s_k as far as it is known."""
    event = _round(session, call)
    return Keys(seed, _binding(session, call, event) if event is not None else None)


def revealed(session: Session) -> bytes | None:
    """The seed that the session's end shows, 32 bytes: s_1 of a match, the last link called of a live session."""
    return session.end.entry.seed if session.end is not None else None


def facts(session: Session) -> dict[str, Json]:
    """For redoing it by hand, in hex or null: S once contributions are closed, and a match's seed and B."""
    final = session.seal.entry.close_at is None or session.close is not None
    shown = keys(session, None, revealed(session)).as_dict()
    return {"session_digest": session.digest().hex() if final else None, **shown}


@dataclass(slots=True)
class Outcomes:
    """The claim `outcomes`, and the rows of what was drawn, as the document says it; 10,000 of them at the most.

    A live session's rows have k, seed and binding of their own. `lost` names the deals whose deck cannot be followed
    any more, since one of their draws could not be made again.
    """

    session: Session
    findings: list[Finding] = field(default_factory=list)
    rows: list[dict[str, Json]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    dealer: Dealer = field(default_factory=Dealer)

    def claim(self) -> tuple[State, str]:
        session = self.session
        if not session.draws:
            return State.UNKNOWN, "nothing was drawn"
        missing: str | None = None
        drawn = 0
        for draw in session.draws:
            name = draw.entry.recipe
            call = session.call_of(draw.entry.draw)
            key = keys(session, call, draw.entry.seed if session.live else revealed(session))
            own: dict[str, Json] = {"draw": draw.entry.draw, **key.as_dict()} if session.live else {}
            for n, claimed in enumerate(draw.entry.outcomes[: MAX_ROWS - len(self.rows)], draw.entry.n):
                self.rows.append({"recipe": name, "n": n, "purpose": draw.entry.purpose, "outcome": claimed, **own})
            if key.seed is None or key.binding is None:
                missing = "the seed" if key.seed is None else "a round"
                self.lost.add(name)
                continue
            for n, claimed in enumerate(draw.entry.outcomes, draw.entry.n):
                self._redraw(draw, n, claimed, Stream(key.seed, key.binding, name, n))
            drawn += len(draw.entry.outcomes)
        if missing is not None:
            return State.UNKNOWN, f"{missing} that the draws rest on has not been shown"
        many = "s" * (drawn != 1)
        return State.PROVEN, f"{drawn} draw{many} recomputed from the seed, the round and the contributions"

    def _redraw(self, draw: Logged[entries.Draw], n: int, claimed: Json, stream: Stream) -> None:
        name = draw.entry.recipe
        recipe = self.session.seal.entry.recipes.get(name)
        if len(self.findings) >= MAX_WRONG or (isinstance(recipe, Deal) and name in self.lost):
            return
        if recipe is None:
            self._wrong("5.2", f"{name} is no recipe of the seal", draw.index)
        else:
            try:
                outcome: Outcome = self.dealer.draw(name, recipe, stream)
            except VerificationError as error:
                self._wrong("5.2", f"{name} {n}: {error.message}", draw.index)
                self.lost.add(name)
                return
            if not fits(recipe, claimed):
                self._wrong("5.3", f"{name} {n}: {_short(claimed)} is no outcome of this recipe", draw.index)
            elif encode_json([outcome]) != encode_json([claimed]):
                text = f"{name} {n} is {_short(outcome)}, the transcript says {_short(claimed)}"
                self._wrong("5.2", text, draw.index)

    def _wrong(self, rule: str, text: str, index: int) -> None:
        self.findings.append(Finding(ClaimName.OUTCOMES, rule, text, index))


def unseen(session: Session) -> list[dict[str, Json]]:
    """What a session that is void for `no-round` would have given, as far as its seed and rounds are shown (6.12).

    Live: the open calls. Match: the plan, or without one the first draw of each recipe.
    """
    void, seal = session.void, session.seal.entry
    if void is None or void.entry.reason != "no-round" or void.entry.seed is None:
        return []
    dealer = Dealer()
    lost: set[str] = set()
    rows: list[dict[str, Json]] = []
    for call, name, n, purpose, seed in _wanted(session, void.entry.seed):
        event, recipe = _round(session, call), seal.recipes.get(name)
        if event is None or recipe is None or (isinstance(recipe, Deal) and name in lost):
            lost.add(name)
            continue
        try:
            outcome = dealer.draw(name, recipe, Stream(seed, _binding(session, call, event), name, n))
        except VerificationError:
            continue
        if call is None or not session.is_drawn(call.entry.draw):
            value: Json = list(outcome) if isinstance(outcome, list) else outcome
            rows.append({"recipe": name, "n": n, "purpose": purpose, "outcome": value})
    return rows


def _wanted(session: Session, seed: bytes) -> Iterator[tuple[Logged[entries.Call] | None, str, int, str, bytes]]:
    """(call, recipe, n, purpose, s_k) of every draw that was asked for, in order."""
    seal = session.seal.entry
    if not session.live:
        counts = seal.plan if seal.plan is not None else dict.fromkeys(seal.recipes, 1)
        for name, count in counts.items():
            for n in range(1, count + 1):
                yield None, name, n, "", seed
        return
    links = seed_chain(seed, len(session.calls))
    for k, call in enumerate(session.calls.values(), 1):
        yield call, call.entry.recipe, call.entry.n, call.entry.purpose, links[k]


def _round(session: Session, call: Logged[entries.Call] | None) -> Logged[entries.Round] | None:
    if session.live:
        return session.round_of(call.entry.round) if call is not None else None
    return session.round_of(session.seal.entry.round)


def _binding(session: Session, call: Logged[entries.Call] | None, event: Logged[entries.Round]) -> bytes:
    called = [(item.participant, item.entropy) for item in call.entry.contributions] if call is not None else []
    k = call.entry.draw if call is not None else 0
    return binding(session.digest(), k, called, event.entry.round, sha256(event.entry.signature))


def _short(outcome: Json | Outcome) -> str:
    text = encode_json([outcome]).decode()[1:-1]
    return text if len(text) <= 60 else text[:57] + "..."
