"""From a command to log entries: pure functions of the staged state, the chain and the entry's time.

They run on the log's writer thread, at the moment the entry gets its index and time (6.2), and raise ApiError where a
rule refuses. What they need from elsewhere (a seed, a verified round) is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from beacon.errors import ApiError
from beacon.sessions import draws, rules
from beacon.sessions.requests import SealRequest
from beacon.sessions.state import SessionState, fold
from beacon.settings import SessionSettings
from verifier import entries
from verifier.drand import ChainInfo, VerifiedRound
from verifier.draws import Recipe, parse_recipe
from verifier.ed25519 import check_public_key
from verifier.errors import FormatError, VerifierError
from verifier.fields import identifier
from verifier.rules import period, wait
from verifier.seeds import session_digest

CLOSE_MARGIN: Final = 7_000
Revealer: TypeAlias = Literal["service", "host", "timelock"]


@dataclass(frozen=True, slots=True)
class SealTerms:
    """A seal request whose parts are parsed: what does not depend on the moment."""

    log: str
    host: str
    sandbox: bool
    request: SealRequest
    chain: ChainInfo
    recipes: Mapping[str, Recipe]


@dataclass(frozen=True, slots=True)
class Locked:
    """A seal's timelock, and the chain that it is to a round of."""

    timelock: entries.Timelock
    chain: ChainInfo


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
    if request.plan is not None:
        draws.check_plan(recipes, request.plan)
    return SealTerms(log, host, sandbox, request, chain, recipes)


def seal(
    terms: SealTerms,
    commitment: bytes,
    host_seq: int,
    newest: VerifiedRound,
    defaults: SessionSettings,
    time: int,
    room: int = 0,
    lock: Locked | None = None,
) -> entries.Seal:
    """The seal at `time`, with the service's choice for what the request leaves open (6.3).

    room: ms that it leaves between an anchor and its round for the witnesses (7.1). lock: its timelock.
    """
    request, chain = terms.request, terms.chain
    live = request.profile == "live"
    takes = bool(request.participants) or request.open
    number = None if live else _round(terms, newest, defaults, time, room)
    lead = (request.lead or max(entries.MIN_LEAD, room)) if live else None
    close_at = request.close_at
    if not request.close_at_given and takes:
        close_at = (
            time + defaults.round_lead_ms if number is None else _default_close(chain, chain.time(number), time, room)
        )
    reveal_by = request.reveal_by
    if reveal_by is None:
        last = max(time, close_at or 0) + (lead or 0) if number is None else chain.time(number)
        reveal_by = last + max(defaults.reveal_after_ms, wait(chain))
    entry = entries.Seal(
        time=time,
        log=terms.log,
        host=terms.host,
        host_seq=host_seq,
        label=request.label,
        replaces=request.replaces,
        profile=request.profile,
        custody=request.custody,
        commitment=commitment,
        links=request.links_or_default,
        chain=chain.hash,
        round=number,
        lead=lead,
        close_at=close_at,
        reveal_by=reveal_by,
        participants=tuple(entries.Participant(item.id, item.key) for item in request.participants),
        open=request.open,
        min_contributions=_minimum(request),
        recipes=terms.recipes,
        plan=request.plan,
        attachments=tuple(entries.Attachment(item.name, item.sha256) for item in request.attachments),
        after=entries.After(newest.round, newest.signature, newest.previous_signature),
        timelock=None if lock is None else lock.timelock,
        sandbox=terms.sandbox,
    )
    rules.seal(entry, chain, newest)
    if lock is not None:
        rules.timelock(entry, lock.chain)
    return entry


def _default_close(chain: ChainInfo, due: int, time: int, room: int) -> int:
    """Some seconds before the last moment, where there is time: many sessions may have to be closed for one round."""
    last = due - max(period(chain), room)
    if last - CLOSE_MARGIN - time >= CLOSE_MARGIN:
        return last - CLOSE_MARGIN
    return last if last > time else due - period(chain)


def _minimum(request: SealRequest) -> int:
    if request.min_contributions is not None:
        return request.min_contributions
    takes_none = request.close_at_given and request.close_at is None
    return 0 if request.open or takes_none else len(request.participants)


def _round(terms: SealTerms, newest: VerifiedRound, defaults: SessionSettings, time: int, room: int) -> int:
    request, chain = terms.request, terms.chain
    if request.round is not None:
        return request.round
    if request.round_at is not None:
        return chain.first_at(request.round_at)
    takes = 3 if request.participants or request.open else 2
    earliest = time + max(defaults.round_lead_ms, takes * period(chain) + room)
    return max(newest.round + 2, chain.first_at(earliest))


def contribute(
    state: SessionState, entry: entries.Contribution, chain: ChainInfo, newest: VerifiedRound
) -> list[entries.SessionEntry]:
    """The contribution, and the close behind it when every listed participant has contributed (6.5)."""
    rules.contribution(state, entry, newest)
    draws.check_size(state)
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
    if not state.takes_contributions or state.seal.round is None or time < chain.time(state.seal.round):
        return []
    return [entries.Void(time, state.session, "missed-close", seed)]


def reveal(state: SessionState, chain: ChainInfo, by: Revealer, seed: bytes | None, time: int) -> entries.Reveal:
    """The end with its seed, and how many draws there were (6.7). seed: s_1, or s_K of a live session's K calls."""
    rules.reveal(state, chain, time)
    drawn = {name: state.drawn.get(name, 0) for name in state.seal.recipes}
    return entries.Reveal(time, state.session, by, seed, drawn)


def void(state: SessionState, chain: ChainInfo, newest: VerifiedRound, seed: bytes | None, time: int) -> entries.Void:
    """6.12 `host`: given up before the round exists, or the first call. A seed that the service knows comes with it."""
    rules.may_void(state, chain, newest, time)
    return entries.Void(time, state.session, "host", seed)


def no_round(
    state: SessionState, chain: ChainInfo, newest: VerifiedRound | None, seed: bytes | None, time: int
) -> list[entries.SessionEntry]:
    """6.12 `no-round`: the chain has signed nothing from the round that is waited for on, and it is late enough."""
    due = no_round_due(state, chain)
    number = min((number for _, number in state.waits_for), default=None)
    if due is None or number is None or time < due or (newest is not None and newest.round >= number):
        return []
    return [entries.Void(time, state.session, "no-round", seed)]


def no_round_due(state: SessionState, chain: ChainInfo) -> int | None:
    """When a session whose round does not come ends in `no-round`, in ms; None when it waits for none.

    A call's round may fall due just before reveal_by: it has the protocol's patience all the same.
    """
    number = max((number for _, number in state.waits_for), default=None)
    return None if number is None else max(state.seal.reveal_by, chain.time(number) + wait(chain))


def missed_reveal(state: SessionState, chain: ChainInfo, time: int) -> list[entries.SessionEntry]:
    """6.12 `missed-reveal`: the seed, or a link that a call needs, has not come; every round that it needs is there."""
    due = missed_reveal_due(state, chain)
    return [] if due is None or time < due else [entries.Void(time, state.session, "missed-reveal", None)]


def missed_reveal_due(state: SessionState, chain: ChainInfo) -> int | None:
    """When a session whose seed does not come ends in `missed-reveal`, in ms; None while rounds are missing."""
    rounds = [item.round for item in state.pending] if state.live else [state.round]
    times = [logged.time for logged in rounds if logged is not None]
    if not times or len(times) < len(rounds):
        return None
    return max(state.seal.reveal_by, max(times) + wait(chain))


def round_entry(verified: VerifiedRound, time: int) -> entries.Round:
    """The `round` entry of a verified round; NotYetError while 6.10 would refuse it."""
    rules.clock_allows(time, verified)
    return entries.Round(time, verified.chain.hash, verified.round, verified.signature, verified.previous_signature)
