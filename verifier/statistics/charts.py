"""Drawings of counts and odds as SVG, by hand: no script, nothing loaded, readable in light and dark.

Each has a title and a description, which a screen reader reads in place of the drawing, and takes the text's colour
(currentColor) for its lines and words; the two other colours are the variables --more and --less of the page around it.
Colour never says anything alone: numbers, signs and line patterns say it too. A drawing that stands alone (`alone`)
brings these colours for both schemes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

MORE: Final = "var(--more, #c2570c)"
LESS: Final = "var(--less, #2b6cb0)"
PATTERNS: Final = ("none", "7 4", "2 3", "9 3 2 3", "12 6", "1 5")
DEEPEST: Final = 0.5
_STRONG: Final = 4.0
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_SCHEMES: Final = (
    "<style>:root{color-scheme:light dark;color:#1a1a1a;background:#fff;--more:#c2570c;--less:#2b6cb0}"
    "@media(prefers-color-scheme:dark){:root{color:#ececec;background:#16181c;--more:#f59e4b;--less:#74b0f0}}"
    "text{font-family:system-ui,sans-serif}</style>"
)


def element(tag: str, attributes: Mapping[str, str | float], text: str = "") -> str:
    """One element; attributes and text are escaped, numbers are written with at most two decimals."""
    written = "".join(f' {name}="{escape(_written(value))}"' for name, value in attributes.items())
    return f"<{tag}{written}>{escape(text)}</{tag}>" if text else f"<{tag}{written}/>"


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def picture(name: str, title: str, description: str, width: int, height: int, parts: Iterable[str]) -> str:
    """The whole drawing. name: letters, digits and dashes, once in a page: the ids of title and description."""
    if not _NAME.fullmatch(name):
        raise ValueError("the name of a drawing is of letters, digits and dashes")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" class="chart" fill="currentColor" font-size="12" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    )
    return f"{head}{''.join(parts)}</svg>"


def alone(svg: str) -> str:
    """A drawing as a file of its own, with its colours for a light and a dark scheme."""
    head, found, rest = svg.partition("<title")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{_SCHEMES}{found}{rest}\n'


def _text(x: float, y: float, text: str, anchor: str = "middle", **more: str | float) -> str:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return element("text", {"x": x, "y": y, "text-anchor": anchor, **named}, text)


def _line(x1: float, y1: float, x2: float, y2: float, width: float = 1, pattern: str = "none") -> str:
    where = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", {**where, "stroke": "currentColor", "stroke-width": width, "stroke-dasharray": pattern})


def bars(
    name: str, title: str, description: str, labels: Sequence[str], counts: Sequence[int], due: float, band: range
) -> str:
    """One bar a count over its label; a line at what was due, and around it the band of what chance gives."""
    width, height, left, top, bottom = max(320, 44 * len(counts) + 90), 250, 62, 14, 32
    most = max(*counts, band.stop, 1) * 1.08
    floor, room = height - bottom, height - bottom - top
    step = (width - left - 12) / len(counts)

    def y(value: float) -> float:
        return floor - room * value / most

    where = {"x": left, "y": y(band.stop - 1), "width": width - left - 12, "height": y(band.start) - y(band.stop - 1)}
    parts = [element("rect", {**where, "fill-opacity": 0.14})]
    for place, (label, count) in enumerate(zip(labels, counts, strict=True)):
        x = left + step * place + step * 0.16
        colour = (MORE if count >= due else LESS) if count not in band else "currentColor"
        bar = {"x": x, "y": y(count), "width": step * 0.68, "height": floor - y(count)}
        parts.append(element("rect", {**bar, "fill": colour, "fill-opacity": 0.55}))
        parts.append(_text(x + step * 0.34, floor + 14, label))
        parts.append(_text(x + step * 0.34, floor + 27, f"{count:,}", font_size=10))
    parts.append(_line(left, y(due), width - 12, y(due), 1.5, PATTERNS[1]))
    parts.append(_text(left - 4, y(due) + 4, f"{due:,.0f}", "end"))
    parts.append(_line(left, floor, width - 12, floor))
    return picture(name, title, description, width, height, parts)


def heat_map(
    name: str, title: str, description: str, sides: int, counts: Sequence[int], deviations: Sequence[float | None]
) -> str:
    """The ordered pairs: the first die down, the second across; each cell its count and its deviation.

    deviations: in standard deviations, None for a pair that cannot be. Cells: row by row, sides * sides of them.
    """
    cell, left, top = 52, 40, 40
    width = left + cell * sides + 8
    parts = [_text(left + cell * sides / 2, 12, "second die"), _text(2, top - 8, "first", "start")]
    for place in range(sides):
        parts.append(_text(left + cell * (place + 0.5), 32, str(place + 1), font_weight="bold"))
        parts.append(_text(left - 12, top + cell * (place + 0.5) + 4, str(place + 1), font_weight="bold"))
    for place, (count, deviation) in enumerate(zip(counts, deviations, strict=True)):
        row, column = divmod(place, sides)
        x, y = left + cell * column, top + cell * row
        depth = 0.0 if deviation is None else min(abs(deviation) / _STRONG, 1) * DEEPEST
        where = {"x": x + 1, "y": y + 1, "width": cell - 2, "height": cell - 2, "rx": 4}
        colour = {"fill": MORE if (deviation or 0) >= 0 else LESS, "fill-opacity": depth}
        parts.append(element("rect", where | colour | {"stroke": "currentColor", "stroke-opacity": 0.25}))
        if deviation is None:
            parts.append(_text(x + cell / 2, y + cell / 2 + 4, "—"))
            continue
        parts.append(_text(x + cell / 2, y + cell / 2, f"{count:,}"))
        parts.append(_text(x + cell / 2, y + cell / 2 + 15, f"{round(deviation, 1) + 0.0:+.1f} sd", font_size=10))
    return picture(name, title, description, width, top + cell * sides + 8, parts)


def bell(name: str, title: str, description: str, weights: Sequence[tuple[float, float]], at: float) -> str:
    """The odds of each count as a curve (count, odds), ascending, and a mark at the one that was counted."""
    width, height, left, floor = 460, 200, 20, 164
    low, high = min(weights[0][0], at), max(weights[-1][0], at)
    most = max(weight for _, weight in weights)

    def x(value: float) -> float:
        return left + (width - 2 * left) * ((value - low) / (high - low) if high > low else 0.5)

    points = [f"{x(value):.2f},{floor - 130 * weight / most:.2f}" for value, weight in weights]
    outline = f"{x(weights[0][0]):.2f},{floor} {' '.join(points)} {x(weights[-1][0]):.2f},{floor}"
    parts = [element("polygon", {"points": outline, "fill-opacity": 0.16, "stroke": "currentColor"})]
    parts.append(_line(left, floor, width - left, floor))
    parts.append(element("rect", {"x": x(at) - 1.5, "y": 22, "width": 3, "height": floor - 22, "fill": MORE}))
    side = "end" if x(at) > width * 0.7 else "start" if x(at) < width * 0.3 else "middle"
    parts.append(_text(x(at), 16, f"{at:,.0f} counted", side, font_weight="bold"))
    parts.append(_text(x(weights[0][0]), floor + 16, f"{weights[0][0]:,.0f}", "start"))
    parts.append(_text(x(weights[-1][0]), floor + 16, f"{weights[-1][0]:,.0f}", "end"))
    return picture(name, title, description, width, height, parts)


def curves(
    name: str, title: str, description: str, across: str, lines: Sequence[tuple[str, Sequence[float]]], mark: int
) -> str:
    """Odds from 0 to 1 over 0, 1, 2 ... of what `across` says, a line pattern for each; `mark`: a place on it."""
    width, height, left, right, top, floor = 430, 300, 46, 122, 14, 254
    last = max(len(values) for _, values in lines) - 1

    def x(place: float) -> float:
        return left + (width - left - right) * place / max(last, 1)

    def y(odds: float) -> float:
        return floor - (floor - top) * odds

    parts = [_line(x(mark), top, x(mark), floor, 1, "1 3")]
    for tenth in range(0, 11, 2):
        parts.append(_text(left - 6, y(tenth / 10) + 4, f"{10 * tenth} %", "end", font_size=11))
        parts.append(element("rect", {"x": left, "y": y(tenth / 10), "width": width - left - right, "height": 0.5}))
    for label_y, (place, (label, values)) in zip(
        _apart([y(values[-1]) for _, values in lines]), enumerate(lines), strict=True
    ):
        points = " ".join(f"{x(at):.2f},{y(value):.2f}" for at, value in _thinned(values))
        drawn = {"points": points, "fill": "none", "stroke": MORE if place % 2 else LESS, "stroke-width": 2}
        parts.append(element("polyline", drawn | {"stroke-dasharray": PATTERNS[place % len(PATTERNS)]}))
        parts.append(_text(width - right + 6, label_y + 4, label, "start", font_size=11))
    ticks = sorted({0, last // 4, last // 2, 3 * last // 4, last})
    parts += [_text(x(place), floor + 16, str(place), font_size=11) for place in ticks]
    parts.append(_text(left + (width - left - right) / 2, floor + 34, across))
    return picture(name, title, description, width, height, parts)


def _thinned(values: Sequence[float], most: int = 400) -> Iterable[tuple[int, float]]:
    step = max(1, (len(values) - 1) // most)
    kept = list(enumerate(values))[::step]
    return kept if kept[-1][0] == len(values) - 1 else [*kept, (len(values) - 1, values[-1])]


def _apart(heights: Sequence[float], least: float = 13.0) -> list[float]:
    """The heights, moved down as far as words there need to stand apart."""
    moved = dict.fromkeys(range(len(heights)), 0.0)
    free = -least
    for place in sorted(moved, key=lambda place: heights[place]):
        free = moved[place] = max(heights[place], free + least)
    return [moved[place] for place in range(len(heights))]
