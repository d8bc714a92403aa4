"""The log as its page shows it: one line an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from beacon.log import reads
from verifier import entries
from verifier.entries import parse_entry
from verifier.errors import FormatError
from verifier.merkle import leaf_hash
from verifier.note import Note

PAGE: Final = 50


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
class Signature:
    """A line of a checkpoint: the key's name, and whether it is the log's own."""

    name: str
    own: bool


def lines(db: Database, before: int) -> list[Line]:
    """The newest entries below a log index, newest first. Blocking; raises LogDamaged."""
    first = max(0, before - PAGE)
    found = [_line(index, data) for index, data in enumerate(reads.entries(db, first, before), first)]
    return found[::-1]


def _line(index: int, data: bytes) -> Line:
    entry = parse_entry(data)
    match entry:
        case entries.Log() | entries.Chain():
            return Line(index, entry.type, entry.time)
        case entries.Seal():
            return Line(index, entry.type, entry.time, leaf_hash(data).hex(), entry.host)
        case entries.Round():
            return Line(index, entry.type, entry.time, round=entry.round)
        case _:
            return Line(index, entry.type, entry.time, entry.session.hex())


def signatures(note: str, origin: str) -> list[Signature]:
    """Who signed a checkpoint, as its lines say; nothing is verified here. None for what is no note."""
    try:
        return [Signature(one.name, one.name == origin) for one in Note.parse(note).signatures]
    except FormatError:
        return []
