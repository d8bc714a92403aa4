"""The OpenAPI 3.1 document of the described routes. Examples are recorded ones: `python -m tests.openapi_examples`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from beacon.errors import PROBLEMS
from beacon.web.openapi import (
    ANYWHERE,
    DESCRIPTIONS,
    JSON,
    PATH_PARAMETERS,
    Access,
    Answer,
    Operation,
    Parameter,
)
from beacon.web.problems import PROBLEM_TYPE, row_document
from beacon.web.schemas import Problem, ProblemRow, StreamedEntry, WebhookEvent

OPENAPI: Final = "3.1.0"
VERSION: Final = "1.0.0"
"""Of the API: the second number grows when something is added."""
LIMITS: Final = ("RateLimit", "RateLimit-Policy")
EXAMPLES: Final = Path(__file__).with_name("examples.json")
REQUEST_ID: Final = "0123456789abcdef"
_REF: Final = "#/components/schemas/{model}"
_NAMES: Final = re.compile(r"{(\w+)}")

_ABOUT: Final = """\
A randomness beacon for games. A session is sealed before the drand round that decides it exists; every step is an entry
of a public log, and its receipt is in the answer.

Times are integer milliseconds since the epoch, UTC; hex is lower case. Bodies are one JSON object in UTF-8, strictly
parsed: unknown members, duplicate keys, floats and conversions of types are refused, and so are unknown parameters.

**Versions.** Addresses begin with `/v1`. Within it nothing is removed or renamed, and no code of an error changes its
meaning. Members, codes, headers and optional parameters may be added: ignore what you do not know.

**Errors** are problem documents (RFC 9457), told apart by `code`. `retryable` says whether the same request may succeed
later; `next` says what to do. The `type` leads to the code's page.

**Retries.** Send an `Idempotency-Key` with each write. The same key with the same request gives the first answer again,
after a crash as well, and never a second write.

**Limits.** Requests are counted per token, and per address without one: `RateLimit` says what is left, and
`rate-limited` (429) when to come back. An operator may have switched limits off; then the headers are absent.

**Public for ever.** Host names, labels, purposes and the ids of participants stand in a public log: use pseudonyms.
"""
_TAGS: Final = {
    "Sessions": "Seal, contribute, draw, reveal. Writes need a host's token, reads are public.",
    "Batches": "Several writes in one, all or none.",
    "Hosts": "A host's own sessions, and the ledger that is for everybody to see.",
    "Webhooks": "Have the entries of the host's sessions sent to a URL (Standard Webhooks).",
    "Chains": "The drand chains that the service follows, and the rounds that it has verified.",
    "Log": "The public log as static resources (C2SP tlog-tiles).",
    "Service": "Health, metrics and this description.",
}
_SECURITY: Final[Mapping[Access, list[dict[str, list[str]]]]] = {
    "public": [],
    "seal": [{"hostToken": ["seal"]}],
    "draw": [{"hostToken": ["draw"]}],
    "read": [{"hostToken": ["read"]}],
    "participant": [{"hostToken": ["draw"]}, {"joinToken": []}, {}],
}
_SCHEMES: Final = {
    "hostToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `beacon hosts add`, with scopes: `seal`, `draw`, `read`.",
    },
    "joinToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "A participant's token of `POST /v1/sessions/{session}/joins`, for its own contribution.",
    },
}
_HEADERS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "X-Request-Id": ({"type": "string", "pattern": "^[0-9a-f]{16}$"}, "Names the request in the service's logs."),
    "RateLimit": ({"type": "string"}, "What is left of the limit: `r` requests now, all again after `t` seconds."),
    "RateLimit-Policy": ({"type": "string"}, "The limit, of the token or the address: `q` requests in `w` seconds."),
    "Retry-After": ({"type": "integer", "minimum": 1}, "Seconds after which the same request may succeed."),
    "WWW-Authenticate": ({"type": "string"}, "That a bearer token is due."),
    "Location": ({"type": "string", "format": "uri-reference"}, "Where what was made is."),
    "Content-Location": ({"type": "string", "format": "uri-reference"}, "Where this very answer stays."),
    "ETag": ({"type": "string"}, "Names this version of the answer, for `If-None-Match`."),
    "Log-Size": ({"type": "integer", "minimum": 1}, "How many entries the newest checkpoint in the file covers."),
    "Log-Checkpoint": ({"type": "string"}, "That checkpoint, a signed note, in base64."),
    "Cache-Control": ({"type": "string"}, "For how long the answer stays true; without it nothing is to be cached."),
}


class _Schemas(GenerateJsonSchema):
    """Without the titles that only repeat the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the interface
        return False


PAGES: Final = "beacon.web.pages."


def described(app: web.Application) -> list[tuple[str, str, Operation]]:
    """(method, path, description) of each route, in the order in which they are matched. HEAD goes with GET.

    Pages are for people, and not of the API. Raises KeyError for a route that nobody described (`beacon.web.openapi`).
    """
    return [
        (route.method.lower(), route.resource.canonical, DESCRIPTIONS[route.handler])
        for route in app.router.routes()
        if route.method != "HEAD" and route.resource is not None and not route.handler.__module__.startswith(PAGES)
    ]


def document(routes: Iterable[tuple[str, str, Operation]]) -> dict[str, Any]:
    """The OpenAPI document of routes as `described` gives them."""
    routes = list(routes)
    examples = json.loads(EXAMPLES.read_bytes())
    paths: dict[str, dict[str, Any]] = {}
    for method, path, operation in routes:
        paths.setdefault(path, {})[method] = _operation(path, operation, examples.get(operation.name, {}))
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "fair-beacon",
            "version": VERSION,
            "summary": "Provably fair randomness for games",
            "description": _ABOUT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This service"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "webhooks": {"session.entry": {"post": _webhook(examples.get("webhook", {}))}},
        "components": {
            "schemas": _schemas(routes),
            "examples": {code: {"summary": PROBLEMS[code].title, "value": example_of(code)} for code in PROBLEMS},
            "headers": {name: {"schema": schema, "description": text} for name, (schema, text) in _HEADERS.items()},
            "securitySchemes": _SCHEMES,
        },
        "x-anywhere": list(ANYWHERE),
        "x-problems": [row_document(code) for code in PROBLEMS],
    }


def example_of(code: str) -> dict[str, Any]:
    """A problem of a code, with its title for a detail, as the service answers where there is no more to say."""
    return row_document(code) | {"detail": f"{PROBLEMS[code].title}.", "request_id": REQUEST_ID}


def _schemas(routes: Iterable[tuple[str, str, Operation]]) -> dict[str, Any]:
    models: set[type[BaseModel]] = {Problem, ProblemRow, StreamedEntry, WebhookEvent}
    for _, _, operation in routes:
        models |= {answer.model for answer in operation.answers.values() if answer.model is not None}
        models |= {operation.body} if operation.body is not None else set()
    ordered = sorted(models, key=lambda model: model.__name__)
    _, made = models_json_schema(
        [(model, "validation") for model in ordered], ref_template=_REF, schema_generator=_Schemas
    )
    return {name: _tidy(schema) for name, schema in sorted(made["$defs"].items())}


def _tidy(node: Any) -> Any:
    """Objects with names of one pattern as `propertyNames` and `additionalProperties`, which more tools read."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: _tidy(value) for name, value in node.items()}
    if isinstance(patterns := node.get("patternProperties"), dict) and "properties" not in node:
        del node["patternProperties"]
        ((pattern, schema),) = patterns.items()
        node |= {"propertyNames": {"pattern": pattern}, "additionalProperties": schema}
    return node


def _operation(path: str, operation: Operation, examples: Mapping[str, Any]) -> dict[str, Any]:
    named = [PATH_PARAMETERS[name] for name in _NAMES.findall(path)]
    parameters = [_parameter(item, examples.get("parameters", {})) for item in (*named, *operation.parameters)]
    made: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "security": _SECURITY[operation.access],
    }
    if operation.details:
        made["description"] = operation.details
    if parameters:
        made["parameters"] = parameters
    if operation.body is not None:
        content = {"schema": _ref(operation.body)} | _example(examples, "request")
        made["requestBody"] = {"required": operation.body_required, "content": {JSON: content}}
    shown, always = examples.get("responses", {}), ["X-Request-Id", *(LIMITS if operation.limited else ())]
    made["responses"] = {
        str(status): _answer(answer, always, _example(shown, str(status)))
        for status, answer in operation.answers.items()
    }
    for status, codes in _by_status(operation.errors).items():
        refusal = _refusal(codes, always)
        known = made["responses"].get(str(status))
        if known is None:
            made["responses"][str(status)] = refusal
        else:
            known["description"] += f" Or: {refusal['description']}"
            known["content"] |= refusal["content"]
            known["headers"] |= refusal["headers"]
    return made


def _parameter(parameter: Parameter, examples: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }
    example = examples.get(parameter.name, parameter.example)
    return made | ({} if example is None else {"example": example})


def _answer(answer: Answer, always: Sequence[str], example: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"description": answer.description, "headers": _headers(*always, *answer.headers)}
    if answer.model is not None:
        texts = {media: {"schema": {"type": "string"}} for media in answer.also}
        made["content"] = {JSON: {"schema": _ref(answer.model)} | example, **texts}
    elif answer.schema is not None:
        made["content"] = {media: {"schema": dict(answer.schema)} for media in (answer.media, *answer.also)}
    return made


def _refusal(codes: list[str], always: Sequence[str]) -> dict[str, Any]:
    headers = [*always]
    if any(PROBLEMS[code].retryable for code in codes):
        headers.append("Retry-After")
    if any(PROBLEMS[code].status == web.HTTPUnauthorized.status_code for code in codes):
        headers.append("WWW-Authenticate")
    schema = {"allOf": [_ref(Problem), {"type": "object", "properties": {"code": {"enum": codes}}}]}
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    return {
        "description": " ".join(f"`{code}`: {PROBLEMS[code].title}." for code in codes),
        "headers": _headers(*headers),
        "content": {PROBLEM_TYPE: {"schema": schema, "examples": examples}},
    }


def _webhook(example: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "webhook-id": "Names the event: the same at each attempt. Drop what you have seen.",
        "webhook-timestamp": "Seconds since the epoch, of the attempt. Refuse what is more than 5 minutes away.",
        "webhook-signature": "`v1,` and an HMAC-SHA256 in base64, of each secret in force, separated by spaces.",
    }
    body = {"schema": _ref(WebhookEvent)} | ({"example": dict(example)} if example else {})
    return {
        "operationId": "webhook_event",
        "tags": ["Webhooks"],
        "summary": "A new entry of one of the host's sessions.",
        "description": "Signed as the Standard Webhooks specification says; sent at least once, with growing pauses.",
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}
            for name, text in names.items()
        ],
        "requestBody": {"required": True, "content": {JSON: body}},
        "responses": {
            "2XX": {"description": "It is taken."},
            "410": {"description": "Nothing more is sent to this webhook."},
            "default": {"description": "It is sent again."},
        },
    }


def _by_status(codes: Iterable[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for code in codes:
        found.setdefault(PROBLEMS[code].status, []).append(code)
    return dict(sorted(found.items()))


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _example(examples: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"example": examples[name]} if name in examples else {}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
