"""The end of `beacon demo --vanish`: the operator is gone, and the players finish the proof from their receipts."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import click

from beacon.demo_processes import WIDTH, DemoError, run
from beacon.rounds.network import Network
from verifier.encoding import parse_document_json
from verifier.entries import Seal
from verifier.transcript import parse_transcript

Say = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left: the players' folder, and the network. round: the match's; turns: how many they want to know.

    state: the devnet's key. It is our own, so that nobody has to wait for its later rounds.
    """

    out: Path
    state: Path
    relay: str
    round: int
    turns: int


async def finish(kept: Kept, say: Say) -> None:
    """Open the seed by its timelock, and compute every roll: those that were published, and those that never were."""
    click.secho("\nNow only the players' receipts are left, and the random network:", bold=True)
    receipts = sorted((kept.out / "receipts").iterdir())
    seal = parse_transcript(receipts[0].read_bytes()).events[0].entry
    assert isinstance(seal, Seal)
    if seal.timelock is None:
        raise DemoError("the seal carries no timelock")
    network, lock = Network.load(kept.state), seal.timelock.round
    say("receipts", f"{len(receipts)}, each an entry of the log, proven under the log's signature")
    say("timelock", f"the seal holds the seed as well, sealed to round {lock}: nobody can open it before")
    hours = (network.chain.time(lock) - network.chain.time(kept.round)) / 3_600_000
    say("later", f"that round comes {hours:.0f} hours after the match's; this network is ours, so it signs it now")
    async with aiohttp.ClientSession() as client:
        address = f"{kept.relay}/{network.chain.hash.hex()}/public/{kept.round}"
        async with client.get(address) as answer:
            signature = str(parse_document_json(await answer.read())["signature"])
    trusted = ("--log-key", str(kept.out / "log.vkey"), "--chain", str(kept.out / "chain.json"))
    rounds = ("--round-signature", network.sign(lock).hex(), "--round-signature", f"{kept.round}={signature}")
    draws = ("--draws", f"turn={kept.turns}")
    code, output = await run("verifier", "open", *map(str, receipts), *trusted, *rounds, *draws)
    say("verifier", "")
    for line in output.splitlines():
        click.echo(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False))
    if code != 0 or "never published" not in output:
        raise DemoError(f"the verifier does not open the seed (exit {code})")
    click.secho("\nWhoever holds a seed can vanish. The result cannot.", bold=True)
