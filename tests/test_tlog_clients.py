"""Third-party clients of C2SP tlog-tiles, as published and unmodified, read and verify a log that a real service serves.

They come from PyPI, pinned, each into an environment of its own that nothing else uses: `tlog-scales`, and `aics-tlog`,
which needs Python 3.12 or newer. Where such a Python is missing this says so and aics-tlog is skipped, in CI too where
.ci/run found none to install; anything else that is missing in CI is a failure.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import shutil
import sqlite3
import sys
from contextlib import closing

import aiohttp
import pytest
from aiohttp import web

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, run, serving
from tests.round_support import QUICKNET
from tests.tlog_clients.environments import NEWER, SOURCE, Client, installed, python_for
from tests.tlog_clients.interpreter import find
from verifier.note import SigningKey

PYTHON = {"tlog-scales": "3.11", "aics-tlog": NEWER}
WHAT = "read the log"
ORIGIN = "beacon.example/tlog"
ENTRIES = 600
AT_ONCE = 8


@pytest.fixture(params=PYTHON)
def client(request):
    name = request.param
    folder = request.config.cache.mkdir("tlog-clients")
    return Client(name, installed(folder, name, python_for(name, PYTHON[name], WHAT), WHAT))


class Beacon:
    """A data directory and the relay that its service follows."""

    def __init__(self, folder, offset, vkey, token):
        self.folder, self.offset, self.vkey, self.token = folder, offset, vkey, token

    @contextlib.asynccontextmanager
    async def serving(self, folder=None):
        """The service in a process of its own; gives its API."""
        command = ("tests.serve_shifted", folder or self.folder, self.offset)
        async with serving(*command) as server, api(server, self.token) as host:
            await host.ready()
            yield host

    def entries(self):
        """What stands in log.db: hashes of the entries, as the clients give them."""
        with closing(sqlite3.connect(self.folder / "log.db")) as db:
            rows = db.execute("SELECT entry FROM entries ORDER BY i").fetchall()
        return [hashlib.sha256(row[0]).hexdigest() for row in rows]


@pytest.fixture
async def beacon(tmp_path):
    offset = QUICKNET.time(72_760) - SystemClock().now()
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        vkey = make_data(tmp_path / "data", ORIGIN, relay.url, ShiftedClock(offset))
        yield Beacon(tmp_path / "data", offset, vkey, await add_host(tmp_path / "data", "alice"))


async def seal(host, count):
    """Seal sessions, several at once; the receipt of the last."""
    numbers = iter(range(count))
    receipts = []

    async def sealer():
        for number in numbers:
            body = {"label": f"{number}", "recipes": {"raw": {"kind": "bytes", "count": 1}}, "close_at": None}
            receipts.append((await host.post("/v1/sessions", body | {"participants": []}))["receipt"])

    await asyncio.gather(*(sealer() for _ in range(AT_ONCE)))
    return receipts[-1]


def head(note):
    _, size, root = note.split("\n")[:3]
    return {"size": int(size), "root": root}


async def test_a_client_reads_and_verifies_a_log_that_grows(client, beacon):
    async with beacon.serving() as host:
        await seal(host, ENTRIES)
        before = head((await host.get("/log/checkpoint")).decode())
        [first] = await client.read(beacon.vkey, f"{host.url}/log")
        assert first.get("refused") is None
        assert first["size"] == before["size"] > 2 * 256
        receipt = await seal(host, 7)
        [second] = await client.read(beacon.vkey, f"{host.url}/log", old=before)
        assert second.get("refused") is None
        assert second["size"] == before["size"] + 7
        assert second["entries"][: before["size"]] == first["entries"]
        for index, entry in ((one["index"], one["entry"].encode()) for one in receipt["events"]):
            assert second["entries"][index] == hashlib.sha256(entry).hexdigest()
    assert second["entries"] == beacon.entries()


async def test_the_programs_that_a_client_brings(client, beacon, tmp_path):
    async with beacon.serving() as host:
        receipt = await seal(host, 300)
        (event,) = receipt["events"]
        index, entry, url = event["index"], event["entry"].encode(), f"{host.url}/log"
        if client.name == "tlog-scales":
            assert (await client.call("tlog-tiles", "get-leaf", "--check", url, index))[:2] == (0, entry)
            code, output, _ = await client.call("tlog-tiles", "gen-proof", url, index)
            assert (code, output.decode().splitlines()[:2]) == (0, ["c2sp.org/tlog-proof@v1", f"index {index}"])
            return
        leaf, saved, key = tmp_path / "leaf", tmp_path / "saved", tmp_path / "log.vkey"
        leaf.write_bytes(entry)
        key.write_text(f"{beacon.vkey}\n")
        source = ("--tiles", url, "--vkey-file", key)
        asked = (
            ("verify-checkpoint", "--save-checkpoint", saved),
            ("verify-inclusion", "--leaf", leaf, "--index", index),
            ("verify-consistency", "--old-checkpoint", saved),
        )
        for command in asked:
            code, output, errors = await client.call("aics-tlog", *command, *source)
            assert (code, json.loads(output)["ok"]) == (0, True), (output, errors)
        leaf.write_bytes(entry + b" ")
        code, output, _ = await client.call("aics-tlog", *asked[1], *source)
        assert (code, json.loads(output)["ok"]) == (1, False)


def flipped(body, place):
    return body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]


def other_root(note):
    lines = note.decode().split("\n")
    lines[2] = base64.b64encode(flipped(base64.b64decode(lines[2]), 3)).decode()
    return "\n".join(lines).encode()


def signed_by_another(note):
    text = note.decode().split("\n\n")[0] + "\n"
    return f"{text}\n{SigningKey(bytes(32), ORIGIN).sign(text)}".encode()


LIES = {
    "the checkpoint's root": ("checkpoint", other_root),
    "the checkpoint's size": ("checkpoint", lambda note: note.replace(b"\n6", b"\n5", 1)),
    "the checkpoint's signature": ("checkpoint", lambda note: flipped(note, len(note) - 20)),
    "the checkpoint's origin": ("checkpoint", lambda note: note.replace(b"example/tlog\n", b"example/tlag\n", 1)),
    "signed by another key": ("checkpoint", signed_by_another),
    "a byte of an entry": ("tile/entries/001", lambda tile: flipped(tile, 300)),
    "a byte of a newest entry": ("tile/entries/002.p/", lambda tile: flipped(tile, len(tile) - 9)),
    "entries cut off": ("tile/entries/000", lambda tile: tile[:-10]),
    "a hash of a full tile": ("tile/0/000", lambda tile: flipped(tile, 32 * 200)),
    "a hash of the newest tile": ("tile/0/002.p/", lambda tile: flipped(tile, 3)),
    "a hash above": ("tile/1/000.p/", lambda tile: flipped(tile, 40)),
    "two hashes swapped": ("tile/0/001", lambda tile: tile[32:64] + tile[:32] + tile[64:]),
    "a tile cut off": ("tile/0/000", lambda tile: tile[:-32]),
}


@contextlib.asynccontextmanager
async def liar(url):
    """Passes on what the service at `url` says, with one change under the address of each lie. Gives its own URL."""
    async with aiohttp.ClientSession() as session:

        async def answer(request):
            number, path = request.match_info["number"], request.match_info["path"]
            begin, change = list(LIES.values())[int(number)] if number != "none" else ("", bytes)
            async with session.get(f"{url}/log/{path}") as honest:
                body, status = await honest.read(), honest.status
            if status == 200 and path.startswith(begin):
                body = change(body)
            return web.Response(body=body, status=status)

        app = web.Application()
        app.router.add_get("/{number}/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def test_a_client_refuses_a_log_that_was_changed(client, beacon):
    async with beacon.serving() as host:
        await seal(host, ENTRIES)
        async with liar(host.url) as url:
            honest, *found = await client.read(beacon.vkey, f"{url}/none", *(f"{url}/{n}" for n in range(len(LIES))))
            other_key = str(SigningKey(bytes(range(32)), ORIGIN).vkey)
            found += await client.read(other_key, f"{url}/none")
    assert honest["entries"] == beacon.entries()
    taken = [lie for lie, answer in zip([*LIES, "another key"], found, strict=True) if "refused" not in answer]
    assert taken == []
    for lie, answer in zip(LIES, found[:-1], strict=True):
        assert "Connection" not in answer["refused"], (lie, answer)


async def test_a_client_refuses_a_log_whose_file_was_changed_under_the_service(client, beacon):
    """Entry and leaf hash fit each other, so the service serves them; nobody can make them fit the signed root."""
    async with beacon.serving() as host:
        await seal(host, ENTRIES)
        with closing(sqlite3.connect(beacon.folder / "log.db")) as db:
            for table in ("entries", "hashes"):
                db.execute(f"DROP TRIGGER {table}_no_update")
            (entry,) = db.execute("SELECT entry FROM entries WHERE i = 70").fetchone()
            (nodes,) = db.execute("SELECT nodes FROM hashes WHERE i = 70").fetchone()
            changed = entry.replace(b'"custody":"beacon"', b'"custody":"bacon!"')
            db.execute("UPDATE entries SET entry = ? WHERE i = 70", [changed])
            leaf = hashlib.sha256(b"\0" + changed).digest()
            db.execute("UPDATE hashes SET nodes = ? WHERE i = 70", [leaf + nodes[32:]])
            db.commit()
        assert changed in await host.get("/log/tile/entries/000")
        assert leaf in await host.get("/log/tile/0/000")
        [answer] = await client.read(beacon.vkey, f"{host.url}/log")
    assert "refused" in answer


async def test_whoever_kept_a_checkpoint_sees_an_older_data_directory(client, beacon, tmp_path):
    """Log and mark are both of an older day, so the service cannot know; what it goes on with is another history."""
    async with beacon.serving() as host:
        await seal(host, 20)
    shutil.copytree(beacon.folder, tmp_path / "older")
    async with beacon.serving() as host:
        await seal(host, 10)
        kept = head((await host.get("/log/checkpoint")).decode())
        assert "refused" not in (await client.read(beacon.vkey, f"{host.url}/log", old=kept))[0]
    shutil.copyfile(beacon.folder / "log.mark", tmp_path / "newest.mark")
    async with beacon.serving(tmp_path / "older") as host:
        [shorter] = await client.read(beacon.vkey, f"{host.url}/log", old=kept)
        assert shorter == {"refused": "ValueError: consistency: the log is shorter than it was"}
        await seal(host, 30)
        forked, alone = [(await client.read(beacon.vkey, f"{host.url}/log", old=old))[0] for old in (kept, None)]
    assert "refused" not in alone
    assert "onsisten" in forked["refused"]
    # With the newest mark beside it, the older log is not served at all.
    shutil.copyfile(tmp_path / "newest.mark", tmp_path / "older" / "log.mark")
    code, _, errors = await run("beacon", "serve", "--dir", tmp_path / "older")
    assert (code, "another history" in errors) == (1, True), errors


def test_each_client_is_pinned():
    for name in PYTHON:
        lines = (SOURCE / f"{name}.txt").read_text().split()
        assert any(line.startswith(f"{name}==") for line in lines)
        assert all(line.count("==") == 1 for line in lines)
    assert find("3.11") is not None
    assert find(f"{sys.version_info.major}.99") is None
