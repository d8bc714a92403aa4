"""The documentation and the code agree: every error, route, setting and command is in README.md, as it is."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from beacon.errors import PROBLEMS
from beacon.sessions.requests import SealRequest
from tests import readme_blocks
from tests.session_support import ALICE, service

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PRESENT = {match["name"]: match["body"] for match in readme_blocks.BLOCK.finditer(README)}


@pytest.mark.parametrize("name", ["errors", "routes", "settings"])
def test_the_readme_has_each_table(name: str) -> None:
    assert PRESENT.get(name) == readme_blocks.block(name), f"run `python -m tests.readme_blocks` with a `{name}` block"


@pytest.mark.parametrize("words", [words for words, _ in readme_blocks.commands()])
def test_the_readme_shows_the_help_of_each_command(words: str) -> None:
    name = f"help: {words}"
    assert PRESENT.get(name) == readme_blocks.block(name), f"run `python -m tests.readme_blocks` with a `{name}` block"


def test_the_readme_has_no_stale_block() -> None:
    assert readme_blocks.render(README) == README
    assert README.count("<!-- begin ") == README.count("<!-- end ") == len(PRESENT)


@pytest.mark.parametrize("words", [words for words, _ in readme_blocks.commands()])
def test_every_command_and_option_explains_itself(words: str) -> None:
    command = dict(readme_blocks.commands())[words]
    assert command.help
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert getattr(parameter, "help", None), f"{words} {parameter.name}"


def test_every_code_that_is_raised_is_in_the_table_and_every_code_of_the_table_is_raised() -> None:
    raised: set[str] = set()
    for file in (ROOT / "beacon").rglob("*.py"):
        if file.name != "errors.py" or file.parent.name == "store":
            raised |= _codes(ast.parse(file.read_text(encoding="utf-8")))
    assert set(PROBLEMS) - raised == set()


def _codes(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in PROBLEMS}


def test_every_api_error_has_a_code_of_the_table() -> None:
    for file in (ROOT / "beacon").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"ApiError", "refusal"}
            ):
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    assert code.value in PROBLEMS, f"{file}:{node.lineno}"


def test_every_rule_that_an_error_cites_is_in_the_protocol() -> None:
    protocol = (ROOT / "verifier" / "PROTOCOL.md").read_text(encoding="utf-8")
    for code, row in PROBLEMS.items():
        if row.rule:
            number = re.escape(row.rule)
            heading = rf"^\W*{number}\b" if "." in row.rule else rf"^#+ {number}\."
            assert re.search(heading, protocol, re.MULTILINE), (code, row.rule)


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


async def test_the_seal_of_the_readme_is_accepted(tmp_path: Path) -> None:
    body = re.search(r"<!-- body: seal -->.*? -d '(.*?)'\n```", README, re.DOTALL)
    assert body
    async with service(tmp_path) as running:
        written = await running.sessions.seal(ALICE, SealRequest.model_validate(json.loads(body[1])))
    assert written.state["state"] == "sealed"
