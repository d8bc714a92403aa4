"""Seals on both databases as the service writes them, and a process that seals until it dies."""

import asyncio
import contextlib
import json
import os
import resource
from contextlib import closing

from beacon.sessions.book import Book
from beacon.store.errors import StoreError
from beacon.store.private import PrivateStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.schema import open_readonly
from beacon.store.writer import Writer
from tests.fault_support import killer
from tests.log_support import mark_of, verify_whole
from tests.round_support import QUICKNET, FakeClock
from tests.session_support import ALICE, FIRST, ReplayedRounds, Service
from verifier.entries import Seal, parse_entry
from verifier.merkle import leaf_hash
from verifier.note import SigningKey
from verifier.seeds import opens
from verifier.transcript import parse_transcript

ROUND = FIRST + 12
SEALED = {"recipes": {"raw": {"kind": "bytes", "count": 4}}, "participants": [], "close_at": None, "round": ROUND}
SEALERS = 4


class Both:
    """The service on private.db and log.db of a folder. `private`, `log`: options of the two writers."""

    def __init__(self, folder, private=None, log=None):
        self.private = Writer(folder / "private.db", PRIVATE_SCHEMA, **(private or {}))
        try:
            self.reader = Reader(folder / "private.db")
            clock = FakeClock(QUICKNET.time(FIRST) + 500)
            seeds = PrivateStore(self.private, self.reader, clock)
            path = folder / "log.db"
            self.service = Service(folder, clock, ReplayedRounds(clock), seeds, mark=mark_of(path), **(log or {}))
        except BaseException:
            self.private.close()
            raise

    async def seal(self, label):
        """What was acknowledged: index -> the exact entry."""
        written = await self.service.seal(label=label, **SEALED)
        (event,) = parse_transcript(json.dumps(written.receipts[0]).encode()).events
        return {event.index: event.data}

    def close(self):
        self.service.worker.close()
        self.service.transcripts.close()
        self.service.log.close()
        self.private.close()
        self.reader.close()


@contextlib.asynccontextmanager
async def both(folder, **options):
    made = Both(folder, **options)
    try:
        await made.service.rounds.arrive(FIRST)
        yield made
    finally:
        made.close()


async def whole(folder, acknowledged):
    """Open again: the log is whole, nothing acknowledged is missing, every sealed session is revealed. Gives the seals."""
    async with both(folder) as again:
        acknowledged = acknowledged | await again.seal("after")
        service = again.service
        seals = [entry for entry in entries_of(service) if isinstance(parse_entry(entry), Seal)]
        for seal in seals:
            commitment = parse_entry(seal).commitment
            assert opens(await service.context.custody.open(commitment), 1, commitment)
        await service.reach(ROUND)
        for seal in seals:
            assert (await service.sessions.reveal(ALICE, leaf_hash(seal))).state["state"] == "revealed"
        origin = service.vkey.name
    verify_whole(folder / "log.db", acknowledged, SigningKey(bytes(32), origin), Book)
    return seals


def entries_of(service):
    with closing(open_readonly(service.log.path)) as db:
        return [row[0] for row in db.execute("SELECT entry FROM entries ORDER BY i").fetchall()]


def seeds_in(folder):
    with closing(open_readonly(folder / "private.db")) as db:
        return db.execute("SELECT count(*) FROM seeds").fetchone()[0]


def seal_until_it_dies(folder, pipe, *, database=None, kill_at=None, nth=1, limit=None):
    """Seal from several tasks; SIGKILL this process at the nth step `kill_at` of the writer of `database`.

    limit: the most bytes a file may have. Sends ("done", index, entry) for each answer, at last ("end", why, None).
    """

    def step_of(name):
        return {"step": killer(kill_at, nth)} if name == database else {}

    async def sealer(made, number):
        for turn in range(10_000):
            for index, entry in (await made.seal(f"{number}.{turn}")).items():
                pipe.send(("done", index, entry))

    async def main():
        async with both(folder, private=step_of("private"), log=step_of("log")) as made:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                await asyncio.gather(*(sealer(made, number) for number in range(SEALERS)))
            except StoreError as error:
                pipe.send(("end", type(error).__name__, None))
                os._exit(0)

    asyncio.run(main())
