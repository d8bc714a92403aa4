"""Retries that cannot do a thing twice: which entries a request was answered with, kept before they are public.

A request that carries an idempotency key is named by it, for its host, for ever. Its row in private.db is durable
before its entries are; whether those are in the log decides if it was ever answered. So a lost answer, or a crash
between the commit and the answer, ends in the same answer again: it is made anew from the log, as of its last entry.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from sqlite_utils import Database

from beacon.errors import ApiError
from beacon.log import reads
from beacon.sessions.context import Context, Key
from beacon.sessions.requests import Written
from beacon.store.errors import WriteFailed
from beacon.store.private import KeptAnswer
from verifier.merkle import leaf_hash

Act = Callable[[Key | None], Awaitable[Sequence[Written]]]


class AnswerStore(Protocol):
    """Where it is kept which entries answered a request (32 bytes)."""

    async def answer(self, key: bytes) -> KeptAnswer | None: ...


@dataclass(slots=True)
class _Turn:
    """One key's requests take turns. wanted: by how many."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Answers:
    """Gives the first answer of a request again, or lets it act, one at a time for each key."""

    def __init__(self, context: Context, store: AnswerStore) -> None:
        self._context: Final = context
        self._store: Final = store
        self._failed: Final[set[bytes]] = set()
        self._acting: Final[dict[bytes, _Turn]] = {}

    async def once(self, key: Key | None, act: Act) -> Sequence[Written]:
        """What `act` gives, or gave when the request was first made. Raises ApiError(idempotency-key-reused)."""
        if key is None:
            return await act(None)
        async with self._alone(key.name):
            kept = None if key.name in self._failed else await self._store.answer(key.name)
            if kept is not None and await self._is_in_log(kept):
                if not hmac.compare_digest(kept.request, key.fingerprint):
                    raise ApiError("idempotency-key-reused", "the key was used for another request")
                return await self._context.again(kept.first, kept.count)
            try:
                written = await act(key)
            except WriteFailed:
                self._failed.add(key.name)
                raise
            self._failed.discard(key.name)
            return written

    @asynccontextmanager
    async def _alone(self, name: bytes) -> AsyncIterator[None]:
        turn = self._acting.setdefault(name, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._acting[name]

    async def _is_in_log(self, kept: KeptAnswer) -> bool:
        def look(db: Database) -> bool:
            last = kept.first + kept.count - 1
            found = reads.entries(db, last, last + 1)
            return bool(found) and leaf_hash(found[0]) == kept.leaf

        return await self._context.transcripts.read(look)
