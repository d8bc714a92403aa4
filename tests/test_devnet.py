"""The local drand network: what it signs, what it serves and when, and that nobody takes it for a real one."""

import asyncio
import hashlib
import json
import stat
from dataclasses import replace
from email.utils import formatdate

import aiohttp
import pytest

from beacon.clock import SystemClock
from beacon.rounds import Followed, Rounds
from beacon.rounds.devnet import BEACON_ID, Devnet, DevnetError, Network, NotDue, open_network, serve
from beacon.rounds.relays import Relay, open_session
from tests.round_support import PINNED, FakeClock, MemoryRoundStore
from verifier.drand import parse_chain_info, parse_relay_info, verify_round
from verifier.errors import Code, VerificationError

GENESIS = 1_800_000_000
NETWORK = Network.make(0x5EC0E7, bytes(32), GENESIS, 3)
CHAIN = NETWORK.chain
HASH = CHAIN.hash.hex()
V1, V2 = f"/{HASH}/public/", f"/v2/chains/{HASH}/rounds/"
FOREVER = "public, max-age=604800, immutable"


@pytest.fixture
def clock():
    return FakeClock(CHAIN.time(10) + 1_200)


@pytest.fixture
async def devnet(clock):
    devnet = Devnet(NETWORK, clock)
    await devnet.start()
    yield devnet
    await devnet.stop()


@pytest.fixture
async def get(devnet):
    async with aiohttp.ClientSession(devnet.url) as session:

        async def get(path):
            async with session.get(path) as response:
                return response, await response.text()

        yield get


async def test_rounds_verify_under_the_devnets_key_and_no_other(devnet):
    stated = await devnet.round(7)
    assert verify_round(CHAIN, stated).round == 7
    with pytest.raises(VerificationError) as caught:
        verify_round(Network.fresh(3, GENESIS).chain, stated)
    assert caught.value.code is Code.ROUND_SIGNATURE
    with pytest.raises(VerificationError):
        verify_round(CHAIN, replace(stated, round=8))


@pytest.mark.parametrize("number", [0, -1, 11, 12, 10**9])
async def test_no_round_is_signed_before_it_is_due(devnet, number):
    with pytest.raises(NotDue):
        await devnet.round(number)


async def test_each_round_is_signed_once(devnet, monkeypatch):
    signed = []
    sign = Network.sign
    monkeypatch.setattr(Network, "sign", lambda self, number, _: signed.append(number) or sign(self, number))
    rounds = await asyncio.gather(*(devnet.round(number) for number in (5, 5, 6, 5, 6)))
    assert [stated.round for stated in rounds] == [5, 5, 6, 5, 6]
    assert signed == [5, 6]


async def test_the_cache_of_signatures_is_bounded(devnet, monkeypatch):
    monkeypatch.setattr("beacon.rounds.network._KEPT_ROUNDS", 2)
    for number in (1, 2, 3):
        await devnet.round(number)
    assert list(devnet.source._signatures) == [2, 3]


def test_every_fresh_network_is_another_one():
    other = Network.fresh(3, GENESIS)
    assert other.chain.hash != CHAIN.hash
    assert other.chain.public_key != CHAIN.public_key
    assert other.chain.genesis_seed != CHAIN.genesis_seed


def test_it_is_told_apart_from_every_real_network():
    assert CHAIN.beacon_id == BEACON_ID == "devnet"
    assert all(chain.beacon_id != BEACON_ID and chain.hash != CHAIN.hash for chain in PINNED.values())
    assert CHAIN.scheme == PINNED["quicknet"].scheme
    assert parse_chain_info(CHAIN.as_dict()) == CHAIN


def test_the_secret_is_not_in_the_repr():
    assert str(NETWORK.secret) not in repr(NETWORK)
    assert f"{NETWORK.secret:x}" not in repr(NETWORK)


@pytest.mark.parametrize("path", [f"/{HASH}/info", f"/v2/chains/{HASH}/info", "/v2/beacons/devnet/info"])
async def test_its_info_is_that_of_drand(get, path):
    response, text = await get(path)
    assert response.status == 200
    assert parse_relay_info(json.loads(text)) == CHAIN


@pytest.mark.parametrize(("path", "value"), [("/chains", [HASH]), ("/v2/chains", [HASH]), ("/v2/beacons", ["devnet"])])
async def test_it_lists_its_chain(get, path, value):
    response, text = await get(path)
    assert (response.status, json.loads(text)) == (200, value)


@pytest.mark.parametrize("path", [V1, V2, "/v2/beacons/devnet/rounds/"])
@pytest.mark.parametrize("number", [1, 9, 10])
async def test_a_due_round_is_served_for_ever(get, devnet, path, number):
    response, text = await get(f"{path}{number}")
    fields = json.loads(text)
    signature = (await devnet.round(number)).signature
    randomness = {"randomness": hashlib.sha256(signature).hexdigest()} if path == V1 else {}
    assert fields == {"round": number, "signature": signature.hex()} | randomness
    assert response.status == 200
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == FOREVER
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert response.headers["Server"] == "fair-beacon devnet"


@pytest.mark.parametrize(
    ("path", "caching"), [(V1 + "11", FOREVER), (V2 + "11", "no-cache"), (V2 + "next", "no-cache")]
)
async def test_the_next_round_is_held_until_it_is_due(get, clock, path, caching):
    asked = asyncio.create_task(get(path))
    done, _ = await asyncio.wait({asked}, timeout=0.05)
    assert not done
    clock.time = CHAIN.time(11)
    response, text = await asked
    assert (response.status, json.loads(text)["round"]) == (200, 11)
    assert response.headers["Cache-Control"] == caching


@pytest.mark.parametrize(
    ("path", "status", "caching"),
    [
        (V1 + "12", 404, "public, must-revalidate, max-age=4"),
        (V1 + "100", 404, "public, must-revalidate, max-age=268"),
        (V2 + "12", 425, "must-revalidate, public, max-age=1"),
        (V2 + "9999999999999999", 425, "must-revalidate, public, max-age=1"),
    ],
)
async def test_later_rounds_are_not_there(get, path, status, caching):
    response, text = await get(path)
    assert (response.status, response.headers["Cache-Control"]) == (status, caching)
    assert "signature" not in text


@pytest.mark.parametrize(
    ("path", "caching"),
    [
        (V1 + "0", FOREVER),
        (V1 + "latest", "max-age:2, public"),
        (V2 + "0", "public, must-revalidate, max-age=1"),
        (V2 + "latest", "public, must-revalidate, max-age=1"),
    ],
)
async def test_the_latest_round_is_cached_as_drand_does_it(get, path, caching):
    response, text = await get(path)
    assert json.loads(text)["round"] == 10
    assert response.headers["Cache-Control"] == caching


async def test_a_node_dates_its_rounds(get):
    due, following = (formatdate(CHAIN.time(number) / 1000, usegmt=True) for number in (10, 11))
    latest, _ = await get(V1 + "latest")
    assert (latest.headers["Last-Modified"], latest.headers["Expires"]) == (due, following)
    response, _ = await get(V1 + "10")
    assert response.headers["Last-Modified"] == due


@pytest.mark.parametrize(
    "number", ["x", "-1", "1.0", "+1", "\u0661", "\u00b2", "1e3", "1_0", "0x1", "18446744073709551616", "1" * 30]
)
async def test_what_is_no_round_number_is_refused(get, number):
    for path in (V1, V2):
        response, _ = await get(path + number)
        assert response.status == 400


async def test_numbers_are_read_as_drand_reads_them(get):
    for path in (V1, V2):
        response, text = await get(path + "007")
        assert (response.status, json.loads(text)["round"]) == (200, 7)
    assert [(await get(path + "18446744073709551615"))[0].status for path in (V1, V2)] == [404, 425]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/{'00' * 32}/info", 404),
        (f"/{'00' * 32}/public/1", 404),
        (f"/v2/chains/{'00' * 32}/info", 500),
        (f"/v2/chains/{'00' * 32}/rounds/1", 500),
        ("/v2/beacons/default/rounds/1", 500),
        ("/public/1", 404),
        ("/info", 404),
    ],
)
async def test_other_chains_are_unknown(get, path, status):
    response, text = await get(path)
    assert (response.status, response.content_type) == (status, "text/plain")
    assert "signature" not in text


async def test_a_chain_hash_is_hexadecimal_of_either_case(get):
    response, _ = await get(f"/v2/chains/{HASH.upper()}/rounds/1")
    assert response.status == 200


@pytest.mark.parametrize("path", [f"/{HASH}/health", f"/v2/chains/{HASH}/health"])
async def test_it_is_in_good_health(get, path):
    response, text = await get(path)
    assert (response.status, json.loads(text)) == (200, {"current": 10, "expected": 10})


async def test_before_genesis_there_is_no_round(get, clock):
    clock.time = CHAIN.time(1) - 30_000
    response, _ = await get(V1 + "latest")
    assert response.status == 500
    response, _ = await get(V2 + "2")
    assert response.status == 425


@pytest.mark.parametrize("number", [1, 10])
async def test_the_relay_client_takes_its_rounds(devnet, clock, number):
    async with open_session() as session:
        assert await Relay(devnet.url, session, clock, 5_000).fetch(CHAIN, number) == await devnet.round(number)


def test_a_state_file_keeps_key_and_genesis(tmp_path):
    path, clock = tmp_path / "devnet.json", FakeClock(GENESIS * 1000 + 400)
    network = open_network(2, path, clock)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert network.chain.time(1) == GENESIS * 1000
    clock.advance(3_600_000)
    assert open_network(2, path, clock) == network
    assert open_network(2, None, clock) != network
    with pytest.raises(DevnetError, match="period of 2 s, not 3"):
        open_network(3, path, clock)
    with pytest.raises(DevnetError, match="cannot write"):
        network.save(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"secret":"00","genesis_seed":"00","genesis_time":1,"period":3}',
        json.dumps({"secret": "00" * 32, "genesis_seed": "00" * 32, "genesis_time": 1, "period": 3}),
        json.dumps({"secret": "00" * 31 + "01", "genesis_seed": "00" * 32, "genesis_time": 1, "period": "3"}),
        json.dumps({"secret": "00" * 31 + "01", "genesis_seed": "00" * 32, "genesis_time": 1, "period": 0}),
        json.dumps({"secret": "00" * 31 + "01", "genesis_seed": "00" * 32, "genesis_time": -1, "period": 3}),
    ],
)
def test_what_is_no_state_file_is_refused(tmp_path, text):
    path = tmp_path / "devnet.json"
    path.write_text(text)
    with pytest.raises(DevnetError):
        open_network(3, path, FakeClock(GENESIS * 1000))


def test_a_state_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(DevnetError, match="cannot write"):
        open_network(3, tmp_path / "absent" / "devnet.json", FakeClock(GENESIS * 1000))


async def test_it_is_served_until_cancelled_and_followed_by_the_service(tmp_path):
    ready = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve("127.0.0.1", 0, 1, tmp_path / "devnet.json", ready=ready.set_result))
    devnet = await ready
    told = asyncio.Queue()
    rounds = Rounds([Followed(devnet.chain, (devnet.url,))], MemoryRoundStore(), SystemClock())
    rounds.on_round(told.put)
    await rounds.start()
    first = await told.get()
    rounds.want(devnet.chain.hash, first.round + 1)
    assert (await told.get()).round == first.round + 1
    assert rounds.trouble(devnet.chain.hash) is None
    await rounds.stop()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert devnet._runner is None
