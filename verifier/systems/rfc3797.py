"""RFC 3797: publicly verifiable random selection, by MD5.

    key    = for each source its numbers in ascending order, a point after each; a slash after each source
    hash_i = MD5( u16(i) | key | u16(i) )          i = 0, 1, 2 ..., one a selection; u16 big-endian
    pick   = the (hash_i mod remaining)-th, from 0, of those who remain in the pool's order; they leave it

Source: RFC 3797, sections 4 to 6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from verifier.errors import Code, FormatError
from verifier.systems.record import Record, Row, System

MAX_POOL: Final = 65_535


def key_of(sources: list[list[int]]) -> str:
    return "".join("".join(f"{number}." for number in sorted(source)) + "/" for source in sources)


def digest(key: str, i: int) -> bytes:
    """16 bytes of selection i, counted from 0."""
    number = i.to_bytes(2, "big")
    return hashlib.md5(number + key.encode("utf-8") + number, usedforsecurity=False).digest()


def select(key: str, size: int, count: int) -> list[int]:
    """Positions in the pool, from 0, in the order in which they are picked; count <= size <= 65,535."""
    remaining = list(range(size))
    return [remaining.pop(int.from_bytes(digest(key, i), "big") % len(remaining)) for i in range(count)]


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    pool = record.texts("pool", 1, MAX_POOL)
    if len(set(pool)) != len(pool):
        raise FormatError(Code.RECORD, "a name stands twice in the pool")
    selected = record.texts("selected", 1, len(pool))
    rows = []
    if record.has("sources"):
        sources = [_source(source, i) for i, source in enumerate(record.items("sources", 100))]
        key = key_of(sources)
        if record.has("key"):
            rows.append(Row("key", key, record.text("key", 1)))
    else:
        key = record.text("key", 1)
    picked = select(key, len(pool), len(selected))
    names = zip(picked, selected, strict=True)
    return rows + [Row(f"selection {i}", pool[place], name) for i, (place, name) in enumerate(names, 1)]


def _source(value: object, i: int) -> list[int]:
    if not isinstance(value, list) or not 1 <= len(value) <= 100:
        raise FormatError(Code.RECORD, f"sources[{i}] is a list of 1 to 100 integers")
    return Record({"source": value}, f"sources[{i}]").integers("source", 0, 2**53 - 1, 100)


SYSTEM: Final = System(
    name="rfc3797",
    title="RFC 3797, publicly verifiable random selection",
    about="Public numbers that nobody controls, named in advance, pick from a numbered pool by MD5.",
    record=(
        "pool      [name, ...] in the published order, at most 65,535, all different",
        "sources?  [[number, ...], ...]: the sources' numbers, in the published order of the sources; or the",
        'key?      text: the key that they make, such as "9319./2.5.8.10.12./"; both must agree if both are there',
        "selected  [name, ...] in the order in which they were picked",
    ),
    proves="these names are picked from this pool by this key, in this order",
    does_not_prove=(
        "that pool, order and sources were published before the sources' numbers were known",
        "that the numbers are what the sources published: look them up",
        "that nobody could influence a source",
    ),
    example='{"pool":["Ann","Bob","Cem","Dua"],"sources":[[9319],[12,5,2,8,10]],"selected":["Dua","Ann"]}',
    run=_run,
)
