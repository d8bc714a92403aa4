"""The command line: a data directory is made whole, refusals are one line with an exit code, the service starts and stops."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from click.testing import CliRunner, Result

from beacon.cli import main
from beacon.clock import SystemClock
from beacon.datadir import log_signer
from beacon.log.log import Log
from beacon.settings import ListenSettings, Settings, load_settings, read_key
from beacon.web.application import build_web
from beacon.web.server import serve
from beacon.web.services import SERVICES, Services
from verifier.fetch import load_chain
from verifier.note import Note, VerifierKey, open_note

ORIGIN = "beacon.example/fair"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("BEACON_")]:
        monkeypatch.delenv(name)


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    run("init", made, "--origin", ORIGIN)
    return made


# init


def test_init_makes_everything_and_prints_the_key(tmp_path: Path) -> None:
    made = tmp_path / "data"
    document = json.loads(run("init", made, "--origin", ORIGIN, "--json").stdout)
    assert document["origin"] == ORIGIN
    assert {file.name for file in made.iterdir()} >= {"beacon.toml", "log.key", "master.key", "log.db", "private.db"}
    for name in ("log.key", "master.key", "private.db"):
        assert (made / name).stat().st_mode & 0o777 == 0o600, name
    assert made.stat().st_mode & 0o777 == 0o700
    settings = load_settings(made)
    assert read_key(settings.log_key) != read_key(settings.master_key)
    assert str(log_signer(settings).vkey) == document["vkey"]
    assert settings.default_chain == "quicknet"
    log = Log.open(settings.log_db, log_signer(settings), SystemClock())
    try:
        checkpoint = log.latest()
    finally:
        log.close()
    assert checkpoint.size == 1
    assert checkpoint.note.startswith(f"{ORIGIN}\n1\n")
    assert open_note(Note.parse(checkpoint.note), [VerifierKey.parse(document["vkey"])]).verified
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_init_never_touches_what_exists(directory: Path) -> None:
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    assert "exists already" in run("init", directory, "--origin", ORIGIN, code=2).output
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before


def test_two_data_directories_share_no_key(tmp_path: Path) -> None:
    keys = set()
    for name in ("a", "b"):
        run("init", tmp_path / name, "--origin", ORIGIN)
        keys |= {read_key(tmp_path / name / "log.key"), read_key(tmp_path / name / "master.key")}
    assert len(keys) == 4


def test_init_prints_no_secret(tmp_path: Path) -> None:
    output = run("init", tmp_path / "data", "--origin", ORIGIN).output
    for name in ("log.key", "master.key"):
        assert read_key(tmp_path / "data" / name).hex() not in output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--origin", "has space"], "origin"),
        (["--origin", "a+b"], "origin"),
        (["--origin", ""], "origin"),
        (["--origin", ORIGIN, "--chain", "nothing"], "there is no chain 'nothing'; there are default"),
        (["--origin", ORIGIN, "--chain", "testnet-unchained-3s"], "needs at least one relay"),
        (["--origin", ORIGIN, "--chain", "quicknet", "--relay", "ftp://x"], "relays"),
        (["--origin", ORIGIN, "--chain", "quicknet", "--chain", "quicknet"], "the same name twice"),
        (["--origin", ORIGIN, "--chain-file", "/nonexistent.json"], "nonexistent"),
        ([], "--origin"),
    ],
)
def test_a_refused_init_leaves_nothing(tmp_path: Path, arguments: list[str], says: str) -> None:
    assert says in run("init", tmp_path / "data", *arguments, code=2).output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "value"), [("BEACON_DATA_DIR", "/elsewhere"), ("BEACON_ORIGIN", "other.example")])
def test_init_refuses_an_environment_that_contradicts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert "contradicts" in run("init", tmp_path / "data", "--origin", ORIGIN, code=2).output
    assert not list(tmp_path.iterdir())


def test_init_copies_the_info_of_another_chain(tmp_path: Path) -> None:
    info = load_chain("testnet-unchained-3s")
    file = tmp_path / "info.json"
    file.write_text(json.dumps(info.as_dict()), encoding="utf-8")
    run("init", tmp_path / "data", "--origin", ORIGIN, "--chain-file", file, "--relay", "http://127.0.0.1:1")
    file.unlink()
    [chain] = load_settings(tmp_path / "data").chains
    assert (chain.name, chain.sandbox_only) == (info.beacon_id, True)
    assert load_chain(str(chain.file)) == info


def test_test_networks_are_for_sandbox_hosts(tmp_path: Path) -> None:
    run("init", tmp_path / "data", "--origin", ORIGIN, "--chain", "quicknet", "--chain", "quicknet-t")
    assert [chain.sandbox_only for chain in load_settings(tmp_path / "data").chains] == [False, True]


def test_a_log_key_of_another_origin_is_not_the_logs(directory: Path) -> None:
    config = directory / "beacon.toml"
    config.write_text(config.read_text().replace(ORIGIN, "other.example"), encoding="utf-8")
    result = run("serve", "--dir", directory, code=1)
    assert "LogDamaged" in result.output


# serve


def free_services(stopped: list[str]) -> Services:
    return Services(
        sessions=None,  # type: ignore[arg-type]
        log=None,  # type: ignore[arg-type]
        vkey="",
        rounds=None,  # type: ignore[arg-type]
        hosts=None,  # type: ignore[arg-type]
        chains=(),
        settings=Settings.model_construct(origin=ORIGIN),
        stopped=lambda: stopped[0] if stopped else None,
    )


def application(stopped: list[str]) -> web.Application:
    app = build_web(Settings.model_construct(origin=ORIGIN))

    async def start(started: web.Application) -> None:
        started[SERVICES] = free_services(stopped)

    app.on_startup.append(start)
    return app


LISTEN = ListenSettings(port=0, shutdown_ms=5000)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_service_finishes_what_is_under_way_when_told_to_stop(number: signal.Signals) -> None:
    app = application([])
    entered, ended = asyncio.Event(), list[bool]()
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def slow(_request: web.Request) -> web.Response:
        entered.set()
        await asyncio.sleep(0.3)
        return web.Response(text="done")

    async def cleanup(_app: web.Application) -> None:
        ended.append(True)

    app.router.add_get("/slow", slow)
    app.on_cleanup.append(cleanup)
    running = asyncio.create_task(serve(app, LISTEN, url.set_result))
    async with ClientSession() as client:
        answer = asyncio.create_task(client.get(f"{await url}/slow"))
        await entered.wait()
        os.kill(os.getpid(), number)
        response = await answer
        assert (response.status, await response.text()) == (200, "done")
        assert response.headers["Server"] == "fair-beacon"
    assert await running is None
    assert ended == [True]


async def test_the_service_ends_with_the_reason_when_a_database_stops() -> None:
    stopped = list[str]()
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(application(stopped), LISTEN, url.set_result))
    async with ClientSession() as client, client.get(f"{await url}/healthz") as response:
        assert response.status == 200
    stopped.append("a commit failed")
    assert await running == "a commit failed"


async def test_an_address_that_is_taken_ends_the_start_cleanly() -> None:
    app = application([])
    ended = list[bool]()

    async def cleanup(_app: web.Application) -> None:
        ended.append(True)

    app.on_cleanup.append(cleanup)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="address already in use"):
        await serve(app, ListenSettings(port=taken.getsockname()[1]), lambda _url: None)
    assert ended == [True]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda made: (made / "master.key").unlink(), "master.key: No such file"),
        (lambda made: (made / "log.key").unlink(), "log.key: No such file"),
        (lambda made: (made / "master.key").chmod(0o644), "mode 0644 lets others at this key"),
        (lambda made: (made / "log.key").write_text("00"), "64 lower-case hex digits"),
        (lambda made: (made / "beacon.toml").write_text("orgin = 'x'"), "did you mean `origin`?"),
        (lambda made: (made / "beacon.toml").unlink(), "beacon.toml: No such file"),
    ],
)
def test_serve_does_not_start_on_a_broken_directory(directory: Path, change: object, says: str) -> None:
    change(directory)  # type: ignore[operator]
    result = run("serve", "--dir", directory, code=2)
    assert says in result.output
    assert "Traceback" not in result.output
