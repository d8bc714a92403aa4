"""GET /log/log.db: one moment of the log as a file, made beside the writer, one at a time, kept for a while."""

import asyncio
import base64
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from beacon.log import snapshot
from beacon.log.snapshot import Snapshots
from beacon.store.errors import WriteFailed
from beacon.web import snapshot_routes
from tests.log_support import SIGNER, contributions
from tests.web_support import serving_log
from verifier import whole_log

FILE = "/log/log.db"


def entries_of(path):
    with whole_log.of_database(path) as log:
        entries = list(log.entries())
        log.check(SIGNER.vkey)
        return entries


async def test_the_file_is_the_log_of_one_moment(tmp_path):
    async with serving_log(tmp_path / "log.db") as (log, client):
        await log.append(contributions("a", "b"))
        answer = await client.get(FILE)
        data = await answer.read()
        (tmp_path / "got.db").write_bytes(data)
        assert (answer.status, answer.content_type) == (200, "application/vnd.sqlite3")
        assert answer.headers["Log-Size"] == "3"
        assert base64.b64decode(answer.headers["Log-Checkpoint"]).decode() == log.latest().note
        assert len(entries_of(tmp_path / "got.db")) == 3
        with closing(sqlite3.connect(tmp_path / "got.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        head = await client.head(FILE)
        assert (head.status, head.headers["Content-Length"]) == (200, str(len(data)))
        part = await client.get(FILE, headers={"Range": "bytes=100-199"})
        assert (part.status, await part.read()) == (206, data[100:200])
        rest = await client.get(FILE, headers={"Range": "bytes=200-", "If-Range": answer.headers["ETag"]})
        assert (rest.status, await rest.read()) == (206, data[200:])
        assert (await client.get(FILE, headers={"Range": f"bytes={len(data)}-"})).status == 416
        assert (await client.get(f"{FILE}?x=1")).status == 404


async def test_it_is_kept_for_a_while_and_made_anew_once_the_log_has_grown(tmp_path):
    now = [0.0]
    async with serving_log(tmp_path / "log.db") as (log, client):
        client.app[snapshot_routes.SNAPSHOTS]._clock = lambda: now[0]

        async def size():
            return int((await client.get(FILE)).headers["Log-Size"])

        sizes = [await size()]
        await log.append(contributions("a"))
        now[0] = snapshot.KEPT_SECONDS - 1
        sizes.append(await size())
        now[0] = snapshot.KEPT_SECONDS
        sizes.append(await size())
        await client.app[snapshot_routes.SNAPSHOTS]._making
        sizes.append(await size())
        assert sizes == [1, 1, 1, 2]
        await log.append(contributions("b"))
        now[0] *= 2
        await size()
        await client.app[snapshot_routes.SNAPSHOTS]._making
        assert await size() == 3
        assert {path.name for path in tmp_path.glob("log-snapshot*")} == {"log-snapshot-2.db", "log-snapshot-3.db"}


async def test_one_is_made_at_a_time_while_the_writer_goes_on(tmp_path, monkeypatch):
    made, gate = [], asyncio.Event()
    copy = Snapshots._copy

    async def slowly(self, path):
        made.append(path)
        await gate.wait()
        self._kept = [await asyncio.to_thread(copy, self, path)]

    monkeypatch.setattr(Snapshots, "_make", slowly)
    monkeypatch.setattr(snapshot_routes, "FIRST_SECONDS", 0.05)
    async with serving_log(tmp_path / "log.db") as (log, client):
        answers = await asyncio.gather(*(client.get(FILE) for _ in range(5)))
        assert {answer.status for answer in answers} == {429}
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
        await log.append(contributions("meanwhile"))
        gate.set()
        monkeypatch.setattr(snapshot_routes, "FIRST_SECONDS", 20.0)
        assert (await client.get(FILE)).headers["Log-Size"] == "2"
        assert len(made) == 1


async def test_what_cannot_be_made_is_an_error_and_tried_again(tmp_path, monkeypatch):
    def full(self, path):
        raise sqlite3.OperationalError("database or disk is full")

    async with serving_log(tmp_path / "log.db") as (_, client):
        with monkeypatch.context() as broken:
            broken.setattr(Snapshots, "_copy", full)
            assert (await client.get(FILE)).status == 500
        assert (await client.get(FILE)).status == 200


@pytest.mark.parametrize("limit", ["MOST", "MOST_FOR_ADDRESS"])
async def test_few_are_sent_at_once(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(snapshot_routes, limit, 0)
    async with serving_log(tmp_path / "log.db") as (_, client):
        assert (await client.get(FILE)).status == 429
        assert not client.app[snapshot_routes.DOWNLOADS]


async def test_one_request_counts_as_many(tmp_path):
    async with serving_log(tmp_path / "log.db", rates={"address_per_minute": 600}) as (_, client):
        assert [(await client.get(FILE)).status for _ in range(3)] == [200, 200, 429]


async def test_a_stop_does_not_wait_for_a_copy(tmp_path):
    async with serving_log(tmp_path / "log.db") as (log, _):
        snapshots = Snapshots()
        assert await snapshots.newest(log.path, 1, 0) is None
        await snapshots.close()
        assert snapshots._making.done()
        await snapshots.close()


async def test_no_copy_takes_the_room_that_the_log_needs(tmp_path, monkeypatch):
    async with serving_log(tmp_path / "log.db") as (log, _):
        free = snapshot.LEAST_ROOM * log.path.stat().st_size - 1
        monkeypatch.setattr(snapshot.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        with pytest.raises(WriteFailed, match="no room"):
            await Snapshots().newest(log.path, 1, 10)
        assert not list(tmp_path.glob("log-snapshot*"))


async def test_a_copy_that_is_given_up_leaves_nothing(tmp_path, monkeypatch):
    def full(path, **options):
        (tmp_path / "log-snapshot.new").write_bytes(b"half of it")
        return SimpleNamespace(conn=sqlite3.connect(":memory:"), close=lambda: None)

    async with serving_log(tmp_path / "log.db") as (log, _):
        monkeypatch.setattr(snapshot, "open_readonly", full)
        with pytest.raises(sqlite3.Error):
            await Snapshots().newest(log.path, 1, 10)
        assert not list(tmp_path.glob("log-snapshot*"))
