"""A whole service in this process on a data directory: real HTTP, a devnet, real witnesses, and a clock that can leap.

A world is a folder: data (the service's), w1 and w2 (its witnesses'), devnet.json (the chain's key).
"""

import asyncio
import contextlib
import json
import re
import time
from pathlib import Path

from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from beacon.app import create_app
from beacon.cli_hosts import main as hosts_command
from beacon.clock import ShiftedClock, SystemClock
from beacon.datadir import initialise, own_chain, pinned_chain
from beacon.rounds.devnet import Devnet, Network
from beacon.settings import load_settings
from beacon.web.witness_routes import build_witness
from beacon.witness import directory as places
from tests.lying_relay import LyingRelay
from tests.round_support import QUICKNET
from verifier.note import VerifierKey

DEAD = "http://127.0.0.1:1"
WITNESSES = ("w1", "w2")


class LeapingClock(ShiftedClock):
    """Runs as this machine's, from another moment on; `leap` moves it forward at once."""

    def __init__(self, time_ms):
        super().__init__(time_ms - SystemClock().now())

    def leap(self, milliseconds):
        self._offset_ms += milliseconds


def make_world(folder, origin, genesis_ms, clock, secret=0xFA12):
    """Make the folder's data directory, devnet and witnesses; nothing listens where its settings say yet."""
    folder.mkdir(parents=True, exist_ok=True)
    network = Network.make(secret, bytes(32), genesis_ms // 1000, 3)
    network.save(folder / "devnet.json")
    info = folder / "devnet.chain.json"
    info.write_text(json.dumps(network.chain.as_dict()))
    chains = [own_chain(info, [DEAD]).model_copy(update={"sandbox_only": False}), pinned_chain("quicknet", [DEAD])]
    vkey = VerifierKey.parse(initialise(folder / "data", origin, chains, clock))
    keys = []
    for name in WITNESSES:
        keys.append(places.make(folder / name, f"{name}.example/witness"))
        with places.opened(folder / name, clock, exclusive=True) as (_, writer):
            places.add_log(writer, vkey, origin, clock)
    lines = [f"witness {name} {key} {DEAD}\n" for name, key in zip(WITNESSES, keys, strict=True)]
    text = "".join([f"log {vkey}\n", *lines, "group both all w1 w2\nquorum both\n"])
    (folder / "data" / "witnesses.policy").write_text(text)
    config = folder / "data" / "beacon.toml"
    written = config.read_text().replace('# policy = "witnesses.policy"', 'policy = "witnesses.policy"')
    for name, value in (("every_ms", 50), ("room_ms", 1000), ("port", 0), ("round_lead_ms", 6000)):
        written = re.sub(rf"(?m)^{name} = \d+$", f"{name} = {value}", written)
    written = written.replace("allow_http = false", "allow_http = true")
    written = written.replace('allow_networks = ""', 'allow_networks = "127.0.0.0/8"')
    config.write_text(written)


def point(folder, chains, witnesses):
    """Have the settings name these relays (chain name -> URL) and witnesses (name -> URL)."""
    config = folder / "data" / "beacon.toml"
    text = config.read_text()
    for name, url in chains.items():
        text = re.sub(rf'(name = "{name}".*?\nrelays = )\[[^\]]*\]', rf'\g<1>["{url}"]', text, flags=re.DOTALL)
    config.write_text(text)
    policy = folder / "data" / "witnesses.policy"
    text = policy.read_text()
    for name, url in witnesses.items():
        text = re.sub(rf"(?m)^(witness {name} \S+) .*$", rf"\g<1> {url}", text)
    policy.write_text(text)


class Host:
    """The API as one host."""

    def __init__(self, client, token):
        self.client, self.headers = client, {"Authorization": f"Bearer {token}"}

    async def post(self, path, body=None, expect=201):
        async with self.client.post(path, json=body or {}, headers=self.headers) as answer:
            result = await answer.json()
            assert answer.status == expect, result
            return result

    async def seal(self, **body):
        return await self.post("/v1/sessions", {"recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}}} | body)


class World:
    """What runs on a folder. `client`: of the service's API."""

    def __init__(self, folder, clock, network, devnet, client):
        self.folder, self.clock, self.network, self.devnet, self.client = folder, clock, network, devnet, client

    def host(self, name):
        return Host(self.client, json.loads((self.folder / "tokens.json").read_text())[name])

    async def get(self, path, expect=200, **options):
        async with self.client.get(path, **options) as answer:
            body = await answer.read()
            assert answer.status == expect, body
            return body

    async def view(self, session):
        return json.loads(await self.get(f"/v1/sessions/{session}"))

    async def reach(self, session, *states):
        await until(lambda: self._in(session, states))
        return await self.view(session)

    async def _in(self, session, states):
        return (await self.view(session))["state"] in states

    async def leap(self, milliseconds):
        """Move the clock, and wait until the devnet's rounds are known again."""
        self.clock.leap(milliseconds)
        await until(self._fresh)

    async def leap_to(self, time_ms):
        await self.leap(max(0, time_ms - self.clock.now()))

    async def _fresh(self):
        chain = self.network.chain
        async with self.client.get("/v1/chains") as answer:
            (known,) = [one for one in (await answer.json())["chains"] if one["name"] == "devnet"]
        newest = known["newest_round"]
        return newest is not None and newest >= chain.current(self.clock.now()) - 1

    async def transcript(self, session):
        return await self.get(f"/v1/sessions/{session}/transcript?wait=10")


async def until(condition, seconds=30):
    """Poll a coroutine function until it holds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen in time")


@contextlib.asynccontextmanager
async def witnesses_of(folder, clock, names=WITNESSES):
    """name -> URL of the witnesses of a folder, while the block runs."""
    async with contextlib.AsyncExitStack() as stack:
        urls = {}
        for name in names:
            witness, _ = stack.enter_context(places.opened(folder / name, clock, exclusive=True))
            server = TestServer(build_witness(witness, 0))
            await server.start_server()
            stack.push_async_callback(server.close)
            urls[name] = str(server.make_url("")).rstrip("/")
        yield urls


@contextlib.asynccontextmanager
async def running(folder, clock, *, witnesses=WITNESSES, quicknet=False):
    """The world of a folder while the block runs; witnesses that are not named cannot be reached."""
    network = Network.load(folder / "devnet.json")
    devnet = Devnet(network, clock)
    async with contextlib.AsyncExitStack() as stack:
        await devnet.start()
        stack.push_async_callback(devnet.stop)
        relays = {"devnet": devnet.url, "quicknet": DEAD}
        if quicknet:
            relays["quicknet"] = (await stack.enter_async_context(LyingRelay([QUICKNET], clock=clock))).url
        urls = await stack.enter_async_context(witnesses_of(folder, clock, witnesses))
        point(folder, relays, dict.fromkeys(WITNESSES, DEAD) | urls)
        app = create_app(load_settings(folder / "data"), clock, monotonic=clock.now)
        server = TestServer(app)
        await server.start_server()
        client = await stack.enter_async_context(TestClient(server))
        world = World(folder, clock, network, devnet, client)
        await until(world._fresh)
        yield world


def add_hosts(folder, *names):
    """Hosts with a token each, in tokens.json; one whose name begins with `test` is for the sandbox."""
    tokens = {}
    for name in names:
        options = ["--sandbox"] if name.startswith("test") else []
        done = CliRunner().invoke(hosts_command, ["add", name, "--dir", str(folder / "data"), "--json", *options])
        assert done.exit_code == 0, done.output
        tokens[name] = json.loads(done.stdout)["token"]
    (Path(folder) / "tokens.json").write_text(json.dumps(tokens, indent=1) + "\n")
