"""Making a backup: a folder of its own below the target, named by its moment, whole or not there.

Everything is written into `.new-NAME`, made durable and read again; only then it gets its name. Room for it is looked
for first; a disk that fills up all the same, or an end of the process, leaves no backup and nothing that looks so.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beacon.backup import databases, manifest
from beacon.backup.manifest import BackupRefused, Cosigned, Kept, Manifest, Progress, no_progress
from beacon.clock import Clock
from beacon.datadir import require_databases
from beacon.keys.files import next_of
from beacon.keys.log import log_keys, log_signer
from beacon.keys.master import fingerprint, owns
from beacon.log import highwater
from beacon.settings import CONFIG_NAME, ConfigurationError, Settings, read_key, sync_directory
from beacon.store.errors import AlreadyOpen, LogBehind, WriteFailed
from beacon.store.lock import FileLock
from verifier.note import VerifierKey

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
SPARE_BYTES: Final = 16 << 20
_PATTERN: Final = "[0-9]" * 8 + "T" + "[0-9]" * 6 + "Z"


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that is durable. removed: the older ones that went for it; left_out: files of the settings' that are
    elsewhere than beside them, and so are not in it.
    """

    folder: Path
    manifest: Manifest
    removed: tuple[Path, ...]
    left_out: tuple[Path, ...]


def make(
    settings: Settings,
    config: Path,
    target: Path,
    clock: Clock,
    *,
    keys: bool = False,
    keep: int | None = None,
    progress: Progress = no_progress,
) -> Made:
    """Back a data directory up below `target`, which is made; it may run beside the service.

    config: the settings' file. keys: with every key of the directory. keep: how many backups of this log stay, this
    one included; older ones are removed once it is there. Raises BackupRefused, ConfigurationError, WriteFailed,
    the errors of `databases.look_over`, LogBehind, OSError.
    """
    require_databases(settings)
    vkey = log_signer(settings).vkey
    with _alone(settings, target):
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(clock.now() // 1000))
        folder, work = target / name, target / f".new-{name}"
        if folder.exists():
            raise BackupRefused(f"{folder} exists already; a backup is never overwritten")
        _require_room(settings, target)
        work.mkdir(mode=0o700)
        try:
            left_out = _copy_files(settings, config, work)
            made = _fill(settings, vkey, work, clock.now(), progress, keys=keys)
            work.rename(folder)
            sync_directory(target)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        own = {str(one.key) for one in log_keys(settings).keys} | {made.log_key}
        removed = () if keep is None else tuple(_prune(folder, own, keep))
    return Made(folder, made, removed, left_out)


def backups(target: Path) -> list[Path]:
    """The backups below a folder, oldest first."""
    return sorted(path for path in target.glob(_PATTERN) if (path / manifest.NAME).is_file())


@contextmanager
def _alone(settings: Settings, target: Path) -> Iterator[None]:
    """One backup at a time; what one that was cut off has left is removed. Raises BackupRefused."""
    if settings.data_dir.resolve() in [target.resolve(), *target.resolve().parents]:
        raise BackupRefused(f"{target} is in the data directory itself, and would be lost with it")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = FileLock(target / "backup")
    except AlreadyOpen as error:
        raise BackupRefused(f"another backup to {target} is being made") from error
    try:
        for left in [*target.glob(f".new-{_PATTERN}"), *target.glob(f".old-{_PATTERN}")]:
            shutil.rmtree(left)
        yield
    finally:
        lock.release()


def _require_room(settings: Settings, target: Path) -> None:
    paths = [settings.log_db, settings.private_db]
    needed = SPARE_BYTES
    for path in [*paths, *(path.with_name(path.name + "-wal") for path in paths)]:
        needed += path.stat().st_size if path.exists() else 0
    free = shutil.disk_usage(target).free
    if free < needed:
        raise WriteFailed(f"{target}: {needed >> 20} MiB are needed, and {free >> 20} MiB are free")


def _fill(settings: Settings, vkey: VerifierKey, work: Path, now: int, progress: Progress, *, keys: bool) -> Manifest:
    log, private = work / manifest.LOG_DB, work / manifest.PRIVATE_DB
    mark = highwater.newest(settings.log_mark, log_keys(settings))
    databases.copy(settings.log_db, log, progress)
    databases.copy(settings.private_db, private, progress)
    if keys:
        for path in sorted(settings.data_dir.glob("*.key")):
            manifest.write_new(work / path.name, path.read_bytes(), PRIVATE)
    _require_log_key(settings, vkey, work, keys=keys)
    if mark is not None and not databases.holds(log, mark.size, mark.root):
        raise LogBehind(
            f"{settings.log_db} does not hold the {mark.size} entries that were acknowledged ({settings.log_mark}): it "
            "is an older copy, or another history, and no backup is made of it"
        )
    progress("checking the copies", 0, 1)
    pair = databases.look_over(log, private, vkey)
    files = []
    for path in sorted(path for path in work.rglob("*") if path.is_file()):
        manifest.sync(path)
        name = str(path.relative_to(work))
        files.append(Kept(name=name, bytes=path.stat().st_size, sha256=manifest.digest_of(path)))
    made = Manifest(
        made=now,
        origin=settings.origin,
        log_key=str(vkey),
        size=pair.size,
        checkpoint=pair.note,
        mark=None if mark is None else mark.size,
        witnesses=[Cosigned(vkey=str(key), size=size) for key, size in pair.witnesses.items()],
        open_sessions=pair.open,
        seeds_missing=pair.missing,
        master_key=_master_key(settings, work, keys=keys),
        keys=keys,
        files=files,
    )
    manifest.write_new(work / manifest.NAME, made.model_dump_json(indent=1).encode() + b"\n", PRIVATE)
    for directory in [*(path for path in work.rglob("*") if path.is_dir()), work]:
        sync_directory(directory)
    return made


def _copy_files(settings: Settings, config: Path, work: Path) -> tuple[Path, ...]:
    """The settings, what they name beside them, and the public key. Gives what is elsewhere."""
    manifest.write_new(work / CONFIG_NAME, config.read_bytes(), PRIVATE)
    named = [settings.witnesses.policy, *(chain.file for chain in settings.chains)]
    base, left_out = config.resolve().parent, []
    for path in {path for path in named if path is not None}:
        try:
            place = path.resolve().relative_to(base)
            Kept(name=str(place), bytes=0, sha256="0" * 64)
        except ValueError:
            left_out.append(path)
        else:
            manifest.write_new(work / place, path.read_bytes(), PUBLIC)
    if settings.log_vkey.exists():
        manifest.write_new(work / settings.log_vkey.name, settings.log_vkey.read_bytes(), PUBLIC)
    return tuple(sorted(left_out))


def _require_log_key(settings: Settings, vkey: VerifierKey, work: Path, *, keys: bool) -> None:
    """Raise BackupRefused where the log's key was changed meanwhile: the copy would name, or have, another one's."""
    try:
        same = log_signer(settings.model_copy(update={"data_dir": work}) if keys else settings).vkey == vkey
    except ConfigurationError:
        same = False
    if not same:
        raise BackupRefused("the log's key was changed meanwhile: run it again")


def _master_key(settings: Settings, work: Path, *, keys: bool) -> str | None:
    """The id of the master key that the copied seeds are under, if it is in the data directory.

    keys: whether the backup has the keys; then that one is among them, as one that a service or a rotation goes on
    with. Raises BackupRefused where it is not.
    """
    private, usable = work / manifest.PRIVATE_DB, (settings.master_key, next_of(settings.master_key))
    path = _owner(sorted(settings.data_dir.glob(f"{settings.master_key.stem}*.key")), private)
    if path is None:
        return None
    if keys and _owner([work / one.name for one in usable], private) is None:
        raise BackupRefused(f"the seeds are under {path}, and not under {settings.master_key}: run it again")
    return fingerprint(read_key(path))


def _owner(paths: Iterable[Path], private: Path) -> Path | None:
    """Which key file has the key that a private.db is under; None for none."""
    for path in paths:
        try:
            key = read_key(path)
        except ConfigurationError:
            continue
        if owns(private, key):
            return path
    return None


def _prune(newest: Path, own: Container[str], keep: int) -> Iterator[Path]:
    """Remove all but `keep` backups of this log: `newest` stays, and those with the most entries, whatever the clock
    said when they were made. own: the vkeys that the log has had.
    """
    others = []
    for path in backups(newest.parent):
        try:
            found = manifest.read(path)
        except BackupRefused:
            continue
        if found.log_key in own and path != newest:
            others.append((found.size, path))
    for _, path in sorted(others)[: max(0, len(others) + 1 - keep)]:
        going = path.with_name(f".old-{path.name}")
        path.rename(going)
        shutil.rmtree(going)
        yield path
