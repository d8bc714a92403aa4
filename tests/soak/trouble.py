"""What fails when: a timetable that the seed makes, and who carries it out.

restarts     the service ends by kill -9, or now and then by SIGTERM, and is started again at once
relay        one of the relays' proxies fails or lies (proxies.Relay.modes)
network      the devnet itself: rounds late, halted, or lied about, so that no relay has a right one
door         the way to a witness fails (proxies.WitnessDoor.modes)
witness      a witness itself, by kill -9, started again after a while
receiver     the receiver of the webhooks fails
"""

import asyncio
import random
import signal
import time
from dataclasses import dataclass
from typing import Any

from tests.soak.proxies import Receiver, Relay, WitnessDoor
from tests.soak.world import WITNESSES

NETWORK = ({"late_ms": 3_000}, {"halt": True}, {"lie": "other-signature"}, {"lie": "cached-404"}, {"lie": "html"})
RIGHT = {"late_ms": 0, "halt": False, "lie": None}
CALM = 0.1
"""Of the time, at the end and at the beginning, in which nothing begins to fail."""


@dataclass(frozen=True, order=True)
class Event:
    """at: seconds from the beginning; kind: as the module lists them; seconds: how long it lasts."""

    at: float
    kind: str
    target: str
    mode: Any
    seconds: float


def restarts(seed, every):
    """For ever: (seconds for which the service runs, the signal that ends it). The first is a kill -9, early.

    every: seconds that it runs on the average.
    """
    rng = random.Random(f"{seed}/restarts")
    yield rng.uniform(0.5, 0.9) * every, signal.SIGKILL
    while True:
        yield rng.uniform(0.5, 1.5) * every, signal.SIGKILL if rng.random() < 0.75 else signal.SIGTERM


def timetable(seed, seconds):
    """What else fails, in order of time. Every kind there is happens at least once, however short it is."""
    begin, end = CALM * seconds, (1 - CALM) * seconds
    events = []
    plans = (
        ("relay", ("north", "south"), Relay.modes, 8, 6),
        ("door", WITNESSES, WitnessDoor.modes, 8, 6),
        ("receiver", ("receiver",), Receiver.modes, 20, 8),
        ("network", ("network",), NETWORK, 40, 8),
        ("witness", WITNESSES, ("killed",), 45, 4),
    )
    for kind, targets, modes, every, lasting in plans:
        events += _failures(random.Random(f"{seed}/{kind}"), begin, end, kind, targets, modes, every, lasting)
    return sorted(events, key=lambda event: (event.at, event.kind, event.target))


def _failures(rng, begin, end, kind, targets, modes, every, lasting):
    at = begin + rng.uniform(0, 0.3) * min(every, end - begin)
    while at < end:
        seconds = rng.uniform(0.3, 1) * lasting
        yield Event(at, kind, rng.choice(targets), rng.choice(modes), seconds)
        at += seconds + rng.uniform(0.2, 1.8) * every


class Trouble:
    """Carries a timetable out for so many seconds, then puts everything right."""

    def __init__(self, world, ledger, seed, seconds, every):
        """seconds: of trouble; every: how long the service runs, about, before it is ended."""
        self.world, self.ledger, self.seconds = world, ledger, seconds
        self.events, self.restarts = timetable(seed, seconds), restarts(seed, min(every, seconds / 3))
        self._lasting = set()

    async def run(self):
        began = time.monotonic()
        restarting = asyncio.create_task(self._restart(began + (1 - CALM) * self.seconds))
        try:
            for event in self.events:
                await asyncio.sleep(max(0.0, began + event.at - time.monotonic()))
                self.ledger.counts[_named(event)] += 1
                task = asyncio.create_task(self._happen(event))
                self._lasting.add(task)
                task.add_done_callback(self._over)
        finally:
            await asyncio.gather(restarting, *self._lasting, return_exceptions=True)
            if not restarting.cancelled() and restarting.exception() is not None:
                self.ledger.fail(f"the service was not started again: {restarting.exception()!r}")
            await self.calm()

    async def _restart(self, until):
        """End the service over and over. Where it ends by itself it is started again, but that is a failure."""
        for seconds, number in self.restarts:
            end = min(time.monotonic() + seconds, until)
            while time.monotonic() < end:
                await asyncio.sleep(0.2)
                if self.world.service.look():
                    await self.world.service.start(self.world.offset)
            if end == until:
                return
            self.ledger.counts[f"service ended by {number.name}"] += 1
            await self.world.restart(number)

    def _over(self, task):
        self._lasting.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.ledger.fail(f"trouble could not be made: {task.exception()!r}")

    async def _happen(self, event):
        world = self.world
        match event.kind:
            case "relay":
                await _for_a_while(world.relays[event.target], event)
            case "door":
                await _for_a_while(world.doors[event.target], event)
            case "receiver":
                await _for_a_while(world.receiver, event)
            case "network":
                await world.order(**event.mode)
                await asyncio.sleep(event.seconds)
                await world.order(**RIGHT)
            case "witness":
                await world.witnesses[event.target].end()
                await asyncio.sleep(event.seconds)
                await world.witnesses[event.target].start()

    async def calm(self):
        await self.world.order(**RIGHT)
        for one in (*self.world.relays.values(), *self.world.doors.values(), self.world.receiver):
            one.mode = None


async def _for_a_while(proxy, event):
    proxy.mode = event.mode
    await asyncio.sleep(event.seconds)
    proxy.mode = None


def _named(event):
    mode = " ".join(f"{name} {value}" for name, value in event.mode.items()) if event.kind == "network" else event.mode
    return f"{event.kind} {mode}"
