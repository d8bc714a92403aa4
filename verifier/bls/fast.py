"""The native backend, on arkworks (extra `fast`): BLS12-381 only; the reference's answers, many times faster.

A point is a G1Point or G2Point. arkworks alone is laxer than the protocol: it takes any bytes that carry the identity's
flag for the identity. So bytes reach it only after `wire.check_form`, and must be what it encodes the point to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from verifier.bls.errors import PointError, PointFault
from verifier.bls.groups import Group
from verifier.bls.wire import check_form

Point: TypeAlias = Any

NAME: Final = "arkworks"
GROUPS: Final = frozenset({Group.BLS12_381_G1, Group.BLS12_381_G2})
_CLASS: Final[dict[Group, Any]] = {Group.BLS12_381_G1: G1Point, Group.BLS12_381_G2: G2Point}
_MINUS_G1: Final = -G1Point()
_MINUS_G2: Final = -G2Point()


def decode_point(group: Group, data: bytes) -> Point:
    """The point of a canonical encoding, of the group order and not the identity, else PointError."""
    check_form(group, data)
    try:
        point = _CLASS[group].from_compressed_bytes_unchecked(data)
    except ValueError as error:
        raise PointError(PointFault.ENCODING, f"not the encoding of a point of {group}'s curve") from error
    if point.to_compressed_bytes() != data:
        raise PointError(PointFault.ENCODING, f"not the canonical encoding of a {group} point")
    if not point.is_in_subgroup():
        raise PointError(PointFault.SUBGROUP, f"the point is on {group}'s curve, but not in the group")
    return point


def encode_point(group: Group, point: Point) -> bytes:  # noqa: ARG001 - a backend's signature
    """The wire form: 48 or 96 bytes."""
    encoded: bytes = point.to_compressed_bytes()
    return encoded


def generator(group: Group) -> Point:
    """The group's standard generator."""
    return _CLASS[group]()


def hash_to_curve(group: Group, dst: bytes, message: bytes) -> Point:
    """The point that a signature of `message` is a multiple of."""
    return _CLASS[group].hash_to_curve(message, dst)


def sum_products(group: Group, points: Sequence[Point], factors: Sequence[int]) -> Point:
    """The sum of factor * point over all pairs; 0 <= factors < 2**255."""
    return _CLASS[group].multiexp_unchecked(list(points), [Scalar(factor) for factor in factors])


def pairing(group: Group, point: Point, partner: Point) -> bytes:
    """The pairing of a point of `group` and one of its partner: 576 bytes, as `reference.pairing` has them.

    arkworks writes the same tower the other way round: each coordinate little-endian, the lowest first.
    """
    first, second = (point, partner) if group is Group.BLS12_381_G1 else (partner, point)
    return bytes.fromhex(str(GT.pairing(first, second)))[::-1]


def pairings_agree(group: Group, hashed: Point, key: Point, signature: Point) -> bool:
    """Whether e(hashed, key) = e(signature, generator): two Miller loops, one final exponentiation."""
    if group is Group.BLS12_381_G1:
        return GT.pairing_check([hashed, signature], [key, _MINUS_G2])
    return GT.pairing_check([key, _MINUS_G1], [hashed, signature])
