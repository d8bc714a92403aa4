"""Following whole logs: what an auditor sees, what it keeps, and that nothing is used before it is authenticated."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.audit_support import (
    TRUST,
    URL,
    Log,
    audited,
    downloading,
    graves,
    honest,
    resource,
    served,
    signed,
    source_of,
)
from tests.builder import LOG_KEY, ORIGIN, POLICY, QUICKNET, ROUNDS, WITNESSES, at
from verifier import merkle, whole_log
from verifier.audit import run
from verifier.audit.forks import Fork
from verifier.audit.keeping import opened
from verifier.audit.run import Audit
from verifier.audit.sources import of_address
from verifier.audit.trees import Tree
from verifier.cli import main
from verifier.encoding import encode_json
from verifier.errors import Code, FormatError, VerificationError
from verifier.note import Checkpoint, SigningKey
from verifier.tiles import TILE_WIDTH, encode_bundle, parse_bundle, parse_tile_path
from verifier.verdict import Exit

VKEY = str(LOG_KEY.vkey)
LEAVES = [b"%d" % number for number in range(70_000)]
HASHES = [merkle.leaf_hash(leaf) for leaf in LEAVES]


@pytest.fixture(scope="module")
def good() -> list[bytes]:
    return honest(3).leaves


def database(path: Path, leaves: list[bytes], note: str | None = None) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            f"PRAGMA application_id = {whole_log.APPLICATION_ID}; CREATE TABLE entries (i INTEGER PRIMARY KEY, entry BLOB);"
            "CREATE TABLE checkpoints (size INTEGER PRIMARY KEY, note TEXT)"
        )
        db.executemany("INSERT INTO entries VALUES (?, ?)", enumerate(leaves))
        db.execute("INSERT INTO checkpoints VALUES (?, ?)", [len(leaves), note or signed(leaves)])
        db.commit()
    return path


# --- the tree --------------------------------------------------------------------------------------------------------


def tree_of(size: int) -> Tree:
    levels = [HASHES[:size]]
    while len(levels[-1]) >= TILE_WIDTH:
        below = levels[-1]
        ends = range(0, len(below) - TILE_WIDTH + 1, TILE_WIDTH)
        levels.append([merkle.tree_root(below[first : first + TILE_WIDTH]) for first in ends])

    def read(path: str, _: int) -> bytes:
        tile = parse_tile_path(path)
        first = tile.index * TILE_WIDTH
        if tile.level < 0:
            return encode_bundle(LEAVES[:size][first : first + tile.width])
        found = levels[tile.level][first : first + tile.width]
        assert len(found) == tile.width
        return b"".join(found)

    tree = Tree(read, size, merkle.tree_root(HASHES[:size]))
    tree.check()
    return tree


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 700, 65_535, 65_536, 65_537, 70_000])
def test_every_bundle_and_every_older_root_of_a_tree(size: int) -> None:
    tree = tree_of(size)
    bundles = range(-(-size // TILE_WIDTH))
    assert [leaf for index in bundles for leaf in tree.bundle(index)] == LEAVES[:size]
    for old in {1, size, size // 2 or 1, size - size % 256 or 1, (size * 3) // 5 or 1}:
        assert tree.root_at(old) == merkle.tree_root(HASHES[:old])
        assert tree.consistency(old) == merkle.prove_consistency(HASHES[:size], old)


@given(st.data())
def test_consistency_of_any_two_sizes(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 1_500))
    old = data.draw(st.integers(1, size))
    tree = tree_of(size)
    proof = tree.consistency(old)
    merkle.verify_consistency(old, size, proof, tree.root_at(old), tree.root)


def test_no_tile_is_used_that_the_checkpoint_does_not_cover() -> None:
    leaves = honest(40).leaves
    honestly = downloading(leaves)
    assert len(leaves) > TILE_WIDTH

    def lying(about: str):
        def download(url: str, limit: int) -> bytes:
            data = honestly(url, limit)
            if about not in url:
                return data
            if "entries" in about:
                first, *rest = parse_bundle(data)
                return encode_bundle([first.replace(b"1", b"2", 1), *rest])
            return data[:-1] + bytes([data[-1] ^ 1])

        return download

    for about in ("tile/entries/000", "tile/entries/001", "tile/0/001", "tile/1/000"):
        with opened(None) as state, pytest.raises(VerificationError) as raised:
            Audit(state, TRUST).run(of_address(URL, lying(about)))
        assert raised.value.code == Code.INCLUSION


def test_a_checkpoint_that_the_log_did_not_sign_is_refused(good: list[bytes]) -> None:
    other = SigningKey(b"\x09" * 32, ORIGIN)

    def download(url: str, limit: int) -> bytes:
        return signed(good, other).encode() if "checkpoint" in url else downloading(good)(url, limit)

    with opened(None) as state, pytest.raises(VerificationError) as raised:
        Audit(state, TRUST).run(of_address(URL, download))
    assert raised.value.code == Code.SIGNATURE


# --- honest logs -----------------------------------------------------------------------------------------------------


def test_an_honest_log(good: list[bytes], tmp_path: Path) -> None:
    assert audited(good) == (Exit.FAIR, [])
    assert audited(good, trust=replace(TRUST, log_key=None)) == (Exit.UNDECIDED, [])
    assert audited(good, trust=replace(TRUST, chains={}))[0] == Exit.UNDECIDED
    with opened(tmp_path) as state:
        Audit(state, TRUST).run(source_of(good))
        assert state.get("totals") == {"ended": 3, "fair": 3, "proven": 0}
        assert list(state.leaves(len(good))) == [merkle.leaf_hash(leaf) for leaf in good]
        assert state.db.execute("SELECT count(*) FROM pending").fetchone() == (0,)


def test_it_goes_on_where_it_stopped_at_every_size(good: list[bytes], tmp_path: Path) -> None:
    for size in range(1, len(good) + 1):
        assert audited(good[:size], tmp_path) == (Exit.FAIR, [])
    with opened(tmp_path) as state:
        assert state.get("totals") == {"ended": 3, "fair": 3, "proven": 0}


def test_an_audit_that_dies_between_two_segments_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(run, "SEGMENT", 1)
    leaves = honest(90).leaves
    died = []

    def die(done: int, _: int) -> None:
        if done:
            died.append(done)
            raise KeyboardInterrupt

    with opened(tmp_path) as state, pytest.raises(KeyboardInterrupt):
        Audit(state, TRUST, progress=die).run(source_of(leaves))
    assert died == [TILE_WIDTH]
    assert audited(leaves, tmp_path) == (Exit.FAIR, [])
    with opened(tmp_path) as state:
        assert state.get("totals") == {"ended": 90, "fair": 90, "proven": 0}


def test_an_audit_whose_download_fails_goes_on_in_the_same_process() -> None:
    leaves = honest(90).leaves
    failing = downloading(leaves)

    def download(url: str, limit: int) -> bytes:
        if "entries/001" in url:
            raise FormatError(Code.USAGE, f"{url} answers 503")
        return failing(url, limit)

    with opened(None) as state:
        audit = Audit(state, TRUST)
        with pytest.raises(FormatError):
            audit.run(of_address(URL, download))
        audit.run(source_of(leaves))
        assert (audit.exit(), list(state.found())) == (Exit.FAIR, [])
        assert state.get("totals") == {"ended": 90, "fair": 90, "proven": 0}


def test_sessions_are_judged_in_other_processes_alike(good: list[bytes], monkeypatch) -> None:
    monkeypatch.setattr(run, "MANY", 1)
    bad = (
        Log().sealed(1).contributed().close(6.6).round(1005, 15.9).draw("turn", 16, outcomes=[[7, 7]]).reveal(16).leaves
    )
    for leaves in (good, bad):
        with opened(None) as here, opened(None) as there:
            Audit(here, TRUST).run(source_of(leaves))
            Audit(there, TRUST, processes=2).run(source_of(leaves))
            assert list(here.found()) == list(there.found())
            assert here.get("totals") == there.get("totals")


def test_segments_taken_up_ahead_of_their_judges_change_nothing(monkeypatch, tmp_path: Path) -> None:
    leaves = honest(150).leaves
    whole_bundles = len(leaves) // TILE_WIDTH
    failing = downloading(leaves)

    def download(url: str, limit: int) -> bytes:
        if f"entries/00{whole_bundles}" in url:
            raise FormatError(Code.USAGE, f"{url} answers 503")
        return failing(url, limit)

    monkeypatch.setattr(run, "MANY", 1)
    monkeypatch.setattr(run, "SEGMENT", 1)
    monkeypatch.setattr(run, "KEPT_AT_LEAST", whole_bundles)
    with opened(tmp_path) as state:
        audit = Audit(state, TRUST, processes=2)
        with pytest.raises(FormatError):
            audit.run(of_address(URL, download))
        kept = state.get("size")
        assert kept == whole_bundles * TILE_WIDTH
        ended = state.db.execute("SELECT count(*) FROM sessions WHERE ended IS NOT NULL").fetchone()[0]
        assert state.get("totals")["ended"] == ended > 0
        audit.run(source_of(leaves))
        assert (audit.exit(), list(state.found())) == (Exit.FAIR, [])
        assert state.get("totals") == {"ended": 150, "fair": 150, "proven": 0}
        assert list(state.leaves(len(leaves))) == [merkle.leaf_hash(leaf) for leaf in leaves]


# --- what is found ---------------------------------------------------------------------------------------------------


def begun() -> Log:
    return Log().sealed(1).contributed().close(6.6)


def whole(log: Log) -> Log:
    return log.round(1005, 15.9).draw("turn", 16).reveal(16)


def forged_round() -> Log:
    other = ROUNDS[QUICKNET.hash.hex(), 1004]["signature"]
    return begun().round(1005, 15.9, signature=other)


BROKEN = {
    "a second close": (lambda: whole(begun().close(6.6)), ("sole", "6.1")),
    "a contribution after the close": (
        lambda: whole(begun().contribute("green", 6.7, counted=False)),
        ("unpredictable", "6.5"),
    ),
    "a second contribution": (lambda: whole(Log().sealed(1).contributed().contribute("white", 6.5, b"x", counted=False).close(6.6)), ("sole", "6.1")),
    "an entry after the end": (lambda: whole(begun()).close(16), ("sole", "6.1")),
    "a draw that does not follow": (
        lambda: begun().round(1005, 15.9).draw("turn", 16, outcomes=[[6, 6, 6]]).reveal(16),
        ("outcomes", "5.3"),
    ),
    "a signature of the round below the anchor": (
        lambda: whole(sealed_after_round()),
        ("unpredictable", "6.7"),
    ),
    "an entry before its time": (lambda: whole(begun()).round(1004, 9), ("log", "6.2")),
    "a round before its time": (lambda: begun().round(1005, 12), ("unpredictable", "6.10")),
    "a false round": (forged_round, ("round", "2.5")),
    "a second entry of a round": (lambda: whole(begun().round(1005, 15.9)), ("sole", "6.8")),
    "a gap in the host's numbers": (lambda: Log().sealed(2), ("host", "3.6")),
    "a number used twice": (lambda: Log().sealed(1).sealed(2, host_seq=1), ("host", "3.6")),
    "a commitment used twice": (
        lambda: commitment_twice(),
        ("seed", "4.1"),
    ),
    "a re-run of nothing": (lambda: Log().sealed(1, replaces="ab" * 32), ("sole", "6.1")),
    "no entry of the protocol": (lambda: added(b'{"type":"poem","v":1}'), ("log", "3")),
    "a session's entry that is not canonical": (lambda: not_canonical(), ("log", "3")),
    "an entry that nests deeply": (lambda: added(b"[" * 65_535), ("log", "3")),
    "a session's entry that nests deeply": (lambda: nested(), ("log", "3")),
    "an entry of no session": (lambda: stray(), ("log", "6.1")),
    "a chain once more": (lambda: added(Log().leaves[1]), ("log", "3.6")),
    "a second first leaf": (lambda: added(Log().leaves[0]), ("log", "3.6")),
    "a seed that was never revealed": (
        lambda: begun().round(1005, 15.9).void("missed-reveal", 617, time=at(650)),
        ("custody", "6.12"),
    ),
}  # fmt: skip


def sealed_after_round() -> Log:
    """Another host's seal, below the close, already knows round 1005."""
    log = Log().sealed(1).contributed()
    kept = log.kept()
    after = log.round_fields(1005)
    log.next_session(2).seal(host="other", after=after, round=1009, close_at=None, reveal_by=at(700), time=at(15.1))
    return log.resume(kept).close(15.1)


def commitment_twice() -> Log:
    log = Log().sealed(1)
    log.seal(host_seq=2, label="again")
    return log


def added(leaf: bytes) -> Log:
    log = Log()
    log.add(leaf)
    return log


def not_canonical() -> Log:
    log = begun()
    log.leaves[-1] = log.leaves[-1].replace(b'":', b'": ', 1)
    return whole(log)


def nested() -> Log:
    log = begun()
    log.leaves[-1] = log.leaves[-1][:-1] + b',"more":' + b'{"x":' * 10_000 + b"1" + b"}" * 10_001
    return log


def stray() -> Log:
    log = Log()
    log.session = "ab" * 32
    return log.close(6, digest="00" * 32)


@pytest.mark.parametrize("what", BROKEN)
def test_what_an_auditor_finds(what: str, tmp_path: Path) -> None:
    make, expected = BROKEN[what]
    leaves = make().leaves
    code, found = audited(leaves, tmp_path)
    assert code == Exit.FAILED
    assert expected in graves(found)
    assert audited(leaves, tmp_path) == (code, found)


def test_what_is_said_of_hosts_is_no_failure() -> None:
    log = Log()
    first = log.sealed(1).kept()
    second = log.sealed(2, label="table 1").kept()
    log.resume(first).contribute("white", 6.5, b"the same bytes twice")
    log.resume(second).contribute("white", 6.5, b"the same bytes twice")
    log.resume(first).close(9.1)
    log.resume(second).close(9.1).round(1005, 15.9)
    log.resume(first).draw("turn", 16).reveal(16)
    log.resume(second).draw("turn", 16).reveal(16 + 1300)
    code, found = audited(log.leaves)
    assert (code, graves(found)) == (Exit.FAIR, set())
    assert sorted((one.rule, one.text.split(" once")[0].split(": the")[0]) for one in found) == [
        ("3.6", "the label 'table 1'"),
        ("4.4", "'white' contributes the same entropy as in entry 4"),
        ("6.3", "Late"),
    ]


# --- forks -----------------------------------------------------------------------------------------------------------


def test_another_history_is_kept_as_evidence(good: list[bytes], tmp_path: Path) -> None:
    old = good[:10]
    assert audited(old, tmp_path)[0] == Exit.FAIR
    other = [*good[:9], good[10], *good[10:]]
    for newer in (other[:10], other):
        code, found = audited(newer, tmp_path)
        assert code == Exit.FAILED
        assert "two histories" in found[-1].text
    files = sorted(tmp_path.glob("fork-*.json"))
    assert len(files) == 2
    for file in files:
        fork = Fork.parse(file.read_bytes())
        fork.check(LOG_KEY.vkey)
        assert Fork.parse(fork.encode()) == fork
    assert audited(old, tmp_path)[0] == Exit.FAILED


def test_a_smaller_log_of_another_history_is_kept_as_evidence(good: list[bytes], tmp_path: Path) -> None:
    audited(good, tmp_path)
    code, _ = audited([*good[:8], good[9]], tmp_path)
    assert code == Exit.FAILED
    (file,) = tmp_path.glob("fork-*.json")
    Fork.parse(file.read_bytes()).check(LOG_KEY.vkey)


def test_a_log_that_goes_back_is_found(good: list[bytes], tmp_path: Path) -> None:
    audited(good, tmp_path)
    code, found = audited(good[:-2], tmp_path)
    assert code == Exit.FAILED
    assert "gone back" in found[0].text
    assert not list(tmp_path.glob("fork-*.json"))


def test_two_vantage_points(good: list[bytes], tmp_path: Path) -> None:
    other = [*good[:-1], good[-2]]
    assert audited(good, tmp_path, others=[good[:5], good])[0] == Exit.FAIR
    for number, shown in enumerate((other, [*other, other[-1]], [*good[:4], good[5]])):
        code, found = audited(good, tmp_path / str(number), others=[shown])
        assert (code, found[0].claim) == (Exit.FAILED, "log")
        (file,) = (tmp_path / str(number)).glob("fork-*.json")
        Fork.parse(file.read_bytes()).check(LOG_KEY.vkey)


def test_evidence_that_shows_nothing_is_refused(good: list[bytes]) -> None:
    tree = source_of(good).tree
    tree.check()
    older, newer = source_of(good[:7]).signed, source_of(good).signed
    agreeing = Fork(older, newer, older.checkpoint.root, tree.consistency(7))
    made_up = Fork(older, newer, b"\x01" * 32, tree.consistency(7))
    for fork in (agreeing, made_up):
        with pytest.raises(VerificationError):
            fork.check(LOG_KEY.vkey)
    with pytest.raises(FormatError):
        Fork.parse(agreeing.encode().replace(b"fork/v1", b"fork/v2"))


def test_the_state_of_another_log_is_refused(good: list[bytes], tmp_path: Path) -> None:
    audited(good, tmp_path)
    text = Checkpoint("log.example/another", len(good), bytes(32)).encode()
    key = SigningKey(b"\x09" * 32, "log.example/another")

    def download(url: str, limit: int) -> bytes:
        return f"{text}\n{key.sign(text)}".encode() if "checkpoint" in url else downloading(good)(url, limit)

    with opened(tmp_path) as state, pytest.raises(FormatError, match="the state is that of another log"):
        Audit(state, replace(TRUST, log_key=None)).compare(of_address(URL, download))


# --- commands --------------------------------------------------------------------------------------------------------


def command(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_commands(good: list[bytes], tmp_path: Path) -> None:
    leaves = good[:10]
    state = tmp_path / "state"
    with served(leaves) as url:
        done = command("audit", url, "--state", state, "--log-key", VKEY, "--json")
        assert done.exit_code == 0, done.output
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one["kind"] for one in told] == ["host", "summary"]
        assert (told[-1]["size"], told[-1]["open"]) == (10, 3)
        assert command("audit", url, "--state", state).exit_code == 2
        leaves[:] = good
        done = command("audit", url, "--state", state, "--log-key", VKEY, "--compare", url)
        assert (done.exit_code, "3 ended, 3 of them fair; 0 open" in done.stdout) == (0, True)
        leaves[-1] = leaves[-2]
        done = command("audit", url, "--state", state, "--log-key", VKEY, "--follow", "--interval", "0.1")
        assert (done.exit_code, "FINDING log, rule 7.2: two histories" in done.stdout) == (1, True)
        (file,) = state.glob("fork-*.json")
        assert command("fork", file, "--log-key", VKEY).exit_code == 0
        assert command("fork", file).exit_code == 2
        assert command("fork", file, "--log-key", str(WITNESSES["w1"].vkey)).exit_code == 3
        assert command("audit", f"{url}/nothing", "--state", state).exit_code == 3


def test_a_database_file(good: list[bytes], tmp_path: Path) -> None:
    path = database(tmp_path / "log.db", good)
    done = command("check-db", path, "--log-key", VKEY)
    assert (done.exit_code, "Nothing grave was found" in done.stdout) == (0, True)
    policy = tmp_path / "policy"
    policy.write_text(POLICY)
    assert command("check-db", path, "--policy", policy, "--json").exit_code == 0
    assert command("check-db", path).exit_code == 2
    assert command("check-db", database(tmp_path / "bad.db", good[:-1], signed(good)), "--log-key", VKEY).exit_code == 3
    other = [*good[:-1], encode_json({"v": 1})]
    done = command("check-db", database(tmp_path / "other.db", other, signed(good)), "--log-key", VKEY)
    assert (done.exit_code, "does not stand by its checkpoint" in done.stdout) == (1, True)
    assert command("check-db", tmp_path / "absent.db").exit_code == 3
    endless = Checkpoint(ORIGIN, 10**15, bytes(32)).encode()
    path = database(tmp_path / "endless.db", good, f"{endless}\n{LOG_KEY.sign(endless)}")
    done = command("check-db", path, "--log-key", VKEY)
    assert (done.exit_code, "are not all there" in done.stderr) == (3, True)


def test_a_quorum_of_witnesses_proves_sessions(good: list[bytes], tmp_path: Path) -> None:
    text = signed(good).split("\n\n")[0] + "\n"
    note = signed(good) + "".join(WITNESSES[name].cosign(text, at(20) // 1000) for name in ("w1", "w2"))
    policy = tmp_path / "policy"
    policy.write_text(POLICY)
    done = command("check-db", database(tmp_path / "log.db", good, note), "--policy", policy)
    assert (done.exit_code, "Cosigned by w1, w2: a quorum" in done.stdout) == (0, True)
    assert resource(good, "poem") is None
