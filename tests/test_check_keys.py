"""Which keys a log may be checked with."""

import json
from pathlib import Path

import pytest

from tests.process_support import run
from verifier.check import Trust, check
from verifier.encoding import encode_json
from verifier.errors import Code, FormatError
from verifier.fetch import TEST_NETWORKS, main_chains, pinned_chains
from verifier.note import COSIGNATURE_V1, VerifierKey
from verifier.policy import Policy

SCENARIOS = json.loads((Path(__file__).parent / "vectors" / "scenarios.json").read_text())["scenarios"]
HONEST = SCENARIOS[0]
DOCUMENT = json.dumps(HONEST["document"]).encode()
CHAINS = {chain.hash: chain for chain in pinned_chains().values()}
KEY = VerifierKey.parse(HONEST["given"]["log_key"])


def test_a_witness_key_is_no_log_key():
    key = VerifierKey.of(KEY.name, COSIGNATURE_V1, KEY.public_key)
    with pytest.raises(FormatError) as caught:
        check(DOCUMENT, Trust(log_key=key, chains=CHAINS))
    assert caught.value.code is Code.VKEY


def test_the_log_key_may_come_from_the_policy():
    policy = Policy.parse(f"log {KEY}\nquorum none\n")
    assert check(DOCUMENT, Trust(policy=policy, chains=CHAINS))["log"].state == "PROVEN"


def test_test_networks_are_trusted_only_when_they_are_asked_for():
    assert set(main_chains()) == {"default", "evmnet", "fastnet", "quicknet"}
    assert set(pinned_chains()) - set(main_chains()) == TEST_NETWORKS


async def test_a_session_on_a_test_network_is_undecided_without_naming_it(tmp_path):
    document = json.loads(DOCUMENT)
    testnet = pinned_chains()["quicknet-t"]
    document["chain"] = testnet.as_dict()
    seal = json.loads(document["events"][0]["entry"])
    seal["chain"] = testnet.hash.hex()
    document["events"] = document["events"][:1]
    document["events"][0]["entry"] = encode_json(seal).decode()
    path = tmp_path / "test.json"
    path.write_bytes(encode_json(document))
    states = []
    for options in ((), ("--chain", "quicknet-t")):
        _, output, _ = await run("verifier", "check", path, "--json", *options)
        claims = {claim["claim"]: claim["state"] for claim in json.loads(output)["claims"]}
        states.append(claims["round"])
    assert states == ["UNKNOWN", "FAILED"]
