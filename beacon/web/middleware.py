"""Around every request: its id, its log line, problems instead of exceptions, and the headers of every response."""

from __future__ import annotations

import secrets
import time
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from beacon import logs
from beacon.web.problems import response_for
from beacon.web.services import HOST, REQUEST_ID

SECURITY_HEADERS: Final = {
    "Server": "fair-beacon",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


@web.middleware
async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id, turn exceptions into problems, and log one line without path, query or body."""
    request[REQUEST_ID] = secrets.token_hex(8)
    started = time.monotonic()
    with structlog.contextvars.bound_contextvars(request_id=request[REQUEST_ID]):
        try:
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - every exception becomes a problem document
            response = response_for(error, request)
        resource = request.match_info.route.resource
        logs.access(
            __name__,
            method=request.method,
            route=resource.canonical if resource else None,
            status=response.status,
            host=request.get(HOST),
            ms=round(1000 * (time.monotonic() - started), 1),
        )
    return response


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put the request's id and the security headers on a response, and forbid caching where nothing allows it."""
    for name, value in SECURITY_HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")
    if REQUEST_ID in request:
        response.headers["X-Request-Id"] = request[REQUEST_ID]
