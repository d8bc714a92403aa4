"""Where webhooks may go: to addresses of the public internet, and to networks that the settings allow.

The address is judged when the socket for it is made, after the name was resolved and whatever it was: a name that
resolves to something else the next time, a literal address and an old spelling of one all come by here.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from beacon.errors import ApiError

MAX_URL: Final = 2_048
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):  # noqa: N818 - named by what happened
    """The name leads to an address to which nothing is sent."""


def allowed(address: str, networks: Iterable[IpNetwork] = ()) -> bool:
    """Whether something may be sent to this address: a global unicast one, or one of `networks`."""
    try:
        parsed = _embedded(ipaddress.ip_address(address))
    except ValueError:
        return False
    if any(parsed in network for network in networks):
        return True
    special = parsed.is_multicast or parsed.is_reserved or parsed.is_unspecified or parsed.is_loopback
    site_local = isinstance(parsed, ipaddress.IPv6Address) and (
        parsed.is_site_local or parsed.sixtofour is not None or parsed.teredo is not None
    )
    return parsed.is_global and not (special or site_local or parsed.is_link_local or parsed.is_private)


def _embedded(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 one stands for, where it does (RFC 4291, 2.5.5.2; RFC 6052)."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def guarded_sockets(networks: Iterable[IpNetwork]) -> Callable[[Any], socket.socket]:
    """A `socket_factory` for `aiohttp.TCPConnector` that refuses addresses which are not `allowed`."""
    known = tuple(networks)

    def make(info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        if not allowed(str(address[0]), known):
            raise AddressRefused("an address to which nothing is sent")
        return socket.socket(family, kind, protocol)

    return make


def check_url(url: str, networks: Iterable[IpNetwork], *, http: bool) -> str:
    """The URL, if an endpoint may have it. What its name resolves to is judged at each attempt.

    http: whether it may go without TLS. Raises ApiError(webhook-url-invalid).
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise ApiError("webhook-url-invalid", "that is no URL") from None
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise ApiError("webhook-url-invalid", f"a URL has at most {MAX_URL} printable ASCII characters")
    if parts.scheme != "https" and not (http and parts.scheme == "http"):
        raise ApiError("webhook-url-invalid", "an https URL is due")
    if not host or port == 0 or parts.username is not None or parts.password is not None or "#" in url:
        raise ApiError("webhook-url-invalid", "a URL with a host is due, without credentials and fragment")
    try:
        literal: IpAddress | None = ipaddress.ip_address(host)
    except ValueError:
        literal = None
    if literal is not None and not allowed(host, networks):
        raise ApiError("webhook-url-invalid", "nothing is sent to that address")
    return url
