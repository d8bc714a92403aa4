"""Running an application until it is told to stop, or until it must."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from aiohttp import web

from beacon import logs
from beacon.settings import ListenSettings, MetricsSettings
from beacon.web.connections import Connection, Room, answering
from beacon.web.measured import REQUESTS
from beacon.web.metrics_routes import build_metrics
from beacon.web.services import SERVICES

BACKLOG: Final = 128
WATCH_SECONDS: Final = 0.2
IDLE_SECONDS: Final = 120.0
"""How long a connection may be without a request whose head is whole: longer than proxies keep one that is idle."""
LINGER_SECONDS: Final = 10.0
"""How long the rest of a body is read that its answer did not wait for, so that the client gets to read the answer."""
FILES: Final = 65_536
"""Open files that the service asks the system for; it gives as many as it allows."""
RESERVED_FILES: Final = 128
"""Those that are not for clients: databases, relays, witnesses, webhooks, the worker."""
GC_THRESHOLDS: Final = (20_000, 10, 50)

_logger = logs.get(__name__)


async def serve(
    app: web.Application,
    listen: ListenSettings,
    announce: Callable[[str], None],
    metrics: MetricsSettings | None = None,
    *,
    stopped: Callable[[], str | None] | None = None,
) -> str | None:
    """Serve until SIGTERM or SIGINT, or until a database takes no more writes; finish the requests under way.

    announce: called once with the listening URL, when requests are taken. metrics: where /metrics listens, if it does.
    stopped: why it cannot go on, None while it can; without it `app[SERVICES]` says so.
    Returns None when told to stop, else why it had to. Raises OSError when the address cannot be bound, and whatever
    the application's start raises.
    """
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(listening(app, listen.host, listen.port, listen.shutdown_ms))
            if metrics is not None and metrics.port is not None:
                numbers = listening(build_metrics(app), metrics.host, metrics.port, 0)
                _logger.info("metrics", url=f"{await stack.enter_async_context(numbers)}/metrics")
            _spare_the_collector()
            announce(url)
            reason = await _until_end(told, stopped or app[SERVICES].stopped)
            _logger.info("stopping", reason=reason or "told to")
            return reason
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int, shutdown_ms: int) -> AsyncIterator[str]:
    """An application that takes requests while the block runs, at the URL that this gives.

    shutdown_ms: what requests under way may still take afterwards. Raises as `serve`.
    """
    runner = web.AppRunner(app, shutdown_timeout=shutdown_ms / 1000, handle_signals=False)
    loop = asyncio.get_running_loop()
    try:
        await runner.setup()
        server = runner.server
        assert server is not None
        requests = app[REQUESTS]
        server.request_handler = answering(server.request_handler, requests)
        limits = {"keepalive_timeout": IDLE_SECONDS, "lingering_time": LINGER_SECONDS}
        options = {"access_log": None, "auto_decompress": False}
        room = Room(_connections())
        connect = partial(Connection, server, requests, room, loop=loop, **limits, **options)
        listener = await loop.create_server(connect, host, port, backlog=BACKLOG)
        try:
            yield _url(*listener.sockets[0].getsockname()[:2])
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _connections() -> int:
    """How many connections of clients may be open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(1, (FILES if soft == resource.RLIM_INFINITY else soft) - RESERVED_FILES)


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


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
