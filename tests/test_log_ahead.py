"""A log whose newest entry is ahead of the clock: entries cannot be earlier (6.2), so seals may have to wait (6.11)."""

import json

import pytest

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET

BODY = {"recipes": {"raw": {"kind": "bytes", "count": 1}}}


@pytest.mark.parametrize(("ahead", "ready"), [(5_000, True), (600_000, False)])
async def test_readyz_says_what_a_seal_is_told(tmp_path, ahead, ready):
    offset = QUICKNET.time(72_760) - SystemClock().now()
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        make_data(tmp_path / "data", "beacon.example/ahead", relay.url, ShiftedClock(offset + ahead))
        token = await add_host(tmp_path / "data", "alice")
        async with serving("tests.serve_shifted", tmp_path / "data", offset) as server, api(server, token) as host:

            async def first_round():
                (chain,) = json.loads(await host.get("/v1/chains"))["chains"]
                return chain["newest_round"] is not None

            await host.until(first_round)
            document = json.loads(await host.get("/readyz", expect=200 if ready else 503))
            (chain,) = json.loads(await host.get("/v1/chains"))["chains"]
            assert document["ready"] is ready
            assert chain["trouble"] == document["chains"]["quicknet"]["trouble"] == (None if ready else "clock-unsure")
            refusal = await host.post("/v1/sessions", BODY, expect=201 if ready else 503)
            if not ready:
                assert refusal["code"] == "clock-unsure"
                detail = document["chains"]["quicknet"]["detail"]
                assert detail.startswith("the log's newest entry is ")
                assert 500 < int(detail.split()[5]) <= 600
