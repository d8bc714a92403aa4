"""BLS verification of one signature or of many under one key, the same on every backend (PROTOCOL.md 2.6)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from verifier.bls import reference
from verifier.bls.groups import Group
from verifier.errors import Code, VerificationError, VerifierError

_COEFFICIENT_BITS: Final = 128


class Backend(Protocol):
    """Group arithmetic and pairing; a module is one. Points are its own, and never leave it for another.

    GROUPS: in which it verifies signatures. decode_point alone decides what is a point, and every backend refuses the
    same bytes for the same PointFault.
    """

    @property
    def NAME(self) -> str: ...  # noqa: N802 - a module's constant
    @property
    def GROUPS(self) -> frozenset[Group]: ...  # noqa: N802 - a module's constant
    def __hash__(self) -> int: ...
    def decode_point(self, group: Group, data: bytes, /) -> Any: ...
    def encode_point(self, group: Group, point: Any, /) -> bytes: ...
    def generator(self, group: Group, /) -> Any: ...
    def hash_to_curve(self, group: Group, dst: bytes, message: bytes, /) -> Any: ...
    def sum_products(self, group: Group, points: Sequence[Any], factors: Sequence[int], /) -> Any: ...
    def pairing(self, group: Group, point: Any, partner: Any, /) -> bytes: ...
    def pairings_agree(self, group: Group, hashed: Any, key: Any, signature: Any, /) -> bool: ...


REFERENCE: Final[Backend] = reference


def best_backend() -> Backend:
    """The native backend where the extra `fast` is installed, else the reference."""
    try:
        from verifier.bls import fast  # noqa: PLC0415 - it cannot be imported without the extra
    except ImportError:
        return REFERENCE
    return fast


def serving(backend: Backend, group: Group) -> Backend:
    """The backend itself, or the reference for signatures in a group that it does not have."""
    return backend if group in backend.GROUPS else REFERENCE


def check_public_key(backend: Backend, group: Group, public_key: bytes) -> None:
    """PointError unless a key for signatures in `group` is canonical, of the group order and not the identity."""
    decode_key(serving(backend, group), group.partner, public_key)


def verify(backend: Backend, group: Group, dst: bytes, public_key: bytes, message: bytes, signature: bytes) -> None:
    """Check a signature in `group` under a public key of its partner.

    dst: the hash-to-curve domain separation tag. Raises PointError when key or signature is not a canonical encoding of
    a point of the group order, VerificationError(ROUND_SIGNATURE) when the pairing does not hold.
    """
    backend = serving(backend, group)
    key = decode_key(backend, group.partner, public_key)
    point = backend.decode_point(group, signature)
    if not backend.pairings_agree(group, backend.hash_to_curve(group, dst, message), key, point):
        raise _not_signed()


def verify_many(
    backend: Backend,
    group: Group,
    dst: bytes,
    public_key: bytes,
    signed: Sequence[tuple[bytes, bytes]],
) -> list[VerifierError | None]:
    """Check many (message, signature) under one key: for each, in order, None or the error that `verify` would raise.

    Every signature is decoded with all its checks. Then sum(c*hashed) and sum(c*signature), with fresh secret
    coefficients c of 128 bits, stand for all of them in one pairing equation: in groups of prime order it holds with
    probability 2^-128 at most unless it holds for each. A batch that fails is halved until its bad ones stand alone.
    Raises PointError for the key.
    """
    backend = serving(backend, group)
    key = decode_key(backend, group.partner, public_key)
    answers: list[VerifierError | None] = [None] * len(signed)
    batch: list[_Signed] = []
    for position, (message, signature) in enumerate(signed):
        try:
            point = backend.decode_point(group, signature)
        except VerifierError as error:
            answers[position] = error
        else:
            batch.append(_Signed(position, backend.hash_to_curve(group, dst, message), point))
    for item in _Batch(backend, group, key).bad_of(batch):
        answers[item.position] = _not_signed()
    return answers


@dataclass(frozen=True, slots=True)
class _Signed:
    position: int
    hashed: Any
    signature: Any


@dataclass(frozen=True)
class _Batch:
    backend: Backend
    group: Group
    key: Any

    def bad_of(self, items: Sequence[_Signed], *, suspect: bool = False) -> list[_Signed]:
        """The items that are not signed by the key, found by halving. suspect: at least one is known to be bad."""
        if len(items) < 2:
            return [item for item in items if not self._holds([item])]
        if not suspect and self._holds(items):
            return []
        middle = len(items) // 2
        bad = self.bad_of(items[:middle])
        return bad + self.bad_of(items[middle:], suspect=not bad)

    def _holds(self, items: Sequence[_Signed]) -> bool:
        if len(items) == 1:
            return self.backend.pairings_agree(self.group, items[0].hashed, self.key, items[0].signature)
        factors = [1 + secrets.randbelow(2**_COEFFICIENT_BITS) for _ in items]
        hashed = self.backend.sum_products(self.group, [item.hashed for item in items], factors)
        signature = self.backend.sum_products(self.group, [item.signature for item in items], factors)
        return self.backend.pairings_agree(self.group, hashed, self.key, signature)


@lru_cache(maxsize=64)
def decode_key(backend: Backend, group: Group, data: bytes) -> Any:
    """`decode_point` that remembers the last keys. Raises PointError."""
    return backend.decode_point(group, data)


def _not_signed() -> VerificationError:
    return VerificationError(Code.ROUND_SIGNATURE, "the signature does not verify under the chain's public key")
