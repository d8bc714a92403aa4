"""What witnesses saw of a session, for its documents: cosigned checkpoints and how they hang together (7.1, 7.2).

Of each anchor every witness's first checkpoint that covers it, whose time is the earliest, and of the last entry shown
the one that most witnesses cosigned. Which of them make a quorum is decided by whoever verifies. Blocking, for readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlite_utils import Database

from beacon.log import cosignatures, reads
from beacon.log.reads import SignedCheckpoint
from verifier import entries
from verifier.encoding import encode_base64

OWN_ANCHORS: Final = ("host", "below-minimum")
"""The reasons of voids that are anchors of their own (7.1)."""


def anchors(shown: Iterable[tuple[int, bytes]]) -> list[int]:
    """The log indices of what pins rounds (7.1), of a session's (index, entry) pairs."""
    return [index for index, data in shown if _is_anchor(entries.parse_entry(data))]


def _is_anchor(entry: entries.Entry) -> bool:
    match entry:
        case entries.Close() | entries.Call():
            return True
        case entries.Seal():
            return entry.round is not None and entry.close_at is None
        case entries.Void():
            return entry.reason in OWN_ANCHORS
        case _:
            return False


def cosigned(db: Database, checkpoint: SignedCheckpoint) -> str:
    """The checkpoint's note with the cosignatures that are stored."""
    return checkpoint.note + "".join(item.line for item in cosignatures.of(db, checkpoint.size))


def evidence(db: Database, pinned: Sequence[int], last: int, checkpoint: SignedCheckpoint) -> list[dict[str, Any]]:
    """The items of a document's `evidence`, smallest first. pinned: its anchors; last: the index of its last event.

    checkpoint: the document's; it carries its cosignatures itself. Empty in a log that nobody witnesses.
    """
    sizes = {size for index in pinned for size in cosignatures.first_covering(db, index, checkpoint.size)}
    best = cosignatures.best_covering(db, last, checkpoint.size)
    if best is not None:
        sizes.add(best)
    return [_item(db, size, checkpoint.size) for size in sorted(sizes - {checkpoint.size})]


def _item(db: Database, size: int, whole: int) -> dict[str, Any]:
    note = reads.signed_note(db, size)
    lines = "".join(item.line for item in cosignatures.of(db, size))
    proof = reads.consistency_proof(db, size, whole)
    return {"checkpoint": note + lines, "consistency": [encode_base64(node) for node in proof], "proofs": {}}
