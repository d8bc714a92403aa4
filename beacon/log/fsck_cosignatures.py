"""Whether the cosignatures in a log file are what their witnesses said of its checkpoints.

Each is verified under the key that the file itself names; whether that witness is anybody's to trust is a question of
policies, and asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlite_utils import Database

from verifier.errors import VerifierError
from verifier.note import Note, Signature, VerifierKey, open_note

Add = Callable[[str, int | None, str], None]


class CosignaturesCheck:
    """Told of every checkpoint in order.

    db: with the log attached as `log`, inside a transaction. add: takes a finding: where, size, message.
    """

    def __init__(self, db: Database, add: Add) -> None:
        self._add: Final = add
        self._keys: Final[dict[int, VerifierKey]] = {}
        for number, vkey in db.execute("SELECT id, vkey FROM log.witnesses").fetchall():
            try:
                self._keys[number] = VerifierKey.parse(vkey)
            except VerifierError as error:
                add("cosignature", None, f"witness {number} has no key: {error}")
        self._rows: Final = db.execute("SELECT size, witness, signature FROM log.cosignatures ORDER BY size, witness")
        self._next = self._rows.fetchone()
        self.verified = 0

    def covered(self, size: int, note: str) -> None:
        """Verify the cosignatures of one checkpoint."""
        while self._next is not None and self._next[0] <= size:
            self._judge(self._next, note if self._next[0] == size else None)
            self._next = self._rows.fetchone()

    def rest(self) -> None:
        """Complain about those of checkpoints that are not there."""
        while self._next is not None:
            self._judge(self._next, None)
            self._next = self._rows.fetchone()

    def _judge(self, row: tuple[int, int, bytes], note: str | None) -> None:
        size, witness, signature = row
        key = self._keys.get(witness)
        if note is None or key is None:
            self._add("cosignature", size, "of no checkpoint" if note is None else f"of no witness: {witness}")
            return
        try:
            text = Note.parse(note).text
            open_note(Note(text, (Signature(key.name, key.key_id, signature),)), [key])
        except VerifierError as error:
            self._add("cosignature", size, f"is not what {key.name} signed: {error}")
        else:
            self.verified += 1
