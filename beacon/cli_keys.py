"""`beacon keys`: the keys of a data directory, and how each is changed for a new one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from beacon.cli_common import EPILOG, directory_option, errors, json_option, print_json
from beacon.clock import SystemClock
from beacon.datadir import require_databases
from beacon.keys import master
from beacon.printing import say
from beacon.settings import load_settings


@click.group()
def main() -> None:
    """Change the keys of a data directory, one kind at a time.

    \b
    master key      encrypts what is kept secret:  beacon keys rotate-master
    hosts' tokens   beacon hosts rotate, revoke
    webhooks' keys  POST /v1/webhooks/{id}/rotate, by the host itself
    participants    sign with keys of their own, which their seals name
    """


@main.command(epilog=EPILOG)
@directory_option
@json_option
def rotate_master(directory: Path, as_json: bool) -> None:
    """Encrypt seeds, webhook secrets and kept answers under a new master.key.

    The service must not run. Whenever it is cut off, nothing is lost: run it again and it goes on. The key before is
    kept as master.ID.key: older backups of private.db are under it. Move it to where those are, and destroy it with
    them. Join links that were handed out stay good.
    """
    with errors():
        settings = load_settings(directory)
        require_databases(settings)
        done = master.rotate(settings, SystemClock())
    if as_json:
        print_json(asdict(done) | {"kept": str(done.kept)})
        return
    say(f"master key {done.key}: {done.encrypted} texts are under it now")
    say(f"the one before, {done.before}, is kept in {done.kept}")
