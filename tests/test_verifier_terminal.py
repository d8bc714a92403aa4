"""What the verifier prints of files it was given, and input that no terminal or shell gives by chance."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import builder
from tests.builder import LOG_KEY, match, raffle
from tests.check_support import TRUST, cached_verify_round
from tests.test_verifier_cli import OPTIONS
from verifier import cli, merkle
from verifier.check import check
from verifier.errors import Code, FormatError
from verifier.note import Checkpoint, SigningKey
from verifier.terminal import printable
from verifier.tlog_proof import TlogProof
from verifier.transcript import parse_transcript

ROOT = Path(__file__).parents[1]
VKEY = str(LOG_KEY.vkey)
TITLE = "\x1b]0;owned\x07"
HOSTILE = f"{TITLE}\x9b31m\r\n\u202egood\u2069\x7f"
SHOWN = "\\u001b]0;owned\\u0007\\u009b31m\\u000d\\u000a\\u202egood\\u2069\\u007f"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **options: CliRunner().invoke(cli.main, [str(one) for one in arguments], **options)


def test_what_cannot_be_printed_is_escaped():
    assert printable(HOSTILE) == SHOWN
    assert json.loads(f'"{printable(HOSTILE)}"') == HOSTILE
    assert printable("\udcff") == "\\udcff"
    for text in ("", "table 4", "Zürich 東京 🎲", 'quote " and \\ stay'):
        assert printable(text) == text


def controls(text):
    return {c for c in text if c != "\n" and printable(c) != c}


FILES = {
    "negative": {"cases": [{"id": HOSTILE, "chain_hash": "00", "round": 1, HOSTILE: 1}]},
    "peer": {"vectors": [{"id": HOSTILE, "algorithm": HOSTILE}], HOSTILE: 1},
    "chain": {"chains": [{"name": HOSTILE, HOSTILE: 1}]},
    "scenario": {"scenarios": [{"name": HOSTILE, HOSTILE: 1}]},
    "protocol": {"protocol": "x", "cases": [{"name": HOSTILE, HOSTILE: 1}]},
    "tlog": {"meta": {}, HOSTILE: [{"id": HOSTILE, "source": "x", "input": {}, "expect": {}}]},
    "round": {"rounds": [{"beacon_id": HOSTILE, "round": HOSTILE}]},
}


@pytest.mark.parametrize("kind", FILES)
def test_no_file_of_known_answers_reaches_the_terminal(run, kind):
    Path("file.json").write_text(json.dumps(FILES[kind]))
    result = run("vectors", "file.json")
    assert result.exit_code in {1, 2}
    assert "\\u001b]0;owned\\u0007" in result.stdout
    assert controls(result.output) == set()
    as_json = run("vectors", "file.json", "--json")
    assert controls(as_json.output) == set()
    assert any(HOSTILE in case["id"] for case in json.loads(as_json.stdout)["files"][0]["cases"])


def test_what_is_refused_of_a_file_of_known_answers(run):
    Path("file.json").write_text(json.dumps({"chains": [HOSTILE], "x": 1}))
    Path(TITLE).write_text("{}")
    for name in ("file.json", TITLE):
        result = run("vectors", name)
        assert result.exit_code == 3
        assert controls(result.output) == set()


def test_no_receipt_reaches_the_terminal(run):
    story = match().reveal(135)
    Path("whole.json").write_bytes(builder.data(story.document()))
    hashes = story.hashes()
    name = "\x9b31mlog.example/test"
    text = Checkpoint(name, len(hashes), merkle.tree_root(hashes)).encode()
    note = text + "\n" + SigningKey(b"\x07" * 32, "other.example/log").sign(text)
    proof = TlogProof(3, tuple(merkle.prove_inclusion(hashes, 3)), note, story.leaves[3])
    Path("mine.tlog-proof").write_text(proof.encode())
    result = run("receipt", "mine.tlog-proof", "--transcript", "whole.json", "--log-key", VKEY)
    assert result.exit_code == 1
    assert "\\u009b31mlog.example/test" in result.stdout
    assert controls(result.output) == set()


def test_no_policy_reaches_the_terminal(run):
    Path("good.json").write_bytes(builder.data(raffle().reveal(20).document()))
    Path("policy").write_text(builder.POLICY.replace("witness w1 ", "witness w\x9b1 ").replace(" w1 ", " w\x9b1 "))
    result = run("check", "good.json", "--policy", "policy", color=True)
    assert "w\\u009b1" in result.stdout
    assert controls(result.stdout.replace("\x1b[0m", "")) == {"\x1b"}


# --- line ends in documents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["scheme", "beacon_id", "hash", "public_key", "genesis_seed"])
@pytest.mark.parametrize(
    "make", [lambda text: text + "\n", lambda text: "\n" + text, lambda text: text[:2] + "\n" + text[2:]]
)
def test_only_a_checkpoint_holds_line_ends(field, make):
    document = raffle().reveal(20).document()
    for place in (document, document["chain"]):
        for name in ("format", "origin", "log_key") if place is document else (field,):
            before = place[name]
            place[name] = make(before)
            with pytest.raises(FormatError):
                check(builder.data(document), TRUST, cached_verify_round)
            place[name] = before
    assert check(builder.data(document), TRUST, cached_verify_round).exit == 0


@pytest.mark.parametrize("field", ["scheme", "beacon_id"])
def test_a_line_end_in_a_chain_is_a_forbidden_character(field):
    document = raffle().reveal(20).document()
    document["chain"][field] += "\n"
    with pytest.raises(FormatError, match=r"chain: forbidden character U\+000A") as caught:
        parse_transcript(builder.data(document))
    assert caught.value.code == Code.STRING


def test_no_line_end_in_events_and_evidence():
    story = raffle().reveal(20)
    for path in (("events", 0, "entry"), ("events", 0, "proof", 0), ("evidence", 0, "consistency", 0)):
        document = story.document(evidence=[story.evidence(4, {}, 2)])
        parse_transcript(builder.data(document))
        place = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] += "\n"
        with pytest.raises(FormatError):
            parse_transcript(builder.data(document))


# --- unusual input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log+key", "a+b+c", "log.example+00000000+AAAA", "some+dir/k"])
def test_a_key_file_whose_path_has_a_plus(run, name):
    Path("good.json").write_bytes(builder.data(raffle().reveal(20).document()))
    missing = run("check", "good.json", "--log-key", name)
    assert missing.exit_code == 3
    assert "is neither a file nor a key (name+id+key): " in missing.stderr
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(VKEY + "\n")
    for path in (name, Path(name).absolute()):
        assert run("check", "good.json", "--log-key", path).exit_code == 0


def command(*arguments, shell_end=""):
    words = [sys.executable, "-m", "verifier", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if shell_end:
        words = ["sh", "-c", f'"$@" {shell_end}', "sh", *words]
    return subprocess.run(words, capture_output=True, timeout=60, env=environment, check=False)


def test_standard_input_that_is_closed():
    for arguments in (("check", "-"), ("draw", "--transcript", "-", "--recipe", "turn", "--n", "1")):
        result = command(*arguments, shell_end="<&-")
        assert (result.returncode, result.stdout, result.stderr) == (3, b"", b"standard input is closed\n")


def test_a_recipe_name_that_is_no_utf_8():
    definition = '{"kind":"dice","count":2,"sides":6}'
    given = (*OPTIONS, "--n", "1", definition)
    result = command("draw", *given, "--recipe", b"a\xff")
    assert result.returncode == 3
    assert result.stdout == b""
    assert result.stderr == b"--recipe: forbidden character U+DCFF in a string\n"
    key = command("check", "-", "--log-key", b"a\xff+00000000+AAAA")
    assert key.returncode == 3
    assert b"is neither a file nor a key" in key.stderr
