"""The soak, shortened: its own command, with few hosts. Whatever it finds is a failure, and so is what it leaves out.

The whole one is `python -m tests.soak`. Nothing here depends on how fast the machine is: it has to be busy enough only for
each thing to happen once.
"""

import asyncio
import itertools
import json
import signal
import sys
from types import SimpleNamespace

import pytest

from tests.process_support import ROOT
from tests.soak.judge import Judge
from tests.soak.ledger import Ledger, essence
from tests.soak.trouble import restarts, timetable
from verifier.encoding import encode_base64
from verifier.merkle import leaf_hash, tree_root

SEED = 20_261_130
MINUTES = 0.35
HOSTS = 10


async def test_a_short_soak_agrees_with_itself(tmp_path):
    command = ("--minutes", MINUTES, "--hosts", HOSTS, "--seed", SEED, "--keep", tmp_path / "soak", "--json")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak", *map(str, command), cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, progress = await process.communicate()
    assert output, progress.decode()[-3_000:]
    results = json.loads(output)
    assert (results["failures"], process.returncode) == ([], 0), progress.decode()[-3_000:]
    counts = results["counts"]
    for name in (
        "service ended by SIGKILL",
        "audit in the middle",
        "leaps in time",
        "writes acknowledged",
        "bad requests",
    ):
        assert counts[name] >= 1, name
    for kind in ("relay", "door", "receiver", "network", "witness"):
        assert any(name.startswith(f"{kind} ") for name in counts), kind
    assert results["sessions"] == sum(results["ends"].values()) == results["audit"]["ended"] >= 1
    assert results["log check"]["ok"] is True
    assert results["entries"] == results["log check"]["size"] == results["audit"]["size"]
    assert results["receipts compared"] >= 1
    assert results["starts of the service"] >= 3


def note(root, size):
    return f"localhost/soak\n{size}\n{encode_base64(root)}\n\n"


def receipt(index, entry, size=9):
    event = {"index": index, "entry": entry, "proof": []}
    return {"format": "f", "events": [event], "checkpoint": note(bytes(32), size), "evidence": []}


SEAL = '{"type":"seal","host":"a","custody":"beacon"}'
REVEAL = '{"type":"reveal","session":"s","by":"service"}'
LOG = ['{"type":"log"}', SEAL, '{"type":"draw","session":"s"}', REVEAL]


class Session(list):
    """A session's entries as the judge reads them: (index, entry)."""

    def __init__(self, *indices):
        super().__init__((index, json.loads(LOG[index])) for index in indices)


def judged(look, *, sessions=None, fair=1, given_up=(), **seen):
    """What the judge's `look` makes of a log of four entries, and of what was seen of it."""
    ledger = Ledger(0)
    for name, value in seen.items():
        setattr(ledger, name, value)
    judge = Judge.__new__(Judge)
    judge.ledger, judge.results, judge._given_up = ledger, {"audit": {"fair": fair}}, set(given_up)
    entries = [entry.encode() for entry in LOG]
    getattr(judge, look)(SimpleNamespace(entries=entries, sessions=sessions or {"s": Session(1, 2, 3)}))
    return ledger.failures


LEAVES = [leaf_hash(entry.encode()) for entry in LOG]


def test_a_judge_finds_nothing_where_all_agrees():
    heads = {size: tree_root(LEAVES[:size]) for size in range(1, 5)}
    assert judged("_entries", entries=dict(enumerate(LEAVES)), heads=heads, seals={"s": {}}) == []
    assert judged("_ends") == []
    assert judged("_streams", watched=[("s", [(index, LOG[index]) for index in (1, 2, 3)])]) == []
    assert judged("_webhooks", delivered={"a": {3: ("msg", LOG[3])}}) == []


@pytest.mark.parametrize(
    ("look", "given", "words"),
    [
        ("_entries", {"entries": {2: LEAVES[1]}}, "is not the one that was acknowledged"),
        ("_entries", {"entries": {4: LEAVES[1]}}, "not in the log"),
        ("_entries", {"heads": {3: LEAVES[0]}}, "of another log"),
        ("_entries", {"heads": {5: LEAVES[0]}}, "not in the log"),
        ("_entries", {"seals": {"t": {}}}, "not in the log"),
        ("_ends", {"sessions": {"s": Session(1, 2)}, "fair": 0}, "ended in: None"),
        ("_ends", {"fair": 0}, "fair by the auditor"),
        ("_ends", {"given_up": ["s"]}, "given up"),
        ("_streams", {"watched": [("s", [(1, LOG[1]), (3, LOG[3])])]}, "the event stream"),
        ("_streams", {"watched": [("s", [(1, LOG[1]), (2, LOG[3]), (3, LOG[3])])]}, "the event stream"),
        ("_webhooks", {"delivered": {"a": {3: ("msg", LOG[2])}}}, "brought what the log has not"),
    ],
)
def test_a_judge_notices(look, given, words):
    found = judged(look, **given)
    assert found
    assert words in found[0]


def test_a_ledger_notices_two_entries_of_one_index_and_two_roots_of_one_size():
    ledger = Ledger(0)
    ledger.answer({"receipt": receipt(1, SEAL)})
    ledger.answer({"receipts": [receipt(1, SEAL)]})
    assert (ledger.failures, ledger.kinds) == ([], {"seal": 1})
    ledger.answer({"draws": [{"receipts": [receipt(1, REVEAL)]}]})
    ledger.head(note(b"\1" * 32, 9))
    assert ["two receipts" in ledger.failures[0], "different roots" in ledger.failures[1]] == [True, True]


def test_the_same_answer_is_the_same_whatever_proves_it():
    first = {"session": "s", "outcomes": [[1]], "receipts": [receipt(2, LOG[2])]}
    assert essence(first) == essence(first | {"receipts": [receipt(2, LOG[2], size=12)]})
    assert essence(first) != essence(first | {"outcomes": [[2]]})
    assert essence(first) != essence(first | {"receipts": [receipt(3, LOG[2])]})
    called = {"session": "s", "state": "called", "call": {"draw": 1}, "receipts": [receipt(2, LOG[2])]}
    later = called | {"state": "drawing", "outcomes": [[1]], "receipts": [receipt(2, LOG[2]), receipt(3, LOG[3])]}
    assert essence(called) == essence(later)
    assert essence(called) != essence(later | {"call": {"draw": 2}})


@pytest.mark.parametrize("seconds", [18, 36, 600])
def test_a_seed_makes_one_timetable_in_which_everything_fails(seconds):
    events = timetable(SEED, seconds)
    assert events == timetable(SEED, seconds) != timetable(SEED + 1, seconds)
    assert {event.kind for event in events} == {"relay", "door", "receiver", "network", "witness"}
    assert all(0 < event.at < seconds for event in events)


def test_a_seed_makes_one_row_of_restarts_that_begins_with_a_kill():
    first = list(itertools.islice(restarts(SEED, 20), 50))
    assert first == list(itertools.islice(restarts(SEED, 20), 50))
    assert first[0][1] == signal.SIGKILL
    assert {number for _, number in first} == {signal.SIGKILL, signal.SIGTERM}
    assert all(0 < seconds <= 30 for seconds, _ in first)
