"""The writer, the readers, the schemas, and the small stores on top of them."""

import asyncio
import os
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from enum import StrEnum
from pathlib import Path

import pytest
from sqlite_utils import Database

from beacon.store.errors import (
    AlreadyOpen,
    HostExists,
    HostUnknown,
    NameRefused,
    OutcomeUnknown,
    SchemaRefused,
    SeedExists,
    WriteFailed,
    WriterStopped,
)
from beacon.store.hosts import CACHE_MS, Host, HostStore
from beacon.store.log_schema import APPEND_ONLY, LOG_SCHEMA
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.rounds import SqliteRounds
from beacon.store.schema import open_readonly
from beacon.store.seeds import SeedStore
from beacon.store.writer import PoisonedBatchError, Writer
from tests.log_support import START, Clock, held
from verifier import fetch
from verifier.drand import VerifiedRound

QUICKNET = fetch.pinned_chains()["quicknet"]
DEFAULT = fetch.pinned_chains()["default"]
INSERT = "INSERT INTO seeds VALUES (?, x'00', x'00', 0)"


class Put(StrEnum):
    NEW = "new"
    SAME = "same"
    CONFLICT = "conflict"


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


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
async def test_a_job_that_ends_the_transaction_stops_the_writer(path, statement):
    writer = Writer(path, PRIVATE_SCHEMA)
    with pytest.raises(OutcomeUnknown):
        await writer.run(lambda db: db.execute(statement))
    with pytest.raises(WriterStopped):
        await writer.run(insert(1))
    assert "ended the transaction" in writer.stopped or "had ended" in writer.stopped
    writer.close()
    assert stored(path) == []


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
    with pytest.raises(sqlite3.DatabaseError):
        Writer(path, PRIVATE_SCHEMA)
    path.unlink()
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


# --- schemas ----------------------------------------------------------------------------------------------------


def change(path, *statements):
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


@pytest.fixture
def log_path(tmp_path):
    path = tmp_path / "log.db"
    writer = Writer(path, LOG_SCHEMA)
    writer.submit(fill).result(30)
    writer.close()
    return path


def fill(db):
    nodes = (b"\1" * 32, b"\2" * 64, b"\3" * 32)
    for index in range(3):
        db.execute("INSERT INTO entries VALUES (?, ?)", [index, b"{}"])
        db.execute("INSERT INTO hashes VALUES (?, ?)", [index, nodes[index]])
        if index != 1:
            db.execute("INSERT INTO checkpoints VALUES (?, 'note', 7)", [index + 1])
    db.execute("INSERT INTO rounds VALUES (zeroblob(32), 1, x'01', NULL)")
    db.execute("INSERT INTO round_evidence VALUES (zeroblob(32), 1, x'02', NULL, 7)")


ROWS = {
    "entries": (
        "i",
        "(2, x'7b7d')",
        ["(4, x'7b7d')", "(-1, x'7b7d')", "(NULL, x'7b7d')", "(3, x'7b')", "(3, zeroblob(65536))"],
    ),
    "hashes": (
        "i",
        "(2, zeroblob(32))",
        ["(4, zeroblob(32))", "(3, zeroblob(32))", "(3, zeroblob(95))", "(3, zeroblob(128))", "(NULL, zeroblob(96))"],
    ),
    "checkpoints": (
        "size",
        "(3, 'other', 7)",
        ["(2, 'note', 7)", "(4, 'note', 7)", "(0, 'note', 7)", "(NULL, 'note', 7)"],
    ),
    "rounds": (
        "round",
        "(zeroblob(32), 1, x'09', NULL)",
        ["(zeroblob(31), 1, x'01', NULL)", "(zeroblob(32), 0, x'01', NULL)"],
    ),
    "round_evidence": ("round", "(zeroblob(32), 1, x'02', x'09', 8)", ["(zeroblob(31), 2, x'01', NULL, 7)"]),
}


@pytest.mark.parametrize("recursive", [0, 1])
@pytest.mark.parametrize("table", APPEND_ONLY)
def test_what_is_public_only_grows(log_path, table, recursive):
    key, there, gaps = ROWS[table]
    statements = [
        f"DELETE FROM {table}",
        f"UPDATE {table} SET {key} = {key}",
        f"UPDATE OR REPLACE {table} SET {key} = 1",
        *(
            f"INSERT {how} INTO {table} VALUES {there}"
            for how in ("", "OR REPLACE", "OR IGNORE", "OR ROLLBACK", "OR FAIL")
        ),
        *(f"INSERT {how} INTO {table} VALUES {row}" for row in gaps for how in ("", "OR REPLACE")),
        f"REPLACE INTO {table} VALUES {there}",
        f"INSERT INTO {table} VALUES {there} ON CONFLICT DO UPDATE SET {key} = {key}",
    ]
    with closing(sqlite3.connect(log_path)) as db:
        db.execute(f"PRAGMA recursive_triggers = {recursive}")
        before = db.execute(f"SELECT * FROM {table}").fetchall()
        for statement in statements:
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(statement)
            db.rollback()
        assert db.execute(f"SELECT * FROM {table}").fetchall() == before
        assert before


def test_a_checkpoint_covers_all_entries_and_hashes(log_path):
    with closing(sqlite3.connect(log_path)) as db:
        db.execute("INSERT INTO entries VALUES (3, x'7b7d')")
        with pytest.raises(sqlite3.IntegrityError, match="covers all"):
            db.execute("INSERT INTO checkpoints VALUES (4, 'note', 7)")
        with pytest.raises(sqlite3.IntegrityError, match="covers all"):
            db.execute("INSERT INTO checkpoints VALUES (3, 'note', 7)")
        db.execute("INSERT INTO hashes VALUES (3, zeroblob(96))")
        db.execute("INSERT INTO checkpoints VALUES (4, 'note', 7)")


@pytest.mark.parametrize("length", [0, 32, 64, 96, 128, 160, 63])
def test_a_row_of_hashes_has_the_leaf_and_what_it_completes(log_path, length):
    with closing(sqlite3.connect(log_path)) as db:
        fits = length == 96
        try:
            db.execute(f"INSERT INTO hashes VALUES (3, zeroblob({length}))")
        except sqlite3.IntegrityError:
            fits = not fits
        assert fits


def test_tables_are_strict(log_path, path, writer):
    for database in (log_path, path):
        with closing(open_readonly(database)) as db:
            names = [name for name in db.table_names() if not name.startswith("_")]
            assert names
            assert all(db[name].strict for name in names)


def test_a_seed_is_never_replaced_and_never_deleted(writer, path):
    writer.submit(insert(1)).result(30)
    for statement in (
        "DELETE FROM seeds",
        "UPDATE seeds SET commitment = zeroblob(32)",
        "UPDATE seeds SET created = 5",
        "INSERT OR REPLACE INTO seeds SELECT * FROM seeds",
        "INSERT OR IGNORE INTO seeds SELECT * FROM seeds",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="a seed"):
            change(path, statement)
    change(path, "UPDATE seeds SET nonce = x'0a', ciphertext = x'0b'")


ALTERED = {
    "a trigger dropped": ("DROP TRIGGER entries_no_delete", "entries_no_delete is missing"),
    "a table dropped": ("DROP TABLE hashes", "hashes is missing"),
    "a trigger more": (
        "CREATE TRIGGER more AFTER INSERT ON entries BEGIN SELECT 1; END",
        "there is a trigger more that does not belong",
    ),
    "a column more": ("ALTER TABLE rounds ADD COLUMN note TEXT", "rounds was altered"),
    "another program's": ("PRAGMA application_id = 7", "not a log database"),
    "a newer version's": (
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('fair-beacon-log', 'm999', '')",
        "made by a newer version of this program (m999)",
    ),
}


@pytest.mark.parametrize(("statement", "reason"), ALTERED.values(), ids=ALTERED.keys())
def test_a_schema_that_was_altered_is_refused(log_path, statement, reason):
    change(log_path, statement)
    with pytest.raises(SchemaRefused, match=re.escape(reason)):
        Writer(log_path, LOG_SCHEMA)


def test_a_trigger_of_the_same_name_that_does_nothing_is_refused(log_path):
    change(
        log_path,
        "DROP TRIGGER entries_no_delete",
        "CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries BEGIN SELECT 1; END",
    )
    with pytest.raises(SchemaRefused, match="entries_no_delete was altered"):
        Writer(log_path, LOG_SCHEMA)


def test_other_tables_beside_ours_are_left_alone(log_path):
    change(log_path, "CREATE TABLE notes (a)", "INSERT INTO notes VALUES (1)")
    Writer(log_path, LOG_SCHEMA).close()
    with closing(sqlite3.connect(log_path)) as db:
        assert db.execute("SELECT * FROM notes").fetchall() == [(1,)]


def test_one_kind_of_database_is_not_opened_as_the_other(log_path, path, writer):
    writer.close()
    with pytest.raises(SchemaRefused):
        Writer(log_path, PRIVATE_SCHEMA)
    with pytest.raises(SchemaRefused):
        Writer(path, LOG_SCHEMA)


def test_a_foreign_database_is_not_taken_over(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE mine (a)")
    with pytest.raises(SchemaRefused):
        Writer(path, LOG_SCHEMA)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]


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


def test_a_file_alone_in_a_folder_that_cannot_be_written(log_path):
    code = """
import os, pathlib, sys
from beacon.store.schema import open_readonly
if os.geteuid() == 0:
    os.setuid(65534)
with open_readonly(pathlib.Path(sys.argv[1])) as db:
    print(db.execute("SELECT count(*) FROM entries").fetchone()[0])
"""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "log.db"
        copy.write_bytes(log_path.read_bytes())
        copy.chmod(0o444)
        Path(name).chmod(0o555)
        try:
            command = [sys.executable, "-c", code, copy]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        finally:
            Path(name).chmod(0o755)
        assert [file.name for file in Path(name).iterdir()] == ["log.db"]
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(sqlite3.OperationalError):
        open_readonly(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


# --- hosts and tokens -------------------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def hosts(writer, reader, clock):
    return HostStore(writer, reader, clock)


async def test_a_token_is_returned_once_and_kept_as_a_hash(path, hosts, writer):
    token = await hosts.add("alice", sandbox=False)
    assert re.fullmatch(r"fb_[A-Za-z0-9_-]{43}", token)
    assert await hosts.authenticate(token) == Host("alice", sandbox=False)
    assert token.removeprefix("fb_").encode() not in path.read_bytes() + path.with_name("private.db-wal").read_bytes()
    assert token not in repr(await hosts.list())


async def test_tokens_that_are_none(hosts):
    token = await hosts.add("alice", sandbox=True)
    assert await hosts.authenticate(token) == Host("alice", sandbox=True)
    for other in (
        "",
        "fb_",
        token + "A",
        token[:-1],
        token.removeprefix("fb_"),
        "FB_" + token.removeprefix("fb_"),
        token[:-1] + chr(ord(token[-1]) ^ 1),
        token[:10] + "é" + token[11:],
        token + "\n",
        " " + token,
    ):
        assert await hosts.authenticate(other) is None


async def test_tokens_differ_and_a_host_may_have_several(hosts):
    tokens = {await hosts.add("alice", sandbox=False) for _ in range(5)}
    assert len(tokens) == 5
    for token in tokens:
        assert (await hosts.authenticate(token)).name == "alice"
    (alice,) = await hosts.list()
    assert (alice.name, alice.created, len(alice.tokens)) == ("alice", START, 5)


async def test_a_host_keeps_its_sandbox_flag(hosts):
    await hosts.add("alice", sandbox=True)
    with pytest.raises(HostExists):
        await hosts.add("alice", sandbox=False)
    (alice,) = await hosts.list()
    assert alice.sandbox
    assert len(alice.tokens) == 1


@pytest.mark.parametrize("name", ["", "1alice", "al ice", "alice\n", "é", "a" * 65, "-a", "a/b"])
async def test_names_that_no_host_can_have(hosts, name):
    with pytest.raises(NameRefused):
        await hosts.add(name, sandbox=False)
    assert await hosts.list() == []


async def test_revoking_counts_at_once(hosts, clock):
    first, second = await hosts.add("alice", sandbox=False), await hosts.add("alice", sandbox=False)
    other = await hosts.add("bob", sandbox=False)
    assert await hosts.authenticate(first)
    tokens = {token.id for host in await hosts.list() for token in host.tokens if host.name == "alice"}
    clock.time += 5
    one = min(tokens)
    assert await hosts.revoke("alice", one) == 1
    assert await hosts.revoke("alice", one) == 0
    alive = [await hosts.authenticate(token) is not None for token in (first, second)]
    assert sorted(alive) == [False, True]
    assert await hosts.revoke("alice") == 1
    assert await hosts.authenticate(first) is None
    assert await hosts.authenticate(second) is None
    assert await hosts.authenticate(other) == Host("bob", sandbox=False)
    alice, _ = await hosts.list()
    assert [token.revoked for token in alice.tokens] == [START + 5] * 2


async def test_revoking_an_unknown_host(hosts):
    with pytest.raises(HostUnknown):
        await hosts.revoke("nobody")


async def test_a_token_expires(hosts, clock):
    token = await hosts.add("alice", sandbox=False, expires=START + 100)
    assert await hosts.authenticate(token)
    clock.time = START + 99
    assert await hosts.authenticate(token)
    clock.time = START + 100
    assert await hosts.authenticate(token) is None


async def test_a_second_process_adds_and_revokes(path, hosts, clock):
    with closing(Writer(path, PRIVATE_SCHEMA, exclusive=False)) as beside, closing(Reader(path)) as reading:
        cli = HostStore(beside, reading, clock)
        token = await cli.add("alice", sandbox=False)
        assert await hosts.authenticate(token)
        await cli.revoke("alice")
        clock.time += CACHE_MS
        assert await hosts.authenticate(token) is None


async def test_a_clock_that_jumps_back_revives_no_token(path, hosts, clock):
    token = await hosts.add("alice", sandbox=False)
    assert await hosts.authenticate(token)
    with closing(Writer(path, PRIVATE_SCHEMA, exclusive=False)) as beside, closing(Reader(path)) as reading:
        await HostStore(beside, reading, clock).revoke("alice")
    clock.time -= 1_000_000
    assert await hosts.authenticate(token) is None


# --- seeds and rounds -------------------------------------------------------------------------------------------


async def test_seeds_are_kept_by_commitment(writer, reader, clock):
    seeds = SeedStore(writer, reader, clock)
    assert await seeds.get(b"c" * 32) is None
    await seeds.put(b"c" * 32, b"nonce", b"ciphertext")
    assert await seeds.get(b"c" * 32) == (b"nonce", b"ciphertext")
    with pytest.raises(SeedExists):
        await seeds.put(b"c" * 32, b"other", b"other")
    assert await seeds.get(b"c" * 32) == (b"nonce", b"ciphertext")


@pytest.fixture
def rounds(log_path, clock):
    writer, reader = Writer(log_path, LOG_SCHEMA), Reader(log_path)
    yield SqliteRounds(writer, reader, clock, Put)
    reader.close()
    writer.close()


async def test_rounds_are_stored_once(rounds):
    first = VerifiedRound(QUICKNET, 5, b"a" * 48)
    assert await rounds.newest(QUICKNET) is None
    assert await rounds.put(first) is Put.NEW
    assert await rounds.put(first) is Put.SAME
    assert await rounds.put(VerifiedRound(QUICKNET, 5, b"b" * 48)) is Put.CONFLICT
    assert await rounds.get(QUICKNET, 5) == first
    assert await rounds.get(QUICKNET, 6) is None


async def test_rounds_of_chains_do_not_mix(rounds):
    chained = VerifiedRound(DEFAULT, 9, b"c" * 96, b"p" * 96)
    for verified in (VerifiedRound(QUICKNET, 7, b"a" * 48), VerifiedRound(QUICKNET, 30, b"b" * 48), chained):
        assert await rounds.put(verified) is Put.NEW
    assert (await rounds.newest(QUICKNET)).round == 30
    assert await rounds.newest(DEFAULT) == chained
    assert await rounds.get(DEFAULT, 30) is None


async def test_evidence_is_kept_beside_the_first(rounds):
    await rounds.put(VerifiedRound(QUICKNET, 5, b"a" * 48))
    second, third = VerifiedRound(QUICKNET, 5, b"b" * 48), VerifiedRound(QUICKNET, 5, b"c" * 48)
    for verified in (second, third, second):
        await rounds.add_evidence(verified)
    assert await rounds.evidence(QUICKNET) == [second, third]
    assert await rounds.evidence(DEFAULT) == []
    assert (await rounds.get(QUICKNET, 5)).signature == b"a" * 48


def test_the_library_is_used_without_its_plugins(path, writer):
    assert isinstance(writer.submit(lambda db: db).result(30), Database)
