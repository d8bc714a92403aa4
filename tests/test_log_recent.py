"""Receipts from memory are the same as from the database, for new and old entries, whatever was kept."""

import pytest

from beacon.log import reads, recent
from beacon.log.recent import RecentHashes
from beacon.log.tree import Edge
from beacon.store.errors import LogDamaged
from tests.session_support import service
from verifier.merkle import leaf_hash, prove_inclusion, tree_root, verify_inclusion


def grown(size):
    edge = Edge()
    return [(index, edge.append(leaf_hash(b"%d" % index))) for index in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64, 100, 257])
def test_proofs_are_those_of_the_definition(size):
    rows, leaves = grown(size), [leaf_hash(b"%d" % index) for index in range(size)]
    kept = RecentHashes()
    kept.add(rows)
    for index in range(size):
        assert kept.missing(index, size) == []
        assert kept.prove(index, size) == (leaves[index], prove_inclusion(leaves, index))


def test_rows_that_were_let_go_are_asked_for_and_kept(monkeypatch):
    monkeypatch.setattr(recent, "KEPT", 8)
    size = 100
    rows, leaves = dict(grown(size)), [leaf_hash(b"%d" % index) for index in range(size)]
    kept = RecentHashes()
    for index, nodes in rows.items():
        kept.add([(index, nodes)])
    assert len(kept._new) == 8
    assert kept.missing(99, size)
    assert kept.missing(0, size)
    for index in (99, 98, 0, 50):
        missing = kept.missing(index, size)
        if missing:
            with pytest.raises(KeyError):
                kept.prove(index, size)
        kept.keep({row: rows[row] for row in missing})
        leaf, proof = kept.prove(index, size)
        verify_inclusion(leaf, index, size, proof, tree_root(leaves))


def test_the_older_rows_are_bounded(monkeypatch):
    monkeypatch.setattr(recent, "OLDER", 10)
    kept = RecentHashes()
    for start in range(0, 100, 4):
        kept.keep(dict.fromkeys(range(start, start + 4), b"\x00" * 32))
        assert len(kept._older) <= 10


async def test_a_row_that_is_not_in_the_database_is_damage(tmp_path):
    async with service(tmp_path) as running:
        await running.seal()
        running.log._recent._new.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(reads, "hash_rows", lambda _db, _rows: {})
            with pytest.raises(LogDamaged):
                await running.log.receipt_proof(1)
        proof, checkpoint = await running.log.receipt_proof(1)
        assert checkpoint.size == 3
        assert len(proof) == 2
