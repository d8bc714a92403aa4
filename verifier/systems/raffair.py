"""raffair.co.uk draws: a committed seed mixed with a drand round.

    commitment = SHA-256(seed)                                              seed: bytes
    list hash  = SHA-256("1,2,3,...")                                       the ticket numbers, joined by commas
    mixed      = SHA-256(seed | randomness | "prize-<i>" | list hash)       bytes; prizes are counted from 0
    winner     = tickets[mixed as a 256-bit big-endian number, mod their count]

Source: a draw's verify page of raffair.co.uk, which does not say bytes or hex: bytes reproduce it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from verifier.systems.record import Record, Row, System


def list_hash(tickets: Sequence[int]) -> bytes:
    """32 bytes."""
    return hashlib.sha256(",".join(map(str, tickets)).encode()).digest()


def mixed(seed: bytes, randomness: bytes, prize: int, listed: bytes) -> bytes:
    """32 bytes; randomness: the round's, listed: the list hash, 32 bytes each."""
    return hashlib.sha256(seed + randomness + f"prize-{prize}".encode() + listed).digest()


def index(value: bytes, count: int) -> int:
    return int.from_bytes(value, "big") % count


def _run(record: Record, _: Mapping[str, str]) -> list[Row]:
    seed, randomness = record.hex("seed"), record.hex("drand_randomness", 32)
    tickets = record.integers("tickets", 0, 2**53 - 1, 1_000_000)
    listed = list_hash(tickets)
    rows = []
    if record.has("commitment"):
        rows.append(Row("commitment", hashlib.sha256(seed).hexdigest(), record.hex("commitment", 32).hex()))
    if record.has("ticket_list_hash"):
        rows.append(Row("ticket_list_hash", listed.hex(), record.hex("ticket_list_hash", 32).hex()))
    for prize, winner in enumerate(record.integers("winners", 0, 2**53 - 1)):
        place = index(mixed(seed, randomness, prize, listed), len(tickets))
        rows.append(Row(f"winner of prize {prize}", tickets[place], winner))
    return rows


SYSTEM: Final = System(
    name="raffair",
    title="raffair draws, a committed seed and a drand round",
    about="A seed that was committed to is mixed with a drand round and the hash of the ticket list.",
    record=(
        "seed               the revealed seed, hex",
        "commitment?        SHA-256 of it, 64 hex digits, as it was shown before the round",
        "drand_randomness   64 hex digits",
        "tickets            [number, ...] in the published order",
        "ticket_list_hash?  64 hex digits",
        "winners            [number, ...]: the winning ticket of prize 0, 1, 2 ..., all from the whole list",
    ),
    proves="these tickets win under this seed, randomness and list",
    does_not_prove=(
        "that seed and list were fixed before the round: keep your own copy of commitment and list hash",
        "that the randomness is drand's, and of the round that was named in advance: `verifier round` checks a round",
        "that draws with other seeds or rounds were not made and thrown away",
        "how several prizes are drawn: only a first prize is published, and here each is drawn from the whole list",
    ),
    example=(
        '{"seed":"9bae06392e1c49593f744bb8b27473a25cf641b946aae1fbbc21285e68cc3a06",'
        '"drand_randomness":"2ea72654b10d6ce1f24de6d7871bbcf9b35575997eb25f870b435adf2dab31bc",'
        '"tickets":[1,2,3,4,5],"winners":[4]}'
    ),
    run=_run,
)
