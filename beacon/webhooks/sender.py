"""One attempt at a delivery: one POST, without redirects, and not a byte more of the answer than its beginning."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import hdrs

from beacon.webhooks.addresses import AddressRefused, IpNetwork, guarded_sockets

MAX_ANSWER: Final = 1_024
"""Bytes of an answer's body that are read, so that the connection can be used again; a longer answer ends it."""
GONE: Final = 410
MAX_RETRY_AFTER: Final = 3_600


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt. retry_after: seconds that the receiver asked for; gone: it wants nothing any more."""

    delivered: bool
    text: str
    retry_after: int = 0
    gone: bool = False


class Sender:
    """Sends to whom it may. Made and closed on the event loop."""

    def __init__(self, networks: Sequence[IpNetwork], seconds: float, limit: int) -> None:
        """networks: where it may go besides the public internet. seconds: of one attempt. limit: of connections."""
        connector = aiohttp.TCPConnector(
            socket_factory=guarded_sockets(networks), limit=limit, use_dns_cache=False, keepalive_timeout=30
        )
        self._client: Final = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={hdrs.USER_AGENT: "fair-beacon", hdrs.CONTENT_TYPE: "application/json"},
        )

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Outcome:
        """POST once. Never raises for what the other side does."""
        try:
            async with self._client.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                await answer.content.read(MAX_ANSWER)
                return _judged(answer)
        except TimeoutError:
            return Outcome(delivered=False, text="timeout")
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            return Outcome(delivered=False, text=_reason(error))

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()


def _judged(answer: aiohttp.ClientResponse) -> Outcome:
    asked = answer.headers.get(hdrs.RETRY_AFTER, "")
    wait = min(int(asked), MAX_RETRY_AFTER) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    delivered = 200 <= answer.status < 300
    return Outcome(delivered, f"status {answer.status}", retry_after=wait, gone=answer.status == GONE)


def _reason(error: BaseException) -> str:
    """In one word, without what the other side wrote."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, AddressRefused):
            return "address-refused"
        if isinstance(seen, ssl.SSLError | ssl.CertificateError):
            return "tls"
        seen = seen.__cause__ or getattr(seen, "os_error", None) or seen.__context__
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "name-not-resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connection-failed"
    return "connection-lost" if isinstance(error, aiohttp.ClientConnectionError | OSError) else "not-http"
