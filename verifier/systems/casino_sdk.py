"""The chain casino SDK: bytes32 to dice by Keccak-256, and uniform numbers of any range.

    word = bytes32, index = 0
    a number of 0 .. n-1: take w bytes at index, big-endian, as x; reject x >= floor(256**w / n) * n; it is x mod n
    a die is a number of 0 .. 5 from one byte, plus 1: bytes 252 to 255 are rejected
    too few bytes left: word = Keccak-256(word), index = 0; both carry over from number to number

Source: the SDK's unbiased d6 (dice, limit and rehash are published). For larger ranges it leaves open how many bytes
are taken, and what becomes of a rest that is too short: here `width` says the first, and the rest is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from verifier.errors import Code, FormatError
from verifier.keccak import WORD_BYTES, KeccakDice
from verifier.seeds import rejection_limit
from verifier.systems.record import Option, Record, Row, System

MAX_DRAWS: Final = 10_000


def uniform(source: KeccakDice, n: int, width: int | None = None) -> int:
    """A number of 0 .. n-1, 1 <= n <= 256**width; width: bytes a try, 1 to 32, by default the fewest that hold n."""
    width = width if width is not None else max(1, ((n - 1).bit_length() + 7) // 8)
    limit = rejection_limit(width, n)
    while True:
        x = source.take(width)
        if x < limit:
            return x % n


def _run(record: Record, reading: Mapping[str, str]) -> list[Row]:
    source = KeccakDice(record.hex("word", WORD_BYTES), record.integer("index", 0, 32) if record.has("index") else 0)
    if record.has("rolls") == record.has("uniform"):
        raise FormatError(Code.RECORD, "a record has either rolls or uniform")
    rows = []
    if record.has("rolls"):
        for number, roll in enumerate(record.rolls("rolls", None, MAX_DRAWS), 1):
            rows.append(Row(f"roll {number}", [source.roll() for _ in roll], list(roll)))
    else:
        width = None if reading["width"] == "fewest" else int(reading["width"])
        for number, item in enumerate(record.records("uniform", MAX_DRAWS), 1):
            n = item.integer("n", 1)
            if width is not None and n > 256**width:
                raise item.refuse("n", f"above 256^{width}, which --width allows")
            rows.append(Row(f"number {number} below {n}", uniform(source, n, width), item.integer("value")))
    if record.has("after"):
        after = Record(record.get("after"), "after")
        rows.append(Row("word afterwards", source.word.hex(), after.hex("word", WORD_BYTES).hex()))
        rows.append(Row("index afterwards", source.index, after.integer("index", 0, 32)))
        after.done()
    return rows


SYSTEM: Final = System(
    name="casino-sdk",
    title="chain casino SDK, bytes32 to dice by Keccak-256",
    about="One random word becomes dice. KeccakDice.sol and keccak-dice.ts of this project do the same.",
    record=(
        "word    the random word, 64 hex digits (bytes32; another length is refused)",
        "index?  how many of its bytes were used before, 0 to 32; default 0",
        "rolls   [[die, ...], ...] in order, any number of dice in each; or instead of it",
        'uniform [{"n": 52, "value": 17}, ...] in order: numbers of 0 to n-1',
        'after?  {"word": 64 hex digits, "index": 0 to 32}: the state that the contract kept',
    ),
    proves="these numbers, in this order, are what the word gives",
    does_not_prove=(
        "where the word came from: look it up on the chain, and what could be known of it when the bets were taken",
        "that the word was not asked for again until it was a good one, or a request left unfinished",
        "that the game used these numbers, in this order, and none before them",
    ),
    example=(
        '{"word":"fcfdfefffb000000000000000000000000000000000000000000000000000000","rolls":[[6,1]],'
        '"after":{"word":"fcfdfefffb000000000000000000000000000000000000000000000000000000","index":6}}'
    ),
    options=(
        Option(
            "width",
            "fewest",
            "bytes a try for `uniform`: the fewest that hold n, or always so many",
            ("fewest", *map(str, range(1, WORD_BYTES + 1))),
        ),
    ),
    run=_run,
)
