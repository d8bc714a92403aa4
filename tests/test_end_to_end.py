"""A whole match on real drand rounds: the real service in a process, a relay that may lie, the real verifier."""

import json

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.pages_support import parse
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import QUICKNET

ORIGIN = "beacon.example/real"
RECIPES = {
    "opening": {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True},
    "turn": {"kind": "dice", "count": 2, "sides": 6},
}


async def test_a_match_on_real_quicknet_rounds_in_a_real_process(tmp_path):
    offset = QUICKNET.time(72_752) - SystemClock().now()
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        data = tmp_path / "data"
        vkey = make_data(data, ORIGIN, relay.url, ShiftedClock(offset))
        token = await add_host(data, "alice")
        log = tmp_path / "service.log"
        async with serving("tests.serve_shifted", data, offset, log=log) as server, api(server, token) as host:
            await host.ready()
            players = [{"id": "white"}, {"id": "black"}]
            round_at = ShiftedClock(offset).now() + 9_000
            body = {"recipes": RECIPES, "participants": players, "round_at": round_at, "label": "real"}
            sealed = await host.post("/v1/sessions", body)
            path = f"/v1/sessions/{sealed['session']}"
            assert sealed["state"] == "sealed"
            for player, entropy in (("white", "77"), ("black", "62" * 16)):
                await host.post(f"{path}/contributions", {"participant": player, "entropy": entropy})
            early = await host.post(f"{path}/draws", {"recipe": "turn"}, expect=409)
            assert early["code"] == "draw-before-round"
            relay.lie = "wrong-round"
            await host.reach(sealed["session"], "closed")

            async def due():
                return str(sealed["round"]) in relay.rounds_asked

            await host.until(due)
            assert (await host.view(sealed["session"]))["state"] == "closed"
            relay.lie = None
            await host.reach(sealed["session"], "anchored")
            opening = await host.post(f"{path}/draws", {"recipe": "opening", "purpose": "opening"})
            turns = await host.post(f"{path}/draws", {"recipe": "turn", "count": 20})
            await host.post(f"{path}/reveal")
            document = tmp_path / "transcript.json"
            document.write_bytes(await host.get(f"{path}/transcript"))
            shown = parse((await host.get(f"/s/{sealed['session']}")).decode())
            assert shown.by_id("state").text == "Revealed"
            assert len(shown.classed("draws")[0].classed("die")) == 2 * 21
            for page, said in (("/", "What is promised"), ("/log", "Seed revealed"), ("/hosts/alice", "real")):
                assert said in parse((await host.get(page)).decode()).text
            rounds = parse((await host.get("/rounds")).decode()).text
            assert "In order" in rounds
            assert f"{sealed['round']:,}" in rounds
            assert await server.stop() == 0
        assert token not in log.read_text()

    code, output, errors = await run("verifier", "check", document, "--log-key", vkey, "--chain", "quicknet", "--json")
    verdict = json.loads(output)
    assert code == 0, (verdict, errors)
    states = {claim["claim"]: claim["state"] for claim in verdict["claims"]}
    assert all(states[name] == "PROVEN" for name in ("log", "round", "seed", "outcomes", "complete"))
    shown = [row["outcome"] for row in verdict["session"]["outcomes"]]
    assert shown == opening["outcomes"] + turns["outcomes"]
    code, *_ = await run("beacon", "log", "check", "--dir", data)
    assert code == 0
    seeds = json.loads(document.read_text())["events"][-1]["entry"]
    assert json.loads(seeds)["seed"] not in log.read_text()
