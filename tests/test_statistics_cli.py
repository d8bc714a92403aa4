"""`verifier statistics` as people run it: over transcripts, databases and addresses, with its exit codes and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from tests.builder import LOG_KEY, live, match
from tests.log_support import SIGNER, forge, make_log, tamper
from tests.statistics_support import Table, document_of, every_pair
from tests.test_whole_log import Relay, answer, server
from verifier.cli import main
from verifier.statistics.figures import CAVEAT

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **options: CliRunner().invoke(main, ["statistics", *map(str, arguments)], **options)


@pytest.fixture
def table() -> Table:
    table = Table()
    table.game(every_pair(10))
    table.game([[6, 6]] * 7, host="other")
    table.game([[1, 2]], sandbox=True)
    return table


@pytest.fixture
def database(tmp_path: Path, table: Table) -> Path:
    path = tmp_path / "log.db"
    make_log(path)
    forge(path, table.entries, 5)
    return path


def values(result: Result) -> dict[str, dict]:
    return {figure["name"]: figure for figure in json.loads(result.stdout)["figures"]}


def test_the_odds_alone(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    for text in ("98.95 %", "44.78 %", "8.67 %", "28.28 %", "83.68 %", CAVEAT):
        assert text in result.stdout
    figures = values(run("--rolls", 25, "--games", 20, "--json"))
    assert figures["streaks"]["streaks"][2] == {"in_a_row": 3, "p": "0.0866617775684", "p_in_games": "0.836832876372"}
    assert figures["ahead"]["ahead"][1] == {"doubles_more": 2, "p": "0.2828316286"}


def test_a_whole_database(run: Run, database: Path) -> None:
    result = run(database, "--log-key", SIGNER.vkey, "--json")
    assert result.exit_code == 0
    source, figures = json.loads(result.stdout)["source"], values(result)
    assert (source["sessions"], source["rolls"], source["left_out"], source["failed"]) == (2, 367, 1, None)
    assert "signed by the given key" in source["log"]
    assert figures["pairs-2d6"]["counts"] == [10] * 35 + [17]
    assert (figures["doubles-2d6"]["doubles"], figures["doubles-2d6"]["longest_streak"]) == (67, 7)
    assert figures["streaks"]["rolls"] == 25
    assert "not checked" in run(database).stdout


def test_one_host_one_recipe_or_tests(run: Run, database: Path) -> None:
    assert values(run(database, "--host", "other", "--json"))["doubles-2d6"]["doubles"] == 7
    assert values(run(database, "--sandbox", "--json"))["pairs-2d6"]["rolls"] == 1
    assert run(database, "--recipe", "opening").exit_code == 2
    nobody = run(database, "--host", "nobody")
    assert nobody.exit_code == 2
    assert "0 rolls of dice" in nobody.stdout
    assert "sessions left out" in nobody.stdout


def test_a_changed_database_fails(run: Run, database: Path) -> None:
    tamper(database, "UPDATE entries SET entry = CAST(replace(entry, '[1,1]', '[6,6]') AS BLOB)")
    for options in ((), ("--log-key", SIGNER.vkey)):
        result = run(database, *options)
        assert result.exit_code == 1
        assert "FAILED. The log: the entries are not those that the log's checkpoint covers." in result.stdout
    assert json.loads(run(database, "--json").stdout)["source"]["failed"]


def test_another_logs_key_fails(run: Run, database: Path) -> None:
    assert run(database, "--log-key", LOG_KEY.vkey).exit_code == 1


def test_a_transcript(run: Run, tmp_path: Path) -> None:
    table = Table()
    table.game([[1, 2]] * 99)
    session = table.game(every_pair())
    (tmp_path / "game.json").write_bytes(document_of(table, session))
    result = run("game.json", "--log-key", LOG_KEY.vkey, "--json")
    assert result.exit_code == 0
    figures = values(result)
    assert figures["pairs-2d6"]["counts"] == [1] * 36
    assert figures["streaks"]["rolls"] == 18
    assert values(run("game.json", "--rolls", 7, "--json"))["streaks"]["rolls"] == 7
    piped = run("-", input=(tmp_path / "game.json").read_bytes())
    assert piped.exit_code == 0
    assert "the log's key was not given" in piped.stdout
    assert run("game.json", "--log-key", SIGNER.vkey).exit_code == 1


def test_a_changed_transcript_fails(run: Run, tmp_path: Path) -> None:
    table = Table()
    document = document_of(table, table.game(every_pair()))
    (tmp_path / "game.json").write_bytes(document.replace(b"[1,1],[1,2]", b"[6,6],[6,6]"))
    result = run("game.json")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout


def test_sessions_of_the_real_shape(run: Run, tmp_path: Path) -> None:
    for story in (match().reveal(700), live().reveal(700)):
        (tmp_path / "a.json").write_text(json.dumps(story.document()))
        assert run("a.json", "--log-key", LOG_KEY.vkey).exit_code == 0


def test_addresses(run: Run, table: Table) -> None:
    session = table.game(every_pair(2))
    relay, document = Relay(table.entries), document_of(table, session)
    asked: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        if handler.path == f"/v1/sessions/{session}/transcript":
            answer(handler, 200, document)
        elif handler.path.startswith("/log/"):
            answer(handler, 200, relay.download(f"https://beacon.example{handler.path}", 1 << 24))
        else:
            answer(handler, 404)

    with server(respond) as base:
        for whole in ("", "/", "/log", "/log/", "/log/checkpoint"):
            result = run(f"{base}{whole}", "--log-key", SIGNER.vkey, "--json")
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout)["source"]["rolls"] == 439
        for one in (f"/s/{session}", f"/v1/sessions/{session}", f"/v1/sessions/{session}/transcript"):
            result = run(f"{base}{one}", "--json")
            assert values(result)["pairs-2d6"]["counts"] == [2] * 36
        absent = run(f"{base}/elsewhere")
        assert (absent.exit_code, absent.stdout) == (3, "")
        assert "answers 404" in absent.stderr


def test_drawings_and_the_page_are_written(run: Run, database: Path, tmp_path: Path) -> None:
    result = run(database, "--svg", tmp_path / "deep" / "drawings", "--html", tmp_path / "page.html")
    assert result.exit_code == 0
    drawn = {path.name for path in (tmp_path / "deep" / "drawings").iterdir()}
    assert drawn == {"faces-2d6.svg", "pairs-2d6.svg", "doubles-2d6.svg", "streaks.svg"}
    for name in drawn:
        ET.parse(tmp_path / "deep" / "drawings" / name)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    assert "367 rolls of dice" in page


def test_a_hostile_name_of_a_file_is_text(run: Run, table: Table, tmp_path: Path) -> None:
    name = "<script>\x1b[2J.json"
    (tmp_path / name).write_bytes(document_of(table, table.game([[1, 2]])))
    result = run(name, "--html", "page.html")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "<script" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["absent.json"], "cannot read absent.json"),
        (["--rolls", "0"], "--rolls"),
        (["--rolls", "10001"], "--rolls"),
        (["--games", "0"], "--games"),
        (["--html", "no/such/folder.html"], "cannot write"),
        (["--log-key", "nonsense"], "neither a file nor a key"),
    ],
)
def test_unusable_input(run: Run, arguments: list[str], why: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 3
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_is_no_document(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "log.db").write_bytes(b"SQLite format 3\x00" + bytes(100))
    for name in ("a.json", "log.db"):
        result = run(name)
        assert (result.exit_code, result.stdout) == (3, "")


def test_progress_of_a_long_log(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, int]] = []
    monkeypatch.setattr("verifier.cli_statistics.progress", lambda name: lambda done, of: shown.append((done, of)))
    path = tmp_path / "log.db"
    make_log(path, (600,))
    run(path)
    assert shown == [(256, 601), (512, 601), (601, 601)]
