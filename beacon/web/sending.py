"""Long answers: sent piece by piece, to readers that read, within what may be held in memory for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog
from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.web import rates

LONG: Final = 256 * 1024
"""Bytes from which on an answer counts: shorter ones fit into what the system holds for a connection."""
PIECE: Final = 64 * 1024
MAX_HELD: Final = 256 * 1024 * 1024
MAX_HELD_FOR_ADDRESS: Final = 96 * 1024 * 1024
"""Bytes that are held at once; the longest transcript has 64 MiB."""
GRACE_SECONDS: Final = 30.0
LEAST_RATE: Final = 64 * 1024
"""Bytes a second that a reader has to take, once the grace is over."""
RETRY_SECONDS: Final = 5

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Held:
    """Bytes of long answers under way, by network address."""

    def __init__(self) -> None:
        self._held: Final[Counter[str]] = Counter()

    def __len__(self) -> int:
        return self._held.total()

    @contextmanager
    def take(self, address: str, size: int) -> Iterator[None]:
        """Hold so many bytes while the block runs. Raises ApiError(rate-limited)."""
        if len(self) + size > MAX_HELD or self._held[address] + size > MAX_HELD_FOR_ADDRESS:
            text = "As much is being sent already, to this address or in all, as may be at once."
            raise ApiError("rate-limited", text, retry_after=RETRY_SECONDS)
        self._held[address] += size
        try:
            yield
        finally:
            self._held[address] -= size
            if not self._held[address]:
                del self._held[address]


HELD: Final = web.AppKey("held", Held)


async def send(request: web.Request, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
    """Answer with `body`. headers: its Content-Type, and what else is due. Raises ApiError(rate-limited)."""
    if len(body) < LONG or request.method == hdrs.METH_HEAD:
        return web.Response(body=body, headers=headers)
    with request.app[HELD].take(rates.network_of(rates.address(request)), len(body)):
        response = web.StreamResponse(headers=headers)
        response.content_length = len(body)
        await response.prepare(request)
        try:
            async with asyncio.timeout(GRACE_SECONDS + len(body) / LEAST_RATE):
                for start in range(0, len(body), PIECE):
                    await response.write(body[start : start + PIECE])
                await response.write_eof()
        except TimeoutError:
            _log.info("a reader of a long answer was too slow")
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass
    return response
