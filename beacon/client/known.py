"""What the SDK knows of one session: verified entries, folded and judged by the verifier's own rules as they come.

Others contribute, call and draw too, so an entry may be missing here, and a rule then speaks against one that is true.
What it has found is for the whole transcript to decide, which `verifier.check` judges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, cast

from beacon.client.log import Dishonest
from verifier import entries, rules, voids
from verifier.drand import ChainInfo, VerifiedRound
from verifier.draws import Deal, Deck, Outcome, draw, fits, redraw
from verifier.errors import VerifierError
from verifier.outcomes import Seeds
from verifier.seeds import Stream, binding
from verifier.session import Logged, Session, add
from verifier.transcript import Event
from verifier.verdict import Finding


class Known:
    """One session. Its methods may use milliseconds of CPU; `take` and `learn` are for one caller at a time."""

    def __init__(self, seal: Event, chain: ChainInfo) -> None:
        assert isinstance(seal.entry, entries.Seal)
        self._seal: Final = Logged(seal.index, seal.leaf, seal.entry)
        self._chain: Final = chain
        self._listed: Final = rules.keys(seal.entry)
        self._events: dict[int, Event] = {seal.index: seal}
        self.session = Session(self._seal)

    @property
    def events(self) -> dict[int, Event]:
        """The session's entries by log index, in log order."""
        return dict(self._events)

    def has(self, event: Event) -> bool:
        """Whether an entry is known. Raises Dishonest where another is known at its index."""
        known = self._events.get(event.index)
        if known is not None and known.data != event.data:
            raise Dishonest(f"the log has shown two entries {event.index}")
        return known is not None

    def take(self, event: Event) -> list[Finding]:
        """Take one of the session's entries. Gives what speaks against it, as far as is known here, each time.

        Raises Dishonest for what cannot be one.
        """
        if not self.has(event):
            self._take(event)
        return list(self.against(event))

    def _take(self, event: Event) -> None:
        entry = event.entry
        if not isinstance(entry, entries.SessionEntry) or entry.session != self._seal.leaf:
            raise Dishonest(f"entry {event.index} is none of this session")
        if isinstance(entry, entries.Draw):
            self._check_shape(entry)
        if event.index > max(self._events):
            self._add(self.session, event)
            self._events[event.index] = event
        else:
            self._fold([event])

    def learn(self, events: Iterable[Event]) -> None:
        """Take what a whole transcript has of the session, judged already."""
        own = [
            event
            for event in events
            if isinstance(event.entry, entries.SessionEntry) and event.entry.session == self._seal.leaf
        ]
        self._fold([event for event in own if not self.has(event)])

    def against(self, event: Event) -> Iterator[Finding]:
        """What the protocol's rules have against the session with this entry, as far as is known here."""
        session, entry, chain = self.session, event.entry, self._chain
        yield from session.findings
        indices = list(self._events)
        place = bisect_left(indices, event.index)
        beside = tuple(self._events[index] for index in indices[max(0, place - 1) : place + 2])
        yield from rules.log_order(beside)
        match entry:
            case entries.Contribution():
                yield from rules.contribution(session, Logged(event.index, event.leaf, entry), self._listed)
                return
            case entries.Call():
                yield from rules.call_contributions(session, Logged(event.index, event.leaf, entry), self._listed)
        yield from rules.close_times(session, chain)
        yield from rules.calls(session, chain)
        yield from rules.live_draws(session)
        yield from rules.draw_times(session)
        yield from rules.complete(session)
        known = tuple(rules.signatures(tuple(self._events.values()), session.seal.entry.chain))
        yield from voids.void(session, known, chain)
        seeds = Seeds(session)
        seeds.claim()
        yield from seeds.findings

    @property
    def digest(self) -> bytes | None:
        """S, 32 bytes; None while the contributions are open, or not all of them are known here."""
        session, close = self.session, self.session.close
        if self._seal.entry.close_at is not None and (
            close is None or close.entry.contributions != len(session.contributions)
        ):
            return None
        return session.digest()

    def uses(self, chain: bytes, number: int) -> bool:
        """Whether the session uses a round of a chain (its hash, 32 bytes): its own, a call's or its timelock's.

        As far as is known here.
        """
        seal, calls = self._seal.entry, list(self.session.calls.values())
        if seal.timelock is not None and (seal.timelock.chain, seal.timelock.round) == (chain, number):
            return True
        return chain == seal.chain and number in {seal.round, *(call.entry.round for call in calls)}

    def outcome(self, drawn: entries.Draw, found: VerifiedRound) -> Outcome | None:
        """The outcome of a live draw, from its link and its round; None where what it rests on is not all known here.

        Raises VerificationError where there is none.
        """
        call, digest, name = self.session.call_of(drawn.draw), self.digest, drawn.recipe
        if call is None or digest is None or drawn.seed is None or call.entry.recipe != name:
            return None
        recipe, n = self._seal.entry.recipes[name], call.entry.n
        deck = None
        if isinstance(recipe, Deal):
            dealt = {one.entry.n: one.entry.outcomes[0] for one in self.session.draws if one.entry.recipe == name}
            before = [cast("list[int]", dealt[number]) for number in range(1, n) if number in dealt]
            if len(before) < n - 1:
                return None
            deck = Deck(recipe.size, [card for cards in before for card in cards])
        pairs = [(item.participant, item.entropy) for item in call.entry.contributions]
        bound = binding(digest, call.entry.draw, pairs, found.round, found.randomness)
        return draw(recipe, Stream(drawn.seed, bound, name, n), deck)

    def next_outcomes(self, recipe: str, seed: bytes, found: VerifiedRound, count: int) -> list[Outcome] | None:
        """What a match's seed (32 bytes) and round give for the next draws of a recipe; None: S is not known.

        Raises VerificationError(DRAW_PAST_END).
        """
        if self.digest is None:
            return None
        first = rules.drawn_counts(self.session)[recipe] + 1
        bound = binding(self.digest, 0, (), found.round, found.randomness)
        rule = self._seal.entry.recipes[recipe]
        return [redraw(seed, bound, recipe, rule, n)[0] for n in range(first, first + count)]

    def _fold(self, more: Iterable[Event]) -> None:
        events = {event.index: event for event in sorted([*self._events.values(), *more], key=lambda one: one.index)}
        session = Session(self._seal)
        for event in events.values():
            if event.index != self._seal.index:
                self._add(session, event)
        self._events, self.session = events, session

    @staticmethod
    def _add(session: Session, event: Event) -> None:
        assert isinstance(event.entry, entries.SessionEntry)
        try:
            add(session, event, event.entry)
        except VerifierError as error:
            raise Dishonest(error.message) from error

    def _check_shape(self, entry: entries.Draw) -> None:
        """5.3, which needs no seed: the verifier looks at it once there is one."""
        recipe = self._seal.entry.recipes.get(entry.recipe)
        if recipe is None or not all(fits(recipe, outcome) for outcome in entry.outcomes):
            raise Dishonest(f"{entry.recipe} {entry.n}: no outcome of a recipe of the seal")
