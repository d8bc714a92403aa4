"""The writer and the readers of a database."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from sqlite_utils import Database

from beacon.store.errors import AlreadyOpen, CannotOpen, DatabaseDamaged, OutcomeUnknown, WriteFailed, WriterStopped
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.schema import open_readonly
from beacon.store.writer import PoisonedBatchError, Writer
from tests.log_support import held

INSERT = "INSERT INTO seeds VALUES (?, x'00', x'00', 0)"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "private.db"


@pytest.fixture
def writer(path):
    writer = Writer(path, PRIVATE_SCHEMA)
    yield writer
    writer.close()


@pytest.fixture
def reader(path, writer):
    reader = Reader(path)
    yield reader
    reader.close()


def insert(number):
    return lambda db: db.execute(INSERT, [number.to_bytes(32, "big")]).rowcount


def stored(path):
    with closing(sqlite3.connect(path)) as db:
        return sorted(int.from_bytes(row[0], "big") for row in db.execute("SELECT commitment FROM seeds"))


# --- the writer -------------------------------------------------------------------------------------------------


async def test_what_waits_goes_into_one_commit(path):
    steps = []
    writer = Writer(path, PRIVATE_SCHEMA, step=steps.append)
    with held(writer):
        steps.clear()
        waiting = [asyncio.ensure_future(writer.run(insert(number))) for number in range(50)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*waiting) == [1] * 50
    writer.close()
    assert steps.count("committed") == 2
    assert stored(path) == list(range(50))


async def test_a_commit_takes_no_more_than_its_limit(path):
    steps = []
    writer = Writer(path, PRIVATE_SCHEMA, step=steps.append, max_batch=10)
    with held(writer):
        steps.clear()
        waiting = [asyncio.ensure_future(writer.run(insert(number))) for number in range(50)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    writer.close()
    assert steps.count("committed") == 6


async def test_no_answer_before_the_commit(path):
    seen = []

    def step(name):
        if futures:
            seen.append((name, [future.done() for future in futures]))

    futures = []
    writer = Writer(path, PRIVATE_SCHEMA, step=step)
    with held(writer):
        futures += [writer.submit(insert(number)) for number in range(3)]
    assert [future.result(30) for future in futures] == [1, 1, 1]
    writer.close()
    assert [name for name, done in seen if not any(done)][-3:] == ["jobs-done", "before-commit", "committed"]
    assert ("delivered", [True] * 3) in seen


async def test_a_job_that_raises_undoes_itself_alone(writer, path):
    def failing(db):
        insert(8)(db)
        raise LookupError("changed its mind")

    def refused(db):
        insert(9)(db)
        insert(9)(db)

    with held(writer):
        jobs = (insert(1), failing, insert(2), refused, insert(3))
        waiting = [asyncio.ensure_future(writer.run(job)) for job in jobs]
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [int, LookupError, int, sqlite3.IntegrityError, int]
    assert stored(path) == [1, 2, 3]


async def test_a_plain_job_that_raises_is_alone_unless_it_poisons(writer, path):
    def failing(db):
        raise LookupError("not today")

    def poison(db):
        insert(9)(db)
        raise PoisonedBatchError("cannot be undone alone") from ValueError("the reason")

    with held(writer):
        waiting = [asyncio.ensure_future(writer.run_plain(job)) for job in (insert(1), failing, insert(2))]
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [int, LookupError, int]
    with held(writer):
        waiting = [asyncio.ensure_future(writer.run_plain(job)) for job in (insert(3), poison, failing)]
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {WriteFailed}
    assert "ValueError: the reason" in str(results[0])
    assert len({id(result) for result in results}) == 3
    assert await writer.run(insert(4)) == 1
    assert stored(path) == [1, 2, 4]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_job_that_ends_the_transaction_stops_the_writer(path, statement, plain):
    writer = Writer(path, PRIVATE_SCHEMA)
    with held(writer):
        jobs = (insert(1), lambda db: db.execute(statement), insert(2))
        waiting = [writer.submit(job, plain=plain) for job in jobs]
    for future in waiting:
        with pytest.raises(OutcomeUnknown):
            future.result(30)
    with pytest.raises(WriterStopped):
        writer.submit(insert(3))
    assert "ended" in writer.stopped
    writer.close()
    assert stored(path) == ([1] if statement == "COMMIT" else [])


@pytest.mark.parametrize("plain", [False, True])
def test_a_job_during_which_sqlite_gives_the_transaction_up(writer, path, plain):
    def given_up(db):
        db.execute("ROLLBACK")
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with held(writer):
        waiting = [writer.submit(job, plain=plain) for job in (insert(1), given_up, insert(2))]
    for future in waiting:
        with pytest.raises(WriteFailed, match="full"):
            future.result(30)
    assert writer.submit(insert(3)).result(30) == 1
    assert stored(path) == [3]


def test_a_fault_of_the_writer_itself_leaves_nobody_waiting(path):
    def step(name):
        if armed and name == "committed":
            raise LookupError("a fault of the writer")

    armed = []
    writer = Writer(path, PRIVATE_SCHEMA, step=step)
    armed.append(True)
    with pytest.raises(OutcomeUnknown, match="a fault of the writer"):
        writer.submit(insert(1)).result(30)
    with pytest.raises(WriterStopped, match="a fault of the writer"):
        writer.submit(insert(2))
    writer.close()
    assert stored(path) == [1]


async def test_hooks_belong_to_the_transaction(path):
    calls = []

    class Hooks:
        fails = None

        def before_commit(self, db):
            calls.append("before")
            insert(len(calls) + 100)(db)
            if self.fails == "before":
                raise ValueError("not so")

        def after_commit(self):
            calls.append("after")
            if self.fails == "after":
                raise ValueError("too late")

        def after_rollback(self):
            calls.append("rolled back")

    hooks = Hooks()
    writer = Writer(path, PRIVATE_SCHEMA, hooks=hooks)
    assert await writer.run(insert(1)) == 1
    hooks.fails = "before"
    with pytest.raises(WriteFailed, match="not so"):
        await writer.run(insert(2))
    assert calls == ["before", "after", "before", "rolled back"]
    assert stored(path) == [1, 101]
    hooks.fails = "after"
    assert await writer.run(insert(3)) == 1
    with pytest.raises(WriterStopped, match="too late"):
        await writer.run(insert(4))
    writer.close()
    assert stored(path) == [1, 3, 101, 105]


async def test_a_rollback_that_cannot_be_taken_over_stops_the_writer(path):
    class Hooks:
        def before_commit(self, db):
            raise ValueError("not so")

        def after_commit(self):
            raise AssertionError

        def after_rollback(self):
            raise ValueError("lost track")

    writer = Writer(path, PRIVATE_SCHEMA, hooks=Hooks())
    with pytest.raises(OutcomeUnknown, match="lost track"):
        await writer.run(insert(1))
    with pytest.raises(WriterStopped):
        await writer.run(insert(2))
    writer.close()
    assert stored(path) == []


def test_closing_writes_what_waits(path):
    writer = Writer(path, PRIVATE_SCHEMA)
    with held(writer):
        waiting = [writer.submit(insert(number)) for number in range(20)]
    writer.close()
    assert [future.result(0) for future in waiting] == [1] * 20
    with pytest.raises(WriterStopped, match="closed"):
        writer.submit(insert(30))
    assert stored(path) == list(range(20))


def test_stopping_refuses_what_waits(path):
    writer = Writer(path, PRIVATE_SCHEMA)
    with held(writer):
        waiting = [writer.submit(insert(number)) for number in range(20)]
        writer.stop("told to")
    for future in waiting:
        with pytest.raises(WriterStopped, match="told to"):
            future.result(30)
    writer.close()
    assert stored(path) == []


def test_many_loops_and_threads_write_together(path):
    writer = Writer(path, PRIVATE_SCHEMA)

    async def many(first):
        return await asyncio.gather(*(writer.run(insert(first + number)) for number in range(100)))

    threads = [threading.Thread(target=lambda first=first: asyncio.run(many(first))) for first in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    futures = [writer.submit(insert(3000 + number)) for number in range(100)]
    for thread in threads:
        thread.join(30)
    assert all(future.result(30) == 1 for future in futures)
    writer.close()
    assert len(stored(path)) == 400


def test_a_loop_that_is_gone_disturbs_nobody(path):
    writer = Writer(path, PRIVATE_SCHEMA)
    loop = asyncio.new_event_loop()

    async def leave():
        waiting.append(asyncio.ensure_future(writer.run(insert(1))))
        await asyncio.sleep(0)

    waiting = []
    with held(writer):
        loop.run_until_complete(leave())
        waiting[0].cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert writer.submit(insert(2)).result(30) == 1
    writer.close()
    assert stored(path) == [1, 2]


async def test_a_caller_that_was_cancelled_disturbs_nobody(writer, path):
    with held(writer):
        waiting = [asyncio.ensure_future(writer.run(insert(number))) for number in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert (results[0], results[2]) == (1, 1)
    assert [task.cancelled() for task in waiting] == [False, True, False]
    assert stored(path) == [0, 1, 2]


async def test_too_many_waiting_writes_are_refused(writer, monkeypatch):
    monkeypatch.setattr("beacon.store.writer.MAX_WAITING", 5)
    with held(writer):
        waiting = [writer.submit(insert(number)) for number in range(5)]
        with pytest.raises(WriteFailed, match="too many"):
            writer.submit(insert(6))
    assert [future.result(30) for future in waiting] == [1] * 5


# --- who may have it open ---------------------------------------------------------------------------------------


def test_one_exclusive_writer_in_a_process(path, writer):
    with pytest.raises(AlreadyOpen):
        Writer(path, PRIVATE_SCHEMA)
    assert writer.submit(insert(1)).result(30) == 1


def test_one_exclusive_writer_across_processes(path, writer):
    code = f"""
from pathlib import Path
from beacon.store.errors import AlreadyOpen
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.writer import Writer
try:
    Writer(Path({str(path)!r}), PRIVATE_SCHEMA)
except AlreadyOpen:
    print("already open")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "already open\n"
    writer.close()
    Writer(path, PRIVATE_SCHEMA).close()


async def test_a_writer_beside_the_exclusive_one(path, writer):
    beside = Writer(path, PRIVATE_SCHEMA, exclusive=False)
    jobs = (target.run(insert(number)) for number, target in enumerate([writer, beside] * 20))
    assert await asyncio.gather(*jobs) == [1] * 40
    beside.close()
    assert stored(path) == list(range(40))


async def test_a_database_locked_by_another_program_is_a_write_that_failed(path):
    writer = Writer(path, PRIVATE_SCHEMA, connector=lambda name: sqlite3.connect(name, timeout=0.01))
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(WriteFailed, match="locked"):
            await writer.run(insert(1))
        other.execute("ROLLBACK")
    assert await writer.run(insert(1)) == 1
    writer.close()


def test_a_writer_that_cannot_open_gives_the_lock_back(tmp_path):
    path = tmp_path / "private.db"
    path.write_bytes(b"this is not a database, whatever its name says " * 100)
    with pytest.raises(DatabaseDamaged):
        Writer(path, PRIVATE_SCHEMA)
    path.unlink()
    Writer(path, PRIVATE_SCHEMA).close()


def test_a_database_that_cannot_be_opened_now(path):
    Writer(path, PRIVATE_SCHEMA).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CannotOpen, match="locked"):
            Writer(path, PRIVATE_SCHEMA, connector=lambda name: sqlite3.connect(name, timeout=0.01))
    Writer(path, PRIVATE_SCHEMA).close()


def test_what_begins_reads_before_anything_is_written(path):
    def begin(db):
        seen.append(db.execute("SELECT count(*) FROM seeds").fetchone()[0])
        if len(seen) > 1:
            raise LookupError("not as it was left")

    seen = []
    writer = Writer(path, PRIVATE_SCHEMA, begin=begin)
    assert writer.submit(insert(1)).result(30) == 1
    writer.close()
    with pytest.raises(LookupError, match="not as it was left"):
        Writer(path, PRIVATE_SCHEMA, begin=begin)
    assert seen == [0, 1]
    Writer(path, PRIVATE_SCHEMA).close()


@pytest.mark.parametrize(("schema", "mode"), [(PRIVATE_SCHEMA, 0o600), (LOG_SCHEMA, 0o644)], ids=["private", "log"])
def test_permissions_of_new_files(tmp_path, schema, mode):
    mask = os.umask(0)
    try:
        writer = Writer(tmp_path / "new.db", schema)
        writer.submit(lambda db: db.execute("CREATE TABLE other (a)")).result(30)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        writer.close()
    finally:
        os.umask(mask)
    assert modes == {"new.db": mode, "new.db-wal": mode, "new.db-shm": mode, "new.db.lock": 0o600}


def test_durability_settings(writer):
    def settings(db):
        names = ("journal_mode", "synchronous", "recursive_triggers")
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert writer.submit(settings).result(30) == ["wal", 2, 1]


# --- readers ----------------------------------------------------------------------------------------------------


async def test_a_reader_sees_what_was_committed_and_writes_nothing(writer, reader):
    await writer.run(insert(1))
    count = "SELECT count(*) FROM seeds"
    assert await reader.run(lambda db: db.execute(count).fetchone()[0]) == 1
    await writer.run(insert(2))
    assert reader.submit(lambda db: db.execute(count).fetchone()[0]).result(30) == 2
    for statement in ("DELETE FROM tokens", "PRAGMA query_only = 0"):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await reader.run(lambda db, first=statement: (db.execute(first), db.execute(INSERT, [b"3" * 32])))


async def test_a_reader_sees_one_moment(writer, reader):
    await writer.run(insert(1))
    loop = asyncio.get_running_loop()

    def twice(db):
        first = db.execute("SELECT count(*) FROM seeds").fetchone()[0]
        asyncio.run_coroutine_threadsafe(writer.run(insert(2)), loop).result(30)
        return first, db.execute("SELECT count(*) FROM seeds").fetchone()[0]

    assert await reader.run(twice) == (1, 1)
    assert await reader.run(lambda db: db.execute("SELECT count(*) FROM seeds").fetchone()[0]) == 2


async def test_a_reader_returns_no_half_read_query(writer, reader):
    await writer.run(insert(1))
    for query in (lambda db: db.execute("SELECT * FROM seeds"), lambda db: db.query("SELECT * FROM seeds")):
        with pytest.raises(TypeError):
            await reader.run(query)


async def test_a_query_that_raises_leaves_the_reader_in_order(writer, reader):
    def failing(db):
        db.execute("SELECT * FROM seeds").fetchone()
        raise LookupError("not there")

    for _ in range(5):
        with pytest.raises(LookupError):
            await reader.run(failing)
    await writer.run(insert(1))
    assert await reader.run(lambda db: db.execute("SELECT count(*) FROM seeds").fetchone()[0]) == 1


async def test_readers_do_not_hold_the_wal_back(path, writer, reader):
    await reader.run(lambda db: db.execute("SELECT * FROM seeds").fetchone())
    await asyncio.gather(*(writer.run(insert(number)) for number in range(50)))
    await reader.run(lambda db: db.execute("SELECT * FROM seeds").fetchone())
    with closing(sqlite3.connect(path)) as db:
        busy, frames, done = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, frames, done) == (0, 0, 0)


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(sqlite3.OperationalError):
        open_readonly(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_the_library_is_used_without_its_plugins(path, writer):
    assert isinstance(writer.submit(lambda db: db).result(30), Database)
