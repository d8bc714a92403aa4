"""Many rounds of one chain in one check: every answer is that of the round alone, on every backend."""

import hashlib
import json
import secrets
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bls12_381 as points

from tests.bls_support import SECRET, malformed, torsion
from verifier import fetch
from verifier.bls import fast, reference
from verifier.bls.groups import Group
from verifier.bls.verify import verify_many
from verifier.drand import SCHEMES, ChainInfo, Round, VerifiedRound, verify_round, verify_rounds
from verifier.encoding import u32, u64
from verifier.errors import Code, VerifierError

VECTORS = Path(__file__).parent / "vectors"
RECORDS = json.loads((VECTORS / "drand-rounds.json").read_text())["rounds"]
NEGATIVES = json.loads((VECTORS / "drand-negative.json").read_text())["cases"]
PINNED = fetch.pinned_chains()
BY_HASH = {chain.hash.hex(): chain for chain in PINNED.values()}
BACKENDS = [pytest.param(backend, id=backend.NAME) for backend in (fast, reference)]
G1 = Group.BLS12_381_G1


def stated(record):
    previous = record.get("previous_signature")
    signature = bytes.fromhex(record["signature"])
    return Round(record["round"], signature, None if previous is None else bytes.fromhex(previous))


def by_chain():
    rounds = defaultdict(list)
    for record in RECORDS:
        if record["chain_hash"] is not None:
            rounds[BY_HASH[record["chain_hash"]].beacon_id].append(stated(record))
    return dict(rounds)


ROUNDS = by_chain()
CHAINS = {
    name: next(
        chain
        for chain in PINNED.values()
        if chain.beacon_id == name and chain.hash.hex() in {r["chain_hash"] for r in RECORDS}
    )
    for name in ROUNDS
}
QUICKNET, GOOD = CHAINS["quicknet"], ROUNDS["quicknet"]


def alone(chain, one, backend):
    try:
        return verify_round(chain, one, backend)
    except VerifierError as error:
        return error


def comparable(answer):
    """A verified round, or what an error says."""
    if isinstance(answer, VerifiedRound):
        return answer
    return type(answer), answer.code, answer.message, getattr(answer, "fault", None)


def assert_as_alone(chain, rounds, backend, single=fast):
    answers = verify_rounds(chain, rounds, backend)
    assert [comparable(a) for a in answers] == [comparable(alone(chain, one, single)) for one in rounds]
    return answers


def verified(answers):
    return [isinstance(answer, VerifiedRound) for answer in answers]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ROUNDS)
def test_published_rounds(name, backend):
    chain, rounds = CHAINS[name], ROUNDS[name]
    answers = verify_rounds(chain, rounds, backend)
    assert answers == [VerifiedRound(chain, r.round, r.signature, r.previous_signature) for r in rounds]


def test_every_published_round_with_a_chain_was_among_them():
    assert sum(map(len, ROUNDS.values())) == len(RECORDS) - 1
    assert {chain.scheme.name for chain in CHAINS.values()} == set(SCHEMES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_signatures_that_must_be_refused_among_good_ones(backend):
    cases = []
    for case in NEGATIVES:
        try:
            signature = bytes.fromhex(case["signature"])
        except ValueError:
            continue
        if case["chain_hash"] == QUICKNET.hash.hex() and case["id"] not in {"upper-case-hex", "hex-with-spaces"}:
            chain = (
                replace(QUICKNET, scheme=SCHEMES[case["scheme_override"]]) if "scheme_override" in case else QUICKNET
            )
            cases.append((chain, Round(case["round"], signature)))
    assert len(cases) == len(NEGATIVES) - 3
    mixed = [one for chain, bad in cases if chain is QUICKNET for one in (bad, GOOD[0])]
    answers = assert_as_alone(QUICKNET, mixed, backend)
    assert verified(answers) == [False, True] * (len(mixed) // 2)
    for chain, bad in cases:
        if chain is not QUICKNET:
            assert verified(verify_rounds(chain, [bad, bad], backend)) == [False, False]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_rounds(backend):
    assert verify_rounds(QUICKNET, [], backend) == []


BAD = {
    "another round's signature": lambda one: replace(one, signature=GOOD[(GOOD.index(one) + 1) % len(GOOD)].signature),
    "negated": lambda one: replace(one, signature=bytes([one.signature[0] ^ 0x20]) + one.signature[1:]),
    "identity": lambda one: replace(one, signature=b"\xc0" + bytes(47)),
    "twice": lambda one: replace(one, signature=one.signature * 2),
    "outside the group": lambda one: replace(one, signature=moved(one.signature, torsion(G1))),
    "another number": lambda one: replace(one, round=one.round + 1_000_000),
    "no number": lambda one: replace(one, round=0),
    "a previous signature": lambda one: replace(one, previous_signature=one.signature),
}


def moved(signature, by):
    return reference.encode_point(G1, points.add(reference._decompress(G1, signature), by))


@given(st.lists(st.tuples(st.sampled_from(GOOD), st.sampled_from(["good", "good", *BAD])), max_size=24))
@settings(max_examples=40, deadline=None)
def test_every_answer_is_that_of_the_round_alone(made):
    rounds = [one if kind == "good" else BAD[kind](one) for one, kind in made]
    assert verified(assert_as_alone(QUICKNET, rounds, fast)) == [kind == "good" for _, kind in made]


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_round_among_good_ones_on_the_reference(kind):
    rounds = [*GOOD[:5], BAD[kind](GOOD[5]), *GOOD[6:8]]
    assert verified(assert_as_alone(QUICKNET, rounds, reference)) == [True] * 5 + [False] + [True] * 2


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("default", fast),
        ("default", reference),
        ("testnet-unchained-3s", fast),
        ("fastnet", reference),
        ("evmnet", fast),
    ],
)
def test_a_bad_round_of_another_scheme(name, backend):
    chain, rounds = CHAINS[name], ROUNDS[name][:4]
    rounds[1] = replace(rounds[1], signature=rounds[2].signature)
    answers = verify_rounds(chain, rounds, backend)
    assert verified(answers) == [True, False, True, True]
    assert answers[1].code is Code.ROUND_SIGNATURE


def test_chained_rounds_are_held_to_their_previous_signature():
    chain, rounds = CHAINS["default"], ROUNDS["default"][:6]
    rounds[2] = replace(rounds[2], previous_signature=rounds[3].signature)
    rounds[4] = replace(rounds[4], previous_signature=None)
    answers = assert_as_alone(chain, rounds, fast)
    assert [getattr(answer, "code", None) for answer in answers] == [
        None,
        None,
        Code.ROUND_SIGNATURE,
        None,
        Code.ROUND,
        None,
    ]


def forged_pair(distance):
    """Two rounds whose errors cancel in a plain sum: one signature moved by a point, the other by its opposite."""
    return [
        replace(GOOD[0], signature=moved(GOOD[0].signature, distance)),
        replace(GOOD[1], signature=moved(GOOD[1].signature, points.neg(distance))),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_that_cancel_in_a_plain_sum_are_found(backend, monkeypatch):
    rounds = [*forged_pair(points.multiply(points.G1, 12345)), GOOD[2]]
    swapped = [replace(GOOD[3], signature=GOOD[4].signature), replace(GOOD[4], signature=GOOD[3].signature)]
    assert verified(verify_rounds(QUICKNET, rounds + swapped, backend)) == [False, False, True, False, False]
    monkeypatch.setattr(secrets, "randbelow", lambda below: 0)
    assert verified(verify_rounds(QUICKNET, rounds, backend)) == [True, True, True], "coefficients are what finds them"


def spy(backend):
    """The backend, with the factors of each sum and the number of pairing equations."""
    seen = SimpleNamespace(factors=[], equations=0)

    def sum_products(group, summed, factors):
        seen.factors.append(list(factors))
        return backend.sum_products(group, summed, factors)

    def pairings_agree(*arguments):
        seen.equations += 1
        return backend.pairings_agree(*arguments)

    spied = SpiedBackend(
        NAME="spy",
        GROUPS=backend.GROUPS,
        decode_point=backend.decode_point,
        hash_to_curve=backend.hash_to_curve,
        sum_products=sum_products,
        pairings_agree=pairings_agree,
    )
    return spied, seen


class SpiedBackend(SimpleNamespace):
    __hash__ = object.__hash__


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_good_batch_takes_one_equation_with_fresh_coefficients_of_128_bits(backend):
    spied, seen = spy(backend)
    for _ in range(2):
        assert all(verified(verify_rounds(QUICKNET, GOOD[:40], spied)))
    assert seen.equations == 2
    first, again, second, _ = seen.factors
    assert first == again, "the same coefficients for messages and signatures"
    assert len({*first, *second}) == 80
    assert all(0 < factor <= 2**128 for factor in first + second)
    assert max(first + second) > 2**120


@pytest.mark.parametrize(("at", "equations"), [(0, 13), (41, 11), (63, 8)])
def test_one_bad_round_is_found_in_logarithmic_work(at, equations):
    """At most two equations a halving; a second half is not asked when the first is good, for it must be bad."""
    spied, seen = spy(fast)
    rounds = list(GOOD[:64])
    rounds[at] = BAD["negated"](rounds[at])
    answers = verify_rounds(QUICKNET, rounds, spied)
    assert [i for i, good in enumerate(verified(answers)) if not good] == [at]
    assert seen.equations == equations


def test_rounds_that_are_all_bad_cost_at_most_two_equations_each():
    spied, seen = spy(fast)
    rounds = [BAD["negated"](one) for one in GOOD[:32]]
    assert not any(verified(verify_rounds(QUICKNET, rounds, spied)))
    assert seen.equations < 2 * 32


def test_malformed_rounds_cost_no_equation():
    spied, seen = spy(fast)
    assert not any(verified(verify_rounds(QUICKNET, [BAD["identity"](GOOD[0]), BAD["no number"](GOOD[1])], spied)))
    assert seen.equations == 0


def chain_with_key(key):
    scheme, seed = SCHEMES["bls-unchained-g1-rfc9380"], bytes(32)
    chain_hash = hashlib.sha256(u32(3) + u64(1_700_000_000) + key + seed + b"own").digest()
    return ChainInfo(chain_hash, key, 3, 1_700_000_000, seed, scheme, "own")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_key_is_the_answer_of_every_round_that_is_well_formed(backend):
    good_key = reference.public_key(G1, SECRET)
    for name, key in malformed(Group.BLS12_381_G2, good_key).items():
        if len(key) == len(good_key):
            rounds = [Round(0, bytes(48)), GOOD[0], Round(1, bytes(48))]
            answers = assert_as_alone(chain_with_key(key), rounds, backend)
            assert [answer.code for answer in answers] == [Code.ROUND, Code.POINT, Code.POINT], name


def test_rounds_beyond_the_last_are_refused_one_by_one():
    fastnet, rounds = PINNED["fastnet"], ROUNDS["fastnet"][:2]
    answers = verify_rounds(fastnet, [rounds[0], replace(rounds[1], round=fastnet.last_round + 1)], fast)
    assert verified(answers) == [True, False]
    assert answers[1].code is Code.ROUND


def test_many_signatures_without_a_chain():
    scheme = SCHEMES["pedersen-bls-unchained"]
    key = reference.public_key(scheme.group, SECRET)
    messages = [bytes([i]) * 32 for i in range(3)]
    signed = [(message, reference.sign(scheme.group, scheme.dst, SECRET, message)) for message in messages]
    for backend in (fast, reference):
        assert verify_many(backend, scheme.group, scheme.dst, key, signed) == [None] * 3
        assert verify_many(backend, scheme.group, scheme.dst, key, []) == []
        with pytest.raises(VerifierError):
            verify_many(backend, scheme.group, scheme.dst, key[:-1], signed)
