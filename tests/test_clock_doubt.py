"""A clock that is wrong neither voids nor reveals anything, and does not push the log's time ahead."""

import pytest

from beacon.errors import ApiError
from beacon.sessions.doubt import ClockDoubt
from tests.round_support import QUICKNET, FakeClock
from tests.session_support import ALICE, FIRST, ReplayedRounds, service

HOUR = 3_600_000


class Machine:
    """A monotonic clock that the test moves."""

    def __init__(self):
        self.time = 0

    def __call__(self):
        return self.time


@pytest.fixture
async def doubt():
    clock, machine = FakeClock(QUICKNET.time(FIRST) + 500), Machine()
    rounds = ReplayedRounds(clock)
    await rounds.arrive(FIRST)
    made = ClockDoubt(rounds, clock, machine)
    made.clock, made.machine, made.rounds = clock, machine, rounds
    return made


async def test_a_clock_that_fits_the_newest_round_is_believed(doubt):
    assert doubt.about(QUICKNET) is None


@pytest.mark.parametrize("leap", [HOUR, -HOUR, 20_000])
async def test_a_leap_is_doubted_until_a_round_confirms_the_clock(doubt, leap):
    assert doubt.about(QUICKNET) is None
    doubt.clock.advance(leap)
    doubt.machine.time += 100
    assert "leapt" in doubt.about(QUICKNET)
    doubt.machine.time += 10_000
    doubt.clock.advance(10_000)
    assert "leapt" in doubt.about(QUICKNET)
    doubt.clock.time = QUICKNET.time(FIRST + 1) + 200
    await doubt.rounds.arrive(FIRST + 1)
    assert doubt.about(QUICKNET) is None


async def test_a_chain_that_stands_still_does_not_hold_the_service_for_ever(doubt):
    assert doubt.about(QUICKNET) is None
    for elapsed, doubtful in ((18_000, False), (19_000, False), (60_000, False), (10 * HOUR, False)):
        doubt.clock.time = QUICKNET.time(FIRST) + 500 + elapsed
        doubt.machine.time = elapsed
        assert bool(doubt.about(QUICKNET)) is doubtful


async def test_rounds_that_come_in_and_do_not_fit_tell_that_the_clock_is_wrong():
    clock, machine = FakeClock(QUICKNET.time(FIRST) + HOUR), Machine()
    rounds = ReplayedRounds(clock)
    await rounds.arrive(FIRST)
    doubt = ClockDoubt(rounds, clock, machine)
    for number in range(FIRST, FIRST + 20):
        await rounds.arrive(number)
        assert "do not fit" in doubt.about(QUICKNET)
        clock.advance(3_000)
        machine.time += 3_000
    clock.advance(20_000)
    machine.time += 20_000
    assert doubt.about(QUICKNET) is None


async def test_a_leap_voids_and_reveals_nothing_and_draws_wait(tmp_path):
    machine = Machine()
    async with service(tmp_path, monotonic=machine) as running:
        taking = (await running.seal()).session
        drawing = (await running.seal(participants=[])).session
        number = (await running.sessions.view(drawing))["round"]
        for late in range(FIRST + 1, number + 1):
            machine.time += QUICKNET.time(late) + 500 - running.clock.time
            await running.reach(late)
        assert await running.state(taking) == "void"
        taking = (await running.seal()).session
        size, before = running.log.latest().size, running.clock.time
        running.clock.advance(48 * HOUR)
        machine.time += 100
        await running.keeper.tick()
        for command in (running.draw(drawing), running.sessions.reveal(ALICE, drawing)):
            with pytest.raises(ApiError) as caught:
                await command
            assert caught.value.code == "clock-unsure"
        assert running.log.latest().size == size
        running.clock.time = before + 100
        assert (await running.draw(drawing)).first_n == 1
        assert await running.state(taking) == "sealed"
        assert (await running.seal()).state["state"] == "sealed"
