"""Names of relays are resolved here, and refused where they lead to what no relay is."""

from __future__ import annotations

import socket
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from beacon.relay_urls import may_be_a_relay


class AddressRefused(OSError):  # noqa: N818 - named by what happened
    """A host name leads to an address that no relay has."""


class RelayResolver(AbstractResolver):
    """Resolves names, and refuses a name of which any address cannot be a relay's."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        self._resolver: Final = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for result in found:
            if not may_be_a_relay(result["host"]):
                raise AddressRefused(f"the name leads to {result['host']}, where no relay is")
        return found

    async def close(self) -> None:
        await self._resolver.close()
