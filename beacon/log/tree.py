"""The writer's side of the Merkle tree (RFC 6962, 2.1): hashes are stored once and never change.

Node (level, n) is the root of the 2^level leaves from n·2^level on. It is complete with its last leaf, so it stands in
that leaf's row of `hashes`, behind the smaller nodes that this leaf completes: leaf 5 completes (0, 5) and (1, 2). A
tree of any size is a few such nodes, one for each bit that is set in its size: its right edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from verifier.merkle import EMPTY_ROOT, node_hash


class Node(NamedTuple):
    """A perfect subtree: the 2^level leaves from n·2^level on."""

    level: int
    n: int

    @property
    def row(self) -> int:
        """The leaf that completes it, which is the row of `hashes` that holds it."""
        return ((self.n + 1) << self.level) - 1


Fetch = Callable[[Iterable[Node]], Mapping[Node, bytes]]


@dataclass(slots=True)
class Edge:
    """The right edge of a tree: the roots of its perfect subtrees, largest first, 32 bytes each."""

    size: int = 0
    roots: list[bytes] = field(default_factory=list)

    def copy(self) -> Edge:
        return Edge(self.size, self.roots.copy())

    def append(self, leaf: bytes) -> bytes:
        """Add a leaf hash (32 bytes). Returns its row of `hashes`: the leaf, then the nodes that it completes."""
        roots, index = self.roots, self.size
        self.size += 1
        if not index & 1:
            roots.append(leaf)
            return leaf
        nodes, node = [leaf], leaf
        while index & 1:
            node = node_hash(roots.pop(), node)
            nodes.append(node)
            index >>= 1
        roots.append(node)
        return b"".join(nodes)

    def root(self) -> bytes:
        """32 bytes: the root of the tree."""
        return fold(self.roots)


def fold(roots: Sequence[bytes]) -> bytes:
    """32 bytes: the root over neighbouring perfect subtrees, largest first; EMPTY_ROOT for none."""
    if not roots:
        return EMPTY_ROOT
    node = roots[-1]
    for left in reversed(roots[:-1]):
        node = node_hash(left, node)
    return node


def edge_nodes(size: int, first: int = 0) -> list[Node]:
    """Give the perfect subtrees of the leaves first..size-1, largest first.

    `first` is 0 or a multiple of a power of two that is at least size - first.
    """
    nodes = []
    rest = size - first
    while rest:
        level = rest.bit_length() - 1
        nodes.append(Node(level, first >> level))
        first += 1 << level
        rest -= 1 << level
    return nodes


def path(node: Node, size: int) -> list[list[Node]]:
    """Give the siblings from a complete node up to the root of the tree of `size` leaves, lowest first.

    Each is given as the perfect subtrees that it is folded from: one, but for the sibling at the right border.
    """
    level, n = node
    last = (size - 1) >> level
    inner = (n ^ last).bit_length()
    siblings = []
    for height in range(inner):
        sibling = (n >> height) ^ 1
        if sibling == last >> height:
            siblings.append(edge_nodes(size, sibling << (level + height)))
        else:
            siblings.append([Node(level + height, sibling)])
    border = n >> inner
    height = level + inner
    while border:
        if border & 1:
            siblings.append([Node(height, border - 1)])
        border >>= 1
        height += 1
    return siblings


def prove_inclusion(fetch: Fetch, index: int, size: int) -> list[bytes]:
    """Give the inclusion proof of leaf `index` in the tree of `size` leaves (RFC 6962, 2.1.1). 0 <= index < size."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    return _resolve(fetch, path(Node(0, index), size))


def prove_last(edge: Edge, leaves: Sequence[bytes]) -> tuple[bytes, list[list[bytes]]]:
    """Give the root of the tree that `edge` becomes with these leaves, and the inclusion proof of each of them in it.

    All hashes are 32 bytes. The root is hashed from the very nodes that stand in the proofs. Whatever lies left of the
    new leaves is in the edge already: a sibling of theirs is perfect, and its parent is not complete without them.
    """
    size = edge.size + len(leaves)
    hashes: dict[tuple[int, int], bytes] = {}
    for node, root in zip(edge_nodes(edge.size), edge.roots, strict=True):
        hashes[node.n << node.level, node.row + 1] = root
    hashes |= {(index, index + 1): leaf for index, leaf in enumerate(leaves, edge.size)}
    proofs: list[list[bytes]] = []

    def hash_of(first: int, end: int) -> bytes:
        known = hashes.get((first, end))
        if known is None:
            middle = _middle(first, end)
            known = hashes[first, end] = node_hash(hash_of(first, middle), hash_of(middle, end))
        return known

    def descend(first: int, end: int, above: list[bytes]) -> None:
        if end <= edge.size:
            return
        if end - first == 1:
            proofs.append(above)
            return
        middle = _middle(first, end)
        descend(first, middle, [hash_of(middle, end), *above])
        descend(middle, end, [hash_of(first, middle), *above])

    root = hash_of(0, size)
    descend(0, size, [])
    return root, proofs


def _middle(first: int, end: int) -> int:
    return first + (1 << ((end - first - 1).bit_length() - 1))


def prove_consistency(fetch: Fetch, old_size: int, size: int) -> list[bytes]:
    """Give the proof that the tree of `old_size` leaves is a prefix of that of `size` (RFC 6962, 2.1.2).

    1 <= old_size <= size; empty when they are equal.
    """
    if not 1 <= old_size <= size:
        raise ValueError(f"no proof from a tree of {old_size} to one of {size}")
    if old_size == size:
        return []
    level = (old_size & -old_size).bit_length() - 1
    corner = Node(level, (old_size >> level) - 1)
    siblings = path(corner, size)
    return _resolve(fetch, siblings if corner.n == 0 else [[corner], *siblings])


def root_at(fetch: Fetch, size: int) -> bytes:
    """32 bytes: the root of the tree of the first `size` leaves."""
    return _resolve(fetch, [edge_nodes(size)])[0] if size else EMPTY_ROOT


def _resolve(fetch: Fetch, parts: list[list[Node]]) -> list[bytes]:
    hashes = fetch([node for part in parts for node in part])
    return [hashes[part[0]] if len(part) == 1 else fold([hashes[node] for node in part]) for part in parts]
