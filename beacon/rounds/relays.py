"""HTTP client of one drand relay: the v2 API, or v1 where the relay has no v2.

A relay is never trusted. What it answers is a `Round` that somebody else has yet to verify; everything that can be
refused without a pairing is refused here, each for its own reason. Only the exact round is asked for, never "latest",
and never before it is due: relays and the caches before them keep a "not yet" for longer than it holds. The one
exception is the look ahead that finds a slow clock, and such a round is asked for past the caches later. A relay may
hold a request for a round that is late; redirects are not followed, and certificates are checked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import structlog

from beacon.clock import Clock
from beacon.relay_urls import check_relay_url, public_name
from beacon.rounds.health import RelayHealth
from beacon.rounds.refusals import LIES, WAITING, Reason, Refusal
from beacon.rounds.resolver import AddressRefused, RelayResolver
from verifier.drand import ChainInfo, Round, parse_relay_info
from verifier.encoding import parse_document_json, parse_hex
from verifier.errors import VerifierError

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

MAX_BODY_BYTES: Final = 8_192
CONNECT_MS: Final = 3_000
INFO_MS: Final = 4_000
LEAST_HOLD_MS: Final = 4_000
LONGEST_HOLD_MS: Final = 31_000
_CHUNK: Final = 4_096
_V1, _V2 = 1, 2
_FORGET_AFTER: Final = 3
_NOT_YET: Final = frozenset(
    {
        HTTPStatus.NOT_FOUND,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
_MAYBE_OTHER_API: Final = frozenset(
    {*WAITING, Reason.STATUS, Reason.REDIRECT, Reason.CONTENT_TYPE, Reason.JSON, Reason.FIELDS}
)
_INFO_PATHS: Final = {_V2: "/v2/chains/{chain}/info", _V1: "/{chain}/info"}
_ROUND_PATHS: Final = {_V2: "/v2/chains/{chain}/rounds/{round}", _V1: "/{chain}/public/{round}"}
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "fair-beacon"}


def open_session() -> aiohttp.ClientSession:
    """The HTTP session that all relays share: no cookies, no proxies of the environment, no decompression.

    TLS certificates are checked, and names that lead to where no relay is are refused.
    """
    return aiohttp.ClientSession(
        auto_decompress=False,
        connector=aiohttp.TCPConnector(resolver=RelayResolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        trust_env=False,
    )


def hold_of(chain: ChainInfo) -> int:
    """How long one request for a round may take, ms: a relay may hold it for a period until the round is there."""
    return min(max(1_000 * chain.period + 1_000, LEAST_HOLD_MS), LONGEST_HOLD_MS)


def timer() -> float:
    """Seconds of a clock that never leaps, to measure with."""
    return time.monotonic()


class Relay:
    """One relay, asked for rounds of any chain that it may carry."""

    def __init__(self, url: str, session: aiohttp.ClientSession, clock: Clock, timeout_ms: int | None = None) -> None:
        """timeout_ms: for one HTTP request; None: as `hold_of` says. Raises ValueError for what is no relay's URL."""
        self.url: Final = check_relay_url(url).rstrip("/")
        self._session = session
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._api: dict[bytes, int] = {}
        self._health: dict[bytes, RelayHealth] = {}
        self._refused_last: dict[bytes, int] = {}
        self._asked_ahead: dict[bytes, int] = {}

    def health(self, chain: ChainInfo) -> RelayHealth:
        return self._health.setdefault(chain.hash, RelayHealth(self.url))

    async def fetch(self, chain: ChainInfo, round_number: int, *, ahead: bool = False) -> Round:
        """Ask for one round that is due. What comes back has its form, and is not verified. Raises Refusal.

        ahead: the round need not be due by the service's clock, which is what the question is to find out.
        """
        if ahead:
            self._asked_ahead[chain.hash] = round_number
        elif chain.time(round_number) > self._clock.now():
            raise ValueError(f"round {round_number} is not due")
        api = await self._identify(chain)
        refusal: Refusal | None = None
        for version in (_V2, _V1) if api is None else (api,):
            try:
                return self._read_round(chain, round_number, await self._get_round(version, chain, round_number))
            except Refusal as error:
                if error.reason not in _MAYBE_OTHER_API:
                    raise
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def succeeded(self, chain: ChainInfo, round_number: int, latency: float) -> None:
        """Note that a round of this relay was verified; `latency`: ms from the question to the answer."""
        self.health(chain).succeeded(round_number, latency, self._clock.now(), timer())
        self._refused_last.pop(chain.hash, None)

    def outrun(self, chain: ChainInfo, elapsed: float) -> None:
        """Note that another relay's answer came first; `elapsed`: ms that this one had by then."""
        self.health(chain).outrun(elapsed, timer())

    def failed(self, chain: ChainInfo, round_number: int, refusal: Refusal, elapsed: float) -> None:
        """Note a refusal, here or by the verification, `elapsed` ms after the question."""
        health = self.health(chain)
        health.failed(refusal.reason, elapsed, self._clock.now(), timer())
        self._refused_last[chain.hash] = round_number
        if health.failures_in_a_row % _FORGET_AFTER == 0:
            self._api.pop(chain.hash, None)
        report = _log.warning if refusal.reason in LIES else _log.debug
        report(
            "relay refused",
            relay=public_name(self.url),
            chain=chain.beacon_id,
            round=round_number,
            reason=str(refusal.reason),
            detail=refusal.detail,
        )

    async def _identify(self, chain: ChainInfo) -> int | None:
        """Which API the relay has for the chain; None while it does not say. Raises Refusal, for a wrong chain too."""
        if chain.hash in self._api:
            return self._api[chain.hash]
        for version in (_V2, _V1):
            try:
                value = await self._get(_INFO_PATHS[version].format(chain=chain.hash.hex()), self._limit(INFO_MS))
            except Refusal as error:
                if error.reason not in _MAYBE_OTHER_API:
                    raise
                continue
            _check_chain(chain, value)
            self._api[chain.hash] = version
            return version
        return None

    async def _get_round(self, version: int, chain: ChainInfo, round_number: int) -> dict[str, Any]:
        path = _ROUND_PATHS[version].format(chain=chain.hash.hex(), round=round_number)
        fresh = round_number in (self._refused_last.get(chain.hash), self._asked_ahead.get(chain.hash))
        return await self._get(path, self._limit(hold_of(chain)), fresh=fresh)

    def _limit(self, total: int) -> aiohttp.ClientTimeout:
        total = total if self._timeout_ms is None else self._timeout_ms
        return aiohttp.ClientTimeout(total=total / 1000, sock_connect=min(total, CONNECT_MS) / 1000)

    async def _get(self, path: str, timeout: aiohttp.ClientTimeout, *, fresh: bool = False) -> dict[str, Any]:  # noqa: ASYNC109 - aiohttp's own
        """The JSON object at a path. fresh: ask caches on the way not to answer."""
        headers = {"Cache-Control": "no-cache"} if fresh else {}
        try:
            async with self._session.get(
                self.url + path, allow_redirects=False, timeout=timeout, headers=headers
            ) as response:
                _check_head(response)
                data = await _read_body(response)
        except TimeoutError as error:
            raise Refusal(Reason.TIMEOUT, "no complete answer in time") from error
        except aiohttp.ClientPayloadError as error:
            raise Refusal(Reason.TRUNCATED, "the body ended early") from error
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL) as error:
            raise Refusal(Reason.HTTP, f"no proper HTTP answer: {type(error).__name__}") from error
        except aiohttp.ClientSSLError as error:
            raise Refusal(Reason.TLS, type(error).__name__) from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, AddressRefused) or isinstance(error.__cause__, AddressRefused):
                raise Refusal(Reason.ADDRESS, "the relay's name leads to where no relay is") from error
            raise Refusal(Reason.UNREACHABLE, type(error).__name__) from error
        try:
            return parse_document_json(data)
        except VerifierError as error:
            raise Refusal(Reason.JSON, error.message) from error

    def _read_round(self, chain: ChainInfo, asked: int, value: Mapping[str, Any]) -> Round:
        self._check_number(chain, asked, value.get("round"))
        signature = _hex(value, "signature", Reason.ENCODING, chain.scheme.signature_bytes)
        previous = self._previous(chain, asked, value)
        randomness = value.get("randomness")
        if randomness is not None and randomness != hashlib.sha256(signature).hexdigest():
            raise Refusal(Reason.FORGED_RANDOMNESS, "the randomness is not the hash of the signature")
        return Round(asked, signature, previous)

    def _check_number(self, chain: ChainInfo, asked: int, number: object) -> None:
        if type(number) is not int:
            raise Refusal(Reason.FIELDS, "no round number")
        if number == asked:
            return
        if number > chain.final_round or (number > asked and chain.time(number) > self._clock.now()):
            raise Refusal(Reason.FUTURE_ROUND, f"asked for round {asked}, got {number}, which is not due")
        raise Refusal(Reason.WRONG_ROUND, f"asked for round {asked}, got {number}")

    def _previous(self, chain: ChainInfo, asked: int, value: Mapping[str, Any]) -> bytes | None:
        stated = value.get("previous_signature")
        stated = None if stated == "" else stated
        if not chain.scheme.chained:
            if stated is not None:
                raise Refusal(Reason.FIELDS, "a previous signature on an unchained scheme")
            return None
        if asked == 1:
            if stated not in (None, chain.genesis_seed.hex()):
                raise Refusal(Reason.FIELDS, "the previous signature of round 1 is not the genesis seed")
            return chain.genesis_seed
        return _hex(value, "previous_signature", Reason.FIELDS, chain.scheme.signature_bytes)


def _check_head(response: aiohttp.ClientResponse) -> None:
    status = response.status
    if status in _NOT_YET:
        cached = response.headers.get("Age", "0").strip() not in ("", "0")
        raise Refusal(Reason.CACHED_NOT_YET if cached else Reason.NOT_YET, f"status {status}")
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise Refusal(Reason.REDIRECT, f"status {status}")
    if status != HTTPStatus.OK:
        raise Refusal(Reason.STATUS, f"status {status}")
    if response.content_type != "application/json":
        raise Refusal(Reason.CONTENT_TYPE, f"content type {response.content_type[:80]}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Refusal(Reason.CONTENT_TYPE, "an encoded body, where none was asked for")
    if response.content_length is not None and response.content_length > MAX_BODY_BYTES:
        raise Refusal(Reason.TOO_LARGE, f"a body of {response.content_length} bytes")


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise Refusal(Reason.TOO_LARGE, f"a body of more than {MAX_BODY_BYTES} bytes")
    return bytes(data)


def _check_chain(chain: ChainInfo, value: Mapping[str, Any]) -> None:
    try:
        served = parse_relay_info(dict(value))
    except VerifierError as error:
        raise Refusal(Reason.WRONG_CHAIN, error.message) from error
    if served != replace(chain, last_round=None):
        raise Refusal(Reason.WRONG_CHAIN, "the relay's chain info is another chain's, or has another scheme")


def _hex(value: Mapping[str, Any], name: str, reason: Reason, length: int) -> bytes:
    if name not in value:
        raise Refusal(Reason.FIELDS, f"no {name}")
    try:
        return parse_hex(value[name], length)
    except VerifierError as error:
        raise Refusal(reason, f"{name}: {error.message}") from error
