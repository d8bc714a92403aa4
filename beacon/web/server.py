"""Running an application until it is told to stop, or until it must."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from typing import Final

from aiohttp import web

from beacon import logs
from beacon.settings import ListenSettings
from beacon.web.services import SERVICES

WATCH_SECONDS: Final = 0.2
GC_THRESHOLDS: Final = (20_000, 10, 50)

_logger = logs.get(__name__)


async def serve(app: web.Application, listen: ListenSettings, announce: Callable[[str], None]) -> str | None:
    """Serve until SIGTERM or SIGINT, or until a database takes no more writes; finish the requests under way.

    announce: called once with the listening URL, when requests are taken.
    Returns None when told to stop, else why it had to. Raises OSError when the address cannot be bound, and whatever
    the application's start raises.
    """
    runner = web.AppRunner(
        app, access_log=None, auto_decompress=False, shutdown_timeout=listen.shutdown_ms / 1000, handle_signals=False
    )
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        await runner.setup()
        await web.TCPSite(runner, listen.host, listen.port).start()
        _spare_the_collector()
        announce(_url(runner))
        reason = await _until_end(told, app[SERVICES].stopped)
        _logger.info("stopping", reason=reason or "told to")
        return reason
    finally:
        await runner.cleanup()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _spare_the_collector() -> None:
    """Have the garbage collector look less often, and never again at what is there for good.

    Reference counts free nearly all. Open sessions live long and hold no cycles, and each full collection, with its
    pause of a tenth of a second at some ten thousand of them, walks through them all.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def _until_end(told: asyncio.Event, stopped: Callable[[], str | None]) -> str | None:
    while not told.is_set():
        if reason := stopped():
            return reason
        try:
            await asyncio.wait_for(told.wait(), WATCH_SECONDS)
        except TimeoutError:
            continue
    return stopped()


def _url(runner: web.AppRunner) -> str:
    host, port, *_ = runner.addresses[0]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
