"""The newest part of a session's entries, or the part before a log index: what fits on one page for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from beacon.sessions.trail import Event, Trail

PAGE_ENTRIES: Final = 120
PAGE_BYTES: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class Story:
    """Entries of one session in log order, with the rounds between them.

    earlier: the log index before which its older entries are, None when these are the first. later: whether there are
    newer ones.
    """

    events: tuple[Event, ...]
    earlier: int | None
    later: bool


def story(db: Database, session: bytes, before: int | None = None) -> Story:
    """The newest entries of a session (32 bytes) below a log index, at most 120 of its own and about 128 KiB.

    before: None for the newest of all. Blocking, for a reader's thread.
    """
    first, earlier = _beginning(db, session, before)
    trail = Trail(session, first - 1 if earlier is not None else -1)
    events: list[Event] = []
    while (found := trail.read(db)) and (before is None or found[0].index < before):
        events += found
    shown = tuple(event for event in events if before is None or event.index < before)
    return Story(shown, earlier, before is not None and _is_later(db, session, before))


def _beginning(db: Database, session: bytes, before: int | None) -> tuple[int, int | None]:
    """The index of the first entry of the page, and the same again if there are entries before it."""
    query = """SELECT i, length(entry) FROM session_entries JOIN entries USING (i)
        WHERE session = ? AND i < ? ORDER BY i DESC LIMIT ?"""
    first, size = 0, 0
    rows = db.conn.execute(query, (session, 2**62 if before is None else before, PAGE_ENTRIES + 1)).fetchall()
    for number, (index, length) in enumerate(rows):
        size += length
        if number == PAGE_ENTRIES or (number and size > PAGE_BYTES):
            return first, first
        first = index
    return first, None


def _is_later(db: Database, session: bytes, before: int) -> bool:
    query = "SELECT 1 FROM session_entries WHERE session = ? AND i >= ? LIMIT 1"
    return db.conn.execute(query, (session, before)).fetchone() is not None
