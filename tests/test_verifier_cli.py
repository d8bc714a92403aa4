"""The verifier as people run it: commands, their exit codes, and that nothing ever ends in a traceback."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests import builder
from tests.builder import LOG_KEY, POLICY, QUICKNET, ROUNDS, Story, at, live, match, raffle
from verifier import merkle
from verifier.cli import _progress, main
from verifier.report import MAX_FINDINGS, MAX_OUTCOMES
from verifier.tlog_proof import TlogProof
from verifier.verdict import UNKNOWABLE, ClaimName

ROOT = Path(__file__).parents[1]
SIGNATURE = ROUNDS[QUICKNET.hash.hex(), 1000]["signature"]
VKEY = str(LOG_KEY.vkey)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments, stdin=None):
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return run_it


@pytest.fixture
def write(tmp_path):
    def write_it(name, document):
        if isinstance(document, Story):
            document = document.document()
        data = document if isinstance(document, bytes) else builder.data(document)
        (tmp_path / name).write_bytes(data)
        return name

    return write_it


@pytest.fixture
def good(write):
    """A fair raffle (the cheapest document that is fair) in `good.json`."""
    return write("good.json", raffle(attachments=ATTACHED).reveal(20))


ATTACHED = [{"name": "rules", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]


def failed(result, *words):
    """Exit 3, a reason on stderr, no traceback and nothing on stdout."""
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    return True


# --- check -----------------------------------------------------------------------------------------------------------


def test_a_fair_transcript(run, good):
    result = run("check", good, "--log-key", VKEY)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Fair if the operator of log.example/test is honest about its clock")
    claims = lines[2:13]
    assert [line.split()[1] for line in claims] == list(ClaimName)
    assert {line.split()[0] for line in claims} == {"PROVEN", "TRUSTED", "UNKNOWN"}
    assert len({line.index(line.split()[1]) for line in claims}) == 1
    assert lines[-1] == UNKNOWABLE
    assert "Trusted drand chains (those pinned in this verifier): " in result.stdout
    assert "quicknet" in result.stdout
    assert "turn 2: " in result.stdout
    assert "\x1b" not in result.stdout


def test_the_answer_as_json(run, good):
    result = run("check", good, "--log-key", VKEY, "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == answer["exit"] == 0
    assert [claim["claim"] for claim in answer["claims"]] == list(ClaimName)
    assert answer["unknowable"] == UNKNOWABLE
    assert answer["trusted"]["log_key"] == VKEY
    assert answer["trusted"]["chains"][QUICKNET.hash.hex()] == "quicknet"
    assert len(answer["session"]["outcomes"]) == 2


def test_standard_input(run, good, tmp_path):
    assert run("check", "-", "--log-key", VKEY, stdin=(tmp_path / good).read_bytes()).exit_code == 0


def test_a_key_in_a_file(run, good, tmp_path):
    (tmp_path / "log.vkey").write_text(VKEY + "\n")
    assert run("check", good, "--log-key", "log.vkey").exit_code == 0


def test_what_was_not_given_is_not_decided(run, good):
    result = run("check", good)
    assert result.exit_code == 2
    assert "No log key was given." in result.stdout
    assert run("check", good, "--log-key", VKEY, "--chain", "default").exit_code == 2


def test_chains_by_name_hash_and_file(run, good, tmp_path):
    (tmp_path / "chain.json").write_text(json.dumps(QUICKNET.as_dict()))
    for chain in ("quicknet", QUICKNET.hash.hex(), "chain.json"):
        result = run("check", good, "--log-key", VKEY, "--chain", "default", "--chain", chain)
        assert result.exit_code == 0
        assert f"Trusted drand chains (given): default, {chain}" in result.stdout


def test_two_infos_of_one_chain_are_refused(run, good, tmp_path):
    fastnet = builder.pinned_chains()["fastnet"]
    (tmp_path / "endless.json").write_text(json.dumps(fastnet.as_dict()))
    assert failed(run("check", good, "--chain", "fastnet", "--chain", "endless.json"), "says otherwise")
    assert run("check", good, "--chain", "fastnet", "--chain", fastnet.hash.hex()).exit_code == 2


def test_proof_can_be_required(run, write):
    story = raffle().reveal(20)
    evidence = [story.evidence(3, {"w1": 7, "w2": 8})]
    write("proven.json", story.document(evidence=evidence, seen={"w1": 30, "w3": 30}))
    write("witnesses.policy", POLICY.encode())
    proven = run("check", "proven.json", "--policy", "witnesses.policy", "--require", "proven")
    assert proven.exit_code == 0
    assert proven.stdout.startswith("Proven fair.\n")
    assert "Witness policy: 2 of (w1, w2, w3)" in proven.stdout
    assert f"Trusted log key: {VKEY}" in proven.stdout
    assert run("check", "proven.json", "--log-key", VKEY, "--require", "proven").exit_code == 2


def test_a_sandbox_session(run, write):
    write("test.json", raffle(sandbox=True).reveal(20))
    assert run("check", "test.json", "--log-key", VKEY).exit_code == 2
    asked = run("check", "test.json", "--log-key", VKEY, "--sandbox")
    assert asked.exit_code == 0
    assert asked.stdout.startswith("A test, not a game: ")


def test_attachments(run, good, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "other").write_bytes(b"x")
    assert "PROVEN   attachments" in run("check", good, "--log-key", VKEY, "--attachment", "rules=empty").stdout
    assert run("check", good, "--log-key", VKEY, "--attachment", "rules=other").exit_code == 1
    for wrong in (("rules",), ("=empty",), ("rules=missing",), ("rules=empty", "rules=other")):
        options = [part for value in wrong for part in ("--attachment", value)]
        assert failed(run("check", good, "--log-key", VKEY, *options))


def test_what_failed_is_said_with_its_rule(run, write):
    story = Story().seal(close_at=None, participants=[]).round(1005, 15.9)
    write("bad.json", story.draw("turn", 16, outcomes=[[7, 7]], purpose="the first").reveal(20))
    result = run("check", "bad.json", "--log-key", VKEY)
    assert result.exit_code == 1
    assert result.stdout.startswith("Not fair as it stands: outcomes failed: ")
    assert "  FAILED   outcomes " in result.stdout
    assert "  outcomes, rule 5.2, entry 4: turn 1 is [" in result.stdout
    assert 'turn 1: [7,7]  "the first"' in result.stdout
    assert json.loads(run("check", "bad.json", "--log-key", VKEY, "--json").stdout)["exit"] == 1


def test_long_lists_are_cut(run, write):
    story = (
        Story().seal(close_at=None, participants=[]).round(1005, 15.9).draw("turn", 16, 200, outcomes=[[7, 7]] * 200)
    )
    for _ in range(30):
        story.draw("opening", 16, n=1)
    write("long.json", story.reveal(20))
    text = run("check", "long.json", "--log-key", VKEY).stdout
    assert text.count(", rule ") - text.count("  FAILED") - 1 == MAX_FINDINGS
    assert text.count(": [7,7]") == MAX_OUTCOMES
    assert re.search(r"^  and \d+ more \(--json has all\)$", text, re.MULTILINE)
    assert "  and 161 more (--json shows up to 10,000)" in text


def test_an_open_session_and_a_void(run, write):
    write("open.json", match())
    assert run("check", "open.json", "--log-key", VKEY).exit_code == 2
    story = Story().seal(close_at=None, participants=[], plan={"turn": 2})
    write("void.json", story.void("no-round", 615, seed=story.links[1].hex()).round(1005, 616))
    void = run("check", "void.json", "--log-key", VKEY)
    assert void.exit_code == 2
    assert "What the round would have given (2)" in void.stdout


def test_a_receipt_can_be_checked(run, write):
    write("receipt.json", raffle().reveal(20).document([3]))
    result = run("check", "receipt.json", "--log-key", VKEY)
    assert result.exit_code == 2
    assert result.stdout.startswith("A receipt: the round is entry 3")


def test_remarks_are_shown(run, write):
    write("odd.json", raffle().reveal(20, by="timelock"))
    assert "Remarks\n  The reveal says" in run("check", "odd.json", "--log-key", VKEY).stdout


def test_colour_only_where_a_terminal_is(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["check", good], color=True)
    assert "\x1b[36mUNKNOWN" in result.stdout


# --- what cannot be used ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("nothing",), ("--nothing",), ("check",), ("check", "good.json", "x"), ("check", "good.json", "--nothing"),
        ("check", "missing.json"), ("check", "."), ("check", "good.json", "--log-key", "x"), ("check", "good.json", "--log-key", "a+b+c"),
        ("check", "good.json", "--log-key"), ("check", "good.json", "--chain", "moonnet"), ("check", "good.json", "--chain", "good.json"),
        ("check", "good.json", "--policy", "good.json"), ("check", "good.json", "--policy", "missing"), ("check", "good.json", "--require", "luck"),
        ("check", "empty"), ("check", "binary"), ("check", "deep"), ("check", "\x00"), ("round", "quicknet", "1000"),
        ("round", "moonnet", "1", SIGNATURE), ("round", "quicknet", "1_000", SIGNATURE), ("round", "quicknet", "0", SIGNATURE),
        ("round", "quicknet", "-5", SIGNATURE), ("round", "quicknet", "9" * 30, SIGNATURE), ("round", "quicknet", "1000", "xyz"),
        ("round", "quicknet", "1000", SIGNATURE.upper()), ("round", "quicknet", "1000", SIGNATURE, "--previous-signature", "00"),
        ("round", "default", "5", "00" * 96), ("receipt", "good.json"), ("receipt", "missing", "--transcript", "good.json"),
        ("receipt", "good.json", "--transcript", "good.json"), ("receipt", "-", "--transcript", "-"), ("draw",), ("vectors",),
        ("vectors", "missing"), ("vectors", "good.json"), ("vectors", "empty"), ("vectors", "good.json", "--jobs", "0"),
    ],
)  # fmt: skip
def test_unusable_input_is_exit_3(run, good, write, arguments):
    write("empty", b"")
    write("binary", bytes(range(256)))
    write("deep", b"[" * 100_000)
    assert failed(run(*arguments))


def test_a_refused_document_says_its_code(run, write):
    write("spaced.json", raffle().reveal(20).document() | {"format": "x"})
    assert failed(run("check", "spaced.json"), "unusable input: document: not a document of the format")
    document = raffle().reveal(20).document()
    document["events"][0]["entry"] += " "
    write("spaced.json", document)
    assert failed(run("check", "spaced.json"), "unusable input: json: entry 2: ")


def test_a_document_that_is_too_large_is_refused(run, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    assert failed(run("check", "huge"), "usage")
    assert failed(run("check", "-", stdin=b" " * (64 * 1024 * 1024 + 1)), "usage")


def test_an_error_that_nobody_expects_is_no_answer(run, good, monkeypatch):
    monkeypatch.setattr("verifier.cli.check_document", lambda *_: 1 / 0)
    assert failed(run("check", good), "internal error: ZeroDivisionError")
    monkeypatch.setattr("verifier.cli.check_document", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run("check", good).exit_code == 130


def test_output_that_nobody_reads_is_no_answer(good, tmp_path):
    command = f"{sys.executable} -m verifier check {good} --log-key '{VKEY}'"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for end in (">/dev/full", ">&-"):
        done = subprocess.run(
            ["sh", "-c", f"{command} {end}"], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 3
        assert b"Traceback" not in done.stderr
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*command.replace("'", "").split()],
        cwd=tmp_path,
        env=environment,
        stdout=written,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(written)
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_the_program_runs_by_itself_whatever_the_encoding(tmp_path):
    (tmp_path / "hebrew.json").write_bytes(builder.data(raffle(label="שלום").reveal(20).document()))
    for encoding, label in (("latin-1", b"\\u05e9\\u05dc\\u05d5\\u05dd"), ("utf-8", "שלום".encode())):
        environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "verifier", "check", "hebrew.json", "--log-key", VKEY]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert label in done.stdout


def test_the_version():
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.stdout[:18]) == (0, "verifier, version ")


# --- round -----------------------------------------------------------------------------------------------------------


def test_a_round(run):
    result = run("round", "quicknet", "1000", SIGNATURE)
    assert result.exit_code == 0
    assert "randomness fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd" in result.stdout
    answer = json.loads(run("round", QUICKNET.hash.hex(), "1000", SIGNATURE, "--json").stdout)
    assert answer == {
        "chain": QUICKNET.hash.hex(), "round": 1000, "time": at(0), "valid": True,
        "randomness": "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd",
    }  # fmt: skip


def test_a_round_that_the_chain_did_not_sign(run):
    other = run("round", "quicknet", "1001", SIGNATURE)
    assert other.exit_code == 1
    assert "randomness" not in other.stdout
    for malformed in (SIGNATURE[:-2], "c0" + "00" * 47, ""):
        assert run("round", "quicknet", "1000", malformed).exit_code == 1
    answer = json.loads(run("round", "quicknet", "1001", SIGNATURE, "--json").stdout)
    assert (answer["valid"], answer["error"].split(":")[0]) == (False, "round-signature")


def test_a_round_of_a_chained_scheme(run):
    record = ROUNDS[builder.pinned_chains()["default"].hash.hex(), 2183661]
    options = ("--previous-signature", record["previous_signature"])
    assert run("round", "default", "2183661", record["signature"], *options).exit_code == 0
    assert run("round", "default", "2183662", record["signature"], *options).exit_code == 1


# --- receipt ---------------------------------------------------------------------------------------------------------


def receipts(run, write, story, index, *options):
    write("mine.json", story.document([index]))
    return run("receipt", "mine.json", "--transcript", "whole.json", *options)


def test_my_entry_is_there(run, write):
    story = match().reveal(135)
    write("whole.json", story)
    for index in story.shown:
        result = receipts(run, write, story, index, "--log-key", VKEY)
        assert result.exit_code == 0
        assert result.stdout.startswith("PRESENT: the ")
    assert receipts(run, write, story, 3).exit_code == 0


def test_a_tlog_proof_is_a_receipt_too(run, write):
    story = match().reveal(135)
    write("whole.json", story)
    hashes = story.hashes()
    for index, extra, code in (
        (3, story.leaves[3], 0),
        (3, story.leaves[4], 1),
        (4, story.leaves[3], 1),
        (3, None, 3),
        (3, b"x", 3),
    ):
        proof = TlogProof(index, tuple(merkle.prove_inclusion(hashes, 3)), story.checkpoint(), extra)
        write("mine.tlog-proof", proof.encode().encode())
        assert run("receipt", "mine.tlog-proof", "--transcript", "whole.json", "--log-key", VKEY).exit_code == code
    write("mine.tlog-proof", b"c2sp.org/tlog-proof@v2\n")
    assert failed(run("receipt", "mine.tlog-proof", "--transcript", "whole.json"), "the receipt: ")


def test_my_contribution_is_missing(run, write):
    story = match().reveal(135)
    write("whole.json", story.document([index for index in story.shown if index != 3]))
    result = receipts(run, write, story, 3, "--log-key", VKEY)
    assert result.exit_code == 1
    assert result.stdout.startswith("ABSENT: the contribution of entry 3 is not in the transcript")
    unkeyed = receipts(run, write, story, 3)
    assert unkeyed.exit_code == 2
    assert "--log-key" in unkeyed.stdout


def test_my_contribution_was_replaced(run, write):
    story = match().reveal(135)
    other = Story().seal().contribute("white", 6.5, b"other").contribute("black", 6.501).close(6.6)
    write("whole.json", other)
    result = receipts(run, write, story, 3, "--log-key", VKEY)
    assert result.exit_code == 1
    assert "REPLACED" in result.stdout
    assert "two histories" in result.stdout
    moved = Story().seal()
    moved.add(Story().round(1001, 6).leaves[-1], shown=False)
    write("whole.json", moved.contribute("white", 6.5, b"other"))
    answer = receipts(run, write, story, 3, "--log-key", VKEY)
    assert "in its place stands entry 4, with other bytes" in answer.stdout
    assert answer.exit_code == 1


def test_a_live_call_and_its_draw(run, write):
    story = live().reveal(20)
    write("whole.json", story)
    for index in story.shown:
        assert receipts(run, write, story, index, "--log-key", VKEY, "--json").exit_code == 0
    other = Story(links=8).seal(profile="live").contribute("white", 1.6).contribute("black", 1.61).close(1.65)
    other.add(Story().round(1001, 1.7).leaves[-1], shown=False)
    write("whole.json", other.call("turn", 1.8, {"white": b"x"}))
    answer = json.loads(receipts(run, write, story, 6, "--log-key", VKEY, "--json").stdout)
    assert (answer["found"], answer["exit"], answer["entry"]) == ("replaced", 1, {"index": 6, "type": "call"})


def test_a_transcript_of_another_session(run, write):
    write("whole.json", match(label="another table").reveal(135))
    story = Story().seal().close(9.1)
    story.add(Story().round(1001, 9.2).leaves[-1], shown=False)
    for _ in range(9):
        story.add(Story().round(1001, 9.2).leaves[-1], shown=False)
    result = receipts(run, write, story.round(1005, 15.9).draw("turn", 16), len(story.leaves) - 1, "--log-key", VKEY)
    assert result.exit_code == 1
    assert "ABSENT" in result.stdout
    assert "of session" in result.stdout


def test_a_transcript_that_is_older_than_the_receipt(run, write):
    write("whole.json", Story().seal().contribute("white", 6.5))
    result = receipts(
        run, write, Story().seal().contribute("white", 6.5).contribute("black", 6.6), 4, "--log-key", VKEY
    )
    assert result.exit_code == 2
    assert result.stdout.startswith("NOT COVERED")


def test_a_false_receipt_proves_nothing(run, write):
    story = match().reveal(135)
    write("whole.json", story)
    document = story.document([3])
    document["events"][0]["proof"].pop()
    write("mine.json", document)
    assert run("receipt", "mine.json", "--transcript", "whole.json", "--log-key", VKEY).exit_code == 1
    assert run("receipt", "mine.json", "--transcript", "whole.json").exit_code == 1


# --- draw ------------------------------------------------------------------------------------------------------------

CASE = json.loads((builder.VECTORS / "protocol.json").read_text())["cases"][2]
OPTIONS = ("--seed", CASE["seed"], "--binding", CASE["binding"])


def test_every_known_outcome_can_be_shown(run):
    recipes = json.loads(CASE["seal_entry"])["recipes"]
    for item in CASE["outcomes"]:
        if "outcome" not in item:
            continue
        arguments = ("--recipe", item["recipe"], "--n", item["n"], json.dumps(recipes[item["recipe"]]), "--json")
        answer = json.loads(run("draw", *OPTIONS, *arguments).stdout)
        assert (answer["word"], answer["outcome"]) == (item["word"], item["outcome"])
        assert answer["blocks"][:1] == ([] if item["recipe"] == "one" else [answer["word"]])


def test_a_draw_in_text(run):
    result = run("draw", *OPTIONS, "--recipe", "raw", "--n", "1", '{"kind": "bytes", "count": 40}')
    outcome = next(item["outcome"] for item in CASE["outcomes"] if item["recipe"] == "raw")
    assert result.stdout.splitlines()[0] == f'raw 1: "{outcome}"'
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["word", "block_0", "block_1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seed", "00", "--binding", "00" * 32, "--recipe", "a", "--n", "1", '{"kind":"bytes","count":1}'),
        ("--seed", "00" * 32, "--binding", "00", "--recipe", "a", "--n", "1", '{"kind":"bytes","count":1}'),
        (*OPTIONS, "--recipe", "a", "--n", "0", '{"kind":"bytes","count":1}'),
        (*OPTIONS, "--recipe", "a", "--n", "4294967296", '{"kind":"bytes","count":1}'),
        (*OPTIONS, "--recipe", "a", "--n", "x", '{"kind":"bytes","count":1}'),
        (*OPTIONS, "--recipe", "a", "--n", "1", "{"),
        (*OPTIONS, "--recipe", "a", "--n", "1", '{"kind":"coin"}'),
        (*OPTIONS, "--recipe", "a", "--n", "3", '{"kind":"deal","size":5,"count":2}'),
    ],
)
def test_draws_that_cannot_be(run, arguments):
    assert failed(run("draw", *arguments))


# --- vectors ---------------------------------------------------------------------------------------------------------


def test_vectors(run, write):
    protocol = json.loads((builder.VECTORS / "protocol.json").read_text())
    protocol["cases"] = []
    write("protocol.json", json.dumps(protocol).encode())
    result = run("vectors", "protocol.json")
    assert (result.exit_code, result.stdout) == (0, "protocol.json (protocol): 54 passed, 0 failed, 0 not understood\n")
    protocol["surprise"] = []
    write("unknown.json", json.dumps(protocol).encode())
    result = run("vectors", "protocol.json", "unknown.json")
    assert result.exit_code == 2
    assert "not understood: surprise: surprise\n" in result.stdout
    protocol["entries"]["refused"].append(protocol["entries"]["accepted"][0])
    write("wrong.json", json.dumps(protocol).encode())
    result = run("vectors", "wrong.json", "unknown.json", "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == answer["exit"] == 1
    assert [file["failed"] for file in answer["files"]] == [1, 0]
    assert {"id": "refused entry 33", "status": "failed", "why": "accepted"} in answer["files"][0]["cases"]


def test_a_file_without_cases_is_no_success(run, write):
    write("none.json", b'{"scenarios": []}')
    assert run("vectors", "none.json").exit_code == 2


def test_progress_is_for_terminals(run, write, monkeypatch):
    write("peers.json", json.dumps({"vectors": []}).encode())
    assert run("vectors", "peers.json").stderr == ""
    monkeypatch.setattr(
        "verifier.cli.sys.stderr",
        type("Terminal", (), {"isatty": lambda _: True, "write": lambda *_: None, "flush": lambda _: None})(),
    )
    shown = []
    monkeypatch.setattr("verifier.cli.click.echo", lambda text, **_: shown.append(text))
    _progress("f")(1, 2)
    _progress("f")(2, 2)
    assert shown == ["\rf: 1 of 2", "\rf: 2 of 2\n"]


# --- help ------------------------------------------------------------------------------------------------------------


def test_every_command_teaches_by_example():
    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"verifier {name}")
        text = command.get_help(context)
        assert f"verifier {name} " in text.split("Examples:")[1]
        assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert "Exit codes: 0" in CliRunner().invoke(main, ["--help"]).stdout
