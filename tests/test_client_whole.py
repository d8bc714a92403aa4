"""The SDK at length: everything a host does, with answers lost, requests delivered twice, tasks cancelled, restarts."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from aiohttp import web

from beacon.client import Beacon, BeaconError, Dishonest, lock_seed, make_chain
from tests.process_support import ROOT
from tests.round_support import QUICKNET
from tests.session_support import FIRST, RECIPES
from tests.test_client import TURN, Between, world
from tests.test_live import reach
from verifier.receipts import Found, compare

ROUND = FIRST + 12
MATCH = {"recipes": RECIPES, "participants": [{"id": "white"}, {"id": "black"}], "round": ROUND}
LIVE = {"recipes": RECIPES, "participants": [], "profile": "live", "links": 8}


async def arrive(made, number):
    await reach(made, number)
    for _ in range(4):
        await made.keeper.tick()


async def both_contribute(session):
    for player in ("white", "black"):
        await session.contribute(player, player.encode())


async def test_the_receipts_that_are_kept_are_those_of_the_transcript(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    async with world(tmp_path, monkeypatch, receipts=kept, host="alice") as (made, _, beacon):
        session = await beacon.seal(**MATCH)
        assert session.proven is None
        await both_contribute(session)
        assert session.proven is True
        await arrive(made, ROUND)
        await session.roll("deck", count=2)
        await session.reveal()
        await session.verify()
        transcript = await session.transcript()
        files = sorted((kept / session.id).iterdir())
        kinds = [path.stem.partition("-")[2] for path in files]
        assert kinds == ["seal", "contribution", "contribution", "close", "draw", "reveal"]
        for path in files:
            assert compare(path.read_bytes(), transcript, made.vkey).found == Found.PRESENT
        assert (kept / "checkpoint").read_text().split("\n")[1] == str(made.log.latest().size)


async def test_calls_and_draws_of_one_session_at_the_same_time(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        session = await beacon.seal(**LIVE)
        calls = await asyncio.gather(*(session.call(name) for name in ("turn", "deck", "turn", "deck", "deck")))
        assert sorted(call.entry.draw for call in calls) == [1, 2, 3, 4, 5]
        drawing = asyncio.gather(*(call.drawn() for call in calls))
        await arrive(made, calls[0].entry.round)
        cards = [card for roll in await drawing if roll.recipe == "deck" for card in roll.outcome]
        assert len(set(cards)) == 9


async def test_a_call_is_in_time_until_its_rounds_time(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        offset = [0]
        beacon._connection.clock = lambda: made.clock.now() + offset[0]
        session = await beacon.seal(**LIVE)
        due = (await session.call("turn")).round_time
        for late, in_time in ((due - made.clock.now() - 1, True), (due - made.clock.now(), False)):
            offset[0] = late
            call = await session.call("turn")
            assert call.round_time == due
            assert call.in_time is in_time
        assert session.unproven == [3]
        offset[0] = 0
        drawing = asyncio.create_task(call.drawn())
        await arrive(made, call.entry.round)
        assert (await drawing).in_time is False


async def test_a_host_that_holds_the_seed_of_a_match(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        commitment, seed = make_chain()
        session = await beacon.seal(**MATCH, custody="host", commitment=commitment.hex())
        await both_contribute(session)
        await arrive(made, ROUND)
        for recipe, count in (("turn", 2), ("deck", 1), ("deck", 2)):
            await session.roll(recipe, count=count, outcomes=await session.claims(recipe, seed, count=count))
        with pytest.raises(BeaconError, match="draw-past-end-of-deck"):
            await session.claims("deck", seed)
        claims = await session.claims("turn", seed, count=3)
        with pytest.raises(ValueError, match="`count`"):
            await session.roll("turn", outcomes=claims)
        ((first, second),) = await beacon.draw_all([(session, {"recipe": "turn", "outcomes": claims[:2]})])
        assert [first.outcome, second.outcome] == claims[:2]
        assert (await session.roll("turn", outcomes=claims[2:])).outcome == claims[2]
        await session.reveal(seed)
        assert (await session.verify()).exit == 0


async def test_a_session_is_taken_up_again_after_a_restart(tmp_path, monkeypatch):
    chain, kept = make_chain(8), tmp_path / "kept"
    async with world(tmp_path, monkeypatch, receipts=kept) as (made, _, beacon):
        session = await beacon.seal(**LIVE, custody="host", commitment=chain[0].hex())
        calls = [await session.call(name, key=f"mine-{name}-{k}") for k, name in enumerate(("deck", "turn"))]
        await arrive(made, calls[0].entry.round)
        assert len(await session.hand_in(1, chain[1])) == 3
        again = await beacon.session(session.id)
        second = await again.call("turn", key="mine-turn-1")
        assert second.entry == calls[1].entry
        assert await again.hand_in(2, chain[2]) == (await second.drawn()).outcome
        assert await again.hand_in(2, chain[2]) == (await calls[1].drawn()).outcome
        third = await again.call("deck")
        await arrive(made, third.entry.round)
        assert len(await again.hand_in(3, chain[3])) == 3
        await again.reveal()
        assert (await again.verify()).exit == 0


async def test_a_raffle_draws_by_itself(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        winner = {"winner": {"kind": "sample", "size": 100, "count": 3}}
        session = await beacon.seal(recipes=winner, close_at=None, round=ROUND, plan={"winner": 2})
        assert session.proven is True
        waiting = asyncio.create_task(session.until("revealed"))
        await arrive(made, ROUND)
        assert (await waiting)["state"] == "revealed"
        assert [event["type"] async for event in session.events()] == ["seal", "round", "draw", "reveal"]
        assert (await session.verify()).exit == 0


class Streaming(Between):
    """Passes events on as they come."""

    async def handle(self, request):
        if not request.path.endswith("/events"):
            return await super().handle(request)
        sent = {k: v for k, v in request.headers.items() if k in {"Accept", "Last-Event-ID"}}
        async with self.client.request("GET", request.rel_url, headers=sent) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            return response


async def test_draws_and_calls_in_a_batch(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, between=Streaming) as (made, between, beacon):
        match = await beacon.seal(**MATCH | {"participants": []})
        live = await beacon.seal(**LIVE | {"participants": [{"id": "white"}], "close_at": None})
        white = {"participant": "white", "entropy": "01"}
        await arrive(made, ROUND)
        between.lose = 1
        asked = [(match, {"recipe": "turn", "count": 2}), (live, {"recipe": "deck", "contributions": [white]})]
        rolls, call = await beacon.draw_all(asked)
        assert [roll.n for roll in rolls] == [1, 2]
        assert call.in_time
        drawing = asyncio.create_task(call.drawn())
        await arrive(made, call.entry.round)
        assert (await drawing).outcome == (await call.drawn()).outcome
        with pytest.raises(BeaconError, match="unknown-recipe"):
            await beacon.draw_all([(match, {"recipe": "turn"}), (live, {"recipe": "unsealed"})])
        assert (await match.roll("turn")).n == 3
        for session in (match, live):
            await session.reveal()
            assert (await session.verify()).exit == 0
        with pytest.raises(ValueError, match="draw by draw"):
            await live.roll("turn", count=2)


async def test_what_another_process_did_is_learned_from_the_transcript(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**MATCH)
        other = await beacon.session(session.id)
        await session.contribute("white", b"\x01")
        await other.contribute("black", b"\x02")
        await arrive(made, ROUND)
        assert [roll.n for roll in await session.roll("deck", count=2)] == [1, 2]
        assert (await other.roll("turn")).n == 1
        between.seen.clear()
        rolls = await asyncio.gather(*(other.roll("turn", purpose=str(number)) for number in range(8)))
        assert sorted(roll.n for roll in rolls) == list(range(2, 10))
        assert len([path for _, path, _ in between.seen if path.endswith("/transcript")]) <= 8
        assert (await session.roll("turn")).n == 10
        await other.reveal()
        assert (await session.verify()).exit == 0


async def test_batches_and_sessions_of_others(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (_, __, beacon):
        sessions = await beacon.seal_all([MATCH | {"label": f"table {number}"} for number in range(3)])
        assert [session.seal.host_seq for session in sessions] == [1, 2, 3]
        await sessions[1].void()
        assert [item["label"] async for item in beacon.sessions(state="open")] == ["table 2", "table 0"]
        with pytest.raises(BeaconError, match="session-void"):
            await sessions[1].roll("turn")
        assert (await sessions[1].until("anchored"))["state"] == "void"


async def test_events_from_the_middle_of_a_session_that_was_not_seen(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        session = await beacon.seal(**LIVE)
        watched = await beacon.session(session.id)
        for _ in range(2):
            call = await session.call("deck")
            await arrive(made, call.entry.round)
            await call.drawn()
        await session.reveal()
        assert [event["type"] async for event in watched.events(call.receipt.index)] == ["round", "draw", "reveal"]


class Twice(Between):
    """Delivers each write twice."""

    async def handle(self, request):
        if request.method == "POST":
            sent = {
                k: v for k, v in request.headers.items() if k in {"Authorization", "Content-Type", "Idempotency-Key"}
            }
            body = await request.read()
            await (await self.client.request("POST", request.rel_url, data=body, headers=sent)).read()
        return await super().handle(request)


class EveryOther(Between):
    """Loses the first answer to each write."""

    async def handle(self, request):
        key = request.headers.get("Idempotency-Key")
        self.lose = int(key is not None and key not in {seen for *_, seen in self.seen})
        return await super().handle(request)


async def every_write(made, beacon):
    """One of each write there is; how long the log is then."""
    session = await beacon.seal(**MATCH)
    await both_contribute(session)
    live, (other,) = await beacon.seal(**LIVE), await beacon.seal_all([MATCH])
    await other.join_tokens("white")
    await other.void()
    chain = make_chain(2)
    own = await beacon.seal(recipes=TURN, profile="live", custody="host", commitment=chain[0].hex(), links=2)
    calls = [await live.call("turn"), await own.call("turn")]
    await arrive(made, ROUND)
    await own.hand_in(1, chain[1])
    for call in calls:
        await call.drawn()
    await session.roll("turn", count=2)
    for one in (session, live, own):
        await one.reveal()
        assert (await one.verify()).exit == 0
    return made.log.latest().size


@pytest.mark.parametrize("between", [EveryOther, Twice])
async def test_no_write_becomes_a_second_thing(tmp_path, monkeypatch, between):
    for name in ("calm", "rough"):
        (tmp_path / name).mkdir()
    async with world(tmp_path / "calm", monkeypatch) as (made, _, beacon):
        size = await every_write(made, beacon)
    async with world(tmp_path / "rough", monkeypatch, between) as (made, proxy, beacon):
        assert await every_write(made, beacon) == size
        writes = [key for method, _, key in proxy.seen if method == "POST"]
        assert None not in writes
        if between is EveryOther:
            assert len(writes) >= 2 * len(set(writes))


class Holding(Between):
    """Keeps answers to writes back until it is told."""

    held = None

    async def handle(self, request):
        answer = await super().handle(request)
        if self.held is not None and request.method == "POST":
            await self.held.wait()
        return answer


async def test_a_cancelled_seal_is_found_again_by_its_key(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch, Holding) as (made, between, beacon):
        between.held, before = asyncio.Event(), made.log.latest().size
        sealing = asyncio.create_task(beacon.seal(**MATCH, key="table-4"))
        async with asyncio.timeout(20):
            while made.log.latest().size < before + 2:  # noqa: ASYNC110 - the log is another's
                await asyncio.sleep(0.01)
        sealing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sealing
        between.held.set()
        session = await beacon.seal(**MATCH, key="table-4")
        assert made.log.latest().size == before + 2
        assert session.seal.host_seq == 1


async def test_a_cancelled_wait_for_a_draw_loses_nothing(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        session = await beacon.seal(**LIVE)
        call = await session.call("turn")
        waiting = asyncio.create_task(call.drawn())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await arrive(made, call.entry.round)
        assert await call.drawn() == await call.drawn()


async def test_rounds_are_asked_for_and_verified_once(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        sessions = [await beacon.seal(**LIVE) for _ in range(4)]
        calls = [await session.call("turn") for session in sessions]
        drawing = asyncio.gather(*(call.drawn() for call in calls))
        await arrive(made, calls[0].entry.round)
        await drawing
        assert len([path for _, path, _ in between.seen if "/rounds/" in path]) == 1


def test_the_token_is_in_no_repr():
    beacon = Beacon("http://localhost", "token-of-alice", log_key=KEY, chains=[QUICKNET])
    assert "token-of-alice" not in repr([beacon, beacon._connection, beacon._connection.transport])


KEY = "beacon.example/test+a73493f3+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"


def test_importing_the_sdk_brings_nothing_of_the_service():
    names = "{'beacon', 'sqlite_utils', 'apscheduler', 'structlog', 'prometheus_client', 'pydantic_settings'}"
    code = f"import sys, beacon.client; print(*(name for name in sys.modules if name.split('.')[0] in {names}))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    found = done.stdout.split()
    assert "beacon.client" in found
    assert all(name == "beacon" or name.startswith("beacon.client") for name in found)


async def test_a_host_seals_its_own_seed_to_a_later_round(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        commitment, seed = make_chain()
        reveal_by = made.clock.now() + 3_600_000
        lock = lock_seed(seed, QUICKNET, reveal_by, now=made.clock.now())
        terms = {**MATCH, "custody": "host", "commitment": commitment.hex(), "reveal_by": reveal_by, "timelock": lock}
        session = await beacon.seal(**terms)
        assert session.seal.timelock.round == QUICKNET.first_at(reveal_by) == lock["round"]
        await both_contribute(session)
        await arrive(made, ROUND)
        await session.reveal(seed)
        assert "not yet" in (await session.verify())["custody"].text


@pytest.mark.parametrize(
    ("custody", "asked", "given"), [("beacon", True, False), ("beacon", False, True), ("host", None, True)]
)
async def test_a_timelock_that_was_not_asked_for_or_is_missing_is_noticed(tmp_path, monkeypatch, custody, asked, given):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        sealing = made.sessions._lock

        async def lie(host, terms, seeds):
            seeds = seeds or [await made.context.custody.make()]
            honest = terms.request
            changed = honest.model_copy(update={"timelock": given})
            return await sealing(host, replace(terms, request=changed), seeds)

        monkeypatch.setattr(made.sessions, "_lock", lie)
        held = {"custody": "host", "commitment": make_chain()[0].hex()} if custody == "host" else {}
        with pytest.raises(Dishonest, match="`timelock`"):
            await beacon.seal(**MATCH, **held, **({} if asked is None else {"timelock": asked}))
