"""The verdict: claims, witnesses, headlines and exit codes (PROTOCOL.md, sections 7 and 8), and damaged documents."""

import copy
import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builder
from tests.builder import LOG_KEY, ORIGIN, POLICY, QUICKNET, WITNESSES, Story, at, live, match, raffle
from tests.check_support import TRUST, WITNESSED, broken, verdict
from verifier.check import Trust, check
from verifier.entries import Reveal
from verifier.errors import FormatError
from verifier.note import SigningKey, VerifierKey
from verifier.outcomes import Seeds
from verifier.policy import Policy
from verifier.seeds import seed_chain
from verifier.session import Logged, collect
from verifier.transcript import parse_transcript
from verifier.verdict import NEEDED, UNKNOWABLE, ClaimName, State

OTHER_KEY = SigningKey(b"\x77" * 32, ORIGIN)


def finished(**seal):
    return match(**seal).reveal(135)


def states(result):
    return {str(claim.name): str(claim.state) for claim in result.claims}


# --- claims, headline, exit codes ------------------------------------------------------------------------------------


def test_the_claims_stand_in_the_protocols_order():
    names = [claim.name for claim in verdict(finished()).claims]
    assert names == list(ClaimName)
    assert ",".join(names) == (
        "log,round,unpredictable,seed,outcomes,complete,sole,contributions,custody,attachments,witnessed"
    )


def test_an_honest_match_is_fair_if_the_operator_is_honest():
    result = verdict(finished())
    assert result.exit == 0
    assert {name: result[name].state for name in NEEDED} == dict.fromkeys(NEEDED, State.PROVEN)
    assert result["unpredictable"].state == result["sole"].state == result["contributions"].state == State.TRUSTED
    assert result.headline.startswith(f"Fair if the operator of {ORIGIN} is honest about its clock")
    assert "the host club" in result.headline
    assert result.as_dict()["unknowable"] == UNKNOWABLE
    assert [row["recipe"] for row in result.session["outcomes"]] == ["opening", "turn", "turn", "hand"]


def test_proof_may_be_required():
    assert verdict(finished(), replace(TRUST, require_proven=True)).exit == 2


def test_nothing_is_proven_without_the_logs_key():
    result = verdict(finished(), replace(TRUST, log_key=None))
    assert (result.exit, result["log"].state) == (2, State.UNKNOWN)
    assert result["sole"].state == State.TRUSTED


def test_nothing_is_proven_without_the_chain():
    result = verdict(finished(), replace(TRUST, chains={}))
    assert (result.exit, result["round"].state, result["unpredictable"].state) == (2, State.UNKNOWN, State.UNKNOWN)


def test_a_sandbox_session_is_a_test():
    document = finished(sandbox=True).document()
    assert verdict(document).exit == 2
    assert verdict(document, replace(TRUST, sandbox=True)).exit == 0
    assert verdict(document).headline.startswith("A test, not a game: ")
    assert verdict(finished(sandbox=True).document() | {"chain": QUICKNET.as_dict() | {"period": 4}}).exit == 1


def test_a_rerun_is_said_first():
    result = verdict(finished(replaces="ab" * 32, sandbox=True))
    assert result.headline.startswith(f"Re-run of {'ab' * 32}: A test, not a game: ")
    failed = verdict(match(replaces="ab" * 32).reveal(135, seed="00" * 32))
    assert failed.headline.startswith(f"Re-run of {'ab' * 32}: Not fair")


def test_a_missed_reveal_is_exit_1_though_no_claim_failed():
    story = Story().seal(custody="host", close_at=None, participants=[]).round(1005, 15.9).void("missed-reveal", 700)
    result = verdict(story)
    assert result.exit == 1
    assert broken(result) == set()


def test_a_session_whose_draws_lack_their_round_is_undecided():
    story = finished()
    document = story.document([index for index in story.shown if b'"round","time"' not in story.leaves[index]])
    result = verdict(document)
    assert result.exit == 2
    assert {name for name, state in states(result).items() if state == "UNKNOWN"} >= {"round", "outcomes", "complete"}


def test_what_was_revealed_before_an_unseen_round_is_not_complete():
    story = Story().seal(close_at=None, participants=[]).reveal(20)
    assert states(verdict(story))["complete"] == State.UNKNOWN
    assert states(verdict(story.document([*story.shown])))["round"] == State.UNKNOWN
    assert states(verdict(Story().seal(close_at=None, participants=[]).void("host", 7)))["complete"] == State.PROVEN


def test_a_round_that_only_an_entry_after_the_end_asks_for_is_not_due():
    story = Story(links=2).seal(profile="live", close_at=None, participants=[]).void("host", 1.8)
    story.call("turn", 1.8).round(1002, 6.8)
    assert states(verdict(story))["round"] == State.UNKNOWN


def test_nothing_is_proven_of_a_log_that_fails():
    story = finished()
    document = story.document(seen={"w1": 200, "w2": 200})
    assert {states(verdict(document, WITNESSED))[name] for name in ("sole", "witnessed")} == {State.PROVEN}
    document["events"][3]["proof"][0] = document["events"][2]["proof"][0]
    assert {states(verdict(document, WITNESSED))[name] for name in ("sole", "witnessed")} == {State.TRUSTED}


def test_a_deck_that_cannot_be_followed_accuses_nobody():
    story = Story(links=8).seal(profile="live", close_at=None, participants=[])
    story.call("hand", 1.8).round(1002, 6.8).answer(1, 6.9).call("hand", 7).round(1003, 9.8).answer(2, 9.9).reveal(20)
    without = [index for index in story.shown if b'"round":1002,"signature"' not in story.leaves[index]]
    result = verdict(story.document(without))
    assert (result["outcomes"].state, broken(result)) == (State.UNKNOWN, set())


def test_what_a_session_without_a_round_would_have_given_is_shown():
    story = raffle()
    expected = json.loads(story.leaves[-1])["outcomes"]
    story = Story().seal(close_at=None, participants=[], plan={"turn": 2})
    story.void("no-round", 615, seed=story.links[1].hex()).round(1005, 616)
    result = verdict(story)
    assert result.exit == 2
    assert result["custody"].state == State.TRUSTED
    assert [row["outcome"] for row in result.session["would_have_been"]] == expected


def test_without_its_seed_or_its_round_nothing_would_have_been():
    story = Story().seal(close_at=None, participants=[], plan={"turn": 2})
    seed = story.links[1].hex()
    assert verdict(story.void("no-round", 615, seed=seed)).session["would_have_been"] == []
    story = Story().seal(close_at=None, participants=[], plan={"turn": 2}).void("no-round", 615).round(1005, 616)
    assert verdict(story).session["would_have_been"] == []


def test_what_an_open_call_would_have_given_is_shown():
    told = live()
    expected = json.loads(told.leaves[-1])["outcomes"][0]
    story = Story(links=8).seal(profile="live").contribute("white", 1.6).contribute("black", 1.61).close(1.65)
    story.call("turn", 1.8, {"white": b"w", "black": b"b"}).call("hand", 1.8).round(1002, 6.8).answer(1, 6.81).answer(
        2, 6.81
    )
    story.call("hand", 6.9).void("no-round", 615, seed=story.links[3].hex()).round(1003, 616)
    rows = verdict(story).session["would_have_been"]
    assert rows == [{"recipe": "hand", "n": 2, "purpose": "for 3", "outcome": expected}]


def test_what_an_open_call_would_have_dealt_needs_every_earlier_deal():
    story = Story(links=8).seal(profile="live", close_at=None, participants=[])
    story.call("hand", 1.8).round(1002, 6.8).answer(1, 6.9).call("hand", 7)
    story.void("no-round", 615, seed=story.links[2].hex()).round(1003, 616)
    without = [index for index in story.shown if b'"round":1002,"signature"' not in story.leaves[index]]
    assert len(verdict(story).session["would_have_been"]) == 1
    assert verdict(story.document(without)).session["would_have_been"] == []


def test_late_draws_and_reveals_are_flagged_without_failing():
    result = verdict(raffle(plan={"turn": 2}).reveal(1215))
    assert (result.exit, result.remarks) == (0, ("Late: the seed was revealed long after reveal_by.",))
    assert verdict(raffle(plan={"turn": 2}).reveal(1214.999)).remarks == ()
    planned = Story().seal(close_at=None, participants=[], plan={"turn": 1}).round(1005, 15.9)
    assert len(verdict(planned.draw("turn", 1215).reveal(1216)).remarks) == 2


def test_a_stale_after_is_flagged():
    times = {"round": 1005, "close_at": None, "participants": []}
    story = (
        Story()
        .seal(time=at(6), after=Story().round_fields(1000), **times)
        .round(1005, 15.9)
        .draw("turn", 16)
        .reveal(20)
    )
    assert verdict(story).remarks == ()
    late = Story().seal(time=at(20.001), close_at=None, participants=[], round=1010, reveal_by=at(700))
    assert any("6.10" in remark for remark in verdict(late).remarks)
    on_time = Story().seal(time=at(20), close_at=None, participants=[], round=1010, reveal_by=at(700))
    assert verdict(on_time).remarks == ()


def test_recipes_of_equal_distribution_are_warned_about():
    recipes = {"a": builder.TURN, "b": {"kind": "integers", "min": 1, "max": 6, "count": 2}, "c": builder.OPENING}
    result = verdict(Story().seal(recipes=recipes))
    assert any("a and b have the same distribution" in remark for remark in result.remarks)
    assert verdict(Story().seal()).remarks == ()


def test_recipes_of_equal_distribution_are_no_choice_in_live_sessions_and_plans():
    alike = {"recipes": {"a": builder.TURN, "b": builder.TURN}, "close_at": None, "participants": []}
    assert verdict(Story(links=2).seal(profile="live", **alike)).remarks == ()
    assert verdict(Story().seal(plan={"a": 1}, **alike)).remarks == ()
    assert len(verdict(Story().seal(**alike)).remarks) == 1


def test_who_held_the_seed_is_said():
    assert "the operator held the seed" in verdict(finished())["custody"].text
    assert "the host club held the seed" in verdict(finished(custody="host"))["custody"].text
    assert "the host club could refuse" in verdict(live(custody="host").reveal(20))["custody"].text
    void = Story().seal(custody="host", close_at=None, participants=[])
    assert "the operator is trusted" in verdict(void.void("no-round", 615))["custody"].text
    void = Story().seal(custody="host", close_at=None, participants=[]).round(1005, 15.9)
    assert (
        "the host club held the seed and did not reveal it" in verdict(void.void("missed-reveal", 700))["custody"].text
    )


def test_what_is_missing_is_said():
    story = match()
    assert verdict(story)["outcomes"].text.startswith("the seed ")
    story.reveal(135)
    without = [index for index in story.shown if b'"type":"round"' not in story.leaves[index]]
    assert verdict(story.document(without))["outcomes"].text.startswith("a round ")


def test_a_reveal_by_whom_the_seal_does_not_provide_for_is_remarked():
    assert any("timelock" in remark for remark in verdict(match().reveal(135, by="timelock")).remarks)
    assert any("host" in remark for remark in verdict(match().reveal(135, by="host")).remarks)
    assert verdict(match(custody="host").reveal(135, by="host")).remarks == ()


def test_contributions_are_proven_when_all_are_signed_or_none_are_there():
    story = Story().seal(participants=[{"id": "white", "key": builder.public_key("white")}])
    story.contribute("white", 6.5, signature=story.signature("white", b"white")).close(6.6)
    assert verdict(story)["contributions"].state == State.PROVEN
    assert verdict(story)["contributions"].text == "'white' signed"
    both = Story().seal(participants=[{"id": "white", "key": builder.public_key("white")}, {"id": "black"}])
    both.contribute("white", 6.5, signature=both.signature("white", b"white")).contribute("black", 6.51).close(6.6)
    assert verdict(both)["contributions"].text == "the host club relayed 'black'; 'white' signed"
    assert verdict(raffle())["contributions"].text == "no participant took part"
    assert verdict(Story().seal())["contributions"].state == State.UNKNOWN


def test_attachments():
    rules = hashlib.sha256(b"rules").digest()
    document = finished(attachments=[{"name": "rules", "sha256": rules.hex()}]).document()
    given_them = {"rules": rules}
    assert verdict(document)["attachments"].state == State.UNKNOWN
    assert verdict(document, replace(TRUST, attachments=given_them))["attachments"].state == State.PROVEN
    assert broken(verdict(document, replace(TRUST, attachments={"rules": b"\0" * 32}))) == {("attachments", "3.6")}
    assert broken(verdict(document, replace(TRUST, attachments={"other": rules}))) == {("attachments", "3.6")}
    assert verdict(finished())["attachments"].state == State.UNKNOWN


def test_wrong_outcomes_are_listed_up_to_a_limit():
    story = (
        Story().seal(close_at=None, participants=[]).round(1005, 15.9).draw("turn", 16, 500, outcomes=[[9, 9]] * 500)
    )
    assert len(verdict(story.reveal(20))["outcomes"].findings) == 20


def test_a_long_outcome_is_cut_in_the_finding():
    recipes = {"deck": {"kind": "shuffle", "size": 100}}
    story = Story().seal(close_at=None, participants=[], recipes=recipes).round(1005, 15.9)
    finding = verdict(story.draw("deck", 16, outcomes=[list(range(100))]).reveal(20))["outcomes"].findings[0]
    assert finding.text.count("...") == 2
    assert len(finding.text) < 200


@pytest.mark.parametrize(("k", "proven"), [(65_535, True), (65_536, True), (65_537, False)])
def test_the_longest_seed_chain(k, proven):
    links = seed_chain(b"\x09" * 32, k)
    story = Story(links=2).seal(profile="live", close_at=None, participants=[], links=65_536, commitment=links[0].hex())
    story.call("turn", 1.8).round(1002, 6.8).answer(1, 6.9)
    session = collect(parse_transcript(builder.data(story.document())))
    draw = session.draws[0]
    session.draws = [replace(draw, entry=replace(draw.entry, draw=k, seed=links[k]))]
    of_draws = Seeds(session)
    assert of_draws.claim()[0] == State.PROVEN
    assert (of_draws.findings == []) == proven
    session.draws = []
    session.calls = dict.fromkeys(range(1, k + 1), session.calls[1])
    session.reveal = Logged(99, b"", Reveal(at(20), bytes(32), "service", links[k], {}))
    of_reveal = Seeds(session)
    of_reveal.claim()
    assert (of_reveal.findings == []) == proven


def test_a_verdict_lists_ten_thousand_outcomes_and_counts_all():
    story = Story().seal(close_at=None, participants=[], recipes={"coin": {"kind": "dice", "count": 1, "sides": 2}})
    story.round(1005, 15.9)
    for _ in range(11):
        story.draw("coin", 16, 1000)
    result = verdict(story.reveal(20))
    assert result.exit == 0
    assert (len(result.session["outcomes"]), result.session["draws"]) == (10_000, {"coin": 11_000})


def test_links_are_checked_until_the_first_false_one():
    story = Story(links=40).seal(profile="live", close_at=None, participants=[])
    for _ in range(40):
        story.call("turn", 1.8)
    story.round(1002, 6.8)
    for k in range(1, 41):
        story.answer(k, 6.9, seed="00" * 32)
    assert [finding.index for finding in verdict(story)["seed"].findings] == [44]


# --- the log ---------------------------------------------------------------------------------------------------------


def test_another_logs_key_fails_the_log():
    assert broken(verdict(finished(), replace(TRUST, log_key=OTHER_KEY.vkey))) == {("log", "7.4"), ("log", "7.2")}
    named = SigningKey(b"\x01" * 32, "log.example/other")
    assert broken(verdict(finished(), replace(TRUST, log_key=named.vkey))) == {("log", "7.4"), ("log", "7.2")}


def test_a_document_that_names_another_key_fails_the_log():
    document = finished().document() | {"log_key": str(OTHER_KEY.vkey)}
    assert broken(verdict(document)) == {("log", "7.4")}


def test_a_checkpoint_of_another_origin_fails_the_log():
    document = finished().document() | {"origin": "elsewhere"}
    assert ("log", "7.2") in broken(verdict(document))


def test_a_checkpoint_that_the_log_did_not_sign_fails_it():
    story = finished()
    document = story.document() | {"checkpoint": story.checkpoint(key=OTHER_KEY)}
    assert broken(verdict(document)) == {("log", "7.2")}
    assert broken(verdict(document, replace(TRUST, log_key=None))) == set()


def test_the_policy_may_hold_the_logs_key():
    policy = replace(TRUST, log_key=None, policy=Policy.parse(POLICY))
    assert verdict(finished(), policy)["log"].state == State.PROVEN
    two = f"log {OTHER_KEY.vkey}\n" + POLICY
    assert verdict(finished(), replace(policy, policy=Policy.parse(two)))["log"].state == State.PROVEN
    other = POLICY.replace(str(LOG_KEY.vkey), str(OTHER_KEY.vkey))
    assert verdict(finished(), replace(policy, policy=Policy.parse(other)))["log"].state == State.FAILED
    elsewhere = POLICY.replace(str(LOG_KEY.vkey), str(SigningKey(b"\x01" * 32, "log.example/other").vkey))
    assert verdict(finished(), replace(policy, policy=Policy.parse(elsewhere)))["log"].state == State.UNKNOWN


def test_an_entry_that_is_not_in_the_tree_fails_the_log():
    story = finished()
    document = story.document()
    document["events"][3]["proof"][0] = document["events"][2]["proof"][0]
    assert broken(verdict(document)) == {("log", "2.3")}
    assert broken(verdict(document, replace(TRUST, log_key=None))) == {("log", "2.3")}


# --- witnesses -------------------------------------------------------------------------------------------------------


def witnessed(seen, size=None, story=None, full=None):
    """A match whose close (entry 5) stands under an earlier checkpoint that witnesses saw; `full` saw the last one."""
    story = story or finished()
    evidence = [story.evidence(size or 6, seen, 5)] if seen is not None else []
    return story.document(evidence=evidence, seen=full)


def early(document, trust=WITNESSED):
    return verdict(document, trust)["unpredictable"].state


def test_a_quorum_that_saw_the_anchor_before_the_round_proves_it():
    assert early(witnessed({"w1": 7, "w2": 14})) == State.PROVEN
    assert early(witnessed({"w1": 7})) == State.TRUSTED
    assert early(witnessed({"w1": 7, "w2": 14}), TRUST) == State.TRUSTED
    assert early(witnessed({"w1": 7, "w2": 14}), replace(WITNESSED, log_key=None)) == State.PROVEN
    unsigned = replace(WITNESSED, policy=Policy.parse(POLICY.split("\n", 1)[1]), log_key=None)
    assert early(witnessed({"w1": 7, "w2": 14}), unsigned) == State.TRUSTED


def test_a_witness_at_the_rounds_very_second_came_too_late():
    assert early(witnessed({"w1": 7, "w2": 15})) == State.TRUSTED


def test_a_checkpoint_below_the_anchor_says_nothing_about_it():
    story = finished()
    assert early(story.document(evidence=[story.evidence(5, {"w1": 7, "w2": 7}, 4)])) == State.TRUSTED


def test_the_quorum_may_come_from_several_checkpoints():
    story = finished()
    evidence = [story.evidence(6, {"w1": 7}), story.evidence(6, {"w2": 8}), story.evidence(7, {"w3": 16})]
    assert early(story.document(evidence=evidence)) == State.PROVEN


def test_a_time_of_zero_is_no_time():
    zero = -at(0) / 1000
    assert early(witnessed({"w1": zero, "w2": 7})) == State.TRUSTED
    assert early(witnessed({"w1": zero, "w2": 7, "w3": 8})) == State.PROVEN


def test_a_time_before_a_round_that_the_checkpoint_covers_is_not_usable():
    story = match(after=Story().round_fields(1002), time=at(6)).reveal(135)
    assert early(story.document(evidence=[story.evidence(6, {"w1": 5, "w2": 5})])) == State.TRUSTED
    assert early(story.document(evidence=[story.evidence(6, {"w1": 6, "w2": 6})])) == State.PROVEN


def test_a_checkpoint_that_covers_the_round_itself_cannot_be_early():
    assert early(witnessed({"w1": 7, "w2": 7}, size=7)) == State.TRUSTED


def test_a_later_honest_time_does_not_spoil_an_earlier_one():
    story = finished()
    evidence = [story.evidence(6, {"w1": 7, "w2": 7}), story.evidence(8, {"w1": 20, "w2": 20})]
    assert early(story.document(evidence=evidence)) == State.PROVEN
    assert early(story.document(evidence=evidence[::-1])) == State.PROVEN


def test_every_call_of_a_live_session_must_be_early():
    story = live().reveal(20)
    both = [story.evidence(8, {"w1": 2, "w2": 2}), story.evidence(12, {"w1": 8, "w2": 8})]
    assert early(story.document(evidence=both)) == State.PROVEN
    assert early(story.document(evidence=both[:1])) == State.TRUSTED
    assert "entry 11 before round 1003" in verdict(story.document(evidence=both[:1]), WITNESSED)["unpredictable"].text


def test_a_void_is_an_anchor_of_its_own():
    story = Story().seal().contribute("white", 6.5).contribute("black", 6.5).close(6.6)
    story.void("host", 7)
    assert early(story.document(evidence=[story.evidence(7, {"w1": 8, "w2": 8})])) == State.PROVEN
    assert early(story.document(evidence=[story.evidence(6, {"w1": 8, "w2": 8})])) == State.TRUSTED


def test_sole_needs_every_leaf_under_a_witnessed_checkpoint():
    story = finished()
    full = {"w1": 200, "w2": 200}
    assert verdict(story.document(seen=full), WITNESSED)["sole"].state == State.PROVEN
    assert verdict(story.document(seen={"w1": 200}), WITNESSED)["sole"].state == State.TRUSTED
    assert verdict(story.document(seen=full))["sole"].state == State.TRUSTED
    gap = match()
    gap.add(Story().round(1001, 90).leaves[-1], shown=False)
    gap.reveal(135)
    assert verdict(gap.document(seen=full), WITNESSED)["sole"].state == State.TRUSTED
    assert verdict(gap.document(gap.all_from_seal(), seen=full), WITNESSED)["sole"].state == State.PROVEN


def test_a_checkpoint_just_below_the_end_covers_it_not():
    story = finished()
    size, both = len(story.leaves), {"w1": 200, "w2": 200}
    for covered, state in ((size - 1, State.TRUSTED), (size, State.PROVEN)):
        result = verdict(story.document(evidence=[story.evidence(covered, both)]), WITNESSED)
        assert result["sole"].state == result["witnessed"].state == state


def test_one_checkpoint_must_have_the_quorum_to_cover_an_entry():
    story = finished()
    size = len(story.leaves)
    split = story.document(evidence=[story.evidence(size, {"w1": 200})], seen={"w2": 200})
    assert verdict(split, WITNESSED)["sole"].state == State.TRUSTED
    assert verdict(split, WITNESSED)["witnessed"].state == State.TRUSTED
    one = story.document(evidence=[story.evidence(size, {"w1": 200, "w3": 200})], seen={"w2": 200})
    assert verdict(one, WITNESSED)["sole"].state == State.PROVEN
    assert verdict(one, WITNESSED)["witnessed"].state == State.PROVEN


def test_the_headline_names_what_is_trusted_and_nothing_else():
    clock, log = "its clock (", "its log ("
    sole = verdict(finished().document(seen={"w1": 200, "w2": 200}), WITNESSED).headline
    assert (clock in sole, log in sole) == (True, False)
    seen_early = verdict(witnessed({"w1": 7, "w2": 8}), WITNESSED).headline
    assert (clock in seen_early, log in seen_early) == (False, True)
    unsigned, none = verdict(finished()).headline, verdict(raffle().reveal(20)).headline
    assert ("the host club" in unsigned, "the host club" in none) == (True, False)


def test_proven_fair():
    result = verdict(
        witnessed({"w1": 7, "w2": 8}, full={"w1": 200, "w3": 200}), replace(WITNESSED, require_proven=True)
    )
    assert (result.exit, result.headline) == (0, "Proven fair.")


def test_a_policy_without_quorum_proves_nothing_about_anybody():
    none = replace(WITNESSED, policy=Policy.parse(POLICY.replace("quorum two", "quorum none")))
    result = verdict(finished(), none)
    assert [result[name].state for name in ("unpredictable", "sole", "witnessed")] == [State.TRUSTED] * 3


def test_an_unknown_witness_counts_for_nothing():
    strange = SigningKey(b"\x55" * 32, "w9.example")
    document = witnessed({"w1": 7})
    text = document["evidence"][0]["checkpoint"]
    document["evidence"][0]["checkpoint"] = text + strange.sign(text.split("\n\n")[0] + "\n")
    assert early(document) == State.TRUSTED
    assert broken(verdict(document, WITNESSED)) == set()


def test_a_witness_key_that_signs_as_a_log_is_no_witness():
    """The same name and secret, but type 0x01: another key id, so a line of nobody that the policy knows."""
    wrong = SigningKey(b"\x02" * 32, "w1.example")
    document = witnessed({"w2": 7})
    text = document["evidence"][0]["checkpoint"]
    document["evidence"][0]["checkpoint"] = text + wrong.sign(text.split("\n\n")[0] + "\n")
    assert early(document) == State.TRUSTED


def test_a_forged_cosignature_fails():
    document = witnessed({"w1": 7, "w2": 8})
    other = witnessed({"w1": 7, "w2": 8}, size=7)
    forged = other["evidence"][0]["checkpoint"].splitlines(keepends=True)[-1]
    lines = document["evidence"][0]["checkpoint"].splitlines(keepends=True)
    document["evidence"][0]["checkpoint"] = "".join([*lines[:-1], forged])
    result = verdict(document, WITNESSED)
    assert broken(result) == {("witnessed", "7.1")}
    assert result["unpredictable"].state == State.TRUSTED
    assert broken(verdict(document)) == set()


@pytest.mark.parametrize("trust", [WITNESSED, replace(TRUST, log_key=None)])
def test_evidence_that_does_not_hang_together_fails_the_log(trust):
    document = witnessed({"w1": 7, "w2": 8})
    for damage in ("consistency", "proofs"):
        damaged = copy.deepcopy(document)
        item = damaged["evidence"][0]
        proof = item[damage] if damage == "consistency" else item[damage]["5"]
        proof[0] = proof[1]
        assert {claim for claim, _ in broken(verdict(damaged, trust))} == {"log"}
        assert early(damaged, trust) == State.TRUSTED


def test_evidence_of_another_history_fails_the_log():
    document = witnessed({"w1": 7, "w2": 8})
    other = witnessed({"w1": 7, "w2": 8}, story=finished(label="another"))
    document["evidence"] = other["evidence"]
    assert {claim for claim, _ in broken(verdict(document, WITNESSED))} == {"log"}


def test_evidence_that_the_log_did_not_sign_fails_it():
    document = witnessed({"w1": 7, "w2": 8})
    lines = document["evidence"][0]["checkpoint"].splitlines(keepends=True)
    document["evidence"][0]["checkpoint"] = "".join([*lines[:4], *lines[5:]])
    result = verdict(document, WITNESSED)
    assert broken(result) == {("log", "7.2")}
    assert result["unpredictable"].state == State.TRUSTED


def test_evidence_under_a_key_in_the_logs_name_that_was_not_given_is_not_decided():
    """An older key of the log, perhaps; nothing is proven by it."""
    document = witnessed({"w1": 7, "w2": 8})
    story = finished()
    lines = document["evidence"][0]["checkpoint"].splitlines(keepends=True)
    mine = story.checkpoint(6, key=OTHER_KEY).splitlines(keepends=True)
    document["evidence"][0]["checkpoint"] = "".join([*mine, *lines[5:]])
    result = verdict(document, WITNESSED)
    assert broken(result) == set()
    assert (result["log"].state, result.exit) == (State.UNKNOWN, 2)
    assert result["unpredictable"].state == State.TRUSTED


def test_evidence_may_be_newer_than_the_documents_checkpoint():
    story = finished()
    hashes = len(story.leaves)
    document = story.document()
    story.add(Story().round(1001, 300).leaves[-1], shown=False)
    whole = story.evidence(hashes, {})
    document["evidence"] = [
        {"checkpoint": story.checkpoint(seen={"w1": 301, "w2": 301}), "consistency": whole["consistency"], "proofs": {}}
    ]
    result = verdict(document, WITNESSED)
    assert (result["log"].state, result["sole"].state, result["witnessed"].state) == (State.PROVEN,) * 3


# --- receipts --------------------------------------------------------------------------------------------------------


def test_a_receipt_of_one_entry_is_not_decidable_but_in_the_log():
    story = finished()
    for index in story.shown[1:]:
        result = verdict(story.document([index]))
        assert (result.exit, result["log"].state) == (2, State.PROVEN)
        assert {claim.state for claim in result.claims[1:]} == {State.UNKNOWN}
        assert [claim.name for claim in result.claims] == list(ClaimName)
        assert "receipt" in result.headline
    assert verdict(story.document([story.shown[0]])).exit == 2
    assert verdict(story.document([5]), replace(TRUST, log_key=None))["log"].state == State.UNKNOWN


def test_a_false_receipt_is_exit_1():
    document = finished().document([5])
    document["events"][0]["proof"].pop()
    result = verdict(document)
    assert (result.exit, result["log"].state) == (1, State.FAILED)


# --- form (7.2): unusable input --------------------------------------------------------------------------------------

UNUSABLE = {
    "no event": lambda d: d.update(events=[]),
    "another format": lambda d: d.update(format="fair-beacon/transcript/v2"),
    "an unknown field": lambda d: d.update(note=""),
    "a field is missing": lambda d: d.pop("evidence"),
    "null": lambda d: d.update(evidence=None),
    "an unknown field of an event": lambda d: d["events"][0].update(note=""),
    "an unknown field of the chain": lambda d: d["chain"].update(last_round=5),
    "an index as a string": lambda d: d["events"][0].update(index="2"),
    "a negative index": lambda d: d["events"][0].update(index=-1),
    "true for an index": lambda d: d["events"][0].update(index=True),
    "an index twice": lambda d: d["events"][1].update(index=2),
    "indices that fall": lambda d: d["events"].reverse(),
    "an entry as an object": lambda d: d["events"][0].update(entry={}),
    "an entry with a line feed": lambda d: d["events"][0].update(entry=d["events"][0]["entry"] + "\n"),
    "a proof of short hashes": lambda d: d["events"][0].update(proof=["YWJj"]),
    "a proof in lax base64": lambda d: d["events"][0]["proof"].__setitem__(0, d["events"][0]["proof"][0].rstrip("=")),
    "a proof in hex": lambda d: d["events"][0].update(proof=["00" * 32]),
    "an origin with a line feed": lambda d: d.update(origin="a\nb"),
    "a checkpoint without a signature": lambda d: d.update(checkpoint=d["checkpoint"].split("\n\n")[0] + "\n"),
    "a checkpoint with an extension line": lambda d: d.update(checkpoint=d["checkpoint"].replace("\n\n", "\nextra\n\n", 1)),
    "a checkpoint with a tab": lambda d: d.update(checkpoint=d["checkpoint"].replace("\n11", "\n\t11")),
    "no vkey": lambda d: d.update(log_key="x"),
    "a short chain hash": lambda d: d["chain"].update(hash="00"),
    "a short genesis seed": lambda d: d["chain"].update(genesis_seed="00"),
    "a short chain key": lambda d: d["chain"].update(public_key="00" * 48),
    "an empty beacon id": lambda d: d["chain"].update(beacon_id=""),
    "a period of zero": lambda d: d["chain"].update(period=0),
    "evidence of an event that is not shown": lambda d: d.update(evidence=[finished().evidence(6, {}, 1)]),
    "evidence at 07": lambda d: d.update(evidence=[_renamed(finished().evidence(6, {}, 5), "5", "05")]),
    "the session's seal is not the first of consecutive events": lambda d: d["events"].insert(0, finished().document([1])["events"][0]),
    "another session's seal among events that are not consecutive": lambda d: d.update(events=_foreign_events()),
    "a chain entry among events that are not consecutive": lambda d: d["events"].insert(0, finished().document([0])["events"][0]),
    "several events and no seal": lambda d: d["events"].pop(0),
    "a call in a match": lambda d: d.update(events=_with_leaf({"type": "call", "draw": 1, "recipe": "turn", "n": 1, "purpose": "", "round": 1005, "contributions": []})),
    "a live draw in a match": lambda d: d.update(events=_with_leaf({"type": "draw", "draw": 1, "seed": "00" * 32, "recipe": "turn", "n": 1, "purpose": "", "outcomes": [[1, 1]]})),
}  # fmt: skip


def _renamed(item, old, new):
    item["proofs"][new] = item["proofs"].pop(old)
    return item


def _with_leaf(fields):
    story = match()
    story.add({"v": 1, "time": at(100), "session": story.session} | fields)
    return story.document()["events"]


def _foreign_events():
    story = match()
    story.add(Story().seal(host="other", time=at(90)).leaves[-1])
    story.add(Story().round(1001, 90).leaves[-1], shown=False)
    return story.reveal(135).document()["events"]


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_documents_are_refused(name):
    document = finished().document()
    UNUSABLE[name](document)
    with pytest.raises(FormatError):
        verdict(document)


def test_a_live_session_takes_no_match_draws():
    story = live()
    story.add({
        "v": 1, "type": "draw", "time": at(15), "session": story.session, "recipe": "turn", "n": 2, "purpose": "", "outcomes": [[1, 1]],
    })  # fmt: skip
    with pytest.raises(FormatError):
        verdict(story)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"null", b"{", b"\xff", b"\xef\xbb\xbf{}", b'{"format":1e400}', b"[" * 100_000, b'{"a":' * 100_000],
)
def test_what_is_no_document_is_refused(text):
    with pytest.raises(FormatError):
        check(text, TRUST)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    with pytest.raises(FormatError):
        check(data, TRUST)


def test_the_verifier_takes_no_key_from_the_document():
    result = verdict(finished(), Trust())
    assert (result["log"].state, result["round"].state, result["witnessed"].state) == (State.UNKNOWN,) * 3
    assert VerifierKey.parse(str(WITNESSES["w1"].vkey)).name == "w1.example"
