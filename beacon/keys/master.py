"""Changing the master key: all that is encrypted in private.db, under a new one, in place.

    master.next.key is durable    nothing is under it yet: the service starts with master.key
    one transaction               every seed, webhook secret and kept answer, and the text that says which key is right
    master.<id>.key, master.key   the old key gets its second name, the new one takes the first

Whenever it is cut off, the database is whole under one of two keys that are both there, and the same command goes on.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlite_utils import Database

from beacon.clock import Clock
from beacon.keys.files import Step, next_of, no_step, put_in_force
from beacon.sessions.custody import CHECK, MasterCipher
from beacon.sessions.joining import join_key
from beacon.settings import DAY_MS, KEY_BYTES, ConfigurationError, Settings, read_key, write_key
from beacon.store.errors import DatabaseDamaged
from beacon.store.lock import FileLock
from beacon.store.private import JOIN_KEY, KeptSeed
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import open_readonly, open_writable, reading
from beacon.store.webhooks import Encrypted
from beacon.webhooks.signing import Vault, answer_place

ROWS_AT_ONCE: Final = 1_000
JOINED_MS: Final = 400 * DAY_MS
"""For so long a session may be open (rule 6.3), and so its join tokens may be shown."""

Change = Callable[[Any, Encrypted], Encrypted]
"""(a row's key, what is encrypted there) -> the same under the new master key."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """What was done. key, before: ids of master keys; kept: the file of the one before.

    encrypted: how many texts were encrypted anew now; 0 where only the files were left to do.
    """

    key: str
    before: str
    kept: Path
    encrypted: int


def fingerprint(master_key: bytes) -> str:
    """16 hex digits that tell master keys apart and say nothing about them (HKDF-SHA256)."""
    return HKDF(SHA256(), 8, salt=None, info=b"fair-beacon/master-key-id").derive(master_key).hex()


def owns(private_db: Path, master_key: bytes) -> bool:
    """Whether what is encrypted in a private.db is under this key; in one that no service has run on, every key's.

    Raises CannotOpen, DatabaseDamaged.
    """
    with reading(private_db), closing(open_readonly(private_db)) as db:
        return _owns(db, master_key)


def refusal(settings: Settings) -> str:
    """Why the service does not start with a master key that the seeds are not under."""
    path = settings.master_key
    text = f"{path}: the seeds in {settings.private_db} are under another master key. "
    if next_of(path).exists():
        return text + f"If a rotation was cut off ({next_of(path).name}), `beacon keys rotate-master` goes on with it."
    return text + "Restore the key that belongs to this data directory."


def rotate(settings: Settings, clock: Clock, step: Step = no_step) -> Rotated:
    """Encrypt everything under a new master key, or go on with what was cut off. The service must not run.

    Raises ConfigurationError, AlreadyOpen, SchemaRefused, CannotOpen, DatabaseDamaged, OSError.
    """
    path, lock = settings.master_key, FileLock(settings.private_db)
    try:
        old, key = read_key(path), _next_key(settings)
        if key is not None and hmac.compare_digest(key, old):
            raise ConfigurationError(f"{next_of(path)} is the key that is in force. Delete it and run this again.")
        step("begun")
        with reading(settings.private_db), closing(open_writable(settings.private_db, PRIVATE_SCHEMA)) as db:
            if _owns(db, old):
                if key is None:
                    key = os.urandom(KEY_BYTES)
                    write_key(next_of(path), key)
                step("key-written")
                count = _encrypt_anew(db, old, key, clock.now(), step)
            elif key is None or not _owns(db, key):
                raise ConfigurationError(
                    f"the seeds in {settings.private_db} are under another master key than {path}"
                    f"{'' if key is None else f' and {next_of(path).name}'}. Restore the key that belongs to it."
                )
            else:
                count = 0
        kept = put_in_force(path, fingerprint(old), step)
    finally:
        lock.release()
    return Rotated(fingerprint(key), fingerprint(old), kept, count)


def _next_key(settings: Settings) -> bytes | None:
    """The key of a rotation that was cut off; None where there is none."""
    path = next_of(settings.master_key)
    if not path.exists():
        return None
    try:
        return read_key(path)
    except ConfigurationError as error:
        with reading(settings.private_db), closing(open_readonly(settings.private_db)) as db:
            spare = _owns(db, read_key(settings.master_key))
        advice = "Nothing is under it: delete it, and run this again." if spare else "Restore it: the seeds need it."
        raise ConfigurationError(f"{error} {advice}") from error


def _owns(db: Database, master_key: bytes) -> bool:
    """Whether what is in the database is under this key; in one that no service has run on, every key's."""
    row = db.execute("SELECT commitment, nonce, ciphertext FROM seeds WHERE commitment = ?", [CHECK]).fetchone()
    if row is None:
        return not db.execute("SELECT 1 FROM seeds LIMIT 1").fetchone()
    return MasterCipher(master_key).owns(KeptSeed(*row))


def _encrypt_anew(db: Database, old: bytes, key: bytes, now: int, step: Step) -> int:
    """All of it in one transaction; gives how many texts. Raises DatabaseDamaged where one is not under `old`."""
    db.execute("PRAGMA secure_delete = ON")
    db.execute("BEGIN IMMEDIATE")
    try:
        count = _seeds(db, old, key)
        step("seeds-written")
        count += _webhooks(db, old, key)
        count += _join_keys(db, old, key, now)
        step("all-written")
        db.commit()
    except BaseException:
        db.rollback()
        raise
    step("committed")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return count


def _seeds(db: Database, old: bytes, key: bytes) -> int:
    before, after = MasterCipher(old), MasterCipher(key)

    def change(commitment: bytes, kept: Encrypted) -> Encrypted:
        seed = before.decrypt(KeptSeed(commitment, *kept))
        if seed is None:
            raise DatabaseDamaged(f"the seed of {commitment.hex()} does not decrypt under this master key")
        return _encrypted(after.encrypt(commitment, seed))

    count = _each(db, "seeds", "commitment", change)
    if not db.execute("SELECT 1 FROM seeds WHERE commitment = ?", [CHECK]).fetchone():
        db.execute("INSERT INTO seeds VALUES (?, ?, ?, 0)", [CHECK, *_encrypted(after.check_text())])
    return count


def _webhooks(db: Database, old: bytes, key: bytes) -> int:
    before, after = Vault(old), Vault(key)

    def change(place: str, kept: Encrypted) -> Encrypted:
        secret = before.decrypt(place, kept)
        if secret is None:
            raise DatabaseDamaged(f"what is kept of the webhook {place} does not decrypt under this master key")
        return after.encrypt(place, secret)

    count = _each(db, "webhooks", "id", change)
    count += _each(db, "webhooks", "id", change, "old_")
    return count + _each(db, "webhook_answers", "key", lambda row, kept: change(answer_place(row), kept))


def _join_keys(db: Database, old: bytes, key: bytes, now: int) -> int:
    before, after = MasterCipher(old), MasterCipher(key)

    def change(row: int, kept: Encrypted) -> Encrypted:
        made_with = before.decrypt(KeptSeed(JOIN_KEY, *kept))
        if made_with is None:
            raise DatabaseDamaged(f"the key {row} of join tokens does not decrypt under this master key")
        return _encrypted(after.encrypt(JOIN_KEY, made_with))

    db.execute("DELETE FROM join_keys WHERE until <= ?", [now])
    count = _each(db, "join_keys", "id", change)
    made_with = _encrypted(after.encrypt(JOIN_KEY, join_key(old)))
    db.execute("INSERT INTO join_keys (nonce, ciphertext, until) VALUES (?, ?, ?)", [*made_with, now + JOINED_MS])
    return count


def _encrypted(kept: KeptSeed) -> Encrypted:
    return Encrypted(kept.nonce, kept.ciphertext)


def _each(db: Database, table: str, column: str, change: Change, prefix: str = "") -> int:
    """Change every text of a table, in the order of its key; lost ones are empty, and stay so. Gives how many."""
    nonce, text = f"{prefix}nonce", f"{prefix}ciphertext"
    query = (
        f"SELECT {column}, {nonce}, {text} FROM {table} "  # noqa: S608 - names of ours
        f"WHERE length({text}) > 0 AND (?1 IS NULL OR {column} > ?1) ORDER BY {column} LIMIT {ROWS_AT_ONCE}"
    )
    update = f"UPDATE {table} SET {nonce} = ?, {text} = ? WHERE {column} = ?"  # noqa: S608
    last, count = None, 0
    while rows := db.execute(query, [last]).fetchall():
        db.conn.executemany(update, [(*change(row[0], Encrypted(*row[1:])), row[0]) for row in rows])
        last, count = rows[-1][0], count + len(rows)
    return count
