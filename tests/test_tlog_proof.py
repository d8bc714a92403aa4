import base64
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import merkle, tlog_proof
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.note import Checkpoint, Cosigner, SigningKey
from verifier.policy import Policy
from verifier.tlog_proof import TlogProof, add_checkpoint_request
from verifier.vectors_tlog import run_section

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())
SECTIONS = ["tlog_proof_encode", "tlog_proof_parse", "tlog_proof_verify", "witness_request_encode"]
CASES = [pytest.param(section, case, id=case["id"]) for section in SECTIONS for case in VECTORS[section]]


def seed(name):
    return hashlib.sha256(name.encode()).digest()


ENTRIES = [b"entry %d" % i for i in range(20)]
LEAVES = [merkle.leaf_hash(entry) for entry in ENTRIES]
LOG = SigningKey(seed("log"), "log.example")
STRANGER = SigningKey(seed("stranger"), "log.example")
WITNESSES = [Cosigner(seed(f"witness {i}"), f"w{i}.example") for i in range(3)]
TEXT = Checkpoint("log.example", 20, merkle.tree_root(LEAVES)).encode()
COSIGNED = TEXT + "\n" + LOG.sign(TEXT) + "".join(w.cosign(TEXT, 1_700_000_000) for w in WITNESSES[:2])
POLICY_TEXT = f"log {LOG.vkey}\n" + "".join(f"witness W{i} {w.vkey}\n" for i, w in enumerate(WITNESSES))
POLICY = Policy.parse(POLICY_TEXT + "group G 2 W0 W1 W2\nquorum G\n")
INDEX = 13
PROOF = TlogProof(INDEX, tuple(merkle.prove_inclusion(LEAVES, INDEX)), COSIGNED)
HASH = base64.b64encode(bytes(32)).decode()
HEAD = "c2sp.org/tlog-proof@v1\n"


def malformed(text):
    with pytest.raises(FormatError) as caught:
        TlogProof.parse(text)
    return caught.value.code is Code.TLOG_PROOF


def refused(proof, leaf=LEAVES[INDEX], policy=POLICY, code=Code.SIGNATURE):
    with pytest.raises(VerificationError) as caught:
        tlog_proof.verify(proof, leaf, policy)
    return caught.value.code is code


@pytest.mark.parametrize(("section", "case"), CASES)
def test_known_answers(section, case):
    assert run_section(section, case) is None


def test_round_trip():
    for extra in (None, b"\0", ENTRIES[INDEX] * 1000):
        proof = replace(PROOF, extra=extra)
        assert TlogProof.parse(proof.encode()) == proof
        assert TlogProof.parse(proof.encode().encode()) == proof
    assert PROOF.encode().startswith(f"{HEAD}index 13\n")
    assert replace(PROOF, extra=b"abc").encode().startswith(f"{HEAD}extra YWJj\nindex 13\n")


def test_the_largest_proof():
    assert TlogProof.parse(f"{HEAD}index {2**63 - 1}\n{(HASH + chr(10)) * 63}\nc\n").index == 2**63 - 1
    assert malformed(f"{HEAD}index 0\n{(HASH + chr(10)) * 64}\nc\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "\n\nc\n",
        HEAD,
        HEAD + "\nc\n",
        HEAD + "\n\nc\n",
        "C2SP.org/tlog-proof@v1\nindex 0\n\nc\n",
        "c2sp.org/tlog-proof@v2\nindex 0\n\nc\n",
        " " + HEAD + "index 0\n\nc\n",
        "\ufeff" + HEAD + "index 0\n\nc\n",
        HEAD + "index 0",
        HEAD + "index 0\n",
        HEAD + "index 0\n\n",
        HEAD + "index 0\nc\n",
        HEAD + "index 0\n\nc",
        HEAD + "index 0\n\n\nc\n",
        HEAD + "index 0\r\n\r\nc\r\n",
        HEAD + "index\n\nc\n",
        HEAD + "index \n\nc\n",
        HEAD + "index  0\n\nc\n",
        HEAD + "index 0 \n\nc\n",
        HEAD + "Index 0\n\nc\n",
        HEAD + "index\t0\n\nc\n",
        *(
            HEAD + f"index {n}\n\nc\n"
            for n in ("-1", "+1", "01", "00", "1_0", "1.0", "0x1", "\uff11", str(2**63), "9" * 5000)
        ),
        HEAD + "index 0\nindex 0\n\nc\n",
        HEAD + "index 0\nextra YWJj\n\nc\n",
        HEAD + "extra \nindex 0\n\nc\n",
        HEAD + "extra\nindex 0\n\nc\n",
        HEAD + "extra YWJj\nextra YWJj\nindex 0\n\nc\n",
        HEAD + "extra YWI\nindex 0\n\nc\n",
        HEAD + "extra YWJ=\nindex 0\n\nc\n",
        HEAD + "extra YWJj \nindex 0\n\nc\n",
        HEAD + "extra YWJj\n\nc\n",
        HEAD + f"{HASH}\nindex 0\n\nc\n",
        HEAD + f"index 0\n{HASH} \n\nc\n",
        HEAD + f"index 0\n{HASH[:-1]}\n\nc\n",
        HEAD + f"index 0\n{HASH[:-2]}B=\n\nc\n",
        HEAD + f"index 0\n{base64.b64encode(bytes(31)).decode()}\n\nc\n",
        HEAD + f"index 0\n{base64.b64encode(bytes(33)).decode()}\n\nc\n",
        HEAD + f"index 0\n{HASH}{HASH}\n\nc\n",
        HEAD + "index 0\n!!notbase64!!\n\nc\n",
        HEAD + "index 0\n" + "a" * 65 * 1024 + "\n\nc\n",
        HEAD + "index 0\n\n\ud800\n",
        (HEAD + "index 0\n\n").encode() + b"\xff\n",
        HEAD + "index 0\n\n" + "c" * 2_000_000 + "\n",
    ],
)
def test_malformed_proofs(text):
    assert malformed(text)


@pytest.mark.parametrize(
    "proof",
    [
        replace(PROOF, extra=b""),
        replace(PROOF, checkpoint=""),
        replace(PROOF, checkpoint="c"),
        replace(PROOF, checkpoint="\nc\n"),
        replace(PROOF, hashes=(bytes(31),)),
        replace(PROOF, hashes=(bytes(32),) * 64),
    ],
)
def test_what_no_proof_can_hold_is_not_written(proof):
    with pytest.raises(FormatError, match="tlog-proof: "):
        proof.encode()


def test_every_entry_is_proven_to_its_policy():
    for index, leaf in enumerate(LEAVES):
        proof = TlogProof(index, tuple(merkle.prove_inclusion(LEAVES, index)), COSIGNED)
        checkpoint = tlog_proof.verify(TlogProof.parse(proof.encode()), leaf, POLICY)
        assert checkpoint == Checkpoint.parse(TEXT)


def test_another_leaf_index_or_hash_is_refused():
    assert refused(PROOF, leaf=LEAVES[0], code=Code.INCLUSION)
    assert refused(replace(PROOF, index=12), code=Code.INCLUSION)
    assert refused(replace(PROOF, index=20), code=Code.INCLUSION)
    assert refused(replace(PROOF, hashes=PROOF.hashes[:-1]), code=Code.INCLUSION)
    assert refused(replace(PROOF, hashes=(*PROOF.hashes, bytes(32))), code=Code.INCLUSION)
    assert refused(replace(PROOF, hashes=(bytes(32), *PROOF.hashes[1:])), code=Code.INCLUSION)


def test_the_log_must_have_signed():
    only_witnesses = TEXT + "\n" + "".join(w.cosign(TEXT, 1) for w in WITNESSES)
    assert refused(replace(PROOF, checkpoint=only_witnesses))
    stranger = TEXT + "\n" + STRANGER.sign(TEXT) + "".join(w.cosign(TEXT, 1) for w in WITNESSES)
    assert refused(replace(PROOF, checkpoint=stranger))
    no_log = Policy.parse("quorum none\n")
    assert refused(PROOF, policy=no_log)
    assert refused(PROOF, policy=replace(POLICY, logs=()))


def test_a_witness_of_the_logs_name_is_not_the_log():
    namesake = Cosigner(seed("namesake"), "log.example")
    policy = Policy.parse(f"log {LOG.vkey}\nwitness N {namesake.vkey}\nquorum N\n")
    assert refused(replace(PROOF, checkpoint=TEXT + "\n" + namesake.cosign(TEXT, 1)), policy=policy)
    both = TEXT + "\n" + LOG.sign(TEXT) + namesake.cosign(TEXT, 1)
    assert tlog_proof.verify(replace(PROOF, checkpoint=both), LEAVES[INDEX], policy).size == 20


def test_a_log_signs_only_for_its_own_origin():
    text = Checkpoint("another.example", 20, merkle.tree_root(LEAVES)).encode()
    signed = text + "\n" + LOG.sign(text) + "".join(w.cosign(text, 1) for w in WITNESSES)
    assert refused(replace(PROOF, checkpoint=signed))


def test_the_quorum_must_have_cosigned():
    one = TEXT + "\n" + LOG.sign(TEXT) + WITNESSES[0].cosign(TEXT, 1)
    assert refused(replace(PROOF, checkpoint=one))
    assert refused(replace(PROOF, checkpoint=one + WITNESSES[0].cosign(TEXT, 2)))
    none = Policy.parse(POLICY_TEXT + "quorum none\n")
    assert tlog_proof.verify(replace(PROOF, checkpoint=one), LEAVES[INDEX], none).size == 20


def test_a_bad_cosignature_of_a_known_witness_refuses_a_met_quorum():
    forged = WITNESSES[2].cosign(TEXT.replace("20", "21"), 1)
    assert refused(replace(PROOF, checkpoint=COSIGNED + forged))


def test_a_note_that_is_no_checkpoint_is_refused():
    text = "log.example\n"
    with pytest.raises(FormatError, match="checkpoint: "):
        tlog_proof.verify(
            replace(PROOF, checkpoint=text + "\n" + LOG.sign(text)),
            LEAVES[INDEX],
            Policy.parse(f"log {LOG.vkey}\nquorum none\n"),
        )
    with pytest.raises(FormatError, match="note: "):
        tlog_proof.verify(replace(PROOF, checkpoint=TEXT), LEAVES[INDEX], POLICY)


def verified(text):
    try:
        tlog_proof.verify(TlogProof.parse(text), LEAVES[INDEX], POLICY)
    except VerifierError:
        return False
    return True


@given(st.integers(0, 8 * len(PROOF.encode().encode()) - 1))
def test_any_flipped_bit_of_the_file_is_refused(bit):
    flipped = bytearray(PROOF.encode().encode())
    assert verified(bytes(flipped))
    flipped[bit // 8] ^= 1 << bit % 8
    assert not verified(bytes(flipped))


def test_a_witness_is_asked_with_old_size_proof_and_checkpoint():
    proof = merkle.prove_consistency(LEAVES, 12)
    encoded = "".join(base64.b64encode(item).decode() + "\n" for item in proof)
    assert add_checkpoint_request(12, proof, COSIGNED) == f"old 12\n{encoded}\n{COSIGNED}"
    assert add_checkpoint_request(0, [], COSIGNED) == f"old 0\n\n{COSIGNED}"
    for old_size, bad in ((0, proof), (-1, proof), (1, [bytes(31)]), (1, [bytes(32)] * 64)):
        with pytest.raises(FormatError, match="tlog-proof: "):
            add_checkpoint_request(old_size, bad, COSIGNED)
