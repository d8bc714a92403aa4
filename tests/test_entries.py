"""Entries: read strictly, written canonically (PROTOCOL.md, section 3)."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.builder import PLAYER_KEYS, QUICKNET, public_key
from verifier import draws, entries
from verifier.encoding import MAX_ENTRY_BYTES, MAX_INTEGER, encode_json
from verifier.entries import encode_entry, parse_entry
from verifier.errors import Code, FormatError
from verifier.vectors import read, run

VECTORS = Path(__file__).parent / "vectors" / "protocol.json"
KNOWN = json.loads(VECTORS.read_text())["entries"]
HASH, OTHER = "ab" * 32, "cd" * 32
SEAL = json.loads(KNOWN["accepted"][0])
LIVE = {name: value for name, value in SEAL.items() if name != "round"} | {
    "profile": "live", "lead": 2000, "links": 65_536, "custody": "host", "sandbox": False,
}  # fmt: skip
EVERYTHING = SEAL | {
    "replaces": OTHER, "plan": {"turn": 2}, "attachments": [{"name": "rules", "sha256": HASH}],
    "participants": [{"id": "white", "key": public_key("white")}, {"id": "black"}],
    "timelock": {"chain": HASH, "round": 5, "ciphertext": "YWdl"},
    "after": SEAL["after"] | {"previous_signature": "00"},
}  # fmt: skip
GOOD = {
    "log": {"v": 1, "type": "log", "time": 0, "origin": "log.example"},
    "chain": {"v": 1, "type": "chain", "time": 1, "info": QUICKNET.as_dict()},
    "match seal": SEAL,
    "live seal": LIVE,
    "seal with everything": EVERYTHING,
    "contribution": {"v": 1, "type": "contribution", "time": 1, "session": HASH, "participant": "p", "entropy": "00"},
    "signed contribution": {"v": 1, "type": "contribution", "time": 1, "session": HASH, "participant": "p", "entropy": "00", "signature": "00" * 64},
    "close": {"v": 1, "type": "close", "time": 1, "session": HASH, "contributions": 0, "digest": OTHER},
    "round": {"v": 1, "type": "round", "time": 1, "chain": HASH, "round": 1, "signature": "00"},
    "chained round": {"v": 1, "type": "round", "time": 1, "chain": HASH, "round": 1, "signature": "00", "previous_signature": "11"},
    "call": {"v": 1, "type": "call", "time": 1, "session": HASH, "draw": 1, "recipe": "turn", "n": 1, "purpose": "", "round": 9, "contributions": [{"participant": "a", "entropy": "00"}, {"participant": "b", "entropy": "00", "signature": "00" * 64}]},
    "match draw": {"v": 1, "type": "draw", "time": 1, "session": HASH, "recipe": "turn", "n": 1, "purpose": "", "outcomes": [[1, 2], "00ff"]},
    "live draw": {"v": 1, "type": "draw", "time": 1, "session": HASH, "draw": 1, "recipe": "turn", "n": 1, "purpose": "", "seed": OTHER, "outcomes": [[1, 2]]},
    "reveal": {"v": 1, "type": "reveal", "time": 1, "session": HASH, "by": "service", "seed": OTHER, "draws": {"turn": 0}},
    "empty reveal": {"v": 1, "type": "reveal", "time": 1, "session": HASH, "by": "timelock", "seed": None, "draws": {"turn": 0}},
    "void": {"v": 1, "type": "void", "time": 1, "session": HASH, "reason": "host", "seed": None},
}  # fmt: skip


def refused(entry):
    data = entry if isinstance(entry, bytes) else json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    with pytest.raises(FormatError) as caught:
        parse_entry(data)
    return caught.value


# --- known answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", KNOWN["accepted"])
def test_accepted(text):
    entry = parse_entry(text.encode())
    assert parse_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize("text", KNOWN["refused"])
def test_refused(text):
    assert refused(text.encode("utf-8", "surrogatepass")).code in Code


def test_the_protocols_cases_pass():
    kind, cases = read(VECTORS.read_bytes())
    results = [run(case) for case in cases]
    assert kind == "protocol"
    assert len(results) > 190
    assert [result for result in results if result.status != "passed"] == []


# --- what is good ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_good_entries_read_and_write(name):
    entry = parse_entry(encode_json(GOOD[name]))
    assert parse_entry(encode_entry(entry)) == entry
    assert json.loads(encode_entry(entry)) == GOOD[name]
    assert entry.type == GOOD[name]["type"]


def test_key_order_means_nothing():
    turned = dict(reversed(SEAL.items()))
    assert parse_entry(encode_json(turned)) == parse_entry(encode_json(SEAL))
    assert encode_json(turned) != encode_json(SEAL)


def test_an_entry_has_at_most_65535_bytes():
    log = GOOD["log"]
    longest = log | {"origin": "x" * (MAX_ENTRY_BYTES - len(encode_json(log | {"origin": ""})))}
    assert len(encode_json(longest)) == MAX_ENTRY_BYTES
    assert parse_entry(encode_json(longest)).time == 0
    assert encode_entry(parse_entry(encode_json(longest))) == encode_json(longest)
    assert refused(encode_json(longest | {"origin": longest["origin"] + "x"})).code is Code.ENTRY


def test_what_is_too_long_is_not_written():
    with pytest.raises(FormatError):
        encode_entry(entries.Log(0, "x" * MAX_ENTRY_BYTES))


def test_what_is_not_valid_may_be_written_but_not_read():
    entry = parse_entry(encode_json(GOOD["contribution"]))
    for wrong in (
        entries.Contribution(entry.time, entry.session, "", entry.entropy),
        entries.Contribution(-1, entry.session, "p", entry.entropy),
    ):
        assert refused(encode_entry(wrong)).code is Code.ENTRY


@pytest.mark.parametrize("label", ["שלום", "é", "e\u0301", "😀", '"\\/', "a b", ""])
def test_strings_are_kept_byte_for_byte(label):
    assert parse_entry(encode_json(SEAL | {"label": label})).label == label


# --- every field: missing, unknown, null, of another type ------------------------------------------------------------

OPTIONAL = {
    ("signed contribution", "signature"), ("chained round", "previous_signature"), ("seal with everything", "timelock"),
}  # fmt: skip
NULLABLE = {"replaces", "close_at", "plan", "seed"}


@pytest.mark.parametrize("name", GOOD)
def test_every_field_must_be_there_and_no_other(name):
    good = GOOD[name]
    for field in good:
        without = {key: value for key, value in good.items() if key != field}
        if (name, field) in OPTIONAL:
            parse_entry(encode_json(without))
        else:
            assert refused(without).code is Code.ENTRY
        if field not in NULLABLE or name == "live draw":
            refused(good | {field: None})
        for other in (True, [[]], {"x": {}}, "\u00e9", -1, MAX_INTEGER + 1):
            if isinstance(good[field], type(other)) or field in {
                "origin",
                "label",
                "purpose",
                "log",
                "reason",
                "participant",
            }:
                continue
            refused(good | {field: other})
    assert refused(good | {"note": ""}).code is Code.ENTRY
    refused(good | {"v": 2})
    refused(good | {"v": True})


NESTED = {
    "participants": ("seal with everything", lambda e: e["participants"][0]),
    "attachment": ("seal with everything", lambda e: e["attachments"][0]),
    "after": ("seal with everything", lambda e: e["after"]),
    "timelock": ("seal with everything", lambda e: e["timelock"]),
    "recipe": ("match seal", lambda e: e["recipes"]["turn"]),
    "call contribution": ("call", lambda e: e["contributions"][1]),
    "info": ("chain", lambda e: e["info"]),
}
NESTED_OPTIONAL = {"key", "previous_signature", "signature"} - {"after"}


@pytest.mark.parametrize("name", NESTED)
def test_every_nested_field_must_be_there_and_no_other(name):
    entry, inner = NESTED[name]
    for field in inner(GOOD[entry]):
        damaged = copy.deepcopy(GOOD[entry])
        del inner(damaged)[field]
        if field in NESTED_OPTIONAL and not (name == "after" and field == "signature"):
            parse_entry(encode_json(damaged))
        else:
            refused(damaged)
        damaged = copy.deepcopy(GOOD[entry])
        inner(damaged)[field] = None
        refused(damaged)
    damaged = copy.deepcopy(GOOD[entry])
    inner(damaged)["note"] = 0
    refused(damaged)


def seal(**changes):
    return SEAL | changes


PEOPLE = [{"id": f"p{i}"} for i in range(201)]
BAD = {
    "round in a live seal": LIVE | {"round": 5},
    "no round in a match seal": {name: value for name, value in SEAL.items() if name != "round"},
    "lead in a match seal": seal(lead=2000),
    "no lead in a live seal": {name: value for name, value in LIVE.items() if name != "lead"},
    "a short lead": LIVE | {"lead": 1999},
    "a long lead": LIVE | {"lead": 600_001},
    "two links of a match": seal(links=2),
    "no links": LIVE | {"links": 0},
    "too many links": LIVE | {"links": 65_537},
    "another profile": seal(profile="raffle"),
    "another custody": seal(custody="nobody"),
    "host_seq 0": seal(host_seq=0),
    "round 0": seal(round=0),
    "after round 0": seal(after={"round": 0, "signature": "00"}),
    "a host with a space": seal(host="de mo"),
    "a host that starts with a digit": seal(host="1a"),
    "a host of 65 characters": seal(host="a" * 65),
    "a host with a newline": seal(host="demo\n"),
    "a label of 257 bytes": seal(label="é" * 128 + "a"),
    "a short commitment": seal(commitment="00" * 31),
    "a commitment in capitals": seal(commitment="AB" * 32),
    "201 participants": seal(participants=PEOPLE),
    "a participant twice": seal(participants=[{"id": "a"}, {"id": "a"}]),
    "a key twice": seal(participants=[{"id": "a", "key": public_key("white")}, {"id": "b", "key": public_key("white")}]),
    "a key of small order": seal(participants=[{"id": "a", "key": "01" + "00" * 31}]),
    "a key that is no point": seal(participants=[{"id": "a", "key": "02" + "00" * 31}]),
    "an empty id": seal(participants=[{"id": ""}]),
    "an id of 129 bytes": seal(participants=[{"id": "é" * 64 + "a"}]),
    "a minimum above the participants": seal(min_contributions=3),
    "no recipe": seal(recipes={}),
    "65 recipes": seal(recipes={f"r{i}": {"kind": "bytes", "count": 1} for i in range(65)}),
    "a recipe's name with a space": seal(recipes={"a b": {"kind": "bytes", "count": 1}}),
    "an empty plan": seal(plan={}),
    "a plan of another recipe": seal(plan={"other": 1}),
    "a plan of no draws": seal(plan={"turn": 0}),
    "a plan of 1,001 draws": seal(plan={"turn": 1001}),
    "a plan of 1,001 draws in all": seal(plan={"turn": 1000, "opening": 1}),
    "a plan past the end of a deck": seal(recipes={"turn": {"kind": "deal", "size": 5, "count": 2}}, plan={"turn": 3}),
    "a plan in a live seal": LIVE | {"plan": {"turn": 1}},
    "17 attachments": seal(attachments=[{"name": f"a{i}", "sha256": HASH} for i in range(17)]),
    "an attachment's name twice": seal(attachments=[{"name": "a", "sha256": HASH}] * 2),
    "an attachment without a name": seal(attachments=[{"name": "", "sha256": HASH}]),
    "no entropy": GOOD["contribution"] | {"entropy": ""},
    "257 bytes of entropy": GOOD["contribution"] | {"entropy": "00" * 257},
    "half a byte of entropy": GOOD["contribution"] | {"entropy": "0"},
    "a short signature": GOOD["signed contribution"] | {"signature": "00" * 63},
    "a short session": GOOD["contribution"] | {"session": "ab" * 31},
    "calls not sorted": GOOD["call"] | {"contributions": GOOD["call"]["contributions"][::-1]},
    "65 contributions to a call": GOOD["call"] | {"contributions": [{"participant": f"{i:03}", "entropy": "00"} for i in range(65)]},
    "k = 0": GOOD["call"] | {"draw": 0},
    "k = 2^32": GOOD["call"] | {"draw": 2**32},
    "n = 2^32": GOOD["call"] | {"n": 2**32},
    "n past 2^32 - 1": GOOD["match draw"] | {"n": 2**32 - 1},
    "no outcome": GOOD["match draw"] | {"outcomes": []},
    "1,001 outcomes": GOOD["match draw"] | {"outcomes": [[1]] * 1001},
    "two outcomes of a live draw": GOOD["live draw"] | {"outcomes": [[1], [1]]},
    "a seed without k": {name: value for name, value in GOOD["live draw"].items() if name != "draw"},
    "k without a seed": {name: value for name, value in GOOD["live draw"].items() if name != "seed"},
    "null for an outcome": GOOD["match draw"] | {"outcomes": [None]},
    "null in an outcome": GOOD["match draw"] | {"outcomes": [[1, [None]]]},
    "an object for an outcome": GOOD["match draw"] | {"outcomes": [{"a": 1}]},
    "revealed by somebody else": GOOD["reveal"] | {"by": "player"},
    "no counts": GOOD["reveal"] | {"draws": {}},
    "a negative count": GOOD["reveal"] | {"draws": {"turn": -1}},
    "a chain without a name": {**GOOD["chain"], "info": QUICKNET.as_dict() | {"beacon_id": ""}},
    "a chain's short key": {**GOOD["chain"], "info": QUICKNET.as_dict() | {"public_key": "00" * 48}},
    "a chain's short seed": {**GOOD["chain"], "info": QUICKNET.as_dict() | {"genesis_seed": "00"}},
    "a chain's period of 2^32": {**GOOD["chain"], "info": QUICKNET.as_dict() | {"period": 2**32}},
    "a chain without a period": {**GOOD["chain"], "info": QUICKNET.as_dict() | {"period": 0}},
    "an unknown type": GOOD["log"] | {"type": "note"},
    "a list": [],
    "a negative time": GOOD["log"] | {"time": -1},
    "an unpaired surrogate": b'{"v":1,"type":"log","time":0,"origin":"\xed\xa0\x80"}',
    "an escaped surrogate": b'{"v":1,"type":"log","time":0,"origin":"\\ud800"}',
    "a key that is forbidden": {"v": 1, "type": "log", "time": 0, "\u202e": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_entries_are_refused(name):
    refused(BAD[name])


def test_limits_that_are_just_met():
    ties = {"kind": "dice", "count": 10, "sides": 10, "reroll_ties": True}
    for good in (
        seal(participants=PEOPLE[:200]), seal(label="é" * 128), seal(host="a" * 64), seal(host_seq=MAX_INTEGER),
        seal(participants=[{"id": "é" * 64}]), seal(min_contributions=2), seal(open=True, min_contributions=MAX_INTEGER),
        seal(plan={"turn": 999, "opening": 1}), seal(recipes={"turn": {"kind": "deal", "size": 5, "count": 2}}, plan={"turn": 2}),
        LIVE | {"lead": 600_000}, seal(attachments=[{"name": f"a{i}", "sha256": HASH} for i in range(16)]),
        seal(recipes={f"r{i}": {"kind": "bytes", "count": 1} for i in range(64)}), seal(recipes={"r": ties}),
        GOOD["contribution"] | {"entropy": "00" * 256}, GOOD["match draw"] | {"outcomes": [[1]] * 1000},
        GOOD["match draw"] | {"n": 2**32 - 2}, GOOD["call"] | {"draw": 2**32 - 1, "n": 2**32 - 1},
        GOOD["match draw"] | {"outcomes": [True, [[1]], -5]}, GOOD["void"] | {"reason": ""}, seal(recipes={"turn": {"kind": "deal", "size": 4, "count": 2}}, plan={"turn": 2}),
        GOOD["chain"] | {"info": QUICKNET.as_dict() | {"period": 2**32 - 1}},
        GOOD["chain"] | {"info": QUICKNET.as_dict() | {"scheme": "of tomorrow", "public_key": "00"}},
    ):  # fmt: skip
        assert parse_entry(encode_json(good)).time >= 0


# --- one property for all of them ------------------------------------------------------------------------------------

TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\u2028\u2029\ufeff", exclude_categories=("Cc", "Cf", "Cs")),
    max_size=20,
)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,63}", fullmatch=True)
IDS = TEXT.filter(bool)
HASHES = st.binary(min_size=32, max_size=32)
TIMES = st.integers(0, MAX_INTEGER)
NUMBERS = st.integers(1, draws.MAX_N)
ROUNDS = st.integers(1, MAX_INTEGER)
SIGNATURES = st.binary(min_size=64, max_size=64)
ENTROPY = st.binary(min_size=1, max_size=256)
KEYS = st.sampled_from([key.public_key().public_bytes_raw() for key in PLAYER_KEYS.values()])


@st.composite
def recipes(draw):
    count = draw(st.integers(1, 1000))
    size = draw(st.integers(1, 10_000))
    low = draw(st.integers(-MAX_INTEGER, MAX_INTEGER))
    return draw(
        st.sampled_from(
            [
                draws.Dice(count, draw(st.integers(2, 2**32))),
                draws.Dice(count, 6, mapping="keccak"),
                draws.Dice(draw(st.integers(1, 8)), 6, reroll_ties=False),
                draws.Dice(draw(st.integers(1, 6)), draw(st.integers(6, 99)), reroll_ties=True),
                draws.Integers(low, draw(st.integers(low, MAX_INTEGER)), count),
                draws.Shuffle(size),
                draws.Sample(size, draw(st.integers(1, min(size, 5000)))),
                draws.Deal(size, draw(st.integers(1, size))),
                draws.Weighted((*draw(st.lists(st.integers(0, 10**9), max_size=5)), 1), count),
                draws.Bytes(draw(st.integers(1, 1024))),
            ]
        )
    )


@st.composite
def seals(draw):
    live = draw(st.booleans())
    ids = draw(st.lists(IDS, unique=True, max_size=4))
    keys = draw(st.lists(st.one_of(st.none(), KEYS), min_size=len(ids), max_size=len(ids)))
    assume(len({key for key in keys if key}) == len([key for key in keys if key]))
    named = draw(st.dictionaries(NAMES, recipes(), min_size=1, max_size=4))
    planned = [name for name, recipe in named.items() if not isinstance(recipe, draws.Deal)]
    plan = None
    if not live and planned and draw(st.booleans()):
        plan = {name: draw(st.integers(1, 250)) for name in planned}
    return entries.Seal(
        time=draw(TIMES), log=draw(TEXT), host=draw(NAMES), host_seq=draw(ROUNDS), label=draw(TEXT),
        replaces=draw(st.none() | HASHES), profile="live" if live else "match",
        custody=draw(st.sampled_from(["beacon", "host"])), commitment=draw(HASHES),
        links=draw(st.integers(1, 65_536)) if live else 1, chain=draw(HASHES), round=None if live else draw(ROUNDS),
        lead=draw(st.integers(2000, 600_000)) if live else None, close_at=draw(st.none() | TIMES), reveal_by=draw(TIMES),
        participants=tuple(entries.Participant(i, key) for i, key in zip(ids, keys, strict=True)),
        open=draw(st.booleans()), min_contributions=draw(st.integers(0, len(ids))), recipes=named, plan=plan,
        attachments=tuple(entries.Attachment(name, draw(HASHES)) for name in draw(st.lists(IDS, unique=True, max_size=3))),
        after=entries.After(draw(ROUNDS), draw(st.binary(max_size=99)), draw(st.none() | st.binary(max_size=99))),
        timelock=draw(st.none() | st.builds(entries.Timelock, HASHES, ROUNDS, TEXT)), sandbox=draw(st.booleans()),
    )  # fmt: skip


OUTCOMES = st.lists(st.integers(-MAX_INTEGER, MAX_INTEGER), max_size=6) | st.binary(max_size=9).map(bytes.hex)
CALLED = st.lists(st.builds(entries.CallContribution, IDS, ENTROPY, st.none() | SIGNATURES), max_size=4).map(
    lambda items: tuple(sorted(items, key=lambda item: item.participant.encode()))
)
ENTRIES = st.one_of(
    st.builds(entries.Log, TIMES, TEXT),
    st.builds(entries.Chain, TIMES, st.just(QUICKNET.as_dict())),
    seals(),
    st.builds(entries.Contribution, TIMES, HASHES, IDS, ENTROPY, st.none() | SIGNATURES),
    st.builds(entries.Close, TIMES, HASHES, st.integers(0, MAX_INTEGER), HASHES),
    st.builds(entries.Round, TIMES, HASHES, ROUNDS, st.binary(max_size=99), st.none() | st.binary(max_size=99)),
    st.builds(entries.Call, TIMES, HASHES, NUMBERS, NAMES, NUMBERS, TEXT, ROUNDS, CALLED),
    st.builds(entries.Draw, TIMES, HASHES, NAMES, st.integers(1, 2**31), TEXT, st.lists(OUTCOMES, min_size=1, max_size=9).map(tuple)),
    st.builds(entries.Draw, TIMES, HASHES, NAMES, NUMBERS, TEXT, OUTCOMES.map(lambda outcome: (outcome,)), NUMBERS, HASHES),
    st.builds(entries.Reveal, TIMES, HASHES, st.sampled_from(["service", "host", "timelock"]), st.none() | HASHES, st.dictionaries(NAMES, TIMES, min_size=1, max_size=4)),
    st.builds(entries.Void, TIMES, HASHES, TEXT, st.none() | HASHES),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(ENTRIES)
def test_what_is_written_reads_as_it_was(entry):
    data = encode_entry(entry)
    assert parse_entry(data) == entry
    assert encode_entry(parse_entry(data)) == data


@settings(max_examples=400, deadline=None)
@given(ENTRIES, st.data())
def test_damaged_bytes_are_refused_or_canonical(entry, data):
    text = bytearray(encode_entry(entry))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(text) - 1))
        what = data.draw(st.sampled_from(["set", "insert", "delete", "copy"]))
        if what == "set":
            text[position] = data.draw(st.integers(0, 255))
        elif what == "insert":
            text[position:position] = data.draw(
                st.sampled_from([b" ", b"\n", b"0", b'"', b"\\u0041", b"-0", b",", b"e0", b"null", b"\xef\xbb\xbf"])
            )
        elif what == "delete":
            del text[position]
        else:
            text[position:position] = text[: data.draw(st.integers(0, 40))]
    try:
        read_again = parse_entry(bytes(text))
    except FormatError:
        return
    assert json.loads(text) == json.loads(encode_entry(read_again))
    assert encode_json(json.loads(text)) == bytes(text)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data):
    refused(data)
