"""Another key for the log: both sign, then one does; documents, checks and marks hold over it, and no kill loses it.

    begin   no change -> both sign       retire  both sign -> the new one signs, or the old one again

| cut off | signs at the next start | the same command |
|---|---|---|
| before the new key is durable | the old key | begins |
| before its row in log.db | both: the start makes the row | makes it |
| before log.vkey | both | writes log.vkey |
| retiring, before the row | both | begins |
| retiring, before the files changed names | the new key | changes the names |
| retiring, before log.vkey | the new key | writes log.vkey, and says that one key is left |
"""

import asyncio
import json
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest
from aiohttp import web
from click.testing import CliRunner

from beacon.app import create_app
from beacon.cli import main
from beacon.keys import log as log_rotation
from beacon.keys.listing import listed
from beacon.keys.log import log_keys, log_signer
from beacon.keys.master import fingerprint
from beacon.log import fsck, highwater, reads
from beacon.log.export import export
from beacon.log.log import Log
from beacon.log.signing import Signers
from beacon.settings import ConfigurationError, load_settings, read_key, write_key
from beacon.store.errors import AlreadyOpen, LogBehind, LogDamaged
from tests.fault_support import killed, killer
from tests.log_support import START, Clock, Index, append, tamper
from tests.process_support import make_data
from verifier import whole_log
from verifier.errors import VerificationError
from verifier.log_keys import LogKeys
from verifier.merkle import leaf_hash, tree_root, verify_inclusion
from verifier.note import Checkpoint, Note, SigningKey, VerifierKey, open_note

ORIGIN = "log.example/keys"
BEGIN_STEPS = ("begun", "key-written", "committed", "published")
RETIRE_STEPS = ("begun", "committed", "kept-old", "in-force", "published")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    make_data(folder, ORIGIN, "http://127.0.0.1:9", Clock())
    return load_settings(folder)


def opened(data):
    return Log.open(data.log_db, log_signer(data), Clock(), [Index()], mark=data.log_mark)


def grow(data, *names):
    """Append one commit for each name, and close. The size then."""
    log = opened(data)
    try:
        for name in names:
            append(log, name)
        return log.latest().size
    finally:
        log.close()


def notes(data):
    with closing(sqlite3.connect(data.log_db)) as db:
        return dict(db.execute("SELECT size, note FROM checkpoints").fetchall())


def signers_of(note):
    return {line.key_id for line in Note.parse(note).signatures}


def vkeys_of(data):
    """What log.vkey says."""
    return LogKeys.parse(data.log_vkey.read_text())


def whole(data, keys=None):
    report = fsck.check(data.log_db, keys or log_signer(data).vkey, [Index()], rounds=False)
    assert report.ok, [str(finding) for finding in report.findings]
    return report


def changed(data):
    """A log of sizes 1 to 3 under the old key, 4 and 5 under both, 6 and 7 under the new one. Both keys."""
    old = log_signer(data).vkey
    grow(data, "a", "b")
    log_rotation.begin(data)
    grow(data, "c", "d")
    log_rotation.retire(data)
    grow(data, "e", "f")
    return old, log_signer(data).vkey


def test_who_signs_when(data):
    old, new = changed(data)
    due = {size: {old.key_id} for size in (1, 2, 3)} | {size: {old.key_id, new.key_id} for size in (4, 5)}
    assert {size: signers_of(note) for size, note in notes(data).items()} == due | {6: {new.key_id}, 7: {new.key_id}}
    assert str(vkeys_of(data)) == f"{old} 1-5\n{new} 3-" == str(log_keys(data))
    whole(data)
    whole(data, vkeys_of(data))


def test_the_checkpoint_at_which_it_begins_has_both_lines(data):
    old, new = changed(data)
    with closing(sqlite3.connect(data.log_db)) as db:
        db_note = db.execute("SELECT note FROM checkpoints WHERE size = 3").fetchone()[0]
    assert signers_of(db_note) == {old.key_id}
    log = opened(data)
    try:
        note = asyncio.run(log.read(lambda db: reads.signed_note(db, 3)))
    finally:
        log.close()
    assert open_note(note, [new]).text == open_note(note, [old]).text


def test_a_log_that_nobody_wrote_to_meanwhile_is_known_by_the_new_key_alone(data):
    old = log_signer(data).vkey
    size = grow(data, "a")
    log_rotation.begin(data)
    done = log_rotation.retire(data)
    assert (done.key, done.size) == (old, size)
    new = log_signer(data).vkey
    log = opened(data)
    try:
        open_note(log.latest().note, [new])
        assert str(log.keys) == f"{old} 1-{size}\n{new} {size}-"
    finally:
        log.close()
    with whole_log.of_database(data.log_db) as read:
        assert len(list(read.entries())) == size
        read.check(new)
        read.check(log_keys(data))


def test_receipts_are_under_the_key_that_documents_name(data):
    old = log_signer(data).vkey
    grow(data, "a", "b")
    seen = []
    for step in (None, log_rotation.begin, log_rotation.retire):
        if step is not None:
            step(data)
            grow(data, "x")
        log = opened(data)
        try:
            proof, checkpoint = asyncio.run(log.receipt_proof(1))
            open_note(checkpoint.note, [VerifierKey.parse(log.vkey)])
            entry = asyncio.run(log.entry(1))
            verify_inclusion(leaf_hash(entry), 1, checkpoint.size, proof, checkpoint.root)
            seen.append((VerifierKey.parse(log.vkey) == old, checkpoint.size))
        finally:
            log.close()
    assert seen == [(True, 2), (True, 2), (False, 3)]


def test_a_stolen_old_key_beyond_its_size_is_noticed(data):
    stolen = SigningKey(read_key(data.log_key), ORIGIN)
    old, new = changed(data)
    with closing(sqlite3.connect(data.log_db)) as db:
        leaves = [leaf_hash(row[0]) for row in db.execute("SELECT entry FROM entries ORDER BY i")]
    text = Checkpoint(ORIGIN, 7, tree_root(leaves)).encode()
    forged = f"{text}\n{stolen.sign(text)}"
    for keys in (log_keys(data), new):
        with pytest.raises(VerificationError):
            read_with(data, forged, keys)
    read_with(data, forged, old)  # who knows the old key alone, and not that it was retired, is deceived
    tamper(data.log_db, ("UPDATE checkpoints SET note = ? WHERE size = 7", (forged,)))
    report = fsck.check(data.log_db, new, [Index()], rounds=False)
    assert any("whose sizes do not include it" in str(finding) for finding in report.findings)
    with pytest.raises(LogDamaged, match="whose sizes do not include it"):
        opened(data)


def read_with(data, note, keys):
    with whole_log.of_database(data.log_db) as read:
        read.signed = read.signed.parse(note)
        list(read.entries())
        read.check(keys)


def test_keys_that_were_changed_in_the_database_are_found(data):
    changed(data)
    for statement, found in [
        ("UPDATE log_keys SET signature = zeroblob(64) WHERE id = 2", "did not sign"),
        ("UPDATE log_keys SET vkey = 'x' WHERE id = 1", "is none"),
        ("DELETE FROM log_key_ends", None),
    ]:
        copy = data.data_dir / "copy.db"
        shutil.copy(data.log_db, copy)
        tamper(copy, statement)
        if found is not None:
            report = fsck.check(copy, log_signer(data).vkey if "vkey" not in statement else vkeys_of(data), [Index()])
            assert any(found in str(finding) for finding in report.findings), statement
        copy.unlink()


def test_twice_and_again(data):
    first, second = changed(data)
    log_rotation.begin(data)
    grow(data, "g")
    log_rotation.retire(data)
    grow(data, "h")
    third = log_signer(data).vkey
    assert str(vkeys_of(data)) == f"{first} 1-5\n{second} 3-8\n{third} 7-"
    whole(data)
    kept = {path.name for path in data.data_dir.glob("*.key")}
    assert kept == {"log.key", "master.key", f"log.{first.key_id.hex()}.key", f"log.{second.key_id.hex()}.key"}
    assert {stat.S_IMODE((data.data_dir / name).stat().st_mode) for name in kept} == {0o600}


def test_while_two_sign_there_is_no_third(data):
    grow(data, "a")
    done = log_rotation.begin(data)
    secret = done.kept.read_bytes()
    again = log_rotation.begin(data)
    assert (again, done.kept.read_bytes()) == (done, secret)
    grow(data, "b")
    assert log_rotation.begin(data) == done
    with pytest.raises(ValueError, match="one or two"):
        Signers(*(SigningKey(bytes([number]) * 32, ORIGIN) for number in range(3)))


def test_one_key_stays(data):
    with pytest.raises(ConfigurationError, match="one key signs this log, and it stays"):
        log_rotation.retire(data)
    changed(data)
    with pytest.raises(ConfigurationError, match="one key signs this log, and it stays"):
        log_rotation.retire(data)
    whole(data)


def test_the_new_key_may_be_given_up(data):
    old = log_signer(data).vkey
    grow(data, "a")
    done = log_rotation.begin(data)
    grow(data, "b")
    done.kept.write_bytes(b"damaged\n")
    with pytest.raises(ConfigurationError, match=f"retire-log --key {done.key.key_id.hex()}"):
        log_signer(data)
    with pytest.raises(ConfigurationError, match="there are"):
        log_rotation.retire(data, "00000000")
    gone = log_rotation.retire(data, done.key.key_id.hex())
    assert (gone.key, gone.size, log_signer(data).vkey) == (done.key, 3, old)
    grow(data, "c")
    assert str(vkeys_of(data)) == f"{old} 1-\n{done.key} 2-3"
    whole(data)


@pytest.mark.parametrize("name", ["log.key", "log.next.key"])
def test_a_key_of_two_that_is_lost(data, name):
    old = log_signer(data).vkey
    grow(data, "a")
    new = log_rotation.begin(data).key
    (data.data_dir / name).unlink()
    with pytest.raises(ConfigurationError, match=r"[Rr]estore"):
        log_signer(data)
    lost, left = (old, new) if name == "log.key" else (new, old)
    log_rotation.retire(data, lost.key_id.hex())
    assert log_signer(data).vkey == left
    grow(data, "b")
    whole(data)


def test_a_new_key_file_that_is_damaged_before_anything_was_signed(data):
    grow(data, "a")
    (data.data_dir / "log.next.key").touch(mode=0o600)
    with pytest.raises(ConfigurationError, match="delete it"):
        log_rotation.begin(data)
    (data.data_dir / "log.next.key").unlink()
    log_rotation.begin(data)
    whole(data)


def test_the_same_key_again_is_none(data):
    grow(data, "a")
    shutil.copy(data.log_key, data.data_dir / "log.next.key")
    with pytest.raises(ConfigurationError, match=r"is the key in log\.key"):
        log_rotation.begin(data)


def test_a_retired_key_signs_no_more(data):
    old, _ = changed(data)
    kept = data.data_dir / f"log.{old.key_id.hex()}.key"
    shutil.copy(kept, data.data_dir / "log.next.key")
    with pytest.raises(ConfigurationError, match="was retired"):
        log_signer(data)
    (data.data_dir / "log.next.key").rename(data.log_key)
    with pytest.raises(ConfigurationError, match="was retired"):
        log_signer(data)


def test_a_stranger_key_beside_two_that_sign(data):
    grow(data, "a")
    done = log_rotation.begin(data)
    done.kept.unlink()
    write_key(done.kept, b"\5" * 32)
    with pytest.raises(ConfigurationError, match=r"neither in log\.key nor in log\.next\.key"):
        log_signer(data)


def test_an_older_copy_after_a_change(data):
    """The mark says so; without it the older copy is of another key, and is refused for that."""
    grow(data, "a", "b")
    before = data.data_dir.parent / "before"
    shutil.copytree(data.data_dir, before)
    log_rotation.begin(data)
    grow(data, "c")
    log_rotation.retire(data)
    grow(data, "d")
    for path in data.data_dir.glob("log.db*"):
        path.unlink()
    shutil.copy(before / "log.db", data.log_db)
    with pytest.raises(ConfigurationError, match="this log was signed as"):
        opened(data)
    for name in ("log.mark", "log.key"):
        shutil.copy(before / name, data.data_dir / name)
    assert grow(data, "x") == 4  # the whole directory, keys and mark too: only witnesses and receipts tell


def test_an_older_copy_from_the_time_of_both_keys(data):
    grow(data, "a")
    log_rotation.begin(data)
    grow(data, "b")
    copy = data.data_dir.parent / "copy.db"
    shutil.copy(data.log_db, copy)
    grow(data, "c")
    shutil.copy(copy, data.log_db)
    with pytest.raises(LogBehind):
        opened(data)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_older_copy_with_its_key_beside_the_mark_of_after_a_change(data, after):
    """Of the mark's two slots one may still be signed by the key of before: the other one says that there is more."""
    grow(data, "a")
    before = data.data_dir.parent / "before"
    shutil.copytree(data.data_dir, before)
    log_rotation.begin(data)
    log_rotation.retire(data)
    grow(data, *"bcd"[:after])
    for name in ("log.db", "log.key"):
        shutil.copy(before / name, data.data_dir / name)
    for path in data.data_dir.glob("log.db-*"):
        path.unlink()
    with pytest.raises(LogBehind):
        opened(data)


def test_the_key_of_an_older_copy_is_not_changed(data):
    """Else it would say of what was acknowledged that somebody else signed it."""
    grow(data, "a")
    copy = data.data_dir.parent / "copy.db"
    shutil.copy(data.log_db, copy)
    grow(data, "b")
    shutil.copy(copy, data.log_db)
    with pytest.raises(LogBehind):
        log_rotation.begin(data)
    shutil.copy(data.log_mark, data.data_dir.parent / "log.mark")
    data.log_mark.unlink()
    highwater.make(data.log_db, data.log_mark, log_signer(data).vkey)
    log_rotation.begin(data)
    shutil.copy(data.data_dir.parent / "log.mark", data.log_mark)
    with pytest.raises(LogBehind):
        log_rotation.retire(data)
    data.log_mark.unlink()
    highwater.make(data.log_db, data.log_mark, log_signer(data).vkey)
    log_rotation.retire(data)
    shutil.copy(data.data_dir.parent / "log.mark", data.log_mark)
    with pytest.raises(LogBehind, match="3 entries were acknowledged"):
        opened(data)


def test_a_mark_is_made_anew_over_a_change(data):
    changed(data)
    data.log_mark.unlink()
    assert highwater.make(data.log_db, data.log_mark, log_signer(data).vkey) == 7
    grow(data, "g")


def test_hashes_are_rebuilt_over_a_change(data):
    _, new = changed(data)
    assert fsck.rebuild(data.log_db, new, [Index()]) == 7
    whole(data)


def test_the_exported_log_has_all_keys(data, tmp_path):
    old, new = changed(data)
    done = export(data.log_db, tmp_path / "static", new)
    assert (tmp_path / "static" / "vkeys").read_text() == f"{old} 1-5\n{new} 3-\n" == data.log_vkey.read_text()
    assert (tmp_path / "static" / "vkey").read_text() == f"{new}\n"
    assert done.files == sum(path.is_file() for path in (tmp_path / "static").rglob("*"))


def test_it_is_refused_while_the_service_runs(data):
    log = opened(data)
    try:
        for change, command in ((log_rotation.begin, "rotate-log"), (log_rotation.retire, "retire-log")):
            with pytest.raises(AlreadyOpen):
                change(data)
            result = CliRunner().invoke(main, ["keys", command, "--dir", str(data.data_dir)])
            assert (result.exit_code, "is the service running" in result.output) == (2, True)
    finally:
        log.close()
    assert not (data.data_dir / "log.next.key").exists()


def test_a_policy_that_would_not_let_the_service_start(data):
    old = log_signer(data).vkey
    grow(data, "a")
    new = log_rotation.begin(data).key
    witness = SigningKey(b"\3" * 32, "w.example").vkey
    cosigner = VerifierKey.of("w.example", 4, witness.public_key)
    policy = data.data_dir / "w.policy"
    config = data.data_dir / "beacon.toml"
    config.write_text(config.read_text().replace('# policy = "witnesses.policy"', 'policy = "w.policy"'))
    text = f"log {old}\nwitness w {cosigner} http://127.0.0.1:9\nquorum w\n"
    policy.write_text(text)
    named = load_settings(data.data_dir)
    assert named.witnesses.policy is not None
    with pytest.raises(ConfigurationError, match="names other logs"):
        log_rotation.retire(named)
    policy.write_text(f"log {new}\n{text}")
    log_rotation.retire(named)


# --- cut off ---------------------------------------------------------------------------------------------------------


def change_and_die(folder, change, kill_at, *arguments):
    """Change the key, and be killed at a step."""
    getattr(log_rotation, change)(load_settings(folder), *arguments, step=killer(kill_at))


async def starts(data):
    runner = web.AppRunner(create_app(data, Clock()))
    try:
        await runner.setup()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("name", BEGIN_STEPS)
def test_killed_while_a_key_is_added(data, name):
    old = log_signer(data).vkey
    grow(data, "a")
    killed(change_and_die, data.data_dir, "begin", name)
    asyncio.run(starts(data))
    grow(data, "b")
    done = log_rotation.begin(data)
    assert log_signer(data).vkeys == (old, done.key)
    assert str(vkeys_of(data)) == f"{old} 1-\n{done.key} {3 if name == 'begun' else 2}-"
    grow(data, "c")
    whole(data)


@pytest.mark.parametrize("name", RETIRE_STEPS)
def test_killed_while_a_key_is_retired(data, name):
    old = log_signer(data).vkey
    grow(data, "a")
    new = log_rotation.begin(data).key
    killed(change_and_die, data.data_dir, "retire", name)
    asyncio.run(starts(data))
    assert log_signer(data).vkeys == ((old, new) if name == "begun" else (new,))
    if name in {"committed", "kept-old"}:
        with pytest.raises(ConfigurationError, match="retire-log` first"):
            log_rotation.begin(data)
    grow(data, "b")
    if name in {"in-force", "published"}:
        with pytest.raises(ConfigurationError, match="one key signs"):
            log_rotation.retire(data)
    else:
        assert log_rotation.retire(data).key == old
    assert log_signer(data).vkeys == (new,)
    last = 3 if name == "begun" else 2
    assert str(vkeys_of(data)) == f"{old} 1-{last}\n{new} 2-"
    assert not (data.data_dir / "log.next.key").exists()
    assert read_key(data.data_dir / f"log.{old.key_id.hex()}.key")
    whole(data)


@pytest.mark.parametrize("name", ["begun", "committed", "published"])
def test_killed_while_the_new_key_is_given_up(data, name):
    old = log_signer(data).vkey
    grow(data, "a")
    new = log_rotation.begin(data).key
    identifier = new.key_id.hex()
    killed(change_and_die, data.data_dir, "retire", name, identifier)
    asyncio.run(starts(data))
    assert log_signer(data).vkeys == ((old, new) if name == "begun" else (old,))
    if name == "committed":
        with pytest.raises(ConfigurationError, match="retire-log` first"):
            log_rotation.begin(data)
    grow(data, "b")
    if name == "published":
        with pytest.raises(ConfigurationError, match="one key signs"):
            log_rotation.retire(data, identifier)
    else:
        assert log_rotation.retire(data, identifier).key == new
    assert log_signer(data).vkeys == (old,)
    assert str(vkeys_of(data)) == f"{old} 1-\n{new} 2-{3 if name == 'begun' else 2}"
    assert not (data.data_dir / "log.next.key").exists()
    assert read_key(data.data_dir / f"log.{identifier}.key")
    log_rotation.begin(data)
    whole(data)


# --- the commands ----------------------------------------------------------------------------------------------------


def run(data, *arguments):
    result = CliRunner().invoke(main, ["keys", *arguments, "--dir", str(data.data_dir)])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_commands_tell_keys_and_sizes_and_no_secret(data):
    old = log_signer(data).vkey
    grow(data, "a")
    told = [run(data, "list", "--json")]
    assert [one["vkey"] for one in json.loads(told[0])["log"]] == [str(old)]
    told.append(run(data, "rotate-log", "--json"))
    begun = json.loads(told[-1])
    assert (begun["first"], begun["file"]) == (2, str(data.data_dir / "log.next.key"))
    told.append(run(data, "rotate-log"))
    grow(data, "b")
    told.append(run(data, "retire-log", "--json"))
    assert json.loads(told[-1]) == {
        "vkey": str(old), "last": 3, "file": str(data.data_dir / f"log.{old.key_id.hex()}.key"),
    }  # fmt: skip
    told += [run(data, "list"), run(data, "list", "--json")]
    found = json.loads(told[-1])
    assert found["log"] == [
        {"vkey": str(old), "first": 1, "last": 3, "first_time": START, "last_time": START, "signs": False},
        {"vkey": begun["vkey"], "first": 2, "last": None, "first_time": START, "last_time": None, "signs": True},
    ]
    master_key = read_key(data.master_key)
    assert found["master"] == {"id": fingerprint(master_key), "in_force": True, "rotation_cut_off": False}
    assert found["hosts"] == []
    for path in data.data_dir.glob("*.key"):
        assert read_key(path).hex() not in "".join(told)


def test_a_key_that_waits_for_the_next_start_is_listed(data):
    grow(data, "a")
    write_key(data.data_dir / "log.next.key", b"\5" * 32)
    found = listed(data)
    assert found["log_waiting"] == [str(SigningKey(b"\5" * 32, ORIGIN).vkey)]
    assert "signs from the next start on" in run(data, "list")
    grow(data, "b")
    assert listed(data)["log_waiting"] == []
