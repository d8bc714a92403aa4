"""Which keys a data directory has. Nothing secret is told: of the master key an id that says nothing about it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from sqlite_utils import Database

from beacon.keys.files import next_of
from beacon.keys.log import log_keys, log_signer
from beacon.keys.master import fingerprint, owns
from beacon.settings import Settings, read_key
from beacon.store.schema import open_readonly, reading
from verifier.log_keys import LogKey


def listed(settings: Settings) -> dict[str, Any]:
    """As `beacon keys list --json` prints it. Times are ms: of the newest entry of a key's first and last checkpoint.

    Raises ConfigurationError, CannotOpen, DatabaseDamaged.
    """
    keys, signers = log_keys(settings), log_signer(settings)
    with reading(settings.log_db), closing(open_readonly(settings.log_db)) as db:
        log = [_log_key(db, one) | {"signs": one.last is None} for one in keys.keys]
    waiting = [str(key) for key in signers.vkeys if key not in {one.key for one in keys.keys}]
    master = read_key(settings.master_key)
    return {
        "log": log,
        "log_waiting": waiting,
        "master": {
            "id": fingerprint(master),
            "in_force": owns(settings.private_db, master),
            "rotation_cut_off": next_of(settings.master_key).exists(),
        },
        "hosts": _hosts(settings),
    }


def _log_key(db: Database, one: LogKey) -> dict[str, Any]:
    first, last = max(1, one.first), one.last
    query = "SELECT size, time FROM checkpoints WHERE size >= ? AND size <= coalesce(?, size) ORDER BY size"
    begun = db.execute(f"{query} LIMIT 1", [first, last]).fetchone()
    ended = db.execute(f"{query} DESC LIMIT 1", [first, last]).fetchone()
    return {
        "vkey": str(one.key),
        "first": first,
        "last": last,
        "first_time": begun[1] if begun else None,
        "last_time": ended[1] if ended and last is not None else None,
    }


def _hosts(settings: Settings) -> list[dict[str, Any]]:
    with reading(settings.private_db), closing(open_readonly(settings.private_db)) as db:
        rows = db.execute(
            """SELECT name, (SELECT count(*) FROM tokens WHERE host = name AND revoked IS NULL),
            (SELECT count(*) FROM webhooks WHERE host = name) FROM hosts ORDER BY name"""
        ).fetchall()
    return [{"name": name, "tokens": tokens, "webhook_secrets": webhooks} for name, tokens, webhooks in rows]
