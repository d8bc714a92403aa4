"""Strict readers for the fields of an entry: each takes a JSON value and returns it or raises FormatError (3.3-3.5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from verifier.encoding import MAX_INTEGER, Json, parse_hex
from verifier.errors import Code, FormatError

T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}", re.ASCII)


class Fields:
    """The fields of one object; every one must be taken (3.3)."""

    def __init__(self, value: Json) -> None:
        if not isinstance(value, dict):
            raise FormatError(Code.ENTRY, "an object is due here")
        self._left = dict(value)

    def take(self, name: str, parse: Callable[[Json], T]) -> T:
        try:
            value = self._left.pop(name)
        except KeyError:
            raise FormatError(Code.ENTRY, f"the field {name!r} is missing") from None
        try:
            return parse(value)
        except FormatError as error:
            raise FormatError(error.code, f"{name}: {error.message}") from error

    def optional(self, name: str, parse: Callable[[Json], T]) -> T | None:
        return self.take(name, parse) if name in self._left else None

    def end(self) -> None:
        if self._left:
            raise FormatError(Code.ENTRY, f"unknown field {next(iter(self._left))!r}")


def refuse(condition: bool, message: str) -> None:
    """Raise FormatError(ENTRY) if the condition holds."""
    if condition:
        raise FormatError(Code.ENTRY, message)


def integer(low: int = 0, high: int = MAX_INTEGER) -> Callable[[Json], int]:
    def parse(value: Json) -> int:
        if type(value) is not int or not low <= value <= high:
            raise FormatError(Code.ENTRY, f"an integer from {low} to {high} is due")
        return value

    return parse


def text(low: int, high: int) -> Callable[[Json], str]:
    def parse(value: Json) -> str:
        if not isinstance(value, str) or not low <= len(value.encode("utf-8")) <= high:
            raise FormatError(Code.ENTRY, f"a string of {low} to {high} bytes is due")
        return value

    return parse


def identifier(value: Json) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise FormatError(Code.ENTRY, "a name is [A-Za-z][A-Za-z0-9._-]{0,63}")
    return value


def one_of(*choices: str) -> Callable[[Json], Any]:
    def parse(value: Json) -> str:
        if not isinstance(value, str) or value not in choices:
            raise FormatError(Code.ENTRY, f"one of {', '.join(choices)} is due")
        return value

    return parse


def boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise FormatError(Code.ENTRY, "true or false is due")
    return value


def hex_bytes(length: int) -> Callable[[Json], bytes]:
    return lambda value: parse_hex(value, length)


def or_null(parse: Callable[[Json], T]) -> Callable[[Json], T | None]:
    return lambda value: None if value is None else parse(value)


def list_of(parse: Callable[[Json], T], low: int, high: int) -> Callable[[Json], tuple[T, ...]]:
    def parse_list(value: Json) -> tuple[T, ...]:
        if not isinstance(value, list) or not low <= len(value) <= high:
            raise FormatError(Code.ENTRY, f"a list of {low} to {high} items is due")
        return tuple(parse(item) for item in value)

    return parse_list


def map_of(parse: Callable[[Json], T], low: int, high: int) -> Callable[[Json], dict[str, T]]:
    def parse_map(value: Json) -> dict[str, T]:
        if not isinstance(value, dict) or not low <= len(value) <= high:
            raise FormatError(Code.ENTRY, f"an object of {low} to {high} names is due")
        return {identifier(key): parse(item) for key, item in value.items()}

    return parse_map


def entropy(value: Json) -> bytes:
    """1 to 256 bytes of hex."""
    data = parse_hex(value)
    refuse(not 1 <= len(data) <= 256, "1 to 256 bytes are due")
    return data
