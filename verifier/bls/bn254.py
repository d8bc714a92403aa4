"""BN254 for the reference backend: fields and pairing are py-ecc's, sums and checks of order are `curve`'s.

A point is py-ecc's homogeneous (x, y, z) of FQ or FQ2. Every point of G1's curve has the group order; keys, in G2, are
multiplied by it. Hashing is RFC 9380 with Keccak-256 and the map of Shallue and van de Woestijne (6.6.1) at Z = 1;
there is no cofactor to clear. drand's evmnet signs with it.
"""

from __future__ import annotations

from typing import Any, Final

from py_ecc.fields import optimized_bn128_FQ as FQ
from py_ecc.fields import optimized_bn128_FQ2 as FQ2
from py_ecc.fields import optimized_bn128_FQ12 as FQ12
from py_ecc.optimized_bn128 import optimized_curve as points
from py_ecc.optimized_bn128.optimized_pairing import cast_point_to_fq12, final_exponentiate, miller_loop

from verifier.bls import curve
from verifier.bls.groups import Group
from verifier.bls.pyecc import Point, lift, lower
from verifier.bls.wire import BN254_PRIME, coordinates
from verifier.keccak import keccak256

PRIME: Final = BN254_PRIME
ORDER: Final = points.curve_order
FIELD: Final[dict[Group, Any]] = {Group.BN254_G1: FQ, Group.BN254_G2: FQ2}
GENERATOR: Final[dict[Group, Point]] = {Group.BN254_G1: points.G1, Group.BN254_G2: points.G2}

_FIELD_BYTES: Final = 48  # L of RFC 9380, 5.1: ceil((254 + 128) / 8)
_KECCAK_BYTES, _KECCAK_BLOCK = 32, 136
_HALF: Final = pow(2, -1, PRIME)
# RFC 9380, F.1, for g(x) = x^3 + 3 and Z = 1.
_C1: Final = 4
_C2: Final = -_HALF % PRIME
_SQRT: Final = pow(-12, (PRIME + 1) // 4, PRIME)
_C3: Final = _SQRT if _SQRT % 2 == 0 else PRIME - _SQRT
_C4: Final = -16 * pow(3, -1, PRIME) % PRIME


def decompress(group: Group, data: bytes) -> Point:
    """The point of bytes that passed `wire.check_form`. Its order is not checked. ValueError: not on the curve."""
    numbers = coordinates(group, data)
    if group is Group.BN254_G1:
        point: Point = (FQ(numbers[0]), FQ(numbers[1]), FQ.one())
    else:
        point = (FQ2(numbers[1::-1]), FQ2(numbers[:1:-1]), FQ2.one())
    if not points.is_on_curve(point, points.b if group is Group.BN254_G1 else points.b2):
        raise ValueError("not on the curve")
    return point


def encode(group: Group, point: Point) -> bytes:
    if points.is_inf(point):
        return bytes(group.point_bytes)
    parts = [(c.n,) if group is Group.BN254_G1 else tuple(c.coeffs)[::-1] for c in points.normalize(point)]
    return b"".join(int(number).to_bytes(32, "big") for numbers in parts for number in numbers)


def in_subgroup(group: Group, point: Point) -> bool:
    """Whether a point of the curve has the group order, or is the identity."""
    return group is Group.BN254_G1 or not curve.multiply(PRIME, lift(PRIME, point), ORDER)[2]


def hash_to_curve(group: Group, dst: bytes, message: bytes) -> Point:
    """RFC 9380, section 3, into G1; nothing of drand's is hashed to G2 of this curve."""
    if group is not Group.BN254_G1:
        raise ValueError("messages are hashed to G1 only")
    stream = expand_message(message, dst, 2 * _FIELD_BYTES)
    numbers = (int.from_bytes(stream[i : i + _FIELD_BYTES], "big") % PRIME for i in (0, _FIELD_BYTES))
    left, right = (map_to_curve(u) for u in numbers)
    return lower(PRIME, FQ, curve.add(PRIME, (*left, 1), (*right, 1)))


def expand_message(message: bytes, dst: bytes, length: int) -> bytes:
    """expand_message_xmd with Keccak-256 (RFC 9380, 5.3.1). dst and length: at most 255 bytes."""
    suffix = dst + bytes([len(dst)])
    first = keccak256(bytes(_KECCAK_BLOCK) + message + length.to_bytes(2, "big") + b"\x00" + suffix)
    block = keccak256(first + b"\x01" + suffix)
    stream = block
    for i in range(2, -(-length // _KECCAK_BYTES) + 1):
        mixed = bytes(a ^ b for a, b in zip(first, block, strict=True))
        block = keccak256(mixed + bytes([i]) + suffix)
        stream += block
    return stream[:length]


def map_to_curve(u: int) -> tuple[int, int]:
    """A point's x and y for a field element (RFC 9380, 6.6.1 and F.1)."""
    tv1 = u * u * _C1 % PRIME
    tv2, tv1 = 1 + tv1, 1 - tv1
    product = tv1 * tv2 % PRIME
    tv3 = pow(product, -1, PRIME) if product else 0
    tv4 = u * tv1 % PRIME * tv3 % PRIME * _C3 % PRIME
    candidates = ((_C2 - tv4) % PRIME, (_C2 + tv4) % PRIME, (1 + _C4 * pow(tv2 * tv2 * tv3, 2, PRIME)) % PRIME)
    for x in candidates:
        square = (x * x * x + 3) % PRIME
        y = pow(square, (PRIME + 1) // 4, PRIME)
        if y * y % PRIME == square:
            return x, y if y % 2 == u % 2 else PRIME - y
    raise AssertionError("one of the three is on the curve (RFC 9380, 6.6.1)")


def product_is_one(pairs: list[tuple[Point, Point]]) -> bool:
    """Whether the pairings of (G1 point, G2 point) multiply to one: one final exponentiation for all."""
    product = FQ12.one()
    for left, right in pairs:
        if not (points.is_inf(left) or points.is_inf(right)):
            product *= miller_loop(points.twist(right), cast_point_to_fq12(left), final_exponentiate=False)
    return bool(final_exponentiate(product) == FQ12.one())
