"""Sealed sessions a second over HTTP, beside a bare handler that commits one row; and what verifying does to others.

    python -m tests.bench.bench_http [--seconds N] [--connections N]

Server and load generator are two processes. Ratios of one run count; rates depend on the machine. The relay replays
recorded quicknet rounds: while "idle" is measured the service verifies none, then every one for 9 seconds or longer,
since a session waits for each. A run in which it did otherwise ends without a ratio.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
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
}
WATCHED = 9
IDLE = 6
ROUNDS = f"/v1/chains/{QUICKNET.hash.hex()}/rounds"


def bare(path):
    """The least that a durable HTTP write can be: parse, one insert under group commit, answer."""
    migrations = Migrations("bare")

    @migrations()
    def m001(db):
        db.execute("CREATE TABLE rows (i INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")

    writer = Writer(path, Schema("bare", 1, 0o600, migrations))

    async def handle(request):
        body = await request.text()
        json.loads(body)
        row = await writer.run(lambda db: db.conn.execute("INSERT INTO rows (body) VALUES (?)", (body,)).lastrowid)
        return web.json_response({"row": row}, status=201)

    async def serve():
        app = web.Application()
        app.router.add_post("/v1/sessions", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(f"listening on http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


async def load(server, token, seconds, connections):
    """Requests a second and the latencies in ms of `connections` callers that never wait between calls."""
    times = []
    connector = aiohttp.TCPConnector(limit=connections)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps(SEAL).encode()
    async with aiohttp.ClientSession(connector=connector, headers=headers) as client:

        async def caller(end):
            while time.perf_counter() < end:
                began = time.perf_counter()
                async with client.post(f"{server.url}/v1/sessions", data=body) as answer:
                    await answer.read()
                    assert answer.status == 201, await answer.text()
                times.append(1000 * (time.perf_counter() - began))

        began = time.perf_counter()
        await asyncio.gather(*(caller(began + seconds) for _ in range(connections)))
        return len(times) / (time.perf_counter() - began), times


def p99(times):
    return statistics.quantiles(times, n=100)[98]


async def measure_idle(server, token, host, seconds):
    """The latencies right after a round was verified: the next one is not due until it is 9 s old."""
    newest = json.loads(await host.get(f"{ROUNDS}/next?wait=60"))["round"]
    _, times = await load(server, token, seconds, 4)
    async with host.client.get(f"{host.url}{ROUNDS}/{newest + 1}") as answer:
        after = answer.status
    if after == web.HTTPOk.status_code:
        sys.exit("a round was verified while the service should have been idle; try fewer --seconds")
    return times


async def measure_busy(server, token, host, clock, seconds):
    """The latencies while the service fetches, verifies and logs each round as it falls due."""
    first = QUICKNET.current(clock.now()) + 4
    wanted = range(first, first + 2 + int(seconds) // QUICKNET.period)
    for number in wanted:
        await host.post("/v1/sessions", {"recipes": SEAL["recipes"], "round": number})
    await host.get(f"{ROUNDS}/{first}?wait=60")
    _, times = await load(server, token, seconds, 4)
    verified = 0
    for number in wanted[1:]:
        async with host.client.get(f"{host.url}{ROUNDS}/{number}") as answer:
            verified += answer.status == web.HTTPOk.status_code
    if verified < max(1, int(seconds) // QUICKNET.period - 1):
        sys.exit(f"only {verified} rounds were verified in {seconds} s: nothing was measured")
    print(f"rounds verified meanwhile   {verified:8}")
    return times


async def main(seconds, connections):
    offset = QUICKNET.time(72_752) - SystemClock().now()
    clock = ShiftedClock(offset)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        async with LyingRelay([QUICKNET], clock=clock) as relay:
            make_data(data, "beacon.example/bench", relay.url, clock)
            token = await add_host(data, "alice")
            async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
                await host.ready()
                await load(server, token, 1, connections)
                sealed, _ = await load(server, token, seconds, connections)
                idle = await measure_idle(server, token, host, min(seconds, IDLE))
                busy = await measure_busy(server, token, host, clock, max(seconds, WATCHED))
        async with serving("tests.bench.bench_http", "--bare", Path(folder) / "bare.db") as server:
            await load(server, token, 1, connections)
            least, _ = await load(server, token, seconds, connections)
    print(f"sealed sessions over HTTP   {sealed:8.0f} /s")
    print(f"bare handler, one insert    {least:8.0f} /s")
    print(f"ratio                       {sealed / least:8.2f}   (goal: 0.5)")
    print(f"p99 idle                    {p99(idle):8.2f} ms")
    print(f"p99 while rounds verify     {p99(busy):8.2f} ms")
    print(f"ratio                       {p99(busy) / p99(idle):8.2f}   (goal: at most 3)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.exit(bare(arguments.bare) if arguments.bare else asyncio.run(main(arguments.seconds, arguments.connections)))
