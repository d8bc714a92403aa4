"""Holds answers to the OpenAPI document: status, code, media type, headers, and the body by its schema, strictly."""

import copy
import json
import re
from functools import cache

from jsonschema import Draft202012Validator

from beacon.settings import Settings
from beacon.web.application import build_web
from beacon.web.openapi import ANYWHERE
from beacon.web.openapi_document import described, document

OPEN_SCHEMAS = {"Problem", "ProblemRow"}
"""Problems bring members of their own."""
SOMETIMES = {"Retry-After", "RateLimit", "RateLimit-Policy"}
"""Headers that only some answers of a status have, or only services with limits."""


@cache
def routes():
    return described(build_web(Settings.model_construct(origin="o")))


@cache
def the_document():
    return document(routes())


@cache
def _strict():
    """The document's components, in which no schema takes a member that it does not name."""
    components = copy.deepcopy(the_document()["components"])
    for name, schema in components["schemas"].items():
        if name not in OPEN_SCHEMAS and "properties" in schema:
            schema["additionalProperties"] = False
    return components


@cache
def _validator(schema):
    return Draft202012Validator(json.loads(schema) | {"components": _strict()})


def wrong_with(schema, value):
    """What a value violates of a schema of the document, one line each."""
    found = _validator(json.dumps(schema)).iter_errors(value)
    return [f"{error.json_path}: {error.message[:300]}" for error in found]


def path_of(method, path):
    """The described path that a request's path matches, or None."""
    for known, template, _ in routes():
        pattern = re.sub(r"\\{(\w+)\\}", lambda name: ".+" if name[1] == "path" else "[^/]+", re.escape(template))
        if known == method.lower() and re.fullmatch(pattern, path):
            return template
    return None


def violations(method, template, status, headers, body):
    """What an answer (headers: a case-insensitive mapping, body: bytes) violates of what its operation describes."""
    operation = the_document()["paths"][template][method.lower()]
    where = f"{method} {template} {status}"
    media = headers.get("Content-Type", "").partition(";")[0]
    value = json.loads(body) if media.endswith("json") and body else None
    if media == "application/problem+json" and value["code"] in ANYWHERE:
        return [f"{where}: {line}" for line in wrong_with({"$ref": "#/components/schemas/Problem"}, value)]
    answer = operation["responses"].get(str(status))
    if answer is None:
        return [f"{where}: the status is not described {value}"]
    found = [f"no header {name}" for name in answer["headers"] if name not in headers and name not in SOMETIMES]
    content = answer.get("content", {})
    if bool(content) != bool(body):
        return [f"{where}: a body of {len(body)} bytes"]
    if content and media not in content:
        return [f"{where}: the media type {media} is not described"]
    if value is not None:
        found += wrong_with(content[media]["schema"], value)
    return [f"{where}: {line}" for line in found]
