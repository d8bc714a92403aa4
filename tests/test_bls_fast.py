"""Two backends, one answer: the native one accepts and refuses what the reference does, for the same reason."""

import json
import sys
from pathlib import Path

import py_arkworks_bls12381 as arkworks
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bls12_381 as points

from tests.bls_support import MESSAGE, SECRET, TAG, malformed, names_of_malformed, on_curve, torsion
from verifier import fetch
from verifier.bls import fast, reference
from verifier.bls.errors import PointError, PointFault
from verifier.bls.groups import Group
from verifier.bls.verify import REFERENCE, best_backend, check_public_key, serving, verify
from verifier.errors import VerifierError
from verifier.vectors_drand import run_negative, run_round

G1, G2 = Group.BLS12_381_G1, Group.BLS12_381_G2
GROUPS = [G1, G2]
VECTORS = Path(__file__).parent / "vectors"
RECORDS = json.loads((VECTORS / "drand-rounds.json").read_text())["rounds"]
NEGATIVES = json.loads((VECTORS / "drand-negative.json").read_text())["cases"]
BY_HASH = {chain.hash.hex(): chain for chain in fetch.pinned_chains().values()}
KEY = {group: reference.public_key(group, SECRET) for group in GROUPS}
SIGNED = {group: reference.sign(group, TAG, SECRET, MESSAGE) for group in GROUPS}


def reason(call, *arguments):
    """None, or which error it was: class, code and the fault of a point."""
    try:
        call(*arguments)
    except VerifierError as error:
        return type(error), error.code, getattr(error, "fault", None)
    return None


def same_reason(call, *arguments):
    """The one reason of both backends, whatever it is."""
    ours, theirs = (reason(call, backend, *arguments) for backend in (fast, REFERENCE))
    assert ours == theirs
    return ours


def decode(backend, group, data):
    backend.decode_point(group, data)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['beacon_id']}-{record['round']}")
def test_published_rounds(record):
    assert run_round(record, BY_HASH, fast) is None


@pytest.mark.parametrize("case", NEGATIVES, ids=lambda case: case["id"])
def test_signatures_that_must_be_refused(case):
    assert run_negative(case, BY_HASH, fast) is None


def test_the_runners_fail_on_this_backend_too():
    record = next(r for r in RECORDS if r["beacon_id"] == "quicknet" and r["round"] == 1000)
    assert "round-signature" in run_round({**record, "round": 1001}, BY_HASH, fast)
    assert run_negative(record, BY_HASH, fast) == "accepted"


def test_the_library_alone_is_laxer_than_the_protocol():
    """Why bytes are checked before it sees them."""
    for data in (malformed(G1, SIGNED[G1])["identity with x"], malformed(G1, SIGNED[G1])["identity with sign"]):
        assert arkworks.G1Point.from_compressed_bytes(data) == arkworks.G1Point.identity()
        assert same_reason(decode, G1, data)[2] is PointFault.ENCODING


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in names_of_malformed(group)])
def test_malformed_points_are_refused_for_the_same_reason(group, name):
    data = malformed(group, SIGNED[group])[name]
    assert same_reason(decode, group, data)[0] is PointError
    assert same_reason(verify, group, TAG, KEY[group], MESSAGE, data)[0] is PointError
    assert same_reason(check_public_key, group.partner, data)[0] is PointError


@pytest.mark.parametrize("group", GROUPS)
def test_points_outside_the_group_are_refused_for_the_same_reason(group):
    inside, low = reference.decode_point(group, SIGNED[group]), torsion(group)
    outside = [low, points.neg(low), points.add(low, inside), points.double(low), on_curve(group, 77)]
    outside += [points.multiply(low, n) for n in (3, 11, 13, 23, 121, 169, 529)]
    for point in outside:
        assert same_reason(decode, group, reference.encode_point(group, point))[2] is PointFault.SUBGROUP
    three = reference.encode_point(G1, (points.FQ(0), points.FQ(2), points.FQ(1)))
    assert same_reason(decode, G1, three)[2] is PointFault.SUBGROUP


ENCODED = {group: reference.encode_point(group, torsion(group)) for group in GROUPS}
START = {
    group: [SIGNED[group], KEY[group.partner], ENCODED[group], b"\xc0" + bytes(group.point_bytes - 1)]
    for group in GROUPS
}


@st.composite
def near_points(draw, group):
    """Good points, points of small order and the identity, altered in bits, bytes, flags and length."""
    data = bytearray(draw(st.sampled_from(START[group])))
    for _ in range(draw(st.integers(0, 2))):
        change = draw(st.sampled_from(["bit", "byte", "flags", "short", "long", "small"]))
        at = draw(st.integers(0, max(0, len(data) - 1)))
        if change == "bit" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "byte" and data:
            data[at] = draw(st.integers(0, 255))
        elif change == "flags" and data:
            data[0] = data[0] & 0x1F | draw(st.integers(0, 7)) << 5
        elif change == "short":
            del data[at:]
        elif change == "long":
            data[at:at] = draw(st.binary(min_size=1, max_size=len(data) + 1))
        elif change == "small" and data:
            data[1:] = draw(st.integers(0, 255)).to_bytes(max(1, len(data) - 1), "big")
    return bytes(data)


@given(data=st.data(), group=st.sampled_from(GROUPS))
@settings(max_examples=400, deadline=None)
def test_both_decode_the_same_bytes(data, group):
    encoded = data.draw(st.one_of(near_points(group), st.binary(max_size=100)))
    found = same_reason(decode, group, encoded)
    event(str(found and found[2]))
    if found is None:
        assert fast.decode_point(group, encoded).to_compressed_bytes() == encoded
        assert reference.encode_point(group, reference.decode_point(group, encoded)) == encoded


@given(data=st.data(), group=st.sampled_from(GROUPS))
@settings(max_examples=25, deadline=None)
def test_both_verify_the_same_signatures(data, group):
    key = data.draw(st.one_of(st.just(KEY[group]), near_points(group.partner)))
    signature = data.draw(st.one_of(st.just(SIGNED[group]), near_points(group)))
    message = data.draw(st.sampled_from([MESSAGE, MESSAGE[:-1], b""]))
    tag = data.draw(st.sampled_from([TAG, TAG[:-1] + b"-"]))
    found = same_reason(verify, group, tag, key, message, signature)
    assert (found is None) == ((key, signature, message, tag) == (KEY[group], SIGNED[group], MESSAGE, TAG))


@given(secret=st.integers(1, reference.ORDER - 1), message=st.binary(max_size=80), group=st.sampled_from(GROUPS))
@settings(max_examples=6, deadline=None)
def test_both_accept_any_good_signature(secret, message, group):
    key, signature = reference.public_key(group, secret), reference.sign(group, TAG, secret, message)
    assert same_reason(verify, group, TAG, key, message, signature) is None


@given(message=st.binary(max_size=200), tag=st.binary(min_size=1, max_size=255), group=st.sampled_from(GROUPS))
@settings(max_examples=15, deadline=None)
def test_both_hash_to_the_same_point(message, tag, group):
    ours = fast.hash_to_curve(group, tag, message).to_compressed_bytes()
    assert ours == reference.encode_point(group, reference.hash_to_curve(group, tag, message))


@given(factors=st.lists(st.integers(0, 2**128), max_size=20), group=st.sampled_from(GROUPS))
@settings(max_examples=15, deadline=None)
def test_both_add_up_to_the_same_point(factors, group):
    encoded = [SIGNED[group], KEY[group.partner], SIGNED[group]] * 7
    sums = []
    for backend in (fast, reference):
        decoded = [backend.decode_point(group, data) for data in encoded[: len(factors)]]
        sums.append(backend.sum_products(group, decoded, factors))
    assert sums[0].to_compressed_bytes() == reference.encode_point(group, sums[1])


def test_bn254_is_always_the_references():
    assert serving(fast, Group.BN254_G1) is REFERENCE
    assert serving(fast, G1) is serving(fast, G2) is fast


def test_the_best_backend_is_the_native_one_where_it_is_installed(monkeypatch):
    assert best_backend() is fast
    monkeypatch.setitem(sys.modules, "py_arkworks_bls12381", None)
    monkeypatch.delitem(sys.modules, "verifier.bls.fast")
    monkeypatch.delattr("verifier.bls.fast")
    assert best_backend() is REFERENCE


def test_the_backends_say_their_names():
    assert (fast.NAME, reference.NAME) == ("arkworks", "py-ecc")
