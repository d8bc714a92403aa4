"""A whole sessions service in one process: a real log in a folder, recorded quicknet rounds, a clock that stands still."""

import asyncio
import contextlib
from dataclasses import dataclass

from beacon.log.log import Log
from beacon.rounds.rounds import ChainStatus
from beacon.sessions.answers import Answers
from beacon.sessions.book import Book
from beacon.sessions.changes import Changes
from beacon.sessions.context import Context
from beacon.sessions.custody import Custody
from beacon.sessions.doubt import ClockDoubt
from beacon.sessions.joining import Joining
from beacon.sessions.keeper import Keeper
from beacon.sessions.requests import ContributionRequest, DrawRequest, LinkRequest, SealRequest
from beacon.sessions.service import Sessions
from beacon.sessions.tally import Tally
from beacon.sessions.transcripts import Transcripts
from beacon.sessions.waiting import Waiting
from beacon.sessions.worker import Worker
from beacon.settings import SessionSettings
from beacon.store.private import KeptSeed
from tests.round_support import QUICKNET, FakeClock, recorded
from verifier.check import Trust, check
from verifier.drand import VerifiedRound
from verifier.note import SigningKey

ORIGIN = "beacon.example/test"
FIRST, LAST = 72750, 72839
RECIPES = {
    "opening": {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True},
    "turn": {"kind": "dice", "count": 2, "sides": 6},
    "deck": {"kind": "deal", "size": 10, "count": 3},
    "shuffle": {"kind": "shuffle", "size": 10000},
}
PLAYERS = [{"id": "white"}, {"id": "black"}]


@dataclass(frozen=True)
class Host:
    name: str
    sandbox: bool = False


ALICE, BOB = Host("alice"), Host("bob")


class ReplayedRounds:
    """The rounds facade over recorded quicknet rounds, which are taken as verified: `arrive` brings one in."""

    def __init__(self, clock):
        self.clock = clock
        self.known = {}
        self.wanted = set()
        self.listeners = []
        self.broken = False
        self.evidence = self.relays = ()

    def newest(self, chain_hash):
        return max(self.known.values(), key=lambda verified: verified.round, default=None)

    def trouble(self, chain_hash, time=None):
        newest, at = self.newest(chain_hash), self.clock.now() if time is None else time
        if self.broken:
            return "chain-broken"
        if newest is None:
            return "no-verified-round"
        return None if newest.time - 1_000 <= at <= newest.time + 19_000 else "clock-unsure"

    def status(self, chain_hash, not_before=0):
        return ChainStatus(
            chain=QUICKNET,
            newest=self.newest(chain_hash),
            trouble=self.trouble(chain_hash),
            wanted=tuple(sorted(self.wanted)),
            overdue=0,
            expected=QUICKNET.current(self.clock.now()),
            stale=False,
            evidence=self.evidence,
            waiters=0,
            relays=self.relays,
        )

    def want(self, chain_hash, number):
        self.wanted.add(number)

    def release(self):
        pass

    async def get(self, chain_hash, number):
        return self.known.get(number)

    async def wait(self, chain_hash, number, seconds):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, 5)):
                while number not in self.known:  # noqa: ASYNC110 - a test's
                    await asyncio.sleep(0.01)
        return self.known.get(number)

    def on_round(self, listener):
        self.listeners.append(listener)

    async def arrive(self, number):
        stated = recorded(QUICKNET, number)
        self.known[number] = VerifiedRound(QUICKNET, number, stated.signature)
        for listener in self.listeners:
            await listener(self.known[number])


def contribution(participant, entropy=b"\x11", signature=None):
    said = {"participant": participant, "entropy": entropy.hex()}
    return ContributionRequest.model_validate(said | ({} if signature is None else {"signature": signature.hex()}))


class MemorySeeds:
    def __init__(self):
        self.kept = {}
        self.answers = {}

    def keep(self, items):
        for item in items:
            if isinstance(item, KeptSeed):
                self.kept[item.commitment] = item
            else:
                self.answers[item.key] = item

    async def seed(self, commitment):
        return self.kept.get(commitment)

    async def answer(self, key):
        return self.answers.get(key)


class Service:
    """Everything that `beacon.app` wires, but the network."""

    def __init__(
        self, path, clock, rounds, seeds, *, chain=QUICKNET, monotonic=None, room=0, defaults=None, **log_options
    ):
        self.clock, self.rounds, self.seeds = clock, rounds, seeds
        signer = SigningKey(bytes(32), ORIGIN)
        self.vkey = signer.vkey
        self.book, self.tally = Book(), Tally()
        self.log = Log.open(path / "log.db", signer, clock, [self.book, self.tally], keep=seeds.keep, **log_options)
        custody = Custody(bytes(range(32)), seeds)
        self.doubt = ClockDoubt(rounds, clock, monotonic or clock.now)
        self.worker = Worker()
        self.transcripts = Transcripts(self.log, ORIGIN)
        self.context = Context(
            book=self.book,
            log=self.log,
            rounds=rounds,
            custody=custody,
            transcripts=self.transcripts,
            clock=clock,
            doubt=self.doubt,
            worker=self.worker,
            chains={"real": chain},
        )
        self.sessions = Sessions(
            self.context,
            Joining(bytes(range(32))),
            origin=ORIGIN,
            sandbox_only=[],
            default_chain="real",
            defaults=SessionSettings(**defaults or {}),
            room=room,
        )
        self.changes = Changes()
        self.book.listen(self.changes.told)
        self.waiting = Waiting(self.context, self.changes)
        self.answers = Answers(self.context, seeds)
        self.keeper = Keeper(self.context)
        self.keeper.start()

    async def seal(self, host=ALICE, key=None, **fields):
        request = {"recipes": RECIPES, "participants": PLAYERS} | fields
        return await self.sessions.seal(host, SealRequest.model_validate(request), key)

    async def contribute(self, session, participant, entropy=b"\x11", signature=None, host=ALICE):
        return await self.sessions.contribute(host, session, contribution(participant, entropy, signature))

    async def hand_in(self, session, k, link, outcome=None, host=ALICE):
        request = {"draw": k, "link": link.hex(), "outcome": outcome}
        return await self.sessions.hand_in(host, session, LinkRequest.model_validate(request))

    async def draw(self, session, recipe="turn", count=1, purpose="", host=ALICE, key=None, **fields):
        request = {"recipe": recipe, "count": count, "purpose": purpose} | fields
        return await self.sessions.draw(host, session, DrawRequest.model_validate(request), key)

    async def reach(self, number):
        """Move the clock to a round's time plus half a second, have the round arrive, and draw what it brings."""
        self.clock.time = QUICKNET.time(number) + 500
        await self.rounds.arrive(number)
        await self.keeper.tick()
        await self.made_aside()

    async def made_aside(self):
        """Wait for the draws that the keeper makes while everything else goes on."""
        while self.keeper._making:
            await asyncio.wait(self.keeper._making.values())
            await self.keeper.tick()

    async def state(self, session):
        return (await self.sessions.view(session))["state"]

    async def verdict(self, session, **given):
        trust = {"log_key": self.vkey, "chains": {QUICKNET.hash: QUICKNET}} | given
        return check(await self.sessions.transcript(session), Trust(**trust))


@contextlib.asynccontextmanager
async def service(path, *, start=FIRST, seeds=None, clock=None, rounds=None, **log_options):
    """A service whose clock stands half a second after round `start`, which it knows."""
    clock = clock or FakeClock(QUICKNET.time(start) + 500)
    rounds = rounds or ReplayedRounds(clock)
    rounds.listeners.clear()
    rounds.wanted.clear()
    made = Service(path, clock, rounds, seeds or MemorySeeds(), **log_options)
    try:
        if not rounds.known:
            await rounds.arrive(start)
        yield made
    finally:
        made.worker.close()
        made.transcripts.close()
        made.log.close()
