"""The schemas: what is public only grows, and a file that is not what it should be is refused."""

import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from beacon.store.errors import SchemaRefused
from beacon.store.log_schema import APPEND_ONLY, LOG_SCHEMA, migrations
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import open_readonly
from beacon.store.writer import Writer

INSERT = "INSERT INTO seeds VALUES (?, x'00', x'00', 0)"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "private.db"


@pytest.fixture
def writer(path):
    writer = Writer(path, PRIVATE_SCHEMA)
    yield writer
    writer.close()


def insert(number):
    return lambda db: db.execute(INSERT, [number.to_bytes(32, "big")]).rowcount


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
    db.execute("INSERT INTO witnesses VALUES (1, 'vkey')")
    db.execute("INSERT INTO cosignatures VALUES (3, 1, zeroblob(72))")
    db.execute("INSERT INTO log_keys VALUES (1, 'old', 1, NULL), (2, 'new', 3, zeroblob(64))")
    db.execute("INSERT INTO log_key_ends VALUES (1, 3)")


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
    "witnesses": ("id", "(1, 'other')", ["(3, 'other')", "(0, 'other')", "(2, 'vkey')", "(2, NULL)"]),
    "cosignatures": (
        "size",
        "(3, 1, zeroblob(73))",
        ["(2, 1, zeroblob(72))", "(3, 2, zeroblob(72))", "(1, 1, zeroblob(8))", "(1, 1, NULL)"],
    ),
    "log_keys": (
        "id",
        "(1, 'other', 1, NULL)",
        [
            "(4, 'other', 3, zeroblob(64))",
            "(3, 'other', 2, zeroblob(64))",
            "(3, 'other', 3, zeroblob(63))",
            "(3, 'other', 3, NULL)",
            "(3, 'old', 3, zeroblob(64))",
        ],
    ),
    "log_key_ends": ("id", "(1, 3)", ["(2, 3)", "(3, 3)", "(2, 2)"]),
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


def test_a_log_of_before_there_were_witnesses_is_brought_up_to_date(tmp_path):
    path = tmp_path / "log.db"
    path.touch()
    with Database(path, execute_plugins=False) as db:
        db.execute(f"PRAGMA application_id = {LOG_SCHEMA.application_id}")
        migrations.apply(db, stop_before="m002_cosignatures")
        assert "cosignatures" not in db.table_names()
        db.execute("INSERT INTO entries VALUES (0, x'7b7d')")
        db.conn.commit()
    with pytest.raises(SchemaRefused, match="is missing"), closing(open_readonly(path)) as db:
        LOG_SCHEMA.check(db)
    Writer(path, LOG_SCHEMA).close()
    with closing(open_readonly(path)) as db:
        LOG_SCHEMA.check(db)
        assert db.execute("SELECT entry FROM entries").fetchall() == [(b"{}",)]


def test_a_foreign_database_is_not_taken_over(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE mine (a)")
    with pytest.raises(SchemaRefused):
        Writer(path, LOG_SCHEMA)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]


def test_a_file_alone_in_a_folder_that_cannot_be_written(log_path):
    code = """
import os, pathlib, sys
from beacon.store.schema import open_readonly
open_readonly(pathlib.Path(sys.argv[2])).close()  # the last imports: afterwards Python's own folder may be out of reach
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
            command = [sys.executable, "-c", code, copy, log_path]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        finally:
            Path(name).chmod(0o755)
        assert [file.name for file in Path(name).iterdir()] == ["log.db"]
    assert (done.stdout, done.stderr) == ("3\n", "")
