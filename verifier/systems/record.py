"""What every replay of another system's record shares: strict reading, options, rows, the answer.

A record is one JSON object in UTF-8 with exactly the fields that its system names: no duplicate keys, no fractions (a
decimal is a string), integers of magnitude below 2**53, strings without unpaired surrogates. `system` may name the
system. Refusals are FormatError: JSON (not such JSON), HEX, RECORD (a field is missing, unknown or of another shape),
OPTION (no such option or value).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from verifier.encoding import MAX_INTEGER, Json, encode_json, parse_hex, parse_record_json
from verifier.errors import Code, FormatError

_DECIMAL: Final = re.compile(r"(0|[1-9][0-9]{0,17})\.([0-9]{2})", re.ASCII)


class Record:
    """An object of a record. Each getter takes one field; `done` refuses what no getter took."""

    def __init__(self, value: Json, where: str = "the record") -> None:
        if not isinstance(value, dict):
            raise FormatError(Code.RECORD, f"{where} is a JSON object")
        self._value = value
        self._where = where
        self._known: set[str] = set()
        self._inner: list[Record] = []

    def has(self, name: str) -> bool:
        """Whether an optional field is there."""
        self._known.add(name)
        return name in self._value

    def get(self, name: str) -> Json:
        if not self.has(name):
            raise FormatError(Code.RECORD, f"{self._where} has no {name}")
        return self._value[name]

    def refuse(self, name: str, what: str) -> FormatError:
        return FormatError(Code.RECORD, f"{self._path(name)} is {what}")

    def text(self, name: str, minimum: int = 0, maximum: int = 4096) -> str:
        """A string of `minimum` to `maximum` UTF-8 bytes, compared and hashed byte for byte, never normalised."""
        return _text(self.get(name), self._path(name), minimum, maximum)

    def hex(self, name: str, length: int | None = None) -> bytes:
        """Lower-case hex, of `length` bytes where given, else of 1 to 4,096."""
        value = self.get(name)
        try:
            data = parse_hex(value, length)
        except FormatError as error:
            raise FormatError(Code.HEX, f"{self._path(name)}: {error.message}") from error
        if not 1 <= len(data) <= 4096:
            raise FormatError(Code.HEX, f"{self._path(name)}: 1 to 4096 bytes are due")
        return data

    def integer(self, name: str, low: int = 0, high: int = MAX_INTEGER) -> int:
        return _integer(self.get(name), self._path(name), low, high)

    def hundredths(self, name: str) -> int:
        """A decimal string with two digits after the point, such as "93.08": 9308."""
        value = self.get(name)
        match = _DECIMAL.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise self.refuse(name, 'a decimal string with two digits after the point, such as "1.46"')
        return int(match[1]) * 100 + int(match[2])

    def items(self, name: str, maximum: int = 10_000) -> list[Json]:
        """A list of 1 to `maximum` items."""
        value = self.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= maximum:
            raise self.refuse(name, f"a list of 1 to {maximum} items")
        return value

    def records(self, name: str, maximum: int = 10_000) -> list[Record]:
        """A list of 1 to `maximum` objects."""
        found = [Record(item, f"{self._path(name)}[{i}]") for i, item in enumerate(self.items(name, maximum))]
        self._inner += found
        return found

    def texts(self, name: str, minimum: int = 0, maximum: int = 10_000) -> list[str]:
        """A list of 1 to `maximum` strings, of `minimum` bytes at least."""
        path = self._path(name)
        return [_text(item, f"{path}[{i}]", minimum, 4096) for i, item in enumerate(self.items(name, maximum))]

    def integers(self, name: str, low: int, high: int, maximum: int = 10_000) -> list[int]:
        """A list of 1 to `maximum` integers."""
        path = self._path(name)
        return [_integer(item, f"{path}[{i}]", low, high) for i, item in enumerate(self.items(name, maximum))]

    def rolls(self, name: str, dice: int | None = 2, maximum: int = 4096) -> list[list[int]]:
        """A list of rolls; each is a list of faces 1 to 6: `dice` of them, or 1 to 100 where that is None."""
        path = self._path(name)
        return [_roll(item, f"{path}[{i}]", dice) for i, item in enumerate(self.items(name, maximum))]

    def roll(self, name: str, dice: int | None = 2) -> list[int]:
        return _roll(self.get(name), self._path(name), dice)

    def done(self) -> None:
        """Refuse every field that nothing asked for, here and in the objects of `records`."""
        unknown = sorted(self._value.keys() - self._known)
        if unknown:
            raise FormatError(Code.RECORD, f"{self._where} has an unknown field {unknown[0]!r}")
        for inner in self._inner:
            inner.done()

    def _path(self, name: str) -> str:
        return name if self._where == "the record" else f"{self._where}.{name}"


def _text(value: Json, path: str, minimum: int, maximum: int) -> str:
    if not isinstance(value, str) or not minimum <= len(value.encode("utf-8")) <= maximum:
        raise FormatError(Code.RECORD, f"{path} is a string of {minimum} to {maximum} bytes")
    return value


def _integer(value: Json, path: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise FormatError(Code.RECORD, f"{path} is an integer from {low} to {high}")
    return value


def _roll(value: Json, path: str, dice: int | None) -> list[int]:
    low, high = (1, 100) if dice is None else (dice, dice)
    if not isinstance(value, list) or not low <= len(value) <= high:
        raise FormatError(Code.RECORD, f"{path} is a list of {low if low == high else f'{low} to {high}'} faces")
    return [_integer(face, f"{path}[{i}]", 1, 6) for i, face in enumerate(value)]


Value: TypeAlias = "Json | list[int] | list[str]"


@dataclass(frozen=True, slots=True)
class Option:
    """How a record is to be read where its system leaves that open. `values`: all there are; () for free text."""

    name: str
    default: str
    about: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One value of a record: `expected` is recomputed, `found` is what the record says."""

    what: str
    expected: Value
    found: Value

    @property
    def ok(self) -> bool:
        return self.expected == self.found

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "expected": self.expected, "found": self.found, "ok": self.ok}


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer. `reading`: the value of every option that was used, whether it was given or not."""

    rows: tuple[Row, ...]
    reading: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    @property
    def message(self) -> str:
        wrong = [row for row in self.rows if not row.ok]
        if not wrong:
            return f"Agrees: all {len(self.rows)} stated values are what the record's inputs give."
        expected, found = (encode_json([value]).decode()[1:-1] for value in (wrong[0].expected, wrong[0].found))
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return f"Differs: {wrong[0].what}: expected {expected}, found {found}{more}"

    def as_dict(self) -> dict[str, Any]:
        rows = [row.as_dict() for row in self.rows]
        return {"ok": self.ok, "message": self.message, "reading": dict(self.reading), "rows": rows}


Rows = list[Row]


@dataclass(frozen=True, slots=True)
class System:
    """Another system's published record and how it is replayed.

    `record` is the format's description, a line a field; `example` a record that agrees, as JSON text. `run` gives the
    rows of a record under the options, every one of which has a value.
    """

    name: str
    title: str
    about: str
    record: tuple[str, ...]
    proves: str
    does_not_prove: tuple[str, ...]
    example: str
    run: Callable[[Record, Mapping[str, str]], Sequence[Row]]
    options: tuple[Option, ...] = ()

    def replay(self, data: bytes, given: Mapping[str, str] | None = None) -> Replay:
        """Replay a record (JSON in UTF-8). Raises FormatError for what is no such record, or no such option."""
        reading = self._reading(given or {})
        record = Record(parse_record_json(data))
        if record.has("system") and record.get("system") != self.name:
            raise record.refuse("system", f"{self.name!r}, if it is there")
        rows = tuple(self.run(record, reading))
        record.done()
        return Replay(rows, reading)

    def _reading(self, given: Mapping[str, str]) -> dict[str, str]:
        unknown = sorted(given.keys() - {option.name for option in self.options})
        if unknown:
            raise FormatError(Code.OPTION, f"{self.name} has no option {unknown[0]!r}")
        reading = {option.name: given.get(option.name, option.default) for option in self.options}
        for option in self.options:
            if option.values and reading[option.name] not in option.values:
                raise FormatError(Code.OPTION, f"{option.name} is one of {', '.join(option.values)}")
        return reading


def roll_rows(
    rolls: Sequence[Sequence[int]], expected: Callable[[int], Sequence[int]], first: int = 1, what: str = "roll"
) -> Rows:
    """A row a roll; expected(number) is the roll of a number, which counts from `first`."""
    return [Row(f"{what} {number}", list(expected(number)), list(roll)) for number, roll in enumerate(rolls, first)]
