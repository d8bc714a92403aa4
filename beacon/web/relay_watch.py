"""Whether the chains' relays give rounds: what /readyz says of them, and a warning in the log when none does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from beacon import logs
from beacon.errors import PROBLEMS
from beacon.relay_urls import public_name
from beacon.rounds.health import RelayHealth
from beacon.rounds.rounds import ChainStatus
from beacon.web.services import SERVICES, Services

LOOK_SECONDS: Final = 1.0
REPEAT_SECONDS: Final = 300.0

_logger = logs.get(__name__)


def report(status: ChainStatus) -> dict[str, Any]:
    """What stands in the way of seals on a chain, None if nothing does, and the relays that failed last."""
    failing = [health for health in status.relays if health.failures_in_a_row]
    return {"trouble": status.trouble, "detail": explanation(status), "failing_relays": [_failure(h) for h in failing]}


def explanation(status: ChainStatus) -> str | None:
    """The trouble of a chain in a sentence for the operator, with what to look at; None without trouble."""
    newest = status.newest
    if status.trouble is None:
        return None
    if status.trouble == "chain-retired":
        last = status.chain.final_round
        return f"the chain ended with round {last} at {utc(status.chain.time(last))}"
    if status.trouble not in ("no-verified-round", "clock-unsure"):
        return f"{PROBLEMS[status.trouble].title}."
    if status.log_ahead:
        return (
            f"the log's newest entry is {status.log_ahead / 1000:.0f} s ahead of this machine's clock, and no entry "
            "can be earlier: seals wait until it has caught up; is the clock right?"
        )
    if newest is None and status.expected == 0:
        return f"the first round comes at {utc(status.chain.time(1))}"
    if newest is None:
        return "no round was verified yet; are the relays reachable?"
    if not status.stale:
        return f"round {newest.round}, of {utc(newest.time)}, is ahead of this machine's clock; is the clock right?"
    return f"no new round since {utc(newest.time)}; are the relays reachable?"


def utc(milliseconds: int) -> str:
    """A time in ms since the epoch, to the second."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def watch_relays(app: web.Application) -> AsyncIterator[None]:
    """A cleanup context: warn while no relay of a chain gives rounds. `app[SERVICES]` is set before it."""
    task = asyncio.create_task(_watch(RelayWatch(app[SERVICES])))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


class RelayWatch:
    """Warns when the newest round of a chain is too old to be of use and every relay failed last, and again later."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._warned: dict[str, float] = {}

    def look(self, now: float) -> None:
        """now: seconds of a clock that never leaps."""
        for chain in self._services.chains:
            status = self._services.rounds.status(chain.info.hash)
            warned = self._warned.get(chain.name)
            if not status.stale:
                if self._warned.pop(chain.name, None) is not None:
                    _logger.info("new rounds again", chain=chain.name, round=status.newest and status.newest.round)
            elif _none_gives(status) and (warned is None or now - warned >= REPEAT_SECONDS):
                self._warned[chain.name] = now
                _logger.warning(
                    "no relay gives a round",
                    chain=chain.name,
                    trouble=explanation(status),
                    relays=[f"{public_name(health.url)}: {health.last_reason}" for health in status.relays],
                )


async def _watch(watch: RelayWatch) -> None:
    while True:
        watch.look(time.monotonic())
        await asyncio.sleep(LOOK_SECONDS)


def _none_gives(status: ChainStatus) -> bool:
    return bool(status.relays) and all(health.failures_in_a_row for health in status.relays)


def _failure(health: RelayHealth) -> dict[str, Any]:
    """Of the URL what names the relay, since a path may hold an access key."""
    return {
        "relay": public_name(health.url),
        "reason": health.last_reason,
        "time": health.last_failure,
        "in_a_row": health.failures_in_a_row,
    }
