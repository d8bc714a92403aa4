"""What stands between the service and the others: relays and witnesses that fail and lie, and webhooks' receiver."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import re

import aiohttp
from aiohttp import web

SIGNATURE = re.compile(rb'"signature"\s*:\s*"([0-9a-f]{2})')
SLOW = 4.0


@contextlib.asynccontextmanager
async def listening(handler, method="*"):
    """A server on a free port of loopback; its URL."""
    app = web.Application(client_max_size=2**20)
    app.router.add_route(method, "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Proxy:
    """Passes requests on to `target`, unless `mode` says otherwise. Modes: those of `modes`, and None."""

    modes = ()

    def __init__(self, target, client):
        self.target, self.client, self.mode = target, client, None

    async def handle(self, request):
        mode = self.mode
        if mode == "down":
            request.transport.abort()
            return web.Response()
        if mode == "slow":
            await asyncio.sleep(SLOW)
        if isinstance(mode, int):
            return web.Response(status=mode, text="no")
        body = await request.read()
        try:
            async with self.client.request(request.method, self.target + request.path_qs, data=body or None) as answer:
                status, kind, found = answer.status, answer.content_type, await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return web.Response(status=502, text="not there")
        return web.Response(status=status, body=self.changed(mode, request, found), content_type=kind)

    def changed(self, mode, request, found):
        return found


class Relay(Proxy):
    """A relay of the devnet."""

    modes = ("down", "slow", 404, 429, 500, "flipped", "older", "html", "cut")

    def __init__(self, target, client):
        super().__init__(target, client)
        self._older = b"{}"

    def changed(self, mode, request, found):
        if mode == "flipped":
            return SIGNATURE.sub(lambda one: one[0][:-2] + b"%02x" % (int(one[1], 16) ^ 1), found)
        if mode == "older":
            return self._older
        if mode == "html":
            return b"<!doctype html><title>Sign in</title>"
        if mode == "cut":
            return found[: len(found) // 2]
        self._older = found
        return found


class WitnessDoor(Proxy):
    """The way to a witness. `garbled`: the witness's own cosignature, with one bit changed."""

    modes = ("down", "slow", 409, 429, 500, "garbled")

    def changed(self, mode, request, found):
        if mode != "garbled" or len(found) < 20:
            return found
        return found[:-12] + bytes([found[-12] ^ 1 if found[-12] not in b"0=/" else found[-12]]) + found[-11:]


class Receiver:
    """Where the webhooks go: /HOST. Takes down what it took under a right signature."""

    modes = ("down", "slow", 500, 503)

    def __init__(self, ledger):
        self.ledger, self.mode, self.secrets = ledger, None, {}

    async def handle(self, request):
        host, body = request.path[1:], await request.read()
        if self.mode == "down":
            request.transport.abort()
            return web.Response()
        if self.mode == "slow":
            await asyncio.sleep(SLOW)
        if isinstance(self.mode, int):
            return web.Response(status=self.mode)
        name, seconds = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        for secret in self.secrets.get(host, ()):
            due = hmac.digest(secret, f"{name}.{seconds}.".encode() + body, hashlib.sha256)
            if f"v1,{base64.b64encode(due).decode()}" in request.headers["webhook-signature"].split():
                self._take(host, name, json.loads(body)["data"])
                return web.Response()
        if host in self.secrets:
            self.ledger.fail(f"a webhook of {host} came under a wrong signature")
        return web.Response(status=500)

    def _take(self, host, name, data):
        self.ledger.counts["webhooks delivered"] += 1
        taken = self.ledger.delivered.setdefault(host, {})
        if taken.setdefault(data["index"], (name, data["entry"])) != (name, data["entry"]):
            self.ledger.fail(f"webhook {name} of {host} came with another entry the second time")

    def expect(self, host, secret):
        self.secrets.setdefault(host, []).append(base64.b64decode(secret.removeprefix("whsec_")))
        self.ledger.delivered.setdefault(host, {})
