"""/healthz: should this process go on? /readyz: can it seal now?"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from beacon.web.openapi import Answer, describe
from beacon.web.relay_watch import report
from beacon.web.schemas import Health, Readiness
from beacon.web.services import SERVICES
from beacon.web.session_routes import json_response
from beacon.witness.witnesses import Witnessed

UNAVAILABLE: Final = web.HTTPServiceUnavailable.status_code

routes: Final = web.RouteTableDef()


@routes.get("/healthz")
@describe(
    "Service",
    limited=False,
    answers={200: Answer("It goes on.", Health), 503: Answer("Only a restart helps.", Health)},
)
async def healthz(request: web.Request) -> web.Response:
    """200 while the databases take writes; 503 when only a restart helps."""
    stopped = request.app[SERVICES].stopped()
    return json_response({"healthy": not stopped, "stopped": stopped}, status=UNAVAILABLE if stopped else 200)


@routes.get("/readyz")
@describe(
    "Service",
    limited=False,
    answers={200: Answer("It can seal.", Readiness), 503: Answer("It cannot seal now.", Readiness)},
)
async def readyz(request: web.Request) -> web.Response:
    """200 when sessions can be sealed on the default chain now; 503 with what stands in the way."""
    services = request.app[SERVICES]
    chains = {chain.name: report(services.status(chain)) for chain in services.chains}
    stopped, trouble = services.stopped(), services.trouble()
    ready = not stopped and not trouble and chains[services.settings.default_chain]["trouble"] is None
    answer = {"ready": ready, "stopped": stopped, "writes": trouble, "chains": chains}
    if witnesses := services.witnesses.report():
        answer["witnesses"] = {one.name: _witnessed(one) for one in witnesses}
    return json_response(answer, status=200 if ready else UNAVAILABLE)


def _witnessed(one: Witnessed) -> dict[str, Any]:
    return {
        "size": one.standing.size,
        "time": one.standing.time,
        "lag": one.lag,
        "behind_ms": one.behind_ms,
        "disagrees": one.disagrees,
        "last": one.standing.last,
        "failures_in_a_row": one.standing.failures_in_a_row,
    }
