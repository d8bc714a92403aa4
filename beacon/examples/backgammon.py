"""A backgammon table: two players who sign for themselves; an opening and some turns, each called before its round."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

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


async def play(beacon: Beacon, sandbox: bool) -> int:
    """Play a short game and show the verdict."""
    white, black = Player("white@example"), Player("black@example")
    session = await beacon.seal(
        label="table 4", profile="live", links=64, recipes=RECIPES, participants=[white.listed(), black.listed()]
    )
    click.echo(f"sealed: session {session.id}")
    tokens = await session.join_tokens(white.id, black.id)
    for player in (white, black):
        await player.contribute(session, tokens[player.id])
    opening = await session.roll("opening", purpose="who begins")
    names = ["white", "black"] if opening.outcome[0] > opening.outcome[1] else ["black", "white"]
    click.echo(f"opening: {opening.outcome[0]}-{opening.outcome[1]}, {names[0]} begins")
    for turn in range(1, TURNS + 1):
        name = names[turn % 2]
        roll = await session.roll("turn", purpose=f"{name} {turn}")
        late = "" if roll.in_time else "   (its call's receipt came too late to prove that it came first)"
        click.echo(f"{turn}. {name}: {roll.outcome[0]}-{roll.outcome[1]}{late}")
    await session.reveal()
    verdict = await session.verify(sandbox=sandbox)
    verdict_line(verdict.headline)
    return int(verdict.exit)


main = command("backgammon", __doc__ or "", play)

if __name__ == "__main__":
    main()
