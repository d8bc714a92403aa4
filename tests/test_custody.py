"""The claim `custody` of sealed timelocks: not yet, opens, does not open; and what each says in one sentence."""

from dataclasses import replace

import pytest

from beacon.rounds.network import Network
from tests import builder
from tests.builder import Story, at
from tests.check_support import TRUST, broken, verdict
from verifier.fetch import pinned_chains

LOCKS = Network.make(7, bytes(32), at(0) // 1000, 3)
NUMBER = LOCKS.chain.first_at(at(620))
BOTH = replace(TRUST, chains={**TRUST.chains, LOCKS.chain.hash: LOCKS.chain})
SEED = Story().links[1]


def story(seed=SEED, live=False, **lock):
    made = builder.sealed(seed, NUMBER, LOCKS.chain) | lock
    return builder.live(timelock=made) if live else builder.match(timelock=made)


def opening(made, number=NUMBER, seconds=630, signed=None):
    """The timelock's round in the log."""
    signature = LOCKS.sign(number if signed is None else signed)
    made.add({"v": 1, "type": "round", "time": at(seconds), "chain": LOCKS.chain.hash.hex(), "round": number,
              "signature": signature.hex()})  # fmt: skip
    return made


def custody(made, trust=BOTH):
    return verdict(made, trust)["custody"]


def test_before_its_round_nobody_knows_whether_it_opens():
    claim = custody(story(seed=bytes(32)))
    assert claim.state == "TRUSTED"
    assert f"sealed to round {NUMBER}: not yet" in claim.text
    assert "refuse to reveal" in claim.text


@pytest.mark.parametrize("revealed", [False, True])
def test_it_opens(revealed):
    made = opening(story())
    result = verdict(made.reveal(640) if revealed else made, BOTH)
    claim = result["custody"]
    assert (claim.state, broken(result)) == ("TRUSTED", set())
    assert f"sealed to round {NUMBER}: opens, so nobody can keep the result back" in claim.text
    assert "drand's threshold" in claim.text
    assert "refuse" not in claim.text
    assert result.exit == (0 if revealed else 2)


def test_it_holds_the_last_link_of_a_live_session():
    made = Story(links=8)
    assert "opens" in custody(opening(story(made.links[8], live=True))).text
    assert broken(verdict(opening(story(made.links[3], live=True)), BOTH)) == {("custody", "7.3")}


@pytest.mark.parametrize(
    "seed",
    [bytes(32), b"", SEED[:31], SEED + b"x", Story().links[0]],
    ids=["other", "none", "short", "long", "the hash"],
)
def test_it_opens_to_something_else(seed):
    result = verdict(opening(story(seed=seed)).reveal(640), BOTH)
    assert broken(result) == {("custody", "7.3")}
    assert "does not open the commitment" in result["custody"].text
    assert result.exit == 1


def test_a_ciphertext_to_another_round_than_the_seal_says():
    other = builder.sealed(SEED, NUMBER + 1, LOCKS.chain)["ciphertext"]
    assert broken(verdict(story(ciphertext=other), BOTH)) == {("custody", "7.3")}


@pytest.mark.parametrize("ciphertext", ["", "YWdl", "not base64", builder.sealed(SEED, NUMBER)["ciphertext"]])
def test_a_ciphertext_that_is_none_fails_before_its_round(ciphertext):
    assert broken(verdict(story(ciphertext=ciphertext), BOTH)) == {("custody", "7.3")}
    assert custody(story(ciphertext=ciphertext), TRUST).state == "UNKNOWN"


def test_a_chain_that_was_not_given_leaves_it_unknown():
    claim = custody(opening(story()), TRUST)
    assert claim.state == "UNKNOWN"
    assert "--chain" in claim.text


@pytest.mark.parametrize("signed", [None, 1])
def test_it_opens_without_the_chain_of_the_seal(signed):
    result = verdict(opening(story(), signed=signed), replace(TRUST, chains={LOCKS.chain.hash: LOCKS.chain}))
    assert broken(result) == (set() if signed is None else {("round", "2.5")})
    assert ("opens" if signed is None else "not yet") in result["custody"].text


@pytest.mark.parametrize("name", ["default", "evmnet"])
def test_a_chain_that_carries_none(name):
    chain = pinned_chains()[name]
    trust = replace(TRUST, chains={**TRUST.chains, chain.hash: chain})
    made = story(chain=chain.hash.hex(), round=chain.first_at(at(620)))
    assert ("custody", "7.3") in broken(verdict(made, trust))


def test_a_false_round_opens_nothing():
    result = verdict(opening(story(), signed=1), BOTH)
    assert broken(result) == {("round", "2.5")}
    assert "not yet" in result["custody"].text


def test_a_host_that_keeps_the_seed_back_while_the_timelock_opens():
    made = opening(builder.match(custody="host", timelock=builder.sealed(SEED, NUMBER, LOCKS.chain)))
    result = verdict(made.void("missed-reveal", 1000), BOTH)
    assert broken(result) == {("custody", "6.12")}
    assert "the timelock opens" in result["custody"].text


def test_a_void_for_a_timelock_that_does_not_open():
    made = opening(builder.match(custody="host", timelock=builder.sealed(bytes(32), NUMBER, LOCKS.chain)))
    assert broken(verdict(made.void("missed-reveal", 1000), BOTH)) == {("custody", "7.3")}
