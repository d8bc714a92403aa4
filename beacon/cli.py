"""The command line: make, run and look after a beacon service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from beacon import logs
from beacon.clock import SystemClock
from beacon.datadir import initialise, own_chain, pinned_chain
from beacon.settings import ConfigurationError, load_settings
from beacon.store.errors import AlreadyOpen, StoreError

EPILOG: Final = """\b
Exit codes:
  0  done, or stopped because it was told to
  1  damaged, failed, or stopped because it had to; the reason is on standard error
  2  wrong usage, settings or key files; nothing was done
"""


def directory_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--dir`, the same for every command that works on a data directory."""
    return click.option(
        "--dir",
        "-d",
        "directory",
        type=click.Path(path_type=Path),
        default=Path(),
        show_default="the current one",
        help="The data directory that `beacon init` made, or its beacon.toml.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, the same wherever a machine may read."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fair-beacon")
def main() -> None:
    """A randomness beacon for games.

    A host seals a seed, the seal names a future drand round, players contribute, the round decides, the seed is
    revealed; every step is in a public log that anyone can check with `verifier`.

    \b
    See it work:      beacon demo
    Run a service:    beacon init DIR --origin beacon.example/fair
                      beacon hosts add alice --dir DIR
                      beacon serve --dir DIR
    """


@main.command(epilog=EPILOG)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--origin",
    required=True,
    help="Name of the log, for ever: a schema-less URL under a domain of yours, such as beacon.example/fair.",
)
@click.option(
    "--chain",
    "names",
    multiple=True,
    show_default="quicknet",
    help="A drand chain that ships with fair-beacon; the first one is the default. May be repeated.",
)
@click.option(
    "--chain-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The info of another chain, such as a devnet's. Only sandbox hosts may use it. Needs --relay.",
)
@click.option("--relay", "relays", multiple=True, help="Base URL of a relay, in place of drand's own. May be repeated.")
@json_option
def init(
    directory: Path,
    origin: str,
    names: tuple[str, ...],
    chain_file: Path | None,
    relays: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a data directory: settings, keys, databases, and the log's first entry.

    It prints the log's public key (vkey). Publish it where players find it without your service: it is what they
    check transcripts with.

    \b
    beacon.toml   settings, every key explained
    log.key       signs the log; whoever has it can sign another history. Back it up offline.
    master.key    encrypts the seeds of running sessions. Keep it apart from the databases' backups.
    log.db        the public log; private.db: hosts, hashed tokens, encrypted seeds
    """
    with _errors():
        chains = [own_chain(chain_file, relays)] if chain_file else []
        chains += [pinned_chain(name, relays) for name in names]
        vkey = initialise(directory, origin, chains, SystemClock())
    if as_json:
        _print_json({"directory": str(directory), "origin": origin, "vkey": vkey})
        return
    click.echo(f"made {directory}\nlog key (publish it): {vkey}")
    click.echo(f"next: beacon hosts add NAME --dir {directory}; beacon serve --dir {directory}")


@main.command(epilog=EPILOG)
@directory_option
def serve(directory: Path) -> None:
    """Run the service until it is told to stop (SIGTERM, SIGINT).

    It prints the URL that it listens on, once it does. When a write's outcome cannot be known, it stops by itself with
    exit code 1: starting it again reads the log, checks it and goes on, or says what is wrong.
    """
    from beacon.app import create_app  # noqa: PLC0415 - the other commands start faster without it
    from beacon.web.server import serve as run  # noqa: PLC0415

    with _errors():
        settings = load_settings(directory)
        logs.configure(settings.logging.level, settings.logging.format)
        app = create_app(settings, SystemClock())
        reason = asyncio.run(run(app, settings.listen, lambda url: click.echo(f"listening on {url}")))
    if reason is not None:
        raise click.ClickException(f"stopped: {reason}")


@main.group(epilog=EPILOG)
def hosts() -> None:
    """Who may write: game servers and their tokens.

    These commands work beside a running service, and take effect at once.
    """


@main.group(epilog=EPILOG)
def log() -> None:
    """Look after the log of a data directory."""


@main.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> None:
    """Play a short game on this machine, without the internet, and check it with the real verifier."""
    from beacon.demo import main as run  # noqa: PLC0415 - the other commands start faster without it

    run(args=list(arguments), prog_name="beacon demo")


@contextmanager
def _errors() -> Iterator[None]:
    """Refusals as one line and an exit code, never as a traceback."""
    try:
        yield
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    except AlreadyOpen as error:
        raise click.UsageError(f"{error}; is the service running on this directory?") from error
    except (StoreError, OSError) as error:
        raise click.ClickException(f"{type(error).__name__}: {error}") from error


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))
