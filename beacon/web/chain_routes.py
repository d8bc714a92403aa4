"""/v1/chains: the drand chains that the service follows, their relays, and the rounds that it has verified."""

from __future__ import annotations

import math
from typing import Any, Final

from aiohttp import web

from beacon.errors import ApiError
from beacon.relay_urls import public_name
from beacon.rounds.health import RelayHealth
from beacon.web import waits
from beacon.web.log_routes import IMMUTABLE
from beacon.web.openapi import DECIMAL, IF_NONE_MATCH, JSON, WAITING, Answer, Parameter, describe
from beacon.web.schemas import Chains, Round
from beacon.web.services import SERVICES, Chain, Services
from beacon.web.session_routes import json_response
from beacon.web.tagged import tagged
from verifier.drand import VerifiedRound
from verifier.encoding import MAX_INTEGER, encode_json, parse_decimal
from verifier.errors import FormatError

MAX_WAIT: Final = 60
"""Seconds that a request may wait for a round."""
NEXT_WAIT: Final = 30
LONG_WAIT: Final = Parameter(
    "wait", "query", DECIMAL, f"Seconds to wait, {MAX_WAIT} at the most; more is taken for that."
)

routes: Final = web.RouteTableDef()


@routes.get("/v1/chains")
@describe("Chains", answers={200: Answer("The chains.", Chains)})
async def chains(request: web.Request) -> web.Response:
    """Every chain with its newest round, its relays' health, and whether sessions can be sealed on it now."""
    services = request.app[SERVICES]
    return json_response({"chains": [_chain(services, chain) for chain in services.chains]})


@routes.get("/v1/chains/{hash}/rounds/next")
@describe(
    "Chains",
    parameters=[LONG_WAIT],
    answers={200: Answer("The round.", Round, headers=("Content-Location",))},
    errors=(*WAITING, "chain-unknown", "round-unknown"),
)
async def next_round(request: web.Request) -> web.StreamResponse:
    """Wait for the next round that is verified here: `?wait=SECONDS`, at most 60, else 30."""
    chain = _named(request)
    wait = _wait(request, NEXT_WAIT)
    with waits.seat(request):
        found = await waits.while_there(request, request.app[SERVICES].rounds.wait(chain.info.hash, None, wait))
    if found is None:
        raise ApiError("round-unknown", f"No newer round of {chain.name} was verified in {wait} s.", retry_after=1)
    place = f"/v1/chains/{chain.info.hash.hex()}/rounds/{found.round}"
    return json_response(_round(found), headers={"Content-Location": place})


@routes.get("/v1/chains/{hash}/rounds/{round}")
@describe(
    "Chains",
    parameters=[LONG_WAIT, IF_NONE_MATCH],
    answers={
        200: Answer("The round, which never changes.", Round, headers=("Cache-Control", "ETag")),
        304: Answer("It is the one that the caller has.", headers=("Cache-Control", "ETag")),
    },
    errors=(*WAITING, "chain-unknown", "round-unknown"),
)
async def round_(request: web.Request) -> web.StreamResponse:
    """A round that was verified here, for ever; `?wait=SECONDS`, at most 60, waits until it is."""
    services, chain = request.app[SERVICES], _named(request)
    try:
        number = parse_decimal(request.match_info["round"], MAX_INTEGER)
    except FormatError as error:
        raise ApiError("round-unknown", "A round is a decimal number.") from error
    wait = _wait(request, 0)
    if wait and 1 <= number <= chain.info.final_round:
        with waits.seat(request):
            found = await waits.while_there(request, services.rounds.wait(chain.info.hash, number, wait))
    else:
        found = await waits.while_there(request, services.rounds.get(chain.info.hash, number))
    if found is None:
        raise ApiError(
            "round-unknown", f"Round {number} of {chain.name} is not among the rounds kept here.", retry_after=1
        )
    return tagged(request, encode_json(_round(found)), JSON, IMMUTABLE)


async def release(app: web.Application) -> None:
    """Before a stop: answer everybody who waits for a round."""
    services = app.get(SERVICES)
    if services is not None and services.rounds is not None:
        services.rounds.release()


def _named(request: web.Request) -> Chain:
    for chain in request.app[SERVICES].chains:
        if chain.info.hash.hex() == request.match_info["hash"]:
            return chain
    raise ApiError("chain-unknown", "A chain is named by its chain hash, 64 hex digits.")


def _wait(request: web.Request, default: int) -> int:
    if set(request.query) - {"wait"} or len(request.query) > 1:
        raise ApiError("invalid-request", "The only parameter is `wait`, once.")
    try:
        wait = parse_decimal(request.query.get("wait", str(default)))
    except FormatError as error:
        raise ApiError("invalid-request", "`wait` is a number of seconds.") from error
    return min(wait, MAX_WAIT)


def _chain(services: Services, chain: Chain) -> dict[str, Any]:
    status = services.status(chain)
    newest = status.newest
    return {
        "name": chain.name,
        "hash": chain.info.hash.hex(),
        "default": chain.name == services.settings.default_chain,
        "sandbox_only": chain.sandbox_only,
        "last_round": chain.info.last_round,
        "newest_round": None if newest is None else newest.round,
        "newest_round_time": None if newest is None else newest.time,
        "expected_round": status.expected,
        "stale": status.stale,
        "trouble": status.trouble,
        "waiting_for": len(status.wanted),
        "overdue": status.overdue,
        "signed_twice": list(status.evidence),
        "relays": [_relay(health) for health in status.relays],
        "info": chain.info.as_dict(),
    }


def _relay(health: RelayHealth) -> dict[str, Any]:
    """What one relay did, times in ms; of its URL what names it, since a path may hold an access key."""
    return {
        "relay": public_name(health.url),
        "latency_ms": health.latency,
        "expected_ms": math.ceil(health.cost),
        "last_success": health.last_answer,
        "last_round": health.last_round,
        "last_failure": health.last_failure,
        "last_failure_reason": health.last_reason,
        "failures_in_a_row": health.failures_in_a_row,
        "answered": health.answered,
        "beaten": health.beaten,
        "refused": {str(reason): count for reason, count in sorted(health.refused.items())},
    }


def _round(found: VerifiedRound) -> dict[str, Any]:
    document = {
        "chain": found.chain.hash.hex(),
        "round": found.round,
        "time": found.chain.time(found.round),
        "randomness": found.randomness.hex(),
        "signature": found.signature.hex(),
    }
    if found.previous_signature is not None:
        document["previous_signature"] = found.previous_signature.hex()
    return document
