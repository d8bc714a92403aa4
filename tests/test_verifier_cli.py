"""The verifier as people run it: commands, their exit codes, and that nothing ever ends in a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests import builder
from tests.builder import LOG_KEY, POLICY, QUICKNET, ROUNDS, Story, at, live, match, raffle
from verifier import merkle
from verifier.cli import main
from verifier.cli_common import progress
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


def claim(document, name, *options):
    """(state, text, remarks) of one claim in the answer of `check --json`."""
    result = CliRunner().invoke(main, ["check", "-", "--log-key", VKEY, "--json", *options], input=document)
    answer = json.loads(result.stdout)
    found = next(item for item in answer["claims"] if item["claim"] == name)
    return found["state"], found["text"], answer["remarks"]


def data(story):
    return builder.data(story.document())


WITHHELD = "a host that withholds contributions looks the same"


def test_who_was_listed_and_is_absent_is_named(run, write):
    nobody = Story().seal().close(9.1).round(1005, 15.9).draw("turn", 16).reveal(20)
    state, text, remarks = claim(data(nobody), "contributions")
    assert (state, text) == ("PROVEN", "no participant took part (listed but absent: 'white', 'black')")
    assert WITHHELD in remarks[0]
    assert "min_contributions of the seal was 0." in remarks[0]
    write("nobody.json", nobody)
    shown = run("check", "nobody.json", "--log-key", VKEY).stdout
    assert text in shown
    assert f"Remarks\n  {remarks[0]}\n" in shown
    one = Story().seal(min_contributions=1).contribute("white", 6.5).close(9.1)
    state, text, remarks = claim(data(one), "contributions")
    assert (state, text) == ("TRUSTED", "the host club relayed 'white'; listed but absent: 'black'")
    assert "min_contributions of the seal was 1." in remarks[0]
    signed = Story().seal(participants=[{"id": "white", "key": builder.public_key("white")}, {"id": "black"}])
    signed.contribute("white", 6.5, signature=signed.signature("white", b"white")).close(9.1)
    assert claim(data(signed), "contributions")[:2] == ("PROVEN", "'white' signed; listed but absent: 'black'")


def test_absence_is_no_matter_before_the_end_or_where_nothing_is_taken():
    assert claim(data(Story().seal().contribute("white", 6.5)), "contributions")[2] == []
    assert claim(data(raffle().reveal(20)), "contributions") == ("PROVEN", "no participant took part", [])
    assert claim(data(match().reveal(135)), "contributions")[2] == []
    assert claim(data(live().reveal(20)), "contributions")[2] == []


def test_an_open_session_without_any_contribution_is_remarked():
    story = Story().seal(participants=[], open=True).close(9.1)
    state, text, remarks = claim(data(story), "contributions")
    assert (state, text) == ("PROVEN", "no participant took part")
    assert WITHHELD in remarks[0]


def test_all_absent_participants_are_in_the_json():
    names = [f"player {number}" for number in range(9)]
    story = Story(links=8).seal(profile="live", close_at=None, participants=[{"id": name} for name in names])
    story.call("turn", 1.8, {"player 3": b"x"}).round(1002, 6.8).answer(1, 6.81).reveal(20)
    answer = json.loads(CliRunner().invoke(main, ["check", "-", "--json"], input=data(story)).stdout)
    assert answer["session"]["absent"] == [name for name in names if name != "player 3"]
    assert any(WITHHELD in remark for remark in answer["remarks"])


@pytest.mark.parametrize(
    ("story", "text"),
    [
        (lambda: Story().seal().void("host", 7), "void (host): the host club gave the session up by its own decision, before the round"),
        (
            lambda: Story(links=8).seal(profile="live").void("host", 2.5),
            "void (host): the host club gave the session up by its own decision, before the first call",
        ),
        (
            lambda: Story().seal(min_contributions=2).contribute("white", 6.5).void("below-minimum", 9.1),
            "void (below-minimum): 1 of at least 2 contributions came; the operator and the host club are trusted that they kept none back",
        ),
        (
            lambda: Story().seal().void("missed-close", 15.9),
            "void (missed-close): the operator is trusted that it could not close the contributions before the round",
        ),
        (
            lambda: Story().seal(close_at=None, participants=[]).void("no-round", 615),
            "void (no-round): the operator is trusted that it could not have the round at the time",
        ),
        (
            lambda: Story().seal(custody="host", close_at=None, participants=[]).round(1005, 15.9).void("missed-reveal", 700),
            "void (missed-reveal): the host club held the seed and did not reveal it, though what it needed had come",
        ),
        (
            lambda: Story().seal(close_at=None, participants=[]).round(1005, 15.9).void("missed-reveal", 700),
            "void (missed-reveal): the operator held the seed and did not reveal it, though what it needed had come",
        ),
    ],
)  # fmt: skip
def test_a_void_says_whose_it_is(story, text):
    assert claim(data(story()), "custody")[:2] == ("TRUSTED", text)


def test_less_than_the_proof_that_was_asked_for_is_said(run, good):
    result = run("check", good, "--log-key", VKEY, "--require", "proven")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[0].endswith(" That is less than the proof that --require asks for.")


def test_what_a_transcript_alone_cannot_prove_is_said(good, tmp_path):
    state, text, _ = claim((tmp_path / good).read_bytes(), "sole")
    assert (state, "your witnesses cosigned" in text, "audit" in text) == ("TRUSTED", True, False)
    shown = " ".join(CliRunner().invoke(main, ["check", "--help"]).stdout.split())
    assert "Without witnesses the best that one transcript can reach" in shown
    assert "Needs --policy, and a log that its witnesses cosign." in shown


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
    assert failed(run("check", "huge"), "huge has more than 67108864 bytes")
    assert failed(run("check", "-", stdin=b" " * (64 * 1024 * 1024 + 1)), "standard input has more than")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("check", "missing.json"), "cannot read missing.json: No such file or directory\n"),
        (("check", "good.json", "--log-key", "no.vkey"), "--log-key: 'no.vkey' is neither a file nor a key (name+id+key)\n"),
        (("check", "good.json", "--log-key", ""), "--log-key: '' is neither a file nor a key (name+id+key)\n"),
        (("check", "good.json", "--log-key", "a+b+c"), "--log-key: 'a+b+c' is neither a file nor a key (name+id+key): the key id: not lower-case hexadecimal of even length\n"),
        (("check", "good.json", "--log-key", "good.json"), "--log-key: the file good.json holds no key: "),
        (("check", "good.json", "--log-key", "."), "--log-key: cannot read .: Is a directory\n"),
        (("check", "good.json", "--log-key", str(builder.WITNESSES["w1"].vkey)), "--log-key: a log signs with Ed25519 (type 1)"),
        (("check", "good.json", "--log-key", f"{VKEY}{'A' * 300}"), "--log-key: "),
        (("check", "good.json", "--chain", "moonnet"), "--chain: moonnet is neither a file nor a pinned chain ("),
        (("check", "good.json", "--policy", "missing"), "--policy: cannot read missing: No such file or directory\n"),
        (("check", "good.json", "--policy", "good.json"), "--policy: line 1: "),
        (("round", "moonnet", "1", SIGNATURE), "CHAIN: moonnet is neither"),
        (("round", "quicknet", "x", SIGNATURE), "ROUND: not a canonical decimal number\n"),
        (("round", "quicknet", "0", SIGNATURE), "ROUND: rounds of this chain are 1 to "),
        (("round", "quicknet", "1", "x"), "SIGNATURE: not lower-case hexadecimal of even length\n"),
        (("round", "quicknet", "1", SIGNATURE, "--previous-signature", "x"), "--previous-signature: not lower-case"),
        (("round", "default", "5", "00" * 96), "--previous-signature: pedersen-bls-chained needs the previous signature\n"),
        (("vectors", "missing"), "cannot read missing: No such file or directory\n"),
        (("vectors", "good.json"), "unusable input: vectors: good.json: no file of known answers of the kinds "),
    ],
)  # fmt: skip
def test_a_refusal_names_the_option_and_the_reason(run, good, arguments, reason):
    result = run(*arguments)
    assert result.stderr.startswith(reason)
    assert failed(result)


def test_a_key_file_with_a_plus_in_its_name(run, good, tmp_path):
    (tmp_path / "c++.vkey").write_text(VKEY + "\n")
    assert run("check", good, "--log-key", "c++.vkey").exit_code == 0


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
    assert f"it fell due at 2023-08-23T15:59:24.000Z ({at(0)} ms)." in result.stdout
    answer = json.loads(run("round", QUICKNET.hash.hex(), "1000", SIGNATURE, "--json").stdout)
    assert answer == {
        "chain": QUICKNET.hash.hex(), "round": 1000, "time": at(0), "time_utc": "2023-08-23T15:59:24.000Z", "valid": True,
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


def test_a_round_beyond_the_calendar_has_no_date(run):
    answer = json.loads(run("round", "quicknet", "2000000000000", SIGNATURE, "--json").stdout)
    assert (answer["valid"], answer["time_utc"]) == (False, None)
    assert answer["time"] > 6 * 10**15


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


@pytest.mark.parametrize("index", [2, 3, 6])
def test_without_a_key_nothing_is_verified(run, write, index):
    story = match().reveal(135)
    write("whole.json", story)
    result = receipts(run, write, story, index)
    assert result.exit_code == 2
    text = (
        "NOT VERIFIED: the log's signature was not checked, since no --log-key was given. As it stands, present: the "
    )
    assert result.stdout.splitlines()[0].startswith(text)
    answer = json.loads(receipts(run, write, story, index, "--json").stdout)
    assert (answer["found"], answer["exit"], answer["headline"][:12]) == ("present", 2, "NOT VERIFIED")


def test_a_whole_answer_of_the_service_is_a_receipt(run, write):
    story = match().reveal(135)
    write("whole.json", story)
    one = story.document([3])
    for answer, field in (
        ({"session": "x", "state": "open", "close_at": None, "receipt": one}, "receipt"),
        ({"receipt": one, "close_receipt": story.document([5])}, "receipt"),
        ({"receipts": [story.document([7]), one], "outcomes": [[1, 2]]}, "receipts[1]"),
        ({"receipts": [story.document([7])]}, "receipts[0]"),
        ({"close_receipt": story.document([5])}, "close_receipt"),
    ):
        write("answer.json", answer)
        result = run("receipt", "answer.json", "--transcript", "whole.json", "--log-key", VKEY)
        assert result.exit_code == 0
        assert result.stdout.splitlines()[1] == f"  the receipt is the `{field}` of the service's answer"
        said = run("receipt", "answer.json", "--transcript", "whole.json", "--log-key", VKEY, "--json")
        assert json.loads(said.stdout)["field"] == field
    alone = receipts(run, write, story, 3, "--log-key", VKEY, "--json")
    assert json.loads(alone.stdout)["field"] is None


def test_an_answer_of_which_no_receipt_can_be_chosen(run, write):
    story = match().reveal(135)
    write("whole.json", story)
    write("answer.json", {"receipts": [story.document([7]), story.document([8])]})
    result = run("receipt", "answer.json", "--transcript", "whole.json", "--log-key", VKEY)
    assert failed(result, "several receipts, none of a contribution", "receipts[0], receipts[1]")
    for answer in ({"receipt": "x"}, {"receipts": 5}, {"receipts": [1]}, {"receipt": {}}, {"receipt": {"format": "x"}}):
        write("answer.json", answer)
        assert failed(run("receipt", "answer.json", "--transcript", "whole.json"), "the receipt: ")


def test_a_whole_answer_is_no_transcript(run, write):
    one = match().document([3])
    write("mine.json", one)
    write("answer.json", {"receipt": one})
    write("answers.json", {"receipts": [one, one]})
    said = "this is the service's answer; give the object in its `receipt` field"
    assert failed(run("check", "answer.json", "--log-key", VKEY), f"unusable input: document: {said}\n")
    assert failed(run("check", "answers.json"), "in its `receipts[0]` field (or in receipts[1])")
    assert failed(run("receipt", "mine.json", "--transcript", "answer.json"), f"the transcript: {said}")
    assert failed(run("draw", "--transcript", "answer.json", "--recipe", "turn", "--n", "1"), said)


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
    assert unkeyed.stdout.startswith("NOT VERIFIED: ")
    assert "--log-key" in unkeyed.stdout.splitlines()[0]


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


def test_a_leaf_of_another_session_in_a_consecutive_transcript_is_absent(run, write):
    story = Story().seal(host_seq=2, label="another table").contribute("white", 6.2, counted=False)
    mine = story.shown[:]
    story.shown = []
    story.seal(time=at(6.3)).contribute("white", 6.5)
    first = story.shown[0]
    foreign = json.loads(story.leaves[mine[1]]) | {"time": at(6.55), "participant": "black"}
    index = story.add(foreign, shown=False)
    story.close(9.1).round(1005, 15.9).draw("turn", 16).reveal(20)
    write("whole.json", story.document(story.all_from_seal()))
    assert first < index < story.shown[-1]
    assert run("check", "whole.json", "--log-key", VKEY).stdout.startswith("Fair")
    result = receipts(run, write, story, index, "--log-key", VKEY)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"ABSENT: the contribution of entry {index} belongs to another session: ")
    for own in story.shown:
        assert receipts(run, write, story, own, "--log-key", VKEY).exit_code == 0


def test_what_is_in_the_log_and_does_not_count(run, write):
    story = Story().seal().contribute("white", 6.5).contribute("white", 6.51, b"again", counted=False).close(6.6)
    story.contribute("black", 6.7, counted=False).close(6.75)
    story.round(1004, 15.8, signature="00" * 48).round(1005, 15.9).round(1005, 15.91)
    story.draw("turn", 16).reveal(20).contribute("black", 21, counted=False)
    story.shown = list(story.all_from_seal())
    write("whole.json", story)
    reasons = {
        4: "it is a second one of the same participant, after entry 3", 6: "it was logged after the close",
        7: "it is a second one, after entry 5", 8: "the session does not use it", 10: "the session does not use it",
        13: "it was logged after the session's end",
    }  # fmt: skip
    for index in story.shown:
        result = receipts(run, write, story, index, "--log-key", VKEY)
        found = result.stdout.splitlines()[0]
        assert result.exit_code == (index in reasons)
        if index in reasons:
            assert found.startswith("NOT COUNTED: ")
            assert found.endswith(f" is in the log, but does not count: {reasons[index]}.")
        else:
            assert found.startswith("PRESENT: ")
    answer = json.loads(receipts(run, write, story, 6, "--log-key", VKEY, "--json").stdout)
    assert (answer["found"], answer["exit"]) == ("not counted", 1)


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
    for options in (("--log-key", VKEY), ()):
        result = run("receipt", "mine.json", "--transcript", "whole.json", *options)
        assert result.exit_code == 1
        assert result.stdout.startswith("FAILED: the receipt is false: ")
        assert "As it stands, present: " in result.stdout.splitlines()[0]


def test_a_false_transcript_proves_nothing(run, write):
    story = match().reveal(135)
    document = story.document()
    document["events"][-1]["proof"].pop()
    write("whole.json", document)
    result = receipts(run, write, story, 3, "--log-key", VKEY)
    assert result.exit_code == 1
    assert result.stdout.startswith("FAILED: the transcript is false: not in the log under the checkpoint")


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
        ("--recipe", "a", "--n", "1"),
        (*OPTIONS, "--recipe", "a", "--n", "1"),
        ("--transcript", "x", *OPTIONS, "--recipe", "a", "--n", "1"),
        ("--transcript", "x", "--recipe", "a", "--n", "1", '{"kind":"bytes","count":1}'),
    ],
)
def test_draws_that_cannot_be(run, arguments):
    result = run("draw", *arguments)
    assert failed(result)
    option = re.match(r"(--[a-z]+|JSON): ", result.stderr)
    assert option or "Error: " in result.stderr


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


def test_progress_on_a_terminal(run, monkeypatch):
    terminal = {"isatty": lambda _: True, "write": lambda *_: None, "flush": lambda _: None}
    monkeypatch.setattr("verifier.cli_common.sys.stderr", type("Terminal", (), terminal)())
    shown = []
    monkeypatch.setattr("verifier.cli_common.click.echo", lambda text, **_: shown.append(text))
    progress("f")(1, 2)
    progress("f")(2, 2)
    assert shown == ["\rf: 1 of 2", "\rf: 2 of 2\n"]


def test_progress_elsewhere_is_a_line_every_ten_seconds(run, write, capsys):
    write("peers.json", json.dumps({"vectors": []}).encode())
    assert run("vectors", "peers.json").stderr == ""
    times = iter([0, 9.9, 10, 10, 19, 20.5, 20.5])
    show = progress("f", lambda: next(times))
    for done in (1, 2, 3, 4):
        show(done, 4)
    assert capsys.readouterr().err == "f: 2 of 4\nf: 4 of 4\n"


@pytest.mark.parametrize(("number", "group"), [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)])
def test_a_run_that_is_stopped_leaves_nothing_behind(tmp_path, number, group):
    document = json.loads((builder.VECTORS / "drand-rounds.json").read_text())
    document["rounds"] *= 20
    (tmp_path / "many.json").write_text(json.dumps(document))
    command = [sys.executable, "-m", "verifier", "vectors", "many.json", "--jobs", "2"]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while len(children.read_text().split()) < 3:  # two workers, and what keeps track of semaphores
        time.sleep(0.02)
    workers = children.read_text().split()
    (os.killpg if group else os.kill)(running.pid, number)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err.strip()) == (130, b"", b"stopped")
    while any(alive(worker) for worker in workers):
        time.sleep(0.02)


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- help ------------------------------------------------------------------------------------------------------------


def test_every_command_teaches_by_example():
    for name, command in main.commands.items():
        text = CliRunner().invoke(main, [name, "--help"], prog_name="verifier").stdout
        assert f"verifier {name} " in text.split("Examples:")[1]
        assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert "Exit codes: 0" in CliRunner().invoke(main, ["--help"]).stdout
