"""Problems as pages, for browsers: on the addresses of pages alone. The API answers RFC 9457 whoever asks."""

from __future__ import annotations

import json
from typing import Final

from aiohttp import hdrs, web

from beacon.web.pages.keeping import MADE
from beacon.web.pages.rendering import page

MACHINES: Final = ("/v1/", "/log/", "/problems/", "/static/", "/healthz", "/readyz")
"""Where addresses that are for programs begin."""
_KEPT: Final = ("Retry-After", "Allow")


def wants_page(request: web.Request) -> bool:
    """Whether a request is a browser's for a page; never where an application has none, as a witness."""
    accepted = ",".join(request.headers.getall(hdrs.ACCEPT, ()))
    return MADE in request.app and "text/html" in accepted.lower() and not request.path.startswith(MACHINES)


async def problem_page(request: web.Request, problem: web.Response) -> web.Response:
    """A problem document as a page of the same status."""
    assert isinstance(problem.body, bytes)
    response = await page(
        request, "problem.html", status=problem.status, caching="no-store", problem=json.loads(problem.body)
    )
    for name in _KEPT:
        if name in problem.headers:
            response.headers[name] = problem.headers[name]
    return response
