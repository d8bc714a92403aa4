"""kill -9 while hosts write: what was acknowledged is in the log afterwards, byte for byte, and the log is whole."""

import asyncio
import contextlib
import json

import aiohttp

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import QUICKNET
from verifier.check import Trust, check
from verifier.note import VerifierKey
from verifier.transcript import parse_transcript

ORIGIN = "beacon.example/crash"
LIFE_SECONDS = (0.9, 0.5, 0.2)


async def write_until_it_dies(host, acknowledged):
    """Seal and contribute until the server is gone; every answer that came back is kept."""
    with contextlib.suppress(aiohttp.ClientError, ConnectionError, json.JSONDecodeError, asyncio.TimeoutError):
        for turn in range(10_000):
            body = {"recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}}, "label": f"{turn}"}
            body |= {"participants": [{"id": "white"}, {"id": "black"}]}
            sealed = await host.post("/v1/sessions", body)
            acknowledged.append(sealed)
            path = f"/v1/sessions/{sealed['session']}/contributions"
            acknowledged.append(await host.post(path, {"participant": "white", "entropy": "07"}))
            acknowledged.append(await host.post(path, {"participant": "black", "entropy": "08"}))


async def test_what_was_acknowledged_survives_kill_9(tmp_path):
    offset = QUICKNET.time(72_760) - SystemClock().now()
    data, acknowledged = tmp_path / "data", []
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        vkey = make_data(data, ORIGIN, relay.url, ShiftedClock(offset))
        token = await add_host(data, "alice")
        for life in LIFE_SECONDS:
            async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
                await host.ready()
                writers = [asyncio.create_task(write_until_it_dies(host, acknowledged)) for _ in range(8)]
                await asyncio.sleep(life)
                await server.kill()
                await asyncio.gather(*writers)
            code, output, errors = await run("beacon", "log", "check", "--dir", data)
            assert code == 0, output + errors
        async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
            await host.ready()
            shown = {}
            for session in {answer["session"] for answer in acknowledged}:
                document = await host.get(f"/v1/sessions/{session}/transcript")
                shown |= {event.index: event.data for event in parse_transcript(document).events}
            sequences = [answer["host_seq"] for answer in acknowledged]
            once_more = await host.post("/v1/sessions", {"recipes": {"raw": {"kind": "bytes", "count": 1}}})
            assert once_more["host_seq"] > max(sequences)

    assert len(acknowledged) > 30
    trust = Trust(log_key=VerifierKey.parse(vkey), chains={QUICKNET.hash: QUICKNET})
    for answer in acknowledged:
        receipts = answer.get("receipts", [answer["receipt"]])
        for receipt in receipts:
            (event,) = parse_transcript(json.dumps(receipt).encode()).events
            assert shown[event.index] == event.data
    sample = acknowledged[-1].get("receipts", [acknowledged[-1]["receipt"]])[-1]
    assert check(json.dumps(sample).encode(), trust)["log"].state == "PROVEN"


async def test_a_second_service_on_the_same_data_is_refused(tmp_path):
    offset = QUICKNET.time(72_760) - SystemClock().now()
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        data = tmp_path / "data"
        make_data(data, ORIGIN, relay.url, ShiftedClock(offset))
        async with serving("tests.serve_shifted", data, offset):
            code, output, errors = await run("beacon", "serve", "--dir", data)
            assert code == 2, output
            assert "running" in errors
            assert "Traceback" not in errors
