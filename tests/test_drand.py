"""drand: published chains, published rounds of every scheme, signatures that must be refused, and the round clock."""

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import fetch
from verifier.drand import (
    SCHEMES,
    ChainInfo,
    Round,
    parse_any_info,
    parse_chain_info,
    parse_pinned_chain,
    parse_relay_info,
    verify_round,
    verify_under_key,
)
from verifier.encoding import MAX_INTEGER
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.vectors_drand import run_chain, run_negative, run_round

VECTORS = Path(__file__).parent / "vectors"
CHAIN_CASES = json.loads((VECTORS / "drand-chains.json").read_text())["chains"]
RECORDS = json.loads((VECTORS / "drand-rounds.json").read_text())["rounds"]
NEGATIVES = json.loads((VECTORS / "drand-negative.json").read_text())["cases"]

PINNED = fetch.pinned_chains()
BY_HASH = {chain.hash.hex(): chain for chain in PINNED.values()}
QUICKNET, DEFAULT, FASTNET = PINNED["quicknet"], PINNED["default"], PINNED["fastnet"]


def sample(scheme, count):
    """The first records, the last, and some between: fixed, so that a failure stays one."""
    records = [record for record in RECORDS if record["scheme"] == scheme]
    step = max(1, len(records) // count)
    return records[:2] + records[2:-1:step][: count - 3] + records[-1:]


SAMPLE = [record for name in SCHEMES for record in sample(name, 6)] + [r for r in RECORDS if r["chain_hash"] is None]


def recorded(chain, number):
    record = next(r for r in RECORDS if r["chain_hash"] == chain.hash.hex() and r["round"] == number)
    previous = record.get("previous_signature")
    return Round(number, bytes.fromhex(record["signature"]), None if previous is None else bytes.fromhex(previous))


def refused(code, call, *arguments):
    with pytest.raises((FormatError, VerificationError)) as caught:
        call(*arguments)
    assert caught.value.code == code


@pytest.mark.parametrize("case", CHAIN_CASES, ids=lambda case: case["name"])
def test_published_chains(case):
    assert run_chain(case) is None


@pytest.mark.parametrize("record", SAMPLE, ids=lambda record: f"{record['beacon_id']}-{record['round']}")
def test_published_rounds(record):
    assert run_round(record, BY_HASH) is None


def test_the_sample_has_every_scheme_and_the_record_without_chain():
    assert {record["scheme"] for record in SAMPLE} == set(SCHEMES)
    assert any(record["chain_hash"] is None for record in SAMPLE)
    assert len(SAMPLE) == 31


@pytest.mark.parametrize("case", NEGATIVES, ids=lambda case: case["id"])
def test_signatures_that_must_be_refused(case):
    assert run_negative(case, BY_HASH) is None


def test_the_runners_fail_what_they_should_fail():
    record = next(r for r in RECORDS if r["beacon_id"] == "quicknet" and r["round"] == 1000)
    assert "round-signature" in run_round({**record, "round": 1001}, BY_HASH)
    assert run_round({**record, "randomness": "00" * 32}, BY_HASH) == "another randomness"
    assert run_round({**record, "scheme": "bls-unchained-on-g1"}, BY_HASH) == "the chain has another scheme"
    assert run_negative(record, BY_HASH) == "accepted"
    case = CHAIN_CASES[0]
    assert "refused" in run_chain({**case, "v2": {**case["v2"], "period": 31}})
    with pytest.raises(KeyError):
        run_round({**record, "scheme": "bls-unchained-on-g2"}, BY_HASH)
    with pytest.raises(KeyError):
        run_round(record, {})


def test_the_pinned_chains_are_the_published_ones():
    published = {case["v2"]["chain_hash"]: case["v2"] for case in CHAIN_CASES}
    assert set(BY_HASH) == set(published)
    for chain in PINNED.values():
        assert parse_relay_info(published[chain.hash.hex()]) == replace(chain, last_round=None)
    assert set(PINNED) == {
        "default",
        "evmnet",
        "fastnet",
        "quicknet",
        "quicknet-t",
        "testnet-default",
        "testnet-unchained-3s",
    }


def test_an_info_survives_its_own_form():
    for chain in PINNED.values():
        assert parse_chain_info(chain.as_dict()) == replace(chain, last_round=None)
        assert parse_any_info(chain.as_dict()) == replace(chain, last_round=None)


def test_fastnet_ended_on_6_november_2024():
    assert FASTNET.last_round == FASTNET.final_round
    midnight = 1_730_937_600_000
    assert FASTNET.time(FASTNET.last_round) < midnight <= FASTNET.time(FASTNET.last_round + 1)
    refused(Code.ROUND, verify_round, FASTNET, Round(FASTNET.last_round + 1, recorded(FASTNET, 1000).signature))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hash", "00" * 32),
        ("hash", "zz"),
        ("hash", None),
        ("public_key", QUICKNET.public_key.hex()[2:]),
        ("public_key", QUICKNET.public_key.hex().upper()),
        ("period", 0),
        ("period", -3),
        ("period", True),
        ("period", "3"),
        ("period", 2**32),
        ("genesis_time", -1),
        ("genesis_time", MAX_INTEGER),
        ("genesis_seed", ""),
        ("genesis_seed", QUICKNET.genesis_seed.hex() + "00"),
        ("beacon_id", ""),
        ("beacon_id", None),
        ("beacon_id", "default"),
        ("beacon_id", "quick\nnet"),
        ("beacon_id", "\ud800"),
        ("scheme", "pedersen-bls-chained"),
    ],
)
def test_a_chain_info_with_another_value_is_refused(field, value):
    refused(Code.CHAIN_INFO, parse_chain_info, {**QUICKNET.as_dict(), field: value})


@pytest.mark.parametrize(
    "scheme", ["bls-bn254-on-g1", "BLS-unchained-on-g1", "", None, 7, ["bls-unchained-g1-rfc9380"]]
)
def test_another_scheme_is_refused_as_such(scheme):
    refused(Code.SCHEME, parse_chain_info, {**QUICKNET.as_dict(), "scheme": scheme})


@pytest.mark.parametrize("value", [None, [], "x", 3, {}, {"hash": "00"}, {"chain_hash": "00"}, {"groupHash": "00"}])
def test_what_is_no_chain_info_is_refused(value):
    for parse in (parse_chain_info, parse_pinned_chain, parse_relay_info, parse_any_info):
        with pytest.raises(FormatError):
            parse(value)


def test_the_last_round_belongs_to_pinned_chains_only():
    pinned = {**QUICKNET.as_dict(), "last_round": 5}
    assert parse_pinned_chain(pinned).last_round == 5
    refused(Code.CHAIN_INFO, parse_chain_info, pinned)
    for value in (None, 0, "5", True):
        refused(Code.CHAIN_INFO, parse_pinned_chain, {**pinned, "last_round": value})


def test_the_keys_of_a_scheme_have_its_length():
    assert {scheme.name: (scheme.signature_bytes, scheme.key_bytes) for scheme in SCHEMES.values()} == {
        "bls-unchained-g1-rfc9380": (48, 96),
        "bls-unchained-on-g1": (48, 96),
        "pedersen-bls-unchained": (96, 48),
        "pedersen-bls-chained": (96, 48),
        "bls-bn254-unchained-on-g1": (64, 128),
    }
    evmnet = PINNED["evmnet"]
    for key in (evmnet.public_key[:96], evmnet.public_key + bytes(1)):
        refused(Code.CHAIN_INFO, parse_chain_info, {**evmnet.as_dict(), "public_key": key.hex()})


def test_evmnet_signs_the_keccak_hash_of_the_round():
    stated = recorded(PINNED["evmnet"], 1000)
    sha_256 = replace(SCHEMES["bls-bn254-unchained-on-g1"], digest=SCHEMES["bls-unchained-on-g1"].digest)
    verify_under_key(PINNED["evmnet"].scheme, PINNED["evmnet"].public_key, stated)
    refused(Code.ROUND_SIGNATURE, verify_under_key, sha_256, PINNED["evmnet"].public_key, stated)


def test_a_chain_crosses_a_process_boundary():
    for chain in PINNED.values():
        assert pickle.loads(pickle.dumps(chain)) == chain


def test_relays_that_leave_the_default_name_out():
    v1 = next(case["v1"] for case in CHAIN_CASES if case["name"] == "mainnet default")
    for metadata in ({"beaconID": ""}, {}, None):
        assert parse_relay_info({**v1, "metadata": metadata}) == DEFAULT
    v2 = next(case["v2"] for case in CHAIN_CASES if case["name"] == "mainnet default")
    assert parse_relay_info({**v2, "beacon_id": "", "more": 1}) == DEFAULT


def test_an_unhashed_chain_info_cannot_be_made():
    refused(
        Code.CHAIN_INFO,
        ChainInfo,
        bytes(32),
        QUICKNET.public_key,
        3,
        QUICKNET.genesis_time,
        QUICKNET.genesis_seed,
        QUICKNET.scheme,
        "quicknet",
    )


def test_round_and_time_of_quicknet():
    genesis = 1000 * QUICKNET.genesis_time
    assert QUICKNET.time(1) == genesis
    assert QUICKNET.time(1000) == genesis + 999 * 3000
    assert [QUICKNET.current(genesis + t) for t in (-1, 0, 2999, 3000)] == [0, 1, 1, 2]
    assert QUICKNET.current(0) == 0
    assert [QUICKNET.first_at(genesis + t) for t in (-10_000, 0, 1, 3000, 3001)] == [1, 1, 2, 2, 3]


@given(round_number=st.integers(1, 10**12), beyond=st.integers(0, 2999))
def test_current_is_the_inverse_of_time(round_number, beyond):
    assert QUICKNET.current(QUICKNET.time(round_number) + beyond) == round_number
    assert QUICKNET.first_at(QUICKNET.time(round_number)) == round_number
    assert QUICKNET.first_at(QUICKNET.time(round_number) + 1 + beyond) == round_number + 1


def test_round_numbers_end_where_their_time_leaves_the_integers():
    last = QUICKNET.final_round
    assert QUICKNET.time(last) <= MAX_INTEGER < QUICKNET.time(last + 1)
    signature = recorded(QUICKNET, 1000).signature
    for number in (0, -1, last + 1, True, "1000"):
        refused(Code.ROUND, verify_round, QUICKNET, Round(number, signature))


def test_randomness_is_computed_from_the_signature():
    record = next(r for r in RECORDS if r["beacon_id"] == "quicknet" and r["round"] == 1000)
    verified = verify_round(QUICKNET, recorded(QUICKNET, 1000))
    assert verified.randomness.hex() == record["randomness"]
    assert verified.time == QUICKNET.time(1000)


def test_previous_signatures_stand_exactly_on_chained_schemes():
    stated = recorded(QUICKNET, 1000)
    refused(Code.ROUND, verify_round, QUICKNET, replace(stated, previous_signature=stated.signature))
    chained = recorded(DEFAULT, 1000)
    refused(Code.ROUND, verify_round, DEFAULT, replace(chained, previous_signature=None))
    refused(Code.ROUND, verify_round, DEFAULT, replace(chained, previous_signature=DEFAULT.genesis_seed))
    refused(Code.ROUND_SIGNATURE, verify_round, DEFAULT, replace(chained, previous_signature=chained.signature))
    refused(Code.ROUND, verify_round, DEFAULT, replace(recorded(DEFAULT, 1), previous_signature=bytes(32)))


def test_a_signature_of_another_length_is_refused_before_any_pairing():
    stated = recorded(QUICKNET, 1000)
    refused(Code.POINT, verify_round, QUICKNET, replace(stated, signature=stated.signature + stated.signature))


def test_chains_are_loaded_by_name_hash_and_file(tmp_path):
    assert fetch.load_chain("quicknet") == fetch.load_chain(QUICKNET.hash.hex()) == QUICKNET
    for number, shape in enumerate(("v1", "v2")):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(CHAIN_CASES[1][shape], indent=1))
        assert fetch.load_chain(str(file)) == QUICKNET
    pinned = tmp_path / "own.json"
    pinned.write_text(json.dumps({**QUICKNET.as_dict(), "last_round": 9}))
    assert fetch.load_chain(str(pinned)).last_round == 9


def test_files_that_cannot_be_used_are_refused(tmp_path):
    refused(Code.USAGE, fetch.load_chain, str(tmp_path / "absent.json"))
    refused(Code.USAGE, fetch.load_chain, str(tmp_path))
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (fetch.MAX_CHAIN_BYTES + 1))
    refused(Code.USAGE, fetch.load_chain, str(large))
    html = tmp_path / "page.json"
    html.write_text("<html>")
    refused(Code.JSON, fetch.load_chain, str(html))
    twice = tmp_path / "twice.json"
    twice.write_text('{"hash":"00","hash":"00"}')
    refused(Code.JSON, fetch.load_chain, str(twice))


TEXT = st.text("0af_Z\n\ud800", max_size=8)


@given(
    st.dictionaries(
        st.sampled_from([*QUICKNET.as_dict(), "chain_hash", "groupHash", "schemeID", "metadata", "last_round"]),
        st.one_of(st.none(), st.integers(), TEXT, st.lists(st.integers()), st.dictionaries(TEXT, TEXT)),
    ),
)
def test_arbitrary_infos_raise_only_our_error(changes):
    for base in ({}, QUICKNET.as_dict(), CHAIN_CASES[1]["v1"], CHAIN_CASES[1]["v2"]):
        try:
            chain = parse_any_info({**base, **changes})
        except VerifierError:
            continue
        assert chain.hash == QUICKNET.hash


def test_the_verifier_of_rounds_uses_no_clock_network_or_service():
    code = "import sys, verifier.drand; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'beacon'" not in loaded
    assert "'aiohttp'" not in loaded
