"""A session's entries one after another, and the `round` entries that it uses, each with the state after it.

The log says where a reader left off: `standing` finds how a session stood at any index by walking back over a few
entries, so that to go on from the middle of a long session costs as little as from its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from sqlite_utils import Database

from beacon.log import reads
from beacon.sessions.state import Name, RoundKey, lock_of, name_of
from beacon.store.errors import LogDamaged
from verifier import entries
from verifier.entries import parse_entry
from verifier.merkle import leaf_hash

READ_ENTRIES: Final = 64
READ_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the log and what its session's state is called after it. entry: the exact bytes."""

    index: int
    type: str
    time: int
    entry: bytes
    state: Name


@dataclass(frozen=True, slots=True)
class Standing:
    """How a session stood: what is left of its state when only its name and the rounds that it waits for count.

    round_in: of a match. pending: (k, round) of each call that is not drawn.
    """

    seal: entries.Seal
    closed: bool
    round_in: bool = False
    pending: tuple[tuple[int, int], ...] = ()
    drawn: bool = False
    end: entries.Reveal | entries.Void | None = None

    @property
    def name(self) -> Name:
        """As `SessionState.name`."""
        return name_of(
            self.end, called=bool(self.pending), drawn=self.drawn, closed=self.closed, anchored=self.round_in
        )

    @property
    def logs(self) -> set[RoundKey]:
        """The rounds that may still be logged for it; those of calls stay until the draw."""
        if self.end is not None:
            return set()
        lock = lock_of(self.seal)
        numbers = {number for _, number in self.pending}
        if self.seal.round is not None and not self.round_in:
            numbers.add(self.seal.round)
        return {(self.seal.chain, number) for number in numbers} | ({lock} if lock is not None else set())

    def after(self, entry: entries.Entry) -> Standing:
        """How it stands after one more of its entries, or after a round that it uses."""
        match entry:
            case entries.Close():
                return replace(self, closed=True)
            case entries.Round():
                own = (entry.chain, entry.round) == (self.seal.chain, self.seal.round)
                return replace(self, round_in=self.round_in or own)
            case entries.Call():
                return replace(self, pending=(*self.pending, (entry.draw, entry.round)))
            case entries.Draw():
                pending = tuple(call for call in self.pending if entry.draw is None or call[0] > entry.draw)
                return replace(self, pending=pending, drawn=True)
            case entries.Reveal() | entries.Void():
                return replace(self, end=entry)
            case _:
                return self


class Trail:
    """One session (32 bytes) from a log index on. `read` blocks, and is for one reader's thread at a time."""

    def __init__(self, session: bytes, after: int) -> None:
        """after: the log index above which entries are wanted; -1 for all of them."""
        self._session: Final = session
        self._position = after
        self._standing: Standing | None = None

    @property
    def ended(self) -> bool:
        """Whether the session's end has been read, or lies before where the trail began."""
        return self._standing is not None and self._standing.end is not None

    def read(self, db: Database) -> list[Event]:
        """The next entries, at most 64 and about 256 KiB; none when the log has no more now, or never will."""
        if self._standing is None:
            self._standing = standing(db, self._session, self._position)
        if self.ended:
            return []
        events = []
        for index, data in self._rows(db):
            entry = parse_entry(data)
            self._standing = sealed(entry) if isinstance(entry, entries.Seal) else self._known.after(entry)
            self._position = index
            events.append(Event(index, entry.type, entry.time, data, self._standing.name))
            if self.ended:
                break
        return events

    @property
    def _known(self) -> Standing:
        assert self._standing is not None, "an entry before the seal"
        return self._standing

    def _rows(self, db: Database) -> list[tuple[int, bytes]]:
        own: list[tuple[int, bytes]] = []
        size, more = 0, False
        for index, data in own_entries(db, self._session, self._position):
            if len(own) == READ_ENTRIES or size >= READ_BYTES:
                more = True
                break
            own.append((index, data))
            size += len(data)
        rounds = self._rounds(db, own)
        horizon = own[-1][0] if more else None
        return sorted([*own, *((i, data) for i, data in rounds if horizon is None or i < horizon)])

    def _rounds(self, db: Database, own: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        standing, used = self._standing, set[RoundKey]()
        if standing is not None:
            used |= standing.logs
        for _, data in own:
            entry = parse_entry(data)
            if isinstance(entry, entries.Seal):
                standing = sealed(entry)
                used |= standing.logs
            elif isinstance(entry, entries.Call) and standing is not None:
                used.add((standing.seal.chain, entry.round))
        for key in used:
            found = round_index(db, *key)
            if found is not None and found > self._position:
                yield found, reads.entry(db, found)


def sealed(seal: entries.Seal) -> Standing:
    """How a session stands after its seal."""
    return Standing(seal, closed=seal.close_at is None)


def standing(db: Database, session: bytes, index: int) -> Standing | None:
    """How a session (32 bytes) stood after log index `index`; None before its seal. Reads a few entries."""
    first = next(own_entries(db, session, -1), None)
    if first is None or first[0] > index:
        return None
    seal = parse_entry(first[1])
    assert isinstance(seal, entries.Seal)
    found = replace(sealed(seal), round_in=_round_in(db, seal, index))
    drawn, pending = 0, list[tuple[int, int]]()
    for _, data in _own(db, session, "<= ? ORDER BY i DESC", index):
        entry = parse_entry(data)
        match entry:
            case entries.Reveal() | entries.Void():
                found = replace(found, end=entry)
            case entries.Draw():
                drawn = max(drawn, entry.draw or 0)
                found = replace(found, closed=True, drawn=True)
            case entries.Call():
                found = replace(found, closed=True)
                if entry.draw > drawn:
                    pending.append((entry.draw, entry.round))
            case entries.Close():
                found = replace(found, closed=True)
        # Behind the call of the newest draw, and behind what comes before all calls, nothing more is to be known.
        match_draw = isinstance(entry, entries.Draw) and entry.draw is None
        before_calls = isinstance(entry, entries.Close | entries.Contribution | entries.Seal)
        if match_draw or before_calls or (isinstance(entry, entries.Call) and entry.draw <= drawn):
            break
    return replace(found, pending=tuple(reversed(pending)))


def _round_in(db: Database, seal: entries.Seal, index: int) -> bool:
    found = None if seal.round is None else round_index(db, seal.chain, seal.round)
    return found is not None and found <= index


def round_index(db: Database, chain: bytes, number: int) -> int | None:
    """The log index of a round's entry; None while it is not logged. chain: its hash, 32 bytes."""
    query = "SELECT i FROM round_entries WHERE chain = ? AND round = ?"
    found = db.conn.execute(query, (chain, number)).fetchone()
    return None if found is None else int(found[0])


def shown_entry(db: Database, session: bytes, index: int) -> bytes | None:
    """An entry of a session (32 bytes), or a `round` entry that it uses; None where the log has none of that there."""
    own = db.conn.execute("SELECT 1 FROM session_entries WHERE session = ? AND i = ?", (session, index)).fetchone()
    stood = standing(db, session, index)
    found = reads.entries(db, index, index + 1)
    if stood is None or not found:
        return None
    if own is None:
        entry, seal = parse_entry(found[0]), stood.seal
        numbers = {seal.round} if seal.round is not None else {number for _, number in stood.pending}
        used = {(seal.chain, number) for number in numbers} | {lock_of(seal)}
        if not isinstance(entry, entries.Round) or (entry.chain, entry.round) not in used:
            return None
    return found[0]


def contributed(db: Database, session: bytes, place: int) -> tuple[int, entries.Contribution] | None:
    """A session's contribution by its place, from 0, and its log index. They stand before all but the seal (6.5)."""
    query = "SELECT i FROM session_entries WHERE session = ? ORDER BY i LIMIT 1 OFFSET ?"
    found = db.conn.execute(query, (session, 1 + place)).fetchone()
    entry = None if found is None else parse_entry(reads.entry(db, found[0]))
    return (found[0], entry) if isinstance(entry, entries.Contribution) else None


def own_entries(db: Database, session: bytes, after: int) -> Iterator[tuple[int, bytes]]:
    """(index, bytes) of a session's own entries above a log index, read one by one. Raises LogDamaged."""
    return _own(db, session, "> ? ORDER BY i", after)


def _own(db: Database, session: bytes, where: str, index: int) -> Iterator[tuple[int, bytes]]:
    query = f"""SELECT i, entry, substr(nodes, 1, 32) FROM session_entries JOIN entries USING (i)
        LEFT JOIN hashes USING (i) WHERE session = ? AND i {where}"""  # noqa: S608 - words of ours
    with closing(db.conn.execute(query, (session, index))) as cursor:
        for found, data, leaf in cursor:
            if leaf_hash(data) != leaf:
                raise LogDamaged(f"entry {found} is not the one that was logged")
            yield found, bytes(data)
