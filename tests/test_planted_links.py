"""Links that the service's user plants where a command run by root makes a file: none is followed, and nothing behind them changes."""

import os
import shutil
from pathlib import Path

import pytest

from beacon.keys import log as log_keys
from beacon.log.export import export, export_full
from beacon.rounds.spool import Spool
from beacon.settings import load_settings, write_key
from beacon.store.lock import FileLock
from tests.log_support import SIGNER, Clock, make_log
from tests.process_support import make_data
from tests.round_support import QUICKNET, verified


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("root's")
    yield path
    assert path.read_text() == "root's"


def test_a_lock(tmp_path):
    (tmp_path / "private.db.lock").symlink_to(tmp_path / "nologin")
    with pytest.raises(OSError, match="symbolic link"):
        FileLock(tmp_path / "private.db")
    assert not (tmp_path / "nologin").exists()


def test_a_key(tmp_path, victim):
    (tmp_path / ".log.next.key.new").symlink_to(victim)
    write_key(tmp_path / "log.next.key", b"\x11" * 32)


def test_the_public_keys(tmp_path, victim):
    make_data(tmp_path / "data", "log.example/links", "http://127.0.0.1:9", Clock())
    (tmp_path / "data" / ".log.vkey.new").symlink_to(victim)
    log_keys.publish(load_settings(tmp_path / "data"))
    assert not (tmp_path / "data" / "log.vkey").is_symlink()


@pytest.mark.parametrize("exporter", [export, export_full])
def test_static_files(tmp_path, victim, exporter):
    make_log(tmp_path / "log.db", (300,))
    for name in ("tile/0/000", "tile/entries/000", "checkpoint", "full-tiles"):
        (tmp_path / "static" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "static" / f"{name}.new").symlink_to(victim)
    exporter(tmp_path / "log.db", tmp_path / "static", SIGNER.vkey)
    assert (tmp_path / "static" / "tile" / "0" / "000").stat().st_size == 256 * 32


def test_the_folder_that_root_gives_away(tmp_path, monkeypatch):
    """Swapped between its making and its giving away."""
    elsewhere, mkdir, given = tmp_path / "etc", Path.mkdir, []
    elsewhere.mkdir()

    def swapped(path, *arguments, **options):
        mkdir(path, *arguments, **options)
        if path.name == "rounds-in":
            path.rmdir()
            path.symlink_to(elsewhere)

    monkeypatch.setattr(Path, "mkdir", swapped)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda *_: given.append("fchown"))
    monkeypatch.setattr(os, "chown", lambda *_: given.append("chown"))
    with pytest.raises(OSError, match="rounds-in"):
        Spool(tmp_path / "rounds-in").add(QUICKNET, [verified(QUICKNET, 1000)])
    assert given == []
    (tmp_path / "rounds-in").unlink()
    monkeypatch.setattr(Path, "mkdir", mkdir)
    Spool(tmp_path / "rounds-in").add(QUICKNET, [verified(QUICKNET, 1000)])
    assert given == ["fchown"]
    shutil.rmtree(tmp_path / "rounds-in")
