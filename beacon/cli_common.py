"""What the commands share: options, errors as one line and an exit code, JSON for machines, stopping when told to."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from beacon.printing import say
from beacon.settings import ConfigurationError
from beacon.store.errors import (
    AlreadyOpen,
    DatabaseDamaged,
    HostExists,
    HostUnknown,
    LogDamaged,
    NameRefused,
    StoreError,
    TokenUnknown,
)
from beacon.wording import is_operators, of_error, of_system
from verifier.errors import VerifierError
from verifier.fetch import read_file
from verifier.log_keys import LogKeys
from verifier.terminal import printable_lines

MAX_VKEY_FILE: Final = 10_000

EPILOG: Final = """\b
Exit codes:
  0  done, or stopped because it was told to
  1  damaged, failed, or stopped because it had to; the reason is on standard error
  2  wrong usage, settings or key files; nothing was done
"""


def directory(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--dir`, the same wherever a command works on a directory. what: which one, as a sentence."""
    return click.option(
        "--dir",
        "-d",
        "directory",
        type=click.Path(path_type=Path),
        default=Path(),
        show_default="the current one",
        help=what,
    )


directory_option: Final = directory("The data directory that `beacon init` made, or its beacon.toml.")


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, the same wherever a machine may read."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


class Vkeys(click.ParamType[LogKeys]):
    """A log's verifier key (C2SP signed-note) on the command line, or a file that holds its keys, one a line."""

    name = "vkey"

    def convert(self, value: str | LogKeys, param: click.Parameter | None, ctx: click.Context | None) -> LogKeys:
        """Parse it, or what the file of that name says."""
        if isinstance(value, LogKeys):
            return value
        try:
            return LogKeys.parse(_content(value))
        except VerifierError as error:
            self.fail(f"neither a verifier key nor a file that holds one: {error.message}", param, ctx)


def _content(value: str) -> str:
    try:
        found = Path(value).is_file()
    except OSError:  # longer than a file's name can be
        found = False
    return read_file(value, MAX_VKEY_FILE).decode("utf-8", "replace").strip() if found else value


class Failed(click.ClickException):
    """It went wrong; the message may hold what others wrote."""

    def format_message(self) -> str:
        """The message, as `say` prints it."""
        return printable_lines(super().format_message())


class Refused(Failed):
    """Settings, key files, names or a running service stand in the way. The command line itself is in order."""

    exit_code = 2


@contextmanager
def errors(port_advice: str = "choose another port (0 takes a free one)") -> Iterator[None]:
    """Refusals as one line and an exit code, never as a traceback. port_advice: for a port that is taken."""
    try:
        yield
    except (ConfigurationError, HostExists, HostUnknown, NameRefused, TokenUnknown, VerifierError) as error:
        raise Refused(str(error)) from error
    except AlreadyOpen as error:
        raise Refused(f"{error}; is the service running on this directory? Then stop it first") from error
    except DatabaseDamaged as error:
        what = "the log" if isinstance(error, LogDamaged) else "the database"
        raise Failed(f"{what} is damaged: {of_error(error)}") from error
    except (StoreError, sqlite3.Error) as error:
        raise Failed(of_error(error)) from error
    except OSError as error:
        refused = Refused if is_operators(error) else Failed
        raise refused(of_system(error, port_advice)) from error


def print_json(value: dict[str, Any]) -> None:
    say(json.dumps(value, ensure_ascii=False))


async def until_told(work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` until it ends or SIGTERM or SIGINT comes; whether it ended by itself."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
            return True
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return False
