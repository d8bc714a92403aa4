"""The pure Python BLS backend: strict points, both groups, no default tag."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc.bls.point_compression import decompress_G1, decompress_G2
from py_ecc.fields import optimized_bls12_381_FQ as FQ
from py_ecc.fields import optimized_bls12_381_FQ2 as FQ2
from py_ecc.optimized_bls12_381 import add, curve_order, field_modulus, is_inf, multiply

from verifier.bls import reference
from verifier.bls.errors import PointError, PointFault
from verifier.drand import SCHEMES
from verifier.errors import Code, FormatError, VerificationError

TAG = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
MESSAGE = hashlib.sha256(b"a round").digest()
SECRET = 0x1F2E3D4C5B6A79881726354453627180

GROUPS = ["G1", "G2"]


def refused(code, call, *arguments):
    with pytest.raises((FormatError, VerificationError)) as caught:
        call(*arguments)
    assert caught.value.code == code


@pytest.fixture(scope="module", params=GROUPS)
def signed(request):
    group = request.param
    return group, reference.public_key(group, SECRET), reference.sign(group, TAG, SECRET, MESSAGE)


def test_a_signature_verifies_under_its_key_message_and_tag_only(signed):
    group, key, signature = signed
    reference.verify(group, TAG, key, MESSAGE, signature)
    other_key = reference.public_key(group, SECRET + 1)
    refused(Code.ROUND_SIGNATURE, reference.verify, group, TAG, other_key, MESSAGE, signature)
    refused(Code.ROUND_SIGNATURE, reference.verify, group, TAG, key, MESSAGE[::-1], signature)
    refused(Code.ROUND_SIGNATURE, reference.verify, group, TAG + b"X", key, MESSAGE, signature)


def test_the_negated_signature_is_refused(signed):
    group, key, signature = signed
    negated = bytes([signature[0] ^ 0x20]) + signature[1:]
    refused(Code.ROUND_SIGNATURE, reference.verify, group, TAG, key, MESSAGE, negated)


def malformed(point: bytes) -> dict[str, bytes]:
    size = len(point)
    prime = field_modulus.to_bytes(48, "big")
    return {
        "empty": b"",
        "one byte short": point[:-1],
        "one byte more behind": point + b"\x00",
        "one byte more in front": b"\x00" + point,
        "twice": point + point,
        "identity": b"\xc0" + bytes(size - 1),
        "identity with sign": b"\xe0" + bytes(size - 1),
        "identity with x": bytes([point[0] | 0x40]) + point[1:],
        "not compressed": bytes([point[0] & 0x7F]) + point[1:],
        "zeros": bytes(size),
        "ones": b"\xff" * size,
        "x = p": bytes([prime[0] | 0x80]) + prime[1:] + bytes(size - 48),
        "x = 2^381 - 1": b"\x9f" + b"\xff" * 47 + bytes(size - 48),
    }


def fault(group, data):
    with pytest.raises(PointError) as caught:
        reference.decode_point(group, data)
    return caught.value.fault


def test_the_fault_of_a_point_is_named(signed):
    group, _, signature = signed
    faults = {name: fault(group, data) for name, data in malformed(signature).items()}
    lengths = {"empty", "one byte short", "one byte more behind", "one byte more in front", "twice"}
    assert {name for name, why in faults.items() if why is PointFault.LENGTH} == lengths
    assert {name for name, why in faults.items() if why is PointFault.IDENTITY} == {"identity"}
    altered = add(reference.decode_point(group, signature), torsion(group))
    assert fault(group, reference.encode_point(group, altered)) is PointFault.SUBGROUP


@pytest.mark.parametrize("name", malformed(bytes(48)))
def test_malformed_points_are_refused_as_signature_and_as_key(signed, name):
    group, key, signature = signed
    refused(Code.POINT, reference.verify, group, TAG, key, MESSAGE, malformed(signature)[name])
    refused(Code.POINT, reference.check_public_key, group, malformed(key)[name])


def test_the_second_coordinate_of_g2_has_no_flags_and_is_below_the_prime():
    point = reference.sign("G2", TAG, SECRET, MESSAGE)
    for flag in (0x80, 0x40, 0x20):
        refused(Code.POINT, reference.decode_point, "G2", point[:48] + bytes([point[48] | flag]) + point[49:])
    real = int.from_bytes(point[48:], "big")
    refused(Code.POINT, reference.decode_point, "G2", point[:48] + (real + field_modulus).to_bytes(48, "big"))


def torsion(group):
    """A point of the curve whose order divides the cofactor: adding it to a signature leaves the pairing as it was."""
    for x in range(1, 200):
        encoding = bytes([0x80]) + bytes(46) + bytes([x])
        try:
            if group == "G1":
                point = decompress_G1(int.from_bytes(encoding, "big"))
            else:
                point = decompress_G2((int.from_bytes(encoding, "big"), 0))
        except ValueError:
            continue
        low = multiply(point, curve_order)
        if not is_inf(low):
            return low
    raise AssertionError


def test_a_signature_plus_a_point_of_small_order_is_refused(signed):
    group, key, signature = signed
    altered = reference.encode_point(group, add(reference.decode_point(group, signature), torsion(group)))
    assert altered != signature
    refused(Code.POINT, reference.verify, group, TAG, key, MESSAGE, altered)


def test_a_key_plus_a_point_of_small_order_is_refused(signed):
    group, key, _ = signed
    other = "G2" if group == "G1" else "G1"
    altered = reference.encode_point(other, add(reference.decode_point(other, key), torsion(other)))
    refused(Code.POINT, reference.check_public_key, group, altered)


def test_the_points_of_order_three_are_refused():
    for y in (2, field_modulus - 2):
        point = (FQ(0), FQ(y), FQ(1))
        assert is_inf(multiply(point, 3))
        refused(Code.POINT, reference.decode_point, "G1", reference.encode_point("G1", point))


@pytest.mark.parametrize("secret", [0, -1, curve_order])
def test_secrets_outside_the_group_order_are_refused(secret):
    refused(Code.POINT, reference.public_key, "G1", secret)
    refused(Code.POINT, reference.sign, "G1", TAG, secret, MESSAGE)


def test_the_encoding_of_a_point_does_not_depend_on_its_projective_form():
    point = reference.decode_point("G2", reference.sign("G2", TAG, SECRET, MESSAGE))
    scale = FQ2([5, 7])
    assert reference.encode_point("G2", tuple(c * scale for c in point)) == reference.encode_point("G2", point)


@given(data=st.binary(min_size=40, max_size=100))
@settings(max_examples=60, deadline=None)
def test_decoding_is_canonical_or_refused(data):
    for group in GROUPS:
        try:
            point = reference.decode_point(group, data)
        except FormatError:
            continue
        assert reference.encode_point(group, point) == data


@given(secret=st.integers(1, curve_order - 1), flip=st.integers(0, 8 * 48 - 1))
@settings(max_examples=10, deadline=None)
def test_every_secret_signs_and_every_flipped_bit_is_refused(secret, flip):
    key, signature = reference.public_key("G1", secret), reference.sign("G1", TAG, secret, MESSAGE)
    reference.verify("G1", TAG, key, MESSAGE, signature)
    altered = (int.from_bytes(signature, "big") ^ (1 << flip)).to_bytes(48, "big")
    with pytest.raises((FormatError, VerificationError)):
        reference.verify("G1", TAG, key, MESSAGE, altered)


def test_the_tags_of_the_schemes():
    assert {scheme.name: scheme.dst.decode() for scheme in SCHEMES.values()} == {
        "bls-unchained-g1-rfc9380": "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_",
        "bls-unchained-on-g1": "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_",
        "pedersen-bls-unchained": "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_",
        "pedersen-bls-chained": "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_",
    }
