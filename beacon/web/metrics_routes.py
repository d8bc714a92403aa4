"""/metrics: numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from beacon.rounds.rounds import ChainStatus
from beacon.web.chain_metrics import ChainCollector
from beacon.web.services import SERVICES

METRICS: Final = web.AppKey("metrics", CollectorRegistry)

routes: Final = web.RouteTableDef()


@routes.get("/metrics")
async def metrics(request: web.Request) -> web.Response:
    """Numbers for Prometheus: the chains and their relays."""
    body = generate_latest(request.app[METRICS])
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})


def registry_of(app: web.Application) -> CollectorRegistry:
    """What /metrics of this application shows, read from its services at each request."""

    def statuses() -> Iterable[tuple[str, ChainStatus]]:
        services = app[SERVICES]
        return [(chain.name, services.status(chain)) for chain in services.chains]

    registry = CollectorRegistry()
    registry.register(ChainCollector(statuses))
    return registry
