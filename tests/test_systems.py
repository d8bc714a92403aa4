"""Other systems' records: examples and known answers, then generated records and every single change of them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.systems_support import BUILDERS, changed, leaves
from verifier.cli import main
from verifier.errors import Code, FormatError
from verifier.systems import SYSTEMS, cube
from verifier.systems.record import Replay

NAMES = list(SYSTEMS)


def replay(system: str, record: Any, **options: str) -> Replay:
    return SYSTEMS[system].replay(
        json.dumps(record).encode(), {name.replace("_", "-"): value for name, value in options.items()}
    )


def refused(system: str, record: Any, **options: str) -> str:
    with pytest.raises(FormatError) as caught:
        replay(system, record, **options)
    return str(caught.value)


def example(system: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(SYSTEMS[system].example)
    return record


# --- what every system has -------------------------------------------------------------------------------------------


def test_every_system_has_a_builder() -> None:
    assert BUILDERS.keys() == SYSTEMS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_the_example_agrees(name: str) -> None:
    answer = SYSTEMS[name].replay(SYSTEMS[name].example.encode())
    assert answer.ok
    assert answer.rows
    assert SYSTEMS[name].does_not_prove


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_a_generated_record_agrees_and_any_change_of_it_is_found(name: str, seed: int) -> None:
    chance = random.Random(seed)
    record, options, uncertain = BUILDERS[name](chance)
    answer = SYSTEMS[name].replay(json.dumps(record).encode(), options)
    assert answer.ok, answer.message
    assert answer.reading.keys() == {option.name for option in SYSTEMS[name].options}
    certain = [path for path in leaves(record) if not uncertain & {*map(str, path), "/" + "/".join(map(str, path))}]
    for path in chance.sample(certain, min(8, len(certain))):
        try:
            found = SYSTEMS[name].replay(json.dumps(changed(record, path, chance)).encode(), options)
        except FormatError:
            continue
        assert not found.ok, path


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_a_record_of_another_shape_is_refused(name: str, seed: int) -> None:
    chance = random.Random(seed)
    record, options, _ = BUILDERS[name](chance)
    path = chance.choice(list(leaves(record)))
    parent: Any = record
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = chance.choice([None, True, {}, [], [[]], 1.5, -1])
    with pytest.raises(FormatError) as caught:
        SYSTEMS[name].replay(json.dumps(record).encode(), options)
    assert caught.value.code in {Code.RECORD, Code.HEX, Code.JSON}


@pytest.mark.parametrize("name", NAMES)
def test_unknown_fields_options_and_systems_are_refused(name: str) -> None:
    record = example(name)
    assert refused(name, record | {"surprise": 1}).startswith("record:")
    assert refused(name, record, surprise="1").startswith("option:")
    assert replay(name, record | {"system": name}).ok
    assert "system" in refused(name, record | {"system": "another"})
    for field in record:
        rest = {key: value for key, value in record.items() if key != field}
        assert _agrees_or_lacks(name, rest)


def _agrees_or_lacks(name: str, record: dict[str, Any]) -> bool:
    """Optional fields may be left out, all others are asked for."""
    try:
        return replay(name, record).ok
    except FormatError as error:
        return error.code == Code.RECORD


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.JSON),
        (b"[]", Code.RECORD),
        (b'{"seed":"a","seed":"a","rolls":[[1,1]]}', Code.JSON),
        (b'{"seed":"\\ud800","rolls":[[1,1]]}', Code.STRING),
        (b'{"seed":"a","rolls":[[1.0,1]]}', Code.JSON),
        (b'{"seed":"a","rolls":[[01,1]]}', Code.JSON),
        (b'{"seed":"a","rolls":[[1,7]]}', Code.RECORD),
        (b'{"seed":"a","rolls":[[1]]}', Code.RECORD),
        (b'{"seed":"a","rolls":[]}', Code.RECORD),
        (b'{"seed":"","rolls":[[1,1]]}', Code.RECORD),
        (b'{"seed":"\xff","rolls":[[1,1]]}', Code.JSON),
        (b'{"seed":"a","fingerprint":"AB","rolls":[[1,1]]}', Code.HEX),
        (b"[" * 100_000, Code.JSON),
    ],
)
def test_what_is_no_record_is_refused_with_a_code(data: bytes, code: Code) -> None:
    with pytest.raises(FormatError) as caught:
        SYSTEMS["cube"].replay(data)
    assert caught.value.code == code


# --- one by one ------------------------------------------------------------------------------------------------------


def test_cube_names_the_roll_that_differs() -> None:
    record = example("cube")
    record["rolls"][4] = [3, 3]
    assert replay("cube", record).message == "Differs: roll 5: expected [3,2], found [3,3]"
    record["fingerprint"] = "00" * 32
    assert replay("cube", record).message.endswith("(and 1 more)")


def test_cube_takes_no_roll_beyond_4096() -> None:
    rolls = cube.rolls("a", 4096)[0]
    assert replay("cube", {"seed": "a", "rolls": rolls}).ok
    assert "4096" in refused("cube", {"seed": "a", "rolls": [*rolls, [1, 1]]})
    games = [{"rolls": rolls[:4000]}, {"rolls": [*rolls[4000:], [1, 1]]}]
    assert "4096" in refused("cube", {"seed": "a", "games": games})


def test_a_cube_game_goes_on_where_the_one_before_ended() -> None:
    rolls = cube.rolls("a", 20)[0]
    assert replay("cube", {"seed": "a", "games": [{"rolls": rolls[:7]}, {"rolls": rolls[7:]}]}).ok
    skipped = replay("cube", {"seed": "a", "games": [{"rolls": rolls[:7]}, {"rolls": rolls[8:]}]})
    assert skipped.message.startswith("Differs: game 2 roll 1 (roll 8): expected")
    assert "either rolls or games" in refused("cube", {"seed": "a"})


def test_the_casino_takes_a_word_of_32_bytes_only() -> None:
    assert refused("casino-sdk", {"word": "ff", "rolls": [[2, 3]]}).startswith("hex:")
    assert replay("casino-sdk", {"word": "ff" * 32, "rolls": [[2, 6]]}).ok


def test_the_casino_range_must_fit_the_width() -> None:
    record = {"word": "00" * 32, "uniform": [{"n": 257, "value": 0}]}
    assert replay("casino-sdk", record).ok
    assert "--width" in refused("casino-sdk", record, width="1")


def test_nard_says_which_reading_was_used_and_another_reading_differs() -> None:
    record = example("nard")
    assert replay("nard", record).reading["number-bytes"] == "4"
    answer = replay("nard", record, number_bytes="8")
    assert answer.reading["number-bytes"] == "8"
    assert not answer.ok
    assert refused("nard", record, number_bytes="5").startswith("option:")
    assert "does not fit" in refused("nard", record | {"first": 300}, number_bytes="1")


def boardgammon(*nonces: int, **change: Any) -> dict[str, Any]:
    chance = random.Random(1)
    while True:
        record, options, _ = BUILDERS["boardgammon"](chance)
        if len(record["rolls"]) == 4 and record["first"] == 1 and options["template"] == "{client_entropy}:{nonce}":
            options.pop("template")
            return {**record, "_options": options}


def test_boardgammon_flags_gaps_receipts_and_used_commitments() -> None:
    record = boardgammon()
    options = record.pop("_options")
    assert replay("boardgammon", record, **options).ok
    gap = record | {"rolls": [record["rolls"][0], *record["rolls"][2:]], "receipts": record["receipts"][:1]}
    assert replay("boardgammon", gap, **options).message == "Differs: nonce of roll 2: expected 2, found 3"
    missing = record | {"rolls": record["rolls"][:3]}
    assert "entropy of nonce 4 against your receipt" in replay("boardgammon", missing, **options).message
    kept = record["receipts"][1] | {"client_entropy": "what I sent"}
    answer = replay("boardgammon", record | {"receipts": [kept]}, **options)
    assert answer.message.startswith('Differs: entropy of nonce 2 against your receipt: expected "what I sent", found')
    kept = record["receipts"][1] | {"commitment": "00" * 32}
    assert "commitment of nonce 2 against" in replay("boardgammon", record | {"receipts": [kept]}, **options).message
    again = {
        **record["rolls"][1],
        "server_seed": record["rolls"][0]["server_seed"],
        "commitment": record["rolls"][0]["commitment"],
    }
    rows = replay(
        "boardgammon", record | {"rolls": [record["rolls"][0], again], "receipts": record["receipts"][:1]}, **options
    ).rows
    assert ("commitment of roll 2", "that of roll 1") in [(row.what, row.found) for row in rows if not row.ok]


def test_a_boardgammon_template_knows_its_placeholders() -> None:
    for template in ("{seed}", "{", "}", "{nonce", "{{nonce}}"):
        assert refused("boardgammon", example("boardgammon"), template=template).startswith("option:")


def test_commit_reveal_counts_from_1_unless_told() -> None:
    record = example("commit-reveal") | {"first": 0}
    assert "first is an integer from 1" in refused("commit-reveal", record)
    assert replay("commit-reveal", record | {"rolls": [[1, 5]]}, count_from="0").ok


def test_stake_ranges() -> None:
    for bad in ("0", "01x", "", "4294967297", "٣"):
        assert refused("stake", example("stake"), game="integers", range=bad).startswith("option:")


def test_a_bustabit_chain_is_hashed_as_bytes_unless_told() -> None:
    assert not replay("bustabit", example("bustabit"), hashing="text").ok


def test_the_largest_bust_can_be_stated() -> None:
    games = [{"hash": "00" * 32, "bust": "4458563631096791.04"}]
    assert replay("bustabit", {"salt": "s", "games": games}).message.startswith("Differs: bust of game 1")
    assert "decimal string" in refused("bustabit", {"salt": "s", "games": [games[0] | {"bust": "1.5"}]})


def test_rfc3797_sorts_its_sources_and_compares_the_key() -> None:
    record = example("rfc3797")
    assert replay("rfc3797", record | {"sources": [[9319], [8, 2, 5, 12, 10]]}).ok
    assert replay("rfc3797", record | {"key": "9319./2.5.8.10.12./"}).ok
    assert replay("rfc3797", record | {"key": "9319./"}).message.startswith("Differs: key")
    assert "twice" in refused("rfc3797", record | {"pool": ["Ann", "Ann"]})


# --- command line ----------------------------------------------------------------------------------------------------


def run(*arguments: str, data: str = "") -> Result:
    return CliRunner().invoke(main, ["replay", *arguments], input=data)


@pytest.mark.parametrize("name", NAMES)
def test_help_teaches_the_format_with_an_example_that_agrees(name: str) -> None:
    shown = run(name, "--help").output
    text = shown[shown.index("Example:") + len("Example:") :].split("\n\n")[0]
    assert json.loads("".join(line.strip() for line in text.splitlines())) == json.loads(SYSTEMS[name].example)
    assert run(name, "-", data=text).exit_code == 0
    for line in SYSTEMS[name].does_not_prove:
        assert f"- {line}" in shown
    for option in SYSTEMS[name].options:
        assert f"--{option.name}" in shown


def test_help_lists_the_systems() -> None:
    shown = run("--help").output
    assert all(f"  {name} " in shown for name in NAMES)


def test_exit_codes() -> None:
    assert run("cube", "-", data=SYSTEMS["cube"].example).exit_code == 0
    differs = run("cube", "-", data='{"seed":"a","rolls":[[6,6],[6,6],[6,6]]}')
    assert (differs.exit_code, differs.output.startswith("Differs: roll 1: expected ")) == (1, True)
    unusable = run("cube", "-", data="{}")
    assert (unusable.exit_code, "unusable input: record:" in unusable.output) == (3, True)
    assert run("cube", "/nowhere").exit_code == 3
    assert run("nothing", "-").exit_code == 3
    assert run("nard", "-", "--dice", "cubes", data="{}").exit_code == 3


def test_json_has_rows_and_reading() -> None:
    answer = json.loads(run("nard", "-", "--json", "--order", "number-first", data=SYSTEMS["nard"].example).output)
    assert answer["system"] == "nard"
    assert answer["reading"]["order"] == "number-first"
    assert answer["ok"] is False
    assert [row["what"] for row in answer["rows"]] == ["commitment", "roll 1"]
    assert answer["does_not_prove"] == list(SYSTEMS["nard"].does_not_prove)


def test_the_terminal_obeys_no_record() -> None:
    record = {"pool": ["\u001b[31mred", "b"], "key": "k", "selected": ["b", "\u001b[31mred"]}
    plain = (
        run("rfc3797", "-", data=json.dumps(record)).output
        + run("rfc3797", "-", data=json.dumps(record | {"selected": ["\u001b[31mred", "b"]})).output
    )
    assert "\u001b[31mred" not in plain
    assert "\u202e" not in run("cube", "-", data='{"\u202e":1,"seed":"a","rolls":[[1,1]]}').output
