"""Files, who may reach them, and the disk that they are on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from beacon.doctor.finding import Finding, fine, found
from beacon.doctor.machine import MIB, Machine
from beacon.permissions import exposed, user_name
from beacon.settings import Settings, config_file

FULL: Final = 64 * MIB
LOW: Final = 1024 * MIB
FEW_FILES: Final = 1_000
LARGE_WAL: Final = 64 * MIB
"""A database is checkpointed each 16 MiB."""
NETWORK: Final = frozenset(
    {"afs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
)
VOLATILE: Final = frozenset({"aufs", "overlay", "ramfs", "tmpfs"})


def examine(path: Path, settings: Settings, machine: Machine) -> Iterator[Finding]:
    """What is missing, exposed or somebody else's, and the disk. path: of the settings."""
    wanted = (settings.log_key, settings.master_key, settings.log_db, settings.private_db)
    for file in wanted:
        if not file.exists() or (file.suffix == ".db" and not file.stat().st_size):
            fix = f"restore {file} from its backup; it is never made anew"
            yield found("file-missing", file, "it is not there, or empty", fix)
    if not settings.data_dir.is_dir():
        return
    yield from _access(path, settings, machine)
    yield from _disk(settings, machine)


def _access(path: Path, settings: Settings, machine: Machine) -> Iterator[Finding]:
    owner = settings.data_dir.stat().st_uid
    if owner != machine.uid():
        name = user_name(owner)
        fix = f"runuser -u {name} -- beacon doctor --dir {quote(str(settings.data_dir))}"
        yield found("user-other", settings.data_dir, f"is {name}'s, and this is {user_name(machine.uid())}", fix)
    reached = list(exposed(settings, owner, config_file(path).resolve()))
    yield from (found(str(one.fault), one.path, one.says, one.fix) for one in reached)
    if not reached:
        yield fine("permissions", settings.data_dir, "nobody else reaches keys, databases or settings")


def _disk(settings: Settings, machine: Machine) -> Iterator[Finding]:
    place, disk = settings.data_dir, machine.disk(settings.data_dir)
    if disk.read_only and place.stat().st_uid == machine.uid():
        yield found(
            "disk-read-only",
            place,
            "this user cannot write here",
            f'mount | grep "$(df --output=target {quote(str(place))} | tail -1)"',
        )
    sizes = sum(_size(file) for file in (settings.log_db, settings.private_db))
    left = f"{disk.free // MIB} MiB are free"
    if disk.files is not None and disk.files < FEW_FILES:
        left += f", and {disk.files} files"
    if disk.free < FULL or disk.files == 0:
        yield found("disk-full", place, left, f"df -h -i {quote(str(place))}")
    elif disk.free < max(LOW, 2 * sizes) or (disk.files is not None and disk.files < FEW_FILES):
        says = f"{left}; the databases take {sizes // MIB} MiB"
        yield found("disk-low", place, says, f"df -h -i {quote(str(place))}")
    else:
        yield fine("disk", place, left)
    for database in (settings.log_db, settings.private_db):
        wal = database.with_name(f"{database.name}-wal")
        if _size(wal) > LARGE_WAL:
            says = f"{_size(wal) // MIB} MiB"
            yield found("wal-large", wal, says, f"fuser -v {quote(str(database))}, and end what reads it for long")
    yield _filesystem(place, machine.filesystem(place))


def _filesystem(place: Path, kind: str) -> Finding:
    if kind in NETWORK:
        return found("filesystem-network", place, kind, "move the data directory to a local disk")
    if kind in VOLATILE:
        fix = "move the data directory to a disk, or mount a volume there"
        return found("filesystem-volatile", place, f"{kind} keeps nothing", fix)
    return fine("filesystem", place, kind or "its type cannot be told")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
