"""fair_pick and wallop: weighted raffles from a seed of 32 bytes, and where that seed comes from.

    entry hash = SHA-256( JCS of {"draw_id"?, "entries": [{"uuid" or "id", "weight"}, ... sorted by id]} )
    seed       = SHA-256( JCS of {"drand_randomness", "entry_hash", "weather_value"?} )          absent, never null
    pool       = every entry, sorted by the bytes of its id, as often as its weight says
    shuffle    = for i = len-1 down to 1: swap pool[i], pool[j], j = the next uniform number below i+1
    uniform(n) = SHA-256(seed | u32(counter)) as a 256-bit number, rejected from floor(2**256 / n) * n on, mod n
    winners    = the different ids in the order of the pool, the first `count` of them

JCS is RFC 8785. Source: electric-lump-software/fair_pick and wallop.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from verifier.encoding import MAX_INTEGER, Json
from verifier.errors import Code, FormatError
from verifier.seeds import SEED_BYTES, rejection_limit
from verifier.systems.record import Record, Row, System

MAX_SLOTS: Final = 1_000_000


def jcs(value: Mapping[str, Json]) -> str:
    """RFC 8785 of an object without fractions: keys by UTF-16 units, no white space, the shortest escapes."""
    return json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":"))


def _sorted(value: Json | Mapping[str, Json]) -> Json:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value, key=lambda key: key.encode("utf-16-be"))}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if type(value) is int and abs(value) > MAX_INTEGER:
        raise FormatError(Code.RECORD, "an integer beyond 2^53 - 1 has no RFC 8785 form that all readers agree on")
    return value


def entries_jcs(entries: Sequence[tuple[str, int]], draw_id: str | None, id_name: str) -> str:
    """What the entry hash is of; id_name: uuid or id."""
    listed: list[Json] = [{id_name: name, "weight": weight} for name, weight in sorted(entries, key=_by_bytes)]
    return jcs({"entries": listed} if draw_id is None else {"draw_id": draw_id, "entries": listed})


def seed_jcs(entry_hash: str, drand_randomness: str, weather_value: str | None) -> str:
    value: dict[str, Json] = {"drand_randomness": drand_randomness, "entry_hash": entry_hash}
    return jcs(value if weather_value is None else value | {"weather_value": weather_value})


def pick(entries: Sequence[tuple[str, int]], seed: bytes, count: int) -> list[str]:
    """At most `count` different ids in the order in which they win. (id, weight of 1 at least); seed: 32 bytes."""
    pool = [name for name, weight in sorted(entries, key=_by_bytes) for _ in range(weight)]
    counter = 0
    for i in range(len(pool) - 1, 0, -1):
        limit = rejection_limit(SEED_BYTES, i + 1)
        while True:
            x = int.from_bytes(hashlib.sha256(seed + counter.to_bytes(4, "big")).digest(), "big")
            counter += 1
            if x < limit:
                break
        j = x % (i + 1)
        pool[i], pool[j] = pool[j], pool[i]
    return list(dict.fromkeys(pool))[:count]


def _by_bytes(entry: tuple[str, int]) -> bytes:
    return entry[0].encode("utf-8")


def _entries(record: Record) -> tuple[list[tuple[str, int]], str]:
    items = record.records("entries")
    id_name = "uuid" if items[0].has("uuid") else "id"
    entries = [(item.text(id_name, 1), item.integer("weight", 1)) for item in items]
    if len({name for name, _ in entries}) != len(entries):
        raise FormatError(Code.RECORD, "an id stands twice in the entries")
    if sum(weight for _, weight in entries) > MAX_SLOTS:
        raise FormatError(Code.RECORD, f"the weights come to more than {MAX_SLOTS}")
    return entries, id_name


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    entries, id_name = _entries(record)
    rows = []
    if record.has("entry_hash"):
        draw_id = record.text("draw_id") if record.has("draw_id") else None
        expected = hashlib.sha256(entries_jcs(entries, draw_id, id_name).encode()).hexdigest()
        rows.append(Row("entry_hash", expected, record.hex("entry_hash", 32).hex()))
    seed = record.hex("seed", SEED_BYTES)
    if record.has("drand_randomness"):
        weather = record.text("weather_value") if record.has("weather_value") else None
        text = seed_jcs(record.hex("entry_hash", 32).hex(), record.hex("drand_randomness", 32).hex(), weather)
        rows.append(Row("seed", hashlib.sha256(text.encode()).hexdigest(), seed.hex()))
    winners = record.texts("winners", 1)
    count = record.integer("count", 1) if record.has("count") else len(winners)
    return [*rows, Row("winners", pick(entries, seed, count), winners)]


SYSTEM: Final = System(
    name="wallop",
    title="wallop and fair_pick raffles",
    about="The hash of the entries is fixed first; drand and the weather give the seed; the seed picks the winners.",
    record=(
        'entries            [{"uuid": text, "weight": 1}, ...], or "id" in place of "uuid"; ids all different',
        "draw_id?           text; part of the entry hash",
        "entry_hash?        64 hex digits, as it was published before the round",
        "drand_randomness?  64 hex digits; needs entry_hash, and the seed is then recomputed",
        "weather_value?     text; part of the seed",
        "seed               64 hex digits",
        "count?             how many winners were asked for; default: as many as are listed",
        "winners            [id, ...] in order",
    ),
    proves="the entries give the hash, hash and randomness the seed, and the seed picks these winners in this order",
    does_not_prove=(
        "that the entry hash was published before the drand round and the weather were known",
        "that the randomness is drand's: `verifier round` checks a round's signature",
        "that the weather value is what was measured, or that nobody could choose it",
        "that the list of entries is complete and holds nobody who should not be there",
    ),
    example=(
        '{"entries":[{"id":"ticket-47","weight":1},{"id":"ticket-48","weight":1},{"id":"ticket-49","weight":1}],'
        '"seed":"31bbfbf5da7848ef29ccaef1a7ec9663b634fc5bdf900e03a007ac285ed5374e",'
        '"winners":["ticket-49","ticket-47"]}'
    ),
    run=_run,
)
