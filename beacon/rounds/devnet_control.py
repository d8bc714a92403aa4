"""How a devnet is told to misbehave while it runs: `POST /devnet`, from this machine only.

    curl localhost:8081/devnet -H 'Content-Type: application/json' -d '{"late_ms": 5000}'

    late_ms       rounds come so many ms after their time; 0: on time
    halt          true: no round after the newest; a number: none after that one; false: go on, what was missed first
    catch_up_ms   ms between the rounds that it makes up for
    lie           one of devnet_lies.LIES; null: the truth

`GET /devnet` shows all of it. A page in a browser cannot call it: other origins and other hosts' names are refused.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import hdrs, web

from beacon.rounds.devnet_lies import LIES, ROUND_LIES, cannot
from beacon.rounds.network import Source
from beacon.rounds.production import Production
from verifier.encoding import parse_document_json
from verifier.errors import VerifierError

MAX_BODY: Final = 4_096
_MOST_MS: Final = 366 * 86_400_000


class Refused(ValueError):  # noqa: N818 - named by what happened
    """An order that the devnet does not take."""


@dataclass
class Behaviour:
    """How the devnet behaves now."""

    source: Source
    production: Production
    lie: str | None = None

    @property
    def round_lie(self) -> str | None:
        return self.lie if self.lie in ROUND_LIES else None

    def apply(self, orders: dict[str, Any]) -> None:
        """Take orders as the module describes them, all or none. Raises Refused."""
        for name, value in orders.items():
            _check(name, value)
        if orders.get("lie") is not None and (why := cannot(orders["lie"], self.source)):
            raise Refused(why)
        if "late_ms" in orders:
            self.production.late_ms = orders["late_ms"]
        if "catch_up_ms" in orders:
            self.production.catch_up_ms = orders["catch_up_ms"]
        if "lie" in orders:
            self.lie = orders["lie"]
        if "halt" in orders:
            halt = orders["halt"]
            if halt is False:
                self.production.resume()
            else:
                self.production.halt(None if halt is True else halt)

    def as_dict(self) -> dict[str, Any]:
        return {
            "chain": self.source.chain.hash.hex(),
            "scheme": self.source.chain.scheme.name,
            "head": self.production.head(),
            "expected": self.production.expected(),
            "late_ms": self.production.late_ms,
            "halt": self.production.halted,
            "catch_up_ms": self.production.catch_up_ms,
            "lie": self.lie,
        }


def control_routes(behaviour: Behaviour) -> list[web.RouteDef]:
    """GET and POST /devnet."""

    async def show(request: web.Request) -> web.Response:
        _require_local(request)
        return web.json_response(behaviour.as_dict())

    async def change(request: web.Request) -> web.Response:
        _require_local(request)
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="the body is application/json\n")
        body = await request.read()
        try:
            behaviour.apply(parse_document_json(body))
        except (Refused, VerifierError) as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        return web.json_response(behaviour.as_dict())

    return [web.get("/devnet", show), web.post("/devnet", change)]


def _check(name: str, value: object) -> None:
    match name:
        case "late_ms" | "catch_up_ms":
            least = 1 if name == "catch_up_ms" else 0
            if type(value) is not int or not least <= value <= _MOST_MS:
                raise Refused(f"{name} is a number of milliseconds from {least}")
        case "halt":
            if not isinstance(value, bool) and (type(value) is not int or value < 1):
                raise Refused("halt is true, false or a round number")
        case "lie":
            if value is not None and value not in LIES:
                raise Refused(f"lie is null or one of {', '.join(LIES)}")
        case _:
            raise Refused(f"there is no {name}; there are late_ms, halt, catch_up_ms, lie")


def _require_local(request: web.Request) -> None:
    """Only programs on this machine: neither other machines nor pages in its browser."""
    names = (request.remote or "", request.url.host or "")
    if hdrs.ORIGIN in request.headers or not all(_is_loopback(name) for name in names):
        raise web.HTTPForbidden(text="only from this machine\n")


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.split("%", 1)[0]).is_loopback
    except ValueError:
        return False
