"""What drills need: a data directory to lose, and a player and an auditor who look on through all of it."""

import asyncio
import json
import shutil
from contextlib import closing

import pytest

from beacon.backup import making
from beacon.settings import ConfigurationError, load_settings
from beacon.store.errors import StoreError
from beacon.store.schema import open_readonly
from tests.process_support import run
from tests.release_support import RELEASES
from tests.round_support import FakeClock
from tests.world_support import running
from verifier.merkle import leaf_hash
from verifier.receipts import Found, compare

FIRST = RELEASES[0]


class Onlookers:
    """A player with every receipt, and an auditor who comes back to the log."""

    def __init__(self, folder):
        self.folder = folder
        self.receipts = []
        self.policy = folder / "trusted.policy"
        self.policy.write_text(FIRST.policy)

    async def play(self, world, name="alice"):
        """A session more; gives its id."""
        host = world.host(name)
        sealed = await host.seal(participants=[{"id": "white"}], timelock=False)
        path = f"/v1/sessions/{sealed['session']}/contributions"
        for answer in (sealed, await host.post(path, {"participant": "white", "entropy": sealed["session"]})):
            self.receipts += answer.get("receipts") or [answer["receipt"]]
        return sealed["session"]

    async def contradicted(self, world):
        """What the log shows now against what it said before: receipts that are not in it, and what the audit finds."""
        found = []
        for receipt in self.receipts:
            session = receipt["events"][0]["entry"]
            named = json.loads(session).get("session") or _leaf(session)
            async with world.client.get(f"/v1/sessions/{named}/transcript") as answer:
                document = await answer.read()
                if answer.status != 200:
                    found.append(f"the service knows no session {named}")
                    continue
            said = compare(json.dumps(receipt).encode(), document, FIRST.log_key)
            if said.found != Found.PRESENT or said.exit:
                found.append(f"a receipt is {said.found}")
        return found + [one for one in await self.audit(world) if "was never revealed" not in one]

    async def audit(self, world):
        """The audit's findings, now or before."""
        data = self.folder / "data"
        command = ["audit", str(world.client.make_url("")).rstrip("/"), "--log-key", str(data / "log.vkey")]
        command += ["--chain", str(data / "chain-devnet.json"), "--chain", "quicknet", "--policy", str(self.policy)]
        command += ["--state", str(self.folder / "audit"), "--jobs", "1", "--json"]
        code, output, errors = await run("verifier", *command)
        assert code in {0, 1}, output + errors
        lines = [json.loads(line) for line in output.splitlines()]
        with closing(open_readonly(self.folder / "audit" / "audit.db")) as db:
            kept = [row[0] for row in db.execute("SELECT text FROM findings WHERE grave").fetchall()]
        return kept + [one["failed"] for one in lines if one.get("failed")]


def _leaf(entry):
    return leaf_hash(entry.encode()).hex()


def back_up(folder, name):
    data = folder / "data"
    return making.make(load_settings(data), data / "beacon.toml", folder / name, FakeClock(1_700_000_000_000)).folder


async def live_a_day(folder, onlookers):
    """A backup in the middle of it; more after that, all of it witnessed. Gives (backup, keys, newest log.mark)."""
    async with running(folder, FIRST.clock()) as world:
        await onlookers.play(world)
        backup = await asyncio.to_thread(back_up, folder, "backups")
        await onlookers.play(world)
        await world.get(f"/v1/sessions/{await onlookers.play(world)}/transcript?wait=10")
        assert await onlookers.contradicted(world) == []
    keys = folder / "keys"
    keys.mkdir()
    for name in ("log.key", "master.key"):
        shutil.copy(folder / "data" / name, keys / name)
    return backup, keys, shutil.copy(folder / "data" / "log.mark", folder / "kept.mark")


def lose(folder, *names):
    for name in names:
        for path in (folder / "data").glob(f"{name}*"):
            path.unlink()


async def refusal(folder, **options):
    """Why the service does not start on the folder; its log stays as it is."""
    path = folder / "data" / "log.db"
    before = path.read_bytes() if path.exists() else None
    with pytest.raises((StoreError, ConfigurationError)) as error:
        async with running(folder, FIRST.clock(120_000), **options):
            pass
    if before is not None:
        assert entries(path) == entries_in(before, folder)
    return error.value


def entries(path):
    with closing(open_readonly(path)) as db:
        return db.execute("SELECT max(size) FROM checkpoints").fetchone()[0]


def entries_in(data, folder):
    copy = folder / "as-it-was.db"
    copy.write_bytes(data)
    try:
        return entries(copy)
    finally:
        copy.unlink()


async def carries_on(folder, onlookers, **options):
    """It starts, plays on, and nothing is contradicted."""
    async with running(folder, FIRST.clock(120_000), **options) as world:
        await onlookers.play(world)
        assert await onlookers.contradicted(world) == []
    code, output, errors = await run("beacon", "log", "check", "--dir", folder / "data", "--no-rounds")
    assert code == 0, output + errors
