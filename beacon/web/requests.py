"""What comes in: the host's token and the body, each checked before anything is done with it."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final, TypeVar

from aiohttp import hdrs, web
from pydantic import BaseModel, ValidationError

from beacon.errors import PROBLEMS, ApiError
from beacon.sessions.context import Key
from beacon.sessions.joining import PREFIX
from beacon.store.hosts import Scope
from beacon.web.services import GRANT, SERVICES, Grant, Host
from verifier.encoding import parse_document_json, parse_hex
from verifier.errors import Code, FormatError

MAX_TOKEN: Final = 256
MAX_ERRORS: Final = 20
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_KEY: Final = re.compile(r"[!-~]{1,255}")

M = TypeVar("M", bound=BaseModel)


async def identify(request: web.Request) -> Grant | None:
    """What the request's bearer token gives; None without a token that is valid. Once for each request."""
    token = _bearer(request)
    grant = None if token is None else await request.app[SERVICES].hosts.authenticate(token)
    if grant is not None:
        request[GRANT] = grant
    return grant


def authenticate(request: web.Request, scope: Scope) -> Host:
    """The host whose token the request carries, if its scopes allow this. Raises ApiError(unauthorized, forbidden)."""
    grant: Grant | None = request.get(GRANT)
    if grant is None:
        if _bearer(request) is None:
            raise ApiError("unauthorized", "One header `Authorization: Bearer TOKEN` is due.")
        raise ApiError("unauthorized", "The token is not one of this service's, has expired or was revoked.")
    if scope not in grant.scopes:
        raise ApiError("forbidden", f"The scope `{scope}` is due, which this token has not.", extra={"scope": scope})
    return grant.host


def _bearer(request: web.Request) -> str | None:
    values = request.headers.getall(hdrs.AUTHORIZATION, [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return token if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN else None


def join_token(request: web.Request) -> str | None:
    """The join token that the request carries in the place of a host's, or None."""
    token = _bearer(request)
    return token if token is not None and token.startswith(PREFIX) else None


def session_id(request: web.Request) -> bytes:
    """The 32 bytes that name the session in the path. Raises ApiError(session-unknown)."""
    try:
        return parse_hex(request.match_info["session"], 32)
    except FormatError as error:
        raise ApiError("session-unknown", "A session is named by 64 lower-case hex digits.") from error


def idempotency_key(request: web.Request, owner: str, body: BaseModel) -> Key | None:
    """The key that the caller chose for this write, for what its body says; None without the header.

    owner: whose key it is, a host's name or who contributes without one. Raises ApiError(idempotency-key-invalid).
    """
    values = request.headers.getall(IDEMPOTENCY_KEY, [])
    if not values:
        return None
    key = values[0].strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(values) > 1 or not _KEY.fullmatch(key):
        raise ApiError("idempotency-key-invalid", "One Idempotency-Key of 1 to 255 printable ASCII characters is due.")
    said = body.model_dump_json(exclude_unset=True).encode()
    return Key.of(owner, key, f"{request.method} {request.path}", said)


async def read_model(request: web.Request, model: type[M], *, empty_allowed: bool = False) -> M:
    """The body as a model: one JSON object, in time, within the limit, strictly parsed.

    Raises ApiError with the code of the rule that it violates, else invalid-request with all `errors`.
    """
    body = await _read(request)
    if not body and empty_allowed:
        body = b"{}"
    elif request.content_type != "application/json" or (request.charset or "utf-8").lower() != "utf-8":
        raise ApiError("unsupported-media-type", "The body is not declared as application/json in UTF-8.")
    return parse_model(body, model)


def parse_model(body: bytes, model: type[M]) -> M:
    """The bytes of a body as a model. Raises ApiError as `read_model`."""
    try:
        return model.model_validate(parse_document_json(body))
    except FormatError as error:
        code = "forbidden-character" if error.code is Code.STRING else "invalid-request"
        raise ApiError(code, f"The body is refused: {error.message}.") from error
    except ValidationError as error:
        raise _refusal(error) from None


async def _read(request: web.Request) -> bytes:
    limits = request.app[SERVICES].settings.limits
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise ApiError("unsupported-media-type", "A content encoding is not taken.")
    if (request.content_length or 0) > limits.body_bytes:
        raise _too_large(limits.body_bytes)
    try:
        if request.content.is_eof():
            return await request.read()
        async with asyncio.timeout(limits.body_ms / 1000):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limits.body_bytes) from error
    except TimeoutError as error:
        raise ApiError("request-timeout", f"The body did not arrive within {limits.body_ms} ms.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise ApiError("invalid-request", "The body did not arrive whole.") from error


def _too_large(limit: int) -> ApiError:
    return ApiError("body-too-large", f"A body has at most {limit} bytes.", extra={"limit_bytes": limit})


def _refusal(error: ValidationError) -> ApiError:
    """The error of a body that a model refuses: a protocol rule's own code comes first."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    listed = [{"path": _pointer(item["loc"]), "message": item["msg"]} for item in found[:MAX_ERRORS]]
    for item in found:
        if item["type"] in PROBLEMS:
            where = _pointer(item["loc"]) or "the body"
            return ApiError(item["type"], f"{where}: {item['msg']}", extra={"errors": listed})
    first = listed[0]
    return ApiError("invalid-request", f"{first['path'] or 'the body'}: {first['message']}", extra={"errors": listed})


def _pointer(location: tuple[Any, ...]) -> str:
    """A JSON pointer (RFC 6901) to a place in the body; names that the caller chose are cut short."""
    parts = (str(part)[:64].replace("~", "~0").replace("/", "~1") for part in location)
    return "".join(f"/{part}" for part in parts)
