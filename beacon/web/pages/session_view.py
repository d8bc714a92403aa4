"""A session as its page tells it: the phases of its time line, from its state and a part of its entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from beacon.sessions.state import SessionState
from beacon.sessions.story import Story
from beacon.sessions.trail import Event
from beacon.web.pages.by_hand import ByHand, by_hand
from beacon.web.pages.chain_view import ChainView
from beacon.web.pages.outcomes import Outcome, outcome_of
from verifier import entries
from verifier.draws import encode_recipe
from verifier.encoding import Json
from verifier.entries import parse_entry
from verifier.seeds import sha256

MAX_ROWS: Final = 200
MAX_PICTURES: Final = 1_500
"""Draws, and pictures of their numbers, on one page; the transcript has all."""

Progress = Literal["done", "now", "ahead", "skipped"]


@dataclass(slots=True)
class Row:
    """One draw, or a live one that is called and not drawn yet. index: of its newest entry; times in ms.

    added_by: who contributed to the call.
    """

    recipe: str
    n: int
    index: int
    purpose: str
    time: int
    k: int = 0
    round: int | None = None
    round_time: int | None = None
    added_by: tuple[str, ...] = ()
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one participant added."""

    index: int
    participant: str
    entropy: str
    time: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Recipe:
    """A name and what it draws, as in the API. planned: how many, where a plan says so; drawn: how many so far."""

    name: str
    fields: dict[str, Json]
    planned: int | None
    drawn: int


@dataclass(frozen=True, slots=True)
class SessionView:
    """Everything that the template shows; hashes in hex, times in ms.

    lock_time: when the round of its timelock falls due. cut: whether draws of this part of the session are not shown.
    claimed: whether what was drawn is so far the host's word. by_hand: of what is shown, one draw to redo.
    """

    id: str
    state: SessionState
    chain: ChainView
    recipes: tuple[Recipe, ...]
    contributions: tuple[Contribution, ...]
    missing: tuple[str, ...]
    rows: tuple[Row, ...]
    cut: bool
    progress: dict[str, Progress]
    close_time: int | None
    round_time: int | None
    randomness: str
    lock_time: int | None
    earlier: int | None
    later: bool
    claimed: bool
    by_hand: ByHand | None

    @property
    def reason(self) -> str:
        return self.state.end.reason if isinstance(self.state.end, entries.Void) else ""


def session_view(
    state: SessionState, story: Story, chain: ChainView, lock_chain: ChainView | None = None
) -> SessionView:
    """Blocking, for a thread: parses and redoes. lock_chain: of the seal's timelock."""
    seal = state.seal
    parsed = [(event, parse_entry(event.entry)) for event in story.events]
    contributions = [_contribution(event, one) for event, one in parsed if isinstance(one, entries.Contribution)]
    drawing = _Drawing(state, chain)
    for event, entry in parsed:
        drawing.take(event, entry)
    plan = seal.plan or {}
    recipes = tuple(
        Recipe(name, encode_recipe(recipe), plan.get(name), state.drawn.get(name, 0))
        for name, recipe in seal.recipes.items()
    )
    return SessionView(
        id=state.session.hex(),
        state=state,
        chain=chain,
        recipes=recipes,
        contributions=tuple(contributions),
        missing=tuple(one.id for one in seal.participants if one.id not in state.contributions),
        rows=tuple(drawing.rows.values()),
        cut=drawing.cut,
        progress=_progress(state),
        close_time=None if state.close is None else state.close.time,
        round_time=None if seal.round is None else chain.time(seal.round),
        randomness="" if state.round is None else sha256(state.round.signature).hex(),
        lock_time=None if lock_chain is None or seal.timelock is None else lock_chain.time(seal.timelock.round),
        earlier=story.earlier,
        later=story.later,
        claimed=seal.custody == "host" and not state.live and state.end is None and bool(state.drawn),
        by_hand=by_hand(state, [(event.index, entry) for event, entry in parsed]),
    )


def _contribution(event: Event, entry: entries.Contribution) -> Contribution:
    return Contribution(
        event.index, entry.participant, entry.entropy.hex(), entry.time, signed=entry.signature is not None
    )


@dataclass(slots=True)
class _Drawing:
    """Collects the draws, each of a live session with its call."""

    state: SessionState
    chain: ChainView
    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    pictures: int = 0
    cut: bool = False

    def take(self, event: Event, entry: entries.Entry) -> None:
        if isinstance(entry, entries.Call):
            due, people = self.chain.time(entry.round), tuple(one.participant for one in entry.contributions)
            at = (entry.recipe, entry.n, event.index, entry.purpose, entry.time)
            self._add(Row(*at, entry.draw, entry.round, due, people))
        elif isinstance(entry, entries.Draw):
            for n, value in enumerate(entry.outcomes, entry.n):
                self._draw(event, entry, n, value)

    def _draw(self, event: Event, entry: entries.Draw, n: int, value: Json) -> None:
        outcome = outcome_of(self.state.seal.recipes[entry.recipe], value)
        self.pictures += outcome.size
        row = self.rows.get((entry.recipe, n))
        if row is None:
            row = Row(entry.recipe, n, event.index, entry.purpose, entry.time, entry.draw or 0)
            if not self._add(row):
                return
        row.outcome, row.index = outcome, event.index

    def _add(self, row: Row) -> bool:
        if len(self.rows) >= MAX_ROWS or self.pictures > MAX_PICTURES:
            self.cut = True
            return False
        self.rows[row.recipe, row.n] = row
        return True


def _progress(state: SessionState) -> dict[str, Progress]:
    """How far each phase is. A phase that a void cut off is skipped."""
    seal, ended = state.seal, state.end is not None
    done: dict[str, bool] = {
        "contributions": seal.close_at is None or state.close is not None,
        "round": state.live or state.round is not None,
        "draws": isinstance(state.end, entries.Reveal),
    }
    progress: dict[str, Progress] = {"seal": "done"}
    waiting = True
    for name, over in done.items():
        if over:
            progress[name] = "done"
        elif ended:
            progress[name] = "skipped"
        else:
            progress[name] = "now" if waiting else "ahead"
            waiting = False
    if ended and state.drawn:
        progress["draws"] = "done"
    progress["end"] = "done" if ended else "ahead"
    return progress


def live_events(view: SessionView) -> Sequence[str]:
    """The types of events after which the page is another one."""
    over = view.state.end is not None or view.later
    return () if over else ("contribution", "close", "round", "call", "draw", "reveal", "void")


def facts(view: SessionView) -> dict[str, Any]:
    """What the page's template is given."""
    return {"view": view, "seal": view.state.seal, "state": view.state, "listen": " ".join(live_events(view))}
