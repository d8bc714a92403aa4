"""From a template and values to a page: escaped, without outside resources, and the same bytes for the same values."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from beacon.web.pages.assets import address
from beacon.web.pages.texts import texts
from beacon.web.services import SERVICES
from beacon.web.tagged import tagged

FOLDER: Final = Path(__file__).parent / "templates"
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load (CSP 3): its own files, and nothing that stands in it."""


NAVIGATION: Final = (
    ("/", "nav.home"),
    ("/log", "nav.log"),
    ("/rounds", "nav.rounds"),
    ("/statistics", "nav.statistics"),
    ("/verify", "nav.verify"),
)
"""The addresses that each page leads to, and the texts of their names."""


async def page(
    request: web.Request, template: str, *, status: int = 200, caching: str = "no-cache", **values: object
) -> web.Response:
    """The page of a template of `templates`; 304 for whoever has it. values: as for `render`."""
    return html_response(request, await render(request, template, **values), status=status, caching=caching)


async def render(request: web.Request, template: str, **values: object) -> bytes:
    """The HTML of a template, made on another thread.

    values: what the template uses beside `t`, `tn`, `static`, `origin`, `path`, and the filters. Raises
    jinja2.UndefinedError for what it uses and is not given.
    """
    known = {"origin": request.app[SERVICES].settings.origin, "path": request.path}
    text = await asyncio.to_thread(environment().get_template(template).render, known | values)
    return text.encode()


def html_response(
    request: web.Request, body: bytes, *, status: int = 200, caching: str = "no-cache", policy: str = POLICY
) -> web.Response:
    """HTML with its policy and ETag, or 304. policy: a Content-Security-Policy."""
    if status == web.HTTPOk.status_code:
        response = tagged(request, body, "text/html", caching)
    else:
        response = web.Response(body=body, status=status, content_type="text/html", charset="utf-8")
        response.headers[hdrs.CACHE_CONTROL] = caching
    response.headers["Content-Security-Policy"] = policy
    response.headers[hdrs.VARY] = hdrs.ACCEPT
    return response


@cache
def environment() -> Environment:
    """The templates, with what all of them may use."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    words = texts()
    made.globals |= {"t": words.text, "tn": words.count, "has_text": words.has, "language": words.language}
    made.globals |= {"static": address, "bdi": bdi, "navigation": NAVIGATION}
    made.filters |= {"number": number, "iso": iso, "moment": moment, "short": short}
    return made


def bdi(text: str) -> Markup:
    """Text of somebody else's, whose direction of writing does not reach beyond it."""
    return Markup("<bdi>{}</bdi>").format(text)


def number(value: int) -> str:
    """An integer with its thousands apart."""
    return f"{value:,}"


def iso(time: int) -> str:
    """Milliseconds since 1970 as a machine reads them (HTML, 2.3.5)."""
    return _instant(time, "T", "milliseconds") + "Z"


def moment(time: int, near: int | None = None) -> str:
    """Milliseconds since 1970 as people read them, UTC; without the date where `near` is of the same day."""
    text = _instant(time, " ", "seconds") + " UTC"
    return text[11:] if near is not None and text[:10] == _instant(near, " ", "seconds")[:10] else text


def _instant(time: int, between: str, precision: str) -> str:
    try:
        return datetime.fromtimestamp(time / 1000, UTC).replace(tzinfo=None).isoformat(between, precision)
    except (ValueError, OverflowError, OSError):
        return f"+{time}"


def short(text: str, kept: int = 8) -> str:
    """The ends of a long hex string."""
    return text if len(text) <= 2 * kept + 1 else f"{text[:kept]}…{text[-kept:]}"
