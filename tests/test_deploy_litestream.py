"""deploy/litestream.yml with the real Litestream beside the real service: what comes back is the log, and it goes on."""

import asyncio
import json
import os
import re
import shutil

import pytest
import yaml

from beacon.store.schema import BUSY_SECONDS, WAL_CHECKPOINT_PAGES
from tests.deploy_support import DEPLOY
from tests.outside_tools import need_litestream
from tests.process_support import add_host, api, run, serving

CONFIG = DEPLOY / "litestream.yml"
DATABASES = ("log.db", "private.db")


def test_both_databases_are_replicated_each_to_a_place_of_its_own():
    found = yaml.safe_load(CONFIG.read_text())
    assert [database["path"] for database in found["dbs"]] == [f"/var/lib/beacon/{name}" for name in DATABASES]
    places = [database["replica"]["url"] for database in found["dbs"]]
    assert len(set(places)) == len(places)
    assert all(place.startswith("${REPLICA_URL}/") for place in places)
    assert "REPLICA_URL=" in (DEPLOY / "litestream.env").read_text()
    assert f"each {WAL_CHECKPOINT_PAGES:,} pages" in CONFIG.read_text()
    assert f"({BUSY_SECONDS:.0f} s at the most)" in CONFIG.read_text()


class Replication:
    """Litestream on a data directory, with the real configuration but for the directory."""

    def __init__(self, folder, data):
        self.program, self.file, self.data = need_litestream(), folder / "litestream.yml", data
        self.file.write_text(CONFIG.read_text().replace("/var/lib/beacon", str(data)))
        self.environment = os.environ | {"REPLICA_URL": f"file://{folder}/replica"}
        self.log = folder / "litestream.log"

    async def start(self):
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                self.program, "replicate", "-config", self.file, stdout=log, stderr=log, env=self.environment
            )

    async def restore(self, name, target):
        process = await asyncio.create_subprocess_exec(
            self.program, "restore", "-config", self.file, "-o", target, self.data / name,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=self.environment,
        )  # fmt: skip
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode() + self.log.read_text()


async def size_in(file, vkey):
    code, output, errors = await run(
        "beacon", "log", "check", "--file", file, "--log-key", vkey, "--no-rounds", "--json"
    )
    found = json.loads(output)
    assert (code, found["ok"]) == (0, True), output + errors
    return found["size"]


async def size_of(host):
    return int((await host.get("/log/checkpoint")).split(b"\n")[1])


@pytest.fixture
async def data(tmp_path):
    folder, chain = tmp_path / "data", tmp_path / "chain.json"
    async with serving("beacon", "devnet", "--port", 0, "--period", 1, "--out", chain) as devnet:
        words = ("--origin", "localhost/x", "--chain-file", chain, "--relay", devnet.url)
        code, _, errors = await run("beacon", "init", folder, *words)
        assert code == 0, errors
        config = folder / "beacon.toml"
        config.write_text(re.sub(r"(?m)^port = \d+$", "port = 0", config.read_text()))
        yield folder


ONE = {"recipes": {"d": {"kind": "dice", "count": 1, "sides": 6}}, "profile": "live", "participants": []}


async def test_a_replica_made_under_load_is_the_log_and_the_service_goes_on_from_it(data, tmp_path):
    token = await add_host(data, "alice", "--sandbox")
    replication = Replication(tmp_path, data)
    litestream = await replication.start()
    try:
        async with serving("beacon", "serve", "--dir", data) as server, api(server, token) as host:
            await host.ready()
            for _ in range(20):
                await host.post("/v1/batch/seals", {"sessions": [ONE] * 100})
            sealed = await size_of(host)
            restored = tmp_path / "restored"
            restored.mkdir()

            async def whole():
                shutil.rmtree(restored)
                restored.mkdir()
                if not (tmp_path / "replica" / "log").exists():
                    return False
                await replication.restore("log.db", restored / "log.db")
                return await size_in(restored / "log.db", data / "log.vkey") >= sealed

            await host.until(whole)
            assert await server.stop() == 0
        size = await size_in(data / "log.db", data / "log.vkey")
        for _ in range(100):
            for name in DATABASES:
                (restored / name).unlink(missing_ok=True)
                await replication.restore(name, restored / name)
            if await size_in(restored / "log.db", data / "log.vkey") == size:
                break
        else:
            pytest.fail("the replica never had what was written last")
    finally:
        litestream.terminate()
        await litestream.wait()
    code, output, errors = await run("beacon", "log", "check", "--dir", data)
    assert code == 0, output + errors
    for name in DATABASES:
        for left in data.glob(f"{name}*"):
            left.unlink()
        shutil.copy(restored / name, data / name)
        (data / name).chmod(0o600)
    async with serving("beacon", "serve", "--dir", data) as server, api(server, token) as host:
        await host.ready()
        await host.post("/v1/sessions", ONE)
        assert await size_of(host) > size


async def test_a_replica_that_lacks_what_was_acknowledged_is_refused(data, tmp_path):
    token = await add_host(data, "alice", "--sandbox")
    replication = Replication(tmp_path, data)
    async with serving("beacon", "serve", "--dir", data) as server, api(server, token) as host:
        await host.ready()
        await host.post("/v1/sessions", ONE)
        litestream = await replication.start()

        async def replicated():
            return any((tmp_path / "replica" / "log").rglob("*.ltx"))

        await host.until(replicated)
        litestream.kill()
        await litestream.wait()
        for _ in range(3):
            await host.post("/v1/sessions", ONE)
        await server.stop()
    await replication.restore("log.db", tmp_path / "older.db")
    for left in data.glob("log.db*"):
        left.unlink()
    shutil.copy(tmp_path / "older.db", data / "log.db")
    (data / "log.db").chmod(0o600)
    code, _, errors = await run("beacon", "serve", "--dir", data)
    assert (code, "was acknowledged" in errors) == (1, True), errors
