"""Between py-ecc's points, homogeneous (x, y, z) of field objects, and the integers of `curve`."""

from __future__ import annotations

from typing import Any, TypeAlias

from py_ecc.fields.optimized_field_elements import FQ

from verifier.bls.curve import Gauss, Jacobian

Point: TypeAlias = Any


def lift(p: int, point: Point) -> Jacobian:
    """x*z, y*z^2, z: the same point, Jacobian."""
    x, y, z = (c.n if isinstance(c, FQ) else Gauss(*map(int, c.coeffs)) for c in point)
    return x * z % p, y * z % p * z % p, z


def lower(p: int, field: Any, point: Jacobian) -> Point:
    """x*z, y, z^3: the same point, homogeneous, in py-ecc's class of field elements."""
    x, y, z = point
    if not z:
        return field.one(), field.one(), field.zero()
    numbers = (x * z % p, y, z * z % p * z % p)
    return tuple(field((c.re, c.im) if isinstance(c, Gauss) else c) for c in numbers)
