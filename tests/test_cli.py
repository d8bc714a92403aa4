"""The command line: a data directory is made whole, refusals are one line with an exit code, the service starts and stops."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from click.testing import CliRunner, Result

from beacon.app import create_app
from beacon.cli import _progress_of, main
from beacon.clock import SystemClock
from beacon.datadir import pinned_chain
from beacon.keys.log import log_signer
from beacon.log import fsck
from beacon.log.log import Log
from beacon.sessions.book import Book
from beacon.sessions.changes import Changes
from beacon.sessions.waiting import Waiting
from beacon.settings import ConfigurationError, ListenSettings, Settings, load_settings, read_key, write_key
from beacon.store.errors import SchemaRefused
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.webhooks import Encrypted, Endpoint, WebhookStore
from beacon.store.writer import Writer
from beacon.web.application import build_web
from beacon.web.server import serve
from beacon.web.services import SERVICES, Services
from verifier.fetch import TEST_NETWORKS, chains_directory, load_chain, pinned_chains
from verifier.note import Cosigner, Note, SigningKey, VerifierKey, open_note

ORIGIN = "beacon.example/fair"
CHAIN_FILE = str(chains_directory() / "default.json")


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
    assert {file.name for file in made.iterdir()} >= {
        "beacon.toml",
        "log.key",
        "log.vkey",
        "master.key",
        "log.db",
        "log.mark",
        "private.db",
    }
    for name in ("log.key", "master.key", "private.db"):
        assert (made / name).stat().st_mode & 0o777 == 0o600, name
    assert made.stat().st_mode & 0o777 == 0o700
    settings = load_settings(made)
    assert read_key(settings.log_key) != read_key(settings.master_key)
    assert str(log_signer(settings).vkey) == document["vkey"]
    assert settings.default_chain == "quicknet"
    log = Log.open(settings.log_db, log_signer(settings), SystemClock(), mark=settings.log_mark)
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


def policy_file(folder: Path, more: str = "") -> Path:
    file = folder / "mine.policy"
    key = Cosigner(b"\x31" * 32, "w1.example").vkey
    file.write_text(f"{more}witness w1 {key} http://127.0.0.1:1\nquorum w1\n", encoding="utf-8")
    return file


def modes(made: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in made.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_the_modes_are_right_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        run("init", tmp_path / "data", "--origin", ORIGIN, "--policy", policy_file(tmp_path))
    finally:
        os.umask(old)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    found = modes(tmp_path / "data")
    assert {name for name, mode in found.items() if mode & 0o077 == 0} >= {
        "log.key", "master.key", "private.db", "private.db.lock", "beacon.toml",
    }  # fmt: skip
    assert all(mode & 0o022 == 0 for mode in found.values()), found
    assert found["witnesses.policy"] == found["log.vkey"] == 0o644


def test_init_takes_a_policy_of_witnesses_and_says_what_comes_next(tmp_path: Path) -> None:
    file = policy_file(tmp_path)
    output = run("init", tmp_path / "da ta", "--origin", ORIGIN, "--policy", file).output
    settings = load_settings(tmp_path / "da ta")
    assert settings.witnesses.policy == tmp_path / "da ta" / "witnesses.policy"
    assert settings.witnesses.policy.read_bytes() == file.read_bytes()
    for step in ("log.vkey to the witnesses", "beacon doctor", "beacon hosts add NAME", "beacon serve", "log.key and"):
        assert step in output
    assert output.count(f"--dir '{tmp_path / 'da ta'}'") == 3
    assert "name witnesses: witnesses.policy in" in run("init", tmp_path / "b", "--origin", ORIGIN).output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense\n", "mine.policy"),
        (f"log {SigningKey(bytes(32), 'other.example').vkey}\n", "names other logs than the one to be made"),
        (None, "mine.policy: No such file"),
    ],
)
def test_init_refuses_a_policy_that_is_none(tmp_path: Path, text: str | None, says: str) -> None:
    file = policy_file(tmp_path, text or "")
    if text is None:
        file.unlink()
    assert says in run("init", tmp_path / "data", "--origin", ORIGIN, "--policy", file, code=2).output
    assert not (tmp_path / "data").exists()


def test_init_fills_an_empty_directory_such_as_a_volume(tmp_path: Path) -> None:
    made = tmp_path / "data"
    (made / "lost+found").mkdir(parents=True)
    made.chmod(0o777)
    inode = made.stat().st_ino
    run("init", made, "--origin", ORIGIN)
    assert (made.stat().st_ino, made.stat().st_mode & 0o777) == (inode, 0o700)
    assert not [name for name in modes(made) if name.startswith(".")]
    settings = load_settings(made)
    assert settings.log_db.exists()
    assert log_signer(settings)
    assert "a data directory is made once" in run("init", made, "--origin", ORIGIN, code=2).output


@pytest.mark.parametrize("what", ["file in it", "file"])
def test_init_refuses_what_is_there_and_no_data_directory(tmp_path: Path, what: str) -> None:
    made = tmp_path / "data"
    if what == "file":
        made.write_text("mine")
    else:
        made.mkdir()
        (made / "mine").write_text("mine")
    assert "no empty directory" in run("init", made, "--origin", ORIGIN, code=2).output
    assert [path.name for path in tmp_path.rglob("*")] == (["data"] if what == "file" else ["data", "mine"])


def test_a_refused_init_leaves_an_empty_directory_empty(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    run("init", tmp_path / "data", "--origin", ORIGIN, "--chain", "testnet-unchained-3s", code=2)
    assert not list((tmp_path / "data").iterdir())


def test_init_asks_for_the_origin_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--origin" in run("init", tmp_path / "data", code=2).output
    monkeypatch.setattr("beacon.cli._on_terminal", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_args, **_options: "asked.example/fair")
    run("init", tmp_path / "data")
    assert load_settings(tmp_path / "data").origin == "asked.example/fair"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--origin", "https://beacon.example/fair"], "--origin: leave out https://, as in beacon.example/fair"),
        (["--origin", "HTTP://x"], "--origin: leave out HTTP://, as in beacon.example/fair"),
        (["--origin", "has space"], "--origin: a letter or digit, then"),
        (["--origin", "a+b"], "--origin: a letter or digit, then"),
        (["--origin", ""], "--origin: a letter or digit, then"),
        (["--origin", ORIGIN, "--relay", "foo"], "--relay: a relay's URL begins with https:// (or http://)"),
        (["--origin", ORIGIN, "--relay", "http://x", "--relay", "http://"], "--relay: a relay's URL has a host"),
        (["--origin", ORIGIN, "--chain-file", "CHAIN"], "the chain default needs at least one"),
        (
            ["--origin", ORIGIN, "--chain-file", "CHAIN", "--chain", "default", "--relay", "http://x"],
            "two chains have the name default",
        ),
        (["--origin", ORIGIN, "--chain", "nothing"], "there is no chain 'nothing'; there are default"),
        (["--origin", ORIGIN, "--chain", "testnet-unchained-3s"], "needs at least one relay"),
        (["--origin", ORIGIN, "--chain", "quicknet", "--relay", "ftp://x"], "--relay: a relay's URL begins"),
        (["--origin", ORIGIN, "--chain", "quicknet", "--chain", "quicknet"], "--chain: quicknet is given twice"),
        (["--origin", ORIGIN, "--chain-file", "/nonexistent.json"], "nonexistent"),
        ([], "--origin"),
    ],
)
def test_a_refused_init_leaves_nothing(tmp_path: Path, arguments: list[str], says: str) -> None:
    arguments = [CHAIN_FILE if argument == "CHAIN" else argument for argument in arguments]
    output = run("init", tmp_path / "data", *arguments, code=2).output
    assert says in output
    assert ".data." not in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("BEACON_DATA_DIR", "/elsewhere", "contradicts"),
        ("BEACON_ORIGIN", "other.example", "contradicts"),
        ("BEACON_DEFAULT_CHAIN", "other", "BEACON_DEFAULT_CHAIN: the default chain 'other' is not among"),
        ("BEACON_LISTEN__PORT", "http", "BEACON_LISTEN__PORT: a whole number is due"),
    ],
)
def test_init_refuses_an_environment_that_contradicts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    output = run("init", tmp_path / "data", "--origin", ORIGIN, code=2).output
    assert says in output
    assert ".data." not in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lambda place: OSError(errno.ENOSPC, "No space left on device", str(place)), 2),
        (lambda place: SchemaRefused(f"{place}: altered"), 1),
        (lambda place: ConfigurationError(f"{place}: refused"), 2),
    ],
)
def test_init_names_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Callable[[Path], Exception], code: int
) -> None:
    def failing(path: Path, _key: bytes) -> None:
        assert path.parent.parent == tmp_path.resolve()
        raise error(path)

    monkeypatch.setattr("beacon.datadir.write_key", failing)
    output = run("init", tmp_path / "data", "--origin", ORIGIN, code=code).output
    assert f"Error: {tmp_path / 'data'}/master.key: " in output
    assert ".data." not in output
    assert not list(tmp_path.iterdir())


def test_relays_alone_are_the_default_chains(tmp_path: Path) -> None:
    run("init", tmp_path / "data", "--origin", ORIGIN, "--relay", "http://127.0.0.1:1")
    [chain] = load_settings(tmp_path / "data").chains
    assert (chain.name, chain.relays) == ("quicknet", ["http://127.0.0.1:1"])


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


@pytest.mark.parametrize("what", ["origin", "variable", "key"])
def test_a_log_that_was_signed_otherwise_is_a_matter_of_configuration(
    directory: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    signed = log_signer(load_settings(directory)).vkey
    if what == "origin":
        config = directory / "beacon.toml"
        config.write_text(config.read_text().replace(ORIGIN, "other.example"), encoding="utf-8")
    elif what == "variable":
        monkeypatch.setenv("BEACON_ORIGIN", "other.example")
    else:
        (directory / "log.key").unlink()
        write_key(directory / "log.key", bytes(32))
    for command in (["serve"], ["log", "check"], ["log", "rebuild"]):
        output = run(*command, "--dir", directory, code=2).output
        assert f"this log was signed as {ORIGIN} (key id {signed.key_id.hex()})" in output
        assert "origin or log.key is from another directory" in output
        assert "Usage:" not in output


def test_a_checkpoint_that_cannot_be_read_is_damage(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "log.db")) as db, db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE checkpoints SET note = 'nothing'")
        for _, sql in triggers:
            db.execute(sql)
    output = run("serve", "--dir", directory, code=1).output
    assert "Error: the log is damaged: checkpoint 1 is not one that" in output
    assert "Damaged" not in output


# serve


def free_services(stopped: list[str]) -> Services:
    return Services(
        sessions=None,  # type: ignore[arg-type]
        waiting=Waiting(None, Changes()),  # type: ignore[arg-type]
        answers=None,  # type: ignore[arg-type]
        log=None,  # type: ignore[arg-type]
        vkey="",
        rounds=None,  # type: ignore[arg-type]
        hosts=None,  # type: ignore[arg-type]
        webhooks=None,  # type: ignore[arg-type]
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


async def test_the_whole_service_ends_when_its_log_stops(directory: Path) -> None:
    settings = without_internet(directory)
    app = create_app(settings, SystemClock())
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(app, settings.listen, url.set_result))
    await url
    app[SERVICES].log.writer.stop("a commit failed: disk I/O error")
    assert await running == "a commit failed: disk I/O error"
    assert fsck.check(settings.log_db, log_signer(settings).vkey, [Book()]).ok


def test_a_stop_by_itself_is_exit_1_with_the_reason(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopping(*_arguments: object) -> str:
        return "a commit failed: disk I/O error"

    monkeypatch.setattr("beacon.web.server.serve", stopping)
    monkeypatch.setattr("beacon.logs.configure", lambda *_arguments: None)
    assert "stopped: a commit failed: disk I/O error" in run("serve", "--dir", directory, code=1).output


def without_internet(directory: Path) -> Settings:
    config = directory / "beacon.toml"
    text = re.sub(r"(?m)^relays = .*$", 'relays = ["http://127.0.0.1:9"]', config.read_text(encoding="utf-8"))
    config.write_text(re.sub(r"(?m)^port = .*$", "port = 0", text), encoding="utf-8")
    return load_settings(directory)


def test_devnet_and_service_as_programs(tmp_path: Path) -> None:
    """Both print where they listen, and end with exit code 0 when told to; two services do not share a directory."""
    chain, data = tmp_path / "chain.json", tmp_path / "data"
    with program("devnet", "--port", "0", "--period", "2", "--out", str(chain)) as (devnet, relay):
        run("init", data, "--origin", ORIGIN, "--chain-file", chain, "--relay", relay)
        without_port(data)
        with program("serve", "--dir", str(data)) as (service, url):
            assert json.loads(fetch(f"{url}/healthz")) == {"healthy": True, "stopped": None}
            assert fetch(f"{url}/log/checkpoint").startswith(f"{ORIGIN}\n1\n".encode())
            token = json.loads(run("hosts", "add", "alice", "--sandbox", "--dir", data, "--json").stdout)["token"]
            assert token
            assert "is the service running" in run("serve", "--dir", data, code=2).output
            assert "is the service running" in run("log", "rebuild", "--dir", data, code=2).output
            run("log", "check", "--dir", data)
            service.send_signal(signal.SIGTERM)
            assert service.wait(20) == 0
        devnet.send_signal(signal.SIGINT)
        assert devnet.wait(20) == 0
    run("log", "rebuild", "--dir", data)
    run("log", "check", "--dir", data)


def without_port(directory: Path) -> None:
    config = directory / "beacon.toml"
    config.write_text(re.sub(r"(?m)^port = .*$", "port = 0", config.read_text(encoding="utf-8")), encoding="utf-8")


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        data: bytes = response.read()
        return data


@contextmanager
def program(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """One of the commands in a process of its own, and the URL that it says it listens on."""
    command = [sys.executable, "-m", "beacon", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = next(line for line in process.stdout if line.startswith("listening on ")).split()[-1]
            yield process, url
        finally:
            process.kill()


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


@pytest.mark.parametrize("name", ["log.db", "private.db"])
@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_lost_database_is_never_made_anew(directory: Path, name: str, change: Callable[[Path], object]) -> None:
    change(directory / name)
    for command in (["serve"], ["hosts", "list"], ["log", "check"]):
        assert "Restore it; it is never made anew." in run(*command, "--dir", directory, code=2).output
    assert not (directory / name).exists() or (directory / name).stat().st_size == 0


# hosts


def test_a_token_is_shown_once_and_stored_as_a_hash(directory: Path) -> None:
    shown = run("hosts", "add", "alice", "--dir", directory)
    token = shown.stdout.strip()
    assert token.startswith("fb_")
    assert token not in run("hosts", "list", "--dir", directory).output
    for file in directory.iterdir():
        assert token.encode() not in file.read_bytes()


def test_hosts_are_listed_and_revoked(directory: Path) -> None:
    run("hosts", "add", "alice", "--dir", directory)
    run("hosts", "add", "alice", "--dir", directory)
    run("hosts", "add", "bob", "--sandbox", "--dir", directory)
    [alice, bob] = json.loads(run("hosts", "list", "--dir", directory, "--json").stdout)["hosts"]
    assert (alice["name"], alice["sandbox"], len(alice["tokens"])) == ("alice", False, 2)
    assert (bob["name"], bob["sandbox"], len(bob["tokens"])) == ("bob", True, 1)
    first = alice["tokens"][0]["id"]
    assert "revoked 1 of" in run("hosts", "revoke", "alice", "--token", first, "--dir", directory).output
    assert (
        f"no valid token {first}"
        in run("hosts", "revoke", "alice", "--token", first, "--dir", directory, code=1).output
    )
    assert json.loads(run("hosts", "revoke", "alice", "--dir", directory, "--json").stdout)["revoked"] == 1
    assert run("hosts", "list", "--dir", directory).output.count("revoked") == 2


def test_webhooks_are_shown_and_deleted_without_their_secrets(directory: Path) -> None:
    run("hosts", "add", "alice", "--dir", directory)
    run("hosts", "add", "bob", "--dir", directory)
    made = Endpoint("wh_1", "alice", "https://example.com/hook", ("session.draw",), 1_000, 7, 2_000, None,
                    Encrypted(b"nonce nonce.", b"the ciphertext"), None, None)  # fmt: skip
    with (
        closing(Writer(directory / "private.db", PRIVATE_SCHEMA, exclusive=False)) as writer,
        closing(Reader(writer.path)) as reader,
    ):
        store = WebhookStore(writer, reader, SystemClock())
        asyncio.run(store.add(made, 8))
        asyncio.run(store.record("wh_1", 7, 2_000, []))
    shown = run("hosts", "webhooks", "alice", "--dir", directory).output
    assert shown.split("  ")[0] == "wh_1"
    assert "failing since 1970-01-01 00:00:02Z" in shown
    assert "https://example.com/hook" in shown
    as_json = run("hosts", "webhooks", "alice", "--dir", directory, "--json").stdout
    assert "cipher" not in shown + as_json
    assert json.loads(as_json)["webhooks"][0]["position"] == 7
    assert json.loads(run("hosts", "webhooks", "bob", "--dir", directory, "--json").stdout)["webhooks"] == []
    assert (
        "has no webhook wh_1" in run("hosts", "webhooks", "bob", "--delete", "wh_1", "--dir", directory, code=1).output
    )
    assert "no host carol" in run("hosts", "webhooks", "carol", "--dir", directory, code=2).output
    assert run("hosts", "webhooks", "alice", "--delete", "wh_1", "--dir", directory).output == "deleted wh_1\n"
    assert run("hosts", "webhooks", "alice", "--dir", directory).output == ""


def test_a_token_with_scopes_a_note_and_an_end(directory: Path) -> None:
    run("hosts", "add", "alice", "--scope", "draw", "--note", "tables", "--expires", "2h", "--dir", directory)
    [alice] = json.loads(run("hosts", "list", "--dir", directory, "--json").stdout)["hosts"]
    [token] = alice["tokens"]
    assert (token["scopes"], token["note"]) == (["draw"], "tables")
    assert token["expires"] - token["created"] == 7_200_000
    shown = run("hosts", "list", "--dir", directory).output
    assert re.search(rf"{token['id']}  draw  made .*  valid  until .*  tables$", shown, re.MULTILINE)


def test_a_token_is_rotated(directory: Path) -> None:
    old = run("hosts", "add", "alice", "--scope", "seal", "--note", "n", "--dir", directory).stdout.strip()
    answer = json.loads(run("hosts", "rotate", "alice", "--grace", "30m", "--dir", directory, "--json").stdout)
    assert answer["token"] not in ("", old)
    assert (answer["host"], answer["grace_ms"]) == ("alice", 1_800_000)
    [alice] = json.loads(run("hosts", "list", "--dir", directory, "--json").stdout)["hosts"]
    ends = {token["id"]: token["expires"] is not None for token in alice["tokens"]}
    assert {(tuple(token["scopes"]), token["note"]) for token in alice["tokens"]} == {(("seal",), "n")}
    assert ends.pop(answer["replaces"])
    assert list(ends.values()) == [False]
    both = run("hosts", "rotate", "alice", "--dir", directory, code=2).output
    assert "alice has 2 valid tokens: choose one with --token" in both
    new = next(iter(ends))
    assert run("hosts", "rotate", "alice", "--token", new, "--grace", "0s", "--dir", directory).stdout.startswith("fb_")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "carol", "--scope", "write"], "'write' is not one of"),
        (["add", "carol", "--expires", "2 weeks"], "is no duration"),
        (["add", "carol", "--expires", "4000d"], "is no duration"),
        (["add", "carol", "--note", "a\tb"], "printable"),
        (["rotate", "nobody"], "there is no host nobody"),
        (["rotate", "carol", "--token", "12345678"], "no valid token 12345678"),
        (["rotate", "carol", "--grace", "-1s"], "is no duration"),
        (["add", "0bad"], "a letter, then up to 63"),
        (["add", "carol", "--sandbox"], "not a sandbox host, for ever: leave --sandbox out"),
        (["revoke", "nobody"], "there is no host nobody"),
        (["add"], "Missing argument"),
    ],
)
def test_wrong_host_commands_change_nothing(directory: Path, arguments: list[str], says: str) -> None:
    run("hosts", "add", "carol", "--dir", directory)
    before = run("hosts", "list", "--dir", directory, "--json").stdout
    assert says in run("hosts", *arguments, "--dir", directory, code=2).output
    assert run("hosts", "list", "--dir", directory, "--json").stdout == before


# log


def test_a_damaged_log_is_exit_1_with_the_place(directory: Path, tmp_path: Path) -> None:
    vkey = str(log_signer(load_settings(directory)).vkey)
    copy = tmp_path / "copy.db"
    shutil.copyfile(directory / "log.db", copy)
    assert "every check passed" in run("log", "check", "--file", copy, "--log-key", vkey).output
    with closing(sqlite3.connect(copy)) as db, db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE entries SET entry = CAST(replace(entry, 'beacon', 'bacon') AS BLOB) WHERE i = 0")
    result = run("log", "check", "--file", copy, "--log-key", vkey, code=1)
    assert "DAMAGED entry 0" in result.output
    assert json.loads(run("log", "check", "--file", copy, "--log-key", vkey, "--json", code=1).stdout)["ok"] is False


def test_a_forged_round_in_the_table_is_damage_and_what_is_not_checked_is_said(directory: Path, tmp_path: Path) -> None:
    vkey = str(log_signer(load_settings(directory)).vkey)
    copy = tmp_path / "copy.db"
    shutil.copyfile(directory / "log.db", copy)
    chain = pinned_chains()["quicknet"].hash
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("INSERT INTO rounds VALUES (?, 5, zeroblob(48), NULL)", (bytes(32),))
    output = run("log", "check", "--file", copy, "--log-key", vkey).output
    assert (
        "0 signatures of rounds verified\nNOT CHECKED: 1 rounds of chains whose info is not in the log: beacon rounds verify"
        in output
    )
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("INSERT INTO rounds VALUES (?, 5, zeroblob(48), NULL)", (chain,))
    output = run("log", "check", "--file", copy, "--log-key", vkey, code=1).output
    assert "DAMAGED round 5: stored for quicknet, does not verify" in output
    output = run("log", "check", "--file", copy, "--log-key", vkey, "--no-rounds").output
    assert "NOT CHECKED: 2 signatures of rounds" in output
    assert "every check that was made passed" in output
    assert "every check passed" not in output


def test_the_check_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr("beacon.cli.time.monotonic", lambda: now[0])
    show = _progress_of("entries")
    for second in range(25):
        now[0] = float(second)
        show(second, 50)
    assert capsys.readouterr().err.splitlines() == ["10 of 50 entries", "20 of 50 entries"]


def test_a_log_under_another_key_is_not_accepted(directory: Path) -> None:
    other = str(SigningKey(bytes(32), ORIGIN).vkey)
    assert "DAMAGED" in run("log", "check", "--file", directory / "log.db", "--log-key", other, code=1).output
    assert "belong together" in run("log", "check", "--log-key", other, code=2).output
    for wrong in ("x", "a+b", "x" * 5000, str(directory / "beacon.toml"), str(directory / "nothing.vkey")):
        output = run("log", "check", "--file", directory / "log.db", "--log-key", wrong, code=2).output
        assert "Invalid value for '--log-key': neither a verifier key nor a file that holds one" in output


def test_the_logs_key_is_in_a_file_that_every_check_takes(directory: Path, tmp_path: Path) -> None:
    vkey = str(log_signer(load_settings(directory)).vkey)
    assert (directory / "log.vkey").read_text(encoding="utf-8") == f"{vkey}\n"
    moved = tmp_path / "a+b.vkey"
    shutil.copyfile(directory / "log.vkey", moved)
    for given in (vkey, directory / "log.vkey", moved):
        checked = run("log", "check", "--file", directory / "log.db", "--log-key", given)
        assert "every check passed" in checked.output


def test_every_group_teaches_without_arguments() -> None:
    for arguments in ([], ["hosts"], ["log"]):
        result = CliRunner().invoke(main, arguments)
        assert "Commands:" in result.output
    assert "Exit codes:" in run("--help").output
    assert "demo" in run("--help").output


@pytest.mark.parametrize("relays", [(), ("https://relay.example",)])
@pytest.mark.parametrize("name", ["quicknet", "quicknet-t", "testnet-default"])
def test_a_test_network_is_for_sandbox_hosts_whoever_relays_it(name: str, relays: tuple[str, ...]) -> None:
    assert pinned_chain(name, relays).sandbox_only is (name in TEST_NETWORKS)


# log.mark


def grown(directory: Path) -> bytes:
    """A log of three entries; log.db as it was when it had one."""
    settings = load_settings(directory)
    older = settings.log_db.read_bytes()
    log = Log.open(settings.log_db, log_signer(settings), SystemClock(), mark=settings.log_mark)
    for number in range(2):
        entry = '{"v":1,"type":"log","time":%d,"origin":"%d"}'
        log.writer.submit(
            log._appending(lambda time, entry=entry, number=number: [(entry % (time, number)).encode()]), plain=True
        ).result()
    log.close()
    return older


def test_an_older_log_is_refused_with_what_to_do(directory: Path) -> None:
    newest = grown(directory), (directory / "log.db").read_bytes()
    (directory / "log.db").write_bytes(newest[0])
    output = run("serve", "--dir", directory, code=1).output
    assert "the log has size 1, and size 3 was acknowledged" in output
    assert "Put the newest log.db back" in output
    assert "Traceback" not in output
    checked = json.loads(run("log", "check", "--dir", directory, "--json", code=1).stdout)
    [finding] = checked["findings"]
    assert (finding["where"], finding["message"][:36]) == ("mark", "the log has size 1, and size 3 was a")
    assert "log.mark is there and says size 3" in run("log", "mark", "--dir", directory, code=1).output
    key = directory / "log.vkey"
    assert "every check passed" in run("log", "check", "--file", directory / "log.db", "--log-key", key).output


def test_a_lost_mark_is_refused_and_made_anew(directory: Path) -> None:
    grown(directory)
    (directory / "log.mark").unlink()
    for command in ("serve", "check"):
        arguments = ["serve"] if command == "serve" else ["log", "check"]
        assert "log.mark is missing" in run(*arguments, "--dir", directory, code=1).output
    assert run("log", "mark", "--dir", directory).output == "the mark is at size 3\n"
    (directory / "log.mark").unlink()
    assert json.loads(run("log", "mark", "--dir", directory, "--json").stdout) == {"entries": 3}
    settings = load_settings(directory)
    Log.open(settings.log_db, log_signer(settings), SystemClock(), mark=settings.log_mark).close()
