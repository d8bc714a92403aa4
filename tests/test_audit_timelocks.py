"""Timelocks whose round comes after the reveal: an audit opens them then, wherever the log has the signature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit_support import TRUST, Log, audited, graves, source_of
from tests.builder import at, sealed
from tests.test_custody import LOCKS, NUMBER, opening
from verifier.audit import run
from verifier.audit.keeping import opened
from verifier.audit.run import Audit
from verifier.verdict import Exit

BOTH = replace(TRUST, chains={**TRUST.chains, LOCKS.chain.hash: LOCKS.chain})
LATE = at(660)


def revealed(*, honest: bool, beside: int = 0) -> Log:
    """A session with a timelock, revealed before its round, and so many that stay open."""
    log = Log()
    log.add({"v": 1, "type": "chain", "time": at(0), "info": LOCKS.chain.as_dict()})
    for number in range(1, beside + 1):
        log.sealed(number + 10, host="many", host_seq=number)
    log.next_session(1)
    lock = sealed(log.links[1] if honest else bytes(32), NUMBER, LOCKS.chain)
    log.seal(host_seq=1, label="locked", timelock=lock)
    return log.contributed().close(6.6).round(1005, 15.9).draw("turn", 16).reveal(16)


def after(log: Log) -> Log:
    """A seal that knows the timelock's round: its signature is in the log, and no `round` entry of it."""
    signature = LOCKS.sign(NUMBER).hex()
    reference = NUMBER + 20
    log.next_session(2).seal(
        host="other", host_seq=1, chain=LOCKS.chain.hash.hex(), after={"round": NUMBER, "signature": signature},
        round=reference, close_at=None, min_contributions=0, participants=[], reveal_by=LATE + 900_000, time=LATE,
    )  # fmt: skip
    return log


ENDS = {"a round entry": lambda log: opening(log, seconds=630), "a seal's after": after}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("honest", [True, False])
def test_it_is_opened_when_its_round_comes(how: str, honest: bool, tmp_path: Path) -> None:
    log = revealed(honest=honest)
    early = list(log.leaves)
    assert audited(early, tmp_path, trust=BOTH)[0] == Exit.FAIR
    with opened(tmp_path) as state:
        assert state.db.execute("SELECT count(*) FROM locks").fetchone() == (1,)
    leaves = ENDS[how](log).leaves
    for directory in (tmp_path, None):
        code, found = audited(leaves, directory, trust=BOTH)
        assert graves(found) == (set() if honest else {("custody", "7.3")})
        assert code == (Exit.FAIR if honest else Exit.FAILED)
    with opened(tmp_path) as state:
        assert state.db.execute("SELECT count(*) FROM locks").fetchone() == (0,)
        held = state.db.execute("SELECT count(*) FROM pending JOIN sessions USING (session) WHERE ended NOT NULL")
        assert held.fetchone() == (0,)
        assert state.get("totals")["ended"] == 1


def test_a_false_signature_opens_nothing_and_is_found(tmp_path: Path) -> None:
    log = opening(revealed(honest=True), signed=NUMBER + 1)
    code, found = audited(log.leaves, tmp_path, trust=BOTH)
    assert (code, graves(found)) == (Exit.FAILED, {("round", "2.5")})
    with opened(tmp_path) as state:
        assert state.db.execute("SELECT count(*) FROM locks").fetchone() == (1,)


def test_without_the_lock_s_chain_nothing_is_waited_for(tmp_path: Path) -> None:
    log = opening(revealed(honest=False))
    assert audited(log.leaves, tmp_path)[0] == Exit.FAIR
    with opened(tmp_path) as state:
        assert state.db.execute("SELECT count(*) FROM locks").fetchone() == (0,)


def test_in_several_processes_and_segments_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MANY", 1)
    leaves = opening(revealed(honest=False, beside=300)).leaves
    monkeypatch.setattr(run, "SEGMENT", 1)
    with opened(None) as here, opened(None) as there:
        Audit(here, BOTH).run(source_of(leaves))
        Audit(there, BOTH, processes=2).run(source_of(leaves))
        assert list(here.found()) == list(there.found())
        assert graves(here.found()) == {("custody", "7.3")}
