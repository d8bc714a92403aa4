"""Seed chains, the session digest and the binding of a draw (PROTOCOL.md, section 4).

S       = H( LP("fair-beacon/v1/session") | leaf(seal) | list(session's contributions) )
B       = H( LP("fair-beacon/v1/binding") | S | u32(k) | list(call's contributions) | u64(R) | randomness(R) )
block_j = HMAC-SHA256( key = s_k, B | LP(recipe name) | u32(n) | u32(j) )
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Final

from verifier.encoding import lp, u32, u64

SEED_BYTES: Final = 32

_SESSION = lp(b"fair-beacon/v1/session")
_BINDING = lp(b"fair-beacon/v1/binding")
_CONTRIBUTION = lp(b"fair-beacon/v1/contribution")


def sha256(data: bytes) -> bytes:
    """H of the protocol: 32 bytes."""
    return hashlib.sha256(data).digest()


def seed_chain(last: bytes, links: int) -> list[bytes]:
    """[s_0, s_1, ... s_N] of the chain whose last link s_N is `last` (32 bytes), N = links; s_0 is the commitment."""
    chain = [last]
    for _ in range(links):
        chain.append(sha256(chain[-1]))
    chain.reverse()
    return chain


def opens(seed: bytes, links: int, commitment: bytes) -> bool:
    """Whether hashing `seed` (s_links, 32 bytes) `links` times gives the commitment (4.1)."""
    for _ in range(links):
        seed = sha256(seed)
    return hmac.compare_digest(seed, commitment)


def contribution_list(contributions: Iterable[tuple[str, bytes]]) -> bytes:
    """list(c): (participant, entropy) pairs sorted by the UTF-8 bytes of the participant's id (2.8)."""
    pairs = sorted((participant.encode("utf-8"), entropy) for participant, entropy in contributions)
    return u32(len(pairs)) + b"".join(lp(participant) + lp(entropy) for participant, entropy in pairs)


def session_digest(seal_leaf: bytes, contributions: Iterable[tuple[str, bytes]]) -> bytes:
    """S, 32 bytes, of a seal (its leaf hash, 32 bytes) and the session's contributions."""
    return sha256(_SESSION + seal_leaf + contribution_list(contributions))


def binding(
    digest: bytes, k: int, contributions: Iterable[tuple[str, bytes]], round_number: int, randomness: bytes
) -> bytes:
    """B, 32 bytes; `digest` is S, `randomness` is H(signature of the round), 32 bytes each; match: k = 0, none."""
    return sha256(_BINDING + digest + u32(k) + contribution_list(contributions) + u64(round_number) + randomness)


def contribution_message(
    seal_leaf: bytes, k: int, recipe: str, n: int, purpose: str, participant: str, entropy: bytes
) -> bytes:
    """What a participant signs (4.4); for a session's contribution k = 0, recipe and purpose are empty and n = 0."""
    texts = (lp(recipe.encode()) + u32(n), lp(purpose.encode()), lp(participant.encode()), lp(entropy))
    return _CONTRIBUTION + seal_leaf + u32(k) + b"".join(texts)


def rejection_limit(width: int, n: int) -> int:
    """The largest multiple of n up to 256**width: numbers of `width` bytes from it on are discarded (5.1)."""
    values = 1 << 8 * width
    return values - values % n


class Stream:
    """The byte stream of one (recipe, n): block_0 | block_1 | ... (4.3). `word` is block_0."""

    def __init__(self, seed: bytes, binding: bytes, recipe: str, n: int) -> None:
        """`seed` is s_k and `binding` is B, 32 bytes each; 1 <= n < 2**32."""
        self._mac = hmac.new(seed, binding + lp(recipe.encode("utf-8")) + u32(n), hashlib.sha256)
        self._blocks: list[bytes] = []
        self._position = 0

    def block(self, j: int) -> bytes:
        """block_j, 32 bytes."""
        while len(self._blocks) <= j:
            mac = self._mac.copy()
            mac.update(u32(len(self._blocks)))
            self._blocks.append(mac.digest())
        return self._blocks[j]

    @property
    def word(self) -> bytes:
        return self.block(0)

    @property
    def blocks(self) -> Sequence[bytes]:
        """The blocks that have been used so far."""
        return tuple(self._blocks)

    def take(self, count: int) -> bytes:
        """The next `count` bytes of the stream."""
        start, end = self._position, self._position + count
        self._position = end
        first = start // 32
        data = b"".join(self.block(j) for j in range(first, (end + 31) // 32))
        return data[start - 32 * first : end - 32 * first]

    def uniform(self, n: int) -> int:
        """A uniform number in 0 .. n-1, 1 <= n <= 2**64, by rejection (5.1)."""
        if n == 1:
            return 0
        width = ((n - 1).bit_length() + 7) // 8
        limit = rejection_limit(width, n)
        while True:
            x = int.from_bytes(self.take(width), "big")
            if x < limit:
                return x % n
