"""/v1/sessions as a list of the host's own, and /v1/hosts/{name}: the ledger that is for everybody to see."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.errors import ApiError
from beacon.sessions import ledger
from beacon.sessions.requests import CHARACTERS
from beacon.web import waits
from beacon.web.openapi import DECIMAL, Answer, Parameter, describe
from beacon.web.requests import authenticate
from beacon.web.schemas import Ledger, SessionPage
from beacon.web.services import SERVICES
from beacon.web.session_routes import json_response
from verifier.encoding import MAX_INTEGER, check_string, parse_decimal
from verifier.errors import FormatError

routes: Final = web.RouteTableDef()


@routes.get("/v1/sessions")
@describe(
    "Hosts",
    access="read",
    parameters=[
        Parameter("state", "query", {"type": "string", "enum": list(ledger.STATES)}, "`open`: any that has not ended."),
        Parameter("label", "query", {"type": "string", "pattern": CHARACTERS}, "The label, whole."),
        Parameter("cursor", "query", DECIMAL | {"minimum": 1}, "The `cursor` of the page before."),
        Parameter(
            "limit",
            "query",
            DECIMAL | {"minimum": 1, "maximum": ledger.MAX_PAGE},
            "How many, 50 if absent.",
        ),
    ],
    answers={200: Answer("A page; it may be short, or empty, and not the last.", SessionPage)},
    errors=("forbidden-character",),
)
async def sessions(request: web.Request) -> web.Response:
    """The host's own sessions, newest first: filter by `state` and `label`; `limit`, `cursor` and `has_more`."""
    host = authenticate(request, "read")
    return json_response(await request.app[SERVICES].sessions.page(_asked(request, host.name)))


@routes.get("/v1/hosts/{host}")
@describe("Hosts", answers={200: Answer("The ledger.", Ledger)}, errors=("host-unknown",))
async def host_ledger(request: web.Request) -> web.Response:
    """What everybody may see of a host: how many sessions it sealed, revealed and voided, and why; its numbers."""
    return json_response(await request.app[SERVICES].sessions.ledger(request.match_info["host"]))


def _asked(request: web.Request, host: str) -> ledger.Asked:
    waits.only(request, "state", "label", "cursor", "limit")
    query = request.query
    state = query.get("state")
    if state is not None and state not in ledger.STATES:
        raise ApiError("invalid-request", f"`state` is one of {', '.join(ledger.STATES)}.")
    limit = _number(query.get("limit"), "limit", ledger.MAX_PAGE)
    try:
        label = check_string(query["label"]) if "label" in query else None
    except FormatError as error:
        raise ApiError("forbidden-character", f"`label`: {error.message}.") from error
    before = _number(query.get("cursor"), "cursor", MAX_INTEGER)
    return ledger.Asked(host, state, label, before, 50 if limit is None else limit)


def _number(text: str | None, name: str, most: int) -> int | None:
    if text is None:
        return None
    try:
        number = parse_decimal(text, most)
    except FormatError:
        number = 0
    if number < 1:
        raise ApiError("invalid-request", f"`{name}` is a number from 1 to {most}.")
    return number
