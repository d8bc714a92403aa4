"""`beacon rounds` as people, cron and scripts run it: over real relays in a thread, on a real data directory."""

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from pathlib import Path

import pytest
from sqlite_utils import Database

from beacon import cli_rounds
from beacon.clock import ShiftedClock, SystemClock
from beacon.datadir import initialise, pinned_chain
from beacon.rounds.collect import Collected, Collector
from beacon.rounds.fetcher import Policy
from beacon.rounds.lines import encode_line
from beacon.rounds.spool import Spool
from beacon.store.lock import FileLock
from tests.lying_relay import LyingRelay
from tests.round_support import DEFAULT, FASTNET, QUICKNET, FakeClock, recorded, verified
from tests.session_support import ALICE, service
from tests.test_cli import fetch, program, run, without_port
from verifier.drand import VerifiedRound

FIRST = 72_750
HASH = QUICKNET.hash.hex()
PIPE_BYTES = 65_536


@pytest.fixture
def relay():
    """A relay with the recorded rounds, on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    server = LyingRelay()
    call(server.__aenter__())
    yield server
    call(server.__aexit__())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def data(tmp_path, relay, monkeypatch):
    monkeypatch.setattr(Policy, "budget", lambda self, chain: 2_000)
    folder = tmp_path / "data"
    initialise(folder, "beacon.example/test", [pinned_chain(name, (relay.url,)) for name in ("quicknet", "default")],
               ShiftedClock(0, FakeClock(1_600_000_000_000)))  # fmt: skip
    return folder


def rounds(command, data, *arguments, code=0):
    return run("rounds", command, *arguments, "--dir", data, code=code)


def as_json(command, data, *arguments, code=0):
    return json.loads(rounds(command, data, *arguments, "--json", code=code).stdout)


def stored(data):
    with contextlib.closing(Database(data / "log.db").conn) as conn:
        return [row[0] for row in conn.execute("SELECT round FROM rounds ORDER BY chain, round").fetchall()]


def put(data, verified, table="rounds"):
    row = [verified.chain.hash, verified.round, verified.signature, verified.previous_signature]
    with contextlib.closing(Database(data / "log.db").conn) as conn, conn:
        conn.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?{', 0' if table != 'rounds' else ''})", row)


# fetch


def test_one_round_is_fetched_and_a_second_time_is_no_work(data, relay):
    result = as_json("fetch", data, "--chain", "quicknet", "--round", FIRST)
    (chain,) = result["chains"]
    assert (chain["name"], chain["chain"], chain["fetched"], chain["known"]) == ("quicknet", HASH, 1, 0)
    assert (result["complete"], result["handed_over"], result["twice"]) == (True, False, [])
    assert stored(data) == [FIRST]
    asked = list(relay.asked)
    (chain,) = as_json("fetch", data, "--chain", "quicknet", "--round", FIRST)["chains"]
    assert (chain["fetched"], chain["known"]) == (0, 1)
    assert relay.asked == asked
    assert list((data / "rounds-in").iterdir()) == []


def test_a_range_is_fetched_and_a_gap_backfilled_in_any_order(data, relay):
    rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST + 20}-{FIRST + 29}")
    rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 4}")
    result = rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 29}")
    assert "quicknet: 15 fetched, 15 there already, 0 not due, 0 missing" in result.stdout
    assert stored(data) == list(range(FIRST, FIRST + 30))
    assert len(relay.rounds_asked) == 30
    assert "latest" not in str(relay.asked)


def test_a_chained_round_is_stored_with_its_previous_signature(data):
    rounds("fetch", data, "--chain", "default", "--round", 367)
    rounds("verify", data)


def test_what_a_relay_has_not_is_exit_3_and_the_rest_is_stored(data, relay):
    relay.missing = {FIRST + 1}
    result = as_json("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 2}", code=3)
    (chain,) = result["chains"]
    assert (chain["fetched"], chain["missing"], chain["reasons"]) == (2, 1, {str(FIRST + 1): "not-yet"})
    assert not result["complete"]
    assert stored(data) == [FIRST, FIRST + 2]
    relay.missing = set()
    rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 2}")
    assert stored(data) == [FIRST, FIRST + 1, FIRST + 2]


def test_a_late_round_is_asked_for_again(data, relay):
    relay.late = {FIRST: 1}
    rounds("fetch", data, "--chain", "quicknet", "--round", FIRST)
    assert relay.rounds_asked == [str(FIRST)] * 2


def test_when_relays_are_down_each_round_of_a_long_range_is_soon_asked_for_once_only(data, relay):
    relay.lie = 503
    result = rounds("fetch", data, "--chain", "quicknet", "--range", "1000-1400", code=3)
    assert "401 missing" in result.stdout
    assert len(relay.rounds_asked) < 401 * 3


@pytest.mark.parametrize("lie", ["negated", "forged-randomness", "wrong-round", "html"])
def test_a_lie_is_exit_3_and_stores_nothing(data, relay, lie):
    relay.lie = lie
    rounds("fetch", data, "--chain", "quicknet", "--round", FIRST, code=3)
    assert stored(data) == []


async def test_the_current_round_is_asked_for_and_not_the_next_one(tmp_path):
    class Recorded:
        def __init__(self):
            self.asked = []

        async def fetch(self, number):
            self.asked.append(number)
            return (verified(QUICKNET, number),)

    clock = FakeClock(QUICKNET.time(72_800))
    fetcher = Recorded()
    collector = Collector(QUICKNET, fetcher, Spool(tmp_path / "spool"), clock, policy=Policy())
    found = await collector.collect([72_799, 72_800, 72_801], [])
    assert (sorted(fetcher.asked), found.fetched, found.not_due) == ([72_799, 72_800], 2, [72_801])


def test_a_round_that_is_not_due_is_not_asked_for(data, relay):
    future = QUICKNET.current(SystemClock().now()) + 1_000
    result = as_json("fetch", data, "--chain", "quicknet", "--round", future, code=3)
    assert result["chains"][0]["not_due"] == 1
    assert relay.asked == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--round", "5"], "name a --chain: quicknet, default"),
        (["--chain", "evmnet"], "there is no chain 'evmnet'; there are quicknet, default"),
        (["--chain", "quicknet", "--round", "5", "--due"], "exclude each other"),
        (["--chain", "quicknet", "--round", "0"], "1<=x"),
        (["--chain", "quicknet", "--range", "5"], "a range is A-B"),
        (["--chain", "quicknet", "--range", "6-5"], "a range is A-B"),
        (["--chain", "quicknet", "--range", "0-5"], "a range is A-B"),
        (["--chain", "quicknet", "--range", "1-1000001"], "at most 1000000"),
        (["--chain", "quicknet", "--round", f"{QUICKNET.final_round + 1}"], f"has rounds 1 to {QUICKNET.final_round}"),
        (["--chain", "quicknet", "--round", f"{2**53 - 1}", "--follow"], "has rounds 1 to"),
    ],
)
def test_wrong_usage_is_exit_2(data, arguments, says):
    assert says in rounds("fetch", data, *arguments, code=2).output


def test_a_round_after_the_end_of_a_retired_chain_is_not_waited_for(tmp_path):
    folder, last = tmp_path / "data", FASTNET.last_round
    initialise(folder, "beacon.example/test", [pinned_chain("fastnet", ("http://127.0.0.1:9",))], SystemClock())
    for how in ("--once", "--follow"):
        for asked in (("--round", last + 1), ("--range", f"{last}-{last + 1}")):
            result = rounds("fetch", folder, "--chain", "fastnet", *asked, how, code=2)
            assert f"fastnet has rounds 1 to {last}" in result.output


def test_a_directory_that_is_none_is_exit_2(tmp_path):
    assert "beacon init" in run("rounds", "fetch", "--dir", tmp_path, code=2).output


def test_a_long_range_shows_how_far_it_is(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("beacon.cli_rounds.time.monotonic", lambda: now[0])
    show = cli_rounds.progress_of("quicknet", 5_000)
    for second in range(25):
        now[0] = float(second)
        show(Collected(QUICKNET, fetched=second, known=100))
    assert capsys.readouterr().err.splitlines() == [
        "quicknet: 110 of 5000 rounds, 0 missing",
        "quicknet: 120 of 5000 rounds, 0 missing",
    ]


# what sessions need


async def seal_sessions(folder):
    """A log with sessions that wait for two rounds, one that has its round, one that is over, and one given up before."""
    async with service(folder, start=FIRST) as made:
        sealed = [await made.seal(round=FIRST + ahead, participants=[]) for ahead in (12, 15, 15, 9, 8, 18)]
        await made.sessions.void(ALICE, sealed[5].session)
        await made.reach(FIRST + 8)
        await made.reach(FIRST + 9)
        await made.draw(sealed[3].session)
        await made.sessions.reveal(ALICE, sealed[3].session)
        return [written.state["round"] for written in sealed]


def test_the_rounds_that_open_sessions_need_are_fetched_and_no_other(data, relay, tmp_path, monkeypatch):
    (tmp_path / "made").mkdir()
    ahead = [number - FIRST for number in asyncio.run(seal_sessions(tmp_path / "made"))]
    assert ahead == [12, 15, 15, 9, 8, 18]
    for path in data.glob("log.db*"):
        path.unlink()
    for path in (tmp_path / "made").glob("log.db*"):
        path.rename(data / path.name)
    with monkeypatch.context() as earlier:
        earlier.setattr(cli_rounds, "SystemClock", lambda: FakeClock(QUICKNET.time(FIRST + 14)))
        (early, _) = as_json("fetch", data, "--due")["chains"]
    assert (early["fetched"], early["not_due"], relay.rounds_asked) == (1, 0, [str(FIRST + 12)])
    result = as_json("fetch", data, "--due")
    assert [(chain["name"], chain["fetched"]) for chain in result["chains"]] == [("quicknet", 1), ("default", 0)]
    assert stored(data) == [FIRST + 12, FIRST + 15]
    assert sorted(set(relay.rounds_asked)) == [str(FIRST + 12), str(FIRST + 15)]
    (again, _) = as_json("fetch", data)["chains"]
    assert (again["fetched"], again["known"]) == (0, 2)


def test_nothing_needed_is_nothing_to_do(data, relay):
    assert as_json("fetch", data)["complete"]
    assert relay.asked == []


# beside a service


def test_while_the_log_is_open_elsewhere_rounds_wait_and_the_next_command_takes_them_in(data, relay):
    lock = FileLock(data / "log.db")
    try:
        result = rounds("fetch", data, "--chain", "quicknet", "--round", FIRST)
        assert "handed over to the running service" in result.stdout
        assert (stored(data), len(Spool(data / "rounds-in").files(QUICKNET))) == ([], 1)
        result = as_json("fetch", data, "--chain", "quicknet", "--round", FIRST)
        assert (result["chains"][0]["known"], result["handed_over"]) == (1, True)
        assert relay.rounds_asked == [str(FIRST)]
    finally:
        lock.release()
    rounds("fetch", data, "--chain", "quicknet", "--round", FIRST)
    assert stored(data) == [FIRST]


def test_a_round_that_is_fetched_with_two_signatures_is_exit_1_also_beside_a_service(data, monkeypatch):
    async def twice(self, number):
        other = VerifiedRound(QUICKNET, number, recorded(QUICKNET, number + 1).signature)
        return verified(QUICKNET, number), other

    monkeypatch.setattr("beacon.rounds.fetcher.Fetcher.fetch", twice)
    lock = FileLock(data / "log.db")
    try:
        result = as_json("fetch", data, "--chain", "quicknet", "--round", FIRST, code=1)
    finally:
        lock.release()
    assert (result["twice"], result["handed_over"]) == ([{"chain": HASH, "round": FIRST}], True)


def test_a_running_service_takes_in_what_a_command_fetched_and_imported(tmp_path, relay):
    """All of it in real processes: a devnet, the service, and two commands beside it."""
    chain_file, data, exported = tmp_path / "chain.json", tmp_path / "data", tmp_path / "rounds.jsonl"
    state = tmp_path / "state.json"
    with program("devnet", "--port", "0", "--period", "1", "--state", str(state), "--out", str(chain_file)) as (_, url):
        run("init", data, "--origin", "beacon.example/fair", "--chain-file", chain_file, "--relay", url)
        without_port(data)
        chain = json.loads(chain_file.read_text())["hash"]

        def have(service, number):
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                with contextlib.suppress(urllib.error.HTTPError):
                    return json.loads(fetch(f"{service}/v1/chains/{chain}/rounds/{number}?wait=5"))
            raise AssertionError(f"round {number} was not taken in")

        with program("serve", "--dir", str(data)) as (process, service):
            result = as_json("fetch", data, "--chain", "devnet", "--range", "1-2", "--follow")
            assert (result["complete"], result["handed_over"]) == (True, True)
            assert have(service, 1)["round"] == 1
            assert have(service, 2)["round"] == 2
            rounds("export", data, exported)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        numbers = [json.loads(line)["round"] for line in exported.read_text().splitlines()]
        assert numbers == sorted(numbers)
        assert {1, 2} <= set(numbers)
        other = tmp_path / "other"
        run("init", other, "--origin", "beacon.example/other", "--chain-file", chain_file, "--relay", url)
        without_port(other)
        with program("serve", "--dir", str(other)) as (process, service):
            assert as_json("import", other, exported)["handed_over"]
            assert have(service, 1)["round"] == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    for folder in (data, other):
        rounds("verify", folder)
        run("log", "check", "--dir", folder)


def test_following_what_sessions_need_goes_on_until_told_to_stop(data):
    command = [sys.executable, "-m", "beacon", "rounds", "fetch", "--follow", "--json", "--dir", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until_caught(process, signal.SIGTERM)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert json.loads(output)["complete"]


def until_caught(process, number):
    """Wait until the process has a handler of its own for a signal (Linux tells; elsewhere it gets some seconds)."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        time.sleep(5)
        return
    for _ in range(600):
        caught = re.search(r"^SigCgt:\s*(\w+)", status.read_text(), re.MULTILINE)
        if process.poll() is not None or int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.1)
    raise AssertionError("the process never listened to the signal")


def interrupted(process, *, more=""):
    """Interrupt a command; what it says. Not 1, which says that a round is bad, and not 0: not all of them are there."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(more, timeout=20)
    assert (process.returncode, output) == (3, ""), errors
    assert "Traceback" not in errors
    return errors


def test_an_interrupted_fetch_is_exit_3(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        relay = f"http://127.0.0.1:{silent.getsockname()[1]}"
        initialise(tmp_path / "data", "beacon.example/test", [pinned_chain("quicknet", (relay,))], SystemClock())
        wanted = ["--chain", "quicknet", "--range", "1-100000", "--dir", str(tmp_path / "data")]
        with popen("fetch", *wanted) as process, silent.accept()[0]:
            assert "interrupted" in interrupted(process)


def test_an_interrupted_import_is_exit_3_and_the_next_one_goes_on(data):
    with popen("import", "-", "--dir", str(data)) as process:
        process.stdin.write(lines(FIRST).decode() + PIPE_BYTES * "\n")
        process.stdin.flush()  # comes back when the command has begun to read
        assert "interrupted" in interrupted(process, more=lines(FIRST + 1).decode())
    rounds("verify", data)
    with popen("import", "-", "--dir", str(data)) as process:
        process.communicate(lines(FIRST, FIRST + 1).decode(), timeout=20)
    assert stored(data) == [FIRST, FIRST + 1]


def popen(*arguments):
    command, pipe = [sys.executable, "-m", "beacon", "rounds", *arguments], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


# verify


def test_what_is_stored_verifies_again(data):
    rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 9}")
    result = as_json("verify", data)
    assert [(chain["name"], chain["rounds"], chain["damaged"]) for chain in result["chains"]] == [
        ("quicknet", 10, 0),
        ("default", 0, 0),
    ]
    assert result["ok"]
    assert as_json("verify", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 3}")["chains"][0]["rounds"] == 4


def test_a_damaged_round_is_found_and_is_exit_1(data):
    put(data, verified(QUICKNET, FIRST))
    stated = verified(QUICKNET, FIRST + 1)
    put(data, type(stated)(QUICKNET, FIRST + 2, stated.signature))
    result = as_json("verify", data, code=1)
    assert list(result["chains"][0]["bad"]) == [str(FIRST + 2)]
    assert f"DAMAGED quicknet round {FIRST + 2}: signature-invalid" in rounds("verify", data, code=1).stdout


def test_a_round_that_was_signed_twice_is_exit_1(data):
    put(data, verified(QUICKNET, FIRST))
    put(data, verified(QUICKNET, FIRST), "round_evidence")
    assert f"BROKEN quicknet round {FIRST} was signed twice" in rounds("verify", data, code=1).stdout


# import and export


def lines(*numbers, chain=QUICKNET):
    return b"".join(encode_line(chain, recorded(chain, number)) for number in numbers)


def test_rounds_are_carried_from_one_directory_to_another(data, tmp_path, relay):
    file = tmp_path / "rounds.jsonl"
    rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 5}")
    rounds("fetch", data, "--chain", "default", "--round", 367)
    assert "7 rounds" in rounds("export", data, file).stderr
    assert set(file.read_bytes().splitlines()) == set(
        (lines(*range(FIRST, FIRST + 6)) + lines(367, chain=DEFAULT)).splitlines()
    )
    assert rounds("export", data, "-", "--chain", "quicknet", "--range", f"{FIRST}-{FIRST}").stdout_bytes == lines(
        FIRST
    )
    other = tmp_path / "other"
    settings = [pinned_chain(name, (relay.url,)) for name in ("quicknet", "default")]
    initialise(other, "beacon.example/other", settings, SystemClock())
    asked = list(relay.asked)
    assert as_json("import", other, file)["new"] == 7
    result = as_json("import", other, file)
    assert (result["new"], result["known"], result["ok"]) == (0, 7, True)
    assert relay.asked == asked
    assert sorted(stored(other)) == sorted(stored(data))


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_cannot_be_finished_leaves_no_file_that_looks_whole(data, tmp_path, monkeypatch, error):
    rounds("fetch", data, "--chain", "quicknet", "--range", f"{FIRST}-{FIRST + 5}")
    monkeypatch.setattr(cli_rounds, "PAGE", 2)
    calls = []

    def encode(chain, stated):
        calls.append(stated)
        if len(calls) > 4:
            raise error
        return encode_line(chain, stated)

    monkeypatch.setattr(cli_rounds, "encode_line", encode)
    rounds("export", data, tmp_path / "rounds.jsonl", code=1 if isinstance(error, OSError) else 3)
    monkeypatch.undo()
    assert not (tmp_path / "rounds.jsonl").exists()
    assert "6 rounds" in rounds("export", data, tmp_path / "rounds.jsonl").stderr


def test_an_existing_file_is_not_overwritten(data, tmp_path):
    file = tmp_path / "mine"
    file.write_text("precious")
    assert "is not overwritten" in rounds("export", data, file, code=2).output
    assert file.read_text() == "precious"


def test_what_does_not_verify_is_refused_and_the_rest_is_in(data, tmp_path):
    file = tmp_path / "rounds.jsonl"
    forged = encode_line(QUICKNET, type(recorded(QUICKNET, 1))(FIRST + 1, recorded(QUICKNET, FIRST).signature))
    file.write_bytes(lines(FIRST) + forged + lines(FIRST + 2))
    result = as_json("import", data, file, code=1)
    assert (result["new"], result["refused"], result["bad"][0]["round"]) == (2, 1, FIRST + 1)
    assert stored(data) == [FIRST, FIRST + 2]
    assert f"refused round {FIRST + 1}: signature-invalid" in rounds("import", data, file, code=1).stderr


def test_a_line_that_is_no_round_ends_the_import_and_what_came_before_is_in(data, tmp_path):
    file = tmp_path / "rounds.jsonl"
    file.write_bytes(lines(FIRST) + b"oops\n" + lines(FIRST + 2))
    assert "stopped at line 2: " in rounds("import", data, file, code=1).stderr
    assert stored(data) == [FIRST]


def test_a_round_of_another_chain_is_no_round_here(data, tmp_path):
    file = tmp_path / "rounds.jsonl"
    file.write_bytes(lines(FIRST))
    assert "not known here" in rounds("import", data, file, "--chain", "default", code=1).stderr


def test_what_drand_answered_can_be_imported(data, tmp_path):
    file = tmp_path / "drand.jsonl"
    fields = json.loads(lines(FIRST))
    del fields["chain"]
    file.write_text(json.dumps(fields))
    assert "no chain" in rounds("import", data, file, code=1).stderr
    assert as_json("import", data, file, "--chain", "quicknet")["new"] == 1


def test_a_second_signature_of_a_stored_round_is_evidence_and_exit_1(data, tmp_path, monkeypatch):
    def both(chain, stated):
        return [VerifiedRound(chain, one.round, one.signature, one.previous_signature) for one in stated]

    monkeypatch.setattr("beacon.rounds.batching.check_many", both)
    file = tmp_path / "rounds.jsonl"
    put(data, VerifiedRound(QUICKNET, FIRST, recorded(QUICKNET, FIRST + 1).signature))
    file.write_bytes(lines(FIRST))
    result = as_json("import", data, file, code=1)
    assert result["twice"] == [{"chain": HASH, "round": FIRST}]
    with contextlib.closing(Database(data / "log.db").conn) as conn:
        assert conn.execute("SELECT round FROM round_evidence").fetchall() == [(FIRST,)]


def test_a_stored_row_that_does_not_verify_is_no_evidence_and_exit_1(data, tmp_path):
    file = tmp_path / "rounds.jsonl"
    put(data, VerifiedRound(QUICKNET, FIRST, recorded(QUICKNET, FIRST + 1).signature))
    file.write_bytes(lines(FIRST, FIRST + 2))
    assert (
        f"what log.db has as round {FIRST} of quicknet does not verify" in rounds("import", data, file, code=1).stderr
    )
    with contextlib.closing(Database(data / "log.db").conn) as conn:
        assert conn.execute("SELECT count(*) FROM round_evidence").fetchone() == (0,)
        assert conn.execute("SELECT round FROM rounds").fetchall() == [(FIRST,), (FIRST + 2,)]


# the devnet's options


def test_an_export_is_replayed_by_a_devnet_and_a_scheme_is_chosen(data, tmp_path):
    file = tmp_path / "rounds.jsonl"
    file.write_bytes(lines(*range(FIRST, FIRST + 5)))
    with program("devnet", "--port", "0", "--replay", str(file), "--speed", "100") as (process, url):
        answer = {}
        while answer.get("round") != FIRST + 4:
            answer = json.loads(fetch(f"{url}/v2/chains/{HASH}/rounds/latest"))
        assert answer["signature"] == recorded(QUICKNET, FIRST + 4).signature.hex()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    options = ["--scheme", "bls-bn254-unchained-on-g1", "--late", "2500", "--halt-after", "9", "--lie", "html"]
    with program("devnet", "--port", "0", *options) as (_, url):
        shown = json.loads(fetch(f"{url}/devnet"))
    assert (shown["scheme"], shown["late_ms"], shown["halt"], shown["lie"]) == (options[1], 2_500, True, "html")


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"", [], "no rounds, or those of several chains"),
        (lines(FIRST) + lines(367, chain=DEFAULT), [], "no rounds, or those of several chains"),
        (b"oops\n", [], "line 1: "),
        (lines(FIRST), ["--chain", "nothing"], "neither a file nor a pinned chain"),
        (lines(FIRST), ["--lie", "second-signature"], "one valid signature"),
    ],
)
def test_what_a_devnet_cannot_do_is_exit_2(tmp_path, content, options, says):
    file = tmp_path / "rounds.jsonl"
    file.write_bytes(content)
    assert says in run("devnet", "--port", "0", "--replay", file, *options, code=2).output
