"""/v1/webhooks: a host's webhooks, by the Standard Webhooks specification (standardwebhooks.com).

To read them needs a token's scope `read`, to change them `seal`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from aiohttp import web
from pydantic import Field

from beacon.sessions.requests import Request
from beacon.store.webhooks import Delivery
from beacon.web import waits
from beacon.web.openapi import DECIMAL, WRITE, Answer, Parameter, describe
from beacon.web.requests import authenticate, read_model
from beacon.web.schemas import Deliveries, Webhook, Webhooks, WebhookWithSecret
from beacon.web.services import SERVICES
from beacon.web.session_routes import json_response
from beacon.webhooks.addresses import MAX_URL
from beacon.webhooks.signing import message_id

PAGE: Final = 100
DEFAULT_OVERLAP: Final = 86_400
MAX_OVERLAP: Final = 7 * 86_400

EventType = Literal[
    "session.seal",
    "session.contribution",
    "session.close",
    "session.call",
    "session.draw",
    "session.reveal",
    "session.void",
]


class WebhookRequest(Request):
    """POST /v1/webhooks. types: of events; all where it is empty or left out."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL)]
    types: Annotated[list[EventType], Field(default_factory=list, max_length=16)]


class RotateRequest(Request):
    """POST /v1/webhooks/{id}/rotate. overlap_seconds: for how long the old secret signs beside the new one."""

    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP)] = DEFAULT_OVERLAP


routes: Final = web.RouteTableDef()


@routes.post("/v1/webhooks")
@describe(
    "Webhooks",
    access="seal",
    body=WebhookRequest,
    answers={201: Answer("It is there.", WebhookWithSecret, headers=("Location",))},
    errors=(*WRITE, "too-many-webhooks", "webhook-exists", "webhook-url-invalid"),
)
async def add(request: web.Request) -> web.Response:
    """Have each new entry of the host's sessions sent to a URL; the answer shows the `secret`, once."""
    host = authenticate(request, "seal")
    body = await read_model(request, WebhookRequest)
    endpoint, secret = await request.app[SERVICES].webhooks.add(host.name, body.url, body.types)
    place = {"Location": f"/v1/webhooks/{endpoint.id}"}
    return json_response(endpoint.facts() | {"secret": secret}, status=web.HTTPCreated.status_code, headers=place)


@routes.get("/v1/webhooks")
@describe("Webhooks", access="read", answers={200: Answer("All of them.", Webhooks)})
async def list_(request: web.Request) -> web.Response:
    """The host's webhooks, oldest first, and how each is doing."""
    host = authenticate(request, "read")
    return json_response({"webhooks": [one.facts() for one in await request.app[SERVICES].webhooks.all(host.name)]})


@routes.get("/v1/webhooks/{webhook}")
@describe("Webhooks", access="read", answers={200: Answer("The webhook.", Webhook)}, errors=("webhook-unknown",))
async def get(request: web.Request) -> web.Response:
    """One webhook of the host."""
    host = authenticate(request, "read")
    return json_response((await request.app[SERVICES].webhooks.get(host.name, request.match_info["webhook"])).facts())


@routes.delete("/v1/webhooks/{webhook}")
@describe("Webhooks", access="seal", answers={204: Answer("It is gone.")}, errors=(*WRITE, "webhook-unknown"))
async def delete(request: web.Request) -> web.Response:
    """Send nothing more there, and forget the webhook with its deliveries."""
    host = authenticate(request, "seal")
    await request.app[SERVICES].webhooks.delete(host.name, request.match_info["webhook"])
    return web.Response(status=web.HTTPNoContent.status_code)


@routes.post("/v1/webhooks/{webhook}/rotate")
@describe(
    "Webhooks",
    access="seal",
    body=RotateRequest,
    body_required=False,
    answers={200: Answer("The new secret.", WebhookWithSecret)},
    errors=(*WRITE, "webhook-unknown"),
)
async def rotate(request: web.Request) -> web.Response:
    """Make a new `secret`, shown once; for `overlap_seconds` (a day if left out) the old one signs as well."""
    host = authenticate(request, "seal")
    body = await read_model(request, RotateRequest, empty_allowed=True)
    webhooks = request.app[SERVICES].webhooks
    endpoint, secret = await webhooks.rotate(host.name, request.match_info["webhook"], body.overlap_seconds)
    return json_response(endpoint.facts() | {"secret": secret})


@routes.get("/v1/webhooks/{webhook}/deliveries")
@describe(
    "Webhooks",
    access="read",
    parameters=[Parameter("before", "query", DECIMAL, "The `next` of the page before.")],
    answers={200: Answer("A page of deliveries.", Deliveries)},
    errors=("webhook-unknown",),
)
async def deliveries(request: web.Request) -> web.Response:
    """The newest deliveries, newest first, 100 at a time; `?before=INDEX` goes on, with `next` of the page before."""
    host, name = authenticate(request, "read"), request.match_info["webhook"]
    waits.only(request, "before")
    before = waits.index(request, "before")
    found = await request.app[SERVICES].webhooks.deliveries(host.name, name, before, PAGE + 1)
    page, more = found[:PAGE], len(found) > PAGE
    listed = [_delivery(name, one) for one in page]
    return json_response({"deliveries": listed, "has_more": more, "next": page[-1].index if more else None})


def _delivery(name: str, one: Delivery) -> dict[str, Any]:
    return {
        "webhook_id": message_id(name, one.index),
        "index": one.index,
        "session": one.session.hex(),
        "type": one.type,
        "status": one.status,
        "attempts": one.attempts,
        "first_attempt": one.first,
        "time": one.last,
        "outcome": one.outcome,
    }
