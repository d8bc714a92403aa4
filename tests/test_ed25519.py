"""Rule 2.7, against the curve itself: the arithmetic here is affine and shares nothing with verifier/ed25519.py."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from verifier import ed25519, standalone_tools
from verifier.errors import Code, FormatError, VerificationError

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
IDENTITY = (0, 1)

# RFC 8032, 7.1: secret key, public key, message, signature
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


def add(p, q):
    (x1, y1), (x2, y2) = p, q
    t = D * x1 * x2 * y1 * y2 % P
    return (
        (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P,
    )


def times(k, p):
    result = IDENTITY
    for bit in f"{k:b}":
        result = add(result, result)
        if bit == "1":
            result = add(result, p)
    return result


def encode(p, *, y_plus_p=False, other_sign=False):
    x, y = p
    sign = (x & 1) ^ other_sign
    return ((y + P * y_plus_p) | sign << 255).to_bytes(32, "little")


def x_of(y):
    """The even x of a y, or None."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        return None
    return x if x % 2 == 0 else P - x


BASE_Y = 4 * pow(5, -1, P) % P
BASE = (x_of(BASE_Y), BASE_Y)


def torsion():
    """The eight points whose order divides 8, in the order 0, T, 2T ... 7T for a T of order 8."""
    y = 2
    while True:
        x = x_of(y)
        if x is not None:
            t = times(L, (x, y))
            if times(4, t) != IDENTITY:
                return [times(i, t) for i in range(8)]
        y += 1


TORSION = torsion()
A_SECRET = 0x1234567890ABCDEF1234567890ABCDEF1234567890ABCDEF1234567890ABCDEF % L
A = times(A_SECRET, BASE)
R_SECRET = 0xFEDCBA0987654321FEDCBA0987654321FEDCBA0987654321FEDCBA0987654321 % L
R = times(R_SECRET, BASE)


def challenge(r, a, message):
    return int.from_bytes(hashlib.sha512(r + a + message).digest(), "little") % L


def signed(r_secret, r_bytes, a_bytes, message):
    s = (r_secret + challenge(r_bytes, a_bytes, message) * A_SECRET) % L
    return r_bytes + s.to_bytes(32, "little")


def accepted(key, message, signature):
    """Whether it is accepted, which two implementations must agree about."""
    alone = standalone_tools.ed25519(key, message, signature)
    try:
        ed25519.verify(key, message, signature)
    except VerificationError as error:
        assert not alone
        return error.code is not Code.SIGNATURE
    assert alone
    return True


def refuses_key(key):
    with pytest.raises(FormatError) as caught:
        ed25519.check_public_key(key)
    return caught.value.code is Code.SIGNATURE


def cofactorless(r, s, a, message, a_bytes, r_bytes):
    """[S]B = R + [k]A on points."""
    return times(s, BASE) == add(r, times(challenge(r_bytes, a_bytes, message), a))


def cofactored(r, s, a, message, a_bytes, r_bytes):
    """[8][S]B = [8](R + [k]A)."""
    right = add(r, times(challenge(r_bytes, a_bytes, message), a))
    return times(8 * s % (8 * L), BASE) == times(8, right)


@pytest.mark.parametrize(("secret", "public", "message", "signature"), RFC_8032)
def test_rfc_8032(secret, public, message, signature):
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    assert key.public_key().public_bytes_raw().hex() == public
    ed25519.check_public_key(bytes.fromhex(public))
    ed25519.verify(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


def test_the_arithmetic_of_this_file():
    assert times(L, BASE) == IDENTITY
    assert len(set(TORSION)) == 8
    assert times(8, TORSION[1]) == IDENTITY
    assert encode(BASE).hex() == "58" + "66" * 31


def test_a_signature_made_here_is_accepted():
    assert accepted(encode(A), b"m", signed(R_SECRET, encode(R), encode(A), b"m"))


@pytest.mark.parametrize("point", TORSION)
def test_small_order_keys_are_refused_in_every_encoding(point):
    encodings = [encode(point)]
    if point[0] == 0:
        encodings.append(encode(point, other_sign=True))
    if point[1] + P < 2**255:
        encodings += [encode(point, y_plus_p=True), encode(point, y_plus_p=True, other_sign=True)]
    assert all(refuses_key(encoded) for encoded in encodings)


@pytest.mark.parametrize("extra", TORSION[1:])
def test_mixed_order_keys_are_refused(extra):
    mixed = add(A, extra)
    assert times(L, mixed) != IDENTITY
    assert refuses_key(encode(mixed))
    assert not accepted(encode(mixed), b"m", signed(R_SECRET, encode(R), encode(mixed), b"m"))


def test_a_mixed_order_key_is_refused_even_where_the_equation_holds():
    mixed = add(A, TORSION[1])
    a_bytes, r_bytes = encode(mixed), encode(R)
    message = next(m for m in (b"%d" % i for i in range(1000)) if challenge(r_bytes, a_bytes, m) % 8 == 0)
    signature = signed(R_SECRET, r_bytes, a_bytes, message)
    s = int.from_bytes(signature[32:], "little")
    assert cofactorless(R, s, mixed, message, a_bytes, r_bytes)
    assert not accepted(a_bytes, message, signature)


@pytest.mark.parametrize("y", range(P, 2**255))
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_whose_y_is_not_below_p_is_refused(y, sign):
    assert refuses_key((y | sign << 255).to_bytes(32, "little"))


@pytest.mark.parametrize("y", [1, P - 1])
def test_a_key_with_x_zero_and_the_sign_bit_is_refused(y):
    assert refuses_key((y | 1 << 255).to_bytes(32, "little"))


def test_a_y_that_is_on_no_point_is_refused():
    for y in (y for y in range(2, 100) if x_of(y) is None):
        with pytest.raises(FormatError, match="not a canonically encoded point"):
            ed25519.check_public_key(y.to_bytes(32, "little"))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_keys_of_other_lengths_are_refused(length):
    assert refuses_key(encode(A)[:32].ljust(64, b"\0")[:length])
    assert not accepted(bytes(length), b"m", bytes(64))


def test_a_refused_key_is_refused_again():
    assert refuses_key(encode(TORSION[1]))
    assert refuses_key(encode(TORSION[1]))


@pytest.mark.parametrize("multiple", range(1, 16))
def test_s_plus_l_is_refused(multiple):
    signature = signed(R_SECRET, encode(R), encode(A), b"m")
    s = int.from_bytes(signature[32:], "little") + multiple * L
    assert s < 2**256
    with pytest.raises(VerificationError, match="S is not below L"):
        ed25519.verify(encode(A), b"m", signature[:32] + s.to_bytes(32, "little"))


@pytest.mark.parametrize("extra", TORSION[1:])
def test_an_r_with_torsion_is_refused_though_the_cofactored_equation_holds(extra):
    mixed = add(R, extra)
    signature = signed(R_SECRET, encode(mixed), encode(A), b"m")
    s = int.from_bytes(signature[32:], "little")
    assert cofactored(mixed, s, A, b"m", encode(A), encode(mixed))
    assert not cofactorless(mixed, s, A, b"m", encode(A), encode(mixed))
    assert not accepted(encode(A), b"m", signature)


@pytest.mark.parametrize("extra", TORSION[1:])
def test_a_small_order_r_is_refused(extra):
    assert not accepted(encode(A), b"m", signed(0, encode(extra), encode(A), b"m"))


def test_the_identity_as_r_is_accepted_in_its_canonical_encoding_only():
    assert accepted(encode(A), b"m", signed(0, encode(IDENTITY), encode(A), b"m"))
    for encoded in (
        encode(IDENTITY, other_sign=True),
        encode(IDENTITY, y_plus_p=True),
        encode(IDENTITY, y_plus_p=True, other_sign=True),
    ):
        assert not accepted(encode(A), b"m", signed(0, encoded, encode(A), b"m"))


@pytest.mark.parametrize("length", [0, 32, 63, 65, 128])
def test_signatures_of_other_lengths_are_refused(length):
    signature = signed(R_SECRET, encode(R), encode(A), b"m")
    assert not accepted(encode(A), b"m", signature.ljust(128, b"\0")[:length])


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=80), st.integers(0, 2**20))
def test_any_flipped_bit_of_key_message_or_signature_is_refused(seed, message, position):
    private = Ed25519PrivateKey.from_private_bytes(seed)
    key = private.public_key().public_bytes_raw()
    whole = key + private.sign(message) + message
    assert accepted(key, message, whole[32:96])
    bit = position % (8 * len(whole))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    assert not accepted(bytes(flipped[:32]), bytes(flipped[96:]), bytes(flipped[32:96]))


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=70))
def test_garbage_raises_nothing_but_our_errors(key, message, signature):
    assert not accepted(key, message, signature)
