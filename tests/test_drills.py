"""Drills: what is lost, what is put back, what the service does then. A player and an auditor look on through all of it."""

import asyncio
import json
import shutil

import pytest
from click.testing import CliRunner

from beacon.backup import databases, lost, manifest, restoring
from beacon.cli import main as beacon
from beacon.keys import master
from beacon.settings import ConfigurationError, load_settings
from beacon.store.errors import LogBehind
from tests.drill_support import FIRST, Onlookers, carries_on, live_a_day, lose, refusal
from tests.process_support import run
from tests.round_support import FakeClock
from tests.world_support import add_hosts, running


@pytest.fixture
def folder(tmp_path):
    return FIRST.copy(tmp_path / "world")


@pytest.fixture
def onlookers(folder):
    return Onlookers(folder)


# --- an older copy ---------------------------------------------------------------------------------------------------


async def test_last_nights_backup_with_newer_witnesses(folder, onlookers):
    """Refused at every step, each with what to do; a newer copy is taken; else the log has ended."""
    backup, keys, mark = await live_a_day(folder, onlookers)
    newest = shutil.move(folder / "data", folder / "old-disk")
    with pytest.raises(LogBehind, match="Look for a newer copy") as error:
        restoring.restore(backup, folder / "data", keys=keys, mark=mark)
    assert "this log has ended: publish it as it is, and begin another one, under another origin" in str(error.value)
    assert not (folder / "data").exists()

    restoring.restore(backup, folder / "data", keys=keys)
    unmarked = await refusal(folder)
    assert isinstance(unmarked, LogBehind)
    assert "log.mark is missing" in str(unmarked)
    done = CliRunner().invoke(beacon, ["log", "mark", "--dir", str(folder / "data")])
    assert done.exit_code == 0
    older = await refusal(folder)
    assert isinstance(older, LogBehind)
    assert "has seen size" in str(older)
    assert "Put the newest log.db back" in str(older)
    shutil.copy(mark, folder / "data" / "log.mark")
    assert "was acknowledged" in str(await refusal(folder, witnesses=()))

    for name in ("log.db", "log.db-wal"):
        if (newest / name).exists():
            shutil.copy(newest / name, folder / "data" / name)
    await carries_on(folder, onlookers)


async def test_a_log_that_has_ended_is_published_as_it_is(folder, onlookers):
    backup, keys, _ = await live_a_day(folder, onlookers)
    shutil.rmtree(folder / "data")
    restoring.restore(backup, folder / "data", keys=keys)
    static = folder / "static"
    code, output, errors = await run("beacon", "log", "export", static, "--dir", folder / "data")
    assert code == 0, output + errors
    assert (static / "checkpoint").read_text().splitlines()[1] == str(manifest.read(backup).size)
    settings = load_settings(folder / "data")
    assert databases.look_over(settings.log_db, settings.private_db, FIRST.log_key).missing == 0


async def test_without_any_witness_the_mark_is_what_refuses(folder, onlookers):
    config = folder / "data" / "beacon.toml"
    config.write_text(config.read_text().replace('policy = "witnesses.policy"', "# no policy"))
    backup, keys, mark = await live_a_day_alone(folder, onlookers)
    shutil.copytree(folder / "data", folder / "newest")
    lose(folder, "log.db")
    shutil.copy(backup / "log.db", folder / "data" / "log.db")
    behind = await refusal(folder)
    assert isinstance(behind, LogBehind)
    assert "this is an older copy" in str(behind)
    shutil.rmtree(folder / "data")
    with pytest.raises(LogBehind):
        restoring.restore(backup, folder / "data", keys=keys, mark=mark)
    shutil.move(folder / "newest", folder / "data")
    await carries_on(folder, onlookers)


async def live_a_day_alone(folder, onlookers):
    onlookers.policy.write_text(f"log {FIRST.log_key}\nquorum none\n")
    return await live_a_day(folder, onlookers)


async def test_from_a_replica_it_carries_on(folder, onlookers):
    """A replica has both databases as they were at the last write before the machine was gone; log.mark is on no replica."""
    async with running(folder, FIRST.clock()) as world:
        await onlookers.play(world)
        await world.get(f"/v1/sessions/{await onlookers.play(world)}/transcript?wait=10")
        replica = folder / "replica"
        replica.mkdir()
        for name in ("log.db", "private.db"):
            databases.copy(folder / "data" / name, replica / name, manifest.no_progress)
    lose(folder, "log.db", "private.db", "log.mark")
    for path in replica.iterdir():
        shutil.copy(path, folder / "data" / path.name)
    assert "log.mark is missing" in str(await refusal(folder))
    code, output, errors = await run("beacon", "log", "mark", "--dir", folder / "data")
    assert code == 0, output + errors
    await carries_on(folder, onlookers)


# --- one of the two --------------------------------------------------------------------------------------------------


async def test_log_db_lost_and_private_db_kept(folder, onlookers):
    backup, _, _ = await live_a_day(folder, onlookers)
    newest = folder / "newest.db"
    databases.copy(folder / "data" / "log.db", newest, manifest.no_progress)
    lose(folder, "log.db")
    gone = await refusal(folder)
    assert "Restore it; it is never made anew" in str(gone)
    shutil.copy(backup / "log.db", folder / "data" / "log.db")
    assert "was acknowledged" in str(await refusal(folder))
    shutil.copy(newest, folder / "data" / "log.db")
    await carries_on(folder, onlookers)


async def test_private_db_lost_and_log_db_kept(folder, onlookers):
    """New sessions at once, for hosts with new tokens; those that were open end by their timelocks, or are given up."""
    await live_a_day(folder, onlookers)
    settings = load_settings(folder / "data")
    with pytest.raises(ConfigurationError, match="is there"):
        lost.new_private(settings)
    lose(folder, "private.db")
    assert "it is never made anew" in str(await refusal(folder))
    done = CliRunner().invoke(beacon, ["lost", "private-db", "--dir", str(folder / "data")])
    assert done.exit_code == 0, done.output
    assert "open sessions are without their seeds" in done.output
    async with running(folder, FIRST.clock(120_000)) as world:
        old = world.host("alice")
        refused = await old.post("/v1/sessions", {}, expect=401)
        assert refused["code"] == "unauthorized"
        await asyncio.to_thread(add_hosts, folder, "alice")
        session = await onlookers.play(world)
        numbers = [json.loads(receipt["events"][0]["entry"]).get("host_seq") for receipt in onlookers.receipts]
        known = [number for number in numbers if number is not None]
        assert known == sorted(set(known)), "numbers go on from the log"
        await world.reach(session, "anchored")
        await without_their_seeds(world)
        assert (await world.reach(session, "revealed"))["seed"] is not None
        assert await onlookers.contradicted(world) == []
    code, output, errors = await run("beacon", "log", "check", "--dir", folder / "data", "--no-rounds")
    assert code == 0, output + errors


async def without_their_seeds(world):
    """A session that was open when the seeds were lost is revealed by its timelock."""
    locked = FIRST.sessions["open-anchored"]
    refused = await world.host("alice").post(f"/v1/sessions/{locked}/draws", {"recipe": "turn"}, expect=503)
    assert refused["code"] == "seed-unavailable"
    shown = await world.view(locked)
    await world.leap_to(shown["reveal_by"] + 1_000)
    assert (await world.view(locked))["state"] in {"anchored", "drawing"}, "it waits for its timelock"
    await world.leap_to(shown["timelock"]["round_time"] + 1_000)
    ended = await world.reach(locked, "revealed")
    assert ended["seed"] is not None
    await world.reach(FIRST.sessions["open-sealed"], "void")


async def test_an_older_private_db_with_the_newest_log(folder, onlookers):
    """Better than none: it has the hosts, and the seeds of what was sealed before."""
    backup, _, _ = await live_a_day(folder, onlookers)
    lose(folder, "private.db")
    shutil.copy(backup / "private.db", folder / "data" / "private.db")
    async with running(folder, FIRST.clock(120_000)) as world:
        await onlookers.play(world)
        shown = await world.host("alice").post(f"/v1/sessions/{FIRST.sessions['open-anchored']}/reveal")
        assert shown["state"] == "revealed"
        assert await onlookers.contradicted(world) == []


async def test_the_master_key_is_lost(folder, onlookers):
    await live_a_day(folder, onlookers)
    settings = load_settings(folder / "data")
    with pytest.raises(ConfigurationError, match="nothing is lost"):
        lost.new_master(settings)
    lose(folder, "master.key")
    assert "master.key" in str(await refusal(folder))
    done = CliRunner().invoke(beacon, ["lost", "master-key", "--dir", str(folder / "data"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["webhooks"] == 1
    async with running(folder, FIRST.clock(120_000)) as world:
        session = await onlookers.play(world)
        await world.reach(session, "anchored")
        await without_their_seeds(world)
        assert (await world.reach(session, "revealed"))["seed"] is not None
        assert await onlookers.contradicted(world) == []
    rotated = master.rotate(settings, FakeClock(1_700_000_000_000))
    assert rotated.encrypted == 2, "the check text and the new session's seed; what was lost stays empty"
    async with running(folder, FIRST.clock(400_000_000)) as world:
        await onlookers.play(world)
