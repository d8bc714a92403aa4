"""The one writer of a database: one thread, one connection, group commit.

Everything that waits goes into one transaction; answers go out after its COMMIT, never before. How a batch ends:

    COMMIT returned                         every job has its result, or the exception that it raised
    it failed before COMMIT, rolled back    nothing was written: WriteFailed for every job of the batch
    ... because of LogDamaged               nothing was written, and nothing will be: WriterStopped
    COMMIT or the rollback failed           nobody can say: OutcomeUnknown for the batch, and the writer stops for ever
    the writer has stopped or was closed    WriterStopped: nothing was written

A commit that failed may still be found in the WAL after a crash, so nothing is concluded from its error: only opening
the database again, which reads what is there, decides. So that a full disk does not come to that, nothing is begun
where too little of it is free (beacon.store.trouble): such a write fails, and goes through once there is room.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from sqlite_utils import Database

from beacon.store.errors import LogDamaged, OutcomeUnknown, StoreError, WriteFailed, WriterStopped
from beacon.store.lock import FileLock
from beacon.store.schema import Connect, Schema, connect, open_writable
from beacon.store.trouble import Trouble, require_room

T = TypeVar("T")
Job = Callable[[Database], T]

MAX_BATCH: Final = 1_024
MAX_WAITING: Final = 100_000

# Errors after which SQLite may have rolled the whole transaction back by itself (sqlite.org/lang_transaction.html, 3).
_ROLLS_BACK: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_INTERRUPT,
    }
)


class PoisonedBatchError(Exception):
    """Raised by a plain job whose failure cannot be undone alone: the whole batch is rolled back."""


class Hooks(Protocol):
    """What else belongs to each transaction. Called on the writer's thread."""

    def before_commit(self, db: Database) -> None:
        """Write what the batch's jobs have prepared. Raising rolls the batch back."""

    def after_commit(self) -> None:
        """Take over what is durable now; the answers go out after this. Raising stops the writer."""

    def after_rollback(self) -> None:
        """Forget what the batch's jobs have prepared. Raising stops the writer."""


class NoHooks:
    """Nothing else belongs to a transaction."""

    def before_commit(self, db: Database) -> None:
        pass

    def after_commit(self) -> None:
        pass

    def after_rollback(self) -> None:
        pass


class _Item(Generic[T]):
    """A job that waits, and where its outcome goes: `future` belongs to `loop`, or to any thread when loop is None."""

    __slots__ = ("error", "future", "job", "loop", "plain", "result")

    def __init__(
        self,
        job: Job[T],
        future: asyncio.Future[T] | Future[T],
        loop: asyncio.AbstractEventLoop | None,
        *,
        plain: bool,
    ) -> None:
        self.job = job
        self.future = future
        self.loop = loop
        self.plain = plain
        self.result: T | None = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Hand the outcome over, on the thread that the future belongs to."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


class Writer:
    """The only writer of one database file. Make one, use it from any thread or loop, close it."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        hooks: Hooks | None = None,
        exclusive: bool = True,
        begin: Callable[[Database], None] | None = None,
        connector: Connect = connect,
        step: Callable[[str], None] | None = None,
        max_batch: int = MAX_BATCH,
    ) -> None:
        """Open, create or migrate the database.

        begin: reads what is there and takes over, on the writer's thread, before anything is written; what it raises is
        raised here. exclusive: hold the lock of `path` until closed. A second process may still write through a writer
        that is not exclusive; then both wait for each other in SQLite. step: told the name of each step of a write.
        Raises AlreadyOpen, SchemaRefused, CannotOpen, DatabaseDamaged, OSError.
        """
        self.path: Final = path
        self._schema: Final = schema
        self._connector: Final = connector
        self._begin: Final = begin
        self._hooks: Final[Hooks] = hooks or NoHooks()
        self._step: Final[Callable[[str], None]] = step or _no_step
        self._max_batch: Final = max_batch
        self._queue: Final[queue.SimpleQueue[_Item[Any] | None]] = queue.SimpleQueue()
        self._stopped: str | None = None
        self._trouble: Final = Trouble(path.name)
        self._closing = False
        self._guard: Final = threading.Lock()
        self._lock: Final = FileLock(path) if exclusive else None
        opened: Future[None] = Future()
        self._thread: Final = threading.Thread(
            target=self._main, args=(opened,), name=f"writer {path.name}", daemon=True
        )
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self._thread.join()
            if self._lock:
                self._lock.release()
            raise

    @property
    def stopped(self) -> str | None:
        """Why the writer takes nothing any more; None while it does."""
        return self._stopped

    @property
    def trouble(self) -> str | None:
        """Why a write would likely fail or wait now, though the writer goes on; None while all is well. Any thread."""
        return str(self._trouble) or None

    async def run(self, job: Job[T]) -> T:
        """Run a job in the next transaction, inside a savepoint, and return its result when that is durable.

        The job runs on the writer's thread; what it raises undoes its own writes and comes back here, a full or failing
        disk as WriteFailed. It must not begin, commit or roll back. Raises WriteFailed, OutcomeUnknown, WriterStopped.
        """
        return await self._wait(job, plain=False)

    async def run_plain(self, job: Job[T]) -> T:
        """Run a job that leaves nothing behind when it raises, without a savepoint. Else as `run`.

        A plain job raises before it writes anything; if it cannot, it raises PoisonedBatchError.
        """
        return await self._wait(job, plain=True)

    def submit(self, job: Job[T], *, plain: bool = False) -> Future[T]:
        """As `run` or `run_plain`, for threads."""
        future: Future[T] = Future()
        self._put(_Item(job, future, None, plain=plain))
        return future

    @property
    def waiting(self) -> int:
        """How many writes are in the queue, about."""
        return self._queue.qsize()

    def stop(self, reason: str) -> None:
        """Take nothing any more. What waits fails with WriterStopped; the batch at work ends as it ends."""
        with self._guard:
            if self._stopped is None:
                self._stopped = reason

    def close(self) -> None:
        """Write what waits, close the database and release the lock. Blocks; again is no error."""
        with self._guard:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join()
        if self._lock:
            self._lock.release()

    async def aclose(self) -> None:
        """As `close`, without blocking the loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    async def _wait(self, job: Job[T], *, plain: bool) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Item(job, future, loop, plain=plain))
        return await future

    def _put(self, item: _Item[Any]) -> None:
        with self._guard:
            if self._closing or self._stopped is not None:
                raise WriterStopped(self._stopped or "the writer was closed")
            if self._queue.qsize() >= MAX_WAITING:
                raise WriteFailed("too many writes are waiting")
            self._queue.put(item)

    def _main(self, opened: Future[None]) -> None:
        try:
            db = self._open()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            self._serve(db)
        finally:
            db.close()

    def _open(self) -> Database:
        db = open_writable(self.path, self._schema, self._connector)
        try:
            if self._begin is not None:
                db.execute("BEGIN")
                self._begin(db)
                db.rollback()
        except BaseException:
            db.close()
            raise
        return db

    def _serve(self, db: Database) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            batch, last = self._drain(item)
            if self._stopped is not None:
                self._fail(batch, WriterStopped(self._stopped))
            else:
                self._trouble.begin()
                try:
                    self._write(db, batch)
                except BaseException as error:  # noqa: BLE001 - a fault of the writer itself
                    self._give_up(batch, "the writer failed", error)
            if last:
                return

    def _drain(self, first: _Item[Any]) -> tuple[list[_Item[Any]], bool]:
        batch = [first]
        try:
            while len(batch) < self._max_batch:
                item = self._queue.get_nowait()
                if item is None:
                    return batch, True
                batch.append(item)
        except queue.Empty:
            pass
        return batch, False

    def _answer(self, batch: Sequence[_Item[Any]]) -> None:
        """Hand the outcomes over; before, note whether one of them is a failure that only time mends."""
        self._trouble.end(next((str(item.error) for item in batch if isinstance(item.error, WriteFailed)), None))
        _deliver(batch)

    def _fail(self, batch: Sequence[_Item[Any]], error: StoreError, cause: BaseException | None = None) -> None:
        """Give each its own exception: one instance in many tasks would grow a traceback without end."""
        for item in batch:
            item.error = type(error)(*error.args)
            item.error.__cause__ = cause
        self._answer(batch)

    def _write(self, db: Database, batch: list[_Item[Any]]) -> None:
        conn = db.conn
        try:
            require_room(self.path)
            conn.execute("BEGIN IMMEDIATE")
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing has begun
            self._fail(batch, WriteFailed(f"nothing was written: {_describe(error)}"), error)
            return
        try:
            self._step("begun")
            for item in batch:
                self._run_job(db, item)
            self._step("jobs-done")
            self._hooks.before_commit(db)
            self._step("before-commit")
        except BaseException as error:  # noqa: BLE001 - whatever it was, the batch is undone and its callers told
            self._roll_back(db, batch, error)
            return
        try:
            conn.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whatever it was, the outcome is unknown
            self._give_up(batch, "a commit failed", error)
            return
        self._step("committed")
        try:
            self._hooks.after_commit()
        except Exception as error:  # noqa: BLE001 - the batch is durable; only later ones are refused
            self.stop(f"the state after a commit could not be taken over: {_describe(error)}")
        self._answer(batch)
        self._step("delivered")

    def _run_job(self, db: Database, item: _Item[Any]) -> None:
        conn = db.conn
        if not item.plain:
            conn.execute("SAVEPOINT job")
        try:
            item.result = item.job(db)
        except PoisonedBatchError:
            raise
        except Exception as error:
            if not conn.in_transaction:
                raise
            if not item.plain:
                conn.execute("ROLLBACK TO job")
                conn.execute("RELEASE job")
            item.error = _of_the_disk(error) or error
            return
        if not conn.in_transaction:
            raise _TransactionEndedError("a job ended the transaction")
        if not item.plain:
            conn.execute("RELEASE job")

    def _roll_back(self, db: Database, batch: list[_Item[Any]], error: BaseException) -> None:
        try:
            if db.conn.in_transaction:
                db.conn.execute("ROLLBACK")
            elif not _rolled_back_by_sqlite(error):
                raise _TransactionEndedError("the transaction had ended")  # noqa: TRY301 - one handler for every doubt
            if db.conn.in_transaction:
                raise _TransactionEndedError("the transaction goes on")  # noqa: TRY301
            self._hooks.after_rollback()
        except BaseException as failure:  # noqa: BLE001 - whatever it was, the outcome is unknown
            self._give_up(batch, "a rollback failed", failure)
            return
        if isinstance(error, LogDamaged):
            self.stop(str(error))
            self._fail(batch, WriterStopped(self._stopped), error)
            return
        reason = error.__cause__ if isinstance(error, PoisonedBatchError) and error.__cause__ else error
        self._fail(batch, WriteFailed(f"nothing was written: {_describe(reason)}"), reason)

    def _give_up(self, batch: list[_Item[Any]], what: str, error: BaseException) -> None:
        self.stop(f"{what}: {_describe(error)}")
        self._fail(batch, OutcomeUnknown(self._stopped), error)


class _TransactionEndedError(Exception):
    """The transaction is not what it should be, so what was written is not known."""


def _rolled_back_by_sqlite(error: BaseException) -> bool:
    """Tell whether it was SQLite that ended the transaction, by the error or by what it was raised from."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, sqlite3.Error) and code in _ROLLS_BACK:
        return True
    return error.__cause__ is not None and _rolled_back_by_sqlite(error.__cause__)


def _of_the_disk(error: Exception) -> WriteFailed | None:
    """What a job's caller is told when it was not the job that failed: a full or failing disk, a lock."""
    if not isinstance(error, sqlite3.OperationalError):
        return None
    failed = WriteFailed(f"nothing was written: {_describe(error)}")
    failed.__cause__ = error
    return failed


def _deliver(batch: Sequence[_Item[Any]]) -> None:
    """Settle futures: those of threads here, those of each loop by one call in it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Item[Any]]] = {}
    for item in batch:
        if item.loop is None:
            item.settle()
        else:
            by_loop.setdefault(item.loop, []).append(item)
    for loop, items in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, items)
        except RuntimeError:  # the loop was closed: nobody waits any more
            continue


def _settle_all(items: list[_Item[Any]]) -> None:
    for item in items:
        item.settle()


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _no_step(_name: str) -> None:
    pass
