"""`beacon hosts`: who may write, with which tokens. Works beside a running service."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from beacon.cli_common import Failed, directory_option, errors, json_option, print_json
from beacon.clock import SystemClock
from beacon.datadir import require_databases
from beacon.printing import say
from beacon.settings import DAY_MS, load_settings
from beacon.store.errors import HostUnknown, TokenUnknown
from beacon.store.hosts import CACHE_MS, SCOPES, HostInfo, HostStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.webhooks import Endpoint, WebhookStore
from beacon.store.writer import Writer

T = TypeVar("T")

DEFAULT_GRACE: Final = "1d"
MAX_DAYS: Final = 3_650
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
_DURATION: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


class Duration(click.ParamType[int]):
    """A whole number with its unit, as 90d; the value is in ms."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The ms that a text says."""
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(str(value))
        milliseconds = int(found[1]) * _UNITS[found[2]] if found else -1
        if not 0 <= milliseconds <= MAX_DAYS * DAY_MS:
            self.fail(f"{value!r} is no duration of up to {MAX_DAYS} days, as 30m, 12h and 90d are", param, ctx)
        return milliseconds


expires_help: Final = "How long the new token is valid, as 12h or 90d."


@click.group()
def main() -> None:
    """Who may write: game servers and their tokens.

    These commands work beside a running service, and take effect within a second.

    \b
    What a token may do is its scopes:
      seal  seal sessions, add, change and delete the host's webhooks
      draw  everything else with sealed sessions: contribute, join tokens,
            draw, call, links, reveal, void
      read  the host's own list of sessions, its webhooks and their deliveries
    What is public needs no token.
    """


@main.command()
@click.argument("name")
@click.option("--sandbox", is_flag=True, help="A host for tests: its sessions are marked as no games, for ever.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=SCOPES,
    show_default="all three",
    help="What the token may do: seal, draw or read. May be repeated.",
)
@click.option("--note", default="", help="What the token is for, as `beacon hosts list` will show it.")
@click.option("--expires", "lifetime", type=Duration(), show_default="until it is revoked", help=expires_help)
@directory_option
@json_option
def add(
    name: str,
    sandbox: bool,
    scopes: tuple[Any, ...],
    note: str,
    lifetime: int | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Make a token for a host, and the host if there is none of this NAME.

    The token is on standard output, once: it is stored as a hash only. NAME is public in the log: a letter, then up to
    63 letters, digits, dots, underscores and hyphens.
    """

    async def work(store: HostStore) -> str:
        return await store.add(name, sandbox=sandbox, scopes=scopes, note=note, lifetime=lifetime)

    _show_token(name, _with_hosts(directory, work), {"sandbox": sandbox}, as_json=as_json)


@main.command(name="list")
@directory_option
@json_option
def list_(directory: Path, as_json: bool) -> None:
    """Show the hosts and their tokens: ids, scopes, until when they are valid, notes."""
    found = _with_hosts(directory, lambda store: store.list())
    if as_json:
        print_json({"hosts": [asdict(host) for host in found]})
        return
    now = SystemClock().now()
    for host in found:
        say(f"{host.name}{' (sandbox)' if host.sandbox else ''}")
        for token in host.tokens:
            until = "" if token.expires is None else f"  until {_utc(token.expires)}"
            note = f"  {token.note}" if token.note else ""
            scopes = ",".join(token.scopes)
            say(f"  {token.id}  {scopes}  made {_utc(token.created)}  {token.state(now)}{until}{note}")


@main.command()
@click.argument("name")
@click.option(
    "--token", "token_id", show_default="the only valid one", help="The id of the token that the new one replaces."
)
@click.option(
    "--grace",
    type=Duration(),
    default=DEFAULT_GRACE,
    show_default=True,
    help="How long the old token is still valid beside the new one, as 30m or 7d; 0s ends it at once.",
)
@click.option("--expires", "lifetime", type=Duration(), show_default="as the old one", help=expires_help)
@directory_option
@json_option
def rotate(name: str, token_id: str | None, grace: int, lifetime: int | None, directory: Path, as_json: bool) -> None:
    """Replace a token of a host without downtime.

    The new token has the old one's scopes and note, and is on standard output, once. Hand it to the game server within
    the grace time, in which both are valid.
    """

    async def work(store: HostStore) -> tuple[str, str]:
        old = token_id or _only_token(name, await store.list())
        return old, await store.rotate(name, old, grace=grace, lifetime=lifetime)

    old, token = _with_hosts(directory, work)
    _show_token(name, token, {"replaces": old, "grace_ms": grace}, as_json=as_json)


@main.command()
@click.argument("name")
@click.option("--token", "token_id", show_default="all", help="The id of one token, as `beacon hosts list` shows it.")
@directory_option
@json_option
def revoke(name: str, token_id: str | None, directory: Path, as_json: bool) -> None:
    """Revoke the tokens of a host. Its sessions stay, and end by themselves.

    Once this command has ended, the running service begins no request with these tokens any more. Webhooks that were
    added with them go on: see `beacon hosts webhooks`.
    """
    count = _with_hosts(directory, lambda store: store.revoke(name, token_id))
    if token_id is not None and count == 0:
        raise Failed(f"{name} has no valid token {token_id}: `beacon hosts list` shows the ids")
    time.sleep(CACHE_MS / 1000)
    if as_json:
        print_json({"host": name, "revoked": count})
    else:
        say(f"revoked {count} of {name}'s tokens")


@main.command()
@click.argument("name")
@click.option("--delete", "webhook", help="The id of a webhook that gets nothing more and is forgotten.")
@directory_option
@json_option
def webhooks(name: str, webhook: str | None, directory: Path, as_json: bool) -> None:
    """Show where a host is told of its sessions, or delete one of these webhooks.

    The host itself does this over the API; here it is the operator's, for a host whose tokens were stolen or revoked.
    """

    async def work(hosts: HostStore, store: WebhookStore) -> list[Endpoint]:
        if name not in [host.name for host in await hosts.list()]:
            raise HostUnknown(f"there is no host {name}")
        if webhook is not None:
            if await store.get(name, webhook) is None:
                raise Failed(f"{name} has no webhook {webhook}: `beacon hosts webhooks {name}` lists them")
            await store.delete(webhook)
        return await store.all(name)

    found = _with_stores(directory, work)
    if as_json:
        print_json({"host": name, "deleted": webhook, "webhooks": [one.facts() for one in found]})
        return
    if webhook is not None:
        say(f"deleted {webhook}")
    for one in found:
        state = "gone" if one.disabled else f"failing since {_utc(one.failing_since)}" if one.failing_since else "well"
        say(f"{one.id}  {state}  made {_utc(one.created)}  {one.url}  {' '.join(one.types) or 'all types'}")


def _only_token(name: str, hosts: list[HostInfo]) -> str:
    """The id of a host's one valid token. Raises HostUnknown, TokenUnknown."""
    now = SystemClock().now()
    found = [host for host in hosts if host.name == name]
    if not found:
        raise HostUnknown(f"there is no host {name}")
    valid = [token.id for token in found[0].tokens if token.state(now) == "valid"]
    if len(valid) != 1:
        listed = f": choose one with --token ({', '.join(valid)})" if valid else ""
        raise TokenUnknown(f"{name} has {len(valid) or 'no'} valid tokens{listed}")
    return valid[0]


def _show_token(name: str, token: str, more: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"host": name, **more, "token": token})
        return
    say(token)
    say(f"the token of {name}; it is not shown again", err=True)


def _with_hosts(directory: Path, work: Callable[[HostStore], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the hosts of a data directory, beside a service that may be running."""
    return _with_stores(directory, lambda hosts, _: work(hosts))


def _with_stores(directory: Path, work: Callable[[HostStore, WebhookStore], Coroutine[Any, Any, T]]) -> T:
    with errors(), ExitStack() as stack:
        settings = load_settings(directory)
        require_databases(settings)
        writer = Writer(settings.private_db, PRIVATE_SCHEMA, exclusive=False)
        stack.callback(writer.close)
        reader = Reader(settings.private_db)
        stack.callback(reader.close)
        clock = SystemClock()
        return asyncio.run(work(HostStore(writer, reader, clock), WebhookStore(writer, reader, clock)))


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
