"""A witness and a witness's client that others wrote, as published and unmodified: `aics-witness` from PyPI, pinned.

It cosigns the log of a real service, and its client has our witness cosign a log of its own. It needs Python 3.12; where
such a Python is missing this says so, as tests/test_tlog_clients.py does, which reads the tiles. What needs no such Python
is a reader of our cosigned checkpoint, tlog-scales.
"""

import asyncio
import contextlib
import json
import re
import shutil

import pytest

from tests.process_support import run, serving
from tests.test_witnesses_processes import Beacon, checkpoint, cosigned, relay, seal, size_of
from tests.tlog_clients.environments import NEWER, SOURCE, Client, installed, python_for
from verifier.note import SigningKey, VerifierKey, open_note

__all__ = ["relay"]
WITNESS = "aics-witness"
AICS = "aics.example/w1"


@pytest.fixture
def aics(request):
    what = "cosign our log, and have our witness cosign its own"
    folder = request.config.cache.mkdir("tlog-clients")
    return Client(WITNESS, installed(folder, WITNESS, python_for(WITNESS, NEWER, what), what))


@contextlib.asynccontextmanager
async def aics_serving(aics, config, listen):
    """The foreign witness in a process: the process, and the URL that it names once it listens."""
    process = await asyncio.create_subprocess_exec(
        aics.environment / "bin" / WITNESS, "serve", "--config", config, "--listen", listen,
        env=aics.surroundings(), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        found = None
        async with asyncio.timeout(60):
            while found is None:
                line = await process.stderr.readline()
                assert line, "the foreign witness ended before it listened"
                found = re.search(rb"listening on (http://\S+)", line)
        reading = asyncio.create_task(process.stderr.read())
        yield process, found[1].decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        await reading


class Foreign(Beacon):
    """A beacon whose witnesses are one of ours and the foreign one."""

    async def prepare_with(self, aics):
        await self.prepare()
        del self.keys["west"]
        self.aics, self.config = aics, self.folder / "witness.json"
        code, output, errors = await aics.call(WITNESS, "init", "--config", self.config, "--name", AICS)
        assert code == 0, errors
        self.keys["aics"] = VerifierKey.parse(output.decode().strip())
        added = ("add-log", "--config", self.config, "--origin", VerifierKey.parse(self.vkey).name, "--vkey", self.vkey)
        code, _, errors = await aics.call(WITNESS, *added)
        assert code == 0, errors

    def write_policy(self):
        super().write_policy()
        file = self.data / "w.policy"
        file.write_text(file.read_text().replace("east west", "east aics"))

    @contextlib.asynccontextmanager
    async def both(self):
        async with self.witness("east") as ours:
            self.ports["east"] = ours.url.rsplit(":", 1)[1]
            async with self.foreign() as process:
                self.write_policy()
                yield process

    @contextlib.asynccontextmanager
    async def foreign(self):
        listen = f"127.0.0.1:{self.ports.get('aics', 0)}"
        async with aics_serving(self.aics, self.config, listen) as (process, url):
            self.ports["aics"] = url.rsplit(":", 1)[1]
            yield process

    async def evidence(self):
        code, output, errors = await self.aics.call(WITNESS, "status", "--config", self.config, "--json")
        assert code == 0, errors
        return json.loads(output)


@pytest.fixture
async def beacon(tmp_path, relay, aics):
    made = Foreign(tmp_path, relay)
    await made.prepare_with(aics)
    return made


async def test_a_foreign_witness_cosigns_our_log(beacon, tmp_path):
    async with beacon.both() as process, beacon.serving() as host:
        for count in (1, 3, 40):
            await seal(host, count)
            for key in beacon.keys.values():
                assert await cosigned(host, key) == size_of(await checkpoint(host))
        process.kill()
        await process.wait()
        session = await seal(host, 5)
        await cosigned(host, beacon.keys["east"])
        async with beacon.foreign():
            await cosigned(host, beacon.keys["aics"])
            document = json.loads(await host.get(f"/v1/sessions/{session}/transcript?wait=20"))
            keys = [VerifierKey.parse(beacon.vkey), *beacon.keys.values()]
            assert len(open_note(document["checkpoint"], keys).verified) == 3
            # its own reader takes our published checkpoint, cosigned by both
            note = tmp_path / "note"
            note.write_text(await checkpoint(host, "witnessed"))
            asked = ["verify-checkpoint", "--note", note, "--log-key", beacon.vkey, "--quorum", 2]
            asked += [word for key in beacon.keys.values() for word in ("--witness-key", key)]
            code, output, errors = await beacon.aics.call("aics-tlog", *asked)
            assert (code, json.loads(output)["ok"]) == (0, True), (output, errors)
            assert sorted(json.loads(output)["witnesses"]) == sorted([AICS, "east.example"])
    code, output, _ = await run("beacon", "log", "check", "--dir", beacon.data, "--json")
    assert (code, json.loads(output)["findings"]) == (0, [])


async def test_a_foreign_witness_stops_a_restored_backup(beacon):
    async with beacon.both():
        async with beacon.serving() as host:
            await seal(host, 2)
            await cosigned(host, beacon.keys["aics"])
        shutil.copytree(beacon.data, beacon.folder / "backup")
        async with beacon.serving() as host:
            await seal(host, 2)
            newest = await cosigned(host, beacon.keys["aics"])
        file = beacon.folder / "backup" / "w.policy"
        line = next(line for line in file.read_text().splitlines(keepends=True) if line.startswith("witness aics"))
        file.write_text(f"{line}quorum aics\n")
        code, _, errors = await run("beacon", "serve", "--dir", beacon.folder / "backup")
        assert (code, f"the witness aics has seen size {newest}" in errors) == (1, True), errors
        file.write_text("quorum none\n")
        config = beacon.folder / "backup" / "beacon.toml"
        kept = config.read_text()
        config.write_text(kept.replace('policy = "w.policy"', ""))
        async with beacon.serving(beacon.folder / "backup") as host:
            await seal(host, 2)
            assert size_of(await checkpoint(host)) == newest
        config.write_text(kept)
        file.write_text(f"{line}quorum aics\n")
        code, _, errors = await run("beacon", "serve", "--dir", beacon.folder / "backup")
        assert (code, "has seen another history" in errors) == (1, True), errors
    assert "evidence" in json.dumps(await beacon.evidence())


async def test_a_foreign_client_has_our_witness_cosign_its_log(aics, tmp_path):
    origin, seed = "foreign.example/log", b"\x21" * 32
    key, folder = SigningKey(seed, origin).vkey, tmp_path / "w"
    code, output, errors = await run("beacon", "witness", "init", folder, "--name", "ours.example", "--log", key)
    assert code == 0, errors
    job = {"vkey": output.strip(), "seed": seed.hex(), "origin": origin, "branch": "", "common": 0}
    async with serving("beacon", "witness", "serve", "--dir", folder, "--port", 0) as server:

        async def feed(**more):
            (found,) = await aics.script("feed_aics_witness.py", [job | {"url": server.url} | more])
            return found

        sizes = [1, 2, 3, 7, 8, 64, 65, 300]
        first = await feed(sizes=sizes)
        assert (first["refused"], [size for size, _ in first["taken"]]) == (None, sizes)
        # a new client begins without memory, learns the size from a 409, and goes on
        again = await feed(sizes=[300, 301, 700])
        assert (again["refused"], [size for size, _ in again["taken"]]) == (None, [300, 301, 700])
        forked = await feed(sizes=[700], branch="x", common=600)
        assert forked["taken"] == []
        assert forked["refused"].startswith("WitnessRejected: witness answered 422")
        larger = await feed(sizes=[900], branch="x", common=600)
        assert larger["refused"].startswith("WitnessRejected: witness answered 422")
        behind = await feed(sizes=[650])
        assert behind["refused"].startswith("WitnessAhead")
        stranger = await feed(sizes=[701], origin="other.example/log")
        assert stranger["refused"].startswith("WitnessRejected: witness answered 404")
        wrong_key = await feed(sizes=[701], seed="22" * 32)
        assert wrong_key["refused"].startswith("WitnessRejected: witness answered 403")
    code, output, _ = await run("beacon", "witness", "list", "--dir", folder, "--json")
    assert [(log["size"], log["forks"]) for log in json.loads(output)["logs"]] == [(700, 2)]


async def test_a_foreign_reader_takes_a_checkpoint_with_cosignatures(request, tmp_path, relay):
    """tlog-scales knows nothing of our witnesses, and reads the log as before."""
    what, folder = "read the cosigned log", request.config.cache.mkdir("tlog-clients")
    client = Client("tlog-scales", installed(folder, "tlog-scales", python_for("tlog-scales", "3.11", what), what))
    beacon = Beacon(tmp_path, relay)
    await beacon.prepare()
    async with beacon.witnesses(), beacon.serving() as host:
        await seal(host, 20)
        for key in beacon.keys.values():
            newest = await cosigned(host, key)
        [read] = await client.read(beacon.vkey, f"{host.url}/log")
    assert read.get("refused") is None
    assert read["size"] == newest


def test_the_foreign_witness_is_pinned():
    lines = (SOURCE / f"{WITNESS}.txt").read_text().split()
    assert any(line.startswith(f"{WITNESS}==") for line in lines)
    assert all(line.count("==") == 1 for line in lines)
