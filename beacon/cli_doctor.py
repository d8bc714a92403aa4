"""`beacon doctor`: what is wrong with a data directory, its machine, relays and witnesses, and what mends it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from beacon import logs
from beacon.cli_common import directory_option, errors, json_option, print_json
from beacon.clock import SystemClock
from beacon.doctor.examine import examine
from beacon.doctor.finding import Level, as_dict, worst
from beacon.doctor.machine import this_machine
from beacon.doctor.show import EPILOG, leave, show


@click.command(epilog=EPILOG)
@directory_option
@json_option
def main(directory: Path, as_json: bool) -> None:
    """Look at all that the service needs, and say what is wrong and what mends it.

    The settings; files and who may reach them; keys, and whether they are those of the databases; the end of the log
    and log.mark; the disk; memory, limits, and what keeps the clock right; the clock and every relay, by verified
    rounds; every witness; and the service itself, if it runs. It may run beside the service, or without it: it changes
    nothing and takes no lock. Relays and witnesses are asked over the network. Run it as the service's user.
    """
    logs.configure("error", "console")
    with errors():
        findings = asyncio.run(examine(directory, SystemClock(), this_machine()))
    if as_json:
        level = worst(findings)
        print_json(
            {"ok": level is Level.OK, "level": level.value, "findings": [as_dict(finding) for finding in findings]}
        )
    else:
        show(findings)
    leave(findings)
