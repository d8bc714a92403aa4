"""The log as its page shows it: one line an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from beacon.log import reads
from verifier import entries
from verifier.entries import parse_entry
from verifier.merkle import leaf_hash
from verifier.note import Checkpoint, Note

PAGE: Final = 50
MAX_COMMAND: Final = 2_048
"""Bytes of an entry that a command line is shown for."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry: its index, type, time in ms, the session that it belongs to in hex or empty, and what tells it apart.

    host: of a seal. round: of a round.
    """

    index: int
    type: str
    time: int
    session: str = ""
    host: str = ""
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry by itself: its line, its exact text, and its leaf hash in hex. command: hashes it in a shell, or empty.

    What is hashed is a zero byte and the text (RFC 6962).
    """

    line: Line
    text: str
    leaf: str
    command: str


def lines(db: Database, before: int) -> list[Line]:
    """The newest entries below a log index, newest first. Blocking; raises LogDamaged."""
    first = max(0, before - PAGE)
    found = [_line(index, data) for index, data in enumerate(reads.entries(db, first, before), first)]
    return found[::-1]


def entry(db: Database, index: int) -> Entry:
    """One entry. Blocking; raises IndexError, LogDamaged."""
    data = reads.entry(db, index)
    command = f"printf %s 00{data.hex()} | xxd -r -p | sha256sum" if len(data) <= MAX_COMMAND else ""
    return Entry(_line(index, data), data.decode(), leaf_hash(data).hex(), command)


def _line(index: int, data: bytes) -> Line:
    found = parse_entry(data)
    match found:
        case entries.Log() | entries.Chain():
            return Line(index, found.type, found.time)
        case entries.Seal():
            return Line(index, found.type, found.time, leaf_hash(data).hex(), found.host)
        case entries.Round():
            return Line(index, found.type, found.time, round=found.round)
        case _:
            return Line(index, found.type, found.time, found.session.hex())


def size_of(note: str | None) -> int | None:
    """The size of the tree that a checkpoint of the service's own is of; None for none."""
    return None if note is None else Checkpoint.parse(Note.parse(note).text).size
