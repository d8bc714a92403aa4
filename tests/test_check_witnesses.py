"""Which cosignatures count for which claim (PROTOCOL.md, 7.1 and 8)."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from tests.builder import ORIGIN, POLICY, at, data, match
from tests.check_support import TRUST, WITNESSED, broken, verdict
from verifier import merkle
from verifier.evidence import Sighting, Witnesses
from verifier.note import COSIGNATURE_V1, ECDSA, ED25519, ML_DSA_44, TREE_HEAD, Signature, VerifierKey, subtree_message
from verifier.policy import Policy
from verifier.transcript import parse_transcript
from verifier.verdict import State

PRIVATE = MLDSA44PrivateKey.from_seed_bytes(b"\x66" * 32)
POST_QUANTUM = VerifierKey.of("pq.example", ML_DSA_44, PRIVATE.public_key().public_bytes_raw())
WITH_POST_QUANTUM = replace(
    TRUST,
    policy=Policy.parse(POLICY.replace("group two 2 w1 w2 w3", f"witness pq {POST_QUANTUM}\ngroup two 2 w1 w2 w3 pq")),
)


def post_quantum_line(story, size, seconds):
    """The line of an ML-DSA-44 witness (type 0x06) under the checkpoint of `size`."""
    time = at(seconds) // 1000
    message = subtree_message(POST_QUANTUM.name, time, ORIGIN, 0, size, merkle.tree_root(story.hashes(size)))
    return Signature(POST_QUANTUM.name, POST_QUANTUM.key_id, time.to_bytes(8, "big") + PRIVATE.sign(message)).encode()


def test_only_a_cosignature_of_type_4_says_when_though_others_witness():
    """A quorum of one type 0x04 and one type 0x06 covers everything, and cannot prove the close (entry 5) early."""
    story = match().reveal(135)
    size = len(story.leaves)

    def document(seen, *, other):
        evidence = [story.evidence(6, seen, 5), story.evidence(size, {"w1": 200})]
        if other:
            evidence[0]["checkpoint"] += post_quantum_line(story, 6, 7)
            evidence[1]["checkpoint"] += post_quantum_line(story, size, 200)
        return story.document(evidence=evidence)

    mixed = verdict(document({"w1": 7}, other=True), WITH_POST_QUANTUM)
    assert broken(mixed) == set()
    assert mixed["sole"].state == mixed["witnessed"].state == State.PROVEN
    assert mixed["unpredictable"].state == State.TRUSTED
    alone = verdict(document({"w1": 7}, other=False), WITH_POST_QUANTUM)
    assert alone["sole"].state == alone["unpredictable"].state == State.TRUSTED
    early = verdict(document({"w1": 7, "w2": 7}, other=True), WITH_POST_QUANTUM)
    assert early["unpredictable"].state == early["sole"].state == State.PROVEN


@pytest.mark.parametrize("key_type", [ED25519, ECDSA, COSIGNATURE_V1, TREE_HEAD, ML_DSA_44])
def test_the_time_of_any_other_type_counts_for_nothing(key_type):
    story = match().reveal(135)
    transcript = parsed(story)
    deadline = at(15)
    witnesses = Witnesses(WITNESSED.policy, [transcript.signed], transcript)
    witnesses.seen = [Sighting(6, "w1", at(7) // 1000, key_type)]
    expected = {"w1": at(7) // 1000} if key_type == COSIGNATURE_V1 else {}
    assert witnesses.before([(5, deadline)], TRUST.chains) == {(5, deadline): expected}


def parsed(story):
    return parse_transcript(data(story.document()))


@pytest.mark.parametrize("quorum", [(), ("w1",), ("w2",), ("w1", "w2"), ("w2", "w3"), ("w1", "w2", "w3")])
@pytest.mark.parametrize("short", [0, 1, 2])
def test_sole_and_witnessed_need_a_quorum_that_covers_the_end(quorum, short):
    """Every leaf from the seal to the end stands in the document; only the witnesses' checkpoint differs."""
    story = match().reveal(135)
    size = len(story.leaves) - short
    result = verdict(story.document(evidence=[story.evidence(size, dict.fromkeys(quorum, 200))]), WITNESSED)
    assert broken(result) == set()
    proven = len(quorum) > 1 and short == 0
    assert result["sole"].state == result["witnessed"].state == (State.PROVEN if proven else State.TRUSTED)
