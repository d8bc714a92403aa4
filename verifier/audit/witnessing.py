"""What witnesses of the policy say of the log's checkpoints, and what that proves of each session (PROTOCOL.md 7.1).

Kept is which key cosigned which size, and when; only of checkpoints that the log signed and that its tiles lead to. So
an anchor is seen by the smallest of those that cover it, whenever its session is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from verifier.audit.state import Found, State
from verifier.encoding import MAX_INTEGER
from verifier.errors import VerifierError
from verifier.evidence import Sighting
from verifier.note import open_note
from verifier.policy import Policy
from verifier.transcript import SignedCheckpoint

_ANCHORS: Final = tuple(f'"type":"{name}"'.encode() for name in ("seal", "close", "call", "void"))
_EACH: Final = 4
"""Cosignatures of each witness looked at above an anchor; unless clocks went back the first is the earliest."""
_LOOKED_BACK: Final = 4_096
"""Cosignatures, the newest first, among which those of a quorum are looked for."""


class Witnessing:
    """The policy's witnesses, and what the state has of them."""

    def __init__(self, state: State, policy: Policy | None) -> None:
        self._state: Final = state
        self._policy: Final = policy or Policy()
        self._names: Final = {str(key): name for name, key in self._policy.witnesses.items()}
        self._quorum = next(self._quorums(), 0)

    def take(self, signed: SignedCheckpoint) -> Iterator[Found]:
        """Keep what a checkpoint carries, one that is known to be the log's. Gives the lines that are false."""
        size, took = signed.checkpoint.size, False
        written = {(line.name, line.key_id) for line in signed.note.signatures}
        for name, key in self._policy.witnesses.items():
            if (key.name, key.key_id) not in written:
                continue
            try:
                verified = open_note(signed.note, [key]).verified
            except VerifierError as error:
                text = f"the cosignature of {name} under the checkpoint of {size} is not valid: {error.message}"
                yield Found("witnessed", "7.1", text)
                continue
            time = min(item.timestamp or 0 for item in verified)
            if time > MAX_INTEGER:
                continue  # of no moment that there is, and of no use to anybody
            row = [size, str(key), key.type, time]
            took |= bool(self._state.db.execute("INSERT OR IGNORE INTO cosigned VALUES (?, ?, ?, ?)", row).rowcount)
        if took and size > self._quorum and self._satisfied(self.at(size)):
            self._quorum = size

    def at(self, size: int) -> list[Sighting]:
        """Who cosigned the checkpoint of this size."""
        query = "SELECT size, witness, time, type FROM cosigned WHERE size = ?"
        return [*self._named(self._state.db.execute(query, [size]))]

    def seen(self, own: Sequence[tuple[int, bytes]]) -> tuple[Sighting, ...]:
        """What was seen of a session, by its own (index, entry) pairs: of each anchor, and of the end by a quorum."""
        if not self._names:
            return ()
        after = "SELECT size, witness, time, type FROM cosigned WHERE size > ? ORDER BY size LIMIT ?"
        limit = _EACH * len(self._names)
        found = dict.fromkeys(self.at(self._quorum))
        for index, data in own:
            if any(kind in data for kind in _ANCHORS):
                found.update(dict.fromkeys(self._named(self._state.db.execute(after, [index, limit]))))
        return tuple(found)

    def _named(self, rows: Iterator[tuple[int, str, int, int]]) -> Iterator[Sighting]:
        for size, vkey, time, key_type in rows:
            if vkey in self._names:
                yield Sighting(size, self._names[vkey], time, key_type)

    def _satisfied(self, seen: Sequence[Sighting]) -> bool:
        return bool(seen) and self._policy.satisfied(sighting.witness for sighting in seen)

    def _quorums(self) -> Iterator[int]:
        """The sizes that a quorum cosigned, the newest first."""
        if self._names:
            newest = f"SELECT DISTINCT size FROM cosigned ORDER BY size DESC LIMIT {_LOOKED_BACK}"  # noqa: S608
            sizes = [size for (size,) in self._state.db.execute(newest)]
            yield from (size for size in sizes if self._satisfied(self.at(size)))
