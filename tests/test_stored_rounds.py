"""Rows that somebody else wrote to log.db: none is used before it was verified, and a forged one is never used."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest
import structlog

from beacon.errors import ApiError
from beacon.rounds import Followed, Rounds, stored
from beacon.rounds.desk import Desk
from beacon.rounds.spool import Spool
from beacon.rounds.store_protocol import Put
from beacon.store.errors import LogDamaged
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.reader import Reader
from beacon.store.rounds import SqliteRounds
from beacon.store.writer import Writer
from tests.log_support import tamper
from tests.lying_relay import LyingRelay
from tests.round_support import (
    DEFAULT,
    QUICKNET,
    InlineVerifier,
    MemoryRoundStore,
    at,
    own_chain,
    recorded,
    until,
    verified,
)
from tests.session_support import MemorySeeds, Service
from tests.test_rounds import ONCE, World, signed
from verifier import entries
from verifier.drand import Round
from verifier.verdict import State

HASH = QUICKNET.hash
NUMBER = 72_800
WANTED = 72_802


class Counting(InlineVerifier):
    def __init__(self):
        self.asked = []

    async def verify_many(self, chain, stated):
        self.asked += [one.round for one in stated]
        return await super().verify_many(chain, stated)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "rounds.db"
    Writer(path, LOG_SCHEMA).close()
    return path


def insert(path, stated, *, chain=QUICKNET, evidence=False):
    """What anybody who may write the file can do: no trigger stands against it."""
    row = (chain.hash, stated.round, stated.signature, stated.previous_signature)
    with closing(sqlite3.connect(path)) as db:
        if evidence:
            db.execute("INSERT INTO round_evidence VALUES (?, ?, ?, ?, 0)", row)
        else:
            db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", row)
        db.commit()


def forged(number):
    """A signature of the chain, but of another round."""
    return Round(number, recorded(QUICKNET, 72_750).signature)


@asynccontextmanager
async def world_of(path, clock, servers=(), **options):
    """Rounds over this file, as after a start of the service."""
    writer, reader = Writer(path, LOG_SCHEMA), Reader(path)
    try:
        store = SqliteRounds(writer, reader, clock, Put)
        async with World(clock, servers, store=store, **options) as world:
            yield world
    finally:
        reader.close()
        writer.close()


def damage_in(logs):
    return [line["round"] for line in logs if line["log_level"] == "critical" and "does not verify" in line["event"]]


class Line(InlineVerifier):
    """One thing after the other, as in the worker process; most: how many stood in the line at once."""

    def __init__(self):
        self.waiting = self.most = 0
        self.asked = []
        self.go = asyncio.Event()

    async def verify_many(self, chain, stated):
        self.waiting += len(stated)
        self.most = max(self.most, self.waiting)
        self.asked += stated
        await self.go.wait()
        self.waiting -= len(stated)
        return await super().verify_many(chain, stated)


async def test_however_many_ask_for_stored_rounds_what_is_fetched_waits_for_one_of_them_at_most():
    line, store = Line(), MemoryRoundStore()
    rounds = Rounds([Followed(QUICKNET, ())], store, at(NUMBER), policy=ONCE, verifier=line)
    await rounds.start(scheduled=False)
    numbers = [NUMBER - 2, NUMBER - 1, NUMBER]
    for number in numbers:
        store.rounds[HASH, number] = verified(QUICKNET, number)
    asking = [asyncio.create_task(rounds.get(HASH, number)) for number in numbers * 9]
    asking += [asyncio.create_task(rounds.wait(HASH, number, 60)) for number in numbers * 9]
    left = asyncio.create_task(rounds.get(HASH, NUMBER))
    await until(lambda: line.waiting)
    await asyncio.sleep(0.05)
    assert line.waiting == 1
    left.cancel()
    line.go.set()
    assert [found.round for found in await asyncio.gather(*asking)] == numbers * 18
    assert line.most == 1
    assert sorted(stated.round for stated in line.asked) == numbers
    await rounds.stop()


async def test_a_forged_newest_round_is_not_known_after_the_start(path):
    insert(path, recorded(QUICKNET, NUMBER - 2))
    insert(path, forged(NUMBER))
    with structlog.testing.capture_logs() as logs:
        async with world_of(path, at(NUMBER)) as world:
            assert world.newest is None
            assert world.rounds.trouble(HASH) == "rounds-damaged"
            assert await world.rounds.get(HASH, NUMBER) is None
            assert await world.rounds.wait(HASH, NUMBER, 0) is None
            assert (await world.rounds.get(HASH, NUMBER - 2)) == verified(QUICKNET, NUMBER - 2)
    assert damage_in(logs) == [NUMBER]
    assert world.told == []


async def test_a_forged_round_of_the_future_does_not_tell_the_time(path):
    insert(path, forged(10_000_000))
    clock = at(NUMBER)
    async with LyingRelay(clock=clock) as server, world_of(path, clock, [server]) as world:
        await world.rounds.tick()
        assert (world.newest, world.told) == (NUMBER, [NUMBER])
        assert world.rounds.trouble(HASH) == "rounds-damaged"


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
async def test_a_forged_row_of_a_wanted_round_is_told_to_nobody(path, when):
    insert(path, recorded(QUICKNET, NUMBER))
    if when == "before the start":
        insert(path, forged(WANTED))
    clock = at(NUMBER)
    async with LyingRelay(clock=clock) as server, world_of(path, clock, [server]) as world:
        heard = []

        async def hear(verified):
            if verified.round == WANTED:
                heard.append(verified)

        world.rounds.on_round(hear)
        world.rounds.want(HASH, WANTED)
        server.lie = 404
        if when == "while it runs":
            assert world.newest == NUMBER
            assert world.rounds.trouble(HASH) is None
            insert(path, forged(WANTED))
        clock.advance(6_000)
        await world.rounds.tick()
        assert heard == []
        assert world.rounds.trouble(HASH) == "rounds-damaged"
        server.lie = None
        await world.rounds.tick()
        assert heard == [verified(QUICKNET, WANTED)]
        assert world.rounds.status(HASH).wanted == ()
        assert await world.rounds.get(HASH, WANTED) is None
        assert world.rounds.trouble(HASH) == "rounds-damaged"
        assert world.rounds.status(HASH).evidence == ()


async def test_a_true_round_beside_a_forged_row_is_no_proof_against_the_chain(path):
    insert(path, forged(NUMBER))
    async with world_of(path, at(NUMBER + 1)) as world:
        world.rounds._followers[HASH]._stored.damaged.clear()
        assert await world.rounds.accept(verified(QUICKNET, NUMBER))
        assert world.rounds.trouble(HASH) == "rounds-damaged"
        assert world.told == [NUMBER]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM round_evidence").fetchone() == (0,)


async def test_the_right_signature_with_another_previous_one_is_damage_too(path):
    number = 2_183_661
    insert(path, replace(recorded(DEFAULT, number), previous_signature=b"\x01" * 96), chain=DEFAULT)
    async with world_of(path, at(number, chain=DEFAULT), chain=DEFAULT) as world:
        assert world.newest is None
        assert world.rounds.trouble(DEFAULT.hash) == "rounds-damaged"


@pytest.mark.parametrize(
    "stated",
    [Round(NUMBER, b""), Round(NUMBER, bytes(48)), Round(NUMBER, bytes(48), bytes(48)), Round(2**62, bytes(48))],
)
async def test_a_row_that_can_be_no_round(path, stated):
    insert(path, stated)
    async with world_of(path, at(NUMBER)) as world:
        assert world.newest is None
        assert world.rounds.trouble(HASH) == "rounds-damaged"


async def test_after_the_row_was_put_right_the_chain_is_used_again(path):
    insert(path, forged(NUMBER))
    async with world_of(path, at(NUMBER)) as world:
        assert world.rounds.trouble(HASH) == "rounds-damaged"
    right = recorded(QUICKNET, NUMBER).signature
    tamper(path, ("UPDATE rounds SET signature = ? WHERE round = ?", (right, NUMBER)))
    async with world_of(path, at(NUMBER)) as world:
        assert world.newest == NUMBER
        assert world.rounds.trouble(HASH) is None
        world.rounds.want(HASH, NUMBER)
        await world.rounds.tick()
        assert world.told == [NUMBER]


async def test_false_evidence_does_not_break_the_chain(path):
    insert(path, recorded(QUICKNET, NUMBER))
    insert(path, forged(NUMBER), evidence=True)
    async with world_of(path, at(NUMBER)) as world:
        assert world.newest == NUMBER
        assert world.rounds.trouble(HASH) == "rounds-damaged"
        assert world.rounds.status(HASH).evidence == ()


@pytest.mark.parametrize("first", ["forged", "the same", "none", "another"])
async def test_evidence_needs_another_first_signature_that_verifies(path, first):
    chain = own_chain()
    one, two = (signed(chain, 10, bytes([number]) * 96) for number in (1, 2))
    rows = {"forged": replace(one, signature=two.signature), "the same": two, "another": one}
    if first in rows:
        insert(path, rows[first], chain=chain)
    insert(path, two, chain=chain, evidence=True)
    async with world_of(path, at(10, chain=chain), chain=chain) as world:
        assert world.rounds.trouble(chain.hash) == ("chain-broken" if first == "another" else "rounds-damaged")


async def test_what_was_verified_is_not_verified_again(path, monkeypatch):
    monkeypatch.setattr(stored, "REMEMBERED", 2)
    for number in (NUMBER, NUMBER + 1):
        insert(path, recorded(QUICKNET, number))
    verifier = Counting()
    writer, reader = Writer(path, LOG_SCHEMA), Reader(path)
    clock = at(NUMBER + 1)
    rounds = Rounds(
        [Followed(QUICKNET, ())], SqliteRounds(writer, reader, clock, Put), clock, policy=ONCE, verifier=verifier
    )
    await rounds.start(scheduled=False)
    assert verifier.asked == [NUMBER + 1]
    for _ in range(3):
        assert await rounds.get(HASH, NUMBER) == verified(QUICKNET, NUMBER)
        assert await rounds.get(HASH, NUMBER + 1) == verified(QUICKNET, NUMBER + 1)
    assert verifier.asked == [NUMBER + 1, NUMBER]
    await rounds.accept(verified(QUICKNET, NUMBER + 2))
    assert await rounds.get(HASH, NUMBER + 2) == verified(QUICKNET, NUMBER + 2)
    assert verifier.asked == [NUMBER + 1, NUMBER]
    assert await rounds.get(HASH, NUMBER + 1) == verified(QUICKNET, NUMBER + 1)
    assert await rounds.get(HASH, NUMBER) == verified(QUICKNET, NUMBER)
    assert verifier.asked == [NUMBER + 1, NUMBER, NUMBER + 1, NUMBER]
    await rounds.stop()
    reader.close()
    writer.close()


async def test_a_command_that_takes_rounds_in_holds_no_forged_row_against_the_chain(path, tmp_path):
    insert(path, forged(NUMBER))
    Spool(tmp_path / "spool").add(QUICKNET, [verified(QUICKNET, NUMBER), verified(QUICKNET, WANTED)])
    async with Desk.open({"quicknet": Followed(QUICKNET, ())}, path, tmp_path / "spool", at(WANTED)) as desk:
        with pytest.raises(LogDamaged, match=f"round {NUMBER} of quicknet does not verify"):
            await desk.absorb()
        assert desk.twice == set()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM round_evidence").fetchone() == (0,)
        assert db.execute("SELECT round FROM rounds ORDER BY round").fetchall() == [(NUMBER,), (WANTED,)]


async def test_a_session_whose_round_was_forged_ends_with_what_the_chain_signed(path, tmp_path):
    clock = at(NUMBER)
    store_path = path
    async with LyingRelay(clock=clock) as server:
        async with world_of(store_path, clock, [server]) as world:
            service = Service(tmp_path, clock, world.rounds, seeds := MemorySeeds())
            await world.rounds.tick()
            session = (await service.seal(round=NUMBER + 5, participants=[])).session
            service.log.close()
        insert(store_path, forged(NUMBER + 5))
        clock.time = QUICKNET.time(NUMBER + 5) + 500
        async with world_of(store_path, clock, [server]) as world:
            service = Service(tmp_path, clock, world.rounds, seeds)
            await world.rounds.tick()
            with pytest.raises(ApiError) as refused:
                await service.seal(round=NUMBER + 30)
            assert refused.value.code == "rounds-damaged"
            await service.draw(session, "opening")
            verdict = await service.verdict(session)
            assert next(claim.state for claim in verdict.claims if claim.name == "round") is State.PROVEN
            with closing(sqlite3.connect(tmp_path / "log.db")) as db:
                logged = [entries.parse_entry(row[0]) for row in db.execute("SELECT entry FROM entries")]
            assert [one.signature for one in logged if isinstance(one, entries.Round)] == [
                recorded(QUICKNET, NUMBER + 5).signature
            ]
            service.log.close()
