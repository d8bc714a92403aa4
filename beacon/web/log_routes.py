"""/log/: the log as static resources (C2SP tlog-tiles), for any client of that format.

Every resource has exactly one address, compared byte for byte as it was sent: no percent-encoding, dot segment, doubled
or trailing slash, and no query. A full tile is answered only once it is full, so what was answered never changes.
"""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.log.tiles import tile_bytes
from beacon.web import sending
from beacon.web.openapi import Answer, describe
from beacon.web.services import SERVICES
from verifier.errors import FormatError
from verifier.tiles import parse_tile_path

PREFIX: Final = "/log/"
IMMUTABLE: Final = "public, max-age=31536000, immutable"
MAX_PATH: Final = 64

routes: Final = web.RouteTableDef()


@routes.get("/log/{path:.*}")
@describe(
    "Log",
    answers={
        200: Answer(
            "The resource: text for `checkpoint`, `witnessed`, `vkey` and `vkeys`, else bytes.",
            media="application/octet-stream",
            schema={},
            headers=("Cache-Control",),
            also=("text/plain",),
        )
    },
    errors=("not-found",),
)
async def resource(request: web.Request) -> web.StreamResponse:
    """`checkpoint`, `witnessed` (the newest that a quorum cosigned), `vkey`, `vkeys`, a tile of hashes, entries.

    `vkey` is the key that documents name now; `vkeys` are all that the log has had, a line each: behind a key the sizes
    that it signs, as `1-4711` or `4711-`, where there are several.
    """
    raw = request.raw_path
    path = raw.removeprefix(PREFIX)
    if len(path) > MAX_PATH or raw != PREFIX + path:
        raise _absent()
    if path == "checkpoint":
        services = request.app[SERVICES]
        return _text(services.witnesses.note(services.log.latest()), "no-cache")
    if path == "witnessed":
        if (note := request.app[SERVICES].witnesses.newest()) is None:
            raise _absent()
        return _text(note, "no-cache")
    if path == "vkey":
        return _text(request.app[SERVICES].vkey + "\n", "no-cache")
    if path == "vkeys":
        return _text(f"{request.app[SERVICES].log.keys}\n", "no-cache")
    return await _tile(request, path)


async def _tile(request: web.Request, path: str) -> web.StreamResponse:
    try:
        tile = parse_tile_path(path)
    except FormatError as error:
        raise _absent() from error
    log = request.app[SERVICES].log
    size = log.latest().size
    data = await log.read(lambda db: tile_bytes(db, tile, size))
    if data is None:
        raise _absent()
    headers: dict[str, str] = {hdrs.CONTENT_TYPE: "application/octet-stream", hdrs.CACHE_CONTROL: IMMUTABLE}
    return await sending.send(request, data, headers)


def _text(text: str, caching: str) -> web.Response:
    return web.Response(text=text, content_type="text/plain", charset="utf-8", headers={"Cache-Control": caching})


def _absent() -> ApiError:
    return ApiError("not-found", "The log has no resource at this address, or not yet.")
