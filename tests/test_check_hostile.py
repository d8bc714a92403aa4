"""Documents made to cost much: rounds are verified no further than the answer needs."""

from functools import cache

import pytest

from tests import builder
from tests.builder import LOG_KEY, Story
from tests.check_support import TRUST
from verifier.check import MAX_FALSE_ROUNDS, check
from verifier.errors import Code, FormatError, VerificationError
from verifier.note import SigningKey

BEFORE = 1000


@cache
def long_session(calls):
    """The document of a live session with so many calls, each on a round of its own, all of them made up."""
    story = Story(links=calls).seal(profile="live", close_at=None, participants=[])
    for k in range(1, calls + 1):
        story.call("turn", 3.0 * k)
    for call in list(story.calls):
        story.add({
            "v": 1, "type": "round", "time": story.chain.time(call["round"]), "chain": story.chain.hash.hex(),
            "round": call["round"], "signature": "aa" * 48,
        })  # fmt: skip
    story.shown = list(story.all_from_seal())
    return story.document()


def counted(document, answer, trust=TRUST):
    """(verdict, the rounds that were verified); `answer` gets a round's number and raises for a false one."""
    asked = []

    def verify(_, stated):
        asked.append(stated.round)
        answer(stated.round)

    return check(builder.data(document), trust, verify), asked


def false(number):
    if number != BEFORE:
        raise VerificationError(Code.ROUND_SIGNATURE, "not signed by the chain")


def misshapen(number):
    if number != BEFORE:
        raise FormatError(Code.POINT, "no point")


def true(_):
    pass


@pytest.mark.parametrize("answer", [false, misshapen])
@pytest.mark.parametrize("calls", [MAX_FALSE_ROUNDS - 1, MAX_FALSE_ROUNDS, MAX_FALSE_ROUNDS + 1, 60])
def test_false_rounds_are_verified_up_to_a_number(answer, calls):
    verdict, asked = counted(long_session(calls), answer)
    claim = verdict["round"]
    assert (claim.state, verdict.exit) == ("FAILED", 1)
    assert len(asked) == 1 + min(calls, MAX_FALSE_ROUNDS)
    said = [finding for finding in claim.findings if finding.text.startswith("round ")]
    assert len(said) == min(calls, MAX_FALSE_ROUNDS)
    left = calls - MAX_FALSE_ROUNDS
    assert claim.text.endswith(f", and {left} more not checked") == (left > 0)
    assert ("not checked" in claim.text) == (left > 0)


def test_true_rounds_are_all_verified_however_many_there_are():
    verdict, asked = counted(long_session(60), true)
    assert len(asked) == 61
    assert verdict["round"].state == "PROVEN"
    assert "not checked" not in verdict["round"].text


def unsigned(document):
    """The same under the signature of another key of the log's name."""
    text, _, _ = document["checkpoint"].rpartition("\n\n")
    other = SigningKey(b"\x07" * 32, LOG_KEY.vkey.name)
    return document | {"checkpoint": f"{text}\n\n{other.sign(text + chr(10))}"}


def not_included(document):
    *others, last = document["events"]
    return document | {"events": [*others, last | {"proof": last["proof"][:-1]}]}


@pytest.mark.parametrize("harm", [unsigned, not_included])
def test_no_round_of_many_is_verified_that_no_log_vouches_for(harm):
    verdict, asked = counted(harm(long_session(60)), true)
    assert asked == []
    assert (verdict["log"].state, verdict["round"].state, verdict.exit) == ("FAILED", "UNKNOWN", 1)
    assert verdict["round"].text.startswith("61 rounds were not checked")


@pytest.mark.parametrize("harm", [unsigned, not_included])
def test_a_few_rounds_are_verified_all_the_same(harm):
    for calls, count in ((MAX_FALSE_ROUNDS - 1, MAX_FALSE_ROUNDS), (MAX_FALSE_ROUNDS, 0)):
        verdict, asked = counted(harm(long_session(calls)), true)
        assert len(asked) == count
        assert verdict["log"].state == "FAILED"
        assert verdict["round"].state == ("PROVEN" if count else "UNKNOWN")
