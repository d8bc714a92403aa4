"""Faults while a session is sealed, in either database: private.db holds the seed before log.db holds the seal.

After each the whole log is verified, nothing acknowledged is missing, and every session in the log can be revealed.

| fault, in private.db or in log.db | what the caller is told | the service |
|---|---|---|
| a write fails, or landed and is reported failed | WriteFailed | goes on |
| SQLite gives the transaction up by itself | WriteFailed | goes on |
| the database may grow no further | WriteFailed | goes on once it may |
| log.db's commit fails, whether or not it landed | OutcomeUnknown | its writer stops; opened again, both are whole |
| private.db's commit fails, whether or not it landed | WriteFailed | its writer stops; opened again, both are whole |
| a file may grow no further (commit fails) | OutcomeUnknown | that writer stops; opened again, both are whole |
| the process is killed at any step of either write | nothing, or the truth | opened again, both are whole |
| private.db is older than log.db | - | sessions whose seeds are gone say so; the others go on, and so does the log |

What private.db may hold in the end is a seed that no seal refers to; never the other way round.
"""

import shutil
import signal
import sqlite3

import pytest

from beacon.errors import ApiError
from beacon.store.errors import OutcomeUnknown, WriteFailed, WriterStopped
from tests import seal_support
from tests.fault_support import STEPS, Connector, given_up, landed, lost, outlived
from tests.seal_support import ROUND, both, seeds_in, whole
from tests.session_support import ALICE
from verifier.merkle import leaf_hash

DATABASES = ("private", "log")
INSERT = {"private": "INSERT INTO seeds", "log": "INSERT INTO entries"}
PRIVATE_STEPS = ("begun", "jobs-done", "before-commit", "committed", "delivered")
KILLS = [("private", step) for step in PRIVATE_STEPS] + [("log", step) for step in (*STEPS, "kept")]


def armed(folder, database, fault):
    """Both databases, one of them with a writer that can fail as it is told."""
    connector = Connector()
    return both(folder, **{database: {"connector": connector}}), lambda on=True: connector.arm(fault if on else None)


@pytest.mark.parametrize("kind", [lost, landed])
@pytest.mark.parametrize("database", DATABASES)
async def test_a_write_that_fails_before_the_commit(tmp_path, database, kind):
    opening, arm = armed(tmp_path, database, kind(INSERT[database]))
    async with opening as made:
        done = await made.seal("before")
        arm()
        for _ in range(2):
            with pytest.raises(WriteFailed, match="disk I/O error"):
                await made.seal("lost")
        arm(False)
        done |= await made.seal("goes on")
    seals = await whole(tmp_path, done)
    assert [b'"lost"' in seal for seal in seals] == [False] * 3


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_NOMEM])
@pytest.mark.parametrize("database", DATABASES)
async def test_sqlite_gives_the_transaction_up(tmp_path, database, code):
    opening, arm = armed(tmp_path, database, given_up(INSERT[database], code))
    async with opening as made:
        done = await made.seal("before")
        arm()
        with pytest.raises(WriteFailed):
            await made.seal("lost")
        arm(False)
        done |= await made.seal("goes on")
    assert len(await whole(tmp_path, done)) == 3


@pytest.mark.parametrize(("kind", "there"), [(lost, False), (landed, True)])
@pytest.mark.parametrize("database", DATABASES)
async def test_a_commit_of_unknown_outcome(tmp_path, database, kind, there):
    opening, arm = armed(tmp_path, database, kind("COMMIT"))
    async with opening as made:
        done = await made.seal("before")
        arm()
        # Whether the seed is kept is not known; that nothing is public is.
        told, then = {"private": (WriteFailed, WriteFailed), "log": (OutcomeUnknown, WriterStopped)}[database]
        with pytest.raises(told, match="a commit failed"):
            await made.seal("unknown")
        arm(False)
        for _ in range(2):
            with pytest.raises(then, match="a commit failed"):
                await made.seal("refused")
        stopped = {"private": made.private, "log": made.service.log.writer}
        assert [name for name, writer in stopped.items() if writer.stopped] == [database]
    seeds = seeds_in(tmp_path)
    seals = await whole(tmp_path, done)
    assert any(b'"unknown"' in seal for seal in seals) == (there and database == "log")
    assert seeds == {"private": 1 + there, "log": 2}[database]


@pytest.mark.parametrize("database", DATABASES)
async def test_a_database_that_may_grow_no_further(tmp_path, database):
    async with both(tmp_path) as made:
        done = await made.seal("before")
        writer = {"private": made.private, "log": made.service.log.writer}[database]

        async def pages(most):
            await writer.run(lambda db: db.execute(f"PRAGMA max_page_count = {most}").fetchone())

        async def fill():
            for number in range(1_000):
                done.update(await made.seal(f"{number}"))

        await pages(1)  # SQLite takes the pages that are there for the least
        with pytest.raises(WriteFailed, match="full"):
            await fill()
        await pages(100_000)
        for number in range(20):
            done |= await made.seal(f"room.{number}")
    assert len(await whole(tmp_path, done)) == len(done) + 1


def child_seals(folder, **options):
    """Let a child seal. Gives what it was answered, and how it ended."""
    return outlived(seal_support.seal_until_it_dies, folder, **options)


async def test_a_file_that_may_grow_no_further(tmp_path):
    done, end = child_seals(tmp_path, limit=250_000)
    assert end in {"OutcomeUnknown", "WriterStopped", "WriteFailed"}
    assert done
    await whole(tmp_path, done)


@pytest.mark.parametrize("nth", [3, 9])
@pytest.mark.parametrize(("database", "step"), KILLS)
async def test_killed_at_a_step(tmp_path, database, step, nth):
    done, end = child_seals(tmp_path, database=database, kill_at=step, nth=nth)
    assert end == signal.SIGKILL
    seals = await whole(tmp_path, done)
    assert len(done) < len(seals) <= seeds_in(tmp_path)


async def test_private_db_older_than_the_log(tmp_path):
    """The log goes on; who sealed after the copy was taken is told that the seed is gone."""
    async with both(tmp_path) as made:
        kept = await made.seal("kept")
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(tmp_path / "private.db", copy / "private.db")
    async with both(tmp_path) as made:
        gone = await made.seal("gone")
    for file in tmp_path.glob("private.db-*"):
        file.unlink()
    shutil.copyfile(copy / "private.db", tmp_path / "private.db")
    async with both(tmp_path) as made:
        await made.seal("goes on")
        await made.service.reach(ROUND)
        first, second = (leaf_hash(entry) for entry in (*kept.values(), *gone.values()))
        assert (await made.service.sessions.reveal(ALICE, first)).state["state"] == "revealed"
        with pytest.raises(ApiError, match="holds no seed"):
            await made.service.sessions.reveal(ALICE, second)
