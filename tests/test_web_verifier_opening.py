"""Two verifiers finish the same sessions: `verifier open` and the TypeScript's own, on the same documents."""

import json

import pytest
from click.testing import CliRunner

from tests import builder, web_verifier
from tests.builder import LOG_KEY, QUICKNET, ROUNDS, Story, data, raffle
from tests.test_custody import LOCKS, NUMBER, SEED, opening
from tests.test_opening import locked
from tests.web_verifier import Bulk, encoded
from verifier.cli import main

SIGNATURE = LOCKS.sign(NUMBER).hex()
R1005 = ROUNDS[QUICKNET.hash.hex(), 1005]["signature"]
INFO = json.dumps(LOCKS.chain.as_dict())


def live(links=8, answered=True, **seal):
    story = Story(links=links)
    story.seal(profile="live", timelock=builder.sealed(story.links[links], NUMBER, LOCKS.chain), **seal)
    story.contribute("white", 1.6).close(1.65)
    story.call("turn", 1.8, {"white": b"w"}).call("hand", 1.8).round(1002, 6.8)
    if answered:
        story.answer(1, 6.81).answer(2, 6.81)
    return story.call("hand", 6.9)


def falsified():
    made = Story().seal(timelock=builder.sealed(SEED, NUMBER, LOCKS.chain)).close(6.6).round(1005, 15.9)
    return made.draw("turn", 16, outcomes=[[6, 6]])


def undrawn(**seal):
    made = Story().seal(timelock=builder.sealed(SEED, NUMBER, LOCKS.chain), **seal)
    return made.contribute("white", 6.5).contribute("black", 6.501).close(6.6)


def without(story, place):
    """The document of a story but for one of its entries."""
    return story.document([index for i, index in enumerate(story.shown) if i != place])


def not_included():
    document = locked().document()
    document["events"][0]["proof"][0] = document["events"][1]["proof"][1]
    return document


CIPHERTEXT = builder.sealed(SEED, NUMBER, LOCKS.chain)
#: document, what is given beside it in the form of OpenOptions
CASES = {
    "a match": (lambda: locked().document(), {"signature": SIGNATURE, "draws": {"turn": 4}}),
    "its round shown": (lambda: opening(locked()).document(), {}),
    "no signature": (lambda: locked().document(), {}),
    "a false signature": (lambda: locked().document(), {"signature": LOCKS.sign(1).hex()}),
    "a short signature": (lambda: locked().document(), {"signature": "ab"}),
    "no hex": (lambda: locked().document(), {"signature": "xyz"}),
    "another seed": (lambda: locked(bytes(32)).document(), {"signature": SIGNATURE}),
    "no ciphertext": (
        lambda: builder.match(timelock=CIPHERTEXT | {"ciphertext": "YWdl"}).document(),
        {"signature": SIGNATURE},
    ),
    "a false draw": (lambda: falsified().document(), {"signature": SIGNATURE}),
    "nothing drawn": (lambda: undrawn().document(), {"signature": SIGNATURE, "draws": {"hand": 12, "turn": 2}}),
    "nothing drawn, with the round": (
        lambda: undrawn().document(),
        {"signature": SIGNATURE, "signatures": {"1005": R1005}, "draws": {"hand": 12, "turn": 2}},
    ),
    "a round that is not used": (
        lambda: undrawn().document(),
        {"signature": SIGNATURE, "signatures": {"1004": R1005}},
    ),
    "a plan": (
        lambda: raffle(timelock=CIPHERTEXT).document(),
        {"signature": SIGNATURE, "draws": {"turn": 3}},
    ),
    "live": (lambda: live().document(), {"signature": SIGNATURE}),
    "live, unanswered": (
        lambda: live(answered=False).document(),
        {"signature": SIGNATURE, "signatures": {"1003": ROUNDS[QUICKNET.hash.hex(), 1003]["signature"]}},
    ),
    "a long chain": (lambda: live(links=65_536).document(), {"signature": SIGNATURE}),
    "a contribution missing": (lambda: without(locked(), 1), {"signature": SIGNATURE}),
    "the close missing": (lambda: without(locked(), 3), {"signature": SIGNATURE}),
    "the seal alone": (lambda: locked().document([locked().shown[0]]), {"signature": SIGNATURE}),
    "no timelock": (lambda: builder.match().document(), {"signature": SIGNATURE}),
    "no seal": (lambda: locked().document([locked().shown[1]]), {"signature": SIGNATURE}),
    "not in the log": (not_included, {"signature": SIGNATURE}),
    "another recipe": (lambda: locked().document(), {"signature": SIGNATURE, "draws": {"turns": 4}}),
    "too many draws": (lambda: locked().document(), {"signature": SIGNATURE, "draws": {"turn": 10_000}}),
    "without the log's key": (lambda: locked().document(), {"signature": SIGNATURE, "logKeys": []}),
    "without its chain": (lambda: locked().document(), {"signature": SIGNATURE, "chains": ["quicknet"]}),
    "without the seal's chain": (lambda: locked().document(), {"signature": SIGNATURE, "chains": [INFO]}),
}


def by_command_line(document, given, folder):
    path, locks = folder / "t.json", folder / "locks.json"
    path.write_bytes(document)
    locks.write_text(INFO)
    arguments = [] if given.get("logKeys") == [] else ["--log-key", str(LOG_KEY.vkey)]
    for name in given.get("chains", ["quicknet", INFO]):
        arguments += ["--chain", str(locks) if name == INFO else name]
    named = {"": given.get("signature"), **{f"{number}=": one for number, one in given.get("signatures", {}).items()}}
    for number, signature in named.items():
        arguments += [] if signature is None else ["--round-signature", f"{number}{signature}"]
    for recipe, count in given.get("draws", {}).items():
        arguments += ["--draws", f"{recipe}={count}"]
    result = CliRunner().invoke(main, ["open", str(path), "--json", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return json.loads(result.stdout) if result.exit_code != 3 else {"exit": 3}


def compared(answer):
    """What must be the same: all but the sentences."""
    if answer["exit"] == 3:
        return {"exit": 3}
    draws = [row | {"why": row["why"] != ""} for row in answer.get("draws", [])]
    return answer | {"draws": draws, "headline": answer["headline"].split(":")[0]}


def test_both_finish_the_same_sessions(tmp_path):
    documents = {name: data(make()) for name, (make, _) in CASES.items()}
    defaults = {"logKeys": [web_verifier.VKEY], "chains": ["quicknet", INFO]}
    bulk = Bulk({"open": encoded(documents[name]), "options": defaults | given} for name, (_, given) in CASES.items())
    exits = set()
    for (name, (_, given)), theirs in zip(CASES.items(), bulk.answers(), strict=True):
        ours = by_command_line(documents[name], given, tmp_path)
        assert compared(theirs) == compared(ours), name
        exits.add(ours["exit"])
    assert exits == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (locked, {"round": NUMBER, "shown": False, "rounds": [], "recipes": {"turn": 2, "opening": 1, "hand": 1}}),
        (lambda: opening(locked()), {"shown": True}),
        (lambda: opening(locked()).reveal(640), None),
        (lambda: locked().reveal(135), {"shown": False}),
        (undrawn, {"rounds": [1005], "recipes": {"turn": 0, "opening": 0, "hand": 0}}),
        (lambda: live(), {"rounds": [1003], "recipes": None}),
        (lambda: raffle(timelock=CIPHERTEXT), {"recipes": None}),
        (lambda: locked(bytes(32)), {"shown": False}),
        (lambda: opening(locked(bytes(32))), None),
        (builder.match, None),
    ],
)
def test_a_verdict_says_what_opening_takes(make, expected):
    options = {"logKeys": [web_verifier.VKEY], "chains": ["quicknet", INFO]}
    [answer] = web_verifier.checked([data(make().document())], options).answers()
    assert (answer["opening"] is None) == (expected is None)
    if expected is not None:
        assert {name: answer["opening"][name] for name in expected} == expected
        assert answer["opening"]["chain"] == {"name": "devnet", "hash": LOCKS.chain.hash.hex()}
        assert answer["opening"]["due_at"] == LOCKS.chain.time(NUMBER)
