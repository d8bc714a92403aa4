"""The stored hashes that receipts of new entries need, in memory: a receipt then costs no query.

Rows of `hashes` as they are committed, the newest KEPT of them; and older ones that a proof needed, which are the roots
of large subtrees on the left, few and the same for every new entry. Rows never change, so none is ever stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from beacon.log import tree
from beacon.log.tree import Node
from verifier.merkle import HASH_BYTES

KEPT: Final = 16_384
OLDER: Final = 1_024


class RecentHashes:
    """`add` is called on the writer's thread, the rest on one other."""

    def __init__(self) -> None:
        self._new: dict[int, bytes] = {}
        self._older: dict[int, bytes] = {}

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Take in rows (i, nodes) that were committed."""
        self._new.update(rows)
        for index, _ in rows:
            self._new.pop(index - KEPT, None)

    def missing(self, index: int, size: int) -> list[int]:
        """The rows that are not here, of those that prove leaf `index` in the tree of `size`; [] when all are."""
        needed = {node.row for part in tree.path(Node(0, index), size) for node in part} | {index}
        return [row for row in needed if row not in self._new and row not in self._older]

    def keep(self, rows: Mapping[int, bytes]) -> None:
        """Take in older rows that were read."""
        if len(self._older) + len(rows) > OLDER:
            self._older = {}
        self._older.update(rows)

    def prove(self, index: int, size: int) -> tuple[bytes, list[bytes]]:
        """The stored leaf hash and its inclusion proof, 32 bytes each. KeyError when a row is not here any more."""
        leaf = self._part(Node(0, index))
        return leaf, tree.prove_inclusion(self._fetch, index, size)

    def _fetch(self, nodes: Iterable[Node]) -> dict[Node, bytes]:
        return {node: self._part(node) for node in nodes}

    def _part(self, node: Node) -> bytes:
        row = self._new.get(node.row) or self._older[node.row]
        return row[HASH_BYTES * node.level : HASH_BYTES * (node.level + 1)]
