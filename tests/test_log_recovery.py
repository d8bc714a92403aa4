"""Opening a log whose file is not as it was left: cut off, changed, forged, another's.

All of it without a high-water mark, which would refuse most of it before the file has its say: test_highwater.py.
"""

import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from beacon.store.errors import CannotOpen, LogDamaged, SchemaRefused
from tests import log_support
from tests.log_support import (
    SIGNER,
    append,
    contribution,
    first_leaf,
    forge,
    make_log,
    signed,
    tamper,
    verify_whole,
)
from verifier.note import SigningKey


def open_log(path, **options):
    return log_support.open_log(path, mark=None, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


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
    class Unreadable(sqlite3.Connection):
        def execute(self, sql, *parameters):
            if sql.startswith("SELECT i, hex(session)"):
                raise sqlite3.DatabaseError("database disk image is malformed")
            return super().execute(sql, *parameters)

    path.write_bytes(template)
    with pytest.raises(LogDamaged, match="malformed"):
        open_log(path, connector=lambda name: sqlite3.connect(name, factory=Unreadable))
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
