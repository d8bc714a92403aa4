"""deploy/systemd: systemd itself takes the units, finds them locked up, and what they start is what the program has."""

import re
import shutil
from pathlib import Path

import click
import pytest

import beacon.cli
from beacon.settings import Settings
from tests.deploy_support import DEPLOY, run
from tests.outside_tools import need_systemd_analyze

UNITS = DEPLOY / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
TIMERS = sorted(UNITS.glob("*.timer"))
MOST_EXPOSED = 13
"""In tenths, of 100: what remains is to have a network, and files."""
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
