"""Files that others reach, or that are somebody else's: each keeps the service from starting, and says what to do."""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from beacon.app import create_app
from beacon.cli import main
from beacon.clock import SystemClock
from beacon.datadir import initialise, pinned_chain
from beacon.permissions import Fault, exposed, refuse_exposed, user_name
from beacon.settings import ConfigurationError, load_settings

OTHER = os.geteuid() + 12_345


@pytest.fixture
def directory(tmp_path):
    initialise(tmp_path / "data", "beacon.example/fair", [pinned_chain("quicknet")], SystemClock())
    for name in ("private.db-wal", "private.db-shm", "old.key"):
        (tmp_path / "data" / name).touch(mode=0o600)
    return tmp_path / "data"


def test_what_init_made_is_in_order(directory):
    refuse_exposed(load_settings(directory))
    assert not list(exposed(load_settings(directory), os.geteuid()))
    assert create_app(load_settings(directory), SystemClock())


SECRET = ("log.key", "master.key", "old.key", "private.db", "private.db-wal", "private.db-shm", "private.db.lock")


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_secret_that_others_reach_stops_the_start(directory, name, mode):
    (directory / name).chmod(mode)
    with pytest.raises(ConfigurationError, match=f"{name}: mode 0{mode:o} lets others at this .*Do `chmod 600 "):
        create_app(load_settings(directory), SystemClock())


@pytest.mark.parametrize("name", [".", "log.db", "log.mark", "log.db.lock", "beacon.toml", "log.vkey"])
def test_what_everybody_may_write_stops_the_start(directory, name):
    path = directory / name
    path.chmod(path.stat().st_mode | 0o002)
    with pytest.raises(ConfigurationError, match=r"lets others write here. Do `chmod go-w "):
        create_app(load_settings(directory), SystemClock())


@pytest.mark.parametrize(
    ("name", "fault"), [(".", Fault.WRITABLE), ("log.db", Fault.WRITABLE), ("beacon.toml", Fault.SHARED)]
)
def test_a_group_may_write_settings_and_nothing_else(directory, name, fault):
    path = directory / name
    path.chmod(path.stat().st_mode | 0o020)
    (found,) = exposed(load_settings(directory), os.geteuid())
    assert (found.path, found.fault) == (directory / name if name != "." else directory, fault)
    if fault is Fault.SHARED:
        refuse_exposed(load_settings(directory))


def test_the_fix_mends_it(directory):
    (directory / "master.key").chmod(0o666)
    directory.chmod(0o777)
    for found in exposed(load_settings(directory), os.geteuid()):
        assert os.system(found.fix) == 0
    assert not list(exposed(load_settings(directory), os.geteuid()))


def test_files_of_another_user_stop_the_start(directory, monkeypatch):
    settings = load_settings(directory)
    found = {one.path.name for one in exposed(settings, OTHER) if one.fault is Fault.OWNER}
    root = os.geteuid() == 0
    assert found >= {"data", "log.db", "private.db", "log.mark"} | (set() if root else {"log.key", "master.key"})
    assert "beacon.toml" not in found
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    with pytest.raises(
        ConfigurationError, match=rf"log.db: belongs to .*, and the service's user is {OTHER}. Do `chown"
    ):
        create_app(settings, SystemClock())


def test_root_does_not_write_into_another_users_directory(directory, monkeypatch):
    stat = Path.stat

    def elsewhere(path, **options):
        values = list(stat(path, **options))
        values[4] = OTHER
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", elsewhere)
    found = {one.path.name for one in exposed(load_settings(directory), 0) if one.fault is Fault.OWNER}
    assert found >= {"data", "log.db", "private.db", "log.key", "master.key"}


def test_a_user_without_a_name_is_a_number():
    assert user_name(OTHER) == str(OTHER)
    assert user_name(0) == "root"


def test_what_is_missing_is_for_others_to_say(directory):
    for name in ("log.vkey", "log.mark", "old.key"):
        (directory / name).unlink()
    assert not list(exposed(load_settings(directory), os.geteuid()))


@pytest.fixture
def elsewhere(directory, tmp_path):
    """Settings and what they name in a folder of their own."""
    place = tmp_path / "etc"
    place.mkdir(mode=0o755)
    text = (directory / "beacon.toml").read_text()
    text = re.sub(r"(?m)^#? ?data_dir = .*$", f'data_dir = "{directory}"', text)
    text = re.sub(r"(?m)^#? ?policy = .*$", 'policy = "w.policy"', text)
    (place / "beacon.toml").write_text(text)
    (place / "w.policy").write_text("quorum none\n")
    (directory / "beacon.toml").unlink()
    return place


@pytest.mark.parametrize("name", [".", "beacon.toml", "w.policy"])
def test_settings_that_are_elsewhere_are_looked_at_too(elsewhere, directory, name):
    """By the commands that start the service and look at it; by their own path or that of their directory, or a link."""
    link = directory.parent / "link.toml"
    link.symlink_to(elsewhere / "beacon.toml")
    path = elsewhere / name
    path.chmod(path.stat().st_mode | 0o002)
    for given in (elsewhere, elsewhere / "beacon.toml", link):
        done = CliRunner().invoke(main, ["serve", "--dir", str(given)])
        assert (done.exit_code, "lets others write here" in done.output) == (2, True), done.output
    found = [one.path for one in exposed(load_settings(elsewhere), os.geteuid(), elsewhere / "beacon.toml")]
    assert found == [path]


def test_a_sticky_folder_is_in_order_but_not_as_the_data_directory(elsewhere, directory):
    config = elsewhere / "beacon.toml"
    elsewhere.chmod(0o1777)
    assert not list(exposed(load_settings(elsewhere), os.geteuid(), config))
    directory.chmod(0o1777)
    (found,) = exposed(load_settings(elsewhere), os.geteuid(), config)
    assert found.path == directory
