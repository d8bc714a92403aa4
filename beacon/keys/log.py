"""Changing the log's key: a new one signs beside the old one, until that one is retired.

    log.next.key is durable      the service signs with log.key alone until it starts again, or the next line is done
    a row in log.db              from the newest checkpoint on both sign; log.vkey names both
    another row                  the old one signs no more; its last size is there
    log.<id>.key, log.key        the old key gets its second name, the new one takes the first

What signs is decided by log.db, of the keys whose files are there: so it may be cut off anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from beacon.keys.files import Step, next_of, no_step, put_in_force, retired_of
from beacon.log import highwater, keys
from beacon.log.keys import StoredKey
from beacon.log.recovery import recover
from beacon.log.signing import Signers
from beacon.settings import KEY_BYTES, ConfigurationError, Settings, read_key, sync_directory, write_key
from beacon.store.errors import LogDamaged
from beacon.store.lock import FileLock
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.schema import DAMAGE, open_readonly, open_writable, reading
from beacon.witness.configured import load_policy
from verifier.errors import VerifierError
from verifier.log_keys import LogKeys
from verifier.note import Checkpoint, Note, SigningKey, VerifierKey

PUBLIC: Final = 0o644


@dataclass(frozen=True, slots=True)
class Seen:
    """What log.db says of keys: those that are stored, and (name, key id) of who signed the newest checkpoint."""

    stored: list[StoredKey]
    signed: list[tuple[str, bytes]]

    @property
    def alive(self) -> list[VerifierKey]:
        """Those that sign, oldest first."""
        return [row.key for row in self.stored if row.last is None]


@dataclass(frozen=True, slots=True)
class Changed:
    """What was done. key: that signs beside the other, or was retired; size: its first or last one; kept: its file."""

    key: VerifierKey
    size: int
    kept: Path


def log_signer(settings: Settings) -> Signers:
    """What signs the log's checkpoints: one key, or two during a change. Named by the log's origin.

    Raises ConfigurationError, also when there is a log and another name or key signed it. A log that is missing or
    cannot be read is no business of this.
    """
    path, seen = settings.log_key, _seen(settings.log_db)
    files = [(path, _read(settings, path)), (next_of(path), _next(settings, seen))]
    own = [key for _, key in files if key is not None]
    if len({key.vkey for key in own}) != len(own):
        raise ConfigurationError(f"{next_of(path)} is the key in {path.name}. Delete it.")
    ended = {row.key for row in seen.stored if row.last is not None}
    for file, key in files:
        if key is not None and key.vkey in ended and not _has_no_name_yet(settings, key, own):
            raise ConfigurationError(f"{file}: this key was retired and signs this log no more. Restore the newer one.")
    signing = [key for key in own if key.vkey not in ended]
    if seen.stored:
        _require_all(settings, seen.alive, {key.vkey for key in signing})
        signing.sort(key=lambda key: seen.alive.index(key.vkey) if key.vkey in seen.alive else len(seen.alive))
    elif seen.signed and (own[0].name, own[0].vkey.key_id) not in seen.signed:
        raise _foreign(settings, seen.signed[0], own[0].vkey)
    return Signers(*signing)


def log_keys(settings: Settings) -> LogKeys:
    """The log's keys with their sizes, as the log has them. Raises ConfigurationError, CannotOpen, DatabaseDamaged."""
    own = log_signer(settings).vkey
    with reading(settings.log_db), closing(open_readonly(settings.log_db)) as db:
        return keys.known(db, own)


def begin(settings: Settings, step: Step = no_step) -> Changed:
    """Let a new key sign beside the one that does, or go on with what was cut off. The service must not run.

    Raises ConfigurationError, AlreadyOpen, SchemaRefused, CannotOpen, DatabaseDamaged, LogBehind, OSError.
    """
    file, lock = next_of(settings.log_key), FileLock(settings.log_db)
    try:
        _require_settled(settings)
        before = log_signer(settings)
        step("begun")
        if len(before.keys) == 1:
            write_key(file, os.urandom(KEY_BYTES))
        step("key-written")
        signers = log_signer(settings)
        key = signers.keys[1]
        size = _changing(settings, before.vkey, lambda db: _registered(db, signers))
        step("committed")
        publish(settings)
        step("published")
    finally:
        lock.release()
    return Changed(key.vkey, size, file)


def retire(settings: Settings, identifier: str | None = None, step: Step = no_step) -> Changed:
    """Let one of two keys sign no more, the older one if none is named; or go on with what was cut off.

    identifier: of the key, 8 hex digits. Raises as `begin`, and ConfigurationError where there is one key only.
    """
    path, lock = settings.log_key, FileLock(settings.log_db)
    try:
        seen = _seen(settings.log_db)
        cut_off = _cut_off(settings, seen)
        if cut_off is None:
            leaving = _leaving(settings, seen, identifier)
            _require_policy(settings, next(key for key in seen.alive if key != leaving))
            step("begun")
            last = _changing(settings, leaving, lambda db: keys.retire(db, leaving))
        else:
            leaving, last = cut_off.key, cut_off.last or 0
        step("committed")
        kept = _put_away(settings, leaving, step)
        publish(settings)
        step("published")
    finally:
        lock.release()
    assert kept.parent == path.parent
    return Changed(leaving, last, kept)


def publish(settings: Settings) -> None:
    """Write log.vkey anew: every key, a line each, with the sizes that it signs where the log has had several."""
    text, path = f"{log_keys(settings)}\n", settings.log_vkey
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with beside.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.chmod(PUBLIC)
    beside.replace(path)
    sync_directory(path.parent)


def _read(settings: Settings, path: Path) -> SigningKey:
    return SigningKey(read_key(path), settings.origin)


def _next(settings: Settings, seen: Seen) -> SigningKey | None:
    """The key of a change that is under way. Raises ConfigurationError, with what to do."""
    path = next_of(settings.log_key)
    if not path.exists():
        return None
    try:
        return _read(settings, path)
    except ConfigurationError as error:
        if len(seen.alive) > 1:
            identifier = seen.alive[-1].key_id.hex()
            advice = f"Restore it; if it is lost, give it up with `beacon keys retire-log --key {identifier}`."
        else:
            advice = "Nothing was signed with it, unless log.key is a retired one: delete it."
        raise ConfigurationError(f"{error} {advice}") from error


def _require_all(settings: Settings, alive: list[VerifierKey], own: set[VerifierKey]) -> None:
    for key in alive:
        if key not in own:
            others = [f"{other.name} (key id {other.key_id.hex()})" for other in own]
            raise ConfigurationError(
                f"{settings.log_db}: this log is signed as {key.name} (key id {key.key_id.hex()}), and that key is "
                f"neither in {settings.log_key.name} nor in {next_of(settings.log_key).name}"
                f"{', where there is ' + ', '.join(others) if others else ''}. Restore it, or the newest log.db if "
                "this is an older one; if it is one of two and lost, give it up with "
                f"`beacon keys retire-log --key {key.key_id.hex()}`."
            )


def _foreign(settings: Settings, signed: tuple[str, bytes], own: VerifierKey) -> ConfigurationError:
    name, key_id = signed
    return ConfigurationError(
        f"{settings.log_db}: this log was signed as {name} (key id {key_id.hex()}), and not as {own.name} "
        f"(key id {own.key_id.hex()}): origin or log.key is from another directory; or log.db is from before a change "
        "of the log's key."
    )


def _seen(path: Path) -> Seen:
    """What there is to see; nothing where there is no log, or none that can be read."""
    if not path.exists():
        return Seen([], [])
    try:
        with closing(open_readonly(path)) as db:
            found = db.execute("SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1").fetchone()
            rows = keys.stored(db)
        note = Note.parse(found[0] if found else "")
        origin = Checkpoint.parse(note.text).origin
    except (*DAMAGE, VerifierError, LogDamaged):
        return Seen([], [])
    return Seen(rows, [(one.name, one.key_id) for one in note.signatures if one.name == origin])


def _changing(settings: Settings, own: VerifierKey, change: Callable[[Database], int]) -> int:
    """Change the newest log, and not an older copy of it. own: a key that signs it."""
    with reading(settings.log_db), closing(open_writable(settings.log_db, LOG_SCHEMA)) as db:
        (size,) = db.execute("SELECT coalesce(max(size), 0) FROM checkpoints").fetchone()
        highwater.compare(db, size, settings.log_mark, own)
        db.execute("BEGIN IMMEDIATE")
        try:
            size = change(db)
            db.commit()
        except BaseException:
            db.rollback()
            raise
    return size


def _registered(db: Database, signers: Signers) -> int:
    """Register the new key unless it is; gives its first size."""
    state = recover(db, signers.vkey)
    new = keys.unknown(db, signers)
    if new is not None:
        if state.checkpoint is None:
            raise LogDamaged("the log has no checkpoint")
        keys.register(db, signers.vkey, new, state.edge.size, state.checkpoint.note)
    return next(row.first for row in keys.stored(db) if row.key == signers.keys[1].vkey)


def _require_settled(settings: Settings) -> None:
    """Refuse a change while another's key files have not their names yet."""
    if _cut_off(settings, _seen(settings.log_db)) is not None:
        raise ConfigurationError("the last key was retired, and that was cut off: run `beacon keys retire-log` first.")


def _has_no_name_yet(settings: Settings, key: SigningKey, own: Sequence[SigningKey]) -> bool:
    """Whether a key that was retired is one of two because that was cut off: as log.key, or as the newer one."""
    if len(own) < 2:
        return False
    return key is own[0] or not retired_of(settings.log_key, key.vkey.key_id.hex()).exists()


def _cut_off(settings: Settings, seen: Seen) -> StoredKey | None:
    """The retired key that still is in log.key or log.next.key, with the one that signs in the other."""
    path = settings.log_key
    if not next_of(path).exists() or len(seen.alive) > 1:
        return None
    ended = [row for row in seen.stored if row.last is not None]
    if not path.exists() and ended:
        return ended[-1]
    own = [key for key in (_read(settings, path), _next(settings, seen)) if key is not None]
    left = {key.vkey for key in own if _has_no_name_yet(settings, key, own)}
    return next((row for row in ended if row.key in left), None)


def _leaving(settings: Settings, seen: Seen, identifier: str | None) -> VerifierKey:
    if len(seen.alive) < 2:
        publish(settings)
        raise ConfigurationError("one key signs this log, and it stays; `beacon keys rotate-log` adds one after it.")
    if identifier is None:
        return seen.alive[0]
    for key in seen.alive:
        if key.key_id.hex() == identifier:
            return key
    known = ", ".join(key.key_id.hex() for key in seen.alive)
    raise ConfigurationError(f"no key {identifier} signs this log; there are {known}.")


def _require_policy(settings: Settings, staying: VerifierKey) -> None:
    """Refuse what would keep the service from starting: a policy that names the log without the key that stays."""
    if settings.witnesses.policy is not None:
        load_policy(settings.witnesses.policy, staying)


def _put_away(settings: Settings, leaving: VerifierKey, step: Step) -> Path:
    """Give the key that was retired another name, and the one that stays its place."""
    path, identifier = settings.log_key, leaving.key_id.hex()
    if path.exists() and _read(settings, path).vkey == leaving:
        return put_in_force(path, identifier, step)
    kept = retired_of(path, identifier)
    if not path.exists():
        next_of(path).rename(path)
    elif next_of(path).exists() and not kept.exists():
        next_of(path).rename(kept)
    sync_directory(path.parent)
    return kept
