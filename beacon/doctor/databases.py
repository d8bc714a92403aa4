"""Keys and databases, as the start of the service would find them: read, never written, beside the service or without.

Each question sees one moment of a database that may be growing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shlex import quote
from typing import Final, TypeVar

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.doctor.finding import Finding, fine, found
from beacon.keys.log import log_keys, log_signer
from beacon.log.highwater import compare
from beacon.log.reads import SignedCheckpoint
from beacon.log.recovery import recover
from beacon.log.signing import Signers
from beacon.permissions import user_name
from beacon.sessions.custody import CHECK, MasterCipher
from beacon.settings import ConfigurationError, Settings, read_key
from beacon.store.errors import DatabaseDamaged, LogBehind, SchemaRefused, StoreError
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.private import KeptSeed
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import Schema, open_readonly, reading
from beacon.wording import of_error
from verifier.note import SigningKey, VerifierKey

T = TypeVar("T")

AHEAD_MS: Final = 1_000
"""By rule 6.11 no entry is written whose time is further ahead of the clock that the rounds are."""
TRIES: Final = 3
PAUSE_SECONDS: Final = 0.3


def examine(settings: Settings, clock: Clock) -> Iterator[Finding]:
    """Both keys, both databases, and the end of the log."""
    signer = _signer(settings)
    if isinstance(signer, Finding):
        yield signer
    elif signer is not None:
        yield from _published(settings, signer.vkey)
        if settings.log_db.exists():
            yield from _log(settings, signer.vkey, clock)
    yield from _private(settings)


def moment(path: Path, query: Callable[[Database], T]) -> T:
    """What a query finds in one moment of a database. Raises CannotOpen, DatabaseDamaged, and what the query raises."""
    with reading(path), closing(open_readonly(path)) as db:
        db.conn.execute("BEGIN")
        return query(db)


def _signer(settings: Settings) -> Signers | Finding | None:
    """The log's key, or what is wrong with it; None where it is missing, which is told of elsewhere."""
    path = settings.log_key
    try:
        key = SigningKey(read_key(path), settings.origin)
    except ConfigurationError as error:
        return found("log-key-unusable", path, _about(error, path), _restore(path)) if path.exists() else None
    try:
        return log_signer(settings)
    except ConfigurationError as error:
        fix = f"put back the log.key of this log, or its origin: {quote(str(key.vkey))} signed nothing here"
        return found("log-key-other", path, _about(error, settings.log_db), fix)


def _published(settings: Settings, vkey: VerifierKey) -> Iterator[Finding]:
    path = settings.log_vkey
    yield fine("log-key", settings.log_key, f"signs as {vkey}")
    try:
        due = str(log_keys(settings))
    except StoreError:
        due = str(vkey)
    try:
        same = path.read_text(encoding="utf-8").strip() == due
    except (OSError, UnicodeDecodeError):
        same = False
    if not same:
        fix = f"echo {quote(due)} > {quote(str(path))}"
        yield found("log-vkey-other", path, "is missing, or not the public half of log.key", fix)


def _log(settings: Settings, vkey: VerifierKey, clock: Clock) -> Iterator[Finding]:
    path, place = settings.log_db, f"--dir {quote(str(settings.data_dir))}"
    if (unusable := _unusable(path, LOG_SCHEMA)) is not None:
        yield unusable
        return
    try:
        checkpoint = _end(settings, vkey)
    except LogBehind as error:
        fix = f"put the newest log.db, log.db-wal and log.mark back; if only log.mark is lost: beacon log mark {place}"
        yield found("log-behind", settings.log_mark, of_error(error), fix)
        return
    except DatabaseDamaged as error:
        fix = f"beacon log check {place}; if only hashes are damaged: beacon log rebuild {place}"
        yield found("log-damaged", path, of_error(error), fix)
        return
    except StoreError as error:
        yield found("database-unusable", path, of_error(error).removeprefix(f"{path}: "), _restore(path))
        return
    if (ahead := checkpoint.time - clock.now()) > AHEAD_MS:
        says = f"its newest entry is {ahead / 1000:.0f} s ahead of this machine's clock, and none can be earlier"
        yield found("log-ahead", path, says, "set the clock right (chronyc makestep); if it is right, wait")
    else:
        yield fine("log", path, f"size {checkpoint.size}, its end is signed and agrees with log.mark")


def _end(settings: Settings, vkey: VerifierKey) -> SignedCheckpoint:
    """The newest checkpoint, checked as at a start. Raises LogBehind, LogDamaged, StoreError.

    A mark that was written after the log was read is that of a running service: then both are read again.
    """

    def check(db: Database) -> SignedCheckpoint:
        state = recover(db, vkey)
        if state.checkpoint is None:
            raise DatabaseDamaged(f"{settings.log_db}: the log is empty")
        compare(db, state.edge.size, settings.log_mark, vkey)
        return state.checkpoint

    for _ in range(TRIES - 1):
        try:
            return moment(settings.log_db, check)
        except LogBehind:
            time.sleep(PAUSE_SECONDS)
    return moment(settings.log_db, check)


def _private(settings: Settings) -> Iterator[Finding]:
    path, database = settings.master_key, settings.private_db
    try:
        key: bytes | None = read_key(path)
    except ConfigurationError as error:
        key = None
        if path.exists():
            yield found("master-key-unusable", path, _about(error, path), _restore(path))
    if not database.exists():
        return
    if (unusable := _unusable(database, PRIVATE_SCHEMA)) is not None:
        yield unusable
        return
    query = "SELECT commitment, nonce, ciphertext FROM seeds WHERE commitment = ?"
    try:
        row = moment(database, lambda db: db.execute(query, [CHECK]).fetchone())
    except StoreError as error:
        yield found("database-unusable", database, of_error(error).removeprefix(f"{database}: "), _restore(database))
        return
    if key is None:
        return
    if row is None:
        yield fine("master-key", path, "nothing is encrypted yet: it becomes this directory's at the first start")
    elif MasterCipher(key).owns(KeptSeed(*row)):
        yield fine("master-key", path, f"opens what is kept in {database}")
    else:
        yield found("master-key-other", path, f"does not open what is kept in {database}", _restore(path))


def _unusable(path: Path, schema: Schema) -> Finding | None:
    """Why a database is not one that this version can open, None if it is."""
    try:
        moment(path, schema.check_kind)
    except SchemaRefused as error:
        fix = f"install the version that wrote {path.name} again, or {_restore(path)}"
        return found("database-unusable", path, of_error(error), fix)
    except StoreError as error:
        return found("database-unusable", path, of_error(error).removeprefix(f"{path}: "), _restore(path))
    return None


def _restore(path: Path) -> str:
    if not os.access(path, os.R_OK):
        owner = user_name(path.stat().st_uid)
        return f"runuser -u {owner} -- beacon doctor --dir {quote(str(path.parent))} (this user cannot read it)"
    return f"restore {path} from its backup{' (mode 0600)' if path.suffix == '.key' else ''}"


def _about(error: ConfigurationError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ").rstrip(".")
