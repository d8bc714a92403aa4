"""A service clock behind the chain: found by asking for one round that should not be there yet, and by nothing else."""

import asyncio

import pytest

from beacon.rounds import Policy
from beacon.rounds.network import Network
from beacon.rounds.refusals import Reason, Refusal
from beacon.rounds.relays import Relay, open_session
from beacon.rounds.schedule import Schedule
from tests.lying_relay import LIES, LyingRelay
from tests.round_support import DEFAULT, FASTNET, QUICKNET, SECRET, FakeClock, at, recorded, until, verified
from tests.test_rounds import HASH, World

CURRENT, AHEAD = 72_800, 72_802
POLICY = Policy(attempts=1, timeout=400)


def untouched(health):
    return (health.refused.total(), health.failures_in_a_row, health.last_failure) == (0, 0, None)


async def test_a_slow_clock_is_found_at_the_first_tick():
    async with LyingRelay() as server, World(at(CURRENT), [server]) as world:
        await world.rounds.tick()
        assert world.told == [CURRENT, AHEAD]
        assert world.rounds.trouble(HASH) == "clock-unsure"
        assert world.store.rounds[HASH, AHEAD].signature == recorded(QUICKNET, AHEAD).signature


async def test_a_clock_that_stays_slow_never_catches_up_with_the_newest_round():
    clock = at(72_760)
    async with LyingRelay() as server, World(clock, [server]) as world:
        for _ in range(20):
            await world.rounds.tick()
            for _ in range(30):
                assert world.rounds.trouble(HASH) == "clock-unsure"
                clock.advance(100)


async def test_a_clock_that_is_set_right_is_trusted_again():
    clock, true = at(72_760), at(72_820)
    async with LyingRelay(clock=true) as server, World(clock, [server]) as world:
        await world.rounds.tick()
        assert world.rounds.trouble(HASH) == "clock-unsure"
        clock.time = true.time
        await world.rounds.tick()
        assert (world.newest, world.rounds.trouble(HASH)) == (72_820, None)
        asked = list(server.asked)
        await world.rounds.tick()
        assert server.asked == asked


@pytest.mark.parametrize("status", [404, 425, 500, 503])
async def test_a_right_clock_sees_and_records_nothing(status):
    clock = at(CURRENT)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        server.not_yet = status
        await world.rounds.tick()
        assert server.rounds_asked == [str(CURRENT), str(AHEAD)]
        assert world.rounds.trouble(HASH) is None
        assert world.told == [CURRENT]
        [health] = world.rounds.status(HASH).relays
        assert untouched(health)


async def test_it_is_asked_no_more_often_than_the_current_round_is_refreshed():
    clock = at(72_760)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        for _ in range(24):
            await world.rounds.tick()
            clock.advance(3_000)
        asked = [int(number) for number in server.rounds_asked]
        assert asked[::2] == world.told == list(range(72_760, 72_784, 3))
        assert asked[1::2] == [number + 2 for number in world.told]


async def test_after_a_restart_it_is_asked_though_the_newest_round_is_fresh():
    clock = at(CURRENT)
    async with LyingRelay() as server, World(clock, []) as first:
        await first.rounds.accept(verified(QUICKNET, CURRENT))
        async with World(clock, [server], store=first.store) as world:
            await world.rounds.tick()
            assert server.rounds_asked == [str(AHEAD)]
            assert world.rounds.trouble(HASH) == "clock-unsure"


async def test_one_relay_that_says_not_yet_does_not_hide_it():
    clock = at(CURRENT)
    async with (
        LyingRelay(clock=clock) as hiding,
        LyingRelay() as honest,
        World(clock, [hiding, honest]) as world,
    ):
        await world.rounds.tick()
        assert world.rounds.trouble(HASH) == "clock-unsure"


@pytest.mark.parametrize("lie", sorted(set(LIES) - {"future-round"}))
async def test_no_lie_about_a_round_ahead_is_believed_or_counted(lie):
    clock = at(CURRENT)
    async with LyingRelay() as server, World(clock, [server]) as world:
        await world.rounds.accept(verified(QUICKNET, CURRENT))
        server.lie = lie
        await world.rounds.tick()
        assert len(server.asked) > 0
        assert (world.newest, world.rounds.trouble(HASH)) == (CURRENT, None)
        [health] = world.rounds.status(HASH).relays
        assert untouched(health)


async def test_a_round_that_somebody_waits_for_is_not_asked_for_ahead():
    clock = at(CURRENT)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        world.rounds.want(HASH, AHEAD)
        await world.rounds.tick()
        assert server.rounds_asked == [str(CURRENT), str(AHEAD + 1)]


async def test_what_was_asked_for_ahead_is_asked_for_past_the_caches_later():
    clock = at(CURRENT)
    async with LyingRelay(clock=clock) as server, open_session() as session:
        relay = Relay(server.url, session, clock)
        with pytest.raises(ValueError, match="is not due"):
            await relay.fetch(QUICKNET, AHEAD)
        assert server.asked == []
        with pytest.raises(Refusal) as caught:
            await relay.fetch(QUICKNET, AHEAD, ahead=True)
        assert caught.value.reason is Reason.NOT_YET
        clock.time = QUICKNET.time(AHEAD)
        await relay.fetch(QUICKNET, AHEAD)
        assert server.headers[-1]["Cache-Control"] == "no-cache"
        await relay.fetch(QUICKNET, CURRENT)
        assert "Cache-Control" not in server.headers[-1]


async def test_a_held_look_ahead_delays_no_wake():
    """It goes on beside the schedule's work: a round that falls due meanwhile is fetched, and `stop` ends it."""
    clock = at(CURRENT)
    async with LyingRelay(clock=clock) as server:
        world = World(clock, [server], policy=POLICY)
        await world.rounds.start(scheduled=False)
        follower = world.rounds._followers[HASH]
        looked = []

        async def held(number):
            looked.append(number)
            await asyncio.Event().wait()

        follower._fetcher.look_ahead = held
        await world.rounds._wake(follower)
        assert world.told == [CURRENT]
        await until(lambda: looked)
        world.rounds.want(HASH, CURRENT + 1)
        clock.advance(3_000)
        await world.rounds._wake(follower)
        assert world.told == [CURRENT, CURRENT + 1]
        assert looked == [AHEAD]
        looking = world.rounds._looking[HASH]
        await world.rounds.stop()
        assert looking.cancelled()


async def test_the_schedule_finds_it_too(monkeypatch):
    added = []
    monkeypatch.setattr(Schedule, "add", lambda self, chain, work, lead: added.append(work))
    monkeypatch.setattr(Schedule, "start", lambda self: None)
    async with LyingRelay() as server:
        world = World(at(CURRENT), [server])
        await world.rounds.start()
        await added[0]()
        await until(lambda: world.rounds.trouble(HASH) == "clock-unsure")
        await world.rounds.stop()


@pytest.mark.parametrize(
    ("chain", "ahead"),
    [(QUICKNET, 2), (DEFAULT, 2), (FASTNET, 2), (Network.make(SECRET, bytes(32), 1_800_000_000, 1).chain, 3)],
)
def test_how_far_ahead(chain, ahead):
    assert Policy().ahead(chain) == ahead
    assert 1_000 * chain.period * ahead >= 3_000


async def test_nothing_is_asked_for_before_genesis():
    clock = FakeClock(QUICKNET.time(1) - 60_000)
    async with LyingRelay() as server, World(clock, [server]) as world:
        await world.rounds.tick()
        assert server.asked == []
