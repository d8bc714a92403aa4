"""Wakes each chain in phase with its rounds (APScheduler 3).

The scheduler only wakes work; what is due is asked anew each time. So a wake that is lost, late or doubled does no
harm. Three things that a plain interval does badly are done here: the phase is that of the service's clock, which may
be shifted against the machine's; a leap of the clock forward gives one wake, not one for each missed period; and a leap
backward, which would put the next wake far ahead, is noticed by the event loop's own clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from beacon.clock import Clock
from verifier.drand import ChainInfo

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

Work: TypeAlias = Callable[[], Awaitable[None]]
_LONGEST_MS: Final = 3_600_000
_PATIENCE: Final = 3


class PhaseTrigger(BaseTrigger):
    """Fires `lead` ms after each round of a chain falls due, by the service's clock; at least once an hour."""

    def __init__(self, chain: ChainInfo, clock: Clock, lead: int) -> None:
        self._chain = chain
        self._clock = clock
        self._lead = lead

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:  # noqa: ARG002
        return now + timedelta(milliseconds=self.pause())

    def pause(self) -> int:
        """Milliseconds to the next wake, 1 or more."""
        now = self._clock.now()
        following = self._chain.time(max(1, self._chain.current(now - self._lead) + 1)) + self._lead
        return min(following - now, _LONGEST_MS)


@dataclass
class _Entry:
    chain: ChainInfo
    work: Work
    trigger: PhaseTrigger
    awake: float = 0.0
    running: int = 0


class Schedule:
    """Calls `work` of each chain after each of its rounds. `work` has to allow for being called while it runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[None] | None = None
        scheduler: Any = AsyncIOScheduler
        self._scheduler = scheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )

    def add(self, chain: ChainInfo, work: Work, lead: int) -> None:
        """Before `start`: have `work` called `lead` ms after each round of the chain."""
        self._entries[chain.hash.hex()] = _Entry(chain, work, PhaseTrigger(chain, self._clock, lead))

    def start(self) -> None:
        """Wake every chain at once, and from then on in phase."""
        now = asyncio.get_running_loop().time()
        for name, entry in self._entries.items():
            entry.awake = now
            self._scheduler.add_job(self._run, entry.trigger, args=[name], id=name, next_run_time=datetime.now(UTC))
        self._scheduler.start()
        self._watch = asyncio.create_task(self._watch_over())

    def wake(self, chain: ChainInfo) -> None:
        """Call the chain's work soon, beside its phase."""
        if self._scheduler.running:
            name = chain.hash.hex()
            self._scheduler.add_job(self._run, args=[name], id=f"{name} now", replace_existing=True)

    async def stop(self) -> None:
        """Wake nothing more, and cancel what runs: it is due again after the next start."""
        if not self._scheduler.running:
            return
        self._scheduler.pause()
        tasks = [*self._running, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        self._scheduler.shutdown(wait=False)
        await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        entry = self._entries[name]
        task = asyncio.ensure_future(entry.work())
        self._running.add(task)
        entry.running += 1
        entry.awake = asyncio.get_running_loop().time()
        try:
            await asyncio.wait({task})
        finally:
            self._running.discard(task)
            entry.running -= 1
            entry.awake = asyncio.get_running_loop().time()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("scheduled work failed", chain=entry.chain.beacon_id, exc_info=error)

    async def _watch_over(self) -> None:
        shortest = min((entry.chain.period for entry in self._entries.values()), default=1)
        while True:
            await asyncio.sleep(shortest)
            self.check_on(asyncio.get_running_loop().time())

    def check_on(self, loop_time: float) -> None:
        """Wake every chain that has slept for several periods and is not before its genesis."""
        for name, entry in self._entries.items():
            awaited = entry.running == 0 and self._clock.now() >= entry.chain.time(1)
            if awaited and loop_time - entry.awake > _PATIENCE * entry.chain.period:
                _log.warning("woken late: the clock went back?", chain=entry.chain.beacon_id)
                entry.awake = loop_time
                self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))
