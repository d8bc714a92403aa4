"""The command line: make, run and look after a beacon service."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypeVar

import click

from beacon import logs
from beacon.cli_backup import backup, restore
from beacon.cli_common import EPILOG, Failed, Vkeys, directory_option, errors, json_option, print_json
from beacon.cli_export import export
from beacon.clock import SystemClock
from beacon.datadir import initialise, own_chain, pinned_chain, require_databases
from beacon.keys.log import log_signer
from beacon.log import fsck, highwater
from beacon.permissions import refuse_exposed
from beacon.printing import say
from beacon.relay_urls import check_relay_url
from beacon.sessions.book import Book
from beacon.settings import CONFIG_NAME, check_origin, config_file, load_settings
from beacon.witness.configured import load_policy
from verifier.log_keys import LogKeys, LogTrust

T = TypeVar("T")

ELSEWHERE: Final = {
    "check-config": "beacon.cli_check_config",
    "demo": "beacon.demo",
    "devnet": "beacon.cli_devnet",
    "doctor": "beacon.cli_doctor",
    "hosts": "beacon.cli_hosts",
    "keys": "beacon.cli_keys",
    "lost": "beacon.cli_lost",
    "rounds": "beacon.cli_rounds",
    "witness": "beacon.cli_witness",
}
"""Commands of other modules, which the others need not wait for; each is called `main` there."""
DEFAULT_CHAIN: Final = "quicknet"


class _WithOthers(click.Group):
    """The commands of this module, and those of ELSEWHERE."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command: click.Command = import_module(ELSEWHERE[cmd_name]).main
        return command


@click.group(cls=_WithOthers, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fair-beacon")
def main() -> None:
    """A randomness beacon for games.

    A host seals a seed, the seal names a future drand round, players contribute, the round decides, the seed is
    revealed; every step is in a public log that anyone can check with `verifier`.

    \b
    See it work:      beacon demo
    Run a service:    beacon init DIR --origin beacon.example/fair
                      beacon doctor --dir DIR
                      beacon hosts add alice --dir DIR
                      beacon serve --dir DIR
    """


def _checked(check: Callable[[str], str]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """An option's callback that applies `check` to its value, or to each of its values."""

    def callback(_: click.Context, option: click.Parameter, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        try:
            return check(value) if isinstance(value, str) else tuple(check(one) for one in value)
        except ValueError as error:
            raise click.UsageError(f"{option.opts[0]}: {error}") from error

    return callback


def _origin(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """The origin that is given, or asked for where somebody can answer."""
    if value is None and not ctx.resilient_parsing and _on_terminal():
        value = click.prompt("origin of the log, for ever, such as beacon.example/fair", type=str)
    if value is None and not ctx.resilient_parsing:
        raise click.MissingParameter(ctx=ctx, param=option)
    return None if value is None else str(_checked(check_origin)(ctx, option, value))


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def _once(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if values.count(value) > 1:
            raise click.UsageError(f"{option.opts[0]}: {value} is given twice")
    return values


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--origin",
    callback=_origin,
    help="Name of the log, for ever: a schema-less URL under a domain of yours, such as beacon.example/fair. "
    "On a terminal it is asked for.",
)
@click.option(
    "--chain",
    "names",
    multiple=True,
    callback=_once,
    show_default=DEFAULT_CHAIN,
    help="A drand chain that ships with fair-beacon; the first one is the default. May be repeated.",
)
@click.option(
    "--chain-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The info of another chain, such as a devnet's. Only sandbox hosts may use it. Needs --relay.",
)
@click.option(
    "--relay",
    "relays",
    multiple=True,
    callback=_checked(check_relay_url),
    help="Base URL of a relay, in place of drand's own. May be repeated.",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file that names the witnesses to ask, with their keys, URLs and quorum (C2SP tlog-policy); it is copied. "
    "Left out, nobody is asked until `witnesses.policy` names one.",
)
@json_option
def init(
    directory: Path,
    origin: str,
    names: tuple[str, ...],
    chain_file: Path | None,
    relays: tuple[str, ...],
    policy: Path | None,
    as_json: bool,
) -> None:
    """Make a data directory: settings, keys, databases, and the log's first entry. Nobody else can look into it.

    It prints the log's public key (vkey). Publish it where players find it without your service: it is what they
    check transcripts with. A directory that is there must be empty; a data directory is never made again.

    \b
    beacon.toml   settings, every key explained
    log.vkey      the log's public key, to publish and for `verifier check --log-key`
    log.key       signs the log; whoever has it can sign another history. Back it up offline.
    master.key    encrypts the seeds of running sessions. Keep it apart from the databases' backups.
    log.db        the public log; private.db: hosts, hashed tokens, encrypted seeds
    log.mark      how far the log was acknowledged: an older copy of log.db is refused
    """
    with errors():
        if policy is not None:
            load_policy(policy, None)
        chains = [own_chain(chain_file, relays)] if chain_file else []
        if relays and not chains:
            names = names or (DEFAULT_CHAIN,)
        chains += [pinned_chain(name, relays) for name in names]
        vkey = initialise(directory, origin, chains, SystemClock(), policy)
    if as_json:
        print_json({"directory": str(directory), "origin": origin, "vkey": vkey})
        return
    say(f"made {directory}\nlog key (publish it): {vkey}\nnext:")
    for number, step in enumerate(_next_steps(directory, witnessed=policy is not None), 1):
        say(f"  {number}. {step}")


def _next_steps(directory: Path, *, witnessed: bool) -> list[str]:
    place = f"--dir {quote(str(directory))}"
    witnesses = (
        f"give {directory / 'log.vkey'} to the witnesses, who cosign only logs that they know"
        if witnessed
        else f"name witnesses: witnesses.policy in {directory / CONFIG_NAME}, and give them log.vkey"
    )
    return [
        f"copy log.key and master.key of {directory} to somewhere offline, apart from each other",
        witnesses,
        f"beacon doctor {place}",
        f"beacon hosts add NAME {place}",
        f"beacon serve {place}",
    ]


@main.command(epilog=EPILOG)
@directory_option
def serve(directory: Path) -> None:
    """Run the service until it is told to stop (SIGTERM, SIGINT).

    It prints the URL that it listens on, once it does. When a write's outcome cannot be known, it stops by itself with
    exit code 1: starting it again reads the log, checks it and goes on, or says what is wrong.
    """
    from beacon.app import create_app  # noqa: PLC0415 - the other commands start faster without it
    from beacon.web.relay_watch import watch_relays  # noqa: PLC0415
    from beacon.web.server import serve as run  # noqa: PLC0415

    with errors("set listen.port (0 takes a free one)"):
        settings = load_settings(directory)
        refuse_exposed(settings, config_file(directory).resolve())
        logs.configure(settings.logging.level, settings.logging.format)
        app = create_app(settings, SystemClock())
        app.cleanup_ctx.append(watch_relays)
        reason = asyncio.run(run(app, settings.listen, lambda url: say(f"listening on {url}"), settings.metrics))
    if reason is not None:
        raise Failed(f"stopped: {reason}")


main.add_command(backup)
main.add_command(restore)


@main.group()
def log() -> None:
    """Look after the log of a data directory."""


log.add_command(export)


@log.command(epilog=EPILOG)
@directory_option
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check this copy of a log.db instead; needs --log-key.",
)
@click.option(
    "--log-key",
    type=Vkeys(),
    help="The log's public key to check --file with, or a file that holds it, or them (log.vkey).",
)
@click.option("--no-rounds", is_flag=True, help="Do not verify the signatures of the drand rounds: the slow part.")
@json_option
def check(directory: Path, file: Path | None, log_key: LogKeys | None, no_rounds: bool, as_json: bool) -> None:
    """Check a whole log: every entry, hash, checkpoint, signature, cosignature, drand round and derived row.

    In a data directory also whether it holds what log.mark says was acknowledged. It changes nothing, and may run
    beside the service.
    """
    with errors():
        path, key = _log_to_check(directory, file, log_key)
        report = fsck.check(
            path,
            key,
            [Book()],
            _progress_of("entries"),
            rounds=not no_rounds,
            round_progress=_progress_of("signatures of rounds"),
        )
        if file is None and (reason := highwater.complaint(path, load_settings(directory).log_mark, key)) is not None:
            report.add("mark", None, reason)
    if as_json:
        print_json(asdict(report) | {"ok": report.ok})
    else:
        say(f"{report.size} entries, {report.checkpoints} checkpoints, {report.rounds} rounds")
        if report.cosignatures:
            say(f"{report.cosignatures} cosignatures of witnesses verified")
        say(f"root {report.root}")
        for finding in report.findings:
            say(f"DAMAGED {finding}")
        _show_rounds(report)
        passed = "every check passed" if report.rounds_checked else "every check that was made passed"
        found = len(report.findings) + report.more
        say(passed if report.ok else f"{found} finding{'s' * (found != 1)}")
    if not report.ok:
        raise click.exceptions.Exit(1)


def _show_rounds(report: fsck.Report) -> None:
    if report.rounds_checked:
        say(f"{report.rounds_verified} signatures of rounds verified")
    else:
        say(f"NOT CHECKED: {report.rounds_unverified} signatures of rounds in entries and tables (--no-rounds)")
    if report.rounds_checked and report.rounds_foreign:
        say(f"NOT CHECKED: {report.rounds_foreign} rounds of chains whose info is not in the log: beacon rounds verify")


def _progress_of(what: str) -> Callable[[int, int], None]:
    """Shows how far it is, on standard error: each second on a terminal, else each ten; nothing where it is short."""
    interval = 1.0 if sys.stderr.isatty() else 10.0
    shown = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= interval:
            shown = time.monotonic()
            say(f"{done} of {total} {what}", err=True)

    return show


@log.command()
@directory_option
@json_option
def rebuild(directory: Path, as_json: bool) -> None:
    """Rebuild the stored hashes and the derived tables of the log from its entries.

    The service must not run. Entries and checkpoints are not touched, and nothing is unless they agree.
    """
    with errors():
        path, key = _log_to_check(directory, None, None)
        size = fsck.rebuild(path, key, [Book()])
    if as_json:
        print_json({"entries": size})
    else:
        say(f"rebuilt from {size} entries")


@log.command()
@directory_option
@json_option
def mark(directory: Path, as_json: bool) -> None:
    """Make a lost log.mark anew, from the log as it stands.

    log.mark says how far the log was acknowledged, and the service does not start from a log that lacks that. Make it
    only if log.db is surely the newest there was, with its log.db-wal: from an older one the service would sign a
    second history, which receipts and witnesses expose. A mark that is there is never replaced.
    """
    with errors():
        path, key = _log_to_check(directory, None, None)
        size = highwater.make(path, load_settings(directory).log_mark, key)
    if as_json:
        print_json({"entries": size})
    else:
        say(f"the mark is at size {size}")


def _log_to_check(directory: Path, file: Path | None, log_key: LogKeys | None) -> tuple[Path, LogTrust]:
    if file is not None and log_key is not None:
        return file, log_key
    if file is not None or log_key is not None:
        raise click.UsageError("--file and --log-key belong together")
    settings = load_settings(directory)
    require_databases(settings)
    return settings.log_db, log_signer(settings).vkey
