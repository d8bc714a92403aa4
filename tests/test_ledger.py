"""A host's own sessions in pages, the public ledger, and join tokens."""

import asyncio
import re
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_utils import Database

from beacon.log.fsck import rebuild
from beacon.sessions import ledger
from beacon.sessions.book import Book
from beacon.sessions.joining import Joining, join_link
from beacon.store.log_schema import FILL_LEDGER, LOG_SCHEMA
from tests.page_worlds import HOSTILE, RIGHT_TO_LEFT
from tests.session_support import ALICE, BOB, contribution, service
from tests.test_live import LIVE, reach
from tests.test_sessions import refused
from tests.web_support import headers, web_of


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


async def pages(client, host=ALICE, **query):
    """All sessions that the list gives, over all its pages."""
    found, cursor = [], None
    for _ in range(100):
        more = {} if cursor is None else {"cursor": cursor}
        response = await client.get("/v1/sessions", params=query | more, headers=headers(host))
        assert response.status == 200, await response.text()
        document = await response.json()
        found += document["sessions"]
        cursor = document["cursor"]
        assert document["has_more"] is (cursor is not None)
        if cursor is None:
            return found
    raise AssertionError("the list has no end")


async def test_a_hosts_own_sessions_in_pages(running):
    for number in range(7):
        await running.seal(label="even" if number % 2 == 0 else "odd", participants=[])
        await running.seal(BOB)
    voided = (await running.seal(**LIVE)).session
    await running.sessions.void(ALICE, voided)
    called = (await running.seal(**LIVE)).session
    await running.draw(called)
    async with web_of(running) as client:
        whole = await pages(client)
        assert [item["host_seq"] for item in whole] == list(range(9, 0, -1))
        assert {item["host"] for item in whole} == {"alice"}
        for limit in ("1", "2", "3", "9", "10"):
            assert await pages(client, limit=limit) == whole
        assert [item["host_seq"] for item in await pages(client, label="even", limit="2")] == [7, 5, 3, 1]
        (void,) = await pages(client, state="void")
        assert (void["session"], void["reason"], void["state"]) == (voided.hex(), "host", "void")
        (waiting,) = await pages(client, state="called")
        assert waiting["session"] == called.hex()
        assert len(await pages(client, state="open", limit="3")) == 8
        assert len(await pages(client, state="closed", label="odd")) == 3
        assert await pages(client, state="revealed") == []


async def test_a_page_looks_at_so_many_sessions_and_says_where_to_go_on(running, monkeypatch):
    monkeypatch.setattr(ledger, "SCANNED", 3)
    first = (await running.seal(**LIVE)).session
    await running.draw(first)
    for _ in range(7):
        await running.seal(participants=[])
    async with web_of(running) as client:
        (found,) = await pages(client, state="called")
        assert found["session"] == first.hex()


@pytest.mark.parametrize(
    "query",
    ["state=x", "limit=0", "limit=201", "limit=x", "cursor=0", "cursor=-1", "before=3", "limit=1&limit=2", "cursor="],
)
async def test_bad_parameters_of_the_list(running, query):
    async with web_of(running) as client:
        response = await client.get(f"/v1/sessions?{query}", headers=headers())
        assert (response.status, (await response.json())["code"]) == (400, "invalid-request")


async def test_the_list_is_the_hosts_alone(running):
    async with web_of(running) as client:
        assert (await client.get("/v1/sessions")).status == 401


async def test_the_ledger_of_a_host(running):
    first = await running.seal(participants=[], label="table 1")
    again = await running.seal(participants=[], label="table 1", replaces=first.session.hex())
    await running.seal(participants=[], label="table 2")
    voided = (await running.seal(label="")).session
    await running.sessions.void(ALICE, voided)
    await running.seal(label="")
    for _ in range(2):
        await running.seal(BOB, label="table 2")
    await reach(running, first.state["round"])
    await running.sessions.reveal(ALICE, first.session)
    async with web_of(running) as client:
        shown = await (await client.get("/v1/hosts/alice")).json()
        assert shown["sealed"] == 5
        assert (shown["revealed"], shown["void"]) == (1, 2)
        assert shown["open"] == 2
        assert shown["void_by_reason"] == {"below-minimum": 1, "host": 1}
        assert shown["numbers_gapless"] is True
        assert shown["labels_used_twice"] == {"count": 1, "newest": [{"label": "table 1", "sessions": 2}]}
        replaced = {"session": again.session.hex(), "replaces": first.session.hex()}
        assert shown["replaced"] == {"count": 1, "newest": [replaced]}
        response = await client.get("/v1/hosts/nobody")
        assert (response.status, (await response.json())["code"]) == (404, "host-unknown")


SEALED = "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, x'00', ?, 'match', 'beacon', 0, ?, NULL, NULL, NULL)"
LEDGER = ("ledger", "ledger_ends", "labels_twice")


def sealed_in(db, rows):
    """Put sessions into the derived table: (host, host_seq, label, replaces) of each."""
    for place, (host, number, label, replaces) in enumerate(rows):
        db.execute(SEALED, (place.to_bytes(32, "big"), place, host, number, label, 1_000 + place, replaces))


@pytest.mark.parametrize(
    ("numbers", "gapless"),
    [((1, 2, 3), 1), ((3, 1, 2), 0), ((1, 3), 0), ((2, 3), 0), ((1, 1, 3), 0), ((0, 1, 2), 0), ((1, 1, 2, 3), 0)],
)
def test_a_gap_in_a_hosts_numbers_is_shown(numbers, gapless):
    with Database(memory=True) as db:
        LOG_SCHEMA.prepare(db)
        sealed_in(db, [("alice", number, "", None) for number in numbers])
        assert ledger.ledger(db, "alice")["numbers_gapless"] is bool(gapless)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.integers(1, 5), st.sampled_from(["", "x", "y"]), st.sampled_from([None, b"r"])
        )
    ),
    st.lists(st.tuples(st.integers(0, 10), st.sampled_from(["revealed", "host"])), unique_by=lambda end: end[0]),
)
def test_a_log_of_an_earlier_version_gets_the_ledger_that_the_triggers_make(rows, ends):
    """The migration counts what is there; from then on triggers count. Both come to the same."""

    def counted(db):
        return {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in LEDGER}

    with Database(memory=True) as db:
        LOG_SCHEMA.prepare(db)
        sealed_in(db, rows)
        for place, ended in ends:
            db.execute("UPDATE sessions SET ended = ? WHERE seal_index = ?", (ended, place))
        made = counted(db)
        for table in LEDGER:
            db.execute(f"DELETE FROM {table}")
        for sql in FILL_LEDGER:
            db.execute(sql)
        assert counted(db) == made


async def test_what_the_lists_rest_on_can_be_rebuilt_from_the_entries(tmp_path):
    async with service(tmp_path) as made:
        session = (await made.seal(label="x")).session
        await made.sessions.void(ALICE, session)
        await made.seal(**LIVE)
        before = made.log.reader.run
        rows = await before(
            lambda db: [db.execute(f"SELECT * FROM {name}").fetchall() for name in ("sessions", "openings")]
        )
        vkey, path = made.vkey, made.log.path
    rebuild(path, vkey, [Book()])
    async with service(tmp_path, clock=made.clock, rounds=made.rounds, seeds=made.seeds) as made:
        again = await made.log.reader.run(
            lambda db: [db.execute(f"SELECT * FROM {name}").fetchall() for name in ("sessions", "openings")]
        )
        assert again == rows


# Join tokens


async def test_a_participant_contributes_with_its_own_token(running):
    session = (await running.seal()).session
    path = f"/v1/sessions/{session.hex()}"
    async with web_of(running) as client:
        response = await client.post(f"{path}/joins", json={"participants": ["white", "black"]}, headers=headers())
        answer = await response.json()
        tokens = answer["tokens"]
        assert set(tokens) == {"white", "black"}
        assert answer["links"] == {
            name: f"/s/{session.hex()}#join={tokens[name]}&participant={name}" for name in tokens
        }

        async def contribute(participant, token, entropy="01"):
            said = {"participant": participant, "entropy": entropy}
            bearer = {"Authorization": f"Bearer {token}"}
            return await client.post(f"{path}/contributions", json=said, headers=bearer)

        for participant, token in (("black", tokens["white"]), ("white", "fbj_" + "A" * 43), ("white", "fbj_é")):
            assert (await contribute(participant, token)).status == 401
        first = await contribute("white", tokens["white"])
        assert first.status == 201
        assert await (await contribute("white", tokens["white"])).json() == await first.json()
        second = await contribute("white", tokens["white"], "02")
        assert (second.status, (await second.json())["code"]) == (409, "already-contributed")
        assert (await contribute("black", tokens["black"])).status == 201
        assert await running.state(session) == "closed"

        other = (await running.seal()).session
        path = f"/v1/sessions/{other.hex()}"
        assert (await contribute("white", tokens["white"])).status == 401
        refusals = {"grey": 422, "": 422}
        for participant, status in refusals.items():
            response = await client.post(f"{path}/joins", json={"participants": [participant]}, headers=headers())
            assert response.status == status
        response = await client.post(f"{path}/joins", json={"participants": ["white"]}, headers=headers(BOB))
        assert response.status == 403


async def test_without_a_host_an_idempotency_key_is_the_participants_own(running):
    """Else anybody could take up keys that others will use, or be answered with a token that is none."""
    session = (await running.seal(open=True, participants=[])).session
    path = f"/v1/sessions/{session.hex()}"
    async with web_of(running) as client:
        response = await client.post(f"{path}/joins", json={"participants": ["black"]}, headers=headers())
        black = (await response.json())["tokens"]["black"]

        async def contribute(participant, token=None, entropy="01"):
            bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
            said = {"participant": participant, "entropy": entropy}
            answer = await client.post(f"{path}/contributions", json=said, headers=bearer | {"Idempotency-Key": "1"})
            return answer.status, await answer.json()

        first = {name: await contribute(*name) for name in (("grey",), ("white",), ("black", black))}
        assert {status for status, _ in first.values()} == {201}
        for name, answer in first.items():
            assert await contribute(*name) == answer
            status, problem = await contribute(*name, *[None] * (2 - len(name)), entropy="02")
            assert (status, problem["code"]) == (409, "idempotency-key-reused")
        for token in ("fbj_" + "A" * 43, "fb_" + "A" * 43, "token-of-nobody"):
            for entropy in ("01", "02"):
                status, problem = await contribute("black", token, entropy)
                assert (status, problem["code"]) == (401, "unauthorized")


async def test_a_join_token_in_bytes_that_are_no_text_is_refused(running):
    session = (await running.seal()).session
    body = b'{"participant": "white", "entropy": "01"}'
    head = f"POST /v1/sessions/{session.hex()}/contributions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    more = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    async with web_of(running) as client:
        reader, writer = await asyncio.open_connection(client.server.host, client.server.port)
        writer.write(head.encode() + b"Authorization: Bearer fbj_\xff\xfe\r\n" + more.encode() + body)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_join_tokens_open_nothing_else(running):
    session = (await running.seal(participants=[])).session
    await refused("no-contributions-taken", running.sessions.join_tokens(ALICE, session, ["white"]))
    token = Joining(bytes(range(32))).token(session, "white")
    async with web_of(running) as client:
        for path in ("draws", "reveal", "void", "joins"):
            response = await client.post(
                f"/v1/sessions/{session.hex()}/{path}", json={}, headers={"Authorization": f"Bearer {token}"}
            )
            assert response.status == 401


def test_join_tokens_depend_on_key_session_and_participant():
    joining, session = Joining(bytes(32)), bytes(range(32))
    token = joining.token(session, "white")
    assert joining.admits(token, session, "white")
    assert not joining.admits(token, session, "black")
    assert not joining.admits(token, bytes(32), "white")
    assert not Joining(b"\x01" * 32).admits(token, session, "white")
    assert "key" not in repr(joining)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_join_link_gives_back_its_token_and_participant(participant):
    session = bytes(range(32))
    token = Joining(bytes(32)).token(session, participant)
    link = join_link(session, participant, token)
    assert re.fullmatch("[!-~]+", link)
    path, _, fragment = link.partition("#")
    assert path == f"/s/{session.hex()}"
    assert parse_qsl(fragment, keep_blank_values=True, strict_parsing=True) == [
        ("join", token),
        ("participant", participant),
    ]


async def test_a_join_link_of_whatever_name_keeps_its_schema(running):
    """The answer is held to it (`tests.web_support.hold`)."""
    names = ["white", HOSTILE[:128], RIGHT_TO_LEFT[:60], "a&join=b#c%20+d"]
    session = (await running.seal(participants=[{"id": name} for name in names])).session
    async with web_of(running) as client:
        path = f"/v1/sessions/{session.hex()}/joins"
        answer = await (await client.post(path, json={"participants": names}, headers=headers())).json()
    assert list(answer["links"]) == names


async def test_a_listed_participants_signature_is_due_also_with_a_join_token(running):
    written = await running.seal(
        participants=[{"id": "white", "key": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"}]
    )
    token = (await running.sessions.join_tokens(ALICE, written.session, ["white"]))["white"]
    contributed = running.sessions.contribute(None, written.session, contribution("white"), join=token)
    await refused("signature-missing", contributed, "6.4")
