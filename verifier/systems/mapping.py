"""From the bytes of a hash to faces of dice, as the systems beside this one do it."""

from __future__ import annotations

from verifier.errors import Code, FormatError

DICE = ("bytes", "u32")


def faces(data: bytes, count: int, mapping: str) -> list[int]:
    """`count` faces, 1 to 6, from a hash.

    bytes: each byte below 252 gives (byte mod 6) + 1, others are passed over. u32: each 4 bytes, big-endian, give
    (number mod 6) + 1. Raises FormatError(RECORD) where the hash does not hold that many.
    """
    if mapping == "bytes":
        found = [byte % 6 + 1 for byte in data if byte < 252]
    else:
        found = [int.from_bytes(data[i : i + 4], "big") % 6 + 1 for i in range(0, len(data), 4)]
    if len(found) < count:
        raise FormatError(Code.RECORD, f"a hash of {len(data)} bytes holds {len(found)} dice, not {count}")
    return found[:count]


def hundredths(value: int) -> str:
    """A number of hundredths as a decimal string: 9308 is "93.08"."""
    return f"{value // 100}.{value % 100:02}"
