"""Encrypted seeds in private.db, by commitment. What encrypts them is not the store's business, nor is the key here."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.errors import SeedExists
from beacon.store.reader import Reader
from beacon.store.writer import Writer


class SeedStore:
    """Puts and gets blobs. A seed that was put is never replaced and never deleted."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock

    async def put(self, commitment: bytes, nonce: bytes, ciphertext: bytes) -> None:
        """Keep a seed, durably when this returns. commitment: 32 bytes. Raises SeedExists and the writer's errors."""
        created = self._clock.now()

        def job(db: Database) -> None:
            try:
                db.execute("INSERT INTO seeds VALUES (?, ?, ?, ?)", [commitment, nonce, ciphertext, created])
            except sqlite3.IntegrityError as error:
                raise SeedExists(f"there is a seed under {commitment.hex()}") from error

        await self._writer.run(job)

    async def get(self, commitment: bytes) -> tuple[bytes, bytes] | None:
        """Give (nonce, ciphertext), or None."""
        query = "SELECT nonce, ciphertext FROM seeds WHERE commitment = ?"
        row = await self._reader.run(lambda db: db.execute(query, [commitment]).fetchone())
        return None if row is None else (row[0], row[1])
