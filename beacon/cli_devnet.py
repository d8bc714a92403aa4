"""`beacon devnet`: a drand network of one, for tests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from beacon import cli_common
from beacon.cli_common import errors, until_told
from beacon.printing import say
from beacon.rounds import devnet
from beacon.rounds.devnet_control import Refused
from beacon.rounds.devnet_lies import LIES
from beacon.rounds.lines import LineRefused, known, read_lines
from beacon.rounds.network import DEFAULT_SCHEME, Recording
from verifier.drand import SCHEMES
from verifier.fetch import load_chain, pinned_chains


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option(
    "--port", default=8081, show_default=True, type=click.IntRange(0, 65_535), help="TCP port; 0: a free one."
)
@click.option("--period", default=3, show_default=True, type=click.IntRange(1, 3_600), help="Seconds between rounds.")
@click.option(
    "--scheme",
    default=DEFAULT_SCHEME,
    show_default=True,
    type=click.Choice(list(SCHEMES)),
    help="drand's signature scheme.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that keeps the network's key over restarts; made with mode 0600. Without it the network ends with this.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the chain's info here, for `init --chain-file`.",
)
@click.option(
    "--late", default=0, metavar="MS", type=click.IntRange(0), help="Rounds come so many ms after their time."
)
@click.option("--halt-after", metavar="ROUND", type=click.IntRange(1), help="No round comes after this one.")
@click.option("--lie", type=click.Choice(LIES), help="What is wrong with every answer.")
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Serve the rounds of this file (`beacon rounds export`) instead, the first one now.",
)
@click.option("--chain", metavar="NAME|FILE", help="With --replay: the chain of lines that name none, or its info.")
@click.option(
    "--speed",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.01, 10_000),
    help="With --replay: how many times as fast as it was.",
)
def main(
    host: str,
    port: int,
    period: int,
    scheme: str,
    state: Path | None,
    out: Path | None,
    late: int,
    halt_after: int | None,
    lie: str | None,
    replay: Path | None,
    chain: str | None,
    speed: float,
) -> None:
    """Run a drand-compatible network of one, for tests. It is no source of randomness for any game.

    It has drand's HTTP API, v1 as a node serves it and v2 as a relay does, and a fresh key of its own: whoever runs it
    knows every round in advance. Only sandbox hosts may use it. It prints the URL that it listens on, which is a relay
    for `beacon init --relay`.

    It misbehaves when it is told to, by --late, --halt-after and --lie, or while it runs, from this machine:

    \b
      curl localhost:8081/devnet -H 'Content-Type: application/json' -d '{"late_ms": 5000}'
      ... -d '{"halt": true}'      no round any more; false: it goes on, and makes what it missed first
      ... -d '{"lie": "randomness"}'      null: the truth
    """

    def ready(running: devnet.Devnet) -> None:
        _misbehave(running, late, halt_after, lie)
        if out is not None:
            out.write_text(json.dumps(running.chain.as_dict(), indent=2) + "\n", encoding="utf-8")
        what = "a test network, known in advance to whoever runs it" if replay is None else "recorded rounds"
        say(f"chain {running.chain.hash.hex()} ({what})")
        say(f"listening on {running.url}")

    with errors():
        try:
            if replay is None:
                work = devnet.serve(host, port, period, state, scheme=scheme, ready=ready)
            else:
                work = devnet.replay(host, port, _recording(replay, chain), speed, ready=ready)
            asyncio.run(until_told(work))
        except devnet.DevnetError as error:
            raise cli_common.Refused(str(error)) from error


def _misbehave(running: devnet.Devnet, late: int, halt_after: int | None, lie: str | None) -> None:
    orders: dict[str, Any] = {"late_ms": late, "lie": lie}
    if halt_after is not None:
        orders["halt"] = halt_after
    try:
        running.behaviour.apply(orders)
    except Refused as error:
        raise devnet.DevnetError(str(error)) from error


def _recording(path: Path, chain: str | None) -> Recording:
    """The rounds of a file, all of one chain. Raises DevnetError, VerifierError."""
    default = None if chain is None else load_chain(chain)
    chains = known([*pinned_chains().values(), *([default] if default else [])])
    try:
        with path.open("rb") as file:
            lines = list(read_lines(file, chains, default))
    except LineRefused as error:
        raise devnet.DevnetError(f"{path}, {error}") from error
    if len({found.hash for found, _ in lines}) != 1:
        raise devnet.DevnetError(f"{path} holds no rounds, or those of several chains")
    return Recording(lines[0][0], (stated for _, stated in lines))
