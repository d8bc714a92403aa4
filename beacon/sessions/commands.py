"""From a command to log entries: pure functions of the staged state, the chain and the entry's time.

They run on the log's writer thread, at the moment the entry gets its index and time (6.2), and raise ApiError where a
rule refuses. What they need from elsewhere (a seed, a verified round) is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from beacon.errors import ApiError
from beacon.sessions import rules
from beacon.sessions.requests import SealRequest
from beacon.sessions.state import MAX_SIZE, SessionState, fold
from beacon.settings import SessionSettings
from verifier import entries
from verifier.drand import ChainInfo, VerifiedRound
from verifier.draws import (
    Bytes,
    Deal,
    Dealer,
    Dice,
    Integers,
    Recipe,
    Sample,
    Shuffle,
    Weighted,
    parse_recipe,
)
from verifier.ed25519 import check_public_key
from verifier.encoding import MAX_ENTRY_BYTES
from verifier.errors import FormatError, VerifierError
from verifier.fields import identifier
from verifier.rules import period, wait
from verifier.seeds import Stream, binding, session_digest, sha256

_OVERHEAD: Final = 2_000
MAX_WORK: Final = 500_000
CLOSE_MARGIN: Final = 7_000


@dataclass(frozen=True, slots=True)
class SealTerms:
    """A seal request whose parts are parsed: what does not depend on the moment."""

    log: str
    host: str
    sandbox: bool
    request: SealRequest
    chain: ChainInfo
    recipes: Mapping[str, Recipe]


def seal_terms(log: str, host: str, sandbox: bool, request: SealRequest, chain: ChainInfo) -> SealTerms:
    """Parse a seal request's recipes and keys. Takes a few milliseconds of CPU for each new key."""
    recipes = {}
    for name, value in request.recipes.items():
        try:
            recipes[identifier(name)] = parse_recipe(value)
        except FormatError as error:
            raise ApiError("seal-recipe-invalid", f"{name!r}: {error.message}") from error
    for participant in request.participants:
        if participant.key is not None:
            try:
                check_public_key(participant.key)
            except VerifierError as error:
                raise ApiError("seal-key-invalid", f"{participant.id!r}: {error.message}") from error
    return SealTerms(log, host, sandbox, request, chain, recipes)


def seal(
    terms: SealTerms,
    commitment: bytes,
    host_seq: int,
    newest: VerifiedRound,
    defaults: SessionSettings,
    time: int,
) -> entries.Seal:
    """The seal at `time`, with the service's choice for what the request leaves open (6.3)."""
    request, chain = terms.request, terms.chain
    number = _round(terms, newest, defaults, time)
    due = chain.time(number)
    takes = bool(request.participants) or request.open
    close_at = request.close_at if request.close_at_given else _default_close(chain, due, time) if takes else None
    reveal_by = request.reveal_by
    if reveal_by is None:
        reveal_by = due + max(defaults.reveal_after_ms, wait(chain))
    entry = entries.Seal(
        time=time,
        log=terms.log,
        host=terms.host,
        host_seq=host_seq,
        label=request.label,
        replaces=request.replaces,
        profile="match",
        custody="beacon",
        commitment=commitment,
        links=1,
        chain=chain.hash,
        round=number,
        lead=None,
        close_at=close_at,
        reveal_by=reveal_by,
        participants=tuple(entries.Participant(item.id, item.key) for item in request.participants),
        open=request.open,
        min_contributions=_minimum(request),
        recipes=terms.recipes,
        plan=None,
        attachments=tuple(entries.Attachment(item.name, item.sha256) for item in request.attachments),
        after=entries.After(newest.round, newest.signature, newest.previous_signature),
        timelock=None,
        sandbox=terms.sandbox,
    )
    rules.seal(entry, chain, newest)
    return entry


def _default_close(chain: ChainInfo, due: int, time: int) -> int:
    """Some seconds before the last moment, where there is time: many sessions may have to be closed for one round."""
    early = due - period(chain) - CLOSE_MARGIN
    return early if early - time >= CLOSE_MARGIN else due - period(chain)


def _minimum(request: SealRequest) -> int:
    if request.min_contributions is not None:
        return request.min_contributions
    return 0 if request.open else len(request.participants)


def _round(terms: SealTerms, newest: VerifiedRound, defaults: SessionSettings, time: int) -> int:
    request, chain = terms.request, terms.chain
    if request.round is not None:
        return request.round
    if request.round_at is not None:
        return chain.first_at(request.round_at)
    takes = 3 if request.participants or request.open else 2
    earliest = time + max(defaults.round_lead_ms, takes * period(chain))
    return max(newest.round + 2, chain.first_at(earliest))


def contribute(
    state: SessionState, entry: entries.Contribution, chain: ChainInfo, newest: VerifiedRound
) -> list[entries.SessionEntry]:
    """The contribution, and the close behind it when every listed participant has contributed (6.5)."""
    rules.contribution(state, entry, newest)
    _check_size(state)
    after = fold(state, 0, entry)
    if rules.may_close(after, chain, newest, entry.time) and len(after.contributions) >= state.seal.min_contributions:
        return [entry, _close(after, entry.time)]
    return [entry]


def close(
    state: SessionState, chain: ChainInfo, newest: VerifiedRound, seed: bytes | None, time: int
) -> list[entries.SessionEntry]:
    """What happens by itself once contributions are over: the close, or `below-minimum` in its place. [] if neither."""
    if not rules.may_close(state, chain, newest, time):
        return []
    if len(state.contributions) < state.seal.min_contributions:
        closing_time = state.seal.close_at
        assert closing_time is not None
        return [entries.Void(time, state.session, "below-minimum", seed)] if time > closing_time else []
    return [_close(state, time)]


def _close(state: SessionState, time: int) -> entries.Close:
    digest = session_digest(state.session, state.contributions.items())
    return entries.Close(time, state.session, len(state.contributions), digest)


def missed_close(state: SessionState, chain: ChainInfo, seed: bytes | None, time: int) -> list[entries.SessionEntry]:
    """6.12 `missed-close`: the round's time has come and the contributions were never closed."""
    assert state.seal.round is not None
    if not state.takes_contributions or time < chain.time(state.seal.round):
        return []
    return [entries.Void(time, state.session, "missed-close", seed)]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The next draws of a recipe, as the state stands: numbers first, first + 1, ... under the binding B (32 bytes)."""

    name: str
    recipe: Recipe
    first: int
    count: int
    binding: bytes

    @property
    def work(self) -> int:
        """About how many uniform numbers have to be made."""
        draws = self.first - 1 + self.count if isinstance(self.recipe, Deal) else self.count
        return draws * _numbers(self.recipe)

    def outcomes(self, seed: bytes) -> list[Any]:
        """The outcomes under the seed (32 bytes); a deal is dealt again from its first card."""
        start = 1 if isinstance(self.recipe, Deal) else self.first
        numbers = range(start, self.first + self.count)
        dealer = Dealer()
        drawn = [dealer.draw(self.name, self.recipe, Stream(seed, self.binding, self.name, n)) for n in numbers]
        return drawn[self.first - start :]


def drawing(state: SessionState, name: str, count: int, chain: ChainInfo, time: int) -> Drawing:
    """What the next `count` draws of a recipe are. Refused are those that may not fit into one entry (3.1)."""
    rules.draw(state, name, chain, time)
    _check_size(state)
    assert state.round is not None
    assert state.seal.round is not None
    recipe, first = state.seal.recipes[name], state.drawn.get(name, 0) + 1
    _check_deck(recipe, first, count)
    most = max(1, (MAX_ENTRY_BYTES - _OVERHEAD) // _most_bytes(recipe))
    if count > most:
        text = f"the outcomes of {count} draws may not fit into one entry; {most} do"
        raise ApiError("entry-too-long", text, extra={"most": most})
    if count > 1 and count * _numbers(recipe) > MAX_WORK:
        text = f"{count} draws of this recipe are too much work at once"
        raise ApiError("draw-count", text, extra={"most": max(1, MAX_WORK // _numbers(recipe))})
    digest = state.close.digest if state.close is not None else session_digest(state.session, ())
    bound = binding(digest, 0, (), state.seal.round, sha256(state.round.signature))
    return Drawing(name, recipe, first, count, bound)


def draw(state: SessionState, asked: Drawing, outcomes: list[Any], purpose: str, time: int) -> entries.Draw:
    """The entry of draws that were made."""
    return entries.Draw(time, state.session, asked.name, asked.first, purpose, tuple(outcomes))


def _check_size(state: SessionState) -> None:
    """7.2: a transcript has at most 64 MiB; what would pass that, with room for the end, is refused."""
    if state.size > MAX_SIZE - 2 * MAX_ENTRY_BYTES:
        raise ApiError("session-full", f"the session's entries take {state.size} bytes in its transcript")


def _check_deck(recipe: Recipe, first: int, count: int) -> None:
    """5.2: a draw past the end of the deck is refused, and with it all that were asked for together."""
    if not isinstance(recipe, Deal):
        return
    left = recipe.size - (first - 1) * recipe.count
    if count * recipe.count > left:
        asked = f"{count} draws of {recipe.count} cards each" if count > 1 else f"a draw of {recipe.count} cards"
        raise ApiError("draw-past-end-of-deck", f"{asked} from a deck of {recipe.size} that has {left} left")


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


def _numbers(recipe: Recipe) -> int:
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


def reveal(state: SessionState, chain: ChainInfo, seed: bytes, time: int) -> list[entries.SessionEntry]:
    """The seed, and how many draws there were (6.7)."""
    rules.needs_round(state, chain, time, "reveal-before-round")
    drawn = {name: state.drawn.get(name, 0) for name in state.seal.recipes}
    return [entries.Reveal(time, state.session, "service", seed, drawn)]


def void(
    state: SessionState, chain: ChainInfo, newest: VerifiedRound, seed: bytes | None, time: int
) -> list[entries.SessionEntry]:
    """6.12 `host`: given up before the round exists. A seed that the service knows is published with it."""
    rules.may_void(state, chain, newest, time)
    return [entries.Void(time, state.session, "host", seed)]


def no_round(
    state: SessionState, newest: VerifiedRound | None, seed: bytes | None, time: int
) -> list[entries.SessionEntry]:
    """6.12 `no-round`: reveal_by has passed, and the chain has signed nothing from the session's round on."""
    assert state.seal.round is not None
    if (
        state.round is not None
        or time < state.seal.reveal_by
        or (newest is not None and newest.round >= state.seal.round)
    ):
        return []
    return [entries.Void(time, state.session, "no-round", seed)]


def missed_reveal(state: SessionState, chain: ChainInfo, time: int) -> list[entries.SessionEntry]:
    """6.12 `missed-reveal`: the service has lost the seed of a session that has to be revealed."""
    if state.round is None or time < max(state.seal.reveal_by, state.round.time + wait(chain)):
        return []
    return [entries.Void(time, state.session, "missed-reveal", None)]


def round_entry(verified: VerifiedRound, time: int) -> entries.Round:
    """The `round` entry of a verified round; NotYetError while 6.10 would refuse it."""
    rules.clock_allows(time, verified)
    return entries.Round(time, verified.chain.hash, verified.round, verified.signature, verified.previous_signature)
