"""Every single change to a good document, as it stands and signed anew by the log, leaves exit 0 or is listed here.

Nothing but FormatError ever comes out of `check`.
"""

import copy
import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builder
from tests.builder import Story, live, match, raffle
from tests.check_support import TRUST, WITNESSED, cached_verify_round, verdict
from verifier.check import check
from verifier.encoding import encode_json
from verifier.errors import FormatError

GOOD = {
    "match": lambda: match().reveal(135),
    "live": lambda: live().reveal(20),
    "raffle": lambda: raffle().reveal(20),
}


def exit_of(document, trust=TRUST):
    try:
        return int(verdict(document, trust).exit)
    except FormatError:
        return 3


def changes(value):
    """(what, another value) of one JSON value; inner values are changed by `mutations`."""
    if isinstance(value, bool):
        yield from (("not", not value), ("int", int(value)))
    elif isinstance(value, int):
        yield from (
            ("+1", value + 1),
            ("-1", value - 1),
            ("zero", 0),
            ("text", str(value)),
            ("true", True),
            ("huge", 2**53),
        )
    elif isinstance(value, str):
        first = "1" if value[:1] == "0" else "0"
        yield from (
            ("first", first + value[1:]),
            ("longer", value + "0"),
            ("empty", ""),
            ("upper", value.upper()),
            ("number", 0),
        )
    elif isinstance(value, list):
        yield ("emptied", [])
        for i, item in enumerate(value):
            yield (f"without {i}", value[:i] + value[i + 1 :])
            yield (f"{i} twice", [*value[: i + 1], copy.deepcopy(item), *value[i + 1 :]])
            if i:
                yield (f"{i - 1} and {i} swapped", [*value[: i - 1], item, value[i - 1], *value[i + 1 :]])
        yield ("null added", [*value, None])
    elif isinstance(value, dict):
        yield ("emptied", {})
        for key in value:
            yield (f"without {key}", {other: item for other, item in value.items() if other != key})
        yield ("x added", value | {"x": 0})
    if value is None:
        yield from (("zero", 0), ("text", "00" * 32), ("object", {}), ("list", []))
    else:
        yield ("null", None)


def mutations(value, path=()):
    """(path, what, mutated copy) of a JSON value, at every depth."""
    for what, other in changes(value):
        if encode_json([other]) != encode_json([value]):
            yield path, what, other
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        for where, what, other in mutations(item, (*path, key)):
            mutated = copy.copy(value)
            mutated[key] = other
            yield where, what, mutated


def named(path, what):
    return f"{'.'.join(str(part) for part in path)}: {what}"


# --- the document as it stands ---------------------------------------------------------------------------------------

# Evidence is more than exit 0 asks for: less of it, or the same again, proves less or the same, and never another thing.
IRRELEVANT_IN_DOCUMENTS = re.compile(
    r"evidence: (emptied|without \d|\d twice|\d and \d swapped)"
    r"|evidence\.\d\.proofs: (emptied|without \d+)"
)


@pytest.mark.parametrize("name", GOOD)
def test_no_change_to_a_document_leaves_it_fair(name):
    story = GOOD[name]()
    anchor = story.shown[len(story.shown) // 3]
    seen = {"w1": 7, "w2": 7}
    evidence = [story.evidence(anchor + 1, seen, anchor), story.evidence(anchor + 2, {"w3": 8}, story.shown[0])]
    document = story.document(evidence=evidence, seen={"w1": 200, "w2": 200})
    assert exit_of(document, WITNESSED) == 0
    passed = {named(path, what) for path, what, mutated in mutations(document) if exit_of(mutated, WITNESSED) == 0}
    assert {name for name in passed if not IRRELEVANT_IN_DOCUMENTS.fullmatch(name)} == set()
    assert passed != set()


@pytest.mark.parametrize("name", GOOD)
def test_spelling_means_nothing(name):
    story = GOOD[name]()
    document = story.document()
    escaped = re.sub(r"[a-z]", lambda found: f"\\u{ord(found.group()):04x}", json.dumps(document["events"][0]["entry"]))
    for text in (
        json.dumps(document, indent=3),
        json.dumps(document, ensure_ascii=True),
        json.dumps(dict(reversed(document.items()))),
        json.dumps(document).replace(json.dumps(document["events"][0]["entry"]), escaped),
        "\r\n\t " + json.dumps(document) + " \n",
    ):
        assert check(text.encode(), TRUST, cached_verify_round).exit == 0


# --- the log itself, signed anew -------------------------------------------------------------------------------------

# What an entry may say otherwise without any rule being broken:
IRRELEVANT_IN_ENTRIES = {
    # a moment later or earlier, as long as the order and the deadlines hold
    "match": re.compile(r"(contribution|close|round|draw|reveal) (time: [+-]1|purpose: .*|by: .*)"),
    "live": re.compile(r"(contribution|close|call|round|draw|reveal) time: [+-]1"),
    "raffle": re.compile(r"(round|draw|reveal) (time: [+-]1|by: .*)"),
}
ENUMERATED = {"by": ("host", "timelock"), "custody": ("host",), "profile": ("live", "match")}


def resigned(story, index, entry):
    """The story with another entry at index; whoever rewrites a seal also makes its session's entries name it."""
    other = Story()
    before = builder.merkle.leaf_hash(story.leaves[index]).hex()
    data = encode_json(entry)
    after = builder.merkle.leaf_hash(data).hex()
    other.leaves = [leaf.replace(before.encode(), after.encode()) for leaf in story.leaves]
    other.leaves[index], other.shown = data, story.shown
    return other


def entry_mutations(entry):
    yield from mutations(entry)
    for name, others in ENUMERATED.items():
        for value in others:
            if name in entry and entry[name] != value:
                yield (name,), value, entry | {name: value}


@pytest.mark.parametrize("name", GOOD)
def test_no_change_to_an_entry_leaves_the_session_fair(name):
    story = GOOD[name]()
    passed, tried = set(), 0
    for index in story.shown:
        entry = json.loads(story.leaves[index])
        for path, what, mutated in entry_mutations(entry):
            tried += 1
            if not isinstance(mutated, dict):
                continue
            if exit_of(resigned(story, index, mutated)) == 0:
                passed.add(f"{entry['type']} {named(path, what)}")
    assert {found for found in passed if not IRRELEVANT_IN_ENTRIES[name].fullmatch(found)} == set()
    assert passed != set()
    assert tried > 200


@pytest.mark.parametrize("name", GOOD)
def test_no_leaf_may_be_missing_doubled_or_moved(name):
    story = GOOD[name]()
    first = story.shown[0]
    leaves = story.leaves
    orders = [leaves[:i] + leaves[i + 1 :] for i in range(first, len(leaves))]
    orders += [[*leaves[: i + 1], leaves[i], *leaves[i + 1 :]] for i in range(first, len(leaves))]
    orders += [[*leaves[:i], leaves[i + 1], leaves[i], *leaves[i + 2 :]] for i in range(first, len(leaves) - 1)]
    passed = 0
    for order in orders:
        other = Story()
        other.chain, other.leaves, other.shown = story.chain, order, list(range(first, len(order)))
        passed += exit_of(other) == 0
    assert passed == 0


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 2**32), st.integers(1, 4))
def test_damaged_bytes_never_pass_and_never_crash(name, seed, count):
    source = random.Random(seed)
    text = bytearray(DOCUMENTS[name])
    for _ in range(count):
        position = source.randrange(len(text))
        match source.randrange(3):
            case 0:
                text[position] = source.randrange(256)
            case 1:
                del text[position : position + source.randrange(1, 30)]
            case _:
                text[position:position] = text[source.randrange(len(text)) :][: source.randrange(30)]
    try:
        changed = json.loads(bytes(text)) != json.loads(DOCUMENTS[name])
    except ValueError:
        changed = True
    try:
        code = check(bytes(text), TRUST, cached_verify_round).exit
    except FormatError:
        return
    assert code != 0 or not changed


DOCUMENTS = {name: builder.data(make().document()) for name, make in GOOD.items()}
