"""The commit-reveal scheme of the monograph: a hash commitment, and dice from an HMAC.

    commitment = SHA-256(server seed | match id | nonce)          raw concatenation of bytes and UTF-8 texts
    entropy    = HMAC-SHA256(key = server seed, "<client seed>:<match id>:<k>")     k = 1, 2, 3 ... in decimal
    dice       = the first two 4-byte big-endian numbers of the entropy, each mod 6, plus 1

Source: the monograph on commit-reveal dice. k starts at 1 in its text; `first` 0 is refused unless the option says that
the operator counts from 0. Nothing separates the parts of the commitment: it opens to other matches too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from verifier.systems.mapping import faces
from verifier.systems.record import Option, Record, Row, System, roll_rows


def commitment(server_seed: bytes, match_id: str, nonce: str) -> bytes:
    """32 bytes."""
    return hashlib.sha256(server_seed + match_id.encode("utf-8") + nonce.encode("utf-8")).digest()


def message(client_seed: str, match_id: str, k: int) -> str:
    return f"{client_seed}:{match_id}:{k}"


def entropy(server_seed: bytes, key: str, text: str) -> bytes:
    """32 bytes of roll k; key: raw, or text for the UTF-8 text of the seed's hex."""
    return hmac.digest(server_seed if key == "raw" else server_seed.hex().encode(), text.encode("utf-8"), "sha256")


def _run(record: Record, reading: Mapping[str, str]) -> list[Row]:
    seed, client, match = record.hex("server_seed"), record.text("client_seed"), record.text("match_id")
    first = record.integer("first", int(reading["count-from"])) if record.has("first") else int(reading["count-from"])
    rows = []
    if record.has("commitment"):
        expected = commitment(seed, match, record.text("nonce"))
        rows.append(Row("commitment", expected.hex(), record.hex("commitment", 32).hex()))

    def roll(k: int) -> list[int]:
        return faces(entropy(seed, reading["key"], message(client, match, k)), 2, "u32")

    return rows + roll_rows(record.rolls("rolls"), roll, first)


SYSTEM: Final = System(
    name="commit-reveal",
    title="commit-reveal with HMAC u32 dice (monograph)",
    about="SHA-256(seed | match | nonce) is shown before play; a roll is an HMAC of client seed, match and number.",
    record=(
        "server_seed  the revealed seed, hex",
        "client_seed  text",
        "match_id     text",
        "commitment?  64 hex digits, as it was shown before play; needs",
        "nonce        the commitment's nonce, text",
        "first?       the number k of the first roll listed; default 1",
        "rolls        [[die, die], ...] of consecutive numbers",
    ),
    proves="these rolls come from the seeds, the match and consecutive numbers, and the commitment opens to the seed",
    does_not_prove=(
        "that the commitment was shown before the client seed was known: keep your own copy of what you were shown",
        "that it was a commitment to this match alone: without lengths between its parts it opens to other matches too",
        "that the server seed was picked blindly, or that nobody knew the rolls during play",
        "that every roll was used: check that your game's rolls are these, in order, without gaps",
        "that the dice are exactly even: a u32 mod 6 favours 1 to 4 by about one part in 700 million",
    ),
    example=(
        '{"server_seed":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        '"client_seed":"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f","match_id":"match-1",'
        '"rolls":[[5,5],[2,5],[2,4]]}'
    ),
    options=(
        Option("key", "raw", "the HMAC's key: the seed's bytes, or the text of its hex", ("raw", "text")),
        Option("count-from", "1", "the lowest number that k may have", ("1", "0")),
    ),
    run=_run,
)
