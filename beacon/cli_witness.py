"""`beacon witness`: a witness for other logs (C2SP tlog-witness)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import click
from pydantic import ValidationError
from sqlite_utils import Database

from beacon import logs
from beacon.cli_common import EPILOG, Failed, Vkeys, directory, errors, json_option, print_json
from beacon.clock import SystemClock
from beacon.printing import say
from beacon.settings import ConfigurationError, ListenSettings, explain
from beacon.store.schema import open_readonly, reading
from beacon.witness import directory as places
from verifier.log_keys import LogKey, LogKeys
from verifier.note import VerifierKey

T = TypeVar("T")


_directory_option: Final = directory("The directory that `beacon witness init` made.")


@click.group()
def main() -> None:
    """Be a witness for other logs, so that none of them can show two histories.

    A witness keeps the newest checkpoint of each log and cosigns one that continues it. It speaks C2SP tlog-witness, so
    that it serves any log of that kind, and its cosignatures are cosignature/v1.

    \b
      beacon witness init DIR --name witness.example/w1
      beacon witness add-log log.vkey --dir DIR
      beacon witness serve --dir DIR
    """


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--name", required=True, help="Name of the witness, for ever: a schema-less URL, such as witness.example/w1."
)
@click.option(
    "--log",
    "keys",
    multiple=True,
    type=Vkeys(),
    help="Witness the log of this VKEY, or of the file that holds it. May be repeated.",
)
@json_option
def init(directory: Path, name: str, keys: tuple[LogKeys, ...], as_json: bool) -> None:
    """Make the DIRECTORY of a new witness: key, database. Prints its public key, which policies name.

    \b
    witness.key   signs; whoever has it can say that it saw what it did not
    witness.vkey  the public key, to publish
    witness.db    what was signed. Never put an older copy back: make a new witness instead.
    """
    with errors():
        vkey = places.make(directory, name)
        with places.opened(directory, SystemClock(), exclusive=True) as (_, writer):
            for key in (key for given in keys for key in _signing(given)):
                places.add_log(writer, key, key.name, SystemClock())
    if as_json:
        print_json({"directory": str(directory), "vkey": str(vkey)})
    else:
        say(str(vkey))


@main.command(name="add-log")
@click.argument("vkeys", type=Vkeys(), metavar="VKEY")
@click.option("--origin", show_default="the key's name", help="The first line of the log's checkpoints.")
@_directory_option
def add_log(vkeys: LogKeys, origin: str | None, directory: Path) -> None:
    """Witness the log that signs with VKEY from now on, also while the witness runs. A log may have several keys.

    VKEY is the log's public key (name+id+key), or a file that holds it (log.vkey). Of a file with several keys those
    are taken that sign now. A log that changes its key says so in time: add the new one, and drop the old one when it
    was retired (drop-key).
    """
    with errors(), places.opened(directory, SystemClock(), exclusive=False) as (_, writer):
        for vkey in _signing(vkeys):
            new = places.add_log(writer, vkey, origin or vkey.name, SystemClock())
            say(f"{'witnesses' if new else 'witnessed already:'} {origin or vkey.name}")


@main.command(name="drop-key")
@click.argument("vkey", metavar="VKEY")
@_directory_option
def drop_key(vkey: str, directory: Path) -> None:
    """Take no checkpoint any more that only VKEY signed: a key that its log has retired, or that somebody else has.

    VKEY is the key itself (name+id+key), or its line of log.vkey. The last key of a log stays. Also while the witness
    runs.
    """
    with errors(), places.opened(directory, SystemClock(), exclusive=False) as (_, writer):
        key = LogKey.parse(vkey).key
        places.drop_key(writer, key)
    say(f"dropped {key}")


@main.command(name="list")
@_directory_option
@json_option
def list_(directory: Path, as_json: bool) -> None:
    """Show the logs, up to where each was cosigned, and how many checkpoints did not fit."""
    found = _read(directory, places.logs)
    if as_json:
        print_json({"logs": [asdict(log) for log in found]})
        return
    for log in found:
        seen = "nothing cosigned yet" if log.size is None else f"size {log.size}, {_utc(log.time or 0)}"
        say(f"{log.origin}  {seen}{f'  {log.forks} DO NOT FIT: beacon witness forks' if log.forks else ''}")


@main.command()
@_directory_option
@json_option
def forks(directory: Path, as_json: bool) -> None:
    """Show the evidence against logs: checkpoints that they signed and that do not fit what was cosigned.

    Two of one size with different roots (`fork`) prove to anybody that the log showed two histories. A larger one whose
    proof does not lead there (`unproven`) may be that, or a proof that went wrong: ask the log for a right one.
    """
    found = _read(directory, places.forks)
    if as_json:
        print_json({"forks": [asdict(fork) for fork in found]})
        return
    for fork in found:
        say(f"{fork.kind}: {fork.origin}, {_utc(fork.time)}\n\n{fork.ours}\n{fork.theirs}")


@main.command(epilog=EPILOG)
@_directory_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option(
    "--port", default=8090, show_default=True, type=click.IntRange(0, 65_535), help="TCP port; 0: a free one."
)
@click.option(
    "--rate",
    default=1_200,
    show_default=True,
    type=click.IntRange(0, 60_000_000),
    help="Requests a minute that one network address may send; 0: no limit.",
)
@click.option(
    "--trusted-proxies", default="", help="Networks of reverse proxies whose X-Forwarded-For is believed, by spaces."
)
def serve(directory: Path, host: str, port: int, rate: int, trusted_proxies: str) -> None:
    """Serve POST /add-checkpoint (C2SP tlog-witness) until it is told to stop (SIGTERM, SIGINT).

    It prints the URL that it listens on: what logs put behind the key in their policy. GET /HASH/checkpoint, with the
    SHA-256 of an origin, shows what was cosigned last. TLS is a reverse proxy's business. Request bodies have at most
    64 KiB, and ten seconds to arrive.
    """
    from beacon.web.server import serve as run  # noqa: PLC0415 - the other commands start faster without it
    from beacon.web.witness_routes import build_witness  # noqa: PLC0415

    with errors():
        logs.configure("info", "json")
        listen = _listen(host, port, trusted_proxies)
        with places.opened(directory, SystemClock(), exclusive=True) as (witness, writer):
            app = build_witness(witness, rate, trusted_proxies)
            reason = asyncio.run(
                run(app, listen, lambda url: say(f"listening on {url}"), stopped=lambda: writer.stopped)
            )
    if reason is not None:
        raise Failed(f"stopped: {reason}")


def _listen(host: str, port: int, trusted_proxies: str) -> ListenSettings:
    try:
        return ListenSettings(host=host, port=port, trusted_proxies=trusted_proxies)
    except ValidationError as error:
        raise ConfigurationError(explain(error)) from error


def _read(directory: Path, query: Callable[[Database], T]) -> T:
    path = directory / "witness.db"
    with errors(), reading(path), open_readonly(path) as db:
        return query(db)


def _signing(given: LogKeys) -> list[VerifierKey]:
    """Those of a log's keys that were not retired."""
    return [one.key for one in given.keys if one.last is None]


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
