"""/: what is promised, what is not, and how it works."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.web.pages.rendering import page

LINKS: Final = (
    ("/verify", "links.verify"),
    ("/log", "links.log"),
    ("/rounds", "links.rounds"),
    ("/statistics", "links.statistics"),
    ("/roll", "links.roll"),
    ("/docs", "links.docs"),
)

_NAME: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", re.ASCII)

routes: Final = web.RouteTableDef()


@routes.get("/")
async def home(request: web.Request) -> web.Response:
    """What is promised, what is not, how it works."""
    return await page(request, "home.html", links=LINKS)


@routes.get("/s")
async def find(request: web.Request) -> web.Response:
    """What the form of the first page asks for: the page of the session whose name, or address, was given."""
    found = _NAME.search(request.query.get("session", "").lower())
    if found is None:
        raise ApiError("session-unknown", "A session is named by 64 hex digits.")
    return web.Response(status=web.HTTPSeeOther.status_code, headers={hdrs.LOCATION: f"/s/{found[0]}"})
