"""The chain of bustabit: games come from a hash chain that is played backwards.

    hash of the game before = SHA-256(hash of a game)           one chain; its end was published before the first game
    r    = the first 52 bits of HMAC-SHA256(key = salt as text, message = the game's 32 bytes)
    bust = max(1, floor(99 / (1 - r / 2**52)) / 100)

Source: bustabit's published verifiers. The chain of 2025 hashes the 32 bytes, earlier ones the text of the hex.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from verifier.systems.mapping import hundredths
from verifier.systems.record import Option, Record, Row, System

BITS: Final = 52


def earlier(game: bytes, hashing: str = "bytes") -> bytes:
    """The hash of the game that was played before; hashing: bytes, or text for the hex's."""
    return hashlib.sha256(game if hashing == "bytes" else game.hex().encode()).digest()


def bust(salt: str, game: bytes) -> int:
    """The bust of a game in hundredths, computed exactly; game: 32 bytes."""
    mac = hmac.digest(salt.encode("utf-8"), game, "sha256")
    r = int.from_bytes(mac[:7], "big") >> 4
    span = 1 << BITS
    return max(100, 99 * span // (span - r))


def _run(record: Record, reading: Mapping[str, str]) -> list[Row]:
    salt = record.text("salt")
    rows = []
    before: bytes | None = None
    for number, item in enumerate(record.records("games"), 1):
        game = item.hex("hash", 32)
        if before is not None:
            rows.append(Row(f"hash of game {number}", earlier(before, reading["hashing"]).hex(), game.hex()))
        rows.append(Row(f"bust of game {number}", hundredths(bust(salt, game)), hundredths(item.hundredths("bust"))))
        before = game
    if record.has("end") and before is not None:
        end, steps = before, record.integer("steps_to_end", 0, 1_000_000)
        for _ in range(steps):
            end = earlier(end, reading["hashing"])
        rows.append(Row("end of the chain", end.hex(), record.hex("end", 32).hex()))
    return rows


SYSTEM: Final = System(
    name="bustabit",
    title="bustabit, a hash chain played backwards",
    about="Every game's hash is the SHA-256 of the next game's, so that the chain's end fixes every game.",
    record=(
        "salt           text: the block hash that was fixed after the chain's end was published",
        'games          [{"hash": 64 hex digits, "bust": "1.46"}, ...] newest first, none left out',
        "end?           the published end of the chain, 64 hex digits; needs",
        "steps_to_end   how many hashes lead from the last game listed to it, at most 1,000,000",
    ),
    proves="the games are links of one chain in order, and each bust is what its hash and the salt give",
    does_not_prove=(
        "that the chain was fixed before the salt existed: look up when its end was published, and the block",
        "that the chain is the one that was published, unless the record leads to its end",
        "that nobody knew the busts: whoever holds the chain's start knows every game of years to come",
    ),
    example=(
        '{"salt":"00000000000000000001e08b7fd44f95e3e950ac65650a8031a6d5e1750e34be","games":['
        '{"hash":"4488d92d89d0ed7fbb2ea23b219d569f63207e32fc44b957858838835c1719f1","bust":"1.46"},'
        '{"hash":"1f497e8ba3a58b87976a9207a4596c2e00c11494237127f22d0f57785fcadd23","bust":"5.56"}]}'
    ),
    options=(
        Option(
            "hashing", "bytes", "a link is the SHA-256 of the 32 bytes, or of the text of their hex", ("bytes", "text")
        ),
    ),
    run=_run,
)
