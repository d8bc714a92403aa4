"""What was logged since the start: a projection that only counts."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sqlite_utils import Database

from beacon.log import wire
from verifier import entries
from verifier.voids import REASONS


class Tally:
    """Durable entries by type, and voids by reason. Counted on the writer's thread, read from any.

    Every reason has its number from the start: the increase of one that begins at 1 cannot be seen.
    """

    def __init__(self) -> None:
        self.entries: Final[Counter[str]] = Counter()
        self.voids: Final = Counter(dict.fromkeys(REASONS, 0))
        self._staged: list[entries.Entry] = []

    def applied(self, _db: Database, _index: int, entry: bytes, _leaf_hash: bytes) -> None:
        self._staged.append(wire.parse(entry))

    def before_commit(self, db: Database) -> None:
        pass

    def committed(self) -> None:
        for entry in self._staged:
            self.entries[type(entry).__name__.lower()] += 1
            if isinstance(entry, entries.Void):
                self.voids[entry.reason] += 1
        self._staged = []

    def rolled_back(self) -> None:
        self._staged = []
