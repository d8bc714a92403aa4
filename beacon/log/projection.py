"""What is folded from the log's entries: session state, indexes, whatever reading the log again would give again."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sqlite_utils import Database


class Projection(Protocol):
    """Follows the log entry by entry, on the writer's thread, inside the transaction that appends the entry.

    `applied` runs right after the entry has its index, before the next entry is built: what a later build of the same
    transaction decides may rest on it. Of the database it writes to derived tables alone, through `db`, at once or in
    `before_commit`. It does not raise: if it does, the whole transaction is undone.
    """

    def applied(self, db: Database, index: int, entry: bytes, leaf_hash: bytes) -> None:
        """Take in an entry that is not durable yet. leaf_hash: 32 bytes, leaf(entry)."""

    def before_commit(self, db: Database) -> None:
        """Write what `applied` has left to write."""

    def committed(self) -> None:
        """All that was applied is durable. Whoever waits for these entries is told after this."""

    def rolled_back(self) -> None:
        """All that was applied since the last `committed` never happened."""


@runtime_checkable
class Loading(Protocol):
    """A projection that has state to load before the first append."""

    def opened(self, db: Database) -> None:
        """Read what is there, on the writer's thread. The log has been checked; it may be empty."""
