"""What an auditor keeps between two audits: one SQLite file, written in one transaction for each segment of the log.

So an audit that is stopped anywhere goes on where it was, and memory does not grow with the log.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from verifier.encoding import Json
from verifier.merkle import HASH_BYTES, leaf_hash
from verifier.tiles import TILE_WIDTH

MAX_KEPT: Final = 100_000
"""Findings that are kept; the rest is counted."""
_COMPARED: Final = 64
"""Entries that need not be compared again: rounds, which many sessions use."""


class StateError(Exception):
    """What a state holds does not fit to itself, or to what it authenticated."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something an audit saw. grave: it makes the audit fail; else it is a note on a host's account.

    claim: of verdict.ClaimName, or `host`; rule: of PROTOCOL.md; index: the log index, None where it is of the whole;
    session: hex.
    """

    claim: str
    rule: str
    text: str
    index: int | None = None
    session: str | None = None
    host: str | None = None
    grave: bool = True

    def as_dict(self) -> dict[str, Json]:
        return {"kind": "finding" if self.grave else "note", **{k: v for k, v in asdict(self).items() if k != "grave"}}


class State:
    """The file, for one process at a time. Nothing is kept before `commit`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db: Final = db
        self._compared: Final[dict[int, bytes]] = {}
        self._begin()

    def get(self, name: str) -> Any:
        """A value of `meta`, None when there is none."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Json) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, json.dumps(value)])

    def commit(self) -> None:
        self.db.execute("COMMIT")
        self._begin()

    def rollback(self) -> None:
        self.db.execute("ROLLBACK")
        self._begin()

    def _begin(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def add_leaves(self, first: int, hashes: list[bytes]) -> None:
        """Keep leaf hashes from index `first` on, where those kept before end."""
        while hashes:
            tile, place = divmod(first, TILE_WIDTH)
            taken = hashes[: TILE_WIDTH - place]
            before = self._leaves(tile)[: place * HASH_BYTES]
            self.db.execute("INSERT OR REPLACE INTO leaves VALUES (?, ?)", [tile, before + b"".join(taken)])
            first, hashes = first + len(taken), hashes[len(taken) :]

    def leaves(self, size: int) -> Iterator[bytes]:
        """The hashes of the first `size` leaves, which are kept."""
        for first in range(0, size, TILE_WIDTH):
            data = self._leaves(first // TILE_WIDTH)
            for at in range(0, HASH_BYTES * min(TILE_WIDTH, size - first), HASH_BYTES):
                yield data[at : at + HASH_BYTES]

    def waiting(self, session: bytes) -> list[tuple[int, bytes]]:
        """The (index, entry) pairs of a session that wait for its end. Raises StateError if one is not the log's."""
        rows = self.db.execute("SELECT i, entry FROM pending WHERE session = ? ORDER BY i", [session]).fetchall()
        for index, entry in rows:
            self.compare(index, entry)
        return rows

    def compare(self, index: int, entry: bytes) -> None:
        """Raises StateError for an entry that was kept, if it is not the one whose hash was authenticated."""
        if self._compared.get(index) == entry:
            return
        tile, place = divmod(index, TILE_WIDTH)
        leaf = self._leaves(tile)[place * HASH_BYTES : (place + 1) * HASH_BYTES]
        if leaf and leaf != leaf_hash(entry):
            raise StateError(f"the entry {index} is not that of the log")
        if len(self._compared) >= _COMPARED:
            self._compared.clear()
        self._compared[index] = entry

    def _leaves(self, tile: int) -> bytes:
        row = self.db.execute("SELECT hashes FROM leaves WHERE tile = ?", [tile]).fetchone()
        return b"" if row is None else bytes(row[0])

    def add(self, found: Iterable[Found]) -> list[Found]:
        """Keep what was found; gives those that were not known yet."""
        new = []
        for one in found:
            if (self.get("found") or 0) >= MAX_KEPT:
                self.put("more", (self.get("more") or 0) + 1)
                continue
            index = -1 if one.index is None else one.index
            row = (one.grave, one.claim, one.rule, index, one.text, one.session, one.host)
            columns = "grave, claim, rule, i, text, session, host"
            added = self.db.execute(f"INSERT OR IGNORE INTO findings ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            if added.rowcount:
                self.put("found", (self.get("found") or 0) + 1)
                new.append(one)
        return new

    def found(self) -> Iterator[Found]:
        """Everything that was found, in the order in which it was."""
        rows = self.db.execute("SELECT claim, rule, text, i, session, host, grave FROM findings ORDER BY number")
        for claim, rule, text, index, session, host, grave in rows:
            yield Found(claim, rule, text, None if index < 0 else index, session, host, bool(grave))

    def grave(self) -> int:
        """How many findings make the audit fail."""
        return int(self.db.execute("SELECT count(*) FROM findings WHERE grave").fetchone()[0])
