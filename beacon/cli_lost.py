"""`beacon lost`: going on without what is lost for good."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from beacon.backup import lost
from beacon.cli_common import EPILOG, directory_option, errors, json_option, print_json
from beacon.printing import say
from beacon.settings import load_settings


@click.group()
def main() -> None:
    """Go on without what is lost for good. Look for a backup first: nothing that is lost here comes back.

    \b
    private.db  hosts, tokens, seeds:        beacon lost private-db
    master.key  what opens the seeds:        beacon lost master-key
    log.mark    how far the log was told of: beacon log mark
    log.db      the log itself has ended, unless a copy holds all that was acknowledged
    log.key     the log has ended, unless another key signs it too: beacon keys retire-log
    """


@main.command(epilog=EPILOG)
@directory_option
@json_option
def private_db(directory: Path, as_json: bool) -> None:
    """Make a new private.db, with nothing in it, for the log that is there.

    The service must not run, and there must be none. First look for one in the backups: an older one still has the
    seeds of its time, and the hosts. With a new one every host needs a token again (beacon hosts add) and makes its
    webhooks again; open sessions wait for their timelocks. A request that is repeated from before, with the same
    Idempotency-Key, is taken for a new one.
    """
    with errors():
        done = lost.new_private(load_settings(directory))
    if as_json:
        print_json(asdict(done))
        return
    say(f"a new private.db; {done.open} open sessions are without their seeds")


@main.command(epilog=EPILOG)
@directory_option
@json_option
def master_key(directory: Path, as_json: bool) -> None:
    """Make a new master.key, and empty what only the lost one could open: seeds, webhooks, join links.

    The service must not run. Make a backup first: should the key be found, the seeds in it can be opened again. Hosts
    and their tokens stay. Open sessions wait for their timelocks; hosts make their webhooks and join links again.
    """
    with errors():
        done = lost.new_master(load_settings(directory))
    if as_json:
        print_json(asdict(done))
        return
    say(f"a new master.key; {done.open} open sessions are without their seeds, {done.webhooks} webhooks were removed")
    say("keep a copy of it elsewhere, apart from the backups")
