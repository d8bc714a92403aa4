"""GET /log/log.db: the whole log as one database file, for `verifier check-db`."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

import structlog
from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from beacon.errors import ApiError
from beacon.log.snapshot import Snapshots
from beacon.web import rates
from beacon.web.openapi import Answer, describe
from beacon.web.sending import GRACE_SECONDS, LEAST_RATE
from beacon.web.services import SERVICES
from verifier.encoding import encode_base64

PATH: Final = "/log/log.db"
MEDIA: Final = "application/vnd.sqlite3"
COSTS: Final = 500
"""Requests that one for the file counts as."""
FIRST_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 10
MOST: Final = 8
MOST_FOR_ADDRESS: Final = 2
_HEADERS: Final = ("Cache-Control", "ETag", "Log-Size", "Log-Checkpoint")

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

SNAPSHOTS: Final = web.AppKey("snapshots", Snapshots)
DOWNLOADS: Final = web.AppKey("downloads", Counter[str])
"""How many downloads are under way, by network address."""

routes: Final = web.RouteTableDef()


class _File(web.FileResponse):
    """A file that its handler sends; aiohttp, which prepares every response once more, finds it sent."""

    _begun = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self._begun:
            return None
        self._begun = True
        return await super().prepare(request)


@routes.get(PATH)
@describe(
    "Log",
    answers={
        200: Answer("The file, an SQLite database.", media=MEDIA, schema={}, headers=_HEADERS),
        206: Answer("The part of it that `Range` asks for.", media=MEDIA, schema={}, headers=_HEADERS),
    },
)
async def snapshot(request: web.Request) -> web.StreamResponse:
    """The whole log as a database file, some minutes old at the most, for `verifier check-db`; takes `Range`."""
    if request.raw_path != PATH:
        raise ApiError("not-found", "The log has no resource at this address.")
    rates.count_more(request, COSTS - 1)
    log = request.app[SERVICES].log
    made = await request.app[SNAPSHOTS].newest(log.path, log.latest().size, FIRST_SECONDS)
    if made is None:
        raise ApiError("rate-limited", "The file is being made. Ask again.", retry_after=RETRY_SECONDS)
    headers = {
        hdrs.CONTENT_TYPE: MEDIA,
        hdrs.CACHE_CONTROL: "no-cache",
        hdrs.CONTENT_DISPOSITION: 'attachment; filename="log.db"',
        "Log-Size": str(made.size),
        "Log-Checkpoint": encode_base64(made.note.encode()),
    }
    return await _send(request, _File(made.path, headers=headers), made.path.stat().st_size)


async def _send(request: web.Request, response: _File, size: int) -> web.StreamResponse:
    """Send the file, to few readers at once and none that do not read. Raises ApiError(rate-limited)."""
    downloads, address = request.app[DOWNLOADS], rates.network_of(rates.address(request))
    if downloads.total() >= MOST or downloads[address] >= MOST_FOR_ADDRESS:
        text = "The file is being sent already, to this address or in all, as often as may be at once."
        raise ApiError("rate-limited", text, retry_after=RETRY_SECONDS)
    downloads[address] += 1
    try:
        async with asyncio.timeout(GRACE_SECONDS + size / LEAST_RATE):
            await response.prepare(request)
    except TimeoutError:
        _log.info("a reader of the log's file was too slow")
        if request.transport is not None:
            request.transport.abort()
    finally:
        downloads[address] -= 1
        if not downloads[address]:
            del downloads[address]
    return response


async def stop(app: web.Application) -> None:
    """Before a stop: give up a copy that is being made."""
    await app[SNAPSHOTS].close()
