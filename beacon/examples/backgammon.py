"""A backgammon table: two players who sign for themselves, an opening and some turns.

Live, each roll is called before its round exists, and nobody knows it before. In a match all rolls come from one round:
whoever holds the seed knows them once that is in, and none of them has to be waited for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.client import Beacon, Session, pseudonym, sign_contribution
from beacon.examples.common import command, verdict_line

SECRET = os.urandom(32)
TURNS = 3
RECIPES = {
    "opening": {"kind": "dice", "count": 2, "sides": 6, "reroll_ties": True},
    "turn": {"kind": "dice", "count": 2, "sides": 6},
}


@dataclass(frozen=True)
class Player:
    """A player's device: its key never leaves it. id: a pseudonym, since ids are public for ever."""

    user: str
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate, repr=False)

    @property
    def id(self) -> str:
        return pseudonym(SECRET, self.user)

    def listed(self) -> dict[str, str]:
        return {"id": self.id, "key": self.key.public_key().public_bytes_raw().hex()}

    async def contribute(self, session: Session, token: str) -> None:
        """Contribute with a join token, as the player's own device does, and keep the receipt."""
        entropy = os.urandom(16)
        signature = sign_contribution(self.key, session.id, self.id, entropy)
        await session.contribute(self.id, entropy, signature=signature, join=token)


async def live(beacon: Beacon, sandbox: bool) -> int:
    """A game whose every roll waits for a round of its own."""
    return await _play(beacon, sandbox, profile="live", links=64)


async def match(beacon: Beacon, sandbox: bool) -> int:
    """A game whose rolls all come from one round, some half a minute from now."""
    return await _play(beacon, sandbox, profile="match")


async def _play(beacon: Beacon, sandbox: bool, **terms: Any) -> int:
    white, black = Player("white@example"), Player("black@example")
    session = await beacon.seal(
        label="table 4", recipes=RECIPES, participants=[white.listed(), black.listed()], **terms
    )
    click.echo(f"sealed: session {session.id}")
    tokens = await session.join_tokens(white.id, black.id)
    for player in (white, black):
        await player.contribute(session, tokens[player.id])
    if session.seal.round is not None:
        click.echo(f"both have contributed; round {session.seal.round} is awaited")
        await session.until("anchored")
    opening = await session.roll("opening", purpose="who begins")
    names = ["white", "black"] if opening.outcome[0] > opening.outcome[1] else ["black", "white"]
    click.echo(f"opening: {opening.outcome[0]}-{opening.outcome[1]}, {names[0]} begins")
    for turn in range(1, TURNS + 1):
        name = names[turn % 2]
        roll = await session.roll("turn", purpose=f"{name} {turn}")
        late = "   (its call's receipt came too late to prove that it came first)" if roll.in_time is False else ""
        click.echo(f"{turn}. {name}: {roll.outcome[0]}-{roll.outcome[1]}{late}")
    await session.reveal()
    verdict = await session.verify(sandbox=sandbox)
    verdict_line(verdict.headline)
    return int(verdict.exit)


main = command("backgammon", __doc__ or "", {"live": live, "match": match})

if __name__ == "__main__":
    main()
