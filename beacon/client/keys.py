"""What a host and its players hold themselves: pseudonyms, signatures, seeds of their own."""

from __future__ import annotations

import hashlib
import hmac
import os
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.client.asked import TimelockTerms
from verifier.bls.verify import best_backend
from verifier.drand import ChainInfo
from verifier.encoding import encode_base64, lp
from verifier.seeds import SEED_BYTES, contribution_message, seed_chain
from verifier.timelock import seal_timelock


def pseudonym(secret: bytes, user_id: str) -> str:
    """A participant id for a public log that is for ever: HMAC-SHA256 of your own user id, 32 hex digits.

    secret: 32 bytes or more that stay with you; without it nobody can try user ids out.
    """
    if len(secret) < SEED_BYTES:
        raise ValueError(f"a secret of {SEED_BYTES} bytes or more is due")
    return hmac.digest(secret, b"fair-beacon/pseudonym" + lp(user_id.encode()), hashlib.sha256).hex()[:32]


def sign_contribution(
    key: Ed25519PrivateKey,
    session: str,
    participant: str,
    entropy: bytes,
    *,
    draw: int = 0,
    recipe: str = "",
    n: int = 0,
    purpose: str = "",
) -> bytes:
    """A participant's signature (64 bytes) by rule 4.4; for a call it names the draw, the recipe, n and the purpose."""
    leaf = bytes.fromhex(session)
    return key.sign(contribution_message(leaf, draw, recipe, n, purpose, participant, entropy))


def lock_seed(last: bytes, chain: ChainInfo, reveal_by: int, *, now: int | None = None) -> TimelockTerms:
    """The `timelock` of a seal in custody `host`: the last link s_N, 32 bytes, for the first round from reveal_by on.

    After that round anybody can open it, so that a host that vanishes cannot keep the result from its players. chain:
    the session's, or another that the service follows. reveal_by, now: ms since the epoch; now is this machine's if
    None. Some milliseconds of work with the native pairing, a sixth of a second without: for a thread. Raises
    FormatError(TIMELOCK) for a chain that can carry none.
    """
    number, at = chain.first_at(reveal_by), time.time_ns() // 1_000_000 if now is None else now
    ciphertext = seal_timelock(chain, number, last, now=at, backend=best_backend())
    return {"chain": chain.hash.hex(), "round": number, "ciphertext": encode_base64(ciphertext)}


def make_chain(links: int = 1) -> list[bytes]:
    """A seed of your own, for custody `host`: [s_0, ... s_N] from the system's randomness; s_0 is the commitment."""
    return seed_chain(os.urandom(SEED_BYTES), links)
