"""Pages as a strict reader sees them: nesting, headings, names of what can be used, and no code or style in them."""

from html.parser import HTMLParser
from itertools import pairwise

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
NAMED = {"a", "button", "summary"}
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children = []

    @property
    def text(self):
        return "".join(one if isinstance(one, str) else one.text for one in self.children)

    def all(self, tag=None):
        for child in self.children:
            if not isinstance(child, str):
                if tag in (None, child.tag):
                    yield child
                yield from child.all(tag)

    def one(self, tag):
        (found,) = self.all(tag)
        return found

    def by_id(self, name):
        return next(element for element in self.all() if element.attributes.get("id") == name)

    def classed(self, name):
        return [element for element in self.all() if name in (element.attributes.get("class") or "").split()]


class Page(HTMLParser):
    """Parses strictly: every element is closed, in order; an attribute stands once."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("document", {}, None)
        self.feed(text)
        self.close()
        assert self.at is self.root, f"<{self.at.tag}> is not closed"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        element = Element(tag, dict(attributes), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag, attributes):
        self.at.children.append(Element(tag, dict(attributes), self.at))

    def handle_endtag(self, tag):
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


def parse(text):
    """The document of a page that keeps the rules of all pages."""
    root = Page(text).root
    html = root.one("html")
    assert html.attributes["lang"]
    assert html.one("head").one("title").text.strip()
    assert len(list(html.all("h1"))) == len(list(html.all("main"))) == 1
    ids = [element.attributes["id"] for element in html.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids)), ids
    _check_headings(html)
    for element in html.all():
        _check(element, set(ids))
    return html


def _check_headings(html):
    levels = [int(element.tag[1]) for element in html.all() if element.tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels)), levels


def _check(element, ids):
    attributes = element.attributes
    assert element.tag not in {"style", "iframe", "object", "embed"}
    assert "style" not in attributes
    assert not any(name.startswith("on") for name in attributes), attributes
    for name in ("href", "src", "action"):
        where = attributes.get(name) or ""
        assert where.startswith(("/", "#")) or name not in attributes, where
        assert not where.startswith("//"), where
        if where.startswith("#"):
            assert where[1:] in ids, where
    for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
        assert all(one in ids for one in (attributes.get(name) or "").split()), (name, attributes)
    if element.tag == "script":
        assert attributes.get("src")
        assert not element.text.strip()
    if element.tag == "img":
        assert "alt" in attributes
    if element.tag == "svg":
        assert attributes.get("aria-hidden") == "true" or (attributes.get("role") == "img" and _name(element))
    if element.tag in NAMED:
        assert _name(element), (element.tag, attributes)
    if element.tag == "input" and attributes.get("type") != "hidden":
        top = element
        while top.parent is not None:
            top = top.parent
        assert any(label.attributes.get("for") == attributes["id"] for label in top.all("label")), attributes


def _name(element):
    pictures = "".join(one.attributes.get("alt") or "" for one in element.all("img"))
    return (element.attributes.get("aria-label") or element.text + pictures).strip()


async def get_page(client, path, status=200):
    """The parsed page at a path, as a browser asks for it."""
    async with client.get(path, headers=BROWSER) as answer:
        text = await answer.text()
        assert answer.status == status, text
        assert answer.content_type == "text/html"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    return parse(text)
