"""What it takes to redo a draw by hand: seed, S, B, the stream, every byte of it, and what the transcript says."""

import hashlib
import hmac
import json
from itertools import pairwise

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests import builder
from tests.builder import HAND, LOG_KEY, Story, live, match, raffle
from verifier import redo
from verifier.cli import main
from verifier.draws import parse_recipe, redraw
from verifier.encoding import lp, u32, u64
from verifier.errors import VerificationError
from verifier.keccak import keccak256

VKEY = str(LOG_KEY.vkey)
LAST_LINE = "This says nothing about the log, the round's signature or the commitment: `verifier check` does."
CASES = json.loads((builder.VECTORS / "protocol.json").read_text())["cases"]


def draw(story, recipe, n, *options, exit_code=0):
    """(result, JSON) of `verifier draw --transcript`; the exit code is in both."""
    data = builder.data(story.document() if isinstance(story, Story) else story)
    arguments = ["draw", "--transcript", "-", "--recipe", recipe, "--n", str(n)]
    result = CliRunner().invoke(main, [*arguments, *options], input=data)
    answer = json.loads(CliRunner().invoke(main, [*arguments, "--json"], input=data).stdout)
    assert result.exit_code == answer["exit"] == exit_code, result.output
    return result, answer


def checked(story):
    """The `session` of `verifier check --json`."""
    data = builder.data(story.document() if isinstance(story, Story) else story)
    result = CliRunner().invoke(main, ["check", "-", "--log-key", VKEY, "--json"], input=data)
    return json.loads(result.stdout)["session"]


def drawn(story):
    """(recipe, n, outcome) of every draw in a story's log."""
    for leaf in story.leaves:
        entry = json.loads(leaf)
        if entry["type"] == "draw":
            yield from ((entry["recipe"], n, outcome) for n, outcome in enumerate(entry["outcomes"], entry["n"]))


# --- the formulas of section 4, written out ----------------------------------------------------------------------------


def pairs(*items):
    ordered = sorted((participant.encode(), entropy) for participant, entropy in items)
    return u32(len(ordered)) + b"".join(lp(participant) + lp(entropy) for participant, entropy in ordered)


def sha256(data):
    return hashlib.sha256(data).digest()


def by_hand(story, k, called, number):
    """(S, B) as hex."""
    leaf = bytes.fromhex(story.session)
    digest = sha256(lp(b"fair-beacon/v1/session") + leaf + pairs(("white", b"white"), ("black", b"black")))
    randomness = sha256(bytes.fromhex(builder.ROUNDS[story.chain.hash.hex(), number]["signature"]))
    rest = u32(k) + pairs(*called) + u64(number) + randomness
    return digest.hex(), sha256(lp(b"fair-beacon/v1/binding") + digest + rest).hex()


def block(seed, bound, recipe, n, j):
    message = bytes.fromhex(bound) + lp(recipe.encode()) + u32(n) + u32(j)
    return hmac.new(bytes.fromhex(seed), message, hashlib.sha256).hexdigest()


def test_a_match_in_numbers():
    story = match().reveal(135)
    digest, bound = by_hand(story, 0, [], 1005)
    facts = checked(story)
    assert (facts["seed"], facts["session_digest"], facts["binding"]) == (story.links[1].hex(), digest, bound)
    _, answer = draw(story, "turn", 2)
    assert (answer["seed"], answer["session_digest"], answer["binding"]) == (story.links[1].hex(), digest, bound)
    assert answer["draw"] is None
    assert answer["word"] == answer["blocks"][0] == block(story.links[1].hex(), bound, "turn", 2, 0)


def test_a_live_session_in_numbers():
    story = live().reveal(20)
    facts = checked(story)
    called = [[("white", b"w"), ("black", b"b")], [], []]
    for k, (row, number) in enumerate(zip(facts["outcomes"], (1002, 1002, 1003), strict=True), 1):
        digest, bound = by_hand(story, k, called[k - 1], number)
        assert (row["draw"], row["seed"], row["binding"]) == (k, story.links[k].hex(), bound)
        _, answer = draw(story, row["recipe"], row["n"])
        assert (answer["draw"], answer["seed"], answer["binding"]) == (k, row["seed"], bound)
        assert answer["session_digest"] == facts["session_digest"] == digest
        assert answer["word"] == block(row["seed"], bound, row["recipe"], row["n"], 0)
    assert (facts["seed"], facts["binding"]) == (story.links[3].hex(), None)


def test_what_is_not_known_yet_is_null():
    before = checked(Story().seal().contribute("white", 6.5))
    assert (before["session_digest"], before["seed"], before["binding"]) == (None, None, None)
    story = match()
    after = checked(story)
    assert (after["session_digest"], after["binding"]) == by_hand(story, 0, [], 1005)
    assert after["seed"] is None


# --- a draw of a transcript ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("story", [match().reveal(135), raffle().reveal(20), live().reveal(20), live()])
def test_every_draw_of_a_transcript_can_be_made_again(story):
    draws = list(drawn(story))
    assert len(draws) >= 2
    for recipe, n, outcome in draws:
        result, answer = draw(story, recipe, n)
        assert (answer["outcome"], answer["transcript"], answer["same"]) == (outcome, outcome, True)
        lines = result.stdout.splitlines()
        assert lines[0] == f"{recipe} {n}: {json.dumps(outcome, separators=(',', ':'))}"
        assert lines[1] == "The transcript says the same."
        assert [line.split()[0] for line in lines[2:7]] == ["seed", "S", "B", "word", "block_0"]
        assert lines[-1] == LAST_LINE


def test_a_deck_that_is_dealt_on_in_a_match_and_live():
    story = Story().seal(recipes={"hand": HAND}, close_at=None, participants=[]).round(1005, 15.9)
    for _ in range(10):
        story.draw("hand", 16)
    story.reveal(20)
    dealt = [draw(story, "hand", n)[1]["outcome"] for n in range(1, 11)]
    assert len({card for hand in dealt for card in hand}) == 50
    past = CliRunner().invoke(
        main, ["draw", "--transcript", "-", "--recipe", "hand", "--n", "11"], input=builder.data(story.document())
    )
    assert (past.exit_code, past.stderr) == (3, "--n: the deck of 52 has 2 cards left\n")
    claimed = Story().seal(recipes={"hand": HAND}, close_at=None, participants=[]).round(1005, 15.9)
    claimed.skip_to("hand", 11, 16, [[1, 2, 3, 4, 5]]).reveal(20)
    result, answer = draw(claimed, "hand", 11, exit_code=1)
    assert "there is no such draw: the deck of 52 has 2 cards left" in result.stdout.splitlines()[0]
    assert (answer["same"], answer["transcript"]) == (False, [1, 2, 3, 4, 5])


@pytest.mark.parametrize("claimed", [[7, 7], [1], "00"])
def test_another_outcome_is_seen(claimed):
    story = Story().seal(close_at=None, participants=[]).round(1005, 15.9).draw("turn", 16, outcomes=[claimed])
    result, answer = draw(story.reveal(20), "turn", 1, exit_code=1)
    assert (answer["same"], answer["transcript"]) == (False, claimed)
    assert result.stdout.splitlines()[1] == f"The transcript says {json.dumps(claimed, separators=(',', ':'))}."


def test_a_changed_seed_gives_another_outcome():
    story = raffle().reveal(20, seed="11" * 32)
    assert draw(story, "turn", 1, exit_code=1)[1]["seed"] == "11" * 32


def test_what_is_not_revealed_is_not_decided():
    result, answer = draw(match(), "turn", 1, exit_code=2)
    assert result.stdout.splitlines()[0] == "turn 1: the seed of turn 1 has not been revealed"
    assert result.stdout.splitlines()[1].startswith("The transcript says [")
    assert "seed     not shown yet  (s_1)" in result.stdout
    assert (answer["same"], answer["seed"], answer.get("outcome")) == (None, None, None)
    assert answer["binding"] == by_hand(match(), 0, [], 1005)[1]
    story = raffle().reveal(20)
    without = story.document([index for index in story.shown if b'"type":"round"' not in story.leaves[index]])
    result, answer = draw(without, "turn", 1, exit_code=2)
    assert result.stdout.splitlines()[0] == "turn 1: the round of turn 1 is not in the transcript"
    assert (answer["binding"], answer["seed"]) == (None, story.links[1].hex())
    result, answer = draw(Story().seal(), "turn", 1, exit_code=2)
    assert "S        not known before the close" in result.stdout
    assert answer["session_digest"] is None


def test_what_was_never_drawn_has_nothing_to_be_compared_with():
    result, answer = draw(raffle().reveal(20), "turn", 3, exit_code=2)
    assert len(answer["outcome"]) == 2
    assert result.stdout.splitlines()[1] == "Nothing to compare: the transcript has no draw turn 3."
    result, answer = draw(live().reveal(20), "turn", 2, exit_code=2)
    assert result.stdout.splitlines()[0] == "turn 2: the transcript has no call of turn 2"
    assert "outcome" not in answer


def test_what_a_round_that_came_too_late_would_have_given():
    story = Story().seal(close_at=None, participants=[], plan={"turn": 2})
    story.void("no-round", 615, seed=story.links[1].hex()).round(1005, 616)
    expected = checked(story)["would_have_been"]
    assert [draw(story, "turn", n, exit_code=2)[1]["outcome"] for n in (1, 2)] == [row["outcome"] for row in expected]
    told = live()
    open_call = Story(links=8).seal(profile="live").contribute("white", 1.6).contribute("black", 1.61).close(1.65)
    open_call.call("turn", 1.8, {"white": b"w", "black": b"b"}).call("hand", 1.8).round(1002, 6.8)
    open_call.answer(1, 6.81).answer(2, 6.81)
    open_call.call("hand", 6.9).void("no-round", 615, seed=told.links[3].hex()).round(1003, 616)
    answer = draw(open_call, "hand", 2, exit_code=2)[1]
    assert (answer["outcome"], answer["draw"]) == (json.loads(told.leaves[-1])["outcomes"][0], 3)
    open_call.leaves[-2] = json.dumps(json.loads(open_call.leaves[-2]) | {"seed": None}, separators=(",", ":")).encode()
    assert "the seed of hand 2" in draw(open_call, "hand", 2, exit_code=2)[0].stdout


def test_an_earlier_hand_that_is_not_shown_hides_the_later_ones():
    story = live().reveal(20)
    without = story.document([index for index in story.shown if b'"round":1002,"signature"' not in story.leaves[index]])
    assert "the round of hand 1 is not in the transcript" in draw(without, "hand", 2, exit_code=2)[0].stdout


@pytest.mark.parametrize(
    ("document", "recipe", "n", "reason"),
    [
        (raffle().reveal(20).document(), "coin", "1", "--recipe: the seal has no recipe 'coin'; it has turn, opening, hand"),
        (raffle().reveal(20).document(), "turn", "0", "--n: draws are numbered from 1"),
        (raffle().reveal(20).document(), "turn", "x", "--n: not a canonical decimal number"),
        (raffle().reveal(20).document([3]), "turn", "1", "a receipt shows one entry"),
        ({}, "turn", "1", "unusable input: document: "),
    ],
)  # fmt: skip
def test_what_cannot_be_used(document, recipe, n, reason):
    arguments = ["draw", "--transcript", "-", "--recipe", recipe, "--n", n]
    result = CliRunner().invoke(main, arguments, input=builder.data(document))
    assert (result.exit_code, result.stdout) == (3, "")
    assert reason in result.stderr


# --- byte by byte ----------------------------------------------------------------------------------------------------


def test_the_published_example_by_hand():
    seed, bound = CASES[0]["seed"], CASES[0]["binding"]
    recipe = '{"kind":"dice","count":2,"sides":6}'
    result = CliRunner().invoke(
        main, ["draw", "--seed", seed, "--binding", bound, "--recipe", "turn", "--n", "1", recipe]
    )
    assert result.stdout.splitlines() == [
        "turn 1: [4,4]",
        "word     1b1be57fbdbb3caf7d8b34f4a8b4d74f9b4d2556e8492a98f486ac077a9fbf42",
        "block_0  1b1be57fbdbb3caf7d8b34f4a8b4d74f9b4d2556e8492a98f486ac077a9fbf42",
        "byte 0   1b = 27: kept, 27 mod 6 + 1 = 4",
        "byte 1   1b = 27: kept, 27 mod 6 + 1 = 4",
    ]


def traced(seed, bound, name, recipe, n=1):
    return redo.redo(lambda _: (seed, bound), name, recipe, n)


def used(redone):
    """The bytes that the steps name, which lie one after the other from the first byte on."""
    data = b"".join(step.data for step in redone.steps)
    ends = [step.at + len(step.data) for step in redone.steps]
    assert [step.at for step in redone.steps] == [0, *ends][: len(redone.steps)]
    return data


def test_every_known_outcome_follows_from_its_steps():
    kinds = set()
    for case in CASES:
        recipes = json.loads(case["seal_entry"])["recipes"]
        for item in case["outcomes"]:
            recipe = parse_recipe(recipes[item["recipe"]])
            seed, bound = bytes.fromhex(case["seed"]), bytes.fromhex(case["binding"])
            redone = traced(seed, bound, item["recipe"], recipe, item["n"])
            assert redone.word.hex() == item["word"]
            assert redone.outcome == redraw(seed, bound, item["recipe"], recipe, item["n"])[0]
            assert "outcome" not in item or redone.outcome == item["outcome"]
            follow(recipe, redone)
            kinds.add((type(recipe).__name__, getattr(recipe, "mapping", None)))
    assert len(kinds) == 8


def follow(recipe, redone):
    """The steps use the stream from its start, reject what is not below the limit, and dice are the results kept."""
    keccak = getattr(recipe, "mapping", None) is not None
    words = [redone.word, *redone.words] if keccak else redone.blocks
    assert b"".join(words).startswith(used(redone))
    for step in redone.steps:
        assert step.limit % step.n == 0
        assert step.limit + step.n > 256 ** len(step.data) >= step.limit
        assert (step.result is None) == (step.value >= step.limit)
    if redone.dice:
        assert [step.result for step in redone.steps if step.kept] == redone.outcome
        assert all(step.result == step.value % step.n + 1 for step in redone.steps if step.kept)
    if type(recipe).__name__ == "Integers":
        assert [recipe.min + step.result for step in redone.steps if step.kept] == redone.outcome
    if keccak:
        assert all(later == keccak256(word) for word, later in pairwise(words))


NUMBERS = st.binary(min_size=32, max_size=32)


@given(NUMBERS, NUMBERS, st.integers(1, 40), st.integers(2, 300))
def test_dice_follow_from_their_bytes(seed, bound, count, sides):
    recipe = parse_recipe({"kind": "dice", "count": count, "sides": sides})
    follow(recipe, traced(seed, bound, "dice", recipe))


@given(NUMBERS, NUMBERS, st.integers(1, 100))
def test_the_on_chain_mapping_follows_from_its_bytes(seed, bound, count):
    recipe = parse_recipe({"kind": "dice", "count": count, "sides": 6, "mapping": "keccak"})
    follow(recipe, traced(seed, bound, "dice", recipe))


@given(NUMBERS, NUMBERS)
def test_rolls_with_ties_are_marked_as_rolled_again(seed, bound):
    recipe = parse_recipe({"kind": "dice", "count": 3, "sides": 6, "reroll_ties": True})
    redone = traced(seed, bound, "opening", recipe)
    follow(recipe, redone)
    taken = [step for step in redone.steps if step.result is not None]
    rolls = [taken[first : first + 3] for first in range(0, len(taken), 3)]
    assert all(len(roll) == 3 and len({step.tied for step in roll}) == 1 for roll in rolls)
    assert [len({step.result for step in roll}) < 3 for roll in rolls] == [roll[0].tied for roll in rolls]
    assert [roll[0].tied for roll in rolls] == [True] * (len(rolls) - 1) + [False]


@pytest.mark.parametrize(
    ("definition", "word"),
    [
        ('{"kind":"dice","count":2,"sides":6,"reroll_ties":true}', "; then rolled again, since two dice were equal"),
        ('{"kind":"dice","count":200,"sides":200}', ": rejected, not below 200"),
        ('{"kind":"dice","count":40,"sides":6,"mapping":"keccak"}', "(Keccak-256 of the one before)"),
        ('{"kind":"dice","count":40,"sides":300}', "bytes 2-3 "),
        ('{"kind":"shuffle","size":60}', "and 20 more numbers (--json has all)"),
        ('{"kind":"integers","min":-5,"max":5,"count":1}', " mod 11 = "),
    ],
)
def test_the_words_for_each_kind_of_step(definition, word):
    shown = ""
    for number in range(1, 13):
        arguments = [
            "draw",
            "--seed",
            "11" * 32,
            "--binding",
            "22" * 32,
            "--recipe",
            "a",
            "--n",
            str(number),
            definition,
        ]
        shown += CliRunner().invoke(main, arguments).stdout
    assert word in shown


def test_a_deal_past_its_deck_raises():
    with pytest.raises(VerificationError):
        traced(bytes(32), bytes(32), "hand", parse_recipe(HAND), 11)
