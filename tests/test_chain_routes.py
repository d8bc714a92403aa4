"""GET /v1/chains, its rounds and its metrics over real followers: health, caching for ever, waiting for a round."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from beacon.errors import PROBLEMS
from beacon.rounds import Followed, Policy, Rounds
from beacon.rounds import follower as following
from beacon.rounds.health import RelayHealth
from beacon.rounds.rounds import TROUBLES
from beacon.sessions.changes import Changes
from beacon.sessions.waiting import Waiting
from beacon.settings import Settings
from beacon.web import waits
from beacon.web.application import build_web
from beacon.web.chain_metrics import ChainCollector
from beacon.web.metrics_routes import build_metrics
from beacon.web.services import SERVICES, Chain, Services
from tests.lying_relay import LyingRelay
from tests.round_support import QUICKNET, InlineVerifier, MemoryRoundStore, at, until, verified

HASH = QUICKNET.hash
ROUNDS = f"/v1/chains/{HASH.hex()}/rounds"
ONCE = Policy(attempts=1, timeout=400)


@pytest.fixture
def clock():
    return at(72_800)


BEGUN = SimpleNamespace(latest=lambda: SimpleNamespace(time=0))
"""A log whose newest entry is in nobody's way."""


class World:
    def __init__(self, client, metrics, rounds, server, waiting):
        self.client, self.metrics = client, metrics
        self.rounds, self.server, self._waiting = rounds, server, waiting

    async def get(self, path, status=200, **headers):
        async with self.client.get(path, headers=headers) as response:
            body = await response.read()
            assert response.status == status, body
            return response, json.loads(body) if body else None

    async def asked(self, path, status=200):
        """Ask in the background, until somebody waits for a round."""
        before = len(self._waiting)
        task = asyncio.create_task(self.get(path, status))
        await until(lambda: len(self._waiting) > before)
        return task


@pytest.fixture
async def world(aiohttp_client, clock):
    async with LyingRelay(clock=clock) as server:
        followed = Followed(QUICKNET, (server.url, "http://127.0.0.1:9/secret-key"))
        rounds = Rounds(
            [followed], MemoryRoundStore(), clock, policy=ONCE, verifier=InlineVerifier(), sleep=clock.sleep
        )
        await rounds.start(scheduled=False)
        settings = Settings(origin="o.example")
        app = build_web(settings)
        app[SERVICES] = Services(
            sessions=None, answers=None, waiting=Waiting(None, Changes()), log=BEGUN, vkey="", rounds=rounds, hosts=None, webhooks=None,
            stopped=lambda: None, settings=settings, chains=(Chain("quicknet", QUICKNET, sandbox_only=False),),
        )  # fmt: skip
        client = await aiohttp_client(app)
        metrics = await aiohttp_client(build_metrics(app))
        yield World(client, metrics, rounds, server, rounds._followers[HASH].waiters)
        await rounds.stop()


async def problem(world, path, code):
    _, document = await world.get(path, PROBLEMS[code].status)
    assert document["code"] == code
    return document


# a round, for ever


async def test_a_round_is_cached_for_ever_and_asked_for_again_in_vain(world):
    await world.rounds.accept(verified(QUICKNET, 72_800))
    response, document = await world.get(f"{ROUNDS}/72800")
    assert document == {
        "chain": HASH.hex(),
        "round": 72_800,
        "time": QUICKNET.time(72_800),
        "randomness": verified(QUICKNET, 72_800).randomness.hex(),
        "signature": verified(QUICKNET, 72_800).signature.hex(),
    }
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    tag = response.headers["ETag"]
    assert tag.startswith('"')
    for given in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again, body = await world.get(f"{ROUNDS}/72800", 304, **{"If-None-Match": given})
        assert body is None
        assert again.headers["ETag"] == tag
        assert again.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    _, other = await world.get(f"{ROUNDS}/72800", **{"If-None-Match": '"other"'})
    assert other == document


async def test_each_round_has_a_tag_of_its_own(world):
    tags = set()
    for number in (72_799, 72_800):
        await world.rounds.accept(verified(QUICKNET, number))
        response, _ = await world.get(f"{ROUNDS}/{number}")
        tags.add(response.headers["ETag"])
    assert len(tags) == 2


async def test_a_round_that_is_not_there_is_never_cached_nor_fetched(world):
    asked = list(world.server.asked)
    response, document = await world.get(f"{ROUNDS}/72799", 404)
    assert document["code"] == "round-unknown"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Retry-After"] == "1"
    assert world.server.asked == asked


# waiting


async def test_whoever_waits_gets_the_round_when_it_comes(world):
    waiting = await world.asked(f"{ROUNDS}/72799?wait=60")
    await world.rounds.accept(verified(QUICKNET, 72_800))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await world.rounds.accept(verified(QUICKNET, 72_799))
    response, document = await waiting
    assert document["round"] == 72_799
    assert "immutable" in response.headers["Cache-Control"]


async def test_a_round_that_is_there_is_not_waited_for(world):
    await world.rounds.accept(verified(QUICKNET, 72_800))
    _, document = await world.get(f"{ROUNDS}/72800?wait=60")
    assert document["round"] == 72_800


async def test_the_next_round_is_whatever_is_newest_next(world):
    await world.rounds.accept(verified(QUICKNET, 72_798))
    waiting = await world.asked(f"{ROUNDS}/next")
    await world.rounds.accept(verified(QUICKNET, 72_797))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await world.rounds.accept(verified(QUICKNET, 72_800))
    response, document = await waiting
    assert document["round"] == 72_800
    assert response.headers["Content-Location"] == f"{ROUNDS}/72800"
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/next?wait=0", "/next?wait=1", "/72799?wait=1"])
async def test_a_wait_ends(world, path):
    document = await problem(world, ROUNDS + path, "round-unknown")
    assert document["retryable"]


async def test_waits_are_bounded_in_time_and_number(world, monkeypatch):
    monkeypatch.setattr("beacon.web.chain_routes.MAX_WAIT", 0)
    await problem(world, f"{ROUNDS}/next?wait=999999", "round-unknown")
    monkeypatch.undo()
    monkeypatch.setattr(world._waiting, "_limit", 2)
    first = [await world.asked(f"{ROUNDS}/72799?wait=60"), await world.asked(f"{ROUNDS}/next?wait=60")]
    await problem(world, f"{ROUNDS}/next?wait=60", "round-unknown")
    await world.rounds.accept(verified(QUICKNET, 72_799))
    for waiting in first:
        await waiting
    assert len(world._waiting) == 0
    assert following.MAX_WAITERS == 1_000


@pytest.mark.parametrize(
    "query", ["wait=-1", "wait=x", "wait=1.5", "wait=01", "wait=1&wait=2", "w=1", "wait=1&x=2", "wait="]
)
async def test_what_is_no_wait_is_refused(world, query):
    for path in ("/next", "/72800"):
        await problem(world, f"{ROUNDS}{path}?{query}", "invalid-request")


async def test_a_client_that_goes_away_leaves_nobody_waiting(world):
    waiting = await world.asked(f"{ROUNDS}/next?wait=1")
    waiting.cancel()
    await until(lambda: len(world._waiting) == 0)


@pytest.mark.parametrize("path", ["next?wait=60", "72799?wait=60"])
async def test_clients_that_go_away_leave_their_places_also_where_handlers_are_not_cancelled(world, path, monkeypatch):
    """As the service runs them: aiohttp lets a handler go on after its client has left."""
    monkeypatch.setattr(waits, "LOOK_SECONDS", 0.01)
    runner = web.AppRunner(_again(world.client.app))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        for _ in range(3):
            _, writer = await asyncio.open_connection(*runner.addresses[0])
            writer.write(f"GET {ROUNDS}/{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            await until(lambda: len(world._waiting) == 1)
            writer.close()
            await until(lambda: len(world._waiting) == 0)
    finally:
        await runner.cleanup()


def _again(app):
    again = build_web(app[SERVICES].settings)
    again[SERVICES] = app[SERVICES]
    return again


@pytest.mark.parametrize("path", ["next?wait=60", "72799?wait=60"])
async def test_one_address_cannot_take_every_place(world, path):
    seats = world.client.app[waits.SEATS]
    taken = [await world.asked(f"{ROUNDS}/{path}", 404) for _ in range(seats._per_address)]
    await problem(world, f"{ROUNDS}/{path}", "too-many-listeners")
    await problem(world, f"{ROUNDS}/72799", "round-unknown")
    world.rounds.release()
    await asyncio.gather(*taken)
    assert len(seats) == 0


async def test_a_stop_lets_everybody_go(world):
    waiting = [await world.asked(f"{ROUNDS}/{path}?wait=60", 404) for path in ("next", "72799")]
    world.rounds.release()
    for task in waiting:
        await task
    assert len(world._waiting) == 0


async def test_the_service_lets_everybody_go_before_it_stops(world):
    waiting = await world.asked(f"{ROUNDS}/next?wait=60", 404)
    await world.client.app.shutdown()
    await waiting


@pytest.mark.parametrize("path", ["/next?wait=1", "/1?wait=1", "/1"])
async def test_other_chains_are_unknown(world, path):
    await problem(world, f"/v1/chains/{'00' * 32}/rounds{path}", "chain-unknown")


# the chains and their relays


async def chain_of(world):
    _, document = await world.get("/v1/chains")
    (chain,) = document["chains"]
    return chain


async def test_a_chain_says_how_it_stands_before_and_after_its_first_round(world):
    chain = await chain_of(world)
    assert (chain["newest_round"], chain["newest_round_time"], chain["expected_round"]) == (None, None, 72_800)
    assert (chain["stale"], chain["trouble"]) == (True, "no-verified-round")
    await world.rounds.tick()
    chain = await chain_of(world)
    assert (chain["newest_round"], chain["newest_round_time"]) == (72_800, QUICKNET.time(72_800))
    assert (chain["stale"], chain["trouble"], chain["overdue"], chain["signed_twice"]) == (False, None, 0, [])


async def test_staleness_is_judged_by_our_clock_and_the_schedule(world, clock):
    await world.rounds.tick()
    world.server.lie = 404
    for number in (72_803, 72_900):
        world.rounds.want(HASH, number)
    clock.time = QUICKNET.time(72_800) + 19_000
    assert not (await chain_of(world))["stale"]
    clock.advance(1)
    chain = await chain_of(world)
    assert (chain["stale"], chain["trouble"], chain["expected_round"]) == (True, "clock-unsure", 72_806)
    assert (chain["waiting_for"], chain["overdue"]) == (2, 1)


async def test_before_genesis_nothing_is_stale():
    clock = at(1, more=-60_000)
    rounds = Rounds([Followed(QUICKNET, ())], MemoryRoundStore(), clock, policy=ONCE, verifier=InlineVerifier())
    await rounds.start(scheduled=False)
    status = rounds.status(HASH)
    assert (status.expected, status.stale, status.trouble) == (0, False, "no-verified-round")
    await rounds.stop()


async def test_a_retired_chain_expects_no_round_beyond_its_last():
    clock = at(72_900)
    chain = replace(QUICKNET, last_round=72_800)
    rounds = Rounds([Followed(chain, ())], MemoryRoundStore(), clock, policy=ONCE, verifier=InlineVerifier())
    await rounds.start(scheduled=False)
    status = rounds.status(HASH)
    assert (status.expected, status.newest, status.trouble) == (72_800, None, "chain-retired")
    clock.time = chain.time(72_800) - 1
    assert rounds.status(HASH).trouble == "no-verified-round"
    await rounds.stop()


async def test_each_relay_says_how_it_does_and_no_path_of_it_is_shown(world, clock):
    await world.rounds.tick()
    good, other = (await chain_of(world))["relays"]
    assert (good["relay"], other["relay"]) == (world.server.url, "http://127.0.0.1:9")
    assert (good["last_success"], good["last_round"], good["answered"]) == (clock.now(), 72_800, 1)
    assert (good["last_failure"], good["last_failure_reason"], good["refused"]) == (None, None, {})
    assert good["latency_ms"] >= 0
    world.server.lie = "negated"
    clock.advance(12_000)
    await world.rounds.tick()
    relays = {relay["relay"]: relay for relay in (await chain_of(world))["relays"]}
    liar, down = relays[world.server.url], relays["http://127.0.0.1:9"]
    assert (liar["last_failure"], liar["last_failure_reason"]) == (clock.now(), "signature-invalid")
    assert liar["refused"] == {"signature-invalid": 1}
    assert (down["failures_in_a_row"], down["last_failure_reason"], down["last_success"]) == (1, "unreachable", None)
    assert list(relays) == ["http://127.0.0.1:9", world.server.url]
    assert liar["expected_ms"] > down["expected_ms"]


# metrics


ORDER = ("chain", "code", "relay", "reason")


async def metrics_of(world):
    """Every sample, by its name and the values of its labels, as Prometheus reads them."""
    async with world.metrics.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert response.headers["Cache-Control"] == "no-store"
        text = await response.text()
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples if "request" not in sample.name]
    found = {
        (sample.name, *(sample.labels[label] for label in ORDER if label in sample.labels)): sample.value
        for sample in samples
    }
    assert len(found) == len(samples)
    return found, text


async def test_metrics_tell_how_each_chain_stands(world, clock):
    found, _ = await metrics_of(world)
    assert ("beacon_chain_newest_round", "quicknet") not in found
    assert found["beacon_chain_trouble", "quicknet", "no-verified-round"] == 1
    await world.rounds.tick()
    found, _ = await metrics_of(world)
    assert found["beacon_chain_newest_round", "quicknet"] == 72_800
    assert found["beacon_chain_newest_round_time_seconds", "quicknet"] == QUICKNET.time(72_800) / 1_000
    assert found["beacon_chain_stale", "quicknet"] == 0
    assert {found["beacon_chain_trouble", "quicknet", code] for code in TROUBLES} == {0}
    world.server.lie = 404
    for number in (72_803, 72_900):
        world.rounds.want(HASH, number)
    clock.time = QUICKNET.time(72_800) + 19_001
    found, _ = await metrics_of(world)
    assert found["beacon_chain_expected_round", "quicknet"] == 72_806
    assert found["beacon_chain_stale", "quicknet"] == 1
    assert [code for code in TROUBLES if found["beacon_chain_trouble", "quicknet", code]] == ["clock-unsure"]
    assert found["beacon_chain_rounds_waited_for", "quicknet"] == 2
    assert found["beacon_chain_rounds_overdue", "quicknet"] == 1
    assert found["beacon_chain_rounds_signed_twice", "quicknet"] == 0


async def test_metrics_tell_how_each_relay_does_and_show_no_path_of_it(world, clock):
    await world.rounds.tick()
    begun = clock.now() / 1_000
    world.server.lie = "negated"
    clock.advance(12_000)
    await world.rounds.tick()
    found, text = await metrics_of(world)
    liar, down = ("quicknet", world.server.url), ("quicknet", "http://127.0.0.1:9")
    assert found["beacon_relay_answers_total", *liar] == 1
    assert found["beacon_relay_refusals_total", *liar, "signature-invalid"] == 1
    assert found["beacon_relay_refusals_total", *liar, "unreachable"] == 0
    assert found["beacon_relay_refusals_total", *down, "unreachable"] == 1
    assert found["beacon_relay_failures_in_a_row", *liar] == found["beacon_relay_failures_in_a_row", *down] == 1
    assert found["beacon_relay_last_round", *liar] == 72_800
    assert found["beacon_relay_last_success_time_seconds", *liar] == begun
    assert found["beacon_relay_last_failure_time_seconds", *liar] == clock.now() / 1_000
    assert found["beacon_relay_latency_seconds", *liar] < found["beacon_relay_cost_seconds", *liar]
    assert ("beacon_relay_latency_seconds", *down) not in found
    assert found["beacon_relay_beaten_total", *down] == 0
    assert "secret-key" not in text


def test_relays_of_one_host_have_metrics_of_their_own():
    healths = [RelayHealth(f"https://relay.example/{key}", answered=count) for key, count in (("b", 2), ("a", 1))]
    status = SimpleNamespace(
        newest=None, trouble=None, wanted=(), overdue=0, expected=0, stale=False, evidence=(), relays=healths
    )
    families = {family.name: family for family in ChainCollector(lambda: [("c", status)]).collect()}
    answers = {sample.labels["relay"]: sample.value for sample in families["beacon_relay_answers"].samples}
    assert answers == {"https://relay.example": 1, "https://relay.example (2)": 2}
