"""How a route is described: put `@describe(...)` below its `@routes...`, with what its docstring's first line, its path
and its method do not say already: answers, body, codes of errors, parameters, and who may call it.

The description is data: `beacon.web.openapi_document` makes the OpenAPI document of it, `beacon.web.docs_page` a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from aiohttp import web
from pydantic import BaseModel

from beacon.errors import PROBLEMS
from beacon.rounds.rounds import TROUBLES
from beacon.store.hosts import Scope
from verifier.encoding import MAX_INTEGER

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Access: TypeAlias = Literal["public", "participant"] | Scope
"""public: no token. A scope: a host's token that has it. participant: one with `draw` or a join token, or none for an
open session."""
H = TypeVar("H", bound=Handler)

JSON: Final = "application/json"
ANYWHERE: Final = ("internal", "method-not-allowed", "not-found", "rate-limited")
"""Codes that every address answers with, also where no operation is."""

AUTH: Final = ("forbidden", "unauthorized")
BODY: Final = (
    "body-too-large",
    "forbidden-character",
    "invalid-request",
    "request-timeout",
    "unsupported-media-type",
)
WRITE: Final = ("outcome-unknown", "unavailable", "write-failed")
KEYED: Final = ("idempotency-key-invalid", "idempotency-key-reused")
LOGGED: Final = (*WRITE, *KEYED, "entry-too-long")
"""Of every write that appends to the log and takes an idempotency key."""
TIME: Final = ("chain-unknown", *TROUBLES)
"""Where the newest verified round has to fit the clock (6.11)."""
OWN: Final = ("chain-unknown", "not-your-session", "session-ended", "session-unknown", "session-void")
"""Of what a host does with a session of its own that is open."""
SIGNED: Final = (
    "already-contributed",
    "entropy-invalid",
    "not-a-participant",
    "signature-invalid",
    "signature-missing",
    "signature-not-expected",
    "too-many-contributions",
)
SEALED: Final = (
    *TIME,
    *LOGGED,
    *(code for code in PROBLEMS if code.startswith("seal-")),
    "label-invalid",
    "sandbox-only-chain",
)
DRAWN: Final = (
    *OWN,
    *TIME,
    *LOGGED,
    *SIGNED,
    "call-after-reveal-by",
    "call-before-close",
    "call-number",
    "draw-after-reveal-by",
    "draw-before-round",
    "draw-count",
    "draw-past-end-of-deck",
    "links-used-up",
    "not-closed",
    "not-live",
    "not-your-seed",
    "outcome-invalid",
    "outcomes-missing",
    "planned",
    "purpose-invalid",
    "seed-unavailable",
    "session-full",
    "too-many-calls",
    "unknown-recipe",
)
WAITING: Final = ("invalid-request", "too-many-listeners")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, with its JSON schema."""

    name: str
    place: Literal["query", "header", "path"]
    schema: Mapping[str, Any]
    description: str
    example: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: what it says, the model of its JSON or another media type with a schema, its headers.

    also: further media types that it may have.
    """

    description: str
    model: type[BaseModel] | None = None
    media: str = JSON
    schema: Mapping[str, Any] | None = None
    headers: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A route's description. errors: codes of beacon.errors; the order is that of the table."""

    name: str
    tag: str
    summary: str
    details: str
    access: Access
    limited: bool
    answers: Mapping[int, Answer]
    body: type[BaseModel] | None
    body_required: bool
    parameters: tuple[Parameter, ...]
    errors: tuple[str, ...] = field(default=())


HEX_32: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
DECIMAL: Final = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
PATH_PARAMETERS: Final[Mapping[str, Parameter]] = {
    parameter.name: parameter
    for parameter in (
        Parameter("session", "path", HEX_32, "The session: the leaf hash of its seal, 64 lower-case hex digits."),
        Parameter("index", "path", DECIMAL, "The entry's index in the log."),
        Parameter("host", "path", {"type": "string", "minLength": 1}, "The host's name, as seals have it."),
        Parameter("webhook", "path", {"type": "string", "minLength": 1}, "The webhook's `id`."),
        Parameter("hash", "path", HEX_32, "The chain hash, 64 lower-case hex digits."),
        Parameter("round", "path", DECIMAL | {"minimum": 1}, "The round's number."),
        Parameter("code", "path", {"type": "string", "enum": sorted(PROBLEMS)}, "The `code` of a problem."),
        Parameter(
            "path",
            "path",
            {"type": "string", "minLength": 1, "maxLength": 64},
            "`checkpoint`, `vkey`, `vkeys`, or a tile's or bundle's path, with its slashes as they are: `tile/0/000`.",
            "checkpoint",
        ),
    )
}
WAIT: Final = Parameter("wait", "query", DECIMAL, "Seconds to wait, 30 at the most; more is taken for that.")
AFTER: Final = Parameter("after", "query", DECIMAL, "A log index: only later entries count.")
IF_NONE_MATCH: Final = Parameter(
    "If-None-Match", "header", {"type": "string"}, "The `ETag` of an earlier answer: 304 if that is still the one."
)
IDEMPOTENCY: Final = Parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "Names this write for ever: the same key with the same request gives the first answer again, and never a second "
    "write; with another request it is refused.",
)

DESCRIPTIONS: Final[dict[Handler, Operation]] = {}


def describe(
    tag: str,
    *,
    answers: Mapping[int, Answer],
    access: Access = "public",
    limited: bool = True,
    body: type[BaseModel] | None = None,
    body_required: bool = True,
    parameters: Iterable[Parameter] = (),
    errors: Iterable[str] = (),
) -> Callable[[H], H]:
    """Describe the handler below. Errors of tokens, bodies, keys and limits come by themselves from what it takes.

    limited: whether the limits of requests per token and per address count it.
    """
    given = tuple(parameters)
    codes = {*errors, "internal"}
    if limited:
        codes.add("rate-limited")
    if access != "public":
        codes.update(AUTH)
    if body is not None:
        codes.update(BODY)
    if any(parameter.place == "query" for parameter in given):
        codes.add("invalid-request")
    if IDEMPOTENCY in given:
        codes.update(KEYED)
    unknown = codes - set(PROBLEMS)
    if unknown:
        raise ValueError(f"no codes of beacon.errors: {', '.join(sorted(unknown))}")
    ordered = tuple(code for code in PROBLEMS if code in codes)

    def note(handler: H) -> H:
        summary, _, details = (handler.__doc__ or "").partition("\n")
        module = handler.__module__.rpartition(".")[2].removesuffix("_routes")
        DESCRIPTIONS[handler] = Operation(
            name=f"{module}_{handler.__name__.strip('_')}",
            tag=tag,
            summary=summary.strip(),
            details=" ".join(details.split()),
            access=access,
            limited=limited,
            answers=answers,
            body=body,
            body_required=body_required,
            parameters=given,
            errors=ordered,
        )
        return handler

    return note
