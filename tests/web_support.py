"""The HTTP API over a sessions service in one process: recorded rounds, a clock that stands still, two hosts."""

import contextlib
import json
from types import SimpleNamespace

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from beacon.settings import ListenSettings, RateSettings, Settings, WaitingSettings
from beacon.store.hosts import SCOPES, Grant
from beacon.web.application import build_web
from beacon.web.openapi_document import PAGES
from beacon.web.services import SERVICES, Chain, Services
from beacon.witness.witnesses import Nobody
from tests import log_support
from tests.log_support import open_log
from tests.openapi_support import violations
from tests.round_support import QUICKNET
from tests.session_support import ALICE, BOB, ORIGIN

HOSTS = {"token-of-alice": ALICE, "token-of-bob": BOB}
ALL = frozenset(SCOPES)


class Tokens:
    """Each host's token; `token-of-alice.draw` has that scope alone."""

    async def authenticate(self, token):
        name, _, scope = token.partition(".")
        return Grant(HOSTS[name], frozenset({scope}) if scope else ALL, token) if name in HOSTS else None


def headers(host=ALICE, scope=None):
    return {"Authorization": f"Bearer token-of-{host.name}{f'.{scope}' if scope else ''}"}


@contextlib.asynccontextmanager
async def web_of(running, *, waiting=None, webhooks=None, rates=None, proxies="", witnesses=None, chain=QUICKNET):
    """A client of the API of a service (`tests.session_support.service`)."""
    settings = Settings(
        origin=ORIGIN,
        waiting=WaitingSettings(**waiting or {}),
        rates=RateSettings(**rates or {}),
        listen=ListenSettings(trusted_proxies=proxies),
    )
    app = build_web(settings)
    app[SERVICES] = Services(
        sessions=running.sessions,
        answers=running.answers,
        waiting=running.waiting,
        log=running.log,
        vkey=str(running.vkey),
        rounds=running.rounds,
        hosts=Tokens(),
        chains=(Chain("real", chain, sandbox_only=False),),
        settings=settings,
        stopped=lambda: None,
        webhooks=webhooks,
        witnesses=witnesses or Nobody(),
    )
    found = hold(app)
    async with TestClient(TestServer(app)) as client:
        yield client
    assert found == [], "\n".join(found)


@contextlib.asynccontextmanager
async def serving_log(path, **settings):
    """(log, client) of a log alone, without hosts and sessions (`tests.log_support`)."""
    log = open_log(path)
    app = build_web(Settings(origin=log_support.ORIGIN, **settings))
    app[SERVICES] = SimpleNamespace(log=log, vkey=log.vkey, witnesses=Nobody())
    app.on_shutdown.clear()
    try:
        async with TestClient(TestServer(app)) as client:
            yield log, client
    finally:
        log.close()


def hold(app):
    """Hold each answer of an application's API to the OpenAPI document; the list fills with what is wrong with them."""
    found = []

    async def look(request, response):
        resource, handler = request.match_info.route.resource, request.match_info.handler
        if (
            resource is not None
            and not handler.__module__.startswith(PAGES)
            and request.method != "HEAD"
            and isinstance(response, web.Response)
        ):
            body = b"" if response.body is None else bytes(response.body)
            found.extend(violations(request.method, resource.canonical, response.status, response.headers, body))

    app.on_response_prepare.append(look)
    return found


async def read_events(response, *, most=1_000):
    """The events of a stream as (id, type, data), until it ends, or `most` of them."""
    found, fields = [], {}
    while len(found) < most and (line := await response.content.readline()):
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "event" in fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
        if not name:
            fields = {}
    return found
