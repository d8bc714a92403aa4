"""The high-water mark: a log that lacks what was acknowledged is not opened, whatever took it away.

| what is found at the start | the log |
|---|---|
| an older copy of log.db, with or without its WAL of then | LogBehind |
| log.db without its WAL, or with a WAL that is cut off or damaged | LogBehind, or the log as it was if nothing is missing |
| log.db cut off | LogDamaged |
| another history under the same key, as long or longer | LogBehind |
| the mark is missing, cut to nothing, or not of this log | LogBehind |
| one half of the mark is damaged | opened: the other half is at most one commit older |
| an older mark beside the newest log | opened |
| log and mark both older | opened; nobody can tell from these files (test_tlog_clients.py: who kept a checkpoint can) |
"""

import os
import random
import shutil

import pytest

from beacon.log import highwater
from beacon.store import mark as mark_module
from beacon.store.errors import AlreadyOpen, CannotOpen, DatabaseDamaged, LogBehind, LogDamaged, WriteFailed
from beacon.store.mark import SLOT_BYTES, MarkFile
from tests.log_support import SIGNER, append, first_leaf, forge, make_log, mark_of, open_log, verify_whole
from verifier.note import SigningKey


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "log.db"


def files(path):
    """Everything of a log but its lock, by name."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}


def put(path, contents):
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir()
    for name, data in contents.items():
        (path.parent / name).write_bytes(data)


@pytest.fixture
def taken(path):
    """What stands in the files after each of six commits, taken while the log runs and nothing is being written."""
    path.parent.mkdir()
    log = open_log(path)
    log.writer.submit(lambda db: db.execute("PRAGMA wal_autocheckpoint = 0").fetchone()).result(30)
    moments = []
    for number in range(6):
        append(log, *(f"{number}.{part}" for part in range(number + 1)))
        log._sequencer._mark.settle()
        moments.append(files(path))
    log.close()
    moments.append(files(path))
    return moments


def opens(path):
    """The size of the log that opens, goes on and is whole."""
    log = open_log(path)
    size = log.latest().size
    append(log, "after")
    log.close()
    verify_whole(path)
    assert mark(path).size == size + 1
    return size


def mark(path):
    return highwater.newest(mark_of(path), SIGNER.vkey)


def test_the_mark_follows_the_log(path, taken):
    sizes = []
    for moment in taken:
        put(path, moment)
        sizes.append(mark(path).size)
    assert sizes == [2, 4, 7, 11, 16, 22, 22]
    assert opens(path) == 22


def test_as_it_was_left_at_any_moment(path, taken):
    for moment, size in zip(taken, (2, 4, 7, 11, 16, 22, 22), strict=True):
        put(path, moment)
        assert opens(path) == size


@pytest.mark.parametrize("then", range(5))
def test_an_older_copy(path, taken, then):
    put(path, taken[then] | {"log.mark": taken[-1]["log.mark"]})
    before = files(path)
    for _ in range(2):
        with pytest.raises(LogBehind, match=r"and size 22 was acknowledged .* older copy"):
            open_log(path)
    assert files(path)["log.mark"] == before["log.mark"]
    put(path, taken[-1])
    assert opens(path) == 22


def test_the_wal_is_lost(path, taken):
    newest = taken[-2]
    put(path, {name: data for name, data in newest.items() if name not in {"log.db-wal", "log.db-shm"}})
    with pytest.raises((LogBehind, LogDamaged)):
        open_log(path)


def test_the_wal_is_cut_off_or_damaged(path, taken):
    newest = {name: data for name, data in taken[-2].items() if name != "log.db-shm"}
    wal, positions, refused = newest["log.db-wal"], random.Random(5), 0
    damaged = [wal[:length] for length in range(0, len(wal), len(wal) // 20)]
    places = [positions.randrange(32, len(wal)) for _ in range(15)]
    damaged += [wal[:place] + bytes([wal[place] ^ 0x10]) + wal[place + 1 :] for place in places]
    for one in damaged:
        put(path, newest | {"log.db-wal": one})
        try:
            assert opens(path) == 22
        except LogBehind:
            refused += 1
    assert refused >= len(damaged) - 3


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.99])
def test_the_file_is_cut_off(path, taken, part):
    data = taken[-1]["log.db"]
    put(path, taken[-1] | {"log.db": data[: int(len(data) * part)]})
    with pytest.raises(LogDamaged):
        open_log(path)


@pytest.mark.parametrize("count", [21, 22, 40])
def test_another_history_under_the_same_key(path, taken, count):
    put(path, taken[-1])
    forge(path, [first_leaf(5), *(b'{"v":1,"time":5,"n":%d}' % number for number in range(count))], 5)
    with pytest.raises(LogBehind, match="first 22 entries are not those that were acknowledged"):
        open_log(path, projections=[])


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (None, "log.mark is missing"),
        (b"", "log.mark is missing"),
        (bytes(2 * SLOT_BYTES), "log.mark is missing"),
        (b"log.example/test\n22\n", "holds no checkpoint that log.example/test signed"),
        (b"\xff" * 2 * SLOT_BYTES, "holds no checkpoint that log.example/test signed"),
    ],
)
def test_no_usable_mark(path, taken, file, says):
    put(path, {name: data for name, data in taken[-1].items() if name != "log.mark"})
    if file is not None:
        mark_of(path).write_bytes(file)
    with pytest.raises(LogBehind, match=says):
        open_log(path)
    assert not mark_of(path).exists() or mark_of(path).read_bytes() == file


def test_the_mark_of_another_log(path, taken):
    put(path, taken[-1])
    note = mark(path).note
    other = SigningKey(bytes(32), SIGNER.name)
    text = note.split("\n\n")[0] + "\n"
    mark_of(path).write_bytes(f"{text}\n{other.sign(text)}".encode())
    with pytest.raises(LogBehind, match="holds no checkpoint"):
        open_log(path)


def test_a_mark_that_cannot_be_read(path, taken):
    put(path, taken[-1])
    mark_of(path).unlink()
    mark_of(path).mkdir()
    with pytest.raises(CannotOpen, match=r"log\.mark: "):
        open_log(path)


def test_one_half_of_the_mark_is_damaged(path, taken):
    put(path, taken[-1])
    newest, data = mark(path), taken[-1]["log.mark"]
    for slot, left in ((newest.slot, 16), (1 - newest.slot, 22)):
        torn = bytearray(data)
        torn[SLOT_BYTES * slot + 20 : SLOT_BYTES * slot + 40] = os.urandom(20)
        put(path, taken[-1] | {"log.mark": bytes(torn)})
        assert mark(path).size == left
        assert opens(path) == 22


def test_an_older_mark_beside_the_newest_log(path, taken):
    put(path, taken[-1] | {"log.mark": taken[1]["log.mark"]})
    assert opens(path) == 22


def test_log_and_mark_both_older_cannot_be_seen(path, taken):
    put(path, taken[2])
    assert opens(path) == 7


def test_a_new_log_needs_no_mark_and_makes_one(path):
    path.parent.mkdir()
    log = open_log(path)
    assert mark(path).size == 1
    log.close()
    mark_of(path).unlink()
    assert opens(path) == 1


def test_the_mark_is_durable_before_the_next_commit_begins(path):
    """At each COMMIT the file holds the commit before; so of what was acknowledged at most one commit is beyond it."""
    path.parent.mkdir()
    seen = []

    def step(name):
        if name == "before-commit" and mark_of(path).exists():
            seen.append(mark(path).size)

    log = open_log(path, step=step)
    for number in range(5):
        append(log, f"{number}.a", f"{number}.b")
    log.close()
    assert seen == [1, 3, 5, 7, 9]
    assert mark(path).size == 11


class BrokenDisk:
    """os.fdatasync that fails as often as it is told."""

    def __init__(self, monkeypatch):
        self.failures = 0
        self.real = os.fdatasync
        monkeypatch.setattr(mark_module.os, "fdatasync", self)

    def __call__(self, fd):
        if self.failures:
            self.failures -= 1
            raise OSError(5, "Input/output error")
        self.real(fd)


def test_a_mark_that_cannot_be_written(path, monkeypatch):
    """Nothing more is committed until it can; each time it is tried again."""
    path.parent.mkdir()
    disk = BrokenDisk(monkeypatch)
    log = open_log(path)
    done = {entry.index: entry.entry for entry in append(log, "a")}
    log._sequencer._mark.settle()
    disk.failures = 4
    done |= {entry.index: entry.entry for entry in append(log, "b")}
    for _ in range(3):
        with pytest.raises(WriteFailed, match=r"log\.mark: Input/output error"):
            append(log, "lost")
    done |= {entry.index: entry.entry for entry in append(log, "c")}
    log.close()
    assert len(verify_whole(path, done)) == 4
    assert opens(path) == 4


def test_a_start_that_cannot_write_the_mark(path, taken, monkeypatch):
    put(path, taken[-1])
    disk = BrokenDisk(monkeypatch)
    disk.failures = 2
    with pytest.raises(WriteFailed, match="Input/output error"):
        open_log(path)
    assert opens(path) == 22


def test_the_slots_of_a_file(tmp_path):
    file = MarkFile(tmp_path / "mark")
    assert file.read() is None
    file.write(1, b"a longer text")
    assert file.read() == [b"", b"a longer text"]
    file.write(0, b"b")
    file.write(1, b"c")
    assert file.read() == [b"b", b"c"]
    with pytest.raises(WriteFailed):
        file.write(0, bytes(SLOT_BYTES + 1))
    file.close()
    file.close()
    assert (tmp_path / "mark").stat().st_size == 2 * SLOT_BYTES
    with pytest.raises(WriteFailed, match="No such file"):
        MarkFile(tmp_path / "none" / "mark").write(0, b"a")


def test_a_lost_mark_is_made_anew(path, taken):
    put(path, taken[-1])
    with pytest.raises(LogBehind, match="is there and says size 22"):
        highwater.make(path, mark_of(path), SIGNER.vkey)
    mark_of(path).unlink()
    assert highwater.make(path, mark_of(path), SIGNER.vkey) == 22
    assert opens(path) == 22


def test_no_mark_is_made_beside_a_service_or_from_a_damaged_log(path, taken):
    put(path, taken[-1])
    log = open_log(path)
    mark_of(path).unlink()
    with pytest.raises(AlreadyOpen):
        highwater.make(path, mark_of(path), SIGNER.vkey)
    log.close()
    data = taken[-1]["log.db"]
    put(path, {"log.db": data[: len(data) // 2]})
    with pytest.raises(DatabaseDamaged):
        highwater.make(path, mark_of(path), SIGNER.vkey)
    assert not mark_of(path).exists()


def test_what_a_check_says_of_the_mark(path, taken):
    def complaint():
        return highwater.complaint(path, mark_of(path), SIGNER.vkey)

    put(path, taken[-1])
    assert complaint() is None
    log = open_log(path)
    append(log, "beside the service")
    assert complaint() is None
    log.close()
    put(path, taken[3] | {"log.mark": taken[-1]["log.mark"]})
    assert "the log has size 11, and size 22 was acknowledged" in complaint()
    mark_of(path).unlink()
    assert "log.mark is missing" in complaint()


def test_make_log_leaves_nothing_beyond_its_mark(path):
    path.parent.mkdir()
    make_log(path, (3, 2))
    assert mark(path).size == 6
