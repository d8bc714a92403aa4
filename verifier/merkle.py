"""The Merkle tree of the log (RFC 6962, 2.1): its hashes, its roots, and the two proofs that everything rests on.

    leaf = H(0x00 || entry)          node = H(0x01 || left || right)

A tree of n > 1 leaves splits at the largest power of two below n. All hashes are 32 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from verifier.errors import Code, VerificationError

HASH_BYTES: Final = 32
MAX_SIZE: Final = 2**63 - 1
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """32 bytes: the hash of the exact bytes of one entry."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """32 bytes: the hash of an interior node over its two 32-byte children."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def verify_inclusion(leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that a leaf is in the tree (RFC 9162, 2.1.3.2).

    leaf_hash, root and each proof element are 32 bytes; 0 <= index < size < 2**63.
    Raises VerificationError(INCLUSION) when the proof does not lead to the root.
    """
    _require(0 <= index < size <= MAX_SIZE, Code.INCLUSION, "no such leaf in a tree of that size")
    _require(_all_hashes(leaf_hash, root, *proof), Code.INCLUSION, "a hash is not 32 bytes")
    node, last, computed = index, size - 1, leaf_hash
    for sibling in proof:
        _require(last > 0, Code.INCLUSION, "the proof is too long")
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            computed = node_hash(computed, sibling)
        node, last = node >> 1, last >> 1
    _require(last == 0, Code.INCLUSION, "the proof is too short")
    _require(computed == root, Code.INCLUSION, "the proof does not lead to the root")


def verify_consistency(old_size: int, new_size: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check that the old tree is a prefix of the new one (RFC 9162, 2.1.4.2).

    Roots and proof elements are 32 bytes; 0 <= old_size <= new_size < 2**63. Equal sizes need equal roots and an
    empty proof. Nothing proves a step from the empty tree: a caller that takes any first tree does not call this.
    Raises VerificationError(CONSISTENCY).
    """
    _require(0 <= old_size <= new_size <= MAX_SIZE, Code.CONSISTENCY, "the old tree is larger than the new one")
    _require(_all_hashes(old_root, new_root, *proof), Code.CONSISTENCY, "a hash is not 32 bytes")
    if old_size == new_size:
        _require(old_root == new_root, Code.CONSISTENCY, "two roots of one size")
        _require(old_size > 0 or old_root == EMPTY_ROOT, Code.CONSISTENCY, "not the root of the empty tree")
        _require(not proof, Code.CONSISTENCY, "a proof between equal sizes")
        return
    _require(old_size > 0, Code.CONSISTENCY, "no proof starts at the empty tree")
    _require(len(proof) > 0, Code.CONSISTENCY, "the proof is empty")

    path = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        _require(last > 0, Code.CONSISTENCY, "the proof is too long")
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    _require(last == 0, Code.CONSISTENCY, "the proof is too short")
    _require(old == old_root, Code.CONSISTENCY, "the proof does not lead to the old root")
    _require(new == new_root, Code.CONSISTENCY, "the proof does not lead to the new root")


def tree_root(leaf_hashes: Sequence[bytes]) -> bytes:
    """32 bytes: the root over these leaf hashes (RFC 6962, 2.1); EMPTY_ROOT for none."""
    if not leaf_hashes:
        return EMPTY_ROOT
    if len(leaf_hashes) == 1:
        return leaf_hashes[0]
    k = _split(len(leaf_hashes))
    return node_hash(tree_root(leaf_hashes[:k]), tree_root(leaf_hashes[k:]))


class Frontier:
    """The right edge of a growing tree: its root at any size from one pass, in memory of its height."""

    def __init__(self) -> None:
        self.size = 0
        self._roots: list[bytes] = []

    def append(self, leaf_hash: bytes) -> None:
        """Add a leaf by its 32-byte hash."""
        node, index = leaf_hash, self.size
        while index & 1:
            node, index = node_hash(self._roots.pop(), node), index >> 1
        self._roots.append(node)
        self.size += 1

    def root(self) -> bytes:
        """32 bytes: the root of all leaves so far; EMPTY_ROOT for none."""
        if not self._roots:
            return EMPTY_ROOT
        *others, node = self._roots
        for left in reversed(others):
            node = node_hash(left, node)
        return node


def prove_inclusion(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Give the inclusion proof of leaf `index` in the tree of all these leaves (RFC 6962, 2.1.1).

    0 <= index < their number. By the definition, so linear in the tree: for vectors and tests.
    """
    _require(0 <= index < len(leaf_hashes), Code.INCLUSION, "no such leaf in a tree of that size")
    if len(leaf_hashes) == 1:
        return []
    k = _split(len(leaf_hashes))
    if index < k:
        return [*prove_inclusion(leaf_hashes[:k], index), tree_root(leaf_hashes[k:])]
    return [*prove_inclusion(leaf_hashes[k:], index - k), tree_root(leaf_hashes[:k])]


def prove_consistency(leaf_hashes: Sequence[bytes], old_size: int) -> list[bytes]:
    """Give the proof that the tree of the first `old_size` leaves is a prefix of the tree of all (RFC 6962, 2.1.2).

    0 < old_size <= their number. By the definition, so linear in the tree: for vectors and tests.
    """
    _require(0 < old_size <= len(leaf_hashes), Code.CONSISTENCY, "no proof from a tree of that size")
    return _subproof(leaf_hashes, old_size, whole=True)


def _subproof(leaf_hashes: Sequence[bytes], old_size: int, *, whole: bool) -> list[bytes]:
    if old_size == len(leaf_hashes):
        return [] if whole else [tree_root(leaf_hashes)]
    k = _split(len(leaf_hashes))
    if old_size <= k:
        return [*_subproof(leaf_hashes[:k], old_size, whole=whole), tree_root(leaf_hashes[k:])]
    return [*_subproof(leaf_hashes[k:], old_size - k, whole=False), tree_root(leaf_hashes[:k])]


def _split(n: int) -> int:
    return 1 << ((n - 1).bit_length() - 1)


def _all_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)


def _require(condition: bool, code: Code, message: str) -> None:
    if not condition:
        raise VerificationError(code, message)
