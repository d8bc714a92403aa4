"""A drand network of one, on loopback, for hosts' tests and the demo. Not a source of randomness for any game.

Drand's HTTP API as two programs serve it: v1 as a drand node, v2 as drand's relay, with their status codes, holding and
caching, mistakes included. Whoever runs it knows every round in advance; so its beacon id is "devnet", which is in its
chain hash. Here "head" is the newest round that exists, and "current" the one that is current by the clock.

    round asked for             v1                                   v2
    up to the head              200, cached for ever                 200, cached for ever
    head + 1                    held until it exists, then 200       held, if it is current + 1, then 200, not cached
    due, and not there          500                                  500, not cached
    later than current + 1      404, cached until it is due          425, cached until the next one
    0                           the newest, cached for ever (sic)    the newest, cached until the next one
    another chain               404                                  500

It can be told to be late, to halt and resume, and to lie, by options or at /devnet (devnet_control.py); and it can
serve a recording of another network at its own pace, or faster.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from beacon.clock import Clock, SystemClock
from beacon.rounds.devnet_control import MAX_BODY, Behaviour, control_routes
from beacon.rounds.devnet_lies import other_chain, told
from beacon.rounds.network import (
    BEACON_ID,
    DEFAULT_SCHEME,
    DevnetError,
    Network,
    NotDue,
    Recording,
    ReplayClock,
    Signer,
    Source,
    open_network,
)
from beacon.rounds.production import Production
from verifier.drand import Round
from verifier.encoding import MAX_INTEGER

__all__ = ["BEACON_ID", "Devnet", "DevnetError", "Network", "NotDue", "open_network", "replay", "serve"]

_LONGEST_SLEEP_MS: Final = 250
_FOREVER: Final = "public, max-age=604800, immutable"
_NO_CACHE: Final = "no-cache"
_MAX_UINT64: Final = 2**64 - 1
_MAX_DIGITS: Final = 20


class Devnet:
    """Serves one network. Between `start` and `stop`; `port` 0 takes a free one."""

    def __init__(
        self, network: Network | Source, clock: Clock, host: str = "127.0.0.1", port: int = 0, *, speed: float = 1
    ) -> None:
        """network: with its key, or whatever else has rounds. speed: of the clock, against real time."""
        self.source: Final[Source] = Signer(network) if isinstance(network, Network) else network
        self.chain: Final = self.source.chain
        self.production: Final = Production(self.chain, clock, self.source.last)
        self.behaviour: Final = Behaviour(self.source, self.production)
        self._clock = clock
        self._speed = max(speed, 1)
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        self._runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def round(self, round_number: int) -> Round:
        """A round that exists by now. Raises NotDue."""
        if not 1 <= round_number <= self.production.head():
            raise NotDue(f"round {round_number} is not due")
        return await self.source.round(round_number)

    def app(self) -> web.Application:
        """Drand's HTTP API, and /devnet."""
        app = web.Application(middlewares=[_headers], client_max_size=MAX_BODY)
        app.add_routes(control_routes(self.behaviour))
        get = app.router.add_get
        get("/chains", self._hashes)
        get("/{chain}/info", self._for_chain(self._info_v1, web.HTTPNotFound))
        get("/{chain}/public/latest", self._for_chain(self._latest_v1, web.HTTPNotFound))
        get("/{chain}/public/{round}", self._for_chain(self._round_v1, web.HTTPNotFound))
        get("/{chain}/health", self._for_chain(self._health, web.HTTPNotFound))
        get("/v2/chains", self._hashes)
        get("/v2/beacons", self._names)
        failed = web.HTTPInternalServerError
        for one in ("/v2/chains/{chain}", "/v2/beacons/{beacon}"):
            get(one + "/info", self._for_chain(self._info_v2, failed))
            get(one + "/health", self._for_chain(self._health, failed))
            get(one + "/rounds/latest", self._for_chain(self._latest_v2, failed))
            get(one + "/rounds/next", self._for_chain(self._next_v2, failed))
            get(one + "/rounds/{round}", self._for_chain(self._round_v2, failed))
        return app

    def _for_chain(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]], unknown: type[web.HTTPException]
    ) -> Callable[..., Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            asked = request.match_info
            named = asked.get("chain", self.chain.hash.hex()).lower()
            if named != self.chain.hash.hex() or asked.get("beacon", self.chain.beacon_id) != self.chain.beacon_id:
                return _text(unknown.status_code, "unknown chain")
            return await handler(request)

        return handle

    async def _hashes(self, _: web.Request) -> web.StreamResponse:
        return web.json_response([self.chain.hash.hex()])

    async def _names(self, _: web.Request) -> web.StreamResponse:
        return web.json_response([self.chain.beacon_id])

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.chain.as_dict()
        return other_chain(info) if self.behaviour.lie == "other-chain" else info

    async def _info_v1(self, _: web.Request) -> web.StreamResponse:
        info = self._info()
        served = {name: info[name] for name in ("public_key", "period", "genesis_time", "hash")} | {
            "groupHash": info["genesis_seed"],
            "schemeID": info["scheme"],
            "metadata": {"beaconID": self.chain.beacon_id},
        }
        return _json(served, _FOREVER)

    async def _info_v2(self, _: web.Request) -> web.StreamResponse:
        info = self._info()
        info["chain_hash"] = info.pop("hash")
        return web.json_response(info)

    async def _health(self, _: web.Request) -> web.StreamResponse:
        head, expected = self.production.head(), self.production.expected()
        if head == 0:
            return _text(500, "Failed to get latest beacon for health")
        status = 200 if head >= expected - 1 else 503
        return _json({"current": head, "expected": expected}, _NO_CACHE, status=status)

    async def _latest_v1(self, request: web.Request) -> web.StreamResponse:
        head, now, period = self.production.head(), self._clock.now(), 1_000 * self.chain.period
        following = self.chain.time(head) + period
        until = following if following > now else now + period // 2
        headers = {"Expires": _http_date(until), "Last-Modified": _http_date(self.chain.time(max(1, head)))}
        if 0 < until - now < period:
            # as drand writes it, with a colon
            headers["Cache-Control"] = f"max-age:{math.ceil((until - now) / 1000)}, public"
        return await self._answer(request, head, 1, headers)

    async def _latest_v2(self, request: web.Request) -> web.StreamResponse:
        caching = f"public, must-revalidate, max-age={self._seconds_to_next()}"
        return await self._answer(request, self.production.head(), 2, {"Cache-Control": caching})

    async def _next_v2(self, request: web.Request) -> web.StreamResponse:
        following = self.production.head() + 1
        await self._until(following)
        return await self._answer(request, following, 2, {"Cache-Control": _NO_CACHE})

    async def _round_v1(self, request: web.Request) -> web.StreamResponse:
        asked = _round_number(request)
        if asked is None:
            return web.Response(status=400)
        head = self.production.head()
        if asked == 0:
            return await self._answer(request, head, 1, {"Cache-Control": _FOREVER})
        if asked > MAX_INTEGER or self.chain.time(asked) > self._clock.now() + 1_000 * self.chain.period:
            wait = (self.chain.time(min(asked, MAX_INTEGER)) - self._clock.now()) // 1000
            return _empty(404, f"public, must-revalidate, max-age={wait}")
        if asked == head + 1:
            await self._until(asked)
        elif asked > head and self.chain.time(asked) > self._clock.now():
            return _empty(404, "must-revalidate, no-cache, max-age=0")
        modified = {"Cache-Control": _FOREVER, "Last-Modified": _http_date(self.chain.time(asked))}
        return await self._answer(request, asked, 1, modified)

    async def _round_v2(self, request: web.Request) -> web.StreamResponse:
        asked = _round_number(request)
        if asked is None:
            return _text(400, "Failed to parse round parameter", _FOREVER)
        if asked == 0:
            return await self._latest_v2(request)
        current = self.chain.current(self._clock.now())
        if asked > current + 1:
            caching = f"must-revalidate, public, max-age={self._seconds_to_next()}"
            return _text(425, "Requested future beacon", caching)
        if asked == current + 1:
            await self._until(asked)
        caching = _FOREVER if asked <= current else _NO_CACHE
        return await self._answer(request, asked, 2, {"Cache-Control": caching})

    async def _answer(
        self, request: web.Request, round_number: int, version: int, headers: dict[str, str]
    ) -> web.StreamResponse:
        def render(stated: Round) -> dict[str, Any]:
            fields: dict[str, Any] = {"round": stated.round}
            if version == 1:
                fields["randomness"] = hashlib.sha256(stated.signature).hexdigest()
            fields["signature"] = stated.signature.hex()
            if stated.previous_signature is not None:
                fields["previous_signature"] = stated.previous_signature.hex()
            return fields

        try:
            stated = await self.round(round_number)
            lie = self.behaviour.round_lie
            answer = render(stated) if lie is None else await told(lie, self.source, stated, render, request)
        except NotDue:
            return _text(500, "Failed to get beacon")
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer, headers=headers)

    async def _until(self, round_number: int) -> None:
        """Hold the request until the round exists, for two periods at the most."""
        if round_number > (self.source.last or round_number):
            return
        now, period = self._clock.now(), 1_000 * self.chain.period
        limit = max(now, self.chain.time(round_number)) + 2 * period
        while self.production.head() < round_number and (now := self._clock.now()) < limit:
            # The clock is given, so nothing wakes us; shortly before the round is due we look closer.
            wait = self.chain.time(round_number) + self.production.late_ms - now
            pause = min(wait, _LONGEST_SLEEP_MS) if wait > 0 else _LONGEST_SLEEP_MS // 5
            await asyncio.sleep(pause / 1000 / self._speed)

    def _seconds_to_next(self) -> int:
        now = self._clock.now()
        return max(0, self.chain.time(self.chain.current(now) + 1) - now) // 1000


async def serve(
    host: str,
    port: int,
    period: int,
    state_file: Path | None,
    *,
    scheme: str = DEFAULT_SCHEME,
    clock: Clock | None = None,
    ready: Callable[[Devnet], None] | None = None,
) -> None:
    """Run a devnet until cancelled.

    period: seconds. state_file: keeps key and genesis over restarts; made when it is not there. None: both are gone
    when this ends. ready: called when requests are taken. Raises DevnetError, and OSError when the port is taken.
    """
    clock = clock or SystemClock()
    await _run(Devnet(open_network(period, state_file, clock, scheme), clock, host, port), ready)


async def replay(
    host: str,
    port: int,
    recording: Recording,
    speed: float,
    *,
    clock: Clock | None = None,
    ready: Callable[[Devnet], None] | None = None,
) -> None:
    """Serve a recording until cancelled, as if its first round were due now.

    speed: how many times as fast as it was. Raises OSError when the port is taken.
    """
    begin = recording.chain.time(recording.first)
    await _run(Devnet(recording, ReplayClock(begin, speed, clock or SystemClock()), host, port, speed=speed), ready)


async def _run(devnet: Devnet, ready: Callable[[Devnet], None] | None) -> None:
    await devnet.start()
    try:
        if ready is not None:
            ready(devnet)
        await asyncio.Event().wait()
    finally:
        await devnet.stop()


@web.middleware
async def _headers(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    response = await handler(request)
    if not response.prepared:
        response.headers["Server"] = "fair-beacon devnet"
        if request.path != "/devnet":
            response.headers["Access-Control-Allow-Origin"] = "*"
    return response


def _json(fields: dict[str, Any], caching: str, *, status: int = 200) -> web.Response:
    return web.Response(
        body=json.dumps(fields).encode(),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": caching},
    )


def _text(status: int, text: str, caching: str = _NO_CACHE) -> web.Response:
    headers = {"Cache-Control": caching, "X-Content-Type-Options": "nosniff"}
    return web.Response(status=status, text=text + "\n", headers=headers)


def _empty(status: int, caching: str) -> web.Response:
    return web.Response(status=status, headers={"Cache-Control": caching})


def _http_date(time_ms: int) -> str:
    return formatdate(time_ms / 1000, usegmt=True)


def _round_number(request: web.Request) -> int | None:
    """A round number as Go's ParseUint reads it: digits, leading zeros too, below 2^64."""
    text = request.match_info["round"]
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_DIGITS and int(digits) <= _MAX_UINT64 else None
