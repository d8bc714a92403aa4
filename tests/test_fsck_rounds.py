"""The rounds of a log: each is verified under its chain's key, and the table says what the entries say."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from beacon.log import fsck_rounds, wire
from beacon.log.fsck import check
from tests.log_support import ORIGIN, SIGNER, first_leaf, forge, make_log, tamper
from tests.round_support import DEFAULT, QUICKNET, own_chain, recorded
from tests.session_support import FIRST, service
from tests.test_rounds import signed
from verifier import entries

ROUND = FIRST + 9
WRONG = recorded(QUICKNET, 1000).signature


@pytest.fixture
async def logged(tmp_path):
    """The entries of a real session: log, chain, seal, round and what came after."""
    folder = tmp_path / "made"
    folder.mkdir()
    async with service(folder) as made:
        session = (await made.seal(round=ROUND, participants=[])).session
        await made.reach(ROUND)
        await made.draw(session)
    with closing(sqlite3.connect(folder / "log.db")) as db:
        return [entries.parse_entry(row[0]) for row in db.execute("SELECT entry FROM entries ORDER BY i")]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log.db"
    make_log(path)
    return path


def write(path, parsed, *rows, evidence=()):
    """A log of our own key with these entries, and these (chain, Round) in its tables."""
    encoded = [first_leaf(parsed[0].time, ORIGIN), *(wire.encode(entry) for entry in parsed[1:])]
    forge(path, encoded, parsed[-1].time)
    insert = "INSERT INTO {} VALUES (?, ?, ?, ?{})"
    tamper(
        path,
        *((insert.format("rounds", ""), row_of(*row)) for row in rows),
        *((insert.format("round_evidence", ", 0"), row_of(*row)) for row in evidence),
    )


def row_of(chain, stated):
    return (chain.hash, stated.round, stated.signature, stated.previous_signature)


def position(parsed, kind):
    return next(index for index, entry in enumerate(parsed) if isinstance(entry, kind))


def changed(parsed, kind, **fields):
    index = position(parsed, kind)
    return [*parsed[:index], replace(parsed[index], **fields), *parsed[index + 1 :]], index


def found(path, **options):
    report = check(path, SIGNER.vkey, **options)
    assert not report.ok
    return [str(finding) for finding in report.findings]


GOOD = [(QUICKNET, recorded(QUICKNET, number)) for number in (FIRST, FIRST + 3, ROUND)]


def test_an_honest_log_passes(path, logged, monkeypatch):
    monkeypatch.setattr(fsck_rounds, "BATCH", 2)
    write(path, logged, *GOOD, (DEFAULT, recorded(DEFAULT, 367)))
    seen = []
    report = check(path, SIGNER.vkey, round_progress=lambda done, total: seen.append((done, total)))
    assert [str(finding) for finding in report.findings] == []
    assert (report.rounds, report.rounds_verified, report.rounds_unverified, report.rounds_foreign) == (4, 4, 0, 0)
    assert seen[-1] == (4, 4)
    assert len(seen) == 3


def test_a_forged_round_entry_is_found(path, logged):
    parsed, index = changed(logged, entries.Round, signature=WRONG)
    write(path, parsed)
    (finding,) = found(path)
    assert finding.startswith(f"entry {index}: its round {ROUND} does not verify: round-signature")


def test_a_forged_round_entry_is_found_though_the_table_agrees(path, logged):
    parsed, index = changed(logged, entries.Round, signature=WRONG)
    write(path, parsed, (QUICKNET, replace(recorded(QUICKNET, ROUND), signature=WRONG)))
    findings = found(path)
    assert [finding.split(":")[0] for finding in findings] == [f"round {ROUND}", f"entry {index}"]


def test_a_forged_after_is_found(path, logged):
    after = logged[position(logged, entries.Seal)].after
    parsed, index = changed(logged, entries.Seal, after=replace(after, signature=WRONG))
    write(path, parsed)
    (finding,) = found(path)
    assert finding.startswith(f"entry {index}: the round that it comes after, {FIRST} does not verify")


def test_an_after_that_is_no_point_is_found(path, logged):
    after = logged[position(logged, entries.Seal)].after
    parsed, index = changed(logged, entries.Seal, after=replace(after, signature=b"\xff" * 48))
    write(path, parsed)
    (finding,) = found(path)
    assert finding.startswith(f"entry {index}: ")


def test_a_forged_row_is_found_though_no_entry_names_it(path, logged):
    write(path, logged, *GOOD, (QUICKNET, replace(recorded(QUICKNET, 1001), signature=WRONG)))
    (finding,) = found(path)
    assert finding.startswith("round 1001: stored for quicknet, does not verify")


def test_a_row_of_another_signature_than_the_entries(path, logged):
    write(path, logged, *GOOD[1:], (QUICKNET, replace(recorded(QUICKNET, FIRST), signature=WRONG)))
    findings = found(path)
    index = position(logged, entries.Seal)
    assert findings[0] == f"entry {index}: the round that it comes after, {FIRST} is not what the table of rounds has"
    assert findings[1].startswith(f"round {FIRST}: ")
    assert len(findings) == 2


def test_two_valid_signatures_of_one_round_are_told_apart(path, logged):
    """Only a broken chain can: both verify, and the table is still not what the entry says."""
    chain = own_chain()
    one, two = (signed(chain, 10, bytes([number]) * 96) for number in (1, 2))
    time = logged[0].time
    entry = entries.Round(time, chain.hash, 10, one.signature, one.previous_signature)
    write(path, [logged[0], entries.Chain(time, chain.as_dict()), entry], (chain, two), evidence=[(chain, one)])
    assert found(path) == ["entry 2: its round 10 is not what the table of rounds has"]


def test_false_evidence_is_found(path, logged):
    write(path, logged, *GOOD, evidence=[(QUICKNET, replace(recorded(QUICKNET, ROUND), signature=WRONG))])
    (finding,) = found(path)
    assert finding.startswith(f"evidence {ROUND}: stored for quicknet, does not verify")


def test_a_chain_that_does_not_hash_to_its_hash(path, logged):
    parsed, index = changed(logged, entries.Chain, info=QUICKNET.as_dict() | {"period": 4})
    write(path, parsed)
    findings = found(path)
    assert findings[0].startswith(f"entry {index}: chain-info")
    assert all("is of a chain whose info is not in the log" in finding for finding in findings[1:])
    assert len(findings) == 3


def test_the_scheme_of_a_pinned_chain_is_not_the_logs_to_say(path, logged):
    other = "bls-unchained-on-g1"
    parsed, index = changed(logged, entries.Chain, info=QUICKNET.as_dict() | {"scheme": other})
    write(path, parsed)
    assert found(path) == [f"entry {index}: says {other} of a chain whose scheme is {QUICKNET.scheme.name}"]


def test_a_round_of_a_chain_that_the_log_does_not_describe(path, logged):
    index = position(logged, entries.Chain)
    write(path, [*logged[:index], *logged[index + 1 :]])
    findings = found(path)
    assert len(findings) == 2
    assert all("whose info is not in the log" in finding for finding in findings)


def test_rows_of_a_chain_that_nobody_knows_are_counted(path, logged):
    write(path, logged, *GOOD, (own_chain(), recorded(DEFAULT, 367)))
    report = check(path, SIGNER.vkey)
    assert report.ok
    assert (report.rounds_verified, report.rounds_unverified, report.rounds_foreign) == (3, 1, 1)


def test_without_pairings_the_rounds_are_compared_and_the_report_says_so(path, logged):
    parsed, index = changed(logged, entries.Round, signature=WRONG)
    write(path, parsed)
    report = check(path, SIGNER.vkey, rounds=False)
    assert report.ok
    assert (report.rounds_checked, report.rounds_verified, report.rounds_unverified) == (False, 0, 2)
    write(path, parsed, GOOD[2])
    assert found(path, rounds=False) == [f"entry {index}: its round {ROUND} is not what the table of rounds has"]
