"""Custody of seeds: made from the system's randomness, encrypted before they are stored, opened for whoever draws.

A seed is durable in private.db, under the master key, before its commitment is public. AES-256-GCM with a random 96-bit
nonce; the commitment is the associated data, so that rows cannot be swapped.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Sequence
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from beacon.errors import ApiError
from beacon.sessions.links import Links, Remembered
from beacon.store.private import KeptSeed
from verifier.seeds import SEED_BYTES, opens, sha256

NONCE_BYTES: Final = 12
CHECK: Final = sha256(b"fair-beacon/master-key-check")


class MasterCipher:
    """Encrypts under the master key, and says whether it was this one. Keys are in no repr and no message."""

    def __init__(self, master_key: bytes) -> None:
        """master_key: 32 bytes."""
        self._cipher: Final = AESGCM(master_key)

    def encrypt(self, commitment: bytes, seed: bytes) -> KeptSeed:
        """A seed, or what else is kept as one, under its commitment (32 bytes)."""
        nonce = os.urandom(NONCE_BYTES)
        return KeptSeed(commitment, nonce, self._cipher.encrypt(nonce, seed, commitment))

    def decrypt(self, kept: KeptSeed) -> bytes | None:
        """What was encrypted; None where it is not this commitment's under this master key."""
        try:
            return self._cipher.decrypt(kept.nonce, kept.ciphertext, kept.commitment)
        except (InvalidTag, ValueError):
            return None

    def check_text(self) -> KeptSeed:
        """The known text that stands beside the seeds, under a commitment that no seed opens."""
        return self.encrypt(CHECK, CHECK)

    def owns(self, check_text: KeptSeed) -> bool:
        """Whether the known text is under this master key, and so the seeds are."""
        return self.decrypt(check_text) == CHECK


class SeedStore(Protocol):
    """Where encrypted seeds are kept, by commitment (32 bytes). What `keep` returned from is durable; it blocks."""

    def keep(self, items: Sequence[KeptSeed]) -> None: ...

    async def seed(self, commitment: bytes) -> KeptSeed | None: ...


class Custody:
    """Makes seeds and opens them. Seeds are in no repr and no message."""

    def __init__(self, master_key: bytes, store: SeedStore) -> None:
        """master_key: 32 bytes."""
        self._cipher: Final = MasterCipher(master_key)
        self._store: Final = store
        self._chains: Final = Remembered()

    async def owns(self) -> bool:
        """Whether this is the master key that the stored seeds are under; at the first start it becomes that."""
        kept = await self._store.seed(CHECK)
        if kept is None:
            await asyncio.to_thread(self._store.keep, [self._cipher.check_text()])
            return True
        return self._cipher.owns(kept)

    def older(self, kept: Sequence[KeptSeed]) -> list[bytes]:
        """The keys of earlier join tokens, 32 bytes each, that are kept under this master key."""
        return [key for one in kept if (key := self._cipher.decrypt(one)) is not None]

    async def make(self, links: int = 1) -> KeptSeed:
        """Make a new seed, s_N of N = `links`, encrypted; whoever publishes its commitment keeps it before."""
        seed = os.urandom(SEED_BYTES)
        if links == 1:
            commitment = sha256(seed)
        else:
            chain = await asyncio.to_thread(Links, seed, links)
            commitment = chain.commitment
            self._chains.keep(chain)
        return self._cipher.encrypt(commitment, seed)

    def kept(self, seed: KeptSeed) -> bytes:
        """What `make` made: s_N, 32 bytes. Raises ApiError(seed-unavailable)."""
        return self._decrypt(seed)

    async def open(self, commitment: bytes) -> bytes:
        """The seed (s_1, 32 bytes) of a match's commitment. Raises ApiError(seed-unavailable)."""
        seed = self._decrypt(await self._store.seed(commitment))
        if not opens(seed, 1, commitment):
            raise ApiError("seed-unavailable", "what was kept does not open the commitment")
        return seed

    async def chain(self, commitment: bytes, links: int) -> Links:
        """The hash chain of a live session's commitment. Raises ApiError(seed-unavailable)."""
        chain = self._chains.get(commitment)
        if chain is not None:
            return chain
        seed = self._decrypt(await self._store.seed(commitment))
        chain = await asyncio.to_thread(Links, seed, links)
        if not hmac.compare_digest(chain.commitment, commitment):
            raise ApiError("seed-unavailable", "what was kept does not open the commitment")
        self._chains.keep(chain)
        return chain

    def forget(self, commitment: bytes) -> None:
        """A live session has ended: its chain is not kept in memory any more."""
        self._chains.forget(commitment)

    def _decrypt(self, kept: KeptSeed | None) -> bytes:
        if kept is None:
            raise ApiError("seed-unavailable", "the private database holds no seed of this session")
        seed = self._cipher.decrypt(kept)
        if seed is None:
            raise ApiError("seed-unavailable", "the seed does not decrypt under this master key")
        return seed
