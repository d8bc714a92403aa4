"""What the log says of each host: its numbers, labels and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from verifier import entries
from verifier.audit.state import Found, State


@dataclass(slots=True)
class Account:
    """One host's. last: its newest host_seq; late: sessions revealed or drawn long after reveal_by; void: by reason."""

    sealed: int = 0
    last: int = 0
    sandbox: bool = False
    revealed: int = 0
    void: dict[str, int] = field(default_factory=dict)
    late: int = 0
    replaced: int = 0
    labels_used_twice: int = 0
    contributions_used_twice: int = 0
    gaps: int = 0
    duplicates: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Accounts:
    """The accounts of all hosts, those of one segment in memory."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._open: dict[str, Account] = {}

    def of(self, host: str) -> Account:
        account = self._open.get(host)
        if account is None:
            row = self._state.db.execute("SELECT account FROM hosts WHERE host = ?", [host]).fetchone()
            account = self._open[host] = Account() if row is None else Account(**json.loads(row[0]))
        return account

    def save(self) -> None:
        rows = [(host, json.dumps(account.as_dict())) for host, account in self._open.items()]
        self._state.db.executemany("INSERT OR REPLACE INTO hosts VALUES (?, ?)", rows)
        self._open.clear()

    def sealed(self, index: int, leaf: bytes, seal: entries.Seal) -> Iterator[Found]:
        """Take a seal into its host's account: 3.6 on host_seq, and labels and `replaces`."""
        account, session = self.of(seal.host), leaf.hex()
        account.sealed += 1
        account.sandbox = seal.sandbox
        if seal.host_seq <= account.last:
            account.duplicates += 1
            text = f"number {seal.host_seq} of the host once more, after {account.last}"
            yield Found("host", "3.6", text, index, session, seal.host)
        elif seal.host_seq > account.last + 1:
            account.gaps += 1
            text = f"numbers {account.last + 1} to {seal.host_seq - 1} of the host are missing"
            yield Found("host", "3.6", text, index, session, seal.host)
        account.last = max(account.last, seal.host_seq)
        if seal.replaces is not None:
            account.replaced += 1
            earlier = self._state.db.execute("SELECT host FROM sessions WHERE session = ?", [seal.replaces]).fetchone()
            if earlier is None or earlier[0] != seal.host:
                yield Found("sole", "6.1", "replaces no earlier session of this host", index, session, seal.host)
        if seal.label:
            yield from self._labelled(index, leaf, seal, account)

    def _labelled(self, index: int, leaf: bytes, seal: entries.Seal, account: Account) -> Iterator[Found]:
        db = self._state.db
        before = db.execute(
            "SELECT session FROM labels WHERE host = ? AND label = ?", [seal.host, seal.label]
        ).fetchone()
        db.execute("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", [seal.host, seal.label, leaf])
        if before is not None:
            account.labels_used_twice += 1
            text = f"the label {seal.label!r} once more, after session {before[0].hex()}"
            if seal.replaces is None:
                yield Found("host", "3.6", text, index, leaf.hex(), seal.host, grave=False)
