"""BLS12-381 for the reference backend: fields, hashing and pairing are py-ecc's, sums and checks of order `curve`'s.

A point is py-ecc's homogeneous (x, y, z) of FQ or FQ2.

py-ecc checks no order. Multiplying by the group order is the definition; the two checks here are many times faster and
exact, because each is the kernel of an endomorphism whose degree leaves room for no other point (M. Scott, ePrint
2021/1130; El Housni, Guillevic, Piellard, ePrint 2022/352). With t = X + 1 for the curve's parameter X:

    G1  phi(x, y) = (beta*x, y) acts on the subgroup as -X^2. phi + X^2 has degree X^4 - X^2 + 1, the group order.
    G2  psi (untwist, Frobenius, twist) acts on the subgroup as X. psi - X has degree X^2 - t*X + p = p - X, which is
        the number of points of E over F_p: order * h1. The twist has order * h2 points over F_(p^2), and
        gcd(h1, h2) = 1: what both numbers leave room for is the subgroup.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from py_ecc.bls.hash_to_curve import hash_to_field_FQ2, hash_to_G1, map_to_curve_G2
from py_ecc.bls.point_compression import compress_G1, compress_G2, decompress_G2
from py_ecc.bls.typing import G2Compressed
from py_ecc.fields import optimized_bls12_381_FQ as FQ
from py_ecc.fields import optimized_bls12_381_FQ2 as FQ2
from py_ecc.fields import optimized_bls12_381_FQ12 as FQ12
from py_ecc.optimized_bls12_381 import optimized_curve as points
from py_ecc.optimized_bls12_381.optimized_pairing import final_exponentiate, miller_loop

from verifier.bls import curve
from verifier.bls.curve import Gauss, Jacobian
from verifier.bls.groups import Group
from verifier.bls.pyecc import Point, lift, lower
from verifier.bls.wire import BLS12_381_PRIME, coordinates, has_larger_y

PRIME: Final = BLS12_381_PRIME
ORDER: Final = points.curve_order
FIELD: Final[dict[Group, Any]] = {Group.BLS12_381_G1: FQ, Group.BLS12_381_G2: FQ2}
GENERATOR: Final[dict[Group, Point]] = {Group.BLS12_381_G1: points.G1, Group.BLS12_381_G2: points.G2}

_X: Final = 0xD201000000010000  # the curve's parameter is -_X
_BETA: Final = pow(2, (PRIME - 1) // 3, PRIME)
_PSI_X: Final = Gauss(1, 1).power((PRIME * PRIME - 1) - (PRIME - 1) // 3, PRIME)
_PSI_Y: Final = Gauss(1, 1).power((PRIME * PRIME - 1) - (PRIME - 1) // 2, PRIME)


def decompress(group: Group, data: bytes) -> Point:
    """The point of bytes that passed `wire.check_form`. Its order is not checked. ValueError: there is none."""
    if group is Group.BLS12_381_G2:
        first, second = (int.from_bytes(half, "big") for half in (data[:48], data[48:]))
        return decompress_G2(G2Compressed((first, second)))
    (x,) = coordinates(group, data)
    square = (x * x * x + 4) % PRIME
    y = pow(square, (PRIME + 1) // 4, PRIME)
    if y * y % PRIME != square:
        raise ValueError("x is of no point")
    return FQ(x), FQ(y if has_larger_y(data) == (2 * y > PRIME) else PRIME - y), FQ(1)


def encode(group: Group, point: Point) -> bytes:
    numbers = (compress_G1(point),) if group is Group.BLS12_381_G1 else compress_G2(point)
    return b"".join(int(number).to_bytes(48, "big") for number in numbers)


def in_subgroup(group: Group, point: Point) -> bool:
    """Whether a point of the curve has the group order, or is the identity."""
    lifted = lift(PRIME, point)
    if group is Group.BLS12_381_G2:
        return curve.equal(PRIME, _psi(lifted), _times_parameter(lifted))
    x, y, z = lifted
    phi = (x * _BETA % PRIME, y, z)
    return curve.equal(PRIME, phi, curve.negate(PRIME, _times_parameter(_times_parameter(lifted))))


def hash_to_curve(group: Group, dst: bytes, message: bytes) -> Point:
    """RFC 9380, 8.8.1 (G1) and 8.8.2 (G2), both the random-oracle suites with SHA-256."""
    sha256: Any = hashlib.sha256
    if group is Group.BLS12_381_G1:
        return hash_to_G1(message, dst, sha256)
    left, right = (lift(PRIME, map_to_curve_G2(u)) for u in hash_to_field_FQ2(message, 2, dst, sha256))
    return lower(PRIME, FIELD[group], _clear_cofactor(curve.add(PRIME, left, right)))


def product_is_one(pairs: list[tuple[Point, Point]]) -> bool:
    """Whether the pairings of (G1 point, G2 point) multiply to one: one final exponentiation for all."""
    product = FQ12.one()
    for left, right in pairs:
        if not (points.is_inf(left) or points.is_inf(right)):
            product *= miller_loop(right, left, final_exponentiate=False)
    return bool(final_exponentiate(product) == FQ12.one())


def pairing(left: Point, right: Point) -> bytes:
    """The pairing of a G1 and a G2 point as other libraries have it: 576 bytes, big-endian.

    c1 || c0 of Fp12 over Fp6, each c2 || c1 || c0 over Fp2, each c1 || c0. It is py-ecc's pairing to the power -3:
    others raise to three times the exponent, and invert for the sign of the curve's parameter. py-ecc writes Fp12 by
    the powers of w, with w^6 = 1 + u; in the pairing's group the inverse of an element is its conjugate, w -> -w.
    """
    value = final_exponentiate(miller_loop(right, left, final_exponentiate=False))
    inverse = FQ12([-c if power % 2 else c for power, c in enumerate(map(int, value.coeffs))])
    c = [int(number) for number in (inverse * inverse * inverse).coeffs]
    pairs = [((c[power] + c[power + 6]) % PRIME, c[power + 6]) for power in range(6)]
    ordered = [number for power in (5, 3, 1, 4, 2, 0) for number in reversed(pairs[power])]
    return b"".join(number.to_bytes(48, "big") for number in ordered)


def _times_parameter(point: Jacobian) -> Jacobian:
    """X * point; X is negative."""
    return curve.negate(PRIME, curve.multiply(PRIME, point, _X))


def _psi(point: Jacobian) -> Jacobian:
    """RFC 9380, G.3."""
    x, y, z = point
    return x.conjugate() * _PSI_X % PRIME, y.conjugate() * _PSI_Y % PRIME, z.conjugate() % PRIME


def _clear_cofactor(point: Jacobian) -> Jacobian:
    """h_eff * point of G2 as X^2 - X - 1 + (X - 1)*psi + psi^2(2*point) (RFC 9380, G.3)."""
    by_x = _times_parameter(point)
    by_psi = _psi(point)
    result = curve.add(PRIME, _psi(_psi(curve.double(PRIME, point))), curve.negate(PRIME, by_psi))
    result = curve.add(PRIME, result, _times_parameter(curve.add(PRIME, by_x, by_psi)))
    result = curve.add(PRIME, result, curve.negate(PRIME, by_x))
    return curve.add(PRIME, result, curve.negate(PRIME, point))
