"""What never reaches the application is answered with a problem document as well: HTTP that is none, expectations."""

import asyncio
import json

import pytest
from aiohttp import web

from beacon.settings import Settings
from beacon.web.application import build_web
from beacon.web.measured import REQUESTS
from beacon.web.server import listening
from beacon.web.services import SERVICES
from tests.session_support import service
from tests.web_support import web_of

SECRET = b"5ec2e7-of-the-client"
MALFORMED = {
    "no HTTP": b"%s\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00%s\r\n\r\n",
    "a method that is none": b"G\x01T / HTTP/1.1\r\nHost: %s\r\n\r\n",
    "a method that nobody knows": b"BREW / HTTP/1.1\r\nHost: %s\r\n\r\n",
    "a header with a control character": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: %s\x01\r\n\r\n",
    "a length that is none": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n",
    "a header that is too long": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: %s" + b"a" * 10_000 + b"\r\n\r\n",
    "a line that is too long": b"GET /%s" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "length and chunks at once": b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


async def exchange(url, request):
    """Status, headers (names in lower case) and body of the answer to these bytes; the connection has ended."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, body


def is_problem(status, headers, body, code):
    document = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert (document["status"], document["code"]) == (status, code)
    assert document["next"]
    assert isinstance(document["retryable"], bool)
    assert document["request_id"] == headers["x-request-id"]
    assert headers["server"] == "fair-beacon"
    assert headers["cache-control"] == "no-store"
    return True


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_no_request_gets_a_problem_document_that_does_not_quote_it(name):
    app = build_web(Settings(origin="o.example"))
    async with listening(app, "127.0.0.1", 0, 0) as url:
        status, headers, body = await exchange(url, MALFORMED[name].replace(b"%s", SECRET))
    assert status == 400
    assert is_problem(status, headers, body, "invalid-request")
    assert SECRET not in body
    assert app[REQUESTS].statuses.total() == 1
    assert next(iter(app[REQUESTS].statuses))[1:] == ("none", 400)


async def test_an_expectation_that_cannot_be_met_gets_a_problem_document():
    async with listening(build_web(Settings(origin="o.example")), "127.0.0.1", 0, 0) as url:
        request = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nExpect: %s\r\nContent-Length: 2\r\n\r\n{}" % SECRET
        status, headers, body = await exchange(url, request)
    assert status == 400
    assert is_problem(status, headers, body, "invalid-request")
    assert SECRET not in body


async def test_what_fails_outside_the_application_is_answered_without_its_message(monkeypatch):
    async def broken(_request):
        raise RuntimeError(SECRET.decode())

    monkeypatch.setattr("beacon.web.server.answering", lambda _handle, _requests: broken)
    async with listening(build_web(Settings(origin="o.example")), "127.0.0.1", 0, 0) as url:
        status, headers, body = await exchange(url, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == 500
    assert is_problem(status, headers, body, "internal")
    assert SECRET not in body


@pytest.mark.parametrize("framing", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{"])
@pytest.mark.parametrize("leave", ["close", "abort"])
async def test_a_client_that_leaves_within_its_body_is_no_failure_of_the_service(tmp_path, framing, leave):
    head = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-alice\r\n"
    async with service(tmp_path) as running, web_of(running) as client:
        app = build_web(client.app[SERVICES].settings)
        app[SERVICES] = client.app[SERVICES]
        async with listening(app, "127.0.0.1", 0, 0) as url:
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(head + b"Content-Type: application/json\r\n" + framing)
            await writer.drain()
            await asyncio.sleep(0.1)
            getattr(writer.transport, leave)()
            async with asyncio.timeout(20):
                while not app[REQUESTS].statuses:  # noqa: ASYNC110 - a test's
                    await asyncio.sleep(0.01)
        assert app[REQUESTS].statuses == {("POST", "/v1/sessions", 400): 1}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", "/nowhere", {}, 404, "not-found"),
        ("DELETE", "/healthz", {}, 405, "method-not-allowed"),
        ("GET", "/v1/sessions", {}, 401, "unauthorized"),
        ("GET", "/v1/sessions", {"Authorization": "Bearer token-of-alice.draw"}, 403, "forbidden"),
        ("POST", "/v1/sessions", {"Authorization": "Bearer token-of-alice"}, 415, "unsupported-media-type"),
        ("GET", "/v1/sessions?limit=x", {"Authorization": "Bearer token-of-alice"}, 400, "invalid-request"),
        ("GET", f"/v1/sessions/{'0' * 64}", {}, 404, "session-unknown"),
    ],
)
async def test_every_refusal_is_a_problem_document(tmp_path, method, path, headers, status, code):
    async with (
        service(tmp_path) as running,
        web_of(running) as client,
        client.request(method, path, headers=headers) as answer,
    ):
        assert answer.status == status
        lower = {name.lower(): value for name, value in answer.headers.items()}
        assert is_problem(status, lower, await answer.read(), code)


async def test_the_bare_server_of_the_library_would_answer_in_plain_text():
    """What the rest of this file is for; if this fails, `beacon.web.connections` may be needless."""
    runner = web.AppRunner(build_web(Settings(origin="o.example")), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        _, headers, _ = await exchange(f"http://127.0.0.1:{runner.addresses[0][1]}", MALFORMED["no HTTP"])
    finally:
        await runner.cleanup()
    assert headers["content-type"].startswith("text/plain")
