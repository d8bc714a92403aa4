"""What every command of the verifier shares: how it ends, what it reads, how its options are refused."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from verifier import fetch
from verifier.drand import ChainInfo
from verifier.encoding import MAX_DOCUMENT_BYTES, Json, encode_json
from verifier.errors import Code, FormatError, VerifierError
from verifier.log_keys import LogKeys, LogTrust, as_keys
from verifier.terminal import printable
from verifier.verdict import Exit

MAX_KEY_BYTES: Final = 10_000
STOPPED: Final = 130
PROGRESS_SECONDS: Final = 10


def say(*lines: str, err: bool = False) -> None:
    """Print lines that may hold what a file says."""
    for line in lines:
        click.echo(printable(line), err=err)


class VerifierGroup(click.Group):
    """A click group whose every failure is exit 3: 1 and 2 are answers here."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if sys.stdout is None:
            sys.exit(Exit.UNUSABLE)
        sys.exit(self._code(args, prog_name, complete_var, **extra))

    def _code(self, args: Sequence[str] | None, prog_name: str | None, complete_var: str | None, **extra: Any) -> int:
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
        except VerifierError as error:
            plain = error.code == Code.USAGE
            say(error.message if plain else f"unusable input: {error}", err=True)
        except (click.Abort, KeyboardInterrupt):
            click.echo("stopped", err=True)
            return STOPPED
        except (BrokenPipeError, SystemExit):  # click leaves by itself, with 1, when the pipe is closed
            _silence()
        except OSError as error:
            say(f"cannot read or write: {error.strerror}", err=True)
            _silence()
        except Exception as error:  # noqa: BLE001 - no traceback and no exit code that would be an answer
            say(f"internal error: {type(error).__name__}: {error}", err=True)
        else:
            return int(code) if isinstance(code, int) else 0
        return Exit.UNUSABLE


def _silence() -> None:
    """Keep Python from writing to a closed pipe again when it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def version() -> str:
    try:
        return metadata.version("fair-beacon")
    except metadata.PackageNotFoundError:
        return "(a source tree, not installed)"


@contextmanager
def named(what: str) -> Iterator[None]:
    """Say of which option or argument a FormatError is."""
    try:
        yield
    except FormatError as error:
        raise FormatError(Code.USAGE, f"{what}: {error.message}") from error


def _log_keys(_: click.Context, __: click.Parameter, values: Sequence[str]) -> LogTrust | None:
    if not values:
        return None
    with named("--log-key"):
        return as_keys(LogKeys(tuple(key for value in values for key in _keys(value).keys)))


def _keys(value: str) -> LogKeys:
    """The keys that a text is, or that the file of that name holds."""
    try:
        return LogKeys.parse(value)
    except (FormatError, UnicodeEncodeError) as error:
        if not _is_there(value):
            why = f": {error.message}" if "+" in value and isinstance(error, FormatError) else ""
            raise FormatError(Code.VKEY, f"{value!r} is neither a file nor a key (name+id+key){why}") from None
    text = fetch.read_file(value, MAX_KEY_BYTES).decode("utf-8", "replace").strip()
    try:
        return LogKeys.parse(text)
    except FormatError as error:
        raise FormatError(Code.VKEY, f"the file {value} holds no key: {error.message}") from error


def _is_there(path: str) -> bool:
    try:
        return bool(path) and Path(path).exists()
    except OSError:  # a key is longer than any file name
        return False


LOG_KEY = click.option(
    "--log-key", metavar="VKEY", callback=_log_keys, multiple=True,
    help="The log's verifier key (name+id+key), or a file that holds it. Of a log that changed its key all of them: "
    "repeated, or a line each in one file, with the sizes that each signs, as VKEY 1-4711.",
)  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def read(file: str) -> bytes:
    """A document from a file or, for `-`, from standard input."""
    if file != "-":
        return fetch.read_file(file)
    if sys.stdin is None:
        raise FormatError(Code.USAGE, "standard input is closed")
    data = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FormatError(Code.USAGE, f"standard input has more than {MAX_DOCUMENT_BYTES} bytes")
    return data


def by_hash(chains: Mapping[str, ChainInfo]) -> dict[bytes, ChainInfo]:
    """Refuse two infos of one chain hash: the hash covers neither the scheme nor a last round (2.5)."""
    found: dict[bytes, ChainInfo] = {}
    for name, chain in chains.items():
        if found.setdefault(chain.hash, chain) != chain:
            raise FormatError(
                Code.USAGE, f"{name} says otherwise about the chain {chain.hash.hex()} than another one given"
            )
    return found


def print_json(value: Mapping[str, Json]) -> None:
    say(encode_json(value).decode("utf-8"))


def utc(milliseconds: int) -> str | None:
    """ISO 8601 in UTC; None beyond the year 9999."""
    with suppress(OverflowError):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return None


def leave(code: int) -> NoReturn:
    click.get_current_context().exit(int(code))


def progress(file: str, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Says on standard error how far a file is: always on a terminal, else in a line every ten seconds."""
    file = printable(file)
    if sys.stderr.isatty():
        return lambda done, of: click.echo(f"\r{file}: {done} of {of}" + "\n" * (done == of), nl=False, err=True)
    last = clock()

    def show(done: int, of: int) -> None:
        nonlocal last
        if clock() - last >= PROGRESS_SECONDS:
            last = clock()
            click.echo(f"{file}: {done} of {of}", err=True)

    return show


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that the processes it started are ended too."""

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is stop:
            signal.signal(signal.SIGTERM, before)
