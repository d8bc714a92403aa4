"""deploy/systemd: systemd itself takes the units, finds them locked up, and what they start is what the program has."""

import re
import shutil
from pathlib import Path

import click
import pytest

import beacon.cli
from beacon.settings import Settings
from tests import process_support
from tests.deploy_support import DEPLOY, run
from tests.outside_tools import need_libseccomp, need_systemd_analyze
from tests.process_support import add_host, api, serving

UNITS = DEPLOY / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
TIMERS = sorted(UNITS.glob("*.timer"))
MOST_EXPOSED = 13
"""In tenths, of 100: what remains is to have a network, and files."""
ONE = {"recipes": {"d": {"kind": "dice", "count": 1, "sides": 6}}, "profile": "live", "participants": []}
LOCKS = (
    "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
    "PrivateDevices=yes", "PrivateUsers=yes", "ProtectKernelTunables=yes", "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectClock=yes", "ProtectHostname=yes",
    "ProtectProc=invisible", "RestrictNamespaces=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes",
    "LockPersonality=yes", "MemoryDenyWriteExecute=yes", "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service", "SystemCallFilter=~@privileged @resources", "LimitCORE=0",
)  # fmt: skip


def directives(unit):
    return [line for line in unit.read_text().splitlines() if line and not line.startswith(("#", "["))]


def value(unit, name):
    return [line.partition("=")[2] for line in directives(unit) if line.startswith(f"{name}=")]


def root_with(folder, units):
    """A file system of nothing but systemd's own units, these, and the programs that they start."""
    there = folder / "etc" / "systemd" / "system"
    there.mkdir(parents=True)
    shutil.copytree("/lib/systemd/system", folder / "usr" / "lib" / "systemd" / "system", symlinks=True)
    for unit in units:
        shutil.copy(unit, there)
        for started in value(unit, "ExecStart"):
            program = folder / started.split()[0].lstrip("/")
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
    return [there / unit.name for unit in units]


def verify(folder, units):
    """What systemd has to say against the units; it says it of some faults without failing."""
    analyze = need_systemd_analyze()
    return run(analyze, "verify", f"--root={folder}", "--man=no", *root_with(folder, units), code=None)


def test_systemd_has_nothing_against_the_units(tmp_path):
    assert verify(tmp_path, SERVICES + TIMERS) == ""


@pytest.mark.parametrize(
    ("old", "new"), [("TimeoutStopSec=60s", "TimeoutStopSec=soon"), ("LockPersonality", "LockPersonalty")]
)
def test_systemd_would_say_it(tmp_path, old, new):
    changed = tmp_path / "beacon.service"
    changed.write_text((UNITS / "beacon.service").read_text().replace(old, new))
    (tmp_path / "root").mkdir()
    others = [unit for unit in SERVICES if unit.name != changed.name]
    assert changed.name in verify(tmp_path / "root", [changed, *others])


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_each_service_is_locked_up(unit):
    lines = directives(unit)
    assert set(LOCKS) - set(lines) <= ({"LimitCORE=0"} if "failed" in unit.name else set())
    analyze = need_systemd_analyze()
    run(analyze, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)


def test_an_open_service_is_too_exposed(tmp_path):
    analyze = need_systemd_analyze()
    text = (UNITS / "beacon.service").read_text()
    for line in ("PrivateUsers=yes", "SystemCallFilter=@system-service", "CapabilityBoundingSet="):
        assert f"{line}\n" in text
        (tmp_path / "beacon.service").write_text(text.replace(f"{line}\n", ""))
        run(analyze, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", tmp_path / "beacon.service", code=1)


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_what_a_unit_starts_is_a_command_as_the_program_has_it(unit):
    (started,) = value(unit, "ExecStart")
    program, *words = started.split()
    if Path(program).name != "beacon":
        assert Path(program).name in {"litestream", "systemd-cat"}
        return
    command: click.Command = beacon.cli.main
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, started
    with command.make_context("beacon", words) as context:
        assert context.params["directory"] == Path("/var/lib/beacon")


# --- what they start, under the system calls that they leave it ------------------------------------------------------


def started(unit, places):
    """The module and the words that a unit starts, in other places."""
    (line,) = value(unit, "ExecStart")
    for path, place in places.items():
        line = re.sub(rf"{path}(?=\s|$)", str(place), line)
    program, *words = line.split()
    return Path(program).name, *words


async def jailed(unit, *words):
    return await process_support.run("tests.jailed", unit, *words)


async def test_the_service_and_its_timers_run_under_the_system_calls_of_their_units(tmp_path):
    need_systemd_analyze()
    need_libseccomp()
    chain, data = tmp_path / "chain.json", tmp_path / "data"
    places = {
        "/var/lib/beacon": data,
        "/var/lib/beacon-public": tmp_path / "public",
        "/var/backups/beacon": tmp_path / "backups",
    }
    async with serving("beacon", "devnet", "--port", 0, "--period", 1, "--out", chain) as devnet:
        words = ("--origin", "localhost/x", "--chain-file", chain, "--relay", devnet.url)
        code, _, errors = await process_support.run("beacon", "init", data, *words)
        assert code == 0, errors
        config = data / "beacon.toml"
        config.write_text(re.sub(r"(?m)^port = \d+$", "port = 0", config.read_text()))
        token = await add_host(data, "alice", "--sandbox")
        unit = UNITS / "beacon.service"
        async with serving("tests.jailed", unit, *started(unit, places)) as server, api(server, token) as host:
            await host.ready()
            sealed = await host.post("/v1/sessions", ONE)
            await host.post(f"/v1/sessions/{sealed['session']}/draws?wait=30", {"recipe": "d"})
            await host.get("/")
            await host.get("/log/log.db")
            for unit in (one for one in SERVICES if "@" not in one.name and value(one, "Type") == ["oneshot"]):
                code, output, errors = await jailed(unit, *started(unit, places))
                fine = {0, *map(int, value(unit, "SuccessExitStatus"))}
                assert code in fine, f"{unit.name}: exit {code}: {output}{errors}"
            assert await server.stop() == 0
    assert list((tmp_path / "backups").glob("*/manifest.json"))
    assert (tmp_path / "public" / "log.db").is_file()


FORBIDDEN = {
    "to give a file away": "__import__('os').chown('.', -1, -1)",
    "to take more of the machine": "__import__('os').nice(-1)",
    "to mount": "__import__('ctypes').CDLL(None, use_errno=True).mount(b'a', b'/', b'b', 0, 0) and int('refused')",
}


@pytest.mark.parametrize("statement", FORBIDDEN.values(), ids=FORBIDDEN.keys())
async def test_what_a_unit_forbids_is_refused(statement):
    need_systemd_analyze()
    need_libseccomp()
    code, _, errors = await jailed(UNITS / "beacon.service", "timeit", "-n1", "-r1", statement)
    assert code != 0
    assert "not permitted" in errors or "refused" in errors
    code, _, errors = await jailed(UNITS / "beacon.service", "timeit", "-n1", "-r1", "pass")
    assert code == 0, errors


# --- together ---------------------------------------------------------------------------------------------------------


def test_every_timer_has_its_service_and_every_oneshot_its_timer():
    oneshots = {unit.stem for unit in SERVICES if value(unit, "Type") == ["oneshot"] and "@" not in unit.name}
    assert {unit.stem for unit in TIMERS} == oneshots
    for unit in SERVICES:
        if "failed" not in unit.name:
            assert value(unit, "OnFailure") == ["beacon-failed@%p.service"]
            assert value(unit, "User") == ["beacon"]


def test_the_service_ends_in_its_own_time_and_is_not_started_again_for_nothing():
    (unit,) = (unit for unit in SERVICES if unit.name == "beacon.service")
    stop = 1_000 * int(value(unit, "TimeoutStopSec")[0].removesuffix("s"))
    assert stop > 2 * Settings.model_construct(origin="o.example").listen.shutdown_ms
    assert value(unit, "RestartPreventExitStatus") == ["2"]
    assert value(unit, "StateDirectoryMode") == ["0700"]


def test_only_what_asks_relays_or_is_asked_has_a_network():
    with_network = {unit.stem for unit in SERVICES if "AF_INET" in "".join(value(unit, "RestrictAddressFamilies"))}
    assert with_network == {"beacon", "beacon-rounds", "beacon-litestream"}
    for unit in SERVICES:
        assert (value(unit, "PrivateNetwork") == ["yes"]) == (unit.stem not in with_network)


def test_the_paths_of_the_units_are_those_of_nginx():
    text = (DEPLOY / "nginx" / "nginx.conf").read_text()
    roots = set(re.findall(r"root (/var/lib/\S+);", text))
    for name in ("beacon-export", "beacon-snapshot"):
        (started,) = value(UNITS / f"{name}.service", "ExecStart")
        assert roots == {started.split()[3]}
        assert value(UNITS / f"{name}.service", "UMask") == ["0022"]
