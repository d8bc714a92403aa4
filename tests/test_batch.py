"""Several seals or draws in one write: all or none, one answer each, and the same again with the same key."""

import asyncio
import json

import pytest

from tests.session_support import ALICE, BOB, RECIPES, service
from tests.test_live import LIVE, reach
from tests.web_support import headers, web_of

SEAL = {"recipes": {"turn": RECIPES["turn"]}, "participants": []}


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


async def post(client, path, body, host=ALICE, **more):
    response = await client.post(path, json=body, headers=headers(host) | more)
    return response.status, json.loads(await response.text())


async def test_a_batch_of_seals(running):
    async with web_of(running) as client:
        status, answer = await post(client, "/v1/batch/seals", {"sessions": [SEAL, LIVE | {"recipes": RECIPES}, SEAL]})
        assert status == 201
        assert [item["host_seq"] for item in answer["sessions"]] == [1, 2, 3]
        assert [item["profile"] for item in answer["sessions"]] == ["match", "live", "match"]
        size = running.log.latest().size
        assert size == 2 + 3
        for item in answer["sessions"]:
            assert item["receipt"]["events"][0]["index"] == item["index"]
            assert (await client.get(f"/v1/sessions/{item['session']}")).status == 200
        status, more = await post(client, "/v1/batch/seals", {"sessions": [SEAL]}, BOB)
        assert (status, more["sessions"][0]["host_seq"]) == (201, 1)


async def test_one_bad_seal_and_nothing_is_sealed(running):
    bad = SEAL | {"round_at": running.clock.now()}
    async with web_of(running) as client:
        status, problem = await post(client, "/v1/batch/seals", {"sessions": [SEAL, bad]})
        assert (status, problem["code"], problem["item"]) == (422, "seal-round-too-early", 1)
        assert running.log.latest().size == 1
        assert running.seeds.kept == {}
        status, answer = await post(client, "/v1/batch/seals", {"sessions": [SEAL]})
        assert answer["sessions"][0]["host_seq"] == 1


async def test_a_commitment_twice_in_one_batch(running):
    held = SEAL | {"custody": "host", "commitment": "ab" * 32}
    async with web_of(running) as client:
        status, problem = await post(client, "/v1/batch/seals", {"sessions": [held, held]})
        assert (status, problem["code"], problem["item"]) == (422, "seal-commitment-invalid", 1)
        assert running.log.latest().size == 1


@pytest.mark.parametrize("count", [0, 101])
async def test_batches_are_bounded(running, count):
    async with web_of(running) as client:
        assert (await post(client, "/v1/batch/seals", {"sessions": [SEAL] * count}))[0] == 400
        draw = {"session": "00" * 32, "recipe": "turn"}
        assert (await post(client, "/v1/batch/draws", {"draws": [draw] * count}))[0] == 400


async def test_a_hundred_seals(running):
    async with web_of(running) as client:
        status, answer = await post(client, "/v1/batch/seals", {"sessions": [SEAL] * 100})
        assert status == 201
        assert [item["host_seq"] for item in answer["sessions"]] == list(range(1, 101))


async def test_a_batch_of_draws_and_calls(running):
    matches = [(await running.seal(participants=[])).session for _ in range(2)]
    number = (await running.sessions.view(matches[1]))["round"]
    await reach(running, number)
    live = (await running.seal(**LIVE)).session
    drawn = [
        {"session": matches[0].hex(), "recipe": "turn", "purpose": "a"},
        {"session": matches[1].hex(), "recipe": "deck"},
        {"session": matches[0].hex(), "recipe": "turn", "count": 2, "n": 2},
        {"session": matches[1].hex(), "recipe": "deck"},
        {"session": live.hex(), "recipe": "turn"},
        {"session": live.hex(), "recipe": "deck", "draw": 2},
    ]
    async with web_of(running) as client:
        key = {"Idempotency-Key": "batch-1"}
        status, answer = await post(client, "/v1/batch/draws", {"draws": drawn}, **key)
        assert status == 201, answer
        shown = answer["draws"]
        assert [item["session"] for item in shown] == [item["session"] for item in drawn]
        assert [item.get("n") for item in shown] == [1, 1, 2, 2, None, None]
        assert [item["call"]["draw"] for item in shown[4:]] == [1, 2]
        size = running.log.latest().size
        assert await post(client, "/v1/batch/draws", {"draws": drawn}, **key) == (201, answer)
        assert running.log.latest().size == size
        status, problem = await post(client, "/v1/batch/draws", {"draws": drawn[:1]}, **key)
        assert (status, problem["code"]) == (409, "idempotency-key-reused")
    await reach(running, shown[5]["call"]["round"])
    for session in (*matches, live):
        await running.sessions.reveal(ALICE, session)
        assert (await running.verdict(session)).exit == 0


async def test_one_bad_draw_and_nothing_is_drawn(running):
    session = (await running.seal(participants=[])).session
    await reach(running, (await running.sessions.view(session))["round"])
    size = running.log.latest().size
    good = {"session": session.hex(), "recipe": "turn"}
    bad = {
        "call-number": good | {"n": 1},
        "unknown-recipe": good | {"recipe": "coin"},
        "session-unknown": good | {"session": "00" * 32},
        "draw-count": good | {"recipe": "shuffle"},
    }
    async with web_of(running) as client:
        for code, item in bad.items():
            status, problem = await post(client, "/v1/batch/draws", {"draws": [good, item]})
            assert (problem["code"], problem["item"]) == (code, 1)
        status, problem = await post(client, "/v1/batch/draws", {"draws": [good]}, BOB)
        assert (status, problem["code"]) == (403, "not-your-session")
        assert running.log.latest().size == size
        assert (await post(client, "/v1/batch/draws", {"draws": [good | {"recipe": "shuffle"}]}))[0] == 201


async def test_a_heavy_draw_whose_number_is_taken_meanwhile_is_made_again(running):
    session = (await running.seal(participants=[])).session
    await reach(running, (await running.sessions.view(session))["round"])
    body = {"draws": [{"session": session.hex(), "recipe": "shuffle"}]}
    async with web_of(running) as client:
        keys = [{"Idempotency-Key": f"k{number}"} for number in range(4)]
        answers = await asyncio.gather(*(post(client, "/v1/batch/draws", body, **key) for key in keys))
        assert sorted(answer["draws"][0]["n"] for _, answer in answers) == [1, 2, 3, 4]
        for key, answer in zip(keys, answers, strict=True):
            assert await post(client, "/v1/batch/draws", body, **key) == answer
