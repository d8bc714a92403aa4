"""freebitco.in rolls, 0 to 10,000.

    mac  = HMAC-SHA512(key = "<nonce>:<client seed>:<nonce>", message = "<nonce>:<server seed>:<nonce>")
    roll = round(u / 429496.7295)          u: the first 4 bytes of the mac, big-endian; halves up

Source: README of monk-afk/freebitco.in_roll-calculator. 0 and 10,000 have half the weight of every other roll.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from verifier.systems.record import Record, Row, System

DIVISOR: Final = (4294967295, 10_000)


def mac(server_seed: str, client_seed: str, nonce: int) -> bytes:
    """64 bytes."""
    return hmac.digest(f"{nonce}:{client_seed}:{nonce}".encode(), f"{nonce}:{server_seed}:{nonce}".encode(), "sha512")


def rounded(u: int, numerator: int = DIVISOR[0], denominator: int = DIVISOR[1]) -> int:
    """round(u / (numerator / denominator)), computed exactly, halves up."""
    return (2 * u * denominator + numerator) // (2 * numerator)


def roll(server_seed: str, client_seed: str, nonce: int) -> int:
    return rounded(int.from_bytes(mac(server_seed, client_seed, nonce)[:4], "big"))


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    server, client = record.text("server_seed", 1), record.text("client_seed")
    rows = []
    if record.has("server_seed_hash"):
        expected = hashlib.sha256(server.encode("utf-8")).hexdigest()
        rows.append(Row("server_seed_hash", expected, record.hex("server_seed_hash", 32).hex()))
    for item in record.records("rolls"):
        nonce = item.integer("nonce")
        rows.append(Row(f"nonce {nonce}", roll(server, client, nonce), item.integer("roll", 0, 10_000)))
    return rows


SYSTEM: Final = System(
    name="freebitco",
    title="freebitco.in rolls",
    about="A hashed server seed, a client seed and a nonce give a roll of 0 to 10,000.",
    record=(
        "server_seed        text",
        "server_seed_hash?  SHA-256 of that text, 64 hex digits, as it was shown before play",
        "client_seed        text",
        'rolls              [{"nonce": 1, "roll": 8009}, ...]',
    ),
    proves="these rolls come from the seeds and the nonces stated",
    does_not_prove=(
        "that the hash was shown before you chose the client seed: keep your own copy of it",
        "that the server seed was picked blindly",
        "that no roll was left out: check that your own list has every nonce",
        "that every roll is as likely as another: rounding gives 0 and 10,000 half the weight",
    ),
    example='{"server_seed":"monk","client_seed":"knom","rolls":[{"nonce":123456,"roll":8009}]}',
    run=_run,
)
