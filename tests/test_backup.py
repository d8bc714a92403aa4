"""Backups: of one moment though the service writes, whole or not there; and back again, never over anything."""

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner

from beacon.backup import making, manifest, restoring
from beacon.backup.manifest import BackupRefused
from beacon.cli import main
from beacon.keys.master import owns, rotate
from beacon.settings import ConfigurationError, load_settings, read_key
from beacon.store.errors import LogBehind, WriteFailed
from beacon.store.schema import open_readonly
from tests.process_support import ROOT, run
from tests.release_support import RELEASES
from tests.round_support import FakeClock
from tests.world_support import running
from verifier.entries import Seal, parse_entry

FIRST = RELEASES[0]
MOMENT = 1_700_000_000_000
NAME = "20231114T221320Z"


@pytest.fixture
def folder(tmp_path):
    return FIRST.copy(tmp_path / "world")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "backups"


def make(folder, target, moment=MOMENT, **options):
    data = folder / "data"
    return making.make(load_settings(data), data / "beacon.toml", target, FakeClock(moment), **options)


def seals_without_seed(backup):
    """(how many seals, how many of them without a seed) of the pair in a backup; all in the beacon's custody."""
    with closing(open_readonly(backup / "log.db")) as db:
        entries = [parse_entry(row[0]) for row in db.execute("SELECT entry FROM entries").fetchall()]
    with closing(open_readonly(backup / "private.db")) as db:
        kept = {row[0] for row in db.execute("SELECT commitment FROM seeds").fetchall()}
    seals = [entry for entry in entries if isinstance(entry, Seal) and entry.custody == "beacon"]
    return len(seals), sum(seal.commitment not in kept for seal in seals)


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_in(target):
    return sorted(path.name for path in target.iterdir())


# --- made beside the service -----------------------------------------------------------------------------------------


async def test_under_load_every_seal_of_the_copy_has_its_seed_in_the_copy(folder, target):
    async with running(folder, FIRST.clock()) as world:
        host, going, sealed = world.host("alice"), True, 0

        async def load():
            nonlocal sealed
            while going:
                await host.seal(participants=[], close_at=None, timelock=False)
                sealed += 1

        hosts = [asyncio.create_task(load()) for _ in range(6)]
        sizes = []
        for turn in range(6):
            before = sealed
            made = await asyncio.to_thread(make, folder, target, MOMENT + 1_000 * turn)
            seals, lost = seals_without_seed(made.folder)
            assert (lost, made.manifest.seeds_missing) == (0, 0)
            assert seals >= before
            assert made.manifest.mark is not None
            assert made.manifest.mark <= made.manifest.size
            assert made.manifest.open_sessions > 0
            sizes.append(made.manifest.size)
        going = False
        await asyncio.gather(*hosts)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    assert left_in(target) == [*(f"20231114T22132{turn}Z" for turn in range(6)), "backup.lock"]


async def test_what_is_sealed_between_the_two_copies_is_in_neither_or_whole(folder, target):
    """Were private.db copied first, this seal would be in the backup without its seed."""
    async with running(folder, FIRST.clock()) as world:
        host, loop, sealed = world.host("alice"), asyncio.get_running_loop(), []

        def between(what, done, total):
            if done == total and not sealed:
                sealing = host.seal(participants=[], close_at=None)
                sealed.append(asyncio.run_coroutine_threadsafe(sealing, loop).result(30))

        made = await asyncio.to_thread(make, folder, target, progress=between)
    assert sealed
    assert made.manifest.seeds_missing == 0
    assert seals_without_seed(made.folder)[1] == 0


async def test_a_backup_is_a_data_directory_that_runs(folder, target, tmp_path):
    async with running(folder, FIRST.clock()) as world:
        await world.host("alice").seal(participants=[], close_at=None)
    made = make(folder, target, keys=True)
    again = shutil.copytree(folder, tmp_path / "again", ignore=shutil.ignore_patterns("data"))
    done = restoring.restore(made.folder, again / "data", mark=folder / "data" / "log.mark")
    assert (done.missing, done.marked, done.elsewhere) == ((), True, None)
    async with running(again, FIRST.clock(90_000)) as world:
        anchored = FIRST.sessions["open-anchored"]
        assert (await world.host("alice").post(f"/v1/sessions/{anchored}/reveal"))["state"] == "revealed"
    code, output, errors = await run("beacon", "log", "check", "--dir", again / "data")
    assert code == 0, output + errors


# --- what it is ------------------------------------------------------------------------------------------------------


def test_what_a_backup_holds(folder, target):
    made = make(folder, target)
    assert made.folder == target / NAME
    names = {"beacon.toml", "chain-devnet.json", "log.db", "log.vkey", "private.db", "witnesses.policy"}
    assert {path.name for path in made.folder.iterdir()} == names | {"manifest.json"}
    found = manifest.read(made.folder)
    assert found == made.manifest
    assert {one.name for one in found.files} == names
    manifest.check_files(made.folder, found, manifest.no_progress)
    assert (found.made, found.origin, found.log_key) == (MOMENT, "beacon.example/release", str(FIRST.log_key))
    assert found.checkpoint.splitlines()[1] == str(found.size) == str(found.mark)
    assert [one.size for one in found.witnesses] == [found.size] * 2
    assert (found.open_sessions, found.seeds_missing, found.keys) == (3, 0, False)
    assert found.master_key is not None
    secrets = {(folder / "data" / name).read_text().strip() for name in ("log.key", "master.key")}
    assert not [name for name, data in tree(target).items() for secret in secrets if secret.encode() in data]
    for name in ("private.db", "beacon.toml", "manifest.json"):
        assert (made.folder / name).stat().st_mode & 0o777 == 0o600
    assert target.stat().st_mode & 0o777 == made.folder.stat().st_mode & 0o777 == 0o700


def test_with_keys_and_without_what_is_elsewhere(folder, target, tmp_path):
    data = folder / "data"
    (data / "witnesses.policy").rename(tmp_path / "witnesses.policy")
    config = data / "beacon.toml"
    config.write_text(config.read_text().replace('"witnesses.policy"', f'"{tmp_path}/witnesses.policy"'))
    made = make(folder, target, keys=True)
    assert made.left_out == (tmp_path / "witnesses.policy",)
    for name in ("log.key", "master.key"):
        assert (made.folder / name).read_text() == (data / name).read_text()
        assert (made.folder / name).stat().st_mode & 0o777 == 0o600
    assert made.manifest.keys


def test_a_backup_is_never_overwritten(folder, target):
    make(folder, target)
    before = tree(target)
    with pytest.raises(BackupRefused, match="exists already"):
        make(folder, target)
    assert tree(target) == before


def test_so_many_of_this_log_are_kept(folder, target, tmp_path):
    other = make(folder, target, MOMENT - 5_000).folder
    found = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(found | {"log_key": "another log's"}))
    (target / "20200101T000000Z").mkdir()
    for turn in range(4):
        made = make(folder, target, MOMENT + 1_000 * turn, keep=2)
    assert made.removed == (target / "20231114T221321Z",)
    kept = ["20231114T221322Z", "20231114T221323Z"]
    assert left_in(target) == ["20200101T000000Z", other.name, *kept, "backup.lock"]


def test_the_one_just_made_stays_whatever_the_clock_says(folder, target):
    """A clock that was once fast made backups of the future: newer ones are not removed in their favour."""
    future = make(folder, target, MOMENT + 10**12, keep=1).folder
    for turn in range(2):
        made = make(folder, target, MOMENT + 1_000 * turn, keep=1)
        assert making.backups(target) == [made.folder]
        assert made.removed == ((future,) if turn == 0 else (target / NAME,))


@pytest.mark.parametrize("step", ["key-written", "committed", "kept-old", "in-force"])
def test_with_keys_in_the_midst_of_a_rotation(folder, target, tmp_path, step):
    """Cut off anywhere: the backup is put back, and the rotation goes on there."""
    data = folder / "data"
    asyncio.run(used(folder))

    def cut(name):
        if name == step:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        rotate(load_settings(data), FakeClock(MOMENT), cut)
    made = make(folder, target, keys=True)
    restoring.restore(made.folder, tmp_path / "restored", mark=data / "log.mark")
    settings = load_settings(tmp_path / "restored")
    rotate(settings, FakeClock(MOMENT))
    assert owns(settings.private_db, read_key(settings.master_key))


@pytest.mark.parametrize("copying", ["log.db", "private.db"])
def test_with_keys_while_the_master_key_is_changed_it_has_the_right_one_or_is_refused(
    folder, target, tmp_path, copying
):
    data, done = folder / "data", []
    asyncio.run(used(folder))

    def meanwhile(what, *_):
        if what == f"copying {copying}" and not done:
            done.append(rotate(load_settings(data), FakeClock(MOMENT)))

    if copying == "private.db":
        with pytest.raises(BackupRefused, match="run it again"):
            make(folder, target, keys=True, progress=meanwhile)
        assert left_in(target) == ["backup.lock"]
    else:
        made = make(folder, target, keys=True, progress=meanwhile)
        restoring.restore(made.folder, tmp_path / "restored")
        settings = load_settings(tmp_path / "restored")
        assert owns(settings.private_db, read_key(settings.master_key))
    assert done


async def used(folder):
    async with running(folder, FIRST.clock()) as world:
        await world.host("alice").seal(participants=[], close_at=None)


def test_a_place_in_the_data_directory_is_refused(folder):
    for place in (folder / "data", folder / "data" / "backups"):
        with pytest.raises(BackupRefused, match="in the data directory itself"):
            make(folder, place)
    assert not (folder / "data" / "backups").exists()


def test_one_at_a_time(folder, target):
    def meanwhile(*_):
        with pytest.raises(BackupRefused, match="another backup"):
            make(folder, target, MOMENT + 1_000)

    make(folder, target, progress=meanwhile)
    assert left_in(target) == [NAME, "backup.lock"]


def test_a_log_behind_its_mark_is_not_backed_up(folder, target, tmp_path):
    older = tmp_path / "older.db"
    shutil.copy(folder / "data" / "log.db", older)

    async def grow():
        async with running(folder, FIRST.clock()) as world:
            await world.host("alice").seal(participants=[], close_at=None)

    asyncio.run(grow())
    shutil.copy(older, folder / "data" / "log.db")
    with pytest.raises(LogBehind, match="were acknowledged"):
        make(folder, target)
    assert left_in(target) == ["backup.lock"]


# --- what goes wrong leaves nothing ----------------------------------------------------------------------------------


def test_too_little_room_is_seen_first(folder, target, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1 << 20))
    with pytest.raises(WriteFailed, match="MiB are needed, and 1 MiB are free"):
        make(folder, target)
    assert left_in(target) == ["backup.lock"]


@pytest.mark.parametrize("limit", [1, 20_000, 100_000, 170_000])
def test_a_disk_that_fills_up_leaves_nothing(folder, target, limit):
    done = subprocess.run(
        [sys.executable, "-m", "beacon", "backup", target, "--dir", folder / "data"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    expected = 0 if limit > 165_000 else 1
    assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr
    assert len(left_in(target)) == 1 + (expected == 0)


CHILD = """
import os, signal, sys
from pathlib import Path
from tests.test_backup import MOMENT, make
folder, target = Path(sys.argv[1]), Path(sys.argv[2])
passed = 0
def kill_at(number):
    def progress(*_):
        global passed
        passed += 1
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)
    return progress
make(folder, target, MOMENT, progress=kill_at(int(sys.argv[3])))
"""


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_backup_that_is_killed_is_none_and_the_next_one_is(folder, target, number):
    command = [sys.executable, "-c", CHILD, folder, target, str(number)]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert left_in(target) == [f".new-{NAME}", "backup.lock"]
    assert making.backups(target) == []
    made = make(folder, target)
    assert left_in(target) == [NAME, "backup.lock"]
    assert making.backups(target) == [made.folder]


# --- and back --------------------------------------------------------------------------------------------------------


@pytest.fixture
def backup(folder, target):
    return make(folder, target).folder


def test_a_directory_with_anything_in_it_is_refused_and_left_alone(backup, folder, tmp_path):
    before = tree(folder / "data")
    with pytest.raises(ConfigurationError, match="made once and never again"):
        restoring.restore(backup, folder / "data")
    assert tree(folder / "data") == before
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("x")
    with pytest.raises(ConfigurationError, match="no empty directory"):
        restoring.restore(backup, other)
    assert [path.name for path in other.iterdir()] == ["mine"]


@pytest.mark.parametrize("exists", [True, False])
def test_restored_into_an_empty_directory(backup, folder, tmp_path, exists):
    place = tmp_path / "volume"
    if exists:
        place.mkdir(mode=0o755)
    done = restoring.restore(backup, place, keys=folder / "data")
    assert (done.missing, done.marked) == ((), False)
    assert {name: data for name, data in tree(place).items() if not name.endswith(".key")} == {
        name: data for name, data in tree(backup).items() if name != "manifest.json"
    }
    for name in ("private.db", "log.key", "master.key", "beacon.toml"):
        assert (place / name).stat().st_mode & 0o777 == 0o600
    assert place.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backups", "volume", "world"]


@pytest.mark.parametrize("name", ["log.db", "private.db", "beacon.toml", "witnesses.policy", "log.vkey"])
def test_a_file_that_was_changed_or_lost_is_found(backup, tmp_path, name):
    whole = (backup / name).read_bytes()
    for change in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-1], whole + b"\0"):
        (backup / name).write_bytes(change)
        with pytest.raises(BackupRefused, match=f"{name} is not the file that was backed up"):
            restoring.restore(backup, tmp_path / "restored")
    (backup / name).unlink()
    with pytest.raises(BackupRefused, match=f"{name}: No such file"):
        restoring.restore(backup, tmp_path / "restored")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backups", "world"]


STATE = ("log.mark", "log.db-wal", "private.db-wal", "log.db-shm", "log.db-journal", "log.db.lock", "rounds-in/a.jsonl")


@pytest.mark.parametrize("name", ["log.db", "log.vkey", "manifest.json"])
@pytest.mark.parametrize("what", ["fifo", "device", "folder"])
def test_what_is_no_plain_file_is_refused_and_not_read(backup, tmp_path, name, what):
    """A pipe or /dev/zero never ends."""
    (backup / name).unlink()
    if what == "fifo":
        os.mkfifo(backup / name)
    elif what == "device":
        (backup / name).symlink_to("/dev/zero")
    else:
        (backup / name).mkdir()
    with pytest.raises(BackupRefused):
        restoring.restore(backup, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_what_changes_between_the_check_and_the_copy_is_found(backup, tmp_path):
    def change(what, *_):
        if what == "copying":
            (backup / "beacon.toml").write_bytes((backup / "beacon.toml").read_bytes() + b"# more\n")

    with pytest.raises(BackupRefused, match="was changed while it was copied"):
        restoring.restore(backup, tmp_path / "restored", progress=change)
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("backup/v1", "backup/v2"), "not a manifest that this version knows"),
        (lambda text: text.replace('"log.db"', '"../log.db"'), "not a manifest that this version knows"),
        (lambda text: text.replace('"log.db"', '"/etc/passwd"'), "not a manifest that this version knows"),
        (lambda text: text.replace('"size"', '"length"', 1), "not a manifest that this version knows"),
        (lambda text: text[:-9], "is no manifest"),
        (lambda _: "", "is no manifest"),
        (lambda text: text + " " * manifest.MAX_BYTES, "is no manifest"),
        (lambda text: text.replace(f'"made": {MOMENT}', '"made": 9007199254740991'), "made: .* is due|made: at most"),
        (lambda text: text.replace(f'"made": {MOMENT}', '"made": -1'), "made: at least 0"),
        (lambda text: text.replace('"log.vkey"', '"log.db"'), "a file stands there twice"),
        *((lambda text, name=name: text.replace('"log.vkey"', f'"{name}"'), "not a file that is") for name in STATE),
    ],
    ids=[
        "newer",
        "upwards",
        "absolute",
        "other field",
        "cut off",
        "empty",
        "long",
        "late",
        "early",
        "twice",
        *STATE,
    ],
)
def test_a_manifest_that_is_none(backup, tmp_path, change, message):
    path = backup / "manifest.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(BackupRefused, match=message):
        restoring.restore(backup, tmp_path / "restored")
    path.unlink()
    with pytest.raises(BackupRefused, match="is no backup"):
        restoring.restore(backup, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize("name", ["log.key", "master.key"])
def test_keys_that_are_another_services_are_refused(backup, folder, tmp_path, name):
    keys = tmp_path / "keys"
    keys.mkdir()
    for one in ("log.key", "master.key"):
        shutil.copy(folder / "data" / one, keys / one)
    (keys / name).write_text("ab" * 32 + "\n")
    with pytest.raises(ConfigurationError, match=r"is not the key|and the seeds are under|this log was signed"):
        restoring.restore(backup, tmp_path / "restored", keys=keys)
    (keys / name).unlink()
    with pytest.raises(ConfigurationError, match=f"{name} is missing"):
        restoring.restore(backup, tmp_path / "restored", keys=keys)
    assert not (tmp_path / "restored").exists()


def test_an_end_while_it_restores_leaves_nothing(backup, tmp_path):
    def full(*_):
        raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space left"):
        restoring.restore(backup, tmp_path / "restored", progress=full)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backups", "world"]


def test_the_commands(folder, target, tmp_path):
    runner, data = CliRunner(), str(folder / "data")
    done = runner.invoke(main, ["backup", str(target), "--dir", data])
    assert done.exit_code == 0, done.output
    assert "open sessions" in done.stdout
    assert "the keys are not in it" in done.stdout
    (folder_made,) = making.backups(target)
    done = runner.invoke(main, ["backup", str(target / "more"), "--dir", data, "--keep", "1", "--with-keys", "--json"])
    assert json.loads(done.stdout)["keys"] is True
    done = runner.invoke(main, ["restore", str(folder_made), str(tmp_path / "restored")])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("next: ") == 3
    done = runner.invoke(main, ["restore", str(folder_made), str(tmp_path / "restored"), "--json"])
    assert done.exit_code == 2
    assert "never again" in done.stderr
    more = str(making.backups(target / "more")[0])
    mark = ["--mark", str(folder / "data" / "log.mark"), "--json"]
    done = runner.invoke(main, ["restore", more, str(tmp_path / "again"), *mark])
    assert json.loads(done.stdout)["missing"] == []
    done = runner.invoke(main, ["backup", data, "--dir", data])
    assert (done.exit_code, "itself" in done.stderr) == (2, True)
