"""Rounds handed over to the service through the spool: whole files or none, verified again, stored, told, removed."""

import asyncio
import os
import signal
import socket
import stat
from dataclasses import replace

import pytest

from beacon.rounds import Followed, Policy, Rounds, batching
from beacon.rounds.batching import BatchVerifier
from beacon.rounds.lines import LineRefused, encode_line
from beacon.rounds.refusals import Reason, Refusal
from beacon.rounds.spool import MAX_BYTES, MAX_ROUNDS, Spool
from beacon.rounds.verify import VerifyPool
from beacon.rounds.waiters import Waiters
from tests.fault_support import PROCESSES
from tests.round_support import (
    DEFAULT,
    QUICKNET,
    FakeClock,
    InlineVerifier,
    MemoryRoundStore,
    at,
    own_chain,
    recorded,
    until,
    verified,
)
from tests.test_rounds import signed
from verifier.drand import Round, VerifiedRound

HASH = QUICKNET.hash
ONCE = Policy(attempts=1, timeout=400)


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "rounds-in")


class World:
    """A service that follows a chain without relays, and looks into the spool."""

    def __init__(self, spool, *, chain=QUICKNET, clock=None):
        self.spool, self.store, self.told, self.chain = spool, MemoryRoundStore(), [], chain
        followed = Followed(chain, ())
        self.rounds = Rounds(
            [followed], self.store, clock or at(72_800), policy=ONCE, verifier=InlineVerifier(), spool=spool
        )
        self.rounds.on_round(self._hear)

    async def _hear(self, verified):
        self.told.append(verified.round)

    async def __aenter__(self):
        await self.rounds.start(scheduled=False)
        return self

    async def __aexit__(self, *_):
        await self.rounds.stop()


def names(spool):
    return sorted(path.name for path in spool.folder.iterdir())


async def test_what_was_left_is_verified_stored_told_and_removed(spool):
    spool.add(QUICKNET, [verified(QUICKNET, number) for number in (72_795, 72_799)])
    async with World(spool) as world:
        await world.rounds.tick()
        assert world.told == [72_795, 72_799]
        assert world.rounds.newest(HASH).round == 72_799
        assert set(world.store.rounds) == {(HASH, 72_795), (HASH, 72_799)}
    assert names(spool) == []


async def test_a_wanted_round_that_comes_this_way_is_not_waited_for_any_more(spool):
    async with World(spool) as world:
        world.rounds.want(HASH, 72_799)
        await world.rounds.tick()
        spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
        await world.rounds.tick()
        assert world.told == [72_799]
        await world.rounds.tick()
        assert world.rounds.status(HASH).wanted == ()


async def test_the_same_round_twice_is_stored_once(spool):
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    async with World(spool) as world:
        await world.rounds.tick()
        assert len(world.store.rounds) == 1
        assert world.rounds.trouble(HASH) is None
    assert names(spool) == []


async def test_another_chains_files_are_left_alone(spool):
    spool.add(DEFAULT, [verified(DEFAULT, 367)])
    async with World(spool) as world:
        await world.rounds.tick()
        assert world.told == []
    assert len(spool.files(DEFAULT)) == 1


async def test_a_file_with_a_bad_round_is_put_aside_and_the_good_ones_are_taken(spool):
    forged = replace(verified(QUICKNET, 72_799), signature=recorded(QUICKNET, 72_798).signature)
    spool.add(QUICKNET, [verified(QUICKNET, 72_797), forged])
    async with World(spool) as world:
        for _ in range(2):
            await world.rounds.tick()
        assert world.told == [72_797]
    (name,) = names(spool)
    assert name.endswith(".refused")
    assert spool.rounds(QUICKNET) == {}


@pytest.mark.parametrize(
    "text", [b"not json\n", b"{}\n", encode_line(DEFAULT, recorded(DEFAULT, 367)), b" " * MAX_BYTES]
)
async def test_a_file_of_something_else_is_put_aside(spool, text):
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    (path,) = spool.files(QUICKNET)
    path.write_bytes(path.read_bytes() + text)
    with pytest.raises(LineRefused):
        spool.read(path, QUICKNET)
    async with World(spool) as world:
        await world.rounds.tick()
        assert world.told == []
    assert [name.endswith(".refused") for name in names(spool)] == [True]


def a_pipe(path):
    os.mkfifo(path)


def a_link_to_a_pipe(path):
    os.mkfifo(path.with_suffix(".pipe"))
    path.symlink_to(path.with_suffix(".pipe"))


def a_link_to_a_device(path):
    path.symlink_to("/dev/zero")


def a_dangling_link(path):
    path.symlink_to(path.with_suffix(".nowhere"))


def a_folder(path):
    path.mkdir()


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [a_pipe, a_link_to_a_pipe, a_link_to_a_device, a_dangling_link, a_folder, a_socket])
async def test_what_is_no_plain_file_is_put_aside_and_nothing_waits_for_it(spool, make, monkeypatch):
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    path = spool.folder / f"{HASH.hex()}-0.jsonl"
    monkeypatch.chdir(spool.folder)
    make(path)
    assert list(spool.rounds(QUICKNET)) == [72_799]
    async with World(spool) as world, asyncio.timeout(20):
        await world.rounds.tick()
        assert world.told == [72_799]
    assert spool.files(QUICKNET) == []
    assert path.with_suffix(".refused") in spool.folder.iterdir()


@pytest.mark.parametrize("fails", ["read", "refuse", "done"])
async def test_a_file_that_cannot_be_read_moved_or_removed_keeps_no_other_waiting(spool, fails, monkeypatch):
    spool.add(QUICKNET, [verified(QUICKNET, 72_797)])
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    first, second = spool.files(QUICKNET)
    if fails == "refuse":
        first.write_bytes(b"no round")
    work = getattr(spool, fails)

    def failing(path, *rest):
        if path == first:
            raise PermissionError(13, "Permission denied", str(path))
        return work(path, *rest)

    monkeypatch.setattr(spool, fails, failing)
    assert 72_799 in spool.rounds(QUICKNET)
    async with World(spool) as world:
        await world.rounds.tick()
        assert world.told == ([72_797] if fails == "done" else []) + [72_799]
    assert (first.exists(), second.exists()) == (True, False)


async def test_what_a_store_does_not_take_is_left_for_the_next_wake(spool):
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    async with World(spool) as world:
        world.store.fail = OSError("disk full")
        await world.rounds.tick()
        assert (world.told, len(spool.files(QUICKNET))) == ([], 1)
        await world.rounds.tick()
        assert (world.told, len(spool.files(QUICKNET))) == ([72_799], 0)


async def test_a_file_that_somebody_else_took_is_no_error(spool, monkeypatch):
    spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    files = spool.files(QUICKNET)
    monkeypatch.setattr(spool, "files", lambda _: files)
    files[0].unlink()
    assert spool.rounds(QUICKNET) == {}
    async with World(spool) as world:
        await world.rounds.tick()
        assert world.told == []


async def test_a_second_signature_that_comes_this_way_breaks_the_chain(spool):
    chain = own_chain()
    first, second = signed(chain, 10, b"\x01" * 96), signed(chain, 10, b"\x02" * 96)
    spool.add(chain, [first, second])
    async with World(spool, chain=chain, clock=FakeClock(chain.time(10) + 500)) as world:
        await world.rounds.tick()
        assert world.told == [10]
        assert world.store.second == [second]
        assert world.rounds.trouble(chain.hash) == "chain-broken"
        assert world.rounds.status(chain.hash).evidence == (10,)


def test_many_rounds_are_cut_into_small_files_in_order(spool):
    rounds = [replace(verified(QUICKNET, 72_800), round=number) for number in range(1, 2 * MAX_ROUNDS + 2)]
    spool.add(QUICKNET, rounds)
    assert [len(spool.read(path, QUICKNET)) for path in spool.files(QUICKNET)] == [MAX_ROUNDS, MAX_ROUNDS, 1]
    assert sorted(spool.rounds(QUICKNET)) == [stated.round for stated in rounds]
    spool.add(QUICKNET, [])
    assert len(names(spool)) == 3


def test_files_may_be_read_by_a_service_under_another_user(spool):
    mask = os.umask(0o077)
    try:
        spool.add(QUICKNET, [verified(QUICKNET, 72_800)])
    finally:
        os.umask(mask)
    (path,) = spool.files(QUICKNET)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_write_that_fails_leaves_nothing(spool, monkeypatch):
    spool.add(QUICKNET, [verified(QUICKNET, 72_800)])
    before = names(spool)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        spool.add(QUICKNET, [verified(QUICKNET, 72_799)])
    assert names(spool) == before


async def test_what_a_killed_command_left_is_removed(spool):
    """The service's start sweeps, and `absorb` of a command does; a file that may still be written stays."""
    spool.add(QUICKNET, [verified(QUICKNET, 72_800)])
    left = killed_while_writing(spool)
    assert left.read_bytes() != b""
    async with World(spool):
        assert left.exists()
    os.utime(left, (0, 0))
    (spool.folder / ".folder").mkdir()
    os.utime(spool.folder / ".folder", (0, 0))
    async with World(spool):
        assert not left.exists()
    assert [path.suffix for path in spool.files(QUICKNET)] == [".jsonl"]


def killed_while_writing(spool):
    """Where a process that ended by SIGKILL left a file that is not whole."""
    child = PROCESSES.Process(target=die_while_writing, args=(spool.folder, verified(QUICKNET, 72_799)))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    (left,) = spool.folder.glob(".*")
    return left


def die_while_writing(folder, stated):
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    Spool(folder).add(QUICKNET, [stated])


async def test_a_file_swept_away_under_a_slow_command_is_told(spool, monkeypatch):
    spool.add(QUICKNET, [verified(QUICKNET, 72_800)])
    fsync = os.fsync

    def slow(descriptor):
        fsync(descriptor)
        for path in spool.folder.glob(".*"):
            os.utime(path, (0, 0))
        spool.sweep()

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(FileNotFoundError):
        spool.add(QUICKNET, [verified(QUICKNET, 72_799)])


def test_a_spool_that_was_never_used_is_empty(spool):
    spool.sweep()
    assert spool.files(QUICKNET) == []
    assert spool.rounds(QUICKNET) == {}


# verification together


MIXED = [
    recorded(QUICKNET, 72_790),
    replace(recorded(QUICKNET, 72_791), signature=recorded(QUICKNET, 72_790).signature),
    replace(recorded(QUICKNET, 72_792), signature=bytes([0xC0]) + bytes(47)),
    replace(recorded(QUICKNET, 72_793), round=0),
    recorded(QUICKNET, 72_794),
]
OUTCOMES = [None, Reason.SIGNATURE, Reason.IDENTITY, Reason.FIELDS, None]


def reasons(outcomes):
    return [outcome.reason if isinstance(outcome, Refusal) else None for outcome in outcomes]


async def test_the_worker_process_verifies_many_at_once():
    pool = VerifyPool()
    try:
        assert reasons(await pool.verify_many(QUICKNET, MIXED)) == OUTCOMES
        assert await pool.verify_many(QUICKNET, []) == []
    finally:
        await pool.stop()


async def test_a_command_verifies_what_came_in_together_and_nothing_twice(monkeypatch):
    sizes, check_many = [], batching.check_many

    def counting(chain, stated):
        sizes.append(len(stated))
        return check_many(chain, stated)

    monkeypatch.setattr(batching, "check_many", counting)
    verifier = BatchVerifier()
    assert reasons(await verifier.verify_many(QUICKNET, MIXED)) == OUTCOMES
    assert await verifier.verify(QUICKNET, MIXED[0]) == verified(QUICKNET, 72_790)
    with pytest.raises(Refusal) as caught:
        await verifier.verify(QUICKNET, MIXED[1])
    assert caught.value.reason is Reason.SIGNATURE
    assert (await verifier.verify(DEFAULT, recorded(DEFAULT, 367))).chain == DEFAULT
    assert sizes == [5, 1, 1]


async def test_a_command_remembers_no_more_than_a_limit(monkeypatch):
    monkeypatch.setattr(batching, "REMEMBERED", 3)
    calls = []

    def check_many(chain, stated):
        calls.append([one.round for one in stated])
        return [VerifiedRound(chain, one.round, one.signature) for one in stated]

    monkeypatch.setattr(batching, "check_many", check_many)
    verifier = BatchVerifier()
    stated = [Round(number, bytes(48)) for number in range(1, 6)]
    assert [one.round for one in await verifier.verify_many(QUICKNET, stated)] == [1, 2, 3, 4, 5]
    assert len(verifier._valid) == 3
    assert [one.round for one in await verifier.verify_many(QUICKNET, stated[1:])] == [2, 3, 4, 5]
    assert calls == [[1, 2, 3, 4, 5], [2]]


async def test_a_verification_that_fails_is_told_to_all_who_wait(monkeypatch):
    def failing(chain, stated):
        raise MemoryError("no memory")

    monkeypatch.setattr("beacon.rounds.batching.check_many", failing)
    verifier = BatchVerifier()
    waiting = [asyncio.create_task(verifier.verify(QUICKNET, one)) for one in MIXED[:2]]
    for task in waiting:
        with pytest.raises(MemoryError):
            await task


# waiters


async def test_a_waiter_is_woken_once_and_counted_out():
    waiters = Waiters(2)
    first = asyncio.create_task(waiters.wait(5, 60))
    second = asyncio.create_task(waiters.wait(None, 60))
    await until(lambda: len(waiters) == 2)
    assert await waiters.wait(5, 60) is None
    waiters.arrived(6, verified(QUICKNET, 72_800))
    waiters.arrived(5, verified(QUICKNET, 72_800))
    assert await first == verified(QUICKNET, 72_800)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert (len(waiters), waiters._futures) == (0, {})
