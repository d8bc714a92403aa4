"""Whole matches on real drand rounds: the real service, recorded rounds from a relay that may lie, the real verifier."""

import json

import pytest

from beacon.clock import ShiftedClock, SystemClock
from beacon.rounds import Followed, Policy, Rounds
from tests.lying_relay import INFO_LIES, LIES, LyingRelay
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import DEFAULT, QUICKNET, FakeClock, InlineVerifier, MemoryRoundStore
from tests.session_support import ALICE, MemorySeeds, Service

ORIGIN = "beacon.example/real"
RECIPES = {
    "opening": {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True},
    "turn": {"kind": "dice", "count": 2, "sides": 6},
}
PATIENT = Policy(attempts=2, first_backoff=1, max_backoff=1, timeout=300)


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


class Replay:
    """A sessions service that follows a real chain over the lying relay, with a clock that stands still."""

    def __init__(self, path, chain, start, relay, clock):
        self.clock = clock
        store = MemoryRoundStore()
        self.rounds = Rounds(
            [Followed(chain, (relay.url,))],
            store,
            clock,
            policy=PATIENT,
            verifier=InlineVerifier(),
            sleep=clock.sleep,
        )
        self.service = Service(path, clock, self.rounds, MemorySeeds(), chain=chain)

    async def __aenter__(self):
        await self.rounds.start(scheduled=False)
        await self.rounds.tick()
        return self

    async def __aexit__(self, *_):
        await self.rounds.stop()
        self.service.log.close()

    async def tick(self):
        await self.service.keeper.tick()
        await self.rounds.tick()
        await self.service.keeper.tick()


async def test_a_match_on_the_real_default_chain_whose_rounds_are_chained(tmp_path):
    clock = FakeClock(DEFAULT.time(2_183_662) + 900)
    async with (
        LyingRelay([DEFAULT], clock=clock) as relay,
        Replay(tmp_path, DEFAULT, 2_183_662, relay, clock) as replay,
    ):
        service = replay.service
        written = await service.seal(round=2_183_667)
        for player in ("white", "black"):
            await service.contribute(written.session, player)
        for number in range(2_183_663, 2_183_668):
            assert await service.state(written.session) == "closed"
            clock.time = DEFAULT.time(number) + 900
            await replay.tick()
        assert await service.state(written.session) == "anchored"
        await service.draw(written.session, "opening")
        await service.draw(written.session, "turn", 5)
        await service.sessions.reveal(ALICE, written.session)
        verdict = await service.verdict(written.session, chains={DEFAULT.hash: DEFAULT})
        assert verdict.exit == 0, [claim.as_dict() for claim in verdict.claims]
        assert verdict["round"].state == "PROVEN"


async def test_no_lie_of_a_relay_gets_a_round_into_the_log(tmp_path):
    start = 72_790
    clock = FakeClock(QUICKNET.time(start) + 900)
    async with LyingRelay([QUICKNET], clock=clock) as relay, Replay(tmp_path, QUICKNET, start, relay, clock) as replay:
        service = replay.service
        number = start + 4
        written = await service.seal(round=number, participants=[])
        late = QUICKNET.time(number + 1) + 900
        size = service.log.latest().size
        for lie in [*(lie for lie in LIES if lie not in INFO_LIES), 400, 404, 425, 429, 500, 502, 503]:
            clock.time = late
            relay.lie = lie
            await replay.tick()
            assert await service.state(written.session) == "closed", lie
            assert service.log.latest().size == size, lie
        relay.lie = None
        await replay.tick()
        assert await service.state(written.session) == "anchored"
        await service.draw(written.session)
        await service.sessions.reveal(ALICE, written.session)
        assert (await service.verdict(written.session)).exit == 0


@pytest.mark.parametrize("lie", INFO_LIES)
async def test_a_relay_of_another_chain_is_not_believed(tmp_path, lie):
    clock = FakeClock(QUICKNET.time(72_800) + 900)
    async with (
        LyingRelay([QUICKNET], clock=clock, lie=lie) as relay,
        Replay(tmp_path, QUICKNET, 72_800, relay, clock) as replay,
    ):
        assert replay.rounds.trouble(QUICKNET.hash) == "no-verified-round"
        relay.lie = None
        await replay.tick()
        assert replay.rounds.trouble(QUICKNET.hash) is None
