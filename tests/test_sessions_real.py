"""Whole matches over HTTP on the real stores: the app as it is wired, its databases on disk, a relay that may lie.

Only the clock stands still, rounds are verified in this process, and each round is recorded from its real chain.
"""

import contextlib
import json

import pytest
from aiohttp.test_utils import TestServer

from beacon.app import create_app
from beacon.datadir import initialise, pinned_chain
from beacon.log import fsck
from beacon.rounds.fetcher import Policy
from beacon.sessions.book import Book
from beacon.settings import load_settings
from beacon.store.hosts import HostStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from beacon.web.services import SERVICES
from tests.lying_relay import INFO_LIES, LIES, LyingRelay
from tests.process_support import Server, api, run
from tests.round_support import DEFAULT, QUICKNET, FakeClock, InlineVerifier, recorded
from verifier.note import VerifierKey

ORIGIN = "beacon.example/real"
RECIPES = {
    "opening": {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True},
    "turn": {"kind": "dice", "count": 2, "sides": 6},
    "deck": {"kind": "deal", "size": 52, "count": 5},
}
PLAYERS = [{"id": "white"}, {"id": "black"}]
IMPATIENT = Policy(attempts=2, first_backoff=1, max_backoff=1, timeout=300)
CLAIMS = ("log", "round", "seed", "outcomes", "complete")


class Beacon:
    """A data directory on one real chain, and the service on it, which may be started more than once."""

    def __init__(self, folder, chain, relay, clock, *, sandbox_only=False):
        self.chain, self.clock = chain, clock
        followed = pinned_chain(chain.beacon_id, (relay.url,)).model_copy(update={"sandbox_only": sandbox_only})
        self.key = initialise(folder, ORIGIN, [followed], clock)
        self.settings = load_settings(folder)

    async def token(self, name, *, sandbox=False):
        writer = Writer(self.settings.private_db, PRIVATE_SCHEMA)
        with contextlib.closing(Reader(self.settings.private_db)) as reader:
            try:
                return await HostStore(writer, reader, self.clock).add(name, sandbox=sandbox)
            finally:
                await writer.aclose()

    @contextlib.asynccontextmanager
    async def running(self, token, *, ready=True):
        """The HTTP API of the service as the token's host; `ready`: once the newest round is in."""
        app = create_app(
            self.settings, self.clock, policy=IMPATIENT, verifier=InlineVerifier(), monotonic=self.clock.now
        )
        async with TestServer(app) as server, api(Server(None, str(server.make_url("")).rstrip("/")), token) as host:
            self.services = app[SERVICES]
            await self.services.rounds.tick()
            if ready:
                await host.ready()
            yield host

    async def come(self, number):
        """Let a round fall due and be asked for."""
        self.clock.time = self.chain.time(number) + 900
        await self.services.rounds.tick()

    @property
    def size(self):
        return self.services.log.latest().size

    def fsck(self):
        """Check the whole log file with the projection that the service has; the report."""
        report = fsck.check(self.settings.log_db, VerifierKey.parse(self.key), [Book()])
        assert report.findings == []
        assert report.derived_checked
        return report


async def contribute(host, path, player):
    return await host.post(f"{path}/contributions", {"participant": player, "entropy": player.encode().hex()})


async def verified(folder, host, path, key, chain):
    """The verdict of the verifier, in a process of its own, on a session's transcript."""
    document = folder / "transcript.json"
    document.write_bytes(await host.get(f"{path}/transcript"))
    arguments = ("--log-key", key, "--chain", chain.beacon_id, "--json")
    code, output, errors = await run("verifier", "check", document, *arguments)
    verdict = json.loads(output)
    assert code == 0, (verdict, errors)
    states = {claim["claim"]: claim["state"] for claim in verdict["claims"]}
    assert {states[name] for name in CLAIMS} == {"PROVEN"}
    return verdict


async def test_a_match_on_the_real_default_chain_whose_rounds_are_chained(tmp_path):
    clock = FakeClock(DEFAULT.time(2_183_662) + 900)
    async with LyingRelay([DEFAULT], clock=clock) as relay:
        beacon = Beacon(tmp_path / "data", DEFAULT, relay, clock)
        async with beacon.running(await beacon.token("alice")) as host:
            body = {"recipes": RECIPES, "participants": PLAYERS, "round": 2_183_667, "chain": "default"}
            session = (await host.post("/v1/sessions", body))["session"]
            path = f"/v1/sessions/{session}"
            for player in ("white", "black"):
                await contribute(host, path, player)
            for number in range(2_183_663, 2_183_667):
                await beacon.come(number)
                assert (await host.view(session))["state"] == "closed"
                early = await host.post(f"{path}/draws", {"recipe": "turn"}, expect=409)
                assert early["code"] == "draw-before-round"
            await beacon.come(2_183_667)
            await host.reach(session, "anchored")
            opening = await host.post(f"{path}/draws", {"recipe": "opening", "purpose": "who starts"})
            turns = await host.post(f"{path}/draws", {"recipe": "turn", "count": 20})
            await host.post(f"{path}/reveal")
            verdict = await verified(tmp_path, host, path, beacon.key, DEFAULT)
        shown = [row["outcome"] for row in verdict["session"]["outcomes"]]
        assert shown == opening["outcomes"] + turns["outcomes"]
        assert beacon.fsck().size == 1 + 1 + 1 + 2 + 1 + 1 + 2 + 1


async def test_no_lie_of_a_relay_gets_a_round_into_the_log(tmp_path):
    start, number = 72_790, 72_794
    clock = FakeClock(QUICKNET.time(start) + 900)
    async with LyingRelay([QUICKNET], clock=clock) as relay:
        beacon = Beacon(tmp_path / "data", QUICKNET, relay, clock)
        async with beacon.running(await beacon.token("alice")) as host:
            sealed = await host.post("/v1/sessions", {"recipes": RECIPES, "round": number})
            session, path = sealed["session"], f"/v1/sessions/{sealed['session']}"
            size = beacon.size

            async def wanted():
                return number in beacon.services.rounds.status(QUICKNET.hash).wanted

            await host.until(wanted)
            for lie in [*(lie for lie in LIES if lie not in INFO_LIES), 400, 404, 425, 429, 500, 502, 503]:
                relay.lie = lie
                asked = len(relay.rounds_asked)
                await beacon.come(number + 1)
                assert str(number) in relay.rounds_asked[asked:], lie
                assert (await host.view(session))["state"] == "closed", lie
                assert beacon.size == size, lie
                newest = beacon.services.rounds.newest(QUICKNET.hash)
                assert newest.signature == recorded(QUICKNET, newest.round).signature, lie
                assert await beacon.services.rounds.get(QUICKNET.hash, number) is None, lie
            relay.lie = None
            await beacon.come(number + 1)
            await host.reach(session, "anchored")
            await host.post(f"{path}/draws", {"recipe": "turn"})
            await host.post(f"{path}/reveal")
            await verified(tmp_path, host, path, beacon.key, QUICKNET)
        assert beacon.fsck().size == size + 3


@pytest.mark.parametrize("lie", INFO_LIES)
async def test_a_relay_of_another_chain_is_not_believed(tmp_path, lie):
    clock = FakeClock(QUICKNET.time(72_800) + 900)
    async with LyingRelay([QUICKNET], clock=clock, lie=lie) as relay:
        beacon = Beacon(tmp_path / "data", QUICKNET, relay, clock)
        async with beacon.running(await beacon.token("alice"), ready=False) as host:
            refused = await host.post("/v1/sessions", {"recipes": RECIPES}, expect=503)
            assert refused["code"] == "no-verified-round"
            assert (relay.rounds_asked, beacon.size) == ([], 1)
            relay.lie = None
            await beacon.come(72_800)
            assert (await host.post("/v1/sessions", {"recipes": RECIPES}))["state"] == "closed"


@pytest.mark.parametrize("moment", ["sealed", "closed", "anchored", "drawing", "revealed", "void"])
async def test_a_restart_in_each_state_goes_on_from_the_disk(tmp_path, moment):
    start = 72_750
    clock = FakeClock(QUICKNET.time(start) + 900)
    passed = ["sealed", "closed", "anchored", "drawing", "revealed"][
        : ["sealed", "closed", "anchored", "drawing", "revealed", "void"].index(moment) + 1
    ]
    async with LyingRelay([QUICKNET], clock=clock) as relay:
        beacon = Beacon(tmp_path / "data", QUICKNET, relay, clock)
        token = await beacon.token("alice")
        async with beacon.running(token) as host:
            sealed = await host.post("/v1/sessions", {"recipes": RECIPES, "participants": PLAYERS})
            session, number = sealed["session"], sealed["round"]
            path = f"/v1/sessions/{session}"
            await contribute(host, path, "white")
            if moment == "void":
                await host.post(f"{path}/void", {"reason": "host"})
            else:
                await _go_on(beacon, host, session, number, passed[1:])
            before = await host.view(session)
            assert before["state"] == moment
        size = beacon.fsck().size

        async with beacon.running(token) as host:
            assert await host.view(session) == before
            assert beacon.size == size
            if moment == "void":
                refused = await host.post(f"{path}/draws", {"recipe": "turn"}, expect=409)
                assert refused["code"] == "session-void"
            else:
                left = ["closed", "anchored", "drawing", "revealed"][len(passed) - 1 :]
                await _go_on(beacon, host, session, number, left)
                verdict = await verified(tmp_path, host, path, beacon.key, QUICKNET)
                assert [row["n"] for row in verdict["session"]["outcomes"]] == [1, 2]
            again = await host.post("/v1/sessions", {"recipes": RECIPES, "replaces": session})
            assert (again["host_seq"], again["replaces"]) == (2, session)
        beacon.fsck()


async def _go_on(beacon, host, session, number, states):
    """Take a session through the given states, each the one after the other."""
    path = f"/v1/sessions/{session}"
    for state in states:
        if state == "closed":
            await contribute(host, path, "black")
        if state == "anchored":
            await beacon.come(number)
            await host.reach(session, "anchored")
        if state == "drawing":
            await host.post(f"{path}/draws", {"recipe": "deck", "count": 2})
        if state == "revealed":
            await host.post(f"{path}/reveal")
        assert (await host.view(session))["state"] == state


@pytest.mark.parametrize("named", ["quicknet", QUICKNET.hash.hex(), None])
async def test_a_chain_for_the_sandbox_takes_no_other_hosts(tmp_path, named):
    clock = FakeClock(QUICKNET.time(72_750) + 900)
    async with LyingRelay([QUICKNET], clock=clock) as relay:
        beacon = Beacon(tmp_path / "data", QUICKNET, relay, clock, sandbox_only=True)
        live, sandbox = await beacon.token("alice"), await beacon.token("carol", sandbox=True)
        body = {"recipes": RECIPES} | ({} if named is None else {"chain": named})
        async with beacon.running(live) as host:
            size = beacon.size
            refused = await host.post("/v1/sessions", body, expect=403)
            assert refused["code"] == "sandbox-only-chain"
            assert beacon.size == size
            host.headers["Authorization"] = f"Bearer {sandbox}"
            assert (await host.post("/v1/sessions", body))["sandbox"] is True
