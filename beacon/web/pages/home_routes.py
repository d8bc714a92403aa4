"""/: what is promised, what is not, and how it works."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.web.pages.rendering import page
from beacon.web.requests import parse_session

LINKS: Final = (("/verify", "links.verify"), ("/log", "links.log"), ("/rounds", "links.rounds"))

routes: Final = web.RouteTableDef()


@routes.get("/")
async def home(request: web.Request) -> web.Response:
    """What is promised, what is not, how it works."""
    return await page(request, "home.html", links=LINKS)


@routes.get("/s")
async def find(request: web.Request) -> web.Response:
    """What the form of the first page asks for: the session's own page."""
    raise web.HTTPSeeOther(f"/s/{parse_session(request.query.get('session', '').strip().lower()).hex()}")
