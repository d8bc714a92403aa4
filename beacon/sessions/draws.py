"""What is drawn next, and how much work that is: of a match, of its plan, of a live session's calls.

A Drawing is settled before it is made: which numbers of which recipe, under which binding. Whoever holds the seed makes
it, here or in another process, and its entry is appended only if it is still what comes next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from beacon.errors import ApiError
from beacon.sessions import rules
from beacon.sessions.state import MAX_SIZE, Pending, SessionState
from verifier import entries
from verifier.drand import ChainInfo
from verifier.draws import (
    Bytes,
    Deal,
    Deck,
    Dice,
    Integers,
    Recipe,
    Sample,
    Shuffle,
    Weighted,
    fits,
)
from verifier.draws import draw as outcome
from verifier.encoding import MAX_ENTRY_BYTES
from verifier.seeds import Stream, binding, session_digest, sha256

_OVERHEAD: Final = 2_000
MAX_WORK: Final = 500_000
MAX_PLAN_WORK: Final = 4 * MAX_WORK


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws of a recipe, numbers first, first + 1, ..., under the binding B (32 bytes).

    dealt: the cards of a deal that have left the deck before.
    """

    name: str
    recipe: Recipe
    first: int
    count: int
    binding: bytes
    dealt: tuple[int, ...] = ()

    @property
    def work(self) -> int:
        """About how many uniform numbers have to be made, or cards put aside."""
        return len(self.dealt) + self.count * numbers(self.recipe)

    def outcomes(self, seed: bytes) -> list[Any]:
        """The outcomes under the seed (s_k, 32 bytes)."""
        deck = Deck(self.recipe.size, self.dealt) if isinstance(self.recipe, Deal) else None
        streams = (Stream(seed, self.binding, self.name, n) for n in range(self.first, self.first + self.count))
        return [outcome(self.recipe, stream, deck) for stream in streams]


def asked(state: SessionState, name: str, count: int, chain: ChainInfo, time: int) -> Drawing:
    """The next `count` draws of a match that its host asks for. Refused are those that may not fit into one entry."""
    rules.draw(state, name, chain, time)
    check_size(state)
    recipe = state.seal.recipes[name]
    check_deck(recipe, state.drawn.get(name, 0), count)
    most = most_in_entry(recipe)
    if count > most:
        text = f"the outcomes of {count} draws may not fit into one entry; {most} do"
        raise ApiError("entry-too-long", text, extra={"most": most})
    if count > 1 and count * numbers(recipe) > MAX_WORK:
        text = f"{count} draws of this recipe are too much work at once"
        raise ApiError("draw-count", text, extra={"most": max(1, MAX_WORK // numbers(recipe))})
    return _of_match(state, name, count)


def claimed(
    state: SessionState, name: str, outcomes: Sequence[Any], purpose: str, chain: ChainInfo, time: int
) -> entries.Draw:
    """Custody `host`: the next draws of a match as its host says they came out. Refused is what cannot be one."""
    rules.draw(state, name, chain, time)
    check_size(state)
    recipe, first = state.seal.recipes[name], state.drawn.get(name, 0) + 1
    check_deck(recipe, first - 1, len(outcomes))
    if not all(fits(recipe, item) for item in outcomes):
        raise ApiError("outcome-invalid", f"an outcome has not the form that {name!r} has")
    return entries.Draw(time, state.session, name, first, purpose, tuple(outcomes))


def planned(state: SessionState) -> Drawing | None:
    """The next draws of a plan that fit into one entry; None once all are made."""
    for name, count in (state.seal.plan or {}).items():
        left = count - state.drawn.get(name, 0)
        if left:
            recipe = state.seal.recipes[name]
            at_once = min(left, most_in_entry(recipe), max(1, MAX_WORK // numbers(recipe)))
            return _of_match(state, name, at_once)
    return None


def plan_work(state: SessionState) -> int:
    """About how many uniform numbers are left to be made for a plan."""
    left = ((name, count - state.drawn.get(name, 0)) for name, count in (state.seal.plan or {}).items())
    return sum(count * numbers(state.seal.recipes[name]) for name, count in left)


def _of_match(state: SessionState, name: str, count: int) -> Drawing:
    assert state.round is not None
    assert state.seal.round is not None
    bound = binding(_digest(state), 0, (), state.seal.round, sha256(state.round.signature))
    dealt = state.dealt.get(name, ())
    return Drawing(name, state.seal.recipes[name], state.drawn.get(name, 0) + 1, count, bound, dealt)


def called(state: SessionState, pending: Pending) -> Drawing:
    """The draw of a call whose round is in the log, all earlier draws of a deal being made."""
    call, logged = pending.call, pending.round
    assert logged is not None
    contributions = [(item.participant, item.entropy) for item in call.contributions]
    bound = binding(_digest(state), call.draw, contributions, call.round, sha256(logged.signature))
    return Drawing(call.recipe, state.seal.recipes[call.recipe], call.n, 1, bound, state.dealt.get(call.recipe, ()))


def _digest(state: SessionState) -> bytes:
    return state.close.digest if state.close is not None else session_digest(state.session, ())


def check_size(state: SessionState) -> None:
    """7.2: a transcript has at most 64 MiB; what would pass that, with room for the end, is refused."""
    if state.size > MAX_SIZE - 2 * MAX_ENTRY_BYTES:
        raise ApiError("session-full", f"the session's entries take {state.size} bytes in its transcript")


def check_deck(recipe: Recipe, drawn: int, count: int) -> None:
    """5.2: a draw past the end of the deck is refused, and with it all that were asked for together."""
    if not isinstance(recipe, Deal):
        return
    left = recipe.size - drawn * recipe.count
    if count * recipe.count > left:
        text = f"{count} draws of {recipe.count} cards each" if count > 1 else f"a draw of {recipe.count} cards"
        raise ApiError("draw-past-end-of-deck", f"{text} from a deck of {recipe.size} that has {left} left")


def check_plan(recipes: dict[str, Recipe], plan: dict[str, int]) -> None:
    """What a seal's plan may ask for: its recipes, within their decks, and no more than one transcript holds."""
    work = size = 0
    for name, count in plan.items():
        recipe = recipes.get(name)
        if recipe is None:
            raise ApiError("seal-plan-invalid", f"the seal has no recipe {name!r}")
        try:
            check_deck(recipe, 0, count)
        except ApiError as error:
            raise ApiError("seal-plan-invalid", error.detail) from error
        work += count * numbers(recipe)
        size += count * _most_bytes(recipe)
    if work > MAX_PLAN_WORK or size > MAX_SIZE // 2:
        text = f"the plan takes about {work} numbers and {size} bytes; {MAX_PLAN_WORK} and {MAX_SIZE // 2} are the most"
        raise ApiError("seal-plan-invalid", text)


def most_in_entry(recipe: Recipe) -> int:
    """How many draws certainly fit into one entry (3.1), and are not more than one may hold."""
    return min(entries.MAX_OUTCOMES, max(1, (MAX_ENTRY_BYTES - _OVERHEAD) // _most_bytes(recipe)))


def _most_bytes(recipe: Recipe) -> int:
    """The most bytes that one outcome takes in an entry, with its brackets and the comma behind it."""
    match recipe:
        case Dice(count=count, sides=sides):
            return 3 + count * (len(str(sides)) + 1)
        case Integers(min=low, max=high, count=count):
            return 3 + count * (max(len(str(low)), len(str(high))) + 1)
        case Shuffle(size=size):
            return 3 + size * (len(str(size)) + 1)
        case Sample(size=size, count=count) | Deal(size=size, count=count):
            return 3 + count * (len(str(size)) + 1)
        case Weighted(weights=weights, count=count):
            return 3 + count * (len(str(len(weights))) + 1)
        case Bytes(count=count):
            return 3 + 2 * count


def numbers(recipe: Recipe) -> int:
    """About how many uniform numbers one draw takes."""
    match recipe:
        case Dice(count=count, sides=sides, reroll_ties=True):
            return int(count * math.exp(count * count / (2 * sides)))
        case Shuffle(size=size):
            return size
        case Bytes(count=count):
            return count // 32 + 1
        case _:
            return recipe.count
