"""/v1/chains: the drand chains that the service follows, and the rounds that it has verified."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from beacon.errors import ApiError
from beacon.web.log_routes import IMMUTABLE
from beacon.web.services import SERVICES, Chain, Services
from beacon.web.session_routes import json_response
from verifier.drand import VerifiedRound
from verifier.encoding import MAX_INTEGER, parse_decimal
from verifier.errors import FormatError

routes: Final = web.RouteTableDef()


@routes.get("/v1/chains")
async def chains(request: web.Request) -> web.Response:
    """Every chain with its info, its newest verified round, and whether sessions can be sealed on it now."""
    services = request.app[SERVICES]
    return json_response({"chains": [_chain(services, chain) for chain in services.chains]})


@routes.get("/v1/chains/{hash}/rounds/{round}")
async def round_(request: web.Request) -> web.Response:
    """A round that was verified here; its randomness is computed from its signature."""
    services = request.app[SERVICES]
    chain = next((chain for chain in services.chains if chain.info.hash.hex() == request.match_info["hash"]), None)
    if chain is None:
        raise ApiError("chain-unknown", "A chain is named by its chain hash, 64 hex digits.")
    try:
        number = parse_decimal(request.match_info["round"], MAX_INTEGER)
    except FormatError as error:
        raise ApiError("round-unknown", "A round is a decimal number.") from error
    found = await services.rounds.get(chain.info.hash, number)
    if found is None:
        raise ApiError("round-unknown", f"Round {number} of {chain.name} is not among the rounds kept here.")
    return json_response(_round(found), headers={"Cache-Control": IMMUTABLE})


def _chain(services: Services, chain: Chain) -> dict[str, Any]:
    newest = services.rounds.newest(chain.info.hash)
    return {
        "name": chain.name,
        "hash": chain.info.hash.hex(),
        "default": chain.name == services.settings.default_chain,
        "sandbox_only": chain.sandbox_only,
        "last_round": chain.info.last_round,
        "newest_round": None if newest is None else newest.round,
        "newest_round_time": None if newest is None else chain.info.time(newest.round),
        "trouble": services.rounds.trouble(chain.info.hash),
        "info": chain.info.as_dict(),
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
