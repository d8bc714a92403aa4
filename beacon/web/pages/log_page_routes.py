"""/log: the log for people. What programs read of it is below /log/."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.errors import ApiError
from beacon.web import waits
from beacon.web.pages.log_view import PAGE, entry, lines, size_of
from beacon.web.pages.rendering import page
from beacon.web.services import SERVICES

routes: Final = web.RouteTableDef()


@routes.get("/log")
async def log_page(request: web.Request) -> web.Response:
    """The log: its size, newest checkpoint and who signed it, its entries, newest first; `?entry=INDEX`: one of it."""
    services = request.app[SERVICES]
    waits.only(request, "before", "entry")
    index = waits.index(request, "entry")
    if index is not None:
        return await _entry(request, index)
    latest, asked = services.log.latest(), waits.index(request, "before")
    before = latest.size if asked is None else min(asked, latest.size)
    shown = await services.log.read(lambda db: lines(db, before))
    return await page(
        request,
        "log.html",
        size=latest.size,
        time=latest.time,
        checkpoint=services.witnesses.note(latest),
        witnesses=services.witnesses.report(),
        quorum=size_of(services.witnesses.newest()),
        vkey=services.vkey,
        vkeys=services.log.keys.keys,
        lines=shown,
        older=before - PAGE if before > PAGE else None,
        newer=min(before + PAGE, latest.size) if before < latest.size else None,
    )


async def _entry(request: web.Request, index: int) -> web.Response:
    log = request.app[SERVICES].log
    if index >= log.latest().size:
        raise ApiError("not-found", f"The log has no entry {index}.")
    shown = await log.read(lambda db: entry(db, index))
    return await page(request, "entry.html", entry=shown, last=log.latest().size - 1)
