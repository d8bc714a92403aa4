"""The headers that keep browsers and caches in bounds, on every answer of every route, and of what is no route."""

import asyncio
import re
from types import SimpleNamespace

import pytest
from multidict import CIMultiDict

from beacon.settings import Settings
from beacon.web.application import build_web
from beacon.web.metrics_routes import build_metrics
from beacon.web.middleware import SECURITY_HEADERS
from beacon.web.pages.assets import assets
from beacon.web.server import listening
from beacon.web.services import SERVICES
from tests.round_support import QUICKNET
from tests.session_support import ALICE, FIRST, service
from tests.test_connections import MALFORMED
from tests.test_webhooks import hooked
from tests.web_support import headers, web_of

BROWSER = {"Accept": "text/html"}
PUBLIC = "/problems/not-found"


def table():
    """(method, path with its parameters in braces) of each route, HEAD left out."""
    app = build_web(Settings.model_construct(origin="o"))
    return sorted((one.method, one.resource.canonical) for one in app.router.routes() if one.method != "HEAD")


def filled(path, session):
    """A path that leads somewhere."""
    picture = assets()["icon.svg"]
    known = {"session": session, "digest": picture.digest, "name": picture.name, "index": "0", "path": "checkpoint"}
    known |= {"host": ALICE.name, "hash": QUICKNET.hash.hex(), "round": str(FIRST), "code": "not-found"}
    return path.format(**known, webhook="none") + ("?wait=0" if path.endswith("/next") else "")


def is_guarded(answer):
    """Whether an answer (status, headers: a multidict) has what every answer has."""
    where = (answer.status, dict(answer.headers))
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers.getall(name) == [value], (name, where)
    (policy,) = answer.headers.getall("Content-Security-Policy")
    (media,) = answer.headers.getall("Content-Type", [""])
    rules = {name: rest for name, _, rest in (rule.strip().partition(" ") for rule in policy.split(";"))}
    assert rules["default-src"] == "'none'", where
    assert "frame-ancestors" in rules or "sandbox" in rules, where
    assert not {"unsafe-eval", "*", "http:", "https:"} & set(policy.replace("'", " ").split()), where
    assert "unsafe-inline" not in policy or (media.startswith("image/svg+xml") and "sandbox" in rules), where
    assert not media.startswith("text/") or "charset=utf-8" in media or media == "text/event-stream", where
    assert len(answer.headers.getall("Cache-Control")) == 1, where
    assert re.fullmatch("[0-9a-f]{16}", answer.headers["X-Request-Id"]), where
    assert "Set-Cookie" not in answer.headers
    return True


def test_the_table_has_pages_the_api_downloads_and_streams():
    paths = {path for _, path in table()}
    assert {"/", "/v1/sessions", "/log/log.db", "/v1/sessions/{session}/events", "/static/{digest}/{name}"} <= paths
    assert len(table()) >= 45


async def test_every_route_guards_its_answers(tmp_path):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        session = (await running.seal(participants=[])).session
        await running.sessions.void(ALICE, session)
        seen = set()
        for method, path in table():
            address = filled(path, session.hex())
            for sent in ({}, BROWSER, headers(), {"If-None-Match": "*"}, {"Range": "bytes=0-9"}):
                body = {} if method in {"GET", "DELETE"} else {"json": {}}
                async with client.request(method, address, headers=sent, allow_redirects=False, **body) as answer:
                    assert is_guarded(answer), (method, address)
                    seen.add((answer.status, answer.content_type, path))
            async with client.request("HEAD", address) as answer:
                assert is_guarded(answer), ("HEAD", address)
            async with client.request("PROPFIND", address) as answer:
                assert is_guarded(answer), ("PROPFIND", address)
        assert {200, 206, 304, 401, 404} <= {status for status, *_ in seen}
        assert {path for status, _, path in seen if status == 500} == {"/readyz"}, "its chain is not of this world"
        assert {kind for _, kind, _ in seen} >= {
            "text/html", "application/json", "application/problem+json", "text/event-stream", "image/svg+xml",
            "application/vnd.sqlite3", "text/plain", "text/x-python",
        }  # fmt: skip


async def answer_to(url, sent):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(sent)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    first, *lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    named = CIMultiDict(line.split(": ", 1) for line in lines)
    return SimpleNamespace(status=int(first.split()[1]), headers=named)


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_no_request_is_answered_as_guardedly(name):
    async with listening(build_web(Settings(origin="o.example")), "127.0.0.1", 0, 0) as url:
        assert is_guarded(await answer_to(url, MALFORMED[name].replace(b"%s", b"x")))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"DELETE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\nHost: x\r\nExpect: x\r\nContent-Length: 0\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 500),
        (b"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 401),
    ],
)
async def test_what_is_refused_before_any_handler_is_answered_as_guardedly(sent, status):
    """Without services, the only route that needs one of them fails."""
    async with listening(build_web(Settings(origin="o.example")), "127.0.0.1", 0, 0) as url:
        answer = await answer_to(url, sent)
    assert answer.status == status
    assert is_guarded(answer)


async def test_the_metrics_are_as_guarded(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        app = build_web(client.app[SERVICES].settings)
        app[SERVICES] = client.app[SERVICES]
        for path, status in (("/metrics", 200), ("/other", 404)):
            async with listening(build_metrics(app), "127.0.0.1", 0, 0) as url:
                answer = await answer_to(url, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                assert answer.status == status
                assert is_guarded(answer)


async def test_no_answer_shares_itself_with_other_origins(tmp_path):
    """There is no CORS: a page of somebody else's reads nothing with a visitor's browser, tokens least of all."""
    async with service(tmp_path) as running, web_of(running) as client:
        sent = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        for method in ("GET", "OPTIONS"):
            async with client.request(method, PUBLIC, headers=sent) as answer:
                assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
