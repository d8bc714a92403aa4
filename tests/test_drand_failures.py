"""What hosts see when drand, its relays or the clock fail: sessions wait, nothing is skipped or put in a round's place,
and they settle in order when the rounds come. The relays are devnets on loopback, told to misbehave; the clock is fake.
FAILURES.md beside beacon/rounds says the same in words.
"""

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace

import pytest

from beacon.errors import ApiError
from beacon.rounds import Followed, Policy, Rounds
from beacon.rounds.devnet import Devnet
from beacon.rounds.network import Network
from beacon.rounds.refusals import Reason
from tests.round_support import SECRET, FakeClock, InlineVerifier, MemoryRoundStore
from tests.session_support import ALICE, MemorySeeds, Service

GENESIS = 1_800_000_000
POLICY = Policy(attempts=2, first_backoff=1, max_backoff=1, timeout=1_000)
NETWORK = Network.make(SECRET, bytes(32), GENESIS, 3)
CHAINED = Network.make(SECRET, bytes(32), GENESIS, 3, "pedersen-bls-chained")
START = 100
HOUR = 3_600_000


class AwaitedVerifier(InlineVerifier):
    """Verifies a round only once every relay that was asked for it has answered."""

    async def verify(self, chain, stated):
        while any(task.get_coro().__qualname__ == "_Race._answer" for task in asyncio.all_tasks()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return await super().verify(chain, stated)


@dataclass
class World:
    """A service whose clock stands `off` ms from the relays' true one."""

    clock: FakeClock
    true: FakeClock
    relays: list
    rounds: Rounds
    service: Service
    chain: object

    async def tick(self):
        await self.service.keeper.tick()
        await self.rounds.tick()
        await self.service.keeper.tick()

    async def go(self, milliseconds, step=3_000):
        """Let time pass for everybody, tick by tick."""
        while milliseconds > 0:
            by = min(step, milliseconds)
            self.clock.advance(by)
            self.true.advance(by)
            milliseconds -= by
            await self.tick()

    def tell(self, **orders):
        for relay in self.relays:
            relay.behaviour.apply(orders)

    async def seal(self, ahead):
        """A session whose round comes so many rounds after the current one."""
        number = self.chain.current(self.clock.now()) + ahead
        written = await self.service.seal(round=number, participants=[])
        assert written.state["round"] == number
        return written.session, number

    async def state(self, session):
        return await self.service.state(session)

    async def refused(self, code):
        with pytest.raises(ApiError) as caught:
            await self.service.seal(participants=[])
        assert caught.value.code == code

    async def rounds_logged(self):
        """The numbers of the `round` entries, in log order."""
        size = self.service.log.latest().size
        entries = [json.loads(await self.service.log.entry(index)) for index in range(size)]
        return [entry["round"] for entry in entries if entry["type"] == "round"]

    async def settled(self, session, number):
        """The session has the outcome of its own round, and the verifier says so."""
        assert await self.state(session) == "anchored"
        await self.service.draw(session)
        await self.service.sessions.reveal(ALICE, session)
        document = json.loads(await self.service.sessions.transcript(session))
        used = [json.loads(event["entry"]) for event in document["events"]]
        (entry,) = [entry for entry in used if entry["type"] == "round"]
        stated = await self.relays[0].source.round(number)
        assert (entry["round"], entry["signature"]) == (number, stated.signature.hex())
        verdict = await self.service.verdict(session, chains={self.chain.hash: self.chain})
        assert verdict.exit == 0, [claim.as_dict() for claim in verdict.claims]
        assert verdict["round"].state == "PROVEN"


@contextlib.asynccontextmanager
async def world(path, *, relays=1, network=NETWORK, start=START, off=0, verifier=None, policy=POLICY):
    chain = network.chain
    true = FakeClock(chain.time(start) + 900)
    clock = FakeClock(true.now() + off)
    devnets = [Devnet(network, true) for _ in range(relays)]
    for devnet in devnets:
        await devnet.start()
    rounds = Rounds(
        [Followed(chain, tuple(devnet.url for devnet in devnets))],
        MemoryRoundStore(),
        clock,
        policy=policy,
        verifier=verifier or InlineVerifier(),
        sleep=lambda _: asyncio.sleep(0),
    )
    service = Service(path, clock, rounds, MemorySeeds(), chain=chain)
    await rounds.start(scheduled=False)
    made = World(clock, true, devnets, rounds, service, chain)
    try:
        await made.tick()
        yield made
    finally:
        await rounds.stop()
        service.log.close()
        for devnet in devnets:
            await devnet.stop()


async def test_drand_is_late(tmp_path):
    async with world(tmp_path) as made:
        session, number = await made.seal(4)
        made.tell(late_ms=7_000)
        await made.go(12_000 + 6_000)
        assert await made.state(session) == "closed"
        assert await made.rounds_logged() == []
        await made.go(3_000)
        assert await made.rounds_logged() == [number]
        await made.settled(session, number)


async def test_drand_halts_for_hours_and_catches_up(tmp_path):
    async with world(tmp_path) as made:
        sealed = [await made.seal(ahead) for ahead in (9, 4, 30)]
        made.tell(halt=True)
        await made.go(3 * HOUR, step=600_000)
        assert [await made.state(session) for session, _ in sealed] == ["closed"] * 3
        assert made.rounds.status(made.chain.hash).wanted == tuple(sorted(number for _, number in sealed))
        await made.refused("clock-unsure")
        made.tell(halt=False, catch_up_ms=500)
        await made.go(3_000)
        assert await made.rounds_logged() == [sealed[1][1]]
        assert await made.state(sealed[2][0]) == "closed"
        await made.refused("clock-unsure")
        await made.go(3_000)
        assert await made.rounds_logged() == [sealed[1][1], sealed[0][1]]
        await made.go(HOUR, step=300_000)
        assert await made.rounds_logged() == [sealed[1][1], sealed[0][1], sealed[2][1]]
        for session, number in sealed:
            await made.settled(session, number)
        await made.seal(4)


async def test_drand_never_comes_back(tmp_path):
    """At reveal_by the session is void, in the open; no other round decides it."""
    async with world(tmp_path) as made:
        number = START + 4
        reveal_by = made.chain.time(number) + 600_000
        session = (await made.service.seal(round=number, participants=[], reveal_by=reveal_by)).session
        made.tell(halt=True)
        await made.go(reveal_by - made.clock.now() - 1, step=200_000)
        assert await made.state(session) == "closed"
        await made.go(1_000)
        view = await made.service.sessions.view(session)
        assert (view["state"], view["reason"]) == ("void", "no-round")
        assert await made.rounds_logged() == []
        made.tell(halt=False, catch_up_ms=1)
        await made.go(6_000)
        assert (await made.service.sessions.view(session))["state"] == "void"


async def test_relays_disagree_and_one_is_right(tmp_path):
    async with world(tmp_path, relays=2) as made:
        session, number = await made.seal(4)
        asked_first = made.rounds.status(made.chain.hash).relays[0].url
        honest, liar = sorted(made.relays, key=lambda relay: relay.url == asked_first)
        liar.behaviour.apply({"lie": "other-signature"})
        await made.go(15_000)
        health = {relay.url: relay for relay in made.rounds.status(made.chain.hash).relays}
        assert health[liar.url].last_reason is Reason.SIGNATURE
        assert made.rounds.trouble(made.chain.hash) is None
        await made.settled(session, number)
        assert next(iter(health)) == honest.url


@pytest.mark.parametrize(
    "lie", ["other-signature", "wrong-round", "randomness", "twice", "html", "redirect", "cached-404"]
)
async def test_the_only_relay_lies(tmp_path, lie):
    async with world(tmp_path) as made:
        session, number = await made.seal(4)
        made.tell(lie=lie)
        await made.go(15_000)
        assert await made.state(session) == "closed"
        assert await made.rounds_logged() == []
        made.tell(lie=None)
        await made.go(3_000)
        assert await made.rounds_logged() == [number]


async def test_a_round_with_two_valid_signatures_stops_sealing_on_the_chain(tmp_path):
    """Both relays are asked at once and both answers verify: the chain is broken, which nobody else can feign."""
    policy = Policy(attempts=1, hedge=0, timeout=20_000)
    async with world(tmp_path, relays=2, network=CHAINED, start=5, policy=policy, verifier=AwaitedVerifier()) as made:
        session, number = await made.seal(3)
        made.relays[1].behaviour.apply({"lie": "second-signature"})
        await made.go(9_000)
        assert await made.rounds_logged() == [number]
        (second,) = [kept for kept in made.rounds._store.second if kept.round == number]
        first = made.rounds._store.rounds[made.chain.hash, number]
        assert {first.signature, second.signature} == {
            (await made.relays[0].source.round(number)).signature,
            (await made.relays[0].source.second(number)).signature,
        }
        assert made.rounds.status(made.chain.hash).evidence == (number,)
        await made.refused("chain-broken")
        assert await made.state(session) == "anchored"


async def test_all_relays_are_down_and_come_back(tmp_path):
    async with world(tmp_path, relays=2) as made:
        sealed = [await made.seal(ahead) for ahead in (6, 4)]
        for relay in made.relays:
            await relay.stop()
        await made.go(30_000)
        assert [await made.state(session) for session, _ in sealed] == ["closed", "closed"]
        reasons = {relay.last_reason for relay in made.rounds.status(made.chain.hash).relays}
        assert reasons == {Reason.UNREACHABLE}
        await made.refused("clock-unsure")
        for relay in made.relays:
            await relay.start()
        await made.go(3_000)
        assert await made.rounds_logged() == [sealed[1][1], sealed[0][1]]
        for session, number in sealed:
            await made.settled(session, number)


async def test_the_clock_is_ten_seconds_fast(tmp_path):
    """Rounds are asked for before they exist, which relays say; each comes late and is the right one."""
    async with world(tmp_path, off=10_000, policy=replace(POLICY, timeout=500)) as made:
        session, number = await made.seal(4)
        await made.go(12_000)
        assert await made.state(session) == "closed"
        await made.go(12_000)
        assert await made.rounds_logged() == [number]
        await made.settled(session, number)


@pytest.mark.parametrize("off", [-10_000, -HOUR])
async def test_the_clock_is_slow(tmp_path, off):
    """A round that should not be there yet is, and shows it; so long as the clock is not set nothing is sealed."""
    async with world(tmp_path, start=START + 1_300, off=off) as made:
        for _ in range(6):
            await made.refused("clock-unsure")
            await made.go(3_000)
        made.clock.time = made.true.time
        await made.tick()
        session, number = await made.seal(4)
        await made.go(12_000)
        await made.settled(session, number)


async def test_the_clock_falls_behind_while_contributions_are_taken(tmp_path):
    async with world(tmp_path) as made:
        number = made.chain.current(made.clock.now()) + 200
        session = (await made.service.seal(round=number)).session
        await made.service.contribute(session, "black")
        made.true.advance(HOUR)
        assert made.chain.time(number) < made.true.now()
        await made.go(12_000)
        with pytest.raises(ApiError) as caught:
            await made.service.contribute(session, "white")
        assert caught.value.code == "clock-unsure"


async def test_the_clock_is_three_seconds_slow(tmp_path):
    """Less than shows: rounds are asked for later than they could be."""
    async with world(tmp_path, off=-3_000) as made:
        session, number = await made.seal(4)
        await made.go(9_000)
        assert await made.state(session) == "closed"
        await made.go(3_000)
        assert await made.rounds_logged() == [number]
        await made.settled(session, number)


async def test_a_slow_clock_beside_a_known_round_refuses_to_seal(tmp_path):
    async with world(tmp_path) as made:
        session, number = await made.seal(4)
        await made.go(12_000)
        assert await made.state(session) == "anchored"
        made.clock.advance(-10_000)
        await made.refused("clock-unsure")
        made.clock.advance(10_000)
        await made.seal(4)
        await made.settled(session, number)


async def test_genesis_is_in_the_future(tmp_path):
    async with world(tmp_path, start=-20) as made:
        assert made.chain.current(made.clock.now()) == 0
        await made.refused("no-verified-round")
        await made.go(30_000)
        assert made.rounds.newest(made.chain.hash) is None
        assert not any(relay.refused for relay in made.rounds.status(made.chain.hash).relays)
        await made.go(36_000)
        session, number = await made.seal(4)
        await made.go(15_000)
        await made.settled(session, number)


@pytest.mark.parametrize("leap", [HOUR, -HOUR, 20 * HOUR])
async def test_the_clock_leaps_while_a_session_waits_and_comes_back(tmp_path, leap):
    async with world(tmp_path) as made:
        session, number = await made.seal(4)
        made.clock.advance(leap)
        await made.go(6_000)
        assert await made.state(session) == "closed"
        await made.refused("clock-unsure")
        made.clock.advance(-leap)
        await made.go(9_000)
        assert await made.rounds_logged() == [number]
        await made.settled(session, number)
        await made.seal(4)


async def test_the_clock_leaps_over_a_round_and_stays(tmp_path):
    """After a jump of the machine's clock to the true time, as after a suspend: the round has long been there."""
    async with world(tmp_path) as made:
        session, number = await made.seal(4)
        made.clock.advance(2 * HOUR)
        made.true.advance(2 * HOUR)
        await made.tick()
        assert await made.rounds_logged() == [number]
        await made.settled(session, number)
        await made.seal(4)
