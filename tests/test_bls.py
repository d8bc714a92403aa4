"""The pure Python BLS backend: integers against py-ecc, strict points in every group, no default tag."""

import hashlib
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import optimized_bls12_381 as bls_points
from py_ecc import optimized_bn128 as bn_points
from py_ecc.bls.hash import expand_message_xmd
from py_ecc.bls.hash_to_curve import hash_to_G2
from py_ecc.bls.point_compression import compress_G1, compress_G2
from py_ecc.fields import optimized_bls12_381_FQ as FQ
from py_ecc.fields import optimized_bls12_381_FQ2 as FQ2

from tests.bls_support import GROUPS, MESSAGE, SECRET, TAG, malformed, names_of_malformed, on_curve, torsion
from verifier.bls import bls12_381, bn254, curve, reference, wire
from verifier.bls.errors import PointError, PointFault
from verifier.bls.groups import Group
from verifier.bls.pyecc import lift, lower
from verifier.bls.verify import REFERENCE, check_public_key, serving, verify
from verifier.drand import SCHEMES
from verifier.errors import Code, FormatError, VerificationError
from verifier.keccak import keccak256

G1, G2 = Group.BLS12_381_G1, Group.BLS12_381_G2
BN_G1, BN_G2 = Group.BN254_G1, Group.BN254_G2
LIBRARY = {G1: bls_points, G2: bls_points, BN_G1: bn_points, BN_G2: bn_points}
PRIME = {group: LIBRARY[group].field_modulus for group in Group}
GENERATOR = {G1: bls_points.G1, G2: bls_points.G2, BN_G1: bn_points.G1, BN_G2: bn_points.G2}


def refused(code, call, *arguments):
    with pytest.raises((FormatError, VerificationError)) as caught:
        call(*arguments)
    assert caught.value.code == code


def fault(group, data):
    with pytest.raises(PointError) as caught:
        reference.decode_point(group, data)
    return caught.value.fault


@pytest.fixture(scope="module")
def signed_by_group():
    return {g: (reference.public_key(g, SECRET), reference.sign(g, TAG, SECRET, MESSAGE)) for g in GROUPS}


@pytest.fixture(params=GROUPS)
def signed(request, signed_by_group):
    return request.param, *signed_by_group[request.param]


def test_a_signature_verifies_under_its_key_message_and_tag_only(signed):
    group, key, signature = signed
    verify(REFERENCE, group, TAG, key, MESSAGE, signature)
    other_key = reference.public_key(group, SECRET + 1)
    refused(Code.ROUND_SIGNATURE, verify, REFERENCE, group, TAG, other_key, MESSAGE, signature)
    refused(Code.ROUND_SIGNATURE, verify, REFERENCE, group, TAG, key, MESSAGE[::-1], signature)
    refused(Code.ROUND_SIGNATURE, verify, REFERENCE, group, TAG + b"X", key, MESSAGE, signature)


def test_one_verification_is_two_miller_loops_and_one_final_exponentiation(signed, monkeypatch):
    group, key, signature = signed
    steps = []
    module = bn254 if group is BN_G1 else bls12_381
    for name, step in [(name, getattr(module, name)) for name in ("miller_loop", "final_exponentiate")]:

        def counted(*arguments, name=name, step=step, **options):
            assert name == "final_exponentiate" or options == {"final_exponentiate": False}
            steps.append(name)
            return step(*arguments, **options)

        monkeypatch.setattr(module, name, counted)
    verify(REFERENCE, group, TAG, key, MESSAGE, signature)
    assert steps == ["miller_loop", "miller_loop", "final_exponentiate"]


def test_the_negated_signature_is_refused(signed):
    group, key, signature = signed
    x, y, z = reference.decode_point(group, signature)
    negated = reference.encode_point(group, (x, -y, z))
    assert negated != signature
    refused(Code.ROUND_SIGNATURE, verify, REFERENCE, group, TAG, key, MESSAGE, negated)


@pytest.mark.parametrize("group", Group)
def test_the_fault_of_a_point_is_named(group):
    point = reference.encode_point(group, GENERATOR[group])
    faults = {name: fault(group, data) for name, data in malformed(group, point).items()}
    lengths = {"empty", "one byte short", "one byte more behind", "one byte more in front", "twice"}
    assert {name for name, why in faults.items() if why is PointFault.LENGTH} == lengths
    assert {name for name, why in faults.items() if why is PointFault.IDENTITY} == {"identity"}
    assert PointFault.SUBGROUP not in faults.values()


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in names_of_malformed(group)])
def test_malformed_signatures_are_refused(signed_by_group, group, name):
    key, signature = signed_by_group[group]
    refused(Code.POINT, verify, REFERENCE, group, TAG, key, MESSAGE, malformed(group, signature)[name])


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group in GROUPS for name in names_of_malformed(group.partner)]
)
def test_malformed_keys_are_refused(signed_by_group, group, name):
    key, signature = signed_by_group[group]
    check_public_key(REFERENCE, group, key)
    altered = malformed(group.partner, key)[name]
    refused(Code.POINT, check_public_key, REFERENCE, group, altered)
    refused(Code.POINT, verify, REFERENCE, group, TAG, altered, MESSAGE, signature)


def test_the_second_coordinate_of_g2_has_no_flags_and_is_below_the_prime():
    point = reference.sign(G2, TAG, SECRET, MESSAGE)
    for flag in (0x80, 0x40, 0x20):
        assert fault(G2, point[:48] + bytes([point[48] | flag]) + point[49:]) is PointFault.ENCODING
    real = int.from_bytes(point[48:], "big")
    assert fault(G2, point[:48] + (real + PRIME[G2]).to_bytes(48, "big")) is PointFault.ENCODING


@pytest.mark.parametrize("group", [BN_G1, BN_G2])
def test_every_coordinate_of_bn254_is_below_the_prime(group):
    point = reference.encode_point(group, GENERATOR[group])
    for at in range(0, len(point), 32):
        number = int.from_bytes(point[at : at + 32], "big") + PRIME[group]
        assert fault(group, point[:at] + number.to_bytes(32, "big") + point[at + 32 :]) is PointFault.ENCODING


def test_bn254_writes_imaginary_parts_first():
    x, y = bn_points.normalize(bn_points.G2)
    parts = [x.coeffs[1], x.coeffs[0], y.coeffs[1], y.coeffs[0]]
    assert reference.encode_point(BN_G2, bn_points.G2) == b"".join(int(part).to_bytes(32, "big") for part in parts)
    assert reference.encode_point(BN_G1, bn_points.G1) == (1).to_bytes(32, "big") + (2).to_bytes(32, "big")


@pytest.mark.parametrize("group", [G1, G2, BN_G2])
def test_a_point_plus_one_of_small_order_is_refused(group):
    """In the pairing it would count as the point itself, with another encoding: another randomness."""
    point = reference.decode_point(group, reference.encode_point(group, GENERATOR[group]))
    altered = reference.encode_point(group, LIBRARY[group].add(point, torsion(group)))
    assert fault(group, altered) is PointFault.SUBGROUP


def test_the_points_of_order_three_are_refused():
    for y in (2, PRIME[G1] - 2):
        point = (FQ(0), FQ(y), FQ(1))
        assert bls_points.is_inf(bls_points.multiply(point, 3))
        assert fault(G1, reference.encode_point(G1, point)) is PointFault.SUBGROUP


@pytest.mark.parametrize("secret", [0, -1, "order"])
def test_secrets_outside_the_group_order_are_refused(secret):
    for group in GROUPS:
        number = reference.order(group) if secret == "order" else secret
        refused(Code.POINT, reference.public_key, group, number)
        refused(Code.POINT, reference.sign, group, TAG, number, MESSAGE)


def test_the_encoding_of_a_point_does_not_depend_on_its_projective_form():
    point = reference.decode_point(G2, reference.sign(G2, TAG, SECRET, MESSAGE))
    scale = FQ2([5, 7])
    assert reference.encode_point(G2, tuple(c * scale for c in point)) == reference.encode_point(G2, point)


@given(data=st.binary(min_size=40, max_size=130), group=st.sampled_from(Group))
@settings(max_examples=100, deadline=None)
def test_decoding_is_canonical_or_refused(data, group):
    try:
        point = reference.decode_point(group, data)
    except FormatError:
        return
    assert reference.encode_point(group, point) == data


@given(secret=st.integers(1, reference.order(BN_G1) - 1), flip=st.integers(0, 8 * 48 - 1))
@settings(max_examples=4, deadline=None)
def test_every_secret_signs_and_every_flipped_bit_is_refused(secret, flip):
    key, signature = reference.public_key(G1, secret), reference.sign(G1, TAG, secret, MESSAGE)
    verify(REFERENCE, G1, TAG, key, MESSAGE, signature)
    altered = (int.from_bytes(signature, "big") ^ (1 << flip)).to_bytes(48, "big")
    with pytest.raises((FormatError, VerificationError)):
        verify(REFERENCE, G1, TAG, key, MESSAGE, altered)


def test_the_tags_and_groups_of_the_schemes():
    assert {scheme.name: (scheme.group, scheme.dst.decode()) for scheme in SCHEMES.values()} == {
        "bls-unchained-g1-rfc9380": (G1, "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"),
        "bls-unchained-on-g1": (G1, "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"),
        "pedersen-bls-unchained": (G2, "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"),
        "pedersen-bls-chained": (G2, "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"),
        "bls-bn254-unchained-on-g1": (BN_G1, "BLS_SIG_BN254G1_XMD:KECCAK-256_SVDW_RO_NUL_"),
    }


def test_groups_that_nothing_is_signed_in_are_no_signature_groups():
    assert serving(REFERENCE, BN_G1) is REFERENCE
    assert BN_G2 not in reference.GROUPS
    with pytest.raises(ValueError, match="G1 only"):
        reference.hash_to_curve(BN_G2, TAG, MESSAGE)


# The plain integers against py-ecc's field objects


def test_the_constants_are_those_of_py_ecc():
    assert PRIME[G1] == wire.BLS12_381_PRIME
    assert PRIME[BN_G1] == wire.BN254_PRIME
    assert reference.ORDER == reference.order(G1) == reference.order(G2) == bls_points.curve_order
    assert reference.order(BN_G1) == reference.order(BN_G2) == bn_points.curve_order
    assert all(prime % 4 == 3 for prime in PRIME.values())


def same(group, ours, theirs):
    return LIBRARY[group].eq(lower(PRIME[group], type(theirs[0]), ours), theirs)


@given(
    group=st.sampled_from(Group),
    left=st.integers(0, 2**70),
    right=st.integers(0, 2**70),
    factors=st.lists(st.integers(0, 2**70), max_size=12),
)
@settings(max_examples=30, deadline=None)
def test_sums_and_multiples_are_those_of_py_ecc(group, left, right, factors):
    library, prime, generator = LIBRARY[group], PRIME[group], GENERATOR[group]
    a, b = library.multiply(generator, left), library.multiply(generator, right)
    ours = [lift(prime, point) for point in (a, b, library.neg(a))]
    assert same(group, curve.add(prime, ours[0], ours[1]), library.add(a, b))
    assert same(group, curve.add(prime, ours[0], ours[0]), library.double(a))
    assert same(group, curve.double(prime, ours[0]), library.double(a))
    assert not curve.add(prime, ours[0], ours[2])[2]
    assert same(group, curve.multiply(prime, lift(prime, generator), left), a)
    assert curve.equal(prime, ours[0], ours[1]) == (left == right)
    points = [curve.multiply(prime, ours[0], i) for i in range(len(factors))]
    total = curve.sum_products(prime, points, factors)
    assert same(group, total, library.multiply(a, sum(i * factor for i, factor in enumerate(factors))))


def test_a_sum_of_nothing_is_the_identity():
    assert curve.sum_products(PRIME[G1], [], []) == curve.IDENTITY
    assert bls_points.is_inf(reference.sum_products(G2, [], []))
    assert bn_points.is_inf(reference.sum_products(BN_G1, [bn_points.G1], [0]))
    assert reference.encode_point(BN_G2, reference.sum_products(BN_G2, [], [])) == bytes(128)


def test_the_identity_pairs_to_one():
    for group in GROUPS:
        nothing, key = reference.sum_products(group, [], []), GENERATOR[group.partner]
        assert reference.pairings_agree(group, nothing, key, nothing)
        assert not reference.pairings_agree(group, nothing, key, GENERATOR[group])


# Orders: the endomorphisms against the definition

H1 = 0x396C8C005555E1568C00AAAB0000AAAB
H2 = 0x5D543A95414E7F1091D50792876A202CD91DE4547085ABAA68A205B2E5A7DDFA628F1CB4D9E82EF21537E293A6691AE1616EC6E786F0C70CF1C38E31C7238E5


def has_group_order(group, point):
    return LIBRARY[group].is_inf(LIBRARY[group].multiply(point, reference.order(group)))


def cofactor_primes(group):
    return {G1: (3, 11, 10177, 859267, 52437899), G2: (13, 23, 2713, 11953, 262069)}[group]


def test_the_cofactors_leave_no_room_beside_the_subgroup():
    """What `bls12_381` builds on: the degrees of the endomorphisms less their eigenvalues, and coprime cofactors."""
    x, p, r = -0xD201000000010000, PRIME[G1], reference.ORDER
    assert x**4 - x**2 + 1 == r
    assert p - x == H1 * r
    assert _gcd(H1, H2) == 1
    assert all(H1 % prime == 0 for prime in cofactor_primes(G1))
    assert all(H2 % prime == 0 for prime in cofactor_primes(G2))


def _gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@pytest.mark.parametrize(("group", "cofactor"), [(G1, H1), (G2, H2)], ids=["g1", "g2"])
def test_points_of_every_small_order_are_outside_the_subgroup(group, cofactor):
    library = LIBRARY[group]
    assert library.is_inf(library.multiply(library.multiply(on_curve(group, 4), reference.order(group)), cofactor))
    for prime in cofactor_primes(group):
        power = 1
        while cofactor % (power * prime) == 0:
            power *= prime
        low = _of_order_dividing(group, cofactor, power)
        while not library.is_inf(library.multiply(low, prime)):
            low = library.multiply(low, prime)
        assert not bls12_381.in_subgroup(group, low), prime
        assert not bls12_381.in_subgroup(group, library.add(GENERATOR[group], low)), prime


def _of_order_dividing(group, cofactor, power):
    """A point, not the identity, whose order divides a power of one prime of the cofactor."""
    library = LIBRARY[group]
    for start in range(4, 60):
        point = on_curve(group, start)
        low = library.multiply(library.multiply(point, reference.order(group)), cofactor // power)
        if not library.is_inf(low):
            return low
    raise AssertionError


@given(group=st.sampled_from([G1, G2, BN_G2]), start=st.integers(1, 10**9), inside=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_check_of_order_agrees_with_its_definition(group, start, inside):
    module = bn254 if group is BN_G2 else bls12_381
    point = LIBRARY[group].multiply(GENERATOR[group], start) if inside else on_curve(group, start)
    assert module.in_subgroup(group, point) == has_group_order(group, point) == inside


def test_the_identity_is_in_every_subgroup():
    for group in (G1, G2):
        assert bls12_381.in_subgroup(group, reference.sum_products(group, [], []))


# Encodings and hashing against py-ecc and published answers


@given(start=st.integers(1, 10**9))
@settings(max_examples=10, deadline=None)
def test_compressed_points_are_those_of_py_ecc(start):
    for group, compress in ((G1, lambda point: [compress_G1(point)]), (G2, compress_G2)):
        for point in (on_curve(group, start), bls_points.multiply(GENERATOR[group], start)):
            data = b"".join(int(number).to_bytes(48, "big") for number in compress(point))
            assert bls_points.eq(reference._decompress(group, data), point)
            assert reference.encode_point(group, point) == data


@given(message=st.binary(max_size=70))
@settings(max_examples=4, deadline=None)
def test_hashing_to_g2_clears_the_cofactor_as_the_definition_does(message):
    assert bls_points.eq(reference.hash_to_curve(G2, TAG, message), hash_to_G2(message, TAG, hashlib.sha256))


# Published: RFC 9380, J.9.1 and J.10.1, the x of a hash.
J_9_1 = {
    b"": "052926add2207b76ca4fa57a8734416c8dc95e24501772c814278700eed6d1e4e8cf62d9c09db0fac349612b759e79a1",
    b"abc": "03567bc5ef9c690c2ab2ecdf6a96ef1c139cc0b2f284dca0a9a7943388a49a3aee664ba5379a7655d3c68900be2f6903",
}


@pytest.mark.parametrize("message", J_9_1, ids=repr)
def test_published_hashes_to_g1(message):
    point = reference.hash_to_curve(G1, b"QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_", message)
    assert bls_points.normalize(point)[0].n == int(J_9_1[message], 16)


def test_a_published_hash_to_g2():
    point = reference.hash_to_curve(G2, b"QUUX-V01-CS02-with-BLS12381G2_XMD:SHA-256_SSWU_RO_", b"")
    assert [f"{int(part):096x}" for part in bls_points.normalize(point)[0].coeffs] == [
        "0141ebfbdca40eb85b87142e130ab689c673cf60f1a3e98d69335266f30d9b8d4ac44c1038e9dcdd5393faf5c41fb78a",
        "05cb8437535e20ecffaef7752baddf98034139c38452458baeefab379ba13dff5bf5dd71b72418717047f5b0f37da03d",
    ]


class Keccak:
    """Keccak-256 as a class of hashlib's shape."""

    digest_size, block_size = 32, 136

    def __init__(self, data=b""):
        self.data = data

    def digest(self):
        return keccak256(self.data)


def test_keccak_is_not_sha3():
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


@given(message=st.binary(max_size=200), length=st.integers(1, 255), dst=st.binary(max_size=255))
def test_messages_are_expanded_as_py_ecc_expands_them(message, length, dst):
    assert bn254.expand_message(message, dst, length) == expand_message_xmd(message, dst, length, Keccak)


@given(u=st.one_of(st.integers(0, PRIME[BN_G1] - 1), st.integers(0, 20)))
def test_every_field_element_maps_to_a_point_of_bn254_with_its_sign(u):
    x, y = bn254.map_to_curve(u)
    assert (y * y - x**3 - 3) % PRIME[BN_G1] == 0
    assert y % 2 == u % 2


def test_the_exceptions_of_the_map_to_bn254_give_points():
    """Where 1 - 4u^2 or 1 + 4u^2 is zero the inverse is taken as zero (inv0)."""
    half = pow(2, -1, PRIME[BN_G1])
    for u in (half, PRIME[BN_G1] - half):
        x, y = bn254.map_to_curve(u)
        assert (y * y - x**3 - 3) % PRIME[BN_G1] == 0


@pytest.mark.parametrize(
    "error",
    [
        FormatError(Code.HEX, "a text"),
        VerificationError(Code.INCLUSION, "a text"),
        PointError(PointFault.SUBGROUP, "a text"),
    ],
)
def test_errors_come_whole_out_of_other_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
