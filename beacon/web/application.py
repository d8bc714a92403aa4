"""The HTTP API as one aiohttp application."""

from __future__ import annotations

from collections import Counter

from aiohttp import web

from beacon.log.snapshot import Snapshots
from beacon.settings import Settings
from beacon.web import (
    batch_routes,
    chain_routes,
    docs_routes,
    event_routes,
    health_routes,
    host_routes,
    log_routes,
    rates,
    sending,
    session_routes,
    snapshot_routes,
    waits,
    webhook_routes,
)
from beacon.web.measured import REQUESTS, Requests
from beacon.web.middleware import add_headers, admit, observe
from beacon.web.pages.application import add_pages


def build_web(settings: Settings) -> web.Application:
    """Routes, problems and headers. Whoever starts it sets `app[SERVICES]` before the first request."""
    app = web.Application(middlewares=[observe, admit], client_max_size=settings.limits.body_bytes)
    app[REQUESTS] = Requests()
    app[rates.RATES] = rates.Rates(settings.rates, settings.listen.trusted_proxies)
    app.on_response_prepare.append(add_headers)
    app[waits.SEATS] = waits.Seats(settings.waiting.listeners, settings.waiting.listeners_per_address)
    app[sending.HELD] = sending.Held()
    app[snapshot_routes.SNAPSHOTS] = Snapshots()
    app[snapshot_routes.DOWNLOADS] = Counter()
    app.on_shutdown.append(snapshot_routes.stop)
    app.on_shutdown.append(chain_routes.release)
    app.on_shutdown.append(waits.release)
    for module in (
        session_routes,
        batch_routes,
        host_routes,
        event_routes,
        webhook_routes,
        chain_routes,
        snapshot_routes,
        log_routes,
        health_routes,
        docs_routes,
    ):
        app.add_routes(module.routes)
    add_pages(app)
    app[docs_routes.DOCS] = docs_routes.docs_of(app)
    return app
