"""A day of the real service in a process: each operation of the API at least once, and what every answer was.

    calls = await play(folder)      # [Call]

A match, a live session, seeds of a host's own, batches, webhooks, events, lists, rounds, the log, and refusals.
"""

import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Any

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.openapi_support import path_of
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET
from tests.test_waiting_real import allow_loopback
from tests.test_webhooks import Receiver
from verifier.seeds import seed_chain

RECIPES = {
    "opening": {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True},
    "turn": {"kind": "dice", "count": 2, "sides": 6},
}
MATCH = {"label": "table 7, game 1", "recipes": RECIPES, "participants": [{"id": "white"}, {"id": "black"}]}
LIVE = {"label": "table 8", "profile": "live", "links": 64, "recipes": {"turn": RECIPES["turn"]}}
RAFFLE = {
    "label": "raffle",
    "recipes": {"winners": {"kind": "sample", "size": 500, "count": 3}},
    "plan": {"winners": 1},
}


@dataclass
class Call:
    """One request and its answer. template: the described path; body: of the answer."""

    method: str
    path: str
    template: str
    request: Any
    status: int
    headers: Any
    body: bytes

    @property
    def value(self):
        return json.loads(self.body) if "json" in self.headers.get("Content-Type", "") and self.body else None


class Player:
    """Sends requests as a host, and keeps what was answered."""

    def __init__(self, host):
        self.host, self.calls = host, []

    async def send(self, method, path, body=None, *, expect=200, token=True, **headers):
        sent = (self.host.headers if token is True else token or {}) | headers
        data = {} if body is None else {"json": body}
        async with self.host.client.request(method, self.host.url + path, headers=sent, **data) as answer:
            call = Call(
                method, path, path_of(method, path.partition("?")[0]), body, answer.status, answer.headers,
                await answer.read(),
            )  # fmt: skip
        self.calls.append(call)
        assert call.status in ({expect} if isinstance(expect, int) else expect), (method, path, call.status, call.body)
        return call.value

    async def get(self, path, **more):
        return await self.send("GET", path, **more)

    async def post(self, path, body=None, *, expect=201, **more):
        return await self.send("POST", path, body, expect=expect, **more)


async def play(folder):
    """Every call that was made, in order, and the bodies that a webhook was sent."""
    offset = QUICKNET.time(72_752) - SystemClock().now()
    clock = ShiftedClock(offset)
    receiver = Receiver()
    await receiver.server.start_server()
    async with LyingRelay([QUICKNET], clock=clock) as relay:
        data = folder / "data"
        make_data(data, "beacon.example/fair", relay.url, clock)
        allow_loopback(data)
        token = await add_host(data, "alice")
        async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
            player = Player(host)
            await player.get("/readyz", expect={200, 503})
            await host.ready()
            hook = await webhooks(player, receiver.url)
            match = await sealed_match(player, clock)
            await live(player)
            await own_seeds(player)
            await batches(player)
            await rest_of_match(player, host, match)
            await views(player, match)
            await end_of_webhook(player, hook)
            assert await server.stop() == 0
    await receiver.server.close()
    return player.calls, receiver.bodies()


async def webhooks(player, url):
    hook = await player.post("/v1/webhooks", {"url": url, "types": ["session.draw", "session.seal"]})
    await player.get("/v1/webhooks")
    await player.get(f"/v1/webhooks/{hook['id']}")
    await player.post(f"/v1/webhooks/{hook['id']}/rotate", {"overlap_seconds": 3_600}, expect=200)
    return hook["id"]


async def sealed_match(player, clock):
    key = {"Idempotency-Key": secrets.token_hex(8)}
    body = MATCH | {"round_at": clock.now() + 15_000}
    match = await player.post("/v1/sessions", body, **key)
    assert (await player.post("/v1/sessions", body, **key))["session"] == match["session"]
    path = f"/v1/sessions/{match['session']}"
    tokens = (await player.post(f"{path}/joins", {"participants": ["white"]}, expect=200))["tokens"]
    join = {"Authorization": f"Bearer {tokens['white']}"}
    white = {"participant": "white", "entropy": secrets.token_hex(16)}
    await player.post(f"{path}/contributions", white, token=join)
    await player.post(f"{path}/contributions", {"participant": "black", "entropy": "00"}, token=None, expect=401)
    await player.post(f"{path}/contributions", {"participant": "black", "entropy": secrets.token_hex(16)})
    await player.post(f"{path}/draws", {"recipe": "turn"}, expect=409)
    return match


async def live(player):
    session = (await player.post("/v1/sessions", LIVE))["session"]
    path = f"/v1/sessions/{session}"
    await player.post(f"{path}/draws?wait=30", {"recipe": "turn", "purpose": "white, move 1"})
    await player.post(f"{path}/draws", {"recipe": "turn"})
    await player.post(f"{path}/reveal", expect=409)
    await player.get(f"{path}?wait=30")
    await player.host.reach(session, "drawing")
    await player.post(f"{path}/reveal", {})
    await player.get(f"{path}/events")
    last = (await player.get(path))["last_index"]
    await player.get(f"{path}/events", expect=204, **{"Last-Event-ID": str(last)})


async def own_seeds(player):
    links = seed_chain(secrets.token_bytes(32), 2)
    terms = LIVE | {"links": 2, "custody": "host", "commitment": hashlib.sha256(links[1]).hexdigest(), "label": "ours"}
    session = (await player.post("/v1/sessions", terms))["session"]
    path = f"/v1/sessions/{session}"
    called = await player.post(f"{path}/draws", {"recipe": "turn", "draw": 1, "n": 1})
    await player.get(f"/v1/chains/{called['chain']}/rounds/{called['call']['round']}?wait=20")
    await player.host.until(lambda: _round_in(player, path))
    await player.post(f"{path}/links", {"draw": 1, "link": links[1].hex()})
    given_up = (await player.post("/v1/sessions", MATCH))["session"]
    await player.post(f"/v1/sessions/{given_up}/void", {"reason": "host"})
    await player.post(f"/v1/sessions/{given_up}/void", {"reason": "host"}, expect=409)
    await player.post("/v1/sessions", MATCH | {"replaces": given_up})


async def _round_in(player, path):
    return (await player.host.view(path.rpartition("/")[2]))["pending"][0]["round_index"] is not None


async def batches(player):
    sealed = await player.post("/v1/batch/seals", {"sessions": [LIVE, RAFFLE]})
    session = sealed["sessions"][0]["session"]
    await player.post("/v1/batch/draws", {"draws": [{"session": session, "recipe": "turn"}]})
    await player.post("/v1/batch/seals", {"sessions": [LIVE, LIVE | {"label": "x" * 300}]}, expect=422)


async def rest_of_match(player, host, match):
    path = f"/v1/sessions/{match['session']}"
    await host.reach(match["session"], "anchored")
    await player.post(f"{path}/draws", {"recipe": "opening", "purpose": "who begins"})
    await player.post(f"{path}/draws", {"recipe": "turn", "count": 2})
    revealed = await player.post(f"{path}/reveal", {})
    await player.get(path)
    await player.get(f"{path}/transcript", token=None)
    await player.get(f"{path}/verify.py", token=None)
    await player.get(f"{path}/receipts/{revealed['close_index']}")
    await player.get(f"{path}/receipts/{revealed['close_index']}/tlog-proof")
    await player.get(f"{path}/receipts/0", expect=404)
    await player.get(f"{path}/receipts/0/tlog-proof", expect=404)


async def views(player, match):
    for path in ("/v1/sessions?limit=2", "/v1/sessions?state=void", "/v1/sessions?label=nothing", "/v1/hosts/alice"):
        await player.get(path)
    await player.get("/v1/hosts/nobody", expect=404)
    rounds = f"/v1/chains/{match['chain']}/rounds"
    await player.get("/v1/chains")
    await player.get(f"{rounds}/next?wait=20")
    await player.get(f"{rounds}/{match['round']}")
    tag = player.calls[-1].headers["ETag"]
    await player.get(f"{rounds}/{match['round']}", expect=304, **{"If-None-Match": tag})
    for path in ("checkpoint", "vkey", "tile/entries/000.p/1", "log.db"):
        await player.get(f"/log/{path}")
    await player.get("/log/tile/0/999", expect=404)
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/problems/seal-round-too-early"):
        await player.get(path, token=None)
    tag = next(call.headers["ETag"] for call in player.calls if call.path == "/openapi.json")
    await player.get("/openapi.json", expect=304, **{"If-None-Match": tag})
    await player.get("/problems/session-full", token=None, Accept="text/html")
    await player.get("/problems/nothing", token=None, expect=404)


async def end_of_webhook(player, hook):
    path = f"/v1/webhooks/{hook}"
    await player.get(f"{path}/deliveries")
    await player.get("/v1/webhooks/wh_none", expect=404)
    await player.send("DELETE", path, expect=204)
