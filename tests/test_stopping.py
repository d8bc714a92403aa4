"""A graceful stop: what was taken in gets its answer, whoever waits is let go, and nobody can hold the end up for long.

| at SIGTERM | what its client gets |
|---|---|
| a write under way | its answer; what it wrote is in the log, and nothing that no answer told of |
| a request on a connection that has ended | nothing, and nothing was done for it |
| a long poll, a stream of events | its answer as after a wait in vain; the stream's end |
| an answer whose reader does not read | the connection is cut once `listen.shutdown_ms` is over |
"""

import asyncio
import json
import re
from contextlib import closing, suppress

import aiohttp
from aiohttp import web, web_protocol

from beacon.clock import ShiftedClock, SystemClock
from beacon.settings import Settings
from beacon.store.schema import open_readonly
from beacon.web.application import build_web
from beacon.web.server import listening
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import QUICKNET, until
from verifier.entries import Seal, parse_entry

ORIGIN = "beacon.example/stop"
LONG = 24 * 1024 * 1024
SEAL = {"recipes": {"raw": {"kind": "bytes", "count": 1}}, "participants": [{"id": "white"}]}


def seals(path):
    with closing(open_readonly(path)) as db:
        rows = db.execute("SELECT entry FROM entries").fetchall()
    parsed = (parse_entry(row[0]) for row in rows)
    return {entry.label for entry in parsed if isinstance(entry, Seal)}


async def seal_until_the_end(client, url, token, name, answered, refused):
    """Seal over one connection that is kept; each answer is kept, and each request that got none."""
    headers = {"Authorization": f"Bearer {token}"}
    for turn in range(100_000):
        label = f"{name}.{turn}"
        try:
            async with client.post(f"{url}/v1/sessions", json=SEAL | {"label": label}, headers=headers) as answer:
                status, document = answer.status, await answer.json()
        except (aiohttp.ClientConnectionError, ConnectionError):
            refused.append(label)
            return
        if status == 201:
            answered[label] = document["receipt"]["events"][0]
        else:
            assert (status, document["code"]) == (503, "unavailable"), document
            refused.append(label)


async def test_sigterm_under_load_loses_no_answer(tmp_path):
    """What was answered is in the log, and what is in the log was answered, exactly."""
    offset = QUICKNET.time(72_760) - SystemClock().now()
    data, answered, refused = tmp_path / "data", {}, []
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        make_data(data, ORIGIN, relay.url, ShiftedClock(offset))
        token = await add_host(data, "alice")
        for life in range(4):
            async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
                await host.ready()
                before = len(answered)
                connector = aiohttp.TCPConnector(limit=0)
                async with aiohttp.ClientSession(connector=connector) as client:
                    clients = [
                        asyncio.create_task(
                            seal_until_the_end(client, server.url, token, f"{life}.{number}", answered, refused)
                        )
                        for number in range(12)
                    ]
                    await until(lambda before=before: len(answered) > before + 20)
                    assert await server.stop() == 0
                    await asyncio.gather(*clients)
    assert seals(data / "log.db") == set(answered)
    assert len(refused) == 48
    with closing(open_readonly(data / "log.db")) as db:
        for event in answered.values():
            row = db.execute("SELECT entry FROM entries WHERE i = ?", [event["index"]]).fetchone()
            assert row[0] == event["entry"].encode()
    code, output, errors = await run("beacon", "log", "check", "--dir", data, "--no-rounds")
    assert code == 0, output + errors


async def test_sigterm_lets_go_whoever_waits(tmp_path):
    """Long polls and streams end well before `shutdown_ms`, which is longer here than the test has patience."""
    offset = QUICKNET.time(72_760) - SystemClock().now()
    data = tmp_path / "data"
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        make_data(data, ORIGIN, relay.url, ShiftedClock(offset))
        config = data / "beacon.toml"
        config.write_text(re.sub(r"(?m)^shutdown_ms = \d+$", "shutdown_ms = 60000", config.read_text()))
        token = await add_host(data, "alice")
        async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
            await host.ready()
            sealed = await host.post("/v1/sessions", SEAL)
            session = f"/v1/sessions/{sealed['session']}"
            polls = [
                asyncio.create_task(host.get(f"{session}?wait=30&after={sealed['receipt']['events'][0]['index']}")),
                asyncio.create_task(host.get(f"/v1/chains/{QUICKNET.hash.hex()}/rounds/72790?wait=30", expect=404)),
            ]
            stream = await host.client.get(f"{server.url}{session}/events")
            assert stream.status == 200
            assert b"event: seal" in await stream.content.readuntil(b"event: seal")
            idle = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            half = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            half[1].write(b"GET /healthz HTTP/1.1\r\nHost")
            await asyncio.sleep(0.5)
            assert not any(poll.done() for poll in polls)
            assert await server.stop() == 0
            waited, _ = await asyncio.gather(*polls)
            assert json.loads(waited)["state"] == "sealed"
            await stream.content.read()
            for reader, writer in (idle, half):
                assert await asyncio.wait_for(reader.read(), 20) == b""
                writer.close()


async def test_a_reader_that_does_not_read_holds_the_end_up_once(monkeypatch):
    """The library waits for a handler twice; the second wait must have nothing to wait for."""
    sent, expired = asyncio.Event(), []

    class Counted:
        def __init__(self, seconds):
            self.timeout = asyncio.timeout(seconds)

        async def __aenter__(self):
            return await self.timeout.__aenter__()

        async def __aexit__(self, *failure):
            try:
                return await self.timeout.__aexit__(*failure)
            finally:
                expired.extend([True] * self.timeout.expired())

    async def long(request):
        response = web.StreamResponse()
        await response.prepare(request)
        sent.set()
        try:
            await response.write(b"x" * LONG)
        except ConnectionError:
            await asyncio.Event().wait()  # a handler may also hold on to what has ended
        return response

    monkeypatch.setattr(web_protocol, "ceil_timeout", Counted)
    app = build_web(Settings(origin="o.example"))
    app.router.add_get("/long", long)
    async with listening(app, "127.0.0.1", 0, 300) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.transport.pause_reading()
        writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        await sent.wait()
    assert len(expired) <= 1
    writer.transport.resume_reading()
    with suppress(ConnectionError):
        assert len(await asyncio.wait_for(reader.read(), 20)) < LONG
    writer.close()
