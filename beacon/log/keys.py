"""The keys of the log that there are and were, in log.db: whose the checkpoints of each size are. Blocking.

A log that has had one key has no rows. With the second key come the rows of both; it signs the newest checkpoint of
then too, whose size is its `first`, so that whoever knows it alone can go on from there. From then on every checkpoint
is signed by both, until one is retired: the newest size of then is its `last`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from sqlite_utils import Database

from beacon.log.signing import Signers
from beacon.store.errors import LogDamaged
from verifier import ed25519
from verifier.errors import VerifierError
from verifier.log_keys import LogKey, LogKeys, LogTrust
from verifier.note import Note, Signature, SigningKey, VerifierKey


class StoredKey(NamedTuple):
    """A row. signature: 64 bytes, over the checkpoint of size `first`; None of the log's first key."""

    number: int
    key: VerifierKey
    first: int
    last: int | None
    signature: bytes | None

    @property
    def line(self) -> str:
        """The signature as a line of a note, newline included; empty for none."""
        if self.signature is None:
            return ""
        return Signature(self.key.name, self.key.key_id, self.signature).encode()


def stored(db: Database) -> list[StoredKey]:
    """Every key, oldest first; none of a log that has had one key. Raises LogDamaged."""
    query = "SELECT id, vkey, first, last, signature FROM log_keys LEFT JOIN log_key_ends USING (id) ORDER BY id"
    try:
        rows = db.execute(query).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # a file that was made before there was one, and is only read
            return []
        raise
    try:
        return [StoredKey(row[0], VerifierKey.parse(row[1]), *row[2:]) for row in rows]
    except VerifierError as error:
        raise LogDamaged(f"a key of the log is none: {error}") from error


def known(db: Database, own: VerifierKey) -> LogKeys:
    """The log's keys with their sizes, if `own` is one of them, else that one alone. own: one that signs now."""
    rows = stored(db)
    if own not in {row.key for row in rows}:
        return LogKeys((LogKey(own),))
    if any(row.key.name != own.name for row in rows):
        raise LogDamaged("a key of the log is of another log")
    return LogKeys(tuple(LogKey(row.key, row.first, row.last) for row in rows))


def trusted(db: Database, trust: LogTrust) -> LogKeys:
    """The keys that were given; of one that signs now, with those that the log itself has beside it."""
    return known(db, trust) if isinstance(trust, VerifierKey) else trust


def unknown(db: Database, signers: Signers) -> SigningKey | None:
    """The one of the keys that sign now which there is no row of yet, of two or where there are rows."""
    rows = stored(db)
    if not rows:
        return signers.keys[1] if len(signers.keys) > 1 else None
    return next((key for key in signers.keys if key.vkey not in {row.key for row in rows}), None)


def register(db: Database, before: VerifierKey, key: SigningKey, size: int, note: str) -> None:
    """Let a key sign from the newest checkpoint on, which has this size and note. In a transaction.

    before: the key that signed until now.
    """
    text = Note.parse(note).text
    row = (str(key.vkey), size, Signature.parse(key.sign(text).rstrip("\n")).signature)
    if not stored(db):
        db.execute("INSERT INTO log_keys VALUES (1, ?, 1, NULL)", [str(before)])
    db.execute("INSERT INTO log_keys SELECT max(id) + 1, ?, ?, ? FROM log_keys", row)


def retire(db: Database, key: VerifierKey) -> int:
    """Let a key of `stored` sign no more; gives its last size. In a transaction."""
    last = int(db.execute("SELECT max(size) FROM checkpoints").fetchone()[0])
    db.execute("INSERT INTO log_key_ends SELECT id, ? FROM log_keys WHERE vkey = ?", [last, str(key)])
    return last


def lines(rows: Sequence[StoredKey], size: int) -> str:
    """The lines of keys that began with the checkpoint of this size, which its own note does not have."""
    return "".join(row.line for row in rows if row.first == size)


def complaints(db: Database, name: str) -> list[tuple[int | None, str]]:
    """What is wrong with the stored keys: (a checkpoint's size, in words)."""
    try:
        rows = stored(db)
    except LogDamaged as error:
        return [(None, str(error))]
    found: list[tuple[int | None, str]] = []
    for row in rows:
        note = db.execute("SELECT note FROM checkpoints WHERE size = ?", [row.first]).fetchone()
        if row.key.name != name:
            found.append((row.first, "a key of another log"))
        elif row.signature is not None and (note is None or not _signed(row, note[0])):
            found.append((row.first, f"the key {row.key.key_id.hex()} did not sign the checkpoint that it begins with"))
    if rows and (rows[0].signature is not None or all(row.last is not None for row in rows)):
        found.append((None, "no key of the log was the first, or none goes on"))
    return found


def _signed(row: StoredKey, note: str) -> bool:
    try:
        ed25519.verify(row.key.public_key, Note.parse(note).text.encode(), row.signature or b"")
    except VerifierError:
        return False
    return True
