"""The race of the relays: who is asked when, who wins, who is given up, and what is learnt from it."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.rounds.fetcher import Fetcher, NotFetched, Policy
from beacon.rounds.health import HALF_LIFE_SECONDS, LIE_MS, PRIOR_MS, RelayHealth, hedge_after, ranked
from beacon.rounds.refusals import LIES, WAITING, Reason, Refusal
from beacon.rounds.relays import LONGEST_HOLD_MS, Relay, hold_of
from tests.round_support import DEFAULT, QUICKNET, SECRET, FakeClock, InlineVerifier, at, own_chain, recorded, until
from verifier.bls import reference
from verifier.drand import Round

ROUND = 72_800
CLOCK = at(72_810)
LATER = FakeClock(2_000_000_000_000)
HEDGE = 40


class Scripted(Relay):
    """A relay that answers when and what the test says: a Round, a Refusal, or nothing until `answer` is called."""

    def __init__(self, url, *answers):
        super().__init__(f"https://{url}.example", session=None, clock=CLOCK)
        self.answers = list(answers)
        self.asked = 0
        self.cancelled = 0
        self._go = asyncio.Event()

    def answer(self, what):
        self.answers.append(what)
        self._go.set()

    async def fetch(self, chain, round_number):
        self.asked += 1
        try:
            while not self.answers:
                await self._go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        what = self.answers.pop(0)
        if isinstance(what, Refusal):
            raise what
        return what


GOOD = recorded(QUICKNET, ROUND)
BAD = replace(GOOD, signature=recorded(QUICKNET, ROUND - 1).signature)
NOT_YET = Refusal(Reason.NOT_YET, "status 404")
DOWN = Refusal(Reason.UNREACHABLE, "down")


class Counting(InlineVerifier):
    """Counts verifications, and can be made to wait."""

    def __init__(self):
        self.count = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def verify(self, chain, stated):
        self.count += 1
        await self.gate.wait()
        return await super().verify(chain, stated)


def fetcher(*relays, chain=QUICKNET, verifier=None, hedge=HEDGE, clock=CLOCK):
    return Fetcher(chain, relays, verifier or InlineVerifier(), clock, hedge=hedge)


async def test_a_relay_that_answers_at_once_is_the_only_one_asked():
    first, second = Scripted("first", GOOD), Scripted("second")
    (verified,) = await fetcher(first, second).fetch(ROUND)
    assert verified.signature == GOOD.signature
    assert (first.asked, second.asked) == (1, 0)


async def test_a_second_relay_is_asked_after_a_short_wait_and_the_loser_is_given_up():
    first, second = Scripted("first"), Scripted("second", GOOD)
    (verified,) = await fetcher(first, second).fetch(ROUND)
    assert verified.signature == GOOD.signature
    assert (first.asked, first.cancelled, second.asked, second.cancelled) == (1, 1, 1, 0)
    assert first.health(QUICKNET).beaten == 1
    assert first.health(QUICKNET).cost > second.health(QUICKNET).cost


async def test_the_first_relay_still_wins_when_it_answers_first():
    first, second, third = Scripted("first"), Scripted("second"), Scripted("third")
    fetching = asyncio.create_task(fetcher(first, second, third).fetch(ROUND))
    await until(lambda: third.asked)
    first.answer(GOOD)
    (verified,) = await fetching
    assert verified.signature == GOOD.signature
    assert (second.cancelled, third.cancelled) == (1, 1)


@pytest.mark.parametrize("answer", [DOWN, NOT_YET, BAD])
async def test_a_refused_answer_has_the_next_relay_asked_at_once(answer):
    first, second = Scripted("first", answer), Scripted("second", GOOD)
    async with asyncio.timeout(5):
        (verified,) = await fetcher(first, second, hedge=3_600_000).fetch(ROUND)
    assert verified.signature == GOOD.signature


async def test_a_refused_answer_has_the_next_relay_asked_though_another_is_under_way():
    first, second, third = Scripted("first"), Scripted("second", DOWN), Scripted("third", GOOD)
    first.health(QUICKNET).cost = 1
    async with asyncio.timeout(5):
        (verified,) = await fetcher(first, second, third, hedge=HEDGE).fetch(ROUND)
    assert verified.signature == GOOD.signature
    assert first.cancelled == 1


async def test_an_invalid_answer_does_not_win_however_fast():
    liar, honest = Scripted("liar", BAD), Scripted("honest")
    fetching = asyncio.create_task(fetcher(liar, honest).fetch(ROUND))
    await until(lambda: honest.asked)
    assert not fetching.done()
    honest.answer(GOOD)
    (verified,) = await fetching
    assert verified.signature == GOOD.signature
    assert liar.health(QUICKNET).last_reason is Reason.SIGNATURE


async def test_when_all_fail_each_reason_is_told():
    relays = Scripted("a", DOWN), Scripted("b", NOT_YET), Scripted("c", BAD)
    with pytest.raises(NotFetched) as caught:
        await fetcher(*relays).fetch(ROUND)
    assert caught.value.reasons == {
        "https://a.example": Reason.UNREACHABLE,
        "https://b.example": Reason.NOT_YET,
        "https://c.example": Reason.SIGNATURE,
    }
    assert (caught.value.waiting, caught.value.held) == (True, False)


def test_what_is_said_of_a_round_that_is_not_there_shows_no_path_of_a_relay():
    error = NotFetched(ROUND, {"https://a.example/access-key": Reason.UNREACHABLE})
    assert str(error) == f"round {ROUND}: https://a.example unreachable"


async def test_without_relays_there_is_no_round():
    with pytest.raises(NotFetched):
        await fetcher().fetch(ROUND)


async def test_a_round_is_never_asked_for_before_it_is_due():
    relay = Scripted("first", GOOD)
    with pytest.raises(ValueError, match="not due"):
        await fetcher(relay).fetch(72_811)
    assert relay.asked == 0


async def test_equal_answers_are_verified_once():
    verifier = Counting()
    verifier.gate.clear()
    first, second = Scripted("first"), Scripted("second", GOOD)
    fetching = asyncio.create_task(fetcher(first, second, verifier=verifier).fetch(ROUND))
    await until(lambda: verifier.count == 1)
    first.answer(GOOD)
    await asyncio.sleep(0)
    verifier.gate.set()
    assert len(await fetching) == 1
    assert verifier.count == 1
    assert [relay.health(QUICKNET).answered for relay in (first, second)] == [1, 1]


async def test_a_cancelled_fetch_leaves_nothing_under_way():
    first, second = Scripted("first"), Scripted("second")
    fetching = asyncio.create_task(fetcher(first, second).fetch(ROUND))
    await until(lambda: second.asked)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert (first.cancelled, second.cancelled) == (1, 1)
    assert [relay.health(QUICKNET).beaten for relay in (first, second)] == [0, 0]


async def test_a_worker_that_fails_ends_the_race_cleanly():
    class Broken(InlineVerifier):
        async def verify(self, chain, stated):
            raise RuntimeError("worker died")

    first, second = Scripted("first"), Scripted("second", GOOD)
    with pytest.raises(RuntimeError, match="worker died"):
        await fetcher(first, second, verifier=Broken()).fetch(ROUND)
    assert first.cancelled == 1


# Two valid signatures of one round


def signed(chain, previous):
    message = chain.scheme.message(10, previous)
    return Round(10, reference.sign(chain.scheme.group, chain.scheme.dst, SECRET, message), previous)


async def both(first_answer, second_answer):
    """The outcome when the second relay answers first, and the first while that is verified."""
    chain, verifier = own_chain(), Counting()
    verifier.gate.clear()
    first, second = Scripted("first"), Scripted("second", second_answer)
    fetching = asyncio.create_task(fetcher(first, second, chain=chain, verifier=verifier, clock=LATER).fetch(10))
    await until(lambda: verifier.count == 1)
    first.answer(first_answer)
    await asyncio.sleep(0)
    verifier.gate.set()
    return [verified.signature for verified in await fetching], first.health(chain)


async def test_a_second_valid_signature_that_came_in_time_is_found():
    chain = own_chain()
    one, other = signed(chain, b"\x01" * 96), signed(chain, b"\x02" * 96)
    signatures, health = await both(one, other)
    assert signatures == [other.signature, one.signature]
    assert health.answered == 1


async def test_a_second_signature_that_is_not_valid_is_a_lie_like_any_other():
    chain = own_chain()
    one = signed(chain, b"\x01" * 96)
    signatures, health = await both(replace(one, previous_signature=b"\x03" * 96), one)
    assert signatures == [one.signature]
    assert health.last_reason is Reason.SIGNATURE


async def test_a_second_answer_that_is_a_failure_changes_nothing():
    one = signed(own_chain(), b"\x01" * 96)
    signatures, health = await both(NOT_YET, one)
    assert signatures == [one.signature]
    assert health.last_reason is Reason.NOT_YET


# What is learnt


def test_relays_are_asked_as_configured_until_something_is_known():
    assert ranked([RelayHealth(name) for name in "abc"], 0.0) == [0, 1, 2]


def test_the_faster_one_is_asked_first_and_the_failing_ones_last():
    fast, slow, behind, down, liar, unknown = (RelayHealth(name) for name in ("f", "s", "b", "d", "l", "u"))
    for _ in range(3):
        fast.succeeded(1, 40, 0, 0.0)
        slow.succeeded(1, 900, 0, 0.0)
        behind.failed(Reason.NOT_YET, 10, 0, 0.0)
        down.failed(Reason.UNREACHABLE, 10, 0, 0.0)
        liar.failed(Reason.SIGNATURE, 10, 0, 0.0)
    assert ranked([liar, down, slow, behind, unknown, fast], 0.0) == [5, 4, 3, 2, 1, 0]


def test_what_is_known_fades_and_a_relay_gets_another_chance():
    liar = RelayHealth("l")
    liar.failed(Reason.SIGNATURE, 10, 0, 0.0)
    assert liar.expected(0.0) > LIE_MS / 4
    assert liar.expected(HALF_LIFE_SECONDS) == pytest.approx((liar.expected(0.0) + PRIOR_MS) / 2)
    assert liar.expected(12 * HALF_LIFE_SECONDS) == pytest.approx(PRIOR_MS, rel=0.1)


def test_health_keeps_what_an_operator_wants_to_know():
    health = RelayHealth("r")
    health.succeeded(10, 81.6, 5_000, 1.0)
    health.succeeded(9, 20, 6_000, 2.0)
    health.failed(Reason.TIMEOUT, 4_000, 7_000, 3.0)
    health.outrun(50, 4.0)
    assert (health.answered, health.beaten, health.latency, health.last_answer, health.last_round) == (
        2,
        1,
        20,
        6_000,
        10,
    )
    assert (health.last_failure, health.last_reason, health.failures_in_a_row) == (7_000, Reason.TIMEOUT, 1)
    assert health.refused == {Reason.TIMEOUT: 1}


@given(st.lists(st.tuples(st.sampled_from(Reason), st.floats(0, 40_000)), min_size=1, max_size=40))
def test_no_run_of_failures_costs_more_than_a_lie(failures):
    health = RelayHealth("r")
    for reason, elapsed in failures:
        health.failed(reason, elapsed, 0, 0.0)
        assert PRIOR_MS / 2 <= health.cost <= LIE_MS
        assert reason not in WAITING or reason not in LIES


def test_the_wait_before_a_second_relay_follows_what_the_first_one_takes():
    health = RelayHealth("r")
    assert hedge_after(health, 0.0, 1_000) == 2 * PRIOR_MS
    assert hedge_after(health, 0.0, 50) == 50
    for _ in range(20):
        health.succeeded(1, 20, 0, 0.0)
    assert hedge_after(health, 0.0, 1_000) == 100


async def test_after_a_slow_answer_the_faster_relay_is_asked_first():
    first, second = Scripted("first"), Scripted("second", GOOD, GOOD)
    racing = fetcher(first, second)
    await racing.fetch(ROUND)
    assert [relay.url for relay in racing.order()] == [second.url, first.url]
    await racing.fetch(ROUND)
    assert (first.asked, second.asked) == (1, 2)


def test_a_request_may_be_held_for_a_period_within_limits():
    assert [hold_of(chain) for chain in (QUICKNET, DEFAULT)] == [4_000, 31_000]
    assert hold_of(replace_period(3_600)) == LONGEST_HOLD_MS
    assert Policy().timeout is None


def replace_period(seconds):
    class Slow:
        period = seconds

    return Slow()
