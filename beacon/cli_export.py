"""`beacon log export`: the log as static files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from beacon.cli_common import EPILOG, Refused, directory_option, errors, json_option, print_json
from beacon.datadir import require_databases
from beacon.keys.log import log_signer
from beacon.log import export as exporting
from beacon.printing import say
from beacon.settings import load_settings
from beacon.witness.configured import load_policy


@click.command(epilog=EPILOG)
@click.argument("target", type=click.Path(path_type=Path, file_okay=False), metavar="TARGET")
@directory_option
@click.option(
    "--full-tiles",
    is_flag=True,
    help="Only full tiles, and only those since the last time: for a web server that asks the service for the rest.",
)
@click.option("--database", is_flag=True, help="Only the log as one file, TARGET/log.db: what GET /log/log.db answers.")
@json_option
def export(target: Path, directory: Path, full_tiles: bool, database: bool, as_json: bool) -> None:
    """Write the log's tiles, key and checkpoint below TARGET, as static files.

    They are what the service answers below /log/, byte for byte (C2SP tlog-tiles), so that any web server or bucket
    can serve the log. Again, it adds what is new; stopped, it goes on. It changes nothing in the data directory and may
    run beside the service. A TARGET of another log, or of a later state of this one, is refused.
    """
    if full_tiles and database:
        raise click.UsageError("--full-tiles and --database exclude each other")
    with errors():
        settings = load_settings(directory)
        require_databases(settings)
        vkey = log_signer(settings).vkey
        policy = settings.witnesses.policy
        witnesses = [one.key for one in load_policy(policy, vkey).witnesses] if policy is not None else []
        try:
            if database:
                done = exporting.export_database(settings.log_db, target, vkey)
            elif full_tiles:
                done = exporting.export_full(settings.log_db, target, vkey, _progress())
            else:
                done = exporting.export(settings.log_db, target, vkey, witnesses, _progress())
        except exporting.ExportRefused as error:
            raise Refused(str(error)) from error
    if as_json:
        print_json(asdict(done))
    else:
        say(f"{done.size} entries in {done.files} files below {target}, {done.written} of them written now")


def _progress() -> Callable[[int, int], None]:
    """Says on standard error how far it is and how long it may take: each second on a terminal, else each ten."""
    interval = 1.0 if sys.stderr.isatty() else 10.0
    begun = shown = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= interval:
            shown = now
            left = (now - begun) / done * (total - done)
            say(f"{done} of {total} files, about {left:.0f} s left", err=True)

    return show
