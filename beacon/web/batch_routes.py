"""/v1/batch: several writes in one, all or none; a refusal names the item that it is about.

Each item counts as a request of its own where requests are limited.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.sessions.requests import BatchDrawRequest, BatchSealRequest
from beacon.web.rates import count_more
from beacon.web.requests import authenticate, idempotency_key, read_model
from beacon.web.services import SERVICES
from beacon.web.session_routes import drawn_json, json_response, written_json

routes: Final = web.RouteTableDef()


@routes.post("/v1/batch/seals")
async def seals(request: web.Request) -> web.Response:
    """Seal up to 100 sessions, all or none: `sessions`, each with its receipt, in the order of the request."""
    host = authenticate(request, "seal")
    body = await read_model(request, BatchSealRequest)
    count_more(request, len(body.sessions) - 1)
    services = request.app[SERVICES]
    key = idempotency_key(request, host.name, body)
    written = await services.answers.once(key, lambda used: services.sessions.seals(host, body.sessions, used))
    return json_response({"sessions": [written_json(item) for item in written]}, status=201)


@routes.post("/v1/batch/draws")
async def draws(request: web.Request) -> web.Response:
    """Draw from, or call, up to 100 sessions, all or none: `draws`, in the order of the request."""
    host = authenticate(request, "draw")
    body = await read_model(request, BatchDrawRequest)
    count_more(request, len(body.draws) - 1)
    services = request.app[SERVICES]
    asked = [(item.session, item) for item in body.draws]
    key = idempotency_key(request, host.name, body)
    written = await services.answers.once(key, lambda used: services.sessions.draws(host, asked, used))
    return json_response({"draws": [drawn_json(item) for item in written]}, status=201)
