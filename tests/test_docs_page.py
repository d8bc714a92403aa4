"""/docs and /problems/{code} for people: complete, each link leads somewhere, nothing from elsewhere, a strict policy."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from beacon.errors import PROBLEMS
from beacon.web.docs_page import page
from beacon.web.middleware import LOADS_NOTHING
from tests.openapi_support import the_document
from tests.session_support import service
from tests.web_support import web_of

VOID = {"meta", "br", "hr", "link", "img", "input"}


class Parsed(HTMLParser):
    """Ids, links, elements and attributes of a page whose elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.names, self.attributes, self.open = [], [], set(), set(), []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            self.ids += [value] if name == "id" else []
            self.links += [value] if name == "href" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text():
    return page(the_document()).decode()


def test_it_has_an_anchor_for_each_operation_each_code_and_each_schema(text):
    parsed = Parsed(text)
    assert len(parsed.ids) == len(set(parsed.ids))
    operations = {one["operationId"] for path in the_document()["paths"].values() for one in path.values()}
    assert operations <= set(parsed.ids)
    assert {f"error-{code}" for code in PROBLEMS} <= set(parsed.ids)
    assert {f"schema-{name}" for name in the_document()["components"]["schemas"]} <= set(parsed.ids)


def test_each_link_leads_to_an_anchor_or_to_the_document(text):
    parsed = Parsed(text)
    assert {link for link in parsed.links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)


def test_it_loads_nothing_and_runs_nothing(text):
    parsed = Parsed(text)
    assert parsed.names & {"script", "link", "img", "iframe", "object", "form", "base", "svg"} == set()
    assert parsed.attributes <= {"lang", "charset", "name", "content", "href", "id", "class", "aria-label", "tabindex"}
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_what_a_description_says_is_text_and_no_markup():
    bent = json.loads(json.dumps(the_document()).replace("A round whose signature", "<script>alert(1)</script> `<b>`"))
    shown = page(bent).decode()
    assert "<script" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt; <code>&lt;b&gt;</code>" in shown


async def test_the_policy_allows_the_style_of_the_page_and_nothing_else(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        for path in ("/docs", "/problems/draw-before-round"):
            answer = await client.get(path, headers={"Accept": "text/html,*/*"})
            assert answer.content_type == "text/html"
            style = re.search(r"<style>(.*?)</style>", await answer.text(), re.DOTALL)[1]
            digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
            policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
            assert policy == {
                "default-src": "'none'",
                "style-src": f"'sha256-{digest}'",
                "base-uri": "'none'",
                "form-action": "'none'",
                "frame-ancestors": "'none'",
            }
        again = await client.get("/docs", headers={"If-None-Match": (await client.get("/docs")).headers["ETag"]})
        assert again.status == 304
        assert (await client.get("/healthz")).headers["Content-Security-Policy"] == LOADS_NOTHING


async def test_the_type_of_each_problem_leads_to_what_to_do_next(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        for code, row in PROBLEMS.items():
            plain = await client.get(f"/problems/{code}")
            assert (plain.content_type, (await plain.json())["next"]) == ("application/json", row.next)
            answer = await client.get(f"/problems/{code}", headers={"Accept": "text/html"})
            assert answer.headers["Vary"] == plain.headers["Vary"] == "Accept"
            shown = await answer.text()
            parsed = Parsed(shown)
            assert f"/docs#error-{code}" in parsed.links
            words = re.sub(r"<[^>]+>", "", shown)
            assert row.next.replace("`", "").replace("'", "&#x27;") in words
