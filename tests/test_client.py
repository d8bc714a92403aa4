"""The SDK against the real API: it verifies what it is told, and never does a thing twice."""

import asyncio
import contextlib
import copy

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.client import (
    Beacon,
    BeaconError,
    Dishonest,
    Roll,
    Unreachable,
    connection,
    make_chain,
    pseudonym,
    sign_contribution,
    transport,
)
from tests.round_support import QUICKNET
from tests.session_support import ALICE, ORIGIN, RECIPES, service
from tests.test_live import reach
from tests.web_support import headers, web_of
from verifier.bls.verify import best_backend
from verifier.encoding import encode_json
from verifier.note import SigningKey

TURN = {"turn": RECIPES["turn"], "deck": RECIPES["deck"]}


class Between:
    """A proxy that can lose answers after the service gave them, and alter them."""

    def __init__(self, client):
        self.client, self.lose, self.alter, self.seen = client, 0, None, []

    async def handle(self, request):
        body = await request.read()
        sent = {k: v for k, v in request.headers.items() if k in {"Authorization", "Content-Type", "Idempotency-Key"}}
        self.seen.append((request.method, request.path, sent.get("Idempotency-Key")))
        response = await self.client.request(request.method, request.rel_url, data=body or None, headers=sent)
        data = await response.read()
        if self.lose and request.method == "POST":
            self.lose -= 1
            request.transport.close()
            return web.Response()
        if self.alter is not None and response.content_type == "application/json":
            data = encode_json(self.alter(await response.json()))
        return web.Response(body=data, status=response.status, content_type=response.content_type)


@contextlib.asynccontextmanager
async def world(path, monkeypatch, between=Between, **options):
    monkeypatch.setattr(transport, "FIRST_DELAY", 0.001)
    async with service(path) as made, web_of(made) as client:
        between = between(client)
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", between.handle)
        server = TestServer(app)
        await server.start_server()
        token = headers(ALICE)["Authorization"].removeprefix("Bearer ")
        given = {"log_key": str(made.vkey), "chains": [QUICKNET], "clock": made.clock.now} | options
        try:
            async with Beacon(str(server.make_url("")), token, **given) as beacon:
                yield made, between, beacon
        finally:
            await server.close()


async def rolled(made, session, recipe="turn", **said):
    """Call, and then let the rounds come."""
    call = await session.call(recipe, **said)
    rolling = asyncio.create_task(call.drawn())
    while not rolling.done():
        await asyncio.sleep(0.02)
        state = made.book.get(bytes.fromhex(session.id))
        if state is not None and state.waits_for:
            await reach(made, min(number for _, number in state.waits_for))
    return await rolling


async def test_a_match(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, receipts=tmp_path / "kept") as (made, _, beacon):
        session = await beacon.seal(recipes=TURN, participants=[{"id": "white"}, {"id": "black"}], label="t")
        await session.contribute("white", b"\x01")
        joined = await session.join_tokens("black")
        await session.contribute("black", b"\x02", join=joined["black"])
        await reach(made, session.seal.round)
        first = await session.roll("turn", purpose="a")
        assert isinstance(first, Roll)
        assert [roll.n for roll in await session.roll("turn", count=2)] == [2, 3]
        await session.reveal()
        verdict = await session.verify()
        assert verdict.exit == 0
        assert verdict.session["outcomes"][0]["outcome"] == first.outcome
        kinds = {path.stem.partition("-")[2] for path in (tmp_path / "kept").rglob("*.json")}
        assert kinds == {"seal", "contribution", "close", "draw", "reveal"}
        assert [item["session"] async for item in beacon.sessions(state="revealed")] == [session.id]
        assert (await beacon.ledger("alice"))["revealed"] == 1


async def test_a_live_session(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        key = Ed25519PrivateKey.generate()
        white = {"id": "white", "key": key.public_key().public_bytes_raw().hex()}
        session = await beacon.seal(recipes=TURN, profile="live", links=9, participants=[white])
        await session.contribute("white", b"\x01", signature=sign_contribution(key, session.id, "white", b"\x01"))
        roll = await rolled(made, session)
        assert (roll.draw, roll.n, roll.in_time) == (1, 1, True)
        signature = sign_contribution(key, session.id, "white", b"\x02", draw=2, recipe="deck", n=1, purpose="p")
        signed = {"participant": "white", "entropy": "02", "signature": signature.hex()}
        dealt = await rolled(made, session, "deck", purpose="p", draw=2, n=1, contributions=[signed])
        assert not [path for _, path, _ in between.seen if path.endswith("/transcript")], (
            "draws are remade as they come"
        )
        again = await beacon.session(session.id)
        more = await rolled(made, again, "deck")
        assert not set(dealt.outcome) & set(more.outcome)
        await again.reveal()
        assert (await again.verify()).exit == 0


async def test_a_call_whose_receipt_comes_late_says_so(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, clock=lambda: QUICKNET.time(10**8)) as (made, _, beacon):
        session = await beacon.seal(recipes=TURN, profile="live", participants=[])
        assert (await rolled(made, session)).in_time is False


async def test_a_seed_of_its_own(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        chain = make_chain(3)
        session = await beacon.seal(
            recipes=TURN, profile="live", links=3, custody="host", commitment=chain[0].hex(), participants=[]
        )
        rolling = asyncio.create_task(session.roll("turn"))
        while not rolling.done():
            await asyncio.sleep(0.02)
            state = made.book.get(bytes.fromhex(session.id))
            if state.waits_for:
                await reach(made, min(number for _, number in state.waits_for))
            if state.due:
                await session.hand_in(1, chain[1])
        assert (await rolling).draw == 1


class Cutting(Between):
    """Cuts every stream of events after some of its bytes."""

    cut = 0

    async def handle(self, request):
        if not request.path.endswith("/events"):
            return await super().handle(request)
        sent = {k: v for k, v in request.headers.items() if k in {"Accept", "Last-Event-ID"}}
        self.seen.append(("GET", request.path, sent.get("Last-Event-ID")))
        async with self.client.request("GET", request.rel_url, headers=sent) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            self.cut += 700
            await response.write((await answer.content.read(self.cut))[: self.cut])
            request.transport.close()
            return response


async def test_events_that_are_cut_again_and_again(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, between=Cutting, attempts=20) as (made, between, beacon):
        session = await beacon.seal(recipes=TURN, participants=[{"id": "white"}])
        await session.contribute("white", b"\x01")
        await reach(made, session.seal.round)
        await session.roll("turn")
        await session.reveal()
        events = [event async for event in session.events()]
        assert [event["type"] for event in events] == ["seal", "contribution", "close", "round", "draw", "reveal"]
        assert [event["index"] for event in events] == sorted({event["index"] for event in events})
        resumed = [last for method, path, last in between.seen if path.endswith("/events")]
        assert len(resumed) > 2
        assert [event async for event in session.events(events[2]["index"])] == events[3:]
        assert (await session.until("sealed"))["state"] == "revealed"


class Silent(Between):
    """Answers every request for events, and then says nothing."""

    async def handle(self, request):
        if not request.path.endswith("/events"):
            return await super().handle(request)
        self.seen.append(("GET", request.path, None))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(1)
        return response


async def test_a_stream_that_says_nothing_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    for name, seconds in (("SILENCE", 0.05), ("STEADY", 0.0)):
        monkeypatch.setattr(transport, name, seconds)
    async with world(tmp_path, monkeypatch, between=Silent, attempts=3) as (_, between, beacon):
        session = await beacon.seal(recipes=TURN, participants=[])
        async with asyncio.timeout(20):
            with pytest.raises(Unreachable):
                await anext(session.events())
        assert len([path for _, path, _ in between.seen if path.endswith("/events")]) == 3


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_lost_answer_never_becomes_a_second_thing(tmp_path, monkeypatch, lost):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        between.lose = lost
        session = await beacon.seal(recipes=TURN, participants=[])
        assert (await beacon.ledger("alice"))["sealed"] == 1
        await reach(made, session.seal.round)
        between.lose = lost
        assert (await session.roll("turn")).n == 1
        between.lose = lost
        await session.reveal()
        assert (await session.verify()).session["outcomes"][0]["n"] == 1
        assert len({key for method, _, key in between.seen if method == "POST"}) == 3


async def test_a_service_that_never_answers(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, attempts=2) as (_, between, beacon):
        between.lose = 9
        with pytest.raises(Unreachable):
            await beacon.seal(recipes=TURN, participants=[])
        assert len(between.seen) == 2


def problem(code, status, retryable, **headers):
    body = {"code": code, "detail": "", "next": "", "retryable": retryable}
    return lambda: web.json_response(body, status=status, headers=headers)


class Refusing(Between):
    """Refuses first what `refusals` lists."""

    refusals = ()

    async def handle(self, request):
        if self.refusals:
            await request.read()
            self.seen.append((request.method, request.path, request.headers.get("Idempotency-Key")))
            first, *self.refusals = self.refusals
            return first()
        return await super().handle(request)


async def test_what_is_retryable_is_sent_again_with_the_same_key_and_nothing_else_is(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, Refusing) as (_, between, beacon):
        gateway = [lambda status=status: web.Response(status=status) for status in (502, 503, 504)]
        between.refusals = [problem("rate-limited", 429, True), problem("unavailable", 503, True), *gateway]
        await beacon.seal(recipes=TURN, participants=[])
        assert len(between.seen) == 6
        assert len({key for *_, key in between.seen}) == 1
        for refusal in (
            problem("internal", 500, False),
            problem("outcome-unknown", 503, False),
            lambda: web.Response(status=500),
            lambda: web.Response(status=302, headers={"Location": "/v1/elsewhere"}),
            lambda: web.Response(text="<html>", content_type="text/html"),
            lambda: web.Response(status=500, body=b"[" * 300_000),
            lambda: web.Response(status=500, body=b'{"code":' * 40_000),
            lambda: web.Response(status=500, body=b"\xff" * 100),
        ):
            between.refusals, sent = [refusal], len(between.seen)
            with pytest.raises(BeaconError) as refused:
                await beacon.seal(recipes=TURN, participants=[])
            assert not refused.value.retryable
            assert refused.value.idempotency_key == between.seen[-1][2]
            assert len(between.seen) == sent + 1


async def test_it_waits_for_as_long_as_it_is_told_but_not_for_ever(tmp_path, monkeypatch):
    slept, sleep = [], asyncio.sleep

    async def remember(seconds):
        slept.append(seconds)
        await sleep(0)

    async with world(tmp_path, monkeypatch, Refusing) as (_, between, beacon):
        monkeypatch.setattr(transport.asyncio, "sleep", remember)
        between.refusals = [problem("rate-limited", 429, True, **{"Retry-After": "3"})] * 6
        with pytest.raises(BeaconError, match="rate-limited"):
            await beacon.seal(recipes=TURN, participants=[])
        assert [int(seconds) for seconds in slept if seconds > 1] == [3] * 5
        between.refusals, slept[:] = [problem("rate-limited", 429, True, **{"Retry-After": "3600"})], []
        with pytest.raises(BeaconError, match="rate-limited"):
            await beacon.seal(recipes=TURN, participants=[])
        assert not [seconds for seconds in slept if seconds > 1]


async def test_what_is_not_retryable_is_asked_once(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        with pytest.raises(BeaconError) as caught:
            await beacon.seal(recipes={"turn": {"kind": "dice", "count": 1, "sides": 6}}, round=1)
        assert (caught.value.code, caught.value.retryable) == ("seal-round-too-early", False)
        assert caught.value.next
        assert len(between.seen) == 1


def altered(document, change):
    document = copy.deepcopy(document)
    receipt = document.get("receipt") or (document.get("receipts") or [None])[-1]
    if receipt is not None:
        change(receipt, document)
    return document


def swap(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


LIES = {
    "another entry": lambda receipt, _: receipt["events"][0].update(
        entry=swap(receipt["events"][0]["entry"], '"outcomes":[[', '"outcomes":[[1')
    ),
    "another index": lambda receipt, _: receipt["events"][0].update(index=receipt["events"][0]["index"] - 1),
    "no proof": lambda receipt, _: receipt["events"][0].update(proof=[]),
    "another size": lambda receipt, _: receipt.update(checkpoint=receipt["checkpoint"].replace("\n", "\n1", 1)),
    "another log": lambda receipt, _: receipt.update(origin="else.example"),
    "no signature": lambda receipt, _: receipt.update(checkpoint=receipt["checkpoint"].rpartition("\n\n")[0] + "\n\n"),
    "another outcome in the answer": lambda _, answer: answer.update(outcomes=[[6, 6, 6]]),
}


@pytest.mark.parametrize("lie", LIES)
async def test_lies_about_a_draw(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(recipes=TURN, participants=[])
        await reach(made, session.seal.round)
        between.alter = lambda document: altered(document, LIES[lie])
        with pytest.raises(Dishonest):
            await session.roll("turn")


async def test_the_receipt_of_something_else(tmp_path, monkeypatch):
    """A true receipt, of another session's seal and of another draw."""
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        kept = []
        between.alter = lambda document: (kept.append(document), document)[1]
        session = await beacon.seal(recipes=TURN, participants=[], label="a")
        between.alter = lambda document: document | {name: kept[0][name] for name in ("receipt", "session")}
        with pytest.raises(Dishonest, match="label"):
            await beacon.seal(recipes=TURN, participants=[], label="b", key="mine")
        with pytest.raises(Dishonest, match="no answer to a new request"):
            await beacon.seal(recipes=TURN, participants=[], label="a")
        between.alter = lambda document: (kept.append(document), document)[1]
        await reach(made, session.seal.round)
        await session.roll("turn", purpose="x")
        between.alter = lambda document: document | {"receipts": kept[-1]["receipts"]} if "n" in document else document
        with pytest.raises(Dishonest, match="purpose"):
            await session.roll("turn", purpose="y", key="mine-2")


class Rewriting(Between):
    """Changes what the SDK asks for on its way to the service, which then does that."""

    def __init__(self, client):
        super().__init__(client)
        self.rewrite = None

    async def handle(self, request):
        if self.rewrite is not None and request.method == "POST":
            request._read_bytes = encode_json(self.rewrite(await request.json()))
        return await super().handle(request)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("contributions", {"contributions": []}),
        ("contributions", {"contributions": [{"participant": "white", "entropy": "03"}]}),
        ("purpose", {"purpose": "else"}),
        ("recipe", {"recipe": "deck"}),
    ],
)
async def test_a_call_that_is_not_the_one_that_was_asked_for(tmp_path, monkeypatch, field, change):
    async with world(tmp_path, monkeypatch, between=Rewriting) as (_, between, beacon):
        session = await beacon.seal(recipes=TURN, profile="live", participants=[{"id": "white"}], close_at=None)
        between.rewrite = lambda body: body | change
        with pytest.raises(Dishonest, match=field):
            await session.roll("turn", contributions=[{"participant": "white", "entropy": "02"}])


async def test_a_session_is_taken_up_from_a_transcript_that_holds(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(recipes=TURN, profile="live", participants=[{"id": "white"}])
        await session.contribute("white", b"\x01")
        await rolled(made, session)
        await beacon.session(session.id)

        def lie(change):
            def alter(document):
                if len(document.get("events", ())) > 1:
                    change(document["events"])
                return document

            return alter

        def another_entry(events):
            events[1]["entry"] = events[1]["entry"].replace('"white"', '"black"')

        lies = [another_entry, lambda events: events.pop(1), lambda events: events[-1].update(proof=[])]
        for change in lies:
            between.alter = lie(change)
            with pytest.raises(Dishonest):
                await beacon.session(session.id)


async def test_rounds_are_verified_on_the_best_backend(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(connection, "best_backend", lambda: asked.append(1) or best_backend())
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        session = await beacon.seal(recipes=TURN, profile="live", participants=[])
        await rolled(made, session)
        assert asked


async def test_another_log_key(tmp_path, monkeypatch):
    other = SigningKey(b"\x01" * 32, ORIGIN).vkey
    async with world(tmp_path, monkeypatch, log_key=str(other)) as (_, __, beacon):
        with pytest.raises(Dishonest, match="another log key"):
            await beacon.seal(recipes=TURN, participants=[])


async def test_another_chain(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, chains=[]) as (_, __, beacon):
        with pytest.raises(Dishonest, match="not pinned"):
            await beacon.seal(recipes=TURN, profile="live", participants=[])


def test_pseudonyms():
    secret = bytes(range(32))
    assert pseudonym(secret, "user 7") == pseudonym(secret, "user 7")
    assert pseudonym(secret, "user 7") != pseudonym(secret, "user 8")
    assert pseudonym(secret, "user 7") != pseudonym(bytes(32), "user 7")
    assert len(pseudonym(secret, "user 7")) == 32
    with pytest.raises(ValueError, match="32 bytes"):
        pseudonym(b"short", "user 7")
