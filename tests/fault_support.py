"""A writer's connection that fails as it is told, the steps at which a process can be killed, and such a process."""

import multiprocessing
import os
import signal
import sqlite3

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.log_child", "tests.seal_support"])

STEPS = (
    "begun",
    "jobs-done",
    "staged",
    "projected",
    "entries-written",
    "hashes-written",
    "checkpoint-written",
    "settled",
    "before-commit",
    "committed",
    "mark-begun",
    "marked",
    "delivered",
)


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


def killer(kill_at, nth=1):
    """A step that kills this process when it is called `kill_at` for the nth time."""
    passed = 0

    def step(name):
        nonlocal passed
        passed += name == kill_at
        if name == kill_at and passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def killed(target, *arguments):
    """Let a child work that is killed at a step."""
    child = PROCESSES.Process(target=target, args=arguments)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


def outlived(target, path, *, answers=None, **options):
    """Let a child work; kill it after so many answers, where given. Gives what it was answered, and how it ended."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=target, args=(path, theirs), kwargs=options)
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
