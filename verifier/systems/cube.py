"""CUBE Backgammon's `sha256-rejection-v1`: one seed, at most 4,096 rolls of two dice.

    fingerprint = SHA-256(seed)                       shown before play; seed: its exact UTF-8 text, 1 byte or more
    block_j     = SHA-256(seed | ":" | decimal(j))    32 bytes, j = 0, 1, 2 ...
    faces       = the bytes below 252 of block_0 | block_1 | ..., each (byte mod 6) + 1, two a roll

Source: the dice article of CUBE Backgammon. The seed is text even where it looks like hex: no case folding, no
trimming, no Unicode normalisation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from verifier.errors import Code, FormatError
from verifier.systems.record import Record, Row, System

MAX_ROLLS: Final = 4096
LIMIT: Final = 252


def fingerprint(seed: str) -> bytes:
    """32 bytes."""
    return hashlib.sha256(seed.encode("utf-8")).digest()


def stream(seed: str) -> Iterator[tuple[int, int, int]]:
    """(block, offset, byte) without end, rejected bytes too."""
    for block in count():
        for offset, byte in enumerate(hashlib.sha256(f"{seed}:{block}".encode()).digest()):
            yield block, offset, byte


def rolls(seed: str, number: int) -> tuple[list[list[int]], list[list[int]]]:
    """The first rolls of a seed, 1 to 4,096; and [block, offset, byte] of what was passed over on the way."""
    found: list[int] = []
    rejected: list[list[int]] = []
    bytes_ = stream(seed)
    while len(found) < 2 * number:
        block, offset, byte = next(bytes_)
        if byte < LIMIT:
            found.append(byte % 6 + 1)
        else:
            rejected.append([block, offset, byte])
    return [found[i : i + 2] for i in range(0, 2 * number, 2)], rejected


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    seed = record.text("seed", 1)
    if record.has("games") == record.has("rolls"):
        raise FormatError(Code.RECORD, "a record has either rolls or games")
    stated: list[tuple[str, list[int]]] = []
    if record.has("games"):
        for game, item in enumerate(record.records("games", MAX_ROLLS), 1):
            listed = item.rolls("rolls", 2, MAX_ROLLS)
            stated += [(f"game {game} roll {i} (roll {len(stated) + i})", roll) for i, roll in enumerate(listed, 1)]
    else:
        stated = [(f"roll {i}", roll) for i, roll in enumerate(record.rolls("rolls", 2, MAX_ROLLS), 1)]
    if len(stated) > MAX_ROLLS:
        raise FormatError(Code.RECORD, f"a seed gives at most {MAX_ROLLS} rolls")
    rows = []
    if record.has("fingerprint"):
        rows.append(Row("fingerprint", fingerprint(seed).hex(), record.hex("fingerprint", 32).hex()))
    expected, _rejected = rolls(seed, len(stated))
    return rows + [Row(what, roll, found) for roll, (what, found) in zip(expected, stated, strict=True)]


SYSTEM: Final = System(
    name="cube",
    title="CUBE Backgammon, sha256-rejection-v1",
    about="One seed for a whole match. Its SHA-256 is shown before play, the seed afterwards.",
    record=(
        "seed          text, hashed as its exact UTF-8 bytes (a line end at its end counts)",
        "fingerprint?  SHA-256 of the seed, 64 hex digits, as it was shown before play",
        "rolls         [[die, die], ...] from the seed's first roll on, at most 4,096; or instead of it",
        'games         [{"rolls": [[die, die], ...]}, ...] in order: each goes on where the one before ended',
    ),
    proves="these are the seed's first rolls, in order and none left out, and the fingerprint is the seed's",
    does_not_prove=(
        "that the fingerprint was shown before play: keep your own copy of what you were shown",
        "that the seed was picked blindly: whoever picks it can try as many seeds as it likes and keep a lucky one",
        "that nobody knew the rolls during play: whoever holds the seed knows all of them",
        "that the game used these rolls, and where it began, unless your own notes of the game say the same",
    ),
    example=(
        '{"seed":"cube-dice-example","fingerprint":"cf29dd9f3513b834311bbc5e1ca1029730bd9f02fc3af98b82697754e5bfb84a",'
        '"rolls":[[1,4],[4,4],[4,3],[3,3],[3,2],[6,6],[5,5],[1,1]]}'
    ),
    run=_run,
)
