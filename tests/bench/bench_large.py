"""What a large log costs beside a small one: `python -m tests.bench.bench_large [--sessions N] [--directory DIR]`.

Builds two data directories (`tests.large_log`; ten entries a session, so a million sessions are ten million entries and
5 GB of disk), serves both by real processes on the same cores, and lets them take turns: starts, with the databases in
memory and without (their pages are dropped before), seals and contributions, pages and documents. CPU seconds are those
of the service's process. On a machine that others use read these, and the ratios, not the wall's seconds.
"""

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import aiohttp

from beacon.clock import ShiftedClock, SystemClock
from beacon.keys.log import log_signer
from beacon.log import wire
from beacon.log.log import Log
from beacon.sessions.book import Book
from beacon.settings import load_settings
from beacon.store.schema import open_readonly
from tests.bench.bench_http import processor_seconds
from tests.large_log import fill, host_of
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET, FakeClock
from verifier import entries
from verifier.tiles import tile_path

SMALL = 1_000
BUSY = host_of(1)
FIRST, LAST = 72_752, 72_800
"""Recorded rounds: the first that the services see, and the last that leaves time enough."""
STARTS = 5
SLICES = 8
TURNS, APPENDS, AT_ONCE = 3, 2_048, 32
SEAL = {
    "recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}},
    "participants": [{"id": "white"}, {"id": "black"}],
    "round_at": QUICKNET.time(100_000),
    "timelock": False,
}
START_GOAL, APPEND_GOAL = 3.0, 1.2


def memory(server, field="VmRSS"):
    """MB that the service's process holds now; VmHWM: has ever held (Linux)."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1_000
    raise ValueError(field)


def drop_pages(folder):
    """Have the system forget what it holds of the databases in memory."""
    for path in folder.glob("*.db"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def start(folder, *, cold):
    """Wall seconds until requests are taken, CPU seconds and MB by then."""
    if cold:
        drop_pages(folder)
    offset = QUICKNET.time(FIRST) - SystemClock().now()
    began = time.perf_counter()
    async with serving("tests.serve_shifted", folder, offset) as server:
        return time.perf_counter() - began, processor_seconds(server), memory(server)


async def starts(folders):
    """Medians of what `start` gives, in turns: {folder: {cold: ...}}."""
    seen = {folder: {cold: [] for cold in (True, False)} for folder in folders}
    for _ in range(STARTS):
        for cold in (True, False):
            for folder in folders:
                seen[folder][cold].append(await start(folder, cold=cold))
    return {
        folder: {cold: [statistics.median(column) for column in zip(*rows, strict=True)] for cold, rows in both.items()}
        for folder, both in seen.items()
    }


class Loaded:
    """Seals, each with its two contributions. Wall and CPU seconds, and the entries that they came to."""

    def __init__(self):
        self.wall = self.used = 0.0
        self.entries = 0

    async def slice(self, server, token, connections, seconds):
        headers = {"Authorization": f"Bearer {token}"}
        began, used = time.perf_counter(), processor_seconds(server)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as client:

            async def post(path, body):
                async with client.post(f"{server.url}{path}", json=body, headers=headers) as answer:
                    document = await answer.json()
                    assert answer.status == 201, document
                    self.entries += 1
                    return document

            async def play():
                number = 0
                while time.perf_counter() < began + seconds:
                    number += 1
                    session = (await post("/v1/sessions", SEAL | {"label": f"{began}.{number}"}))["session"]
                    for player in ("white", "black"):
                        said = {"participant": player, "entropy": "07"}
                        await post(f"/v1/sessions/{session}/contributions", said)

            await asyncio.gather(*(play() for _ in range(connections)))
        self.wall += time.perf_counter() - began
        self.used += processor_seconds(server) - used

    @property
    def cost(self):
        """CPU time of the service for an entry, us."""
        return 1e6 * self.used / self.entries

    @property
    def rate(self):
        return self.entries / self.wall


async def appended(folder):
    """CPU time of an entry in the log alone, us: of seals, which write most, and of contributions. Many at once.

    The log's time stands still meanwhile.
    """
    settings, book = load_settings(folder), Book()
    log = Log.open(settings.log_db, log_signer(settings), FakeClock(0), [book], mark=settings.log_mark)
    model = book.all_open()[0].seal
    spent = {"seal": 0.0, "contribution": 0.0}

    async def timed(kind, builds):
        used = time.process_time()
        found = []
        for first in range(0, len(builds), AT_ONCE):
            found += await asyncio.gather(*(log.append(build) for build in builds[first : first + AT_ONCE]))
        spent[kind] += 1e6 * (time.process_time() - used) / len(builds)
        return [entry.leaf_hash for (entry,) in found]

    def seal(number):
        def build(at):
            sequence, label = book.next_sequence(BUSY), f"{time.time()}.{number}"
            who = {"host": BUSY, "host_seq": sequence, "label": label, "commitment": os.urandom(32)}
            return [wire.encode(replace(model, time=at, **who))]

        return build

    def contribution(session):
        return lambda at: [wire.encode(entries.Contribution(at, session, "white", b"7"))]

    sessions = await timed("seal", [seal(number) for number in range(APPENDS)])
    await timed("contribution", [contribution(session) for session in sessions])
    log.close()
    return spent


async def read(server, host, paths):
    """The median of the answer's time of each path, ms."""
    found = {}
    for name, path in paths.items():
        times = []
        for _ in range(7):
            began = time.perf_counter()
            async with host.client.get(f"{server.url}{path}", headers=host.headers) as answer:
                await answer.read()
                assert answer.status == 200, (path, answer.status)
            times.append(1_000 * (time.perf_counter() - began))
        found[name] = statistics.median(times)
    return found


def paths_of(folder):
    """What is asked for: of the host with the most sessions, of a session and an entry in the middle of the log."""
    with closing(open_readonly(folder / "log.db")) as db:
        middle = db.execute("SELECT max(i) / 2 FROM entries").fetchone()[0]
        query = "SELECT session, seal_index FROM sessions WHERE seal_index >= ? ORDER BY seal_index LIMIT 1"
        session, index = db.execute(query, [middle]).fetchone()
    name = session.hex()
    return {
        "a host's account": f"/v1/hosts/{BUSY}",
        "a host's page": f"/hosts/{BUSY}",
        "its sessions, a page": "/v1/sessions?limit=50",
        "... of those revealed": "/v1/sessions?limit=50&state=revealed",
        "... of a label": "/v1/sessions?limit=50&label=table%207",
        "a session": f"/v1/sessions/{name}",
        "... as a document": f"/v1/sessions/{name}/transcript",
        "... as a page": f"/s/{name}",
        "a receipt": f"/v1/sessions/{name}/receipts/{index}",
        "the log's page": "/log",
        "the rounds' page": "/rounds",
        "a tile": f"/log/{tile_path(0, 2)}",
        "the checkpoint": "/log/checkpoint",
    }


def build(folder, sessions, relay_url):
    """A data directory of so many sessions, made unless it is there, that asks this relay; the round it has come to."""
    if not folder.exists():
        began = time.perf_counter()
        make_data(folder, "beacon.example/large", relay_url, FakeClock(QUICKNET.time(900)))
        size = fill(folder, sessions, still_open=SMALL)
        print(f"built {size:,} entries in {time.perf_counter() - began:.0f} s", flush=True)
    with closing(open_readonly(folder / "log.db")) as db:
        (newest,) = db.execute("SELECT coalesce(max(round), 0) FROM rounds").fetchone()
        (time_ms,) = db.execute("SELECT max(time) FROM checkpoints").fetchone()
    config = folder / "beacon.toml"
    text = re.sub(r"(?m)^relays = .*$", f'relays = ["{relay_url}"]', config.read_text())
    config.write_text(re.sub(r"(?m)^(token|address)_per_minute = .*$", r"\1_per_minute = 0", text))
    return max(newest, QUICKNET.current(time_ms))


async def compare(folders, connections, seconds, offset):
    """Both served at once, slices in turns: {folder: (load, ms of each path, MB before and after)}."""
    async with contextlib.AsyncExitStack() as stack:
        hosts, loads, before = {}, {}, {}
        for folder in folders:
            token = await add_host(folder, BUSY)
            server = await stack.enter_async_context(serving("tests.serve_shifted", folder, offset))
            hosts[folder] = server, await stack.enter_async_context(api(server, token)), token
            await hosts[folder][1].ready()
            before[folder], loads[folder] = memory(server), Loaded()
            await Loaded().slice(server, token, connections, 1)
        for turn in range(SLICES):
            for folder in folders if turn % 2 else reversed(folders):
                server, _, token = hosts[folder]
                await loads[folder].slice(server, token, connections, seconds / SLICES)
        found = {}
        for folder in folders:
            server, host, _ = hosts[folder]
            times = await read(server, host, paths_of(folder))
            found[folder] = loads[folder], times, (before[folder], memory(server))
        return found


async def main(folder, sessions, connections, seconds):
    small, large = folders = folder / "small", folder / "large"
    offset = QUICKNET.time(FIRST) - SystemClock().now()
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        come = max(build(small, SMALL, relay.url), build(large, sessions, relay.url), FIRST)
        if come > LAST:
            sys.exit("the recorded rounds are used up: have both directories built anew")
        begun = await starts(folders)
        offset = QUICKNET.time(come + 1) - SystemClock().now()
        relay.clock = ShiftedClock(offset)
        found = await compare(folders, connections, seconds, offset)
    alone = [[await appended(path) for path in folders] for _ in range(TURNS)]
    row = lambda name, one, other, unit, digits=2: print(  # noqa: E731
        f"{name:<34}{one:>12,.{digits}f}{other:>14,.{digits}f} {unit:<4}{other / one:>8.2f}"
    )
    print(f"{'':<34}{f'{SMALL:,} sessions':>12}{f'{sessions:,}':>14}        ratio")
    for cold, name in ((False, "start"), (True, "start, nothing in memory")):
        row(name, begun[small][cold][0], begun[large][cold][0], "s")
        row("... of CPU time", begun[small][cold][1], begun[large][cold][1], "s")
    row("memory after the start", begun[small][False][2], begun[large][False][2], "MB", 0)
    (one, times, held), (other, large_times, large_held) = found[small], found[large]
    row("... after the load", held[1], large_held[1], "MB", 0)
    row("an entry over HTTP, of CPU time", one.cost, other.cost, "us", 0)
    for kind in ("seal", "contribution"):
        costs = [statistics.median(turn[place][kind] for turn in alone) for place in range(len(folders))]
        row(f"... in the log alone, a {kind}", *costs, "us", 0)
    row("entries a second", one.rate, other.rate, "/s", 0)
    for name in times:
        row(name, times[name], large_times[name], "ms", 1)
    started, cost = begun[large][True][0], other.cost / one.cost
    print(f"start {started:.1f} s of {START_GOAL} s; append cost {cost:.2f} of {APPEND_GOAL}")
    return 0 if started < START_GOAL and cost <= APPEND_GOAL else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=16)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--directory", type=Path, help="where the data directories are kept (default: nowhere)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.directory or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        sys.exit(asyncio.run(main(place, arguments.sessions, arguments.connections, arguments.seconds)))
