"""Checking a whole file: every kind of damage is found and named, and what can be rebuilt is."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.log import fsck
from beacon.log.fsck import check, rebuild
from beacon.store.errors import AlreadyOpen, CannotOpen, LogDamaged, SchemaRefused
from tests.log_support import (
    SIGNER,
    Clock,
    Index,
    append,
    contribution,
    contributions,
    first_leaf,
    forge,
    make_log,
    open_log,
    signed,
    tamper,
    verify_whole,
)
from verifier import merkle
from verifier.note import SigningKey

BATCHES = (1, 5, 3, 40)
SIZE = 1 + sum(BATCHES)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log.db"
    make_log(path, BATCHES)
    return path


def found(path, **options):
    report = check(path, SIGNER.vkey, [Index()], **options)
    assert not report.ok
    return {str(finding) for finding in report.findings}


def test_a_whole_log_is_found_whole(path):
    seen = []
    report = check(path, SIGNER.vkey, [Index()], lambda done, total: seen.append((done, total)))
    assert report.ok
    assert (report.size, report.checkpoints, report.rounds, report.derived_checked) == (SIZE, 5, 0, True)
    assert seen[-1] == (SIZE, SIZE)
    with closing(sqlite3.connect(path)) as db:
        leaves = [merkle.leaf_hash(row[0]) for row in db.execute("SELECT entry FROM entries ORDER BY i")]
    assert report.root == merkle.tree_root(leaves).hex()


def test_without_projections_the_derived_tables_are_not_checked(path):
    tamper(path, "DELETE FROM session_entries")
    report = check(path, SIGNER.vkey)
    assert report.ok
    assert not report.derived_checked


def test_progress_is_told_along_the_way(path, monkeypatch):
    monkeypatch.setattr(fsck, "PROGRESS_EVERY", 7)
    seen = []
    check(path, SIGNER.vkey, [Index()], lambda done, total: seen.append((done, total)))
    assert seen == [*((done, SIZE) for done in range(7, SIZE, 7)), (SIZE, SIZE)]


def test_a_running_log_is_checked_as_of_one_moment(tmp_path):
    path = tmp_path / "log.db"
    log = open_log(path)
    append(log, "a")
    sizes = []

    def progress(done, total):
        append(log, "meanwhile")
        sizes.append(total)

    report = check(path, SIGNER.vkey, [Index()], progress)
    assert report.ok
    assert report.size == 2
    assert log.latest().size == 3
    log.close()


DAMAGE = {
    "an entry changed": (
        ["UPDATE entries SET entry = CAST(replace(CAST(entry AS TEXT), '1-2', '1-9') AS BLOB) WHERE i = 4"],
        ["hash 4: does not follow", "checkpoint 7: signs another root"],
    ),
    "an entry that is no JSON any more": (
        ["UPDATE entries SET entry = CAST('[' || substr(entry, 2) AS BLOB) WHERE i = 4"],
        ["entry 4: json", "hash 4: does not follow"],
    ),
    "an entry in the middle gone": (["DELETE FROM entries WHERE i = 4"], ["entry 4: entries 4 to 4 are missing"]),
    "the newest entries gone": (
        [f"DELETE FROM entries WHERE i >= {SIZE - 2}"],
        [f"checkpoint {SIZE}: covers more than there is", f"hash {SIZE - 1}: a hash of an entry that is not there"],
    ),
    "two entries exchanged": (
        [
            "UPDATE entries SET i = 1000 WHERE i = 3",
            "UPDATE entries SET i = 3 WHERE i = 4",
            "UPDATE entries SET i = 4 WHERE i = 1000",
        ],
        ["hash 3: does not follow", "hash 4: does not follow"],
    ),
    "a leaf hash changed": (
        ["UPDATE hashes SET nodes = (SELECT nodes FROM hashes WHERE i = 6) WHERE i = 4"],
        ["hash 4: does not follow"],
    ),
    "a row with inner hashes changed": (
        ["UPDATE hashes SET nodes = (SELECT nodes FROM hashes WHERE i = 11) WHERE i = 3"],
        ["hash 3: does not follow"],
    ),
    "a hash gone": (["DELETE FROM hashes WHERE i = 4"], ["hash 4: is missing"]),
    "the newest hash gone": ([f"DELETE FROM hashes WHERE i = {SIZE - 1}"], [f"hash {SIZE - 1}: is missing"]),
    "a hash too many": (
        [f"INSERT INTO hashes VALUES ({SIZE}, zeroblob({32 * ((SIZE + 1) & -(SIZE + 1)).bit_length()}))"],
        [f"hash {SIZE}: a hash of an entry that is not there"],
    ),
    "the newest checkpoint gone": (
        [f"DELETE FROM checkpoints WHERE size = {SIZE}"],
        [f"checkpoint {SIZE - 40}: the newest one, but there are {SIZE} entries"],
    ),
    "all checkpoints gone": (
        ["DELETE FROM checkpoints"],
        [f"checkpoint: the newest one, but there are {SIZE} entries"],
    ),
    "a checkpoint changed": (
        ["UPDATE checkpoints SET note = replace(note, '\n7\n', '\n8\n') WHERE size = 7"],
        ["checkpoint 7: checkpoint 7 is not one that"],
    ),
    "a checkpoint's signature gone": (
        ["UPDATE checkpoints SET note = substr(note, 1, instr(note, '—') - 1) WHERE size = 7"],
        ["checkpoint 7: checkpoint 7 is not one that"],
    ),
    "a checkpoint of another size": (
        ["UPDATE checkpoints SET note = (SELECT note FROM checkpoints WHERE size = 7) WHERE size = 10"],
        ["checkpoint 10: checkpoint 10 is another log's or another size's"],
    ),
    "a checkpoint with another time": (
        ["UPDATE checkpoints SET time = time + 1 WHERE size = 7"],
        ["checkpoint 7: has not the time of its newest entry"],
    ),
    "a derived row gone": (["DELETE FROM session_entries WHERE i = 4"], ["derived: session_entries: a row is"]),
    "a derived row too many": (
        ["INSERT INTO round_entries VALUES (x'00', 1, 1)"],
        ["derived: round_entries: a row is (00, 1, 1) and should be absent"],
    ),
    "a derived row changed": (
        ["UPDATE session_entries SET session = x'00' WHERE i = 4"],
        ["derived: session_entries: a row is (00, 4) and should be ("],
    ),
}


@pytest.mark.parametrize(("statements", "expected"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_found_and_named(path, statements, expected):
    tamper(path, *statements)
    findings = found(path)
    for part in expected:
        assert any(finding.startswith(part) for finding in findings), findings


def test_a_checkpoint_signed_by_our_key_over_another_tree(path):
    note = signed(7, bytes(32))
    tamper(path, ("UPDATE checkpoints SET note = ? WHERE size = 7", (note,)))
    assert found(path) == {"checkpoint 7: signs another root than the entries have"}


def test_a_checkpoint_of_ours_with_an_extension_or_another_origin(path):
    with closing(sqlite3.connect(path)) as db:
        leaves = [merkle.leaf_hash(row[0]) for row in db.execute("SELECT entry FROM entries ORDER BY i LIMIT 7")]
    root = merkle.tree_root(leaves)
    for note in (signed(7, root, extensions=("more",)), signed(7, root, origin="other.example")):
        tamper(path, ("UPDATE checkpoints SET note = ? WHERE size = 7", (note,)))
        assert found(path) == {"checkpoint 7: checkpoint 7 is another log's or another size's"}


def test_another_key(path):
    report = check(path, SigningKey(bytes(32), SIGNER.name).vkey, [Index()])
    assert [finding.where for finding in report.findings] == ["checkpoint"] * 5


OWNER = {
    "time runs back": ([contribution(6, "a"), contribution(5, "b")], "entry 2: is older than the one before"),
    "a type that is none": ([b'{"v":1,"type":"x","time":5}'], "entry 1: entry"),
    "a second first entry": ([first_leaf(5)], "entry 1: the first entry, and no other, is of type log"),
}


@pytest.mark.parametrize(("entries", "expected"), OWNER.values(), ids=OWNER.keys())
def test_what_a_signature_does_not_make_right(path, entries, expected):
    forge(path, [first_leaf(5), *entries], 5)
    findings = found(path)
    assert any(finding.startswith(expected) for finding in findings), findings


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (first_leaf(5, "other.example"), "entry 0: names another log"),
        (contribution(5, "a"), "entry 0: the first entry, and no other, is of type log"),
    ],
)
def test_a_log_that_begins_otherwise(path, first, expected):
    forge(path, [first], 5)
    assert any(finding.startswith(expected) for finding in found(path))


def test_an_altered_schema_is_found(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TRIGGER entries_no_delete")
    assert found(path) == {"schema: log database: entries_no_delete is missing"}


def test_a_damaged_index_of_the_database_is_found(path):
    """Nothing that the log itself reads has changed: only SQLite's own check can tell."""
    whole = path.read_bytes()
    record = b"fair-beacon-logm001_log"
    places = [place for place in range(len(whole)) if whole.startswith(record, place)]
    findings = set()
    for place in places:
        path.write_bytes(whole[:place] + b"F" + whole[place + 1 :])
        findings |= found(path)
    assert len(places) == 2
    assert any(finding.startswith("database: row 1 missing from index") for finding in findings)


def test_no_database_is_found(tmp_path):
    path = tmp_path / "log.db"
    path.write_bytes(b"not a database" * 1000)
    assert {finding.split(":")[0] for finding in found(path)} == {"database"}
    with pytest.raises(CannotOpen):
        check(tmp_path / "none.db", SIGNER.vkey)


def test_findings_are_counted_beyond_the_first_hundred(tmp_path):
    path = tmp_path / "log.db"
    make_log(path, [150])
    tamper(path, "UPDATE hashes SET nodes = zeroblob(length(nodes))")
    report = check(path, SIGNER.vkey)
    assert len(report.findings) == fsck.MAX_FINDINGS
    assert report.more == 151 - fsck.MAX_FINDINGS


def test_projections_are_told_of_the_commits_that_there_were(path):
    class Commits(Index):
        def __init__(self):
            super().__init__()
            self.sizes = []

        def applied(self, db, index, entry, leaf_hash):
            super().applied(db, index, entry, leaf_hash)
            self.size = index + 1

        def committed(self):
            super().committed()
            self.sizes.append(self.size)

    checked, rebuilt = Commits(), Commits()
    assert check(path, SIGNER.vkey, [checked]).ok
    rebuild(path, SIGNER.vkey, [rebuilt])
    assert checked.sizes == rebuilt.sizes == [1, 2, 7, 10, 50]


def test_a_projection_that_cannot_follow_is_a_finding(path):
    class Failing(Index):
        def applied(self, db, index, entry, leaf_hash):
            if index == 3:
                raise ValueError("cannot read this")
            super().applied(db, index, entry, leaf_hash)

    report = check(path, SIGNER.vkey, [Failing()])
    assert str(report.findings[0]) == "derived 3: cannot be applied: ValueError: cannot read this"


class Flipped:
    def __init__(self, path):
        self.path, self.whole, self.contents = path, path.read_bytes(), dump(path)


@given(st.integers(0), st.integers(0, 7))
@settings(deadline=None, max_examples=60)
def test_no_flipped_bit_goes_unseen(flipped_log, position, bit):
    """Any bit of any page that holds data: either it is found, or nothing that is read has changed."""
    path, whole = flipped_log.path, flipped_log.whole
    position %= len(whole)
    path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << bit]) + whole[position + 1 :])
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    try:
        report = check(path, SIGNER.vkey, [Index()])
    except CannotOpen:
        return
    if report.ok:
        assert dump(path) == flipped_log.contents


def dump(path):
    with closing(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True)) as db:
        return {
            table: db.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("entries", "hashes", "checkpoints", "session_entries")
        }


@pytest.fixture(scope="module")
def flipped_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("flipped") / "log.db"
    make_log(path, BATCHES)
    return Flipped(path)


# --- rebuilding -------------------------------------------------------------------------------------------------


REBUILT = {
    "nothing": [],
    "hashes changed": ["UPDATE hashes SET nodes = zeroblob(length(nodes))"],
    "hashes gone": ["DELETE FROM hashes"],
    "derived rows gone": ["DELETE FROM session_entries"],
    "derived rows that do not belong": ["INSERT INTO round_entries VALUES (x'00', 1, 1)"],
}


@pytest.mark.parametrize("statements", REBUILT.values(), ids=REBUILT.keys())
def test_what_is_derived_is_rebuilt(path, statements, monkeypatch):
    before = dump(path)
    tamper(path, *statements)
    monkeypatch.setattr(fsck, "_CHUNK", 7)
    seen = []
    assert rebuild(path, SIGNER.vkey, [Index()], lambda done, total: seen.append((done, total))) == SIZE
    assert seen[-1] == (SIZE, SIZE)
    assert dump(path) == before
    verify_whole(path)
    log = open_log(path)
    append(log, "after")
    log.close()
    verify_whole(path)


def test_tables_that_are_gone_are_rebuilt(path):
    before = dump(path)
    with closing(sqlite3.connect(path)) as db:
        for table in ("hashes", "session_entries", "sessions"):
            db.execute(f"DROP TABLE {table}")
    rebuild(path, SIGNER.vkey, [Index()])
    assert dump(path) == before
    verify_whole(path)


NOT_REBUILT = {
    "an entry changed": ["UPDATE entries SET entry = x'7b7d' WHERE i = 4"],
    "an entry gone": ["DELETE FROM entries WHERE i = 4"],
    "the newest entry gone": [f"DELETE FROM entries WHERE i = {SIZE - 1}"],
    "the newest checkpoint gone": [f"DELETE FROM checkpoints WHERE size = {SIZE}"],
    "a checkpoint changed": ["UPDATE checkpoints SET note = replace(note, '7', '8') WHERE size = 7"],
}


@pytest.mark.parametrize("statements", NOT_REBUILT.values(), ids=NOT_REBUILT.keys())
def test_what_is_not_derived_cannot_be_rebuilt(path, statements):
    tamper(path, *statements)
    before = dump(path)
    with pytest.raises(LogDamaged):
        rebuild(path, SIGNER.vkey, [])
    assert dump(path) == before


def test_a_rebuilt_log_must_have_its_triggers(path):
    tamper(path, "DELETE FROM session_entries")
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TRIGGER entries_no_delete")
    before = dump(path)
    with pytest.raises(SchemaRefused, match="entries_no_delete is missing"):
        rebuild(path, SIGNER.vkey, [Index()])
    assert dump(path) == before


def test_a_projection_that_fails_leaves_everything_as_it_was(path):
    class Failing(Index):
        def applied(self, db, index, entry, leaf_hash):
            raise ValueError("cannot read this")

    before = dump(path)
    with pytest.raises(ValueError, match="cannot read this"):
        rebuild(path, SIGNER.vkey, [Failing()])
    assert dump(path) == before
    verify_whole(path)


def test_nothing_is_rebuilt_under_a_running_service(tmp_path):
    path = tmp_path / "log.db"
    log = open_log(path)
    with pytest.raises(AlreadyOpen):
        rebuild(path, SIGNER.vkey, [Index()])
    log.close()
    rebuild(path, SIGNER.vkey, [Index()])


def test_only_a_log_is_rebuilt(tmp_path):
    path = tmp_path / "other.db"
    with pytest.raises(LogDamaged, match="no log"):
        rebuild(path, SIGNER.vkey, [])
    assert list(tmp_path.iterdir()) == []
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE hashes (mine)")
    with pytest.raises(SchemaRefused):
        rebuild(path, SIGNER.vkey, [])
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT sql FROM sqlite_schema").fetchall() == [("CREATE TABLE hashes (mine)",)]


async def test_a_log_made_by_append_and_one_rebuilt_are_the_same(tmp_path):
    log = open_log(tmp_path / "log.db", clock=Clock(7))
    for count in (1, 3, 2):
        await log.append(contributions(*(f"p{number}" for number in range(count))))
    log.close()
    before = dump(tmp_path / "log.db")
    rebuild(tmp_path / "log.db", SIGNER.vkey, [Index()])
    assert dump(tmp_path / "log.db") == before
