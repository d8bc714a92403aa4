"""Live sessions, plans and hosts that hold their own seed: from the seal to the verdict, and every refusal on the way."""

import asyncio
import os
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from beacon.errors import ApiError
from beacon.sessions import calls, rules, settling
from beacon.sessions.links import STRIDE, Links, Remembered
from beacon.sessions.requests import SealRequest
from beacon.store.errors import WriteFailed
from tests.round_support import QUICKNET
from tests.session_support import ALICE, BOB, FIRST, RECIPES, service
from tests.test_sessions import refused
from verifier.drand import VerifiedRound
from verifier.draws import Deck, parse_recipe
from verifier.draws import draw as outcome
from verifier.seeds import Stream, binding, contribution_message, seed_chain, session_digest, sha256
from verifier.transcript import parse_transcript

LIVE = {"profile": "live", "links": 8, "participants": []}


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


async def reach(made, number):
    """Bring in every round up to this one, so that the clock stays sure."""
    while made.rounds.newest(QUICKNET.hash).round < number:
        await made.reach(made.rounds.newest(QUICKNET.hash).round + 1)


async def played(made, session, *recipes):
    """Call a draw of each recipe in turn and have its round arrive."""
    for recipe in recipes:
        called = await made.draw(session, recipe)
        await reach(made, called.call.round)
    return await made.sessions.view(session)


def entries_of(document):
    return [event.entry for event in parse_transcript(document).events]


async def test_a_whole_live_session(running):
    written = await running.seal(**LIVE)
    session = written.session
    assert (written.state["state"], written.state["links"], written.state["lead"]) == ("closed", 8, 2_000)
    assert written.state["round"] is None

    called = await running.draw(session, "opening", purpose="who begins")
    assert called.call.round == QUICKNET.first_at(running.clock.now() + 2_000) > running.rounds.newest(b"").round
    assert called.state["state"] == "called"
    assert called.state["pending"][0]["round"] == called.call.round
    await reach(running, called.call.round)
    assert await running.state(session) == "drawing"
    state = await played(running, session, "turn", "turn")
    assert state["drawn"]["turn"] == 2

    assert (await running.verdict(session)).exit == 2
    revealed = await running.sessions.reveal(ALICE, session)
    assert revealed.state["state"] == "revealed"
    verdict = await running.verdict(session)
    assert verdict.exit == 0, [claim.as_dict() for claim in verdict.claims]
    assert [row["draw"] for row in verdict.session["outcomes"]] == [1, 2, 3]


async def test_the_seed_of_a_draw_is_not_known_before_it(running):
    session = (await running.seal(**LIVE)).session
    await played(running, session, "turn")
    first = entries_of(await running.sessions.transcript(session))[-1].seed
    commitment = (await running.sessions.view(session))["commitment"]
    assert sha256(first).hex() == commitment
    assert (await running.sessions.view(session))["seed"] is None


async def test_contributions_of_the_session_and_of_a_call(running):
    keys = {name: Ed25519PrivateKey.generate() for name in ("white", "black")}
    players = [{"id": name, "key": key.public_key().public_bytes_raw().hex()} for name, key in keys.items()]
    session = (await running.seal(**LIVE | {"participants": players})).session
    error = await refused("call-before-close", running.draw(session), "6.5")
    assert error.problem.retryable
    assert error.retry_after > 0
    for name, key in keys.items():
        signature = key.sign(contribution_message(session, 0, "", 0, "", name, b"\x01"))
        await running.contribute(session, name, b"\x01", signature)
    assert await running.state(session) == "closed"

    def signed(name, k, n, purpose, entropy=b"\x02"):
        signature = keys[name].sign(contribution_message(session, k, "turn", n, purpose, name, entropy))
        return {"participant": name, "entropy": entropy.hex(), "signature": signature.hex()}

    asked = {"draw": 1, "n": 1, "purpose": "white's roll"}
    both = [signed("white", 1, 1, "white's roll"), signed("black", 1, 1, "white's roll")]
    later = [signed("white", 2, 1, "white's roll")]
    unsigned = [{"participant": "white", "entropy": "02"}]
    await refused("signature-missing", running.draw(session, contributions=unsigned, **asked), "6.4")
    await refused("signature-invalid", running.draw(session, contributions=both, **asked | {"purpose": "else"}), "4.4")
    await refused("call-number", running.draw(session, contributions=later, **asked | {"draw": 2}), "6.6")
    await refused("call-number", running.draw(session, contributions=both, purpose="white's roll"), "6.6")
    twice = [both[0], both[0]]
    await refused("already-contributed", running.draw(session, contributions=twice, **asked))
    grey = [{"participant": "grey", "entropy": "02"}]
    await refused("not-a-participant", running.draw(session, contributions=grey, **asked), "6.4")

    called = await running.draw(session, contributions=both, **asked)
    assert [item.participant for item in called.call.contributions] == ["black", "white"]
    await reach(running, called.call.round)
    await running.sessions.reveal(ALICE, session)
    verdict = await running.verdict(session)
    assert verdict.exit == 0
    assert verdict["contributions"].state == "PROVEN"


async def test_participants_may_contribute_to_calls_alone(running):
    session = (await running.seal(**LIVE | {"participants": [{"id": "white"}], "close_at": None})).session
    called = await running.draw(session, contributions=[{"participant": "white", "entropy": "02"}])
    await reach(running, called.call.round)
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


async def test_several_calls_wait_at_once_and_are_drawn_in_order(running):
    session = (await running.seal(**LIVE)).session
    first, second = await running.draw(session), await running.draw(session, "opening")
    assert (first.call.draw, second.call.draw) == (1, 2)
    assert first.call.round == second.call.round
    await reach(running, first.call.round + 1)
    third = await running.draw(session)
    assert (third.call.draw, third.call.n) == (3, 2)
    await reach(running, third.call.round)
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


async def test_a_deck_is_dealt_over_the_calls(running):
    session = (await running.seal(**LIVE)).session
    await running.draw(session, "deck")
    called = await running.draw(session, "deck")
    await reach(running, called.call.round)
    state = await played(running, session, "deck")
    assert state["drawn"]["deck"] == 3
    await refused("draw-past-end-of-deck", running.draw(session, "deck"), "5.2")
    await running.sessions.reveal(ALICE, session)
    verdict = await running.verdict(session)
    assert verdict.exit == 0
    dealt = [card for row in verdict.session["outcomes"] for card in row["outcome"]]
    assert len(set(dealt)) == 9


async def test_heavy_recipes_are_drawn_live(running):
    session = (await running.seal(**LIVE)).session
    state = await played(running, session, "shuffle")
    assert state["drawn"]["shuffle"] == 1
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


class Stuck:
    """A worker that does nothing before it may."""

    def __init__(self, worker, monkeypatch):
        self.may, self.asked, self.run = asyncio.Event(), 0, worker.run
        monkeypatch.setattr(worker, "run", self.later)

    async def later(self, *call):
        self.asked += 1
        await self.may.wait()
        return await self.run(*call)


async def test_heavy_draws_of_one_host_hold_up_no_round_no_deadline_and_nobody_elses_draw(running, monkeypatch):
    stuck = Stuck(running.worker, monkeypatch)
    heavy = (await running.seal(BOB, **LIVE)).session
    raffle = (await running.seal(BOB, participants=[], plan={"shuffle": 2}, round=FIRST + 4)).session
    light = (await running.seal(**LIVE)).session
    match = (await running.seal(min_contributions=0, round=FIRST + 7)).session
    for _ in range(3):
        await running.draw(heavy, "shuffle", host=BOB)
    called = await running.draw(light)
    for number in range(FIRST + 1, FIRST + 8):
        running.clock.time = QUICKNET.time(number) + 500
        await running.rounds.arrive(number)
        await running.keeper.tick()
        if number == called.call.round:
            assert await running.state(light) == "drawing"
    assert await running.state(match) == "anchored"
    assert (await running.state(heavy), await running.state(raffle)) == ("called", "anchored")
    assert stuck.asked == 2
    stuck.may.set()
    await running.made_aside()
    assert (await running.state(heavy), await running.state(raffle)) == ("drawing", "revealed")
    for session, host in ((heavy, BOB), (light, ALICE)):
        await running.sessions.reveal(host, session)
    for session in (heavy, raffle, light):
        assert (await running.verdict(session)).exit == 0


async def test_many_light_draws_together_hold_up_nothing_either(running, monkeypatch):
    aside = []

    async def one_by_one(context, state, make=settling.draw_one_by_one):
        aside.append(state.session)
        await make(context, state)

    monkeypatch.setattr(settling, "draw_one_by_one", one_by_one)
    monkeypatch.setattr("beacon.sessions.keeper.AT_ONCE", 4)
    sessions = [(await running.seal(**LIVE)).session for _ in range(5)]
    called = {(await running.draw(session)).call.round for session in sessions}
    await reach(running, *called)
    assert len(aside) == 3
    assert {await running.state(session) for session in sessions} == {"drawing"}


async def test_what_is_made_aside_is_tried_again(running, monkeypatch):
    failing = [ApiError("seed-unavailable", "not now"), OSError("no process"), WriteFailed("no space")]

    async def run(*call, ready=running.worker.run):
        if failing:
            raise failing.pop()
        return await ready(*call)

    monkeypatch.setattr(running.worker, "run", run)
    live = (await running.seal(**LIVE)).session
    raffle = (await running.seal(participants=[], plan={"shuffle": 1}, round=FIRST + 4)).session
    await running.draw(live, "shuffle")
    for number in range(FIRST + 1, FIRST + 9):
        await running.reach(number)
    assert not failing
    assert (await running.state(live), await running.state(raffle)) == ("drawing", "revealed")


async def test_links_are_used_up(running):
    session = (await running.seal(**LIVE | {"links": 2})).session
    await running.draw(session)
    called = await running.draw(session)
    await refused("links-used-up", running.draw(session), "6.6")
    await reach(running, called.call.round)
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


async def test_at_most_so_many_calls_wait(running, monkeypatch):
    monkeypatch.setattr(rules, "MAX_PENDING", 2)
    session = (await running.seal(**LIVE)).session
    await running.draw(session)
    await running.draw(session)
    assert (await refused("too-many-calls", running.draw(session))).retry_after > 0


async def test_a_restart_between_call_and_round_loses_nothing(tmp_path):
    async with service(tmp_path) as made:
        session = (await made.seal(**LIVE)).session
        await played(made, session, "deck")
        called = await made.draw(session, "deck")
        clock, rounds, seeds = made.clock, made.rounds, made.seeds
    async with service(tmp_path, clock=clock, rounds=rounds, seeds=seeds) as made:
        assert await made.state(session) == "called"
        assert called.call.round in made.rounds.wanted
        await reach(made, called.call.round)
        await made.sessions.reveal(ALICE, session)
        assert (await made.verdict(session)).exit == 0


async def test_a_restart_between_round_and_draw_draws(tmp_path, monkeypatch):
    async with service(tmp_path) as made:
        session = (await made.seal(**LIVE)).session
        called = await made.draw(session)

        async def nothing():
            pass

        monkeypatch.setattr(made.keeper, "_draw_calls", nothing)
        await reach(made, called.call.round)
        assert await made.state(session) == "called"
        clock, rounds, seeds = made.clock, made.rounds, made.seeds
    async with service(tmp_path, clock=clock, rounds=rounds, seeds=seeds) as made:
        await made.keeper.tick()
        assert await made.state(session) == "drawing"


async def test_a_seed_that_is_gone_ends_in_a_missed_reveal_and_hinders_no_other_session(running):
    session, other = [(await running.seal(timelock=False, **LIVE)).session for _ in range(2)]
    called = await running.draw(session)
    await running.draw(other)
    commitment = bytes.fromhex((await running.sessions.view(session))["commitment"])
    del running.seeds.kept[commitment]
    running.context.custody.forget(commitment)
    await reach(running, called.call.round)
    assert (await running.state(session), await running.state(other)) == ("called", "drawing")
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await running.keeper.tick()
    view = await running.sessions.view(session)
    assert (view["state"], view["reason"], view["seed"]) == ("void", "missed-reveal", None)
    assert (await running.verdict(session)).exit == 1
    assert (await running.sessions.view(other))["state"] == "revealed"


async def test_void_and_reveal_of_a_live_session(running):
    session = (await running.seal(**LIVE)).session
    voided = await running.sessions.void(ALICE, session)
    assert (voided.state["state"], voided.state["seed"]) == ("void", None)
    assert (await running.verdict(session)).exit == 2

    session = (await running.seal(**LIVE)).session
    called = await running.draw(session)
    await refused("void-too-late", running.sessions.void(ALICE, session), "6.12")
    await refused("reveal-before-draws", running.sessions.reveal(ALICE, session), "6.7")
    await refused("not-your-session", running.draw(session, host=BOB))
    await reach(running, called.call.round)
    await running.sessions.reveal(ALICE, session)

    session = (await running.seal(**LIVE)).session
    empty = await running.sessions.reveal(ALICE, session)
    assert (empty.state["state"], empty.state["seed"]) == ("revealed", None)

    session = (await running.seal(**LIVE | {"participants": [{"id": "white"}]})).session
    await refused("reveal-before-close", running.sessions.reveal(ALICE, session), "6.4")


async def test_on_a_chain_that_has_ended_no_draw_is_called(tmp_path):
    last = FIRST + 20
    async with service(tmp_path, chain=replace(QUICKNET, last_round=last)) as made:
        session = (await made.seal(**LIVE)).session
        made.clock.time = QUICKNET.time(last) + 30_000
        await refused("chain-retired", made.draw(session), "2.5")


async def test_too_few_contributions_void_a_live_session(running):
    written = await running.seal(**LIVE | {"participants": [{"id": "white"}, {"id": "black"}]})
    await running.contribute(written.session, "white")
    await reach(running, QUICKNET.current(written.state["close_at"]) + 1)
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == ("void", "below-minimum")


async def test_calls_that_are_refused(running):
    session = (await running.seal(**LIVE)).session
    size = running.log.latest().size
    await refused("unknown-recipe", running.draw(session, "coin"), "3.6")
    await refused("draw-count", running.draw(session, "turn", 2))
    await refused("draw-count", running.draw(session, "turn", outcomes=[[1, 2]]))
    await refused("call-number", running.draw(session, n=2), "6.6")
    running.clock.time += 60_000
    await refused("clock-unsure", running.draw(session), "6.11")
    assert running.log.latest().size == size


async def test_without_the_round_a_called_session_is_void_at_its_deadline(running):
    session = (await running.seal(**LIVE)).session
    await played(running, session, "turn")
    await running.draw(session)
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await running.keeper.tick()
    view = await running.sessions.view(session)
    assert (view["state"], view["reason"]) == ("void", "no-round")
    assert sha256(sha256(bytes.fromhex(view["seed"]))).hex() == view["commitment"]
    verdict = await running.verdict(session)
    assert (verdict.exit, verdict["custody"].state, verdict["seed"].state) == (2, "TRUSTED", "PROVEN")


@pytest.mark.parametrize("custody", ["beacon", "host"])
async def test_a_round_that_falls_due_just_before_the_deadline_is_waited_for(running, custody):
    held = {} if custody == "beacon" else {"custody": "host", "commitment": sha256(bytes(range(32))).hex(), "links": 1}
    number = FIRST + 210
    due = QUICKNET.time(number)
    session = (await running.seal(**LIVE | held | {"reveal_by": due + 1})).session
    running.clock.time = due - 2_000
    running.rounds.known[number - 1] = VerifiedRound(QUICKNET, number - 1, bytes(48))
    assert (await running.draw(session)).call.round == number
    for time in (due + 1, due + 5_000, due + 599_999):
        running.clock.time = time
        await running.keeper.tick()
        assert await running.state(session) == "called"
    running.clock.time = due + 600_000
    await running.keeper.tick()
    view = await running.sessions.view(session)
    assert (view["state"], view["reason"]) == ("void", "no-round")


async def test_a_live_session_without_calls_is_revealed_at_its_deadline(running):
    written = await running.seal(**LIVE)
    running.clock.time = written.state["reveal_by"]
    await running.keeper.tick()
    assert await running.state(written.session) == "revealed"
    assert (await running.verdict(written.session)).exit == 2


async def test_a_call_whose_round_comes_at_the_deadline_is_refused(running):
    lead = 600_000
    written = await running.seal(**LIVE | {"lead": lead, "reveal_by": running.clock.now() + lead + 600_000})
    await running.draw(written.session)
    tight = written.state["reveal_by"] - lead
    state = running.book.get(written.session)
    asked = calls.Asked("turn", "", ())
    outcomes = set()
    for time in range(tight - 6_000, tight + 3_000, 500):
        allowed = QUICKNET.time(QUICKNET.first_at(time + lead)) < written.state["reveal_by"]
        outcomes.add(allowed)
        if allowed:
            assert calls.call(state, asked, QUICKNET, running.rounds.newest(b""), time).draw == 2
        else:
            with pytest.raises(ApiError, match="call-after-reveal-by"):
                calls.call(state, asked, QUICKNET, running.rounds.newest(b""), time)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("seal-profile-invalid", {"profile": "live", "round": FIRST + 20}),
        ("seal-profile-invalid", {"profile": "live", "plan": {"turn": 1}}),
        ("seal-profile-invalid", {"lead": 2_000}),
        ("seal-profile-invalid", {"links": 2}),
        ("seal-commitment-invalid", {"custody": "host"}),
        ("seal-commitment-invalid", {"commitment": "11" * 32}),
        ("seal-plan-invalid", {"plan": {}}),
        ("seal-plan-invalid", {"plan": {"turn": 600, "opening": 401}}),
    ],
)
def test_seals_whose_parts_contradict_each_other(code, fields):
    with pytest.raises(ValidationError) as caught:
        SealRequest.model_validate({"recipes": RECIPES} | fields)
    assert [error["type"] for error in caught.value.errors()] == [code]


async def test_plans_that_are_refused(running):
    await refused("seal-plan-invalid", running.seal(plan={"coin": 1}), "3.6")
    await refused("seal-plan-invalid", running.seal(plan={"deck": 4}), "3.6")
    await refused("seal-plan-invalid", running.seal(plan={"shuffle": 1000}), "3.6")


async def test_a_raffle_draws_itself(running):
    recipes = {
        "winners": {"kind": "sample", "size": 100000, "count": 500},
        "dice": {"kind": "dice", "count": 2, "sides": 6},
    }
    written = await running.seal(participants=[], recipes=recipes, plan={"winners": 40, "dice": 7})
    session = written.session
    await reach(running, written.state["round"])
    await refused("session-ended", running.draw(session, "dice"))
    view = await running.sessions.view(session)
    assert (view["state"], view["drawn"]) == ("revealed", {"winners": 40, "dice": 7})
    verdict = await running.verdict(session)
    assert verdict.exit == 0
    kinds = [entry.type for entry in entries_of(await running.sessions.transcript(session))]
    assert kinds.count("draw") > 2


async def test_a_plan_is_finished_after_a_restart(tmp_path):
    async with service(tmp_path) as made:
        written = await made.seal(participants=[], plan={"shuffle": 3, "deck": 2})
        clock, rounds, seeds = made.clock, made.rounds, made.seeds
        made.clock.time = QUICKNET.time(written.state["round"]) + 500
        await made.rounds.arrive(written.state["round"])
        await refused("planned", made.draw(written.session), "6.7")
        await refused("planned", made.sessions.reveal(ALICE, written.session), "6.7")
    async with service(tmp_path, clock=clock, rounds=rounds, seeds=seeds) as made:
        await made.keeper.tick()
        await made.made_aside()
        assert await made.state(written.session) == "revealed"
        assert (await made.verdict(written.session)).exit == 0


# Custody of the host


def drawn_by_host(seed, state, leaf, name, n, round_signature):
    bound = binding(session_digest(leaf, ()), 0, (), state["round"], sha256(round_signature))
    return outcome(parse_recipe(RECIPES[name]), Stream(seed, bound, name, n))


async def test_a_host_that_holds_its_seed_plays_a_match(running):
    seed = os.urandom(32)
    written = await running.seal(participants=[], custody="host", commitment=sha256(seed).hex())
    session, state = written.session, written.state
    await reach(running, state["round"])
    await refused("outcomes-missing", running.draw(session), "3.6")
    await refused("outcome-invalid", running.draw(session, outcomes=[[1, 2, 3]]), "5.3")
    signature = running.rounds.known[state["round"]].signature
    rolls = [drawn_by_host(seed, state, session, "turn", n, signature) for n in (1, 2)]
    made = await running.draw(session, outcomes=rolls, n=1)
    assert (made.first_n, made.outcomes) == (1, rolls)
    await refused("call-number", running.draw(session, outcomes=rolls, n=1), "6.6")
    await refused("seed-missing", running.sessions.reveal(ALICE, session), "4.1")
    await refused("seed-wrong", running.sessions.reveal(ALICE, session, bytes(32)), "4.1")
    await running.sessions.reveal(ALICE, session, seed)
    verdict = await running.verdict(session)
    assert verdict.exit == 0
    assert entries_of(await running.sessions.transcript(session))[-1].by == "host"


async def test_a_host_whose_claims_do_not_follow_is_convicted(running):
    seed = os.urandom(32)
    written = await running.seal(participants=[], custody="host", commitment=sha256(seed).hex())
    await reach(running, written.state["round"])
    signature = running.rounds.known[written.state["round"]].signature
    roll = drawn_by_host(seed, written.state, written.session, "turn", 1, signature)
    await running.draw(written.session, outcomes=[[7 - roll[0], roll[1]]])
    await running.sessions.reveal(ALICE, written.session, seed)
    verdict = await running.verdict(written.session)
    assert verdict.exit == 1
    assert verdict["outcomes"].state == "FAILED"


async def test_a_host_that_does_not_reveal_is_named(running):
    written = await running.seal(participants=[], custody="host", commitment=sha256(os.urandom(32)).hex())
    await reach(running, written.state["round"])
    running.clock.time = written.state["reveal_by"]
    await running.keeper.tick()
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == ("void", "missed-reveal")
    assert (await running.verdict(written.session)).exit == 1


async def test_a_host_that_keeps_a_link_back_is_named(running):
    links = seed_chain(os.urandom(32), 4)
    fields = LIVE | {"links": 4, "custody": "host", "commitment": links[0].hex()}
    session = (await running.seal(**fields)).session
    called = await running.draw(session)
    await reach(running, called.call.round)
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await running.keeper.tick()
    view = await running.sessions.view(session)
    assert (view["state"], view["reason"]) == ("void", "missed-reveal")
    assert (await running.verdict(session)).exit == 1


async def test_the_plan_of_a_hosts_own_seed_is_drawn_at_its_reveal(running):
    seed = os.urandom(32)
    fields = {"custody": "host", "commitment": sha256(seed).hex(), "plan": {"turn": 5, "deck": 3}}
    written = await running.seal(participants=[], **fields)
    await reach(running, written.state["round"])
    assert await running.state(written.session) == "anchored"
    await running.sessions.reveal(ALICE, written.session, seed)
    assert (await running.verdict(written.session)).exit == 0


async def test_a_host_hands_in_its_links(running):
    links = seed_chain(os.urandom(32), 4)
    fields = LIVE | {"links": 4, "custody": "host", "commitment": links[0].hex()}
    session = (await running.seal(**fields)).session
    await refused("call-number", running.hand_in(session, 1, links[1]), "6.6")
    called = await running.draw(session)
    await refused("draw-before-round", running.hand_in(session, 1, links[1]), "6.7")
    await reach(running, called.call.round)
    assert await running.state(session) == "called"
    await refused("seed-wrong", running.hand_in(session, 1, links[2]), "4.1")
    await refused("outcome-wrong", running.hand_in(session, 1, links[1], [9, 9]), "5")
    made = await running.hand_in(session, 1, links[1])
    assert len(made.outcomes[0]) == 2
    await refused("call-number", running.hand_in(session, 1, links[1]), "6.6")
    await running.sessions.reveal(ALICE, session)
    verdict = await running.verdict(session)
    assert verdict.exit == 0
    assert entries_of(await running.sessions.transcript(session))[-1].by == "service"


async def test_a_commitment_is_never_used_again(running):
    seed = os.urandom(32)
    fields = {"participants": [], "custody": "host", "commitment": sha256(seed).hex()}
    written = await running.seal(**fields)
    await refused("seal-commitment-invalid", running.seal(**fields), "4.1")
    await refused("seal-commitment-invalid", running.seal(BOB, **fields), "4.1")
    await reach(running, written.state["round"])
    roll = drawn_by_host(
        seed, written.state, written.session, "turn", 1, running.rounds.known[written.state["round"]].signature
    )
    await running.draw(written.session, outcomes=[roll])
    await running.sessions.reveal(ALICE, written.session, seed)
    await refused("seal-commitment-invalid", running.seal(**fields | {"commitment": seed.hex()}), "4.1")


async def test_seeds_and_links_are_for_whoever_holds_them(running):
    match = (await running.seal(participants=[])).session
    await reach(running, (await running.sessions.view(match))["round"])
    await refused("not-your-seed", running.draw(match, outcomes=[[1, 1]]))
    await refused("not-your-seed", running.sessions.reveal(ALICE, match, bytes(32)))
    await refused("not-your-seed", running.hand_in(match, 1, bytes(32)))
    await refused("not-live", running.draw(match, draw=1))
    live = (await running.seal(**LIVE)).session
    await refused("not-your-seed", running.sessions.reveal(ALICE, live, bytes(32)))
    await refused("not-your-seed", running.hand_in(live, 1, bytes(32)))


@pytest.mark.parametrize(
    "seed",
    [
        bytes(32),
        bytes(range(32)),
        b"\x01\x02" * 16,
        b"correct horse battery staple 123",
        bytes(31) + b"\x01",
        bytes(range(255, 223, -1)),
    ],
)
def test_plainly_weak_seeds(seed):
    assert rules.plainly_weak(seed)


@given(st.binary(min_size=4, max_size=4))
def test_hashes_are_not_weak(data):
    assert not rules.plainly_weak(sha256(data))


# Open sessions


async def test_anybody_contributes_to_an_open_session(running):
    written = await running.seal(participants=[], open=True)
    await running.contribute(written.session, "someone", host=None)
    again = await running.contribute(written.session, "someone", host=None)
    assert again.state["contributions"] == 1
    closed = (await running.seal()).session
    await refused("unauthorized", running.contribute(closed, "white", host=None))


# Chains of links


@given(st.integers(1, 4 * STRIDE), st.data())
def test_links_are_those_of_the_chain(count, data):
    last = sha256(count.to_bytes(4, "big"))
    chain, links = seed_chain(last, count), Links(last, count)
    assert links.commitment == chain[0]
    k = data.draw(st.integers(0, count))
    assert links.link(k) == chain[k]
    for wrong in (-1, count + 1):
        with pytest.raises(ValueError, match="has no link"):
            links.link(wrong)


def test_chains_that_were_used_least_recently_are_forgotten():
    kept = Remembered(most=3 * Links(bytes(32), 2).size)
    chains = [Links(bytes([i]) * 32, 2) for i in range(4)]
    for chain in chains[:3]:
        kept.keep(chain)
    assert kept.get(chains[0].commitment) is chains[0]
    kept.keep(chains[3])
    assert kept.get(chains[1].commitment) is None
    assert kept.get(chains[0].commitment) is chains[0]
    kept.forget(chains[0].commitment)
    assert kept.get(chains[0].commitment) is None


@given(st.integers(1, 60), st.data())
def test_a_deck_goes_on_from_what_was_dealt(size, data):
    counts = data.draw(st.lists(st.integers(1, 5), max_size=8))
    whole, dealt = Deck(size), []
    for number, count in enumerate(counts, 1):
        if len(dealt) + count > size:
            break
        stream = [Stream(bytes(32), bytes(32), "deck", number) for _ in range(2)]
        cards = whole.deal(stream[0], count)
        assert Deck(size, dealt).deal(stream[1], count) == cards
        dealt += cards
