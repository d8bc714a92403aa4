"""What the examples' command lines have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import click

from beacon.client import Beacon, BeaconError, Dishonest, load_chain
from verifier.errors import VerifierError

Play = Callable[[Beacon, bool], Awaitable[int]]


def command(name: str, summary: str, modes: Mapping[str, Play]) -> click.Command:
    """A command that connects and plays, in the first of the modes unless another is asked for.

    A mode gets the connection and whether it is a test, and gives the exit code.
    """
    first, *others = modes

    @click.command(name, help=summary)
    @click.option("--url", required=True, help="The service, for example http://127.0.0.1:8080.")
    @click.option("--token-file", type=click.Path(exists=True, path_type=Path), required=True, help="The host's token.")
    @click.option(
        "--log-key", required=True, help="The log's verifier key, as `beacon init` printed it, or its log.vkey."
    )
    @click.option("--chain", help="A drand chain to take besides the main ones: its name, or a file with its info.")
    @click.option("--receipts", type=click.Path(path_type=Path), help="A folder to keep the receipts in.")
    @click.option("--mode", type=click.Choice(list(modes)), default=first, show_default=bool(others), hidden=not others)
    @click.option("--sandbox", is_flag=True, help="It is a test, not a game: the verdict is asked for as such.")
    def run(
        url: str, token_file: Path, log_key: str, chain: str | None, receipts: Path | None, mode: str, *, sandbox: bool
    ) -> None:
        token = token_file.read_text(encoding="ascii").strip()
        key = Path(log_key).read_text(encoding="ascii") if Path(log_key).is_file() else log_key

        async def connected() -> int:
            chains = None if chain is None else [load_chain(chain)]
            async with Beacon(url, token, log_key=key, chains=chains, receipts=receipts) as beacon:
                return await modes[mode](beacon, sandbox)

        try:
            raise SystemExit(asyncio.run(connected()))
        except (BeaconError, Dishonest, VerifierError) as error:
            raise click.ClickException(str(error)) from error

    return run


def verdict_line(headline: str) -> None:
    """Show the verdict's one line."""
    click.echo(f"verdict: {headline}")
