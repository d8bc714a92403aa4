"""Backups over a change of the log's key: from before, between and after, and while it is changed.

| the backup is from | put back with the keys of now |
|---|---|
| before, or while both signed, and the old key is retired now | refused: there is a newer log |
| while both signed, and they do still | as any backup |
| after | as any backup |
"""

import shutil
from pathlib import Path

import pytest

from beacon.backup import making, restoring
from beacon.backup.manifest import BackupRefused
from beacon.keys import log as log_rotation
from beacon.keys.log import log_signer
from beacon.settings import load_settings
from beacon.store.errors import LogBehind
from tests.log_support import Clock
from tests.process_support import make_data
from tests.round_support import FakeClock
from tests.test_keys_log import BEGIN_STEPS, ORIGIN, RETIRE_STEPS, grow, whole

MOMENT = 1_700_000_000_000


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    make_data(folder, ORIGIN, "http://127.0.0.1:9", Clock())
    settings = load_settings(folder)
    grow(settings, "a")
    return settings


@pytest.fixture
def target(tmp_path):
    return tmp_path / "backups"


def back_up(data, target, moment=MOMENT, **options):
    return making.make(data, data.data_dir / "beacon.toml", target, FakeClock(moment), **options)


def put_back(data, made, place, **options):
    restoring.restore(made.folder, place, mark=data.log_mark, **options)
    return load_settings(place)


def cut_off(change, data, step, *arguments):
    def cut(name):
        if name == step:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        change(data, *arguments, step=cut)


@pytest.mark.parametrize("keys", [True, False])
def test_from_after_a_change_and_from_the_time_of_both_keys(data, target, tmp_path, keys):
    log_rotation.begin(data)
    grow(data, "b")
    both = back_up(data, target, keys=keys)
    given = {} if keys else {"keys": data.data_dir}
    restored = put_back(data, both, tmp_path / "both", **given)
    assert log_signer(restored).vkeys == log_signer(data).vkeys
    log_rotation.retire(data)
    grow(data, "c")
    after = back_up(data, target, MOMENT + 1_000, keys=keys)
    restored = put_back(data, after, tmp_path / "after", **given)
    assert log_signer(restored).vkeys == log_signer(data).vkeys
    grow(restored, "d")
    whole(restored)


@pytest.mark.parametrize("both", [False, True])
def test_from_before_a_key_was_retired(data, target, tmp_path, both):
    """With the keys of now there is no way; with those of then the mark says that there is a newer log."""
    old = log_signer(data).vkey
    if both:
        log_rotation.begin(data)
    without = back_up(data, target)
    with_keys = back_up(data, target, MOMENT + 1_000, keys=True)
    if not both:
        log_rotation.begin(data)
    log_rotation.retire(data)
    grow(data, "b")
    with pytest.raises(BackupRefused, match=rf"before log\.{old.key_id.hex()}\.key was retired"):
        put_back(data, without, tmp_path / "restored", keys=data.data_dir)
    with pytest.raises(LogBehind):
        put_back(data, with_keys, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    restored = restoring.restore(with_keys.folder, tmp_path / "restored").directory
    shutil.copy(data.log_mark, restored / "log.mark")
    with pytest.raises(LogBehind):
        grow(load_settings(restored), "c")


@pytest.mark.parametrize(
    ("change", "step"), [("begin", name) for name in BEGIN_STEPS[1:]] + [("retire", name) for name in RETIRE_STEPS[1:]]
)
def test_with_keys_in_the_midst_of_a_change(data, target, tmp_path, change, step):
    """Cut off anywhere: the backup is put back, and the change goes on there."""
    if change == "retire":
        log_rotation.begin(data)
    cut_off(getattr(log_rotation, change), data, step)
    restored = put_back(data, back_up(data, target, keys=True), tmp_path / "restored")
    assert log_signer(restored).vkeys == log_signer(data).vkeys
    grow(restored, "b")
    if change == "begin":
        log_rotation.begin(restored)
        assert len(log_signer(restored).vkeys) == 2
    elif step in {"committed", "kept-old"}:
        log_rotation.retire(restored)
    assert not (restored.data_dir / "log.next.key").exists() or change == "begin"
    whole(restored)


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("copying", ["log.db", "private.db"])
def test_while_a_key_is_retired_no_backup_is_made(data, target, copying, keys):
    """It would have the log of then, and name or have the key of now."""
    log_rotation.begin(data)
    done = []

    def meanwhile(what, *_):
        if what == f"copying {copying}" and not done:
            done.append(log_rotation.retire(data))

    with pytest.raises(BackupRefused, match="run it again"):
        back_up(data, target, keys=keys, progress=meanwhile)
    assert [path.name for path in Path(target).iterdir()] == ["backup.lock"]
    assert done


def test_while_a_key_is_added(data, target, tmp_path):
    done = []

    def meanwhile(what, *_):
        if what == "copying log.db" and not done:
            done.append(log_rotation.begin(data))

    restored = put_back(data, back_up(data, target, keys=True, progress=meanwhile), tmp_path / "restored")
    assert log_signer(restored).vkeys == log_signer(data).vkeys
    grow(restored, "b")
    whole(restored)


def test_those_from_before_a_change_are_of_this_log_too(data, target):
    first = back_up(data, target, keep=2).folder
    log_rotation.begin(data)
    grow(data, "b")
    second = back_up(data, target, MOMENT + 1_000, keep=2).folder
    log_rotation.retire(data)
    grow(data, "c")
    third = back_up(data, target, MOMENT + 2_000, keep=2)
    assert third.removed == (first,)
    assert making.backups(target) == [second, third.folder]
