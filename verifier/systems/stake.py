"""Stake-style floats: numbers from HMAC-SHA256 over client seed, nonce and a cursor.

    block_j = HMAC-SHA256(key = server seed as text, "<client seed>:<nonce>:<j>")     j = 0, 1, 2 ..., 32 bytes each
    u       = the next 4 bytes of block_0 | block_1 | ..., big-endian
    float   = u / 2**32, computed exactly
    dice    = floor(float * 10,001) / 100, 0.00 to 100.00;     integers of a range n = floor(float * n)

Source: the casino's published implementation. The key is the UTF-8 text of the hex seed, not its bytes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from verifier.errors import Code, FormatError
from verifier.systems.mapping import hundredths
from verifier.systems.record import Option, Record, Row, System

MAX_NUMBERS: Final = 1000


def numbers(server_seed: str, client_seed: str, nonce: int, count: int) -> list[int]:
    """The first `count` u of one bet, 0 to 2**32 - 1 each."""
    key, found = server_seed.encode("utf-8"), b""
    for cursor in range((count + 7) // 8):
        found += hmac.digest(key, f"{client_seed}:{nonce}:{cursor}".encode(), "sha256")
    return [int.from_bytes(found[i : i + 4], "big") for i in range(0, 4 * count, 4)]


def scaled(u: int, n: int) -> int:
    """floor(u / 2**32 * n)."""
    return u * n >> 32


def _row(item: Record, seeds: tuple[str, str], reading: Mapping[str, str]) -> Row:
    nonce, game = item.integer("nonce"), reading["game"]
    what = f"nonce {nonce}"
    if game == "dice":
        expected = hundredths(scaled(numbers(*seeds, nonce, 1)[0], 10_001))
        return Row(what, expected, hundredths(item.hundredths("result")))
    n = _range(reading["range"]) if game == "integers" else 2**32
    stated = item.integers("result", 0, n - 1, MAX_NUMBERS)
    found = [scaled(u, n) for u in numbers(*seeds, nonce, len(stated))]
    return Row(what, found, stated)


def _range(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= 2**32):
        raise FormatError(Code.OPTION, "range is a number from 1 to 4294967296")
    return int(text)


def _run(record: Record, reading: Mapping[str, str]) -> list[Row]:
    server, client = record.text("server_seed", 1), record.text("client_seed")
    rows = []
    if record.has("server_seed_hash"):
        expected = hashlib.sha256(server.encode("utf-8")).hexdigest()
        rows.append(Row("server_seed_hash", expected, record.hex("server_seed_hash", 32).hex()))
    return rows + [_row(item, (server, client), reading) for item in record.records("bets")]


SYSTEM: Final = System(
    name="stake",
    title="Stake-style floats",
    about="A hashed server seed, a client seed and a nonce for each bet give floats, and these the results.",
    record=(
        "server_seed        the revealed seed, as the text that it is shown as",
        "server_seed_hash?  SHA-256 of that text, 64 hex digits, as it was shown before play",
        "client_seed        text",
        'bets               [{"nonce": 20, "result": "93.08"}, ...]; by --game: dice, a decimal string;',
        "                   integers, [number, ...] of 0 to range-1 each; floats, [u, ...] where the float is u / 2^32",
    ),
    proves="these results come from the seeds and the nonces stated",
    does_not_prove=(
        "that the hash was shown before you chose the client seed: keep your own copy of it",
        "that the server seed was picked blindly: a client seed that never changes can be tried out in advance",
        "that no bet was left out: check that your own list of bets has every nonce from the first one on",
        "that the payout is fair",
    ),
    example=(
        '{"server_seed":"735249f062ac025044a8523aa92e034803f02d6b75129abc97e8b1be19aab9b4",'
        '"client_seed":"ec75fca98de6f2d9","bets":[{"nonce":20,"result":"93.08"},{"nonce":21,"result":"0.61"}]}'
    ),
    options=(
        Option("game", "dice", "what a result is", ("dice", "integers", "floats")),
        Option("range", "6", "for integers: how many there are (6 for a die from 0 to 5), 1 to 4294967296"),
    ),
    run=_run,
)
