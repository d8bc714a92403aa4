"""Rules of sessions at their exact edges, each test for one line of the service that no other test holds in place."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from beacon.errors import ApiError
from beacon.sessions import commands as rulings
from beacon.store.errors import WriteFailed
from tests.round_support import QUICKNET, recorded
from tests.session_support import ALICE, FIRST, PLAYERS, MemorySeeds, service
from verifier import entries
from verifier.drand import VerifiedRound

WAIT = 600_000
UNSURE = 19_001


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


async def refused(code, awaitable, rule=None):
    with pytest.raises(ApiError) as caught:
        await awaitable
    assert caught.value.code == code, caught.value
    assert caught.value.problem.rule == rule


async def types(made):
    """The types of all entries that are durable."""
    size = made.log.latest().size
    return [json.loads(await made.log.entry(index))["type"] for index in range(size)]


# --- private first ---------------------------------------------------------------------------------------------------


class HeldSeeds(MemorySeeds):
    """`keep` tells that it was asked, and waits until it is let go."""

    def __init__(self):
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def keep(self, items):
        self.asked.set()
        assert self.go.wait(30)
        super().keep(items)


class FailingSeeds(MemorySeeds):
    """`keep` fails once."""

    failures = 1

    def keep(self, items):
        if self.failures:
            self.failures -= 1
            raise WriteFailed("no space left")
        super().keep(items)


async def test_nothing_is_sealed_while_the_seed_is_not_kept(tmp_path):
    seeds = HeldSeeds()
    async with service(tmp_path, seeds=seeds) as made:
        sealing = asyncio.create_task(made.seal(participants=[]))
        assert await asyncio.to_thread(seeds.asked.wait, 30)
        assert await types(made) == ["log"]
        assert not sealing.done()
        seeds.go.set()
        written = await sealing
        assert await types(made) == ["log", "chain", "seal"]
        assert set(seeds.kept) == {bytes.fromhex(written.state["commitment"])}
        await made.reach(written.state["round"])
        await made.draw(written.session)


async def test_nothing_is_sealed_when_the_seed_cannot_be_kept(tmp_path):
    async with service(tmp_path, seeds=FailingSeeds()) as made:
        with pytest.raises(WriteFailed):
            await made.seal()
        assert await types(made) == ["log"]
        assert made.book.all_open() == []
        assert (await made.seal()).state["host_seq"] == 1


async def test_a_seal_that_is_refused_keeps_no_seed(tmp_path):
    seeds = MemorySeeds()
    async with service(tmp_path, seeds=seeds) as made:
        recipes = {f"w{i}": {"kind": "weighted", "weights": [2**40] * 300, "count": 1} for i in range(64)}
        await refused("entry-too-long", made.seal(recipes=recipes), "3.1")
        assert seeds.kept == {}


# --- which chain -----------------------------------------------------------------------------------------------------


async def test_a_retired_chain_takes_no_session_past_its_last_round(tmp_path):
    last = FIRST + 5
    async with service(tmp_path, chain=replace(QUICKNET, last_round=last)) as made:
        await refused("chain-retired", made.seal(round=last + 1), "2.5")
        await refused("chain-retired", made.seal(), "2.5")
        assert (await made.seal(round=last)).state["round"] == last


async def test_a_chain_that_has_ended_takes_no_session_though_its_rounds_tell_no_time_any_more(tmp_path):
    last = FIRST + 5
    async with service(tmp_path, chain=replace(QUICKNET, last_round=last)) as made:
        made.clock.time = QUICKNET.time(last) + UNSURE
        await refused("chain-retired", made.seal(), "2.5")
        await refused("chain-retired", made.seal(round=last - 1), "2.5")


# --- contributions ---------------------------------------------------------------------------------------------------


async def test_a_session_takes_so_many_contributions_and_no_more(running, monkeypatch):
    monkeypatch.setattr(entries, "MAX_CONTRIBUTIONS", 2)
    session = (await running.seal(participants=[], open=True)).session
    for name in ("a", "b"):
        await running.contribute(session, name)
    await refused("too-many-contributions", running.contribute(session, "c"), "6.4")
    assert (await running.sessions.view(session))["contributions"] == 2


def between(made, monkeypatch, happens):
    """Have something happen after a command was checked, and before its entry gets its time."""
    append = made.log.append

    async def later(build, staged=None):
        happens()
        return await append(build, staged)

    monkeypatch.setattr(made.log, "append", later)


@pytest.mark.parametrize("leap", [UNSURE, -1_501])
@pytest.mark.parametrize("command", ["seal", "contribute"])
async def test_a_clock_that_becomes_unsure_before_the_entry_has_its_time(running, monkeypatch, command, leap):
    """Back by a second and a half, the clock alone is out: the entry's time is the last entry's."""
    session = (await running.seal(round=FIRST + 60)).session
    between(running, monkeypatch, lambda: running.clock.advance(leap))
    size = running.log.latest().size
    commands = {
        "seal": lambda: running.seal(round=FIRST + 60),
        "contribute": lambda: running.contribute(session, "white"),
    }
    await refused("clock-unsure", commands[command](), "6.11")
    assert running.log.latest().size == size


# --- 6.11: the clock and the entry's time, each alone ----------------------------------------------------------------


async def test_a_clock_behind_the_chain_stops_a_void_though_the_entrys_time_fits(running):
    session = (await running.seal()).session
    running.clock.time = QUICKNET.time(FIRST) - 1_001
    await refused("clock-unsure", running.sessions.void(ALICE, session), "6.11")
    running.clock.advance(1)
    assert (await running.sessions.void(ALICE, session)).state["state"] == "void"


@pytest.mark.parametrize(("ahead", "refuses"), [(UNSURE, True), (UNSURE - 1, False)])
@pytest.mark.parametrize("command", ["seal", "contribute", "void"])
async def test_a_log_ahead_of_the_chain_stops_it_though_the_clock_fits(running, command, ahead, refuses):
    drawn = await running.seal(participants=[])
    other = (await running.seal(round=FIRST + 80)).session
    number = drawn.state["round"]
    await running.reach(number)
    running.clock.time = QUICKNET.time(number) + ahead
    await running.draw(drawn.session)
    running.clock.time = QUICKNET.time(number) + 500
    size = running.log.latest().size
    commands = {
        "seal": lambda: running.seal(round=FIRST + 80),
        "contribute": lambda: running.contribute(other, "white"),
        "void": lambda: running.sessions.void(ALICE, other),
    }
    if refuses:
        await refused("clock-unsure", commands[command](), "6.11")
        assert running.log.latest().size == size
    else:
        await commands[command]()
        assert running.log.latest().size == size + 1


@pytest.mark.parametrize(("drift", "done"), [(-1_001, False), (-1_000, True)])
async def test_a_clock_behind_the_chain_by_more_than_a_second_stops_everything(running, drift, done):
    """The log's last entry lies ahead, so that only the clock itself is out."""
    session = (await running.seal(participants=[*PLAYERS, {"id": "third"}])).session
    other = (await running.seal()).session
    size = running.log.latest().size
    running.clock.time = QUICKNET.time(FIRST) + drift
    commands = (
        lambda: running.seal(),
        lambda: running.contribute(session, "white"),
        lambda: running.sessions.void(ALICE, other),
    )
    for command in commands:
        if done:
            await command()
        else:
            await refused("clock-unsure", command(), "6.11")
    assert running.log.latest().size == size + (3 if done else 0)


# --- closing and voiding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("newest", "expected"), [(-1, "closed"), (0, "sealed")])
async def test_no_close_once_the_round_is_known_whatever_the_clock_says(running, newest, expected):
    written = await running.seal(min_contributions=0)
    number = written.state["round"]
    running.clock.time = written.state["round_time"] - 900
    running.rounds.listeners.clear()
    await running.rounds.arrive(number + newest)
    await running.keeper.tick()
    assert await running.state(written.session) == expected


@pytest.mark.parametrize(("newest", "expected"), [(-1, "void"), (0, "sealed")])
async def test_no_void_below_the_minimum_once_the_round_is_known(running, newest, expected):
    written = await running.seal()
    number = written.state["round"]
    running.clock.time = written.state["round_time"] - 900
    running.rounds.listeners.clear()
    await running.rounds.arrive(number + newest)
    await running.keeper.tick()
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == (expected, "below-minimum" if expected == "void" else None)


@pytest.mark.parametrize(("early", "expected"), [(1, ("sealed", None)), (0, ("void", "missed-close"))])
async def test_a_close_is_missed_at_the_rounds_time_and_not_a_moment_before(running, early, expected):
    """No round has come for so long that 6.11 lets nobody close."""
    written = await running.seal(min_contributions=0)
    running.clock.time = written.state["round_time"] - early
    await running.keeper.tick()
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == expected


@pytest.mark.parametrize(("early", "expected"), [(1, ("anchored", None)), (0, ("void", "missed-reveal"))])
async def test_a_reveal_is_missed_only_after_the_wait_behind_a_late_round(running, early, expected):
    """`reveal_by` has passed for five minutes."""
    due = QUICKNET.time(FIRST + 20)
    session = (await running.seal(participants=[], round=FIRST + 20, reveal_by=due + WAIT, timelock=False)).session
    running.seeds.kept.clear()
    running.clock.time = due + 300_000
    await running.rounds.arrive(FIRST + 20)
    running.clock.advance(WAIT - early)
    await running.keeper.tick()
    view = await running.sessions.view(session)
    assert (view["state"], view["reason"]) == expected


async def test_a_reveal_is_not_missed_before_its_deadline(running):
    written = await running.seal(participants=[], round=FIRST + 20, reveal_by=QUICKNET.time(FIRST + 20) + 2 * WAIT)
    await running.reach(FIRST + 20)
    state, reveal_by = running.book.get(written.session), written.state["reveal_by"]
    assert rulings.missed_reveal(state, QUICKNET, reveal_by - 1) == []
    assert [entry.reason for entry in rulings.missed_reveal(state, QUICKNET, reveal_by)] == ["missed-reveal"]


# --- one entry for a round -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [2, 5])
async def test_a_round_that_is_told_many_times_at_once_is_logged_once(running, times):
    written = await running.seal(participants=[], round=FIRST + 10)
    running.clock.time = written.state["round_time"] + 500
    verified = VerifiedRound(QUICKNET, FIRST + 10, recorded(QUICKNET, FIRST + 10).signature)
    held, begun = threading.Event(), threading.Event()

    def hold(_db):
        begun.set()
        held.wait()

    holding = running.log.writer.submit(hold)
    await asyncio.to_thread(begun.wait)
    telling = [asyncio.create_task(running.keeper.on_round(verified)) for _ in range(times)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in telling)
    held.set()
    await asyncio.gather(*telling)
    await asyncio.wrap_future(holding)
    assert (await types(running)).count("round") == 1
    assert await running.state(written.session) == "anchored"


async def test_a_round_that_is_told_again_while_its_entry_is_on_its_way(running, monkeypatch):
    """The second telling was let through by what was durable then, and finds the entry when its turn comes."""
    written = await running.seal(participants=[], round=FIRST + 10)
    running.clock.time = written.state["round_time"] + 500
    verified = VerifiedRound(QUICKNET, FIRST + 10, recorded(QUICKNET, FIRST + 10).signature)
    append, go = running.log.append, asyncio.Event()

    async def later(build):
        await go.wait()
        return await append(build)

    monkeypatch.setattr(running.log, "append", later)
    second = asyncio.create_task(running.keeper.on_round(verified))
    await asyncio.sleep(0)
    monkeypatch.setattr(running.log, "append", append)
    await running.keeper.on_round(verified)
    go.set()
    await second
    assert (await types(running)).count("round") == 1
