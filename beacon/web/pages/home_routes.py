"""/: what is promised, what is not, and how it works."""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web

from beacon.web.pages.rendering import page
from beacon.web.requests import parse_session

LINKS: Final = (
    ("/verify", "links.verify"),
    ("/log", "links.log"),
    ("/rounds", "links.rounds"),
    ("/statistics", "links.statistics"),
    ("/roll", "links.roll"),
    ("/docs", "links.docs"),
)

routes: Final = web.RouteTableDef()


@routes.get("/")
async def home(request: web.Request) -> web.Response:
    """What is promised, what is not, how it works."""
    return await page(request, "home.html", links=LINKS)


@routes.get("/s")
async def find(request: web.Request) -> web.Response:
    """What the form of the first page asks for: the session's own page."""
    session = parse_session(request.query.get("session", "").strip().lower())
    return web.Response(status=web.HTTPSeeOther.status_code, headers={hdrs.LOCATION: f"/s/{session.hex()}"})
