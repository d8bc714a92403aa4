"""Points for the tests of BLS: malformed ones, ones outside the group, and a key that anyone knows."""

import hashlib

from py_ecc import optimized_bls12_381 as bls_points
from py_ecc import optimized_bn128 as bn_points
from py_ecc.bls.point_compression import modular_squareroot_in_FQ2
from py_ecc.fields import optimized_bls12_381_FQ as FQ
from py_ecc.fields import optimized_bls12_381_FQ2 as FQ2
from py_ecc.fields import optimized_bn128_FQ2 as BnFQ2

from verifier.bls import reference, wire
from verifier.bls.groups import Group

TAG = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
MESSAGE = hashlib.sha256(b"a round").digest()
SECRET = 0x1F2E3D4C5B6A79881726354453627180
GROUPS = [Group.BLS12_381_G1, Group.BLS12_381_G2, Group.BN254_G1]  # of signatures


def malformed(group, point):
    """Bytes that are no point of the group, by what is wrong with them."""
    lengths = {
        "empty": b"",
        "one byte short": point[:-1],
        "one byte more behind": point + b"\x00",
        "one byte more in front": b"\x00" + point,
        "twice": point + point,
    }
    return lengths | (_uncompressed(point) if group in (Group.BN254_G1, Group.BN254_G2) else _compressed(point))


def names_of_malformed(group):
    return list(malformed(group, bytes(group.point_bytes)))


def _compressed(point):
    size = len(point)
    prime = wire.BLS12_381_PRIME.to_bytes(48, "big")
    return {
        "identity": b"\xc0" + bytes(size - 1),
        "identity with sign": b"\xe0" + bytes(size - 1),
        "identity with x": bytes([point[0] | 0x40]) + point[1:],
        "identity with a last bit": b"\xc0" + bytes(size - 2) + b"\x01",
        "not compressed": bytes([point[0] & 0x7F]) + point[1:],
        "zeros": bytes(size),
        "ones": b"\xff" * size,
        "x = p": bytes([prime[0] | 0x80]) + prime[1:] + bytes(size - 48),
        "x = 2^381 - 1": b"\x9f" + b"\xff" * 47 + bytes(size - 48),
    }


def _uncompressed(point):
    size, prime = len(point), wire.BN254_PRIME.to_bytes(32, "big")
    return {
        "identity": bytes(size),
        "ones": b"\xff" * size,
        "x = p": prime + point[32:],
        "y = p": point[:-32] + prime,
        "another y": point[:-1] + bytes([point[-1] ^ 1]),
        "x and y exchanged": point[size // 2 :] + point[: size // 2],
        "top bit": bytes([point[0] | 0x80]) + point[1:],
        "second bit": bytes([point[0] | 0x40]) + point[1:],
    }


def on_curve(group, start):
    """The first point of the curve with x = start, start + 1, ... : as good as never of the group order."""
    for x in range(start, start + 200):
        point = _with_x(group, x)
        if point is not None:
            return point
    raise AssertionError


def torsion(group):
    """A point whose order divides the cofactor: adding it to another leaves that one's pairings as they were."""
    library = bn_points if group is Group.BN254_G2 else bls_points
    low = library.multiply(on_curve(group, 4), reference.order(group))
    assert not library.is_inf(low)
    return low


def _with_x(group, x):
    if group is Group.BLS12_381_G1:
        prime, square = wire.BLS12_381_PRIME, (x**3 + 4) % wire.BLS12_381_PRIME
        y = pow(square, (prime + 1) // 4, prime)
        return (FQ(x), FQ(y), FQ(1)) if y * y % prime == square else None
    if group is Group.BLS12_381_G2:
        y = modular_squareroot_in_FQ2(FQ2([x, 1]) ** 3 + bls_points.b2)
        return None if y is None else (FQ2([x, 1]), y, FQ2.one())
    if group is Group.BN254_G2:
        y = _root(BnFQ2([x, 1]) ** 3 + bn_points.b2)
        return None if y is None else (BnFQ2([x, 1]), y, BnFQ2.one())
    raise AssertionError(group)


def _root(square):
    """A square root in F_(p^2) of BN254: of its norm first, then of (re + root) / 2."""
    prime = wire.BN254_PRIME
    re, im = (int(part) for part in square.coeffs)
    norm = pow(re * re + im * im, (prime + 1) // 4, prime)
    for sign in (1, -1):
        half = (re + sign * norm) * pow(2, -1, prime) % prime
        first = pow(half, (prime + 1) // 4, prime)
        if first and first * first % prime == half:
            root = BnFQ2([first, im * pow(2 * first, -1, prime) % prime])
            if root * root == square:
                return root
    return None
