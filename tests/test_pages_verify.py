"""/verify and a session's own copy of it: the file as it is, under its own policy."""

import html
import json
import re

import pytest

from tests import page_worlds
from tests.pages_support import BROWSER, get_page
from tests.session_support import service
from tests.web_support import web_of
from verifier import web as verifier_web

POLICY = "default-src 'none'; script-src 'sha256-abc='; worker-src blob:"
FILE = (
    f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY, quote=False)}">\n'.encode()
    + verifier_web.SLOT
    + b"\n<script>run()</script>\n"
)


@pytest.fixture
async def world(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        yield running, client


@pytest.fixture
def built(monkeypatch):
    monkeypatch.setattr(verifier_web, "page", lambda: FILE)


async def fetch(client, path, status=200, **headers):
    async with client.get(path, headers=BROWSER | headers) as answer:
        assert answer.status == status
        return answer, await answer.read()


async def test_the_file_is_served_as_it_is_under_its_own_policy(world, built):
    answer, body = await fetch(world[1], "/verify")
    assert body == FILE
    assert answer.headers["Content-Security-Policy"] == POLICY + "; frame-ancestors 'none'"
    assert answer.content_type == "text/html"
    assert "Content-Disposition" not in answer.headers
    await fetch(world[1], "/verify", 304, **{"If-None-Match": answer.headers["ETag"]})


async def test_a_file_that_names_no_policy_may_do_nothing(world, monkeypatch):
    monkeypatch.setattr(verifier_web, "page", lambda: b"<script>run()</script>")
    answer, _ = await fetch(world[1], "/verify")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


async def test_the_file_can_be_kept(world, built):
    answer, body = await fetch(world[1], "/verify?download=1")
    assert body == FILE
    assert answer.headers["Content-Disposition"] == 'attachment; filename="fair-beacon-verifier.html"'


async def test_a_sessions_file_has_its_transcript_as_text_that_ends_nothing(world, built):
    running, client = world
    session = await page_worlds.hostile(running)
    answer, body = await fetch(client, f"/s/{session.hex()}/verify.html?download=1")
    assert f'filename="verify-{session.hex()[:8]}.html"' in answer.headers["Content-Disposition"]
    (inside,) = re.findall(rb'<script type="application/json" id="document">(.*?)</script>', body, re.DOTALL)
    assert b"<" not in inside
    assert json.loads(inside) == json.loads(await running.sessions.transcript(session))
    assert body.count(b"</script") == FILE.count(b"</script")


async def test_a_session_that_goes_on_has_a_file_too(world, built):
    running, client = world
    session = await page_worlds.live_called(running)
    _, body = await fetch(client, f"/s/{session.hex()}/verify.html")
    assert session.hex().encode() in body


@pytest.mark.parametrize(("path", "status"), [("/verify?download=2", 400), ("/verify?x=1", 400)])
async def test_queries_that_mean_nothing_are_refused(world, built, path, status):
    await get_page(world[1], path, status)


async def test_there_is_no_file_of_an_unknown_session(world, built):
    await get_page(world[1], f"/s/{'ab' * 32}/verify.html", 404)


async def test_a_copy_without_the_file_says_so(world, monkeypatch):
    def page():
        raise verifier_web.PageNotBuiltError

    monkeypatch.setattr(verifier_web, "page", page)
    running, client = world
    session = await page_worlds.sealed(running)
    for path in ("/verify", f"/s/{session.hex()}/verify.html"):
        shown = await get_page(client, path, 503)
        assert shown.one("h1").text == "The verifier is not in this copy"


async def test_a_long_file_counts_as_many_requests_and_arrives_whole(tmp_path, built):
    recipes = {"order": {"kind": "shuffle", "size": 10_000}}
    async with service(tmp_path) as running, web_of(running, rates={"address_per_minute": 60}) as client:
        session = await page_worlds.anchored(running, recipes=recipes)
        for _ in range(8):
            await running.draw(session, "order")
        _, body = await fetch(client, f"/s/{session.hex()}/verify.html")
        (inside,) = re.findall(rb'<script type="application/json" id="document">(.*?)</script>', body, re.DOTALL)
        assert json.loads(inside) == json.loads(await running.sessions.transcript(session))
        assert len(body) > 300_000
        async with client.get("/", headers=BROWSER) as answer:
            left = int(answer.headers["RateLimit"].partition("r=")[2].partition(";")[0])
        assert left < 60 - len(body) // 16_384
