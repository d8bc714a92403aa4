"""Gives entries their index and time, and turns a batch into one signed tree.

Lives on the writer's thread. Per transaction: every append is built and staged in memory, at once visible to the
projections; then entries, hashes and one signed checkpoint are written together. A build that raises stages nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.log import wire
from beacon.log.projection import Loading, Projection
from beacon.log.reads import SignedCheckpoint
from beacon.log.signing import Signer
from beacon.log.tree import Edge, prove_last
from beacon.store.errors import EntryRefused, LogDamaged
from beacon.store.rows import insert_rows
from beacon.store.writer import PoisonedBatchError
from verifier.encoding import encode_json
from verifier.errors import FormatError
from verifier.merkle import leaf_hash
from verifier.note import Checkpoint

Build = Callable[[int], Sequence[bytes]]


@dataclass(slots=True)
class Appended:
    """An entry in the log: its index, its time in ms, its exact bytes and leaf(entry), 32 bytes.

    Once it is durable: the first checkpoint that covers it, and the inclusion proof that leads there, 32 bytes each.
    """

    index: int
    time: int
    entry: bytes
    leaf_hash: bytes
    proof: list[bytes] = field(init=False, repr=False)
    checkpoint: SignedCheckpoint = field(init=False, repr=False)


Staged = Callable[[Sequence[Appended]], Sequence[Any]]
"""Told what an append has staged, on the writer's thread; gives what must be durable elsewhere before it."""


class State(NamedTuple):
    """What is durable: the tree's right edge and the newest checkpoint; None before the first."""

    edge: Edge
    checkpoint: SignedCheckpoint | None


class DurableMark(Protocol):
    """What remembers, outside the log, up to where it was durable (beacon.log.highwater)."""

    def settle(self) -> None:
        """Wait until what was begun is durable. Raises WriteFailed."""

    def begin(self, checkpoint: SignedCheckpoint) -> None:
        """Begin to remember a durable state."""


class Sequencer:
    """The hooks of the log's writer, and the job that appends.

    publish: told of each new durable checkpoint, on the writer's thread.
    step: told the name of each step of a write. mark: what remembers the newest durable state, where anything does.
    keep: makes durable elsewhere, blocking, what must be so before a transaction's entries are.
    """

    def __init__(
        self,
        signer: Signer,
        clock: Clock,
        projections: Sequence[Projection],
        publish: Callable[[SignedCheckpoint | None], None],
        step: Callable[[str], None],
        mark: DurableMark | None = None,
        keep: Callable[[Sequence[Any]], None] | None = None,
    ) -> None:
        self._signer: Final = signer
        self._clock: Final = clock
        self._projections: Final = tuple(projections)
        self._publish: Final = publish
        self._step: Final = step
        self._mark: Final = mark
        self._keep: Final = keep
        self._durable = State(Edge(), None)
        self._edge = Edge()
        self._time = 0
        self._appended: list[Appended] = []
        self._hashes: list[tuple[int, bytes]] = []
        self._first: list[Any] = []
        self._next: SignedCheckpoint | None = None

    def restore(self, db: Database, state: State) -> None:
        """Start from what recovery found, before anything is appended."""
        self._durable = state
        self._publish(state.checkpoint)
        self._reset()
        for projection in self._projections:
            if isinstance(projection, Loading):
                projection.opened(db)

    def append(self, db: Database, build: Build, staged: Staged | None = None) -> list[Appended]:
        """Build and stage entries; a plain job of the writer. staged: see Staged.

        Raises what `build` raises, and EntryRefused when an entry is none of section 3, or has not the time it was
        given; then nothing is staged.
        """
        time = max(self._clock.now(), self._time)
        built = list(build(time))
        for entry in built:
            _check(entry, time)
        appended = []
        for entry in built:
            leaf = leaf_hash(entry)
            index = self._edge.size
            self._hashes.append((index, self._edge.append(leaf)))
            self._time = time
            self._apply(db, index, entry, leaf)
            appended.append(Appended(index, time, entry, leaf))
        self._appended += appended
        if staged is not None:
            try:
                self._first.extend(staged(appended))
            except Exception as error:
                raise PoisonedBatchError("what belongs to new entries could not be prepared") from error
        return appended

    def before_commit(self, db: Database) -> None:
        """Write what was staged, under one new checkpoint. Raises LogDamaged when somebody else wrote to the log."""
        if not self._appended:
            return
        self._step("staged")
        for projection in self._projections:
            projection.before_commit(db)
        self._step("projected")
        if self._first:
            assert self._keep is not None
            self._keep(self._first)
            self._step("kept")
        self._next = self._sign()
        self._prove(self._next)
        before = self._durable.checkpoint
        try:
            insert_rows(db, "entries (i, entry)", [(item.index, item.entry) for item in self._appended])
            self._step("entries-written")
            insert_rows(db, "hashes (i, nodes)", self._hashes)
            self._step("hashes-written")
            written = db.conn.execute(
                """INSERT INTO checkpoints (size, note, time) SELECT ?, ?, ?
                WHERE (SELECT max(size) FROM checkpoints) IS ?""",
                (self._next.size, self._next.note, self._next.time, before.size if before else None),
            )
        except sqlite3.IntegrityError as error:
            raise LogDamaged("somebody else has written to the log") from error
        if written.rowcount != 1:
            raise LogDamaged("somebody else has published a checkpoint")
        self._step("checkpoint-written")
        if self._mark is not None:
            self._mark.settle()
            self._step("settled")

    def after_commit(self) -> None:
        """Take over what is durable now."""
        if not self._appended:
            return
        checkpoint = self._next
        assert checkpoint is not None
        self._durable = State(self._edge, checkpoint)
        self._publish(checkpoint)
        self._reset()
        for projection in self._projections:
            projection.committed()
        if self._mark is not None:
            self._mark.begin(checkpoint)

    def after_rollback(self) -> None:
        """Forget what was staged."""
        self._reset()
        for projection in self._projections:
            projection.rolled_back()

    def _reset(self) -> None:
        checkpoint = self._durable.checkpoint
        self._edge = self._durable.edge.copy()
        self._time = checkpoint.time if checkpoint else 0
        self._appended = []
        self._hashes = []
        self._first = []
        self._next = None

    def _apply(self, db: Database, index: int, entry: bytes, leaf: bytes) -> None:
        for projection in self._projections:
            try:
                projection.applied(db, index, entry, leaf)
            except Exception as error:
                raise PoisonedBatchError(f"entry {index} could not be applied") from error

    def _sign(self) -> SignedCheckpoint:
        root = self._edge.root()
        text = Checkpoint(self._signer.name, self._edge.size, root).encode()
        return SignedCheckpoint(self._edge.size, root, f"{text}\n{self._signer.sign(text)}", self._time)

    def _prove(self, checkpoint: SignedCheckpoint) -> None:
        root, proofs = prove_last(self._durable.edge, [item.leaf_hash for item in self._appended])
        if root != checkpoint.root:
            raise LogDamaged("the proofs of new entries do not lead to the root that was signed")
        for item, proof in zip(self._appended, proofs, strict=True):
            item.proof, item.checkpoint = proof, checkpoint


def first_entry(origin: str) -> Build:
    """Build the leaf that names the log (PROTOCOL.md 3.6)."""
    return lambda time: [encode_json({"v": 1, "type": "log", "time": time, "origin": origin})]


def _check(entry: bytes, time: int) -> None:
    if not isinstance(entry, bytes):
        raise EntryRefused("an entry is bytes")
    try:
        parsed = wire.parse(entry)
    except FormatError as error:
        raise EntryRefused(str(error)) from error
    if parsed.time != time:
        raise EntryRefused(f"the entry's time is not the time it was given, {time}")
