"""Upgrades: forward in one step whatever happens meanwhile, never backward, and the data stays what it was."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlite_utils import Database, Migrations

from beacon.store.errors import SchemaNewer
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import connect, open_readonly, open_writable
from beacon.store.witness_schema import WITNESS_SCHEMA
from beacon.store.writer import Writer
from tests.process_support import ROOT, run
from tests.release_support import RELEASES
from verifier.audit.keeping import VERSION, opened
from verifier.audit.report import summary
from verifier.cli import main as verifier

FIRST = RELEASES[0]
DATABASES = {
    "data/log.db": LOG_SCHEMA,
    "data/private.db": PRIVATE_SCHEMA,
    "w1/witness.db": WITNESS_SCHEMA,
}
NEWER = "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'm999_of_later', '')"


@pytest.fixture
def folder(tmp_path):
    return FIRST.copy(tmp_path / "world")


def make_newer(path, schema):
    with closing(sqlite3.connect(path)) as db:
        db.execute(NEWER, [schema.migrations.name])
        db.commit()


def content(path):
    """Every row of every table but the record of migrations."""
    with closing(open_readonly(path)) as db:
        names = [name for name in db.table_names() if name != "_sqlite_migrations"]
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names}


# --- never backward --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(name, folder):
    path, schema = folder / name, DATABASES[name]
    make_newer(path, schema)
    before = content(path)
    with pytest.raises(SchemaNewer, match=r"made by a newer version of this program \(m999_of_later\)") as error:
        Writer(path, schema)
    assert error.value.code == "schema-newer"
    assert str(path) in str(error.value)
    assert content(path) == before


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("data/log.db", ("serve", "--dir", "data")),
        ("data/log.db", ("log", "check", "--dir", "data")),
        ("data/log.db", ("log", "rebuild", "--dir", "data")),
        ("data/private.db", ("serve", "--dir", "data")),
        ("data/private.db", ("hosts", "add", "bob", "--dir", "data")),
        ("w1/witness.db", ("witness", "serve", "--dir", "w1")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
async def test_the_commands_say_so_in_a_line(name, command, folder):
    make_newer(folder / name, DATABASES[name])
    code, output, errors = await run("beacon", *(folder / part if part in {"data", "w1"} else part for part in command))
    assert (code, output) == (1, "")
    (line,) = (line for line in errors.splitlines() if line.startswith("Error:"))
    assert "made by a newer version of this program" in line
    assert "run that version" in line
    assert "Traceback" not in errors


async def test_a_log_that_is_to_be_brought_up_to_date_is_not_called_damaged(folder):
    code, output, errors = await run("beacon", "log", "check", "--dir", folder / "data")
    assert (code, output) == (1, "")
    assert "made by an older version of this program" in errors
    Writer(folder / "data" / "log.db", LOG_SCHEMA).close()
    code, output, errors = await run("beacon", "log", "check", "--dir", folder / "data")
    assert code == 0, output + errors


def test_an_auditors_state_of_a_newer_version_is_refused(folder):
    with closing(sqlite3.connect(folder / "audit" / "audit.db")) as db:
        db.execute("PRAGMA user_version = 99")
    command = ["audit", "http://127.0.0.1:1", "--state", str(folder / "audit"), "--log-key", str(FIRST.log_key)]
    done = CliRunner().invoke(verifier, command)
    assert done.exit_code == 3
    assert "written by a newer version" in done.stderr


def test_an_auditors_state_of_0_1_0_is_brought_up_to_date_and_says_what_it_lacks(folder):
    with opened(folder / "audit") as state:
        told = summary(state, FIRST.trust, None)
        assert (told.dice_from, told.proven, told.ended) == (82, 0, 12)
        assert "Counted from entry 82 on" not in "".join(told.lines()), "there are no dice yet"
    with opened(folder / "audit") as state:
        assert summary(state, FIRST.trust, None).dice_from == 82
    with opened(folder / "new") as state:
        assert summary(state, FIRST.trust, None).dice_from == 0
    schemas = []
    for name in ("audit", "new"):
        with closing(sqlite3.connect(folder / name / "audit.db")) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
            schemas.append(sorted(row[0] for row in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")))
    assert schemas[0] == schemas[1]


# --- forward, in one step --------------------------------------------------------------------------------------------


def grown(schema):
    """The schema of some later version: a table, an index, a trigger, and a column more in what is there."""
    later = Migrations(schema.migrations.name)
    later._migrations = [*schema.migrations._migrations]

    @later()
    def m998_more(db):
        db.execute("CREATE TABLE later (i INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")
        db.execute("CREATE INDEX later_by_text ON later (text)")

    @later()
    def m999_of_later(db):
        db.execute("CREATE TRIGGER later_no_delete BEFORE DELETE ON later BEGIN SELECT RAISE(ABORT, 'no'); END")
        db.execute("INSERT INTO later VALUES (1, 'moved')")

    return replace(schema, migrations=later)


def upgrade(path, schema, kill_at):
    """Bring the database up to date, and die before the `kill_at`th statement, or after the last one."""
    passed = count(1)

    def traced(_):
        if next(passed) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def connector(where):
        conn = connect(where)
        conn.set_trace_callback(traced)
        return conn

    db = open_writable(path, schema, connector)
    os.kill(os.getpid(), signal.SIGKILL)
    db.close()


def die_everywhere(source, schema, folder):
    """Upgrade a copy for each statement that the upgrade takes, each in a process that dies there."""
    for number in range(1, 1 + statements(source, schema, folder) + 1):
        path = Path(shutil.copy(source, folder / f"{number}.db"))
        if (child := os.fork()) == 0:
            upgrade(path, schema, number)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def statements(source, schema, folder):
    """How many statements the whole upgrade takes."""
    seen = []

    def connector(where):
        conn = connect(where)
        conn.set_trace_callback(seen.append)
        return conn

    open_writable(Path(shutil.copy(source, folder / "whole")), schema, connector).close()
    return len(seen)


CHILD = """
import sys
from pathlib import Path
from tests.test_upgrades import DATABASES, die_everywhere, grown
die_everywhere(Path(sys.argv[1]), grown(DATABASES[sys.argv[2]]), Path(sys.argv[3]))
"""


@pytest.mark.parametrize("name", DATABASES)
def test_an_upgrade_that_is_killed_at_any_statement_happened_or_did_not(name, folder, tmp_path):
    source, schema = folder / name, DATABASES[name]
    Writer(source, schema).close()
    before, new = content(source), grown(schema)
    subprocess.run([sys.executable, "-c", CHILD, source, name, tmp_path], cwd=ROOT, check=True, timeout=200)
    copies = sorted(tmp_path.glob("*.db"), key=lambda path: int(path.stem))
    assert len(copies) > 12
    happened = []
    for path in copies:
        try:
            open_writable(path, schema).close()
            happened.append(False)
        except SchemaNewer:
            happened.append(True)
        open_writable(path, new).close()
        after = content(path)
        assert after.pop("later") == [(1, "moved")]
        assert after == before
    assert happened == sorted(happened)
    assert set(happened) == {False, True}


def test_a_failing_migration_changes_nothing(folder):
    path = folder / "data" / "log.db"
    Writer(path, LOG_SCHEMA).close()
    before = content(path)
    failing = grown(LOG_SCHEMA)

    @failing.migrations()
    def m1000_wrong(db):
        db.execute("CREATE TABLE later (twice)")

    with pytest.raises(Exception, match="already exists"):
        Writer(path, failing)
    assert content(path) == before
    Writer(path, LOG_SCHEMA).close()


def test_only_one_of_two_processes_upgrades(folder):
    path = folder / "data" / "private.db"
    Writer(path, PRIVATE_SCHEMA).close()
    new = grown(PRIVATE_SCHEMA)
    with ThreadPoolExecutor(2) as pool:
        for db in pool.map(lambda _: open_writable(path, new, unbound), range(2)):
            db.close()
    with closing(open_readonly(path)) as db:
        assert db.execute("SELECT * FROM later").fetchall() == [(1, "moved")]


def unbound(path):
    return sqlite3.connect(path, timeout=20, check_same_thread=False)


def test_the_record_of_migrations_says_what_was_applied(folder):
    path = folder / "data" / "log.db"
    with Database(path, execute_plugins=False) as db:
        names = [row.name for row in LOG_SCHEMA.migrations.applied(db)]
    assert names[:2] == ["m001_log", "m002_cosignatures"]
