"""BLS signatures on BLS12-381 in pure Python, on py-ecc's field and curve arithmetic (PROTOCOL.md 2.5, 2.6).

Wire form of a point (ZCash / draft-irtf-cfrg-pairing-friendly-curves, appendix C), G1 48 bytes, G2 96 bytes:

    bit 7 of byte 0   compressed, always 1
    bit 6 of byte 0   identity, refused here
    bit 5 of byte 0   the larger of the two y
    the rest          x, big-endian, below the field prime; in G2 the imaginary part stands first

py-ecc alone is laxer than the protocol: its decoding ignores leading bytes and checks no subgroup. So a point is
decoded only from exactly its length, must be the one encoding of what it decodes to, and must have the prime order.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from py_ecc.bls.hash_to_curve import hash_to_G1, hash_to_G2
from py_ecc.bls.point_compression import compress_G1, compress_G2, decompress_G1, decompress_G2
from py_ecc.bls.typing import G1Compressed, G2Compressed
from py_ecc.fields import optimized_bls12_381_FQ12
from py_ecc.optimized_bls12_381.optimized_curve import G1, G2, curve_order, is_inf, multiply, neg
from py_ecc.optimized_bls12_381.optimized_pairing import final_exponentiate, miller_loop

from verifier.bls.errors import PointError, PointFault
from verifier.errors import Code, FormatError, VerificationError

Group: TypeAlias = Literal["G1", "G2"]
Point: TypeAlias = Any

POINT_BYTES: Final[dict[Group, int]] = {"G1": 48, "G2": 96}
_OTHER: Final[dict[Group, Group]] = {"G1": "G2", "G2": "G1"}
_GENERATOR: Final[dict[Group, Point]] = {"G1": G1, "G2": G2}
ORDER: Final = curve_order
_COORDINATE: Final = 48


def verify(group: Group, dst: bytes, public_key: bytes, message: bytes, signature: bytes) -> None:
    """Check a signature in `group` under a public key of the other group.

    signature: 48 bytes in G1, 96 in G2; public_key: 96 or 48. dst: the hash-to-curve domain separation tag.
    Raises FormatError(POINT) when either is not a canonical encoding of a point of prime order (2.6),
    VerificationError(ROUND_SIGNATURE) when the pairing does not hold.
    """
    key = _decode_key(_OTHER[group], public_key)
    point = decode_point(group, signature)
    hashed = _hash_to_curve(group, dst, message)
    generator = neg(_GENERATOR[_OTHER[group]])
    product = _miller(group, hashed, key) * _miller(group, point, generator)
    if final_exponentiate(product) != optimized_bls12_381_FQ12.one():
        raise VerificationError(Code.ROUND_SIGNATURE, "the signature does not verify under the chain's public key")


def check_public_key(group: Group, public_key: bytes) -> None:
    """FormatError(POINT) unless a key for signatures in `group` is canonical, of prime order and not the identity."""
    _decode_key(_OTHER[group], public_key)


def public_key(group: Group, secret: int) -> bytes:
    """The public key (in the other group) of a secret, 0 < secret < curve order."""
    return encode_point(_OTHER[group], multiply(_GENERATOR[_OTHER[group]], _check_secret(secret)))


def sign(group: Group, dst: bytes, secret: int, message: bytes) -> bytes:
    """Sign a message in `group`. Not constant-time: for local test networks only."""
    return encode_point(group, multiply(_hash_to_curve(group, dst, message), _check_secret(secret)))


def decode_point(group: Group, data: bytes) -> Point:
    """The point of a canonical encoding, of prime order and not the identity, else FormatError(POINT)."""
    if len(data) != POINT_BYTES[group]:
        raise PointError(PointFault.LENGTH, f"a {group} point has {POINT_BYTES[group]} bytes, not {len(data)}")
    try:
        point = _decompress(group, data)
    except ValueError as error:
        raise PointError(PointFault.ENCODING, f"not the compressed encoding of a {group} point") from error
    if is_inf(point):
        raise PointError(PointFault.IDENTITY, "the identity is no signature and no key")
    if encode_point(group, point) != data:
        raise PointError(PointFault.ENCODING, f"not the canonical encoding of a {group} point")
    if not is_inf(multiply(point, curve_order)):
        raise PointError(PointFault.SUBGROUP, f"the point is not in the prime-order subgroup of {group}")
    return point


def encode_point(group: Group, point: Point) -> bytes:
    """The compressed encoding: 48 bytes in G1, 96 in G2."""
    if group == "G1":
        return int(compress_G1(point)).to_bytes(_COORDINATE, "big")
    return b"".join(int(z).to_bytes(_COORDINATE, "big") for z in compress_G2(point))


@lru_cache(maxsize=64)
def _decode_key(group: Group, data: bytes) -> Point:
    return decode_point(group, data)


def _decompress(group: Group, data: bytes) -> Point:
    first = int.from_bytes(data[:_COORDINATE], "big")
    if group == "G1":
        return decompress_G1(G1Compressed(first))
    return decompress_G2(G2Compressed((first, int.from_bytes(data[_COORDINATE:], "big"))))


def _hash_to_curve(group: Group, dst: bytes, message: bytes) -> Point:
    sha256: Any = hashlib.sha256
    return hash_to_G1(message, dst, sha256) if group == "G1" else hash_to_G2(message, dst, sha256)


def _miller(group: Group, point: Point, other: Point) -> Any:
    """The Miller loop without the final exponentiation; `point` is in `group`, `other` in the other group."""
    q, p = (other, point) if group == "G1" else (point, other)
    return miller_loop(q, p, final_exponentiate=False)


def _check_secret(secret: int) -> int:
    if not 0 < secret < curve_order:
        raise FormatError(Code.POINT, "a secret key is a number from 1 to the curve order less 1")
    return secret
