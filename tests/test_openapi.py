"""The OpenAPI document: complete, valid, with examples that are real; and every answer of a real service is as it says."""

import json
import re

import pytest
from openapi_spec_validator import validate
from pydantic import ValidationError

from beacon.errors import PROBLEMS, ApiError
from beacon.store.hosts import SCOPES
from beacon.web.middleware import UNLIMITED
from beacon.web.openapi import ANYWHERE, DESCRIPTIONS, PATH_PARAMETERS, Answer, describe
from beacon.web.openapi_document import EXAMPLES, document, example_of
from beacon.web.problems import row_document
from tests.openapi_play import play
from tests.openapi_support import routes, the_document, violations, wrong_with
from tests.session_support import service
from tests.web_support import headers, web_of

OPERATIONS = {operation.name: (method, path, operation) for method, path, operation in routes()}
PROBLEM = "application/problem+json"
EXAMPLE = json.loads(EXAMPLES.read_bytes())


def described(name):
    method, path, _ = OPERATIONS[name]
    return the_document()["paths"][path][method]


def codes_of(operation):
    answers = operation["responses"].values()
    return {code for answer in answers for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {})}


def test_every_route_is_described_and_every_described_route_is_there():
    """Who adds a route reads at the top of beacon/web/openapi.py how to describe it."""
    assert {id(operation) for _, _, operation in routes()} == {id(operation) for operation in DESCRIPTIONS.values()}
    assert len(OPERATIONS) == len(routes()) == len(DESCRIPTIONS)
    assert all(operation.summary.endswith(".") for _, _, operation in routes())


def test_every_code_of_the_table_is_listed_and_no_other():
    listed = {code for name in OPERATIONS for code in codes_of(described(name))}
    assert listed | set(ANYWHERE) == set(PROBLEMS)
    assert [row["code"] for row in the_document()["x-problems"]] == list(PROBLEMS)
    for name in OPERATIONS:
        for status, answer in described(name)["responses"].items():
            for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {}):
                assert PROBLEMS[code].status == int(status)


def test_a_code_that_is_not_in_the_table_cannot_be_described():
    with pytest.raises(ValueError, match="no-such-code"):
        describe("Service", answers={200: Answer("It is.")}, errors=["no-such-code"])


def test_the_document_is_valid():
    validate(the_document())


def test_each_refusal_names_its_codes_and_says_when_to_come_back():
    answer = described("session_draw")["responses"]["409"]
    schema = answer["content"][PROBLEM]["schema"]
    assert wrong_with(schema, example_of("draw-before-round")) == []
    assert wrong_with(schema, example_of("seal-key-invalid")) != []
    assert "Retry-After" in answer["headers"]
    assert "WWW-Authenticate" in described("session_draw")["responses"]["401"]["headers"]


def test_it_says_who_may_call():
    for name, (_, path, operation) in OPERATIONS.items():
        if operation.access == "public":
            assert described(name)["security"] == []
            assert "unauthorized" not in operation.errors
        else:
            scope = "draw" if operation.access == "participant" else operation.access
            assert {"hostToken": [scope]} in described(name)["security"]
            assert "401" in described(name)["responses"]
        assert set(PATH_PARAMETERS) >= {
            item["name"] for item in described(name).get("parameters", []) if item["in"] == "path"
        }
        keyed = "idempotency-key-reused" in operation.errors
        assert keyed == ("Idempotency-Key" in {item["name"] for item in described(name).get("parameters", [])}), path


@pytest.mark.parametrize("name", [name for name, (*_, operation) in OPERATIONS.items() if operation.body])
def test_the_example_of_a_body_is_taken_by_its_model_and_its_schema(name):
    content = described(name)["requestBody"]["content"]["application/json"]
    OPERATIONS[name][2].body.model_validate(content["example"])
    assert wrong_with(content["schema"], content["example"]) == []
    bent = content["example"] | {"no_such_member": 1}
    assert wrong_with(content["schema"], bent) != []
    with pytest.raises(ValidationError):
        OPERATIONS[name][2].body.model_validate(bent)


def test_each_answer_in_json_has_an_example_that_is_as_its_schema_says():
    without = set()
    for name in OPERATIONS:
        for status, answer in described(name)["responses"].items():
            content = answer.get("content", {}).get("application/json")
            if content is not None and "example" in content:
                assert wrong_with(content["schema"], content["example"]) == []
            elif content is not None:
                without.add((name, status))
    assert without == {("docs_openapi", "200"), ("health_healthz", "503")}


def test_each_path_parameter_of_an_example_fits():
    for name in OPERATIONS:
        for item in described(name).get("parameters", []):
            if "example" in item:
                assert wrong_with(item["schema"], item["example"]) == []
    assert {
        item["name"] for name in OPERATIONS for item in described(name).get("parameters", []) if "example" in item
    } == set(PATH_PARAMETERS)


@pytest.mark.parametrize("code", PROBLEMS)
def test_the_example_of_each_problem_fits(code):
    assert (
        wrong_with({"$ref": "#/components/schemas/Problem"}, the_document()["components"]["examples"][code]["value"])
        == []
    )
    assert wrong_with({"$ref": "#/components/schemas/ProblemRow"}, row_document(code)) == []
    assert ApiError(code, "x").problem.status == example_of(code)["status"]


def test_the_examples_are_of_the_operations_that_there_are():
    assert set(EXAMPLE) <= {*OPERATIONS, "webhook"}
    made = document(routes())
    sent = made["webhooks"]["session.entry"]["post"]["requestBody"]["content"]["application/json"]
    assert wrong_with(sent["schema"], sent["example"]) == []


def test_what_is_not_described_is_found():
    """The check that all the tests of the API run under is one that can fail."""
    good = EXAMPLE["session_view"]["responses"]["200"]
    plain = {"Content-Type": "application/json; charset=utf-8", "X-Request-Id": "0" * 16}

    def found(value, status=200, sent=plain):
        return violations("GET", "/v1/sessions/{session}", status, sent, json.dumps(value).encode())

    assert found(good) == []
    assert "Additional properties" in found(good | {"other": 1})[0]
    assert "'state' is a required property" in found({name: good[name] for name in good if name != "state"})[0]
    assert "is not described" in found(good, 201)[0]
    assert "is not described" in found(good, sent=plain | {"Content-Type": "text/plain"})[0]
    assert "no header" in found(good, sent={"Content-Type": "application/json"})[0]
    sent = plain | {"Content-Type": PROBLEM}
    assert found(example_of("session-unknown"), 404, sent) == []
    assert found(example_of("host-unknown"), 404, sent) != []


async def test_a_real_service_answers_as_the_document_says(tmp_path):
    calls, sent = await play(tmp_path)
    found = [
        line for call in calls for line in violations(call.method, call.template, call.status, call.headers, call.body)
    ]
    assert found == []
    named = {(call.method.lower(), call.template) for call in calls}
    assert named == {(method, path) for method, path, _ in routes()}
    for call in calls:
        if call.request is not None and call.status < 300:
            body = the_document()["paths"][call.template][call.method.lower()]["requestBody"]
            assert wrong_with(body["content"]["application/json"]["schema"], call.request) == []
    assert sent
    for body in sent:
        assert wrong_with({"$ref": "#/components/schemas/WebhookEvent"}, body) == []


async def test_each_operation_asks_for_the_scope_that_it_says(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        for method, path, operation in OPERATIONS.values():
            if operation.access in SCOPES:
                sent = headers(scope="none")
                refused = await client.request(method, re.sub(r"{\w+}", "00" * 32, path), headers=sent)
                assert (refused.status, (await refused.json())["scope"]) == (403, operation.access), path


def test_the_operations_that_no_limit_counts_are_those_of_the_middleware():
    unlimited = {path for _, (_, path, operation) in OPERATIONS.items() if not operation.limited}
    assert unlimited == UNLIMITED


async def test_it_is_served_whole_and_only_when_it_changed(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        answer = await client.get("/openapi.json")
        assert answer.content_type == "application/json"
        assert await answer.json() == json.loads(json.dumps(the_document()))
        again = await client.get("/openapi.json", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status, await again.read()) == (304, b"")
