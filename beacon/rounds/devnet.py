"""A drand network of one, on loopback, for hosts' tests and the demo. Not a source of randomness for any game.

Quicknet's scheme and drand's HTTP API, v1 (as a drand node serves it) and v2 (as drand's relay does), under a fresh key
of its own. Whoever runs it knows every round in advance; so its beacon id is "devnet", which is in its chain hash.

    round asked for     v1                                  v2
    due                 200, cached for ever                200, cached for ever
    the next one        held until it is due, then 200      the same, not cached
    a later one         404, cached until it is due         425, cached until the next one
    another chain       404                                 404
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from beacon.clock import Clock, SystemClock
from verifier.bls import reference
from verifier.drand import SCHEMES, ChainInfo, Round
from verifier.encoding import MAX_INTEGER, parse_document_json, parse_hex, u32, u64
from verifier.errors import VerifierError

BEACON_ID: Final = "devnet"
SCHEME: Final = SCHEMES["bls-unchained-g1-rfc9380"]
_SECRET_BYTES: Final = 32
_KEPT_ROUNDS: Final = 4_096
_LONGEST_SLEEP_MS: Final = 250
_STATE_FIELDS: Final = frozenset({"secret", "genesis_seed", "genesis_time", "period"})
_FOREVER: Final = "public, max-age=604800, immutable"
_NUMBER = re.compile(r"[0-9]{1,16}", re.ASCII)


class DevnetError(Exception):
    """The devnet cannot run: its state file is not one, or is of another network."""


class NotDue(Exception):  # noqa: N818 - named by what happened
    """A round that does not exist yet is not signed for anybody."""


@dataclass(frozen=True)
class Network:
    """The key and the chain. `fresh` makes one; the state file keeps one."""

    chain: ChainInfo
    secret: int = field(repr=False)

    @classmethod
    def make(cls, secret: int, genesis_seed: bytes, genesis_time: int, period: int) -> Network:
        """genesis_seed: 32 bytes; genesis_time and period: seconds."""
        key = reference.public_key(SCHEME.group, secret)
        head = u32(period) + u64(genesis_time)
        chain_hash = hashlib.sha256(head + key + genesis_seed + BEACON_ID.encode()).digest()
        return cls(ChainInfo(chain_hash, key, period, genesis_time, genesis_seed, SCHEME, BEACON_ID), secret)

    @classmethod
    def fresh(cls, period: int, genesis_time: int) -> Network:
        """A network with a new random key and genesis seed."""
        secret = 1 + secrets.randbelow(reference.ORDER - 1)
        return cls.make(secret, secrets.token_bytes(32), genesis_time, period)

    @classmethod
    def load(cls, path: Path) -> Network:
        """The network of a state file. Raises DevnetError."""
        try:
            state = parse_document_json(path.read_bytes())
            if set(state) != _STATE_FIELDS:
                raise DevnetError(f"{path} is no devnet state file")
            secret = int.from_bytes(parse_hex(state["secret"], _SECRET_BYTES), "big")
            seed = parse_hex(state["genesis_seed"], 32)
            return cls.make(secret, seed, _integer(state["genesis_time"]), _integer(state["period"]))
        except (OSError, OverflowError, VerifierError) as error:
            raise DevnetError(f"{path} is no devnet state file: {error}") from error

    def save(self, path: Path) -> None:
        """Write a new state file that only its owner may read. Raises DevnetError when there is one."""
        state = {
            "secret": self.secret.to_bytes(_SECRET_BYTES, "big").hex(),
            "genesis_seed": self.chain.genesis_seed.hex(),
            "genesis_time": self.chain.genesis_time,
            "period": self.chain.period,
        }
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(json.dumps(state, indent=1) + "\n")
        except OSError as error:
            raise DevnetError(f"cannot write {path}: {error.strerror}") from error

    def sign(self, round_number: int) -> bytes:
        """The signature of a round: some 10 ms of pure Python."""
        return reference.sign(SCHEME.group, SCHEME.dst, self.secret, SCHEME.message(round_number, None))


class Devnet:
    """Serves one network. Between `start` and `stop`; `port` 0 takes a free one."""

    def __init__(self, network: Network, clock: Clock, host: str = "127.0.0.1", port: int = 0) -> None:
        self.network: Final = network
        self.chain: Final = network.chain
        self._clock = clock
        self._host, self._port = host, port
        self._signatures: dict[int, bytes] = {}
        self._signing = asyncio.Lock()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        self._runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1)
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
        """A round that is due; each is signed once. Raises NotDue."""
        if not 1 <= round_number <= self.chain.current(self._clock.now()):
            raise NotDue(f"round {round_number} is not due")
        async with self._signing:
            if round_number not in self._signatures:
                signature = await asyncio.to_thread(self.network.sign, round_number)
                if len(self._signatures) >= _KEPT_ROUNDS:
                    del self._signatures[next(iter(self._signatures))]
                self._signatures[round_number] = signature
        return Round(round_number, self._signatures[round_number])

    def app(self) -> web.Application:
        """Drand's HTTP API."""
        app = web.Application(middlewares=[_headers])
        get = app.router.add_get
        get("/chains", self._hashes)
        get("/{chain}/info", self._for_chain(self._info_v1))
        get("/{chain}/public/latest", self._for_chain(self._latest_v1))
        get("/{chain}/public/{round}", self._for_chain(self._round_v1))
        get("/{chain}/health", self._for_chain(self._health))
        get("/v2/chains", self._hashes)
        get("/v2/beacons", self._names)
        for one in ("/v2/chains/{chain}", "/v2/beacons/{beacon}"):
            get(one + "/info", self._for_chain(self._info_v2))
            get(one + "/health", self._for_chain(self._health))
            get(one + "/rounds/latest", self._for_chain(self._latest_v2))
            get(one + "/rounds/next", self._for_chain(self._next_v2))
            get(one + "/rounds/{round}", self._for_chain(self._round_v2))
        return app

    def _for_chain(self, handler: Callable[[web.Request], Awaitable[web.Response]]) -> Callable[..., Any]:
        async def handle(request: web.Request) -> web.Response:
            asked = request.match_info
            if asked.get("chain", self.chain.hash.hex()) != self.chain.hash.hex():
                return _text(404, "unknown chain hash")
            if asked.get("beacon", BEACON_ID) != BEACON_ID:
                return _text(404, "unknown beacon id")
            return await handler(request)

        return handle

    async def _hashes(self, _: web.Request) -> web.Response:
        return web.json_response([self.chain.hash.hex()])

    async def _names(self, _: web.Request) -> web.Response:
        return web.json_response([BEACON_ID])

    async def _info_v1(self, _: web.Request) -> web.Response:
        info = self.chain.as_dict()
        served = {name: info[name] for name in ("public_key", "period", "genesis_time", "hash")} | {
            "groupHash": info["genesis_seed"],
            "schemeID": info["scheme"],
            "metadata": {"beaconID": BEACON_ID},
        }
        return _json(served, _FOREVER)

    async def _info_v2(self, _: web.Request) -> web.Response:
        info = self.chain.as_dict()
        info["chain_hash"] = info.pop("hash")
        return web.json_response(info)

    async def _health(self, _: web.Request) -> web.Response:
        current = self._current()
        return _json({"current": current, "expected": current}, "no-cache")

    async def _latest_v1(self, _: web.Request) -> web.Response:
        return await self._answer(self._current(), 1, f"public, must-revalidate, max-age={self._seconds_to_next()}")

    async def _latest_v2(self, _: web.Request) -> web.Response:
        return await self._answer(self._current(), 2, f"public, must-revalidate, max-age={self._seconds_to_next()}")

    async def _next_v2(self, _: web.Request) -> web.Response:
        following = self._current() + 1
        await self._until(following)
        return await self._answer(following, 2, "no-cache")

    async def _round_v1(self, request: web.Request) -> web.Response:
        asked = _round_number(request)
        if asked is None:
            return _text(400, "not a round number")
        if asked == 0:
            return await self._latest_v1(request)
        if asked > self._current() + 1:
            wait = max(0, self.chain.time(asked) - self._clock.now()) // 1000
            return web.Response(status=404, headers={"Cache-Control": f"public, must-revalidate, max-age={wait}"})
        await self._until(asked)
        return await self._answer(asked, 1, _FOREVER)

    async def _round_v2(self, request: web.Request) -> web.Response:
        asked = _round_number(request)
        if asked is None:
            return _text(400, "Failed to parse round parameter")
        if asked == 0:
            return await self._latest_v2(request)
        current = self._current()
        if asked > current + 1:
            caching = f"must-revalidate, public, max-age={self._seconds_to_next()}"
            return _text(425, "Requested future beacon", caching)
        await self._until(asked)
        return await self._answer(asked, 2, _FOREVER if asked <= current else "no-cache")

    async def _answer(self, round_number: int, version: int, caching: str) -> web.Response:
        try:
            stated = await self.round(round_number)
        except NotDue:
            return _text(500, "Failed to get beacon", "no-cache")
        fields = {"round": stated.round, "signature": stated.signature.hex()}
        if version == 1:
            fields["randomness"] = hashlib.sha256(stated.signature).hexdigest()
        return _json(fields, caching)

    async def _until(self, round_number: int) -> None:
        while (wait := self.chain.time(round_number) - self._clock.now()) > 0:  # noqa: ASYNC110 - the clock is given
            await asyncio.sleep(min(wait, _LONGEST_SLEEP_MS) / 1000)

    def _current(self) -> int:
        return self.chain.current(self._clock.now())

    def _seconds_to_next(self) -> int:
        return max(0, self.chain.time(self._current() + 1) - self._clock.now()) // 1000


async def serve(
    host: str,
    port: int,
    period: int,
    state_file: Path | None,
    *,
    clock: Clock | None = None,
    ready: Callable[[Devnet], None] | None = None,
) -> None:
    """Run a devnet until cancelled.

    period: seconds. state_file: keeps key and genesis over restarts; made when it is not there. None: both are gone
    when this ends. ready: called when requests are taken. Raises DevnetError, and OSError when the port is taken.
    """
    clock = clock or SystemClock()
    devnet = Devnet(open_network(period, state_file, clock), clock, host, port)
    await devnet.start()
    try:
        if ready is not None:
            ready(devnet)
        await asyncio.Event().wait()
    finally:
        await devnet.stop()


def open_network(period: int, state_file: Path | None, clock: Clock) -> Network:
    """The network of the state file, or a fresh one whose first round is due now. Raises DevnetError."""
    if state_file is not None and state_file.exists():
        network = Network.load(state_file)
        if network.chain.period != period:
            raise DevnetError(f"{state_file} is of a network with a period of {network.chain.period} s, not {period}")
        return network
    network = Network.fresh(period, clock.now() // 1000)
    if state_file is not None:
        network.save(state_file)
    return network


@web.middleware
async def _headers(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    response = await handler(request)
    response.headers["Server"] = "fair-beacon devnet"
    response.headers["Access-Control-Allow-Origin"] = "*"
    return response


def _json(fields: dict[str, Any], caching: str) -> web.Response:
    return web.json_response(fields, headers={"Cache-Control": caching})


def _text(status: int, text: str, caching: str = "no-cache") -> web.Response:
    return web.Response(status=status, text=text + "\n", headers={"Cache-Control": caching})


def _round_number(request: web.Request) -> int | None:
    text = request.match_info["round"]
    return min(int(text), MAX_INTEGER) if _NUMBER.fullmatch(text) else None


def _integer(value: object) -> int:
    if type(value) is not int:
        raise DevnetError("a devnet state file holds integers for its times")
    return value
