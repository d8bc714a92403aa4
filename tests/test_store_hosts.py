"""The stores on top of the writer: hosts and their tokens, seeds, rounds."""

import re
from contextlib import closing
from dataclasses import replace
from enum import StrEnum

import pytest

from beacon.store import private
from beacon.store.errors import HostExists, HostUnknown, NameRefused, SeedExists, TokenUnknown
from beacon.store.hosts import CACHE_MS, SCOPES, Host, HostStore
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.private import KeptAnswer, KeptSeed, PrivateStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.rounds import SqliteRounds
from beacon.store.writer import Writer
from tests.log_support import START, Clock
from verifier import fetch
from verifier.drand import Round, VerifiedRound

QUICKNET = fetch.pinned_chains()["quicknet"]
DEFAULT = fetch.pinned_chains()["default"]


class Put(StrEnum):
    NEW = "new"
    SAME = "same"
    CONFLICT = "conflict"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "private.db"


@pytest.fixture
def writer(path):
    writer = Writer(path, PRIVATE_SCHEMA)
    yield writer
    writer.close()


@pytest.fixture
def reader(path, writer):
    reader = Reader(path)
    yield reader
    reader.close()


# --- hosts and tokens -------------------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def hosts(writer, reader, clock):
    return HostStore(writer, reader, clock)


async def test_a_token_is_returned_once_and_kept_as_a_hash(path, hosts, writer):
    token = await hosts.add("alice", sandbox=False)
    assert re.fullmatch(r"fb_[A-Za-z0-9_-]{43}", token)
    assert (await hosts.authenticate(token)).host == Host("alice", sandbox=False)
    assert token.removeprefix("fb_").encode() not in path.read_bytes() + path.with_name("private.db-wal").read_bytes()
    assert token not in repr(await hosts.list())


async def test_tokens_that_are_none(hosts):
    token = await hosts.add("alice", sandbox=True)
    assert (await hosts.authenticate(token)).host == Host("alice", sandbox=True)
    for other in (
        "",
        "fb_",
        token + "A",
        token[:-1],
        token.removeprefix("fb_"),
        "FB_" + token.removeprefix("fb_"),
        token[:-1] + chr(ord(token[-1]) ^ 1),
        token[:10] + "é" + token[11:],
        token + "\n",
        " " + token,
    ):
        assert await hosts.authenticate(other) is None


async def test_tokens_differ_and_a_host_may_have_several(hosts):
    tokens = {await hosts.add("alice", sandbox=False) for _ in range(5)}
    assert len(tokens) == 5
    for token in tokens:
        assert (await hosts.authenticate(token)).host.name == "alice"
    (alice,) = await hosts.list()
    assert (alice.name, alice.created, len(alice.tokens)) == ("alice", START, 5)


async def test_a_host_keeps_its_sandbox_flag(hosts):
    await hosts.add("alice", sandbox=True)
    with pytest.raises(HostExists):
        await hosts.add("alice", sandbox=False)
    (alice,) = await hosts.list()
    assert alice.sandbox
    assert len(alice.tokens) == 1


@pytest.mark.parametrize("name", ["", "1alice", "al ice", "alice\n", "é", "a" * 65, "-a", "a/b"])
async def test_names_that_no_host_can_have(hosts, name):
    with pytest.raises(NameRefused):
        await hosts.add(name, sandbox=False)
    assert await hosts.list() == []


async def test_revoking_counts_at_once(hosts, clock):
    first, second = await hosts.add("alice", sandbox=False), await hosts.add("alice", sandbox=False)
    other = await hosts.add("bob", sandbox=False)
    assert await hosts.authenticate(first)
    tokens = {token.id for host in await hosts.list() for token in host.tokens if host.name == "alice"}
    clock.time += 5
    one = min(tokens)
    assert await hosts.revoke("alice", one) == 1
    assert await hosts.revoke("alice", one) == 0
    alive = [await hosts.authenticate(token) is not None for token in (first, second)]
    assert sorted(alive) == [False, True]
    assert await hosts.revoke("alice") == 1
    assert await hosts.authenticate(first) is None
    assert await hosts.authenticate(second) is None
    assert (await hosts.authenticate(other)).host == Host("bob", sandbox=False)
    alice, _ = await hosts.list()
    assert [token.revoked for token in alice.tokens] == [START + 5] * 2


async def test_revoking_an_unknown_host(hosts):
    with pytest.raises(HostUnknown):
        await hosts.revoke("nobody")


async def test_a_token_expires(hosts, clock):
    token = await hosts.add("alice", sandbox=False, lifetime=100)
    assert await hosts.authenticate(token)
    clock.time = START + 99
    assert await hosts.authenticate(token)
    clock.time = START + 100
    assert await hosts.authenticate(token) is None


async def test_a_token_has_its_scopes_and_its_note(hosts):
    every = await hosts.add("alice", sandbox=False)
    one = await hosts.add("alice", sandbox=False, scopes=("draw",), note="table servers, Ωmega")
    assert (await hosts.authenticate(every)).scopes == set(SCOPES) == {"seal", "draw", "read"}
    granted = await hosts.authenticate(one)
    assert granted.scopes == {"draw"}
    (alice,) = await hosts.list()
    by_id = {token.id: token for token in alice.tokens}
    assert (by_id[granted.token].scopes, by_id[granted.token].note) == (("draw",), "table servers, Ωmega")


@pytest.mark.parametrize("note", ["a" * 101, "two\nlines", "\x1b[31m", "\u202e"])
async def test_notes_that_no_token_can_have(hosts, note):
    with pytest.raises(NameRefused):
        await hosts.add("alice", sandbox=False, note=note)
    assert await hosts.list() == []


async def test_a_rotated_token_lives_on_for_the_grace_time(hosts, clock):
    old = await hosts.add("alice", sandbox=True, scopes=("seal", "read"), note="n")
    before = await hosts.authenticate(old)
    new = await hosts.rotate("alice", before.token, grace=1_000)
    granted = await hosts.authenticate(new)
    assert (granted.host, granted.scopes) == (before.host, before.scopes)
    assert granted.token != before.token
    clock.time = START + 999
    assert await hosts.authenticate(old)
    clock.time = START + 1_000
    assert await hosts.authenticate(old) is None
    assert await hosts.authenticate(new)
    (alice,) = await hosts.list()
    assert {(token.note, token.expires) for token in alice.tokens} == {("n", START + 1_000), ("n", None)}
    assert sorted(token.state(clock.time) for token in alice.tokens) == ["expired", "valid"]


async def test_a_rotation_lengthens_no_life(hosts, clock):
    old = await hosts.add("alice", sandbox=False, lifetime=500)
    clock.time = START + 400
    new = await hosts.rotate("alice", (await hosts.authenticate(old)).token, grace=1_000)
    clock.time = START + 500
    assert await hosts.authenticate(old) is None
    clock.time = START + 899
    assert await hosts.authenticate(new)
    clock.time = START + 900
    assert await hosts.authenticate(new) is None


async def test_only_a_valid_token_of_the_host_is_rotated(hosts, clock):
    ended = (await hosts.authenticate(await hosts.add("alice", sandbox=False, lifetime=5))).token
    revoked = (await hosts.authenticate(await hosts.add("alice", sandbox=False))).token
    other = (await hosts.authenticate(await hosts.add("bob", sandbox=False))).token
    await hosts.revoke("alice", revoked)
    clock.time += 5
    before = await hosts.list()
    for token in (ended, revoked, other, "00000000", ""):
        with pytest.raises(TokenUnknown):
            await hosts.rotate("alice", token, grace=0)
    with pytest.raises(HostUnknown):
        await hosts.rotate("carol", other, grace=0)
    assert await hosts.list() == before


async def test_a_rotation_without_grace_ends_the_old_token_at_once(hosts):
    old = await hosts.add("alice", sandbox=False)
    await hosts.rotate("alice", (await hosts.authenticate(old)).token, grace=0)
    assert await hosts.authenticate(old) is None


async def test_a_second_process_adds_and_revokes(path, hosts, clock):
    with closing(Writer(path, PRIVATE_SCHEMA, exclusive=False)) as beside, closing(Reader(path)) as reading:
        cli = HostStore(beside, reading, clock)
        token = await cli.add("alice", sandbox=False)
        assert await hosts.authenticate(token)
        await cli.revoke("alice")
        assert CACHE_MS <= 1_000, "revoked at once"
        clock.time += CACHE_MS
        assert await hosts.authenticate(token) is None


async def test_a_clock_that_jumps_back_revives_no_token(path, hosts, clock):
    token = await hosts.add("alice", sandbox=False)
    assert await hosts.authenticate(token)
    with closing(Writer(path, PRIVATE_SCHEMA, exclusive=False)) as beside, closing(Reader(path)) as reading:
        await HostStore(beside, reading, clock).revoke("alice")
    clock.time -= 1_000_000
    assert await hosts.authenticate(token) is None


# --- seeds and rounds -------------------------------------------------------------------------------------------


SEED = KeptSeed(b"c" * 32, b"nonce", b"ciphertext")
ANSWER = KeptAnswer(b"k" * 32, b"r" * 32, 7, 2, b"l" * 32)


async def test_seeds_and_answers_are_kept(writer, reader, clock):
    store = PrivateStore(writer, reader, clock)
    assert await store.seed(SEED.commitment) is None
    assert await store.answer(ANSWER.key) is None
    store.keep([ANSWER, SEED])
    assert await store.seed(SEED.commitment) == SEED
    assert await store.answer(ANSWER.key) == ANSWER


async def test_a_seed_is_never_replaced_and_nothing_beside_it_is_kept(writer, reader, clock):
    store = PrivateStore(writer, reader, clock)
    store.keep([SEED])
    with pytest.raises(SeedExists):
        store.keep([ANSWER, KeptSeed(b"d" * 32, b"nonce", b"ciphertext"), replace(SEED, nonce=b"other")])
    assert await store.seed(SEED.commitment) == SEED
    assert await store.seed(b"d" * 32) is None
    assert await store.answer(ANSWER.key) is None


async def test_the_seeds_asked_for_last_are_remembered_and_no_more(writer, reader, clock, monkeypatch):
    monkeypatch.setattr(private, "REMEMBERED", 3)
    store = PrivateStore(writer, reader, clock)
    seeds = [KeptSeed(bytes([number]) * 32, b"nonce", b"text %d" % number) for number in range(70)]
    store.keep(seeds)
    for seed in seeds + seeds[::-1]:
        assert await store.seed(seed.commitment) == seed
    assert list(store._seeds.values()) == seeds[2::-1]
    reader.close()
    assert await store.seed(seeds[0].commitment) == seeds[0]


async def test_an_answer_that_never_came_about_gives_way(writer, reader, clock):
    store = PrivateStore(writer, reader, clock)
    store.keep([ANSWER])
    store.keep([replace(ANSWER, first=9)])
    assert (await store.answer(ANSWER.key)).first == 9


@pytest.fixture
def rounds(tmp_path, clock):
    writer, reader = Writer(tmp_path / "log.db", LOG_SCHEMA), Reader(tmp_path / "log.db")
    yield SqliteRounds(writer, reader, clock, Put)
    reader.close()
    writer.close()


async def test_rounds_are_stored_once(rounds):
    first = VerifiedRound(QUICKNET, 5, b"a" * 48)
    assert await rounds.newest(QUICKNET) is None
    assert await rounds.put(first) is Put.NEW
    assert await rounds.put(first) is Put.SAME
    assert await rounds.put(VerifiedRound(QUICKNET, 5, b"b" * 48)) is Put.CONFLICT
    assert await rounds.get(QUICKNET, 5) == Round(5, b"a" * 48)
    assert await rounds.get(QUICKNET, 6) is None


async def test_rounds_of_chains_do_not_mix(rounds):
    chained = VerifiedRound(DEFAULT, 9, b"c" * 96, b"p" * 96)
    for verified in (VerifiedRound(QUICKNET, 7, b"a" * 48), VerifiedRound(QUICKNET, 30, b"b" * 48), chained):
        assert await rounds.put(verified) is Put.NEW
    assert (await rounds.newest(QUICKNET)).round == 30
    assert await rounds.newest(DEFAULT) == Round(9, b"c" * 96, b"p" * 96)
    assert await rounds.get(DEFAULT, 30) is None


async def test_evidence_is_kept_beside_the_first(rounds):
    await rounds.put(VerifiedRound(QUICKNET, 5, b"a" * 48))
    second, third = VerifiedRound(QUICKNET, 5, b"b" * 48), VerifiedRound(QUICKNET, 5, b"c" * 48)
    for verified in (second, third, second):
        await rounds.add_evidence(verified)
    assert await rounds.evidence(QUICKNET) == [Round(5, b"b" * 48), Round(5, b"c" * 48)]
    assert await rounds.evidence(DEFAULT) == []
    assert (await rounds.get(QUICKNET, 5)).signature == b"a" * 48
