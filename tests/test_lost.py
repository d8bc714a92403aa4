"""A new private.db, a new master key: only in place of what is gone, and cut off anywhere it is run again."""

import sqlite3
from contextlib import closing

import pytest

from beacon.backup import lost
from beacon.keys import master
from beacon.sessions.custody import CHECK, KeptSeed, MasterCipher
from beacon.settings import ConfigurationError, load_settings, read_key, write_key
from beacon.store.errors import AlreadyOpen, DatabaseDamaged
from beacon.store.lock import FileLock
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import open_readonly
from beacon.store.writer import Writer
from tests.release_support import RELEASES
from tests.round_support import FakeClock


class CutOffError(Exception):
    """The process ends here."""


@pytest.fixture
def settings(tmp_path):
    found = load_settings(RELEASES[0].copy(tmp_path / "world") / "data")
    Writer(found.private_db, PRIVATE_SCHEMA).close()
    return found


def rows(settings, query):
    with closing(open_readonly(settings.private_db)) as db:
        return db.execute(query).fetchall()


def owned(settings):
    ((nonce, ciphertext),) = rows(settings, f"SELECT nonce, ciphertext FROM seeds WHERE commitment = x'{CHECK.hex()}'")
    return MasterCipher(read_key(settings.master_key)).owns(KeptSeed(CHECK, nonce, ciphertext))


@pytest.mark.parametrize("step", ["begun", "emptied", "committed", "key-written"])
def test_a_new_master_key_cut_off_anywhere(settings, step):
    hosts = rows(settings, "SELECT * FROM hosts"), rows(settings, "SELECT * FROM tokens")
    seeds = len(rows(settings, "SELECT 1 FROM seeds"))
    settings.master_key.unlink()

    def cut(reached):
        if reached == step:
            raise CutOffError

    with pytest.raises(CutOffError):
        lost.new_master(settings, cut)
    if step == "key-written":
        with pytest.raises(ConfigurationError, match="nothing is lost"):
            lost.new_master(settings)
    else:
        assert lost.new_master(settings).open == 3
    assert owned(settings)
    assert (rows(settings, "SELECT * FROM hosts"), rows(settings, "SELECT * FROM tokens")) == hosts
    assert len(rows(settings, "SELECT 1 FROM seeds WHERE ciphertext = x''")) == seeds - 1 > 5
    assert rows(settings, "SELECT 1 FROM webhooks") == []
    assert settings.master_key.stat().st_mode & 0o777 == 0o600
    assert master.rotate(settings, FakeClock(0)).encrypted == 1


def test_a_key_that_is_there_is_not_replaced(settings):
    with pytest.raises(ConfigurationError, match=r"master\.key is the key .*, so nothing is lost\.$"):
        lost.new_master(settings)


def test_a_key_that_is_only_misplaced_is_not_replaced(settings):
    aside = settings.master_key.with_name("master.0011223344556677.key")
    settings.master_key.rename(aside)
    with pytest.raises(ConfigurationError, match=r"master\.0011223344556677\.key is the .* Make it master\.key\.$"):
        lost.new_master(settings)
    aside.unlink()
    write_key(settings.master_key, bytes(range(32)))
    before = rows(settings, "SELECT * FROM seeds")
    with pytest.raises(ConfigurationError, match="is another key"):
        lost.new_master(settings)
    assert rows(settings, "SELECT * FROM seeds") == before


@pytest.mark.parametrize("make", [lost.new_private, lost.new_master])
def test_not_while_a_service_runs_and_not_without_the_log(settings, make):
    lock = FileLock(settings.private_db)
    with pytest.raises(AlreadyOpen):
        make(settings)
    lock.release()
    if make is lost.new_private:
        settings.private_db.unlink()
    else:
        settings.master_key.unlink()
    log = settings.log_db.read_bytes()
    settings.log_db.unlink()
    with pytest.raises(ConfigurationError, match="nothing to go on with"):
        make(settings)
    settings.log_db.write_bytes(log[:100_000] + bytes(len(log) - 100_000))
    with pytest.raises((DatabaseDamaged, ConfigurationError)):
        make(settings)
    assert not (settings.private_db if make is lost.new_private else settings.master_key).exists()


@pytest.mark.parametrize("empty", [True, False])
def test_a_new_private_db(settings, empty):
    before = settings.private_db.read_bytes()
    with pytest.raises(ConfigurationError, match=r"Only a private\.db that is gone"):
        lost.new_private(settings)
    assert settings.private_db.read_bytes() == before
    settings.private_db.unlink()
    if empty:
        settings.private_db.touch(mode=0o600)
    assert lost.new_private(settings).open == 3
    assert rows(settings, "SELECT * FROM hosts") == []
    assert settings.private_db.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(settings.private_db)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (PRIVATE_SCHEMA.application_id,)
