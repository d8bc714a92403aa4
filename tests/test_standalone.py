"""The one-file program: every scenario, tampered files, hostile texts, its mathematics, and the route that serves it."""

from __future__ import annotations

import ast
import base64
import json
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.web import session_routes
from beacon.web.standalone_file import program, standalone_file
from tests.builder import LOG_KEY, VECTORS, match
from tests.session_support import ALICE, service
from tests.test_check_mutations import GOOD, entry_mutations, exit_of, mutations, named, resigned
from tests.test_sessions import anchored
from tests.web_support import web_of
from verifier import keccak, standalone, standalone_session, standalone_tools
from verifier.encoding import encode_json
from verifier.fetch import pinned_chains

KEY = str(LOG_KEY.vkey)
SCENARIOS = [
    scenario
    for path in (VECTORS / "scenarios.json", Path(__file__).parent / "scenarios" / "faults.json")
    for scenario in json.loads(path.read_text(encoding="utf-8"))["scenarios"]
]
ALONE = ("-I", "-S")
WITH_PY_ECC = ("-I",)


def elsewhere(scenario: dict[str, Any]) -> bool:
    """What the file does not read: cosignatures, attachments, and receipts of one entry, which are no session."""
    failed = {name for name, state in scenario["expect"].get("claims", {}).items() if state == "FAILED"}
    if (failed and failed <= {"witnessed", "attachments"}) or scenario["given"].get("require"):
        return True
    return scenario["expect"]["exit"] in {0, 1, 2} and len(scenario.get("document", {"events": [1, 2]})["events"]) == 1


def text_of(scenario: dict[str, Any]) -> str:
    return str(scenario["document_text"]) if "document_text" in scenario else json.dumps(scenario["document"])


def info_of(name: str) -> dict[str, Any]:
    chain = pinned_chains()[name]
    return chain.as_dict() | ({"last_round": chain.last_round} if chain.last_round else {})


def run(
    folder: Path, document: str, *arguments: str, python: tuple[str, ...] = ALONE
) -> subprocess.CompletedProcess[str]:
    """The served file as a program; documents have no surrogates but in escapes."""
    file = folder / "verify.py"
    file.write_bytes(standalone_file(document.encode("utf-8")))
    command = [sys.executable, *python, str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={"LC_ALL": "C"})
    assert "Traceback" not in done.stderr
    return done


def arguments_of(scenario: dict[str, Any], folder: Path) -> list[str]:
    given_ = scenario["given"]
    chain = folder / "chain.json"
    chain.write_text(json.dumps(info_of(given_["chain"])))
    key = ["--log-key", given_["log_key"]] if given_["log_key"] is not None else []
    return [*key, "--chain", str(chain), *(["--sandbox"] if given_["sandbox"] else [])]


@pytest.fixture
def pairings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each distinct round once."""
    known: dict[str, bool | None] = PAIRINGS
    signed_round = standalone_tools.signed_round

    def cached(info: dict[str, Any], entry: dict[str, Any]) -> bool | None:
        names = ("round", "signature", "previous_signature")
        asked = json.dumps([info, [entry.get(name) for name in names]], sort_keys=True)
        if asked not in known:
            known[asked] = signed_round(info, entry)
        return known[asked]

    monkeypatch.setattr(standalone_session, "signed_round", cached)


PAIRINGS: dict[str, bool | None] = {}


def judge(
    document: str, key: str | None = KEY, chain: str = "quicknet", sandbox: bool = False
) -> tuple[int, list[str]]:
    info = info_of(chain)
    keys = standalone.keys_of(key) if key is not None else []
    try:
        return standalone.check(document, keys, {info["hash"]: info}, sandbox)
    except Exception as error:  # noqa: BLE001 - as `main` does
        return 3, [repr(error)]


def exits(scenario: dict[str, Any]) -> set[int]:
    """The file does not know the shape of every field: what the verifier does not take at all may fail in it."""
    expected = scenario["expect"]["exit"]
    return {1, 3} if expected == 3 else {expected}


# --- every scenario --------------------------------------------------------------------------------------------------


def test_most_scenarios_are_for_it() -> None:
    assert 0 < sum(map(elsewhere, SCENARIOS)) < len(SCENARIOS) / 8


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
@pytest.mark.usefixtures("pairings")
def test_with_the_pairing_it_says_what_the_verifier_says(scenario: dict[str, Any]) -> None:
    if elsewhere(scenario):
        return
    given_ = scenario["given"]
    code, lines = judge(text_of(scenario), given_["log_key"], given_["chain"], given_["sandbox"])
    assert code in exits(scenario), lines
    failed = {line.split()[1] for line in lines if line.startswith("FAILED ")}
    claims = scenario["expect"].get("claims", {})
    assert {name for name, state in claims.items() if state == "FAILED"} <= failed, lines
    assert not failed & {name for name, state in claims.items() if state != "FAILED"}, lines


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_alone_it_decides_all_but_the_pairing(scenario: dict[str, Any], tmp_path: Path) -> None:
    if elsewhere(scenario):
        return
    undecided = scenario["expect"]["exit"] == 0
    done = run(tmp_path, text_of(scenario), *arguments_of(scenario, tmp_path))
    assert done.returncode in ({2} if undecided else exits(scenario)), done.stdout + done.stderr
    if undecided:
        assert "the pairing was NOT done (py-ecc is not installed)" in done.stdout


@pytest.mark.parametrize(
    "name", ["match, honest", "match on the default chain, honest", "the signature of the round before"]
)
def test_as_a_program_with_py_ecc(name: str, tmp_path: Path) -> None:
    scenario = next(one for one in SCENARIOS if one["name"] == name)
    done = run(tmp_path, text_of(scenario), *arguments_of(scenario, tmp_path), python=WITH_PY_ECC)
    assert done.returncode == scenario["expect"]["exit"], done.stdout + done.stderr


def test_without_a_key_or_a_chain_it_is_not_decided(tmp_path: Path) -> None:
    document = json.dumps(match().reveal(135).document())
    keyless = run(tmp_path, document)
    assert keyless.returncode == 2
    assert "no key was given" in keyless.stdout
    other = run(tmp_path, document, "--log-key", "other.example+00000000+AZKzjBBTgJjjUKR6g4OK8KHBLV3FGxJlJJHwNrqVrCTB")
    assert other.returncode == 3
    chainless = tmp_path / "chain.json"
    chainless.write_text(json.dumps(info_of("default")))
    done = run(tmp_path, document, "--log-key", KEY, "--chain", str(chainless))
    assert done.returncode == 2
    assert "is not built in (--chain)" in done.stdout


def test_its_command_line(tmp_path: Path) -> None:
    document = json.dumps(match().reveal(135).document())
    assert run(tmp_path, document, "--help").returncode == 0
    assert run(tmp_path, document, "--surprise").returncode == 3
    assert run(tmp_path, document, "--chain", "/nowhere").returncode == 3
    assert run(tmp_path, document, "--log-key", "/nowhere").returncode == 3
    file = tmp_path / "log.vkey"
    file.write_text(f"{KEY}\n")
    assert run(tmp_path, document, "--log-key", str(file)).stdout == run(tmp_path, document, "--log-key", KEY).stdout
    file.write_text("no key\n")
    assert "three parts joined by +" in run(tmp_path, document, "--log-key", str(file)).stderr


# --- tampered files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.usefixtures("pairings")
def test_no_change_to_a_document_leaves_it_fair(name: str) -> None:
    document = GOOD[name]().document()
    assert judge(json.dumps(document))[0] == 0
    source = random.Random(name)
    changes = [one for one in mutations(document) if one[0][:1] != ("evidence",)]
    for path, what, mutated in source.sample(changes, 250):
        assert judge(encode_json(mutated).decode("utf-8", "surrogatepass"))[0] != 0, named(path, what)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.usefixtures("pairings")
def test_whatever_the_log_signs_it_says_what_the_verifier_says(name: str) -> None:
    """One changed entry in a log that is signed anew: what the verifier takes at all gets the same exit code."""
    story, source = GOOD[name](), random.Random(name)
    changes = [
        (index, path, what, mutated)
        for index in story.shown
        for path, what, mutated in entry_mutations(json.loads(story.leaves[index]))
        if isinstance(mutated, dict)
    ]
    seen = set()
    for index, path, what, mutated in source.sample(changes, 120):
        document = resigned(story, index, mutated).document()
        expected = exit_of(document)
        if expected != 3:
            seen.add(expected)
            code, lines = judge(encode_json(document).decode())
            assert code == expected, (named(path, what), lines)
    assert {0, 1} <= seen


def test_a_tampered_file_fails(tmp_path: Path) -> None:
    document = json.dumps(match().reveal(135).document())
    turn = re.search(r'outcomes\\":\[\[(\d)', document)
    assert turn is not None
    place = turn.start(1)
    tampered = document[:place] + ("1" if turn[1] != "1" else "2") + document[place + 1 :]
    done = run(tmp_path, tampered, "--log-key", KEY)
    assert done.returncode == 1
    assert "Not fair as it stands: log, outcomes" in done.stdout


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_bytes_never_pass(seed: int) -> None:
    source = random.Random(seed)
    document = bytearray(DOCUMENT)
    for _ in range(source.randrange(1, 4)):
        place = source.randrange(len(document))
        document[place : place + source.randrange(3)] = source.randbytes(source.randrange(3))
    try:
        code = judge(document.decode("utf-8"))[0]
        same = json.loads(document) == json.loads(DOCUMENT)
    except ValueError:
        return
    assert same or code != 0


DOCUMENT = json.dumps(match().reveal(135).document()).encode()


# --- hostile texts ---------------------------------------------------------------------------------------------------

HOSTILE = [
    '"""\nimport os\nos.abort()\n"""',
    "''' + __import__(\"os\").abort() + '''",
    '\\" + exit(0) #',
    "{document}{chains}%s",
    "</script><!-- # -*- coding: utf-7 -*-",
    "\u05d0\u202eabc",
]


@pytest.mark.parametrize("label", HOSTILE)
def test_no_text_of_a_host_or_a_player_gets_out_of_the_data(label: str, tmp_path: Path) -> None:
    clean = re.sub("[\n\u202e]", " ", label)
    document = json.dumps(match(label=clean).reveal(135).document(), ensure_ascii=False)
    source = standalone_file(document.encode()).decode()
    assert source.startswith(program())
    data = source[len(program()) :]
    assert re.fullmatch(
        r'\n*# -+ [^\n]* -+\n\nDOCUMENT = """\n[A-Za-z0-9+/=\n]*"""\nCHAINS = """\n[A-Za-z0-9+/=\n]*"""\n\n'
        r'if __name__ == "__main__":\n    sys\.exit\(main\(base64\.b64decode\(DOCUMENT\), base64\.b64decode\(CHAINS\)\)\)\n',
        data,
    )
    assert base64.b64decode(data.split('"""')[1]).decode() == document
    done = run(tmp_path, document, "--log-key", KEY)
    assert done.returncode == 2
    assert not re.search("[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]", done.stdout)


def test_an_unusable_document_prints_nothing_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, '{"\u001b[31m\u202e":1}' + "[" * 100_000)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.isascii()
    assert "\u001b" not in done.stderr


# --- the program -----------------------------------------------------------------------------------------------------


def test_it_needs_the_standard_library_alone_and_old_syntax_parses() -> None:
    tree = ast.parse(program(), feature_version=(3, 9))
    names = {name for node in ast.walk(tree) for name in _imported(node)}
    assert names <= sys.stdlib_module_names
    assert "py_ecc.optimized_bls12_381" in program()


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]


def test_it_says_what_it_does_not_do() -> None:
    head = ast.get_docstring(ast.parse(program())) or ""
    assert "does NOT do the pairing" in head
    assert "witnesses' cosignatures, attachments or timelocks" in head


@given(st.binary(max_size=135))
def test_keccak(data: bytes) -> None:
    assert standalone_tools.keccak256(data) == keccak.keccak256(data)


@given(st.binary(min_size=32, max_size=32), st.integers(1, 200))
def test_keccak_dice(word: bytes, count: int) -> None:
    assert standalone_tools.keccak_dice(word, count) == keccak.keccak_dice(word, count)


def test_a_long_transcript_is_one_short_literal() -> None:
    source = standalone_file(b"x" * 3_000_000)
    compile(source, "verify.py", "exec")
    assert max(map(len, source.splitlines())) <= 121


# --- the route -------------------------------------------------------------------------------------------------------


async def play(running: Any) -> bytes:
    """A match from the seal to the reveal, with a hostile label."""
    session, _ = await anchored(running, label="\"\"\" + ''' {document} \\")
    await running.draw(session, "turn", 3)
    await running.sessions.reveal(ALICE, session)
    return bytes(session)


async def test_the_route_serves_the_program_of_a_session(tmp_path: Path) -> None:
    async with service(tmp_path) as running, web_of(running) as client:
        session = await play(running)
        response = await client.get(f"/v1/sessions/{session.hex()}/verify.py")
        body = await response.text()
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/x-python; charset=utf-8"
        assert response.headers["Content-Disposition"] == f'attachment; filename="verify-{session.hex()[:16]}.py"'
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        transcript = await (await client.get(f"/v1/sessions/{session.hex()}/transcript")).read()
        key = str(running.vkey)
    assert body.encode() == standalone_file(transcript)
    done = run(tmp_path, transcript.decode(), "--log-key", key)
    assert done.returncode == 2, done.stdout
    assert "py-ecc is not installed" in done.stdout
    assert "FAILED" not in done.stdout


async def test_the_route_refuses_unknown_sessions_as_problems(tmp_path: Path) -> None:
    async with service(tmp_path) as running, web_of(running) as client:
        for name, status, code in (("00" * 32, 404, "session-unknown"), ("xyz", 404, "session-unknown")):
            response = await client.get(f"/v1/sessions/{name}/verify.py")
            assert response.status == status
            assert response.content_type == "application/problem+json"
            assert (await response.json())["code"] == code


async def test_the_program_is_made_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def made(document: bytes) -> bytes:
        threads.append(threading.get_ident())
        return b"#"

    monkeypatch.setattr(session_routes, "standalone_file", made)
    async with service(tmp_path) as running, web_of(running) as client:
        session = await play(running)
        await client.get(f"/v1/sessions/{session.hex()}/verify.py")
    assert threads
    assert threads[0] != threading.get_ident()
