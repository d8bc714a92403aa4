"""The SDK reads the events of a session whose seed its timelock opened, the timelock's round among them."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from beacon.client import Beacon, Dishonest, lock_seed, make_chain
from tests.round_support import FakeClock
from tests.session_support import ALICE, RECIPES, service
from tests.test_client_whole import Streaming
from tests.test_timelocked import NET, START, OwnRounds, reach
from tests.web_support import headers, web_of

ROUND = START + 8
AFTER = 1_200_000


@pytest.fixture
async def world(tmp_path):
    """The service on a network of ours, and the SDK of a host; events pass as they come."""
    rounds = OwnRounds(FakeClock(NET.chain.time(START) + 500))
    async with (
        service(tmp_path, start=START, clock=rounds.clock, rounds=rounds, chain=NET.chain) as made,
        web_of(made, chain=NET.chain) as client,
    ):
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", Streaming(client).handle)
        async with TestServer(app) as server:
            token = headers(ALICE)["Authorization"].removeprefix("Bearer ")
            given = {"log_key": str(made.vkey), "chains": [NET.chain], "clock": made.clock.now}
            async with Beacon(str(server.make_url("")), token, **given) as beacon:
                yield made, beacon


async def left_to_its_timelock(made, beacon):
    """A match whose host vanishes once the round is in; every event of it."""
    commitment, seed = make_chain()
    reveal_by = made.clock.now() + AFTER
    lock = lock_seed(seed, NET.chain, reveal_by, now=made.clock.now())
    terms = {"recipes": RECIPES, "participants": [], "close_at": None, "round": ROUND, "reveal_by": reveal_by}
    session = await beacon.seal(**terms, custody="host", commitment=commitment.hex(), timelock=lock)
    await reach(made, ROUND)

    async def read():
        return [event async for event in session.events()]

    reading = asyncio.create_task(read())
    await reach(made, lock["round"])
    async with asyncio.timeout(30):
        return lock["round"], await reading


async def test_the_round_that_a_timelock_opened_with_is_one_of_the_events(world):
    number, events = await left_to_its_timelock(*world)
    assert [event["type"] for event in events] == ["seal", "round", "round", "reveal"]
    assert f'"round":{number},' in events[2]["entry"]
    assert '"by":"timelock"' in events[3]["entry"]


async def test_a_forged_round_of_a_timelock_is_noticed(world, monkeypatch):
    honest = NET.sign
    monkeypatch.setattr(type(NET), "sign", lambda _, number: honest(number if number <= ROUND else number + 1))
    with pytest.raises(Dishonest, match="is not the chain's"):
        await left_to_its_timelock(*world)
