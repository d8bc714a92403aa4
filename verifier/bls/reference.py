"""The reference backend, in pure Python on py-ecc: every scheme of drand's (PROTOCOL.md 2.5, 2.6).

A point is py-ecc's homogeneous (x, y, z). py-ecc alone is laxer than the protocol: its decoding ignores leading bytes
and checks no order. So a point is decoded only from exactly its length, must be the one encoding of what it decodes to,
and must have the group order. There is no default domain separation tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from verifier.bls import bls12_381, bn254, curve
from verifier.bls.errors import PointError, PointFault
from verifier.bls.groups import Group
from verifier.bls.pyecc import Point, lift, lower
from verifier.bls.wire import check_form
from verifier.errors import Code, FormatError

NAME: Final = "py-ecc"
GROUPS: Final = frozenset({Group.BLS12_381_G1, Group.BLS12_381_G2, Group.BN254_G1})
ORDER: Final = bls12_381.ORDER
_FIRST: Final = frozenset({Group.BLS12_381_G1, Group.BN254_G1})
_BN254: Final = frozenset({Group.BN254_G1, Group.BN254_G2})


def decode_point(group: Group, data: bytes) -> Point:
    """The point of a canonical encoding, of the group order and not the identity, else PointError."""
    check_form(group, data)
    try:
        point = _decompress(group, data)
    except ValueError as error:
        raise PointError(PointFault.ENCODING, f"not the encoding of a point of {group}'s curve") from error
    if encode_point(group, point) != data:
        raise PointError(PointFault.ENCODING, f"not the canonical encoding of a {group} point")
    if not _curve(group).in_subgroup(group, point):
        raise PointError(PointFault.SUBGROUP, f"the point is on {group}'s curve, but not in the group")
    return point


def encode_point(group: Group, point: Point) -> bytes:
    """The wire form: 48 or 96 bytes on BLS12-381, 64 or 128 on BN254."""
    encoded: bytes = _curve(group).encode(group, point)
    return encoded


def generator(group: Group) -> Point:
    """The group's standard generator."""
    return _curve(group).GENERATOR[group]


def hash_to_curve(group: Group, dst: bytes, message: bytes) -> Point:
    """The point that a signature of `message` is a multiple of."""
    return _curve(group).hash_to_curve(group, dst, message)


def sum_products(group: Group, points: Sequence[Point], factors: Sequence[int]) -> Point:
    """The sum of factor * point over all pairs; factors >= 0."""
    module = _curve(group)
    total = curve.sum_products(module.PRIME, [lift(module.PRIME, point) for point in points], factors)
    return lower(module.PRIME, module.FIELD[group], total)


def pairing(group: Group, point: Point, partner: Point) -> bytes:
    """The pairing of a point of `group` and one of its partner, on BLS12-381: 576 bytes (`bls12_381.pairing`)."""
    encoded: bytes = bls12_381.pairing(*((point, partner) if group is Group.BLS12_381_G1 else (partner, point)))
    return encoded


def pairings_agree(group: Group, hashed: Point, key: Point, signature: Point) -> bool:
    """Whether e(hashed, key) = e(signature, generator): two Miller loops, one final exponentiation."""
    module = _curve(group)
    pairs = [(hashed, key), (signature, _negate(generator(group.partner)))]
    return bool(module.product_is_one(pairs if group in _FIRST else [pair[::-1] for pair in pairs]))


def order(group: Group) -> int:
    """The prime number of points of the group."""
    number: int = _curve(group).ORDER
    return number


def public_key(group: Group, secret: int) -> bytes:
    """The public key, in the partner of `group`, of a secret, 0 < secret < order(group)."""
    point = sum_products(group.partner, [generator(group.partner)], [_check_secret(group, secret)])
    return encode_point(group.partner, point)


def sign(group: Group, dst: bytes, secret: int, message: bytes) -> bytes:
    """Sign a message in `group`. Not constant-time: for local test networks only."""
    return encode_point(
        group, sum_products(group, [hash_to_curve(group, dst, message)], [_check_secret(group, secret)])
    )


def _curve(group: Group) -> Any:
    module: ModuleType = bn254 if group in _BN254 else bls12_381
    return module


def _decompress(group: Group, data: bytes) -> Point:
    return _curve(group).decompress(group, data)


def _negate(point: Point) -> Point:
    x, y, z = point
    return x, -y, z


def _check_secret(group: Group, secret: int) -> int:
    if not 0 < secret < order(group):
        raise FormatError(Code.POINT, "a secret key is a number from 1 to the group order less 1")
    return secret
