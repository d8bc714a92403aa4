"""The byte rules that everything else stands on (PROTOCOL.md, sections 2 and 3.1-3.4).

Parse means canonical: a parser here raises FormatError, or returns a value whose encoding is the input again.
Python's own parsers are laxer than that (`int("1_0")`, `bytes.fromhex(" ab ")`, duplicate keys), so none is used bare.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from verifier.errors import Code, FormatError

MAX_INTEGER: Final = 2**53 - 1
MAX_ENTRY_BYTES: Final = 65_535
MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 32

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_NOT_A_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)
_FORBIDDEN_RAW = re.compile("[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_FORBIDDEN = re.compile("[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def u32(n: int) -> bytes:
    """4 bytes, big-endian. 0 <= n < 2**32 (2.1)."""
    return n.to_bytes(4, "big")


def u64(n: int) -> bytes:
    """8 bytes, big-endian. 0 <= n < 2**64 (2.1)."""
    return n.to_bytes(8, "big")


def lp(x: bytes) -> bytes:
    """LP(x): u32 length of x in bytes, then x (2.1)."""
    return len(x).to_bytes(4, "big") + x


def parse_hex(text: object, length: int | None = None) -> bytes:
    """Bytes of lower-case hex of even length without prefix; exactly `length` bytes where given (2.1)."""
    try:
        data = bytes.fromhex(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        data = None
    if data is None or data.hex() != text:
        raise FormatError(Code.HEX, "not lower-case hexadecimal of even length")
    if length is not None and len(data) != length:
        raise FormatError(Code.HEX, f"{len(data)} bytes where {length} are due")
    return data


def parse_base64(text: object, length: int | None = None) -> bytes:
    """Bytes of standard, padded base64 with zero trailing bits; exactly `length` bytes where given (7.2)."""
    if not isinstance(text, str):
        raise FormatError(Code.BASE64, "not a base64 string")
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise FormatError(Code.BASE64, "not standard padded base64") from error
    if encode_base64(data) != text:
        raise FormatError(Code.BASE64, "base64 is not canonical")
    if length is not None and len(data) != length:
        raise FormatError(Code.BASE64, f"{len(data)} bytes where {length} are due")
    return data


def encode_base64(data: bytes) -> str:
    """Standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def parse_decimal(text: str, maximum: int = 2**63 - 1) -> int:
    """A number 0..maximum in ASCII digits without leading zeros or sign."""
    if len(text) > 20 or not _DECIMAL.fullmatch(text):
        raise FormatError(Code.DECIMAL, "not a canonical decimal number")
    number = int(text)
    if number > maximum:
        raise FormatError(Code.DECIMAL, f"number above {maximum}")
    return number


def check_string(text: str) -> str:
    """Return text if it holds no surrogate and no control or direction character (3.4)."""
    match = _FORBIDDEN.search(text)
    if match:
        raise FormatError(Code.STRING, f"forbidden character U+{ord(match.group()):04X} in a string")
    return text


def parse_canonical_json(data: bytes) -> dict[str, Json]:
    """The object of a log entry: the compact serialisation of what is returned is `data` again (3.1-3.4).

    A forbidden character cannot hide in an escape: the canonical form has only two, for the quote and the backslash.
    Raises FormatError(ENTRY, JSON or STRING).
    """
    if len(data) > MAX_ENTRY_BYTES:
        raise FormatError(Code.ENTRY, f"an entry has at most {MAX_ENTRY_BYTES} bytes, this one {len(data)}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(Code.JSON, "not UTF-8") from error
    if "\\" in text.replace("\\\\", "").replace('\\"', ""):
        raise FormatError(Code.JSON, "an escape that the canonical form does not have")
    check_nesting(text)
    try:
        value = _PLAIN_DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _not_json(error) from error
    if not isinstance(value, dict):
        raise FormatError(Code.JSON, "an entry is one JSON object")
    if encode_json(value) != data:
        _load(text)
        raise FormatError(Code.JSON, "not in canonical form (white space, escapes or number spelling)")
    check_string(text)
    return value


def parse_document_json(data: bytes) -> dict[str, Json]:
    """The object of a transcript or receipt: ordinary JSON without duplicate keys, fractions or forbidden characters.

    (7.2.) U+000A passes here in any string; whoever reads a field other than a checkpoint refuses it.
    Raises FormatError(DOCUMENT, JSON or STRING).
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FormatError(Code.DOCUMENT, f"a document has at most {MAX_DOCUMENT_BYTES} bytes, this one {len(data)}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(Code.JSON, "not UTF-8") from error
    value = _load(text)
    if not isinstance(value, dict):
        raise FormatError(Code.JSON, "the document is not one JSON object")
    if "\\" in text:
        _check_strings(value)
    elif match := _FORBIDDEN_RAW.search(text):
        raise FormatError(Code.STRING, f"forbidden character U+{ord(match.group()):04X} in a string")
    return value


def parse_record_json(data: bytes) -> Json:
    """The value of another system's record: JSON without duplicate keys or fractions; strings hold any character.

    Raises FormatError(DOCUMENT, JSON or STRING), the last for an unpaired surrogate.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FormatError(Code.DOCUMENT, f"a record has at most {MAX_DOCUMENT_BYTES} bytes, this one {len(data)}")
    try:
        value = _load(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FormatError(Code.JSON, "not UTF-8") from error
    encode_json([value])
    return value


def parse_any_json(data: bytes) -> Any:
    """Any JSON that does not nest too deeply, by Python's own reading, which is laxer than any format here.

    Raises FormatError(JSON).
    """
    try:
        text = data.decode("utf-8")
        check_nesting(text)
        return json.loads(text)
    except ValueError as error:
        raise FormatError(Code.JSON, "not JSON") from error


def encode_json(value: Mapping[str, Any] | list[Any]) -> bytes:
    """The compact UTF-8 serialisation, keys in the order in which they stand (3.2)."""
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(Code.STRING, "unpaired surrogate in a string") from error


def _load(text: str) -> Json:
    check_nesting(text)
    try:
        value: Json = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _not_json(error) from error
    return value


def _not_json(error: json.JSONDecodeError) -> FormatError:
    return FormatError(Code.JSON, f"not JSON: {error.msg} at character {error.pos}")


def check_nesting(text: str) -> None:
    """Refuse deep nesting, FormatError(JSON), before json.loads sees it: that recurses in C, beyond any limit."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _NOT_A_BRACKET.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH + 1:
            raise FormatError(Code.JSON, "nested too deeply")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FormatError(Code.JSON, "the same key twice in one object")
    return result


def _integer(text: str) -> int:
    """A number that the decoder found, which the grammar of JSON leaves one spelling but for minus zero."""
    if len(text) > 17 or text == "-0" or not text.isascii():
        raise FormatError(Code.JSON, "an integer outside the canonical form or range")
    number = int(text)
    if abs(number) > MAX_INTEGER:
        raise FormatError(Code.JSON, "an integer of magnitude above 2^53 - 1")
    return number


def _refuse_number(text: str) -> Json:
    raise FormatError(Code.JSON, f"{text[:20]} is not an integer")


def _check_strings(value: Json, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise FormatError(Code.JSON, "nested too deeply")
    if isinstance(value, str):
        check_string(value.replace("\n", ""))
    elif isinstance(value, list):
        for item in value:
            _check_strings(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_string(key)
            _check_strings(item, depth + 1)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_refuse_number, parse_constant=_refuse_number
)
_PLAIN_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_refuse_number, parse_constant=_refuse_number)
"""Where the encoding is compared with the input, the same key twice need not be looked for: one of them is lost."""
