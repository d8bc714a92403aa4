"""From the entries of a log, or of one session, to counts of what its dice showed.

Entries are taken one by one, in log order. What is kept does not grow with them: counts per kind of dice, and for each
session that has not ended its recipes and where their numbers are; of those at most MAX_OPEN, the oldest is forgotten.
Nothing is verified here: the counts are of what the entries say. What no seal, no recipe and no number of 6.7 covers is
not counted, but told.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from verifier import entries
from verifier.draws import Dice, Recipe
from verifier.encoding import Json
from verifier.errors import FormatError
from verifier.merkle import leaf_hash

MAX_OPEN: Final = 100_000
MAX_GROUPS: Final = 10_000
MAX_KINDS: Final = 64
MAX_SHARED: Final = 1_000
MAX_SIDES: Final = 100
MAX_PAIR_SIDES: Final = 20

_OF_INTEREST: Final = tuple(f'"type":"{name}"'.encode() for name in ("seal", "draw", "reveal", "void"))


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """Dice that are counted together. different: the roll is made again until all dice differ (`reroll_ties`)."""

    count: int
    sides: int
    different: bool = False

    @classmethod
    def of(cls, recipe: Recipe) -> Kind | None:
        """The kind of a recipe of dice; None for another one. One die always differs from itself."""
        if not isinstance(recipe, Dice):
            return None
        return cls(recipe.count, recipe.sides, recipe.reroll_ties and recipe.count > 1)

    @property
    def name(self) -> str:
        """2d6, or 2d6-different; of letters, digits and dashes."""
        return f"{self.count}d{self.sides}" + "-different" * self.different

    @property
    def has_pairs(self) -> bool:
        """Two dice with few enough sides that every ordered pair is counted."""
        return self.count == 2 and self.sides <= MAX_PAIR_SIDES


@dataclass(slots=True)
class DiceCounts:
    """faces[i]: dice that showed i + 1 (none for more than MAX_SIDES sides).

    pairs[i * sides + j]: rolls of i + 1, then j + 1 (for two dice of at most MAX_PAIR_SIDES sides). longest: the
    longest streak of doubles in one session, in the order of the draws' numbers, whoever rolled.
    """

    kind: Kind
    rolls: int = 0
    faces: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)
    longest: int = 0

    def __post_init__(self) -> None:
        sides = self.kind.sides
        self.faces = self.faces or [0] * (sides if sides <= MAX_SIDES else 0)
        self.pairs = self.pairs or [0] * (sides * sides if self.kind.has_pairs else 0)

    @property
    def doubles(self) -> int:
        """Rolls of two equal dice, among the pairs."""
        return sum(self.pairs[:: self.kind.sides + 1])

    def add(self, roll: list[int], streak: int) -> int:
        """Count one roll, each die 1 .. sides, that came after `streak` doubles. Returns how many there are now."""
        self.rolls += 1
        if self.faces:
            for face in roll:
                self.faces[face - 1] += 1
        if not self.pairs:
            return 0
        self.pairs[(roll[0] - 1) * self.kind.sides + roll[1] - 1] += 1
        streak = streak + 1 if roll[0] == roll[1] else 0
        self.longest = max(self.longest, streak)
        return streak

    def merged(self, other: DiceCounts) -> DiceCounts:
        """Both together; of the same kind."""
        faces = [a + b for a, b in zip(self.faces, other.faces, strict=True)]
        pairs = [a + b for a, b in zip(self.pairs, other.pairs, strict=True)]
        return DiceCounts(self.kind, self.rolls + other.rolls, faces, pairs, max(self.longest, other.longest))


@dataclass(slots=True)
class Counts:
    """Of some sessions: how many; rolls of dice by kind; draws that are of no dice, or of a kind beyond MAX_KINDS.

    irregular: draws whose recipe is not in the seal, whose number was there or left a gap, or which are no such roll.
    """

    sessions: int = 0
    dice: dict[Kind, DiceCounts] = field(default_factory=dict)
    others: int = 0
    irregular: int = 0

    @property
    def rolls(self) -> int:
        """Rolls of all kinds."""
        return sum(counts.rolls for counts in self.dice.values())

    def of(self, kind: Kind) -> DiceCounts | None:
        """The counts of a kind, made when they are not there; None when there are too many kinds."""
        counts = self.dice.get(kind)
        if counts is None and len(self.dice) < MAX_KINDS:
            counts = self.dice[kind] = DiceCounts(kind)
        return counts

    def add(self, other: Counts) -> None:
        """Count another's too."""
        self.sessions += other.sessions
        self.others += other.others
        self.irregular += other.irregular
        for kind, counts in other.dice.items():
            own = self.of(kind)
            if own is not None:
                own.rolls += counts.rolls
                own.faces[:] = map(int.__add__, own.faces, counts.faces)
                own.pairs[:] = map(int.__add__, own.pairs, counts.pairs)
                own.longest = max(own.longest, counts.longest)

    def merged(self, other: Counts) -> Counts:
        """Both together."""
        dice = dict(self.dice)
        for kind, counts in other.dice.items():
            if kind in dice:
                dice[kind] = dice[kind].merged(counts)
            elif len(dice) < MAX_KINDS:
                dice[kind] = counts.merged(DiceCounts(kind))
        return Counts(
            self.sessions + other.sessions, dice, self.others + other.others, self.irregular + other.irregular
        )


@dataclass(slots=True)
class _Place:
    """Where a recipe of a session is: the number that comes next, and how many doubles came just before it."""

    n: int = 1
    streak: int = 0


@dataclass(slots=True)
class _Open:
    """A session that has not ended. kinds: recipe -> its dice, None: no dice; places: of the recipes drawn so far."""

    counts: Counts
    kinds: Mapping[str, Kind | None]
    places: dict[str, _Place] = field(default_factory=dict)

    def draw(self, draw: entries.Draw) -> None:
        """Count the outcomes of one entry."""
        place = self.places.setdefault(draw.recipe, _Place()) if draw.recipe in self.kinds else None
        if place is None or draw.n != place.n:
            self.counts.irregular += len(draw.outcomes)
            return
        place.n += len(draw.outcomes)
        kind = self.kinds[draw.recipe]
        dice = self.counts.of(kind) if kind is not None else None
        if dice is None:
            self.counts.others += len(draw.outcomes)
            return
        for outcome in draw.outcomes:
            roll = _roll(dice.kind, outcome)
            if roll is None:
                self.counts.irregular += 1
                place.streak = 0
            else:
                place.streak = dice.add(roll, place.streak)


class Counter:
    """Takes the entries of a log in order; `groups` has the counts so far.

    group: what a session's counts go under, by its seal; None: it is not counted. recipe: only draws of recipes of this
    name. unread: entries that are none; strays: draws of sessions whose seal was not seen, had ended or was forgotten;
    left_out: sessions that no group takes, or beyond MAX_GROUPS groups.
    """

    def __init__(self, group: Callable[[entries.Seal], Hashable | None], recipe: str | None = None) -> None:
        self.entries = 0
        self.unread = 0
        self.strays = 0
        self.left_out = 0
        self.groups: dict[Hashable, Counts] = {}
        self._group: Final = group
        self._recipe: Final = recipe
        self._open: Final[dict[bytes, _Open | None]] = {}
        self._shared: Final[dict[Hashable, Mapping[str, Kind | None]]] = {}

    def take(self, data: bytes) -> None:
        """Count one entry by its exact bytes. Never raises: what is no entry is told in `unread`."""
        self.entries += 1
        if not any(marker in data for marker in _OF_INTEREST):
            return
        try:
            entry = entries.parse_entry(data)
        except FormatError:
            self.unread += 1
            return
        match entry:
            case entries.Seal():
                self._seal(leaf_hash(data), entry)
            case entries.Draw():
                self._draw(entry)
            case entries.Reveal() | entries.Void():
                self._open.pop(entry.session, None)

    def kept(self) -> dict[str, Any]:
        """Where the count is, as JSON has it: `Counter.resumed` goes on from there. A group's name must be JSON too."""
        kinds = {id(known): number for number, known in enumerate(self._kinds())}
        groups = {id(counts): number for number, counts in enumerate(self.groups.values())}
        return {
            "totals": [self.entries, self.unread, self.strays, self.left_out],
            "groups": [[name, kept_counts(counts)] for name, counts in self.groups.items()],
            "kinds": [
                [
                    [recipe, None if kind is None else [kind.count, kind.sides, kind.different]]
                    for recipe, kind in known.items()
                ]
                for known in self._kinds()
            ],
            "open": [
                [session.hex(), None]
                if found is None
                else [
                    session.hex(),
                    groups[id(found.counts)],
                    kinds[id(found.kinds)],
                    [[recipe, place.n, place.streak] for recipe, place in found.places.items()],
                ]
                for session, found in self._open.items()
            ],
        }

    @classmethod
    def resumed(
        cls, group: Callable[[entries.Seal], Hashable | None], kept: Mapping[str, Any], recipe: str | None = None
    ) -> Counter:
        """The counter that gave `kept`. Raises KeyError, TypeError or ValueError for what no counter gave."""
        made = cls(group, recipe)
        made.entries, made.unread, made.strays, made.left_out = map(int, kept["totals"])
        made.groups = {_hashable(name): counts_of(counts) for name, counts in kept["groups"]}
        counts = list(made.groups.values())
        kinds = [
            made._share({name: None if kind is None else Kind(*kind) for name, kind in known})
            for known in kept["kinds"]
        ]
        for session, *rest in kept["open"]:
            found = None
            if rest != [None]:
                of, known, places = rest
                found = _Open(counts[of], kinds[known], {name: _Place(n, streak) for name, n, streak in places})
            made._open[bytes.fromhex(session)] = found
        return made

    def _kinds(self) -> list[Mapping[str, Kind | None]]:
        """What the open sessions' recipes are, each mapping once."""
        return list({id(found.kinds): found.kinds for found in self._open.values() if found is not None}.values())

    def total(self, wanted: Callable[[Hashable], bool] = lambda _: True) -> Counts:
        """All groups together, or those that are wanted."""
        total = Counts()
        for name, counts in self.groups.items():
            if wanted(name):
                total = total.merged(counts)
        return total

    def _seal(self, session: bytes, seal: entries.Seal) -> None:
        if session in self._open:
            return
        name = self._group(seal)
        if name is not None and name not in self.groups and len(self.groups) >= MAX_GROUPS:
            name = None
        if name is None:
            self.left_out += 1
        if len(self._open) >= MAX_OPEN:
            del self._open[next(iter(self._open))]
        self._open[session] = None if name is None else self._begin(name, seal.recipes)

    def _begin(self, name: Hashable, recipes: Mapping[str, Recipe]) -> _Open:
        counts = self.groups.setdefault(name, Counts())
        counts.sessions += 1
        return _Open(counts, self._share(_kinds_of(recipes)))

    def _share(self, kinds: Mapping[str, Kind | None]) -> Mapping[str, Kind | None]:
        """One mapping for all sessions that have these recipes."""
        if len(self._shared) >= MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(tuple(kinds.items()), kinds)

    def _draw(self, draw: entries.Draw) -> None:
        if draw.session not in self._open:
            self.strays += len(draw.outcomes)
            return
        session = self._open[draw.session]
        if session is not None and self._recipe in {None, draw.recipe}:
            session.draw(draw)


def of_session(recipes: Mapping[str, Recipe], drawn: Iterable[entries.Draw]) -> Counts:
    """The counts of one session, by its seal's recipes and its draws in log order."""
    session = _Open(Counts(1), _kinds_of(recipes))
    for draw in drawn:
        session.draw(draw)
    return session.counts


def _kinds_of(recipes: Mapping[str, Recipe]) -> dict[str, Kind | None]:
    return {name: Kind.of(recipe) for name, recipe in recipes.items()}


def kept_counts(counts: Counts) -> list[Any]:
    """Counts as JSON has them, for `counts_of`."""
    dice = [
        [[kind.count, kind.sides, kind.different], found.rolls, found.faces, found.pairs, found.longest]
        for kind, found in counts.dice.items()
    ]
    return [counts.sessions, counts.others, counts.irregular, dice]


def counts_of(kept: list[Any]) -> Counts:
    """The counts that gave `kept`. Raises TypeError or ValueError for what no counts gave."""
    sessions, others, irregular, dice = kept
    found = {}
    for kind, rolls, faces, pairs, longest in dice:
        empty = DiceCounts(Kind(*kind))
        if (len(faces), len(pairs)) != (len(empty.faces), len(empty.pairs)):
            raise ValueError("another number of faces than the dice have")
        found[empty.kind] = DiceCounts(
            empty.kind, int(rolls), list(map(int, faces)), list(map(int, pairs)), int(longest)
        )
    return Counts(int(sessions), found, int(others), int(irregular))


def _hashable(name: Any) -> Hashable:
    return tuple(name) if isinstance(name, list) else name


def _roll(kind: Kind, outcome: Json) -> list[int] | None:
    """The dice of an outcome, if it is a roll of that kind."""
    if not isinstance(outcome, list) or len(outcome) != kind.count:
        return None
    dice = [die for die in outcome if type(die) is int and 1 <= die <= kind.sides]
    if len(dice) != kind.count or (kind.different and len(set(dice)) != len(dice)):
        return None
    return dice
