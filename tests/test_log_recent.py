"""Receipts from memory are the same as from the database, for new and old entries, whatever was kept."""

import asyncio
import random

import pytest

from beacon.log import reads, recent
from beacon.log.recent import RecentHashes
from beacon.log.tree import Edge
from beacon.store.errors import LogDamaged
from tests.log_support import contributions, open_log
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
        assert kept.prove(index, size) == (leaves[index], prove_inclusion(leaves, index))


def test_rows_that_were_let_go_are_asked_for_and_kept(monkeypatch):
    monkeypatch.setattr(recent, "KEPT", 8)
    size = 100
    rows, leaves = dict(grown(size)), [leaf_hash(b"%d" % index) for index in range(size)]
    kept = RecentHashes()
    for index, nodes in rows.items():
        kept.add([(index, nodes)])
    assert len(kept._new) == 8
    for index in (99, 0, 50):
        with pytest.raises(KeyError):
            kept.prove(index, size)
        kept.keep({row: rows[row] for row in recent.rows_needed(index, size)})
        leaf, proof = kept.prove(index, size)
        verify_inclusion(leaf, index, size, proof, tree_root(leaves))
    assert kept.prove(0, size) == recent.prove(rows.__getitem__, 0, size) == (leaves[0], prove_inclusion(leaves, 0))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100])
def test_exactly_the_rows_that_are_needed(size):
    rows = dict(grown(size))
    for index in range(size):
        used = set()
        recent.prove(lambda row, used=used: used.add(row) or rows[row], index, size)
        assert used == set(recent.rows_needed(index, size))


async def test_receipts_of_old_entries_at_once_do_not_take_rows_from_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(recent, "OLDER", 24)
    log = open_log(tmp_path / "log.db")
    await log.append(contributions(*(f"p{number}" for number in range(300))))
    log._recent._new.clear()
    numbers = random.Random(5)

    async def reader():
        for _ in range(40):
            proof, checkpoint = await log.receipt_proof(numbers.randrange(1, 301))
            assert checkpoint.size == 301
            assert proof

    await asyncio.gather(*(reader() for _ in range(8)))
    log.close()


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
