"""/hosts/{host}: a host's ledger for people."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.errors import ApiError
from beacon.sessions.ledger import Asked
from beacon.web import waits
from beacon.web.pages.rendering import page
from beacon.web.services import SERVICES

PAGE: Final = 50

routes: Final = web.RouteTableDef()


@routes.get("/hosts/{host}")
async def host_page(request: web.Request) -> web.Response:
    """A host's ledger: how its sessions ended, gaps, labels used twice, re-runs, and all its sessions."""
    sessions, host = request.app[SERVICES].sessions, request.match_info["host"]
    waits.only(request, "before")
    before = waits.index(request, "before")
    ledger = await sessions.ledger(host)
    if before == 0:
        raise ApiError("invalid-request", "`before` is a number of a session, from 1.")
    listed = await sessions.page(Asked(host, before=before, limit=PAGE))
    return await page(
        request,
        "host.html",
        ledger=ledger,
        sessions=listed["sessions"],
        older=listed["cursor"],
        newest=before is not None,
    )
