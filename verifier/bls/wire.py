"""The bytes of points, before any arithmetic (PROTOCOL.md 2.6). Every backend decodes only what passes `check_form`.

BLS12-381, 48 bytes in G1, 96 in G2 (ZCash; draft-irtf-cfrg-pairing-friendly-curves, appendix C):

    bit 7 of byte 0   compressed, always 1
    bit 6 of byte 0   identity, refused here
    bit 5 of byte 0   the larger of the two y
    the rest          x, big-endian, below the field prime; in G2 the imaginary part stands first

BN254, 64 bytes in G1, 128 in G2 (drand's kyber): x, then y, each big-endian and below the field prime; in G2 the
imaginary part of each stands first. No flags; the identity, refused here, is all zeros.
"""

from __future__ import annotations

from typing import Final

from verifier.bls.errors import PointError, PointFault
from verifier.bls.groups import Group

BLS12_381_PRIME: Final = int(
    "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16
)
BN254_PRIME: Final = int("30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47", 16)
_COMPRESSED, _IDENTITY, _FLAGS = 0x80, 0x40, 0xE0
_BLS12_381: Final = frozenset({Group.BLS12_381_G1, Group.BLS12_381_G2})


def check_form(group: Group, data: bytes) -> None:
    """PointError unless the length, the flags and the size of each coordinate are those of a point of `group`.

    Whether there is such a point, and whether it has the prime order, is left to the backend's arithmetic.
    """
    if len(data) != group.point_bytes:
        raise PointError(PointFault.LENGTH, f"a {group} point has {group.point_bytes} bytes, not {len(data)}")
    if group in _BLS12_381:
        _check_compressed(group, data)
    else:
        _check_uncompressed(group, data)


def coordinates(group: Group, data: bytes) -> tuple[int, ...]:
    """The numbers in the bytes of a point, in their order there, without flags."""
    if group in _BLS12_381:
        data = bytes([data[0] & ~_FLAGS]) + data[1:]
    size = 48 if group in _BLS12_381 else 32
    return tuple(int.from_bytes(data[i : i + size], "big") for i in range(0, len(data), size))


def has_larger_y(data: bytes) -> bool:
    """Bit 5 of a compressed point."""
    return bool(data[0] & 0x20)


def _check_compressed(group: Group, data: bytes) -> None:
    if not data[0] & _COMPRESSED:
        raise PointError(PointFault.ENCODING, f"not the compressed encoding of a {group} point")
    if data[0] & _IDENTITY:
        if data == bytes([_COMPRESSED | _IDENTITY]) + bytes(len(data) - 1):
            raise PointError(PointFault.IDENTITY, "the identity is no signature and no key")
        raise PointError(PointFault.ENCODING, f"not the canonical encoding of a {group} point")
    _check_coordinates(group, data, BLS12_381_PRIME)


def _check_uncompressed(group: Group, data: bytes) -> None:
    if not any(data):
        raise PointError(PointFault.IDENTITY, "the identity is no signature and no key")
    _check_coordinates(group, data, BN254_PRIME)


def _check_coordinates(group: Group, data: bytes, prime: int) -> None:
    if any(number >= prime for number in coordinates(group, data)):
        raise PointError(PointFault.ENCODING, f"a coordinate of a {group} point is not below the field prime")
