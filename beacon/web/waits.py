"""What requests that wait have in common: how long, from where on, how many at once, whether the client is there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from aiohttp import web

from beacon.errors import ApiError
from beacon.web import rates
from beacon.web.services import SERVICES
from verifier.encoding import MAX_INTEGER, parse_decimal
from verifier.errors import FormatError

T = TypeVar("T")

MAX_WAIT: Final = 30
"""Seconds that a request may wait for a session; more is taken for this."""
LOOK_SECONDS: Final = 1.0


class Seats:
    """How many listen at once: in all, and from each network address. Hosts that wait for their draws need no seat."""

    def __init__(self, limit: int, per_address: int) -> None:
        self._limit: Final = limit
        self._per_address: Final = per_address
        self._taken: Final[Counter[str]] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    @contextmanager
    def take(self, address: str) -> Iterator[None]:
        """Hold a seat while the block runs. Raises ApiError(too-many-listeners)."""
        if len(self) >= self._limit or self._taken[address] >= self._per_address:
            raise ApiError("too-many-listeners", "no more may listen at once", retry_after=5)
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]


SEATS: Final = web.AppKey("seats", Seats)


@contextmanager
def seat(request: web.Request) -> Iterator[None]:
    """Hold a seat for the request's address, IPv6 by its /64, meanwhile. Raises ApiError(too-many-listeners)."""
    with request.app[SEATS].take(rates.network_of(rates.address(request))):
        yield


def only(request: web.Request, *names: str) -> None:
    """Raises ApiError(invalid-request) for other parameters than these in the query, or one twice."""
    if set(request.query) - set(names) or len(request.query) > len(set(request.query)):
        allowed = ", ".join(f"`{name}`" for name in names)
        raise ApiError("invalid-request", f"The parameters here are {allowed}, each once.")


def seconds(request: web.Request) -> int:
    """`?wait=SECONDS`, at most 30; 0 without it. Raises ApiError(invalid-request)."""
    try:
        return min(parse_decimal(request.query.get("wait", "0")), MAX_WAIT)
    except FormatError as error:
        raise ApiError("invalid-request", "`wait` is a number of seconds.") from error


def index(request: web.Request, name: str) -> int | None:
    """A log index of the query; None without it. Raises ApiError(invalid-request)."""
    text = request.query.get(name)
    return None if text is None else parse_index(text, f"`{name}`")


def parse_index(text: str, what: str) -> int:
    """A log index. Raises ApiError(invalid-request)."""
    try:
        return parse_decimal(text, MAX_INTEGER)
    except FormatError as error:
        raise ApiError("invalid-request", f"{what} is an index of the log.") from error


def gone(request: web.Request) -> Callable[[], bool]:
    """Whether the request's client has left."""

    def left() -> bool:
        return request.transport is None or request.transport.is_closing()

    return left


async def while_there(request: web.Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` comes to; None, with `work` cancelled, once the request's client has left."""
    left, task = gone(request), asyncio.ensure_future(work)
    try:
        while not left():
            done, _ = await asyncio.wait({task}, timeout=LOOK_SECONDS)
            if done:
                return task.result()
        return None
    finally:
        task.cancel()


async def release(app: web.Application) -> None:
    """Before a stop: answer everybody who waits for a session, and end the event streams."""
    services = app.get(SERVICES)
    if services is not None:
        services.waiting.changes.release()
        services.witnesses.release()
