"""What the machine says of itself: disk, clock, memory, limits. Another one of these makes a test's machine ill."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beacon.doctor.finding import Finding, fine, found
from beacon.settings import Settings
from beacon.web.server import FILES
from verifier.bls.verify import REFERENCE, best_backend

MIB: Final = 1024 * 1024
LITTLE_MEMORY: Final = 256 * MIB
SPARE_FILES: Final = 256
"""Databases, relays, witnesses, webhooks and connections that wait for nothing."""
OLDEST_SQLITE: Final = (3, 37, 0)
"""STRICT tables."""
_TIME_ERROR: Final = 5
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
_CGROUP: Final = Path("/sys/fs/cgroup")
_CGROUPS: Final = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


@dataclass(frozen=True, slots=True)
class Disk:
    """free: bytes that this user may still write; files: inodes that are left, None where there is no such limit."""

    free: int
    files: int | None
    read_only: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """Answers about this machine and process.

    filesystem: the type of the one that a path is on, "" where it cannot be told. synchronised: whether the kernel says
    that its clock is kept right, None where it does not say. memory: bytes that are free. files: how many may be open.
    """

    uid: Callable[[], int]
    disk: Callable[[Path], Disk]
    filesystem: Callable[[Path], str]
    synchronised: Callable[[], bool | None]
    memory: Callable[[], int | None]
    files: Callable[[], int]
    native: Callable[[], bool]
    sqlite: Callable[[], tuple[int, ...]]


def this_machine() -> Machine:
    """The one that this runs on (Linux)."""
    return Machine(
        uid=os.geteuid,
        disk=_disk,
        filesystem=_filesystem,
        synchronised=_synchronised,
        memory=_memory,
        files=_files,
        native=lambda: best_backend() is not REFERENCE,
        sqlite=lambda: sqlite3.sqlite_version_info,
    )


def examine(settings: Settings, machine: Machine) -> Iterator[Finding]:
    """Programs, memory, limits, and whether the clock is kept right."""
    version = ".".join(map(str, machine.sqlite()))
    if machine.sqlite() < OLDEST_SQLITE:
        yield found("sqlite-old", "SQLite", version, "install a Python whose SQLite is 3.37 or newer")
    else:
        yield fine("sqlite", "SQLite", version)
    if machine.native():
        yield fine("backend", "pairing", "native, beside py-ecc")
    else:
        yield found("backend-slow", "pairing", "py-ecc alone", "pip install 'fair-beacon[service,fast]'")
    need, files = settings.waiting.listeners + SPARE_FILES, machine.files()
    if files < need:
        fix = f"LimitNOFILE={need} in the systemd unit, or `ulimit -n {need}` before the start"
        yield found("files-limit", "open files", f"{files} may be open, {need} are wanted (waiting.listeners)", fix)
    else:
        yield fine("files", "open files", f"{files} may be open")
    yield _memory_finding(machine.memory())
    yield _time_finding(machine.synchronised())


def _memory_finding(memory: int | None) -> Finding:
    if memory is None:
        return fine("memory", "memory", "this system does not say how much is free")
    if memory < LITTLE_MEMORY:
        fix = "ps -eo rss,comm --sort=-rss | head, or give the container more"
        return found("memory-low", "memory", f"{memory // MIB} MiB are free", fix)
    return fine("memory", "memory", f"{memory // MIB} MiB are free")


def _time_finding(synchronised: bool | None) -> Finding:
    if synchronised is None:
        return fine("time", "time synchronisation", "this system does not say; see the clock against the relays")
    if not synchronised:
        fix = "timedatectl set-ntp true, or install chrony (on the host, for a container)"
        return found("clock-unsynchronised", "time synchronisation", "the kernel says its clock is not kept right", fix)
    return fine("time", "time synchronisation", "the kernel's clock is kept right")


def _disk(path: Path) -> Disk:
    status = os.statvfs(path)
    files = status.f_favail if status.f_files else None
    read_only = bool(status.f_flag & os.ST_RDONLY) or not os.access(path, os.W_OK)
    return Disk(status.f_bavail * status.f_frsize, files, read_only)


def _filesystem(path: Path) -> str:
    try:
        return filesystem_of(path.resolve(), Path("/proc/self/mountinfo").read_bytes())
    except (OSError, ValueError, LookupError):
        return ""


def filesystem_of(place: Path, table: bytes) -> str:
    """The type of the file system that a path without links is on. table: /proc/self/mountinfo (proc(5)).

    It is that of the deepest mount above the path; of several in one place the last one.
    """
    deepest, kind = -1, ""
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        mount = Path(os.fsdecode(_OCTAL.sub(lambda code: bytes([int(code[1], 8)]), before.split()[4])))
        if place.is_relative_to(mount) and len(mount.parts) >= deepest:
            deepest, kind = len(mount.parts), after.split()[0].decode("ascii", "replace")
    return kind


class _Timex(ctypes.Structure):
    """adjtimex(2), as far as it is read; `room` is for the rest of it."""

    _fields_ = (("modes", ctypes.c_uint), ("room", ctypes.c_char * 508))


def _synchronised() -> bool | None:
    asked = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def _memory() -> int | None:
    """What the kernel calls available, or what is left to this control group where that is less."""
    try:
        available = _number(Path("/proc/meminfo"), "MemAvailable:") * 1024
    except (OSError, ValueError, LookupError):
        return None
    for limit, used, cache in _CGROUPS:
        try:
            left = int((_CGROUP / limit).read_text("ascii")) - int((_CGROUP / used).read_text("ascii"))
            left += _number((_CGROUP / used).with_name("memory.stat"), cache)
        except (OSError, ValueError, LookupError):
            continue
        available = min(available, left)
    return max(0, available)


def _number(file: Path, name: str) -> int:
    """The number behind a name at a line's beginning. Raises OSError, ValueError, LookupError."""
    lines = dict(line.split()[:2] for line in file.read_text(encoding="ascii").splitlines())
    return int(lines[name])


def _files() -> int:
    """What the service has once it has asked for more, as it does at its start."""
    soft, hard = (
        2**31 if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return max(soft, min(hard, FILES))
