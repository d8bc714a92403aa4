"""hubx draws from a block hash.

    value = SHA-256(block hash | nonce)          both as text, joined without a separator
    index = value as a 256-bit big-endian number, mod the number of participants

Source: proven-fairness page of docs.hubx.buzz, which calls it an HMAC_SHA256; only plain SHA-256 of the
text reproduces its own number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from verifier.systems.record import Record, Row, System


def value(block_hash: str, nonce: str) -> bytes:
    """32 bytes."""
    return hashlib.sha256(f"{block_hash}{nonce}".encode()).digest()


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    found = value(record.text("block_hash", 1), record.text("nonce"))
    rows = [Row("value", found.hex(), record.hex("value", 32).hex())] if record.has("value") else []
    count = record.integer("participants", 1)
    return [*rows, Row("index", int.from_bytes(found, "big") % count, record.integer("index"))]


SYSTEM: Final = System(
    name="hubx",
    title="hubx draws from a block hash",
    about="The hash of a block that was not mined yet, and a nonce, pick one of the participants.",
    record=(
        "block_hash    text, as the chain's explorers show it",
        "nonce         text",
        "participants  how many there are",
        "value?        64 hex digits",
        "index         the winner's place, from 0",
    ),
    proves="this block hash and nonce give this index",
    does_not_prove=(
        "that block and nonce were named before the block was mined",
        "that the block is the chain's, and that its miner had no part in the draw (a miner can throw a block away)",
        "that the participants and their order were fixed before",
    ),
    example='{"block_hash":"000000000000000000016cfef8587a1d2f57ff573fb682e0e05253379d42384d","nonce":"1","participants":10,"index":8}',
    run=_run,
)
