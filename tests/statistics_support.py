"""Logs whose dice are given, for counting: nothing in them would verify, which counting does not ask."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.builder import OPENING, TURN, Story, at
from verifier.encoding import encode_json
from verifier.merkle import leaf_hash

RECIPES = {"turn": TURN, "opening": OPENING}


class Table:
    """Entries in the making; the sessions in it take turns as the caller likes."""

    def __init__(self) -> None:
        self.entries = list(Story().leaves)
        self.sealed = 0

    def seal(self, recipes: dict[str, Any] | None = None, **changes: Any) -> str:
        """Append a seal; gives the session's name."""
        self.sealed += 1
        story = Story().seal(host_seq=self.sealed, recipes=recipes or RECIPES, **changes)
        self.entries.append(story.leaves[-1])
        return leaf_hash(self.entries[-1]).hex()

    def draw(self, session: str, n: int, outcomes: Sequence[Any], recipe: str = "turn", purpose: str = "") -> None:
        fields = {"v": 1, "type": "draw", "time": at(100), "session": session, "recipe": recipe, "n": n}
        self.entries.append(encode_json(fields | {"purpose": purpose, "outcomes": [*outcomes]}))

    def reveal(self, session: str) -> None:
        fields = {"v": 1, "type": "reveal", "time": at(100), "session": session, "by": "service", "seed": None}
        self.entries.append(encode_json(fields | {"draws": {"turn": 0}}))

    def game(self, rolls: Iterable[Sequence[int]], recipe: str = "turn", **seal: Any) -> str:
        """One session with these rolls, a hundred an entry."""
        session, rolls = self.seal(**seal), [list(roll) for roll in rolls]
        for first in range(0, len(rolls), 100):
            self.draw(session, first + 1, rolls[first : first + 100], recipe)
        self.reveal(session)
        return session


def every_pair(times: int = 1) -> list[list[int]]:
    """Each of the 36 rolls, so often."""
    return [[first, second] for first in range(1, 7) for second in range(1, 7)] * times


def document_of(table: Table, session: str) -> bytes:
    """A transcript of the entries of one session of the table, under a signed checkpoint."""
    story = Story()
    story.leaves = table.entries
    wanted = [
        index
        for index, entry in enumerate(table.entries)
        if leaf_hash(entry).hex() == session or json.loads(entry).get("session") == session
    ]
    return encode_json(story.document(wanted))
