"""Seals and draws a second over HTTP, beside a bare handler that commits one row; and what verifying does to others.

    python -m tests.bench.bench_http [--seconds N] [--connections N]

Server and load generator are two processes on the same cores, and the same generator, body and number of connections
load both servers. Rates depend on the machine and on what else runs there: slices of both servers take turns, and CPU
time for a call is counted beside. On two cores a server that is busy has one and the generator the other, less what the
server's further threads take: the generator's share of a core, near 100 % where it held a server up, says if it did. It
can only be the faster server that it holds up, the bare one. The bare handler answers with a few bytes, and in other
slices with as many as a seal does.

The relay replays recorded quicknet rounds: while "idle" is measured the service verifies none, then every one for 9
seconds or longer, since a session waits for each. A run in which it did otherwise ends without a ratio.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from sqlite_utils import Migrations

from beacon.clock import ShiftedClock, SystemClock
from beacon.store.schema import Schema
from beacon.store.writer import Writer
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET

SEAL = {
    "label": "table 7",
    "recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}},
    "participants": [{"id": "white"}, {"id": "black"}],
    "round_at": QUICKNET.time(100_000),
    "timelock": False,
}
LOCKED = SEAL | {"timelock": True}
SEALS = "/v1/sessions"
HOSTS = 16
SLICES = 7
WATCHED = 9
IDLE = 6
ROUNDS = f"/v1/chains/{QUICKNET.hash.hex()}/rounds"


def bare(path, answer):
    """The least that a durable HTTP write can be: parse, one insert under group commit, answer.

    /alike answers with as many bytes, `answer`, as a seal does.
    """
    padding = "0" * (answer - len('{"row": 10000, "padding": ""}'))
    migrations = Migrations("bare")

    @migrations()
    def m001(db):
        db.execute("CREATE TABLE rows (i INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")

    writer = Writer(path, Schema("bare", 1, 0o600, migrations))

    async def insert(request):
        body = await request.text()
        json.loads(body)
        return await writer.run(lambda db: db.conn.execute("INSERT INTO rows (body) VALUES (?)", (body,)).lastrowid)

    async def least(request):
        return web.json_response({"row": await insert(request)}, status=201)

    async def alike(request):
        return web.json_response({"row": await insert(request), "padding": padding}, status=201)

    async def serve():
        app = web.Application()
        app.router.add_post("/least", least)
        app.router.add_post("/alike", alike)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(f"listening on http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


@dataclass
class Load:
    """What a load came to: wall seconds, each call's latency in ms, the answers' bytes, and CPU seconds: the load
    generator's own, and the server's.
    """

    seconds: float
    times: list
    answered: int
    own: float
    used: float

    @property
    def rate(self):
        return len(self.times) / self.seconds

    @property
    def cost(self):
        """The server's CPU time for a call, in us."""
        return 1e6 * self.used / len(self.times)

    def __add__(self, other):
        return Load(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def __str__(self):
        size, own = self.answered / len(self.times), self.own / self.seconds
        return (
            f"{self.rate:8.0f} /s   p99 {p99(self.times):6.1f} ms   server {self.cost:4.0f} us of CPU a call"
            f"   generator {own:4.0%} of a core   {size:5.0f} bytes an answer"
        )


def processor_seconds(server):
    """CPU time of a server's process until now; its worker that verifies rounds is another (Linux)."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(server, callers, body, seconds):
    """Post `body` as fast as is answered, one call at a time for each (path, token) of `callers`."""
    times, answered, data = [], 0, json.dumps(body).encode()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=len(callers))) as client:

        async def call(path, token, end):
            nonlocal answered
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            while (began := time.perf_counter()) < end:
                async with client.post(f"{server.url}{path}", data=data, headers=headers) as answer:
                    answered += len(await answer.read())
                    assert answer.status == 201, await answer.text()
                times.append(1000 * (time.perf_counter() - began))

        began, own, used = time.perf_counter(), time.process_time(), processor_seconds(server)
        await asyncio.gather(*(call(*caller, began + seconds) for caller in callers))
        took = time.perf_counter() - began
    return Load(took, times, answered, time.process_time() - own, processor_seconds(server) - used)


def total(slices):
    return sum(slices[1:], slices[0])


def ratio(one, other):
    """Of the rates, with the worst and the best pair of neighbours: far apart, others had the machine too; and of CPU."""
    pairs = sorted(a.rate / b.rate for a, b in zip(one, other, strict=True))
    rates, costs = total(one).rate / total(other).rate, total(other).cost / total(one).cost
    return f"{rates:8.2f}   ({pairs[0]:.2f} to {pairs[-1]:.2f})   by CPU time {costs:.2f}"


async def beside_bare(server, token, bare_db, connections, seconds):
    """Slices of seals, of such with a timelock, of the bare handler, and of it with as long an answer, in turn."""
    first = await load(server, [(SEALS, token)] * connections, SEAL, 1)
    sealed, locked, least, alike = [], [], [], []
    answer = first.answered // len(first.times)
    async with serving("tests.bench.bench_http", "--bare", bare_db, "--answer", answer) as other:
        await load(other, [("/alike", token)] * connections, SEAL, 1)
        for _ in range(SLICES):
            sealed.append(await load(server, [(SEALS, token)] * connections, SEAL, seconds / SLICES))
            locked.append(await load(server, [(SEALS, token)] * connections, LOCKED, seconds / SLICES))
            least.append(await load(other, [("/least", token)] * connections, SEAL, seconds / SLICES))
            alike.append(await load(other, [("/alike", token)] * connections, SEAL, seconds / SLICES))
    return sealed, locked, least, alike


async def draws(server, tokens, clock, connections, seconds):
    """Single draws, each caller in a match of its own; the matches belong to all hosts in turn."""
    number = QUICKNET.current(clock.now()) + 3
    callers = []
    for token, _ in zip(itertools.cycle(tokens), range(connections), strict=False):
        async with api(server, token) as host:
            session = (await host.post("/v1/sessions", {"recipes": SEAL["recipes"], "round": number}))["session"]
            callers.append((f"/v1/sessions/{session}/draws", token))
    async with api(server, tokens[0]) as host:
        await host.reach(session, "anchored")
    await load(server, callers, {"recipe": "turn"}, 1)
    return await load(server, callers, {"recipe": "turn"}, seconds)


def p99(times):
    return statistics.quantiles(times, n=100)[98]


async def measure_idle(server, token, host, seconds):
    """The latencies right after a round was verified: the next one is not due until it is 9 s old."""
    newest = json.loads(await host.get(f"{ROUNDS}/next?wait=60"))["round"]
    idle = await load(server, [(SEALS, token)] * 4, SEAL, seconds)
    async with host.client.get(f"{host.url}{ROUNDS}/{newest + 1}") as answer:
        after = answer.status
    if after == web.HTTPOk.status_code:
        sys.exit("a round was verified while the service should have been idle; try fewer --seconds")
    return idle.times


async def measure_busy(server, token, host, clock, seconds):
    """The latencies while the service fetches, verifies and logs each round as it falls due."""
    first = QUICKNET.current(clock.now()) + 4
    wanted = range(first, first + 2 + int(seconds) // QUICKNET.period)
    for number in wanted:
        await host.post("/v1/sessions", {"recipes": SEAL["recipes"], "round": number})
    await host.get(f"{ROUNDS}/{first}?wait=60")
    busy = await load(server, [(SEALS, token)] * 4, SEAL, seconds)
    verified = 0
    for number in wanted[1:]:
        async with host.client.get(f"{host.url}{ROUNDS}/{number}") as answer:
            verified += answer.status == web.HTTPOk.status_code
    if verified < max(1, int(seconds) // QUICKNET.period - 1):
        sys.exit(f"only {verified} rounds were verified in {seconds} s: nothing was measured")
    print(f"rounds verified meanwhile   {verified:8}")
    return busy.times


async def main(seconds, connections):
    offset = QUICKNET.time(72_752) - SystemClock().now()
    clock = ShiftedClock(offset)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        async with LyingRelay([QUICKNET], clock=clock) as relay:
            make_data(data, "beacon.example/bench", relay.url, clock)
            tokens = [await add_host(data, f"host.{number}") for number in range(HOSTS)]
            token = tokens[0]
            async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
                await host.ready()
                sealed, locked, least, alike = await beside_bare(
                    server, token, Path(folder) / "bare.db", connections, seconds
                )
                drawn = await draws(server, tokens, clock, connections, seconds)
                idle = await measure_idle(server, token, host, min(seconds, IDLE))
                busy = await measure_busy(server, token, host, clock, max(seconds, WATCHED))
    print(f"sealed sessions over HTTP   {total(sealed)}")
    print(f"... with a timelock         {total(locked)}")
    print(f"bare handler, one insert    {total(least)}")
    print(f"... as long an answer       {total(alike)}")
    print(f"ratio                       {ratio(sealed, least)}   (goal: 0.5)")
    print(f"... with a timelock to none {ratio(locked, sealed)}")
    print(f"... as long an answer       {ratio(sealed, alike)}")
    print(f"draws over HTTP, {HOSTS} hosts   {drawn}   (goal: 2,000 /s, p99 under 100 ms)")
    print(f"p99 idle                    {p99(idle):8.2f} ms")
    print(f"p99 while rounds verify     {p99(busy):8.2f} ms")
    print(f"ratio                       {p99(busy) / p99(idle):8.2f}   (goal: at most 3)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        sys.exit(bare(arguments.bare, arguments.answer))
    asyncio.run(main(arguments.seconds, arguments.connections))
