"""Webhooks: signatures, addresses, one attempt, the courier's patience, and everything over HTTP with a receiver."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import tempfile
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from beacon.errors import ApiError
from beacon.settings import WebhookSettings
from beacon.store import webhooks as stored
from beacon.store.errors import WebhookExists, WebhookLimit, WriteFailed
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.webhooks import Delivery, Encrypted, Endpoint, WebhookStore
from beacon.store.writer import Writer
from beacon.web import webhook_routes
from beacon.webhooks import courier as couriers
from beacon.webhooks import outbox, signing
from beacon.webhooks.addresses import allowed, check_url
from beacon.webhooks.courier import Courier
from beacon.webhooks.outbox import Item
from beacon.webhooks.sender import MAX_RETRY_AFTER, Outcome, Sender
from beacon.webhooks.signing import Vault, message_id
from beacon.webhooks.webhooks import LogOutbox, Webhooks
from tests.round_support import FakeClock, until
from tests.session_support import ALICE, BOB, service
from tests.test_live import LIVE, reach
from tests.test_waiting import histories, names_by_folding
from tests.web_support import headers, web_of

KEY = bytes(range(32))
LOOPBACK = "127.0.0.0/8"
HOUR = 3_600_000


# Signatures


def test_the_signature_of_the_specifications_own_libraries():
    """libraries/go/webhook_test.go of github.com/standard-webhooks/standard-webhooks, TestWebhookSign."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signing.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [secret])
    assert made == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_two_secrets_give_two_signatures():
    made = signing.headers("msg_1", 5, b"{}", [b"a" * 32, b"b" * 32])["webhook-signature"].split(" ")
    assert made == [signing.headers("msg_1", 5, b"{}", [key * 32])["webhook-signature"] for key in (b"a", b"b")]


def test_secrets_and_ids_have_the_specified_forms():
    shown = signing.show_secret(signing.make_secret())
    assert shown.startswith("whsec_")
    assert len(base64.b64decode(shown.removeprefix("whsec_"), validate=True)) == 32
    ids = {message_id(name, index) for name in ("wh_a", "wh_b", "wh_a/1") for index in (1, 11, 111)}
    assert len(ids) == 9
    assert all("." not in name for name in ids)
    assert message_id("wh_a", 1) == message_id("wh_a", 1)


def test_a_secret_opens_for_its_endpoint_and_master_key_only():
    vault, secret = Vault(KEY), signing.make_secret()
    kept = vault.encrypt("wh_a", secret)
    assert vault.decrypt("wh_a", kept) == secret
    assert vault.decrypt("wh_b", kept) is None
    assert Vault(bytes(32)).decrypt("wh_a", kept) is None
    assert vault.decrypt("wh_a", Encrypted(kept.nonce, kept.ciphertext[:-1])) is None
    assert vault.encrypt("wh_a", secret) != kept


# Addresses

REFUSED = [
    "0.0.0.0",
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "localhost",
    "127.1",
    "0x7f.1",
    "2130706433",
    "1.2.3",
    "1.2.3.4.5",
]


@pytest.mark.parametrize("address", [*REFUSED, ""])
def test_nothing_is_sent_to_what_is_not_the_public_internet(address):
    assert not allowed(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_the_public_internet_is_allowed(address):
    assert allowed(address)


def test_the_operator_allows_networks():
    networks = WebhookSettings(allow_networks="127.0.0.0/8 fd00::/8")
    opened = Webhooks(None, None, KEY, None, networks)._networks
    assert allowed("127.0.0.1", opened)
    assert allowed("::ffff:127.0.0.1", opened)
    assert allowed("fd00::1", opened)
    assert not allowed("10.0.0.1", opened)
    with pytest.raises(ValueError, match="no network"):
        WebhookSettings(allow_networks="10.0.0.1/8")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://",
        "https:///path",
        "https://user:secret@example.com/",
        "https://user@example.com/",
        "https://example.com/#fragment",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://exämple.com/",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://[half/",
        "https://example.com/" + "x" * 2048,
    ],
)
def test_urls_that_no_webhook_has(url):
    with pytest.raises(ApiError, match="webhook-url-invalid") as caught:
        check_url(url, (), http=False)
    assert "secret" not in str(caught.value)


def test_urls_that_a_webhook_has():
    for url in (
        "https://example.com",
        "https://example.com:8443/a?b=c",
        "https://1.1.1.1/",
        "https://[2606:4700::1]/x",
    ):
        assert check_url(url, (), http=False) == url
    assert check_url("http://example.com/", (), http=True)


# One attempt


class Receiver:
    """A server that remembers what it was sent and answers what it is told to."""

    def __init__(self):
        self.requests, self.answers, self.default = [], [], web.Response
        app = web.Application()
        app.router.add_post("/{path:.*}", self._take)
        self.server = TestServer(app)

    @property
    def url(self):
        return str(self.server.make_url("/hook"))

    async def _take(self, request):
        self.requests.append((request.path, dict(request.headers), await request.read()))
        make = self.answers.pop(0) if self.answers else self.default
        made = make()
        return await made if asyncio.iscoroutine(made) else made

    def bodies(self):
        return [json.loads(body) for _, _, body in self.requests]


@pytest.fixture
async def receiver():
    made = Receiver()
    await made.server.start_server()
    yield made
    await made.server.close()


@contextlib.asynccontextmanager
async def sender(networks=(LOOPBACK, "::1/128"), seconds=10.0):
    known = Webhooks(None, None, KEY, None, WebhookSettings(allow_networks=" ".join(networks)))._networks
    made = Sender(known, seconds, 10)
    try:
        yield made
    finally:
        await made.close()


async def test_an_answer_of_two_hundred_is_a_delivery(receiver):
    async with sender() as made:
        assert await made.send(receiver.url, b"{}", {"webhook-id": "x"}) == Outcome(delivered=True, text="status 200")
    ((_, sent, body),) = receiver.requests
    assert (sent["webhook-id"], sent["Content-Type"], sent["User-Agent"]) == ("x", "application/json", "fair-beacon")
    assert body == b"{}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_the_address_is_judged_when_the_connection_is_made(receiver, host):
    """Whatever a name resolves to, and at each attempt anew: no rebinding."""
    async with sender(networks=()) as made:
        outcome = await made.send(f"http://{host}:{receiver.server.port}/", b"", {})
    assert outcome == Outcome(delivered=False, text="address-refused")
    assert receiver.requests == []


async def test_a_name_that_changes_between_attempts_is_refused(receiver, monkeypatch):
    answers = iter(["1.1.1.1", "127.0.0.1"])

    async def resolve(self, host, port, traces=None):
        return [{"hostname": host, "host": next(answers), "port": port, "family": 2, "proto": 0, "flags": 0}]

    monkeypatch.setattr("aiohttp.TCPConnector._resolve_host", resolve)
    async with sender(networks=(), seconds=0.05) as made:
        url = f"http://rebinding.example:{receiver.server.port}/"
        assert (await made.send(url, b"", {})).text != "address-refused"
        assert (await made.send(url, b"", {})).text == "address-refused"
    assert receiver.requests == []


async def test_a_redirect_is_a_failure_and_is_not_followed(receiver):
    async def found():
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    receiver.answers = [found]
    async with sender() as made:
        assert (await made.send(receiver.url, b"", {})).text == "status 302"
    assert len(receiver.requests) == 1


async def test_a_long_answer_is_not_read(receiver):
    receiver.default = lambda: web.Response(body=b"x" * 5_000_000)
    async with sender() as made:
        assert (await made.send(receiver.url, b"", {})).delivered
        assert (await made.send(receiver.url, b"", {})).delivered


async def test_a_slow_answer_is_a_failure(receiver):
    async def slow():
        await asyncio.sleep(3_600)

    receiver.default = slow
    async with sender(seconds=0.05) as made:
        assert await made.send(receiver.url, b"", {}) == Outcome(delivered=False, text="timeout")


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("7", 7), ("999999", MAX_RETRY_AFTER), ("-1", 0), ("soon", 0), ("\u0661", 0), ("9" * 50, 0)],
)
async def test_what_a_receiver_asks_for_is_respected_within_bounds(receiver, asked, seconds):
    receiver.default = lambda: web.Response(status=503, headers={"Retry-After": asked})
    async with sender() as made:
        outcome = await made.send(receiver.url, b"", {})
    assert outcome == Outcome(delivered=False, text="status 503", retry_after=seconds)


async def test_a_receiver_that_is_gone_says_so(receiver):
    receiver.default = lambda: web.Response(status=410)
    async with sender() as made:
        assert (await made.send(receiver.url, b"", {})).gone


async def test_every_failure_has_one_word_and_nothing_of_the_other_side():
    async def garbage(reader, writer):
        await reader.readline()
        writer.write(b"secret-of-the-other-side\r\n\r\n")
        writer.close()

    async def silence(reader, writer):
        writer.close()

    async with sender() as made:
        for talk, word in ((garbage, "not-http"), (silence, "connection-lost")):
            server = await asyncio.start_server(talk, "127.0.0.1", 0)
            async with server:
                url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
                assert (await made.send(url, b"", {})).text == word
                over_tls = await made.send(url.replace("http:", "https:"), b"", {})
                assert over_tls.text in {"tls", "connection-lost", "connection-failed"}
        assert (await made.send(url, b"", {})).text == "connection-failed"
        assert (await made.send("http://nowhere.invalid/", b"", {})).text == "name-not-resolved"


# The store


@contextlib.contextmanager
def store_at(folder, clock=None):
    writer = Writer(folder / "private.db", PRIVATE_SCHEMA)
    reader = Reader(folder / "private.db")
    try:
        yield WebhookStore(writer, reader, clock or FakeClock(1_000))
    finally:
        reader.close()
        writer.close()


def endpoint(name="wh_a", host="alice", url="https://example.com/", **changes):
    fields = {
        "types": (), "created": 1, "position": 9, "failing_since": None, "disabled": None,
        "secret": Vault(KEY).encrypt(name, b"s" * 32), "old": None, "old_until": None,
    }  # fmt: skip
    return Endpoint(id=name, host=host, url=url, **fields | changes)


def delivery(index, status="delivered"):
    return Delivery(index, bytes(32), "session.draw", status, 1, 5, 6, "status 200")


async def test_what_is_kept_is_given_back(tmp_path):
    with store_at(tmp_path) as store:
        kept = endpoint(types=("session.draw", "session.void"))
        await store.add(kept, 8)
        assert await store.all() == await store.all("alice") == [kept]
        assert await store.get("alice", "wh_a") == kept
        assert await store.get("bob", "wh_a") is None
        with pytest.raises(WebhookExists):
            await store.add(endpoint("wh_b"), 8)
        with pytest.raises(WebhookLimit):
            await store.add(endpoint("wh_b", url="https://example.com/2"), 1)
        await store.add(endpoint("wh_c", host="bob"), 1)
        await store.delete("wh_a")
        assert [one.id for one in await store.all()] == ["wh_c"]


async def test_there_are_not_more_endpoints_than_can_be_sent_to_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "MAX_ENDPOINTS", 1)
    with store_at(tmp_path) as store:
        await store.add(endpoint(), 8)
        with pytest.raises(WebhookLimit):
            await store.add(endpoint("wh_b", host="bob"), 8)


async def test_only_the_newest_deliveries_stay_listed_and_those_above_the_position(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "KEPT_DELIVERIES", 3)
    with store_at(tmp_path) as store:
        await store.add(endpoint(), 8)
        await store.record("wh_a", 14, None, [delivery(index) for index in range(10, 20)])
        assert [one.index for one in await store.deliveries("wh_a", None, 50)] == [19, 18, 17, 16, 15]
        assert [one.index for one in await store.deliveries("wh_a", 17, 1)] == [16]
        assert sorted(await store.ahead("wh_a")) == [15, 16, 17, 18, 19]
        await store.record("wh_a", 19, None, [])
        assert [one.index for one in await store.deliveries("wh_a", None, 50)] == [19, 18, 17]


async def test_nothing_is_recorded_of_an_endpoint_that_was_deleted(tmp_path):
    with store_at(tmp_path) as store:
        await store.record("wh_a", 14, None, [delivery(10)])
        assert await store.deliveries("wh_a", None, 50) == []


async def test_an_old_secret_goes_when_its_time_is_over(tmp_path):
    clock = FakeClock(1_000)
    with store_at(tmp_path, clock) as store:
        await store.add(endpoint(), 8)
        await store.rotate("wh_a", Vault(KEY).encrypt("wh_a", b"t" * 32), 2_000)
        await store.record("wh_a", 14, None, [])
        (kept,) = await store.all()
        assert Vault(KEY).decrypt("wh_a", kept.old) == b"s" * 32
        clock.advance(1_000)
        await store.record("wh_a", 15, None, [])
        (kept,) = await store.all()
        assert (kept.old, kept.old_until) == (None, None)


# The courier


class Post:
    """A receiver that answers by a rule, a log of the items 10, 11, ..., and a clock that goes where the courier waits.

    It takes no request whose timestamp is another than that of the attempt: receivers refuse old ones as replays.
    """

    def __init__(self, count, answer, start=0):
        self.items = [Item(10 + n, bytes(32), "session.draw", start, b"%d" % n) for n in range(count)]
        self.answer, self.clock, self.sent, self.signatures = answer, FakeClock(start), [], []

    async def following(self, _endpoint, position, most):
        found = [item for item in self.items if item.index > position][:most]
        return (found[-1].index if found else position), found

    async def send(self, url, body, headers):
        index = 10 + int(body)
        assert headers["webhook-timestamp"] == str(self.clock.now() // 1000)
        self.signatures.append(headers["webhook-signature"].split(" "))
        self.sent.append((index, self.clock.now(), headers["webhook-id"]))
        return self.answer(index, sum(one == index for one, *_ in self.sent))

    async def sleep(self, event, seconds):
        self.clock.advance(int(seconds * 1000))
        await asyncio.sleep(0)

    def courier(self, store, kept, **options):
        options = {"retry_ms": 100 * HOUR, "jitter": lambda: 1.0, "sleep": self.sleep} | options
        return Courier(kept, self, store, self, Vault(KEY), self.clock, **options)


OK, DOWN = Outcome(delivered=True, text="status 200"), Outcome(delivered=False, text="status 500")


@contextlib.asynccontextmanager
async def posted(folder, count, answer, **options):
    post = Post(count, answer)
    with store_at(folder, post.clock) as store:
        await store.add(endpoint(), 8)
        yield post, store, post.courier(store, endpoint(), **options)


async def steps(courier, store, position, most=2_000):
    """Step until everything up to a position is through."""
    for _ in range(most):
        await courier.step()
        (kept,) = await store.all()
        if kept.position == position:
            return kept
    raise AssertionError(f"at {kept.position}, not {position}")


async def test_all_is_delivered_in_order_and_once(tmp_path):
    async with posted(tmp_path, 200, lambda *_: OK) as (post, store, courier):
        await steps(courier, store, 209)
        assert [index for index, *_ in post.sent] == list(range(10, 210))
        assert {one.status for one in await store.deliveries("wh_a", None, 500)} == {"delivered"}


async def test_pauses_grow_to_an_hour_and_the_id_stays(tmp_path):
    async with posted(tmp_path, 1, lambda _, attempt: OK if attempt == 16 else DOWN) as (post, store, courier):
        await steps(courier, store, 10)
        times = [time for _, time, _ in post.sent]
        pauses = [(after - before) / 1000 for before, after in itertools.pairwise(times)]
        assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600, 3600]
        assert len({name for *_, name in post.sent}) == 1
        (one,) = await store.deliveries("wh_a", None, 5)
        assert (one.status, one.attempts, one.first, one.last) == ("delivered", 16, 0, times[-1])


async def test_an_old_secret_signs_until_its_time_and_not_after(tmp_path):
    async with posted(tmp_path, 0, lambda *_: OK) as (post, store, courier):
        courier.endpoint = endpoint(old=Vault(KEY).encrypt("wh_a", b"o" * 32), old_until=1_000)
        for index, now in enumerate((0, 999, 1_000)):
            post.clock.time = now
            post.items.append(Item(10 + index, bytes(32), "session.draw", 0, b"%d" % index))
            await steps(courier, store, 10 + index)
        assert [len(one) for one in post.signatures] == [2, 2, 1]


def test_pauses_are_at_least_half_as_long_without_luck():
    for luck in (0.0, 0.5, 1.0):
        jitter = [luck, luck].pop
        made = Courier(endpoint(), None, None, None, None, FakeClock(0), retry_ms=1, jitter=jitter, sleep=None)
        assert made._pause(1) == 1_000 + 1_000 * luck
        assert made._pause(500) == HOUR / 2 + HOUR / 2 * luck


async def test_a_receiver_that_is_down_is_asked_once_at_a_time(tmp_path):
    async with posted(tmp_path, 30, lambda *_: DOWN) as (post, _store, courier):
        for _ in range(20):
            await courier.step()
        first = post.sent[: couriers.WINDOW]
        later = [time for _, time, _ in post.sent[couriers.WINDOW :]]
        assert {time for _, time, _ in first} == {0}
        assert len(later) == len(set(later)) >= 5


async def test_what_a_receiver_refuses_keeps_nothing_else_waiting(tmp_path):
    async with posted(tmp_path, 100, lambda index, _: DOWN if index == 12 else OK) as (post, store, courier):
        for _ in range(200):
            await courier.step()
            if len({index for index, *_ in post.sent}) == 100:
                break
        assert post.clock.now() < HOUR
        (kept,) = await store.all()
        assert kept.position == 11
        await steps(courier, store, 109)
        failed = [one for one in await store.deliveries("wh_a", None, 500) if one.status == "failed"]
        assert [(one.index, one.outcome) for one in failed] == [(12, "status 500")]
        assert 100 * HOUR <= failed[0].last - failed[0].first < 102 * HOUR


async def test_a_delivery_that_many_others_have_passed_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(couriers, "AHEAD", 20)
    async with posted(tmp_path, 100, lambda index, _: DOWN if index == 12 else OK) as (post, store, courier):
        await steps(courier, store, 109)
        assert post.clock.now() < HOUR


async def test_what_waited_too_long_behind_a_receiver_that_is_down_is_given_up_with_it(tmp_path):
    async with posted(tmp_path, 300, lambda *_: DOWN, retry_ms=10 * HOUR) as (post, store, courier):
        kept = await steps(courier, store, 309)
        assert kept.failing_since == 0
        rows = await store.deliveries("wh_a", None, 500)
        assert {one.status for one in rows} == {"failed"}
        assert len(post.sent) < 60
        post.items.append(Item(310, bytes(32), "session.draw", post.clock.now(), b"300"))
        post.answer = lambda *_: OK
        assert (await steps(courier, store, 310)).failing_since is None


async def test_a_receiver_that_is_gone_gets_nothing_more(tmp_path):
    gone = Outcome(delivered=False, text="status 410", gone=True)
    async with posted(tmp_path, 3, lambda *_: gone) as (post, store, courier):
        await courier.run()
        (kept,) = await store.all()
        assert kept.disabled == 0
        assert len(post.sent) == 3


async def test_a_fault_of_the_database_is_waited_out(tmp_path, monkeypatch):
    monkeypatch.setattr(couriers, "FAULT_SECONDS", 0)
    async with posted(tmp_path, 3, lambda *_: OK) as (post, store, courier):
        record, ahead, faults = store.record, store.ahead, []

        async def failing(*given):
            faults.append(given)
            if len(faults) < 3:
                raise WriteFailed("nothing was written")
            return await (record(*given) if len(given) > 1 else ahead(*given))

        store.record = store.ahead = failing
        running = asyncio.create_task(courier.run())
        await until(lambda: len(faults) > 3)
        store.record = record
        running.cancel()
        await asyncio.wait({running})
        post.items.append(Item(13, bytes(32), "session.draw", 0, b"3"))
        await steps(courier, store, 13)
        assert [index for index, *_ in post.sent] == [10, 11, 12, 13]


async def test_a_secret_that_cannot_be_opened_sends_nothing_unsigned(tmp_path):
    async with posted(tmp_path, 1, lambda *_: OK) as (post, store, courier):
        courier.endpoint = endpoint(secret=Vault(bytes(32)).encrypt("wh_a", b"s" * 32))
        await courier.step()
        (one,) = await store.deliveries("wh_a", None, 5)
        assert (post.sent, one.status, one.outcome) == ([], "retrying", "secret-unavailable")


@given(st.randoms(use_true_random=False), st.integers(1, 40), st.integers(0, 90))
def test_whatever_fails_and_whenever_it_is_killed_each_is_delivered_or_given_up(chance, count, bad):
    async def check():
        rules = {index: chance.randint(1, 100) <= bad for index in range(10, 10 + count)}
        with tempfile.TemporaryDirectory() as folder:
            post = Post(count, lambda index, attempt: DOWN if rules[index] and attempt < chance.randint(1, 12) else OK)
            with store_at(Path(folder), post.clock) as store:
                await store.add(endpoint(), 8)
                position, last = 9, 9 + count
                for _ in range(400):
                    (kept,) = await store.all()
                    assert kept.position >= position
                    position = kept.position
                    if position == last:
                        break
                    courier = post.courier(store, kept, retry_ms=20 * HOUR)
                    courier._known = await store.ahead("wh_a")
                    for _ in range(chance.randint(1, 30)):
                        await courier.step()
                assert position == last
                rows = {one.index: one for one in await store.deliveries("wh_a", None, 500)}
                assert sorted(rows) == list(range(10, 10 + count))
                for index, row in rows.items():
                    attempts = [time for one, time, _ in post.sent if one == index]
                    assert (row.status == "delivered") == (not rules[index] or len(attempts) > 0)
                    assert row.attempts == len(attempts)
                    assert row.first == attempts[0]

    asyncio.run(check())


# The outbox


async def test_the_outbox_has_each_entry_of_the_hosts_sessions_with_the_state_after_it(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "SCAN", 7)
    async with service(tmp_path) as running:
        sessions = [session async for session in histories(running)]
        await running.seal(BOB)
        reader = LogOutbox(running.log)
        expected = {}
        for session in sessions:
            expected |= dict(await running.log.read(lambda db, session=session: names_by_folding(db, session)))
        position, found = -1, []
        size = running.log.latest().size
        while position < size - 1:
            position, items = await reader.following(endpoint(), position, 3)
            found += items
        reader.close()
        documents = [json.loads(item.body) for item in found]
        entry = {one["data"]["index"]: json.loads(one["data"]["entry"]) for one in documents}
        named = {index: one["data"]["state"] for index, one in zip(entry, documents, strict=True)}
        rounds = await running.log.read(lambda db: [i for (i,) in db.execute("SELECT i FROM round_entries").fetchall()])
        assert named == {index: name for index, name in expected.items() if index not in rounds}
        assert list(named) == sorted(named)
        assert all(one["type"] == "session." + entry[one["data"]["index"]]["type"] for one in documents)
        assert {item.type.removeprefix("session.") for item in found} == set(outbox.TYPES)
        assert documents[0]["timestamp"].endswith("Z")
        filtered = await running.log.read(lambda db: outbox.following(db, "alice", {"session.call"}, -1, size, 500))
        position = filtered[0]
        assert {item.type for item in filtered[1]} <= {"session.call"}


# Over HTTP


@contextlib.asynccontextmanager
async def hooked(running, folder, clock=None, **settings):
    """The API of a service with webhooks to this machine."""
    settings = {"allow_http": True, "allow_networks": LOOPBACK} | settings
    with store_at(folder, running.clock) as store:
        webhooks = Webhooks(running.log, store, KEY, running.clock, WebhookSettings(**settings))
        running.book.listen(webhooks.told)
        await webhooks.start()
        try:
            async with web_of(running, webhooks=webhooks) as client:
                client.webhooks, client.store = webhooks, store
                yield client
        finally:
            await webhooks.stop()


async def add(client, url, host=ALICE, expect=201, **fields):
    response = await client.post("/v1/webhooks", json={"url": url} | fields, headers=headers(host))
    document = await response.json()
    assert response.status == expect, document
    return document


def signed_by(sent, body, secret):
    """Whether one of the signatures is this secret's, as a receiver checks it (written from the specification)."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.{body.decode()}".encode()
    due = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return f"v1,{due}" in sent["webhook-signature"].split(" ")


async def test_a_host_is_told_of_its_sessions_from_the_webhook_on(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        await running.seal()
        made = await add(client, receiver.url)
        session = (await running.seal(**LIVE)).session
        await running.seal(BOB)
        called = await running.draw(session)
        await reach(running, called.call.round)
        await running.sessions.reveal(ALICE, session)
        await until(lambda: len(receiver.requests) == 4)
        assert [one["type"] for one in receiver.bodies()] == [
            "session.seal", "session.call", "session.draw", "session.reveal"
        ]  # fmt: skip
        assert [one["data"]["state"] for one in receiver.bodies()] == ["closed", "called", "drawing", "revealed"]
        assert {one["data"]["session"] for one in receiver.bodies()} == {session.hex()}
        for _, sent, body in receiver.requests:
            assert signed_by(sent, body, made["secret"])
        path = f"/v1/webhooks/{made['id']}/deliveries"
        ids = [sent["webhook-id"] for _, sent, _ in receiver.requests]

        async def listed():
            return (await (await client.get(path, headers=headers())).json())["deliveries"]

        async with asyncio.timeout(20):
            while [one["webhook_id"] for one in await listed()] != ids[::-1]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert {one["status"] for one in await listed()} == {"delivered"}


async def test_a_secret_is_shown_once_and_stored_encrypted(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        made = await add(client, receiver.url)
        raw = base64.b64decode(made["secret"].removeprefix("whsec_"))
        for path in ("/v1/webhooks", f"/v1/webhooks/{made['id']}"):
            text = await (await client.get(path, headers=headers())).text()
            assert made["id"] in text
            assert 'secret"' not in text
            assert made["secret"] not in text
    for file in tmp_path.glob("private.db*"):
        assert raw not in file.read_bytes()
        assert made["secret"].encode() not in file.read_bytes()


async def test_while_a_secret_changes_both_sign(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        old = await add(client, receiver.url)
        path = f"/v1/webhooks/{old['id']}/rotate"
        new = await (await client.post(path, json={"overlap_seconds": 60}, headers=headers())).json()
        assert new["secret"] != old["secret"]
        assert new["old_secret_until"] == running.clock.now() + 60_000

        async def next_signatures():
            receiver.requests.clear()
            await running.seal()
            await until(lambda: receiver.requests)
            _, sent, body = receiver.requests[0]
            return signed_by(sent, body, new["secret"]), signed_by(sent, body, old["secret"])

        assert await next_signatures() == (True, True)
        running.clock.advance(3_000)
        await reach(running, running.rounds.newest(b"").round + 1)
        await client.post(path, json={"overlap_seconds": 0}, headers=headers())
        newest = await (await client.post(path, json={"overlap_seconds": 0}, headers=headers())).json()
        assert await next_signatures() == (False, False)
        new = newest
        assert await next_signatures() == (True, False)


async def test_a_write_whose_answer_was_lost_is_answered_again(tmp_path, receiver):
    keyed = {name: headers() | {"Idempotency-Key": name} for name in ("add", "rotate", "delete")}
    async with service(tmp_path) as running:

        async def ask(client, method, path, key, body=None, expect=200):
            answer = await client.request(method, path, json=body, headers=keyed[key])
            assert answer.status == expect, await answer.text()
            return await answer.json() if expect != 204 else None

        asked = {"url": receiver.url, "types": ["session.seal"]}
        async with hooked(running, tmp_path) as client:
            many = await asyncio.gather(
                *(ask(client, "POST", "/v1/webhooks", "add", asked, expect=201) for _ in range(4))
            )
            first, path = many[0], f"/v1/webhooks/{many[0]['id']}"
            assert many == [first] * 4
            new = await ask(client, "POST", path + "/rotate", "rotate")
            assert await ask(client, "POST", path + "/rotate", "rotate") == new
            await running.seal()
            await until(lambda: receiver.requests)
            _, sent, body = receiver.requests[0]
            assert signed_by(sent, body, first["secret"])
            assert signed_by(sent, body, new["secret"])
            other = asked | {"types": []}
            assert (await ask(client, "POST", "/v1/webhooks", "add", other, expect=409))["code"] == (
                "idempotency-key-reused"
            )
            await ask(client, "DELETE", path, "delete", expect=204)
        async with hooked(running, tmp_path) as client:
            await ask(client, "DELETE", path, "delete", expect=204)
            assert await ask(client, "POST", path + "/rotate", "rotate") == new
            assert await ask(client, "POST", "/v1/webhooks", "add", asked, expect=201) == first
            assert await client.store.all() == []
            await ask(client, "POST", path + "/rotate", "delete", expect=409)
    for file in tmp_path.glob("private.db*"):
        assert new["secret"].encode() not in file.read_bytes()


async def test_a_refusal_of_a_webhook_leaves_the_key_free(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        sent = headers() | {"Idempotency-Key": "k1"}
        for url, status in (("https://127.9.9.9.example:0/", 422), (receiver.url, 201)):
            assert (await client.post("/v1/webhooks", json={"url": url}, headers=sent)).status == status


async def test_types_filter(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        await add(client, receiver.url, types=["session.void"])
        await add(client, receiver.url + "2", types=["session.sealed"], expect=400)
        session = (await running.seal()).session
        await running.sessions.void(ALICE, session)
        await until(lambda: receiver.requests)
        assert [one["type"] for one in receiver.bodies()] == ["session.void"]


async def test_a_restart_loses_nothing_and_repeats_under_the_same_id(tmp_path, receiver):
    async with service(tmp_path) as running:
        async with hooked(running, tmp_path) as client:
            made = await add(client, receiver.url)
            receiver.default = lambda: web.Response(status=503)
            await running.seal()
            await until(lambda: receiver.requests)
        first = receiver.requests[0][1]["webhook-id"]
        receiver.requests.clear()
        receiver.default = web.Response
        for _ in range(30):
            await running.seal()
        async with hooked(running, tmp_path) as client:
            await until(lambda: len(receiver.requests) >= 31)
            assert (await add(client, receiver.url, expect=409))["code"] == "webhook-exists"
    ids = [sent["webhook-id"] for _, sent, _ in receiver.requests]
    assert len(set(ids)) == len(ids) == 31
    assert first in ids
    assert ids == [message_id(made["id"], one["data"]["index"]) for one in receiver.bodies()]


async def test_one_receiver_that_hangs_keeps_no_other_waiting(tmp_path, receiver):
    async def hang():
        await asyncio.sleep(3_600)

    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        bad = Receiver()
        bad.default = hang
        await bad.server.start_server()
        await add(client, bad.url)
        await add(client, receiver.url)
        for _ in range(40):
            await running.seal()
        await until(lambda: len(receiver.requests) == 40)
        assert len(bad.requests) <= couriers.WINDOW
        await client.webhooks.stop()
        await bad.server.close()


async def test_a_webhook_is_its_hosts_alone(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        made = await add(client, receiver.url)
        path = f"/v1/webhooks/{made['id']}"
        for method, where in (
            ("GET", path),
            ("DELETE", path),
            ("POST", f"{path}/rotate"),
            ("GET", f"{path}/deliveries"),
        ):
            response = await client.request(method, where, headers=headers(BOB))
            assert (response.status, (await response.json())["code"]) == (404, "webhook-unknown")
            assert (await client.request(method, where)).status == 401
        assert (await (await client.get("/v1/webhooks", headers=headers(BOB))).json()) == {"webhooks": []}
        await add(client, receiver.url, host=BOB)


async def test_a_webhook_that_was_deleted_gets_nothing_more(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        made, kept = await add(client, receiver.url), await add(client, receiver.url + "/kept")
        response = await client.delete(f"/v1/webhooks/{made['id']}", headers=headers())
        assert response.status == 204
        await running.seal()
        await until(lambda: receiver.requests)
        assert [path for path, *_ in receiver.requests] == ["/hook/kept"]
        assert list(client.webhooks._couriers) == [kept["id"]]


async def test_the_operator_sees_and_deletes_webhooks_beside_the_running_service(tmp_path, receiver):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        made, kept = await add(client, receiver.url), await add(client, receiver.url + "/kept")
        store = client.webhooks._store
        await store.delete(made["id"])  # as another process does
        await running.seal()
        await until(lambda: receiver.requests)
        await until(lambda: client.webhooks._couriers[made["id"]][1].done())
        assert [path for path, *_ in receiver.requests] == ["/hook/kept"]
        assert not client.webhooks._couriers[kept["id"]][1].done()


async def test_the_limits_of_a_host(tmp_path):
    async with service(tmp_path) as running, hooked(running, tmp_path, per_host=1) as client:
        await add(client, "https://example.com/1")
        assert (await add(client, "https://example.com/2", expect=409))["code"] == "too-many-webhooks"
        assert (await add(client, "https://10.0.0.1/", expect=422))["code"] == "webhook-url-invalid"
        for body in ({}, {"url": 1}, {"url": "https://example.com/", "more": 1}, {"url": ""}):
            response = await client.post("/v1/webhooks", json=body, headers=headers())
            assert (response.status, (await response.json())["code"]) == (400, "invalid-request")


async def test_deliveries_come_in_pages_with_a_visible_end(tmp_path, monkeypatch):
    monkeypatch.setattr(webhook_routes, "PAGE", 4)
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        made = await add(client, "https://example.com/1")
        await client.store.record(made["id"], 99, None, [delivery(index) for index in range(50, 60)])
        path, found, before = f"/v1/webhooks/{made['id']}/deliveries", [], ""
        sizes = []
        while before is not None:
            page = await (await client.get(path + before, headers=headers())).json()
            found += [one["index"] for one in page["deliveries"]]
            sizes.append(len(page["deliveries"]))
            assert page["has_more"] == (page["next"] is not None)
            before = f"?before={page['next']}" if page["has_more"] else None
        assert found == list(range(59, 49, -1))
        assert sizes == [4, 4, 2]
        assert (await client.get(path + "?before=x", headers=headers())).status == 400


async def test_commits_that_concern_no_webhook_do_not_wake_the_loop(tmp_path, monkeypatch):
    async with service(tmp_path) as running, hooked(running, tmp_path) as client:
        loop, calls = client.webhooks._loop, []

        class Loop:
            def call_soon_threadsafe(self, *call):
                calls.append(call)

        client.webhooks._loop = Loop()
        await running.seal()
        await add(client, "https://example.com/1", host=BOB)
        await running.seal()
        assert calls == []
        await running.seal(BOB)
        assert len(calls) == 1
        client.webhooks._loop = loop
