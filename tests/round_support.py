"""A clock that stands still, a store in memory, recorded rounds: what tests of rounds need around them."""

import asyncio
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import ClassVar

from beacon.rounds.refusals import Refusal
from beacon.rounds.store_protocol import Put
from beacon.rounds.verify import check
from verifier import fetch
from verifier.bls import reference
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round

VECTORS = Path(__file__).parent / "vectors"
PINNED = fetch.pinned_chains()
QUICKNET, DEFAULT, FASTNET = PINNED["quicknet"], PINNED["default"], PINNED["fastnet"]


def _recorded():
    rounds = {}
    for record in json.loads((VECTORS / "drand-rounds.json").read_text())["rounds"]:
        if record["chain_hash"] is not None:
            previous = record.get("previous_signature")
            rounds[bytes.fromhex(record["chain_hash"]), record["round"]] = Round(
                record["round"],
                bytes.fromhex(record["signature"]),
                None if previous is None else bytes.fromhex(previous),
            )
    return rounds


RECORDED = _recorded()


def recorded(chain, number):
    """A real round of a real chain, as published."""
    return RECORDED[chain.hash, number]


@cache
def verified(chain, number):
    """A real round, verified: once, since pairings in pure Python are slow."""
    return verify_round(chain, recorded(chain, number))


class FakeClock:
    """Stands still until it is told to move. `sleep` moves it."""

    def __init__(self, time_ms):
        self.time = time_ms

    def now(self):
        return self.time

    def advance(self, milliseconds):
        self.time += milliseconds

    async def sleep(self, seconds):
        self.time += round(seconds * 1000)
        await asyncio.sleep(0)


class MemoryRoundStore:
    """The store protocol in memory. `fail` is raised by the next `put`."""

    def __init__(self):
        self.rounds = {}
        self.second = []
        self.fail = None

    async def put(self, verified):
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        stored = self.rounds.setdefault((verified.chain.hash, verified.round), verified)
        if stored is verified:
            return Put.NEW
        return Put.SAME if stored.signature == verified.signature else Put.CONFLICT

    async def get(self, chain, round_number):
        return _stated(self.rounds.get((chain.hash, round_number)))

    async def newest(self, chain):
        mine = [verified for (chain_hash, _), verified in self.rounds.items() if chain_hash == chain.hash]
        return _stated(max(mine, key=lambda verified: verified.round, default=None))

    async def add_evidence(self, verified):
        if verified not in self.second:
            self.second.append(verified)

    async def evidence(self, chain):
        return [_stated(verified) for verified in self.second if verified.chain.hash == chain.hash]


def _stated(stored):
    return stored and Round(stored.round, stored.signature, stored.previous_signature)


class InlineVerifier:
    """Verifies in this process; each round once, since pairings in pure Python are slow."""

    _known: ClassVar = {}

    async def verify(self, chain, stated):
        key = (chain, stated)
        if key not in self._known:
            self._known[key] = check(chain, stated)
        outcome = self._known[key]
        if isinstance(outcome, VerifiedRound):
            return outcome
        raise Refusal(*outcome)

    async def verify_many(self, chain, stated):
        outcomes = []
        for one in stated:
            try:
                outcomes.append(await self.verify(chain, one))
            except Refusal as refusal:
                outcomes.append(refusal)
        return outcomes


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def at(round_number, more=500, chain=QUICKNET):
    return FakeClock(chain.time(round_number) + more)


SECRET = 0xC0FFEE


def own_chain():
    """A chained network of which the secret is known, so that it can be made to sign one round twice."""
    scheme = DEFAULT.scheme
    key, seed = reference.public_key(scheme.group, SECRET), bytes(32)
    head = (3).to_bytes(4, "big") + (1_700_000_000).to_bytes(8, "big")
    chain_hash = hashlib.sha256(head + key + seed + b"own").digest()
    return ChainInfo(chain_hash, key, 3, 1_700_000_000, seed, scheme, "own")
