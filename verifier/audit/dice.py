"""What the dice of a log's ended sessions showed, of each host, in memory that does not grow with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from verifier.audit.state import State
from verifier.encoding import Json
from verifier.statistics import figures
from verifier.statistics.counts import Counts, counts_of, kept_counts


class Dice:
    """The counts since the last `save` in memory, and all in the state."""

    def __init__(self, state: State) -> None:
        self._state: Final = state
        self._new: Final[dict[tuple[str, bool], Counts]] = {}

    def add(self, host: str, counts: Counts, *, sandbox: bool) -> None:
        """Count a session that ended."""
        self._new.setdefault((host, sandbox), Counts()).add(counts)

    def save(self) -> None:
        """Add the new counts to the state's, for its commit."""
        db = self._state.db
        for (host, sandbox), counts in self._new.items():
            row = db.execute("SELECT counts FROM dice WHERE host = ? AND sandbox = ?", [host, sandbox]).fetchone()
            whole = counts if row is None else counts_of(json.loads(row[0])).merged(counts)
            text = json.dumps(kept_counts(whole))
            db.execute("INSERT OR REPLACE INTO dice VALUES (?, ?, ?)", [host, sandbox, text])
        self._new.clear()


def of_hosts(state: State) -> Iterator[tuple[str, bool, Counts]]:
    """(host, whether of test sessions, counts) of every host that ended a session."""
    for host, sandbox, text in state.db.execute("SELECT host, sandbox, counts FROM dice ORDER BY host, sandbox"):
        yield host, bool(sandbox), counts_of(json.loads(text))


def as_dict(counts: Counts) -> dict[str, Json]:
    """Counts, and what the statistics say of them: exact odds and corrected p-values, as `verifier statistics` does."""
    return {
        "sessions": counts.sessions,
        "rolls": counts.rolls,
        "other_draws": counts.others,
        "irregular": counts.irregular,
        "figures": [figure.as_dict() for figure in figures.of_counts(counts)],
    }


def lines(counts: Counts) -> Iterator[str]:
    """The results in a line each."""
    for figure in figures.of_counts(counts):
        yield f"  {figure.title}: {figure.result}"
