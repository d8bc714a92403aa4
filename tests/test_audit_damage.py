"""An auditor's own file, damaged in any cell: told as such, never as an internal error, never as the log's fault."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.audit_support import Log, audited, served, source_of
from tests.builder import LOG_KEY, POLICY, QUICKNET, at, sealed
from tests.test_audit_timelocks import BOTH, LOCKS, NUMBER, opening
from verifier.audit import damage
from verifier.audit.gossip import Gossip
from verifier.audit.keeping import FILE, opened
from verifier.audit.run import Audit
from verifier.cli import main
from verifier.policy import Policy
from verifier.transcript import SignedCheckpoint
from verifier.verdict import Exit

GARBAGE = (None, -7, 2**60, "none", "[]", '{"a":[]}', b"\xff")
TABLES = {
    "meta": "name value", "leaves": "tile hashes", "chains": "chain info",
    "stated": "chain round signature previous error", "rounds": "chain round i entry", "newest": "chain i round",
    "sessions": "session i host label overdue ended", "pending": "session i entry", "locks": "chain round session",
    "used": "value session i", "hosts": "host account", "dice": "host sandbox counts", "labels": "host label session",
    "cosigned": "size witness type time", "findings": "number grave claim rule i text session host",
}  # fmt: skip
CELLS = [(table, column) for table, columns in TABLES.items() for column in columns.split()]
META = (
    "size", "time", "clock", "judged", "cosigned", "origin", "checkpoint", "totals", "newest", "gossip", "ahead", "found"
)  # fmt: skip


def eventful() -> tuple[list[bytes], list[bytes]]:
    """A log that leaves something in every table, and the same log grown by an end for all that is open."""
    log = Log()
    log.add({"v": 1, "type": "chain", "time": at(0), "info": LOCKS.chain.as_dict()})
    log.next_session(1)
    log.seal(host_seq=1, label="table", timelock=sealed(log.links[1], NUMBER, LOCKS.chain))
    first = log.kept()
    second = log.sealed(2, label="table").kept()
    first = log.resume(first).contributed().kept()
    second = log.resume(second).contributed().kept()
    log.resume(first).close(6.6)
    log.resume(second).close(6.6).round(1005, 15.9)
    early = log.resume(first).draw("turn", 16).reveal(16).leaves.copy()
    return early, opening(log.resume(second).draw("turn", 16).reveal(16)).leaves.copy()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """A state in which every table has a row, and the log that it goes on with."""
    directory = tmp_path_factory.mktemp("kept")
    early, whole = eventful()
    with opened(directory) as state:
        trust = replace(BOTH, policy=Policy.parse(POLICY))
        audit, source = Audit(state, trust, directory), source_of(early)
        audit.run(source)
        Gossip(audit, source, lambda: source).run()
        log = Log()
        log.leaves = early
        audit.witnessed(source, [SignedCheckpoint.parse(log.checkpoint(None, {"w1": 20, "w2": 20}))])
        state.commit()
        assert [(one.rule, one.grave) for one in state.found()] == [("3.6", False)]
    with closing(sqlite3.connect(directory / FILE)) as db:
        assert all(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        columns = {name: " ".join(row[1] for row in db.execute(f"PRAGMA table_info({name})")) for name in names}
        assert columns == TABLES
        assert damage.found(db) is None
    return directory, whole


def audit(directory: Path, leaves: list[bytes]) -> Result:
    chain = directory.with_name("locks.json")
    chain.write_text(json.dumps(LOCKS.chain.as_dict()))
    policy = directory.with_name("w.policy")
    policy.write_text(POLICY)
    with served(leaves) as url:
        options = ["--state", str(directory), "--policy", str(policy), "--log-key", str(LOG_KEY.vkey), "--jobs", "1"]
        return CliRunner().invoke(main, ["audit", url, *options, "--chain", str(chain), "--chain", QUICKNET.hash.hex()])


def damaged(kept: Path, directory: Path, statement: str, value: Any) -> bool:
    """Copy the state and change it; whether SQLite lets that happen and anything is other than before."""
    shutil.copytree(kept, directory)
    with closing(sqlite3.connect(directory / FILE)) as db:
        before = [*db.iterdump()]
        try:
            db.execute(statement, [value])
        except sqlite3.IntegrityError:
            return False
        db.commit()
        return [*db.iterdump()] != before


def test_undamaged_it_goes_on(kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    shutil.copytree(kept[0], tmp_path / "state")
    done = audit(tmp_path / "state", kept[1])
    assert (done.exit_code, "2 ended, 2 of them fair" in done.stdout) == (0, True)


@pytest.mark.parametrize(("table", "column"), CELLS)
def test_any_cell(table: str, column: str, kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    tried = 0
    for number, value in enumerate(GARBAGE):
        directory = tmp_path / str(number)
        one = f"(SELECT {column} FROM {table} LIMIT 1)"
        if damaged(kept[0], directory, f"UPDATE {table} SET {column} = ? WHERE {column} IS {one}", value):
            tried += 1
            judge(audit(directory, kept[1]), directory)
    assert tried


@pytest.mark.parametrize("name", META)
def test_any_value(name: str, kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    tried = 0
    for number, value in enumerate(GARBAGE):
        directory = tmp_path / str(number)
        if damaged(kept[0], directory, f"UPDATE meta SET value = ? WHERE name = '{name}'", value):
            tried += 1
            judge(audit(directory, kept[1]), directory)
    assert tried


def judge(done: Result, directory: Path) -> None:
    """Exit 3 with what is the matter and what to do; or, where the value is one that may be, no accusation of the log."""
    said = done.stdout + done.stderr
    assert "internal error" not in said
    assert "Traceback" not in said
    if done.exit_code == Exit.UNUSABLE:
        assert str(directory) in said
        assert "audit the log again from its beginning" in said
    else:
        assert done.exit_code == Exit.FAIR, said


@pytest.mark.parametrize("size", [0, 1, 5, 400])
def test_a_size_that_is_not_that_of_the_leaves(size: int, kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    directory = tmp_path / "state"
    assert damaged(kept[0], directory, "UPDATE meta SET value = ? WHERE name = 'size'", str(size))
    done = audit(directory, kept[1])
    assert done.exit_code == Exit.UNUSABLE
    assert "is damaged" in done.stderr


def test_a_leaf_of_another_hash_accuses_nobody(kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    directory = tmp_path / "state"
    assert damaged(kept[0], directory, "UPDATE leaves SET hashes = CAST(? || substr(hashes, 33) AS BLOB)", bytes(32))
    done = audit(directory, kept[1])
    assert done.exit_code == Exit.UNUSABLE
    assert "is damaged (its first" in done.stderr


def test_entries_that_are_not_the_log_s_accuse_nobody(kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    directory = tmp_path / "state"
    change = "UPDATE pending SET entry = CAST(replace(CAST(entry AS TEXT), 'black', ?) AS BLOB)"
    assert damaged(kept[0], directory, change, "green")
    done = audit(directory, kept[1])
    assert done.exit_code == Exit.UNUSABLE
    assert "is not that of the log" in done.stderr


def test_a_contribution_that_is_not_the_log_s_accuses_nobody(kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    directory = tmp_path / "state"
    change = 'UPDATE pending SET entry = CAST(replace(CAST(entry AS TEXT), \'"participant":"black"\', ?) AS BLOB)'
    assert damaged(kept[0], directory, change, '"participant":"green"')
    done = audit(directory, kept[1])
    assert done.exit_code == Exit.UNUSABLE
    assert "is not that of the log" in done.stderr


def test_half_a_file(kept: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    data = (kept[0] / FILE).read_bytes()
    for number, cut in enumerate((data[:5_000], data[: len(data) // 2], data[:4096] + bytes(len(data) - 4096))):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / FILE).write_bytes(cut)
        done = audit(directory, kept[1])
        assert done.exit_code == Exit.UNUSABLE
        assert str(directory) in done.stderr


def test_an_error_that_is_not_the_file_s_stays_what_it_is(tmp_path: Path) -> None:
    audited(eventful()[0], tmp_path, trust=BOTH)
    with pytest.raises(ZeroDivisionError), opened(tmp_path):
        raise ZeroDivisionError
    with pytest.raises(LookupError, match="a fault of ours"), opened(tmp_path):
        raise LookupError("a fault of ours")


LIES = (2**53, 2**64, 10**400, -1, None, 1.5, "\0", {}, [[]] * 40)


@pytest.mark.parametrize("number", range(9))
def test_no_lie_of_the_log_makes_the_file_false(number: int) -> None:
    """Else a log could have its auditor throw away what would accuse it."""
    log = Log().sealed(1).contributed().close(6.6).round(1005, 15.9).draw("turn", 16).reveal(16)
    fields = json.loads(log.leaves[number])
    for name in [*fields, "more"]:
        for lie in [lie for lie in LIES if name not in fields or fields[name] != lie]:
            leaves = log.leaves.copy()
            leaves[number] = json.dumps(fields | {name: lie}, separators=(",", ":")).encode()
            with opened(None) as state:
                Audit(state, replace(BOTH, policy=Policy.parse(POLICY))).run(source_of(leaves))
                assert damage.found(state.db) is None, (fields["type"], name, lie)
                assert [one for one in state.found() if one.grave], (fields["type"], name, lie)


def test_no_witness_makes_the_file_false() -> None:
    log = Log().sealed(1)
    with opened(None) as state:
        audit, source = Audit(state, replace(BOTH, policy=Policy.parse(POLICY))), source_of(log.leaves)
        audit.run(source)
        never = SignedCheckpoint.parse(log.checkpoint(None, {"w1": 2.0**62}))
        assert audit.witnessed(source, [never])
        assert damage.found(state.db) is None
        assert audit.witnessing.at(len(log.leaves)) == []
        assert audit.exit() == Exit.FAIR
