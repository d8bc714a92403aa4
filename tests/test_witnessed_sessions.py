"""What witnesses make of a verdict: whole sessions of the real service, real witnesses, and the verifier's own policy."""

import asyncio
import json

import pytest

from beacon.web.waits import SEATS
from tests.round_support import QUICKNET
from tests.session_support import ALICE, FIRST, ORIGIN, service
from tests.web_support import headers, web_of
from tests.witness_support import asking, key_of, policy_of, several, until
from verifier.note import SigningKey, open_note
from verifier.policy import Policy
from verifier.transcript import parse_transcript
from verifier.verdict import State

VKEY = SigningKey(bytes(32), ORIGIN).vkey
URL = "http://127.0.0.1:9"


def trusted(*names, quorum="all"):
    """A verifier's policy of witnesses."""
    lines = [f"witness {name} {key_of(int(name[1:]))}\n" for name in names]
    return Policy.parse("".join([*lines, f"group q {quorum} {' '.join(names)}\n", "quorum q\n"]))


async def caught_up(asked, running):
    assert await asked.covered(running.log.latest().size - 1, 20)


async def play(running, asked, *, witnessed=True):
    """A match with two contributions, one draw and a reveal; 30 s to the round."""
    sealed = await running.seal()
    session = sealed.session
    await running.contribute(session, "white")
    await running.contribute(session, "black")
    if witnessed:
        await caught_up(asked, running)
    await running.reach(sealed.state["round"])
    await running.draw(session)
    await running.sessions.reveal(ALICE, session)
    await caught_up(asked, running)
    return session


async def test_everything_is_proven_by_the_quorum_of_the_verifiers_own_policy(tmp_path):
    async with (
        service(tmp_path) as running,
        several(tmp_path, running.clock, VKEY, 3) as found,
        asking(running.log, running.clock, policy_of(*(url for _, url in found), quorum=2)) as asked,
    ):
        session = await play(running, asked)
        await until(lambda: all(one.lag == 0 for one in asked.report()))
        verdict = await running.verdict(session, policy=trusted("w1", "w2"))
        for claim in ("log", "round", "unpredictable", "seed", "outcomes", "complete", "sole", "witnessed"):
            assert verdict[claim].state == State.PROVEN, verdict[claim].text
        closed = (QUICKNET.time(FIRST) + 500) // 1000
        assert f"w1, w2 saw what the outcomes rest on before its round (at {closed}," in verdict["unpredictable"].text
        assert verdict["witnessed"].text.startswith("w1, w2 cosigned")
        assert verdict.headline.startswith("Proven fair")

        alone = await running.verdict(session)
        assert alone["unpredictable"].state == alone["sole"].state == State.TRUSTED
        assert alone["witnessed"].state == State.UNKNOWN
        stranger = await running.verdict(session, policy=trusted("w1", "w4"))
        assert stranger["unpredictable"].state == stranger["witnessed"].state == State.TRUSTED
        any_of = await running.verdict(session, policy=trusted("w4", "w3", quorum="any"))
        assert any_of["unpredictable"].state == any_of["witnessed"].state == State.PROVEN

        document = parse_transcript(await running.sessions.transcript(session))
        keys = [VKEY, *map(key_of, (1, 2, 3))]
        assert len(open_note(document.signed.note, keys).verified) == 4
        assert [len(open_note(item.signed.note, keys).verified) for item in document.evidence] == [4]


async def test_an_anchor_that_nobody_saw_in_time_stays_trusted(tmp_path):
    """The witness comes when the round is there already: what it says then proves that all is in the log, not when."""
    async with service(tmp_path) as running, several(tmp_path, running.clock, VKEY, 1) as found:
        sealed = await running.seal(participants=[], close_at=None)
        await running.reach(sealed.state["round"])
        async with asking(running.log, running.clock, policy_of(found[0][1])) as asked:
            await running.sessions.reveal(ALICE, sealed.session)
            await caught_up(asked, running)
            verdict = await running.verdict(sealed.session, policy=trusted("w1"))
    assert verdict["unpredictable"].state == State.TRUSTED
    assert verdict["sole"].state == verdict["witnessed"].state == State.PROVEN


@pytest.mark.parametrize("participants", [[], [{"id": "white"}]], ids=["anchored by the seal", "anchored by the close"])
async def test_both_kinds_of_anchors_of_a_match(participants, tmp_path):
    async with (
        service(tmp_path) as running,
        several(tmp_path, running.clock, VKEY, 1) as found,
        asking(running.log, running.clock, policy_of(found[0][1])) as asked,
    ):
        sealed = await running.seal(participants=participants, **({} if participants else {"close_at": None}))
        if participants:
            await running.contribute(sealed.session, "white")
        await caught_up(asked, running)
        await running.reach(sealed.state["round"])
        await running.sessions.reveal(ALICE, sealed.session)
        await caught_up(asked, running)
        verdict = await running.verdict(sealed.session, policy=trusted("w1"))
        assert verdict["unpredictable"].state == State.PROVEN, verdict["unpredictable"].text


async def test_each_call_of_a_live_session_is_seen_before_its_round(tmp_path):
    async with (
        service(tmp_path) as running,
        several(tmp_path, running.clock, VKEY, 2) as found,
        asking(running.log, running.clock, policy_of(*(url for _, url in found))) as asked,
    ):
        sealed = await running.seal(profile="live", participants=[], links=8)
        missed = None
        for number in range(4):
            called = await running.draw(sealed.session)
            await caught_up(asked, running)
            await running.reach(called.call.round)
            if number == 2:
                verdict = await running.verdict(sealed.session, policy=trusted("w1", "w2"))
                assert verdict["unpredictable"].state == State.PROVEN, verdict["unpredictable"].text
                missed = called
        await running.sessions.reveal(ALICE, sealed.session)
        await caught_up(asked, running)
        verdict = await running.verdict(sealed.session, policy=trusted("w1", "w2"))
        assert missed is not None
        assert {name for name in ("unpredictable", "sole", "witnessed") if verdict[name].state != State.PROVEN} == set()
        document = parse_transcript(await running.sessions.transcript(sealed.session))
        assert len(document.evidence) == 4


async def test_a_transcript_waits_for_the_witnesses_where_it_is_asked_to(tmp_path):
    async with (
        service(tmp_path) as running,
        several(tmp_path, running.clock, VKEY, 2) as found,
        asking(running.log, running.clock, policy_of(*(url for _, url in found)), every_ms=400) as asked,
        web_of(running, witnesses=asked) as client,
    ):
        session = await play(running, asked)
        answer = await client.get(f"/v1/sessions/{session.hex()}/transcript?wait=20")
        assert answer.status == 200
        document = parse_transcript(await answer.read())
        assert [len(open_note(document.signed.note, [key_of(n)]).verified) for n in (1, 2)] == [1, 1]

        checkpoint = await (await client.get("/log/checkpoint")).text()
        assert checkpoint == asked.note(running.log.latest()) == await (await client.get("/log/witnessed")).text()
        assert len(open_note(checkpoint, [VKEY, key_of(1), key_of(2)]).verified) == 3
        for query in ("wait=x", "wait=1&wait=2", "other=1"):
            assert (await client.get(f"/v1/sessions/{session.hex()}/transcript?{query}")).status == 400


async def test_a_session_that_is_given_up_is_anchored_by_its_void(tmp_path):
    async with (
        service(tmp_path) as running,
        several(tmp_path, running.clock, VKEY, 1) as found,
        asking(running.log, running.clock, policy_of(found[0][1])) as asked,
    ):
        sealed = await running.seal()
        await running.sessions.void(ALICE, sealed.session)
        await caught_up(asked, running)
        await running.seal()
        await caught_up(asked, running)
        verdict = await running.verdict(sealed.session, policy=trusted("w1"))
        assert verdict["unpredictable"].state == verdict["sole"].state == State.PROVEN


async def test_who_waits_is_let_go_before_a_stop(tmp_path):
    async with (
        service(tmp_path) as running,
        asking(running.log, running.clock, policy_of(URL)) as asked,
        web_of(running, witnesses=asked) as client,
    ):
        sealed = await running.seal()
        waiting = asyncio.ensure_future(client.get(f"/v1/sessions/{sealed.session.hex()}/transcript?wait=30"))
        await until(lambda: len(client.app[SEATS]) == 1)
        asked.release()
        assert (await waiting).status == 200
        assert not await asked.covered(10, 30)


async def test_without_witnesses_nothing_waits_and_nothing_is_shown(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        sealed = await running.seal()
        answer = await client.get(f"/v1/sessions/{sealed.session.hex()}/transcript?wait=30")
        assert json.loads(await answer.read())["evidence"] == []
        assert (await client.get("/log/witnessed")).status == 404
        assert await (await client.get("/log/checkpoint")).text() == running.log.latest().note


async def test_a_witness_that_is_away_stops_neither_seals_nor_transcripts(tmp_path):
    async with (
        service(tmp_path) as running,
        asking(running.log, running.clock, policy_of(URL)) as asked,
        web_of(running, witnesses=asked) as client,
    ):
        body = {"recipes": {"r": {"kind": "bytes", "count": 1}}, "participants": [], "close_at": None}
        sealed = await client.post("/v1/sessions", json=body, headers=headers())
        assert sealed.status == 201
        session = (await sealed.json())["session"]
        running.clock.advance(700)
        await until(lambda: asked.report()[0].behind_ms >= 700)
        (one,) = asked.report()
        assert (one.standing.size, one.standing.time, one.standing.last) == (0, None, "unreachable")
        assert one.lag == running.log.latest().size
        document = json.loads(await (await client.get(f"/v1/sessions/{session}/transcript?wait=1")).read())
        assert document["evidence"] == []


@pytest.mark.parametrize("room", [0, 3_000, 9_000])
async def test_default_rounds_closes_and_leads_leave_room_for_witnesses(room, tmp_path):
    async with service(tmp_path, room=room) as running:
        live = await running.seal(profile="live", participants=[])
        assert live.state["lead"] == max(2_000, room)
        match = await running.seal()
        due = match.state["round_time"]
        assert due - match.state["close_at"] == max(3_000, room) + 7_000
        now = running.clock.now()
        for ahead in (9_500, 12_500, 20_000):
            near = await running.seal(round_at=now + ahead)
            gap = near.state["round_time"] - near.state["close_at"]
            assert near.state["close_at"] > now
            assert gap >= 3_000
            assert gap >= room or near.state["round_time"] - now <= room
        none = await running.seal(participants=[], close_at=None)
        assert none.state["round_time"] - now >= room


async def test_a_round_comes_late_enough_also_where_the_settings_ask_for_none(tmp_path):
    async with service(tmp_path, room=9_000, defaults={"round_lead_ms": 0}) as running:
        for fields, least in (({}, 18_000), ({"participants": [], "close_at": None}, 15_000)):
            sealed = await running.seal(**fields)
            assert sealed.state["round_time"] - running.clock.now() >= least
