"""/v1/batch: several writes in one, all or none; a refusal names the item that it is about.

Each item counts as a request of its own where requests are limited.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.sessions.requests import BatchDrawRequest, BatchSealRequest
from beacon.web.openapi import DRAWN, IDEMPOTENCY, SEALED, Answer, describe
from beacon.web.rates import count_more
from beacon.web.requests import authenticate, read_model
from beacon.web.schemas import BatchDrawn, BatchSealed
from beacon.web.services import SERVICES
from beacon.web.session_routes import all_once, drawn_json, json_response, written_json

routes: Final = web.RouteTableDef()


@routes.post("/v1/batch/seals")
@describe(
    "Batches",
    access="seal",
    body=BatchSealRequest,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("All are sealed.", BatchSealed)},
    errors=SEALED,
)
async def seals(request: web.Request) -> web.Response:
    """Seal up to 100 sessions, all or none: `sessions`, each with its receipt, in the order of the request."""
    host = authenticate(request, "seal")
    body = await read_model(request, BatchSealRequest)
    count_more(request, len(body.sessions) - 1)
    sessions = request.app[SERVICES].sessions
    written = await all_once(request, host.name, body, lambda key: sessions.seals(host, body.sessions, key))
    return json_response({"sessions": [written_json(item) for item in written]}, status=201)


@routes.post("/v1/batch/draws")
@describe(
    "Batches",
    access="draw",
    body=BatchDrawRequest,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("All are drawn, or called.", BatchDrawn)},
    errors=DRAWN,
)
async def draws(request: web.Request) -> web.Response:
    """Draw from, or call, up to 100 sessions, all or none: `draws`, in the order of the request."""
    host = authenticate(request, "draw")
    body = await read_model(request, BatchDrawRequest)
    count_more(request, len(body.draws) - 1)
    sessions, asked = request.app[SERVICES].sessions, [(item.session, item) for item in body.draws]
    written = await all_once(request, host.name, body, lambda key: sessions.draws(host, asked, key))
    return json_response({"draws": [drawn_json(item) for item in written]}, status=201)
