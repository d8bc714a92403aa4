"""Points of y^2 = x^3 + b in plain integers: many times faster than field objects, and short enough to read.

A coordinate is an int (G1) or a Gauss integer (G2), always reduced modulo the field prime p. Both primes are 3 mod 4,
so Z[i] modulo p is the field of p^2 elements. A point is Jacobian: (X, Y, Z) stands for x = X/Z^2, y = Y/Z^3, and any
Z = 0 for the identity. b never occurs, so one set of formulas serves both curves and their twists.
Not constant-time: for public data, and for the keys of local test networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

Coordinate: TypeAlias = Any
Jacobian: TypeAlias = tuple[Coordinate, Coordinate, Coordinate]

IDENTITY: Final[Jacobian] = (1, 1, 0)
_MAX_WINDOW: Final = 16


class Gauss:
    """re + im*i. Products are reduced only by `%`, as with int; other operands may be int."""

    __slots__ = ("im", "re")

    def __init__(self, re: int, im: int) -> None:
        self.re = re
        self.im = im

    def __mul__(self, other: Gauss | int) -> Gauss:
        if isinstance(other, int):
            return Gauss(self.re * other, self.im * other)
        a, b, c, d = self.re, self.im, other.re, other.im
        ac, bd = a * c, b * d
        return Gauss(ac - bd, (a + b) * (c + d) - ac - bd)

    __rmul__ = __mul__

    def __add__(self, other: Gauss) -> Gauss:
        return Gauss(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Gauss) -> Gauss:
        return Gauss(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Gauss:
        return Gauss(-self.re, -self.im)

    def __mod__(self, p: int) -> Gauss:
        return Gauss(self.re % p, self.im % p)

    def __bool__(self) -> bool:
        return bool(self.re or self.im)

    def conjugate(self) -> Gauss:
        return Gauss(self.re, -self.im)

    def power(self, exponent: int, p: int) -> Gauss:
        """self^exponent modulo p, for exponent >= 0."""
        result, base = Gauss(1, 0), self
        while exponent:
            if exponent & 1:
                result = result * base % p
            base = base * base % p
            exponent >>= 1
        return result


def double(p: int, point: Jacobian) -> Jacobian:
    """Twice a point (Explicit-Formulas Database, shortw/jacobian-0, dbl-2009-l)."""
    x, y, z = point
    a, b = x * x % p, y * y % p
    c = b * b % p
    d = ((x + b) * (x + b) - a - c) * 2 % p
    e = a * 3
    x3 = (e * e - d * 2) % p
    return x3, (e * (d - x3) - c * 8) % p, y * z * 2 % p


def add(p: int, left: Jacobian, right: Jacobian) -> Jacobian:
    """The sum of any two points (add-1998-cmo-2, with the cases that it leaves out)."""
    x1, y1, z1 = left
    x2, y2, z2 = right
    if not z1:
        return right
    if not z2:
        return left
    zz1, zz2 = z1 * z1 % p, z2 * z2 % p
    u1, s1 = x1 * zz2 % p, y1 * z2 % p * zz2 % p
    h = (x2 * zz1 - u1) % p
    r = (y2 * z1 % p * zz1 - s1) % p
    if not h:
        return IDENTITY if r else double(p, left)
    hh = h * h % p
    hhh, v = h * hh % p, u1 * hh % p
    x3 = (r * r - hhh - v * 2) % p
    return x3, (r * (v - x3) - s1 * hhh) % p, z1 * z2 % p * h % p


def negate(p: int, point: Jacobian) -> Jacobian:
    x, y, z = point
    return x, -y % p, z


def equal(p: int, left: Jacobian, right: Jacobian) -> bool:
    return not add(p, left, negate(p, right))[2]


def multiply(p: int, point: Jacobian, factor: int) -> Jacobian:
    """The point added up `factor` times, factor >= 0."""
    result = IDENTITY
    for bit in f"{factor:b}":
        result = double(p, result)
        if bit == "1":
            result = add(p, result, point)
    return result


def sum_products(p: int, points: Sequence[Jacobian], factors: Sequence[int]) -> Jacobian:
    """The sum of factor * point over all pairs, for factors >= 0, by buckets (Pippenger)."""
    bits = max((factor.bit_length() for factor in factors), default=0)
    width = min(range(1, _MAX_WINDOW + 1), key=lambda w: -(-bits // w) * (len(points) + 2 ** (w + 1)))
    result = IDENTITY
    for shift in reversed(range(0, bits, width)):
        for _ in range(width):
            result = double(p, result)
        result = add(p, result, _window_sum(p, points, [factor >> shift & (1 << width) - 1 for factor in factors]))
    return result


def _window_sum(p: int, points: Sequence[Jacobian], digits: Sequence[int]) -> Jacobian:
    """The sum of digit * point: points of equal digit first, then each bucket as often as its digit says."""
    buckets = [IDENTITY] * (max(digits) + 1)
    for point, digit in zip(points, digits, strict=True):
        if digit:
            buckets[digit] = add(p, buckets[digit], point)
    running = total = IDENTITY
    for bucket in reversed(buckets[1:]):
        running = add(p, running, bucket)
        total = add(p, total, running)
    return total
