"""Secrets and signatures by the Standard Webhooks specification 1.0.0, symmetric scheme `v1`.

secret      `whsec_` + base64 of 32 random bytes
signed      "{webhook-id}.{webhook-timestamp}.{body}"
signature   `v1,` + base64(HMAC-SHA256(secret's bytes, signed)); several, separated by spaces, while secrets change
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from beacon.store.webhooks import Encrypted

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - not a secret
SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 12
_PURPOSE: Final = b"fair-beacon/webhook-secret/"


def make_secret() -> bytes:
    """32 bytes from the system's randomness."""
    return os.urandom(SECRET_BYTES)


def show_secret(secret: bytes) -> str:
    """The text of a secret, as its holder configures it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode("ascii")


def message_id(endpoint: str, index: int) -> str:
    """The `webhook-id` of a log entry for an endpoint: the same at every attempt, and after every restart."""
    return "msg_" + hashlib.sha256(f"{endpoint}/{index}".encode()).hexdigest()[:32]


def headers(name: str, seconds: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The three headers of a request. name: its `webhook-id`; seconds: POSIX time of the attempt."""
    signed = b"%s.%d.%s" % (name.encode(), seconds, body)
    made = (base64.b64encode(hmac.digest(secret, signed, "sha256")).decode("ascii") for secret in secrets)
    return {
        "webhook-id": name,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in made),
    }


def answer_place(key: bytes) -> str:
    """What stands in for an endpoint's id where the answer to a request is encrypted. key: of the request, 32 bytes."""
    return f"answer/{key.hex()}"


class Vault:
    """Encrypts secrets under the master key: AES-256-GCM, the endpoint's id is the associated data."""

    def __init__(self, master_key: bytes) -> None:
        """master_key: 32 bytes."""
        self._cipher: Final = AESGCM(master_key)

    def encrypt(self, endpoint: str, secret: bytes) -> Encrypted:
        """A secret of an endpoint as it is stored."""
        nonce = os.urandom(NONCE_BYTES)
        return Encrypted(nonce, self._cipher.encrypt(nonce, secret, _PURPOSE + endpoint.encode()))

    def decrypt(self, endpoint: str, kept: Encrypted) -> bytes | None:
        """The secret; None where it is not this endpoint's under this master key."""
        try:
            return self._cipher.decrypt(kept.nonce, kept.ciphertext, _PURPOSE + endpoint.encode())
        except (InvalidTag, ValueError):
            return None
