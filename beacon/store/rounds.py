"""Drand rounds in log.db: one per (chain, round), for ever, and the evidence of chains that signed one twice.

Only rounds that were verified are put here. But nothing stands against a row that is added while no service runs, so
what is read back is unverified: whoever uses it verifies it first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from verifier.drand import ChainInfo, Round, VerifiedRound
from verifier.entries import Call, Seal, parse_entry

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

    async def get(self, chain: ChainInfo, round_number: int) -> Round | None:
        """Give the stored round of this number, unverified, or None."""
        return await self._one(chain, "round = ?", (round_number,))

    async def newest(self, chain: ChainInfo) -> Round | None:
        """Give the stored round with the highest number, unverified, or None."""
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

    async def evidence(self, chain: ChainInfo) -> list[Round]:
        """Give what `add_evidence` kept for the chain, by round, unverified."""
        query = f"SELECT {_COLUMNS} FROM round_evidence WHERE chain = ? ORDER BY round, signature"  # noqa: S608 - ours
        rows = await self._reader.run(lambda db: db.execute(query, (chain.hash,)).fetchall())
        return [Round(*row) for row in rows]

    async def _one(self, chain: ChainInfo, condition: str, values: tuple[int, ...]) -> Round | None:
        query = f"SELECT {_COLUMNS} FROM rounds WHERE chain = ? AND {condition}"  # noqa: S608 - conditions are ours
        row = await self._reader.run(lambda db: db.execute(query, (chain.hash, *values)).fetchone())
        return None if row is None else Round(*row)


@dataclass(frozen=True, slots=True)
class Held:
    """How many rounds of a chain are stored, the first and the last, and the rounds that were signed twice."""

    count: int
    first: int | None
    last: int | None
    evidence: tuple[int, ...]


class RoundArchive:
    """The stored rounds, read without changing anything, beside whoever writes. `chain`: a chain hash, 32 bytes."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Final = reader

    async def page(self, chain: bytes, first: int, last: int, limit: int) -> list[Round]:
        """At most `limit` stored rounds from `first` to `last`, in order, as they stand there: unverified."""
        query = f"SELECT {_COLUMNS} FROM rounds WHERE chain = ? AND round BETWEEN ? AND ? ORDER BY round LIMIT ?"  # noqa: S608 - ours
        rows = await self._reader.run(lambda db: db.execute(query, (chain, first, last, limit)).fetchall())
        return [Round(*row) for row in rows]

    async def known(self, chain: bytes, numbers: Sequence[int]) -> set[int]:
        """Which of these rounds are stored."""
        query = "SELECT round FROM rounds WHERE chain = ? AND round IN (SELECT value FROM json_each(?))"
        values = (chain, json.dumps(list(numbers)))
        return set(await self._reader.run(lambda db: [row[0] for row in db.execute(query, values).fetchall()]))

    async def stored(self, chain: bytes, numbers: Sequence[int]) -> dict[int, Round]:
        """Those of these rounds that are stored, as they stand there: unverified."""
        query = f"SELECT {_COLUMNS} FROM rounds WHERE chain = ? AND round IN (SELECT value FROM json_each(?))"  # noqa: S608 - ours
        values = (chain, json.dumps(list(numbers)))
        rows = await self._reader.run(lambda db: db.execute(query, values).fetchall())
        return {row[0]: Round(*row) for row in rows}

    async def held(self, chain: bytes) -> Held:
        """What is stored of a chain in all."""

        def query(db: Database) -> Held:
            totals = db.execute(
                "SELECT count(*), min(round), max(round) FROM rounds WHERE chain = ?", (chain,)
            ).fetchone()
            twice = db.execute("SELECT DISTINCT round FROM round_evidence WHERE chain = ? ORDER BY round", (chain,))
            return Held(totals[0], totals[1], totals[2], tuple(row[0] for row in twice.fetchall()))

        return await self._reader.run(query)

    async def evidence(self, chain: bytes) -> list[Round]:
        """The second signatures of rounds that were signed twice, as they stand there."""
        query = f"SELECT {_COLUMNS} FROM round_evidence WHERE chain = ? ORDER BY round, signature"  # noqa: S608 - ours
        rows = await self._reader.run(lambda db: db.execute(query, (chain,)).fetchall())
        return [Round(*row) for row in rows]

    async def needed(self, chain: bytes) -> list[int]:
        """The rounds that open sessions wait for: of their seals and calls, without a `round` entry in the log."""
        return await self._reader.run(lambda db: _needed(db, chain))


def _needed(db: Database, chain: bytes) -> list[int]:
    rows = db.execute(
        """SELECT entry FROM sessions JOIN session_entries USING (session) JOIN entries USING (i)
        WHERE end_index IS NULL AND chain = ?""",
        (chain,),
    )
    named = (parse_entry(row[0]) for row in rows.fetchall())
    wanted = {entry.round for entry in named if isinstance(entry, Seal | Call) and entry.round is not None}
    logged = db.execute("SELECT round FROM round_entries WHERE chain = ?", (chain,)).fetchall()
    return sorted(wanted - {row[0] for row in logged})


def _signatures(verified: VerifiedRound) -> tuple[bytes, bytes | None]:
    return verified.signature, verified.previous_signature
