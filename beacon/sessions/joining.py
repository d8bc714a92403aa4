"""Join tokens: a host lets each listed participant contribute by itself, without the host's own token.

A token is a MAC over the session and the participant, under a key that is derived from the master key (HKDF-SHA256).
It stands for one contribution, since a session takes one of each participant; nothing is stored, and a token of one
session says nothing of another. Those of an earlier master key are taken for as long as a session of its time can be
open. In a link (`join_link`) it is behind the `#`, which browsers do not send to servers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from verifier.encoding import lp

PREFIX: Final = "fbj_"
MAC_BYTES: Final = 32


def join_key(master_key: bytes) -> bytes:
    """The key of the tokens' MACs, 32 bytes, that belongs to a master key."""
    return HKDF(SHA256(), 32, salt=None, info=b"fair-beacon/join-tokens").derive(master_key)


class Joining:
    """Makes and checks join tokens. Keys are in no repr."""

    def __init__(self, master_key: bytes, older: Sequence[bytes] = ()) -> None:
        """master_key: 32 bytes. older: the `join_key` of earlier ones, whose tokens are still about."""
        self._keys: Final = (join_key(master_key), *older)

    def token(self, session: bytes, participant: str) -> str:
        """The token of a participant of a session (32 bytes)."""
        return _token(self._keys[0], session, participant)

    def admits(self, token: str, session: bytes, participant: str) -> bool:
        """Whether the token is this participant's for this session; in constant time for each key."""
        given = token.encode(errors="surrogateescape")
        return any(hmac.compare_digest(given, _token(key, session, participant).encode()) for key in self._keys)


def _token(key: bytes, session: bytes, participant: str) -> str:
    mac = hmac.digest(key, session + lp(participant.encode()), hashlib.sha256)
    return PREFIX + base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")


def join_link(session: bytes, participant: str, token: str) -> str:
    """The path of the session's page, with token and participant behind the `#`, percent-encoded (RFC 3986, 2.1)."""
    return f"/s/{session.hex()}#join={token}&participant={quote(participant, safe='')}"
