"""Chains followed with a clock that stands still: what is fetched when, what waits, and what happens when drand fails."""

import asyncio
from dataclasses import replace

import pytest
import structlog

from beacon.errors import PROBLEMS
from beacon.rounds import Followed, Policy, Rounds
from beacon.rounds.refusals import Reason
from beacon.sessions.rules import NotYetError
from tests.lying_relay import LIES, LyingRelay
from tests.round_support import (
    DEFAULT,
    FASTNET,
    QUICKNET,
    SECRET,
    FakeClock,
    InlineVerifier,
    MemoryRoundStore,
    at,
    own_chain,
    recorded,
    verified,
)
from verifier.bls import reference
from verifier.drand import Round, verify_round

ONCE = Policy(attempts=1, timeout=400)
HASH = QUICKNET.hash


class World:
    """Rounds that follow quicknet over the given relays, with everything around them to look at."""

    def __init__(self, clock, servers, *, chain=QUICKNET, policy=ONCE, store=None):
        self.clock = clock
        self.store = store or MemoryRoundStore()
        self.told = []
        followed = Followed(chain, tuple(server.url for server in servers))
        self.rounds = Rounds([followed], self.store, clock, policy=policy, verifier=InlineVerifier(), sleep=clock.sleep)
        self.rounds.on_round(self._hear)

    async def _hear(self, verified):
        self.told.append(verified.round)

    async def __aenter__(self):
        await self.rounds.start(scheduled=False)
        return self

    async def __aexit__(self, *_):
        await self.rounds.stop()

    @property
    def newest(self):
        newest = self.rounds.newest(next(iter(self.rounds._chains)))
        return None if newest is None else newest.round


async def test_the_current_round_is_fetched_at_the_start():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        assert world.rounds.trouble(HASH) == "no-verified-round"
        await world.rounds.tick()
        assert (world.newest, world.told) == (72_800, [72_800])
        assert world.rounds.trouble(HASH) is None
        assert await world.rounds.get(HASH, 72_800) == verified(QUICKNET, 72_800)
        assert await world.rounds.get(HASH, 72_799) is None


async def test_when_idle_the_newest_round_is_never_older_than_nine_seconds_and_a_period():
    clock = at(72_750)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        ages = []
        for _ in range(24):
            await world.rounds.tick()
            clock.advance(3_000)
            ages.append(clock.now() - world.rounds.newest(HASH).time)
            assert world.rounds.trouble(HASH) is None
        assert max(ages) < 9_000 + 3_000 + 1_000
        assert len([number for number in server.rounds_asked if int(number) in world.told]) == 8
        assert len(server.rounds_asked) == 16


async def test_wanted_rounds_are_fetched_when_due_and_not_before():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        world.rounds.want(HASH, 72_802)
        with structlog.testing.capture_logs() as logs:
            for _ in range(2):
                await world.rounds.tick()
                clock.advance(3_000)
                assert "72802" not in server.rounds_asked
        assert logs == []
        await world.rounds.tick()
        assert world.told == [72_800, 72_802]
        assert world.rounds.status(HASH).wanted == ()


async def test_a_round_that_is_stored_is_not_fetched_again_and_still_told():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        await world.rounds.tick()
        asked = list(server.asked)
        world.rounds.want(HASH, 72_800)
        await world.rounds.tick()
        assert world.told == [72_800, 72_800]
        assert server.asked == asked


async def test_a_forgotten_round_is_not_fetched():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        world.rounds.want(HASH, 72_790)
        world.rounds.forget(HASH, 72_790)
        await world.rounds.tick()
        assert world.told == [72_800]


@pytest.mark.parametrize("number", [0, -1, QUICKNET.final_round + 1])
async def test_rounds_that_never_come_cannot_be_wanted(number):
    async with World(at(72_800), []) as world:
        with pytest.raises(ValueError, match="the chain has rounds"):
            world.rounds.want(HASH, number)


async def test_after_downtime_all_wanted_rounds_come_in_order():
    clock = at(72_839)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        for number in (72_820, 72_751, 72_770, 72_790):
            world.rounds.want(HASH, number)
        await world.rounds.tick()
        assert world.told == [72_839, 72_751, 72_770, 72_790, 72_820]


async def test_after_a_restart_the_newest_round_is_known_from_the_store():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        await world.rounds.tick()
    async with World(clock, [], store=world.store) as again:
        assert again.newest == 72_800
        assert again.rounds.trouble(HASH) is None


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_leaves_the_round_wanted_and_nothing_stored(lie):
    clock = at(72_830)
    async with LyingRelay(clock=clock, lie=lie) as server, World(clock, [server]) as world:
        world.rounds.want(HASH, 72_825)
        await world.rounds.tick()
        assert 72_825 not in world.told
        assert world.rounds.status(HASH).wanted == (72_825,)
        assert (HASH, 72_825) not in world.store.rounds
        server.lie = None
        await world.rounds.tick()
        assert world.rounds.status(HASH).wanted == ()
        assert world.store.rounds[HASH, 72_825].signature == recorded(QUICKNET, 72_825).signature
        assert 72_825 in world.told


async def test_one_honest_relay_among_liars_is_enough():
    clock = at(72_830)
    async with (
        LyingRelay(lie="outside-subgroup") as first,
        LyingRelay(lie="forged-randomness") as second,
        LyingRelay(clock=clock) as honest,
        World(clock, [first, second, honest]) as world,
    ):
        await world.rounds.tick()
        assert world.newest == 72_830
        health = {relay.url: relay for relay in world.rounds.status(HASH).relays}
        assert health[first.url].last_reason is Reason.SUBGROUP
        assert health[second.url].last_reason is Reason.FORGED_RANDOMNESS
        assert health[honest.url].answered == 1


async def test_a_late_round_is_asked_for_again_with_growing_pauses():
    clock = at(72_830)
    late = Policy(attempts=20, timeout=400)
    async with LyingRelay(clock=clock) as server, World(clock, [server], policy=late) as world:
        server.late = {72_830: 3}
        since = clock.now()
        await world.rounds.tick()
        assert world.told == [72_830]
        assert server.rounds_asked == ["72830"] * 4 + ["72832"]
        assert 525 - 3 <= clock.now() - since <= 1_050


async def test_a_pass_ends_within_its_period():
    clock = at(72_830)
    async with LyingRelay(lie=404) as server, World(clock, [server], policy=Policy(timeout=400)) as world:
        world.rounds.want(HASH, 72_825)
        since = clock.now()
        await world.rounds.tick()
        assert 2_000 < clock.now() - since < 6_000
        assert world.told == []
        assert 2 < server.rounds_asked.count("72825") <= 20


def test_pauses_double_are_bounded_and_differ():
    policy = Policy(attempts=10, first_backoff=100, max_backoff=1_000)
    pauses = list(policy.backoffs())
    assert len(pauses) == 9
    full = [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000, 1_000]
    assert all(limit / 2 - 1 <= pause <= limit for pause, limit in zip(pauses, full, strict=True))
    assert pauses != list(policy.backoffs())


async def test_drand_halted_and_catching_up():
    """Every wanted round waits, none is skipped or replaced, and they come in order when drand resumes."""
    clock = at(72_760)
    halted = at(72_760)
    async with LyingRelay(clock=halted) as server, World(clock, [server]) as world:
        await world.rounds.tick()
        for number in (72_762, 72_764, 72_790):
            world.rounds.want(HASH, number)
        for _ in range(40):
            clock.advance(3_000)
            await world.rounds.tick()
        assert world.told == [72_760]
        assert world.rounds.trouble(HASH) == "clock-unsure"
        assert world.rounds.status(HASH).wanted == (72_762, 72_764, 72_790)
        halted.time = QUICKNET.time(72_763)
        await world.rounds.tick()
        assert world.told == [72_760, 72_762]
        assert world.rounds.trouble(HASH) == "clock-unsure"
        halted.time = clock.time
        await world.rounds.tick()
        assert world.told == [72_760, 72_762, 72_800, 72_764, 72_790]
        assert world.rounds.trouble(HASH) is None


@pytest.mark.parametrize(
    ("ahead", "trouble"),
    [(-3_600_000, None), (0, None), (18_000, None), (20_000, "clock-unsure"), (3_600_000, "clock-unsure")],
)
async def test_the_time_that_an_entry_would_take_counts_too(ahead, trouble):
    """6.11 holds for the entry's time as for the clock's, and the log's time never decreases."""
    clock = at(72_760)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        await world.rounds.tick()
        status = world.rounds.status(HASH, clock.time + ahead)
        assert (status.trouble, status.log_ahead) == (trouble, ahead if trouble else 0)
        clock.advance(3_600_000)
        status = world.rounds.status(HASH, clock.time + ahead)
        assert (status.trouble, status.log_ahead) == ("clock-unsure", 0)


async def test_drand_a_little_behind_is_followed_at_its_own_distance():
    clock = at(72_800)
    behind = at(72_798)
    async with LyingRelay(clock=behind) as server, World(clock, [server]) as world:
        for _ in range(10):
            await world.rounds.tick()
            assert world.rounds.trouble(HASH) is None
            clock.advance(3_000)
            behind.advance(3_000)
        assert world.newest >= 72_805
        assert world.told == sorted(set(world.told))


async def test_all_relays_down_and_up_again():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as gone:
        pass
    async with LyingRelay(clock=clock) as server, World(clock, [gone]) as world:
        world.rounds.want(HASH, 72_799)
        await world.rounds.tick()
        assert world.rounds.trouble(HASH) == "no-verified-round"
        assert world.rounds.status(HASH).relays[0].last_reason is Reason.UNREACHABLE
        world.rounds._relays[HASH][0].url = server.url
        await world.rounds.tick()
        assert world.told == [72_800, 72_799]


@pytest.mark.parametrize(("off", "trouble"), [(10_000, None), (15_000, None), (30_000, "clock-unsure")])
async def test_a_clock_that_is_fast(off, trouble):
    """The rounds that it asks for too early are not there yet; what is there and still tells the time is taken."""
    true = at(72_800)
    clock = FakeClock(true.now() + off)
    async with LyingRelay(clock=true) as server, World(clock, [server]) as world:
        server.not_yet = 425
        await world.rounds.accept(verified(QUICKNET, 72_800))
        for _ in range(8):
            await world.rounds.tick()
            assert world.rounds.trouble(HASH) == trouble
            clock.advance(3_000)
            true.advance(3_000)
        assert (world.newest > 72_804) == (trouble is None)


@pytest.mark.parametrize(("off", "trouble"), [(400, None), (2_000, "clock-unsure"), (10_000, "clock-unsure")])
async def test_a_clock_that_is_slow_against_a_known_round(off, trouble):
    clock = FakeClock(QUICKNET.time(72_800) + 500 - off)
    async with World(clock, []) as world:
        await world.rounds.accept(verified(QUICKNET, 72_800))
        assert world.rounds.trouble(HASH) == trouble


async def test_a_clock_that_leaps_and_comes_back():
    clock = at(72_800)
    true = at(72_800)
    async with LyingRelay(clock=true) as server, World(clock, [server]) as world:
        world.rounds.want(HASH, 72_803)
        await world.rounds.tick()
        clock.advance(86_400_000)
        await world.rounds.tick()
        assert world.told == [72_800]
        assert world.rounds.trouble(HASH) == "clock-unsure"
        clock.time = true.time = QUICKNET.time(72_803) + 100
        await world.rounds.tick()
        assert world.told == [72_800, 72_803]
        assert world.rounds.trouble(HASH) is None


def test_trouble_at_the_edges_of_rule_6_11():
    clock = at(72_800)
    rounds = World(clock, []).rounds
    assert rounds.trouble(bytes(32)) == "chain-unknown"

    async def run():
        await rounds.start(scheduled=False)
        await rounds.accept(verified(QUICKNET, 72_800))
        await rounds.stop()

    asyncio.run(run())
    time = QUICKNET.time(72_800)
    assert [rounds.trouble(HASH, time + t) for t in (-1_001, -1_000, 19_000, 19_001)] == [
        "clock-unsure",
        None,
        None,
        "clock-unsure",
    ]


def test_troubles_are_codes_of_the_api():
    assert {"chain-unknown", "chain-broken", "rounds-damaged", "no-verified-round", "clock-unsure"} <= set(PROBLEMS)


async def test_genesis_in_the_future():
    clock = FakeClock(QUICKNET.time(1) - 60_000)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        world.rounds.want(HASH, 1)
        await world.rounds.tick()
        assert server.asked == []
        assert world.rounds.trouble(HASH) == "no-verified-round"
        clock.advance(60_400)
        await world.rounds.tick()
        assert world.told == [1]


async def test_a_retired_chain_is_read_and_not_waited_for():
    retired = replace(QUICKNET, last_round=72_800)
    clock = at(72_830)
    async with LyingRelay(clock=clock) as server, World(clock, [server], chain=retired) as world:
        await world.rounds.tick()
        assert server.asked == []
        world.rounds.want(HASH, 72_800)
        await world.rounds.tick()
        assert world.told == [72_800]
        with pytest.raises(ValueError, match="the chain has rounds"):
            world.rounds.want(HASH, 72_801)


async def test_a_store_that_fails_leaves_the_round_wanted():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        world.store.fail = OSError("disk full")
        await world.rounds.tick()
        assert (world.newest, world.told) == (None, [])
        await world.rounds.tick()
        assert world.told == [72_800]


@pytest.mark.parametrize(("why", "level"), [(RuntimeError, "error"), (NotYetError, "info")])
async def test_a_listener_that_fails_or_cannot_yet_is_told_again(why, level):
    """That it has to wait, since the clock and the rounds do not fit, is no fault of anybody, and is not logged as one."""
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        failures = ["first", "second"]

        async def fail(verified):
            if failures:
                raise why(failures.pop())

        world.rounds.on_round(fail)
        with structlog.testing.capture_logs() as logs:
            for _ in range(4):
                await world.rounds.tick()
        assert world.told == [72_800, 72_800, 72_800]
        assert world.rounds.status(HASH).wanted == ()
        told = [line for line in logs if line["event"] in {"listener failed", "a round waits"}]
        assert [line["log_level"] for line in told] == [level, level]


async def test_an_old_round_that_no_relay_has_does_not_hold_up_the_others():
    clock = at(72_830)
    policy = Policy(attempts=20, timeout=400)
    async with LyingRelay(clock=clock) as server, World(clock, [server], policy=policy) as world:
        server.missing = {72_751, 72_752}
        for number in (72_751, 72_752, 72_820, 72_821):
            world.rounds.want(HASH, number)
        await world.rounds.tick()
        assert world.told == [72_830, 72_820, 72_821]
        assert world.rounds.status(HASH).wanted == (72_751, 72_752)


async def test_a_pass_that_is_cut_short_goes_on_where_it_stopped():
    clock = at(72_839)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        server.missing = set(range(72_751, 72_760))
        for number in range(72_751, 72_765):
            world.rounds.want(HASH, number)
        await world.rounds.accept(verified(QUICKNET, 72_839))
        fetch = world.rounds._followers[HASH]._fetcher.fetch

        async def slow(number):
            clock.advance(1_000)
            return await fetch(number)

        world.rounds._followers[HASH]._fetcher.fetch = slow
        world.told.clear()
        for _ in range(5):
            clock.time = QUICKNET.time(72_839) + 500
            await world.rounds.tick()
        assert [number for number in world.told if number < 72_765] == [72_760, 72_761, 72_762, 72_763, 72_764]


async def test_a_cancelled_tick_still_stores_what_it_had_verified():
    clock = at(72_800)
    async with LyingRelay(clock=clock) as server, World(clock, [server]) as world:
        storing, go_on, ended = asyncio.Event(), asyncio.Event(), []

        async def wait(verified):
            storing.set()
            await go_on.wait()
            ended.append(verified.round)

        world.rounds.on_round(wait)
        ticking = asyncio.create_task(world.rounds.tick())
        await storing.wait()
        ticking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ticking
        go_on.set()
        await world.rounds._followers[HASH].drain()
        assert ended == [72_800]


def signed(chain, number, previous):
    message = chain.scheme.message(number, previous)
    signature = reference.sign(chain.scheme.group, chain.scheme.dst, SECRET, message)
    return verify_round(chain, Round(number, signature, previous))


async def test_a_second_valid_signature_of_a_round_breaks_the_chain_for_good():
    chain = own_chain()
    clock = at(10, chain=chain)
    first, second = signed(chain, 10, b"\x01" * 96), signed(chain, 10, b"\x02" * 96)
    assert first.signature != second.signature
    async with World(clock, [], chain=chain) as world:
        assert await world.rounds.accept(first)
        assert await world.rounds.accept(first)
        assert world.rounds.trouble(chain.hash) is None
        assert not await world.rounds.accept(second)
        assert world.told == [10, 10]
        assert await world.rounds.get(chain.hash, 10) == first
        assert world.store.second == [second]
        assert world.rounds.trouble(chain.hash) == "chain-broken"
    async with World(clock, [], chain=chain, store=world.store) as again:
        assert again.rounds.trouble(chain.hash) == "chain-broken"
        assert again.rounds.newest(chain.hash) == first


async def test_the_default_chain_is_followed_round_by_round():
    clock = at(2_183_660, chain=DEFAULT)
    async with LyingRelay(clock=clock) as server, World(clock, [server], chain=DEFAULT) as world:
        for _ in range(3):
            await world.rounds.tick()
            clock.advance(30_000)
        assert world.told == [2_183_660, 2_183_661, 2_183_662]
        stored = world.store.rounds[DEFAULT.hash, 2_183_661]
        assert stored.previous_signature == recorded(DEFAULT, 2_183_660).signature


async def test_two_chains_side_by_side():
    clock = at(72_800)
    async with LyingRelay([QUICKNET, FASTNET], clock=clock) as server:
        chains = [Followed(chain, (server.url,)) for chain in (QUICKNET, replace(FASTNET, last_round=None))]
        rounds = Rounds(chains, MemoryRoundStore(), clock, policy=ONCE, verifier=InlineVerifier())
        await rounds.start(scheduled=False)
        rounds.want(FASTNET.hash, 1000)
        await rounds.tick()
        assert rounds.newest(QUICKNET.hash).round == 72_800
        assert rounds.newest(FASTNET.hash).round == 1000
        assert rounds.chain(FASTNET.hash).beacon_id == "fastnet"
        await rounds.stop()
