"""The stored hashes that receipts of new entries need, in memory: a receipt then costs no query.

Rows of `hashes` as they are committed, the newest KEPT of them; and older ones that a proof needed, which are the roots
of large subtrees on the left, few and the same for every new entry. Rows never change, so none is ever stale.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from beacon.log import tree
from beacon.log.reads import SignedCheckpoint
from beacon.log.tree import Node
from verifier.merkle import HASH_BYTES

KEPT: Final = 16_384
OLDER: Final = 1_024
CHECKPOINTS: Final = 256


class RecentHashes:
    """`add` is called on the writer's thread, the rest on one other. Rows may be let go at any moment."""

    def __init__(self) -> None:
        self._new: dict[int, bytes] = {}
        self._older: dict[int, bytes] = {}

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Take in rows (i, nodes) that were committed."""
        self._new.update(rows)
        for index, _ in rows:
            self._new.pop(index - KEPT, None)

    def keep(self, rows: Mapping[int, bytes]) -> None:
        """Take in rows that were read."""
        if len(self._older) + len(rows) > OLDER:
            self._older = {}
        self._older.update(rows)

    def prove(self, index: int, size: int) -> tuple[bytes, list[bytes]]:
        """As `prove` from what is here. KeyError when it is not enough."""
        new, older = self._new, self._older
        return prove(lambda row: new.get(row) or older[row], index, size)


class RecentCheckpoints:
    """The newest checkpoints that were committed, by size. `add` on the writer's thread, `covering` on one other."""

    def __init__(self) -> None:
        self._known: list[SignedCheckpoint] = []

    def add(self, checkpoint: SignedCheckpoint) -> None:
        """Take in the newest."""
        self._known = [*self._known[-CHECKPOINTS + 1 :], checkpoint]

    def covering(self, index: int) -> SignedCheckpoint | None:
        """The first checkpoint that covers an entry, if it is certain that no earlier one does; else None."""
        known = self._known
        place = bisect_right(known, index, key=lambda checkpoint: checkpoint.size)
        return known[place] if 0 < place < len(known) else None


def rows_needed(index: int, size: int) -> list[int]:
    """Give the rows of `hashes` that prove leaf `index` in the tree of `size` leaves, its own among them."""
    return list({node.row for part in tree.path(Node(0, index), size) for node in part} | {index})


def prove(row: Callable[[int], bytes], index: int, size: int) -> tuple[bytes, list[bytes]]:
    """Give the stored leaf hash and its inclusion proof, 32 bytes each, from rows. Raises what `row` raises."""

    def part(node: Node) -> bytes:
        return row(node.row)[HASH_BYTES * node.level : HASH_BYTES * (node.level + 1)]

    leaf = part(Node(0, index))
    return leaf, tree.prove_inclusion(lambda nodes: {node: part(node) for node in nodes}, index, size)
