"""Ed25519 as one function (PROTOCOL.md, 2.7): RFC 8032, cofactorless, and nothing that libraries disagree about.

    key        32 bytes: a canonical encoding of a point of prime order L
    signature  R (32 bytes, canonical) || S (32 bytes, little-endian, S < L)
    accepted   exactly when encode([S]B - [k]A) = R byte for byte, k = H512(R || A || message) mod L

The equation is checked by `cryptography`; what it leaves open about keys and encodings is checked here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from verifier.errors import Code, FormatError, VerificationError

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_SQRT_MINUS_ONE: Final = pow(2, (_P - 1) // 4, _P)
_IDENTITY: Final = (0, 1, 1, 0)

_Point = tuple[int, int, int, int]  # extended coordinates X, Y, Z, T: x = X/Z, y = Y/Z, x*y = T/Z


@lru_cache(maxsize=4096)
def check_public_key(key: bytes) -> None:
    """Refuse every key but the canonical encoding of a point of prime order (2.7). key: 32 bytes.

    Raises FormatError(SIGNATURE).
    """
    if len(key) != KEY_BYTES:
        raise FormatError(Code.SIGNATURE, f"an Ed25519 key has {KEY_BYTES} bytes, this one {len(key)}")
    point = _decode(key)
    if point is None:
        raise FormatError(Code.SIGNATURE, "an Ed25519 key that is not a canonically encoded point")
    if _is_identity(point) or not _is_identity(_multiply(_L, point)):
        raise FormatError(Code.SIGNATURE, "an Ed25519 key that is not of prime order")


def verify(key: bytes, message: bytes, signature: bytes) -> None:
    """Check one signature by rule 2.7. key: 32 bytes, signature: 64 bytes, message: any length.

    Raises VerificationError(SIGNATURE), also where the key itself is one that `check_public_key` refuses.
    """
    try:
        check_public_key(key)
    except FormatError as error:
        raise VerificationError(Code.SIGNATURE, error.message) from error
    if len(signature) != SIGNATURE_BYTES:
        raise VerificationError(Code.SIGNATURE, f"an Ed25519 signature has {SIGNATURE_BYTES} bytes")
    if int.from_bytes(signature[32:], "little") >= _L:
        raise VerificationError(Code.SIGNATURE, "an Ed25519 signature whose S is not below L")
    if not _is_canonical(signature[:32]):
        raise VerificationError(Code.SIGNATURE, "an Ed25519 signature whose R is not canonical")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError) as error:
        raise VerificationError(Code.SIGNATURE, "the Ed25519 signature does not verify") from error


def _is_canonical(encoded: bytes) -> bool:
    y, sign = _split(encoded)
    return y < _P and not (sign and y in {1, _P - 1})


def _split(encoded: bytes) -> tuple[int, int]:
    number = int.from_bytes(encoded, "little")
    return number & (2**255 - 1), number >> 255


def _decode(encoded: bytes) -> _Point | None:
    """Decompress a point (RFC 8032, 5.1.3), or None: not canonical, or no such point."""
    if not _is_canonical(encoded):
        return None
    y, sign = _split(encoded)
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if v * x * x % _P == -u % _P:
        x = x * _SQRT_MINUS_ONE % _P
    if v * x * x % _P != u:
        return None
    if x & 1 != sign:
        x = _P - x
    return x, y, 1, x * y % _P


def _add(p: _Point, q: _Point) -> _Point:
    """Add two points; complete, so that doubling is adding a point to itself (RFC 8032, 5.1.4)."""
    a = (p[1] - p[0]) * (q[1] - q[0]) % _P
    b = (p[1] + p[0]) * (q[1] + q[0]) % _P
    c = 2 * p[3] * q[3] * _D % _P
    d = 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _multiply(scalar: int, point: _Point) -> _Point:
    result = _IDENTITY
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def _is_identity(point: _Point) -> bool:
    return point[0] == 0 and point[1] == point[2]
