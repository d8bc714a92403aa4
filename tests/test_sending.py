"""Long answers and idle connections: what clients that do not read, or do not ask, can hold of the service."""

import asyncio
import contextlib

import pytest

from beacon.web import sending, server
from beacon.web.application import build_web
from beacon.web.sending import HELD
from beacon.web.server import listening
from beacon.web.services import SERVICES
from tests.round_support import until
from tests.session_support import ALICE, service
from tests.web_support import read_events, web_of

LONG = b"x" * (24 * 1024 * 1024)
"""More than the system takes for a connection whose client does not read."""
NAMED = "00" * 32
TRANSCRIPT = f"/v1/sessions/{NAMED}/transcript"


@contextlib.asynccontextmanager
async def long_transcripts(tmp_path, monkeypatch, **rates):
    """A service whose transcripts are all LONG: its application, and where it listens."""

    async def transcript(_session):
        return LONG

    async with service(tmp_path) as running, web_of(running, rates=rates) as client:
        monkeypatch.setattr(running.sessions, "transcript", transcript)
        app = build_web(client.app[SERVICES].settings)
        app[SERVICES] = client.app[SERVICES]
        async with listening(app, "127.0.0.1", 0, 0) as url:
            yield app, ("127.0.0.1", int(url.rpartition(":")[2]))


async def ask(place, path=TRANSCRIPT, *, read=True):
    reader, writer = await asyncio.open_connection(*place)
    if not read:
        writer.transport.pause_reading()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    return reader, writer


async def answer(place, path=TRANSCRIPT):
    reader, writer = await ask(place, path)
    head, _, body = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n")
    writer.close()
    return head.decode().lower(), body


async def test_a_long_answer_arrives_whole(tmp_path, monkeypatch):
    async with long_transcripts(tmp_path, monkeypatch) as (app, place):
        head, body = await answer(place)
        assert head.startswith("http/1.1 200 ")
        assert f"content-length: {len(LONG)}" in head
        assert "content-type: application/json; charset=utf-8" in head
        assert body == LONG
        assert len(app[HELD]) == 0


async def test_readers_that_do_not_read_hold_so_much_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "MAX_HELD_FOR_ADDRESS", 3 * len(LONG))
    async with long_transcripts(tmp_path, monkeypatch) as (app, place):
        slow = [await ask(place, read=False) for _ in range(3)]
        await until(lambda: len(app[HELD]) == 3 * len(LONG))
        head, body = await answer(place)
        assert head.startswith("http/1.1 429 ")
        assert "retry-after: 5" in head
        assert b'"code":"rate-limited"' in body
        for _, writer in slow:
            writer.transport.abort()
        await until(lambda: len(app[HELD]) == 0)
        assert (await answer(place))[1] == LONG


async def test_all_addresses_together_hold_so_much_and_no_more():
    held = sending.Held()
    with contextlib.ExitStack() as stack:
        for number in range(4):
            stack.enter_context(held.take(f"10.0.0.{number}", sending.MAX_HELD // 4))
        with pytest.raises(sending.ApiError, match="rate-limited"), held.take("10.0.0.9", 1):
            pass
    assert len(held) == 0


async def test_a_reader_that_is_too_slow_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(sending, "LEAST_RATE", 10 * len(LONG))
    async with long_transcripts(tmp_path, monkeypatch) as (app, place):
        reader, writer = await ask(place, read=False)
        await until(lambda: len(app[HELD]) == len(LONG))
        await until(lambda: len(app[HELD]) == 0)
        writer.transport.resume_reading()
        with contextlib.suppress(ConnectionError):
            assert len(await asyncio.wait_for(reader.read(), 20)) < len(LONG)
        writer.close()


async def test_a_transcript_counts_for_as_many_requests_as_it_is_long(tmp_path, monkeypatch):
    async with long_transcripts(tmp_path, monkeypatch, address_per_minute=1_000) as (_, place):
        assert (await answer(place))[1] == LONG
        assert (await answer(place))[0].startswith("http/1.1 429 ")


async def test_events_that_are_read_again_count_for_requests(tmp_path):
    async with service(tmp_path) as running:
        session = (await running.seal(participants=[], open=True)).session
        for number in range(300):
            await running.contribute(session, f"p{number}")
        await running.sessions.void(ALICE, session)
        async with web_of(running, rates={"address_per_minute": 30}) as client:
            path = f"/v1/sessions/{session.hex()}/events"
            assert len(await read_events(await client.get(f"{path}?after=295"))) == 9
            assert len(await read_events(await client.get(path))) == 303
            assert (await client.get(path)).status == 429


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nX-A",
    ],
)
async def test_a_connection_on_which_no_request_is_made_is_closed(tmp_path, monkeypatch, sent):
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.2)
    async with long_transcripts(tmp_path, monkeypatch) as (_, place):
        reader, writer = await asyncio.open_connection(*place)
        writer.write(sent)
        await asyncio.wait_for(reader.read(), 20)
        writer.close()
