"""What is to be delivered: the log's own entries, from an endpoint's position on. Nothing is written twice.

A delivery is an entry of one of the host's sessions. `round` entries belong to no session and are not delivered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlite_utils import Database

from beacon.log import reads
from beacon.sessions.trail import standing
from verifier.encoding import encode_json
from verifier.entries import parse_entry

TYPES: Final = ("seal", "contribution", "close", "call", "draw", "reveal", "void")
"""The types of entries that sessions have. An event's type is `session.` and one of them."""
PREFIX: Final = "session."
SCAN: Final = 5_000
"""Entries of the log that are looked over at a step, most of them other hosts'."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to deliver. index: of the log; session: 32 bytes; time: the entry's, ms; body: of the request."""

    index: int
    session: bytes
    type: str
    time: int
    body: bytes


def following(
    db: Database, host: str, types: Collection[str], position: int, size: int, most: int
) -> tuple[int, list[Item]]:
    """The next things to deliver above `position` in a log of `size` entries, at most `most`, and how far that is.

    types: of events; empty for all. When the position is size - 1, nothing more is in the log.
    """
    end = min(position + SCAN, size - 1)
    rows = db.conn.execute(
        """SELECT i, session FROM session_entries INDEXED BY session_entries_by_index JOIN sessions USING (session)
        WHERE i > ? AND i <= ? AND host = ? ORDER BY i""",
        (position, end, host),
    )
    items: list[Item] = []
    try:
        for index, session in rows:
            data = reads.entry(db, index)
            entry = parse_entry(data)
            if not types or PREFIX + entry.type in types:
                items.append(_item(db, index, session, entry.type, entry.time, data))
            if len(items) == most:
                return index, items
    finally:
        rows.close()
    return end, items


def _item(db: Database, index: int, session: bytes, kind: str, time: int, data: bytes) -> Item:
    stood = standing(db, session, index)
    assert stood is not None
    document = {
        "type": PREFIX + kind,
        "timestamp": _timestamp(time),
        "data": {"session": session.hex(), "index": index, "state": stood.name, "entry": data.decode()},
    }
    return Item(index, session, PREFIX + kind, time, encode_json(document))


def _timestamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
