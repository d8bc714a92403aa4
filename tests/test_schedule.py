"""The wakes in phase with a chain, the worker process, and both in a service that runs by itself."""

import asyncio
import os
import signal
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.clock import ShiftedClock, SystemClock
from beacon.rounds import Followed, Policy, Rounds
from beacon.rounds.refusals import Reason, Refusal
from beacon.rounds.schedule import PhaseTrigger, Schedule
from beacon.rounds.verify import VerifyPool, check, check_many
from tests.lying_relay import LyingRelay
from tests.round_support import (
    DEFAULT,
    QUICKNET,
    FakeClock,
    InlineVerifier,
    MemoryRoundStore,
    at,
    own_chain,
    recorded,
    until,
)
from verifier.bls import fast, reference
from verifier.drand import ChainInfo, VerifiedRound, verify_round

ONCE = Policy(attempts=1, timeout=400)
HASH = QUICKNET.hash


async def test_the_worker_process_verifies_and_refuses():
    pool = VerifyPool()
    pool.start()
    try:
        stated = recorded(QUICKNET, 1000)
        assert await pool.verify(QUICKNET, stated) == verify_round(QUICKNET, stated)
        with pytest.raises(Refusal) as caught:
            await pool.verify(QUICKNET, replace(stated, round=1001))
        assert caught.value.reason is Reason.SIGNATURE
        with pytest.raises(Refusal) as caught:
            await pool.verify(QUICKNET, replace(stated, signature=bytes([0xC0]) + bytes(47)))
        assert caught.value.reason is Reason.IDENTITY
        with pytest.raises(Refusal) as caught:
            await pool.verify(QUICKNET, replace(stated, round=0))
        assert caught.value.reason is Reason.FIELDS
        for process in list(pool._pool._processes.values()):
            os.kill(process.pid, signal.SIGKILL)
        assert await pool.verify(QUICKNET, stated) == verify_round(QUICKNET, stated)
    finally:
        await pool.stop()


def test_a_fetched_round_is_checked_on_the_reference_and_many_on_the_native_backend(monkeypatch):
    used = []
    for backend in (reference, fast):

        def agree(*arguments, backend=backend, original=backend.pairings_agree):
            used.append(backend.NAME)
            return original(*arguments)

        monkeypatch.setattr(backend, "pairings_agree", agree)
    stated = [recorded(QUICKNET, number) for number in (72_790, 72_791)]
    assert isinstance(check(QUICKNET, stated[0]), VerifiedRound)
    assert used == ["py-ecc"]
    used.clear()
    assert all(isinstance(checked, VerifiedRound) for checked in check_many(QUICKNET, stated))
    assert used == ["arkworks"]


async def test_a_worker_that_dies_each_time_is_an_error_and_not_a_round(monkeypatch):
    pool = VerifyPool()

    async def die(*_):
        raise BrokenProcessPool

    monkeypatch.setattr(pool, "_run", die)
    with pytest.raises(BrokenProcessPool):
        await pool.verify(QUICKNET, recorded(QUICKNET, 1000))


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(time=st.integers(0, 2**42), lead=st.integers(0, 1_000))
def test_wakes_stand_in_phase_with_the_rounds(time, lead):
    clock = FakeClock(time)
    pause = PhaseTrigger(QUICKNET, clock, lead).pause()
    wake = time + pause
    assert pause >= 1
    if pause < 3_600_000:
        assert (wake - lead - QUICKNET.time(1)) % 3_000 == 0
        assert QUICKNET.current(wake - lead) == max(1, QUICKNET.current(time - lead) + 1)


def test_a_leap_forward_gives_one_wake_and_not_one_for_each_period():
    clock = at(72_800)
    trigger = PhaseTrigger(QUICKNET, clock, 400)
    long_ago = NOW - timedelta(days=20_000)
    assert trigger.get_next_fire_time(long_ago, NOW) == NOW + timedelta(milliseconds=2_900)


def test_the_lead_is_at_most_a_tenth_of_the_period():
    assert [Policy().lead_of(chain) for chain in (QUICKNET, DEFAULT)] == [300, 400]


def fast_chain(clock):
    """A chain of one-second rounds, of which one has just fallen due by the clock."""
    chain = own_chain()
    genesis = clock.now() // 1000 - 100
    key = chain.public_key
    digest = (
        __import__("hashlib")
        .sha256((1).to_bytes(4, "big") + genesis.to_bytes(8, "big") + key + chain.genesis_seed + b"own")
        .digest()
    )
    return ChainInfo(digest, key, 1, genesis, chain.genesis_seed, chain.scheme, "own")


@pytest.mark.parametrize("offset", [0, -86_400_000 * 900 - 421])
async def test_the_schedule_wakes_at_the_start_and_after_each_round_by_the_services_clock(offset):
    clock = ShiftedClock(offset)
    chain = fast_chain(clock)
    wakes = []

    async def work():
        wakes.append(chain.current(clock.now()))

    schedule = Schedule(clock)
    schedule.add(chain, work, 100)
    schedule.start()
    await until(lambda: len(set(wakes)) >= 3)
    await schedule.stop()
    count = len(wakes)
    assert wakes == sorted(wakes)
    await asyncio.sleep(0.05)
    assert len(wakes) == count


async def test_the_schedule_wakes_on_request_and_survives_work_that_fails():
    clock = at(72_800, more=1_000)
    wakes = []

    async def work():
        wakes.append(1)
        raise RuntimeError

    schedule = Schedule(clock)
    schedule.add(QUICKNET, work, 400)
    schedule.start()
    await until(lambda: len(wakes) == 1)
    schedule.wake(QUICKNET)
    await until(lambda: len(wakes) == 2)
    await schedule.stop()
    schedule.wake(QUICKNET)
    await schedule.stop()


async def test_a_wake_that_comes_late_is_not_dropped():
    wakes = []

    async def work():
        wakes.append(1)

    schedule = Schedule(at(10, chain=DEFAULT))
    schedule.add(DEFAULT, work, 400)
    schedule.start()
    await until(lambda: len(wakes) == 1)
    schedule._scheduler.modify_job(DEFAULT.hash.hex(), next_run_time=datetime.now(UTC) - timedelta(hours=1))
    await until(lambda: len(wakes) == 2)
    await schedule.stop()


async def test_a_chain_that_sleeps_too_long_is_woken_by_the_loops_clock():
    clock = at(72_800)
    wakes = []

    async def work():
        wakes.append(1)

    schedule = Schedule(clock)
    schedule.add(QUICKNET, work, 400)
    schedule.start()
    await until(lambda: len(wakes) == 1)
    schedule._scheduler.modify_job(HASH.hex(), next_run_time=datetime.now(UTC) + timedelta(days=1))
    loop_time = asyncio.get_running_loop().time()
    schedule.check_on(loop_time + 8)
    await asyncio.sleep(0.05)
    assert len(wakes) == 1
    schedule.check_on(loop_time + 10)
    await until(lambda: len(wakes) == 2)
    await schedule.stop()


async def test_stopping_cancels_what_runs():
    clock = at(72_800)
    begun = asyncio.Event()
    ended = []

    async def work():
        begun.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    schedule = Schedule(clock)
    schedule.add(QUICKNET, work, 400)
    schedule.start()
    await begun.wait()
    await schedule.stop()
    assert ended == ["cancelled"]


async def test_a_scheduled_service_follows_by_itself_with_its_own_worker():
    clock = ShiftedClock(QUICKNET.time(72_760) - SystemClock().now())
    store = MemoryRoundStore()
    told = []

    async def hear(verified):
        told.append(verified.round)

    async with LyingRelay(clock=clock) as server:
        rounds = Rounds([Followed(QUICKNET, (server.url,))], store, clock)
        rounds.on_round(hear)
        await rounds.start()
        await until(lambda: told)
        rounds.want(HASH, 72_755)
        await until(lambda: 72_755 in told)
        await rounds.stop()
    assert told[0] >= 72_760
    assert isinstance(store.rounds[HASH, 72_755], VerifiedRound)


async def test_a_due_round_that_is_wanted_does_not_wait_for_the_next_one():
    clock = at(2_183_665, chain=DEFAULT)
    told = []

    async def hear(verified):
        told.append(verified.round)

    async with LyingRelay(clock=clock) as server:
        chains = [Followed(DEFAULT, (server.url,))]
        rounds = Rounds(chains, MemoryRoundStore(), clock, policy=ONCE, verifier=InlineVerifier())
        rounds.on_round(hear)
        await rounds.start()
        await until(lambda: told == [2_183_665])
        rounds.want(DEFAULT.hash, 2_183_661)
        await until(lambda: told == [2_183_665, 2_183_661])
        await rounds.stop()


async def test_a_start_that_fails_leaves_nothing_running():
    class Broken(MemoryRoundStore):
        async def newest(self, chain):
            raise OSError("no store")

    rounds = Rounds([Followed(QUICKNET, ())], Broken(), at(72_800))
    with pytest.raises(OSError, match="no store"):
        await rounds.start()
    assert (rounds._session, rounds._pool._pool) == (None, None)
