"""Boardgammon: for each roll a commitment, a nonce and the client's entropy, put into a message template.

    commitment = SHA-256(server seed)                    one a roll, shown before the client's entropy is sent
    mac        = HMAC(key = server seed, message)        message: the template with its placeholders filled in
    dice       = from the mac, first two

Source: Boardgammon's article. It fixes neither template, key, hash nor the step to dice: each is an option here, and
the answer says which reading was used. Receipts are what you kept: the entropy you sent, the
commitment you saw.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from verifier.errors import Code, FormatError
from verifier.systems.mapping import DICE, faces
from verifier.systems.record import Option, Record, Row, System

PLACEHOLDERS: Final = ("client_entropy", "nonce", "commitment", "game")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class _Roll:
    nonce: int
    seed: bytes
    commitment: str
    entropy: str
    dice: Sequence[int]

    @property
    def what(self) -> str:
        return f"nonce {self.nonce}"


def message(template: str, values: Mapping[str, str]) -> bytes:
    """The template with every {placeholder} filled in once. Raises FormatError(OPTION) for one that is unknown."""
    unknown = sorted(set(_PLACEHOLDER.findall(template)) - set(PLACEHOLDERS))
    if unknown or "{" in _PLACEHOLDER.sub("", template) or "}" in _PLACEHOLDER.sub("", template):
        raise FormatError(Code.OPTION, f"template: its placeholders are {{{'}, {'.join(PLACEHOLDERS)}}}")
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template).encode("utf-8")


def _roll(item: Record) -> _Roll:
    return _Roll(
        item.integer("nonce"),
        item.hex("server_seed"),
        item.hex("commitment", 32).hex(),
        item.text("client_entropy"),
        item.roll("dice"),
    )


def _roll_rows(roll: _Roll, game: str, reading: Mapping[str, str]) -> list[Row]:
    key = roll.seed.hex().encode() if reading["key"] == "text" else roll.seed
    values = {
        "client_entropy": roll.entropy,
        "nonce": str(roll.nonce),
        "commitment": roll.commitment,
        "game": game,
    }
    mac = hmac.new(key, message(reading["template"], values), reading["hash"]).digest()
    return [
        Row(f"commitment of {roll.what}", hashlib.sha256(key).hexdigest(), roll.commitment),
        Row(f"dice of {roll.what}", faces(mac, 2, reading["dice"]), list(roll.dice)),
    ]


def _receipt_rows(receipts: Sequence[Record], rolls: Mapping[int, _Roll]) -> list[Row]:
    rows = []
    for receipt in receipts:
        nonce, entropy = receipt.integer("nonce"), receipt.text("client_entropy")
        roll = rolls.get(nonce)
        rows.append(Row(f"entropy of nonce {nonce} against your receipt", entropy, roll.entropy if roll else None))
        if receipt.has("commitment"):
            kept = receipt.hex("commitment", 32).hex()
            shown = roll.commitment if roll else None
            rows.append(Row(f"commitment of nonce {nonce} against your receipt", kept, shown))
    return rows


def _run(record: Record, reading: Mapping[str, str]) -> list[Row]:
    game = record.text("game") if record.has("game") else ""
    first = record.integer("first") if record.has("first") else 1
    rolls = [_roll(item) for item in record.records("rolls")]
    rows = []
    for i, roll in enumerate(rolls):
        due = rolls[i - 1].nonce + 1 if i else first
        rows.append(Row(f"nonce of roll {i + 1}", due, roll.nonce))
        rows += _roll_rows(roll, game, reading)
    seen: dict[str, int] = {}
    for i, roll in enumerate(rolls, 1):
        earlier = seen.setdefault(roll.commitment, i)
        if earlier != i:
            rows.append(Row(f"commitment of roll {i}", "one of its own", f"that of roll {earlier}"))
    if record.has("receipts"):
        rows += _receipt_rows(record.records("receipts"), {roll.nonce: roll for roll in rolls})
    return rows


SYSTEM: Final = System(
    name="boardgammon",
    title="Boardgammon, a commitment and client entropy for each roll",
    about="Each roll has a seed, committed to before the client's entropy is sent, and a nonce that counts the rolls.",
    record=(
        "game?      text that the template may name",
        "first?     the nonce that the first roll must have; default 1",
        'rolls      [{"nonce": 1, "commitment": 64 hex digits, "server_seed": hex, "client_entropy": text,',
        '           "dice": [die, die]}, ...] in order of play: nonces follow each other, no commitment twice',
        'receipts?  [{"nonce": 1, "client_entropy": text, "commitment"?: 64 hex digits}, ...]: what you kept yourself',
    ),
    proves="under this reading, each roll comes from its committed seed and the entropy stated; nonces have no gap",
    does_not_prove=(
        "that this reading (template, key, hash, dice) is the operator's: the answer names the one used",
        "that a commitment was shown before the entropy was sent, unless your receipt says so",
        "that the entropy is the client's own, for the rolls without a receipt",
        "that a roll whose seed would have been revealed to the operator's harm was not left out at the record's end",
        "that the operator did not pick the nonce or the seed after it knew the entropy",
    ),
    example=(
        '{"rolls":[{"nonce":1,"commitment":"630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd",'
        '"server_seed":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        '"client_entropy":"my own words","dice":[4,6]}],"receipts":[{"nonce":1,"client_entropy":"my own words"}]}'
    ),
    options=(
        Option(
            "template",
            "{client_entropy}:{nonce}",
            "the message; {client_entropy} {nonce} {commitment} {game} stand in it",
        ),
        Option("hash", "sha256", "the HMAC's hash", ("sha256", "sha512")),
        Option("key", "bytes", "key and commitment: over the seed's bytes, or the text of its hex", ("bytes", "text")),
        Option("dice", "bytes", "from mac to dice: bytes below 252 mod 6, or 4-byte numbers mod 6", DICE),
    ),
    run=_run,
)
