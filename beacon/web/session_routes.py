"""/v1/sessions: seal, contribute, draw, reveal, void, view, transcript. Writes need a token, reads are public."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiohttp import hdrs, web
from pydantic import BaseModel

from beacon.errors import ApiError
from beacon.sessions.context import Key
from beacon.sessions.joining import join_link
from beacon.sessions.requests import (
    ContributionRequest,
    DrawRequest,
    JoinRequest,
    LinkRequest,
    RevealRequest,
    SealRequest,
    VoidRequest,
    Written,
)
from beacon.web import sending, waits
from beacon.web.openapi import (
    AFTER,
    DRAWN,
    IDEMPOTENCY,
    LOGGED,
    OWN,
    SEALED,
    SIGNED,
    TIME,
    WAIT,
    WAITING,
    Answer,
    describe,
)
from beacon.web.rates import count_more
from beacon.web.requests import authenticate, idempotency_key, join_token, read_model, session_id
from beacon.web.schemas import Contributed, Document, Drawn, JoinTokens, Receipted, Session
from beacon.web.services import SERVICES
from beacon.web.standalone_file import standalone_file
from verifier.encoding import encode_json, parse_decimal
from verifier.errors import FormatError

ANONYMOUS_COSTS: Final = 20
"""Requests for which a contribution without any token counts, so that no address fills an open session in a minute."""
BYTES_A_REQUEST: Final = 16 * 1024
"""Of a transcript: what is longer counts as more requests, since it costs as much."""

routes: Final = web.RouteTableDef()


@routes.post("/v1/sessions")
@describe(
    "Sessions",
    access="seal",
    body=SealRequest,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("It is sealed.", Receipted, headers=("Location",))},
    errors=SEALED,
)
async def seal(request: web.Request) -> web.Response:
    """Seal a session: its seed's commitment, its round and its terms are in the log before the answer."""
    host = authenticate(request, "seal")
    body = await read_model(request, SealRequest)
    written = await once(request, host.name, body, lambda key: request.app[SERVICES].sessions.seal(host, body, key))
    return _written(written, headers={"Location": f"/v1/sessions/{written.session.hex()}"})


@routes.get("/v1/sessions/{session}")
@describe(
    "Sessions",
    parameters=[WAIT, AFTER],
    answers={200: Answer("The session.", Session)},
    errors=(*WAITING, "session-unknown", "too-many-waiting"),
)
async def view(request: web.Request) -> web.Response:
    """What state a session is in and what it still takes; `?wait=SECONDS&after=INDEX`: after its next entry."""
    session, services = session_id(request), request.app[SERVICES]
    waits.only(request, "wait", "after")
    seconds, after = waits.seconds(request), waits.index(request, "after")
    if seconds:
        with waits.seat(request):
            await services.waiting.entry_after(session, after, seconds, waits.gone(request))
    return json_response(await services.sessions.view(session))


@routes.post("/v1/sessions/{session}/contributions")
@describe(
    "Sessions",
    access="participant",
    body=ContributionRequest,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("It counts.", Contributed)},
    errors=(
        *OWN,
        *TIME,
        *LOGGED,
        *SIGNED,
        "contribution-too-late",
        "contributions-closed",
        "no-contributions-taken",
    ),
)
async def contribute(request: web.Request) -> web.Response:
    """Add one participant's entropy; the last one that is due closes the contributions, which has its own receipt.

    Open sessions take contributions without a token, others also with a participant's own of `joins`.
    """
    join = join_token(request)
    host = authenticate(request, "draw") if join is None and hdrs.AUTHORIZATION in request.headers else None
    sessions, session = request.app[SERVICES].sessions, session_id(request)
    body = await read_model(request, ContributionRequest)
    if host is None and join is None:
        count_more(request, ANONYMOUS_COSTS - 1)
    owner = host.name if host is not None else _owner(request, body, join)
    written = await once(request, owner, body, lambda key: sessions.contribute(host, session, body, key, join=join))
    answer = _state(written) | {"receipt": written.receipts[0]}
    if len(written.receipts) > 1:
        answer["close_receipt"] = written.receipts[1]
    return json_response(answer, status=web.HTTPCreated.status_code)


@routes.post("/v1/sessions/{session}/joins")
@describe(
    "Sessions",
    access="draw",
    body=JoinRequest,
    answers={200: Answer("The tokens and links; the same ones each time.", JoinTokens)},
    errors=(*OWN, "no-contributions-taken", "not-a-participant", "seal-participant-invalid"),
)
async def joins(request: web.Request) -> web.Response:
    """Tokens with which participants contribute by themselves, once each: `Authorization: Bearer fbj_...`."""
    host = authenticate(request, "draw")
    session = session_id(request)
    body = await read_model(request, JoinRequest)
    tokens = await request.app[SERVICES].sessions.join_tokens(host, session, body.participants)
    links = {participant: join_link(session, participant, token) for participant, token in tokens.items()}
    return json_response({"session": session.hex(), "tokens": tokens, "links": links})


@routes.post("/v1/sessions/{session}/draws")
@describe(
    "Sessions",
    access="draw",
    body=DrawRequest,
    parameters=[WAIT, IDEMPOTENCY],
    answers={201: Answer("It is drawn, or called.", Drawn)},
    errors=DRAWN,
)
async def draw(request: web.Request) -> web.Response:
    """Make the next draws of a match (`outcomes`, `n` of the first), or call a live one (`call`); `?wait=SECONDS`."""
    host = authenticate(request, "draw")
    session, services = session_id(request), request.app[SERVICES]
    waits.only(request, "wait")
    seconds = waits.seconds(request)
    body = await read_model(request, DrawRequest)
    written = await once(request, host.name, body, lambda key: services.sessions.draw(host, session, body, key))
    if written.call is not None and seconds:
        written = await services.waiting.drawn(written, seconds, waits.gone(request))
    return _drawn(written)


@routes.post("/v1/sessions/{session}/links")
@describe(
    "Sessions",
    access="draw",
    body=LinkRequest,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("The call is drawn.", Drawn)},
    errors=(
        *OWN,
        *TIME,
        *LOGGED,
        "call-number",
        "draw-before-round",
        "not-your-seed",
        "outcome-wrong",
        "seed-wrong",
    ),
)
async def hand_in(request: web.Request) -> web.Response:
    """Live, of a host that holds the seed: the link of a call whose round is in, which makes its draw."""
    host = authenticate(request, "draw")
    sessions, session = request.app[SERVICES].sessions, session_id(request)
    body = await read_model(request, LinkRequest)
    return _drawn(await once(request, host.name, body, lambda key: sessions.hand_in(host, session, body, key)))


@routes.post("/v1/sessions/{session}/reveal")
@describe(
    "Sessions",
    access="draw",
    body=RevealRequest,
    body_required=False,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("It has ended.", Receipted)},
    errors=(
        *OWN,
        *TIME,
        *LOGGED,
        "not-closed",
        "not-your-seed",
        "planned",
        "reveal-before-close",
        "reveal-before-draws",
        "reveal-before-round",
        "seed-missing",
        "seed-unavailable",
        "seed-weak",
        "seed-wrong",
    ),
)
async def reveal(request: web.Request) -> web.Response:
    """End a session: its seed is published."""
    host = authenticate(request, "draw")
    sessions, session = request.app[SERVICES].sessions, session_id(request)
    body = await read_model(request, RevealRequest, empty_allowed=True)
    return _written(await once(request, host.name, body, lambda key: sessions.reveal(host, session, body.seed, key)))


@routes.post("/v1/sessions/{session}/void")
@describe(
    "Sessions",
    access="draw",
    body=VoidRequest,
    parameters=[IDEMPOTENCY],
    answers={201: Answer("It is void.", Receipted)},
    errors=(*OWN, *TIME, *LOGGED, "seed-unavailable", "void-too-late"),
)
async def void(request: web.Request) -> web.Response:
    """Give a session up before its round exists."""
    host = authenticate(request, "draw")
    sessions, session = request.app[SERVICES].sessions, session_id(request)
    body = await read_model(request, VoidRequest)
    return _written(await once(request, host.name, body, lambda key: sessions.void(host, session, key)))


@routes.get("/v1/sessions/{session}/receipts/{index}")
@describe("Sessions", answers={200: Answer("The receipt.", Document)}, errors=("not-found", "session-unknown"))
async def receipt(request: web.Request) -> web.Response:
    """The receipt of an entry of the session, by its log index: again, or of what the service did by itself."""
    return json_response(await request.app[SERVICES].sessions.receipt(session_id(request), _index(request)))


@routes.get("/v1/sessions/{session}/receipts/{index}/tlog-proof")
@describe(
    "Sessions",
    answers={
        200: Answer("The proof.", media="text/plain", schema={"type": "string"}, headers=("Content-Disposition",))
    },
    errors=("not-found", "session-unknown"),
)
async def tlog_proof(request: web.Request) -> web.Response:
    """The receipt as a C2SP tlog-proof with the entry in it, cosigned where there are witnesses: `verifier proof`."""
    index = _index(request)
    proof = await request.app[SERVICES].sessions.tlog_proof(session_id(request), index)
    named = {hdrs.CONTENT_DISPOSITION: f'attachment; filename="{index}.tlog-proof"'}
    return web.Response(text=proof, content_type="text/plain", charset="utf-8", headers=named)


def _index(request: web.Request) -> int:
    try:
        return parse_decimal(request.match_info["index"])
    except FormatError as error:
        raise ApiError("not-found", "An entry is named by its index in the log.") from error


@routes.get("/v1/sessions/{session}/transcript")
@describe(
    "Sessions",
    parameters=[WAIT],
    answers={200: Answer("The transcript.", Document)},
    errors=(*WAITING, "session-unknown"),
)
async def transcript(request: web.Request) -> web.StreamResponse:
    """The document that `verifier check` takes; `?wait=SECONDS`: once witnesses have cosigned all of it, or then."""
    session, services = session_id(request), request.app[SERVICES]
    waits.only(request, "wait")
    if seconds := waits.seconds(request):
        shown = await services.sessions.view(session)
        with waits.seat(request):
            await waits.while_there(request, services.witnesses.covered(shown["last_index"], seconds))
    document = await services.sessions.transcript(session)
    count_more(request, len(document) // BYTES_A_REQUEST)
    return await sending.send(request, document, {hdrs.CONTENT_TYPE: "application/json; charset=utf-8"})


@routes.get("/v1/sessions/{session}/verify.py")
@describe(
    "Sessions",
    answers={
        200: Answer(
            "The program.",
            media="text/x-python",
            schema={"type": "string"},
            headers=("Content-Disposition",),
        )
    },
    errors=("session-unknown",),
)
async def standalone(request: web.Request) -> web.StreamResponse:
    """One Python file that checks the session, which is in it, with the standard library alone: all but the pairing."""
    session = session_id(request)
    document = await request.app[SERVICES].sessions.transcript(session)
    count_more(request, len(document) // BYTES_A_REQUEST)
    program = await asyncio.to_thread(standalone_file, document)
    named = f'attachment; filename="verify-{session.hex()[:16]}.py"'
    fields: dict[str, str] = {hdrs.CONTENT_TYPE: "text/x-python; charset=utf-8", hdrs.CONTENT_DISPOSITION: named}
    return await sending.send(request, program, fields)


def json_response(value: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Compact UTF-8 JSON."""
    return web.Response(
        body=encode_json(value), status=status, content_type="application/json", charset="utf-8", headers=headers
    )


def _owner(request: web.Request, body: ContributionRequest, join: str | None) -> str:
    """Whose idempotency key it is, without a host: the join token's, which a forged one is not, or the participant's.

    So nobody can take up, or ask about, the keys of others. No host has a name with a space.
    """
    return f"nobody {request.path} {body.participant}" if join is None else f"join {join}"


async def once(
    request: web.Request, owner: str, body: BaseModel, act: Callable[[Key | None], Awaitable[Written]]
) -> Written:
    """What a write gives, or gave when it was first made with this `Idempotency-Key`."""

    async def all_of(key: Key | None) -> Sequence[Written]:
        return [await act(key)]

    return (await all_once(request, owner, body, all_of))[0]


async def all_once(
    request: web.Request, owner: str, body: BaseModel, act: Callable[[Key | None], Awaitable[Sequence[Written]]]
) -> Sequence[Written]:
    """As `once`, for several things that are asked for together."""
    return await request.app[SERVICES].answers.once(idempotency_key(request, owner, body), act)


def _written(written: Written, *, headers: dict[str, str] | None = None) -> web.Response:
    return json_response(written_json(written), status=web.HTTPCreated.status_code, headers=headers)


def written_json(written: Written) -> dict[str, Any]:
    """The session after the write, and the receipt of its one entry."""
    return _state(written) | {"receipt": written.receipts[0]}


def _drawn(written: Written) -> web.Response:
    return json_response(drawn_json(written), status=web.HTTPCreated.status_code)


def drawn_json(written: Written) -> dict[str, Any]:
    """The session after the write, what was drawn or called, and the receipts."""
    answer: dict[str, Any] = {"receipts": written.receipts}
    if written.call is not None:
        call = written.call
        answer["call"] = {"draw": call.draw, "recipe": call.recipe, "n": call.n, "round": call.round}
    if written.outcomes is not None:
        answer |= {"outcomes": written.outcomes, "n": written.first_n}
    return _state(written) | answer


def _state(written: Written) -> dict[str, Any]:
    return {"session": written.session.hex()} | written.state
