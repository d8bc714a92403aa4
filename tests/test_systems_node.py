"""Other systems' records in TypeScript: the same answers as the Python, text for text, and the same known answers."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import node_support, systems_formats
from tests.outside_tools import need_node
from tests.systems_support import BUILDERS, changed, leaves, vector_records
from tests.web_verifier import workspace
from verifier.errors import FormatError
from verifier.systems import SYSTEMS

Case = tuple[str, str, dict[str, str]]
EACH = 25


@pytest.fixture(scope="module")
def web() -> Path:
    return workspace()


@pytest.fixture(scope="module")
def program(web: Path) -> Path:
    return node_support.bundle(web, "src/systems/node.ts")


def answers(program: Path, cases: list[Case]) -> list[dict[str, Any]]:
    lines = [json.dumps({"system": name, "text": text, "options": options}) for name, text, options in cases]
    output = node_support.run(program, "".join(f"{line}\n" for line in lines))
    found = [json.loads(line) for line in output.split("\n")[:-1]]
    assert len(found) == len(cases)
    return found


def python(case: Case) -> Mapping[str, Any]:
    name, text, options = case
    try:
        return SYSTEMS[name].replay(text.encode("utf-8"), options).as_dict() | {"code": None}
    except FormatError as error:
        return {"ok": None, "code": str(error.code)}


def agree(program: Path, cases: list[Case]) -> list[Mapping[str, Any]]:
    expected = [python(case) for case in cases]
    for case, ours, theirs in zip(cases, expected, answers(program, cases), strict=True):
        assert {name: theirs[name] for name in ours} == ours, case
    return expected


def test_the_texts_are_those_of_the_python() -> None:
    assert systems_formats.FILE.read_text(encoding="utf-8") == systems_formats.formats(), (
        "python -m tests.systems_formats"
    )


def test_the_examples_and_every_known_answer(program: Path) -> None:
    examples: list[Case] = [(name, system.example, {}) for name, system in SYSTEMS.items()]
    vectors = list(vector_records())
    assert len(vectors) >= 40
    expected = agree(program, [*examples, *(case for case, _ in vectors)])
    assert all(answer["ok"] for answer in expected[: len(examples)])
    assert [answer["ok"] for answer in expected[len(examples) :]] == [ok for _, ok in vectors]


def test_generated_records_their_changes_and_other_shapes(program: Path) -> None:
    cases = [case for name in BUILDERS for seed in range(EACH) for case in variants(name, seed)]
    expected = agree(program, cases)
    assert {answer["ok"] for answer in expected} == {True, False, None}


def variants(name: str, seed: int) -> Iterator[Case]:
    chance = random.Random(f"{name} {seed}")
    record, options, _ = BUILDERS[name](chance)
    yield name, json.dumps(record, ensure_ascii=chance.random() < 0.5), options
    for _ in range(3):
        yield name, json.dumps(changed(record, chance.choice(list(leaves(record))), chance)), options
    other = changed(record, chance.choice(list(leaves(record))), chance)
    parent: Any = other
    *path, last = chance.choice(list(leaves(other)))
    for key in path:
        parent = parent[key]
    parent[last] = chance.choice([None, True, {}, [], [[]], 1.5, -1, 2**53])
    yield name, json.dumps(other), options
    yield name, json.dumps(record | {"surprise": 1}), options
    yield name, json.dumps(record), options | {"surprise": "1"}
    for option in SYSTEMS[name].options:
        yield name, json.dumps(record), options | {option.name: "{x}" if not option.values else "x"}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '"a"', "{}x", '{"a":1,"a":1}', '{"seed":"\\ud800"}', '{"\\udc00":1}', '{"seed":"a\n"}', "\ufeff{}",
        '{"seed":"\\u0000","rolls":[[1,1]]}', '{"seed":"\\ud83c\\udfb2","rolls":[[1,1]]}', '{"seed":"a","rolls":[[-0,1]]}',
        '{"seed":"a","rolls":[[1e0,1]]}', '{"seed":"a","rolls":[[01,1]]}', '{"seed":"a","rolls":[[1,1],]}', '{"seed":"\\x"}',
        '{"seed":"a","rolls":[[9007199254740993,1]]}', '{"__proto__":1,"seed":"a","rolls":[[1,1]]}', '{"seed":tru}',
        ' \t\r\n{ "seed" : "a" , "rolls" : [ [ 1 , 1 ] ] } ', '{"seed":"a","rolls":[[NaN,1]]}', "[" * 40 + "]" * 40, "\u00a0{}",
        '{"system":"cube","seed":"a","rolls":[[1,1]]}', '{"system":"nard","seed":"a","rolls":[[1,1]]}', '{"system":1}', '{"seed":"/\\/"}',
    ],
)  # fmt: skip
def test_json_is_read_alike(program: Path, text: str) -> None:
    agree(program, [("cube", text, {})])


def test_nesting_ends_alike(program: Path) -> None:
    agree(program, [("cube", '{"seed":' + "[" * depth + "]" * depth + "}", {}) for depth in range(28, 40)])


def test_the_sources_are_well_typed(web: Path) -> None:
    tsc = web / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([need_node(), str(tsc), "--noEmit"], cwd=web, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
