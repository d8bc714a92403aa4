"""A witness of other logs (C2SP tlog-witness): it signs that it saw a checkpoint, and never one that does not continue
what it signed before.

The check against what was signed, and the record of what is signed now, are one transaction on the writer's thread; a
cosignature leaves only after it is durable. So a crash at any moment leaves a size with one root.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from verifier import tlog_witness
from verifier.encoding import encode_base64
from verifier.merkle import EMPTY_ROOT
from verifier.note import Cosigner, VerifierKey
from verifier.tlog_witness import TEXT, UNPROVEN, AddCheckpoint, Refusal

MAX_FORKS: Final = 1_000
"""Of each kind and origin. A log signs each of its checkpoints itself, so nobody else can fill them up."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered. size: what the request was about, for the log."""

    status: int
    body: str
    content_type: str = TEXT
    retry_after: int = 0
    origin: str = ""
    size: int | None = None


class State(NamedTuple):
    """The newest checkpoint that was cosigned: its size, root and note, the cosignature's line and time."""

    size: int
    root: bytes
    note: str
    line: str
    time: int


class Witness:
    """One witness: its key and its database. Any number of requests at once."""

    def __init__(self, cosigner: Cosigner, writer: Writer, reader: Reader, clock: Clock) -> None:
        self.cosigner: Final = cosigner
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock

    async def add_checkpoint(self, body: bytes) -> Reply:
        """Answer a request of add-checkpoint. Raises the store's errors."""
        request = await asyncio.to_thread(tlog_witness.read, body)
        if isinstance(request, Refusal):
            return _refused(request)
        keys = await self._reader.run(lambda db: _keys(db, request.checkpoint.origin))
        refusal = await asyncio.to_thread(tlog_witness.unsigned, request, keys)
        if refusal is not None:
            return _refused(refusal, request)
        return await self._writer.run(lambda db: self._decide(db, request))

    async def newest(self, origin_hash: str) -> str | None:
        """The newest checkpoint that was cosigned, with the cosignature. origin_hash: SHA-256 of the origin, hex."""

        def query(db: Database) -> str | None:
            rows = db.conn.execute("SELECT origin, note, line FROM states").fetchall()
            return next((note + line for origin, note, line in rows if origin_hash_of(origin) == origin_hash), None)

        return await self._reader.run(query)

    def _decide(self, db: Database, request: AddCheckpoint) -> Reply:
        """On the writer's thread, inside its transaction."""
        checkpoint, now = request.checkpoint, self._clock.now() // 1000
        origin, size = checkpoint.origin, checkpoint.size
        state = _state(db, origin)
        if state is not None and state.size == size and state.root != checkpoint.root:
            _keep(db, "fork", request, state, now)
        refusal = tlog_witness.inconsistent(request, *((0, EMPTY_ROOT) if state is None else state[:2]))
        if refusal is not None:
            if refusal.status == UNPROVEN and state is not None and size > state.size:
                _keep(db, "unproven", request, state, now)
            return _refused(refusal, request)
        if state is not None and now < state.time:
            wait = min(60, state.time - now)
            return Reply(503, "this witness's clock is not right\n", retry_after=wait, origin=origin, size=size)
        line = self.cosigner.cosign(request.note.text, now)
        row = (size, checkpoint.root, request.text, line, now)
        if state is None:
            db.conn.execute("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?)", (origin, *row))
        else:
            update = "UPDATE states SET size = ?, root = ?, note = ?, line = ?, time = ? WHERE origin = ?"
            db.conn.execute(update, (*row, origin))
        return Reply(200, line, origin=origin, size=size)


def origin_hash_of(origin: str) -> str:
    """SHA-256 of an origin in hex: how a log is named in an address."""
    return hashlib.sha256(origin.encode()).hexdigest()


def _refused(refusal: Refusal, request: AddCheckpoint | None = None) -> Reply:
    reply = Reply(refusal.status, refusal.body, refusal.content_type)
    if request is None:
        return reply
    return replace(reply, origin=request.checkpoint.origin, size=request.checkpoint.size)


def _keys(db: Database, origin: str) -> list[VerifierKey]:
    rows = db.conn.execute("SELECT vkey FROM logs WHERE origin = ?", (origin,)).fetchall()
    return [VerifierKey.parse(row[0]) for row in rows]


def _state(db: Database, origin: str) -> State | None:
    row = db.conn.execute("SELECT size, root, note, line, time FROM states WHERE origin = ?", (origin,)).fetchone()
    return None if row is None else State(*row)


def _keep(db: Database, kind: str, request: AddCheckpoint, state: State, now: int) -> None:
    """Keep both checkpoints, once."""
    checkpoint = request.checkpoint
    key = (checkpoint.origin, kind)
    known = "SELECT 1 FROM forks WHERE origin = ? AND kind = ? AND size = ? AND root = ?"
    if db.conn.execute(known, (*key, checkpoint.size, checkpoint.root)).fetchone():
        return
    (count,) = db.conn.execute("SELECT count(*) FROM forks WHERE origin = ? AND kind = ?", key).fetchone()
    if count >= MAX_FORKS:
        return
    proof = " ".join(map(encode_base64, request.proof))
    db.conn.execute(
        """INSERT INTO forks (origin, kind, size, root, ours, theirs, old, proof, time)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (*key, checkpoint.size, checkpoint.root, state.note + state.line, request.text, request.old, proof, now),
    )
