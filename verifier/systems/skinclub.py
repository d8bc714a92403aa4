"""skin.club rolls, 1 to 100,000.

    mac         = HMAC-SHA512(key = "<client seed>-<nonce>", message = server seed, or a battle's beacon)
    roll        = (the first 15 hex digits of the mac as an integer) mod 100,000 + 1
    public hash = HMAC-SHA256(key = secret salt, message = server seed)          all are texts in UTF-8

Source: skinclub-tech/provably-fair-validator. The integer has 60 bits: read as a double, as JavaScript would, it gives
another roll.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from verifier.errors import Code, FormatError
from verifier.systems.record import Record, Row, System

SIDES: Final = 100_000


def number(seed: str, client_seed: str, nonce: int) -> int:
    """The 60-bit number of a roll."""
    mac = hmac.digest(f"{client_seed}-{nonce}".encode(), seed.encode("utf-8"), "sha512")
    return int.from_bytes(mac[:8], "big") >> 4


def roll(seed: str, client_seed: str, nonce: int) -> int:
    return number(seed, client_seed, nonce) % SIDES + 1


def public_hash(server_seed: str, salt: str) -> bytes:
    """32 bytes."""
    return hmac.digest(salt.encode("utf-8"), server_seed.encode("utf-8"), "sha256")


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    if record.has("server_seed") == record.has("beacon"):
        raise FormatError(Code.RECORD, "a record has either server_seed or beacon")
    seed = record.text("server_seed" if record.has("server_seed") else "beacon", 1)
    client = record.text("client_seed", 1)
    rows = []
    if record.has("public_hash"):
        expected = public_hash(seed, record.text("secret_salt", 1)).hex()
        rows.append(Row("public_hash", expected, record.hex("public_hash", 32).hex()))
    for item in record.records("rolls"):
        nonce = item.integer("nonce")
        rows.append(Row(f"nonce {nonce}", roll(seed, client, nonce), item.integer("roll", 1, SIDES)))
    return rows


SYSTEM: Final = System(
    name="skinclub",
    title="skin.club rolls",
    about="A server seed with a public salted hash (or a battle's beacon), client seed and nonce give 1 to 100,000.",
    record=(
        "server_seed   text; or instead of it",
        "beacon        text: what a battle uses in its place",
        "public_hash?  64 hex digits, as it was shown before play; needs",
        "secret_salt   text",
        "client_seed   text",
        'rolls         [{"nonce": 4, "roll": 21752}, ...]',
    ),
    proves="these rolls come from the seeds and the nonces stated, and the public hash opens to the seed",
    does_not_prove=(
        "that the hash was shown before you chose the client seed: keep your own copy of it",
        "that the server seed was picked blindly; of a battle's beacon, who made it and when it was known",
        "that no roll was left out: check that your own list has every nonce",
    ),
    example=(
        '{"server_seed":"c4ca4238a0b92382","secret_salt":"0dcc509a6f75849b",'
        '"public_hash":"dc883b29588c1204fcad00984aaa2404c2251f9a0e5300106eb39aaebcc0f493",'
        '"client_seed":"my_seed","rolls":[{"nonce":4,"roll":21752}]}'
    ),
    run=_run,
)
