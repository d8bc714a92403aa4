"""Going on without what is lost for good, where that contradicts nothing: a new private.db, a new master key.

Nobody can replace log.db or log.key: they are the log. What private.db and the master key hold is lost with them; the
seeds of open sessions wait for their timelocks, and where there is none the sessions end as `missed-reveal`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from beacon.keys.log import log_signer
from beacon.keys.master import fingerprint, owns
from beacon.log.recovery import recover
from beacon.sessions.custody import CHECK, MasterCipher
from beacon.settings import KEY_BYTES, ConfigurationError, Settings, read_key, write_key
from beacon.store.lock import FileLock
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import open_readonly, open_writable, reading

OPEN: Final = "SELECT count(*) FROM sessions WHERE end_index IS NULL AND custody = 'beacon'"


@dataclass(frozen=True, slots=True)
class Without:
    """open: sessions in the beacon's custody that have no end yet, whose seeds may be among what is lost.

    webhooks: how many were removed, since their secrets are lost.
    """

    open: int
    webhooks: int = 0


def new_private(settings: Settings) -> Without:
    """Make an empty private.db in place of one that is gone. The service must not run.

    Raises ConfigurationError when there is one, AlreadyOpen, DatabaseDamaged, CannotOpen, OSError.
    """
    path, lock = settings.private_db, FileLock(settings.private_db)
    try:
        for there in (path, path.with_name(path.name + "-wal")):
            if there.exists() and there.stat().st_size:
                raise ConfigurationError(f"{there} is there. Only a private.db that is gone is made anew.")
        open_sessions = _open_sessions(settings)
        read_key(settings.master_key)
        with reading(path):
            open_writable(path, PRIVATE_SCHEMA).close()
    finally:
        lock.release()
    return Without(open_sessions)


def new_master(settings: Settings, step: Callable[[str], None] = lambda _: None) -> Without:
    """Make a new master key in place of one that is gone, and empty what only that could open.

    The service must not run. Hosts and tokens stay: they need no key. Cut off, it is run again. step: told the name of
    each step. Raises ConfigurationError when the key of the seeds is there, AlreadyOpen, DatabaseDamaged, CannotOpen,
    OSError.
    """
    path, lock = settings.private_db, FileLock(settings.private_db)
    try:
        _require_gone(settings)
        open_sessions, key = _open_sessions(settings), os.urandom(KEY_BYTES)
        step("begun")
        with reading(path), closing(open_writable(path, PRIVATE_SCHEMA)) as db:
            webhooks = _empty(db, key, step)
        step("committed")
        write_key(settings.master_key, key)
        step("key-written")
    finally:
        lock.release()
    return Without(open_sessions, webhooks)


def _require_gone(settings: Settings) -> None:
    for path in sorted(settings.data_dir.glob(f"{settings.master_key.stem}*.key")):
        if owns(settings.private_db, read_key(path)):
            mend = "" if path == settings.master_key else f" Make it {settings.master_key.name}."
            raise ConfigurationError(f"{path} is the key that the seeds are under, so nothing is lost.{mend}")
    if settings.master_key.exists():
        key = fingerprint(read_key(settings.master_key))
        raise ConfigurationError(f"{settings.master_key} is another key ({key}). Move it away first.")


def _open_sessions(settings: Settings) -> int:
    """Of a log that a service could go on with."""
    path = settings.log_db
    if not path.exists():
        raise ConfigurationError(f"{path} is missing. Without the log there is nothing to go on with.")
    vkey = log_signer(settings).vkey
    with reading(path), closing(open_readonly(path)) as db:
        recover(db, vkey)
        return int(db.execute(OPEN).fetchone()[0])


def _empty(db: Database, key: bytes, step: Callable[[str], None]) -> int:
    """In one transaction; gives how many webhooks there were."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute("UPDATE seeds SET nonce = x'', ciphertext = x''")
        check = MasterCipher(key).check_text()
        db.execute(
            "UPDATE seeds SET nonce = ?, ciphertext = ? WHERE commitment = ?", [check.nonce, check.ciphertext, CHECK]
        )
        webhooks = int(db.execute("SELECT count(*) FROM webhooks").fetchone()[0])
        for table in ("webhook_deliveries", "webhooks", "webhook_answers", "join_keys"):
            db.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
        step("emptied")
        db.commit()
    except BaseException:
        db.rollback()
        raise
    return webhooks
