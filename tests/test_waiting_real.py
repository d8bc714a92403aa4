"""Waiting, events and webhooks of the real service in a process, which is killed and started again in between."""

import asyncio
import json
import re

from aiohttp import web

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET
from tests.test_webhooks import Receiver, signed_by
from tests.web_support import read_events
from verifier.transcript import parse_transcript

LIVE = {
    "profile": "live",
    "links": 8,
    "participants": [],
    "recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}},
}


def allow_loopback(data):
    config = data / "beacon.toml"
    text = re.sub(r"(?m)^allow_http = false$", "allow_http = true", config.read_text())
    config.write_text(re.sub(r"(?m)^(# )?allow_networks = .*$", 'allow_networks = "127.0.0.0/8"', text))


async def test_a_live_draw_in_one_request_is_streamed_and_sent_and_a_kill_loses_none_of_it(tmp_path):
    offset = QUICKNET.time(72_752) - SystemClock().now()
    receiver = Receiver()
    await receiver.server.start_server()
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        data, log = tmp_path / "data", tmp_path / "service.log"
        make_data(data, "beacon.example/live", relay.url, ShiftedClock(offset))
        allow_loopback(data)
        token = await add_host(data, "alice")
        async with serving("tests.serve_shifted", data, offset, log=log) as server, api(server, token) as host:
            await host.ready()
            hook = await host.post("/v1/webhooks", {"url": receiver.url})
            session = (await host.post("/v1/sessions", LIVE))["session"]
            path = f"/v1/sessions/{session}"
            async with host.client.get(f"{server.url}{path}/events") as stream:
                drawn = await host.post(f"{path}/draws?wait=30", {"recipe": "turn", "purpose": "white 1"})
                assert (drawn["call"]["draw"], drawn["n"], len(drawn["outcomes"])) == (1, 1, 1)
                streamed = await read_events(stream, most=4)
            assert [kind for _, kind, _ in streamed] == ["seal", "call", "round", "draw"]
            assert json.loads(streamed[-1][2]["entry"])["outcomes"] == drawn["outcomes"]
            await delivered(receiver, 3)
            receiver.default = unavailable
            await host.post(f"{path}/draws", {"recipe": "turn"})
            await server.kill()
        receiver.default = web.Response
        async with serving("tests.serve_shifted", data, offset, log=log) as server, api(server, token) as host:
            await host.ready()
            after = {"Last-Event-ID": streamed[-1][0]}
            async with host.client.get(f"{server.url}{path}/events", headers=after) as stream:
                drawn = await read_events(stream, most=3)
                await host.post(f"{path}/reveal", {})
                streamed += drawn + await read_events(stream)
            async with host.client.get(f"{server.url}{path}/events", headers={"Last-Event-ID": streamed[-2][0]}) as end:
                assert end.status == 204
            events = parse_transcript(await host.get(f"{path}/transcript")).events
            assert [int(index) for index, *_ in streamed[:-1]] == [event.index for event in events]
            own = [event.index for event in events if event.entry.type != "round"]
            await delivered(receiver, len(own))
            assert await server.stop() == 0
    assert sorted({body["data"]["index"] for body in receiver.bodies()}) == own
    assert all(signed_by(sent, body, hook["secret"]) for _, sent, body in receiver.requests)
    ids = {body["data"]["index"]: set() for body in receiver.bodies()}
    for body, (_, sent, _) in zip(receiver.bodies(), receiver.requests, strict=True):
        ids[body["data"]["index"]].add(sent["webhook-id"])
    assert all(len(names) == 1 for names in ids.values())
    text = log.read_text()
    assert hook["secret"] not in text
    assert token not in text
    await receiver.server.close()


def unavailable():
    return web.Response(status=503)


async def delivered(receiver, count):
    async with asyncio.timeout(60):
        while len({body["data"]["index"] for body in receiver.bodies()}) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
