"""A witness over HTTP (C2SP tlog-witness), as an application of its own: `beacon witness serve`.

What the protocol answers is text; what never reaches it (limits, addresses that are none) is a problem document.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.settings import RateSettings
from beacon.store.errors import StoreError
from beacon.web import rates
from beacon.web.measured import REQUESTS, Requests
from beacon.web.middleware import add_headers, observe
from beacon.witness.witness import Reply, Witness
from verifier.tlog_witness import MAX_REQUEST

BODY_SECONDS: Final = 10.0

WITNESS: Final = web.AppKey("witness", Witness)
_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

routes: Final = web.RouteTableDef()


def build_witness(witness: Witness, per_minute: int, trusted_proxies: str = "") -> web.Application:
    """What serves a witness. per_minute: requests of one network address, 0 for no limit."""
    app = web.Application(middlewares=[observe], client_max_size=MAX_REQUEST)
    app[REQUESTS] = Requests()
    app[WITNESS] = witness
    app[rates.RATES] = rates.Rates(RateSettings(token_per_minute=0, address_per_minute=per_minute), trusted_proxies)
    app.on_response_prepare.append(add_headers)
    app.add_routes(routes)
    return app


@routes.post("/add-checkpoint")
async def add_checkpoint(request: web.Request) -> web.Response:
    """Cosign a checkpoint that continues what was cosigned before."""
    rates.count(request, None)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError as error:
        raise ApiError("request-timeout", f"The body did not arrive within {BODY_SECONDS:.0f} s.") from error
    try:
        reply = await request.app[WITNESS].add_checkpoint(body)
    except StoreError as error:
        _log.error("nothing was cosigned", reason=str(error))
        reply = Reply(503, "this witness cannot write\n", retry_after=5)
    _log.info("add-checkpoint", status=reply.status, origin=reply.origin, size=reply.size)
    headers = {hdrs.CONTENT_TYPE: reply.content_type}
    if reply.retry_after:
        headers[hdrs.RETRY_AFTER] = str(reply.retry_after)
    return web.Response(status=reply.status, body=reply.body.encode(), headers=headers)


@routes.get("/{origin_hash:[0-9a-f]{64}}/checkpoint")
async def newest(request: web.Request) -> web.Response:
    """The newest checkpoint of a log that was cosigned here, by the SHA-256 of its origin."""
    rates.count(request, None)
    note = await request.app[WITNESS].newest(request.match_info["origin_hash"])
    if note is None:
        raise ApiError("not-found", "Nothing of such a log was cosigned here.")
    return web.Response(text=note, content_type="text/plain", charset="utf-8", headers={"Cache-Control": "no-cache"})
