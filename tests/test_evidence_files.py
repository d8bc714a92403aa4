"""Evidence against the operator, or a host, for a stranger: each is a file plus one command, with the log's key alone.

a receipt that is not in the log         verifier audit --receipt keeps it; then  verifier fork FILE
two checkpoints that do not agree        verifier fork FILE
a draw that does not follow              verifier check TRANSCRIPT
a host that reveals only when it wins    verifier check TRANSCRIPT (of one session), verifier check-db LOG.db (of all)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.audit_support import Log, honest, served
from tests.builder import LOG_KEY, at
from tests.test_audit import database
from verifier import merkle
from verifier.cli import main
from verifier.encoding import encode_base64
from verifier.tlog_proof import TlogProof
from verifier.transcript import document_bytes

VKEY = str(LOG_KEY.vkey)


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in (*words, "--log-key", VKEY)])
    return done.exit_code, done.stdout + done.stderr


def own(log: Log) -> list[int]:
    """The entries of the log's newest session, and the rounds."""
    session = log.session.encode()
    return [
        index
        for index, leaf in enumerate(log.leaves)
        if session in leaf or b'"type":"round"' in leaf or merkle.leaf_hash(leaf).hex() == log.session
    ]


def promised(folder: Path, form: str) -> tuple[Path, Log]:
    """A contribution's receipt, and the log that it was promised in."""
    log = Log().sealed(1).contributed()
    index = len(log.leaves) - 1
    path = folder / f"receipt.{form}"
    if form == "answer":
        path.write_text(json.dumps({"receipts": [json.loads(document_bytes(log.document([index])))]}))
    elif form == "tlog-proof":
        hashes = merkle.prove_inclusion(log.hashes(), index)
        path.write_text(TlogProof(index, tuple(hashes), log.checkpoint(), log.leaves[index]).encode())
    else:
        path.write_bytes(document_bytes(log.document([index])))
    return path, log


FORMS = ("json", "answer", "tlog-proof")


@pytest.mark.parametrize("form", FORMS)
def test_a_receipt_that_is_not_in_the_log(form: str, tmp_path: Path) -> None:
    receipt, _ = promised(tmp_path, form)
    without = Log().sealed(1)
    without.contribute("white", 6.5, b"white's own bytes 1").close(9.1)
    with served(without.leaves) as url:
        code, told = command("audit", url, "--state", tmp_path / "state", "--receipt", receipt)
    assert (code, f"the contribution of the receipt {receipt.name}, entry 4, is not in this log" in told) == (1, True)
    (file,) = (tmp_path / "state").glob("fork-*.json")
    code, told = command("fork", file)
    assert (code, told.startswith("PROVEN")) == (0, True)


@pytest.mark.parametrize("form", FORMS)
def test_a_receipt_that_is_in_the_log(form: str, tmp_path: Path) -> None:
    receipt, log = promised(tmp_path, form)
    log.close(6.6)
    with served(log.leaves) as url:
        assert command("audit", url, "--state", tmp_path / "state", "--receipt", receipt)[0] == 0
    file = database(tmp_path / "log.db", log.leaves)
    assert command("check-db", file, "--receipt", receipt)[0] == 0
    assert not list((tmp_path / "state").glob("fork-*.json"))


def test_a_receipt_of_more_than_the_log_shows(tmp_path: Path) -> None:
    receipt, log = promised(tmp_path, "json")
    with served(log.leaves[:-1]) as url:
        code, told = command("audit", url, "--state", tmp_path / "state", "--receipt", receipt)
    assert (code, "is under a checkpoint of 5 entries, and the log shows 4" in told) == (1, True)


def test_a_false_receipt_accuses_nobody(tmp_path: Path) -> None:
    receipt, log = promised(tmp_path, "json")
    document = json.loads(receipt.read_bytes())
    document["events"][0]["proof"] = [encode_base64(bytes(32))]
    receipt.write_text(json.dumps(document))
    other = Log().sealed(1)
    for leaves in (log.leaves, other.leaves):
        with served(leaves) as url:
            code, told = command("audit", url, "--state", tmp_path / str(len(leaves)), "--receipt", receipt)
        assert (code, "is no receipt to hold against the log" in told) == (3, True)


def test_two_checkpoints_that_do_not_agree(tmp_path: Path) -> None:
    true = honest(2).leaves
    with served(true) as one, served([*true[:-1], true[-2]]) as other:
        assert command("audit", one, "--state", tmp_path / "state", "--compare", other)[0] == 1
    (file,) = (tmp_path / "state").glob("fork-*.json")
    assert command("fork", file)[0] == 0


def test_a_draw_that_does_not_follow(tmp_path: Path) -> None:
    log = Log().sealed(1).contributed().close(6.6).round(1005, 15.9)
    log.draw("turn", 16, outcomes=[[6, 6]]).reveal(16)
    file = tmp_path / "transcript.json"
    file.write_bytes(document_bytes(log.document()))
    code, told = command("check", file)
    assert (code, "outcomes failed" in told) == (1, True)


def test_a_host_that_reveals_only_when_it_wins(tmp_path: Path) -> None:
    """Two of three sessions it never revealed: each by its transcript, all of them in its account."""
    log = Log()
    kept = [log.sealed(n, custody="host", label=f"game {n}").kept() for n in (1, 2, 3)]
    for one in kept:
        log.resume(one).contributed()
    for one in kept:
        log.resume(one).close(6.6)
    log.round(1005, 15.9)
    log.resume(kept[0]).draw("turn", 16).reveal(16)
    for one in kept[1:]:
        log.resume(one).void("missed-reveal", 650, time=at(650))
    file = tmp_path / "transcript.json"
    file.write_bytes(document_bytes(log.document(own(log))))
    code, told = command("check", file)
    assert (code, "the seed was never revealed" in told) == (1, True)
    database_file = database(tmp_path / "log.db", log.leaves)
    code, told = command("check-db", database_file)
    assert code == 1
    assert told.count("given up: the seed was never revealed") == 2
    assert "Host club: 3 sealed, 1 revealed, 2 void (missed-reveal)." in told
