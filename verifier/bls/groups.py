"""The groups that drand's keys and signatures are points of."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Group(StrEnum):
    """A group of prime order on a pairing-friendly curve: its curve, and which of the pairing's two sides it is."""

    BLS12_381_G1 = "bls12-381/g1"
    BLS12_381_G2 = "bls12-381/g2"
    BN254_G1 = "bn254/g1"
    BN254_G2 = "bn254/g2"

    @property
    def point_bytes(self) -> int:
        """How long the wire form of a point is: compressed on BLS12-381, both coordinates on BN254."""
        return _POINT_BYTES[self]

    @property
    def partner(self) -> Group:
        """The group on the pairing's other side: where the keys are for signatures in this one, and back."""
        return _PARTNER[self]


_POINT_BYTES: Final = {
    Group.BLS12_381_G1: 48,
    Group.BLS12_381_G2: 96,
    Group.BN254_G1: 64,
    Group.BN254_G2: 128,
}
_PARTNER: Final = {
    Group.BLS12_381_G1: Group.BLS12_381_G2,
    Group.BLS12_381_G2: Group.BLS12_381_G1,
    Group.BN254_G1: Group.BN254_G2,
    Group.BN254_G2: Group.BN254_G1,
}
