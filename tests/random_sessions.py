"""Sessions made of entries that follow nothing but chance, so that rules meet that no story would bring together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

from tests import builder, test_check_rules
from tests.builder import HAND, OPENING, ROUNDS, TURN, Story, at, public_key
from verifier.errors import VerificationError

RECIPES = (
    None,
    {"turn": {"kind": "deal", "size": 7, "count": 3}, "opening": OPENING, "hand": HAND},
    {"turn": {"kind": "bytes", "count": 2}, "opening": TURN, "hand": TURN | {"mapping": "keccak"}},
)
PLANS = ({"turn": 2}, {"turn": 1, "hand": 1}, {"opening": 1})
REASONS = ("host", "below-minimum", "missed-close", "no-round", "missed-reveal", "weather")
WAITS = (0, 0, 0.1, 0.1, 0.5, 1, 3, 5, 9, 100, 600)


def document(chance: Random) -> dict[str, Any]:
    """A document of a random session: all of its leaves, those that a transcript shows, or one less."""
    story = _Maker(chance).make()
    shown = [*story.shown]
    match chance.randrange(3):
        case 0:
            shown = [*story.all_from_seal()]
        case 1 if len(shown) > 2:
            shown.remove(chance.choice(shown[1:]))
    evidence = []
    if chance.random() < 0.3:
        seen = {name: chance.choice([3, 7, 8, 14, 700]) for name in chance.sample(sorted(builder.WITNESSES), 2)}
        evidence = [story.evidence(chance.randrange(3, len(story.leaves) + 1), seen)]
    return story.document(shown, evidence=evidence, seen={"w1": 900, "w2": 900} if chance.random() < 0.4 else None)


class _Maker:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.live = chance.random() < 0.5
        self.story = Story(links=chance.choice([1, 2, 4]) if self.live else 1)
        self.seconds = 1.5 if self.live else 6.0

    def make(self) -> Story:
        self.story.seal(**self._seal())
        steps = [self._contribute, self._contribute, self._close, self._round, self._round, self._reveal]
        steps += [self._call, self._answer, self._answer] if self.live else [self._draw, self._draw]
        steps += [self._void, self._again, self._foreign]
        for step in self.chance.choices(steps, k=self.chance.randrange(1, 14)):
            # A draw that the story cannot make (its deck is empty, its round not recorded) is not made.
            with suppress(KeyError, IndexError, ValueError, VerificationError):
                step()
        return self.story

    def _maybe(self, likely: float, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return make() if self.chance.random() < likely else {}

    def _seal(self) -> dict[str, Any]:
        chance, keys = self.chance, self.chance.random() < 0.4
        white = {"id": "white"} | ({"key": public_key("white")} if keys else {})
        participants = [white, {"id": "black"}] if chance.random() < 0.8 else []
        seal: dict[str, Any] = {"participants": participants}
        seal |= self._maybe(0.3, lambda: {"open": True})
        seal |= self._maybe(0.4, lambda: {"close_at": None})
        seal |= self._maybe(0.3, lambda: {"custody": "host"})
        seal |= self._maybe(0.15, lambda: {"timelock": test_check_rules.timelock(at(620))})
        seal |= self._maybe(0.1, lambda: {"reveal_by": at(chance.choice([9, 15, 20, 605, 610, 614, 615, 616]))})
        seal |= self._maybe(0.1, lambda: {"after": self.story.round_fields(chance.randrange(1001, 1006))})
        seal |= self._maybe(0.1, lambda: {"replaces": "ab" * 32})
        seal |= self._maybe(0.2, lambda: {"min_contributions": chance.randrange(len(participants) + 1)})
        seal |= self._maybe(0.6, lambda: {"recipes": recipes} if (recipes := chance.choice(RECIPES)) else {})
        if self.live:
            return seal | {"profile": "live"}
        return seal | self._maybe(0.3, lambda: {"plan": chance.choice(PLANS)})

    def _moment(self) -> float:
        self.seconds += self.chance.choice(WAITS) if self.chance.random() < 0.93 else -self.chance.choice([1, 3])
        return max(self.seconds, 0.1)

    def _contribute(self) -> None:
        name, entropy = self.chance.choice(["white", "black", "grey"]), self.chance.choice([b"x", b"longer"])
        known = name in builder.PLAYER_KEYS
        signed = self._maybe(0.5 * known, lambda: {"signature": self.story.signature(name, entropy)})
        self.story.contribute(name, self._moment(), entropy, counted=self.chance.random() < 0.8, **signed)

    def _close(self) -> None:
        wrong = self._maybe(0.15, lambda: {"contributions": self.chance.randrange(3)})
        self.story.close(self._moment(), **wrong)

    def _round(self) -> None:
        asked = [call["round"] for call in self.story.calls] if self.live else [1005, 1005, 1005]
        number = self.chance.choice([*asked, self.chance.randrange(1001, 1006)])
        if (self.story.chain.hash.hex(), number) not in ROUNDS:
            return
        due = (self.story.chain.time(number) - at(0)) / 1000
        self.seconds = max(self.seconds, due + self.chance.choice([-2, -1, 0, 0.5]))
        self.story.round(number, self.seconds)
        if self.chance.random() < 0.15:
            self.story.shown.pop()

    def _draw(self) -> None:
        wrong = self._maybe(0.15, lambda: {"n": self.chance.randrange(1, 4)})
        wrong |= self._maybe(0.1, lambda: {"outcomes": [[1, 2]]})
        count = self.chance.choice([1, 1, 2])
        self.story.draw(self.chance.choice(["turn", "opening", "hand"]), self._moment(), count=count, **wrong)

    def _call(self) -> None:
        names = self.chance.sample(["white", "black", "grey"], self.chance.randrange(3))
        wrong = self._maybe(0.15, lambda: {"draw": self.chance.randrange(1, 5)})
        wrong |= self._maybe(0.1, lambda: {"n": 2})
        wrong |= self._maybe(0.1, lambda: {"round": 1003})
        self.story.call(self.chance.choice(["turn", "hand"]), self._moment(), dict.fromkeys(names, b"e"), **wrong)

    def _answer(self) -> None:
        wrong = self._maybe(0.1, lambda: {"seed": "11" * 32})
        wrong |= self._maybe(0.1, lambda: {"recipe": "opening"})
        wrong |= self._maybe(0.1, lambda: {"draw": self.chance.randrange(1, 6)})
        self.story.answer(self.chance.randrange(len(self.story.calls)) + 1, self._moment(), **wrong)

    def _reveal(self) -> None:
        wrong = self._maybe(0.15, lambda: {"seed": None})
        wrong |= self._maybe(0.15, lambda: {"by": self.chance.choice(["host", "timelock"])})
        wrong |= self._maybe(0.1, lambda: {"draws": {"turn": 1}})
        self.story.reveal(self._moment(), **wrong)

    def _void(self) -> None:
        links = self.story.links
        seed = self.chance.choice([None, None, links[1].hex(), links[-1].hex(), "22" * 32])
        moment = self._moment() if self.chance.random() < 0.5 else self.chance.choice([9.1, 14.9, 15, 615, 616, 1000])
        self.story.void(self.chance.choice(REASONS), moment, seed=seed)

    def _again(self) -> None:
        self.story.add(self.story.leaves[self.chance.choice(self.story.shown)])

    def _foreign(self) -> None:
        known = self.story.round_fields(self.chance.randrange(1001, 1006))
        other = Story().seal(host="other", time=at(max(self.seconds, 0)), after=known)
        self.story.add(other.leaves[-1], shown=False)


def documents(first: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, document) of so many seeds of chance."""
    for seed in range(first, first + count):
        yield f"seed {seed}", document(Random(seed))
