"""Asking witnesses what they have seen: real ones, and ones that lie, are slow, or hold another history."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.audit_support import TRUST, Log, graves, honest, served, source_of
from tests.builder import LOG_KEY, ORIGIN, POLICY, WITNESSES, at
from tests.log_support import Clock
from tests.witness_support import policy_of, several
from verifier.audit import gossip
from verifier.audit.forks import Fork
from verifier.audit.gossip import PATIENCE, Gossip, Result, may_be_asked
from verifier.audit.keeping import opened
from verifier.audit.run import Audit
from verifier.audit.sources import Source
from verifier.audit.state import State
from verifier.cli import main
from verifier.connection import Answer
from verifier.errors import Code, FormatError
from verifier.note import Cosigner, Signature
from verifier.policy import Policy
from verifier.verdict import Exit

URLS = {name: f"https://{name}.example/of" for name in WITNESSES}
POLICY_WITH_URLS = "".join(
    f"{line} {URLS[line.split()[1]]}\n" if line.startswith("witness") else f"{line}\n" for line in POLICY.splitlines()
)
WITNESSED = replace(TRUST, policy=Policy.parse(POLICY_WITH_URLS))
SHOWN = f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint"
NONE = Answer(404, b"", {})


class Pretending:
    """A witness that answers as it is told. posts: the bodies it was sent."""

    def __init__(self, shown: str | None = None, answers: list[Answer | Exception] | None = None) -> None:
        self.shown = shown
        self.answers = answers or []
        self.posts: list[str] = []

    def answer(self, path: str, post: bytes | None) -> Answer:
        if post is None:
            assert path == SHOWN
            return NONE if self.shown is None else Answer(200, self.shown.encode(), {})
        assert path == "/add-checkpoint"
        self.posts.append(post.decode())
        given = self.answers.pop(0) if self.answers else NONE
        if isinstance(given, Exception):
            raise given
        return given


@contextmanager
def audited(
    log: Log, witnesses: dict[str, Pretending], directory: Path | None = None, *, later: Log | Exception | None = None
) -> Iterator[tuple[State, Audit, Gossip]]:
    """A log that was audited, ready to gossip with these witnesses; `later` is what it shows when it is asked again."""

    def again() -> Source:
        if isinstance(later, Exception):
            raise later
        return source_of((later or log).leaves)

    def ask(url: str, post: bytes | None, seconds: float) -> Answer:
        assert 0 < seconds <= gossip.SECONDS
        name = next(name for name, base in URLS.items() if url.startswith(base))
        if name not in witnesses:
            raise ConnectionRefusedError
        return witnesses[name].answer(url.removeprefix(URLS[name]), post)

    with opened(directory) as state:
        audit = Audit(state, WITNESSED, directory)
        source = source_of(log.leaves)
        assert audit.run(source)
        yield state, audit, Gossip(audit, source, again, ask)


def cut(log: Log, size: int) -> Log:
    other = Log()
    other.leaves = log.leaves[:size]
    return other


def forked(log: Log, size: int) -> Log:
    """Another history of so many entries."""
    other = Log()
    other.leaves = [*log.leaves, log.leaves[-1]][:size]
    other.leaves[5] = log.leaves[4]
    return other


def cosigned(log: Log, name: str, size: int | None = None, seconds: float = 700) -> str:
    return log.checkpoint(size or len(log.leaves), {name: seconds})


def line(log: Log, name: str) -> bytes:
    return WITNESSES[name].cosign(log.checkpoint(len(log.leaves)).partition("\n\n")[0] + "\n", at(700) // 1000).encode()


def test_witnesses_that_agree_and_cosign() -> None:
    log = honest(2)
    size = len(log.leaves)
    there = Pretending(cosigned(log, "w1"))
    behind = Pretending(cosigned(log, "w2", 9), [Answer(200, line(log, "w2"), {})])
    elsewhere = Pretending(None, [Answer(409, b"11\n", {}), Answer(200, line(log, "w3"), {})])
    with audited(log, {"w1": there, "w2": behind, "w3": elsewhere}) as (state, audit, asked):
        assert asked.run() == dict.fromkeys(("w1", "w2", "w3"), Result.COSIGNED)
        assert {seen.witness for seen in audit.witnessing.at(size)} == {"w1", "w2", "w3"}
        assert (audit.exit(), list(state.found())) == (Exit.FAIR, [])
    assert there.posts == []
    assert [body.partition("\n")[0] for body in behind.posts] == ["old 9"]
    assert [body.partition("\n")[0] for body in elsewhere.posts] == ["old 0", "old 11"]


def garbled(shown: str) -> str:
    """With a bit of the last signature changed on the way."""
    data = bytearray(shown.encode())
    data[-20] ^= 1 if data[-20] not in b"/0=+" else 2
    return data.decode()


@pytest.mark.parametrize("size", [9, -1])
def test_a_cosignature_that_is_garbled_on_the_way_accuses_nobody(size: int) -> None:
    """What a witness shows comes from elsewhere than the log: a false line there is no finding against the log."""
    log = honest(2)
    witness = Pretending(garbled(cosigned(log, "w1", None if size < 0 else size)))
    with audited(log, {"w1": witness}) as (state, audit, asked):
        assert asked.run()["w1"] is Result.AGREES
        assert (audit.exit(), list(state.found())) == (Exit.FAIR, [])
        assert list(audit.witnessing.at(len(log.leaves))) == []
    other = forked(log, 9)
    with audited(log, {"w1": Pretending(garbled(cosigned(other, "w1")))}) as (state, audit, asked):
        assert asked.run()["w1"] is Result.FORKED
        assert graves(state.found()) == {("log", "7.2")}


@pytest.mark.parametrize("size", [9, 14, -1])
def test_a_checkpoint_of_another_history_is_kept_as_evidence(size: int, tmp_path: Path) -> None:
    """Smaller, and of the same size as what the log shows here."""
    log = honest(2)
    other = forked(log, len(log.leaves) if size < 0 else size)
    with audited(log, {"w1": Pretending(cosigned(other, "w1"))}, tmp_path) as (state, audit, asked):
        assert asked.run()["w1"] is Result.FORKED
        assert audit.exit() == Exit.FAILED
        assert graves(state.found()) == {("log", "7.2")}
    (file,) = tmp_path.glob("fork-*.json")
    Fork.parse(file.read_bytes()).check(LOG_KEY.vkey)
    shown = CliRunner().invoke(main, ["fork", str(file), "--log-key", str(LOG_KEY.vkey)])
    assert (shown.exit_code, shown.output.startswith("PROVEN")) == (0, True)


def test_a_larger_checkpoint_is_compared_as_soon_as_the_log_shows_so_much(tmp_path: Path) -> None:
    log = honest(2)
    here, size = cut(log, len(log.leaves) - 3), len(log.leaves)
    witness = {"w1": Pretending(cosigned(log, "w1"))}
    with audited(here, witness, later=log) as (state, audit, asked):
        assert asked.run()["w1"] is Result.AGREES
        assert (audit.exit(), list(state.found())) == (Exit.FAIR, [])
    witness = {"w1": Pretending(cosigned(forked(log, size), "w1"))}
    with audited(here, witness, tmp_path, later=log) as (_, audit, asked):
        assert asked.run()["w1"] is Result.FORKED
        assert audit.exit() == Exit.FAILED
    (file,) = tmp_path.glob("fork-*.json")
    Fork.parse(file.read_bytes()).check(LOG_KEY.vkey)


def test_what_is_kept_back_for_more_than_a_day_is_a_finding(tmp_path: Path) -> None:
    log = honest(2)
    here = cut(log, len(log.leaves) - 3)
    for passed, code in ((0, Exit.FAIR), (PATIENCE - 1, Exit.FAIR), (PATIENCE + 1, Exit.FAILED)):
        with audited(here, {"w1": Pretending(cosigned(log, "w1"))}, tmp_path) as (_, audit, asked):
            asked.now = lambda passed=passed: 1_000_000 + passed
            assert asked.run()["w1"] is Result.AHEAD
            assert audit.exit() == code


GONE = FormatError(Code.USAGE, "the service does not answer")


@pytest.mark.parametrize("grown", [True, False])
def test_a_log_that_grew_or_is_down_when_it_is_looked_at_again_is_no_note(grown: bool, tmp_path: Path) -> None:
    """A witness may see a checkpoint between the audit and the question; and what a log that is down shows, nobody knows."""
    log = honest(2)
    size, here = len(log.leaves), cut(log, len(log.leaves) - 3)
    said = Pretending(None, [Answer(409, f"{size}\n".encode(), {})])
    with audited(here, {"w1": said, "w2": Pretending(cosigned(log, "w2"))}, tmp_path, later=log if grown else GONE) as (
        state, audit, asked,
    ):  # fmt: skip
        asked.now = lambda: 1_000_000
        assert asked.run()["w1"] is Result.AHEAD
        assert (audit.exit(), list(state.found())) == (Exit.FAIR, [])
    with audited(here, {"w2": Pretending(cosigned(log, "w2"))}, tmp_path, later=GONE) as (state, audit, asked):
        asked.now = lambda: 1_000_001 + PATIENCE
        asked.run()
        assert audit.exit() == (Exit.FAIR if grown else Exit.FAILED), "a log that is always down then keeps it back"


FALSE_LINE = Signature(WITNESSES["w1"].vkey.name, WITNESSES["w1"].vkey.key_id, b"\x01" * 72).encode().encode()


@pytest.mark.parametrize(
    ("shown", "answers", "result"),
    [
        (None, [], Result.REFUSED),
        (None, [Answer(429, b"", {}), NONE], Result.REFUSED),
        (None, [Answer(500, b"", {})], Result.REFUSED),
        (None, [Answer(409, b"", {})], Result.REFUSED),
        (None, [Answer(409, b"none\n", {})], Result.REFUSED),
        (None, [Answer(409, b"0\n", {})], Result.REFUSED),
        (None, [Answer(409, b"5\n", {}), Answer(409, b"6\n", {})], Result.REFUSED),
        (None, [Answer(200, b"", {})], Result.REFUSED),
        (None, [Answer(200, b"\xff\n", {})], Result.REFUSED),
        (None, [Answer(200, FALSE_LINE, {})], Result.REFUSED),
        (None, [Answer(200, line(honest(1), "w1"), {})], Result.REFUSED),
        (None, [Answer(200, line(honest(2), "w2"), {})], Result.REFUSED),
        (None, [Answer(302, b"", {})], Result.REFUSED),
        (None, [TimeoutError()], Result.UNREACHABLE),
        ("no checkpoint", [], Result.REFUSED),
        ("\ud7ff", [], Result.REFUSED),
        ("unsigned", [], Result.REFUSED),
        ("x" * (gossip.MAX_ANSWER + 1), [], Result.REFUSED),
    ],
)
def test_whatever_a_witness_answers_is_no_failure(
    shown: str | None, answers: list[Answer | Exception], result: Result
) -> None:
    log = honest(2)
    if shown == "unsigned":
        text, _, lines = cosigned(log, "w1").partition("\n\n")
        shown = f"{text}\n\n{lines.splitlines(keepends=True)[1]}"
    with audited(log, {"w1": Pretending(shown, answers)}) as (state, audit, asked):
        assert asked.run() == {"w1": result, "w2": Result.UNREACHABLE, "w3": Result.UNREACHABLE}
        assert audit.exit() == Exit.FAIR
        assert graves(state.found()) == set()
        assert audit.witnessing.at(len(log.leaves)) == []


def test_what_a_witness_only_says_is_a_note() -> None:
    log = honest(2)
    for answer in (Answer(409, b"9999\n", {}), Answer(422, b"no\n", {})):
        with audited(log, {"w1": Pretending(None, [answer])}) as (state, audit, asked):
            asked.run()
            assert [(one.claim, one.grave) for one in state.found()] == [("log", False)]
            assert audit.exit() == Exit.FAIR


def key_of(number: int) -> str:
    return str(Cosigner(bytes([number]) * 32, f"n{number}.example").vkey)


def test_the_time_for_all_witnesses_is_bounded() -> None:
    log, now = honest(1), [0.0]

    def slow(url: str, post: bytes | None, seconds: float) -> Answer:
        now[0] += seconds
        raise TimeoutError

    lines = [f"witness n{n} {key_of(n)} https://n{n}.example\n" for n in range(1, 20)]
    trust = replace(TRUST, policy=Policy.parse("".join([*lines, "quorum n1\n"])))
    with opened(None) as state:
        audit = Audit(state, trust)
        source = source_of(log.leaves)
        audit.run(source)
        results = Gossip(audit, source, lambda: source, slow, clock=lambda: now[0]).run()
    assert now[0] == gossip.ALL_SECONDS
    assert list(results.values()).count(Result.UNREACHABLE) == gossip.ALL_SECONDS / gossip.SECONDS
    assert list(results.values()).count(Result.NOT_ASKED) == 19 - gossip.ALL_SECONDS / gossip.SECONDS


def test_without_a_log_key_or_a_policy_nobody_is_asked() -> None:
    def ask(*_: object) -> Answer:
        raise AssertionError

    source = source_of(honest(1).leaves)
    for trust in (replace(WITNESSED, log_key=None), replace(WITNESSED, policy=None)):
        with opened(None) as state:
            audit = Audit(state, trust)
            audit.run(source)
            assert Gossip(audit, source, lambda: source, ask).run() == {}


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://w.example", True),
        ("https://w.example:8443/path", True),
        ("https://192.0.2.7/", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000", True),
        ("http://w.example", False),
        ("http://10.0.0.1", False),
        ("http://169.254.169.254/latest", False),
        ("https://169.254.169.254", False),
        ("https://[fe80::1]", False),
        ("https://224.0.0.1", False),
        ("https://0.0.0.0", False),
        ("https://user@w.example", False),
        ("https://w.example/?q", False),
        ("https://w.example/#f", False),
        ("https://w.example:0", False),
        ("https://w.example:x", False),
        ("https://", False),
        ("file:///etc/passwd", False),
        ("ftp://w.example", False),
        ("https://w.example/" + "x" * 300, False),
        ("https://w\u00e4.example", False),
    ],
)
def test_which_addresses_are_asked(url: str, allowed: bool) -> None:
    assert may_be_asked(url) == allowed


async def verifier(*arguments: str) -> tuple[int | None, str]:
    """Run the command in a process of its own; gives its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "verifier", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_real_witnesses_over_http_cosign_what_was_audited_and_expose_a_fork(tmp_path: Path) -> None:
    log, clock = honest(2), Clock()
    size = len(log.leaves)
    async with several(tmp_path, clock, LOG_KEY.vkey, 2) as found:
        policy = tmp_path / "w.policy"
        policy.write_text(policy_of(*(url for _, url in found)))

        def arguments(url: str, state: str) -> list[str]:
            options = ["--state", str(tmp_path / state), "--policy", str(policy), "--log-key", str(LOG_KEY.vkey)]
            return ["audit", url, *options, "--json", "--jobs", "1"]

        with served(log.leaves) as url:
            code, output = await verifier(*arguments(url, "first"))
        summary = json.loads(output.splitlines()[-1])
        assert (code, summary["gossip"]) == (0, {"w1": "cosigned", "w2": "cosigned"})
        assert (summary["witnesses"], summary["quorum"]) == (["w1", "w2"], True)
        for made, _ in found:
            note = await made.newest(hashlib.sha256(ORIGIN.encode()).hexdigest())
            assert note is not None
            assert note.splitlines()[1] == str(size)

        with served(forked(log, size + 1).leaves) as url:
            code, output = await verifier(*arguments(url, "second"))
        summary = json.loads(output.splitlines()[-1])
        assert (code, summary["gossip"]) == (1, {"w1": "forked", "w2": "forked"})
    files = [*(tmp_path / "second").glob("fork-*.json")]
    assert len(files) == 2
    for file in files:
        assert CliRunner().invoke(main, ["fork", str(file), "--log-key", str(LOG_KEY.vkey)]).exit_code == 0
