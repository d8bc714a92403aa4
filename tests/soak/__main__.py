"""`python -m tests.soak`: see --help."""

import asyncio
import json
import os
import platform
import secrets
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

import click

from tests.soak.finale import Finale
from tests.soak.hosts import Host
from tests.soak.judge import Judge
from tests.soak.ledger import Ledger
from tests.soak.trouble import Trouble
from tests.soak.watchers import Reader, Watchers
from tests.soak.world import World

GRACE = 20.0
LONG = 120.0
EVERY = 10.0


def say(text):
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


@click.command()
@click.option("--minutes", default=10.0, show_default=True, type=click.FloatRange(0.3, 60), help="Of traffic.")
@click.option("--hosts", default=50, show_default=True, type=click.IntRange(1, 500), help="Hosts that write at once.")
@click.option("--seed", type=int, help="What the hosts do and what fails when; printed, so that it can be repeated.")
@click.option(
    "--restart-every", "every", default=20.0, show_default=True, metavar="SECONDS", type=click.FloatRange(1),
    help="How long the service runs, about, before it is ended once more.",
)  # fmt: skip
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="A new folder for data, logs, audits.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def main(minutes, hosts, seed, every, keep, as_json):
    """Run the real service under mixed traffic while it is killed, and while relays and witnesses fail and lie.

    Everything runs on loopback, and ends by itself: some minutes after the traffic, in which time passes faster until
    every session has ended. Then the log, every receipt, every stream and the auditors have to agree. Progress is on
    standard error. Exit 0: all agree. 1: not; what does not is listed.
    """
    seed = secrets.randbelow(2**32) if seed is None else seed
    say(f"seed {seed}: {hosts} hosts, {minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="beacon-soak-") if keep is None else nullcontext(keep) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        results = asyncio.run(Soak(Path(folder), minutes * 60, hosts, seed, every).run())
    click.echo(json.dumps(results, indent=2) if as_json else "\n".join(table(results)))
    sys.exit(1 if results["failures"] else 0)


class Soak:
    def __init__(self, folder, seconds, hosts, seed, every):
        self.seconds, self.seed, self.every = seconds, seed, every
        self.names = [f"host-{number:02}" for number in range(hosts)]
        self.ledger = Ledger(seed)
        self.world = World(folder, self.ledger)
        self.tasks, self.memory = set(), 0
        self.results = {"seed": seed, "minutes": seconds / 60, "hosts": hosts, "machine": machine()}

    async def run(self):
        began = time.monotonic()
        async with self.world.running(self.names), AsyncExitStack() as connected:
            say(f"the service listens on {self.world.url}")
            judge, finale = Judge(self.world, self.ledger, self.results), Finale(self.world, self.ledger, say)
            await finale.ready()
            watchers = await self._traffic(judge, connected)
            await finale.run()
            await self._settled(watchers)
            say("every session has ended; the auditors look")
            await judge.while_it_runs()
            await self.world.service.end(signal.SIGTERM)
            await judge.afterwards()
        starts = self.world.service.seconds
        self.results |= {
            "counts": dict(sorted(self.ledger.counts.items())),
            "receipts and proofs": dict(sorted(self.ledger.kinds.items())),
            "checkpoints shown": len(self.ledger.heads),
            "refused": dict(self.ledger.refused.most_common()),
            "starts of the service": len(starts),
            "slowest start, s": round(max(starts), 1),
            "most memory of the service, MiB": self.memory,
            "seconds": round(time.monotonic() - began),
            "failures": self.ledger.failures,
        }
        return self.results

    async def _traffic(self, judge, connected):
        """The hosts, the readers and the trouble, for the time that there is; auditors who come in the middle.

        connected: what is closed at the very end, since retries and streams outlast the traffic.
        """
        watching = Host(self.world, self.ledger, self.names[0], f"{self.seed}/reader", self.tasks, None)
        watchers = Watchers(self.world, self.ledger, self.seed, watching)
        hosts = [Host(self.world, self.ledger, name, self.seed, self.tasks, watchers.watch) for name in self.names]
        trouble = Trouble(self.world, self.ledger, self.seed, self.seconds, self.every)
        stop = asyncio.Event()
        for one in (watchers.transport, *(part for host in (watching, *hosts) for part in (host.beacon, host.nobody))):
            await connected.enter_async_context(one)
        playing = [asyncio.create_task(host.run(time.monotonic() + self.seconds)) for host in hosts]
        others = [
            asyncio.create_task(trouble.run()),
            asyncio.create_task(Reader(self.world, self.ledger, self.seed).run(stop)),
            asyncio.create_task(self._progress(stop)),
        ]
        looks = 1 + (self.seconds >= LONG) * 2
        for _ in range(looks):
            await asyncio.sleep(self.seconds / (looks + 1))
            others.append(asyncio.create_task(judge.in_the_middle()))
        await asyncio.sleep(self.seconds / (looks + 1))
        _, late = await asyncio.wait(playing, timeout=GRACE)
        for task in late:
            task.cancel()
        stop.set()
        for done in await asyncio.gather(*playing, *others, return_exceptions=True):
            if isinstance(done, Exception):
                self.ledger.fail(f"{done!r}")
        return watchers

    async def _settled(self, watchers):
        """Retries and streams that are still under way."""
        waiting = {*self.tasks, *watchers.tasks}
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=60)
            for task in late:
                self.ledger.fail(f"a reader or a retry did not come to its end: {task.get_coro()}")
                task.cancel()

    async def _progress(self, stop):
        began = time.monotonic()
        while not stop.is_set():
            counts = self.ledger.counts
            done = f"{counts['writes acknowledged']:,} writes, {len(self.ledger.seals):,} sessions sealed"
            troubled = f"{self.world.service.starts} starts, {len(self.ledger.failures)} failures"
            say(f"{time.monotonic() - began:4.0f} s: {done}, {troubled}")
            self.memory = max(self.memory, self.world.service.memory())
            try:
                await asyncio.wait_for(stop.wait(), EVERY)
            except TimeoutError:
                continue


def machine():
    """What it ran on."""
    with Path("/proc/cpuinfo").open() as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = names[0] if names else platform.machine()
    return f"{os.cpu_count()} cores ({name}), {memory:.0f} GiB, Python {platform.python_version()}, {platform.system()}"


def table(results):
    """The results for people: a table in Markdown, and what does not agree."""
    yield "| what | how many |"
    yield "|---|---|"
    for name, value in results.items():
        if name == "failures":
            continue
        if isinstance(value, dict):
            for part, count in value.items():
                yield f"| {name}: {part} | {count} |"
        else:
            yield f"| {name} | {value} |"
    yield ""
    yield from results["failures"] or ["All agree."]


if __name__ == "__main__":
    main()
