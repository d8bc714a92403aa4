"""The log as the rest of the service sees it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.log import keys, reads
from beacon.log.highwater import HighWater
from beacon.log.projection import Projection
from beacon.log.reads import SignedCheckpoint
from beacon.log.recovery import recover
from beacon.log.sequencer import Appended, Build, Sequencer, Staged, first_entry
from beacon.log.signing import Signer, Signers
from beacon.log.tiles import tile_bytes
from beacon.store.errors import DatabaseDamaged, LogDamaged
from beacon.store.lock import FileLock
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.reader import Reader
from beacon.store.schema import Connect, connect, reading, refusal
from beacon.store.writer import Writer
from verifier.errors import VerifierError
from verifier.log_keys import LogKey, LogKeys
from verifier.merkle import verify_inclusion
from verifier.note import SigningKey
from verifier.tiles import Tile

T = TypeVar("T")


class Log:
    """An append-only log in one database file. `open` is the one way in, after a clean end and after a crash."""

    def __init__(self, path: Path, signers: Signers) -> None:
        """For `open` only."""
        self.path: Final = path
        self.vkey: Final = str(signers.vkey)
        self._signers: Final = signers
        self.keys = LogKeys((LogKey(signers.vkey),))
        self._latest: SignedCheckpoint | None = None
        self._new: SigningKey | None = None
        self._opened: ExitStack
        self.writer: Writer
        self.reader: Reader
        self._sequencer: Sequencer

    @classmethod
    def open(
        cls,
        path: Path,
        signer: Signer,
        clock: Clock,
        projections: Sequence[Projection] = (),
        *,
        mark: Path | None = None,
        keep: Callable[[Sequence[Any]], None] | None = None,
        connector: Connect = connect,
        step: Callable[[str], None] | None = None,
        readers: int = 2,
    ) -> Self:
        """Check what is there and take over, or begin a new log with its first leaf. Blocks.

        The origin is the signer's name. Of two signers the one that the log does not know signs from now on.
        mark: the file of the high-water mark; None keeps none, and then an older copy is opened like any log.
        keep: makes durable elsewhere, blocking, what `append` is told must be so first.
        connector, step: for tests of faults, as in Writer.
        Raises AlreadyOpen, SchemaRefused, CannotOpen, LogDamaged, LogBehind, WriteFailed, OutcomeUnknown, OSError.
        """
        log = cls(path, Signers.of(signer))
        with ExitStack() as stack:
            stack.callback(FileLock(path).release)
            told = step or _no_step
            water = None if mark is None else HighWater(mark, told)
            if water is not None:
                stack.callback(water.close)
            log._sequencer = Sequencer(signer, clock, projections, log._publish, told, water, keep)
            log.writer = log._writer(water, connector, told)
            stack.callback(log.writer.close)
            if log._latest is None:
                log.writer.submit(log._appending(first_entry(signer.name)), plain=True).result()
            elif water is not None:
                water.begin(log._latest)
            if log._new is not None:
                log._register(log._new, log.latest())
            if water is not None:
                water.settle()
            log.reader = Reader(path, readers)
            stack.callback(log.reader.close)
            log._opened = stack.pop_all()
        return log

    def _writer(self, water: HighWater | None, connector: Connect, step: Callable[[str], None]) -> Writer:
        begin = partial(self._begin, water)
        try:
            return Writer(
                self.path,
                LOG_SCHEMA,
                hooks=self._sequencer,
                exclusive=False,
                begin=begin,
                connector=connector,
                step=step,
            )
        except LogDamaged:
            raise
        except DatabaseDamaged as error:
            raise LogDamaged(str(error)) from error

    async def append(self, build: Build, staged: Staged | None = None) -> list[Appended]:
        """Append what `build(time_ms)` returns, durably, under one new signed checkpoint.

        `build` runs on the writer's thread, with every earlier entry applied to the projections, and gives the exact
        bytes of entries that carry this time. What it raises comes back here, and nothing is appended. `staged` is told
        of the entries there, once they are applied, and gives what has to be durable elsewhere before they are.
        Raises EntryRefused, WriteFailed (nothing was written), OutcomeUnknown and then WriterStopped for ever.
        """
        return await self.writer.run_plain(self._appending(build, staged))

    def latest(self) -> SignedCheckpoint:
        """Give the newest durable checkpoint. Any thread."""
        if self._latest is None:
            raise LogDamaged("the log has no checkpoint")
        return self._latest

    @property
    def least(self) -> int:
        """The least size of a checkpoint that is signed by the key which documents name now."""
        return next((one.first for one in self.keys.keys if str(one.key) == self.vkey), 0)

    async def receipt_proof(self, index: int) -> tuple[list[bytes], SignedCheckpoint]:
        """Give the inclusion proof of an entry and the checkpoint it leads to: always the first that covers it and that
        the key signed which documents name now.

        Raises IndexError when the log has no such entry, LogDamaged when the proof would not verify.
        """
        if not 0 <= index < self.latest().size:
            raise IndexError(f"the log has no entry {index}")
        checkpoint, leaf, proof = await self.reader.run(lambda db: reads.receipt_proof(db, index, self.least))
        try:
            verify_inclusion(leaf, index, checkpoint.size, proof, checkpoint.root)
        except VerifierError as error:
            raise LogDamaged(f"the stored hashes do not prove entry {index}") from error
        return proof, checkpoint

    async def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        """Give the proof from one size to another. Raises ValueError unless 1 <= old_size <= size <= the newest."""
        if size > self.latest().size:
            raise ValueError(f"the log has no size {size} yet")
        return await self.reader.run(lambda db: reads.consistency_proof(db, old_size, size))

    async def tile(self, tile: Tile) -> bytes | None:
        """Give the bytes of a tile or bundle of the newest tree; None while it has not that many hashes or entries."""
        size = self.latest().size
        return await self.reader.run(lambda db: tile_bytes(db, tile, size))

    async def entry(self, index: int) -> bytes:
        """Give the exact bytes of an entry. Raises IndexError, LogDamaged."""
        return await self.reader.run(lambda db: reads.entry(db, index))

    async def read(self, query: Callable[[Database], T]) -> T:
        """Run a query on a reader's thread, over one moment of the database."""
        return await self.reader.run(query)

    def close(self) -> None:
        """Write what waits and close. Blocks; again is no error."""
        self._opened.close()

    def _begin(self, water: HighWater | None, db: Database) -> None:
        with reading(self.path):
            self.keys = keys.known(db, self._signers.vkey)
            state = recover(db, self.keys)
            if water is not None:
                water.check(db, state.edge.size, self.keys)
            self._new = keys.unknown(db, self._signers)
        try:
            self._sequencer.restore(db, state)
        except sqlite3.Error as error:
            raise refusal(self.path, error) from error

    def _register(self, key: SigningKey, latest: SignedCheckpoint) -> None:
        """Let a key that the log does not know sign from its newest checkpoint on."""

        def job(db: Database) -> SignedCheckpoint:
            keys.register(db, self._signers.vkey, key, latest.size, latest.note)
            self.keys = keys.known(db, self._signers.vkey)
            return latest._replace(note=reads.signed_note(db, latest.size))

        self._latest = self.writer.submit(job).result()

    def _appending(self, build: Build, staged: Staged | None = None) -> Callable[[Database], list[Appended]]:
        append = self._sequencer.append
        return lambda db: append(db, build, staged)

    def _publish(self, checkpoint: SignedCheckpoint | None) -> None:
        self._latest = checkpoint


def _no_step(_name: str) -> None:
    pass
