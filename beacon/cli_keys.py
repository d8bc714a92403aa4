"""`beacon keys`: the keys of a data directory, and how each is changed for a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from beacon.cli_common import EPILOG, directory_option, errors, json_option, print_json
from beacon.clock import SystemClock
from beacon.datadir import require_databases
from beacon.keys import log, master
from beacon.keys.listing import listed
from beacon.printing import say
from beacon.settings import Settings, load_settings

T = TypeVar("T")


@click.group()
def main() -> None:
    """Change the keys of a data directory, one kind at a time.

    \b
    log key         signs the log's checkpoints:   beacon keys rotate-log, then retire-log
    master key      encrypts what is kept secret:  beacon keys rotate-master
    hosts' tokens   beacon hosts rotate, revoke
    webhooks' keys  POST /v1/webhooks/{id}/rotate, by the host itself
    participants    sign with keys of their own, which each seal names
    witness.key     is never changed: make a new witness (beacon witness init)
    A host has no key that signs: what it does is logged under its token.
    """


@main.command(name="list")
@directory_option
@json_option
def list_(directory: Path, as_json: bool) -> None:
    """Show the log's keys with the sizes and times that each signed, the master key's id, each host's secrets by count.

    Nothing secret is shown. It may run beside the service.
    """
    found = _with(directory, listed)
    if as_json:
        print_json(found)
        return
    for one in found["log"]:
        until = f"{one['last']}, {_utc(one['last_time'])}" if one["last"] is not None else "now on"
        say(f"log     {one['vkey']}\n        sizes {one['first']}, {_utc(one['first_time'])}, to {until}")
    for vkey in found["log_waiting"]:
        say(f"log     {vkey}\n        signs from the next start on")
    told = found["master"]
    say(f"master  {told['id']}{'' if told['in_force'] else '  NOT the key that the seeds are under'}")
    if told["rotation_cut_off"]:
        say("        a rotation was cut off: beacon keys rotate-master goes on with it")
    for host in found["hosts"]:
        say(f"host    {host['name']}: {host['tokens']} tokens, {host['webhook_secrets']} webhook secrets")


@main.command(epilog=EPILOG)
@directory_option
@json_option
def rotate_log(directory: Path, as_json: bool) -> None:
    """Let a new key sign the log, beside the one that does. The service must not run.

    Every checkpoint is signed by both then, so that players, witnesses and programs that know only the old key go on.
    Tell them the new one (log.vkey, GET /log/vkeys), and when all have it: beacon keys retire-log. Whenever it is cut
    off, run it again. Run while two keys sign, it makes no third.
    """
    done = _with(directory, log.begin)
    if as_json:
        print_json({"vkey": str(done.key), "first": done.size, "file": str(done.kept)})
        return
    say(f"signs from size {done.size} on, beside the old key: {done.key}")
    say(f"copy {done.kept} to somewhere offline: it is log.key later")
    say("publish log.vkey, which names both; start the service; when everybody has the new key: beacon keys retire-log")


@main.command(epilog=EPILOG)
@click.option("--key", "identifier", metavar="ID", show_default="the older one", help="Its key id, 8 hex digits.")
@directory_option
@json_option
def retire_log(identifier: str | None, directory: Path, as_json: bool) -> None:
    """Let one of the two keys sign the log no more. The service must not run.

    Its last size is in log.vkey then: a checkpoint beyond it that only this key signed is not the log's. If the old key
    is in wrong hands, do it at once, and say so: who knows it alone believes whoever has it. The file is kept as
    log.ID.key: destroy it when no backup from before is kept. Whenever it is cut off, run it again.
    """
    done = _with(directory, lambda settings: log.retire(settings, identifier))
    if as_json:
        print_json({"vkey": str(done.key), "last": done.size, "file": str(done.kept)})
        return
    say(f"signs no more, its last size is {done.size}: {done.key}")
    say(f"publish log.vkey anew; destroy {done.kept} when no backup from before is kept")


@main.command(epilog=EPILOG)
@directory_option
@json_option
def rotate_master(directory: Path, as_json: bool) -> None:
    """Encrypt seeds, webhook secrets and kept answers under a new master.key.

    The service must not run. Whenever it is cut off, nothing is lost: run it again and it goes on. The key before is
    kept as master.ID.key: older backups of private.db are under it. Move it to where those are, and destroy it with
    them. Join links that were handed out stay good.
    """
    done = _with(directory, lambda settings: master.rotate(settings, SystemClock()))
    if as_json:
        print_json(asdict(done) | {"kept": str(done.kept)})
        return
    say(f"master key {done.key}: {done.encrypted} texts are under it now")
    say(f"the one before, {done.before}, is kept in {done.kept}")


def _with(directory: Path, work: Callable[[Settings], T]) -> T:
    with errors():
        settings = load_settings(directory)
        require_databases(settings)
        return work(settings)


def _utc(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "?"
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
