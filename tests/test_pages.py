"""The pages' frame: texts, templates, files, headers, problems for browsers."""

import re
from html.parser import HTMLParser

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from beacon.web.pages import assets
from beacon.web.pages.rendering import FOLDER, bdi, environment, iso, moment, short
from beacon.web.pages.texts import Texts, texts
from beacon.web.witness_routes import build_witness
from tests.pages_support import BROWSER, get_page, parse
from tests.session_support import service
from tests.web_support import web_of

TEMPLATES = sorted(path.name for path in FOLDER.glob("*.html"))


@pytest.fixture
async def client(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        yield client


# --- texts and templates ---------------------------------------------------------------------------------------------


def test_a_text_has_markup_of_ours_and_escapes_the_values():
    words = Texts("xx", {"a": {"b": "**{who}** & `x` *y*", "n": {"one": "{n} roll", "other": "{n} rolls"}}})
    assert words.text("a.b", who="<b>") == "<strong>&lt;b&gt;</strong> &amp; <code>x</code> <em>y</em>"
    assert [words.count("a.n", number) for number in (0, 1, 1_000)] == ["0 rolls", "1 roll", "1,000 rolls"]
    with pytest.raises(KeyError):
        words.text("a.c")


class Bare(HTMLParser):
    """Letters of a template that no text of the language file gives; command lines have none."""

    NAMES = ("aria-label", "alt", "title", "content", "placeholder")

    def __init__(self):
        super().__init__()
        self.found = []
        self.command = False

    def handle_endtag(self, tag):
        self.command = self.command and tag != "pre"

    def handle_data(self, data):
        if not self.command and re.search(r"[A-Za-z]{2}", data):
            self.found.append(data.strip())

    def handle_starttag(self, tag, attributes):
        self.command = self.command or tag == "pre"
        for name, value in attributes:
            spoken = name in self.NAMES and not (tag == "meta" and ("name", "description") not in attributes)
            if spoken and re.search(r"[A-Za-z]{2}", value or ""):
                self.found.append(f"{name}={value}")


def test_no_template_has_a_text_of_its_own():
    found = {}
    for name in TEMPLATES:
        source = (FOLDER / name).read_text(encoding="utf-8")
        bare = Bare()
        kept = "".join(
            value if kind == "data" else "" for _, kind, value in environment().lex(source) if kind != "comment"
        )
        bare.feed(kept)
        found |= {name: bare.found} if bare.found else {}
    assert not found


def test_every_text_that_is_asked_for_is_there_and_every_text_is_used():
    sources = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.html"))
    code = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parent.glob("*.py"))
    known = set(texts().texts)
    asked = set(re.findall(r"""\bt\(["']([\w.-]+)["'][,)]""", sources))
    counted = set(re.findall(r"""\btn\(["']([\w.-]+)["'],""", sources))
    assert asked <= known
    assert {f"{name}.{form}" for name in counted for form in ("one", "other")} <= known
    named = set(re.findall(r"""["']([\w-]+(?:\.[\w-]+)+)["']""", sources + code))
    beginnings = set(re.findall(r"""["']([\w-]+\.[\w.-]*|\w+\.)["'] ~""", sources)) | {f"{name}." for name in named}
    assert not {name for name in known - named if not name.startswith(tuple(beginnings))}


def test_a_template_that_lacks_a_value_fails():
    with pytest.raises(UndefinedError):
        environment().get_template("home.html").render()


def test_values_for_people():
    assert iso(1_700_000_000_120) == "2023-11-14T22:13:20.120Z"
    assert moment(1_700_000_000_999) == "2023-11-14 22:13:20 UTC"
    assert moment(2**53 - 1) == "+9007199254740991 UTC"
    assert moment(1_700_000_000_999, 1_699_999_000_000) == "22:13:20 UTC"
    assert moment(1_700_000_000_999, 1_600_000_000_000) == "2023-11-14 22:13:20 UTC"
    assert short("0123456789abcdef0123") == "01234567…cdef0123"
    assert short("0123") == "0123"
    assert bdi("<i>") == "<bdi>&lt;i&gt;</bdi>"


LEDGER = {
    "host": "alice", "sandbox": False, "sealed": 1, "open": 0, "revealed": 1, "void": 0, "void_by_reason": {},
    "numbers_gapless": True, "labels_used_twice": {"count": 1, "newest": []}, "replaced": {"count": 0, "newest": []},
}  # fmt: skip


@given(st.text(max_size=256))
def test_whatever_a_label_is_the_page_shows_it_as_text_alone(label):
    """All text, also what the protocol refuses (3.4): the page does not rest on that."""
    ledger = LEDGER | {"labels_used_twice": {"count": 1, "newest": [{"label": label, "sessions": 2}]}}
    session = {"session": "ab" * 32, "host_seq": 1, "state": "revealed", "label": label, "time": 0}
    values = {"ledger": ledger, "sessions": [session], "older": None, "newest": False, "origin": label, "path": "/"}
    text = environment().get_template("host.html").render(values)
    root = parse(text)
    shown = [one.text for one in root.all("bdi") if one.text != "alice"]
    assert shown == [label] * (2 + bool(label))


# --- files -----------------------------------------------------------------------------------------------------------


async def test_files_have_addresses_of_their_content_and_may_be_kept_for_ever(client):
    for asset in assets.assets().values():
        async with client.get(asset.address) as answer:
            assert answer.status == 200
            assert await answer.read() == asset.body
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.content_type == asset.content_type
    async with client.get("/static/0000000000000000/pages.css") as answer:
        assert answer.status == 404


def test_no_file_loads_anything_from_elsewhere():
    for asset in assets.assets().values():
        text = asset.body.decode().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|//[a-z]|@import|url\(", text), asset.name


async def test_a_picture_can_do_nothing(client):
    async with client.get(assets.address("icon.svg")) as answer:
        assert answer.headers["Content-Security-Policy"] == assets.PICTURE_POLICY


# --- home, headers, problems -----------------------------------------------------------------------------------------


async def test_home_says_what_is_promised_and_what_is_not(client):
    page = await get_page(client, "/")
    assert [heading.text for heading in page.all("h2")][:3] == [
        "What is promised",
        "How it works",
        "What is not promised",
    ]
    assert "the word of the operator of beacon.example/test" in page.text


async def test_the_form_of_home_leads_to_the_session(client):
    for text in (" " + "AB" * 32 + " ", f"https://beacon.example/s/{'ab' * 32}?before=7", f"session {'ab' * 32}."):
        async with client.get("/s", params={"session": text}, headers=BROWSER, allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == "/s/" + "ab" * 32
    for path in ("/s", "/s?session=//evil.example/", "/s?session=" + "ab" * 31, "/s?session=" + "ab" * 33):
        page = await get_page(client, path, 404)
        assert page.one("h1").text == "No such session"


async def test_whoever_has_a_page_is_told_that_it_is_the_same(client):
    async with client.get("/", headers=BROWSER) as answer:
        assert answer.headers["Cache-Control"] == "no-cache"
        tag = answer.headers["ETag"]
    async with client.get("/", headers={**BROWSER, "If-None-Match": tag}) as answer:
        assert answer.status == 304
        assert await answer.read() == b""
        assert answer.headers["ETag"] == tag
    async with client.head("/", headers=BROWSER) as answer:
        assert answer.status == 200


async def test_browsers_get_problems_as_pages_and_programs_as_documents(client):
    page = await get_page(client, "/nothing", 404)
    assert page.one("h1").text == "There is nothing here"
    async with client.get("/nothing") as answer:
        assert (answer.status, answer.content_type) == (404, "application/problem+json")
    for path in ("/v1/nothing", "/log/nothing", "/problems/nothing", "/static/x/y"):
        async with client.get(path, headers=BROWSER) as answer:
            assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_an_application_without_pages_has_no_problems_as_pages():
    app = build_witness(None, 0)
    async with TestClient(TestServer(app)) as client, client.get("/nothing", headers=BROWSER) as answer:
        assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_a_method_that_a_page_does_not_take_is_refused_on_a_page(client):
    async with client.post("/log", headers=BROWSER) as answer:
        assert (answer.status, answer.content_type) == (405, "text/html")
        assert answer.headers["Allow"] == "GET, HEAD"
        assert "method-not-allowed" in await answer.text()


async def test_a_failure_is_a_page_without_its_message(client, monkeypatch):
    monkeypatch.setattr("beacon.web.pages.home_routes.LINKS", [object()])
    page = await get_page(client, "/", 500)
    assert page.one("h1").text == "That did not work"
    assert "object" not in page.text


async def test_pages_count_for_the_limit_like_any_read(tmp_path):
    async with service(tmp_path) as running, web_of(running, rates={"address_per_minute": 1}) as client:
        await get_page(client, "/")
        async with client.get("/", headers=BROWSER) as answer:
            assert answer.status == 429
            assert answer.content_type == "text/html"
            assert int(answer.headers["Retry-After"]) > 0
