"""What witnesses prove to who reads a whole log: of each session, by every cosigned checkpoint that the log ever showed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit_support import TRUST, URL, Log, downloading, graves, honest
from tests.builder import LOG_KEY, POLICY, WITNESSES, at
from tests.test_audit import database
from verifier import whole_log
from verifier.audit import sources
from verifier.audit.forks import Fork
from verifier.audit.keeping import opened
from verifier.audit.run import Audit
from verifier.audit.sources import Download, of_address, of_database
from verifier.errors import Code, FormatError
from verifier.note import Signature
from verifier.policy import Policy
from verifier.transcript import SignedCheckpoint
from verifier.verdict import Exit

WITNESSED = replace(TRUST, policy=Policy.parse(POLICY))
BOTH = {"w1": 7.0, "w2": 7.0}
LATE = {"w1": 700.0, "w2": 700.0}


def closed(log: Log) -> int:
    """The size at which everything is closed, and the round not there."""
    return next(i for i, leaf in enumerate(log.leaves) if b'"type":"round"' in leaf)


def with_cosignatures(path: Path, log: Log, notes: Iterable[str]) -> Path:
    """The log's database, with these cosigned checkpoints beside its newest one."""
    database(path, log.leaves)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE witnesses (id INTEGER PRIMARY KEY, vkey TEXT)")
        db.execute("CREATE TABLE cosignatures (size INTEGER, witness INTEGER, signature BLOB)")
        ids = {key.vkey.name: number for number, key in enumerate(WITNESSES.values(), 1)}
        db.executemany("INSERT INTO witnesses VALUES (?, ?)", [(ids[key.vkey.name], str(key.vkey)) for key in WITNESSES.values()])  # fmt: skip
        for text in notes:
            signed = SignedCheckpoint.parse(text)
            size, lines = signed.checkpoint.size, signed.note.signatures
            own = "".join(line.encode() for line in lines if line.name not in ids)
            db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", [size, f"{signed.note.text}\n{own}"])
            rows = [(size, ids[line.name], line.signature) for line in lines if line.name in ids]
            db.executemany("INSERT INTO cosignatures VALUES (?, ?, ?)", rows)
        db.commit()
    return path


def showing(log: Log, size: int, *, witnessed: str | None, checkpoint: str | None = None) -> Download:
    """A log of that size at an address, with its resource of the newest checkpoint that a quorum cosigned."""
    plain = downloading(log.leaves[:size])

    def download(url: str, limit: int) -> bytes:
        if url == f"{URL}/log/witnessed":
            if witnessed is None:
                raise FormatError(Code.USAGE, f"{url} answers 404")
            return witnessed.encode()
        if checkpoint is not None and url == f"{URL}/log/checkpoint":
            return checkpoint.encode()
        return plain(url, limit)

    return download


def totals(source: sources.Source, state: Path | None = None, **trust: Any) -> dict[str, int]:
    with opened(state) as kept:
        audit = Audit(kept, replace(WITNESSED, **trust), state)
        audit.run(source)
        assert (audit.exit(), list(kept.found())) == (Exit.FAIR, [])
        found: dict[str, int] = kept.get("totals")
        return found


def test_each_session_is_proven_by_the_cosignatures_in_a_database(tmp_path: Path) -> None:
    log = honest(3)
    early, end = log.checkpoint(closed(log), BOTH), log.checkpoint(len(log.leaves), LATE)
    for number, (notes, proven) in enumerate((([early, end], 3), ([end], 0), ([early], 0))):
        with of_database(with_cosignatures(tmp_path / f"{number}.db", log, notes)) as source:
            assert totals(source) == {"ended": 3, "fair": 3, "proven": proven}
    with of_database(tmp_path / "0.db") as source:
        assert totals(source, policy=None)["proven"] == 0


def test_a_quorum_that_is_late_or_too_small_proves_nothing(tmp_path: Path) -> None:
    log = honest(2)
    end = log.checkpoint(len(log.leaves), LATE)
    for number, seen in enumerate(({"w1": 7.0}, {"w1": 7.0, "w2": 15.0}, {"w1": 16.0, "w2": 16.0})):
        path = with_cosignatures(tmp_path / f"{number}.db", log, [log.checkpoint(closed(log), seen), end])
        with of_database(path) as source:
            assert totals(source)["proven"] == 0


def test_who_follows_a_log_collects_its_cosignatures(tmp_path: Path) -> None:
    log = honest(2)
    size, whole = closed(log), len(log.leaves)
    early, end = log.checkpoint(size, BOTH), log.checkpoint(whole, LATE)
    assert totals(of_address(URL, showing(log, size, witnessed=early)), tmp_path)["proven"] == 0
    assert totals(of_address(URL, showing(log, whole, witnessed=end)), tmp_path)["proven"] == 2
    assert totals(of_address(URL, showing(log, whole, witnessed=end)))["proven"] == 0


def test_the_newest_checkpoint_s_own_cosignatures_count_too(tmp_path: Path) -> None:
    log = honest(2)
    size, whole = closed(log), len(log.leaves)
    early, end = log.checkpoint(size, BOTH), log.checkpoint(whole, LATE)
    totals(of_address(URL, showing(log, size, witnessed=None, checkpoint=early)), tmp_path)
    assert totals(of_address(URL, showing(log, whole, witnessed=None, checkpoint=end)), tmp_path)["proven"] == 2


def test_names_of_another_policy_vouch_for_nothing(tmp_path: Path) -> None:
    """What was kept is of keys: a later policy that calls others by the same names does not inherit it."""
    log = honest(2)
    size, whole = closed(log), len(log.leaves)
    early, end = log.checkpoint(size, BOTH), log.checkpoint(whole, LATE)
    totals(of_address(URL, showing(log, size, witnessed=early)), tmp_path)
    other = POLICY.replace("witness w1", "witness w0").replace("witness w3", "witness w1").replace("w1 w2 w3", "w1 w2")
    renamed = Policy.parse(other)
    assert totals(of_address(URL, showing(log, whole, witnessed=end)), tmp_path, policy=renamed)["proven"] == 0


def test_a_false_cosignature_is_found_once(tmp_path: Path) -> None:
    log = honest(3)
    signed = SignedCheckpoint.parse(log.checkpoint(closed(log), BOTH))
    first, second, third = signed.note.signatures
    false = Signature(third.name, third.key_id, second.signature)
    note = replace(signed.note, signatures=(first, second, false)).encode()
    with of_database(with_cosignatures(tmp_path / "log.db", log, [note])) as source, opened(None) as state:
        audit = Audit(state, WITNESSED)
        audit.run(source)
        assert audit.exit() == Exit.FAILED
        assert [(one.claim, one.rule) for one in state.found()] == [("witnessed", "7.1")]


@pytest.mark.parametrize("shown", ["a database", "an address"])
def test_a_cosigned_checkpoint_of_another_history_is_evidence(shown: str, tmp_path: Path) -> None:
    log, other = honest(3), Log()
    other.leaves = [*log.leaves[:8], *log.leaves[9:]]
    forked = other.checkpoint(10, BOTH)
    with opened(tmp_path / "state") as state:
        audit = Audit(state, WITNESSED, tmp_path / "state")
        if shown == "a database":
            with of_database(with_cosignatures(tmp_path / "log.db", log, [forked])) as source:
                audit.run(source)
        else:
            audit.run(of_address(URL, showing(log, len(log.leaves), witnessed=forked)))
        assert audit.exit() == Exit.FAILED
        assert graves(state.found()) == {("log", "7.2")}
        assert audit.witnessing.at(10) == []
    (file,) = (tmp_path / "state").glob("fork-*.json")
    Fork.parse(file.read_bytes()).check(LOG_KEY.vkey)


def test_what_the_log_did_not_sign_counts_for_nothing(tmp_path: Path) -> None:
    log = honest(2)
    signed = SignedCheckpoint.parse(log.checkpoint(closed(log), BOTH))
    unsigned = replace(signed.note, signatures=signed.note.signatures[1:]).encode()
    path = with_cosignatures(tmp_path / "log.db", log, [unsigned, log.checkpoint(len(log.leaves), LATE)])
    with of_database(path) as source:
        assert totals(source)["proven"] == 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE witnesses SET vkey = 'none'",
        "UPDATE witnesses SET vkey = 7",
        "UPDATE cosignatures SET witness = 77",
        "UPDATE cosignatures SET signature = 'text'",
        "UPDATE cosignatures SET signature = x''",
        "UPDATE checkpoints SET note = x'00' WHERE size < (SELECT max(size) FROM checkpoints)",
        "DROP TABLE witnesses",
        "DROP TABLE cosignatures; CREATE VIEW cosignatures AS SELECT 1 AS size, 1 AS witness, x'00' AS signature",
    ],
)
def test_what_a_stranger_put_into_the_tables_is_nothing(damage: str, tmp_path: Path) -> None:
    log = honest(2)
    end = log.checkpoint(len(log.leaves), LATE)
    path = with_cosignatures(tmp_path / "log.db", log, [log.checkpoint(closed(log), BOTH), end])
    with closing(sqlite3.connect(path)) as db:
        db.executescript(damage)
    with of_database(path) as source:
        assert totals(source)["proven"] == 0


def test_of_one_checkpoint_no_more_is_read_than_a_note_holds(tmp_path: Path) -> None:
    log = honest(1)
    path = with_cosignatures(tmp_path / "log.db", log, [log.checkpoint(closed(log), BOTH)])
    with closing(sqlite3.connect(path)) as db:
        rows = [(closed(log), 1, at(7).to_bytes(72, "big"))] * 500
        db.executemany("INSERT INTO cosignatures VALUES (?, ?, ?)", rows)
        db.commit()
    with whole_log.of_database(path) as read:
        (signed,) = read.cosigned(0)
    assert len(signed.note.signatures) <= whole_log.MAX_WITNESSES + 1
