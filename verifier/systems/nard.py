"""Nard: dice of HMAC(seed, length-prefixed binding | number).

    commitment = SHA-256(seed)
    message    = LP(binding_1) | LP(binding_2) | ... | number          LP(x) = length of x in UTF-8 bytes, then x
    mac        = HMAC(key = seed, message)                             one a roll
    dice       = from the mac, first two

The published page leaves the widths, the byte order, the order of the parts and the step from mac to dice open. Each is
an option here, and the answer says which reading was used; try another before you say that a record is false.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from verifier.errors import Code, FormatError
from verifier.systems.mapping import DICE, faces
from verifier.systems.record import Option, Record, Row, System, roll_rows

ENDIAN: Final[Mapping[str, Literal["big", "little"]]] = {"big": "big", "little": "little"}


def message(binding: Sequence[str], number: int, reading: Mapping[str, str]) -> bytes:
    """The bytes under the HMAC. Raises FormatError(RECORD) where a length or the number does not fit its width."""
    endian = ENDIAN[reading["byte-order"]]
    parts = [part.encode("utf-8") for part in binding]
    prefixed = b"".join(_number(len(part), reading["length-bytes"], endian, "a length") + part for part in parts)
    counted = _number(number, reading["number-bytes"], endian, "a number")
    return counted + prefixed if reading["order"] == "number-first" else prefixed + counted


def _number(value: int, width: str, endian: Literal["big", "little"], what: str) -> bytes:
    if width == "decimal":
        return str(value).encode()
    try:
        return value.to_bytes(int(width), endian)
    except OverflowError as error:
        raise FormatError(Code.RECORD, f"{what} of {value} does not fit into {width} bytes") from error


def _run(record: Record, reading: Mapping[str, str]) -> list[Row]:
    seed = record.hex("seed")
    key = seed.hex().encode() if reading["key"] == "text" else seed
    binding = record.texts("binding", 0, 100)
    first = record.integer("first") if record.has("first") else 1
    rows = []
    if record.has("commitment"):
        rows.append(Row("commitment", hashlib.sha256(key).hexdigest(), record.hex("commitment", 32).hex()))

    def expected(number: int) -> list[int]:
        mac = hmac.new(key, message(binding, number, reading), reading["hash"]).digest()
        return faces(mac, 2, reading["dice"])

    return rows + roll_rows(record.rolls("rolls"), expected, first)


SYSTEM: Final = System(
    name="nard",
    title="Nard, HMAC(seed, length-prefixed binding | number)",
    about="One committed seed a game; each roll is an HMAC over what binds it to the game, and the roll's number.",
    record=(
        "seed         the revealed seed, hex",
        "commitment?  SHA-256 of the seed, 64 hex digits, as it was shown before play",
        "binding      [text, ...]: what binds the rolls to the game (game id, players ...), in the page's order",
        "first?       the number of the first roll listed; default 1",
        "rolls        [[die, die], ...] of consecutive numbers",
    ),
    proves="under this reading of the page, these rolls come from the seed, the binding and consecutive numbers",
    does_not_prove=(
        "that this reading is the operator's: widths and order are not published, and the answer names the one used",
        "that the commitment was shown before play: keep your own copy of it",
        "that the seed was picked blindly, before the players' parts of the binding were known",
        "that nobody knew the rolls during play: whoever holds the seed knows all of them",
        "that no roll was made, thrown away and made again under another number or another game",
    ),
    example=(
        '{"seed":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        '"commitment":"630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd",'
        '"binding":["game-7","white","black"],"rolls":[[4,3]]}'
    ),
    options=(
        Option("hash", "sha256", "the HMAC's hash", ("sha256", "sha512")),
        Option("key", "bytes", "the HMAC's key: the seed's bytes, or the text of its hex", ("bytes", "text")),
        Option("length-bytes", "4", "width of a length", ("1", "2", "4", "8", "decimal")),
        Option("number-bytes", "4", "width of the number", ("1", "2", "4", "8", "decimal")),
        Option("byte-order", "big", "byte order of both", tuple(ENDIAN)),
        Option("order", "binding-first", "which part comes first", ("binding-first", "number-first")),
        Option("dice", "bytes", "from mac to dice: bytes below 252 mod 6, or 4-byte numbers mod 6", DICE),
    ),
    run=_run,
)
