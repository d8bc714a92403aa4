"""Verified drand rounds in log.db: one per (chain, round), for ever, and the evidence of chains that signed one twice.

Only rounds that were verified are put here, and log.db has one writer; so what is read back counts as verified.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Generic, TypeVar

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from verifier.drand import ChainInfo, VerifiedRound

P = TypeVar("P", bound=StrEnum)

_COLUMNS: Final = "round, signature, previous_signature"


class SqliteRounds(Generic[P]):
    """The rounds of one log.db.

    outcomes: the enumeration of what `put` returns, with the values `new` (stored now), `same` (stored before, with
    this signature) and `conflict` (stored with another; nothing changed).
    Every call may raise the writer's errors; what `put` and `add_evidence` have returned from is durable.
    """

    def __init__(self, writer: Writer, reader: Reader, clock: Clock, outcomes: type[P]) -> None:
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock
        self._new: Final = outcomes("new")
        self._same: Final = outcomes("same")
        self._conflict: Final = outcomes("conflict")

    async def put(self, verified: VerifiedRound) -> P:
        """Store a round unless one of its number is there. A round is never replaced by another (6.9)."""
        key = (verified.chain.hash, verified.round)

        def job(db: Database) -> P:
            stored = db.execute("SELECT signature FROM rounds WHERE chain = ? AND round = ?", key).fetchone()
            if stored is not None:
                return self._same if stored[0] == verified.signature else self._conflict
            db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", (*key, *_signatures(verified)))
            return self._new

        return await self._writer.run(job)

    async def get(self, chain: ChainInfo, round_number: int) -> VerifiedRound | None:
        """Give the stored round of this number, or None."""
        return await self._one(chain, "round = ?", (round_number,))

    async def newest(self, chain: ChainInfo) -> VerifiedRound | None:
        """Give the stored round with the highest number, or None."""
        return await self._one(chain, "true ORDER BY round DESC LIMIT 1", ())

    async def add_evidence(self, verified: VerifiedRound) -> None:
        """Keep a second valid signature of a stored round, beside the first. The same one again is no error."""
        key = (verified.chain.hash, verified.round)

        def job(db: Database) -> None:
            known = db.execute(
                "SELECT 1 FROM round_evidence WHERE chain = ? AND round = ? AND signature = ?",
                (*key, verified.signature),
            ).fetchone()
            if known is None:
                row = (*key, *_signatures(verified), self._clock.now())
                db.execute("INSERT INTO round_evidence VALUES (?, ?, ?, ?, ?)", row)

        await self._writer.run(job)

    async def evidence(self, chain: ChainInfo) -> list[VerifiedRound]:
        """Give what `add_evidence` kept for the chain, by round."""
        query = f"SELECT {_COLUMNS} FROM round_evidence WHERE chain = ? ORDER BY round, signature"  # noqa: S608 - ours
        rows = await self._reader.run(lambda db: db.execute(query, (chain.hash,)).fetchall())
        return [VerifiedRound.from_store(chain, *row) for row in rows]

    async def _one(self, chain: ChainInfo, condition: str, values: tuple[int, ...]) -> VerifiedRound | None:
        query = f"SELECT {_COLUMNS} FROM rounds WHERE chain = ? AND {condition}"  # noqa: S608 - conditions are ours
        row = await self._reader.run(lambda db: db.execute(query, (chain.hash, *values)).fetchone())
        return None if row is None else VerifiedRound.from_store(chain, *row)


def _signatures(verified: VerifiedRound) -> tuple[bytes, bytes | None]:
    return verified.signature, verified.previous_signature
