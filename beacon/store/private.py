"""What must be durable in private.db before the log's entries that refer to it are: encrypted seeds, and which request
an entry answers. Private first, public second: a crash in between leaves rows that no entry refers to, and no more.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.memory import forget_oldest
from beacon.store.errors import SeedExists
from beacon.store.reader import Reader
from beacon.store.rows import insert_rows
from beacon.store.writer import Writer

JOIN_KEY: Final = hashlib.sha256(b"fair-beacon/join-key").digest()
"""What stands in for a commitment where a key of join tokens is encrypted."""
REMEMBERED: Final = 10_000
"""Encrypted seeds in memory: 3 MB."""


@dataclass(frozen=True, slots=True)
class KeptSeed:
    """An encrypted seed. commitment: 32 bytes. What encrypts it is not the store's business."""

    commitment: bytes
    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """Which entries a request was answered with: `count` of them from log index `first` on.

    key: names the request, 32 bytes; request: the hash of what it asked, 32 bytes; leaf: the leaf hash of the last of
    them, 32 bytes. If the log has another entry there, or none, the request was never answered.
    """

    key: bytes
    request: bytes
    first: int
    count: int
    leaf: bytes


Kept: TypeAlias = KeptSeed | KeptAnswer


class PrivateStore:
    """Keeps and gives. A seed that is kept is never replaced and never deleted."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock
        self._seeds: Final[dict[bytes, KeptSeed]] = {}

    def keep(self, items: Sequence[Kept]) -> None:
        """Keep all, durably when this returns; blocks. Raises SeedExists and the writer's errors: then nothing is."""
        self._writer.submit(lambda db: self._insert(db, items)).result()

    async def seed(self, commitment: bytes) -> KeptSeed | None:
        """Give the seed of a commitment (32 bytes), or None. Those asked for last are remembered, as they are kept."""
        known = self._seeds.get(commitment)
        if known is not None:
            return known
        query = "SELECT commitment, nonce, ciphertext FROM seeds WHERE commitment = ?"
        row = await self._reader.run(lambda db: db.execute(query, [commitment]).fetchone())
        if row is None:
            return None
        found = self._seeds[commitment] = KeptSeed(*row)
        forget_oldest(self._seeds, REMEMBERED)
        return found

    async def answer(self, key: bytes) -> KeptAnswer | None:
        """Give what is kept of a request (32 bytes), or None."""
        query = "SELECT key, request, first, count, leaf FROM answers WHERE key = ?"
        row = await self._reader.run(lambda db: db.execute(query, [key]).fetchone())
        return None if row is None else KeptAnswer(*row)

    async def join_keys(self) -> list[KeptSeed]:
        """Give what join tokens were made with under earlier master keys, encrypted as seeds are, while it is taken."""
        query, now = "SELECT nonce, ciphertext FROM join_keys WHERE until > ?", self._clock.now()
        rows = await self._reader.run(lambda db: db.execute(query, [now]).fetchall())
        return [KeptSeed(JOIN_KEY, *row) for row in rows]

    def _insert(self, db: Database, items: Sequence[Kept]) -> None:
        created = self._clock.now()
        seeds = [item for item in items if isinstance(item, KeptSeed)]
        answers = [item for item in items if isinstance(item, KeptAnswer)]
        try:
            insert_rows(db, "seeds", [(item.commitment, item.nonce, item.ciphertext, created) for item in seeds])
        except sqlite3.IntegrityError as error:
            raise SeedExists("there is a seed under one of these commitments") from error
        rows = [(item.key, item.request, item.first, item.count, item.leaf, created) for item in answers]
        insert_rows(db, "answers", rows, verb="INSERT OR REPLACE")
