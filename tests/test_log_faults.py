"""Faults: after each, the whole log verifies and nothing that was acknowledged is missing.

| fault | what the caller is told | what the log does |
|---|---|---|
| a write fails before the commit | WriteFailed | goes on |
| SQLite gives the transaction up by itself | WriteFailed | goes on |
| the database may grow no further | WriteFailed | goes on once it may |
| the rollback fails | OutcomeUnknown | stops; opened again, it is whole |
| the commit fails, whether or not it landed | OutcomeUnknown | stops; opened again, it is whole |
| a file may grow no further (commit fails) | OutcomeUnknown | stops; opened again, it is whole |
| the mark of the commit before cannot be written | WriteFailed | goes on once it can |
| a commit is reported and never happened | the next caller: WriterStopped | stops; is not opened: acknowledged entries are lost |
| somebody else writes to the file | WriterStopped | stops; what is there is checked when it is opened |
| the process is killed at any step, or at any moment | nothing, or the truth | opened again, it is whole |
| the end of the WAL is lost or damaged | - | is not opened (LogBehind; test_highwater.py) |
| a second process opens it | AlreadyOpen | the first one goes on |
| entries, hashes, checkpoints or key do not agree | LogDamaged | is not opened |
"""

import signal
import sqlite3
from contextlib import closing

import pytest

from beacon.store.errors import (
    AlreadyOpen,
    LogBehind,
    LogDamaged,
    OutcomeUnknown,
    WriteFailed,
    WriterStopped,
)
from tests import log_child
from tests.fault_support import PROCESSES, STEPS, Connector, given_up, io_error, landed, lost, outlived
from tests.log_support import (
    Index,
    append,
    contributions,
    held,
    make_log,
    open_log,
    verify_whole,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


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
    with pytest.raises(LogBehind, match="the log has size 4, and size 5 was acknowledged"):
        open_log(path)


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
        connection.execute("PRAGMA max_page_count = 44")
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
    """Let a child write. Gives what it was answered, and how it ended."""
    return outlived(log_child.write, path, answers=answers, **options)


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
