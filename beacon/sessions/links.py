"""Hash chains of seeds: link k of a chain of N, without walking all of it for each draw (PROTOCOL.md, 4.1).

s_N is kept; s_k is N - k hashes from it, and is needed for k = 1, 2, 3, ... So every STRIDE-th link is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from verifier.seeds import SEED_BYTES, sha256

STRIDE: Final = 64
MAX_REMEMBERED: Final = 1_000_000
"""Links in memory, over all chains: 32 MB."""


class Links:
    """One chain: its links by number. In no repr."""

    __slots__ = ("_remembered", "count")

    def __init__(self, last: bytes, count: int) -> None:
        """last: s_N, 32 bytes; count: N, 1 to 65,536. Takes N hashes: about 30 ms for the longest chain."""
        self.count: Final = count
        remembered = bytearray(SEED_BYTES * (count // STRIDE + 1))
        link = last
        for k in range(count, -1, -1):
            if k % STRIDE == 0:
                start = SEED_BYTES * (k // STRIDE)
                remembered[start : start + SEED_BYTES] = link
            if k:
                link = sha256(link)
        self._remembered: Final = bytes(remembered) + last

    @property
    def commitment(self) -> bytes:
        """s_0, 32 bytes."""
        return self._remembered[:SEED_BYTES]

    @property
    def size(self) -> int:
        """How many links are remembered."""
        return len(self._remembered) // SEED_BYTES

    def link(self, k: int) -> bytes:
        """s_k, 32 bytes; 0 <= k <= N."""
        if not 0 <= k <= self.count:
            raise ValueError(f"a chain of {self.count} links has no link {k}")
        above = min(self.count, STRIDE * -(-k // STRIDE))
        place = above // STRIDE if above % STRIDE == 0 else self.size - 1
        link = self._remembered[SEED_BYTES * place : SEED_BYTES * (place + 1)]
        for _ in range(above - k):
            link = sha256(link)
        return link


class Remembered:
    """The chains in use, by commitment; those that were used least recently are forgotten first."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most: Final = most
        self._chains: Final[OrderedDict[bytes, Links]] = OrderedDict()
        self._size = 0

    def get(self, commitment: bytes) -> Links | None:
        """The chain of a commitment (32 bytes), if it is remembered."""
        chain = self._chains.get(commitment)
        if chain is not None:
            self._chains.move_to_end(commitment)
        return chain

    def keep(self, chain: Links) -> None:
        """Remember a chain."""
        self.forget(chain.commitment)
        self._chains[chain.commitment] = chain
        self._size += chain.size
        while self._size > self._most and len(self._chains) > 1:
            self.forget(next(iter(self._chains)))

    def forget(self, commitment: bytes) -> None:
        """Let a chain go. One that is not there is no error."""
        chain = self._chains.pop(commitment, None)
        if chain is not None:
            self._size -= chain.size
