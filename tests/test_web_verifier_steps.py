"""The steps that the TypeScript verifier shows can be redone from their own bytes, and the false one is the one shown false."""

import hashlib
import hmac
import json

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests import builder, test_check_rules, test_web_verifier, web_verifier
from tests.builder import data, live, match
from tests.test_custody import LOCKS, SEED, opening, story
from tests.web_verifier import checked

GOOD = {
    name: test_web_verifier.GOOD[name]
    for name in ("match", "live", "signed", "signed calls", "every recipe", "chained")
}


def sha256(value):
    return hashlib.sha256(value).hexdigest()


def steps_of(document, **options):
    answer = checked([data(document)], web_verifier.OPTIONS | {"steps": True} | options).answers()[0]
    assert len({step["id"] for step in answer["steps"]}) == len(answer["steps"])
    return answer["steps"]


def values(step):
    """What a step takes, by name: bytes where it is hex."""
    return {one["name"]: bytes.fromhex(one["hex"]) if "hex" in one else one["text"] for one in step["inputs"]}


def redo(step):
    """The result of a step from its inputs alone, or None where that takes more than a hash."""
    taken, kind = values(step), step["id"].split("-")[0]
    match kind:
        case "leaf":
            return sha256(b"\0" + taken["entry"].encode())
        case "path":
            node = taken.pop("leaf")
            for name, sibling in taken.items():
                if name.startswith("sibling"):
                    pair = (sibling, node) if name.endswith("left") else (node, sibling)
                    node = hashlib.sha256(b"\1" + b"".join(pair)).digest()
            return node.hex()
        case "chain":
            return sha256(b"".join(part if isinstance(part, bytes) else part.encode() for part in taken.values()))
        case "randomness":
            return sha256(taken["signature"])
        case "session" | "binding":
            return sha256(taken["all of it"])
        case "seed":
            return sha256(taken[f"s_{step['id'].split('-')[1]}"])
    return None


@pytest.mark.parametrize("name", GOOD)
def test_every_step_can_be_redone(name):
    found = set()
    for step in steps_of(GOOD[name]().document()):
        assert step["ok"] is not False, step
        again = redo(step)
        if again is not None:
            assert again == step["result"]["hex"], step
            found.add(step["id"].split("-")[0])
        if step["id"].startswith("draw-"):
            taken = values(step)
            blocks, message = taken["the stream's blocks"], taken["message of block 0"]
            assert hmac.new(taken["key"], message, hashlib.sha256).digest() == blocks[:32]
            assert blocks.hex().startswith(taken["taken from it, in order"].replace(" ", "")[:64])
            assert json.loads(step["result"]["text"]) == json.loads(taken["the log says"])
            assert message[:32] == taken["B"]
    assert found >= {"leaf", "path", "chain", "randomness", "session", "binding", "seed"}


def verifies(key, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_signatures_are_shown_with_what_they_sign():
    story = match().reveal(135)
    document = test_web_verifier.witnessed(story)
    steps = steps_of(document) + steps_of(test_web_verifier.GOOD["signed"]().document())
    signed = 0
    for step in steps:
        taken = values(step)
        if step["id"].endswith("-signature"):
            assert verifies(taken["public key"], taken["signed text, as bytes"], taken["signature R ‖ S"])
            signed += 1
        elif step["id"].startswith("witness-"):
            assert verifies(taken["public key"], taken["signed text"].encode(), taken["time ‖ signature"][8:])
            signed += 1
        elif step["id"].startswith("contribution-"):
            assert verifies(taken["public key"], taken["message"], taken["signature R ‖ S"])
            signed += 1
    assert signed == 3 + 5 + 1 + 1


FALSE = {
    "a die": (lambda: test_check_rules.closed().round(1005, 15.9).draw("turn", 16, outcomes=[[7, 7]]).reveal(20), {"draw-turn-1"}),
    "a digest": (lambda: test_check_rules.sealed().close(6.6, digest="00" * 32), {"session-digest"}),
    "a link": (lambda: live().reveal(20, seed="00" * 32), {"seed-3-2"}),
    "a round": (
        lambda: test_check_rules.closed().round(1005, 15.9, signature=test_check_rules.signature(1004)),
        {"round-1005"},
    ),
    "a contribution": (
        lambda: test_check_rules.signed(entropy=b"other").contribute("black", 6.51).close(6.6),
        {"contribution-3"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_what_is_false_is_shown_false(name):
    make, expected = FALSE[name]
    assert {step["id"] for step in steps_of(make().document()) if step["ok"] is False} == expected


def test_the_opening_of_a_timelock_is_a_step():
    options = {"chains": ["quicknet", json.dumps(LOCKS.chain.as_dict())]}
    for seed, opened in ((SEED, True), (bytes(32), False)):
        [step] = [one for one in steps_of(opening(story(seed=seed)).document(), **options) if one["claim"] == "custody"]
        assert (step["id"], step["ok"], values(step)["commitment s_0"]) == (
            "timelock",
            opened,
            hashlib.sha256(SEED).digest(),
        )
        assert (step["result"].get("hex") == SEED.hex()) == opened
    assert [one for one in steps_of(story().document(), **options) if one["claim"] == "custody"] == []


def test_a_false_proof_and_a_false_signature_are_shown_false():
    document = match().reveal(135).document()
    document["events"][2]["proof"][0] = document["events"][1]["proof"][0]
    assert {step["id"] for step in steps_of(document) if step["ok"] is False} == {"path-4"}
    other = builder.SigningKey(b"\x77" * 32, builder.ORIGIN)
    unsigned = match().reveal(135).document() | {"checkpoint": match().reveal(135).checkpoint(key=other)}
    assert {step["id"] for step in steps_of(unsigned) if step["ok"] is False} == {"checkpoint-signature"}
    unknown = [
        step["ok"] for step in steps_of(unsigned, logKeys=[], policy="quorum none\n") if "signature" in step["id"]
    ]
    assert unknown == [None]


def test_no_steps_unless_they_are_asked_for():
    assert checked([data(match().document())]).answers()[0]["steps"] == []
