"""The hosts. Each plays one session after the other on several lanes, by its own random numbers made of the seed."""

import asyncio
import random
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.client import Beacon, BeaconError, Dishonest, lock_seed, make_chain, sign_contribution
from tests.soak.recorder import Recorder
from tests.soak.world import PERIOD

LANES = 2
LONGEST_PAUSE = 3.0
SESSION_MS = 610_000
"""From the round, or the seal of a live session, to reveal_by: the least is ten minutes."""
DICE = {"kind": "dice", "count": 2, "sides": 6}
RECIPES = {"turn": DICE, "deck": {"kind": "deal", "size": 52, "count": 3}, "raw": {"kind": "bytes", "count": 8}}
LINKS = 9


class Host:
    """One host. watch: what is told of each session that was sealed, to have it read by somebody else."""

    def __init__(self, world, ledger, name, seed, tasks, watch):
        self.world, self.ledger, self.name, self.watch, self.tasks = world, ledger, name, watch, tasks
        self.rng = random.Random(f"{seed}/{name}")
        self.beacon = self.connect(world.tokens[name])
        self.nobody = self.connect(None)

    def connect(self, token):
        world = self.world
        made = Beacon(world.url, token, log_key=world.vkey, chains=[world.chain], clock=world.now)
        made._connection.transport = Recorder(world.url, token, self.ledger, self.rng, self.tasks)
        return made

    async def run(self, until):
        """Play until a time of the monotonic clock. Sessions that are not over then are left as they are."""
        if self.rng.random() < 0.4:
            await self._guarded(self.hook)
        await asyncio.gather(*(self._lane(until) for _ in range(LANES)))

    async def _lane(self, until):
        kinds, weights = zip(*KINDS.items(), strict=True)
        await asyncio.sleep(self.rng.uniform(0, LONGEST_PAUSE))
        while time.monotonic() < until:
            (kind,) = self.rng.choices(kinds, weights)
            await self._guarded(getattr(self, kind))
            await asyncio.sleep(self.rng.uniform(0, LONGEST_PAUSE))

    async def _guarded(self, play):
        """Play. What the service refuses, or does not answer, ends a session for its host; a lie is a failure."""
        name = play.__name__
        try:
            await play()
            self.ledger.counts[f"{name} played"] += 1
        except BeaconError:
            self.ledger.counts[f"{name} cut short"] += 1
        except Dishonest as error:
            self.ledger.fail(f"{self.name}, {name}: {error.what}")
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            self.ledger.fail(f"{self.name}, {name}: {error!r}")

    async def hook(self):
        """A webhook of this host's own."""
        transport = self.beacon._connection.transport
        made = await transport.post("/v1/webhooks", {"url": f"{self.world.hooks}/{self.name}"})
        self.world.receiver.expect(self.name, made["secret"])
        self.ledger.counts["webhooks"] += 1

    def soon(self, least=6, most=10):
        return self.world.now() + 1_000 * PERIOD * self.rng.randint(least, most)

    async def seal(self, **terms):
        """Seal with a label of its own, and a deadline as soon as the protocol allows."""
        at = terms.get("round_at", self.world.now() + 20_000)
        sealed = await self.beacon.seal(**self.terms(at, **terms))
        self.watch(sealed.id)
        return sealed

    def terms(self, at, **terms):
        label = f"{self.name} {self.rng.getrandbits(64):016x}"
        return {"recipes": RECIPES, "label": label, "reveal_by": at + 1_000 * PERIOD + SESSION_MS} | terms

    def players(self):
        """Some participants: name -> its key, or None where the host speaks for it."""
        names = [f"player {number}" for number in range(self.rng.randint(1, 4))]
        return {name: Ed25519PrivateKey.generate() if self.rng.random() < 0.4 else None for name in names}

    async def contribute(self, session, players):
        """Everybody contributes: with join tokens, or through the host."""
        tokens = await session.join_tokens(*players) if self.rng.random() < 0.5 else {}

        async def one(name, key):
            entropy = self.rng.randbytes(16)
            signature = key and sign_contribution(key, session.id, name, entropy)
            await session.contribute(name, entropy, signature=signature, join=tokens.get(name))

        await asyncio.gather(*(one(name, key) for name, key in players.items()))

    async def sealed_match(self, **terms):
        players = self.players()
        session = await self.seal(round_at=self.soon(), participants=listed(players), **terms)
        await self.contribute(session, players)
        return session

    async def match(self):
        session = await self.sealed_match(timelock=self.rng.random() < 0.3)
        if self.rng.random() < 0.05:
            await session.void()
            return
        await session.until("anchored")
        for _ in range(self.rng.randint(1, 4)):
            await session.roll(self.rng.choice(("turn", "raw")), count=self.rng.randint(1, 3), purpose=self.name)
        await self.end(session)

    async def end(self, session, seed=None):
        """Reveal, and have it all checked; or vanish, so that the deadline decides."""
        if self.rng.random() < 0.15:
            self.ledger.counts["sessions abandoned"] += 1
            return
        if self.rng.random() < 0.2:
            session = await self.beacon.session(session.id)
        await session.reveal(seed)
        if self.rng.random() < 0.3:
            verdict = await session.verify(sandbox=True)
            self.ledger.counts["verdicts"] += 1
            assert verdict.exit == 0, (session.id, verdict.headline)

    async def raffle(self):
        winner = {"winner": {"kind": "sample", "size": 1_000, "count": 3}}
        plan = {"winner": self.rng.randint(1, 3)}
        session = await self.seal(recipes=winner, close_at=None, round_at=self.soon(3, 8), plan=plan)
        shown = await session.until("revealed")
        assert shown["state"] in {"revealed", "void"}, shown["state"]

    async def live(self):
        players = self.players() if self.rng.random() < 0.5 else {}
        terms = {"participants": listed(players)} if players else {"close_at": None}
        session = await self.seal(profile="live", links=LINKS, lead=self.rng.randint(2_000, 5_000), **terms)
        if players:
            await self.contribute(session, players)
            await session.ready()
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.7:
                await session.roll("turn", purpose=self.name)
            else:
                calls = [await session.call("deck") for _ in range(2)]
                await asyncio.gather(*(call.drawn() for call in calls))
        await self.end(session)

    async def open_to_all(self):
        """Anybody contributes, without a token; sometimes too few do."""
        at, least = self.soon(7, 10), self.rng.randint(0, 3)
        close_at = self.world.now() + self.rng.randint(5_000, 9_000)
        session = await self.seal(round_at=at, open=True, close_at=close_at, min_contributions=least)
        stranger = await self.nobody.session(session.id)
        for number in range(self.rng.randint(0, 6)):
            await stranger.contribute(f"stranger {number}", self.rng.randbytes(8))
        shown = await session.until("anchored")
        if shown["state"] == "void":
            return
        await session.roll("turn")
        await self.end(session)

    async def own_seed(self):
        """Custody of the host: it makes the outcomes, and reveals; or vanishes, with or without a timelock."""
        commitment, seed = make_chain()
        at = self.soon()
        lock = await self._lock(seed, at + 1_000 * PERIOD + SESSION_MS)
        players = self.players()
        terms = {"custody": "host", "commitment": commitment.hex(), "participants": listed(players), **lock}
        session = await self.seal(round_at=at, **terms)
        await self.contribute(session, players)
        await session.until("anchored")
        for count in range(1, self.rng.randint(2, 4)):
            claims = await session.claims("turn", seed, count=count)
            await session.roll("turn", count=count, outcomes=claims)
        await self.end(session, seed)

    async def own_links(self):
        """As own_seed, live: it hands in link after link."""
        chain = make_chain(LINKS)
        at = self.world.now() + 20_000
        lock = await self._lock(chain[-1], at + 1_000 * PERIOD + SESSION_MS)
        terms = {"profile": "live", "links": LINKS, "custody": "host", "commitment": chain[0].hex(), "close_at": None}
        session = await self.seal(**terms, **lock)
        for k in range(1, self.rng.randint(2, 4)):
            await session.call("turn", purpose=f"{k}")
            if self.rng.random() < 0.1:
                self.ledger.counts["sessions abandoned"] += 1
                return
            await session.hand_in(k, chain[k])
        await self.end(session)

    async def _lock(self, seed, reveal_by):
        if self.rng.random() < 0.5:
            return {}
        made = await asyncio.to_thread(lock_seed, seed, self.world.chain, reveal_by, now=self.world.now())
        return {"timelock": made}

    async def batch(self):
        """Several sessions at once, all or none, and draws from all of them at once."""
        at, count = self.soon(3, 6), self.rng.randint(2, 12)
        terms = [self.terms(at, round_at=at, close_at=None, timelock=False) for _ in range(count)]
        sessions = await self.beacon.seal_all(terms)
        for session in sessions:
            self.watch(session.id)
        await sessions[-1].until("anchored")
        for _ in range(2):
            await self.beacon.draw_all([(session, {"recipe": "deck", "count": 2}) for session in sessions])
        await asyncio.gather(*(self.end(session) for session in sessions))

    async def given_up(self):
        """Sealed, and voided or forgotten: not everybody contributes."""
        players = dict.fromkeys(("one", "other"))
        session = await self.seal(round_at=self.soon(), participants=listed(players))
        if self.rng.random() < 0.7:
            await session.contribute("one", self.rng.randbytes(4))
        if self.rng.random() < 0.5:
            await session.void()


KINDS = {
    "match": 10, "live": 8, "raffle": 4, "open_to_all": 4, "own_seed": 4, "own_links": 3, "batch": 2, "given_up": 2,
}  # fmt: skip
"""What a host plays, and how often of their sum."""


def listed(players):
    """Participants as a seal lists them."""
    return [
        {"id": name} | ({"key": key.public_key().public_bytes_raw().hex()} if key else {})
        for name, key in players.items()
    ]
