"""/openapi.json and /docs: the API described, for programs and for people; /problems/: what an error code means."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from aiohttp import hdrs, web

from beacon.errors import PROBLEMS, ApiError
from beacon.web import docs_page
from beacon.web.openapi import IF_NONE_MATCH, JSON, Answer, Operation, describe
from beacon.web.openapi_document import described, document
from beacon.web.problems import row_document
from beacon.web.schemas import ProblemRow
from beacon.web.session_routes import json_response
from beacon.web.tagged import tagged

HTML: Final = "text/html"
FRESH: Final = "no-cache"
"""May be kept, and is asked for again each time: 304 while it is the same."""


@dataclass(frozen=True, slots=True)
class Docs:
    """What is answered, in bytes."""

    openapi: bytes
    page: bytes


DOCS: Final = web.AppKey("docs", Docs)

routes: Final = web.RouteTableDef()
_PAGE: Final = {"type": "string"}


@routes.get("/openapi.json")
@describe(
    "Service",
    parameters=[IF_NONE_MATCH],
    answers={
        200: Answer("The document.", media=JSON, schema={"type": "object"}, headers=("Cache-Control", "ETag")),
        304: Answer("It is the one that the caller has.", headers=("Cache-Control", "ETag")),
    },
)
async def openapi(request: web.Request) -> web.Response:
    """This API as an OpenAPI 3.1 document."""
    return tagged(request, request.app[DOCS].openapi, JSON, FRESH)


@routes.get("/docs")
@describe(
    "Service",
    parameters=[IF_NONE_MATCH],
    answers={
        200: Answer("The page.", media=HTML, schema=_PAGE, headers=("Cache-Control", "ETag")),
        304: Answer("It is the one that the caller has.", headers=("Cache-Control", "ETag")),
    },
)
async def docs(request: web.Request) -> web.Response:
    """This API as a page to read, with an anchor for each operation and each code of an error."""
    return _page(tagged(request, request.app[DOCS].page, HTML, FRESH))


@routes.get("/problems/{code}")
@describe(
    "Service",
    answers={200: Answer("JSON, or a page for who accepts `text/html`.", ProblemRow, also=(HTML,))},
    errors=("not-found",),
)
async def problem_type(request: web.Request) -> web.Response:
    """What a problem's `type` points at: what the code means and what to do, without an occurrence."""
    code = request.match_info["code"]
    if code not in PROBLEMS:
        raise ApiError("not-found", "No problem has this code.")
    varies: dict[str, str] = {hdrs.VARY: hdrs.ACCEPT}
    if HTML not in request.headers.get(hdrs.ACCEPT, ""):
        return json_response(row_document(code), headers=varies)
    page = docs_page.problem_page(row_document(code))
    return _page(web.Response(body=page, content_type=HTML, charset="utf-8", headers=varies))


def docs_of(app: web.Application) -> Docs:
    """What is answered for an application whose routes are all there."""
    return _docs(tuple((method, path, _Same(operation)) for method, path, operation in described(app)))


@dataclass(frozen=True)
class _Same:
    """An operation that is equal to itself alone."""

    operation: Operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.operation is self.operation

    def __hash__(self) -> int:
        return id(self.operation)


@cache
def _docs(routes: tuple[tuple[str, str, _Same], ...]) -> Docs:
    made: dict[str, Any] = document((method, path, same.operation) for method, path, same in routes)
    return Docs(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode(), docs_page.page(made))


def _page(response: web.Response) -> web.Response:
    response.headers["Content-Security-Policy"] = docs_page.POLICY
    return response
