"""A raffle: the winners are drawn by themselves once the round is in, and the seed is revealed with them."""

from __future__ import annotations

import hashlib
from typing import Any

import click

from beacon.client import Beacon
from beacon.examples.common import command, verdict_line

ENTRIES = [f"ticket {number}" for number in range(1, 501)]
WINNERS = 3


async def play(beacon: Beacon, sandbox: bool) -> int:
    """Seal the list of entries and the plan, wait, and show who won."""
    listed = "\n".join(ENTRIES).encode()
    session = await beacon.seal(
        label="spring raffle",
        participants=[],
        recipes={"winners": {"kind": "sample", "size": len(ENTRIES), "count": WINNERS}},
        plan={"winners": 1},
        attachments=[{"name": "entries.txt", "sha256": hashlib.sha256(listed).hexdigest()}],
    )
    click.echo(f"sealed: session {session.id}, round {session.seal.round}; publish both and the list of entries")
    state = await session.until("revealed")
    if state["state"] != "revealed":
        click.echo(f"void: {state['reason']}")
        return 2
    verdict = await session.verify(sandbox=sandbox)
    shown: Any = verdict.session
    for place, number in enumerate(shown["outcomes"][0]["outcome"], 1):
        click.echo(f"{place}. {ENTRIES[number]}")
    verdict_line(verdict.headline)
    return int(verdict.exit)


main = command("raffle", __doc__ or "", {"draw": play})

if __name__ == "__main__":
    main()
