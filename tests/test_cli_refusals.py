"""What the command line refuses: in plain words, with usage only where the usage is wrong; and without the service."""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import time
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from beacon.__main__ import EXTRA
from beacon.cli import main
from beacon.cli_common import errors
from beacon.store.errors import AlreadyOpen, CannotOpen, DatabaseDamaged, HostUnknown, LogDamaged, WriteFailed
from beacon.store.schema import refusal
from beacon.wording import plain
from verifier.errors import Code, FormatError

ROOT = Path(__file__).parent.parent
ORIGIN = "beacon.example/fair"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("BEACON_")]:
        monkeypatch.delenv(name)


def run(*arguments: str | Path, code: int) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result.output


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    run("init", tmp_path / "data", "--origin", ORIGIN, "--relay", "http://127.0.0.1:9", code=0)
    return tmp_path / "data"


# Without the service's dependencies


def distribution(requirement: str) -> str:
    return requirement.partition(">")[0].partition("[")[0].lower().replace("_", "-")


def test_the_extra_is_what_the_project_lists() -> None:
    listed = {distribution(one) for one in PROJECT["project"]["optional-dependencies"]["service"]}
    found = packages_distributions()
    assert {name for module in EXTRA for name in (one.lower().replace("_", "-") for one in found[module])} == listed
    module, _, function = PROJECT["project"]["scripts"]["beacon"].partition(":")
    assert (module, function) == ("beacon.__main__", "main")


def bare(folder: Path, without: set[str]) -> dict[str, str]:
    """An environment whose Python (with -S) finds this project and all that is installed, but for some modules."""
    for installed in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(installed).iterdir():
            if entry.name.partition(".")[0] not in without and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    for package in ("beacon", "verifier", "config"):
        (folder / package).unlink(missing_ok=True)
        (folder / package).symlink_to(ROOT / package)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize(
    ("without", "arguments"),
    [
        (EXTRA, ["--help"]),
        (EXTRA, ["serve", "--dir", "data"]),
        ({"structlog"}, ["--version"]),
        ({"aiohttp"}, ["demo"]),
        ({"aiohttp"}, ["serve", "--dir", "data"]),
    ],
    ids=lambda value: "-".join(sorted(value)),
)
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, without: set[str], arguments: list[str]) -> None:
    command = [sys.executable, "-S", "-m", "beacon", *arguments]
    environment = bare(tmp_path, without)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "the service is not installed: pip install 'fair-beacon[service]'\n"


def test_another_module_that_is_missing_is_no_matter_of_the_extra(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-m", "beacon", "--help"]
    environment = bare(tmp_path, {"cryptography"})
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "No module named 'cryptography'" in done.stderr


def test_what_the_distributions_are_made_of_is_there() -> None:
    targets = PROJECT["tool"]["hatch"]["build"]["targets"]
    for name in targets["sdist"]["include"]:
        assert (ROOT / name).exists(), name
    for targeted in (targets["sdist"]["include"], targets["wheel"]["packages"]):
        assert {"beacon", "verifier"} <= set(targeted)
    assert (ROOT / "verifier" / "PROTOCOL.md").is_file()


# Usage only where the usage is wrong


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["init", "DIR", "--origin", ORIGIN], False),
        (["init", "DIR/new", "--origin", ORIGIN, "--chain", "nothing"], False),
        (["init", "DIR/none/new", "--origin", ORIGIN], False),
        (["serve", "--dir", "DIR/nothing"], False),
        (["hosts", "revoke", "nobody", "--dir", "DIR"], False),
        (["hosts", "add", "0", "--dir", "DIR"], False),
        (["log", "check", "--file", "DIR/beacon.toml", "--log-key", "VKEY"], None),
        (["devnet", "--port", "0", "--out", "DIR/none/chain.json"], False),
        (["devnet", "--host", "203.0.113.7", "--port", "0"], False),
        (["init", "DIR/new", "--origin", "https://x"], True),
        (["init", "DIR/new", "--origin", ORIGIN, "--relay", "foo"], True),
        (["init", "DIR/new", "--origin", ORIGIN, "--chain", "quicknet", "--chain", "quicknet"], True),
        (["init", "DIR/new"], True),
        (["log", "check", "--dir", "DIR", "--log-key", "VKEY"], True),
        (["log", "check", "--file", "DIR/log.db", "--log-key", "x"], True),
        (["hosts", "add"], True),
        (["nothing"], True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_the_usage_is_shown_only_where_it_is_wrong(directory: Path, arguments: list[str], usage: bool | None) -> None:
    names = {"DIR": str(directory), "VKEY": str(directory / "log.vkey")}
    given = [names.get(one, one.replace("DIR/", f"{directory}/")) for one in arguments]
    output = run(*given, code=1 if usage is None else 2)
    assert ("Usage: " in output) is bool(usage), output
    assert "Errno" not in output
    assert "Traceback" not in output


@pytest.mark.parametrize("name", ["log.key", "master.key", "log.db", "beacon.toml"])
def test_what_is_missing_is_told_without_usage(directory: Path, name: str) -> None:
    (directory / name).unlink()
    output = run("serve", "--dir", directory, code=2)
    assert output.startswith(f"Error: {directory / name}: No such file or directory.")


# Errors of the system


def test_a_port_that_is_taken_says_which_setting(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = directory / "beacon.toml"
        config.write_text(config.read_text().replace("port = 8080", f"port = {port}"), encoding="utf-8")
        command = [sys.executable, "-m", "beacon"]
        serve = subprocess.run(
            [*command, "serve", "--dir", directory], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
        )
        devnet = run("devnet", "--port", str(port), code=2)
    sentence = f"Error: port {port} of 127.0.0.1 is taken: "
    assert serve.returncode == 2
    assert serve.stderr.splitlines()[-1] == f"{sentence}set listen.port (0 takes a free one)"
    assert devnet == f"{sentence}choose another port (0 takes a free one)\n"


def bind(number: int, address: str) -> OSError:
    """What asyncio raises for an address that it cannot listen on."""
    return OSError(number, f"error while attempting to bind on address {address}: {os.strerror(number).lower()}")


def behind(error: sqlite3.Error) -> Exception:
    """What the store raises because of an error of SQLite."""
    try:
        raise refusal(Path("/a/log.db"), error) from error
    except (CannotOpen, DatabaseDamaged) as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/a/b"), 2, "/a/b: No such file or directory"),
        (PermissionError(errno.EACCES, "Permission denied", b"/a"), 2, "/a: Permission denied"),
        (OSError(errno.EXDEV, "Invalid cross-device link", "/a", None, "/b"), 1, "/a: /b: Invalid cross-device link"),
        (OSError(errno.ENOSPC, "No space left on device", "/a"), 1, "/a: No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), 1, "Too many open files"),
        (OSError(), 1, "the system refused an operation"),
        (OSError("just a text"), 1, "just a text"),
        (socket.gaierror(-2, "Name or service not known"), 2, "there is no address of that name: Name or service"),
        (bind(errno.EADDRINUSE, "('::1', 80, 0, 0)"), 2, "port 80 of ::1 is taken: choose another port"),
        (bind(errno.EACCES, "('127.0.0.1', 80)"), 2, "port 80 of 127.0.0.1 is not for this user: choose another port"),
        (bind(errno.EADDRNOTAVAIL, "('10.9.9.9', 80)"), 2, "10.9.9.9 is no address of this machine"),
        (OSError("could not bind on any address out of [('10.9.9.9', 80)]"), 2, "10.9.9.9 is no address of this"),
        (
            AlreadyOpen("/a/log.db is open"),
            2,
            "/a/log.db is open; is the service running on this directory? Then stop it",
        ),
        (HostUnknown("there is no host x"), 2, "there is no host x"),
        (FormatError(Code.USAGE, "cannot read x"), 2, "cannot read x"),
        (LogDamaged("an entry"), 1, "the log is damaged: an entry"),
        (behind(sqlite3.DatabaseError("file is not a database")), 1, "/a/log.db: file is not a database"),
        (WriteFailed("nothing was written: too many"), 1, "nothing was written: too many"),
        (sqlite3.OperationalError("database is locked"), 1, "database is locked"),
    ],
    ids=repr,
)
def test_every_failure_is_a_plain_sentence(error: Exception, code: int, says: str) -> None:
    with pytest.raises(click.ClickException) as caught, errors():
        raise error
    assert says in caught.value.format_message()
    assert caught.value.exit_code == code
    assert not isinstance(caught.value, click.UsageError)
    for inside in ("Errno", "[", type(error).__name__, "Error: "):
        assert inside not in caught.value.format_message()


def test_a_file_that_is_no_database_is_told_without_class_names() -> None:
    with pytest.raises(click.ClickException) as caught, errors():
        raise behind(sqlite3.DatabaseError("file is not a database"))
    assert caught.value.format_message() == "the database is damaged: /a/log.db: file is not a database"


def test_words_of_ours_stay_as_they_are() -> None:
    for message in ("a seal names at least one recipe", "1 to 256 bytes are due", "Input of another kind"):
        assert plain(message) == message


# Relays


def test_relays_that_cannot_be_reached_are_warned_of(directory: Path) -> None:
    config = directory / "beacon.toml"
    config.write_text(config.read_text().replace("port = 8080", "port = 0"), encoding="utf-8")
    log = directory / "log.txt"
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "beacon", "serve", "--dir", directory]
        service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream, cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        found: list[dict[str, object]] = []
        while not found and time.monotonic() < deadline:
            time.sleep(0.1)
            lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
            found = [line for line in map(json.loads, lines) if line["event"] == "no relay gives a round"]
    finally:
        service.terminate()
        service.wait(30)
    assert found[0]["level"] == "warning"
    assert found[0]["relays"] == ["http://127.0.0.1:9: unreachable"]
    assert found[0]["trouble"] == "no round was verified yet; are the relays reachable?"
