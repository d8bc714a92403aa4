"""The machine fails under the real service: nothing that was acknowledged is lost, and it goes on when the fault ends.

| fault | what hosts are told | /readyz | afterwards |
|---|---|---|---|
| hardly any room on the disk | 503 write-failed; reads go on | 503, `writes` | goes on by itself |
| the disk takes no writes | 503 write-failed; reads go on | 503, `writes` | goes on by itself |
| a commit does not return | nothing yet; reads go on | 503, `writes` | every write is answered |
| a file may grow no further, in a commit | 503 outcome-unknown, or the connection's end | - | ends with 1; started again, it is whole |
| no memory left | 500 internal, 503, or the connection's end | - | goes on, or started again is whole |
| clients hold every connection | new ones are turned away; those that are there are served | - | goes on by itself |
| the clock is stepped, either way | 503 clock-unsure; no deadline is kept | 503, `clock-unsure` | goes on by itself |
"""

import asyncio
import contextlib
import json
import resource
from contextlib import closing

import aiohttp
import pytest

from beacon.clock import ShiftedClock, SystemClock
from beacon.store.schema import open_readonly
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import QUICKNET
from tests.serve_faulty import set_faults
from verifier.entries import Seal, parse_entry

ORIGIN = "beacon.example/faults"
HOUR = 3_600_000
SEAL = {"recipes": {"raw": {"kind": "bytes", "count": 1}}, "participants": [{"id": "white"}]}


class World:
    """A data directory with a host, and what was acknowledged: index -> the exact entry."""

    def __init__(self, folder, token, offset):
        self.folder, self.token, self.offset = folder, token, offset
        self.done = {}

    @contextlib.asynccontextmanager
    async def service(self, *options):
        """The service in a process, and its API once it can seal."""
        set_faults(self.folder)
        log = self.folder.with_name("service.log")
        serve = serving("tests.serve_faulty", self.folder, self.offset, *options, log=log)
        async with serve as server, api(server, self.token) as host:
            await host.ready()
            yield server, host

    async def seal(self, host, label="", **fields):
        return self.keep(await host.post("/v1/sessions", SEAL | {"label": label} | fields))

    def keep(self, answer):
        for receipt in answer.get("receipts") or [answer["receipt"]]:
            (event,) = receipt["events"]
            self.done[event["index"]] = event["entry"]
        return answer

    def entries(self):
        with closing(open_readonly(self.folder / "log.db")) as db:
            return [row[0].decode() for row in db.execute("SELECT entry FROM entries ORDER BY i").fetchall()]

    async def whole(self):
        """The log is in order, and what was acknowledged is in it."""
        code, output, errors = await run("beacon", "log", "check", "--dir", self.folder, "--no-rounds")
        assert code == 0, output + errors
        entries = self.entries()
        assert self.done
        assert {index: entries[index] for index in self.done} == self.done
        return entries


@pytest.fixture
async def world(tmp_path):
    offset = QUICKNET.time(72_760) - SystemClock().now()
    clock = ShiftedClock(offset)
    async with LyingRelay([QUICKNET], clock=clock) as relay:
        make_data(tmp_path / "data", ORIGIN, relay.url, clock)
        yield World(tmp_path / "data", await add_host(tmp_path / "data", "alice"), offset)


async def readiness(host):
    async with host.client.get(f"{host.url}/readyz") as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(("fault", "says"), [({"free": 2**20}, "MB are free"), ({"readonly": True}, "readonly")])
async def test_a_disk_that_takes_no_writes(world, fault, says):
    async with world.service() as (_, host):
        before = await world.seal(host, "before")
        set_faults(world.folder, **fault)
        for _ in range(3):
            refused = await host.post("/v1/sessions", SEAL | {"label": "lost"}, expect=503)
            assert (refused["code"], refused["retryable"]) == ("write-failed", True)
        status, document = await readiness(host)
        assert (status, document["ready"], document["stopped"]) == (503, False, None)
        assert says in document["writes"]
        await host.get("/healthz")
        assert (await host.view(before["session"]))["state"] == "sealed"
        await host.get("/log/checkpoint")
        set_faults(world.folder)
        await world.seal(host, "after")
        assert await readiness(host) == (200, document | {"ready": True, "writes": None, "chains": {"quicknet": {
            "trouble": None, "detail": None, "failing_relays": []}}})  # fmt: skip
    assert not any('"lost"' in entry for entry in await world.whole())


async def test_a_commit_that_does_not_return(world):
    """Reads go on beside it, whoever waits gets the answer, and so does whoever waits while the service is told to stop."""
    async with world.service() as (server, host):
        before = await world.seal(host, "before")
        set_faults(world.folder, stall=True)
        waiting = [asyncio.create_task(world.seal(host, f"waits {number}")) for number in range(8)]

        async def told():
            return (await readiness(host))[0] == 503

        await host.until(told)
        assert "under way" in (await readiness(host))[1]["writes"]
        await host.get("/healthz")
        assert (await host.view(before["session"]))["state"] == "sealed"
        assert not any(task.done() for task in waiting)
        set_faults(world.folder)
        await asyncio.gather(*waiting)
        assert (await readiness(host))[0] == 200
        set_faults(world.folder, stall=True)
        last = asyncio.create_task(world.seal(host, "last"))
        await asyncio.sleep(0.5)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.5)
        assert not last.done()
        set_faults(world.folder)
        await last
        assert await stopping == 0
    assert len([entry for entry in await world.whole() if '"type":"seal"' in entry]) == 10


async def seal_until_it_fails(world, host, name):
    """Seal, and keep what is acknowledged, until an answer is none or tells of a failure of the service."""
    headers = {"Authorization": f"Bearer {world.token}"}
    for number in range(100_000):
        body = SEAL | {"label": f"{name}.{number}"}
        try:
            async with host.client.post(f"{host.url}/v1/sessions", json=body, headers=headers) as answer:
                document = await answer.json()
        except (aiohttp.ClientError, ConnectionError, json.JSONDecodeError):
            return None
        if answer.status != 201:
            assert answer.status >= 500, document
            return document["code"]
        world.keep(document)
    raise AssertionError("it never failed")


async def test_a_file_that_may_grow_no_further_in_a_commit(world):
    async with world.service() as (server, host):
        await world.seal(host, "before")
        most = max(path.stat().st_size for path in world.folder.iterdir()) + 200_000
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        told = await asyncio.gather(*(seal_until_it_fails(world, host, name) for name in range(4)))
        assert set(told) <= {None, "outcome-unknown", "unavailable", "write-failed"}
        assert await asyncio.wait_for(server.process.wait(), 30) == 1
    assert "a commit failed" in world.folder.with_name("service.log").read_text()
    await world.whole()
    async with world.service() as (_, host):
        await world.seal(host, "after")
    await world.whole()


WIDE = {f"r{number}": {"kind": "weighted", "weights": [1] * 10_000, "count": 1} for number in range(2)}


async def seal_wide(world, host):
    """The status of a seal that takes some memory; None where the connection ended. What was acknowledged is kept."""
    try:
        async with host.client.post(
            f"{host.url}/v1/sessions", json=SEAL | {"recipes": WIDE}, headers=host.headers
        ) as answer:
            document = await answer.json()
    except (aiohttp.ClientError, ConnectionError, json.JSONDecodeError):
        return None
    if answer.status == 201:
        world.keep(document)
    return answer.status


async def test_no_memory_left(world):
    """What it could not do it has not acknowledged; with memory again it goes on, or is started again and is whole."""
    async with world.service() as (server, host):
        await world.seal(host, "before")
        pid = server.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
        told = []
        for _ in range(5):
            told += await asyncio.gather(*(seal_wide(world, host) for _ in range(100)))
        assert set(told) <= {201, 500, 503, None}
        assert set(told) - {201}, "the limit was not felt"
        if server.process.returncode is None:
            resource.prlimit(pid, resource.RLIMIT_AS, limits)
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            await host.ready()
            await world.seal(host, "again")
    await world.whole()
    async with world.service() as (_, host):
        await world.seal(host, "after")
    await world.whole()


async def test_clients_that_hold_every_connection(world):
    """The databases keep the files that they need; who is there is served, and so is who comes when others have left."""
    async with world.service(256) as (server, host):
        before = await world.seal(host, "before")
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        held = [await asyncio.open_connection(*place) for _ in range(300)]
        for _, writer in held:
            with contextlib.suppress(ConnectionError):
                writer.write(b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n")
        over = [reader for reader, _ in held if not await open_still(reader)]
        assert 150 < len(over) < 250
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            async with aiohttp.ClientSession() as late, late.get(f"{server.url}/healthz"):
                pass
        for number in range(20):
            await world.seal(host, f"held {number}")
            await host.view(before["session"])
        assert (await readiness(host))[0] == 200
        for _, writer in held:
            writer.transport.abort()

        async def comes_in():
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                async with aiohttp.ClientSession() as late, late.get(f"{server.url}/healthz") as answer:
                    return answer.status == 200

        await host.until(comes_in)
    await world.whole()


async def open_still(reader):
    """Whether the service holds on to a connection on which it has said nothing."""
    try:
        async with asyncio.timeout(0.05):
            return await reader.read(1) != b""
    except ConnectionError:
        return False
    except TimeoutError:
        return True


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_clock_that_is_stepped_while_the_service_runs(world, step):
    """No session's deadline is kept by a clock that no round confirms; the log's times never go back, nor far ahead."""
    async with world.service() as (_, host):
        soon = QUICKNET.current(SystemClock().now() + world.offset) + 12
        before = await world.seal(host, "before", round=soon)
        set_faults(world.folder, step=step)

        async def unsure():
            status, document = await readiness(host)
            return status == 503 and document["chains"]["quicknet"]["trouble"] == "clock-unsure"

        await host.until(unsure)
        refused = await host.post("/v1/sessions", SEAL, expect=503)
        assert refused["code"] == "clock-unsure"
        said = {"participant": "white", "entropy": "07"}
        refused = await host.post(f"/v1/sessions/{before['session']}/contributions", said, expect=503)
        assert refused["code"] == "clock-unsure"
        await asyncio.sleep(2)
        assert (await host.view(before["session"]))["state"] == "sealed"
        set_faults(world.folder)
        await host.ready()
        world.keep(await host.post(f"/v1/sessions/{before['session']}/contributions", said))
        await host.reach(before["session"], "anchored")
        await world.seal(host, "after")
    times = [json.loads(entry)["time"] for entry in await world.whole()]
    assert times == sorted(times)
    assert times[-1] < SystemClock().now() + world.offset + 1_000
    seals = [entry for entry in map(str.encode, world.entries()) if isinstance(parse_entry(entry), Seal)]
    assert len(seals) == 2
