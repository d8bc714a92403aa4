"""Waiting for a session: the watches, `?wait=`, and the stream of events, each against what the log says."""

import asyncio
import itertools
import json

import pytest

from beacon.errors import ApiError
from beacon.log import wire
from beacon.sessions.book import as_of, load, session_events
from beacon.sessions.changes import Changes
from beacon.sessions.state import LoggedRound, anchored, as_json, fold, sealed
from beacon.sessions.trail import Trail, contributed, shown_entry
from beacon.web import event_routes, waits
from tests.round_support import QUICKNET, until
from tests.session_support import ALICE, FIRST, service
from tests.test_live import LIVE, reach
from tests.web_support import headers, read_events, web_of
from verifier import entries
from verifier.entries import parse_entry
from verifier.transcript import parse_transcript

NAMED = bytes(32)


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


@pytest.fixture
async def client(running):
    async with web_of(running) as made:
        yield made


class Touched:
    def __init__(self, session):
        self.session = session


# Watches


async def test_one_call_into_the_loop_for_a_commit_and_only_if_somebody_watches(monkeypatch):
    changes, loop = Changes(), asyncio.get_running_loop()
    calls = []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: calls.append(call))
    changes.told([Touched(NAMED)])
    with changes.watch(NAMED), changes.watch(NAMED), changes.watch(b"\1" * 32):
        changes.told([Touched(b"\2" * 32)])
        assert calls == []
        changes.told([Touched(NAMED), Touched(b"\1" * 32), Touched(b"\2" * 32)])
        assert len(calls) == 1
    changes.told([Touched(NAMED)])
    assert len(calls) == 1
    assert len(changes) == 0
    assert changes._watches == {}


async def test_what_changes_between_a_look_and_the_wait_is_not_missed():
    changes = Changes()
    with changes.watch(NAMED) as watch:
        changes._wake([NAMED])
        assert await watch.changed(0)
        assert not await watch.changed(0)
        assert not watch.over


async def test_at_most_so_many_watch():
    changes = Changes(limit=2)
    with changes.watch(NAMED), changes.watch(NAMED):
        with pytest.raises(ApiError, match="too-many-waiting"), changes.watch(NAMED):
            pass
        assert len(changes) == 2
    with changes.watch(NAMED):
        assert len(changes) == 1


async def test_a_stop_lets_everybody_go_for_good():
    changes = Changes()
    with changes.watch(NAMED) as watch:
        changes.release()
        assert not await watch.changed(60)
        assert watch.over
    with changes.watch(NAMED) as watch:
        assert not await watch.changed(60)


async def test_who_has_left_waits_no_longer(monkeypatch):
    monkeypatch.setattr("beacon.sessions.changes.LOOK_SECONDS", 0.001)
    changes = Changes()
    with changes.watch(NAMED, lambda: True) as watch, changes.watch(NAMED, lambda: False) as other:
        assert not await watch.changed(60)
        assert not other.over
    assert changes._look is None


async def test_a_listener_after_the_end_of_the_loop_stops_no_writer():
    changes = Changes()
    with changes.watch(NAMED):
        changes._loop = asyncio.new_event_loop()
        changes._loop.close()
        changes.told([Touched(NAMED)])


# The trail of a session


def names_by_folding(db, session):
    """(index, state name) of each of a session's events, by the state machine itself."""
    state, found = None, []
    for index, data in session_events(db, session):
        entry = parse_entry(data)
        if isinstance(entry, entries.Seal):
            state = sealed(index, session, entry)
        elif state.end is not None:
            continue
        elif isinstance(entry, entries.Round):
            state = anchored(state, (entry.chain, entry.round), LoggedRound(index, entry.time, entry.signature))
        else:
            state = fold(state, index, entry)
        found.append((index, state.name))
    return found


def trail_from(db, session, after):
    trail, found = Trail(session, after), []
    while events := trail.read(db):
        found += [(event.index, event.state) for event in events]
    return found


async def histories(made):
    """Sessions of every kind, as far as they got."""
    match = (await made.seal()).session
    yield match
    await made.contribute(match, "white")
    unclosed, without, given_up = (await made.seal()).session, (await made.seal(participants=[])), await made.seal()
    await made.contribute(match, "black")
    await made.sessions.void(ALICE, given_up.session)
    live, deep = (await made.seal(**LIVE)).session, (await made.seal(**LIVE | {"links": 40})).session
    planned = (await made.seal(participants=[], plan={"turn": 3})).session
    await made.draw(live)
    for _ in range(5):
        await made.draw(deep)
    await reach(made, FIRST + 2)
    await made.draw(live)
    await made.draw(deep)
    await reach(made, without.state["round"])
    for count in (1, 2, 3):
        await made.draw(match, count=count)
        await made.draw(deep)
    await made.draw(without.session)
    await made.keeper.tick()
    await made.sessions.reveal(ALICE, match)
    await reach(made, made.rounds.newest(b"").round + 2)
    await made.sessions.reveal(ALICE, live)
    await made.draw(deep)
    for session in (unclosed, without.session, given_up.session, live, deep, planned):
        yield session


async def test_a_session_as_of_any_entry_is_what_folding_up_to_there_gives(running):
    sessions = [session async for session in histories(running)]

    def look(db):
        for session in sessions:
            states = [load(db, session, index + 1) for index, _ in session_events(db, session)]
            for wanted, state in itertools.combinations_with_replacement(states, 2):
                end = wanted.last_index + 1
                assert as_json(as_of(db, state, end), QUICKNET.time) == as_json(load(db, session, end), QUICKNET.time)

    await running.log.read(look)


async def test_what_a_session_shows_is_found_by_its_index_alone(running):
    sessions = [session async for session in histories(running)]

    def look(db):
        size = running.log.latest().size
        for session in sessions:
            events = dict(session_events(db, session))
            assert {i: found for i in range(size + 1) if (found := shown_entry(db, session, i)) is not None} == events
            own = [
                (index, entry) for index, data in events.items() if (entry := parse_entry(data)).type == "contribution"
            ]
            for place, (index, entry) in enumerate(own):
                assert contributed(db, session, place) == (index, entry)
            assert contributed(db, session, len(own)) is None

    await running.log.read(look)


async def test_repeats_and_receipts_of_a_large_session_do_not_read_the_whole_of_it(running, monkeypatch):
    """Anybody may ask for them, of an open session that anybody may fill."""
    session = (await running.seal(participants=[], open=True)).session
    named = [f"p{number}" for number in range(300)]
    first = {name: await running.contribute(session, name, host=None) for name in named}
    parsed = []
    for module in ("beacon.sessions.book", "beacon.sessions.trail", "beacon.log.wire.entries"):
        monkeypatch.setattr(f"{module}.parse_entry", lambda data: parsed.append(data) or parse_entry(data))
    wire.parse.cache_clear()
    for name in ("p0", "p150", "p299"):
        again = await running.contribute(session, name, host=None)
        assert again == first[name]
        await running.sessions.receipt(session, again.state["last_index"])
    assert len(parsed) < 60


@pytest.mark.parametrize("most", [1, 3, 64])
async def test_a_trail_from_anywhere_agrees_with_the_state_machine(running, monkeypatch, most):
    monkeypatch.setattr("beacon.sessions.trail.READ_ENTRIES", most)
    sessions = [session async for session in histories(running)]
    seen = set()
    for session in sessions:
        expected = await running.log.read(lambda db, session=session: names_by_folding(db, session))
        seen |= {name for _, name in expected}
        last = expected[-1][0]
        for after in range(-1, last + 2):
            shown = await running.log.read(lambda db, after=after, session=session: trail_from(db, session, after))
            assert shown == [item for item in expected if item[0] > after]
    assert seen == {"sealed", "closed", "anchored", "called", "drawing", "revealed", "void"}


async def test_the_newest_index_of_a_session_is_that_of_its_last_event(running):
    sessions = [session async for session in histories(running)]
    for session in sessions:
        expected = await running.log.read(lambda db, session=session: names_by_folding(db, session))
        assert (await running.sessions.view(session))["last_index"] == expected[-1][0]
        folded = await running.log.read(lambda db, session=session: load(db, session))
        assert folded.last_index == expected[-1][0]


async def test_long_entries_are_read_a_few_at_a_time(running, monkeypatch):
    monkeypatch.setattr("beacon.sessions.trail.READ_BYTES", 100_000)
    written = await running.seal(participants=[])
    await reach(running, written.state["round"])
    for _ in range(8):
        await running.draw(written.session, "shuffle")
    trail = Trail(written.session, -1)
    sizes = []
    while events := await running.log.read(trail.read):
        sizes.append(sum(len(event.entry) for event in events))
    assert max(sizes) < 200_000
    assert len(sizes) > 2


async def test_a_trail_stops_at_an_entry_that_was_altered(running):
    session = (await running.seal()).session

    def alter(db):
        db.execute("DROP TRIGGER entries_no_update")
        db.execute("UPDATE entries SET entry = CAST(replace(entry, 'white', 'green') AS BLOB) WHERE i = 2")

    await running.log.writer.run(alter)
    with pytest.raises(Exception, match="not the one that was logged"):
        await running.log.read(Trail(session, -1).read)


# ?wait=


async def draw(client, session, query="", **fields):
    body = {"recipe": "turn"} | fields
    response = await client.post(f"/v1/sessions/{session.hex()}/draws{query}", json=body, headers=headers())
    return response.status, await response.json()


async def test_a_call_that_waits_is_answered_with_its_draw(running, client):
    session = (await running.seal(**LIVE)).session
    waiting = asyncio.create_task(draw(client, session, "?wait=30"))
    await until(lambda: running.changes._watches)
    await reach(running, running.book.get(session).pending[0].call.round)
    status, answer = await waiting
    assert status == 201
    assert (answer["call"]["draw"], answer["n"], answer["state"]) == (1, 1, "drawing")
    assert len(answer["outcomes"]) == 1
    call, drawn = (parse_transcript(json.dumps(receipt).encode()).events[0].entry for receipt in answer["receipts"])
    assert isinstance(call, entries.Call)
    assert isinstance(drawn, entries.Draw)
    assert list(drawn.outcomes) == answer["outcomes"]
    assert len(running.changes) == 0


async def test_each_of_several_calls_gets_its_own_draw(running, client):
    session = (await running.seal(**LIVE)).session
    waiting = []
    for number, recipe in enumerate(["turn", "opening", "turn"], 1):
        waiting.append(asyncio.create_task(draw(client, session, "?wait=30", recipe=recipe)))
        await until(lambda number=number: running.book.get(session).calls == number)
    await until(lambda: len(running.changes) == 3)
    await reach(running, running.book.get(session).pending[-1].call.round)
    answers = [answer for _, answer in await asyncio.gather(*waiting)]
    assert [answer["call"]["draw"] for answer in answers] == [1, 2, 3]
    assert [answer["n"] for answer in answers] == [1, 1, 2]
    shown = [entry for entry in await logged(running, session) if isinstance(entry, entries.Draw)]
    assert [answer["outcomes"] for answer in answers] == [list(entry.outcomes) for entry in shown]


async def logged(running, session):
    return [event.entry for event in parse_transcript(await running.sessions.transcript(session)).events]


async def test_when_time_runs_out_the_answer_is_the_call(running, client, monkeypatch):
    monkeypatch.setattr(waits, "MAX_WAIT", 0.01)
    session = (await running.seal(**LIVE)).session
    status, answer = await draw(client, session, "?wait=1000")
    assert status == 201
    assert answer["call"]["draw"] == 1
    assert "outcomes" not in answer
    assert len(answer["receipts"]) == 1
    assert len(running.changes) == 0


async def test_when_too_many_wait_the_answer_is_the_call(running, client):
    session = (await running.seal(**LIVE)).session
    running.changes._limit = 0
    status, answer = await draw(client, session, "?wait=30")
    assert (status, answer["call"]["draw"], "outcomes" in answer) == (201, 1, False)


async def test_a_session_that_ends_without_the_draw_lets_the_caller_go(running, client):
    session = (await running.seal(**LIVE)).session
    waiting = asyncio.create_task(draw(client, session, "?wait=30"))
    await until(lambda: running.changes._watches)
    state = running.book.get(session)
    running.clock.time = state.seal.reveal_by + 1
    running.context.doubt.about = lambda chain: None
    await running.keeper.tick()
    status, answer = await waiting
    assert running.book.get(session) is None
    assert (status, "outcomes" in answer) == (201, False)


async def test_a_match_draws_at_once_whatever_it_is_asked_to_wait(running, client):
    written = await running.seal(participants=[])
    await reach(running, written.state["round"])
    status, answer = await draw(client, written.session, "?wait=30")
    assert (status, len(answer["outcomes"])) == (201, 1)


@pytest.mark.parametrize("query", ["?wait=-1", "?wait=x", "?wait=1&wait=2", "?until=3", "?wait=1.5", "?wait="])
async def test_a_call_with_a_bad_wait_is_not_made(running, client, query):
    session = (await running.seal(**LIVE)).session
    status, answer = await draw(client, session, query)
    assert (status, answer["code"]) == (400, "invalid-request")
    assert running.book.get(session).calls == 0


async def test_a_view_waits_for_the_next_entry(running, client):
    session = (await running.seal()).session
    path = f"/v1/sessions/{session.hex()}"
    index = (await running.sessions.view(session))["last_index"]
    response = await client.get(f"{path}?wait=30&after={index - 1}")
    assert (await response.json())["contributions"] == 0
    for query in (f"?wait=30&after={index}", "?wait=30"):
        waiting = asyncio.create_task(client.get(path + query))
        await until(lambda: running.changes._watches)
        await running.contribute(session, "white" if "after" in query else "black")
        answer = await (await waiting).json()
        assert answer["last_index"] > index
        index = answer["last_index"]
    assert answer["state"] == "closed"


async def test_a_view_waits_for_the_round_of_a_match(running, client):
    written = await running.seal(participants=[])
    index = written.state["last_index"]
    waiting = asyncio.create_task(client.get(f"/v1/sessions/{written.session.hex()}?wait=30&after={index}"))
    await until(lambda: running.changes._watches)
    await reach(running, written.state["round"])
    answer = await (await waiting).json()
    assert (answer["state"], answer["last_index"]) == ("anchored", answer["round_index"])


async def test_a_view_of_an_ended_session_or_one_that_is_unknown_waits_for_nothing(running, client):
    session = (await running.seal()).session
    await running.sessions.void(ALICE, session)
    answer = await (await client.get(f"/v1/sessions/{session.hex()}?wait=30&after=999999")).json()
    assert answer["state"] == "void"
    assert (await client.get(f"/v1/sessions/{'00' * 32}?wait=30")).status == 404
    assert (await client.get(f"/v1/sessions/{session.hex()}?wait=30&after=x")).status == 400
    assert len(running.changes) == 0


async def test_a_client_that_leaves_frees_its_place(running, client, monkeypatch):
    monkeypatch.setattr("beacon.sessions.changes.LOOK_SECONDS", 0.001)
    session = (await running.seal()).session
    waiting = asyncio.create_task(client.get(f"/v1/sessions/{session.hex()}?wait=30"))
    await until(lambda: running.changes._watches)
    assert len(client.app[waits.SEATS]) == 1
    waiting.cancel()
    await until(lambda: not running.changes._watches)
    await until(lambda: not len(client.app[waits.SEATS]))


async def test_so_many_listen_from_one_address_and_in_all():
    seats = waits.Seats(3, 2)
    with seats.take("a"), seats.take("a"):
        with pytest.raises(ApiError, match="too-many-listeners"), seats.take("a"):
            pass
        with seats.take("b"), pytest.raises(ApiError, match="too-many-listeners"), seats.take("c"):
            pass
    assert not seats._taken


async def test_one_address_cannot_take_every_place(running):
    session = (await running.seal()).session
    async with web_of(running, waiting={"listeners_per_address": 1}) as client:
        path = f"/v1/sessions/{session.hex()}"
        async with client.get(f"{path}/events") as stream:
            assert stream.status == 200
            for refused in (f"{path}/events", f"{path}?wait=1"):
                response = await client.get(refused)
                assert (response.status, (await response.json())["code"]) == (429, "too-many-listeners")
            assert (await client.get(path)).status == 200


async def test_all_addresses_of_one_ipv6_network_listen_as_one(running):
    session = (await running.seal()).session
    waiting = {"listeners_per_address": 1}
    async with web_of(running, waiting=waiting, proxies="127.0.0.0/8 ::1") as client:
        path = f"/v1/sessions/{session.hex()}/events"
        async with client.get(path, headers={"X-Forwarded-For": "2001:db8:1:2::1"}) as stream:
            assert stream.status == 200
            for forwarded, status in (("2001:db8:1:2:ffff::9", 429), ("2001:db8:1:3::1", 200)):
                async with client.get(path, headers={"X-Forwarded-For": forwarded}) as response:
                    assert response.status == status


# Events


async def expected_events(running, session):
    shown = await running.log.read(lambda db: names_by_folding(db, session))
    entry = dict(await running.log.read(lambda db: list(session_events(db, session))))
    return [
        (str(index), parse_entry(entry[index]).type,
         {"index": index, "type": parse_entry(entry[index]).type, "state": name, "entry": entry[index].decode()})
        for index, name in shown
    ]  # fmt: skip


async def test_a_stream_tells_a_whole_session_and_ends_with_it(running, client):
    session = (await running.seal(**LIVE)).session
    async with client.get(f"/v1/sessions/{session.hex()}/events") as stream:
        assert stream.content_type == "text/event-stream"
        assert stream.headers["Cache-Control"] == "no-store"
        called = await running.draw(session)
        await reach(running, called.call.round)
        await running.sessions.reveal(ALICE, session)
        found = await read_events(stream)
    assert found[:-1] == await expected_events(running, session)
    assert [kind for _, kind, _ in found] == ["seal", "call", "round", "draw", "reveal", "end"]
    assert found[-1] == (None, "end", {"state": "revealed"})
    async with client.get(f"/v1/sessions/{session.hex()}/events", headers={"Last-Event-ID": found[-2][0]}) as again:
        assert again.status == 204
    await until(lambda: not running.changes._watches)


async def test_a_stream_resumes_anywhere_without_gap_or_repeat(running, client):
    sessions = [session async for session in histories(running)]
    for session in (item for item in sessions if running.book.get(item) is None):
        expected = await expected_events(running, session)
        for place in range(len(expected)):
            given = {"headers": {"Last-Event-ID": expected[place][0]}}
            query = {"params": {"after": expected[place][0]}}
            for how in (given, query):
                async with client.get(f"/v1/sessions/{session.hex()}/events", **how) as stream:
                    assert (stream.status == 204) == (place == len(expected) - 1)
                    assert (await read_events(stream))[:-1] == expected[place + 1 :]


async def test_reconnecting_while_entries_are_logged_loses_and_repeats_nothing(running, client):
    session = (await running.seal(**LIVE | {"links": 40})).session
    path, found = f"/v1/sessions/{session.hex()}/events", []

    async def play():
        for _ in range(12):
            await running.draw(session)
            await reach(running, running.rounds.newest(b"").round + 1)
        await reach(running, running.rounds.newest(b"").round + 2)
        await running.sessions.reveal(ALICE, session)

    playing = asyncio.create_task(play())
    for most in itertools.chain([1, 2, 3] * 3, itertools.repeat(7)):
        after = {"Last-Event-ID": found[-1][0]} if found else {}
        async with client.get(path, headers=after) as stream:
            if stream.status == 204:
                break
            found += [event for event in await read_events(stream, most=most) if event[0] is not None]
    await playing
    assert found == await expected_events(running, session)


async def test_a_stream_that_is_idle_beats(running, client, monkeypatch):
    monkeypatch.setattr(event_routes, "HEARTBEAT_SECONDS", 0.001)
    session = (await running.seal()).session
    async with asyncio.timeout(20), client.get(f"/v1/sessions/{session.hex()}/events") as stream:
        lines = [await stream.content.readline() for _ in range(12)]
    assert lines[0].startswith(b"retry: ")
    assert lines[6:] == [b":\n", b"\n"] * 3


async def test_a_stop_ends_streams_and_they_can_be_taken_up_again(running, client):
    session = (await running.seal()).session
    async with client.get(f"/v1/sessions/{session.hex()}/events") as stream:
        (first,) = await read_events(stream, most=1)
        await waits.release(client.app)
        assert await read_events(stream) == []
    assert first[1] == "seal"


async def test_a_reader_that_does_not_read_is_cut(running, client, monkeypatch):
    monkeypatch.setattr(event_routes, "DRAIN_SECONDS", 0.001)
    written = await running.seal(participants=[])
    await reach(running, written.state["round"])
    async with client.get(f"/v1/sessions/{written.session.hex()}/events", read_bufsize=1_024) as stream:
        stream.connection.transport.pause_reading()
        for _ in range(200):
            await running.draw(written.session, "shuffle")
            if not running.changes._watches:
                break
        await until(lambda: not running.changes._watches)
    assert not client.app[waits.SEATS]._taken


@pytest.mark.parametrize("given", ["x", "-1", "1.0", "", "9" * 40])
async def test_an_id_that_is_no_index_is_refused(running, client, given):
    session = (await running.seal()).session
    response = await client.get(f"/v1/sessions/{session.hex()}/events", headers={"Last-Event-ID": given})
    assert (response.status, (await response.json())["code"]) == (400, "invalid-request")
    path = f"/v1/sessions/{session.hex()}/events?after={given}"
    response = await client.get(path, headers={"Last-Event-ID": "0"})
    assert response.status == 400
    assert (await response.json())["code"] == "invalid-request"
    assert (await client.get(f"/v1/sessions/{'00' * 32}/events")).status == 404
    assert (await client.head(f"/v1/sessions/{session.hex()}/events")).status == 405
