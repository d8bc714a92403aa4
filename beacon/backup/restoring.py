"""Putting a backup back: into a directory that is empty or not there, checked first, and never in a way that forks.

log.mark does not come back with a backup: it says how far the log was acknowledged, and of that an older copy knows
nothing. Without it the service does not start until somebody puts the newest one beside the log, or answers for it
(`beacon log mark`).
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from beacon.backup import databases, manifest
from beacon.backup.manifest import BackupRefused, Manifest, Progress, no_progress
from beacon.datadir import require_empty
from beacon.keys.files import next_of, retired_of
from beacon.keys.log import log_signer
from beacon.keys.master import fingerprint, owns
from beacon.log import highwater
from beacon.log.keys import trusted
from beacon.settings import CONFIG_NAME, ConfigurationError, Settings, load_settings, read_key, sync_directory
from beacon.store.errors import LogBehind, WriteFailed
from beacon.store.schema import open_readonly, reading
from verifier.errors import VerifierError
from verifier.note import VerifierKey

KEYS = ("log.key", "master.key")


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back. missing: the keys that are still to be put there; marked: whether log.mark is there.

    elsewhere: what the settings call the data directory, where that is another one.
    """

    directory: Path
    manifest: Manifest
    missing: tuple[str, ...]
    marked: bool
    elsewhere: Path | None


def restore(
    source: Path,
    directory: Path,
    *,
    keys: Path | None = None,
    mark: Path | None = None,
    progress: Progress = no_progress,
) -> Restored:
    """Make a data directory of a backup; whole or not there.

    keys: a folder with log.key and master.key, where the backup has none. mark: the newest log.mark that there is; one
    that the backup's log does not hold is refused. Raises BackupRefused, ConfigurationError, LogBehind, WriteFailed,
    the errors of `databases.look_over`, OSError.
    """
    made = manifest.read(source)
    empty = require_empty(directory)
    manifest.check_files(source, made, progress)
    place = directory if empty else directory.absolute().parent
    _require_room(place, made)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=place)).resolve()
    try:
        for one in made.files:
            progress("copying", 0, 1)
            _copy(source / one.name, work / one.name)
            if manifest.digest_of(work / one.name) != one.sha256:
                raise BackupRefused(f"{source / one.name} was changed while it was copied, or cannot be read twice")
        if keys is not None:
            _add_keys(keys, work)
        vkey = _vkey(made)
        databases.look_over(work / manifest.LOG_DB, work / manifest.PRIVATE_DB, vkey)
        settings = load_settings(work)
        _check_keys(made, settings, work)
        if mark is not None:
            _add_mark(mark, work, vkey, made)
        missing = tuple(name for name in KEYS if not (work / name).exists())
        elsewhere = None if settings.data_dir == work else settings.data_dir
        sync_directory(work)
        _appear(work, directory, inside=empty)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Restored(directory, made, missing, mark is not None, elsewhere)


def _appear(work: Path, directory: Path, *, inside: bool) -> None:
    if not inside:
        work.rename(directory)
    else:
        directory.chmod(0o700)
        for path in sorted(work.iterdir(), key=lambda path: path.name == CONFIG_NAME):
            path.rename(directory / path.name)
        sync_directory(directory)
    sync_directory(directory.absolute().parent)


def _require_room(place: Path, made: Manifest) -> None:
    needed, free = sum(one.bytes for one in made.files), shutil.disk_usage(place).free
    if free < needed:
        raise WriteFailed(f"{place}: {needed >> 20} MiB are needed, and {free >> 20} MiB are free")


def _copy(source: Path, target: Path) -> None:
    """As it is, for this user alone where it is secret."""
    secret = target.suffix == ".key" or target.name in {manifest.PRIVATE_DB, CONFIG_NAME}
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.touch(mode=0o600 if secret else 0o644, exist_ok=False)
    shutil.copyfile(source, target)
    manifest.sync(target)


def _add_keys(keys: Path, work: Path) -> None:
    found = sorted(keys.glob("*.key"))
    for name in KEYS:
        if not (keys / name).exists():
            raise ConfigurationError(f"{keys / name} is missing")
    for path in found:
        read_key(path)
        if (work / path.name).exists() and (work / path.name).read_bytes() != path.read_bytes():
            raise BackupRefused(f"{path} is another key than the one in the backup")
        if not (work / path.name).exists():
            _copy(path, work / path.name)


def _check_keys(made: Manifest, settings: Settings, work: Path) -> None:
    """Raise ConfigurationError for keys that do not belong to this log or to these seeds. Missing ones are none.

    A rotation of the master key that was cut off is in order: it goes on where the backup is put back.
    """
    here = settings.model_copy(update={"data_dir": work})
    before = retired_of(here.log_key, _vkey(made).key_id.hex())
    if before.exists() and here.log_key.exists() and before.read_bytes() != here.log_key.read_bytes():
        raise BackupRefused(
            f"the backup is from before {before.name} was retired: there is a newer log, under the key in log.key, and "
            "this one must not go on. Look for a later backup"
        )
    if here.log_key.exists() and str(log_signer(here).vkey) != made.log_key:
        raise ConfigurationError(f"log.key is not the key of this log, {made.log_key}")
    there = [path for path in (here.master_key, next_of(here.master_key)) if path.exists()]
    if here.master_key.exists() and not any(owns(here.private_db, read_key(path)) for path in there):
        key, due = fingerprint(read_key(here.master_key)), made.master_key or "another one"
        raise ConfigurationError(f"master.key is the key {key}, and the seeds are under {due}")


def _add_mark(mark: Path, work: Path, vkey: VerifierKey, made: Manifest) -> None:
    """Raise LogBehind when the log lacks what the mark says was acknowledged."""
    with reading(work / manifest.LOG_DB), closing(open_readonly(work / manifest.LOG_DB)) as db:
        found = highwater.newest(mark, trusted(db, vkey))
    if found is None:
        raise BackupRefused(f"{mark} holds no mark")
    if not databases.holds(work / manifest.LOG_DB, found.size, found.root):
        raise LogBehind(
            f"the backup's log has {made.size} entries, and {found.size} were acknowledged ({mark}): going on from it "
            "would sign a second history. Look for a newer copy of log.db: a replica, a later backup, the old disk. If "
            "what is missing is lost for good, this log has ended: publish it as it is, and begin another one, under "
            "another origin"
        )
    _copy(mark, work / "log.mark")


def _vkey(made: Manifest) -> VerifierKey:
    try:
        return VerifierKey.parse(made.log_key)
    except VerifierError as error:
        raise BackupRefused(f"the manifest's log_key is none: {error.message}") from error
