"""Faults: after each, the whole log verifies and nothing that was acknowledged is missing.

| fault | what the caller is told | what the log does |
|---|---|---|
| a write fails before the commit | WriteFailed | goes on |
| SQLite gives the transaction up by itself | WriteFailed | goes on |
| the database may grow no further | WriteFailed | goes on once it may |
| the rollback fails | OutcomeUnknown | stops; opened again, it is whole |
| the commit fails, whether or not it landed | OutcomeUnknown | stops; opened again, it is whole |
| a file may grow no further (commit fails) | OutcomeUnknown | stops; opened again, it is whole |
| a commit is reported and never happened | the next caller: WriterStopped | stops; opened again, it is whole |
| somebody else writes to the file | WriterStopped | stops; what is there is checked when it is opened |
| the process is killed at any step, or at any moment | nothing, or the truth | opened again, it is whole |
| the end of the WAL is lost or damaged | - | opened again, it is whole, as of an earlier commit |
| a second process opens it | AlreadyOpen | the first one goes on |
| entries, hashes, checkpoints or key do not agree | LogDamaged | is not opened |
"""

import multiprocessing
import random
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest

from beacon.store.errors import (
    AlreadyOpen,
    CannotOpen,
    LogDamaged,
    OutcomeUnknown,
    SchemaRefused,
    WriteFailed,
    WriterStopped,
)
from tests import log_child
from tests.log_support import (
    SIGNER,
    Index,
    append,
    contribution,
    contributions,
    first_leaf,
    forge,
    held,
    make_log,
    open_log,
    signed,
    tamper,
    verify_whole,
)
from verifier.note import SigningKey

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.log_child"])

STEPS = (
    "begun",
    "jobs-done",
    "staged",
    "entries-written",
    "hashes-written",
    "checkpoint-written",
    "before-commit",
    "committed",
    "delivered",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


class Faulty(sqlite3.Connection):
    """A connection that fails as it is told: `fault(run, sql)` runs in place of each statement."""

    fault = None

    def execute(self, sql, *parameters):
        run = super().execute
        if self.fault is None:
            return run(sql, *parameters)
        return self.fault(lambda statement=sql: run(statement, *(parameters if statement == sql else ())), sql)


class Connector:
    """Makes the writer's connection and keeps it, so that a test can arm it."""

    def __call__(self, name):
        self.connection = sqlite3.connect(name, factory=Faulty, timeout=0.2)
        return self.connection

    def arm(self, fault):
        self.connection.fault = fault


def io_error(code=sqlite3.SQLITE_IOERR):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


def lost(start):
    """A statement that fails before it does anything."""

    def fault(run, sql):
        if sql.startswith(start):
            raise io_error()
        return run()

    return fault


def landed(start):
    """A statement that does what it should, and is reported as failed."""

    def fault(run, sql):
        result = run()
        if sql.startswith(start):
            raise io_error()
        return result

    return fault


def given_up(start, code):
    """A statement on which SQLite gives the whole transaction up by itself."""

    def fault(run, sql):
        if sql.startswith(start):
            run("ROLLBACK")
            raise io_error(code)
        return run()

    return fault


def opened(path, connector=None):
    """A log with a few entries; gives it and what was acknowledged."""
    log = open_log(path, projections=[Index()], **({"connector": connector} if connector else {}))
    return log, acknowledged(log, "a", "b", "c")


def acknowledged(log, *names):
    return {entry.index: entry.entry for entry in append(log, *names)}


WRITES = (
    "BEGIN",
    "INSERT INTO entries",
    "INSERT INTO hashes",
    "INSERT INTO checkpoints",
    "INSERT INTO session_entries",
)


@pytest.mark.parametrize("kind", [lost, landed])
@pytest.mark.parametrize("start", WRITES)
def test_a_write_that_fails_before_the_commit(path, start, kind):
    if (start, kind) == ("BEGIN", landed):
        start = "INSERT INTO entries"
    connector = Connector()
    log, done = opened(path, connector)
    before = log.latest()
    connector.arm(kind(start))
    for _ in range(2):
        with pytest.raises(WriteFailed, match="disk I/O error"):
            append(log, "lost")
    connector.arm(None)
    assert log.latest() == before
    done |= acknowledged(log, "after")
    log.close()
    entries = verify_whole(path, done)
    assert not any(b'"lost"' in entry for entry in entries)


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY]
)
@pytest.mark.parametrize("start", WRITES[1:])
def test_sqlite_gives_the_transaction_up(path, start, code):
    connector = Connector()
    log, done = opened(path, connector)
    connector.arm(given_up(start, code))
    with pytest.raises(WriteFailed):
        append(log, "lost")
    connector.arm(None)
    done |= acknowledged(log, "after")
    log.close()
    assert len(verify_whole(path, done)) == 5


def test_a_transaction_that_is_gone_without_a_reason_stops_the_log(path):
    connector = Connector()
    log, done = opened(path, connector)
    connector.arm(given_up("INSERT INTO hashes", sqlite3.SQLITE_ERROR))
    with pytest.raises(OutcomeUnknown):
        append(log, "lost")
    with pytest.raises(WriterStopped):
        append(log, "refused")
    log.close()
    verify_whole(path, done)


def test_a_rollback_that_fails(path):
    connector = Connector()
    log, done = opened(path, connector)

    def fault(run, sql):
        if sql.startswith(("INSERT INTO hashes", "ROLLBACK")):
            raise io_error()
        return run()

    connector.arm(fault)
    with pytest.raises(OutcomeUnknown, match="a rollback failed"):
        append(log, "lost")
    with pytest.raises(WriterStopped, match="a rollback failed"):
        append(log, "refused")
    log.close()
    assert len(verify_whole(path, done)) == 4
    goes_on(path, done)


@pytest.mark.parametrize(("kind", "there"), [(lost, False), (landed, True)])
def test_a_commit_of_unknown_outcome(path, kind, there):
    connector = Connector()
    log, done = opened(path, connector)
    before = log.latest()
    connector.arm(kind("COMMIT"))
    with pytest.raises(OutcomeUnknown, match="a commit failed"):
        append(log, "unknown")
    connector.arm(None)
    for _ in range(2):
        with pytest.raises(WriterStopped, match="a commit failed"):
            append(log, "refused")
    assert log.writer.stopped
    assert log.latest() == before
    log.close()
    entries = verify_whole(path, done)
    assert any(b'"unknown"' in entry for entry in entries) == there
    goes_on(path, done)


def test_all_that_shared_an_unknown_commit_are_told_so(path):
    connector = Connector()
    log, done = opened(path, connector)
    commits = []

    def second_commit_fails(run, sql):
        result = run()
        if sql == "COMMIT":
            commits.append(sql)
            if len(commits) == 2:
                raise io_error()
        return result

    connector.arm(second_commit_fails)
    with held(log.writer):
        builds = [contributions(f"p{number}") for number in range(20)]
        waiting = [log.writer.submit(log._appending(build), plain=True) for build in builds]
    assert {type(future.exception(30)) for future in waiting} == {OutcomeUnknown}
    log.close()
    assert len(verify_whole(path, done)) == 24


def test_a_commit_that_never_happened_is_noticed_by_the_next(path):
    connector = Connector()
    log, done = opened(path, connector)

    def fault(run, sql):
        return run("ROLLBACK") if sql == "COMMIT" else run()

    connector.arm(fault)
    append(log, "a lie")
    connector.arm(None)
    with pytest.raises(WriterStopped, match="somebody else"):
        append(log, "next")
    with pytest.raises(WriterStopped, match="somebody else"):
        append(log, "refused")
    log.close()
    assert len(verify_whole(path, done)) == 4
    goes_on(path, done)


def goes_on(path, done):
    """Open again, append, close, and check everything."""
    log = open_log(path)
    done |= acknowledged(log, "on", "and on")
    log.close()
    verify_whole(path, done)


# --- somebody else ----------------------------------------------------------------------------------------------


def test_somebody_else_appends_an_entry(path):
    log, done = opened(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("INSERT INTO entries VALUES (4, x'7b7d')")
        other.commit()
    with pytest.raises(WriterStopped, match="somebody else"):
        append(log, "next")
    with pytest.raises(WriterStopped):
        append(log, "refused")
    log.close()
    with pytest.raises(LogDamaged, match="5 entries, 4 leaf hashes"):
        open_log(path)
    assert done


def test_somebody_else_publishes_a_checkpoint(path):
    log, done = opened(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TRIGGER checkpoints_no_update")
        other.execute("DROP TRIGGER checkpoints_in_order")
        other.execute("UPDATE checkpoints SET size = 40 WHERE size = 4")
        other.commit()
    with pytest.raises(WriterStopped, match="somebody else has published"):
        append(log, "next")
    log.close()
    assert done


def test_a_second_process(path):
    ours, theirs = PROCESSES.Pipe()
    child = PROCESSES.Process(target=log_child.hold, args=(path, theirs))
    child.start()
    assert ours.recv() == "open"
    with pytest.raises(AlreadyOpen):
        open_log(path)
    child.kill()
    child.join()
    log = open_log(path)
    second = PROCESSES.Process(target=log_child.hold, args=(path, theirs))
    second.start()
    assert ours.recv() == "already open"
    second.join()
    done = acknowledged(log, "first goes on")
    log.close()
    verify_whole(path, done)


def test_two_processes_that_begin_one_log_together(path):
    pipes = [PROCESSES.Pipe() for _ in range(2)]
    children = [PROCESSES.Process(target=log_child.hold, args=(path, theirs)) for _, theirs in pipes]
    for child in children:
        child.start()
    answers = [ours.recv() for ours, _ in pipes]
    assert sorted(answers) == ["already open", "open"]
    for (ours, _), child, answer in zip(pipes, children, answers, strict=True):
        if answer == "open":
            ours.send("let go")
        child.join()
    assert len(verify_whole(path)) == 1


# --- disk full --------------------------------------------------------------------------------------------------


def test_a_database_that_may_grow_no_further(path):
    def limited(name):
        connection = sqlite3.connect(name)
        connection.execute("PRAGMA max_page_count = 40")
        return connection

    log, done = opened(path, limited)
    for number in range(10):
        done |= acknowledged(log, *(f"{number}.{part}" for part in range(10)))
    with pytest.raises(WriteFailed, match="full"):
        append(log, *(f"more.{part}" for part in range(300)))
    log.writer.submit(lambda db: db.execute("PRAGMA max_page_count = 100000").fetchone()).result(30)
    done |= acknowledged(log, *(f"room.{part}" for part in range(300)))
    log.close()
    verify_whole(path, done)


def test_a_file_that_may_grow_no_further(path):
    done, end = child_writes(path, limit=200_000)
    assert end.startswith("a commit failed: OperationalError")
    assert done
    verify_whole(path, done)
    goes_on(path, done)


# --- killed -----------------------------------------------------------------------------------------------------


def child_writes(path, *, answers=None, **options):
    """Let a child write; kill it after so many answers, where given. Gives what it was answered, and how it ended."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=log_child.write, args=(path, theirs), kwargs=options)
    child.start()
    theirs.close()
    done, end = {}, None
    try:
        while True:
            what, first, second = ours.recv()
            if what == "done":
                done[first] = second
            elif what == "end":
                end = first
            if answers is not None and len(done) >= answers:
                child.kill()
    except EOFError:
        child.join()
    return done, end or -child.exitcode


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(path, step):
    acknowledged_before = make_log(path, (3, 2))
    done, end = child_writes(path, kill_at=step, nth=5)
    assert end == signal.SIGKILL
    assert done
    verify_whole(path, acknowledged_before | done)
    goes_on(path, acknowledged_before | done)


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_of_the_first_commit(path, step):
    """The child commits the first leaf, or nothing at all."""
    done, end = child_writes(path, kill_at=step)
    assert end == signal.SIGKILL
    assert done == {}
    log = open_log(path)
    assert log.latest().size == 1
    log.close()
    goes_on(path, {})


@pytest.mark.parametrize("answers", [0, 1, 2, 7, 30, 101, 200])
def test_killed_at_any_moment(path, answers):
    done, end = child_writes(path, answers=answers)
    assert end == signal.SIGKILL
    assert len(done) >= answers
    goes_on(path, done)


# --- a file that is not as it was left --------------------------------------------------------------------------


@pytest.fixture
def crashed(tmp_path):
    """Copies of a database and its WAL as a crash would leave them, with the size of the log after each commit."""
    source = tmp_path / "source.db"
    log = open_log(source)
    log.writer.submit(lambda db: db.execute("PRAGMA wal_autocheckpoint = 0").fetchone()).result(30)
    for number in range(6):
        append(log, *(f"{number}.{part}" for part in range(number)))
    copy = tmp_path / "crash" / "log.db"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{source}{suffix}", f"{copy}{suffix}")
    log.close()
    return copy, copy.read_bytes(), copy.with_name("log.db-wal").read_bytes()


def restore(path, database, wal):
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(database)
    path.with_name("log.db-wal").write_bytes(wal)


def test_the_end_of_the_wal_is_lost(crashed):
    path, database, wal = crashed
    sizes = []
    for length in [*range(0, len(wal), len(wal) // 25), len(wal)]:
        restore(path, database, wal[:length])
        log = open_log(path)
        sizes.append(log.latest().size)
        append(log, "after")
        log.close()
        verify_whole(path)
    assert sizes == sorted(sizes)
    assert sizes[-1] == 16
    assert len(set(sizes)) > 4


def test_the_wal_is_damaged(crashed):
    path, database, wal = crashed
    positions = random.Random(11)
    for _ in range(15):
        position = positions.randrange(32, len(wal))
        restore(path, database, wal[:position] + bytes([wal[position] ^ 0x10]) + wal[position + 1 :])
        log = open_log(path)
        assert log.latest().size <= 16
        append(log, "after")
        log.close()
        verify_whole(path)


SIZE = 21
DAMAGED = {
    "a byte of an entry": (
        f"UPDATE entries SET entry = CAST(replace(CAST(entry AS TEXT), 'ab', 'cd') AS BLOB) WHERE i = {SIZE - 2}",
        f"entry {SIZE - 2} is not the one",
    ),
    "the first entry": (
        "UPDATE entries SET entry = CAST(replace(CAST(entry AS TEXT), 'log.example', 'log.example.org') AS BLOB) WHERE i = 0",
        "entry 0 is not the one",
    ),
    "the root of the edge": (
        "UPDATE hashes SET nodes = CAST(substr(nodes, 1, 128) || substr(nodes, 1, 32) AS BLOB) WHERE i = 15",
        "do not lead to the root",
    ),
    "an inner hash off the edge": (
        "UPDATE hashes SET nodes = (SELECT nodes FROM hashes WHERE i = 5) WHERE i = 9",
        "entry 9 is not the one",
    ),
    "a leaf hash": (
        "UPDATE hashes SET nodes = (SELECT nodes FROM hashes WHERE i = 10) WHERE i = 8",
        "entry 8 is not the one",
    ),
    "a hash gone": (f"DELETE FROM hashes WHERE i = {SIZE - 1}", "21 entries, 20 leaf hashes"),
    "a hash in the middle gone": ("DELETE FROM hashes WHERE i = 8", "entry 8 is not the one"),
    "a checkpoint newer than the entries": (
        (f"INSERT INTO checkpoints VALUES ({SIZE + 5}, ?, 5)", (signed(SIZE + 5, bytes(32)),)),
        "21 entries, 21 leaf hashes, and a checkpoint of 26",
    ),
    "entries and hashes gone under the checkpoint": (
        f"DELETE FROM entries WHERE i >= {SIZE - 2}",
        "19 entries, 21 leaf hashes",
    ),
    "the checkpoint gone": (f"DELETE FROM checkpoints WHERE size = {SIZE}", "and a checkpoint of 18"),
    "all checkpoints gone": ("DELETE FROM checkpoints", "and a checkpoint of 0"),
    "everything gone but a checkpoint": ("DELETE FROM entries", "0 entries, 21 leaf hashes"),
    "the checkpoint's signature": (
        f"UPDATE checkpoints SET note = replace(note, '\n{SIZE}\n', '\n22\n') WHERE size = {SIZE}",
        "is not one that log.example/test signed",
    ),
    "the checkpoint of another size": (
        f"UPDATE checkpoints SET note = (SELECT note FROM checkpoints WHERE size = 18) WHERE size = {SIZE}",
        "another size's",
    ),
    "a checkpoint of ours over another tree": (
        (f"UPDATE checkpoints SET note = ? WHERE size = {SIZE}", (signed(SIZE, bytes(32)),)),
        "do not lead to the root of checkpoint 21",
    ),
    "an older checkpoint over another tree": (
        ("UPDATE checkpoints SET note = ? WHERE size = 18", (signed(18, bytes(32)),)),
        "do not lead to the root of checkpoint 18",
    ),
    "the checkpoint's time": (f"UPDATE checkpoints SET time = 5 WHERE size = {SIZE}", "has not the time"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "log.db"
    make_log(path, (1, 5, 11, 3))
    return path.read_bytes()


@pytest.mark.parametrize(("statement", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_log_that_does_not_agree_with_itself_is_not_opened(path, template, statement, reason):
    path.write_bytes(template)
    tamper(path, statement)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(LogDamaged, match=reason):
            open_log(path)
    assert path.read_bytes() == before
    with pytest.raises(AssertionError):
        verify_whole(path)


@pytest.mark.parametrize("row", range(3, 20, 4))
def test_a_hash_above_the_newest_entries_is_checked(path, template, row):
    path.write_bytes(template)
    with closing(sqlite3.connect(path)) as db:
        (nodes,) = db.execute("SELECT nodes FROM hashes WHERE i = ?", [row]).fetchone()
    for level in range(1, len(nodes) // 32):
        changed = nodes[: 32 * level] + bytes(32) + nodes[32 * level + 32 :]
        tamper(path, ("UPDATE hashes SET nodes = ? WHERE i = ?", (changed, row)))
        with pytest.raises(LogDamaged, match=r"does not follow|do not lead"):
            open_log(path)


def test_hashes_whose_left_side_is_older_than_what_is_checked(path, template, monkeypatch):
    monkeypatch.setattr("beacon.log.recovery.RECENT_ENTRIES", 4)
    path.write_bytes(template)
    open_log(path).close()
    with closing(sqlite3.connect(path)) as db:
        (nodes,) = db.execute("SELECT nodes FROM hashes WHERE i = 19").fetchone()
    tamper(path, ("UPDATE hashes SET nodes = ? WHERE i = 19", (nodes[:32] + bytes(32) + nodes[64:],)))
    with pytest.raises(LogDamaged, match="above entry 19 does not follow"):
        open_log(path)


FORGED = {
    "another log's": ([first_leaf(5, "other.example")], "names another log"),
    "no first entry": ([contribution(5, "a")], "names another log"),
    "times that decrease": ([first_leaf(5), contribution(6, "a"), contribution(5, "b")], "entry 2 is older"),
    "no time": ([first_leaf(5), b'{"v":1}'], "entry 1 has no time"),
    "a time that is none": ([first_leaf(5), b'{"v":1,"time":true}'], "entry 1 has no time"),
    "a time before all times": ([first_leaf(5), b'{"v":1,"time":-1}'], "entry 1 has no time"),
    "not canonical": ([first_leaf(5), b'{"v": 1,"time":5}'], "entry 1 is not canonical"),
    "not JSON": ([first_leaf(5), b"\xff\xff"], "entry 1 is not canonical"),
}


@pytest.mark.parametrize(("entries", "reason"), FORGED.values(), ids=FORGED.keys())
def test_what_a_signature_does_not_make_right(path, template, entries, reason):
    path.write_bytes(template)
    forge(path, entries, 5)
    with pytest.raises(LogDamaged, match=reason):
        open_log(path)


def test_a_forged_log_that_keeps_the_rules_is_opened(path, template):
    """Only witnesses can tell: the key is the owner's."""
    path.write_bytes(template)
    forge(path, [first_leaf(5), contribution(5, "a")], 5)
    open_log(path, projections=[]).close()


def test_derived_tables_that_cannot_be_read(path, template):
    def connector(name):
        connection = sqlite3.connect(name, factory=Faulty)
        connection.fault = fault
        return connection

    def fault(run, sql):
        if sql.startswith("SELECT i, hex(session)"):
            raise sqlite3.DatabaseError("database disk image is malformed")
        return run()

    path.write_bytes(template)
    with pytest.raises(LogDamaged, match="malformed"):
        open_log(path, connector=connector)
    open_log(path).close()


def test_another_key(path, template):
    path.write_bytes(template)
    with pytest.raises(LogDamaged):
        open_log(path, signer=SigningKey(bytes(32), SIGNER.name))
    open_log(path).close()


def test_a_log_without_its_triggers_is_not_opened(path, template):
    path.write_bytes(template)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TRIGGER hashes_no_update")
    with pytest.raises(SchemaRefused):
        open_log(path)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file_is_not_opened(path, template, part):
    path.write_bytes(template[: int(len(template) * part)])
    with pytest.raises(LogDamaged):
        open_log(path)


def test_a_file_that_is_no_database_is_not_opened(path):
    path.write_bytes(b"an entry or two" * 1000)
    with pytest.raises(LogDamaged):
        open_log(path)


def test_a_flipped_byte_is_refused_or_changes_nothing(path, template):
    """Recovery reads all of a log as small as this one, but for the times of older checkpoints."""
    positions = random.Random(3)
    contents = set()
    refused = 0
    for _ in range(60):
        position = positions.randrange(100, len(template))
        for file in path.parent.iterdir():
            file.unlink()
        path.write_bytes(template[:position] + bytes([template[position] ^ 0x04]) + template[position + 1 :])
        try:
            log = open_log(path)
        except (LogDamaged, SchemaRefused, CannotOpen):
            refused += 1
            continue
        contents.add(log.reader.submit(everything).result())
        log.close()
    assert refused
    assert len(contents) == 1


def everything(db):
    queries = ("SELECT i, entry FROM entries", "SELECT i, nodes FROM hashes", "SELECT size, note FROM checkpoints")
    return tuple(row for query in queries for row in db.execute(f"{query} ORDER BY 1").fetchall())
