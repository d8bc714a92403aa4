"""The documentation and the code agree: every error, route, setting and command is in README.md, as it is."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from beacon.errors import PROBLEMS
from beacon.rounds.rounds import TROUBLES
from beacon.sessions import rules
from beacon.sessions.requests import SealRequest
from beacon.store.errors import StoreError
from beacon.web import problems
from tests import readme_blocks
from tests.session_support import ALICE, service

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PRESENT = {match["name"]: match["body"] for match in readme_blocks.BLOCK.finditer(README)}


@pytest.mark.parametrize("name", ["errors", "routes", "pages", "metrics", "settings", "systems"])
def test_the_readme_has_each_table(name: str) -> None:
    assert PRESENT.get(name) == readme_blocks.block(name), f"run `python -m tests.readme_blocks` with a `{name}` block"


@pytest.mark.parametrize("words", readme_blocks.shown())
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


RAISERS = {"ApiError": 0, "refusal": 0}
# The codes that no call names, because they are looked up when they are raised: those of HTTP itself, and the store's.
BY_STATUS = {"method-not-allowed"}
BY_STORE = {"outcome-unknown", "unavailable", "write-failed"}


def test_every_code_of_the_table_is_raised_and_every_code_that_is_raised_is_in_it() -> None:
    named = _named_codes() | _troubles()
    statuses = set(problems._STATUS_CODES.values())
    stored = {cls.code for cls in StoreError.__subclasses__()} & set(PROBLEMS)
    assert statuses - named == BY_STATUS
    assert stored - named == BY_STORE
    assert named | statuses == set(PROBLEMS) - BY_STORE


def test_every_trouble_of_a_chain_has_its_words() -> None:
    assert _troubles() == set(rules._TROUBLE) == {"chain-unknown", *TROUBLES} - {"chain-retired"}


def _troubles() -> set[str]:
    """What Rounds.trouble returns, and the rules raise."""
    tree = ast.parse((ROOT / "beacon" / "rounds" / "rounds.py").read_text(encoding="utf-8"))
    (trouble,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "trouble")
    returned = (node.value for node in ast.walk(trouble) if isinstance(node, ast.Return) and node.value is not None)
    constants = (node for value in returned for node in ast.walk(value) if isinstance(node, ast.Constant))
    return {constant.value for constant in constants if isinstance(constant.value, str)}


def _named_codes() -> set[str]:
    """Codes that stand as the first argument of ApiError(...) or refusal(...), or as a `code` that leads there."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "beacon").rglob("*.py")]
    raisers = dict(RAISERS)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name not in RAISERS:
                names = [argument.arg for argument in node.args.args]
                if "code" in names and any(_raised_code(call, RAISERS, ast.Name) == "code" for call in ast.walk(node)):
                    raisers[node.name] = names.index("code")
    assert set(raisers) == {*RAISERS, "_bounded", "_hex", "_at_most", "_unique", "needs_round"}
    found = (_raised_code(node, raisers, ast.Constant) for tree in trees for node in ast.walk(tree))
    return {code for code in found if code is not None}


def _raised_code(node: ast.AST, raisers: Mapping[str, int], kind: type[ast.expr]) -> str | None:
    """What the code of such a call is: a constant's value, or a variable's name."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    place = raisers.get(name)
    if place is None or len(node.args) <= place or not isinstance(node.args[place], kind):
        return None
    argument = node.args[place]
    return getattr(argument, "value", None) or getattr(argument, "id", None)


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
