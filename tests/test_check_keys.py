"""Which keys a log may be checked with."""

import json
from pathlib import Path

import pytest

from verifier.check import Trust, check
from verifier.errors import Code, FormatError
from verifier.fetch import pinned_chains
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
