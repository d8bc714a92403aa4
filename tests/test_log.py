"""The log: appending, its tree, its proofs, its projections."""

import asyncio
import json
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.log import reads, sequencer, tree
from beacon.log.recovery import open_checkpoint
from beacon.log.tree import Edge, Node
from beacon.store.errors import EntryRefused, LogDamaged, WriteFailed, WriterStopped
from tests.log_support import (
    ORIGIN,
    SIGNER,
    START,
    Clock,
    Index,
    append,
    contribution,
    contributions,
    held,
    open_log,
    verify_whole,
)
from verifier import merkle
from verifier.encoding import encode_json
from verifier.note import Checkpoint, SigningKey, open_note

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())


class Stored:
    """The rows that an Edge gave for these leaves."""

    def __init__(self, leaves):
        self.edge = Edge()
        self.rows = [self.edge.append(leaf) for leaf in leaves]

    def fetch(self, nodes):
        return {node: self.rows[node.row][32 * node.level : 32 * node.level + 32] for node in nodes}


def numbered(count, form="leaf %d"):
    return [merkle.leaf_hash((form % number).encode()) for number in range(count)]


# --- the tree ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["inclusion_prove"], ids=lambda vector: vector["id"])
def test_known_inclusion_proofs(vector):
    given, expected = vector["input"], vector["expect"]
    stored = Stored(numbered(given["size"], given["leaf_format"]))
    proof = tree.prove_inclusion(stored.fetch, given["index"], given["size"])
    assert [part.hex() for part in proof] == expected["proof_hex"]
    assert stored.edge.root().hex() == expected["root_hex"]


@pytest.mark.parametrize("vector", VECTORS["consistency_prove"], ids=lambda vector: vector["id"])
def test_known_consistency_proofs(vector):
    given, expected = vector["input"], vector["expect"]
    stored = Stored(numbered(given["new_size"], given["leaf_format"]))
    proof = tree.prove_consistency(stored.fetch, given["old_size"], given["new_size"])
    assert [part.hex() for part in proof] == expected["proof_hex"]
    assert tree.root_at(stored.fetch, given["old_size"]).hex() == expected["old_root_hex"]


def test_every_proof_of_every_small_tree_is_the_definitions():
    leaves = numbered(70)
    stored = Stored(leaves)
    for size in range(1, len(leaves) + 1):
        assert tree.root_at(stored.fetch, size) == merkle.tree_root(leaves[:size])
        for index in range(size):
            assert tree.prove_inclusion(stored.fetch, index, size) == merkle.prove_inclusion(leaves[:size], index)
        for old in range(1, size + 1):
            assert tree.prove_consistency(stored.fetch, old, size) == merkle.prove_consistency(leaves[:size], old)


@given(st.integers(1, 1500), st.data())
@settings(deadline=None, max_examples=60)
def test_proofs_of_larger_trees(size, data):
    leaves = LARGE[:size]
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    assert tree.prove_inclusion(LARGE_STORED.fetch, index, size) == merkle.prove_inclusion(leaves, index)
    assert tree.prove_consistency(LARGE_STORED.fetch, old, size) == merkle.prove_consistency(leaves, old)


LARGE = numbered(1500)
LARGE_STORED = Stored(LARGE)


def test_the_edge_is_the_root_at_every_size_and_of_the_empty_tree():
    edge = Edge()
    assert edge.root() == merkle.EMPTY_ROOT == tree.root_at(LARGE_STORED.fetch, 0)
    for size, leaf in enumerate(LARGE[:300], 1):
        edge.append(leaf)
        assert edge.size == size
        assert edge.root() == merkle.tree_root(LARGE[:size])


def test_a_copied_edge_goes_its_own_way():
    edge = Edge()
    edge.append(LARGE[0])
    before = edge.root()
    other = edge.copy()
    other.append(LARGE[1])
    assert (edge.size, edge.root()) == (1, before)
    assert other.root() == merkle.tree_root(LARGE[:2])


def test_proofs_outside_the_tree_are_refused():
    for index, size in ((1, 1), (-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="not in a tree"):
            tree.prove_inclusion(LARGE_STORED.fetch, index, size)
    for old, size in ((0, 1), (2, 1), (-1, 5)):
        with pytest.raises(ValueError, match="no proof"):
            tree.prove_consistency(LARGE_STORED.fetch, old, size)


@given(st.integers(0, 300), st.integers(1, 70))
def test_the_proofs_of_new_leaves_are_those_of_the_definition(old, new):
    leaves = [merkle.leaf_hash(b"%d" % index) for index in range(old + new)]
    edge = Edge()
    for leaf in leaves[:old]:
        edge.append(leaf)
    root, proofs = tree.prove_last(edge, leaves[old:])
    assert root == merkle.tree_root(leaves)
    assert proofs == [merkle.prove_inclusion(leaves, index) for index in range(old, old + new)]


# --- appending --------------------------------------------------------------------------------------------------


async def test_a_new_log_begins_with_its_name(tmp_path):
    log = open_log(tmp_path / "log.db")
    assert json.loads(await log.entry(0)) == {"v": 1, "type": "log", "time": START, "origin": ORIGIN}
    assert log.latest().size == 1
    assert log.vkey == str(SIGNER.vkey)
    log.close()
    assert len(verify_whole(tmp_path / "log.db")) == 1


async def test_an_append_is_covered_by_a_signed_checkpoint(tmp_path):
    log = open_log(tmp_path / "log.db")
    done = await log.append(contributions("white", "black"))
    assert [(entry.index, entry.time) for entry in done] == [(1, START), (2, START)]
    assert [entry.entry for entry in done] == [contribution(START, "white"), contribution(START, "black")]
    assert [entry.leaf_hash for entry in done] == [merkle.leaf_hash(entry.entry) for entry in done]
    for entry in done:
        signed = Checkpoint.parse(open_note(entry.checkpoint.note, [SIGNER.vkey]).text)
        assert (signed.origin, signed.size, signed.root) == (ORIGIN, 3, log.latest().root)
        merkle.verify_inclusion(entry.leaf_hash, entry.index, 3, entry.proof, signed.root)
        assert await log.receipt_proof(entry.index) == (entry.proof, entry.checkpoint)
    log.close()


async def test_concurrent_appends_share_commits_and_get_consecutive_indices(tmp_path):
    log = open_log(tmp_path / "log.db")
    results = await asyncio.gather(*(log.append(contributions(f"p{number}")) for number in range(300)))
    done = {entry.index: entry.entry for result in results for entry in result}
    assert sorted(done) == list(range(1, 301))
    assert await log.read(lambda db: db.execute("SELECT count(*) FROM checkpoints").fetchone()[0]) < 100
    log.close()
    verify_whole(tmp_path / "log.db", done)


async def test_a_build_that_raises_appends_nothing_and_disturbs_nobody(tmp_path):
    log = open_log(tmp_path / "log.db")

    def failing(time):
        raise LookupError("no such session")

    results = await asyncio.gather(
        log.append(contributions("a")), log.append(failing), log.append(contributions("b")), return_exceptions=True
    )
    assert isinstance(results[1], LookupError)
    assert [results[0][0].index, results[2][0].index] == [1, 2]
    assert log.latest().size == 3
    log.close()
    verify_whole(tmp_path / "log.db")


REFUSED = {
    "no bytes": lambda time: [contribution(time, "a").decode()],
    "white space": lambda time: [contribution(time, "a").replace(b",", b", ")],
    "another time": lambda time: [contribution(time + 1, "a")],
    "no time": lambda time: [b'{"v":1}'],
    "a truth for a time": lambda time: [b'{"v":1,"time":true}'],
    "no object": lambda time: [b"[]"],
    "nothing": lambda time: [b""],
    "too long": lambda time: [contribution(time, "a", size=40_000)],
    "the second is bad": lambda time: [contribution(time, "a"), b"{}"],
}


@pytest.mark.parametrize("build", REFUSED.values(), ids=REFUSED.keys())
async def test_entries_that_the_log_cannot_hold(tmp_path, build):
    log = open_log(tmp_path / "log.db", clock=Clock(1))
    with pytest.raises(EntryRefused):
        await log.append(build)
    assert log.latest().size == 1
    assert (await log.append(contributions("after")))[0].index == 1
    log.close()
    verify_whole(tmp_path / "log.db")


async def test_the_longest_entry_fits(tmp_path):
    log = open_log(tmp_path / "log.db")

    def longest(time):
        entry = encode_json({"v": 1, "type": "log", "time": time, "origin": ""})
        return [entry.replace(b'""', b'"' + b"x" * (65_535 - len(entry)) + b'"')]

    assert len((await log.append(longest))[0].entry) == 65_535
    assert len(await log.entry(1)) == 65_535
    log.close()


async def test_an_empty_build_appends_nothing(tmp_path):
    log = open_log(tmp_path / "log.db")
    assert await log.append(lambda time: []) == []
    assert log.latest().size == 1
    log.close()


async def test_times_never_decrease_though_the_clock_does(tmp_path):
    clock = Clock()
    log = open_log(tmp_path / "log.db", clock=clock)
    times = []
    for now in (START + 5, START - 1000, START + 5, START + 6, 0):
        clock.time = now
        times.append((await log.append(contributions("a")))[0].time)
    log.close()
    assert times == [START + 5, START + 5, START + 5, START + 6, START + 6]
    log = open_log(tmp_path / "log.db", clock=clock)
    assert (await log.append(contributions("a")))[0].time == START + 6
    log.close()
    verify_whole(tmp_path / "log.db")


async def test_a_refused_build_does_not_move_the_time(tmp_path):
    clock = Clock()
    log = open_log(tmp_path / "log.db", clock=clock)
    clock.time = START + 1000
    with pytest.raises(EntryRefused):
        await log.append(lambda time: [b"{}"])
    clock.time = START + 1
    assert (await log.append(contributions("a")))[0].time == START + 1
    log.close()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12))
@settings(deadline=None, max_examples=15)
def test_any_sequence_of_appends_is_one_whole_log(tmp_path_factory, counts):
    path = tmp_path_factory.mktemp("log") / "log.db"
    done = {}
    for part in (counts[: len(counts) // 2], counts[len(counts) // 2 :]):
        log = open_log(path)
        for number, count in enumerate(part):
            done |= {entry.index: entry.entry for entry in append(log, *(f"{number}.{n}" for n in range(count)))}
        log.close()
    assert len(verify_whole(path, done)) == 1 + sum(counts)


# --- reading ----------------------------------------------------------------------------------------------------


async def test_every_receipt_and_every_consistency_proof_verifies(tmp_path):
    log = open_log(tmp_path / "log.db")
    roots = {1: log.latest().root}
    for count in (1, 2, 5, 8, 13):
        await log.append(contributions(*(f"p{number}" for number in range(count))))
        roots[log.latest().size] = log.latest().root
    size = log.latest().size
    for index in range(size):
        proof, checkpoint = await log.receipt_proof(index)
        leaf = merkle.leaf_hash(await log.entry(index))
        merkle.verify_inclusion(leaf, index, checkpoint.size, proof, checkpoint.root)
        assert checkpoint.size == min(known for known in roots if known > index)
        assert checkpoint.root == roots[checkpoint.size]
    for (old, old_root), (new, new_root) in combinations_with_replacement(roots.items(), 2):
        proof = await log.consistency_proof(old, new)
        merkle.verify_consistency(old, new, proof, old_root, new_root)
    log.close()


async def test_a_hash_that_is_not_in_the_database_is_damage(tmp_path, monkeypatch):
    log = open_log(tmp_path / "log.db")
    await log.append(contributions("a", "b"))
    monkeypatch.setattr(reads, "hash_rows", lambda _db, _rows: {})
    with pytest.raises(LogDamaged):
        await log.receipt_proof(1)
    log.close()


async def test_proofs_that_miss_the_signed_root_never_leave(tmp_path, monkeypatch):
    log = open_log(tmp_path / "log.db")
    monkeypatch.setattr(sequencer, "prove_last", lambda edge, leaves: (bytes(32), [[]] * len(leaves)))
    with pytest.raises(WriterStopped):
        await log.append(contributions("a"))
    log.close()
    assert len(verify_whole(tmp_path / "log.db")) == 1


async def test_what_is_not_there_is_refused(tmp_path):
    log = open_log(tmp_path / "log.db")
    for index in (-1, 1, 2**40):
        with pytest.raises(IndexError):
            await log.receipt_proof(index)
        with pytest.raises(IndexError):
            await log.entry(index)
    for old, new in ((0, 1), (1, 2), (2, 1)):
        with pytest.raises(ValueError, match="no"):
            await log.consistency_proof(old, new)
    assert await log.read(lambda db: reads.checkpoint_note(db, 2)) is None
    log.close()


async def test_checkpoints_of_old_sizes_stay(tmp_path):
    log = open_log(tmp_path / "log.db")
    first = log.latest()
    await log.append(contributions("a", "b"))
    assert await log.read(lambda db: reads.checkpoint_note(db, 1)) == first.note
    assert open_checkpoint(first.note, 1, SIGNER.vkey) == await log.read(lambda db: reads.root_at(db, 1))
    assert await log.read(lambda db: reads.checkpoint_note(db, 2)) is None
    log.close()


@pytest.mark.parametrize(
    "damage", ["UPDATE entries SET entry = '{}' || entry", "UPDATE hashes SET nodes = zeroblob(length(nodes))"]
)
async def test_nothing_damaged_is_handed_out(tmp_path, damage):
    log = open_log(tmp_path / "log.db")
    appended = await log.append(contributions("a"))

    def break_it(db):
        for table in ("entries", "hashes"):
            db.execute(f"DROP TRIGGER {table}_no_update")
        db.execute(damage.replace("'{}' || entry", "CAST('{}' || entry AS BLOB)"))

    await log.writer.run(break_it)
    with pytest.raises(LogDamaged):
        await log.entry(1)
    if "hashes" in damage:
        (made,) = appended
        merkle.verify_inclusion(made.leaf_hash, 1, 2, made.proof, made.checkpoint.root)
        with pytest.raises(LogDamaged):
            await log.receipt_proof(1)
    log.close()


def test_a_missing_hash_is_damage(tmp_path):
    log = open_log(tmp_path / "log.db")
    with pytest.raises(LogDamaged, match="missing"):
        log.reader.submit(lambda db: reads.fetch_nodes(db, [Node(0, 7)])).result()
    log.close()


# --- projections ------------------------------------------------------------------------------------------------


async def test_a_projection_is_loaded_then_told_of_each_commit(tmp_path):
    index = Index()
    log = open_log(tmp_path / "log.db", projections=[index])
    await log.append(contributions("a", "b"))
    log.close()
    assert index.calls == ["opened", "committed", "committed"]
    assert sorted(index.durable) == [1, 2]
    again = Index()
    open_log(tmp_path / "log.db", projections=[again]).close()
    assert again.durable == index.durable


async def test_a_build_sees_what_was_applied_before_it_in_the_same_commit(tmp_path):
    index = Index()
    log = open_log(tmp_path / "log.db", projections=[index])
    seen = []

    def build(time):
        seen.append(len(index.durable) + len(index.staged))
        return [contribution(time, f"p{len(seen)}")]

    with held(log.writer):
        waiting = [asyncio.ensure_future(log.append(build)) for _ in range(50)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert seen == list(range(50))
    assert await log.read(lambda db: db.execute("SELECT count(*) FROM checkpoints").fetchone()[0]) == 2
    log.close()


async def test_a_projection_that_raises_undoes_the_whole_commit(tmp_path):
    index = Index()
    log = open_log(tmp_path / "log.db", projections=[index])
    with held(log.writer):
        waiting = [asyncio.ensure_future(log.append(contributions(name))) for name in ("before", "poison", "after")]
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {WriteFailed}
    assert "a projection with a fault" in str(results[0])
    assert log.latest().size == 1
    assert index.calls[-1] == "rolled back"
    assert (await log.append(contributions("again")))[0].index == 1
    log.close()
    assert sorted(index.durable) == [1]
    verify_whole(tmp_path / "log.db")


async def test_an_answer_comes_after_the_projections_have_committed(tmp_path):
    index = Index()
    log = open_log(tmp_path / "log.db", projections=[index])
    done = await log.append(contributions("a"))
    assert done[0].index in index.durable
    log.close()


# --- opening ----------------------------------------------------------------------------------------------------


async def test_a_closed_log_takes_nothing(tmp_path):
    log = open_log(tmp_path / "log.db")
    log.close()
    log.close()
    with pytest.raises(WriterStopped):
        await log.append(contributions("a"))


def test_another_key_of_the_same_name_is_refused(tmp_path):
    open_log(tmp_path / "log.db").close()
    with pytest.raises(LogDamaged, match="not one that"):
        open_log(tmp_path / "log.db", signer=SigningKey(bytes(32), ORIGIN))
    verify_whole(tmp_path / "log.db")


def test_the_same_key_under_another_name_is_refused(tmp_path):
    open_log(tmp_path / "log.db").close()
    with pytest.raises(LogDamaged, match="not one that"):
        open_log(tmp_path / "log.db", signer=SigningKey(bytes(range(32)), "log.example/other"))


def test_opening_appends_nothing_to_a_log_that_has_begun(tmp_path):
    open_log(tmp_path / "log.db").close()
    log = open_log(tmp_path / "log.db", clock=Clock(START + 10))
    assert (log.latest().size, log.latest().time) == (1, START)
    log.close()
