"""Every rule of sections 2 to 6: a session that breaks it, and the claim that section 8 names for it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests import builder
from tests.builder import QUICKNET, ROUNDS, Story, at, live, match, public_key, raffle
from tests.check_support import TRUST, broken, verdict
from verifier.entries import parse_entry
from verifier.rules import contributions
from verifier.session import Logged, collect
from verifier.transcript import parse_transcript

HOUR = 3_600_000
DAY = 24 * HOUR
CHAINS = replace(TRUST, chains={chain.hash: chain for chain in builder.pinned_chains().values()})


def signature(number):
    return ROUNDS[QUICKNET.hash.hex(), number]["signature"]


def sealed(**seal):
    """A match until its round, nothing drawn yet."""
    return Story().seal(**seal).contribute("white", 6.5).contribute("black", 6.501)


def closed(**seal):
    return sealed(**seal).close(6.6)


def played(story, close=6.6, **changes):
    """The rest of a match after its contributions."""
    return story.close(close, **changes).round(1005, 15.9).draw("turn", 16).reveal(20)


def nobody(**seal):
    """A match without contributions until its round."""
    return Story().seal(close_at=None, participants=[], **seal)


def drawn(story):
    return story.round(1005, 15.9).draw("turn", 16).reveal(20)


def called(**seal):
    """A live session with one call on round 1002, not drawn."""
    story = Story(links=8).seal(profile="live", **{"close_at": None, "participants": []} | seal)
    return story.call("hand", 1.8)


def foreign(story, seconds, number, **changes):
    """A leaf of somebody else: another session's seal that knows round `number`."""
    other = Story().seal(host="other", time=at(seconds), after=story.round_fields(number), **changes)
    story.add(other.leaves[-1], shown=False)
    return story


def everything(story):
    return story.document(story.all_from_seal())


SIGNED = {"participants": [{"id": "white", "key": public_key("white")}, {"id": "black"}]}


def signed(k=0, **wrong):
    story = Story().seal(**SIGNED)
    arguments = {"participant": "white", "entropy": b"white"} | wrong
    return story.contribute("white", 6.5, signature=story.signature(**arguments))


def timelock(time):
    return builder.sealed(bytes(32), QUICKNET.first_at(time))


def live_signed(n=1):
    """A live session whose call carries a signed contribution; n: the number over which it was signed."""
    story = Story(links=2).seal(profile="live", close_at=None, **SIGNED)
    line = {
        "participant": "white",
        "entropy": b"w".hex(),
        "signature": story.signature("white", b"w", 1, "turn", n, "for 1"),
    }
    return story.call("turn", 1.8, contributions=[line]).round(1002, 6.8).answer(1, 6.9)


def twice_in_a_call():
    line = {"participant": "white", "entropy": "aa"}
    return Story(links=2).seal(profile="live", close_at=None).call("turn", 1.8, contributions=[line, line])


def before_its_seal():
    story = Story().seal()
    seal = story.leaves.pop()
    story.shown.clear()
    story.contribute("white", 6).add({"v": 1, "type": "log", "time": at(6), "origin": "x"}, shown=False)
    story.add(seal)
    return story.contribute("black", 6.5).close(9.1)


def early_event():
    story = closed().round(1005, 14.1)
    return story.draw("turn", 13.9)


RULES = {
    # 2: chain, signatures
    "2.5 the document's chain has another scheme": (
        lambda: match().reveal(135).document() | {"chain": QUICKNET.as_dict() | {"beacon_id": "x"}},
        {("round", "2.5")},
    ),
    "2.5 another round's signature": (
        lambda: closed().round(1005, 15.9, signature=signature(1004)),
        {("round", "2.5")},
    ),
    "2.5 the seal's `after` is no signature": (
        lambda: drawn(nobody(after={"round": 1000, "signature": signature(1001)})),
        {("round", "2.5")},
    ),
    "2.5 a previous signature on an unchained scheme": (
        lambda: closed().round(1005, 15.9, previous_signature=signature(1004)),
        {("round", "2.5")},
    ),
    "2.6 a signature with another flag": (
        lambda: closed().round(1005, 15.9, signature="9" + signature(1005)[1:]),
        {("round", "2.5")},
    ),
    "2.6 a signature without its compression flag": (
        lambda: closed().round(1005, 15.9, signature="3" + signature(1005)[1:]),
        {("round", "2.6")},
    ),
    "2.6 a signature of another length": (
        lambda: closed().round(1005, 15.9, signature=signature(1005) * 2),
        {("round", "2.6")},
    ),
    "2.6 the identity": (
        lambda: closed().round(1005, 15.9, signature="c0" + 47 * "00"),
        {("round", "2.6")},
    ),
    # 4: seeds and signatures
    "4.1 a seed that does not open the commitment": (
        lambda: closed().round(1005, 15.9).reveal(20, seed="00" * 32),
        {("seed", "4.1")},
    ),
    "4.1 revealed without a seed": (lambda: closed().round(1005, 15.9).reveal(20, seed=None), {("seed", "4.1")}),
    "4.1 a void's seed that does not open the commitment": (
        lambda: sealed().void("host", 7, seed="00" * 32),
        {("seed", "4.1")},
    ),
    "4.1 a link of another chain": (
        lambda: called().round(1002, 6.8).answer(1, 6.9, seed="00" * 32),
        {("seed", "4.1"), ("outcomes", "5.2")},
    ),
    "4.1 the link of another draw": (
        lambda: (story := called()).round(1002, 6.8).answer(1, 6.9, seed=story.links[2].hex()),
        {("seed", "4.1"), ("outcomes", "5.2")},
    ),
    "4.1 revealed with a later link": (
        lambda: (story := live()).reveal(20, seed=story.links[4].hex()),
        {("seed", "4.1")},
    ),
    "4.1 revealed with an earlier link": (
        lambda: (story := live()).reveal(20, seed=story.links[2].hex()),
        {("seed", "4.1")},
    ),
    "4.1 a seed without any call": (
        lambda: (story := Story(links=8).seal(profile="live", close_at=None, participants=[])).reveal(
            20, seed=story.links[1].hex()
        ),
        {("seed", "4.1")},
    ),
    "4.1 the close's digest is of other contributions": (
        lambda: sealed().close(6.6, digest="00" * 32),
        {("complete", "4.1")},
    ),
    "4.4 a signature over another entropy": (
        lambda: signed(entropy=b"other").contribute("black", 6.51).close(6.6),
        {("contributions", "4.4")},
    ),
    "4.4 a signature over another purpose": (
        lambda: signed(purpose="x").contribute("black", 6.51).close(6.6),
        {("contributions", "4.4")},
    ),
    "4.4 a call's signature over another number": (
        lambda: live_signed(n=2).reveal(20),
        {("contributions", "4.4")},
    ),
    # 5: outcomes
    "5.2 another die": (
        lambda: closed().round(1005, 15.9).draw("turn", 16, outcomes=[[7, 7]]).reveal(20),
        {("outcomes", "5.2")},
    ),
    "5.2 a recipe that was not sealed": (
        lambda: closed().round(1005, 15.9).draw("turn", 16, recipe="other").reveal(20),
        {("outcomes", "5.2"), ("complete", "3.6")},
    ),
    "5.2 dealt past the end": (
        lambda: (
            closed(recipes={"turn": {"kind": "deal", "size": 3, "count": 2}})
            .round(1005, 15.9)
            .draw("turn", 16)
            .skip_to("turn", 2, 17, [[0, 1]])
            .reveal(20, draws={"turn": 2})
        ),
        {("outcomes", "5.2")},
    ),
    "5.3 too few dice": (
        lambda: closed().round(1005, 15.9).draw("turn", 16, outcomes=[[1]]).reveal(20),
        {("outcomes", "5.3")},
    ),
    "5.3 a short hand, and then a false one of the same deck": (
        lambda: (
            closed(recipes={"turn": builder.HAND})
            .round(1005, 15.9)
            .draw("turn", 16, outcomes=[[1, 2]])
            .draw("turn", 17, outcomes=[[1, 2, 3, 4, 5]])
            .reveal(20)
        ),
        {("outcomes", "5.3"), ("outcomes", "5.2")},
    ),
    "5.3 hex in capitals": (
        lambda: (
            closed(recipes={"turn": {"kind": "bytes", "count": 2}})
            .round(1005, 15.9)
            .draw("turn", 16, outcomes=["AB00"])
            .reveal(20)
        ),
        {("outcomes", "5.3")},
    ),
    "5.3 a string of dice": (
        lambda: closed().round(1005, 15.9).draw("turn", 16, outcomes=["0102"]).reveal(20),
        {("outcomes", "5.3")},
    ),
    "5.3 true for one": (
        lambda: (
            closed(recipes={"turn": {"kind": "weighted", "weights": [0, 1], "count": 1}})
            .round(1005, 15.9)
            .draw("turn", 16, outcomes=[[True]])
            .reveal(20)
        ),
        {("outcomes", "5.2")},
    ),
    # 6.1: one of each
    "6.1 two closes": (lambda: closed().close(6.7), {("sole", "6.1")}),
    "6.1 the same seal once more, in a document that leaves out leaves": (
        lambda: (
            (story := drawn(nobody(time=at(9)))).add(story.leaves[2])
            and story.document([i for i in story.shown if i != 3])
        ),
        {("sole", "6.1"), ("log", "6.2")},
    ),
    "6.1 two contributions of one participant": (
        lambda: sealed().contribute("white", 6.55, b"again", counted=False).close(6.6),
        {("sole", "6.1")},
    ),
    "6.1 a draw twice": (
        lambda: (
            closed()
            .round(1005, 15.9)
            .draw("turn", 16, count=2)
            .draw("turn", 17, n=2)
            .reveal(20, draws={"turn": 2, "opening": 0, "hand": 0})
        ),
        {("sole", "6.1")},
    ),
    "6.1 two reveals": (
        lambda: closed().round(1005, 15.9).reveal(20).reveal(21),
        {("sole", "6.1"), ("complete", "6.1")},
    ),
    "6.1 a void after the reveal": (
        lambda: closed().round(1005, 15.9).reveal(20).void("host", 21),
        {("sole", "6.1"), ("complete", "6.1")},
    ),
    "6.1 a draw after the reveal": (
        lambda: closed().round(1005, 15.9).reveal(20).draw("turn", 21),
        {("sole", "6.1"), ("complete", "6.1")},
    ),
    "6.1 a call twice": (
        lambda: called().call("hand", 1.9, draw=1),
        {("sole", "6.1")},
    ),
    "6.1 a live draw twice": (
        lambda: called().round(1002, 6.8).answer(1, 6.9).answer(1, 6.95),
        {("sole", "6.1")},
    ),
    "6.1 two contributions of one participant to a call": (
        twice_in_a_call,
        {("sole", "6.1")},
    ),
    "6.1 a contribution before its seal": (before_its_seal, {("log", "6.1")}),
    # 6.2
    "6.2 time runs backwards": (
        lambda: closed().round(1005, 16.5).draw("turn", 16).reveal(20),
        {("log", "6.2")},
    ),
    # 6.3: the seal
    "6.3 sealed at its close_at": (
        lambda: Story().seal(close_at=at(6), open=True).close(6.1),
        {("unpredictable", "6.3")},
    ),
    "6.3 the round within two periods": (
        lambda: drawn(nobody(time=at(9.001))),
        {("unpredictable", "6.3")},
    ),
    "6.3 closing within one period of the round": (
        lambda: sealed(close_at=at(12.001)).close(6.6),
        {("unpredictable", "6.3")},
    ),
    "6.3 reveal_by too early": (lambda: closed(reveal_by=at(615) - 1), {("unpredictable", "6.3")}),
    "6.3 reveal_by too early for a live session": (
        lambda: called(reveal_by=at(603.5) - 1),
        {("unpredictable", "6.3")},
    ),
    "6.3 reveal_by too early after a live close": (
        lambda: Story(links=2).seal(profile="live", reveal_by=at(604) - 1),
        {("unpredictable", "6.3")},
    ),
    "6.3 reveal_by after 400 days": (lambda: closed(reveal_by=at(6) + 400 * DAY + 1), {("unpredictable", "6.3")}),
    "6.3 a round that is known": (
        lambda: drawn(nobody(after={"round": 1004, "signature": signature(1004)}, time=at(11))),
        {("unpredictable", "6.3")},
    ),
    "6.3 a round beyond all time": (
        lambda: closed(round=2**53 - 1, reveal_by=at(6) + 400 * DAY),
        {("unpredictable", "6.3")},
    ),
    "6.3 a draw at reveal_by": (
        lambda: closed().round(1005, 15.9).draw("turn", 615).reveal(616),
        {("unpredictable", "6.3")},
    ),
    "6.3 a timelock before reveal_by": (
        lambda: closed(timelock=timelock(at(612))),
        {("unpredictable", "6.3")},
    ),
    "6.3 a timelock 31 days after reveal_by": (
        lambda: closed(timelock=timelock(at(618) + 31 * DAY)),
        {("unpredictable", "6.3")},
    ),
    # 6.4
    "6.4 contributions that the seal does not take": (
        lambda: nobody(open=True).contribute("white", 6.5, counted=False),
        {("contributions", "6.4")},
    ),
    "6.4 a close that nobody needs": (lambda: nobody().close(6.6), {("contributions", "6.4")}),
    "6.4 drawn without a close": (lambda: drawn(sealed()), {("contributions", "6.4")}),
    "6.4 called without a close": (
        lambda: called(close_at=at(2), participants=[{"id": "white"}]),
        {("contributions", "6.4")},
    ),
    "6.4 revealed without a close": (lambda: sealed().round(1005, 15.9).reveal(20), {("contributions", "6.4")}),
    "6.4 a contribution after close_at": (
        lambda: Story().seal().contribute("white", 6.5).contribute("black", 9.001).close(9.1),
        {("contributions", "6.4")},
    ),
    "6.4 a contribution of somebody else": (
        lambda: sealed().contribute("grey", 6.55).close(6.6),
        {("contributions", "6.4")},
    ),
    "6.4 a call's contribution of somebody else": (
        lambda: called().call("turn", 1.8, {"grey": b"g"}),
        {("contributions", "6.4")},
    ),
    "6.4 no signature of a player with a key": (
        lambda: Story().seal(**SIGNED).contribute("white", 6.5).contribute("black", 6.51).close(6.6),
        {("contributions", "6.4")},
    ),
    "6.4 a signature of a player without a key": (
        lambda: Story().seal().contribute("white", 6.5, signature="00" * 64).contribute("black", 6.51).close(6.6),
        {("contributions", "6.4")},
    ),
    "6.4 a minimum though none are taken": (
        lambda: nobody(open=True, min_contributions=1),
        {("contributions", "6.4")},
    ),
    "6.4 contributions of nobody": (
        lambda: Story().seal(participants=[]),
        {("contributions", "6.4")},
    ),
    # 6.5
    "6.5 closed early, one is missing": (
        lambda: Story().seal().contribute("white", 6.5).close(6.6),
        {("unpredictable", "6.5")},
    ),
    "6.5 closed at close_at exactly, one is missing": (
        lambda: Story().seal().contribute("white", 6.5).close(9),
        {("unpredictable", "6.5")},
    ),
    "6.5 an open session closed early": (lambda: sealed(open=True).close(6.6), {("unpredictable", "6.5")}),
    "6.5 closed at the round's time": (lambda: sealed().close(15), {("unpredictable", "6.5")}),
    "6.5 closed below the minimum": (
        lambda: Story().seal(min_contributions=2).contribute("white", 6.5).close(9.1),
        {("unpredictable", "6.5")},
    ),
    "6.5 a contribution after the close": (
        lambda: Story().seal().contribute("white", 6.5).close(9.1).contribute("black", 9, time=at(9.1), counted=False),
        {("unpredictable", "6.5")},
    ),
    "6.5 closed after the first call": (
        lambda: called(close_at=at(1.6), participants=[{"id": "white"}]).close(1.9),
        {("unpredictable", "6.5")},
    ),
    # 6.6
    "6.6 calls that do not start at 1": (
        lambda: Story(links=8).seal(profile="live", close_at=None, participants=[]).call("turn", 1.8, draw=2),
        {("unpredictable", "6.6"), ("complete", "6.6")},
    ),
    "6.6 a call beyond the last link": (
        lambda: Story(links=1).seal(profile="live", close_at=None, participants=[]).call("turn", 1.8).call("turn", 1.9),
        {("unpredictable", "6.6")},
    ),
    "6.6 a call of an earlier round than its lead allows": (
        lambda: Story(links=8).seal(profile="live", close_at=None, participants=[]).call("turn", 1.8, round=1001),
        {("unpredictable", "6.6")},
    ),
    "6.6 a call of a later round than the first": (
        lambda: Story(links=8).seal(profile="live", close_at=None, participants=[]).call("turn", 1.8, round=1003),
        {("unpredictable", "6.6")},
    ),
    "6.6 draws in another order": (
        lambda: called().call("opening", 1.8).round(1002, 6.8).answer(2, 6.9).answer(1, 6.9).reveal(20),
        {("unpredictable", "6.6")},
    ),
    "6.6 a draw without a call": (
        lambda: called().round(1002, 6.8).answer(1, 6.9, draw=2),
        {("unpredictable", "6.6"), ("seed", "4.1")},
    ),
    "6.6 a draw of another recipe": (
        lambda: called().round(1002, 6.8).answer(1, 6.9, recipe="opening"),
        {("unpredictable", "6.6"), ("outcomes", "5.3")},
    ),
    "6.6 a draw for another purpose": (
        lambda: called().round(1002, 6.8).answer(1, 6.9, purpose="other"),
        {("unpredictable", "6.6")},
    ),
    "6.3 a call's round at reveal_by": (
        lambda: (
            Story(links=2).seal(profile="live", close_at=None, participants=[], reveal_by=at(603.5)).call("turn", 601.5)
        ),
        {("unpredictable", "6.3")},
    ),
    # 6.7
    "6.7 a number is left out": (
        lambda: (
            closed()
            .round(1005, 15.9)
            .draw("turn", 16)
            .skip_to("turn", 3, 17)
            .reveal(20, draws={"turn": 2, "opening": 0, "hand": 0})
        ),
        {("complete", "6.7")},
    ),
    "6.7 a call's number is left out": (
        lambda: called().call("hand", 1.8, n=3),
        {("complete", "6.7")},
    ),
    "6.7 drawn before the round": (
        lambda: closed().draw("turn", 15.5).round(1005, 15.9).reveal(20),
        {("complete", "6.7")},
    ),
    "6.7 revealed before the round": (lambda: closed().reveal(15.5).round(1005, 15.9), {("complete", "6.7")}),
    "6.7 a live draw before its round": (
        lambda: called().answer(1, 6.7).round(1002, 6.8),
        {("complete", "6.7")},
    ),
    "6.7 a call that was never drawn": (
        lambda: called().round(1002, 6.8).reveal(20, draws={"turn": 0, "opening": 0, "hand": 0}),
        {("complete", "6.7")},
    ),
    "6.7 a live session revealed by the host": (
        lambda: live(custody="host").reveal(20, by="host"),
        {("complete", "6.7")},
    ),
    "6.7 fewer draws than planned": (
        lambda: nobody(plan={"turn": 2}).round(1005, 15.9).draw("turn", 16).reveal(20),
        {("complete", "6.7")},
    ),
    "6.7 more draws than planned": (
        lambda: nobody(plan={"turn": 2}).round(1005, 15.9).draw("turn", 16, count=3).reveal(20),
        {("complete", "6.7")},
    ),
    "6.7 a draw that was not planned": (
        lambda: raffle().draw("opening", 16).reveal(20),
        {("complete", "6.7")},
    ),
    "3.6 a planned draw with a purpose": (
        lambda: nobody(plan={"turn": 1}).round(1005, 15.9).draw("turn", 16, purpose="x").reveal(20),
        {("complete", "3.6")},
    ),
    "3.6 the reveal counts other draws": (
        lambda: closed().round(1005, 15.9).draw("turn", 16).reveal(20, draws={"turn": 2, "opening": 0, "hand": 0}),
        {("complete", "3.6")},
    ),
    "3.6 the reveal leaves out a recipe": (
        lambda: closed().round(1005, 15.9).draw("turn", 16).reveal(20, draws={"turn": 1, "opening": 0}),
        {("complete", "3.6")},
    ),
    "3.6 the close counts other contributions": (
        lambda: sealed().close(6.6, contributions=3),
        {("complete", "3.6")},
    ),
    "3.6 sealed in another log": (lambda: drawn(nobody(log="other")), {("log", "3.6")}),
    "6.7 the round was in the log before the close": (
        lambda: sealed(round=1004, close_at=at(9)).round(1004, 11.5).close(11.6),
        {("unpredictable", "6.7")},
    ),
    "6.7 a round of a seal's own `after`": (
        lambda: drawn(nobody(after={"round": 1005, "signature": signature(1005)}, time=at(14))),
        {("unpredictable", "6.7"), ("unpredictable", "6.3")},
    ),
    "6.7 another seal knew a later round before the close": (
        lambda: everything(foreign(sealed(), 14.5, 1005).close(14.6).round(1005, 15.9)),
        {("unpredictable", "6.7")},
    ),
    "6.7 the round was in the log before the call": (
        lambda: (
            Story(links=2)
            .seal(profile="live", close_at=None, participants=[])
            .round(1002, 5.5)
            .call("turn", 5.6, round=1002)
        ),
        {("unpredictable", "6.7"), ("unpredictable", "6.6")},
    ),
    "6.7 a host void knew the round": (
        lambda: closed().round(1005, 14.5).void("host", 14.6),
        {("custody", "6.12"), ("unpredictable", "6.7")},
    ),
    # 6.8
    "6.8 the round twice": (
        lambda: closed().round(1005, 15.9).round(1005, 15.95),
        {("round", "6.8"), ("sole", "6.8")},
    ),
    "6.8 the round twice with another signature": (
        lambda: closed().round(1005, 15.9).round(1005, 15.95, signature=signature(1004)),
        {("round", "6.8"), ("sole", "6.8")},
    ),
    # 6.10
    "6.10 a round logged a second early": (lambda: closed().round(1005, 13.999), {("unpredictable", "6.10")}),
    "6.10 a seal before the round that it knows": (
        lambda: drawn(nobody(after={"round": 1003, "signature": signature(1003)}, time=at(7.999))),
        {("unpredictable", "6.10")},
    ),
    "6.10 a draw before a round below it": (
        early_event,
        {("unpredictable", "6.10"), ("log", "6.2")},
    ),
    # 6.12
    "6.12 an unknown reason": (lambda: sealed().void("weather", 7), {("custody", "6.12")}),
    "6.12 host, at the round's time": (lambda: closed().void("host", 15), {("custody", "6.12")}),
    "6.12 host, after the first call": (lambda: called().void("host", 2), {("custody", "6.12")}),
    "6.12 below-minimum, though reached": (
        lambda: sealed(min_contributions=2).void("below-minimum", 9.1),
        {("custody", "6.12")},
    ),
    "6.12 below-minimum, after the close": (
        lambda: Story().seal(min_contributions=1).contribute("white", 6.5).close(9.1).void("below-minimum", 9.2),
        {("custody", "6.12")},
    ),
    "6.12 below-minimum, after a close below the minimum": (
        lambda: Story().seal(min_contributions=1).close(9.1).void("below-minimum", 9.2),
        {("custody", "6.12"), ("unpredictable", "6.5")},
    ),
    "6.12 below-minimum, though none are taken but a minimum is named": (
        lambda: nobody(open=True, min_contributions=1).void("below-minimum", 9),
        {("custody", "6.12"), ("contributions", "6.4")},
    ),
    "6.12 below-minimum, at close_at": (
        lambda: Story().seal(min_contributions=1).void("below-minimum", 9),
        {("custody", "6.12")},
    ),
    "6.12 below-minimum, at the round's time": (
        lambda: Story().seal(min_contributions=1).void("below-minimum", 15),
        {("custody", "6.12")},
    ),
    "6.12 below-minimum, though none are taken": (lambda: nobody().void("below-minimum", 9), {("custody", "6.12")}),
    "6.12 below-minimum, after the first call": (
        lambda: called(close_at=at(1.6), participants=[{"id": "white"}], min_contributions=1).void("below-minimum", 2),
        {("custody", "6.12"), ("contributions", "6.4")},
    ),
    "6.12 missed-close, before the round's time": (
        lambda: sealed().void("missed-close", 14.999),
        {("custody", "6.12")},
    ),
    "6.12 missed-close, though closed": (lambda: closed().void("missed-close", 16), {("custody", "6.12")}),
    "6.12 missed-close, though none are taken": (lambda: nobody().void("missed-close", 16), {("custody", "6.12")}),
    "6.12 missed-close of a live session": (
        lambda: Story(links=2).seal(profile="live").void("missed-close", 16),
        {("custody", "6.12")},
    ),
    "6.12 no-round, before reveal_by": (lambda: closed().void("no-round", 614.999), {("custody", "6.12")}),
    "6.12 no-round, though it was known": (
        lambda: closed().round(1005, 15.9).void("no-round", 615),
        {("custody", "6.12")},
    ),
    "6.12 no-round, though another seal knew it": (
        lambda: everything(
            foreign(closed(), 17, 1005, round=1010, close_at=at(20), reveal_by=at(700)).void("no-round", 615)
        ),
        {("custody", "6.12")},
    ),
    "6.12 no-round, though no call is open": (
        lambda: called().round(1002, 6.8).answer(1, 6.9).void("no-round", 615),
        {("custody", "6.12")},
    ),
    "6.12 no-round, though every open call's round was known": (
        lambda: called().round(1002, 6.8).void("no-round", 615),
        {("custody", "6.12")},
    ),
    "6.12 missed-reveal, before reveal_by": (
        lambda: closed(custody="host").round(1005, 15.9).void("missed-reveal", 614.999),
        {("custody", "6.12")},
    ),
    "6.12 missed-reveal, too soon after the round": (
        lambda: closed(custody="host").round(1005, 300).void("missed-reveal", 899.999),
        {("custody", "6.12")},
    ),
    "6.12 missed-reveal, before its round": (
        lambda: closed(custody="host").void("missed-reveal", 1000).round(1005, 1001),
        {("custody", "6.12")},
    ),
    "6.12 missed-reveal, its round not shown": (
        lambda: closed(custody="host").void("missed-reveal", 1000),
        {("custody", "6.12")},
    ),
    "6.12 missed-reveal, before the timelock's round": (
        lambda: closed(custody="host", timelock=timelock(at(615))).round(1005, 15.9).void("missed-reveal", 1000),
        {("custody", "6.12")},
    ),
    "6.7 missed-reveal of a live session with every call drawn": (
        lambda: live(custody="host").void("missed-reveal", 1000),
        {("complete", "6.7")},
    ),
}


ALLOWED = {
    # name: (document, exit code)
    "a match": (lambda: match().reveal(135), 0),
    "a live session": (lambda: live().reveal(20), 0),
    "a raffle": (lambda: raffle().reveal(20), 0),
    "on a chained scheme": (lambda: chained(), 0),
    "signed players": (
        lambda: signed().contribute("black", 6.51).close(6.6).round(1005, 15.9).draw("turn", 16).reveal(20),
        0,
    ),
    "signed calls": (lambda: live_signed().reveal(20), 0),
    "contributions until close_at, closed after it": (
        lambda: played(Story().seal(open=True).contribute("white", 6).contribute("grey", 9), 9.001),
        0,
    ),
    "nobody contributes": (lambda: played(Story().seal(), 9.001), 0),
    "exactly two periods, R = L + 2": (
        lambda: drawn(nobody(time=at(9), after=Story().round_fields(1003))),
        0,
    ),
    "closing exactly one period before the round": (
        lambda: played(Story().seal(close_at=at(12)).contribute("white", 12), 12.001),
        0,
    ),
    "closed just before the round's time": (lambda: played(sealed(), 14.999), 0),
    "reveal_by after exactly 400 days": (lambda: drawn(nobody(reveal_by=at(6) + 400 * DAY)), 0),
    "a round logged exactly a second early": (lambda: closed().round(1005, 14).draw("turn", 14).reveal(14), 0),
    "everything at one moment": (
        lambda: (
            Story()
            .seal()
            .contribute("white", 6)
            .contribute("black", 6)
            .close(6)
            .round(1005, 15)
            .draw("turn", 15)
            .reveal(15)
        ),
        0,
    ),
    "a plan in several entries": (
        lambda: (
            nobody(plan={"turn": 3, "hand": 1})
            .round(1005, 15.9)
            .draw("turn", 16)
            .draw("hand", 16)
            .draw("turn", 16, 2)
            .reveal(20)
        ),
        0,
    ),
    "a plan drawn late": (lambda: nobody(plan={"turn": 1}).round(1005, 900).draw("turn", 900).reveal(900), 0),
    "a call drawn late": (
        lambda: called().round(1002, 900).answer(1, 900).reveal(900),
        0,
    ),
    "a call's round just before reveal_by": (lambda: called(reveal_by=at(603.5)), 2),
    "a deal's last card": (
        lambda: (
            closed(recipes={"turn": {"kind": "deal", "size": 3, "count": 1}})
            .round(1005, 15.9)
            .draw("turn", 16, 3)
            .reveal(20)
        ),
        0,
    ),
    "custody of the host": (lambda: played(sealed(custody="host")), 0),
    "revealed late": (lambda: closed().round(1005, 15.9).draw("turn", 16).reveal(5000), 0),
    "a live session without a call": (
        lambda: Story(links=2).seal(profile="live", close_at=None, participants=[]).reveal(610),
        2,
    ),
    "a match without a draw": (lambda: closed().round(1005, 15.9).reveal(20), 2),
    "sealed only": (lambda: Story().seal(), 2),
    "closed only": (closed, 2),
    "one call open": (called, 2),
    "not revealed": (lambda: closed().round(1005, 15.9).draw("turn", 16), 2),
    "void by the host": (lambda: sealed().void("host", 14.999), 2),
    "void by the host, after the close": (lambda: closed().void("host", 14.999), 2),
    "void by the host, live": (lambda: Story(links=2).seal(profile="live", close_at=None).void("host", 1000), 2),
    "void with its seed": (lambda: (story := closed()).void("host", 7, seed=story.links[1].hex()), 2),
    "void below the minimum": (lambda: Story().seal(min_contributions=1).void("below-minimum", 9.001), 2),
    "void below the minimum, live": (
        lambda: Story(links=2).seal(profile="live", min_contributions=1).void("below-minimum", 1000),
        2,
    ),
    "void for a missed close": (lambda: sealed().void("missed-close", 15), 2),
    "void for want of a round": (lambda: closed().void("no-round", 615), 2),
    "void for want of a round, an earlier one known": (lambda: closed().void("no-round", 615), 2),
    "void for want of a call's round": (
        lambda: called().round(1002, 6.8).answer(1, 6.9).call("turn", 7.5).void("no-round", 615),
        2,
    ),
    "never revealed by the host": (lambda: closed(custody="host").round(1005, 15.9).void("missed-reveal", 615.9), 1),
    "never revealed by a service that lost the seed": (
        lambda: closed().round(1005, 15.9).void("missed-reveal", 615.9),
        1,
    ),
    "a live draw never given": (lambda: called(custody="host").round(1002, 6.8).void("missed-reveal", 610), 1),
    "foreign leaves among consecutive ones": (
        lambda: everything(
            foreign(closed(), 15.5, 1005, round=1010, close_at=at(20), reveal_by=at(700))
            .round(1005, 15.9)
            .draw("turn", 16)
            .reveal(20)
        ),
        0,
    ),
    "another session's round twice": (lambda: everything(other_rounds()), 0),
}


def chained():
    """A match on drand's default chain, rounds 2183660 and 2183662."""
    story = Story("default")
    start = (story.chain.time(2183660) - at(0)) / 1000
    story.seal(
        time=story.chain.time(2183660) + 1000, round=2183663, after=story.round_fields(2183660),
        close_at=story.chain.time(2183661), reveal_by=story.chain.time(2183663) + HOUR,
    )  # fmt: skip
    story.contribute("white", start + 2).contribute("black", start + 2).close(start + 3)
    return story.round(2183663, start + 91).draw("turn", start + 92).reveal(start + 93)


def other_rounds():
    story = closed().round(1005, 15.9)
    for _ in range(2):
        story.add(Story().round(1001, 15.9).leaves[-1], shown=False)
    return story.draw("turn", 16).reveal(20)


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_fails_its_claim(name):
    make, expected = RULES[name]
    result = verdict(make())
    assert broken(result) == expected
    assert result.exit == 1


def test_two_signatures_of_one_round_are_told_from_one_logged_twice():
    same, other = (verdict(RULES[name][0]())["round"].text for name in RULES if name.startswith("6.8"))
    assert "the chain is broken" in other
    assert "the chain is broken" not in same


@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_rules_allow_fails_nothing(name):
    make, code = ALLOWED[name]
    result = verdict(make(), CHAINS)
    assert broken(result) == set()
    assert result.exit == code


@pytest.mark.parametrize(
    "make",
    [
        lambda: closed(),
        lambda: called(),
        lambda: closed(timelock=timelock(at(620))),
    ],
)
def test_nothing_is_beyond_a_retired_chain(make):
    chain = replace(QUICKNET, last_round=1001)
    result = verdict(make(), replace(TRUST, chains={chain.hash: chain}))
    assert broken(result) == {("round", "2.5")}


def test_a_chained_scheme_carries_no_timelock():
    default = builder.pinned_chains()["default"]
    lock = {"chain": default.hash.hex(), "round": default.first_at(at(620)), "ciphertext": "YWdl"}
    assert broken(verdict(closed(timelock=lock), CHAINS)) == {("custody", "7.3")}


def test_rules_that_need_no_clock_hold_without_the_chain():
    unpinned = replace(TRUST, chains={})
    assert verdict(match().reveal(135), unpinned)["round"].state == "UNKNOWN"
    assert verdict(match().reveal(135), unpinned).exit == 2
    for name in (
        "6.12 an unknown reason", "6.12 host, after the first call", "6.12 missed-close, though closed", "6.5 closed below the minimum",
        "6.6 a call beyond the last link", "6.3 reveal_by after 400 days", "6.3 sealed at its close_at", "6.7 a number is left out",
    ):  # fmt: skip
        make, expected = RULES[name]
        assert broken(verdict(make(), unpinned)) == expected


def test_every_rule_that_fails_stands_in_the_contract():
    contract = (Path(__file__).parents[1] / "verifier" / "PROTOCOL.md").read_text()
    for _, expected in RULES.values():
        for claim, rule in expected:
            assert f"**{rule}**" in contract
            assert f"| `{claim}` |" in contract


def test_the_contracts_roll_by_hand_is_the_known_answer():
    contract = (Path(__file__).parents[1] / "verifier" / "PROTOCOL.md").read_text()
    case = json.loads((builder.VECTORS / "protocol.json").read_text())["cases"][0]
    for name in ("session", "session_digest", "randomness", "binding", "seed"):
        assert f"`{case[name]}`" in contract
    assert case["outcomes"][0] == {
        "recipe": "turn", "n": 1, "outcome": [4, 4], "word": "1b1be57fbdbb3caf7d8b34f4a8b4d74f9b4d2556e8492a98f486ac077a9fbf42",
    }  # fmt: skip
    assert all(entropy in contract for _, entropy in case["contributions"])


@pytest.mark.parametrize(("count", "found"), [(10_000, 0), (10_001, 1)])
def test_a_session_takes_at_most_10000_contributions(count, found):
    story = Story().seal(open=True)
    session = collect(parse_transcript(builder.data(story.document())))
    template = parse_entry(Story().seal().contribute("p", 6.5).leaves[-1])
    session.contributions = [Logged(i, bytes(32), replace(template, participant=f"p{i}")) for i in range(3, 3 + count)]
    broken_rules = [finding.rule for finding in contributions(session)]
    assert broken_rules == ["6.4"] * found
