"""What a connection answers before, or outside of, the application: HTTP that is none, and expectations.

And how long it stands still: a client that takes nothing of what is sent to it is cut off.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import structlog
from aiohttp import web

from beacon import logs
from beacon.errors import ApiError
from beacon.web.measured import Requests
from beacon.web.middleware import LOADS_NOTHING, SECURITY_HEADERS
from beacon.web.problems import response_for
from beacon.web.services import REQUEST_ID

Handle: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

STALLED_SECONDS: Final = 60.0
"""How long a connection may have more to send than its client takes, without the client taking any of it."""
MALFORMED: Final = "The request is not HTTP that this service reads; it is not quoted here."


class Room:
    """How many connections may be open at once: so many that files are left for the databases and the relays."""

    def __init__(self, most: int) -> None:
        self.most: Final = most
        self.taken = 0


class Connection(web.RequestHandler):
    """One client's connection. What cannot be read as a request is answered with a problem document as well."""

    __slots__ = ("_requests", "_room", "_stalled")

    def __init__(self, server: web.Server, requests: Requests, room: Room, **options: Any) -> None:
        super().__init__(server, **options)
        self._requests = requests
        self._room = room
        self._stalled: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """More waits to be sent than fits: from here on the client has its time."""
        super().pause_writing()
        self._stalled = asyncio.get_running_loop().call_later(STALLED_SECONDS, self._cut)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._unwatch()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there; one too many is turned away, before it has said anything."""
        super().connection_made(transport)
        self._room.taken += 1
        if self._room.taken > self._room.most:
            self._cut()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection has ended."""
        self._room.taken -= 1
        self._unwatch()
        super().connection_lost(exc)

    def _cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _unwatch(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - the library's signature
        """End the connection. What is under way may take `timeout` seconds more, and then ends wherever it is.

        The library would wait as long again for a handler that does not end by itself, as one whose reader left its
        answer unread.
        """
        end = asyncio.get_running_loop().call_later(timeout or 0.0, self._end)
        try:
            await super().shutdown(timeout)
        finally:
            end.cancel()

    def _end(self) -> None:
        if self._task_handler is not None:
            self._task_handler.cancel()
        self._cut()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what never reached the application. `message` quotes the client, and is left out."""
        _ = message
        if request.writer.output_size > 0:
            raise ConnectionError("part of an answer is sent already")
        if status >= web.HTTPInternalServerError.status_code:
            error: Exception = exc if isinstance(exc, Exception) else ApiError("internal", "The service failed.")
        else:
            error = ApiError("invalid-request", MALFORMED)
        return refused(error, request, self._requests)


def answering(handle: Handle, requests: Requests) -> Handle:
    """The application, with what it raises outside its middlewares as problem documents."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handle(request)
        except web.HTTPException as error:
            return refused(error, request, requests)

    return answer


def refused(error: Exception, request: web.BaseRequest, requests: Requests) -> web.Response:
    """The problem document of a request that the application has not seen; the connection ends with it."""
    request_id = secrets.token_hex(8)
    request[REQUEST_ID] = request_id
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        response = response_for(error, request)
        logs.access(__name__, method=None, route=None, status=response.status)
    response.headers.update({**SECURITY_HEADERS, "Content-Security-Policy": LOADS_NOTHING})
    response.headers.update({"Cache-Control": "no-store", "X-Request-Id": request_id})
    response.force_close()
    requests.add(request.method, None, response.status, 0.0)
    return response
