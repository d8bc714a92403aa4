"""The HTTP layer alone, over fakes: routing, tokens, bodies, problems, headers, the log's static resources."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from beacon import logs
from beacon.clock import SystemClock
from beacon.errors import PROBLEMS, ApiError
from beacon.log.log import Log
from beacon.rounds.health import RelayHealth
from beacon.rounds.refusals import Reason
from beacon.rounds.rounds import ChainStatus
from beacon.sessions.changes import Changes
from beacon.sessions.requests import (
    ContributionRequest,
    DrawRequest,
    RevealRequest,
    SealRequest,
    VoidRequest,
    Written,
)
from beacon.sessions.waiting import Waiting
from beacon.settings import LimitSettings, Settings
from beacon.store.errors import LogDamaged, OutcomeUnknown, WriteFailed, WriterStopped
from beacon.store.hosts import SCOPES, Grant
from beacon.web.application import build_web
from beacon.web.problems import worded
from beacon.web.relay_watch import REPEAT_SECONDS, RelayWatch, explanation, utc
from beacon.web.requests import parse_model
from beacon.web.services import SERVICES, Chain, Services
from verifier.drand import VerifiedRound
from verifier.encoding import encode_json
from verifier.fetch import load_chain
from verifier.merkle import leaf_hash, tree_root
from verifier.note import Checkpoint, Note, SigningKey, VerifierKey, open_note
from verifier.tiles import parse_bundle, tile_path

SESSION = bytes(range(32))
HEX = SESSION.hex()
TOKEN = "test-token-0123456789"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
SEAL: dict[str, Any] = {"recipes": {"dice": {"kind": "dice", "count": 2, "sides": 6}}}
QUICKNET = load_chain("quicknet")
LOG_SIZE = 300
SIGNER = SigningKey(bytes(range(32)), "o.example")

Client = TestClient[Any, Any]


@dataclass
class FakeHost:
    name: str = "alice"
    sandbox: bool = True


class FakeHosts:
    async def authenticate(self, token: str) -> Grant | None:
        return Grant(FakeHost(), frozenset(SCOPES), "12345678") if token == TOKEN else None


@dataclass
class FakeSessions:
    """Remembers what it was asked, answers one state, or raises."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    error: Exception | None = None
    closes: bool = False

    def _answer(self, *call: Any, **written: Any) -> Written:
        self.calls.append(call)
        if self.error:
            raise self.error
        receipts = [{"format": "r"}, {"format": "close"}] if self.closes else [{"format": "r"}]
        return Written(SESSION, {"session": HEX, "status": "sealed"}, receipts, **written)

    async def seal(self, host: Any, request: SealRequest, key: Any = None) -> Written:
        return self._answer("seal", host.name, request)

    async def contribute(
        self, host: Any, session: bytes, request: Any, key: Any = None, *, join: Any = None
    ) -> Written:
        if host is None:
            raise ApiError("unauthorized", "x")
        return self._answer("contribute", host.name, session, request)

    async def draw(self, host: Any, session: bytes, request: DrawRequest, key: Any = None) -> Written:
        return self._answer("draw", host.name, session, request, outcomes=[[3, 1]], first_n=7)

    async def reveal(self, host: Any, session: bytes, seed: bytes | None = None, key: Any = None) -> Written:
        return self._answer("reveal", host.name, session, seed)

    async def void(self, host: Any, session: bytes, key: Any = None) -> Written:
        return self._answer("void", host.name, session)

    async def view(self, session: bytes) -> dict[str, Any]:
        return self._answer("view", session).state

    async def transcript(self, session: bytes) -> bytes:
        self._answer("transcript", session)
        return b'{"format":"t"}'


class FakeAnswers:
    """Lets every request act."""

    async def once(self, key: Any, act: Any) -> Any:
        return await act(key)


@dataclass
class FakeRounds:
    problem: str | None = None
    stale: bool = False
    not_before: int = 0
    relays: tuple[RelayHealth, ...] = ()

    def trouble(self, _chain_hash: bytes) -> str | None:
        return self.problem

    def newest(self, _chain_hash: bytes) -> VerifiedRound | None:
        return VerifiedRound(QUICKNET, 1000, b"\x01" * 48, None)

    async def get(self, _chain_hash: bytes, round_number: int) -> VerifiedRound | None:
        return VerifiedRound(QUICKNET, 1000, b"\x01" * 48, None) if round_number == 1000 else None

    async def wait(self, _chain_hash: bytes, _round_number: int | None, _seconds: float) -> VerifiedRound | None:
        return None

    def release(self) -> None:
        pass

    def status(self, chain_hash: bytes, not_before: int = 0) -> ChainStatus:
        self.not_before = not_before
        newest = self.newest(chain_hash)
        return ChainStatus(
            QUICKNET, newest, self.problem, (), 0, 1000, self.stale, evidence=(), waiters=0, relays=self.relays
        )


@dataclass
class World:
    client: Client
    sessions: FakeSessions
    rounds: FakeRounds
    services: Services
    stopped: list[str]


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("debug", "json", stream)
    yield stream
    root.handlers[:], _ = handlers, root.setLevel(level)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """A log of 300 entries in two commits."""
    opened = Log.open(tmp_path_factory.mktemp("log") / "log.db", SIGNER, SystemClock())

    def build(time: int) -> list[bytes]:
        return [encode_json({"v": 1, "type": "log", "time": time, "origin": f"o{n}"}) for n in range(LOG_SIZE - 1)]

    try:
        asyncio.run(opened.append(build))
        yield opened
    finally:
        opened.close()


@pytest.fixture
async def world(aiohttp_client: Callable[..., Awaitable[Client]], output: io.StringIO, log: Log) -> World:
    sessions, rounds, stopped = FakeSessions(), FakeRounds(), list[str]()
    services = Services(
        sessions=sessions,
        waiting=Waiting(SimpleNamespace(), Changes()),  # type: ignore[arg-type]
        answers=FakeAnswers(),  # type: ignore[arg-type]
        log=log,
        vkey=str(SIGNER.vkey),
        rounds=rounds,
        hosts=FakeHosts(),
        webhooks=None,  # type: ignore[arg-type]
        chains=(Chain("quicknet", QUICKNET, sandbox_only=False),),
        settings=Settings(origin="o.example", limits=LimitSettings(body_bytes=4096, body_ms=200)),
        stopped=lambda: stopped[0] if stopped else None,
    )
    app = build_web(services.settings)
    app[SERVICES] = services
    client = await aiohttp_client(app)
    return World(client, sessions, rounds, services, stopped)


async def problem_of(response: ClientResponse, code: str) -> dict[str, Any]:
    """The problem document, checked for everything that every problem has."""
    row = PROBLEMS[code]
    document: dict[str, Any] = json.loads(await response.read())
    assert document["code"] == code, document
    assert response.status == document["status"] == row.status
    assert response.content_type == "application/problem+json"
    assert document["type"] == f"/problems/{code}"
    assert document["title"] == row.title
    assert (document["rule"], document["retryable"], document["next"]) == (row.rule, row.retryable, row.next)
    assert document["detail"]
    assert document["request_id"] == response.headers["X-Request-Id"]
    assert response.headers["Cache-Control"] == "no-store"
    return document


# The table


def test_every_row_of_the_error_table_is_complete() -> None:
    for code, row in PROBLEMS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert row.status in {400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 503}, code
        assert len(row.title) > 10, code
        assert not row.title.endswith("."), code
        assert row.next.endswith("."), code
        assert row.rule is None or re.fullmatch(r"[1-8](\.\d{1,2})?", row.rule), code
        if row.status in {400, 401, 403, 405, 413, 415, 422}:
            assert not row.retryable, code


def test_titles_tell_the_codes_apart() -> None:
    by_title: dict[str, list[str]] = {}
    for code, row in PROBLEMS.items():
        by_title.setdefault(row.title, []).append(code)
    shared = [codes for codes in by_title.values() if len(codes) > 1]
    assert shared == [["draw-before-round", "reveal-before-round"]]


def test_an_error_of_an_unknown_code_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        ApiError("no-such-code", "x")


# Routes and tokens


WRITES = {
    "/v1/sessions": SEAL,
    f"/v1/sessions/{HEX}/contributions": {"participant": "p", "entropy": "00"},
    f"/v1/sessions/{HEX}/draws": {"recipe": "dice"},
    f"/v1/sessions/{HEX}/reveal": {},
    f"/v1/sessions/{HEX}/void": {"reason": "host"},
}


async def test_seal_answers_with_state_receipt_and_location(world: World) -> None:
    body = SEAL | {"label": "Spiel 1", "participants": [{"id": "p", "key": "01" * 32}], "close_at": None}
    response = await world.client.post("/v1/sessions", json=body, headers=AUTH)
    assert response.status == 201
    assert response.headers["Location"] == f"/v1/sessions/{HEX}"
    assert await response.json() == {"session": HEX, "status": "sealed", "receipt": {"format": "r"}}
    [(name, host, request)] = world.sessions.calls
    assert (name, host, request.label) == ("seal", "alice", "Spiel 1")
    assert request.participants[0].key == b"\x01" * 32
    assert request.close_at is None
    assert request.close_at_given


async def test_a_seal_that_leaves_the_deadline_out_says_so(world: World) -> None:
    await world.client.post("/v1/sessions", json=SEAL, headers=AUTH)
    assert not world.sessions.calls[0][2].close_at_given


async def test_each_write_hands_over_what_was_sent(world: World) -> None:
    for path, body in WRITES.items():
        response = await world.client.post(path, json=body, headers=AUTH)
        assert response.status == 201, path
        document = await response.json()
        if path.endswith("/draws"):
            assert (document["outcomes"], document["n"], document["receipts"]) == ([[3, 1]], 7, [{"format": "r"}])
        else:
            assert document["receipt"] == {"format": "r"}
    assert world.sessions.calls[1:] == [
        ("contribute", "alice", SESSION, ContributionRequest.model_validate({"participant": "p", "entropy": "00"})),
        ("draw", "alice", SESSION, DrawRequest(recipe="dice")),
        ("reveal", "alice", SESSION, None),
        ("void", "alice", SESSION),
    ]


async def test_a_contribution_that_closes_brings_both_receipts(world: World) -> None:
    path, body = f"/v1/sessions/{HEX}/contributions", {"participant": "p", "entropy": "00"}
    assert "close_receipt" not in await (await world.client.post(path, json=body, headers=AUTH)).json()
    world.sessions.closes = True
    document = await (await world.client.post(path, json=body, headers=AUTH)).json()
    assert (document["receipt"], document["close_receipt"]) == ({"format": "r"}, {"format": "close"})


async def test_reveal_takes_no_body_or_a_seed(world: World) -> None:
    assert (await world.client.post(f"/v1/sessions/{HEX}/reveal", headers=AUTH)).status == 201
    response = await world.client.post(f"/v1/sessions/{HEX}/reveal", json={"seed": "00"}, headers=AUTH)
    await problem_of(response, "seed-wrong")
    response = await world.client.post(f"/v1/sessions/{HEX}/void", headers=AUTH)
    await problem_of(response, "unsupported-media-type")
    assert len(world.sessions.calls) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer  {TOKEN}"},
        {"Authorization": "Bearer " + "x" * 5000},
        [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")],
    ],
)
async def test_every_write_needs_a_token(world: World, headers: Any) -> None:
    for path, body in WRITES.items():
        response = await world.client.post(path, json=body, headers=headers)
        document = await problem_of(response, "unauthorized")
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="fair-beacon"'
        assert TOKEN not in json.dumps(document)
    assert not world.sessions.calls


async def test_reads_are_public(world: World) -> None:
    assert await (await world.client.get(f"/v1/sessions/{HEX}")).json() == {"session": HEX, "status": "sealed"}
    response = await world.client.get(f"/v1/sessions/{HEX}/transcript")
    assert (response.content_type, await response.read()) == ("application/json", b'{"format":"t"}')


@pytest.mark.parametrize("name", ["0", HEX[:-1], HEX + "00", HEX.upper(), "é" * 32, "%00"])
async def test_a_session_has_one_name(world: World, name: str) -> None:
    await problem_of(await world.client.get(f"/v1/sessions/{name}"), "session-unknown")
    await problem_of(await world.client.post(f"/v1/sessions/{name}/reveal", headers=AUTH), "session-unknown")
    assert not world.sessions.calls


async def test_unknown_addresses_and_methods(world: World) -> None:
    for path in (
        "/nothing",
        "/v1",
        "/v1/sessions/",
        f"/v1/sessions/{HEX}/",
        f"/v1/sessions/{HEX}/nothing",
        "/v2/sessions",
    ):
        await problem_of(await world.client.get(path), "not-found")
    response = await world.client.delete(f"/v1/sessions/{HEX}")
    document = await problem_of(response, "method-not-allowed")
    assert response.headers["Allow"] == "GET, HEAD"
    assert "GET" in document["detail"]


# Bodies


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


BAD_SEALS: list[tuple[Any, str, str]] = [
    ([], "invalid-request", "object"),
    ({}, "invalid-request", "/recipes: it is missing"),
    (SEAL | {"colour": 1}, "invalid-request", "/colour"),
    (SEAL | {"round": "5"}, "invalid-request", "/round"),
    (SEAL | {"round": True}, "invalid-request", "/round"),
    (SEAL | {"round": 0}, "invalid-request", "/round"),
    (SEAL | {"round": 2**53}, "invalid-request", "2^53"),
    (SEAL | {"round": 1.5}, "invalid-request", "1.5"),
    (SEAL | {"round": 5, "round_at": 5}, "invalid-request", "exclude"),
    (SEAL | {"close_at": -1}, "invalid-request", "/close_at"),
    (SEAL | {"open": 1}, "invalid-request", "/open"),
    (SEAL | {"recipes": []}, "invalid-request", "/recipes"),
    (SEAL | {"recipes": {"dice": 1}}, "invalid-request", "/recipes/dice"),
    ({"recipes": {}}, "seal-recipe-invalid", "at least one"),
    ({"recipes": {f"r{n}": {} for n in range(65)}}, "seal-recipe-invalid", "at most 64"),
    (SEAL | {"recipes": {"r": nested(40)}}, "invalid-request", "deep"),
    (SEAL | {"label": "x" * 257}, "label-invalid", "/label"),
    (SEAL | {"label": "é" * 129}, "label-invalid", "258"),
    (SEAL | {"label": "a\u202eb"}, "forbidden-character", "U+202E"),
    (SEAL | {"label": "a\nb"}, "forbidden-character", "U+000A"),
    (SEAL | {"label": "a\ud800b"}, "forbidden-character", "U+D800"),
    (SEAL | {"participants": [{"id": ""}]}, "seal-participant-invalid", "/participants/0/id"),
    (SEAL | {"participants": [{"id": "x" * 129}]}, "seal-participant-invalid", "129"),
    (SEAL | {"participants": [{"id": "a"}, {"id": "a"}]}, "seal-participant-invalid", "twice"),
    (SEAL | {"participants": [{"id": i, "key": "01" * 32} for i in "ab"]}, "seal-participant-invalid", "key twice"),
    (SEAL | {"participants": [{"id": str(i)} for i in range(201)]}, "seal-participant-invalid", "at most 200"),
    (SEAL | {"participants": [{"id": "a", "key": "01" * 31}]}, "seal-key-invalid", "/participants/0/key"),
    (SEAL | {"participants": [{"id": "a", "key": "AB" * 32}]}, "seal-key-invalid", "lower-case"),
    (SEAL | {"attachments": [{"name": "", "sha256": "00" * 32}]}, "seal-attachment-invalid", "/attachments/0/name"),
    (SEAL | {"attachments": [{"name": "a", "sha256": "00"}]}, "seal-attachment-invalid", "/attachments/0/sha256"),
    (SEAL | {"attachments": [{"name": "a", "sha256": "00" * 32}] * 2}, "seal-attachment-invalid", "twice"),
    (SEAL | {"attachments": [{"name": str(i)} for i in range(17)]}, "seal-attachment-invalid", "at most 16"),
    (SEAL | {"replaces": "00"}, "seal-replaces-unknown", "32 bytes"),
    (SEAL | {"min_contributions": -1}, "invalid-request", "/min_contributions"),
]


@pytest.mark.parametrize(("body", "code", "says"), BAD_SEALS, ids=[f"{code}-{says}" for _, code, says in BAD_SEALS])
async def test_a_bad_seal_is_refused_with_its_code(world: World, body: Any, code: str, says: str) -> None:
    response = await world.client.post("/v1/sessions", json=body, headers=AUTH)
    assert says in (await problem_of(response, code))["detail"]
    assert not world.sessions.calls


@pytest.mark.parametrize(
    ("action", "body", "code"),
    [
        ("contributions", {"participant": "p", "entropy": ""}, "entropy-invalid"),
        ("contributions", {"participant": "p", "entropy": "0"}, "entropy-invalid"),
        ("contributions", {"participant": "p", "entropy": "0G"}, "entropy-invalid"),
        ("contributions", {"participant": "p", "entropy": "00" * 257}, "entropy-invalid"),
        ("contributions", {"participant": "p", "entropy": 5}, "entropy-invalid"),
        ("contributions", {"participant": "p", "entropy": "00", "signature": "00"}, "signature-invalid"),
        ("contributions", {"participant": "", "entropy": "00"}, "not-a-participant"),
        ("contributions", {"entropy": "00"}, "invalid-request"),
        ("draws", {"recipe": ""}, "unknown-recipe"),
        ("draws", {"recipe": "r", "count": 0}, "draw-count"),
        ("draws", {"recipe": "r", "count": 1001}, "draw-count"),
        ("draws", {"recipe": "r", "count": "1"}, "invalid-request"),
        ("draws", {"recipe": "r", "purpose": "x" * 257}, "purpose-invalid"),
        ("draws", {"recipe": "r", "purpose": "\u0000"}, "forbidden-character"),
        ("void", {"reason": "no-round"}, "invalid-request"),
        ("void", {}, "invalid-request"),
    ],
)
async def test_a_bad_write_is_refused_with_its_code(world: World, action: str, body: Any, code: str) -> None:
    await problem_of(await world.client.post(f"/v1/sessions/{HEX}/{action}", json=body, headers=AUTH), code)
    assert not world.sessions.calls


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"null",
        b'"x"',
        b'{"recipes":{"a":{}},"recipes":{"b":{}}}',
        b'{"recipes":{"a":{"kind":"dice","kind":"bytes"}}}',
        b'{"recipes":{"a":{}},"round":1e3}',
        b'{"recipes":{"a":{}},"round":01}',
        b'{"recipes":{"a":{}},"round":-0}',
        b'{"recipes":{"a":{}},"round":NaN}',
        b'{"recipes":{"a":{}}} x',
        b"[" * 3000,
        b'\xef\xbb\xbf{"recipes":{"a":{}}}',
    ],
)
async def test_lax_json_is_refused(world: World, body: bytes) -> None:
    headers = AUTH | {"Content-Type": "application/json"}
    await problem_of(await world.client.post("/v1/sessions", data=body, headers=headers), "invalid-request")


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
    ],
)
async def test_other_media_types_are_refused(world: World, headers: dict[str, str]) -> None:
    response = await world.client.post("/v1/sessions", data=json.dumps(SEAL), headers=AUTH | headers)
    await problem_of(response, "unsupported-media-type")
    assert not world.sessions.calls


async def test_a_content_encoding_is_refused(world: World) -> None:
    headers = AUTH | {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    response = await world.client.post("/v1/sessions", data=gzip.compress(json.dumps(SEAL).encode()), headers=headers)
    await problem_of(response, "unsupported-media-type")
    assert not world.sessions.calls


async def test_a_large_body_is_refused_declared_or_not(world: World) -> None:
    headers = AUTH | {"Content-Type": "application/json"}

    async def chunks() -> Any:
        for _ in range(10):
            yield b" " * 1000

    for body in (b" " * 4097, chunks()):
        response = await world.client.post("/v1/sessions", data=body, headers=headers)
        assert (await problem_of(response, "body-too-large"))["limit_bytes"] == 4096
    body = json.dumps(SEAL).encode()
    response = await world.client.post("/v1/sessions", data=body + b" " * (4096 - len(body)), headers=headers)
    assert response.status == 201


async def test_a_slow_body_is_given_up(world: World) -> None:
    answer = await raw(
        world,
        f"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    )
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request-timeout"' in answer
    assert not world.sessions.calls


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({*SealRequest.model_fields, *ContributionRequest.model_fields, *DrawRequest.model_fields, "reason"})


@given(
    st.binary(max_size=64)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(FIELDS), json_values).map(lambda value: json.dumps(value).encode())
)
def test_any_body_is_a_request_or_a_refusal(body: bytes) -> None:
    for model in (SealRequest, ContributionRequest, DrawRequest, VoidRequest):
        outcome = request_or_refusal(body, model)
        if isinstance(outcome, ApiError):
            assert 400 <= outcome.problem.status < 500
            assert json.dumps(outcome.extra).encode()
            assert_plain(worded(outcome))
        else:
            assert isinstance(outcome, model)


INSIDES = re.compile("Input should|Value error|Field required|[a-z] should|instance of|[A-Z][a-z]+Request|Extra inputs")


def assert_plain(document: dict[str, Any]) -> None:
    messages = [item["message"] for item in document.get("errors", [])]
    assert not any(INSIDES.search(message) for message in messages), messages
    if messages:
        assert any(document["detail"].endswith(f": {message}") for message in messages) or len(messages) == 20


@pytest.mark.parametrize("model", [SealRequest, ContributionRequest, DrawRequest, RevealRequest, VoidRequest])
def test_no_refused_field_shows_what_validates_it(model: type[BaseModel]) -> None:
    values: list[Any] = [None, True, -1, 1.5, 2**60, "", "x", "A: Input should be a valid list", [], [1], [[]], {}]
    values += [{"a": 1}, [{"id": 1}], [{"name": 1}], [{"id": "a", "key": 1, "Value error, ": 1}]]
    refused = set()
    for field_name in [*model.model_fields, "unknown"]:
        for value in values:
            outcome = request_or_refusal(json.dumps({field_name: value}).encode(), model)
            if isinstance(outcome, ApiError):
                refused.add(field_name)
                assert_plain(worded(outcome))
    assert refused == {*model.model_fields, "unknown"}


async def test_a_participant_that_is_no_object_is_told_so(world: World) -> None:
    response = await world.client.post("/v1/sessions", json=SEAL | {"participants": ["white"]}, headers=AUTH)
    document = await problem_of(response, "invalid-request")
    assert document["detail"] == "/participants/0: an object is due"
    assert document["errors"] == [{"path": "/participants/0", "message": "an object is due"}]


def request_or_refusal(body: bytes, model: type[BaseModel]) -> BaseModel | ApiError:
    try:
        return parse_model(body, model)
    except ApiError as error:
        return error


def test_refusals_do_not_repeat_what_was_sent() -> None:
    body = json.dumps({"participant": "p", "entropy": "feedface-not-hex", "signature": 7}).encode()
    with pytest.raises(ApiError) as caught:
        parse_model(body, ContributionRequest)
    assert "feedface" not in f"{caught.value} {caught.value.extra}"


# Problems


async def test_a_refusal_becomes_its_problem(world: World) -> None:
    for code in PROBLEMS:
        world.sessions.error = ApiError(code, "why", extra={"more": 1, "status": 9, "code": "x"}, retry_after=3)
        response = await world.client.post("/v1/sessions", json=SEAL, headers=AUTH)
        document = await problem_of(response, code)
        assert (document["detail"], document["more"]) == ("why", 1)
        assert response.headers.get("Retry-After") == ("3" if PROBLEMS[code].retryable else None)


@pytest.mark.parametrize(
    ("error", "code", "retry_after"),
    [
        (WriteFailed("disk of /secret/path"), "write-failed", "1"),
        (OutcomeUnknown("disk of /secret/path"), "outcome-unknown", None),
        (WriterStopped("disk of /secret/path"), "unavailable", "1"),
        (LogDamaged("disk of /secret/path"), "internal", None),
        (ValueError("disk of /secret/path"), "internal", None),
        (KeyError("disk of /secret/path"), "internal", None),
    ],
)
async def test_a_failure_is_told_without_its_insides(
    world: World, output: io.StringIO, error: Exception, code: str, retry_after: str | None
) -> None:
    world.sessions.error = error
    response = await world.client.post("/v1/sessions", json=SEAL, headers=AUTH)
    document = await problem_of(response, code)
    assert "/secret/path" not in json.dumps(document)
    assert response.headers.get("Retry-After") == retry_after
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert any("/secret/path" in json.dumps(line) for line in lines)
    assert all(line["request_id"] == document["request_id"] for line in lines if line["logger"].startswith("beacon."))


async def test_a_problem_type_can_be_looked_up(world: World) -> None:
    for code in PROBLEMS:
        document = await (await world.client.get(f"/problems/{code}")).json()
        assert document["code"] == code
        assert document["type"] == f"/problems/{code}"
    await problem_of(await world.client.get("/problems/nothing"), "not-found")


# Headers and logs


async def test_every_response_has_its_id_and_the_security_headers(world: World) -> None:
    world.stopped.append("x")
    paths = ["/healthz", "/nothing", "/log/checkpoint", "/log/nothing", f"/v1/sessions/{HEX}", "/v1/chains"]
    ids = set()
    for path in paths:
        headers = (await world.client.get(path, headers={"X-Request-Id": "mine"})).headers
        ids.add(headers["X-Request-Id"])
        assert re.fullmatch("[0-9a-f]{16}", headers["X-Request-Id"])
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Server"] == "fair-beacon"
        assert headers["Cache-Control"]
    assert len(ids) == len(paths)


async def test_logs_hold_one_line_a_request_and_nothing_secret(world: World, output: io.StringIO) -> None:
    body = {"participant": "p", "entropy": "c0ffee" * 4}
    path = f"/v1/sessions/{HEX}/contributions?token=visible"
    response = await world.client.post(path, json=body, headers=AUTH)
    [line] = [json.loads(line) for line in output.getvalue().splitlines() if '"event": "request"' in line]
    assert line["request_id"] == response.headers["X-Request-Id"]
    assert (line["route"], line["status"], line["host"]) == ("/v1/sessions/{session}/contributions", 201, "alice")
    for secret in (TOKEN, "c0ffee", "visible"):
        assert secret not in output.getvalue()


@pytest.mark.parametrize("style", ["json", "console"])
def test_logs_mask_telling_names_and_print_no_locals(style: str, output: io.StringIO) -> None:
    logs.configure("info", style, output)
    hidden = "s3cret-" + "value"

    def fail(_local: str) -> None:
        raise ValueError("seen")

    try:
        fail(hidden)
    except ValueError:
        logs.get("beacon.test").exception(
            "failed", token=hidden, inner={"seed": hidden, "in": {"Authorization": hidden}}
        )
    logging.getLogger("aiohttp.access").info("GET /%s", hidden)
    text = output.getvalue()
    assert "seen" in text
    assert text.count("[not logged]") == 3
    assert hidden not in text


# Health


async def test_health_and_readiness(world: World) -> None:
    assert (await world.client.get("/healthz")).status == 200
    response = await world.client.get("/readyz")
    assert world.rounds.not_before == world.services.log.latest().time
    fine = {"trouble": None, "detail": None, "failing_relays": []}
    assert (response.status, await response.json()) == (
        200,
        {"ready": True, "stopped": None, "writes": None, "chains": {"quicknet": fine}},
    )
    world.rounds.problem = "clock-unsure"
    world.rounds.stale = True
    world.rounds.relays = (failing("https://user:secret@relay.example/key"), RelayHealth("https://other.example"))
    response = await world.client.get("/readyz")
    assert (response.status, (await response.json())["chains"]["quicknet"]) == (
        503,
        {
            "trouble": "clock-unsure",
            "detail": f"no new round since {utc(QUICKNET.time(1000))}; are the relays reachable?",
            "failing_relays": [
                {"relay": "https://relay.example", "reason": "unreachable", "time": 1_700_000_000_000, "in_a_row": 1}
            ],
        },
    )
    assert (await world.client.get("/healthz")).status == 200
    world.rounds.problem = None
    world.stopped.append("a commit failed")
    for path in ("/healthz", "/readyz"):
        response = await world.client.get(path)
        assert (response.status, (await response.json())["stopped"]) == (503, "a commit failed")


def failing(url: str, reason: Reason = Reason.UNREACHABLE) -> RelayHealth:
    health = RelayHealth(url)
    health.failed(reason, 1.0, 1_700_000_000_000, 0.0)
    return health


def status(**changes: Any) -> ChainStatus:
    newest = VerifiedRound(QUICKNET, 1000, b"\x01" * 48, None)
    given = {"newest": newest, "trouble": "clock-unsure", "expected": 1000, "stale": True} | changes
    return ChainStatus(QUICKNET, wanted=(), overdue=0, evidence=(), waiters=0, relays=(), **given)


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (status(trouble=None, stale=False), None),
        (status(), "no new round since 2023-08-23T15:59:24Z; are the relays reachable?"),
        (status(newest=None, trouble="no-verified-round"), "no round was verified yet; are the relays reachable?"),
        (status(newest=None, trouble="no-verified-round", expected=0), "the first round comes at 2023-08-23T15:09:27Z"),
        (status(stale=False), "round 1000, of 2023-08-23T15:59:24Z, is ahead of this machine's clock; is the clock"),
        (status(stale=False, log_ahead=90_000), "the log's newest entry is 90 s ahead of this machine's clock, and no"),
        (status(trouble="chain-broken"), PROBLEMS["chain-broken"].title),
    ],
)
def test_the_trouble_of_a_chain_is_told_with_what_to_look_at(known: ChainStatus, says: str | None) -> None:
    told = explanation(known)
    assert told == says if says is None or told is None else says in told


def test_a_chain_that_has_ended_is_told_so() -> None:
    ended = replace(QUICKNET, last_round=1000)
    told = explanation(replace(status(newest=None, trouble="chain-retired"), chain=ended))
    assert told == "the chain ended with round 1000 at 2023-08-23T15:59:24Z"


def test_relays_none_of_which_gives_rounds_are_warned_of_again_and_again(world: World, output: io.StringIO) -> None:
    def look(now: float) -> list[dict[str, Any]]:
        output.seek(0)
        output.truncate()
        watch.look(now)
        return [json.loads(line) for line in output.getvalue().splitlines()]

    watch = RelayWatch(world.services)
    first, second = failing("http://a.example:1/secret"), RelayHealth("https://b.example")
    world.rounds.problem, world.rounds.relays, world.rounds.stale = "clock-unsure", (first, second), True
    assert look(0.0) == []
    second.failed(Reason.TLS, 1.0, 0, 0.0)
    [line] = look(1.0)
    assert (line["level"], line["event"], line["chain"]) == ("warning", "no relay gives a round", "quicknet")
    assert line["relays"] == ["http://a.example:1: unreachable", "https://b.example: tls"]
    assert "no new round since" in line["trouble"]
    assert look(2.0) == look(1.0 + REPEAT_SECONDS - 0.1) == []
    assert len(look(1.0 + REPEAT_SECONDS)) == 1
    world.rounds.stale = False
    [line] = look(400.0)
    assert (line["level"], line["event"], line["round"]) == ("info", "new rounds again", 1000)
    assert look(401.0) == []
    world.rounds.stale = True
    assert len(look(402.0)) == 1


# Chains


async def test_chains_say_whether_they_take_seals(world: World) -> None:
    world.rounds.problem = "clock-unsure"
    [chain] = (await (await world.client.get("/v1/chains")).json())["chains"]
    assert chain["info"] == QUICKNET.as_dict()
    assert (chain["name"], chain["hash"], chain["default"]) == ("quicknet", QUICKNET.hash.hex(), True)
    assert (chain["newest_round"], chain["newest_round_time"]) == (1000, QUICKNET.time(1000))
    assert (chain["trouble"], chain["sandbox_only"]) == ("clock-unsure", False)


async def test_rounds_that_were_verified(world: World) -> None:
    base = f"/v1/chains/{QUICKNET.hash.hex()}/rounds"
    response = await world.client.get(f"{base}/1000")
    document = await response.json()
    assert document["signature"] == "01" * 48
    assert document["randomness"] == VerifiedRound(QUICKNET, 1000, b"\x01" * 48, None).randomness.hex()
    assert "previous_signature" not in document
    assert "immutable" in response.headers["Cache-Control"]
    for number in ("1001", "0", "-1", "01", "x", "9" * 30):
        await problem_of(await world.client.get(f"{base}/{number}"), "round-unknown")
    await problem_of(await world.client.get(f"/v1/chains/{'00' * 32}/rounds/1000"), "chain-unknown")


# The log's static resources


async def raw(world: World, text: str) -> bytes:
    """What the server answers to exactly these bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection(world.client.host, world.client.port)
    try:
        writer.write(text.encode("latin-1"))
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            return head + await reader.readexactly(int(length[1]) if length else 0)
    finally:
        writer.close()
        await writer.wait_closed()


async def get(world: World, target: str) -> bytes:
    return await raw(world, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


async def test_the_checkpoint_and_the_key(world: World) -> None:
    response = await world.client.get("/log/checkpoint")
    assert (response.content_type, response.charset) == ("text/plain", "utf-8")
    assert response.headers["Cache-Control"] == "no-cache"
    key = VerifierKey.parse((await (await world.client.get("/log/vkey")).text()).strip())
    verified = open_note(Note.parse(await response.text()), [key])
    assert verified.verified
    assert Checkpoint.parse(verified.text).size == LOG_SIZE
    head = await world.client.head("/log/checkpoint")
    assert (head.status, await head.read()) == (200, b"")


async def test_the_tree_can_be_computed_from_tiles_and_from_entries(world: World) -> None:
    async def resource(path: str) -> bytes:
        response = await world.client.get(f"/log/{path}")
        assert response.status == 200, path
        return await response.read()

    checkpoint = Checkpoint.parse(Note.parse(await resource("checkpoint")).text)
    entries, hashes = [], b""
    for path in (tile_path(0, 0), tile_path(0, 1, 44)):
        hashes += await resource(path)
        entries += parse_bundle(await resource(path.replace("tile/0", "tile/entries")))
    leaves = [hashes[at : at + 32] for at in range(0, len(hashes), 32)]
    assert len(leaves) == LOG_SIZE
    assert [leaf_hash(entry) for entry in entries] == leaves
    assert tree_root(leaves) == checkpoint.root
    assert await resource(tile_path(1, 0, 1)) == tree_root(leaves[:256])


HELD = [
    "tile/0/000",
    "tile/entries/000",
    "tile/0/001.p/44",
    "tile/entries/001.p/44",
    "tile/0/001.p/1",
    "tile/1/000.p/1",
]


@pytest.mark.parametrize("path", HELD)
async def test_tiles_are_immutable_bytes(world: World, path: str) -> None:
    response = await world.client.get(f"/log/{path}")
    assert response.status == 200
    assert response.content_type == "application/octet-stream"
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert (await get(world, f"/log/{path}")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/001",
        "tile/entries/001",
        "tile/0/001.p/45",
        "tile/1/000",
        "tile/1/000.p/2",
        "tile/2/000.p/1",
        "tile/0/002",
    ],
)
async def test_a_tile_that_is_not_full_yet_is_absent(world: World, path: str) -> None:
    await problem_of(await world.client.get(f"/log/{path}"), "not-found")


ALIASES = [
    "/log/tile/0/000/",
    "/log/tile//0/000",
    "//log/tile/0/000",
    "/log//tile/0/000",
    "/log/./tile/0/000",
    "/log/tile/1/../0/000",
    "/v1/../log/tile/0/000",
    "/log/tile/0/%30%30%30",
    "/log/tile%2F0%2F000",
    "/log/%74ile/0/000",
    "/%6cog/tile/0/000",
    "/LOG/tile/0/000",
    "/log/Tile/0/000",
    "/log/tile/0/000?",
    "/log/tile/0/000?x=1",
    "/log/tile/0/000#x",
    "/log/tile/0/000;x",
    "/log/tile/0/000.p/256",
    "/log/tile/0/000.p/0",
    "/log/tile/0/001.p/044",
    "/log/tile/00/000",
    "/log/tile/0/0",
    "/log/tile/0/x000/000",
    "/log/tile/0/000.P/1",
    "/log/tile/-1/000",
    "/log/tile/64/000",
    "/log/tile/0/000%00",
    "/log/tile/0/" + "x000/" * 500 + "000",
    "/log/tile/0",
    "/log/tile",
    "/log/",
    "/log/checkpoint/",
    "/log/checkpoint?",
    "/log/checkpoint?size=1",
    "/log/./checkpoint",
    "/log/%63heckpoint",
    "/log/checkpoint%20",
    "/log/Checkpoint",
    "/log/vkey/",
    "/log/vkey?x",
    "/log/../log/vkey",
]


@pytest.mark.parametrize("target", ALIASES)
async def test_every_alias_is_absent(world: World, target: str) -> None:
    answer = await get(world, target)
    assert answer.startswith(b"HTTP/1.1 404 "), answer[:200]
    assert b"Cache-Control: no-store" in answer
    assert b'"code":"not-found"' in answer


async def test_the_log_is_only_read(world: World) -> None:
    for path in ("/log/checkpoint", "/log/tile/0/000"):
        await problem_of(await world.client.post(path, data=b"x"), "method-not-allowed")
