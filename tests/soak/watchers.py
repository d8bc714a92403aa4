"""Readers: event streams, pages and checkpoints; and requests that are to be refused, each with its code."""

import asyncio
import json
import random

import aiohttp

from beacon.client import BeaconError, Dishonest
from tests.soak.ledger import receipts_of
from tests.soak.recorder import SECONDS, Recorder

PAUSE = 0.5
WATCHED = 0.1
LOST = (aiohttp.ClientError, TimeoutError, OSError)
UNAVAILABLE = {429, 503}
HEX = "ab" * 32


class Watchers:
    """Reads some of the sessions' event streams to their ends. beacon: without a token; half are verified by the SDK."""

    def __init__(self, world, ledger, seed, host):
        self.world, self.ledger, self.host = world, ledger, host
        self.rng, self.tasks = random.Random(f"{seed}/watchers"), set()
        self.transport = Recorder(world.url, None, ledger, self.rng, self.tasks)

    def watch(self, session):
        """Read a session's stream to its end, where chance says so."""
        if self.rng.random() < WATCHED:
            task = asyncio.create_task(self._read(session, verified=self.rng.random() < 0.5))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _read(self, session, *, verified):
        seen = {}
        while True:
            try:
                async for data in self._events(session, max(seen, default=-1), verified=verified):
                    if seen.setdefault(data["index"], data["entry"]) is not data["entry"]:
                        self.ledger.fail(f"the events of {session} brought entry {data['index']} twice")
            except Dishonest as error:
                self.ledger.fail(f"the events of {session}: {error.what}")
            except BeaconError as error:
                self.ledger.refuse(error)
                await asyncio.sleep(1)
                continue
            break
        self.ledger.counts["event streams read to the end"] += 1
        self.ledger.watched.append((session, [*seen.items()]))

    async def _events(self, session, after, *, verified):
        if verified:
            async for data in (await self.host.nobody.session(session)).events(after):
                yield data
        else:
            async for _, data in self.transport.events(f"/v1/sessions/{session}/events", after):
                yield data


class Reader:
    """Reads what is public, over and over, and asks for what is to be refused."""

    def __init__(self, world, ledger, seed):
        self.world, self.ledger, self.rng = world, ledger, random.Random(f"{seed}/reader")
        self.token = next(iter(world.tokens.values()))

    async def run(self, stop):
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as client:
            while not stop.is_set():
                for ask in (self._checkpoint, self._page, self._refused):
                    try:
                        await ask(client)
                    except LOST:
                        self.ledger.counts["reads without an answer"] += 1
                await asyncio.sleep(PAUSE * self.rng.random())

    async def _checkpoint(self, client):
        async with client.get(f"{self.world.url}/log/checkpoint") as answer:
            text = await answer.text()
        if answer.status == 200:
            self.ledger.counts["checkpoints read"] += 1
            self.ledger.head(text)

    async def _page(self, client):
        names = [*self.ledger.seals]
        session = self.rng.choice(names) if names else HEX
        host = self.rng.choice([*self.world.tokens])
        paths = (
            f"/v1/sessions/{session}", f"/v1/sessions/{session}/transcript", f"/s/{session}", f"/v1/hosts/{host}",
            "/", "/readyz", "/healthz", "/log/tile/0/000.p/1", "/log/tile/entries/000.p/1", "/openapi.json",
            f"/v1/chains/{self.world.chain.hash.hex()}",
        )  # fmt: skip
        path = self.rng.choice(paths)
        async with client.get(self.world.url + path) as answer:
            body = await answer.read()
        self.ledger.counts["pages read"] += 1
        if answer.status >= 500 and answer.status != 503:
            self.ledger.fail(f"GET {path}: {answer.status} {body[:300]!r}")
        if path.endswith("/transcript") and answer.status == 200:
            self.ledger.answer(json.loads(body))

    async def _refused(self, client):
        name, method, path, headers, body, due = self.rng.choice(self.requests())
        async with client.request(method, self.world.url + path, headers=headers, data=body) as answer:
            found = await answer.read()
        self.ledger.counts["bad requests"] += 1
        if answer.status in UNAVAILABLE:
            return
        code = json.loads(found)["code"] if answer.content_type == "application/problem+json" else None
        if not 400 <= answer.status < 500 or code not in due or [*receipts_of(found)]:
            self.ledger.fail(f"{name}: answered {answer.status} {found[:300]!r}")

    def requests(self):
        """Each: what is wrong, the request, and the codes that it may be refused with."""
        mine = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        good = {"recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}}, "close_at": None}

        def seal(name, due, headers=mine, **changes):
            return name, "POST", "/v1/sessions", headers, json.dumps(good | changes).encode(), {due}

        names = [*self.ledger.seals]
        session = self.rng.choice(names) if names else HEX
        path = f"/v1/sessions/{session}"
        return (
            seal("no token", "unauthorized", headers={"Content-Type": "application/json"}),
            seal("another's token", "unauthorized", headers=mine | {"Authorization": "Bearer fb_none"}),
            seal("no JSON", "unsupported-media-type", headers=mine | {"Content-Type": "text/plain"}),
            seal("unknown field", "invalid-request", seed=HEX),
            seal("bad recipe", "seal-recipe-invalid", recipes={"turn": {"kind": "coin"}}),
            seal("no chain", "chain-unknown", chain="nonet"),
            seal("two rounds", "invalid-request", round=10, round_at=10),
            seal("label", "label-invalid", label="x" * 300),
            seal("key twice", "idempotency-key-invalid", headers=mine | {"Idempotency-Key": "x" * 1_000}),
            ("not JSON", "POST", "/v1/sessions", mine, b'{"recipes": ', {"invalid-request"}),
            ("duplicate keys", "POST", "/v1/sessions", mine, b'{"label":"a","label":"b"}', {"invalid-request"}),
            ("too long", "POST", "/v1/sessions", mine, b" " * 300_000, {"body-too-large"}),
            ("no session", "GET", f"/v1/sessions/{HEX}", {}, None, {"session-unknown"}),
            ("no path", "GET", "/v1/nothing", {}, None, {"not-found"}),
            ("no method", "DELETE", "/v1/sessions", mine, None, {"method-not-allowed"}),
            ("reveal without a token", "POST", f"{path}/reveal", {"Content-Type": "application/json"}, b"{}", {"unauthorized"}),
            ("void without a token", "POST", f"{path}/void", {"Content-Type": "application/json"}, b'{"reason":"host"}', {"unauthorized"}),
            ("tile to come", "GET", "/log/tile/0/x900/000", {}, None, {"not-found"}),
        )  # fmt: skip
