"""The service and witnesses in processes of their own: kill -9, restarts, what an operator sees, a restored backup."""

import asyncio
import contextlib
import json
import re
import shutil

import aiohttp
import pytest

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import QUICKNET
from tests.test_metrics import scrape
from verifier.note import Checkpoint, Note, VerifierKey, open_note

ORIGIN = "beacon.example/witnessed"


@pytest.fixture
async def relay():
    async with LyingRelay([QUICKNET], clock=ShiftedClock(QUICKNET.time(72_752) - SystemClock().now())) as found:
        yield found


class Beacon:
    """A data directory whose log has two witnesses, on ports that they keep."""

    def __init__(self, folder, relay):
        self.folder, self.data = folder, folder / "data"
        self.offset = relay.clock.now() - SystemClock().now()
        self.vkey = make_data(self.data, ORIGIN, relay.url, ShiftedClock(self.offset))
        self.keys, self.ports = {}, {}
        self.log = folder / "service.log"

    async def prepare(self):
        self.token = await add_host(self.data, "alice")
        for name in ("east", "west"):
            code, output, errors = await run(
                "beacon", "witness", "init", self.folder / name, "--name", f"{name}.example", "--log", self.vkey
            )
            assert code == 0, errors
            self.keys[name] = VerifierKey.parse(output.strip())

    def witness(self, name):
        port = self.ports.get(name, 0)
        return serving("beacon", "witness", "serve", "--dir", self.folder / name, "--port", port, "--rate", 0)

    @contextlib.asynccontextmanager
    async def witnesses(self):
        """Both of them running."""
        async with contextlib.AsyncExitStack() as stack:
            found = {}
            for name in self.keys:
                found[name] = await stack.enter_async_context(self.witness(name))
                self.ports[name] = found[name].url.rsplit(":", 1)[1]
            self.write_policy()
            yield found

    def write_policy(self):
        lines = [f"witness {name} {key} http://127.0.0.1:{self.ports[name]}\n" for name, key in self.keys.items()]
        (self.data / "w.policy").write_text("".join([*lines, "group both all east west\n", "quorum both\n"]))
        config = self.data / "beacon.toml"
        text = re.sub(r"(?m)^# policy = .*$", 'policy = "w.policy"', config.read_text())
        config.write_text(re.sub(r"(?m)^# port = 9464$", "port = 0", text))

    @contextlib.asynccontextmanager
    async def serving(self, data=None):
        command = ("tests.serve_shifted", data or self.data, self.offset)
        async with serving(*command, log=self.log) as server, api(server, self.token) as host:
            host.process = server
            await host.ready()
            yield host

    def metrics(self):
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line["url"] for line in lines if line["event"] == "metrics"][-1].removesuffix("/metrics")


@pytest.fixture
async def beacon(tmp_path, relay):
    made = Beacon(tmp_path, relay)
    await made.prepare()
    return made


async def seal(host, count=1):
    for number in range(count):
        body = {"label": f"{number}", "recipes": {"raw": {"kind": "bytes", "count": 1}}, "close_at": None}
        answer = await host.post("/v1/sessions", body | {"participants": []})
    return answer["session"]


async def checkpoint(host, name="checkpoint"):
    return (await host.get(f"/log/{name}")).decode()


def size_of(note):
    return Checkpoint.parse(Note.parse(note).text).size


async def cosigned(host, key):
    """Wait until a witness has cosigned the newest checkpoint; its size."""

    async def look():
        note = await checkpoint(host)
        return any((line.name, line.key_id) == (key.name, key.key_id) for line in Note.parse(note).signatures)

    await host.until(look)
    note = await checkpoint(host)
    open_note(note, [key])
    return size_of(note)


async def test_a_witness_that_is_killed_and_comes_back_goes_on(beacon):
    async with beacon.witnesses() as running, beacon.serving() as host:
        await seal(host, 3)
        for key in beacon.keys.values():
            await cosigned(host, key)
        await running["east"].kill()
        session = await seal(host, 3)
        await cosigned(host, beacon.keys["west"])
        one = json.loads(await host.get("/readyz"))["witnesses"]
        assert (one["east"]["lag"], one["west"]["lag"]) == (3, 0)

        async def failed():
            return json.loads(await host.get("/readyz"))["witnesses"]["east"]["last"] == "unreachable"

        await host.until(failed)
        numbers = await scrape(beacon.metrics())
        assert numbers["beacon_witness_lag_entries", "east"] == 3
        assert numbers["beacon_witness_lag_entries", "west"] == 0
        assert numbers["beacon_witness_lag_seconds", "east"] > 0
        assert numbers["beacon_witness_requests_total", "unreachable", "east"] >= 1
        assert numbers["beacon_witness_requests_total", "cosigned", "west"] >= 2
        assert numbers["beacon_witness_disagrees", "east"] == 0
        async with beacon.witness("east"):
            assert await cosigned(host, beacon.keys["east"]) == size_of(await checkpoint(host))
            document = json.loads(await host.get(f"/v1/sessions/{session}/transcript?wait=20"))
            keys = [VerifierKey.parse(beacon.vkey), *beacon.keys.values()]
            assert len(open_note(document["checkpoint"], keys).verified) == 3
            assert size_of(await checkpoint(host, "witnessed")) == size_of(document["checkpoint"])
    code, output, errors = await run("beacon", "log", "check", "--dir", beacon.data, "--json")
    assert (code, json.loads(output)["findings"]) == (0, []), errors
    assert json.loads(output)["cosignatures"] >= 4


async def test_a_service_that_is_killed_goes_on_with_its_witnesses(beacon):
    async with beacon.witnesses():
        for _ in range(3):
            async with beacon.serving() as host:
                await seal(host, 5)
                await host.process.kill()
        async with beacon.serving() as host:
            await seal(host)
            for key in beacon.keys.values():
                await cosigned(host, key)
    code, output, _ = await run("beacon", "log", "check", "--dir", beacon.data)
    assert code == 0, output
    assert "cosignatures of witnesses verified" in output
    for name in beacon.keys:
        code, output, _ = await run("beacon", "witness", "list", "--dir", beacon.folder / name, "--json")
        assert [log["forks"] for log in json.loads(output)["logs"]] == [0]


async def test_a_restored_backup_of_the_whole_directory_does_not_start(beacon):
    """log.db and log.mark agree with each other, so only witnesses know; and they keep what they are shown."""
    async with beacon.witnesses() as running:
        async with beacon.serving() as host:
            await seal(host, 2)
            for key in beacon.keys.values():
                old = await cosigned(host, key)
        shutil.copytree(beacon.data, beacon.folder / "backup")
        async with beacon.serving() as host:
            await seal(host, 4)
            for key in beacon.keys.values():
                newest = await cosigned(host, key)
        code, _, errors = await run("beacon", "serve", "--dir", beacon.folder / "backup")
        assert code == 1
        assert f"the log has size {old}, and the witness" in errors, errors
        assert f"has seen size {newest} of it" in errors
        # with one witness away the other is enough; with both away nobody knows
        await running["east"].kill()
        code, _, errors = await run("beacon", "serve", "--dir", beacon.folder / "backup")
        assert (code, "the witness west has seen" in errors) == (1, True), errors
        await running["west"].kill()
        async with beacon.serving(beacon.folder / "backup") as host:
            await seal(host, 4)
            other = size_of(await checkpoint(host))
        assert other == newest
        async with beacon.witness("west"):
            code, _, errors = await run("beacon", "serve", "--dir", beacon.folder / "backup")
            assert (code, "the witness west has seen another history" in errors) == (1, True), errors
            async with beacon.serving() as host:
                await seal(host)
                await cosigned(host, beacon.keys["west"])
    code, output, _ = await run("beacon", "witness", "forks", "--dir", beacon.folder / "west", "--json")
    (fork,) = json.loads(output)["forks"]
    assert fork["kind"] == "fork"
    log = VerifierKey.parse(beacon.vkey)
    ours, theirs = (Checkpoint.parse(open_note(fork[name], [log]).text) for name in ("ours", "theirs"))
    assert ours.size == theirs.size == newest
    assert ours.root != theirs.root


async def test_a_policy_that_is_none_stops_the_start_with_its_line(beacon):
    beacon.ports = {"east": 1, "west": 2}
    beacon.write_policy()
    (beacon.data / "w.policy").write_text("quorum nobody\n")
    code, _, errors = await run("beacon", "serve", "--dir", beacon.data)
    assert code == 2
    assert "w.policy: line 1:" in errors
    (beacon.data / "w.policy").unlink()
    code, _, errors = await run("beacon", "serve", "--dir", beacon.data)
    assert (code, "cannot read" in errors) == (2, True)


async def test_many_requests_at_once_to_a_witness_that_is_killed(beacon, tmp_path):
    """Whatever it answered before it died is what it goes on from."""
    answered = []
    async with beacon.witnesses() as running, beacon.serving() as host, aiohttp.ClientSession() as client:
        await seal(host, 2)
        await cosigned(host, beacon.keys["east"])
        note = (await checkpoint(host)).split("\n\n")
        text, own = note[0] + "\n", note[1].split("\n")[0]
        body = f"old {size_of(await checkpoint(host))}\n\n{text}\n{own}\n"

        async def post():
            with contextlib.suppress(aiohttp.ClientError):
                async with client.post(f"{running['east'].url}/add-checkpoint", data=body) as answer:
                    answered.append((answer.status, await answer.text()))

        requests = [asyncio.create_task(post()) for _ in range(60)]
        await host.until(_some(answered))
        await running["east"].kill()
        await asyncio.gather(*requests)
        assert {status for status, _ in answered} == {200}
        for _, line in answered:
            open_note(f"{text}\n{line}", [beacon.keys["east"]])
        async with beacon.witness("east"):
            await seal(host)
            await cosigned(host, beacon.keys["east"])


def _some(found):
    async def look():
        return len(found) > 3

    return look
