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
DOCUMENTS = sorted(path for path in ROOT.rglob("*.md") if not {".venv", "node_modules"} & set(path.parts))
PRESENT = {
    match["name"]: match["body"]
    for path in readme_blocks.WITH_BLOCKS
    for match in readme_blocks.BLOCK.finditer(path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", ["errors", "routes", "pages", "metrics", "findings", "settings", "systems"])
def test_the_documentation_has_each_table(name: str) -> None:
    assert PRESENT.get(name) == readme_blocks.block(name), "run `python -m tests.readme_blocks`"


@pytest.mark.parametrize("program", readme_blocks.PROGRAMS)
def test_the_help_of_every_command_is_written_down(program: str) -> None:
    path = ROOT / program / "COMMANDS.md"
    assert path.read_text(encoding="utf-8") == readme_blocks.commands_page(program), (
        "run `python -m tests.readme_blocks`"
    )


def test_the_documentation_has_no_stale_block() -> None:
    texts = [path.read_text(encoding="utf-8") for path in readme_blocks.WITH_BLOCKS]
    assert [readme_blocks.render(text) for text in texts] == texts
    whole = "".join(texts)
    assert whole.count("<!-- begin ") == whole.count("<!-- end ") == len(PRESENT)


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(document: Path) -> None:
    for target, fragment in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", document.read_text(encoding="utf-8")):
        path = document.parent / target if target else document
        assert path.exists(), target
        if fragment:
            assert fragment in _anchors(path), (target, fragment)


def _anchors(path: Path) -> set[str]:
    """The fragments of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


async def test_the_seal_of_the_readme_is_accepted(tmp_path: Path) -> None:
    body = re.search(r"<!-- body: seal -->.*? -d '(.*?)'\n```", README, re.DOTALL)
    assert body
    async with service(tmp_path) as running:
        written = await running.sessions.seal(ALICE, SealRequest.model_validate(json.loads(body[1])))
    assert written.state["state"] == "sealed"
