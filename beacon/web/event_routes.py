"""/v1/sessions/{id}/events: a session's entries as Server-Sent Events (HTML Living Standard, 9.2).

`id` is the log index, `event` the entry's type, `data` a JSON object of one line. A stream ends after the session's end
with an `end` event; whoever connects again from there on gets 204, after which an EventSource stays away (9.2.3).
"""

from __future__ import annotations

import asyncio
from typing import Final, get_args

import structlog
from aiohttp import hdrs, web

from beacon.sessions.changes import Watch
from beacon.sessions.trail import Event, Trail
from beacon.store.errors import StoreError
from beacon.web import waits
from beacon.web.openapi import AFTER, DECIMAL, JSON, WAITING, Answer, Parameter, describe
from beacon.web.requests import session_id
from beacon.web.schemas import EntryType
from beacon.web.services import SERVICES
from verifier.encoding import encode_json

HEARTBEAT_SECONDS: Final = 15.0
DRAIN_SECONDS: Final = 10.0
"""How long a reader may leave a full buffer unread before its stream is cut."""
RETRY_MS: Final = 2_000
LAST_EVENT_ID: Final = "Last-Event-ID"

STREAMED: Final = {
    "type": "object",
    "description": "One event. An `end` has no `id`; a `retry` comes once, before all.",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$", "description": "The entry's index in the log."},
        "event": {"type": "string", "enum": [*get_args(EntryType), "end"]},
        "data": {
            "type": "string",
            "contentMediaType": JSON,
            "contentSchema": {"$ref": "#/components/schemas/StreamedEntry"},
        },
        "retry": {"type": ["string", "integer"]},
    },
}
"""What one event of a stream has, once its lines are parsed."""

routes: Final = web.RouteTableDef()
_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@routes.get("/v1/sessions/{session}/events", allow_head=False)
@describe(
    "Sessions",
    parameters=[AFTER, Parameter(LAST_EVENT_ID, "header", DECIMAL, "A log index, as `after`; it comes before that.")],
    answers={
        200: Answer(
            "A stream of events, each as the schema says; `data` is an object in JSON, and the last event is `end`.",
            media="text/event-stream",
            schema=STREAMED,
        ),
        204: Answer("The session had ended before: nothing more will come."),
    },
    errors=(*WAITING, "session-unknown"),
)
async def events(request: web.Request) -> web.StreamResponse:
    """Server-Sent Events: each entry of the session and each round that it uses; resumes after `Last-Event-ID`."""
    session, waiting = session_id(request), request.app[SERVICES].waiting
    after = _after(request)
    with waits.seat(request), waiting.changes.watch(session, waits.gone(request)) as watch:
        trail = await waiting.trail(session, after)
        first = await waiting.read(trail)
        if trail.ended and not first:
            return web.Response(status=web.HTTPNoContent.status_code)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        try:
            await _write(response, f"retry: {RETRY_MS}\n\n".encode())
            await _follow(request, response, trail, watch, first)
        except TimeoutError:
            _log.info("a reader of events was too slow")
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass
        except StoreError as error:
            _log.error("a stream of events ended", reason=str(error))
    return response


async def _follow(
    request: web.Request, response: web.StreamResponse, trail: Trail, watch: Watch, found: list[Event]
) -> None:
    waiting = request.app[SERVICES].waiting
    while not watch.over:
        for event in found:
            await _write(response, encode(event))
        if trail.ended:
            await _write(response, b"event: end\ndata: " + encode_json({"state": found[-1].state}) + b"\n\n")
            return
        if not found and not await watch.changed(HEARTBEAT_SECONDS) and not watch.over:
            await _write(response, b":\n\n")
        found = await waiting.read(trail)


def encode(event: Event) -> bytes:
    """One event of the stream."""
    document = {"index": event.index, "type": event.type, "state": event.state, "entry": event.entry.decode()}
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.index, event.type.encode(), encode_json(document))


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Raises TimeoutError when the reader leaves a full buffer unread, ConnectionError when it has left."""
    async with asyncio.timeout(DRAIN_SECONDS):
        await response.write(data)


def _after(request: web.Request) -> int:
    """The log index above which events are wanted: the header's, which a client sends by itself, before `?after=`."""
    waits.only(request, "after")
    found, given = waits.index(request, "after"), request.headers.get(LAST_EVENT_ID)
    if given is not None:
        return waits.parse_index(given, f"`{LAST_EVENT_ID}`")
    return -1 if found is None else found
