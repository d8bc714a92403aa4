"""/docs: the OpenAPI document as one page, made on the server. No script, and nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_STYLE: Final = Path(__file__).with_name("docs.css").read_text(encoding="utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_EVERYWHERE: Final = ("X-Request-Id", "RateLimit", "RateLimit-Policy")
_MARKS: Final = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_ADDRESS: Final = "http://127.0.0.1:8080"

Node = Mapping[str, Any]


def page(document: Node) -> bytes:
    """The page of an OpenAPI document of `beacon.web.openapi_document`."""
    return _html("fair-beacon: the API", "\n".join(_body(document)))


def problem_page(row: Node) -> bytes:
    """The page of one code of an error: what it means and what to do."""
    code = row["code"]
    body = f"""<main>
<h1>{_prose(row["title"])}</h1>
<p><code>{code}</code>, status {row["status"]}{_rule(row)}. {_retry(row)}</p>
<h2>What to do</h2>
<p>{_prose(row["next"])}</p>
<p><a href="/docs#error-{code}">All errors</a> and <a href="/docs">the whole API</a>; <a href="/openapi.json">as
OpenAPI</a>.</p>
</main>"""
    return _html(f"{code}: fair-beacon", body)


def _html(title: str, body: str) -> bytes:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
""".encode()


def _body(document: Node) -> Iterator[str]:
    info = document["info"]
    groups = {tag["name"]: list(_operations(document, tag["name"])) for tag in document["tags"]}
    yield '<a class="skip" href="#operations">To the operations</a>'
    yield f"<header><h1>The API of fair-beacon</h1>{_paragraphs(info['description'])}"
    yield f'<p class="note">Version {_text(info["version"])}; <a href="/openapi.json">as OpenAPI 3.1</a>.</p></header>'
    yield '<nav aria-label="Operations">'
    for name, listed in groups.items():
        items = "".join(
            f'<li><a href="#{_text(one["operationId"])}">{method.upper()} {_text(path)}</a></li>'
            for method, path, one in listed
        )
        yield f"<h4>{_text(name)}</h4><ul>{items}</ul>"
    yield '<h4>More</h4><ul><li><a href="#errors">Errors</a></li><li><a href="#schemas">Schemas</a></li></ul></nav>'
    yield '<main id="operations">'
    for tag in document["tags"]:
        yield f"<h2>{_text(tag['name'])}</h2><p>{_prose(tag['description'])}</p>"
        for method, path, operation in groups[tag["name"]]:
            yield from _operation(method, path, operation)
    yield from _errors(document)
    yield '<h2 id="schemas">Schemas</h2><p class="note">A member with a star is always there.</p>'
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)
    yield "</main>"


def _operations(document: Node, tag: str) -> Iterator[tuple[str, str, Node]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield method, path, operation
    for name, methods in document["webhooks"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield method, f"your URL ({name})", operation


def _operation(method: str, path: str, operation: Node) -> Iterator[str]:
    name = _text(operation["operationId"])
    yield f'<section class="one" id="{name}">'
    yield f'<h3><a href="#{name}"><span class="verb">{method.upper()}</span>{_text(path)}</a></h3>'
    yield f"<p>{_prose(operation['summary'])}</p>"
    if "description" in operation:
        yield f"<p>{_prose(operation['description'])}</p>"
    if "security" in operation:
        yield f'<p class="note">{_access(operation["security"])}</p>'
    if operation.get("parameters"):
        yield "<h4>Parameters</h4><dl>"
        for item in operation["parameters"]:
            where = item["in"] + ("" if item["required"] else ", optional")
            shown = f'<span class="note">{where}; {_type(item["schema"])}</span>'
            yield (f"<dt><code>{_text(item['name'])}</code> {shown}</dt><dd>{_prose(item['description'])}</dd>")
        yield "</dl>"
    if "requestBody" in operation:
        body = operation["requestBody"]
        ((media, content),) = body["content"].items()
        optional = "" if body["required"] else ", may be left out"
        yield f'<h4>Body</h4><p>{_type(content["schema"])} <span class="note">{_text(media)}{optional}</span></p>'
        if "example" in content:
            yield _details("Example of a call", _call(method, path, operation, content["example"]))
    yield "<h4>Answers</h4><dl>"
    for status, answer in operation["responses"].items():
        yield from _answer(status, answer)
    yield "</dl></section>"


def _answer(status: str, answer: Node) -> Iterator[str]:
    content = answer.get("content", {})
    kinds = [f"{_type(item['schema'])} ({_text(media)})" for media, item in content.items() if "problem" not in media]
    codes = sorted(content.get("application/problem+json", {}).get("examples", {}))
    headers = [f"<code>{_text(name)}</code>" for name in answer.get("headers", {}) if name not in _EVERYWHERE]
    yield f"<dt><strong>{_text(status)}</strong> {' or '.join(kinds)}</dt><dd>"
    if codes:
        yield ", ".join(f'<a href="#error-{code}"><code>{code}</code></a>' for code in codes)
    else:
        yield _prose(answer["description"])
    if headers:
        yield f'<p class="note">Headers: {", ".join(headers)}</p>'
    for item in content.values():
        if "example" in item:
            yield _details("Example of the answer", _json(item["example"]))
    yield "</dd>"


def _errors(document: Node) -> Iterator[str]:
    where: dict[str, list[str]] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            for answer in operation["responses"].values():
                for code in answer.get("content", {}).get("application/problem+json", {}).get("examples", {}):
                    where.setdefault(code, []).append(operation["operationId"])
    yield '<h2 id="errors">Errors</h2>'
    yield '<p>Every refusal is a <a href="#schema-Problem">Problem</a> with one of these codes.</p>'
    yield "<dl>"
    for row in document["x-problems"]:
        code = row["code"]
        yield f'<dt id="error-{code}"><a href="#error-{code}"><code>{code}</code></a>'
        yield f"<strong>{_prose(row['title'])}</strong></dt>"
        yield f"<dd><p>{_prose(row['next'])}</p>"
        links = ", ".join(f'<a href="#{name}">{name}</a>' for name in where.get(code, []))
        places = "any address" if code in document["x-anywhere"] else links
        yield f'<p class="note">Status {row["status"]}{_rule(row)}. {_retry(row)} From: {places}.</p></dd>'
    yield "</dl>"


def _schema(name: str, schema: Node) -> Iterator[str]:
    yield f'<section class="one" id="schema-{_text(name)}"><h3><a href="#schema-{_text(name)}">{_text(name)}</a></h3>'
    yield _paragraphs(schema.get("description", ""))
    required = schema.get("required", [])
    yield "<dl>"
    for member, shown in schema.get("properties", {}).items():
        star = " *" if member in required else ""
        yield f'<dt><code>{_text(member)}</code>{star} <span class="note">{_type(shown)}</span></dt>'
        if "description" in shown:
            yield f"<dd>{_prose(shown['description'])}</dd>"
    yield "</dl></section>"


def _type(schema: Node) -> str:
    """A JSON schema in a few words, with links to the named ones."""
    if "$ref" in schema:
        name = _text(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(item) for item in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(f"<code>{_text(json.dumps(value))}</code>" for value in values)
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}{_bounds(schema, 'minItems', 'maxItems')}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}{_bounds(schema, 'minProperties', 'maxProperties')}"
    if kind == "string":
        pattern = schema.get("pattern", "")
        shown = f" <code>{_text(pattern)}</code>" if 0 < len(pattern) <= 40 else ""
        return f"string{_bounds(schema, 'minLength', 'maxLength')}{shown}"
    return f"{_text(kind)}{_bounds(schema, 'minimum', 'maximum')}"


def _bounds(schema: Node, low: str, high: str) -> str:
    least, most = schema.get(low), schema.get(high)
    if least is None and most is None:
        return ""
    if least == most:
        return f" ({least})"
    return f" ({'' if least is None else least}…{'' if most is None else most})"


def _access(security: list[Node]) -> str:
    if not security:
        return "Public: no token."
    if {} in security:
        return "With a host's token, a participant's join token, or for open sessions without any."
    return f"With a host's token that has the scope <code>{security[0]['hostToken'][0]}</code>."


def _call(method: str, path: str, operation: Node, body: Any) -> str:
    for item in operation.get("parameters", []):
        if item["in"] == "path":
            path = path.replace(f"{{{item['name']}}}", str(item.get("example", f"<{item['name']}>")))
    lines = [f"curl -s -X {method.upper()} {_ADDRESS}{path}"]
    if operation.get("security"):
        lines.append('-H "Authorization: Bearer $TOKEN"')
    lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body, ensure_ascii=False)}'"]
    return " \\\n  ".join(lines)


def _details(title: str, text: str) -> str:
    return f'<details><summary>{title}</summary><pre tabindex="0"><code>{_text(text)}</code></pre></details>'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _rule(row: Node) -> str:
    return f", rule {_text(row['rule'])}" if row["rule"] else ""


def _retry(row: Node) -> str:
    if row["retryable"]:
        return '<span class="good">The same request may succeed later; nothing was written.</span>'
    return '<span class="warn">The same request will be refused again.</span>'


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_prose(part)}</p>" for part in text.split("\n\n") if part.strip())


def _prose(text: str) -> str:
    """Text whose `code` and **stress** are marked as such."""

    def mark(match: re.Match[str]) -> str:
        return f"<code>{match[1]}</code>" if match[1] else f"<strong>{match[2]}</strong>"

    return _MARKS.sub(mark, _text(text))


def _text(value: object) -> str:
    return html.escape(str(value))
