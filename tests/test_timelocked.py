"""Sealed seeds that open themselves: the service reveals what nobody else does once the timelock's round is in the log."""

import asyncio
import os
from dataclasses import replace

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from beacon.errors import ApiError
from beacon.rounds.network import Network
from beacon.sessions import commands
from beacon.sessions.locks import MARGIN_MS, OPENING, Locks
from beacon.sessions.requests import DrawRequest
from beacon.sessions.worker import Worker
from beacon.settings import SessionSettings
from tests.round_support import QUICKNET, FakeClock
from tests.session_support import ALICE, FIRST, ReplayedRounds, service
from tests.test_sessions import refused
from verifier import entries
from verifier.age import Stanza, parse_age
from verifier.bls.verify import REFERENCE, best_backend
from verifier.check import Trust, check
from verifier.drand import Round, VerifiedRound
from verifier.draws import draw, parse_recipe
from verifier.encoding import encode_base64, parse_base64
from verifier.fetch import pinned_chains
from verifier.seeds import Stream, binding, seed_chain, session_digest, sha256
from verifier.timelock import seal_timelock
from verifier.transcript import parse_transcript

NET = Network.make(11, bytes(32), QUICKNET.time(FIRST) // 1000 - 300, 3)
START = NET.chain.current(QUICKNET.time(FIRST))
PLAIN = {"participants": [], "close_at": None}
SEED = sha256(b"the seed of a host")


class OwnRounds(ReplayedRounds):
    """The rounds of a network whose key is here, so that any of them can come."""

    async def arrive(self, number):
        self.known[number] = VerifiedRound(NET.chain, number, NET.sign(number))
        for listener in self.listeners:
            await listener(self.known[number])


@pytest.fixture
def rounds():
    return OwnRounds(FakeClock(NET.chain.time(START) + 500))


@pytest.fixture
async def running(tmp_path, rounds):
    async with service(tmp_path, start=START, clock=rounds.clock, rounds=rounds, chain=NET.chain) as made:
        yield made


async def reach(made, number):
    made.clock.time = NET.chain.time(number) + 500
    await made.rounds.arrive(number)
    await made.keeper.tick()
    await made.made_aside()
    await made.keeper.tick()


async def view(made, session):
    return await made.sessions.view(session)


async def verdict(made, session):
    document = await made.sessions.transcript(session)
    return check(document, Trust(log_key=made.vkey, chains={NET.chain.hash: NET.chain}))


async def events(made, session):
    return [event.entry for event in parse_transcript(await made.sessions.transcript(session)).events]


def sealed(seed, reveal_by, number=None):
    """What a host sends as its timelock."""
    number = NET.chain.first_at(reveal_by) if number is None else number
    data = seal_timelock(NET.chain, number, seed, now=0, backend=best_backend())
    return {"round": number, "ciphertext": encode_base64(data)}


def hosts(made, seed=SEED, links=1, locked=None, after=1_200_000, **fields):
    """The terms of a session whose seed its host holds, and sealed."""
    reveal_by = made.clock.now() + after
    lock = sealed(seed if locked is None else locked, reveal_by)
    commitment = seed_chain(seed, links)[0].hex()
    return {"custody": "host", "commitment": commitment, "reveal_by": reveal_by, "timelock": lock, **PLAIN, **fields}


async def test_a_seal_carries_a_timelock_soon_after_reveal_by(running):
    written = await running.seal(**PLAIN)
    lock, due = written.state["timelock"], written.state["reveal_by"] + MARGIN_MS
    assert lock == {"chain": NET.chain.hash.hex(), "round": NET.chain.first_at(due),
                    "round_time": NET.chain.time(NET.chain.first_at(due)), "round_index": None}  # fmt: skip
    await reach(running, written.state["round"])
    await running.draw(written.session)
    await running.sessions.reveal(ALICE, written.session)
    result = await verdict(running, written.session)
    assert result.exit == 0
    assert "not yet" in result["custody"].text
    size = running.log.latest().size
    await reach(running, lock["round"])
    assert running.log.latest().size == size, "nobody waits for the round"


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("default", [True, False])
async def test_the_request_decides_and_else_the_settings(running, default, asked):
    running.sessions._defaults = SessionSettings(timelock=default)
    written = await running.seal(timelock=asked, **PLAIN)
    assert (written.state["timelock"] is not None) == (default if asked is None else asked)


@pytest.mark.parametrize("plan", [None, {"turn": 3}])
async def test_a_seed_that_the_service_lost_is_opened_and_revealed(running, plan):
    written = await running.seal(plan=plan, **PLAIN)
    session, lock = written.session, written.state["timelock"]["round"]
    running.seeds.kept.clear()
    with capture_logs() as lines:
        await reach(running, written.state["round"])
        assert (await view(running, session))["state"] == "anchored"
        await reach(running, NET.chain.first_at(written.state["reveal_by"]))
        assert (await view(running, session))["state"] == "anchored", "it waits for the timelock's round"
        for _ in range(5):
            running.clock.advance(1_000)
            await running.keeper.tick()
    said = [line["event"] for line in lines]
    assert said.count("a seed cannot be opened") == 1, "it does not try and tell twice a second"
    await reach(running, lock - 1)
    assert running.rounds.wanted == {written.state["round"]}
    running.clock.time = NET.chain.time(lock)
    await running.keeper.tick()
    assert lock in running.rounds.wanted
    await reach(running, lock)
    shown = await view(running, session)
    assert (shown["state"], shown["timelock"]["round_index"]) == (
        "revealed",
        running.log.latest().size - 2 - bool(plan),
    )
    ended = (await events(running, session))[-1]
    assert (ended.by, ended.draws["turn"]) == ("timelock", 3 if plan else 0)
    result = await verdict(running, session)
    assert "opens, so nobody can keep the result back" in result["custody"].text
    assert [claim.name for claim in result.claims if claim.state == "FAILED"] == []
    assert result.exit == (0 if plan else 2)


async def test_a_host_that_vanishes_cannot_keep_its_matchs_seed(running):
    written = await running.seal(**hosts(running))
    session, lock = written.session, written.state["timelock"]["round"]
    await reach(running, written.state["round"])
    await running.sessions.draw(ALICE, session, await claim(running, written))
    await reach(running, NET.chain.first_at(written.state["reveal_by"]) - 1)
    assert (await view(running, session))["state"] == "drawing"
    await reach(running, lock)
    assert (await view(running, session))["seed"] == SEED.hex()
    result = await verdict(running, session)
    assert (result.exit, result["outcomes"].state) == (0, "PROVEN")


async def claim(made, written):
    """The honest outcome of turn 1, computed as a host does that holds the seed."""
    number = written.state["round"]
    randomness = made.rounds.known[number].randomness
    bound = binding(session_digest(written.session, []), 0, [], number, randomness)
    recipe = parse_recipe(written.state["recipes"]["turn"])
    return DrawRequest.model_validate({"recipe": "turn", "outcomes": [draw(recipe, Stream(SEED, bound, "turn", 1))]})


async def test_a_host_that_vanishes_cannot_keep_its_live_draws(running):
    terms = hosts(running, links=8, profile="live", participants=[])
    written = await running.seal(**{**terms, "links": 8})
    session, lock = written.session, written.state["timelock"]["round"]
    for _ in range(3):
        called = await running.draw(session)
        await reach(running, called.call.round)
    assert len((await view(running, session))["pending"]) == 3
    await reach(running, lock)
    shown = await view(running, session)
    assert (shown["state"], shown["drawn"]["turn"]) == ("revealed", 3)
    assert shown["seed"] == seed_chain(SEED, 8)[3].hex()
    result = await verdict(running, session)
    assert (result.exit, [finding.text for claim in result.claims for finding in claim.findings]) == (0, [])
    assert (await events(running, session))[-1].by == "service", "6.7: all its links are public"


async def test_a_timelock_that_does_not_open_ends_in_a_missed_reveal(running):
    written = await running.seal(**hosts(running, locked=bytes(32)))
    session, lock = written.session, written.state["timelock"]["round"]
    await reach(running, written.state["round"])
    await reach(running, lock - 1)
    assert (await view(running, session))["state"] == "anchored"
    await reach(running, lock)
    shown = await view(running, session)
    assert (shown["state"], shown["reason"]) == ("void", "missed-reveal")
    result = await verdict(running, session)
    assert {finding.rule for finding in result["custody"].findings} == {"7.3"}
    assert result.exit == 1


async def test_a_host_may_still_reveal_before_the_timelock_opens(running):
    written = await running.seal(**hosts(running))
    await reach(running, written.state["round"])
    await reach(running, NET.chain.first_at(written.state["reveal_by"] + 1) - 1)
    await running.sessions.reveal(ALICE, written.session, SEED)
    assert (await events(running, written.session))[-1].by == "host"


async def test_a_restart_in_between_forgets_nothing(tmp_path, rounds):
    options = {"start": START, "clock": rounds.clock, "rounds": rounds, "chain": NET.chain}
    async with service(tmp_path, **options) as first:
        written = await first.seal(**hosts(first, plan={"turn": 2}))
        await reach(first, written.state["round"])
        seeds = first.seeds
    async with service(tmp_path, seeds=seeds, **options) as second:
        await reach(second, written.state["timelock"]["round"])
    async with service(tmp_path, seeds=seeds, **options) as third:
        await third.keeper.tick()
        await third.made_aside()
        shown = await view(third, written.session)
        assert (shown["state"], shown["drawn"]["turn"]) == ("revealed", 2)
        assert (await verdict(third, written.session)).exit == 0


async def count_reveals(made, session):
    return [event.by for event in await events(made, session) if isinstance(event, entries.Reveal)]


@pytest.mark.parametrize("plan", [{"turn": 2}, None])
async def test_an_end_between_the_draws_and_the_reveal_is_finished_once(tmp_path, rounds, monkeypatch, plan):
    options = {"start": START, "clock": rounds.clock, "rounds": rounds, "chain": NET.chain}
    live = {"links": 8, "profile": "live", "participants": []}
    async with service(tmp_path, **options) as first:
        written = await first.seal(**hosts(first, plan=plan) if plan else {**hosts(first, **live), "links": 8})
        lock, called = written.state["timelock"]["round"], None if plan else await first.draw(written.session)
        await reach(first, written.state["round"] if called is None else called.call.round)
        with monkeypatch.context() as dying:
            dying.setattr(commands, "reveal", lambda *_: 1 // 0)
            first.clock.time = NET.chain.time(lock) + 500
            await first.rounds.arrive(lock)
            await first.keeper.tick()
            await asyncio.wait(first.keeper._making.values())
        assert (await view(first, written.session))["state"] == "drawing"
        seeds = first.seeds
    async with service(tmp_path, seeds=seeds, **options) as second:
        for _ in range(3):
            await second.keeper.tick()
            await second.made_aside()
        assert len(await count_reveals(second, written.session)) == 1
        assert (await verdict(second, written.session)).exit == 0


async def test_a_host_that_reveals_while_its_timelock_opens_has_revealed(running, monkeypatch):
    written = await running.seal(**hosts(running, plan={"turn": 2}))
    await reach(running, written.state["round"])
    run = running.context.locks._run

    async def slow(*call):
        opened = await run(*call)
        await running.sessions.reveal(ALICE, written.session, SEED)
        return opened

    monkeypatch.setattr(running.context.locks, "_run", slow)
    await reach(running, written.state["timelock"]["round"])
    assert await count_reveals(running, written.session) == ["host"]
    assert (await verdict(running, written.session)).exit == 0


async def test_a_timelock_is_looked_at_again_where_something_else_is_made_for_its_session(running):
    written = await running.seal(**hosts(running))
    await reach(running, written.state["round"])
    running.clock.time = NET.chain.time(written.state["timelock"]["round"]) + 500
    await running.rounds.arrive(written.state["timelock"]["round"])
    running.keeper._making[written.session] = asyncio.create_task(asyncio.sleep(0))
    await running.keeper.tick()
    del running.keeper._making[written.session]
    running.clock.time += 1_000
    await running.keeper.tick()
    await running.made_aside()
    assert (await view(running, written.session))["state"] == "revealed"


async def test_many_timelocks_that_open_at_once_hold_up_nobody_elses_deadline(running, monkeypatch):
    """Their round brings all of them at once, and each takes a pairing or two."""
    terms, commitments = hosts(running), [seed_chain(sha256(b"%d" % number), 1)[0] for number in range(20)]
    locked = [await running.seal(**{**terms, "commitment": commitment.hex()}) for commitment in commitments]
    lock = locked[0].state["timelock"]["round"]
    await reach(running, locked[0].state["round"])
    other = await running.seal(round=lock + 10, participants=[], open=True, close_at=NET.chain.time(lock) + 10)
    free, most, opening = asyncio.Event(), 0, 0
    run = running.context.locks._run

    async def slow(*call):
        nonlocal most, opening
        opening += 1
        most = max(most, opening)
        await free.wait()
        opening -= 1
        return await run(*call)

    monkeypatch.setattr(running.context.locks, "_run", slow)
    running.clock.time = NET.chain.time(lock) + 500
    await running.rounds.arrive(lock)
    await asyncio.wait_for(running.keeper.tick(), 30)
    await asyncio.wait_for(running.keeper.tick(), 30)
    assert (opening, (await view(running, other.session))["state"]) == (OPENING, "closed")
    free.set()
    await running.made_aside()
    states = [await view(running, one.session) for one in locked]
    assert {(shown["state"], shown["reason"]) for shown in states} == {("void", "missed-reveal")}
    assert most == OPENING


@pytest.mark.parametrize(
    "signature", [lambda lock: NET.sign(lock + 1), lambda _: b"\xff" * 48, lambda lock: NET.sign(lock)[1:]]
)
async def test_a_false_round_in_the_log_opens_nothing_and_voids_nothing(running, signature):
    written = await running.seal(**hosts(running))
    chain, lock = NET.chain, written.state["timelock"]["round"]
    seal = (await events(running, written.session))[0]
    with pytest.raises(ApiError, match="rounds-damaged"):
        await running.context.locks.open(seal, chain, Round(lock, signature(lock)))


WRONG = {
    "custody host, true": lambda made: {**hosts(made), "timelock": True},
    "custody beacon, sealed": lambda made: {**PLAIN, "timelock": sealed(SEED, made.clock.now() + 1_200_000)},
}
REFUSED = {
    "too early": lambda made: {"timelock": sealed(SEED, made.clock.now() + 1_190_000)},
    "too late": lambda made: {"timelock": sealed(SEED, made.clock.now() + 1_210_000 + 31 * 86_400_000)},
    "another round than its own": lambda made: {
        "timelock": sealed(SEED, made.clock.now() + 1_200_000) | {"round": START + 420}
    },
    "no base64": lambda made: {"timelock": {"round": START + 400, "ciphertext": "no"}},
    "no age file": lambda made: {"timelock": {"round": START + 400, "ciphertext": "YWdl"}},
    "no point": lambda made: {"timelock": spoiled(sealed(SEED, made.clock.now() + 1_200_000))},
}


def spoiled(lock):
    """The ciphertext with another U, which is on no curve."""
    file = parse_age(parse_base64(lock["ciphertext"]))
    body = b"\x80" + bytes(95) + file.stanza.body[96:]
    changed = replace(file, stanza=Stanza(file.stanza.arguments, body))
    return lock | {"ciphertext": encode_base64(changed.encode())}


@pytest.mark.parametrize("name", WRONG)
async def test_timelocks_that_a_request_cannot_have(running, name):
    with pytest.raises(ValidationError) as caught:
        await running.seal(**WRONG[name](running))
    assert caught.value.errors()[0]["type"] == "seal-timelock-invalid"


@pytest.mark.parametrize("name", REFUSED)
async def test_timelocks_that_are_refused_leave_no_trace(running, name):
    size = running.log.latest().size
    await refused("seal-timelock-invalid", running.seal(**{**hosts(running), **REFUSED[name](running)}), "7.3")
    assert running.log.latest().size == size


async def test_a_chain_that_is_not_followed_carries_none(running):
    lock = sealed(SEED, running.clock.now() + 1_200_000) | {"chain": "nowhere"}
    await refused("chain-unknown", running.seal(**{**hosts(running), "timelock": lock}))


async def test_chains_that_cannot(running):
    default = pinned_chains()["default"]
    running.context._by_hash[default.hash] = default
    running.context.chains["default"] = default
    lock = sealed(SEED, running.clock.now() + 1_200_000) | {"chain": "default"}
    await refused("seal-timelock-invalid", running.seal(**{**hosts(running), "timelock": lock}), "7.3")


async def test_a_chain_that_ends_before_carries_none_by_default(tmp_path, rounds):
    chain = replace(NET.chain, last_round=START + 100)
    options = {"start": START, "clock": rounds.clock, "rounds": rounds, "chain": chain}
    async with service(tmp_path, **options) as made:
        assert (await made.seal(**PLAIN)).state["timelock"] is None
        await refused("seal-timelock-invalid", made.seal(timelock=True, **PLAIN), "7.3")


async def test_without_the_native_pairing_a_process_seals_and_opens():
    worker = Worker()
    try:
        locks = Locks(worker, REFERENCE)
        lock = await locks.seal(NET.chain, 9, SEED, now=0)
        await locks.check(lock, NET.chain)
        seal = replace(template(), commitment=sha256(SEED), timelock=lock)
        assert await locks.open(seal, NET.chain, Round(9, NET.sign(9))) == SEED
        assert await locks.open(replace(seal, commitment=bytes(32)), NET.chain, Round(9, NET.sign(9))) is None
        with pytest.raises(ApiError, match="rounds-damaged"):
            await locks.open(seal, NET.chain, Round(9, NET.sign(8)))
    finally:
        worker.close()


def template():
    return entries.Seal(
        time=1, log="o", host="h", host_seq=1, label="", replaces=None, profile="match", custody="beacon",
        commitment=bytes(32), links=1, chain=NET.chain.hash, round=9, lead=None, close_at=None, reveal_by=9, participants=(),
        open=False, min_contributions=0, recipes={}, plan=None, attachments=(),
        after=entries.After(1, os.urandom(48), None), timelock=None, sandbox=False,
    )  # fmt: skip
