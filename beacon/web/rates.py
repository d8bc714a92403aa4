"""How many requests a token or an address may send: a token bucket each, in memory, and the headers that tell of it.

`RateLimit-Policy` and `RateLimit` are those of draft-ietf-httpapi-ratelimit-headers-10: `q` requests in `w` seconds, of
which `r` are left now; after `t` seconds without a request all are there again.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from aiohttp import web

from beacon.errors import ApiError
from beacon.settings import RateSettings
from beacon.web.services import Grant

MAX_KEYS: Final = 65_536
WINDOW_SECONDS: Final = 60
FORWARDED: Final = "X-Forwarded-For"

_SECOND: Final = 1_000_000_000
_IPV6_PREFIX: Final = 64
_NOTHING: Final[Mapping[str, str]] = {}

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class Taken(NamedTuple):
    """What a bucket said. left: requests that it holds still; full, retry: seconds until it is full, or holds one."""

    allowed: bool
    left: int
    full: int
    retry: int


class Buckets:
    """A bucket for each key, by the generic cell rate algorithm: one number a key, the time at which it is full.

    Once there are too many keys, those that were used longest ago are forgotten, and begin with full buckets again.
    """

    def __init__(
        self, name: str, quota: int, *, limit: int = MAX_KEYS, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """quota: requests in WINDOW_SECONDS, at least 1. limit: of keys. clock: ns."""
        self.name: Final = name
        self.policy: Final = f'"{name}";q={quota};w={WINDOW_SECONDS}'
        self._interval: Final = WINDOW_SECONDS * _SECOND // quota
        self._burst: Final = self._interval * quota
        self._limit: Final = limit
        self._clock: Final = clock
        self._full: Final[OrderedDict[str, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full)

    def take(self, key: str) -> Taken:
        """Take one request out of the key's bucket, if there is one."""
        now = self._clock()
        full = max(self._full.get(key, now), now)
        room = self._burst - (full - now)
        allowed = room >= self._interval
        if allowed:
            full += self._interval
            room -= self._interval
            self._keep(key, full)
        return Taken(allowed, max(0, room // self._interval), _seconds(full - now), _seconds(self._interval - room))

    def owe(self, key: str, count: int) -> None:
        """Take more out of the bucket, also what is not in there yet: the next requests wait for it."""
        now = self._clock()
        self._keep(key, max(self._full.get(key, now), now) + count * self._interval)

    def _keep(self, key: str, full: int) -> None:
        self._full[key] = full
        self._full.move_to_end(key)
        if len(self._full) > self._limit:
            self._full.popitem(last=False)


class Proxies:
    """Whose `X-Forwarded-For` is believed."""

    def __init__(self, trusted: str) -> None:
        """trusted: networks, separated by spaces."""
        self._networks: Final = tuple(ipaddress.ip_network(part) for part in trusted.split())

    def client(self, remote: str, forwarded: str) -> str:
        """The address that a request counts as: the last one that no trusted proxy has. forwarded: the header."""
        if not self._networks:
            return remote
        names = [remote, *(part.strip() for part in reversed(forwarded.split(",")))]
        client = remote
        for name in names:
            address = parse_address(name)
            if address is None:
                break
            client = str(address)
            if not self._trusts(address):
                break
        return client

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


class Rates:
    """The limits of one service."""

    def __init__(self, settings: RateSettings, trusted_proxies: str) -> None:
        per_token, per_address = settings.token_per_minute, settings.address_per_minute
        self.tokens: Final = Buckets("token", per_token) if per_token else None
        self.addresses: Final = Buckets("address", per_address) if per_address else None
        self.proxies: Final = Proxies(trusted_proxies)


class _Use(NamedTuple):
    buckets: Buckets
    key: str
    taken: Taken


RATES: Final = web.AppKey("rates", Rates)
_USE: Final = web.RequestKey("use", _Use)


def count(request: web.Request, grant: Grant | None) -> None:
    """Count a request for its token, or without one for its address. Raises ApiError(rate-limited)."""
    rates = request.app[RATES]
    if grant is None:
        buckets, key = rates.addresses, network_of(address(request))
    else:
        buckets, key = rates.tokens, grant.token
    if buckets is None:
        return
    taken = buckets.take(key)
    request[_USE] = _Use(buckets, key, taken)
    if not taken.allowed:
        raise ApiError(
            "rate-limited",
            f"This {buckets.name} has sent as many requests as it may for now.",
            retry_after=taken.retry,
        )


def count_more(request: web.Request, more: int) -> None:
    """Count a request as `more` further ones."""
    use = request.get(_USE)
    if use is not None and more > 0:
        use.buckets.owe(use.key, more)


def limit_headers(request: web.Request) -> Mapping[str, str]:
    """What the response says of the limit that the request was counted for."""
    use = request.get(_USE)
    if use is None:
        return _NOTHING
    name, taken = use.buckets.name, use.taken
    return {"RateLimit-Policy": use.buckets.policy, "RateLimit": f'"{name}";r={taken.left};t={taken.full}'}


def address(request: web.Request) -> str:
    """The network address that the request counts as."""
    headers = request.headers.getall(FORWARDED, [])
    return request.app[RATES].proxies.client(request.remote or "", ",".join(headers))


@lru_cache(maxsize=4_096)
def network_of(text: str) -> str:
    """An address as limits see it: IPv6 by its /64, which one customer has at the least."""
    found = parse_address(text)
    if found is None or found.version == 4:
        return text if found is None else str(found)
    return str(ipaddress.IPv6Network((int(found) >> _IPV6_PREFIX << _IPV6_PREFIX, _IPV6_PREFIX)))


@lru_cache(maxsize=4_096)
def parse_address(text: str) -> Address | None:
    """An IP address; one of IPv4 that is written as IPv6 (RFC 4291, 2.5.5.2) is of IPv4. None for anything else."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _seconds(nanoseconds: int) -> int:
    """Whole seconds, rounded up; 0 for the past."""
    return max(0, -(-nanoseconds // _SECOND))
