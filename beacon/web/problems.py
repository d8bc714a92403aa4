"""Every error as an RFC 9457 problem document, whatever raised it."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from beacon import logs
from beacon.errors import PROBLEMS, ApiError
from beacon.store.errors import StoreError
from beacon.web.services import REQUEST_ID
from beacon.wording import plain
from verifier.encoding import encode_json

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = 1

_STATUS_CODES: Final = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    415: "unsupported-media-type",
}
_logger = logs.get(__name__)


def response_for(error: Exception, request: web.BaseRequest) -> web.Response:
    """The answer to an exception; one that nobody foresaw is logged and answered without its message."""
    if isinstance(error, ApiError):
        return problem(error, request)
    if isinstance(error, web.HTTPException):
        return _of_http(error, request)
    if isinstance(error, StoreError) and error.code in PROBLEMS:
        _logger.error("write refused by the store", code=error.code, reason=str(error))
        return problem(ApiError(error.code, PROBLEMS[error.code].title + ".", retry_after=_pause(error.code)), request)
    _logger.error("unforeseen failure", exc_info=error)
    return problem(ApiError("internal", "The failure is in the service's logs under this request id."), request)


def problem(error: ApiError, request: web.BaseRequest, headers: dict[str, str] | None = None) -> web.Response:
    """The problem document of an error, with the headers that its status asks for."""
    row = error.problem
    headers = dict(headers or {})
    if error.retry_after is not None and row.retryable:
        headers["Retry-After"] = str(max(1, error.retry_after))
    if row.status == web.HTTPUnauthorized.status_code:
        headers["WWW-Authenticate"] = 'Bearer realm="fair-beacon"'
    document = row_document(error.code) | worded(error) | {"request_id": request[REQUEST_ID]}
    document |= {name: value for name, value in error.extra.items() if name not in document}
    return web.Response(
        status=row.status, body=encode_json(document), content_type=PROBLEM_TYPE, headers=headers or None
    )


def worded(error: ApiError) -> dict[str, Any]:
    """The detail of an error, and what a model refused of a body (`path` and `message` of each), in plain words."""
    listed = error.extra.get("errors")
    if not listed:
        return {"detail": error.detail}
    details = {_refused(item): _refused(item | {"message": plain(item["message"])}) for item in listed}
    errors = [item | {"message": plain(item["message"])} for item in listed]
    return {"detail": details.get(error.detail, error.detail), "errors": errors}


def _refused(item: dict[str, str]) -> str:
    return f"{item['path'] or 'the body'}: {item['message']}"


def row_document(code: str) -> dict[str, Any]:
    """What is the same in every problem of a code."""
    row = PROBLEMS[code]
    return {
        "type": f"/problems/{code}",
        "title": row.title,
        "status": row.status,
        "code": code,
        "rule": row.rule,
        "retryable": row.retryable,
        "next": row.next,
    }


def _pause(code: str) -> int | None:
    return RETRY_SECONDS if PROBLEMS[code].retryable else None


def _of_http(error: web.HTTPException, request: web.BaseRequest) -> web.Response:
    server_failed = error.status >= web.HTTPInternalServerError.status_code
    code = _STATUS_CODES.get(error.status, "internal" if server_failed else "invalid-request")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return problem(ApiError(code, f"This address takes {allowed}."), request, {"Allow": allowed})
    return problem(ApiError(code, f"{PROBLEMS[code].title}."), request)
