"""Requests that two readers could read differently, and clients that take their time: bytes on a socket, a real server.

Whatever stands in front of the service may see one request where the service sees two. So what is not framed in the one
plain way is refused, the connection ends with it, and nothing that came behind it is taken for a request.
"""

import asyncio
import contextlib
import dataclasses
import re

import pytest
from aiohttp import http_parser

from beacon.settings import Settings
from beacon.web import connections, server
from beacon.web.application import build_web
from beacon.web.measured import REQUESTS
from beacon.web.server import listening
from beacon.web.services import SERVICES
from tests.session_support import service
from tests.test_connections import exchange, is_problem
from tests.web_support import web_of

HIDDEN = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
ROUTE = ("GET", "/problems/{code}", 200)
"""What the hidden request would have been counted as."""
POST = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

AMBIGUOUS = {
    "length, then chunks": POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "chunks, then length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n",
    "two lengths that agree": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "two lengths that do not": POST + b"Content-Length: 2\r\nContent-Length: 70\r\n\r\n{}",
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a length with a plus": POST + b"Content-Length: +2\r\n\r\n{}",
    "a length below zero": POST + b"Content-Length: -2\r\n\r\n{}",
    "a length in hex": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "a length with an underscore": POST + b"Content-Length: 0_2\r\n\r\n{}",
    "a length with a space in it": POST + b"Content-Length: 0 2\r\n\r\n{}",
    "a length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "an empty length": POST + b"Content-Length: \r\n\r\n{}",
    "a space before the colon of a length": POST + b"Content-Length : 2\r\n\r\n{}",
    "a space before the colon of an encoding": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "an encoding that nobody knows": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding with a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked that is not the last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunks of HTTP/1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": GET + b"X-A: 1\r\n 2\r\n\r\n",
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a chunk's size with a prefix": CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk's size with a plus": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "a chunk's size below zero": CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
    "a chunk's size with an underscore": CHUNKED + b"0_2\r\n{}\r\n0\r\n\r\n",
    "a chunk's size after a space": CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
    "a chunk's size before a space": CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n",
    "a chunk's size beyond 64 bits": CHUNKED + b"fffffffffffffffff2\r\n{}\r\n0\r\n\r\n",
    "a chunk without a size": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "chunks of bare line feeds": CHUNKED + b"2\n{}\n0\n\n",
    "a line feed in a chunk's extension": CHUNKED + b"2;\nxx\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "a chunk without an end": CHUNKED + b"2\r\n{}X0\r\n\r\n",
    "a NUL in a value": GET + b"X-A: a\x00b\r\n\r\n",
    "a NUL in a name": GET + b"X\x00A: a\r\n\r\n",
    "a NUL in a path": b"GET /v1/noth\x00ing HTTP/1.1\r\nHost: x\r\n\r\n",
    "bare line feeds": b"GET /v1/nothing HTTP/1.1\nHost: x\n\n",
    "one bare line feed": GET + b"X-A: a\nX-B: b\r\n\r\n",
    "a bare carriage return": GET + b"X-A: a\rX-B: b\r\n\r\n",
    "a space in a name": GET + b"X A: a\r\n\r\n",
    "no name": GET + b": a\r\n\r\n",
    "a line that begins with a space": b"GET /v1/nothing HTTP/1.1\r\n Host: x\r\n\r\n",
    "no host": b"GET /v1/nothing HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: y\r\n\r\n",
    "tabs between the words": b"GET\t/v1/nothing\tHTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET /v1/nothing\r\n\r\n",
    "HTTP/1.2": b"GET /v1/nothing HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/1.10": b"GET /v1/nothing HTTP/1.10\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "five thousand headers": GET + b"".join(b"X-%d: a\r\n" % i for i in range(5_000)) + b"\r\n",
    "a header of forty thousand bytes": GET + b"X-A: " + b"a" * 40_000 + b"\r\n\r\n",
}

PLAIN = {
    "a body of its length": (POST + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN, ["401"]),
    "a body without an order to read it": (GET + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN, ["404"]),
    "a chunk": (CHUNKED + b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n", ["401"]),
    "a chunk with an extension": (CHUNKED + b"%x;a=b\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n", ["401"]),
    "an encoding in capitals": (POST + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", ["401"]),
    "an address with a host": (b"GET http://evil.example/v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n", ["404"]),
    "requests on one connection": ((GET + b"\r\n") * 100, ["404"] * 100),
}


def statuses(answer):
    return re.findall(r"HTTP/1\.1 (\d{3}) ", answer.decode())


def test_the_parser_is_the_one_that_these_tests_are_about():
    """The library's own substitute in pure Python reads some lengths without a limit."""
    assert http_parser.HttpRequestParser is http_parser.HttpRequestParserC


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_read(name):
    app = build_web(Settings(origin="o.example"))
    async with listening(app, "127.0.0.1", 0, 0) as url:
        status, headers, body = await exchange(url, AMBIGUOUS[name] + HIDDEN)
    assert status == 400
    assert is_problem(status, headers, body, "invalid-request")
    assert ROUTE not in app[REQUESTS].statuses
    assert app[REQUESTS].statuses.total() == 1


@pytest.mark.parametrize("name", PLAIN)
async def test_what_can_be_read_in_one_way_ends_where_it_says(name):
    app = build_web(Settings(origin="o.example"))
    sent, expected = PLAIN[name]
    async with listening(app, "127.0.0.1", 0, 0) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(sent + HIDDEN)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
    assert statuses(answer) == [*expected, "200"]
    assert app[REQUESTS].statuses[ROUTE] == 1


async def test_bytes_that_come_one_by_one_are_the_same_request():
    app = build_web(Settings(origin="o.example"))
    sent = CHUNKED + b"2\r\n{}\r\n0\r\n\r\n" + HIDDEN
    async with listening(app, "127.0.0.1", 0, 0) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        for byte in sent:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
    assert statuses(answer) == ["401", "200"]


async def test_an_upgrade_is_not_taken_and_the_connection_stays_what_it_was():
    app = build_web(Settings(origin="o.example"))
    async with listening(app, "127.0.0.1", 0, 0) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert statuses(await asyncio.wait_for(reader.readuntil(b"}"), 20)) == ["404"]
        writer.write(HIDDEN)
        assert statuses(await asyncio.wait_for(reader.read(), 20)) == ["200"]
        writer.close()


# clients that take their time


@contextlib.asynccontextmanager
async def serving(tmp_path, **limits):
    """Where a real service listens."""
    async with service(tmp_path) as running, web_of(running) as client:
        settings = client.app[SERVICES].settings
        settings = settings.model_copy(update={"limits": settings.limits.model_copy(update=limits)})
        app = build_web(settings)
        app[SERVICES] = dataclasses.replace(client.app[SERVICES], settings=settings)
        async with listening(app, "127.0.0.1", 0, 0) as url:
            yield "127.0.0.1", int(url.rpartition(":")[2])


async def drip(place, head, more):
    """Send `head`, then `more` for ever, a piece at a time; what was answered when the other side ends it."""
    reader, writer = await asyncio.open_connection(*place)
    writer.write(head)

    async def send():
        with contextlib.suppress(ConnectionError):
            while not writer.transport.is_closing():
                writer.write(more)
                await writer.drain()
                await asyncio.sleep(0.02)

    sending = asyncio.create_task(send())
    answer = b""
    try:
        with contextlib.suppress(ConnectionError):
            while piece := await asyncio.wait_for(reader.read(65_536), 20):
                answer += piece
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()
    return answer


FIRST = b"GET /problems/not-found HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
TOKEN = b"Authorization: Bearer token-of-alice\r\n"


@pytest.mark.parametrize(
    ("head", "more", "answered"),
    [
        (b"GET /", b"a", []),
        (GET, b"X-A: a\r\n", []),
        (GET + b"X-A: ", b"a", []),
        (FIRST + GET, b"X-A: a\r\n", ["200"]),
    ],
)
async def test_a_head_that_comes_slowly_is_given_up(tmp_path, monkeypatch, head, more, answered):
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.5)
    async with serving(tmp_path) as place:
        assert statuses(await drip(place, head, more)) == answered


@pytest.mark.parametrize("framing", [BODY, BODY.replace(b"Content-Length: 100000", b"Transfer-Encoding: chunked")])
async def test_a_body_that_comes_slowly_is_given_up(tmp_path, monkeypatch, framing):
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.2)
    more = b"1\r\n \r\n" if b"chunked" in framing else b" "
    async with serving(tmp_path, body_ms=400) as place:
        answer = await drip(place, POST + TOKEN + framing, more)
    assert statuses(answer) == ["408"]
    assert b'"code":"request-timeout"' in answer


@pytest.mark.parametrize(("head", "status"), [(POST + BODY, "401"), (GET + BODY, "404")])
async def test_a_body_that_nobody_waits_for_holds_the_connection_for_a_moment(tmp_path, monkeypatch, head, status):
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.2)
    async with serving(tmp_path) as place:
        assert statuses(await drip(place, head, b" ")) == [status]


async def test_a_client_that_asks_and_does_not_read_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.3)
    async with serving(tmp_path) as place:
        reader, writer = await asyncio.open_connection(*place)
        writer.transport.pause_reading()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                while not writer.transport.is_closing():
                    writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                    await writer.drain()
        assert writer.transport.is_closing()
        assert reader.at_eof() or reader.exception() is not None
        writer.transport.abort()


async def test_a_client_that_does_not_read_keeps_nobody_from_stopping(tmp_path):
    """`listening` is given no time for requests under way, which is not to mean any time."""
    async with asyncio.timeout(40):
        async with serving(tmp_path) as place:
            _, writer = await asyncio.open_connection(*place)
            writer.transport.pause_reading()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    while not writer.transport.is_closing():
                        writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                        await writer.drain()
            assert not writer.transport.is_closing()
        writer.transport.abort()


async def test_a_client_that_reads_slowly_gets_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "STALLED_SECONDS", 5.0)
    asked = 20
    async with serving(tmp_path) as place:
        reader, writer = await asyncio.open_connection(*place)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n%s\r\n"
        writer.write(request % b"" * (asked - 1) + request % b"Connection: close\r\n")
        answer = b""
        while piece := await asyncio.wait_for(reader.read(100_000), 20):
            answer += piece
            await asyncio.sleep(0.01)
        writer.close()
    assert statuses(answer) == ["200"] * asked
