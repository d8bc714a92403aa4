import hashlib
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier.errors import Code, FormatError
from verifier.note import ECDSA, ED25519, ML_DSA_44, Cosigner, SigningKey, VerifierKey
from verifier.policy import Group, Policy
from verifier.vectors_tlog import run_section

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())
CASES = [pytest.param(s, case, id=case["id"]) for s in ("policy_quorum", "policy_parse") for case in VECTORS[s]]


def seed(name):
    return hashlib.sha256(name.encode()).digest()


def witness_key(name):
    return Cosigner(seed(name), f"{name}.example").vkey


LOG = SigningKey(seed("log"), "log.example").vkey
W = {name: witness_key(name) for name in ("X1", "X2", "X3", "Y1", "Y2", "Y3", "Z")}
LINES = {name: f"witness {name} {key}\n" for name, key in W.items()}
ALL = "".join(LINES.values())
NESTED = f"log {LOG}\n{ALL}group X 2 X1 X2 X3\ngroup Y any Y1 Y2 Y3\ngroup both all X Y\nquorum both\n"


def refused(text):
    with pytest.raises(FormatError) as caught:
        Policy.parse(text)
    return caught.value.code is Code.POLICY


@pytest.mark.parametrize(("section", "case"), CASES)
def test_known_answers(section, case):
    assert run_section(section, case) is None


def test_the_parts_of_a_policy():
    policy = Policy.parse(
        f"# a comment\n\n \t\nlog {LOG} https://log.example/\n\twitness  W1\t{W['X1']}  https://w1.example/ \n"
        f"  # comment\nwitness W2 {W['X2']}\n#\ngroup G 1 W1 W2\n\tquorum G\n"
    )
    assert policy.logs == (LOG,)
    assert policy.log_urls == {LOG: "https://log.example/"}
    assert policy.witnesses == {"W1": W["X1"], "W2": W["X2"]}
    assert policy.witness_urls == {"W1": "https://w1.example/"}
    assert policy.groups == {"G": Group(1, ("W1", "W2"))}
    assert policy.quorum == "G"


def test_truth_table_of_nested_groups():
    policy = Policy.parse(NESTED)
    names = ["X1", "X2", "X3", "Y1", "Y2", "Y3"]
    for chosen in itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(7)):
        x = sum(name.startswith("X") for name in chosen)
        assert policy.satisfied(set(chosen)) is (x >= 2 and len(chosen) > x)


def test_all_any_and_numbers():
    members = "X1 X2 X3"
    for threshold, needed in (("any", 1), ("1", 1), ("2", 2), ("3", 3), ("all", 3)):
        policy = Policy.parse(f"{ALL}group G {threshold} {members}\nquorum G\n")
        assert [policy.satisfied(members.split()[:count]) for count in range(4)] == [
            count >= needed for count in range(4)
        ]


def test_a_single_witness_and_none():
    assert Policy.parse(f"{LINES['Z']}quorum Z\n").satisfied({"Z"})
    assert not Policy.parse(f"{LINES['Z']}quorum Z\n").satisfied(set())
    assert Policy.parse("quorum none\n").satisfied(set())
    assert Policy.parse(f"{LINES['Z']}quorum none\n").satisfied({"Z"})


def test_names_of_groups_and_strangers_count_for_nothing():
    policy = Policy.parse(NESTED)
    assert not policy.satisfied({"both", "X", "Y", "none", "stranger", "Z"})
    assert not policy.satisfied({"X", "Y1"})


def test_the_quorum_may_stand_before_lines_it_does_not_need():
    policy = Policy.parse(f"{LINES['X1']}quorum X1\n{LINES['X2']}group G all X2\nlog {LOG}\n")
    assert policy.satisfied({"X1"})
    assert not policy.satisfied({"X2"})


def test_the_description_names_who_must_cosign():
    assert Policy.parse(NESTED).quorum_description() == "2 of (2 of (X1, X2, X3), 1 of (Y1, Y2, Y3))"
    assert Policy.parse(f"{LINES['Z']}quorum Z\n").quorum_description() == "Z"
    assert Policy.parse("quorum none\n").quorum_description() == "no witness is asked for"


def test_witnesses_are_named_by_their_keys():
    policy = Policy.parse(NESTED)
    same_key_other_name = Cosigner(seed("X1"), "x1.example").vkey
    assert policy.names_of([W["X1"], W["Y3"], LOG, same_key_other_name]) == {"X1", "Y3"}


def test_names_are_octets():
    kelvin, k = "\u212a".encode(), b"K"
    policy = Policy.parse(
        b"witness " + kelvin + f" {W['X1']}\n".encode() + b"witness " + k + f" {W['X2']}\n".encode() + b"quorum K\n"
    )
    assert policy.satisfied({"K"})
    assert not policy.satisfied({"\u212a"})
    raw = b"# \xff\xfe\nwitness \xff\x80 " + str(W["X1"]).encode() + b" \xc0\nquorum \xff\x80\n"
    assert Policy.parse(Policy.parse(raw).encode()) == Policy.parse(raw)
    assert Policy.parse(raw).satisfied(Policy.parse(raw).witnesses)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# nothing\n",
        "quorum none",
        "quorum none\n#",
        f"quorum none\n{LINES['Z'][:-1]}",
        "quorum\n",
        "quorum none none\n",
        "quorum none #comment\n",
        "Quorum none\n",
        "quorum none\nquorum none\n",
        "quorum nobody\n",
        "quorum none\r\n",
        "quorum\x0bnone\n",
        "quorum\u00a0none\n",
        "quorum none\n\x00",
        "quorum none\n#\x7f\n",
        "quorum none\n#\ud800\n",
        "none\n",
        "unknown line\nquorum none\n",
        f"{LINES['Z']}quorum none Z\n",
        f"quorum Z\n{LINES['Z']}",
        "log\nquorum none\n",
        f"log {LOG} https://a https://b\nquorum none\n",
        f"log name {LOG}\nquorum none\n",
        f"log {str(LOG)[:-1]}\nquorum none\n",
        f"log {LOG}\nlog {SigningKey(seed('log'), 'another.name').vkey}\nquorum none\n",
        f"log {W['Z']}\nquorum none\n",
        "witness\nquorum none\n",
        f"witness {W['Z']}\nquorum none\n",
        f"witness Z {W['Z']} https://a https://b\nquorum none\n",
        f"witness Z {LOG}\nquorum none\n",
        f"witness none {W['Z']}\nquorum none\n",
        f"{LINES['Z']}witness Z2 {Cosigner(seed('Z'), 'another.name').vkey}\nquorum none\n",
        f"{LINES['Z']}witness Z {W['X1']}\nquorum none\n",
        f"{ALL}group Z all X1\nquorum none\n",
        f"{ALL}group G all X1\ngroup G all X2\nquorum none\n",
        f"{ALL}group G all X1\nwitness G {witness_key('G')}\nquorum none\n",
        f"{ALL}group none all X1\nquorum none\n",
        f"{ALL}group G all none\nquorum none\n",
        f"{ALL}group G all G\nquorum none\n",
        f"{ALL}group G all H\ngroup H all X1\nquorum none\n",
        f"{ALL}group G all X1 X1\nquorum none\n",
        f"{ALL}group G all X1\ngroup H all X1\nquorum none\n",
        f"{ALL}group G all X1\ngroup H all G\ngroup I all G\nquorum none\n",
        f"{ALL}group G\nquorum none\n",
        f"{ALL}group G all\nquorum none\n",
        f"{ALL}group G any\nquorum none\n",
        f"{ALL}group G 0\nquorum none\n",
        f"{ALL}group G X1 X2\nquorum none\n",
        *(
            f"{ALL}group G {k} X1 X2\nquorum none\n"
            for k in ("0", "3", "-1", "+1", "01", "1.0", "one", "ALL", "\u0661", "9" * 30)
        ),
    ],
)
def test_what_is_no_policy(text):
    assert refused(text)


def test_one_vkey_may_be_log_and_witness_but_each_only_in_its_own_type():
    both = VerifierKey.of("pq.example", ML_DSA_44, bytes(1312))
    policy = Policy.parse(f"log {both}\nwitness P {both}\nquorum P\n")
    assert policy.logs == (both,)
    assert policy.names_of([both]) == {"P"}
    assert refused(f"witness P {VerifierKey.of('a', ED25519, LOG.public_key)}\nquorum P\n")
    der = VECTORS["vkey_parse"]
    ecdsa = next(c["input"]["vkey"] for c in der if c["expect"].get("type") == ECDSA)
    assert Policy.parse(f"log {ecdsa}\nquorum none\n").logs == (VerifierKey.parse(ecdsa),)
    assert refused(f"witness E {ecdsa}\nquorum E\n")


def test_at_least_32_and_at_most_256_lines_of_a_kind():
    def text(count, **changed):
        counts = {"logs": count, "witnesses": count, "groups": count, **changed}
        lines = [f"log {SigningKey(seed(f'l{i}'), 'l').vkey}\n" for i in range(counts["logs"])]
        lines += [f"witness w{i} {witness_key(f'w{i}')}\n" for i in range(counts["witnesses"])]
        lines += [f"group g{i} all {f'g{i - 1}' if i else 'w0'}\n" for i in range(counts["groups"])]
        return "".join(lines) + f"quorum g{count - 1}\n"

    for count in (32, 256):
        policy = Policy.parse(text(count))
        assert policy.satisfied({"w0"})
        assert not policy.satisfied({"w1"})
        assert Policy.parse(policy.encode()) == policy
    for kind in ("logs", "witnesses", "groups"):
        assert refused(text(256, **{kind: 257}))
    assert refused("#" * 1_000_000 + "\nquorum none\n")


@st.composite
def policies(draw):
    names = draw(st.lists(st.sampled_from(sorted(W)), unique=True, min_size=1))
    lines = [LINES[name] for name in names]
    free = list(names)
    for number in range(draw(st.integers(0, 4))):
        if free:
            members = draw(st.lists(st.sampled_from(free), unique=True, min_size=1))
            lines.append(f"group g{number} {draw(st.integers(1, len(members)))} {' '.join(members)}\n")
            free = [name for name in free if name not in members] + [f"g{number}"]
    return "".join(lines) + f"quorum {draw(st.sampled_from([*free, 'none']))}\n"


@given(policies(), st.data())
def test_more_cosignatures_never_undo_a_quorum_and_all_make_one(text, data):
    policy = Policy.parse(text)
    some = data.draw(st.sets(st.sampled_from(sorted(W))))
    more = some | data.draw(st.sets(st.sampled_from(sorted(W))))
    assert policy.satisfied(more) or not policy.satisfied(some)
    assert policy.satisfied(policy.witnesses)
    assert policy.satisfied(set()) is (policy.quorum == "none")


@given(policies())
def test_a_policy_that_is_written_reads_the_same(text):
    policy = Policy.parse(text)
    assert Policy.parse(policy.encode()) == policy
    assert Policy.parse(policy.encode()).encode() == policy.encode()
