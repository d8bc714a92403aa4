"""/verify: the browser verifier, one file that checks on the reader's own device; also with a session in it."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable
from typing import Final

from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.web import waits
from beacon.web.pages.rendering import html_response, page
from beacon.web.requests import session_id
from beacon.web.services import SERVICES
from verifier import web as verifier_web

_POLICY: Final = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')

routes: Final = web.RouteTableDef()


@routes.get("/verify")
async def verify(request: web.Request) -> web.Response:
    """The verifier of transcripts and receipts as one HTML file that needs no network; `?download=1` to keep it."""
    return await _file(request, verifier_web.page, "fair-beacon-verifier.html")


@routes.get("/s/{session}/verify.html")
async def verify_session(request: web.Request) -> web.Response:
    """The same file with the session's transcript in it; `?download=1` to keep it."""
    session = session_id(request)
    document = await request.app[SERVICES].sessions.transcript(session)
    return await _file(request, lambda: verifier_web.page_with(document), f"verify-{session.hex()[:8]}.html")


async def _file(request: web.Request, read: Callable[[], bytes], name: str) -> web.Response:
    waits.only(request, "download")
    if request.query.get("download", "1") != "1":
        raise ApiError("invalid-request", "`download` is 1 or left out.")
    try:
        body = await asyncio.to_thread(read)
    except verifier_web.PageNotBuiltError:
        return await page(request, "unbuilt.html", status=503, caching="no-store")
    response = html_response(request, body, policy=_policy(body))
    if "download" in request.query:
        response.headers[hdrs.CONTENT_DISPOSITION] = f'attachment; filename="{name}"'
    return response


def _policy(body: bytes) -> str:
    """The policy that the file itself has, for the response: what came before its `meta` is under it as well."""
    found = _POLICY.search(body)
    own = "default-src 'none'" if found is None else html.unescape(found[1].decode())
    return f"{own}; frame-ancestors 'none'"
