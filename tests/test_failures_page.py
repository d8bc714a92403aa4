"""The page of failures and the code agree: every reason, code, field, command and test that it names is there."""

import re
from pathlib import Path

from click.testing import CliRunner

from beacon.cli import main
from beacon.errors import PROBLEMS
from beacon.rounds.devnet_lies import LIES
from beacon.rounds.refusals import Reason
from beacon.rounds.relays import MAX_BODY_BYTES
from beacon.settings import Settings
from tests import test_drand_failures as failures

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "beacon" / "rounds" / "FAILURES.md").read_text(encoding="utf-8")


def test_every_reason_is_explained_once():
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(str(reason) for reason in Reason)


def test_every_code_that_it_names_is_one_of_the_api():
    named = {"clock-unsure", "no-verified-round", "chain-broken", "rounds-damaged", "chain-retired"}
    assert named <= set(PROBLEMS)
    assert all(f"`{code}`" in PAGE for code in named)


def test_every_field_that_it_names_is_in_the_answer():
    source = (ROOT / "beacon" / "web" / "chain_routes.py").read_text(encoding="utf-8")
    for field in ("trouble", "stale", "newest_round", "expected_round", "overdue", "signed_twice"):
        assert f"`{field}`" in PAGE
        assert f'"{field}"' in source


def test_its_limits_are_those_of_the_code():
    assert MAX_BODY_BYTES == 8 * 1024
    assert f"`{Settings(origin='o').spool.name}/`" in PAGE


def test_every_command_that_it_shows_is_one():
    lines = re.findall(r"^ {4}beacon (\w+)((?: [a-z]+)?)(.*)$", PAGE, re.MULTILINE)
    assert len(lines) == 6
    for first, second, rest in lines:
        words = [first, second.strip()] if second.strip() else [first]
        shown = CliRunner().invoke(main, [*words, "--help"])
        assert shown.exit_code == 0, words
        for option in re.findall(r"(--[a-z-]+)", rest.split("#")[0]):
            assert option in shown.output, (words, option)
    assert "randomness" in LIES


def test_every_row_has_its_test():
    text = Path(failures.__file__).read_text(encoding="utf-8")
    assert "`tests/test_drand_failures.py`" in PAGE
    for words in (
        "late",
        "halts",
        "never_comes_back",
        "disagree",
        "lies",
        "down",
        "two_valid",
        "fast",
        "slow",
        "genesis",
        "leaps",
    ):
        assert re.search(rf"def test_\w*{words}", text), words
