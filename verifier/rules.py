"""The rules of order and time (PROTOCOL.md, section 6), as far as one document can show them.

Each function yields a Finding for every rule that does not hold, under the claim that section 8 names for it. Times are
milliseconds. A rule that needs the chain's clock is only asked when the verifier has the chain pinned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Final

from verifier import ed25519, entries
from verifier.drand import ChainInfo
from verifier.encoding import MAX_INTEGER
from verifier.errors import VerifierError
from verifier.seeds import contribution_message
from verifier.session import Logged, Session
from verifier.transcript import Event
from verifier.verdict import ClaimName, Finding

DAY: Final = 86_400_000
MAX_REVEAL: Final = 400 * DAY
MAX_TIMELOCK: Final = 31 * DAY
CLOCK_SLACK: Final = 1_000


def wait(chain: ChainInfo) -> int:
    """max(10 periods, 10 minutes), the protocol's patience, in ms."""
    return max(10 * period(chain), 600_000)


def period(chain: ChainInfo) -> int:
    """The chain's period in ms."""
    return 1_000 * chain.period


def log_order(events: tuple[Event, ...]) -> Iterator[Finding]:
    """6.2: times never decrease along a log."""
    for earlier, later in pairwise(events):
        if later.entry.time < earlier.entry.time:
            yield Finding(ClaimName.LOG, "6.2", "earlier than the entry before it", later.index)


def log_clock(events: tuple[Event, ...], chains: Mapping[bytes, ChainInfo]) -> Iterator[Finding]:
    """6.10: no entry is more than a second earlier than a round whose signature stands in it or below it."""
    newest = 0
    for event in events:
        newest = max(newest, signature_time(event.entry, chains))
        if event.entry.time < newest - CLOCK_SLACK:
            text = "earlier than a round whose signature stands at or below it"
            yield Finding(ClaimName.UNPREDICTABLE, "6.10", text, event.index)


def signature_time(entry: entries.Entry, chains: Mapping[bytes, ChainInfo]) -> int:
    """When the round fell due whose signature an entry holds (`round`, a seal's `after`); 0 for any other entry."""
    if isinstance(entry, entries.Round) and entry.chain in chains:
        return chains[entry.chain].time(entry.round)
    if isinstance(entry, entries.Seal) and entry.chain in chains:
        return chains[entry.chain].time(entry.after.round)
    return 0


def retired(session: Session, chains: Mapping[bytes, ChainInfo]) -> Iterator[Finding]:
    """2.5: nothing names a round beyond a retired chain's last one."""
    seal = session.seal
    named: list[tuple[int, bytes, int | None]] = [(seal.index, seal.entry.chain, seal.entry.round)]
    named += [(call.index, seal.entry.chain, call.entry.round) for call in session.calls.values()]
    if seal.entry.timelock is not None:
        named.append((seal.index, seal.entry.timelock.chain, seal.entry.timelock.round))
    for index, name, number in named:
        chain = chains.get(name)
        if chain is not None and number is not None and chain.last_round is not None and number > chain.last_round:
            yield Finding(ClaimName.ROUND, "2.5", f"round {number} is beyond the retired chain's last one", index)


def seal_times(session: Session, chain: ChainInfo | None) -> Iterator[Finding]:
    """6.3 for the seal; what needs the chain's clock is left out without the chain."""

    def broken(text: str) -> Finding:
        return Finding(ClaimName.UNPREDICTABLE, "6.3", text, session.seal.index)

    seal = session.seal.entry
    if seal.close_at is not None and seal.time >= seal.close_at:
        yield broken("sealed at or after its own close_at")
    if seal.round is not None and seal.round < seal.after.round + 2:
        yield broken("the round is not two rounds after the newest one known at the seal")
    if seal.reveal_by > seal.time + MAX_REVEAL:
        yield broken("reveal_by comes more than 400 days after the seal")
    if chain is None:
        return
    if seal.round is not None:
        known = chain.time(seal.round)
        if known < seal.time + 2 * period(chain):
            yield broken("the round comes less than two periods after the seal")
        if seal.close_at is not None and seal.close_at > known - period(chain):
            yield broken("contributions close less than one period before the round")
    else:
        known = max(seal.time, seal.close_at or 0) + (seal.lead or 0)
    if seal.reveal_by < known + wait(chain):
        yield broken("reveal_by comes too early")
    if max(chain.time(seal.round or 1), chain.time(seal.after.round)) > MAX_INTEGER:
        yield broken("a round whose time is beyond 2^53 - 1")


def timelock(session: Session, chain: ChainInfo) -> Iterator[Finding]:
    """6.3 for the timelock's round, under the timelock's own chain."""
    seal = session.seal.entry
    if seal.timelock is None:
        return
    opens_at = chain.time(seal.timelock.round)
    if not seal.reveal_by <= opens_at <= seal.reveal_by + MAX_TIMELOCK or opens_at > MAX_INTEGER:
        text = "the timelock's round is not within 31 days from reveal_by"
        yield Finding(ClaimName.UNPREDICTABLE, "6.3", text, session.seal.index)


def draw_times(session: Session) -> Iterator[Finding]:
    """6.3: no draw at or after reveal_by, but those of calls and of a plan."""
    if session.live or session.seal.entry.plan is not None:
        return
    for draw in session.draws:
        if draw.entry.time >= session.seal.entry.reveal_by:
            yield Finding(ClaimName.UNPREDICTABLE, "6.3", "drawn at or after reveal_by", draw.index)


def contributions(session: Session) -> Iterator[Finding]:
    """6.4 and 4.4: who contributed, when, and signed by whom."""

    def broken(text: str, index: int) -> Finding:
        return Finding(ClaimName.CONTRIBUTIONS, "6.4", text, index)

    seal = session.seal.entry
    if seal.close_at is None:
        if seal.min_contributions:
            yield broken("min_contributions without contributions", session.seal.index)
    elif not seal.participants and not seal.open:
        yield broken("contributions are taken, but from nobody", session.seal.index)
    if seal.close_at is not None and session.close is None:
        going_on: list[Logged[entries.SessionEntry]] = [
            *session.calls.values(),
            *session.draws,
            *([session.reveal] if session.reveal else []),
        ]
        if going_on:
            yield broken("called, drawn or revealed without a close", min(logged.index for logged in going_on))
    if len(session.contributions) > entries.MAX_CONTRIBUTIONS:
        yield broken("more than 10,000 contributions", session.contributions[-1].index)
    listed = keys(seal)
    for event in session.contributions:
        yield from contribution(session, event, listed)
    for call in session.calls.values():
        yield from call_contributions(session, call, listed)


def keys(seal: entries.Seal) -> dict[str, bytes | None]:
    """The listed participants, and the key of each that has one."""
    return {participant.id: participant.key for participant in seal.participants}


def contribution(
    session: Session, event: Logged[entries.Contribution], listed: Mapping[str, bytes | None]
) -> Iterator[Finding]:
    """6.4 and 4.4 for one contribution; `listed` is `keys` of the seal."""
    close_at = session.seal.entry.close_at
    if close_at is None:
        text = "a contribution, though the seal takes none"
        yield Finding(ClaimName.CONTRIBUTIONS, "6.4", text, event.index)
    elif event.entry.time > close_at:
        yield Finding(ClaimName.CONTRIBUTIONS, "6.4", "a contribution after close_at", event.index)
    yield from _contributor(session, listed, event, event.entry, 0, "", 0, "")


def call_contributions(
    session: Session, call: Logged[entries.Call], listed: Mapping[str, bytes | None]
) -> Iterator[Finding]:
    """6.4 and 4.4 for what comes with one call; `listed` is `keys` of the seal."""
    of = call.entry
    seen = Counter(item.participant for item in of.contributions)
    for participant in (name for name, times in seen.items() if times > 1):
        text = f"{participant!r} contributes twice to one call"
        yield Finding(ClaimName.SOLE, "6.1", text, call.index)
    for item in of.contributions:
        yield from _contributor(session, listed, call, item, of.draw, of.recipe, of.n, of.purpose)


def _contributor(
    session: Session,
    listed: Mapping[str, bytes | None],
    at: Logged[entries.Entry],
    item: entries.Contribution | entries.CallContribution,
    k: int,
    recipe: str,
    n: int,
    purpose: str,
) -> Iterator[Finding]:
    if item.participant not in listed and not session.seal.entry.open:
        text = f"{item.participant!r} is not a participant"
        yield Finding(ClaimName.CONTRIBUTIONS, "6.4", text, at.index)
    key = listed.get(item.participant)
    if (key is None) != (item.signature is None):
        text = f"{item.participant!r}: a signature is due exactly when the seal lists a key"
        yield Finding(ClaimName.CONTRIBUTIONS, "6.4", text, at.index)
    elif key is not None and item.signature is not None:
        message = contribution_message(session.seal.leaf, k, recipe, n, purpose, item.participant, item.entropy)
        try:
            ed25519.verify(key, message, item.signature)
        except VerifierError:
            text = f"the signature of {item.participant!r} does not cover this contribution"
            yield Finding(ClaimName.CONTRIBUTIONS, "4.4", text, at.index)


def close_times(session: Session, chain: ChainInfo | None) -> Iterator[Finding]:
    """6.5: when contributions closed, and over how many; 6.4: whether they could be closed at all."""
    close, seal = session.close, session.seal.entry
    if close is None:
        return
    if seal.close_at is None:
        text = "a close, though the seal takes no contributions"
        yield Finding(ClaimName.CONTRIBUTIONS, "6.4", text, close.index)
        return

    def broken(text: str) -> Finding:
        return Finding(ClaimName.UNPREDICTABLE, "6.5", text, close.index)

    contributed = {event.entry.participant for event in session.contributions}
    everyone = not seal.open and all(participant.id in contributed for participant in seal.participants)
    if close.entry.time <= seal.close_at and not everyone:
        yield broken("closed early, though not every listed participant had contributed")
    if chain is not None and seal.round is not None and close.entry.time >= chain.time(seal.round):
        yield broken("closed at or after the round's time")
    if any(call.index < close.index for call in session.calls.values()):
        yield broken("closed after the first call")
    if close.entry.contributions < seal.min_contributions:
        yield broken("closed with fewer contributions than the minimum")


def calls(session: Session, chain: ChainInfo | None) -> Iterator[Finding]:
    """6.3 and 6.6 for the calls of a live session; what needs the chain's clock is left out without the chain."""

    def broken(text: str, index: int, rule: str = "6.6") -> Finding:
        return Finding(ClaimName.UNPREDICTABLE, rule, text, index)

    seal = session.seal.entry
    for k, call in enumerate(session.calls.values(), 1):
        if call.entry.draw != k:
            text = f"call {call.entry.draw} where call {k} is due"
            yield broken(text, call.index)
            yield Finding(ClaimName.COMPLETE, "6.6", text, call.index)
        if call.entry.draw > seal.links:
            yield broken("a call beyond the last link", call.index)
        if chain is None:
            continue
        if call.entry.round != chain.first_at(call.entry.time + (seal.lead or 0)):
            yield broken("the call does not name the first round after its lead", call.index)
        if chain.time(call.entry.round) >= seal.reveal_by:
            yield broken("the call's round comes at or after reveal_by", call.index, "6.3")
        if chain.time(call.entry.round) > MAX_INTEGER:
            yield broken("a round whose time is beyond 2^53 - 1", call.index, "6.3")


def live_draws(session: Session) -> Iterator[Finding]:
    """6.6: live draws repeat their calls, in order of k."""

    def broken(text: str, index: int) -> Finding:
        return Finding(ClaimName.UNPREDICTABLE, "6.6", text, index)

    if not session.live:
        return
    before = 0
    for draw in session.draws:
        k = draw.entry.draw or 0
        call = session.call_of(k)
        if call is None or call.index > draw.index:
            yield broken(f"draw {k} without a call before it", draw.index)
            continue
        asked = (call.entry.recipe, call.entry.n, call.entry.purpose)
        if asked != (draw.entry.recipe, draw.entry.n, draw.entry.purpose):
            yield broken(f"draw {k} is not what its call asked for", draw.index)
        if k < before:
            yield broken("draws are not in order of k", draw.index)
        before = k


def anchors(session: Session) -> list[tuple[int, int]]:
    """The (index, round) of what pins each round (7.1): a match's close or seal, each call, a void without outcome."""
    number = session.seal.entry.round
    if number is None:
        return [(call.index, call.entry.round) for call in session.calls.values()]
    pinned = [session.anchor.index] if session.anchor is not None else []
    if session.void is not None and session.void.entry.reason in {"host", "below-minimum"}:
        pinned.append(session.void.index)
    return [(index, number) for index in pinned]


def anchored_before(session: Session, known: Iterable[tuple[int, int]]) -> Iterator[Finding]:
    """6.7: no signature of the round, or of a later one, at or below the anchor's index. known: as of `signatures`."""
    newest = list(accumulate(known, lambda before, this: (this[0], max(before[1], this[1]))))
    for anchor, number in anchors(session):
        position = bisect_right(newest, (anchor, MAX_INTEGER))
        if position and newest[position - 1][1] >= number:
            early = newest[position - 1][1]
            text = f"round {early} was in the log already when what rests on round {number} was pinned"
            yield Finding(ClaimName.UNPREDICTABLE, "6.7", text, anchor)


def signatures(events: tuple[Event, ...], chain: bytes) -> Iterator[tuple[int, int]]:
    """(index, round) of every signature of a chain that the events hold, in `round` entries and in seals' `after`."""
    for event in events:
        if isinstance(event.entry, entries.Round) and event.entry.chain == chain:
            yield event.index, event.entry.round
        elif isinstance(event.entry, entries.Seal) and event.entry.chain == chain:
            yield event.index, event.entry.after.round


def complete(session: Session) -> Iterator[Finding]:
    """Claim `complete`: the rest of 6.7, and counts and digest."""

    def broken(text: str, index: int) -> Finding:
        return Finding(ClaimName.COMPLETE, "6.7", text, index)

    seal = session.seal.entry
    numbered: list[Logged[entries.Call] | Logged[entries.Draw]] = [*(session.calls.values() or session.draws)]
    following: Counter[str] = Counter()
    for event in numbered:
        if event.entry.n != following[event.entry.recipe] + 1:
            yield broken(f"{event.entry.recipe}: number {event.entry.n} does not follow", event.index)
        length = len(event.entry.outcomes) if isinstance(event.entry, entries.Draw) else 1
        following[event.entry.recipe] = event.entry.n + length - 1
    for draw in session.draws:
        call_or_none = session.call_of(draw.entry.draw)
        number = seal.round if call_or_none is None else call_or_none.entry.round
        needed = session.round_of(number)
        if needed is not None and needed.index > draw.index:
            yield broken("drawn before its round", draw.index)
    if session.close is not None:
        yield from _close_agrees(session, session.close)
    yield from _plan(session)
    if session.reveal is not None:
        yield from _reveal_agrees(session, session.reveal)


def _close_agrees(session: Session, close: Logged[entries.Close]) -> Iterator[Finding]:
    """Whether a close counts and digests the contributions that are there."""
    if close.entry.contributions != len(session.contributions):
        text = f"the close counts {close.entry.contributions} contributions, shown are {len(session.contributions)}"
        yield Finding(ClaimName.COMPLETE, "3.6", text, close.index)
    if close.entry.digest != session.digest():
        yield Finding(ClaimName.COMPLETE, "4.1", "the close's digest is not that of the contributions", close.index)


def _plan(session: Session) -> Iterator[Finding]:
    plan = session.seal.entry.plan
    if plan is None:
        return
    for draw in session.draws:
        if draw.entry.recipe not in plan:
            yield Finding(ClaimName.COMPLETE, "6.7", f"{draw.entry.recipe} is not in the plan", draw.index)
        if draw.entry.purpose:
            yield Finding(ClaimName.COMPLETE, "3.6", "a planned draw has no purpose", draw.index)
    drawn = drawn_counts(session)
    for recipe, count in plan.items():
        if drawn[recipe] > count or (session.reveal is not None and drawn[recipe] < count):
            text = f"the plan says {count} draws of {recipe}, there are {drawn[recipe]}"
            yield Finding(ClaimName.COMPLETE, "6.7", text, session.seal.index)


def _reveal_agrees(session: Session, reveal: Logged[entries.Reveal]) -> Iterator[Finding]:
    drawn = drawn_counts(session)
    counted = {name: drawn[name] for name in session.seal.entry.recipes}
    if dict(reveal.entry.draws) != counted:
        yield Finding(ClaimName.COMPLETE, "3.6", "the reveal's counts are not those of the draws", reveal.index)
    needed = session.round_of(session.seal.entry.round)
    if needed is not None and needed.index > reveal.index:
        yield Finding(ClaimName.COMPLETE, "6.7", "revealed before the round", reveal.index)
    for call in session.open_calls():
        yield Finding(ClaimName.COMPLETE, "6.7", f"call {call.entry.draw} was never drawn", call.index)
    if session.live and reveal.entry.by != "service":
        text = f"a live session is revealed by the service, this one by {reveal.entry.by}"
        yield Finding(ClaimName.COMPLETE, "6.7", text, reveal.index)


def drawn_counts(session: Session) -> Counter[str]:
    """How many draws of each recipe the document shows."""
    drawn: Counter[str] = Counter()
    for draw in session.draws:
        drawn[draw.entry.recipe] += len(draw.entry.outcomes)
    return drawn


def remarks(session: Session, chain: ChainInfo | None) -> Iterator[str]:
    """What is flagged without failing a claim: late draws and reveals, a stale `after`, an odd revealer."""
    seal = session.seal.entry
    if session.reveal is not None:
        by = session.reveal.entry.by
        if (by == "timelock" and seal.timelock is None) or (by == "host" and seal.custody != "host"):
            yield f"The reveal says that it was made by the {by}, which this seal does not provide for."
    if chain is None:
        return
    late_from = seal.reveal_by + wait(chain)
    for draw in session.draws:
        if draw.entry.time >= late_from:
            yield f"Late: draw {draw.entry.recipe} {draw.entry.n} was logged long after reveal_by."
    if session.reveal is not None and session.reveal.entry.time >= late_from:
        yield "Late: the seed was revealed long after reveal_by."
    if seal.time > chain.time(seal.after.round) + 3 * period(chain) + 11_000:
        yield "The newest round known at the seal was older than it should have been (6.10)."
