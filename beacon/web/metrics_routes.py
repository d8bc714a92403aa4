"""/metrics: numbers for Prometheus, as an application of its own, on a listener that no proxy leads to by accident."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from beacon.rounds.rounds import ChainStatus
from beacon.web.chain_metrics import ChainCollector
from beacon.web.measured import MEASURED, REQUESTS, RequestCollector, ServiceCollector
from beacon.web.middleware import add_headers, observe
from beacon.web.services import SERVICES
from beacon.web.waits import SEATS
from beacon.web.witness_metrics import WitnessCollector
from beacon.witness.witnesses import Witnessed

REGISTRIES: Final = web.AppKey("registries", tuple[CollectorRegistry, ...])

routes: Final = web.RouteTableDef()


def build_metrics(app: web.Application) -> web.Application:
    """What serves the metrics of `app`."""
    metrics_app = web.Application(middlewares=[observe])
    metrics_app[REQUESTS] = app[REQUESTS]
    metrics_app[REGISTRIES] = registries_of(app)
    metrics_app.on_response_prepare.append(add_headers)
    metrics_app.add_routes(routes)
    return metrics_app


@routes.get("/metrics")
async def metrics(request: web.Request) -> web.Response:
    """Numbers for Prometheus: requests, writes, sessions, chains, relays and witnesses."""
    of_loop, of_any = request.app[REGISTRIES]
    body = generate_latest(of_loop) + await asyncio.to_thread(generate_latest, of_any)
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})


def registries_of(app: web.Application) -> tuple[CollectorRegistry, CollectorRegistry]:
    """What /metrics shows, read from the services at each request: what the event loop owns, and the rest."""

    def statuses() -> Iterable[tuple[str, ChainStatus]]:
        services = app.get(SERVICES)
        return [(chain.name, services.status(chain)) for chain in services.chains] if services else []

    def witnesses() -> Sequence[Witnessed]:
        services = app.get(SERVICES)
        return services.witnesses.report() if services else ()

    of_loop, of_any = CollectorRegistry(), CollectorRegistry()
    of_loop.register(RequestCollector(app[REQUESTS], lambda: len(app[SEATS])))
    of_loop.register(ChainCollector(statuses))
    of_loop.register(WitnessCollector(witnesses))
    of_any.register(ServiceCollector(lambda: app.get(MEASURED)))
    return of_loop, of_any
