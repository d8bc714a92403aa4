"""Attacks on the log by who holds its key: every checkpoint here is signed, every tile fits. For each: who notices, and
by which command.

    attack                                   who                      command
    history is rewritten                     an auditor               verifier audit, then verifier fork
                                             a player                 verifier receipt
                                             a witness                refuses its cosignature
    two clients are shown two logs           two vantage points       verifier audit --compare
    a contribution is inserted late          anybody                  verifier check, verifier audit
      and its close forged before the round  whoever asks for proof   verifier check --require proven
    a contribution is dropped                its sender               verifier receipt
    a second seal for the same label         an auditor               verifier audit: a note on the host
    the round is replaced                    anybody                  verifier check, verifier audit
    an entry is dated back                   an auditor               verifier audit
    the log goes back to a backup            an auditor               verifier audit
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.audit_support import Log, honest, served, signed
from tests.builder import LOG_KEY, POLICY, QUICKNET, ROUNDS, at
from tests.round_support import FakeClock
from tests.witness_support import witness
from verifier import merkle
from verifier.cli import main
from verifier.encoding import encode_json
from verifier.tlog_proof import add_checkpoint_request
from verifier.transcript import document_bytes

VKEY = str(LOG_KEY.vkey)


class Run:
    """Commands as people run them, on files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: object) -> tuple[int, str]:
        done = CliRunner().invoke(main, [str(word) for word in (*words, "--log-key", VKEY)])
        return done.exit_code, done.stdout

    def audit(self, url: str, *words: object) -> tuple[int, str]:
        return self("audit", url, "--state", self.folder / "state", *words)

    def write(self, name: str, log: Log, indices: list[int] | None = None) -> Path:
        path = self.folder / name
        path.write_bytes(document_bytes(log.document(indices)))
        return path

    def forks(self) -> list[Path]:
        return sorted((self.folder / "state").glob("fork-*.json"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def of_one(*, entropy: bytes = b"white's own bytes", dropped: bool = False, more: bool = False) -> Log:
    """A match: white contributes this, green perhaps too; black never. `shown` is the session's transcript."""
    log = Log().sealed(1, participants=[{"id": "white"}, {"id": "black"}], open=True)
    if not dropped:
        log.contribute("white", 6.5, entropy)
    if more:
        log.contribute("green", 6.6, b"chosen once the round was known")
    return log.close(9.5).round(1005, 15.9).draw("turn", 16).reveal(16)


def test_history_is_rewritten(run: Run) -> None:
    true, forged = of_one(), of_one(entropy=b"what the attacker likes better")
    receipt = run.write("receipt.json", true, [3])
    leaves = list(true.leaves)
    with served(leaves) as url:
        assert run.audit(url)[0] == 0
        leaves[:] = forged.leaves
        code, told = run.audit(url)
    assert (code, "two histories" in told) == (1, True)
    (evidence,) = run.forks()
    assert run("fork", evidence)[0] == 0

    assert run("check", run.write("forged.json", forged))[0] == 0
    code, told = run("receipt", receipt, "--transcript", run.folder / "forged.json")
    assert (code, told.startswith("REPLACED")) == (1, True)


async def test_no_witness_cosigns_the_rewritten_history(tmp_path: Path) -> None:
    true, forged = of_one(), of_one(entropy=b"what the attacker likes better")
    with witness(tmp_path / "witness.db", FakeClock(at(30)), LOG_KEY.vkey) as asked:
        first = await asked.add_checkpoint(add_checkpoint_request(0, [], signed(true.leaves)).encode())
        assert first.status == 200
        size, leaves = len(true.leaves), [*forged.leaves, forged.leaves[-1]]
        proof = merkle.prove_consistency([merkle.leaf_hash(leaf) for leaf in leaves], size)
        again = await asked.add_checkpoint(add_checkpoint_request(size, proof, signed(leaves)).encode())
        same = await asked.add_checkpoint(add_checkpoint_request(size, [], signed(forged.leaves)).encode())
        assert (again.status, same.status) == (422, 422)


def test_two_clients_are_shown_two_logs(run: Run) -> None:
    with served(of_one().leaves) as one, served(of_one(more=True).leaves) as other:
        assert run.audit(one)[0] == 0
        code, told = run.audit(one, "--compare", other)
    assert (code, "two histories" in told) == (1, True)
    (evidence,) = run.forks()
    assert run("fork", evidence)[0] == 0


def test_a_contribution_is_inserted_late(run: Run) -> None:
    log = Log().sealed(1, open=True).contributed().close(9.5).round(1005, 15.9)
    log.contribute("green", 15.95, b"chosen once the round was known", counted=False).draw("turn", 16).reveal(16)
    code, told = run("check", run.write("transcript.json", log))
    assert (code, "unpredictable" in told) == (1, True)
    with served(log.leaves) as url:
        code, told = run.audit(url)
    assert (code, "a contribution after the close" in told) == (1, True)


def test_a_contribution_is_inserted_late_and_dated_before_the_close(run: Run) -> None:
    """The log was not published before the round. It is whole and fits; only nobody saw its close in time."""
    log = of_one(more=True)
    path = run.write("transcript.json", log)
    assert run("check", path)[0] == 0
    policy = run.folder / "policy"
    policy.write_text(POLICY)
    code, told = run("check", path, "--policy", policy, "--require", "proven")
    assert (code, "no quorum of witnesses saw" in told) == (2, True)


def test_a_contribution_is_dropped(run: Run) -> None:
    receipt = run.write("receipt.json", of_one(), [3])
    without = run.write("transcript.json", of_one(dropped=True))
    assert run("check", without)[0] == 0
    code, told = run("receipt", receipt, "--transcript", without)
    assert (code, "REPLACED" in told) == (1, True)


def test_a_second_seal_for_the_same_label(run: Run) -> None:
    log = honest(2)
    after = log.round_fields(1005)
    log.sealed(3, label="table 1", after=after, round=1010, close_at=at(24), reveal_by=at(700), time=at(17))
    with served(log.leaves) as url:
        code, told = run.audit(url, "--json")
    lines = [json.loads(line) for line in told.splitlines()]
    assert code == 0
    assert [one["kind"] for one in lines] == ["note", "host", "summary"]
    assert "the label 'table 1' once more" in lines[0]["text"]
    assert lines[1]["labels_used_twice"] == 1


def test_the_round_is_replaced(run: Run) -> None:
    """By another round's signature, and by a second entry beside the true one."""
    other = ROUNDS[QUICKNET.hash.hex(), 1004]["signature"]
    begun = lambda: Log().sealed(1).contributed().close(6.6)  # noqa: E731
    log = begun().round(1005, 15.9, signature=other).draw("turn", 16).reveal(16)
    code, told = run("check", run.write("transcript.json", log))
    assert (code, "round failed" in told) == (1, True)
    with served(log.leaves) as url:
        code, told = run.audit(url)
    assert (code, "round, rule 2.5" in told) == (1, True)

    log = begun().round(1005, 15.9).round(1005, 15.9, signature=other).draw("turn", 16).reveal(16)
    hiding = run.write("hiding.json", log, [index for index in log.shown if index != log.shown[5]])
    assert run("check", hiding)[0] == 0
    run.folder = run.folder / "second"
    with served(log.leaves) as url:
        code, told = run.audit(url)
    assert (code, "a second entry of round 1005" in told) == (1, True)


def test_a_close_is_dated_back(run: Run) -> None:
    """Another session's seal, below the close, holds the round's signature: no transcript of this session shows it."""
    log = Log().sealed(1).contributed()
    kept, shown = log.kept(), list(log.shown)
    after = log.round_fields(1005)
    log.next_session(2).seal(host="other", after=after, round=1010, close_at=None, reveal_by=at(900), time=at(6.5))
    log.resume(kept)
    log.shown = shown
    log.close(6.6).round(1005, 15.9).draw("turn", 16).reveal(16)
    assert run("check", run.write("transcript.json", log))[0] == 0
    with served(log.leaves) as url:
        code, told = run.audit(url)
    assert code == 1
    assert "unpredictable, rule 6.10" in told
    assert "unpredictable, rule 6.7" in told


def test_the_log_goes_back_to_a_backup(run: Run) -> None:
    true = honest(2).leaves
    leaves = list(true)
    with served(leaves) as url:
        assert run.audit(url)[0] == 0
        leaves[:] = true[:-4]
        code, told = run.audit(url)
        assert (code, "the log has gone back" in told) == (1, True)
        assert not run.forks()
        leaves += [encode_json({"v": 1, "type": "log", "time": at(20), "origin": str(n)}) for n in range(6)]
        code, told = run.audit(url)
    assert (code, "two histories" in told) == (1, True)
    (evidence,) = run.forks()
    assert run("fork", evidence)[0] == 0
