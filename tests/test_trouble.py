"""What a writer says of its disk: failures for as long as they tell something, waits once they are long, and no room."""

import errno
import os
from types import SimpleNamespace

import pytest

from beacon.store.errors import WriteFailed
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.trouble import RESERVE, STALLED_SECONDS, TOLD_SECONDS, Trouble, require_room
from beacon.store.writer import Writer


class Clock:
    time = 100.0

    def __call__(self):
        return self.time


def test_a_failure_is_told_until_a_write_succeeds_or_it_is_old():
    clock = Clock()
    trouble = Trouble("log.db", clock)
    assert str(trouble) == ""
    trouble.begin()
    trouble.end("no")
    assert str(trouble) == "log.db: no"
    clock.time += TOLD_SECONDS - 1
    assert str(trouble) == "log.db: no"
    trouble.begin()
    assert str(trouble) == "log.db: no"
    trouble.end(None)
    assert str(trouble) == ""
    trouble.end("no")
    clock.time += TOLD_SECONDS
    assert str(trouble) == ""


def test_a_write_that_takes_long_is_told_while_it_does():
    clock = Clock()
    trouble = Trouble("log.db", clock)
    trouble.begin()
    clock.time += STALLED_SECONDS
    assert str(trouble) == ""
    clock.time += 2
    assert str(trouble) == "a write to log.db has been under way for 7 s"
    trouble.end(None)
    assert str(trouble) == ""


@pytest.mark.parametrize(("free", "enough"), [(RESERVE, True), (RESERVE - 4096, False), (0, False)])
def test_room_is_what_the_owner_may_take(tmp_path, monkeypatch, free, enough):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free // 4096, f_bfree=2**40, f_frsize=4096))
    if enough:
        require_room(tmp_path / "log.db")
    else:
        with pytest.raises(OSError, match="less than 64 MB are free") as caught:
            require_room(tmp_path / "log.db")
        assert caught.value.errno == errno.ENOSPC


async def test_a_writer_tells_before_it_answers(tmp_path, monkeypatch):
    writer = Writer(tmp_path / "private.db", PRIVATE_SCHEMA)
    statvfs = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_bfree=0, f_frsize=4096))
    with pytest.raises(WriteFailed, match="MB are free"):
        await writer.run(lambda _db: None)
    assert writer.trouble.startswith("private.db: nothing was written: OSError: ")
    assert writer.stopped is None
    monkeypatch.setattr(os, "statvfs", statvfs)
    await writer.run(lambda _db: None)
    assert writer.trouble is None
    with pytest.raises(ValueError, match="of the job"):
        await writer.run(lambda _db: (_ for _ in ()).throw(ValueError("of the job")))
    assert writer.trouble is None
    writer.close()
