"""A log that changed its key: which checkpoints each key makes the log's, for both verifiers and the file of one session.

OLD signed sizes 1 to 7, NEW signs 6 and more; 6 and 7 carry both.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builder, web_verifier
from tests.builder import LOG_KEY, ORIGIN, POLICY, QUICKNET, WITNESSES, match
from tests.check_support import TRUST, broken, verdict
from tests.outside_tools import need_node
from tests.process_support import run
from tests.test_standalone import judge
from verifier import merkle, receipts
from verifier.audit.forks import Fork
from verifier.check import Trust
from verifier.encoding import encode_base64
from verifier.errors import Code, FormatError, VerificationError
from verifier.log_keys import LogKey, LogKeys, Signed, as_keys, require_signed, signed_by
from verifier.note import Checkpoint, Note, SigningKey, VerifierKey
from verifier.policy import Policy
from verifier.tlog_proof import TlogProof
from verifier.transcript import SignedCheckpoint
from verifier.verdict import State

OLD, NEW, OTHER = LOG_KEY, SigningKey(b"\x77" * 32, ORIGIN), SigningKey(b"\x78" * 32, ORIGIN)
ELSEWHERE = SigningKey(b"\x79" * 32, "log.example/other")
LAST, FIRST = 7, 6
RANGES = f"{OLD.vkey} 1-{LAST}\n{NEW.vkey} {FIRST}-\n"
KEYS = LogKeys.parse(RANGES)


def text_of(size, origin=ORIGIN):
    return Checkpoint(origin, size, bytes([size % 256]) * 32).encode()


def note(size, *keys):
    text = text_of(size)
    return Note.parse(text + "\n" + "".join(key.sign(text) for key in keys))


# --- the keys themselves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "first", "last"),
    [("", 0, None), (" 1-4711", 1, 4711), (" 4711-", 4711, None), (" 0-0", 0, 0), ("  7-9 ", 7, 9), (" ", 0, None)],
)
def test_a_line_is_a_key_and_its_sizes(line, first, last):
    assert LogKey.parse(f"{OLD.vkey}{line}") == LogKey(OLD.vkey, first, last)


@pytest.mark.parametrize(
    "line", [" 1", " -", " -7", " 7-6", " 01-7", " 1-07", " 1-7 8", " a-", " 1-\N{ARABIC-INDIC DIGIT ONE}", "\t1-7", " 1--7",
             f" {2**63}-"],
)  # fmt: skip
def test_what_is_no_line_is_refused(line):
    with pytest.raises(FormatError):
        LogKey.parse(f"{OLD.vkey}{line}")


def test_lines_of_a_file():
    assert LogKeys.parse(f"\n{RANGES}\r\n\n") == KEYS
    assert LogKeys.parse(str(OLD.vkey)) == as_keys(OLD.vkey)
    for text in ("", "\n \n", "\n".join([str(OLD.vkey)] * 101)):
        with pytest.raises(FormatError) as caught:
            LogKeys.parse(text)
        assert caught.value.code == Code.VKEY


sizes = st.integers(0, 2**63 - 1)


@given(st.sampled_from([OLD, NEW, ELSEWHERE]), sizes, st.none() | sizes)
def test_what_is_written_is_read(key, first, last):
    one = LogKey(key.vkey, first, last if last is None else max(first, last))
    assert LogKey.parse(str(one)) == one


@pytest.mark.parametrize(
    ("size", "keys", "found"),
    [
        (5, [OLD], Signed.YES),
        (6, [OLD, NEW], Signed.YES),
        (7, [OLD], Signed.YES),
        (7, [NEW], Signed.YES),
        (8, [NEW], Signed.YES),
        (8, [OLD, NEW], Signed.YES),  # whoever has both is the log
        (8, [OLD], Signed.BEYOND),
        (5, [NEW], Signed.BEYOND),
        (8, [OTHER], Signed.OTHER),
        (8, [OTHER, OLD], Signed.BEYOND),
        (8, [ELSEWHERE], Signed.NO),
    ],
)
def test_whose_checkpoint_it_is(size, keys, found):
    assert signed_by(note(size, *keys), size, KEYS.keys) is found
    assert signed_by(note(size, *keys[::-1]), size, KEYS.keys) is found


def test_a_false_line_of_a_key_whose_size_it_is_is_never_made_good_by_another():
    good, other = note(6, OLD, NEW), note(7, OLD)
    false = Note(good.text, (good.signatures[1], other.signatures[0]))
    assert signed_by(false, 6, KEYS.keys) is Signed.FALSE
    late = Note(note(8, NEW).text, (*note(8, NEW).signatures, other.signatures[0]))
    assert signed_by(late, 8, KEYS.keys) is Signed.YES  # a line of nobody whose size it is


def test_the_same_key_twice_counts_once():
    twice = LogKeys.parse(f"{OLD.vkey} 1-4\n{OLD.vkey} 3-9")
    assert signed_by(note(3, OLD), 3, twice.keys) is Signed.YES
    assert signed_by(note(10, OLD), 10, twice.keys) is Signed.BEYOND


def test_a_checkpoint_that_is_required():
    for size, key in [(5, OLD), (8, NEW)]:
        require_signed(note(size, key), Checkpoint.parse(text_of(size)), KEYS)
    for size, key, why in [(8, OLD, "whose sizes do not include"), (8, OTHER, "no signature of a key that was given")]:
        with pytest.raises(VerificationError, match=why):
            require_signed(note(size, key), Checkpoint.parse(text_of(size)), KEYS)
    text = text_of(5, "log.example/other")
    with pytest.raises(VerificationError, match="another log"):
        require_signed(Note.parse(text + "\n" + OLD.sign(text)), Checkpoint.parse(text), KEYS)


# --- documents -------------------------------------------------------------------------------------------------------


def spanning(main=NEW, before=(OLD,), named=NEW, size=None):
    """A session whose anchor witnesses saw under a key of its time, and whose checkpoint is of another; 11 entries."""
    story = match().reveal(135)
    size = size or 6
    item = story.evidence(size, {"w1": 7, "w2": 8})
    lines = item["checkpoint"].splitlines(keepends=True)
    text = "".join(lines[:3])
    item["checkpoint"] = text + "\n" + "".join(key.sign(text) for key in before) + "".join(lines[5:])
    whole = story.checkpoint(seen={"w1": 200, "w2": 200}).splitlines(keepends=True)
    text = "".join(whole[:3])
    document = story.document(evidence=[item])
    signers = main if isinstance(main, tuple) else (main,)
    document["checkpoint"] = text + "\n" + "".join(key.sign(text) for key in signers) + "".join(whole[5:])
    return document | {"log_key": str(named.vkey)}


HASHES = 11
PLAIN = f"{OLD.vkey}\n{NEW.vkey}\n"
CASES = {
    # name: (document, the keys that are given, the state of `log`, its rules, exit)
    "both keys with their sizes": (spanning(), RANGES, "PROVEN", set(), 0),
    "both keys without sizes": (spanning(), PLAIN, "PROVEN", set(), 0),
    "the new key alone, of a session that spans the change": (spanning(), str(NEW.vkey), "UNKNOWN", set(), 2),
    "the old key alone": (spanning(), str(OLD.vkey), "FAILED", {"7.2", "7.4"}, 1),
    "the overlap, by who knows the old key": (spanning((OLD, NEW), named=OLD), str(OLD.vkey), "PROVEN", set(), 0),
    "the overlap, by who knows both": (spanning((OLD, NEW), named=OLD), PLAIN, "PROVEN", set(), 0),
    "before the change": (spanning(OLD, named=OLD), f"{OLD.vkey} 1-99\n{NEW.vkey} 50-", "PROVEN", set(), 0),
    "a retired key that still signs": (spanning(OLD, named=OLD), RANGES, "FAILED", {"7.4"}, 1),
    "a retired key in the new one's name": (spanning(OLD, named=NEW), RANGES, "FAILED", {"7.4"}, 1),
    "evidence that a retired key signed later": (spanning(size=8), RANGES, "FAILED", {"7.4"}, 1),
    "evidence under both": (spanning(before=(OLD, NEW)), str(NEW.vkey), "PROVEN", set(), 0),
    "evidence under neither": (spanning(before=(ELSEWHERE,)), RANGES, "FAILED", {"7.2"}, 1),
    "another key of the name": (spanning(OTHER, named=OTHER), RANGES, "FAILED", {"7.2", "7.4"}, 1),
    "keys of another log too": (spanning(), f"{ELSEWHERE.vkey}\n{RANGES}", "PROVEN", set(), 0),
    "keys of another log alone": (spanning(), str(ELSEWHERE.vkey), "FAILED", {"7.2", "7.4"}, 1),
}  # fmt: skip


def trust_of(keys):
    return Trust(LogKeys.parse(keys), TRUST.chains, policy=Policy.parse(POLICY.split("\n", 1)[1]))


@pytest.mark.parametrize("name", CASES)
def test_what_a_document_proves(name):
    document, keys, state, rules, code = CASES[name]
    result = verdict(document, trust_of(keys))
    assert (str(result["log"].state), {rule for claim, rule in broken(result) if claim == "log"}) == (state, rules)
    assert result.exit == code
    early = State.PROVEN if state == "PROVEN" else State.TRUSTED
    assert (result["unpredictable"].state == State.PROVEN) == (early == State.PROVEN)


def test_the_policy_may_hold_both_keys():
    logs = f"log {OLD.vkey}\nlog {NEW.vkey}\n"
    policy = Policy.parse(logs + POLICY.split("\n", 1)[1])
    result = verdict(spanning(), Trust(chains=TRUST.chains, policy=policy))
    assert (result["log"].state, result["unpredictable"].state, result.exit) == (State.PROVEN, State.PROVEN, 0)


def test_the_typescript_says_the_same():
    need_node()
    for keys in {case[1] for case in CASES.values()}:
        documents = {name: builder.data(case[0]) for name, case in CASES.items() if case[1] == keys}
        options = web_verifier.OPTIONS | {"logKeys": keys.split("\n")[: None if not keys.endswith("\n") else -1]}
        trust = Trust(LogKeys.parse(keys), web_verifier.CHAINS, policy=Policy.parse(POLICY))
        assert web_verifier.disagreements(documents, options, trust) == {}


def test_the_typescript_takes_the_same_lines():
    need_node()
    ends = [
        "",
        " ",
        " 1-7",
        " 7-",
        "  7-9 ",
        " 0-0",
        " 1",
        " -",
        " -7",
        " 7-6",
        " 01-7",
        " 1-7 8",
        "\t1-7",
        f" {2**63}-",
    ]
    lines = [f"{OLD.vkey}{end}" for end in ends]
    theirs = web_verifier.Bulk({"trust": {"logKeys": [line]}} for line in lines).answers()

    def ours(line):
        try:
            LogKey.parse(line)
        except FormatError:
            return False
        return True

    assert theirs == [ours(line) for line in lines]
    assert {True, False} == set(theirs)


@pytest.mark.parametrize("name", CASES)
def test_the_file_of_one_session_says_the_same_of_its_checkpoint(name):
    document, keys, state, _, _ = CASES[name]
    code, lines = judge(json.dumps(document), keys)
    failed = any(line.startswith("FAILED") and " log " in line for line in lines)
    evidence = {"the new key alone, of a session that spans the change", "evidence that a retired key signed later",
                "evidence under neither"}  # fmt: skip
    if name not in evidence:  # which it does not read
        assert (failed, code == 0) == (state == "FAILED", state == "PROVEN")


# --- receipts, proofs, forks -----------------------------------------------------------------------------------------


def test_a_receipt_from_before_in_a_transcript_from_after():
    story = match().reveal(135)
    mine = story.document([story.shown[1]])
    whole = spanning()
    for keys, code in [(KEYS, 1), (LogKeys.parse(f"{OLD.vkey} 1-{HASHES + 9}\n{NEW.vkey} 1-"), 0), (None, 2)]:
        answer = receipts.compare(builder.data(mine), builder.data(whole), keys)
        assert answer.exit == code, answer.headline  # under KEYS the receipt's own checkpoint is beyond the old key


async def test_a_tlog_proof_from_before_and_from_after(tmp_path):
    leaves = [merkle.leaf_hash(bytes([number])) for number in range(9)]
    keys = tmp_path / "log.vkey"
    keys.write_text(RANGES)
    for size, key, given_, code in [
        (5, OLD, keys, 0), (8, NEW, keys, 0), (8, OLD, keys, 1), (5, NEW, keys, 1), (8, OLD, OLD.vkey, 0),
        (8, NEW, OLD.vkey, 1),
    ]:  # fmt: skip
        text = Checkpoint(ORIGIN, size, merkle.tree_root(leaves[:size])).encode()
        proof = TlogProof(2, tuple(merkle.prove_inclusion(leaves[:size], 2)), f"{text}\n{key.sign(text)}", b"\2")
        path = tmp_path / "2.tlog-proof"
        path.write_text(proof.encode())
        assert (await run("verifier", "proof", path, "--log-key", given_))[0] == code, (size, key, given_)
        both = ("--log-key", OLD.vkey, "--log-key", NEW.vkey)
        assert (await run("verifier", "proof", path, *both))[0] == 0


async def test_a_fork_over_the_change_is_proven_by_both_keys(tmp_path):
    leaves = [merkle.leaf_hash(bytes([number])) for number in range(9)]
    text = Checkpoint(ORIGIN, 5, b"\5" * 32).encode()
    newer = Checkpoint(ORIGIN, 9, merkle.tree_root(leaves)).encode()
    fork = Fork(
        SignedCheckpoint.parse(f"{text}\n{OLD.sign(text)}"),
        SignedCheckpoint.parse(f"{newer}\n{NEW.sign(newer)}"),
        merkle.tree_root(leaves[:5]),
        merkle.prove_consistency(leaves, 5),
    )
    path = tmp_path / "fork.json"
    path.write_bytes(fork.encode())
    keys = tmp_path / "log.vkey"
    keys.write_text(RANGES)
    assert (await run("verifier", "fork", path, "--log-key", keys))[0] == 0
    assert (await run("verifier", "fork", path, "--log-key", NEW.vkey))[0] == 1


async def test_a_key_that_was_retired_after_the_fact_still_proves_a_fork(tmp_path):
    """The old key signed size 9 before its end was said to be 3: who kept it without an end has the proof."""
    leaves = [merkle.leaf_hash(bytes([number])) for number in range(9)]
    newer = Checkpoint(ORIGIN, 9, merkle.tree_root(leaves)).encode()
    text = Checkpoint(ORIGIN, 9, b"\5" * 32).encode()
    fork = Fork(
        SignedCheckpoint.parse(f"{text}\n{OLD.sign(text)}"),
        SignedCheckpoint.parse(f"{newer}\n{NEW.sign(newer)}"),
        merkle.tree_root(leaves),
        [],
    )
    path = tmp_path / "fork.json"
    path.write_bytes(fork.encode())
    keys = tmp_path / "log.vkey"
    keys.write_text(f"{OLD.vkey} 1-3\n{NEW.vkey} 2-\n")
    code, output, _ = await run("verifier", "fork", path, "--log-key", keys)
    assert (code, "whose sizes do not include it" in output) == (1, True)
    assert (await run("verifier", "fork", path, "--log-key", keys, "--log-key", OLD.vkey))[0] == 0


async def test_the_commands_take_keys_in_every_form(tmp_path):
    document, keys, chain = tmp_path / "t.json", tmp_path / "log.vkey", tmp_path / "chain.json"
    document.write_bytes(builder.data(spanning()))
    keys.write_text(RANGES)
    chain.write_text(json.dumps(QUICKNET.as_dict()))
    lines = RANGES.split("\n")[:2]
    for options in (("--log-key", keys), ("--log-key", lines[0], "--log-key", lines[1]), ("--log-key", RANGES)):
        code, output, errors = await run("verifier", "check", document, *options, "--json")
        assert code == 0, errors
        assert json.loads(output)["trusted"]["log_key"] == RANGES.strip()
    code, _, errors = await run("verifier", "check", document, "--log-key", f"{OLD.vkey} 7-6")
    assert (code, errors.split(":")[0]) == (3, "--log-key")
    assert encode_base64(b"") == ""
    assert VerifierKey.parse(str(WITNESSES["w1"].vkey)).type != 1
    code, _, errors = await run("verifier", "check", document, "--log-key", f"{WITNESSES['w1'].vkey} 1-7")
    assert (code, "Ed25519 (type 1)" in errors) == (3, True)
