"""deploy/THREATS.md names tests, claims, commands, alerts and codes: each of them is there."""

import ast
import re
from pathlib import Path

import click
import pytest

from beacon.cli import main as beacon
from beacon.errors import PROBLEMS
from verifier.cli import main as verifier
from verifier.verdict import ClaimName

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "deploy" / "THREATS.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([^`]+)`", TEXT)
PROGRAMS = {"beacon": beacon, "verifier": verifier}
ACTORS = [
    "operator", "host", "player", "relay", "witness", "network", "stolen backup", "stolen token", "stolen log key",
    "stolen master key",
]  # fmt: skip


def after(word):
    return sorted({name.removeprefix(word) for name in NAMED if name.startswith(word)})


def functions(path):
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("name", sorted({name for name in NAMED if name.startswith("test_")}))
def test_each_test_is_there(name):
    module, _, function = name.partition("::")
    assert function in functions(ROOT / "tests" / f"{module}.py")


def test_each_claim_is_one():
    assert set(after("claim: ")) <= set(ClaimName)
    assert len(after("claim: ")) >= 7


def test_each_code_is_one():
    assert set(after("code: ")) <= set(PROBLEMS)


def test_each_alert_is_one():
    rules = (ROOT / "deploy" / "prometheus" / "beacon.rules.yml").read_text(encoding="utf-8")
    assert set(after("alert: ")) <= set(re.findall(r"alert: (\w+)", rules))
    assert after("alert: ")


def command(words):
    found = PROGRAMS[words[0]]
    for word in words[1:]:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    return found


@pytest.mark.parametrize(
    "words", sorted({name for name in NAMED if name.partition(" ")[0] in PROGRAMS and " " in name})
)
def test_each_command_is_one(words):
    assert command(words.split(" ")) is not None


@pytest.mark.parametrize("actor", ACTORS)
def test_each_actor_has_a_table_that_shows_something(actor):
    (part,) = [part for part in TEXT.split("\n## ")[1:] if actor in part.partition("\n")[0].lower()]
    rows = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| tries to")]
    assert len(rows) >= 3
    assert all(len(row.split(" |")) == 5 for row in rows)
    assert sum("`test_" in row for row in rows) >= len(rows) - 1


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_each_link_leads_somewhere(link):
    path, _, part = link.partition("#")
    target = ROOT / "deploy" / path
    assert target.is_file()
    if part:
        headings = re.findall(r"(?m)^#+ (.*)$", target.read_text(encoding="utf-8"))
        assert part in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_leads_here():
    assert "deploy/THREATS.md" in (ROOT / "README.md").read_text(encoding="utf-8")
