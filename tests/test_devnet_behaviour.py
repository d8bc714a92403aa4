"""A devnet of every scheme, one that is late, halts, catches up or lies, and one that replays a recording."""

import asyncio
import io
import json

import aiohttp
import pytest

from beacon.rounds.devnet import Devnet, replay
from beacon.rounds.devnet_lies import LIES
from beacon.rounds.fetcher import Fetcher, NotFetched
from beacon.rounds.lines import encode_line, known, read_lines
from beacon.rounds.network import DevnetError, Network, NotDue, Recording, ReplayClock, Signer, open_network
from beacon.rounds.production import Production
from beacon.rounds.refusals import Reason
from beacon.rounds.relays import Relay, open_session
from tests.round_support import PINNED, QUICKNET, FakeClock, InlineVerifier, recorded
from verifier.drand import SCHEMES, parse_relay_info, verify_round

GENESIS = 1_800_000_000
CHAINED = "pedersen-bls-chained"


def network(scheme=CHAINED, period=3):
    return Network.make(0xBEAC0, bytes(range(32)), GENESIS, period, scheme)


NETWORK = network()
CHAIN = NETWORK.chain
HASH = CHAIN.hash.hex()
V1, V2 = f"/{HASH}/public/", f"/v2/chains/{HASH}/rounds/"


@pytest.fixture
def clock():
    return FakeClock(CHAIN.time(4) + 1_200)


@pytest.fixture
async def devnet(clock):
    devnet = Devnet(NETWORK, clock)
    await devnet.start()
    yield devnet
    await devnet.stop()


@pytest.fixture
async def client(devnet):
    async with aiohttp.ClientSession(devnet.url) as session:
        yield session


@pytest.fixture
async def fetch(devnet, clock):
    """Fetches a round of the devnet as the service does."""
    async with open_session() as session:
        yield Fetcher(CHAIN, [Relay(devnet.url, session, clock, 500)], InlineVerifier(), clock).fetch


async def tell(client, status=200, **orders):
    async with client.post("/devnet", json=orders) as response:
        assert response.status == status
        return await response.json() if status == 200 else await response.text()


async def status_of(client, path):
    async with client.get(path) as response:
        return response.status


async def why(fetch, number):
    with pytest.raises(NotFetched) as caught:
        await fetch(number)
    (reason,) = caught.value.reasons.values()
    return reason


# every scheme


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_every_scheme_of_drands_is_served_in_both_versions_and_verifies(scheme):
    made = network(scheme)
    clock = FakeClock(made.chain.time(3) + 500)
    devnet = Devnet(made, clock)
    await devnet.start()
    async with aiohttp.ClientSession(devnet.url) as session:
        for path in (f"/{made.chain.hash.hex()}/info", f"/v2/chains/{made.chain.hash.hex()}/info"):
            async with session.get(path) as response:
                assert parse_relay_info(await response.json()) == made.chain
    async with open_session() as session:
        for number in (1, 3):
            stated = await Relay(devnet.url, session, clock).fetch(made.chain, number)
            assert verify_round(made.chain, stated).round == number
    await devnet.stop()


def test_the_scheme_is_kept_in_the_state_file(tmp_path):
    path, clock = tmp_path / "state.json", FakeClock(GENESIS * 1000)
    made = open_network(3, path, clock, CHAINED)
    assert open_network(3, path, clock, CHAINED) == made
    with pytest.raises(DevnetError, match="the scheme pedersen-bls-chained, not"):
        open_network(3, path, clock)


def test_a_scheme_of_no_name_is_refused():
    with pytest.raises(DevnetError, match="there is no scheme x; there are bls-unchained-g1-rfc9380"):
        Network.fresh(3, GENESIS, "x")


async def test_a_chained_network_signs_each_round_once_whatever_the_order(monkeypatch):
    signed = []
    sign = Network.sign
    monkeypatch.setattr(Network, "sign", lambda self, *args: signed.append(args[0]) or sign(self, *args))
    signer = Signer(NETWORK)
    third, first = await asyncio.gather(signer.round(3), signer.round(1))
    assert signed == [1, 2, 3]
    assert first.previous_signature == CHAIN.genesis_seed
    assert third.previous_signature == (await signer.round(2)).signature
    assert verify_round(CHAIN, third).round == 3


@pytest.mark.parametrize("number", [0, -1, CHAIN.final_round + 1])
async def test_there_are_no_rounds_outside_the_chain(number):
    with pytest.raises(NotDue):
        await Signer(NETWORK).round(number)


async def test_only_a_chained_network_can_sign_a_round_twice():
    second = await Signer(NETWORK).second(3)
    assert verify_round(CHAIN, second).signature != (await Signer(NETWORK).round(3)).signature
    with pytest.raises(NotDue):
        await Signer(network("pedersen-bls-unchained")).second(3)
    with pytest.raises(NotDue):
        await Signer(NETWORK).second(1)


# late, halted, catching up


def test_production_is_on_time_late_halted_and_catches_up():
    clock = FakeClock(CHAIN.time(10))
    production = Production(CHAIN, clock)
    assert production.head() == production.expected() == 10
    production.late_ms = 1
    assert (production.head(), production.expected()) == (9, 10)
    production.late_ms = 0
    production.halt()
    clock.time = CHAIN.time(100)
    assert (production.head(), production.expected(), production.halted) == (10, 100, True)
    production.catch_up_ms = 100
    production.resume()
    heads = []
    for _ in range(6):
        heads.append(production.head())
        clock.advance(2_000)
    assert heads == [10, 30, 50, 70, 90, 103]
    clock.advance(300_000)
    assert production.head() == production.expected()


def test_production_can_halt_after_a_round_to_come_and_ends_where_it_ends():
    clock = FakeClock(CHAIN.time(10))
    production = Production(CHAIN, clock, last=20)
    production.halt(12)
    clock.time = CHAIN.time(15)
    assert production.head() == 12
    production.resume()
    clock.time = CHAIN.time(50)
    assert (production.head(), production.expected()) == (20, 20)
    production.resume()
    assert production.head() == 20


def test_before_genesis_there_is_no_head():
    production = Production(CHAIN, FakeClock(CHAIN.time(1) - 1))
    assert (production.head(), production.expected()) == (0, 0)


async def test_a_late_round_is_an_error_in_v2_and_held_in_v1(devnet, client, clock):
    assert (await tell(client, late_ms=2_000))["head"] == 3
    assert await status_of(client, V2 + "4") == 500
    held = asyncio.create_task(status_of(client, V1 + "4"))
    done, _ = await asyncio.wait({held}, timeout=0.05)
    assert not done
    clock.advance(800)
    assert await held == 200
    assert await status_of(client, V2 + "4") == 200


async def test_a_halted_network_says_so_in_its_status_codes(client, clock):
    await tell(client, halt=True)
    clock.time = CHAIN.time(8) + 100
    assert [await status_of(client, f"{V1}{n}") for n in (4, 6, 9, 10)] == [200, 500, 404, 404]
    assert [await status_of(client, f"{V2}{n}") for n in (4, 5, 8, 10)] == [200, 500, 500, 425]
    assert await status_of(client, f"/{HASH}/health") == 503
    async with client.get(V1 + "latest") as response:
        assert (await response.json())["round"] == 4
        assert response.headers["Cache-Control"] == "max-age:2, public"


async def test_a_held_request_ends_after_two_periods(client, clock):
    await tell(client, halt=True)
    held = asyncio.create_task(status_of(client, V1 + "5"))
    await asyncio.sleep(0.05)
    clock.time = CHAIN.time(5) + 6_000
    assert await held == 500


async def test_a_network_that_resumes_makes_what_it_missed_first(client, clock):
    await tell(client, halt=True)
    clock.advance(30_000)
    assert (await tell(client, halt=False, catch_up_ms=1_000))["head"] == 4
    clock.advance(3_000)
    async with client.get(V2 + "latest") as response:
        assert (await response.json())["round"] == 7
    clock.advance(30_000)
    assert (await tell(client))["head"] == 25


async def test_it_can_be_told_to_halt_after_a_round_to_come(client, clock):
    assert (await tell(client, halt=6))["halt"] is True
    clock.advance(30_000)
    assert (await tell(client))["head"] == 6


async def test_a_request_that_is_held_until_the_round_exists_is_answered_with_it(devnet, client, clock):
    """As a drand node holds it in v1; the relay client waits for that as long as a period."""
    await tell(client, late_ms=2_000)
    async with open_session() as session:
        relay = Relay(devnet.url, session, clock)
        relay._api[CHAIN.hash] = 1
        fetching = asyncio.create_task(relay.fetch(CHAIN, 4))
        done, _ = await asyncio.wait({fetching}, timeout=0.2)
        assert not done
        clock.advance(800)
        assert (await fetching).signature == (await devnet.round(4)).signature


# lies

REASONS = {
    "other-signature": Reason.SIGNATURE,
    "wrong-round": Reason.WRONG_ROUND,
    "randomness": Reason.FORGED_RANDOMNESS,
    "twice": Reason.ENCODING,
    "html": Reason.CONTENT_TYPE,
    "redirect": Reason.REDIRECT,
    "cached-404": Reason.CACHED_NOT_YET,
    "slow": Reason.TIMEOUT,
    "other-chain": Reason.WRONG_CHAIN,
}


def test_every_lie_has_its_reason_but_the_one_that_verifies():
    assert set(LIES) - set(REASONS) == {"second-signature"}


@pytest.mark.parametrize("lie", REASONS)
async def test_each_lie_is_found_out(client, fetch, lie):
    await tell(client, lie=lie)
    assert await why(fetch, 4) is REASONS[lie]
    await tell(client, lie=None)
    assert [verified.round for verified in await fetch(4)] == [4]


async def test_a_second_signature_verifies(client, fetch):
    (first,) = await fetch(4)
    await tell(client, lie="second-signature")
    (second,) = await fetch(4)
    assert (first.round, second.round) == (4, 4)
    assert first.signature != second.signature


# control


async def test_an_order_may_come_in_pieces_and_is_bounded(client):
    async def pieces(body):
        for byte in body:
            yield bytes([byte])
            await asyncio.sleep(0.001)

    headers = {"Content-Type": "application/json"}
    async with client.post("/devnet", data=pieces(b'{"late_ms": 7}'), headers=headers) as answer:
        assert (answer.status, (await answer.json())["late_ms"]) == (200, 7)
    async with client.post("/devnet", data=b" " * 5_000 + b"{}", headers=headers) as answer:
        assert answer.status == 413


@pytest.mark.parametrize(
    "orders",
    [
        {"late_ms": -1},
        {"late_ms": 1.5},
        {"late_ms": True},
        {"late_ms": "5"},
        {"catch_up_ms": 0},
        {"halt": 0},
        {"halt": None},
        {"lie": "white"},
        {"lie": 1},
        {"mood": "bad"},
        {"late_ms": 5, "lie": "white"},
    ],
)
async def test_what_is_no_order_is_refused_whole(client, orders):
    before = await tell(client)
    async with client.post("/devnet", data=json.dumps(orders), headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 400
        assert await answer.text()
    assert await tell(client) == before


async def test_a_scheme_with_one_signature_a_round_cannot_lie_with_two():
    devnet = Devnet(network("pedersen-bls-unchained"), FakeClock(GENESIS * 1000))
    await devnet.start()
    async with aiohttp.ClientSession(devnet.url) as client:
        assert "one valid signature" in await tell(client, 400, lie="second-signature")
    await devnet.stop()


async def test_orders_are_taken_from_programs_on_this_machine_only(client):
    for headers in ({"Origin": "http://localhost"}, {"Host": "devnet.example"}, {"Host": "10.0.0.1"}):
        async with client.post("/devnet", json={"late_ms": 1}, headers=headers) as response:
            assert response.status == 403
        async with client.get("/devnet", headers=headers) as response:
            assert response.status == 403
    async with client.post("/devnet", data="late_ms=1") as response:
        assert response.status == 415
    async with client.get("/devnet") as response:
        assert (await response.json())["late_ms"] == 0
        assert "Access-Control-Allow-Origin" not in response.headers


# recordings


def recording(first=72_750, count=10):
    rounds = [recorded(QUICKNET, number) for number in range(first, first + count)]
    text = b"".join(encode_line(QUICKNET, stated) for stated in rounds)
    return Recording(QUICKNET, (stated for _, stated in read_lines(io.BytesIO(text), known(PINNED.values()))))


def test_a_recording_needs_a_round():
    with pytest.raises(DevnetError):
        Recording(QUICKNET, ())


def test_a_replay_runs_at_its_own_pace_or_faster():
    base = FakeClock(5_000_000)
    begin = QUICKNET.time(72_750)
    plain, fast = ReplayClock(begin, 1, base), ReplayClock(begin, 60, base)
    base.advance(1_500)
    assert (plain.now() - begin, fast.now() - begin) == (1_500, 90_000)


async def test_a_recording_is_served_as_it_was_and_ends():
    base = FakeClock(1)
    clock = ReplayClock(QUICKNET.time(72_750), 10, base)
    devnet = Devnet(recording(), clock, speed=10)
    await devnet.start()
    async with open_session() as session:
        relay = Relay(devnet.url, session, clock, 2_000)
        assert await relay.fetch(QUICKNET, 72_750) == recorded(QUICKNET, 72_750)
        with pytest.raises(NotDue):
            await devnet.round(72_751)
        base.advance(300)
        assert await relay.fetch(QUICKNET, 72_751) == recorded(QUICKNET, 72_751)
        base.advance(3_600_000)
        assert devnet.production.head() == 72_759
        with pytest.raises(NotDue):
            await devnet.source.round(72_760)
        with pytest.raises(NotDue):
            await devnet.source.second(72_759)
    await devnet.stop()


async def test_a_replay_a_hundred_times_as_fast_is_followed_to_its_end():
    ready = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(replay("127.0.0.1", 0, recording(), 100, ready=ready.set_result))
    devnet = await ready
    seen = []
    async with aiohttp.ClientSession(devnet.url) as session, asyncio.timeout(20):
        while not seen or seen[-1] < 72_759:
            async with session.get(f"/v2/chains/{QUICKNET.hash.hex()}/rounds/latest") as response:
                seen.append((await response.json())["round"])
    assert seen == sorted(seen)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
