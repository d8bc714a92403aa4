"""The TypeScript verifier's code on the known answers, and its types."""

import copy
import json
import subprocess

import pytest

from tests import web_verifier
from tests.builder import VECTORS

FAULTS = VECTORS.parent / "scenarios" / "faults.json"
#: What a log, a client of its tiles or a witness does, and no verifier of documents.
NOT_ITS_OWN = {
    "note_sign_ed25519", "inclusion_prove", "consistency_prove", "tile_path", "tile_path_parse", "tile_layout",
    "tile_bytes", "entry_bundle", "tlog_proof_encode", "witness_add_checkpoint", "witness_request_encode", "witness_status",
}  # fmt: skip
FILES = {
    "protocol.json": 206,
    "scenarios.json": 33,
    "tlog.json": 232,
    "drand-chains.json": 7,
    "drand-negative.json": 26,
    "drand-rounds.json": 318 + 7,
    "drand-tlock.json": 10,
}


def results(path):
    done = web_verifier.node("vectors", path)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_types_hold():
    folder = web_verifier.workspace()
    command = [web_verifier.need_node(), folder / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", FILES)
def test_known_answers(name):
    code, found = results(VECTORS / name)
    assert [result for result in found if result["status"] == "failed"] == []
    assert {result["id"] for result in found if result["status"] == "not understood"} == (
        NOT_ITS_OWN if name == "tlog.json" else set()
    )
    assert sum(result["status"] == "passed" for result in found) == FILES[name]
    assert code == 0


def test_every_fault_that_was_found():
    code, found = results(FAULTS)
    assert code == 0
    assert len(found) == len(json.loads(FAULTS.read_text())["scenarios"])
    assert {result["status"] for result in found} == {"passed"}


def changed(name):
    """A file of which one answer of every kind is another one."""
    file = copy.deepcopy(json.loads((VECTORS / name).read_text()))
    match name:
        case "protocol.json":
            case = file["cases"][0]
            for field in ("session", "session_digest", "randomness", "binding"):
                case[field] = "00" * 32
            case["outcomes"][0]["outcome"] = [7, 7]
            file["uniform"]["rows"][0]["first_eight"][0] = "2"
            file["entries"] = {"accepted": file["entries"]["refused"][:1], "refused": file["entries"]["accepted"][:1]}
            return file, 8
        case "scenarios.json":
            file["scenarios"] = file["scenarios"][:2]
            file["scenarios"][0]["expect"]["exit"] = 1
            file["scenarios"][1]["expect"]["claims"]["log"] = "FAILED"
            return file, 2
        case "tlog.json":
            sections = [section for section in file if section not in NOT_ITS_OWN | {"meta"}]
            for section in sections:
                case = file[section][0]
                case["expect"] = {"ok": False} if case["expect"].get("ok", True) else {"ok": True}
                file[section] = [case]
            return file, len(sections)
        case "drand-rounds.json":
            file["rounds"] = file["rounds"][:1]
            file["rounds"][0]["round"] += 1
            return file, 1
        case "drand-tlock.json":
            file["tlock"][0]["plaintext_base64"] = "eA=="
            file["tlock"][5]["plaintext_base64"] = "eA=="
            file["tlock"] = [file["tlock"][0], file["tlock"][5]]
            return file, 2
        case "drand-negative.json":
            file["cases"] = [case for case in file["cases"] if case["id"] == "other-round"]
            file["cases"][0]["round"] = 1000
            return file, 1
        case _:
            file["chains"] = file["chains"][:1]
            file["chains"][0]["v2"]["period"] += 1
            return file, 1


@pytest.mark.parametrize("name", FILES)
def test_a_changed_answer_does_not_pass(name, tmp_path):
    file, count = changed(name)
    path = tmp_path / name
    path.write_text(json.dumps(file))
    code, found = results(path)
    assert code == 1
    assert sum(result["status"] == "failed" for result in found) == count
