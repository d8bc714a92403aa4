"""The client of one relay, against relays that lie in every way."""

from dataclasses import replace

import pytest

from beacon.rounds import relays
from beacon.rounds.fetcher import Fetcher, NotFetched
from beacon.rounds.refusals import LIES as LYING_REASONS
from beacon.rounds.refusals import Reason, Refusal
from beacon.rounds.relays import Relay, open_session
from tests import lying_relay
from tests.lying_relay import LyingRelay
from tests.round_support import DEFAULT, FASTNET, QUICKNET, FakeClock, InlineVerifier, recorded

ROUND = 72_825
NOW = QUICKNET.time(72_830) + 500
TIMEOUT = 20_000
SHORT = 400
"""Only for what is no answer at all; a bound on honest ones would make the machine's load a reason to refuse."""

REASONS = {
    "upper-case": Reason.ENCODING,
    "spaces": Reason.ENCODING,
    "twice": Reason.ENCODING,
    "cut-signature": Reason.ENCODING,
    "no-signature": Reason.FIELDS,
    "null-signature": Reason.ENCODING,
    "identity": Reason.IDENTITY,
    "not-on-curve": Reason.ENCODING,
    "outside-subgroup": Reason.SUBGROUP,
    "negated": Reason.SIGNATURE,
    "other-round-signature": Reason.SIGNATURE,
    "wrong-chain-signature": Reason.SIGNATURE,
    "no-text-previous": Reason.FIELDS,
    "wrong-previous": Reason.FIELDS,
    "forged-randomness": Reason.FORGED_RANDOMNESS,
    "numeric-randomness": Reason.FORGED_RANDOMNESS,
    "round-as-text": Reason.FIELDS,
    "round-as-boolean": Reason.FIELDS,
    "no-round": Reason.FIELDS,
    "renumbered": Reason.WRONG_ROUND,
    "redirect": Reason.REDIRECT,
    "permanent-redirect": Reason.REDIRECT,
    "cached-404": Reason.CACHED_NOT_YET,
    "html": Reason.CONTENT_TYPE,
    "html-as-json": Reason.JSON,
    "text": Reason.CONTENT_TYPE,
    "empty": Reason.JSON,
    "array": Reason.JSON,
    "cut-json": Reason.JSON,
    "duplicate-keys": Reason.JSON,
    "fraction": Reason.JSON,
    "nested": Reason.JSON,
    "huge": Reason.TOO_LARGE,
    "endless": Reason.TOO_LARGE,
    "bomb": Reason.CONTENT_TYPE,
    "truncated": Reason.TRUNCATED,
    "slow-body": Reason.TIMEOUT,
    "hang": Reason.TIMEOUT,
    "hang-up": Reason.UNREACHABLE,
    "not-http": Reason.HTTP,
    "wrong-round": Reason.WRONG_ROUND,
    "latest-instead": Reason.WRONG_ROUND,
    "future-round": Reason.FUTURE_ROUND,
    "wrong-chain": Reason.WRONG_CHAIN,
    "wrong-scheme": Reason.WRONG_CHAIN,
    "wrong-key": Reason.WRONG_CHAIN,
    "wrong-hash": Reason.WRONG_CHAIN,
}


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
async def session():
    async with open_session() as session:
        yield session


@pytest.fixture
def relay_at(session, clock):
    return lambda server, timeout=TIMEOUT: Relay(server.url, session, clock, timeout)


async def refusal_of(relay, clock, chain=QUICKNET, number=ROUND):
    """Why the relay's answer is refused, by the client or by the verification."""
    fetcher = Fetcher(chain, [relay], InlineVerifier(), clock)
    with pytest.raises(NotFetched) as caught:
        await fetcher.fetch(number)
    return caught.value.reasons[relay.url]


def test_every_lie_has_its_reason():
    assert set(REASONS) == set(lying_relay.LIES)
    assert not LYING_REASONS - set(REASONS.values())


@pytest.mark.parametrize("apis", [(2, 1), (1,)], ids=["v2", "v1"])
@pytest.mark.parametrize("lie", REASONS)
async def test_a_lie_is_refused_and_the_next_honest_answer_is_used(lie, apis, relay_at, clock):
    async with LyingRelay(clock=clock, lie=lie, apis=apis) as server:
        relay = relay_at(server, SHORT if REASONS[lie] is Reason.TIMEOUT else TIMEOUT)
        assert await refusal_of(relay, clock) is REASONS[lie]
        assert relay.health(QUICKNET).refused == {REASONS[lie]: 1}
        server.lie = None
        (verified,) = await Fetcher(QUICKNET, [relay_at(server)], InlineVerifier(), clock).fetch(ROUND)
        assert verified.signature == recorded(QUICKNET, ROUND).signature
        assert not any(path.startswith("/honest") for path in server.asked)


@pytest.mark.parametrize("status", [404, 425, 500, 503])
async def test_not_yet_is_said_in_four_ways(status, relay_at, clock):
    async with LyingRelay(lie=status) as server:
        assert await refusal_of(relay_at(server), clock) is Reason.NOT_YET


@pytest.mark.parametrize("status", [201, 204, 206, 400, 401, 403, 410, 429, 451, 502, 504])
async def test_other_statuses_are_no_answer(status, relay_at, clock):
    async with LyingRelay(lie=status) as server:
        assert await refusal_of(relay_at(server), clock) is Reason.STATUS


async def test_a_relay_that_is_down_is_unreachable(relay_at, clock):
    async with LyingRelay() as server:
        relay = relay_at(server)
    assert await refusal_of(relay, clock) is Reason.UNREACHABLE


@pytest.mark.parametrize(("apis", "path"), [((2, 1), "/v2/chains/{}/rounds/{}"), ((1,), "/{}/public/{}")])
async def test_the_api_is_learnt_once(apis, path, relay_at):
    async with LyingRelay(apis=apis) as server:
        relay = relay_at(server)
        for number in (1000, 1001):
            assert await relay.fetch(QUICKNET, number) == recorded(QUICKNET, number)
        assert server.asked[-2:] == [path.format(QUICKNET.hash.hex(), n) for n in (1000, 1001)]
        assert len([asked for asked in server.asked if asked.endswith("/info")]) == 3 - len(apis)


@pytest.mark.parametrize("gone", [2, 1])
async def test_a_relay_that_changes_its_api_is_asked_anew(gone, relay_at, clock):
    async with LyingRelay(apis=(gone,)) as server:
        relay = relay_at(server)
        await relay.fetch(QUICKNET, 1000)
        server.apis = (3 - gone,)
        for _ in range(3):
            assert await refusal_of(relay, clock) is Reason.NOT_YET
        assert await relay.fetch(QUICKNET, 1000) == recorded(QUICKNET, 1000)


async def test_a_relay_without_info_is_asked_in_both_apis(relay_at, monkeypatch):
    monkeypatch.setitem(relays._INFO_PATHS, 1, "/none/{chain}")
    monkeypatch.setitem(relays._INFO_PATHS, 2, "/v2/none/{chain}")
    async with LyingRelay(apis=(1,)) as server:
        assert await relay_at(server).fetch(QUICKNET, 1000) == recorded(QUICKNET, 1000)


async def test_only_the_exact_round_is_asked_for_and_never_before_it_is_due(relay_at, clock):
    async with LyingRelay(clock=clock) as server:
        relay = relay_at(server)
        await relay.fetch(QUICKNET, 72_830)
        with pytest.raises(ValueError, match="not due"):
            await relay.fetch(QUICKNET, 72_831)
        assert server.rounds_asked == ["72830"]


async def test_after_a_refusal_caches_are_asked_to_stand_aside(relay_at, clock):
    async with LyingRelay(lie="cached-404") as server:
        relay = relay_at(server)
        assert await refusal_of(relay, clock) is Reason.CACHED_NOT_YET
        server.lie = None
        await Fetcher(QUICKNET, [relay], InlineVerifier(), clock).fetch(ROUND)
        await relay.fetch(QUICKNET, ROUND - 1)
        assert [headers.get("Cache-Control") for headers in server.headers] == [None, "no-cache", None]


async def test_requests_carry_no_cookies_and_ask_for_no_encoding(relay_at):
    async with LyingRelay() as server:
        await relay_at(server).fetch(QUICKNET, 1000)
        headers = server.headers[0]
        assert headers["Accept-Encoding"] == "identity"
        assert headers["Accept"] == "application/json"
        assert "Cookie" not in headers


async def test_proxies_of_the_environment_are_not_used(relay_at, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    async with LyingRelay() as server:
        assert (await relay_at(server).fetch(QUICKNET, 1000)).round == 1000


async def test_a_chained_round_comes_with_its_previous_signature(relay_at):
    async with LyingRelay() as server:
        assert await relay_at(server).fetch(DEFAULT, 367) == recorded(DEFAULT, 367)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"previous_signature": None}, Reason.FIELDS),
        ({"previous_signature": b""}, Reason.FIELDS),
        ({"previous_signature": DEFAULT.genesis_seed}, Reason.FIELDS),
        ({"previous_signature": recorded(DEFAULT, 2).signature}, Reason.SIGNATURE),
        ({"signature": recorded(DEFAULT, 2).signature}, Reason.SIGNATURE),
    ],
)
async def test_a_chained_round_with_another_previous_signature_is_refused(change, reason, relay_at, clock):
    rounds = {(DEFAULT.hash, 367): replace(recorded(DEFAULT, 367), **change)}
    async with LyingRelay(rounds=rounds) as server:
        assert await refusal_of(relay_at(server), clock, DEFAULT, 367) is reason


@pytest.mark.parametrize("previous", [None, b"", DEFAULT.genesis_seed])
async def test_round_one_needs_no_previous_signature_in_the_answer(previous, relay_at):
    rounds = {(DEFAULT.hash, 1): replace(recorded(DEFAULT, 1), previous_signature=previous)}
    async with LyingRelay(rounds=rounds) as server:
        assert await relay_at(server).fetch(DEFAULT, 1) == recorded(DEFAULT, 1)


async def test_round_one_with_another_genesis_seed_is_refused(relay_at, clock):
    rounds = {(DEFAULT.hash, 1): replace(recorded(DEFAULT, 1), previous_signature=bytes(32))}
    async with LyingRelay(rounds=rounds) as server:
        assert await refusal_of(relay_at(server), clock, DEFAULT, 1) is Reason.FIELDS


async def test_a_round_beyond_all_rounds_is_a_future_one(relay_at, clock):
    rounds = {(QUICKNET.hash, ROUND): replace(recorded(QUICKNET, ROUND), round=2**53 - 1)}
    async with LyingRelay(rounds=rounds) as server:
        assert await refusal_of(relay_at(server), clock) is Reason.FUTURE_ROUND


async def test_relays_are_asked_in_turn_until_one_is_honest(relay_at, clock):
    async with LyingRelay(lie="negated") as first, LyingRelay(lie=404) as second, LyingRelay() as third:
        asked = [relay_at(server) for server in (first, second, third)]
        fetcher = Fetcher(QUICKNET, asked, InlineVerifier(), clock)
        assert [verified.round for verified in await fetcher.fetch(1000)] == [1000]
        await fetcher.fetch(1001)
        assert [server.rounds_asked for server in (first, second, third)] == [["1000"], ["1000"], ["1000", "1001"]]


async def test_a_liar_is_asked_last_afterwards(relay_at, clock):
    async with LyingRelay(lie="negated") as liar, LyingRelay(lie=404) as late:
        fetcher = Fetcher(QUICKNET, [relay_at(liar), relay_at(late)], InlineVerifier(), clock)
        for _ in range(2):
            with pytest.raises(NotFetched) as caught:
                await fetcher.fetch(1000)
        assert list(caught.value.reasons) == [late.url, liar.url]
        assert caught.value.waiting


async def test_health_counts_what_a_relay_did(relay_at, clock):
    async with LyingRelay(lie="negated") as server:
        relay = relay_at(server)
        await refusal_of(relay, clock)
        await refusal_of(relay, clock)
        health = relay.health(QUICKNET)
        assert (health.answered, health.failures_in_a_row, health.last_reason) == (0, 2, Reason.SIGNATURE)
        server.lie = None
        await Fetcher(QUICKNET, [relay], InlineVerifier(), clock).fetch(1000)
        assert (health.answered, health.failures_in_a_row, health.last_answer) == (1, 0, NOW)
        assert relay.health(FASTNET).answered == 0


async def test_a_relay_of_another_chain_only_is_told_apart(relay_at, clock):
    async with LyingRelay([FASTNET]) as server:
        assert await refusal_of(relay_at(server), clock) is Reason.NOT_YET
        assert await relay_at(server).fetch(FASTNET, 1000) == recorded(FASTNET, 1000)


def test_a_refusal_names_its_reason_first():
    assert str(Refusal(Reason.JSON, "not JSON")) == "json: not JSON"
