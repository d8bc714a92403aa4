"""Files of known answers: all that is understood passes, what is not is named, and nothing wrong passes."""

import copy
import json
from collections import Counter
from pathlib import Path

import pytest

from verifier import vectors
from verifier.errors import FormatError
from verifier.vectors import Case, Status, read, run, run_all

VECTORS = Path(__file__).parent / "vectors"
SCENARIOS = Path(__file__).parent / "scenarios"


def load(name):
    return json.loads((VECTORS / name).read_text())


def results(document, jobs=1):
    _, cases = read(json.dumps(document).encode())
    return list(run_all(cases, jobs))


def tally(found):
    return Counter(str(result.status) for result in found)


def not_passed(found):
    return {result.id: result.why for result in found if result.status != Status.PASSED}


def only(found, status):
    return {result.id for result in found if result.status == status}


# --- the files as they are -------------------------------------------------------------------------------------------


def test_protocol_passes_whole():
    found = results(load("protocol.json"))
    assert not_passed(found) == {}
    assert len(found) == 196


def test_scenarios_pass_whole():
    found = results(load("scenarios.json"))
    assert not_passed(found) == {}
    assert len(found) == 33


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.json")), ids=lambda path: path.stem)
def test_our_own_scenarios_pass(path):
    _, cases = read(path.read_bytes())
    assert not_passed(run_all(cases)) == {}


def test_transparency_log_formats_pass():
    found = results(load("tlog.json"))
    assert not_passed(found) == {}
    assert len(found) == 305


def test_refusals_pass():
    assert not_passed(results(load("drand-negative.json"))) == {}


def test_chains_pass_but_for_the_scheme_that_is_not_understood():
    found = results(load("drand-chains.json"))
    assert only(found, Status.FAILED) == set()
    assert len(only(found, Status.PASSED)) >= 6


def test_published_rounds_pass():
    document = load("drand-rounds.json")
    first = {}
    for record in document["rounds"]:
        first.setdefault((record["scheme"], record["chain_hash"]), record)
    found = results({"rounds": list(first.values())})
    assert only(found, Status.FAILED) == set()
    assert len(only(found, Status.PASSED)) >= 5


def test_the_dice_of_other_systems_pass():
    found = results(load("seeds-and-peers.json"))
    assert not_passed(found) == {}
    assert len(found) == len(load("seeds-and-peers.json")["vectors"]) == 52


def test_timelocks():
    found = results(load("drand-tlock.json"))
    assert len(found) == 10
    assert not_passed(found) == {}


def test_processes_give_the_same_answers_in_the_same_order():
    document = load("drand-negative.json")
    reports = []
    _, cases = read(json.dumps(document).encode())
    found = list(run_all(cases, 2, lambda done, of: reports.append((done, of))))
    assert found == results(document)
    assert reports == [(done, len(cases)) for done in range(1, len(cases) + 1)]


# --- what is wrong must fail -----------------------------------------------------------------------------------------


def flipped(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return ("1" if value[:1] == "0" else "0") + value[1:]
    if isinstance(value, list):
        return [*value, value[0] if value else 0]
    return value


@pytest.mark.parametrize(
    "name",
    ["session", "session_digest", "binding", "seed", "commitment", "round_signature", "randomness", "round", "k"],
)
def test_a_wrong_protocol_case_fails(name):
    document = load("protocol.json")
    document["cases"] = [document["cases"][3]]
    document["cases"][0][name] = flipped(document["cases"][0][name])
    assert only(results(document), Status.FAILED) != set()


@pytest.mark.parametrize("name", ["word", "outcome", "n", "recipe"])
def test_a_wrong_outcome_fails(name):
    document = load("protocol.json")
    document["cases"] = [document["cases"][0]]
    item = document["cases"][0]["outcomes"][0]
    item[name] = {"recipe": "opening"}.get(name, flipped(item[name]))
    assert len(not_passed(results(document))) == 1


@pytest.mark.parametrize("name", ["entropy", "participant", "purpose", "signature", "message_sha256", "public_key"])
def test_a_wrong_signature_fails(name):
    document = load("protocol.json")
    document["cases"] = [document["cases"][0]]
    item = document["cases"][0]["signatures"][0]
    item[name] = flipped(item[name])
    assert only(results(document), Status.FAILED) == {"match, two players: signature 1"}


def test_a_long_outcome_is_checked_by_its_hash_and_its_head():
    document = load("protocol.json")
    document["cases"] = [document["cases"][2]]
    long = [item for item in document["cases"][0]["outcomes"] if "outcome_head" in item]
    long[0]["outcome_head"] = [*long[0]["outcome_head"][:-1], 0]
    long[1]["outcome_sha256_of_json"] = "00" * 32
    del long[2]["outcome_sha256_of_json"]
    found = results(document)
    assert only(found, Status.FAILED) == {"match, every recipe: big 1", "match, every recipe: big 2"}
    assert only(found, Status.NOT_UNDERSTOOD) == {"match, every recipe: big 3"}


def test_wrong_entries_and_numbers_fail():
    document = load("protocol.json")
    accepted, refused = document["entries"]["accepted"], document["entries"]["refused"]
    document["entries"] = {"accepted": refused[:2], "refused": accepted[:2]}
    document["cases"] = []
    document["uniform"]["rows"] = document["uniform"]["rows"][:1]
    document["uniform"]["rows"][0]["first_eight"][7] = "9"
    found = results(document)
    assert len(only(found, Status.FAILED)) == len(found) == 5


def test_wrong_scenarios_fail():
    document = load("scenarios.json")
    document["scenarios"] = document["scenarios"][:1]
    for change in (
        {"exit": 1, "claims": {}}, {"exit": 3, "claims": {}}, {"exit": 0, "claims": {"sole": "PROVEN"}},
    ):  # fmt: skip
        document["scenarios"][0]["expect"] = change
        assert tally(results(document)) == {"failed": 1}
    document = load("scenarios.json")
    refused = [scenario for scenario in document["scenarios"] if scenario["expect"]["exit"] == 3]
    for scenario in refused:
        scenario["expect"]["exit"] = 1
    assert tally(results({"protocol": "", "scenarios": refused})) == {"failed": len(refused)}


def test_wrong_drand_answers_fail():
    rounds = load("drand-rounds.json")["rounds"]
    good = copy.deepcopy(
        next(record for record in rounds if record["beacon_id"] == "quicknet" and record["randomness"])
    )
    assert tally(results({"rounds": [good | {"randomness": "00" * 32}]})) == {"failed": 1}
    assert tally(results({"rounds": [good | {"round": good["round"] + 1}]})) == {"failed": 1}
    case = {"id": "good", "round": good["round"], "signature": good["signature"], "chain_hash": good["chain_hash"]}
    assert tally(results({"cases": [case]})) == {"failed": 1}
    chain = load("drand-chains.json")["chains"][0]
    assert tally(results({"chains": [chain | {"v2": chain["v2"] | {"period": 31}}]})) == {"failed": 1}


def test_wrong_peers_fail():
    document = load("seeds-and-peers.json")
    wanted = {result.id for result in results(document) if result.status == Status.PASSED}
    mine = [case for case in document["vectors"] if case["id"] in wanted]
    for case in mine:
        name = next(name for name, value in case["expected"].items() if flipped(value) != value)
        case["expected"][name] = flipped(case["expected"][name])
    found = results({"vectors": mine})
    assert tally(found)[Status.PASSED] == 0
    assert tally(found)[Status.FAILED] >= len(mine) - 1


def test_a_file_that_lost_cases_fails():
    document = load("seeds-and-peers.json")
    document["vectors"].pop()
    assert "count" in only(results(document), Status.FAILED)
    tlog = load("tlog.json")
    tlog["origin_hash"].pop()
    del tlog["tile_layout"]
    assert only(results(tlog), Status.FAILED) == {"origin_hash count", "tile_layout count"}


# --- what is not known is not passed ---------------------------------------------------------------------------------


def test_unknown_fields_and_parts_are_named():
    protocol = load("protocol.json")
    protocol["cases"] = [protocol["cases"][0] | {"surprise": 1}]
    protocol["surprises"] = []
    protocol["entries"]["doubtful"] = []
    named = only(results(protocol), Status.NOT_UNDERSTOOD)
    assert named == {"match, two players", "surprises", "entries doubtful"}
    scenarios = load("scenarios.json")["scenarios"]
    for damage in ("given", "expect", None):
        scenario = copy.deepcopy(scenarios[0])
        (scenario[damage] if damage else scenario)["surprise"] = 1
        assert tally(results({"scenarios": [scenario]})) == {"not understood": 1}
    for change in ({"claims": {"luck": "PROVEN"}}, {"claims": {"log": "MAYBE"}}):
        scenario = copy.deepcopy(scenarios[0])
        scenario["expect"] |= change
        assert tally(results({"scenarios": [scenario]})) == {"not understood": 1}
    for change in ({"chain": "moonnet"}, {"require": "certain"}):
        scenario = copy.deepcopy(scenarios[0])
        scenario["given"] |= change
        assert tally(results({"scenarios": [scenario]})) == {"not understood": 1}
    for name, key in (
        ("drand-rounds.json", "rounds"),
        ("drand-chains.json", "chains"),
        ("drand-negative.json", "cases"),
        ("seeds-and-peers.json", "vectors"),
    ):
        case = load(name)[key][0] | {"surprise": 1}
        assert tally(results({key: [case]})) == {"not understood": 1}
    assert tally(results({"meta": {}, "tea_leaves": [{"id": "1", "input": {}, "expect": {}}]})) == {"not understood": 1}


def test_a_case_of_another_form_is_not_understood():
    for kind, payload in (
        ("round", {}), ("round", 5), ("peer", {"algorithm": "keccak-d6", "input": {}, "expected": {}}), ("tlog", ("note_open", {})),
        ("scenario", {"name": "x"}), ("chain", {"v1": 1, "v2": 2}), ("accepted", 5), ("protocol", ("session", {})),
    ):  # fmt: skip
        assert run(Case("x", kind, payload)).status == Status.NOT_UNDERSTOOD


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"x":[]}',
        b'{"rounds":5}',
        b'{"cases":[5]}',
        b'{"vectors":{"a":1}}',
        b'{"a":1,"a":2}',
        b"[" * 99_999,
        b'{"meta":5}',
    ],
)
def test_what_is_no_such_file_is_refused(data):
    with pytest.raises(FormatError):
        read(data)


def test_attachments_and_required_proof_can_be_given():
    scenario = load("scenarios.json")["scenarios"][0]
    scenario["given"] |= {"require": "proven", "attachments": {"rules": "00" * 32}}
    scenario["expect"] = {"exit": 1, "claims": {"attachments": "FAILED"}}
    assert tally(results({"scenarios": [scenario]})) == {"passed": 1}
    scenario["given"]["attachments"] = {}
    scenario["expect"] = {"exit": 2, "claims": {"attachments": "UNKNOWN"}}
    assert tally(results({"scenarios": [scenario]})) == {"passed": 1}


def test_every_kind_of_case_has_a_runner():
    kinds = {case.kind for path in VECTORS.glob("*.json") for case in read(path.read_bytes())[1]}
    assert kinds <= vectors._RUNNERS.keys()
    assert vectors._RUNNERS.keys() - kinds == {"unknown", "wrong"}
