"""Which addresses a relay may have.

Relays come from the operator's settings and redirects are never followed, so no stranger chooses what is asked. What is
refused here is what no relay has and what a mistake or a hijacked name would reach: link-local addresses (the metadata
services of clouds are there), multicast, broadcast and unspecified ones. Loopback and private networks are allowed:
operators run relays of their own.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

MAX_URL: Final = 300


def check_relay_url(url: str) -> str:
    """Give the URL back if it can be a relay's base URL: http or https, a host, perhaps a port and a path.

    Raises ValueError, which says what is wrong without repeating the URL: it may hold a password.
    """
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or any(sign in url for sign in " \\?#"):
        raise ValueError(f"a relay's URL has at most {MAX_URL} ASCII characters, no spaces, query or fragment")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError("a relay's URL has a host and a port that can be") from error
    if parts.scheme not in ("http", "https"):
        raise ValueError("a relay's URL begins with https:// (or http://)")
    if "@" in parts.netloc:
        raise ValueError("a relay's URL holds no user name or password")
    if not parts.hostname or port == 0:
        raise ValueError("a relay's URL has a host and a port that can be")
    if not may_be_a_relay(parts.hostname):
        raise ValueError("a relay is not at a link-local, multicast, broadcast or unspecified address")
    return url


def may_be_a_relay(host: str) -> bool:
    """Whether a relay may be there; True for every name, since only its resolution tells."""
    try:
        address = ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return True
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return may_be_a_relay(str(inner))
    broadcast = address == ipaddress.ip_address("255.255.255.255")
    return not (address.is_link_local or address.is_multicast or address.is_unspecified or broadcast)


def public_name(url: str) -> str:
    """Scheme, host and port of a relay's URL: what may be shown to anyone. A path may hold an access key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
