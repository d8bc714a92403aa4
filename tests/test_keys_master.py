"""A new master key: everything is under it afterwards, nothing under the old one, and no kill loses a seed.

| cut off | master.key | the seeds | the service | the same command |
|---|---|---|---|---|
| before the new key is durable | old | under the old | starts | begins |
| before the commit | old | under the old | starts | goes on with the same new key |
| after the commit, before the files changed names | old | under the new | refuses, and says what to do | changes the names |
| after | new | under the new | starts | begins another rotation |
"""

import asyncio
import hashlib
import hmac
import json
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest
from aiohttp import web
from click.testing import CliRunner
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.app import create_app
from beacon.cli import main
from beacon.keys import master
from beacon.sessions.custody import CHECK, Custody, MasterCipher
from beacon.sessions.joining import Joining
from beacon.settings import ConfigurationError, load_settings, read_key, write_key
from beacon.store.errors import AlreadyOpen, DatabaseDamaged
from beacon.store.hosts import HostStore
from beacon.store.private import PrivateStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.webhooks import Answered, Encrypted, Endpoint, WebhookStore
from beacon.store.writer import Writer
from beacon.webhooks.signing import Vault, answer_place
from tests.fault_support import killed, killer
from tests.log_support import START, Clock
from tests.process_support import make_data
from verifier.seeds import sha256

STEPS = ("begun", "key-written", "seeds-written", "all-written", "committed", "kept-old", "in-force")
BEFORE_COMMIT = STEPS[: STEPS.index("committed")]
SESSION = bytes(range(32))
SECRETS = {"wh_a": b"a" * 32, "wh_b": b"b" * 32}
ANSWER = b'{"secret":"whsec_x"}'
KEY = b"\7" * 32


def opened(folder):
    writer, reader = Writer(folder / "private.db", PRIVATE_SCHEMA), Reader(folder / "private.db")
    return writer, reader, PrivateStore(writer, reader, Clock())


async def fill(folder, key, seeds):
    """Seeds, two webhooks, one with an older secret, and a kept answer, as the service writes them."""
    writer, reader, store = opened(folder)
    try:
        custody, vault = Custody(key, store), Vault(key)
        assert await custody.owns()
        made = [await custody.make() for _ in range(seeds)]
        await asyncio.to_thread(store.keep, made)
        await HostStore(writer, reader, Clock()).add("alice", sandbox=False, scopes=("seal",), note="", lifetime=None)
        hooks = WebhookStore(writer, reader, Clock())
        answered = Answered(KEY, KEY, vault.encrypt(answer_place(KEY), ANSWER))
        for name, secret in SECRETS.items():
            kept = vault.encrypt(name, secret)
            endpoint = Endpoint(name, "alice", f"https://{name}", (), START, 0, None, None, kept, None, None)
            await hooks.add(endpoint, 9, answered if name == "wh_a" else None)
        await hooks.rotate("wh_b", vault.encrypt("wh_b", b"new" + SECRETS["wh_b"][3:]), START + 9)
        return {one.commitment: custody.kept(one) for one in made}
    finally:
        writer.close()
        reader.close()


async def read(folder, key):
    """All that is readable under a key: seeds, secrets, the answer, the older join keys; None where it owns nothing."""
    writer, reader, store = opened(folder)
    try:
        custody, vault, hooks = Custody(key, store), Vault(key), WebhookStore(writer, reader, Clock())
        if not await custody.owns():
            return None
        with closing(sqlite3.connect(folder / "private.db")) as db:
            names = [row[0] for row in db.execute("SELECT commitment FROM seeds WHERE commitment <> ?", [CHECK])]
        found = {name: await custody.open(name) for name in names}
        for endpoint in await hooks.all():
            found[endpoint.id] = vault.decrypt(endpoint.id, endpoint.secret)
            if endpoint.old is not None:
                found[f"old {endpoint.id}"] = vault.decrypt(endpoint.id, endpoint.old)
        found["answer"] = vault.decrypt(answer_place(KEY), (await hooks.answer(KEY)).answer)
        return found, custody.older(await store.join_keys())
    finally:
        writer.close()
        reader.close()


EXPECTED = {"wh_a": b"a" * 32, "wh_b": b"new" + b"b" * 29, "old wh_b": b"b" * 32, "answer": ANSWER}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    make_data(folder, "log.example/keys", "http://127.0.0.1:9", Clock())
    return load_settings(folder)


@pytest.fixture
def seeds(data):
    return asyncio.run(fill(data.data_dir, read_key(data.master_key), 5))


def everything(data, seeds, key=None, older=None):
    found = asyncio.run(read(data.data_dir, key or read_key(data.master_key)))
    assert found is not None
    assert found[0] == seeds | EXPECTED
    if older is not None:
        assert len(found[1]) == older
    return found[1]


def test_everything_is_under_the_new_key_and_nothing_under_the_old_one(data, seeds):
    old = read_key(data.master_key)
    before = (data.data_dir / "private.db").read_bytes()
    done = master.rotate(data, Clock())
    key = read_key(data.master_key)
    assert done == master.Rotated(master.fingerprint(key), master.fingerprint(old), done.kept, len(seeds) + 1 + 3 + 1)
    assert key != old == read_key(done.kept)
    everything(data, seeds, older=1)
    assert asyncio.run(read(data.data_dir, old)) is None
    with closing(sqlite3.connect(data.private_db)) as db:
        queries = (
            "SELECT ciphertext FROM seeds",
            "SELECT ciphertext FROM webhooks",
            "SELECT ciphertext FROM join_keys",
        )
        texts = [row[0] for query in queries for row in db.execute(query)]
    assert all(text not in before for text in texts)
    names = {path.name for path in data.data_dir.glob("*.key*")}
    assert names == {"log.key", "master.key", f"master.{done.before}.key"}
    assert {stat.S_IMODE((data.data_dir / name).stat().st_mode) for name in names} == {0o600}


def test_nothing_is_left_of_what_was_encrypted_before(data, seeds):
    with closing(sqlite3.connect(data.private_db)) as db:
        before = [row[0] for row in db.execute("SELECT ciphertext FROM seeds")]
    assert all(text in data.private_db.read_bytes() for text in before)
    master.rotate(data, Clock())
    after = b"".join(path.read_bytes() for path in data.data_dir.glob("private.db*"))
    assert not any(text in after for text in before)


def test_more_than_one_chunk(data, seeds, monkeypatch):
    monkeypatch.setattr(master, "ROWS_AT_ONCE", 2)
    master.rotate(data, Clock())
    everything(data, seeds)


def test_twice(data, seeds):
    first = master.rotate(data, Clock())
    second = master.rotate(data, Clock())
    assert second.before == first.key
    assert second.kept != first.kept
    everything(data, seeds, older=2)


def test_join_links_stay_good_for_as_long_as_a_session_can_be_open(data, seeds):
    links = []
    for turn in range(3):
        key = read_key(data.master_key)
        links.append(Joining(key).token(SESSION, "white"))
        older = everything(data, seeds, older=turn)
        joining = Joining(key, older)
        assert all(joining.admits(link, SESSION, "white") for link in links)
        assert not any(joining.admits(link, SESSION, "black") for link in links)
        master.rotate(data, Clock())
    later = Clock(START + master.JOINED_MS)
    master.rotate(data, later)
    assert len(everything(data, seeds)) == 1  # of the newest alone: those before it are too old


def test_a_key_that_leaves_a_seed_unreadable_changes_nothing(data, seeds):
    with closing(sqlite3.connect(data.private_db)) as db:
        other = MasterCipher(bytes(32)).encrypt(sha256(b"x"), b"x" * 32)
        db.execute("INSERT INTO seeds VALUES (?, ?, ?, 0)", [other.commitment, other.nonce, other.ciphertext])
        db.commit()
        before = db.execute("SELECT * FROM seeds ORDER BY commitment").fetchall()
    with pytest.raises(DatabaseDamaged, match=sha256(b"x").hex()):
        master.rotate(data, Clock())
    with closing(sqlite3.connect(data.private_db)) as db:
        assert db.execute("SELECT * FROM seeds ORDER BY commitment").fetchall() == before


def test_it_is_refused_while_the_service_runs(data, seeds):
    writer = Writer(data.private_db, PRIVATE_SCHEMA)
    try:
        with pytest.raises(AlreadyOpen):
            master.rotate(data, Clock())
        result = CliRunner().invoke(main, ["keys", "rotate-master", "--dir", str(data.data_dir)])
        assert result.exit_code == 2
        assert "is the service running" in result.output
    finally:
        writer.close()
    everything(data, seeds)


def test_the_same_key_again_is_none(data, seeds):
    shutil.copy(data.master_key, data.data_dir / "master.next.key")
    with pytest.raises(ConfigurationError, match="the key that is in force"):
        master.rotate(data, Clock())
    everything(data, seeds)


def test_another_key_under_the_name_of_the_one_before_is_not_overwritten(data, seeds):
    other = data.data_dir / f"master.{master.fingerprint(read_key(data.master_key))}.key"
    write_key(other, b"\5" * 32)
    with pytest.raises(ConfigurationError, match="holds another key"):
        master.rotate(data, Clock())
    assert read_key(other) == b"\5" * 32
    everything(data, seeds, read_key(data.data_dir / "master.next.key"))
    other.unlink()
    master.rotate(data, Clock())
    everything(data, seeds)


def stopped_at(data, name):
    """A rotation that ends at a step."""

    def step(reached):
        if reached == name:
            raise InterruptedError(name)

    with pytest.raises(InterruptedError):
        master.rotate(data, Clock(), step)


@pytest.mark.parametrize(
    ("name", "advice"), [("key-written", "delete it, and run this again"), ("committed", "Restore")]
)
def test_a_new_key_file_that_is_damaged(data, seeds, name, advice):
    stopped_at(data, name)
    path = data.data_dir / "master.next.key"
    kept = path.read_bytes()
    path.write_bytes(kept[:40])
    with pytest.raises(ConfigurationError, match=advice):
        master.rotate(data, Clock())
    if name == "committed":
        path.write_bytes(kept)
    else:
        path.unlink()
    master.rotate(data, Clock())
    everything(data, seeds)


def test_a_new_key_file_that_is_not_the_one(data, seeds):
    stopped_at(data, "committed")
    path = data.data_dir / "master.next.key"
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(ConfigurationError, match="Restore the key"):
        master.rotate(data, Clock())
    write_key(path, b"\5" * 32)
    with pytest.raises(ConfigurationError, match="another master key than"):
        master.rotate(data, Clock())
    path.write_bytes(kept)
    master.rotate(data, Clock())
    everything(data, seeds)


def rotate_and_die(folder, kill_at):
    """Rotate, and be killed at a step."""
    master.rotate(load_settings(folder), Clock(), killer(kill_at))


async def starts(data):
    """Whether the service starts; what it says if not."""
    runner = web.AppRunner(create_app(data, Clock()))
    try:
        await runner.setup()
    except ConfigurationError as error:
        return str(error)
    finally:
        await runner.cleanup()
    return None


@pytest.mark.parametrize("name", STEPS)
def test_killed_at_a_step(data, seeds, name):
    old = read_key(data.master_key)
    killed(rotate_and_die, data.data_dir, name)
    if name in BEFORE_COMMIT:
        everything(data, seeds, old)
        assert asyncio.run(starts(data)) is None
    elif name != "in-force":
        refusal = asyncio.run(starts(data))
        assert "under another master key" in refusal
        assert "`beacon keys rotate-master` goes on" in refusal
        everything(data, seeds, read_key(data.data_dir / "master.next.key"))
    before = read_key(data.master_key) if name == "in-force" else old
    done = master.rotate(data, Clock())
    assert done.before == master.fingerprint(before)
    everything(data, seeds, older=2 if name == "in-force" else 1)
    assert asyncio.run(starts(data)) is None
    assert not (data.data_dir / "master.next.key").exists()


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", ["begun", "committed", "kept-old"])
def test_cut_off_twice(data, seeds, first, second):
    stopped_at(data, first)
    if (first, second) not in {("committed", "committed"), ("kept-old", "committed")}:  # steps that are not due again
        stopped_at(data, second)
    master.rotate(data, Clock())
    everything(data, seeds)


def test_the_old_key_is_refused_in_clear_words(data, seeds):
    done = master.rotate(data, Clock())
    data.master_key.unlink()
    shutil.copy(done.kept, data.master_key)
    assert "under another master key. Restore the key that belongs to this data directory." in asyncio.run(starts(data))


def test_the_command(data, seeds):
    old = read_key(data.master_key)
    result = CliRunner().invoke(main, ["keys", "rotate-master", "--dir", str(data.data_dir), "--json"])
    assert result.exit_code == 0
    key = read_key(data.master_key)
    told = json.loads(result.output)
    assert told == {
        "key": master.fingerprint(key),
        "before": master.fingerprint(old),
        "kept": str(data.data_dir / f"master.{master.fingerprint(old)}.key"),
        "encrypted": 10,
    }
    again = CliRunner().invoke(main, ["keys", "rotate-master", "--dir", str(data.data_dir)])
    assert again.exit_code == 0
    for secret in (old, key, read_key(data.master_key), *seeds.values()):
        assert secret.hex() not in result.output + again.output


def test_the_fingerprint_is_a_known_answer():
    """HKDF-SHA256 of 32 zero bytes, no salt, info `fair-beacon/master-key-id`, 8 bytes (RFC 5869, by hand)."""
    extracted = hmac.digest(bytes(32), bytes(32), hashlib.sha256)
    due = hmac.digest(extracted, b"fair-beacon/master-key-id\x01", hashlib.sha256)[:8]
    assert master.fingerprint(bytes(32)) == due.hex()


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.binary(max_size=100))
def test_what_is_under_one_key_is_not_under_another(first, second, text):
    commitment = sha256(text)
    kept = MasterCipher(first).encrypt(commitment, text)
    assert MasterCipher(first).decrypt(kept) == text
    assert (MasterCipher(second).decrypt(kept) == text) == (first == second)
    assert AESGCM(first).decrypt(kept.nonce, kept.ciphertext, commitment) == text
    assert Vault(first).decrypt("x", Encrypted(kept.nonce, kept.ciphertext)) is None
