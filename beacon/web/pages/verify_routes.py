"""/verify: the browser verifier, one file that checks on the reader's own device; also with a session in it."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Final

from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.web import sending, waits
from beacon.web.pages.rendering import html_response, page
from beacon.web.rates import count_more
from beacon.web.requests import session_id
from beacon.web.services import SERVICES
from beacon.web.session_routes import BYTES_A_REQUEST
from verifier import web as verifier_web

_POLICY: Final = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')

routes: Final = web.RouteTableDef()


@routes.get("/verify")
async def verify(request: web.Request) -> web.Response:
    """The verifier of transcripts and receipts as one HTML file that needs no network; `?download=1` to keep it."""
    kept = _kept(request, "fair-beacon-verifier.html")
    try:
        body = await asyncio.to_thread(verifier_web.page)
    except verifier_web.PageNotBuiltError:
        return await _unbuilt(request)
    response = html_response(request, body, policy=_policy(body))
    response.headers.update(kept)
    return response


@routes.get("/s/{session}/verify.html")
async def verify_session(request: web.Request) -> web.StreamResponse:
    """The same file with the session's transcript in it; `?download=1` to keep it."""
    session = session_id(request)
    kept = _kept(request, f"verify-{session.hex()[:8]}.html")
    document = await request.app[SERVICES].sessions.transcript(session)
    count_more(request, len(document) // BYTES_A_REQUEST)
    try:
        body = await asyncio.to_thread(verifier_web.page_with, document)
    except verifier_web.PageNotBuiltError:
        return await _unbuilt(request)
    fields = {str(hdrs.CONTENT_TYPE): "text/html; charset=utf-8", "Content-Security-Policy": _policy(body)}
    return await sending.send(request, body, fields | kept)


def _kept(request: web.Request, name: str) -> dict[str, str]:
    """The header of a file that is to be kept; none where it is not. Raises ApiError(invalid-request)."""
    waits.only(request, "download")
    if request.query.get("download", "1") != "1":
        raise ApiError("invalid-request", "`download` is 1 or left out.")
    return {str(hdrs.CONTENT_DISPOSITION): f'attachment; filename="{name}"'} if "download" in request.query else {}


async def _unbuilt(request: web.Request) -> web.Response:
    return await page(request, "unbuilt.html", status=503, caching="no-store")


def _policy(body: bytes) -> str:
    """The policy that the file itself has, for the response: what came before its `meta` is under it as well."""
    found = _POLICY.search(body)
    own = "default-src 'none'" if found is None else html.unescape(found[1].decode())
    return f"{own}; frame-ancestors 'none'"
