"""The same request twice is done once: the first answer again, for ever, also after a crash before it was sent."""

import asyncio

import pytest

from beacon.log.sequencer import Sequencer
from beacon.sessions.context import Key
from beacon.store.errors import WriteFailed
from tests.session_support import ALICE, BOB, MemorySeeds, contribution, service
from tests.test_live import LIVE, reach
from tests.test_sessions import refused


def key(name="k1", body=b"body", owner="alice", what="POST /v1/sessions"):
    return Key.of(owner, name, what, body)


async def sealing(made, given, host=ALICE, **fields):
    async def act(used):
        return [await made.seal(host, key=used, **fields)]

    return (await made.answers.once(given, act))[0]


async def keyed(made, given, command):
    async def act(used):
        return [await command(used)]

    return (await made.answers.once(given, act))[0]


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


async def test_the_same_seal_again_is_the_same_session(running):
    first = await sealing(running, key())
    size = running.log.latest().size
    assert await sealing(running, key()) == first
    assert running.log.latest().size == size
    assert (await sealing(running, key("k2"))).session != first.session


async def test_every_write_has_its_first_answer_for_ever(running):
    session = (await running.seal()).session
    answers = {}

    async def contribute(name, used):
        return await running.sessions.contribute(ALICE, session, contribution(name), used)

    async def draw(used):
        return await running.draw(session, count=2, key=used)

    async def reveal(used):
        return await running.sessions.reveal(ALICE, session, None, used)

    async def do(name, command):
        answers[name] = (command, await keyed(running, key(name), command))

    await do("white", lambda used: contribute("white", used))
    await do("black", lambda used: contribute("black", used))
    assert len(answers["black"][1].receipts) == 2
    number = (await running.sessions.view(session))["round"]
    await reach(running, number)
    await do("first", draw)
    await do("second", draw)
    assert answers["first"][1].first_n == 1
    assert answers["second"][1].first_n == 3
    await do("reveal", reveal)
    size = running.log.latest().size
    for name, (command, answer) in answers.items():
        assert await keyed(running, key(name), command) == answer, name
    assert running.log.latest().size == size


async def test_calls_links_and_voids_too(running):
    live = (await running.seal(**LIVE)).session
    call = await keyed(running, key("call"), lambda used: running.draw(live, key=used))
    voided = (await running.seal(**LIVE)).session
    void = await keyed(running, key("void"), lambda used: running.sessions.void(ALICE, voided, used))
    await reach(running, call.call.round)
    assert await keyed(running, key("call"), lambda used: running.draw(live, key=used)) == call
    assert await keyed(running, key("void"), lambda used: running.sessions.void(ALICE, voided, used)) == void


async def test_another_request_with_the_same_key_is_refused(running):
    await sealing(running, key())
    await refused("idempotency-key-reused", sealing(running, key(body=b"other")))
    await refused("idempotency-key-reused", sealing(running, key(what="POST /v1/sessions/00/draws")))
    assert (await sealing(running, key(owner="bob"), BOB)).state["host"] == "bob"


async def test_a_refusal_leaves_the_key_free(running):
    await refused("seal-recipe-invalid", sealing(running, key(), recipes={"turn": {"kind": "coin"}}))
    assert (await sealing(running, key())).state["host_seq"] == 1


async def test_many_at_once_are_one(running):
    answers = await asyncio.gather(*(sealing(running, key()) for _ in range(20)))
    assert len({answer.session for answer in answers}) == 1
    assert running.answers._acting == {}


async def test_the_answer_outlives_a_restart(tmp_path):
    async with service(tmp_path) as made:
        first = await sealing(made, key())
        clock, rounds, seeds = made.clock, made.rounds, made.seeds
    async with service(tmp_path, clock=clock, rounds=rounds, seeds=seeds) as made:
        assert await sealing(made, key()) == first


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_row_whose_entries_never_came_is_no_answer(tmp_path, monkeypatch, restarted):
    """What a crash between the two commits leaves: the row is there, its entries are not, and others take their place."""
    seeds = MemorySeeds()

    async def goes_on(made):
        await made.seal(BOB)
        sealed = await sealing(made, key())
        assert (sealed.state["host"], sealed.state["host_seq"]) == ("alice", 1)
        assert await sealing(made, key()) == sealed

    def crash(_self):
        raise OSError("no space left")

    async with service(tmp_path, seeds=seeds) as made:
        with monkeypatch.context() as patched:
            patched.setattr(Sequencer, "_sign", crash)
            with pytest.raises(WriteFailed):
                await sealing(made, key())
        assert len(seeds.answers) == 1
        assert made.log.latest().size == 1
        clock, rounds = made.clock, made.rounds
        if not restarted:
            await goes_on(made)
    if restarted:
        async with service(tmp_path, clock=clock, rounds=rounds, seeds=seeds) as made:
            await goes_on(made)
