"""blockrand seeds: two committed secrets and a drand signature.

    player hash = SHA-256(player secret)          server hash = SHA-256(server secret)          texts, as they are shown
    final seed  = SHA-256("<player secret>:<server secret>:<drand signature>")                  the signature's hex text
    randomness  = SHA-256(drand signature's bytes)

Source: README of blockrand-api/blockrand-js.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from verifier.systems.record import Record, Row, System


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def final_seed(player_secret: str, server_secret: str, signature: bytes) -> str:
    """64 hex digits; signature: the bytes of the drand signature."""
    return text_hash(f"{player_secret}:{server_secret}:{signature.hex()}")


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    player, server = record.text("player_secret", 1), record.text("server_secret", 1)
    signature = record.hex("drand_signature")
    expected = {
        "player_hash": text_hash(player),
        "server_hash": text_hash(server),
        "drand_randomness": hashlib.sha256(signature).hexdigest(),
        "final_seed": final_seed(player, server, signature),
    }
    needed = {"final_seed"}
    return [
        Row(name, value, record.hex(name, 32).hex())
        for name, value in expected.items()
        if name in needed or record.has(name)
    ]


SYSTEM: Final = System(
    name="blockrand",
    title="blockrand seeds, two secrets and a drand signature",
    about="Player and server commit to secrets; the signature of a later drand round is mixed in.",
    record=(
        "player_secret      text",
        "player_hash?       64 hex digits, as it was sent before the round",
        "server_secret      text",
        "server_hash?       64 hex digits, as it was shown before the round",
        "drand_signature    hex",
        "drand_randomness?  64 hex digits",
        "final_seed         64 hex digits",
    ),
    proves="the hashes are the secrets', and the final seed is made of them and of the signature",
    does_not_prove=(
        "that the signature is drand's, and of the round that was named: `verifier round` checks it",
        "that the hashes were exchanged before that round existed: keep your own copies",
        "that a bad result was not left unrevealed, or played again",
        "what the game made of the final seed",
    ),
    example=(
        '{"player_secret":"4ff22997cf92c988a03671b30e328609","server_secret":"59ac68b9edb32cd2e803db14347078ae",'
        '"drand_signature":"8c66e08556093ef6783306c080caadb0c4cf430d1cceda64a947db99322fe9faa5efd24f25c44728e1f7700337c1e71b",'
        '"final_seed":"1f01a0debbfa763ce978d799d652e0602158babd7023c5ec7de21cc06221615c"}'
    ),
    run=_run,
)
