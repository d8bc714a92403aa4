"""One-time codes of draft-thomson-elegy-vrs: a hash chain published from its end.

    H^n(secret) = SHA-256 applied n times;     the codes H^n, H^(n-1), ... are published one after another

Source: draft-thomson-elegy-vrs. A code is good when it hashes to the one that was published before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from verifier.systems.record import Record, Row, System

MAX_POWER: Final = 1_000_000


def power(secret: bytes, n: int) -> bytes:
    """H^n of a secret of any length, n >= 1: 32 bytes."""
    for _ in range(n):
        secret = hashlib.sha256(secret).digest()
    return secret


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    codes = record.items("codes")
    listed = [Record({"code": code}, f"codes[{i}]").hex("code", 32) for i, code in enumerate(codes)]
    steps = pairwise(listed)
    rows = [Row(f"code {i} hashed", before.hex(), power(code, 1).hex()) for i, (before, code) in enumerate(steps, 2)]
    if record.has("secret"):
        secret, n = record.text("secret", 1), record.integer("power", 1, MAX_POWER)
        rows.append(Row(f"code {len(listed)}", power(secret.encode("utf-8"), n).hex(), listed[-1].hex()))
    if not rows:
        raise record.refuse("codes", "at least two codes, or one and the secret")
    return rows


SYSTEM: Final = System(
    name="one-time-codes",
    title="one-time codes of draft-thomson-elegy-vrs",
    about="Codes of a hash chain, published from its end: each hashes to the one before.",
    record=(
        "codes    [64 hex digits, ...] in the order in which they were published, none left out",
        "secret?  text: what the chain was made of; needs",
        "power    how often it is hashed for the last code listed, at most 1,000,000",
    ),
    proves="the codes are consecutive links of one chain",
    does_not_prove=(
        "that the first code was published before anything depended on the later ones",
        "that the secret was picked blindly, or who else knows it",
        "what was made of the codes",
    ),
    example=(
        '{"codes":["950ea08d8d5fd3ae415b9967aba7a48aba39ca62a4d98f2e7fe25cb1b8f8c488",'
        '"5346f2efb5397a6788fc1f1d9c05c6d3f2abe9b7d16d8592a3695b6dbe9f2456"],'
        '"secret":"totally not a bikeshed","power":9}'
    ),
    run=_run,
)
