"""/statistics: what the log's dice showed; /roll: the same in the reader's own hand; /thirty-six: which rolls reach."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from markupsafe import Markup

from beacon.errors import ApiError
from beacon.web.pages.counting import COUNTING, Asked, of_game
from beacon.web.pages.rendering import page
from beacon.web.services import SERVICES
from verifier.encoding import parse_decimal
from verifier.errors import FormatError
from verifier.statistics import shots
from verifier.statistics.figures import CAVEAT

DEFAULT_ROLLS: Final = 25
DEFAULT_GAMES: Final = 20
MOST_ROLLS: Final = 1_000
MOST_GAMES: Final = 100_000
DEFAULT_DISTANCE: Final = 6
MAX_HOST: Final = 64

routes: Final = web.RouteTableDef()


@routes.get("/statistics")
async def statistics(request: web.Request) -> web.Response:
    """What the log's dice showed, all of them or one host's, and what chance does in a game."""
    asked = Asked(request.query.get("host", "").strip()[:MAX_HOST] or None, "tests" in request.query)
    rolls = _number(request, "rolls", DEFAULT_ROLLS, MOST_ROLLS)
    games = _number(request, "games", DEFAULT_GAMES, MOST_GAMES)
    counted = await request.app[COUNTING].counted(request.app[SERVICES].log, asked)
    figures = counted.figures + await asyncio.to_thread(of_game, rolls, games)
    drawings = {figure.name: Markup(figure.svg) for figure in figures if figure.svg}  # noqa: S704 - ours
    return await page(
        request,
        "statistics.html",
        asked=asked,
        rolls=rolls,
        games=games,
        counted=counted,
        figures=figures,
        drawings=drawings,
        caveat=CAVEAT,
        most_rolls=MOST_ROLLS,
        most_games=MOST_GAMES,
    )


@routes.get("/roll")
async def roll(request: web.Request) -> web.Response:
    """Two dice to roll in the browser, counted beside what is due."""
    return await page(request, "roll.html", faces=shots.FACES)


@routes.get("/thirty-six")
async def thirty_six(request: web.Request) -> web.Response:
    """Which of the thirty-six rolls reach a distance in backgammon."""
    distance = _number(request, "distance", DEFAULT_DISTANCE, shots.FARTHEST)
    direct, combined = shots.shots(distance)
    return await page(
        request,
        "thirty-six.html",
        distance=distance,
        direct=direct,
        combined=combined,
        grid=shots.grid(distance),
        faces=shots.FACES,
        distances=[(one, *shots.shots(one)) for one in range(1, shots.FARTHEST + 1)],
    )


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, "")
    if not text:
        return default
    try:
        number = parse_decimal(text, most)
    except FormatError:
        number = 0
    if number < 1:
        raise ApiError("invalid-request", f"`{name}` is a number from 1 to {most}.")
    return number
