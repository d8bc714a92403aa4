import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import merkle
from verifier.errors import Code, VerificationError
from verifier.vectors_tlog import run_section

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())
SECTIONS = ["merkle_hash", "inclusion_verify", "consistency_verify", "inclusion_prove", "consistency_prove"]
CASES = [pytest.param(section, case, id=case["id"]) for section in SECTIONS for case in VECTORS[section]]

LEAVES = [merkle.leaf_hash(b"leaf %d" % i) for i in range(130)]
ROOTS = [merkle.tree_root(LEAVES[:size]) for size in range(len(LEAVES) + 1)]


def included(*arguments):
    try:
        merkle.verify_inclusion(*arguments)
    except VerificationError as error:
        return error.code is not Code.INCLUSION
    return True


def consistent(*arguments):
    try:
        merkle.verify_consistency(*arguments)
    except VerificationError as error:
        return error.code is not Code.CONSISTENCY
    return True


def flip(data, bit):
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


@pytest.mark.parametrize(("section", "case"), CASES)
def test_known_answers(section, case):
    assert run_section(section, case) is None


def test_root_by_merging_complete_subtrees_of_one_size():
    for size in range(len(LEAVES) + 1):
        stack = []
        for leaf in LEAVES[:size]:
            height, node = 0, leaf
            while stack and stack[-1][0] == height:
                node = hashlib.sha256(b"\x01" + stack.pop()[1] + node).digest()
                height += 1
            stack.append((height, node))
        root = stack.pop()[1] if stack else hashlib.sha256().digest()
        while stack:
            root = hashlib.sha256(b"\x01" + stack.pop()[1] + root).digest()
        assert ROOTS[size] == root


def test_every_inclusion_proof_of_small_trees_holds_for_its_own_leaf_and_index_only():
    for size in range(1, 20):
        for index in range(size):
            proof = merkle.prove_inclusion(LEAVES[:size], index)
            accepted = {
                (leaf, at)
                for leaf in range(20)
                for at in range(20)
                if included(LEAVES[leaf], at, size, proof, ROOTS[size])
            }
            assert accepted == {(index, index)}


def test_every_consistency_proof_of_small_trees_holds_for_its_own_roots_only():
    for new in range(1, 20):
        for old in range(1, new):
            proof = merkle.prove_consistency(LEAVES[:new], old)
            accepted = {(a, b) for a in range(20) for b in range(20) if consistent(old, new, proof, ROOTS[a], ROOTS[b])}
            assert accepted == {(old, new)}


@given(st.data())
def test_any_flipped_bit_of_an_inclusion_proof_is_refused(data):
    size = data.draw(st.integers(1, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    parts = [LEAVES[index], ROOTS[size], *merkle.prove_inclusion(LEAVES[:size], index)]
    assert included(parts[0], index, size, parts[2:], parts[1])
    part = data.draw(st.integers(0, len(parts) - 1))
    parts[part] = flip(parts[part], data.draw(st.integers(0, 255)))
    assert not included(parts[0], index, size, parts[2:], parts[1])


@given(st.data())
def test_any_flipped_bit_of_a_consistency_proof_is_refused(data):
    new = data.draw(st.integers(1, len(LEAVES)))
    old = data.draw(st.integers(1, new))
    parts = [ROOTS[old], ROOTS[new], *merkle.prove_consistency(LEAVES[:new], old)]
    assert consistent(old, new, parts[2:], parts[0], parts[1])
    part = data.draw(st.integers(0, len(parts) - 1))
    parts[part] = flip(parts[part], data.draw(st.integers(0, 255)))
    assert not consistent(old, new, parts[2:], parts[0], parts[1])


@given(st.data())
def test_a_proof_with_an_element_more_less_or_moved_is_refused(data):
    size = data.draw(st.integers(3, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size - 1))
    inclusion, consistency = merkle.prove_inclusion(LEAVES[:size], index), merkle.prove_consistency(LEAVES[:size], old)
    extra = data.draw(st.sampled_from([*inclusion, *consistency, LEAVES[index], ROOTS[size], merkle.EMPTY_ROOT]))
    for proof in changed(inclusion, extra):
        assert not included(LEAVES[index], index, size, proof, ROOTS[size])
    for proof in changed(consistency, extra):
        assert not consistent(old, size, proof, ROOTS[old], ROOTS[size])


def changed(proof, extra):
    """Every proof with `extra` put in anywhere, with one element left out, or with two neighbours exchanged."""
    for at in range(len(proof) + 1):
        yield [*proof[:at], extra, *proof[at:]]
    for at in range(len(proof)):
        yield [*proof[:at], *proof[at + 1 :]]
    for at in range(len(proof) - 1):
        yield [*proof[:at], proof[at + 1], proof[at], *proof[at + 2 :]]


@given(st.data())
def test_an_element_of_another_length_is_refused(data):
    size = data.draw(st.integers(2, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    parts = [LEAVES[index], ROOTS[size], *merkle.prove_inclusion(LEAVES[:size], index)]
    part = data.draw(st.integers(0, len(parts) - 1))
    parts[part] = data.draw(st.sampled_from([b"", parts[part][:31], parts[part] + b"\0", parts[part] * 2]))
    assert not included(parts[0], index, size, parts[2:], parts[1])
    assert not consistent(1, size, parts[2:], parts[0], parts[1])


@pytest.mark.parametrize(("index", "size"), [(-1, 1), (0, 0), (1, 1), (2, 1), (-1, -1), (0, 2**63), (2**63, 2**64)])
def test_indices_outside_the_tree_are_refused(index, size):
    assert not included(LEAVES[0], index, size, [], LEAVES[0])


def test_the_largest_tree_is_checked():
    size = 2**63 - 1
    root = LEAVES[0]
    for _ in range(63):
        root = merkle.node_hash(root, LEAVES[1])
    assert included(LEAVES[0], 0, size, [LEAVES[1]] * 63, root)
    assert not included(LEAVES[0], 0, size + 1, [LEAVES[1]] * 63, root)
    assert consistent(1, size, [LEAVES[1]] * 63, LEAVES[0], root)
    assert not consistent(1, size + 1, [LEAVES[1]] * 63, LEAVES[0], root)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_proof_that_goes_on_above_the_root_is_refused(size):
    for above in (merkle.node_hash(ROOTS[9], ROOTS[size]), merkle.node_hash(ROOTS[size], ROOTS[9])):
        assert not included(LEAVES[0], 0, size, [*merkle.prove_inclusion(LEAVES[:size], 0), ROOTS[9]], above)
        assert not included(
            LEAVES[size - 1], size - 1, size, [*merkle.prove_inclusion(LEAVES[:size], size - 1), ROOTS[9]], above
        )
        for old in range(1, size):
            proof = [*merkle.prove_consistency(LEAVES[:size], old), ROOTS[9]]
            for old_above in (ROOTS[old], merkle.node_hash(ROOTS[9], ROOTS[old])):
                assert not consistent(old, size, proof, old_above, above)


@pytest.mark.parametrize("odd", [b"", bytes(31), bytes(33), bytes(64)])
def test_hashes_of_another_length_are_refused_even_where_they_lead_to_the_root(odd):
    assert not included(odd, 0, 1, [], odd)
    assert not included(odd, 0, 2, [LEAVES[1]], merkle.node_hash(odd, LEAVES[1]))
    assert not included(LEAVES[0], 0, 2, [odd], merkle.node_hash(LEAVES[0], odd))
    assert not consistent(1, 2, [odd], LEAVES[0], merkle.node_hash(LEAVES[0], odd))
    assert not consistent(1, 2, [LEAVES[1]], odd, merkle.node_hash(odd, LEAVES[1]))
    assert not consistent(1, 1, [], odd, odd)


def test_equal_sizes_need_equal_roots_and_no_proof():
    assert consistent(5, 5, [], ROOTS[5], ROOTS[5])
    assert not consistent(5, 5, [], ROOTS[5], ROOTS[6])
    assert not consistent(5, 5, [LEAVES[0]], ROOTS[5], ROOTS[5])


def test_nothing_is_consistent_with_a_later_empty_tree_or_proven_from_an_earlier_one():
    assert consistent(0, 0, [], merkle.EMPTY_ROOT, merkle.EMPTY_ROOT)
    assert not consistent(0, 0, [], ROOTS[1], ROOTS[1])
    assert not consistent(0, 1, [], merkle.EMPTY_ROOT, ROOTS[1])
    assert not consistent(0, 1, [ROOTS[1]], merkle.EMPTY_ROOT, ROOTS[1])
    assert not consistent(1, 0, [], ROOTS[1], merkle.EMPTY_ROOT)
    assert not consistent(-1, 1, [], ROOTS[1], ROOTS[1])
    assert not consistent(1, 2**63, [LEAVES[0]], ROOTS[1], ROOTS[1])


def test_a_smaller_old_tree_needs_a_proof():
    assert not consistent(4, 5, [], ROOTS[4], ROOTS[5])
    assert not consistent(3, 5, [], ROOTS[3], ROOTS[5])


def test_a_leaf_is_no_node():
    assert merkle.leaf_hash(b"") != merkle.EMPTY_ROOT
    assert merkle.leaf_hash(LEAVES[0] + LEAVES[1]) != merkle.node_hash(LEAVES[0], LEAVES[1])


@pytest.mark.parametrize("index", [-1, 3])
def test_nothing_is_proven_about_a_leaf_outside(index):
    with pytest.raises(VerificationError, match="inclusion: "):
        merkle.prove_inclusion(LEAVES[:3], index)


@pytest.mark.parametrize("old_size", [-1, 0, 4])
def test_nothing_is_proven_from_an_empty_or_larger_tree(old_size):
    with pytest.raises(VerificationError, match="consistency: "):
        merkle.prove_consistency(LEAVES[:3], old_size)
