"""Counts and odds as figures: a result in a line, a sentence on what it shows and what not, a drawing, a table, values.

All words of the statistics stand here. Values are JSON: counts as integers, odds as decimal strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from verifier.encoding import Json
from verifier.statistics import binomial, charts, odds
from verifier.statistics.chi_square import LEAST_EXPECTED, ChiSquare, of_equal_cells
from verifier.statistics.counts import Counts, DiceCounts, Kind
from verifier.statistics.odds import Game

MAX_DRAWN_SIDES: Final = 20
MAX_SHOWN_KINDS: Final = 8
OUTSIDE: Final = 0.01
_BELL_POINTS: Final = 120

CAVEAT: Final = (
    "A count cannot exclude chosen seeds: whoever picks among fair-looking ones leaves counts like these. "
    "What excludes that is the check of each session by itself."
)
SHOWS_FACES: Final = (
    "It shows whether single faces come up evenly over all these rolls; it does not show whether seeds were chosen, "
    "nor who got which roll."
)
SHOWS_PAIRS: Final = (
    "It shows whether all pairs come up evenly and the two dice of a roll are independent; it does not show whether one"
    " game's rolls were arranged, for that needs no uneven count."
)
SHOWS_DOUBLES: Final = (
    "It shows whether doubles come as often as they should over all these rolls; it does not show that they came to "
    "the right player at the right moment."
)
SHOWS_LARGEST: Final = (
    "Some cell always stands out most; the corrected value says how often chance alone makes one stand out as far, "
    "and a large one is no proof of honesty."
)
SHOWS_STREAKS: Final = (
    "It shows how often fair dice do what feels rigged; it does not show what happened in any one game, and a rare "
    "streak alone proves nothing among many games."
)
SHOWS_AHEAD: Final = (
    "It shows how often fair dice favour one of two players by so much; it does not show that a difference in one game "
    "was chance, only that chance makes many."
)


@dataclass(frozen=True, slots=True)
class Figure:
    """name: letters, digits, dashes, once in a report. head and rows: the same as the drawing, as a table."""

    name: str
    title: str
    result: str
    shows: str
    svg: str | None
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    values: dict[str, Json] = field(hash=False)

    def as_dict(self) -> dict[str, Json]:
        """The values between name and sentences; no drawing."""
        return {"name": self.name, "title": self.title, "result": self.result, "shows": self.shows, **self.values}


def percent(p: float) -> str:
    """Odds in words: two decimals of a percent, or `1 in N` where that would be 0.00."""
    if 0 < p < 0.00005:
        return f"1 in {1 / p:,.0f}" if p > 1e-15 else "less than 1 in 10^15"
    return "more than 99.99 %" if p >= 0.99995 else f"{100 * p:.2f} %"


def p_value(p: float) -> str:
    """A p-value in two digits."""
    return f"{p:#.2g}" if p >= 1e-4 else "below 0.0001"


def decimal(value: float) -> str:
    """Twelve significant digits."""
    return format(value, ".12g")


def in_words(kind: Kind) -> str:
    """What dice these are."""
    dice = {1: "One die", 2: "Two dice"}.get(kind.count, f"{kind.count} dice")
    sides = "" if kind.sides == 6 else f" of {kind.sides} sides"
    until = ", rolled again until they differ" if kind.different else ""
    return f"{dice}{sides}{until}"


def of_counts(counts: Counts) -> list[Figure]:
    """The figures of the kinds of dice that were rolled most, two dice of six sides first."""
    kinds = sorted(counts.dice.values(), key=lambda dice: (dice.kind != Kind(2, 6), -dice.rolls, dice.kind))
    return [figure for dice in kinds[:MAX_SHOWN_KINDS] if dice.rolls for figure in of_dice(dice)]


def of_dice(dice: DiceCounts) -> Iterator[Figure]:
    """Faces; for two dice also the pairs, the doubles and the largest deviation."""
    if dice.faces and (not dice.kind.different or dice.kind.count < dice.kind.sides):
        yield _faces(dice)
    if dice.pairs:
        yield _pairs(dice)
        if not dice.kind.different:
            yield _doubles(dice)
        yield _largest(dice)


def of_game(game: Game) -> list[Figure]:
    """What chance does in a game of that length."""
    return [_streaks(game), _ahead(game)]


def _faces(dice: DiceCounts) -> Figure:
    kind, faces = dice.kind, dice.faces
    trials, p = (dice.rolls, kind.count / kind.sides) if kind.different else (sum(faces), 1 / kind.sides)
    due, band = trials * p, binomial.band(trials, p, OUTSIDE)
    spread = (kind.sides - kind.count) / (kind.sides - 1) if kind.different else 1.0
    test = of_equal_cells(faces, spread)
    deviations = [(count - due) / math.sqrt(due * (1 - p)) for count in faces]
    title = f"{in_words(kind)}: faces"
    result = f"{sum(faces):,} dice, {due:,.1f} of each face due: {_test_in_words(test)}."
    about = (
        f"Of each face {due:,.1f} were due, and 99 of 100 fair counts lie from {band.start:,} to {band.stop - 1:,}. "
        + ", ".join(f"{face}: {count:,}" for face, count in enumerate(faces, 1))
    )
    labels = [str(face) for face in range(1, kind.sides + 1)]
    small = kind.sides <= MAX_DRAWN_SIDES
    return Figure(
        name=f"faces-{kind.name}",
        title=title,
        result=result,
        shows=SHOWS_FACES,
        svg=charts.bars(f"faces-{kind.name}", title, about, labels, faces, due, band) if small else None,
        head=("face", "counted", "due", "deviation (sd)"),
        rows=tuple(
            (label, f"{count:,}", f"{due:,.1f}", f"{deviation:+.2f}")
            for label, count, deviation in zip(labels, faces, deviations, strict=True)
        ),
        values={"rolls": dice.rolls, "counts": [*faces], "expected": decimal(due), **_test_values(test)},
    )


def _possible(dice: DiceCounts) -> list[int]:
    """The places of the pairs that can be."""
    step = dice.kind.sides + 1
    return [place for place in range(len(dice.pairs)) if not dice.kind.different or place % step]


def _pair(dice: DiceCounts, place: int) -> str:
    first, second = divmod(place, dice.kind.sides)
    return f"{first + 1}-{second + 1}"


def _pairs(dice: DiceCounts) -> Figure:
    kind, possible = dice.kind, _possible(dice)
    p = 1 / len(possible)
    due = dice.rolls * p
    test = of_equal_cells([dice.pairs[place] for place in possible])
    deviations: list[float | None] = [None] * len(dice.pairs)
    for place in possible:
        deviations[place] = (dice.pairs[place] - due) / math.sqrt(due * (1 - p))
    title = f"{in_words(kind)}: the {len(possible)} ordered pairs"
    result = f"{dice.rolls:,} rolls, {due:,.1f} of each pair due: {_test_in_words(test)}."
    name = f"pairs-{kind.name}"
    about = f"A grid of the first die by the second, each pair with its count and deviation. {result}"
    drawn = kind.sides <= 8
    return Figure(
        name=name,
        title=title,
        result=result,
        shows=SHOWS_PAIRS,
        svg=charts.heat_map(name, title, about, kind.sides, dice.pairs, deviations) if drawn else None,
        head=("first die", *(f"second {face}" for face in range(1, kind.sides + 1))),
        rows=tuple(
            (str(row + 1), *(f"{dice.pairs[row * kind.sides + column]:,}" for column in range(kind.sides)))
            for row in range(kind.sides)
        ),
        values={"rolls": dice.rolls, "counts": [*dice.pairs], "expected": decimal(due), **_test_values(test)},
    )


def _doubles(dice: DiceCounts) -> Figure:
    kind, n, doubles = dice.kind, dice.rolls, dice.doubles
    p = 1 / kind.sides
    tail = binomial.two_sided(n, doubles, p)
    title = f"{in_words(kind)}: doubles"
    result = (
        f"{doubles:,} doubles in {n:,} rolls, {n * p:,.1f} due: exact binomial p {p_value(tail)} (both sides). "
        f"The longest streak of doubles in one session: {dice.longest}."
    )
    faces = [(f"{face}-{face}", dice.pairs[(face - 1) * (kind.sides + 1)]) for face in range(1, kind.sides + 1)]
    return Figure(
        name=f"doubles-{kind.name}",
        title=title,
        result=result,
        shows=SHOWS_DOUBLES,
        svg=charts.bell(f"doubles-{kind.name}", title, result, _bell(n, p), doubles),
        head=("double", "counted", "due"),
        rows=tuple((label, f"{count:,}", f"{n * p * p:,.1f}") for label, count in faces),
        values={
            "rolls": n,
            "doubles": doubles,
            "expected": decimal(n * p),
            "p": decimal(tail),
            "test": "exact binomial, two-sided",
            "longest_streak": dice.longest,
        },
    )


def _bell(n: int, p: float) -> list[tuple[float, float]]:
    reach = 5 * math.sqrt(n * p * (1 - p)) + 1
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    return [(k, binomial.pmf(n, k, p)) for k in range(first, last + 1, max(1, (last - first) // _BELL_POINTS))]


def _largest(dice: DiceCounts) -> Figure:
    possible, n = _possible(dice), dice.rolls
    cells, due = len(possible), n / len(possible)
    tails = {place: binomial.two_sided(n, dice.pairs[place], 1 / cells) for place in possible}
    place = min(possible, key=lambda place: (tails[place], -abs(dice.pairs[place] - due), place))
    top = max(possible, key=lambda place: (dice.pairs[place], -place))
    fullest = binomial.largest_at_least(n, cells, dice.pairs[top])
    tail = tails[place]
    corrected, independent = binomial.bonferroni(tail, cells), binomial.sidak(tail, cells)
    title = f"{in_words(dice.kind)}: the largest deviation"
    result = (
        f"{_pair(dice, place)} came {dice.pairs[place]:,} times, {due:,.1f} due: p {p_value(tail)} by itself "
        f"(exact binomial, both sides), {p_value(corrected)} corrected for {cells} cells (Bonferroni). "
        f"That the commonest of {cells} pairs comes {dice.pairs[top]:,} times or more: {percent(fullest)} (exact)."
    )
    return Figure(
        name=f"largest-{dice.kind.name}",
        title=title,
        result=result,
        shows=SHOWS_LARGEST,
        svg=None,
        head=("what", "value"),
        rows=(
            ("pair", _pair(dice, place)),
            ("counted", f"{dice.pairs[place]:,}"),
            ("due", f"{due:,.1f}"),
            ("p of this pair alone (exact binomial, two-sided)", p_value(tail)),
            (f"corrected for {cells} cells, whatever their dependence (Bonferroni)", p_value(corrected)),
            (f"corrected as if the {cells} cells were independent (Šidák)", p_value(independent)),
            (f"odds that the commonest pair comes {dice.pairs[top]:,} times or more (exact)", percent(fullest)),
        ),
        values={
            "pair": _pair(dice, place),
            "count": dice.pairs[place],
            "expected": decimal(due),
            "cells": cells,
            "p": decimal(tail),
            "test": "exact binomial, two-sided",
            "p_bonferroni": decimal(corrected),
            "p_sidak": decimal(independent),
            "largest_count": dice.pairs[top],
            "p_largest_count": decimal(fullest),
        },
    )


def _streaks(game: Game) -> Figure:
    n = game.rolls
    title = f"Streaks of doubles in {n:,} rolls of two dice"
    lengths = range(1, odds.LONGEST + 1)
    names = ["at least one double", *(f"{length} in a row" for length in lengths[1:])]
    result = (
        f"In {n:,} rolls {game.mean:.2f} doubles are due; "
        + ", ".join(f"{name}: {percent(p)}" for name, p in zip(names[:3], game.streaks[:3], strict=True))
        + f". Three in a row in at least one of {game.games:,} such games: {percent(game.streaks_in_games[2])}."
    )
    lines = [
        (name, odds.streak_curve(n, length, float(odds.DOUBLE)))
        for name, length in zip(names[:4], lengths[:4], strict=True)
    ]
    return Figure(
        name="streaks",
        title=title,
        result=result,
        shows=SHOWS_STREAKS,
        svg=charts.curves("streaks", title, result, "rolls", lines, n),
        head=("what", "in one game", f"in at least one of {game.games:,} games"),
        rows=tuple(
            (name, percent(one), percent(many))
            for name, one, many in zip(names, game.streaks, game.streaks_in_games, strict=True)
        ),
        values={
            "rolls": n,
            "games": game.games,
            "mean_doubles": decimal(game.mean),
            "streaks": [
                {"in_a_row": length, "p": decimal(one), "p_in_games": decimal(many)}
                for length, one, many in zip(lengths, game.streaks, game.streaks_in_games, strict=True)
            ],
        },
    )


def _ahead(game: Game) -> Figure:
    title = f"An opponent with more doubles, {game.rolls:,} rolls each"
    result = (
        f"Two players roll {game.rolls:,} times each. Your opponent has at least two doubles more: "
        f"{percent(game.ahead[1])}."
    )
    return Figure(
        name="ahead",
        title=title,
        result=result,
        shows=SHOWS_AHEAD,
        svg=None,
        head=("doubles more than you", "odds"),
        rows=tuple((f"{by} or more", percent(p)) for by, p in enumerate(game.ahead, 1)),
        values={
            "rolls": game.rolls,
            "ahead": [{"doubles_more": by, "p": decimal(p)} for by, p in enumerate(game.ahead, 1)],
        },
    )


def _test_in_words(test: ChiSquare | None) -> str:
    if test is None:
        return "nothing to test"
    few = "" if test.enough else f" (fewer than {LEAST_EXPECTED} due in a cell: a rough guide only)"
    return f"chi-square {test.statistic:.2f} on {test.df}, p {p_value(test.p)}{few}"


def _test_values(test: ChiSquare | None) -> dict[str, Json]:
    if test is None:
        return {}
    return {
        "chi_square": decimal(test.statistic),
        "df": test.df,
        "p": decimal(test.p),
        "enough_for_chi_square": test.enough,
    }


def table_lines(figure: Figure) -> Iterator[str]:
    """The table as text, in columns."""
    rows: Sequence[tuple[str, ...]] = (figure.head, *figure.rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(figure.head))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *rest]).rstrip()
