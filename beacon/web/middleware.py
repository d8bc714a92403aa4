"""Around every request: its id, its log line, problems instead of exceptions, and the headers of every response."""

from __future__ import annotations

import secrets
import time
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from beacon import logs
from beacon.web.measured import REQUESTS
from beacon.web.pages.errors import problem_page, wants_page
from beacon.web.problems import response_for
from beacon.web.rates import count, limit_headers
from beacon.web.requests import identify
from beacon.web.services import GRANT, REQUEST_ID

SECURITY_HEADERS: Final = {
    "Server": "fair-beacon",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOADS_NOTHING: Final = "default-src 'none'; frame-ancestors 'none'"

UNLIMITED: Final = frozenset({"/healthz", "/readyz"})


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find out whose token it is, and take the request if its limit allows one more. Raises ApiError(rate-limited)."""
    grant = await identify(request)
    if request.path not in UNLIMITED:
        count(request, grant)
    return await handler(request)


@web.middleware
async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id, turn exceptions into problems (for browsers into pages), count it, log one line.

    The line has no path, query or body.
    """
    request[REQUEST_ID] = secrets.token_hex(8)
    started = time.monotonic()
    with structlog.contextvars.bound_contextvars(request_id=request[REQUEST_ID]):
        try:
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - every exception becomes a problem document
            response = response_for(error, request)
            if wants_page(request):
                response = await problem_page(request, response)
        resource, grant = request.match_info.route.resource, request.get(GRANT)
        seconds = time.monotonic() - started
        route = resource.canonical if resource else None
        request.app[REQUESTS].add(request.method, route, response.status, seconds)
        logs.access(
            __name__,
            method=request.method,
            route=route,
            status=response.status,
            host=grant.host.name if grant else None,
            token_id=grant.token if grant else None,
            ms=round(1000 * seconds, 1),
        )
    return response


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put the request's id, its limit and the security headers on a response; forbid caching unless it is allowed.

    A page says by itself what it may load, in a policy of its own.
    """
    for name, value in SECURITY_HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Content-Security-Policy", LOADS_NOTHING)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.update(limit_headers(request))
    if REQUEST_ID in request:
        response.headers["X-Request-Id"] = request[REQUEST_ID]
