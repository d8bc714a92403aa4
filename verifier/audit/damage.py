"""What a file that once was an audit's state may have become: every cell is of a kind, and one that is not is damage.

Looked at only when something went wrong with a state: a log's own lies never make its auditor's file false.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from verifier.audit.accounts import Account
from verifier.encoding import MAX_INTEGER, parse_any_json
from verifier.entries import Round, parse_entry
from verifier.errors import Code, FormatError, VerifierError
from verifier.merkle import HASH_BYTES, leaf_hash
from verifier.note import VerifierKey
from verifier.statistics.counts import counts_of
from verifier.tiles import TILE_WIDTH
from verifier.transcript import SignedCheckpoint

Kind = Callable[[Any], object]
"""Gives something true for a value of the kind; or nothing, or it raises."""


def _integer(value: Any) -> bool:
    return type(value) is int and -1 <= value <= MAX_INTEGER


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def _hash(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == HASH_BYTES


def _hashes(value: Any) -> bool:
    return isinstance(value, bytes) and 0 < len(value) <= TILE_WIDTH * HASH_BYTES and len(value) % HASH_BYTES == 0


def _or_null(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


def _loaded(value: Any) -> Any:
    return parse_any_json(value.encode() if isinstance(value, str) else value)


def _object(value: Any) -> bool:
    return isinstance(value, str) and isinstance(_loaded(value), dict)


def _entry(value: Any) -> bool:
    return isinstance(value, bytes) and isinstance(_loaded(value), dict)


def _error(value: Any) -> bool:
    return value is None or bool(Code(value.partition(": ")[0]))


def _account(value: Any) -> bool:
    told = Account(**_loaded(value)).as_dict()
    numbers = [number for name, number in told.items() if name not in {"void", "sandbox"}]
    return all(map(_integer, [*numbers, *told["void"].values()]))


def _counts(value: Any) -> bool:
    return counts_of(_loaded(value)).sessions >= 0


def _numbers_by(*names: str) -> Kind:
    return lambda value: value.keys() >= set(names) and all(map(_integer, value.values()))


_META: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(
        ("size", "time", "clock", "judged", "cosigned", "undecided", "found", "more", "dice_from"), _integer
    ),
    **dict.fromkeys(("origin", "why"), _text),
    "checkpoint": SignedCheckpoint.parse,
    "totals": _numbers_by("ended", "fair", "proven"),
    "newest": lambda value: all(len(bytes.fromhex(chain)) == HASH_BYTES for chain in value) and _numbers_by()(value),
    "gossip": lambda value: all(_text(result) for result in value.values()),
    "ahead": _numbers_by(),
}

_KINDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "leaves": {"tile": _integer, "hashes": _hashes},
    "chains": {"chain": _hash, "info": _object},
    "stated": {
        "chain": _hash, "round": _integer, "signature": _bytes, "previous": _bytes, "error": _error
    },
    "rounds": {"chain": _hash, "round": _integer, "i": _integer, "entry": _entry},
    "newest": {"chain": _hash, "i": _integer, "round": _integer},
    "sessions": {
        "session": _hash, "i": _integer, "host": _text, "label": _text, "overdue": _integer, "ended": _or_null(_text)
    },
    "pending": {"session": _hash, "i": _integer, "entry": _entry},
    "locks": {"chain": _hash, "round": _integer, "session": _hash},
    "used": {"value": _bytes, "session": _hash, "i": _integer},
    "hosts": {"host": _text, "account": _account},
    "dice": {"host": _text, "sandbox": lambda value: value in (0, 1), "counts": _counts},
    "labels": {"host": _text, "label": _text, "session": _hash},
    "cosigned": {"size": _integer, "witness": VerifierKey.parse, "type": _integer, "time": _integer},
    "findings": {
        "number": _integer, "grave": lambda value: value in (0, 1), "claim": _text, "rule": _text, "i": _integer,
        "text": _text, "session": _or_null(_text), "host": _or_null(_text),
    },
}  # fmt: skip


_CROSSED: Final[Mapping[str, str]] = {
    "SELECT 1 FROM sessions WHERE ended IS NULL AND session NOT IN (SELECT session FROM pending)": (
        "an open session has no entries"
    ),
    "SELECT 1 FROM pending WHERE session NOT IN (SELECT session FROM sessions WHERE ended IS NULL)"
    " AND session NOT IN (SELECT session FROM locks)": "a session that is not open has entries that wait",
}


def found(db: sqlite3.Connection) -> str | None:
    """The first thing that is wrong with a state, in words; None where every cell is of its kind."""
    try:
        return next(_wrong(db), None)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)


def _wrong(db: sqlite3.Connection) -> Iterator[str]:
    for name, value in db.execute("SELECT name, value FROM meta"):
        kind = _META.get(name)
        if kind is None or not _is_json(kind, value):
            yield f"the value {name!r} is none"
    for table, kinds in _KINDS.items():
        columns = list(kinds)
        for row in db.execute(f"SELECT {', '.join(columns)} FROM {table}"):  # noqa: S608 - names of this module
            for column, value in zip(columns, row, strict=True):
                if not _is(kinds[column], value):
                    yield f"a value of {table}.{column} is none"
    for index, entry in db.execute("SELECT i, entry FROM pending UNION ALL SELECT i, entry FROM rounds"):
        if leaf_hash(entry) != _leaf(db, index):
            yield f"the entry {index} is not that of the log"
    for query, text in _CROSSED.items():
        if db.execute(f"SELECT EXISTS ({query})").fetchone()[0]:
            yield text
    for chain, number, entry in db.execute("SELECT chain, round, entry FROM rounds"):
        stated = parse_entry(entry)
        if not isinstance(stated, Round) or (stated.chain, stated.round) != (chain, number):
            yield "an entry of rounds stands under another round's name"


def _leaf(db: sqlite3.Connection, index: int) -> bytes | None:
    tile, place = divmod(index, TILE_WIDTH)
    row = db.execute("SELECT hashes FROM leaves WHERE tile = ?", [tile]).fetchone()
    return None if row is None else row[0][place * HASH_BYTES : (place + 1) * HASH_BYTES]


def _is_json(kind: Kind, text: Any) -> bool:
    try:
        value = _loaded(text)
    except (ValueError, TypeError, AttributeError, FormatError):
        return False
    return _is(kind, value)


def _is(kind: Kind, value: Any) -> bool:
    try:
        return bool(kind(value))
    except (VerifierError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
