"""Who may reach the files of a data directory: asked at the start of the service, and by `beacon doctor`.

Whoever can read log.key or master.key has the secret; whoever can write into the directory, or into that of settings
elsewhere, can put other files in their place; and files of another user's are written by that user, or not at all. So
the service does not start from any of these. Root is trusted with keys and settings, as it is everywhere.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Final

from beacon.settings import CONFIG_NAME, ConfigurationError, Settings

ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_BESIDE: Final = ("", "-wal", "-shm", ".lock")
"""What SQLite and the service make beside a database."""


class Fault(StrEnum):
    """What is wrong with a file; the names are codes of `beacon doctor`. SHARED alone lets the service start."""

    READABLE = "file-readable"
    WRITABLE = "file-writable"
    SHARED = "file-shared"
    OWNER = "file-owner"


@dataclass(frozen=True, slots=True)
class Exposed:
    """A file that others reach, or that is somebody else's. says: what that means; fix: a command."""

    path: Path
    fault: Fault
    says: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """secret: nobody else may read it. own: the service's user owns it, and not root in its place.

    lenient: a group or another owner that may write is only worth a warning. sticky: a folder in which only the owner
    of a file replaces it is in order, as /tmp is.
    """

    path: Path
    secret: bool = False
    own: bool = True
    lenient: bool = False
    sticky: bool = False


def refuse_exposed(settings: Settings, config: Path | None = None) -> None:
    """Raise ConfigurationError, one line for each file that keeps this process's user from starting the service.

    config: as of `exposed`.
    """
    found = [one for one in exposed(settings, os.geteuid(), config) if one.fault is not Fault.SHARED]
    if found:
        raise ConfigurationError("\n".join(f"{one.path}: {one.says}. Do `{one.fix}`." for one in found))


def exposed(settings: Settings, uid: int, config: Path | None = None) -> Iterator[Exposed]:
    """Every file that others reach, or that is not the user's of this id. What is missing is no business of this.

    config: where the settings come from, if that is not in the data directory.
    """
    for rule in _rules(settings, config or settings.data_dir / CONFIG_NAME):
        try:
            status = rule.path.stat()
        except OSError:
            continue
        yield from _judged(rule, status, uid)


def user_name(uid: int) -> str:
    """What a user is called here, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _rules(settings: Settings, config: Path) -> Iterator[_Rule]:
    yield _Rule(settings.data_dir)
    keys = {settings.log_key, settings.master_key, *settings.data_dir.glob("*.key")}
    yield from (_Rule(key, secret=True, own=False) for key in sorted(keys))
    for end in _BESIDE:
        yield _Rule(settings.private_db.with_name(settings.private_db.name + end), secret=True)
        yield _Rule(settings.log_db.with_name(settings.log_db.name + end))
    yield _Rule(settings.log_mark)
    public = [config, settings.log_vkey, settings.witnesses.policy]
    named = {path for path in [*public, *(chain.file for chain in settings.chains)] if path is not None}
    elsewhere = {path.parent for path in named} - {settings.data_dir}
    for path in sorted(named | elsewhere):
        yield _Rule(path, own=False, lenient=True, sticky=path in elsewhere)


def _judged(rule: _Rule, status: os.stat_result, uid: int) -> Iterator[Exposed]:
    path, mode = rule.path, stat.S_IMODE(status.st_mode)
    if rule.secret and mode & _OTHERS:
        what = "key" if path.suffix == ".key" else "file"
        yield Exposed(
            path, Fault.READABLE, f"mode {mode:04o} lets others at this {what}", f"chmod 600 {quote(str(path))}"
        )
    elif mode & _WRITE and not (rule.sticky and mode & stat.S_ISVTX):
        shared = rule.lenient and not mode & stat.S_IWOTH
        who = "its group" if not mode & stat.S_IWOTH else "others"
        says = f"mode {mode:04o} lets {who} write here"
        yield Exposed(path, Fault.SHARED if shared else Fault.WRITABLE, says, f"chmod go-w {quote(str(path))}")
    if status.st_uid != uid and (rule.own or status.st_uid != ROOT):
        says = f"belongs to {user_name(status.st_uid)}, and the service's user is {user_name(uid)}"
        fault = Fault.SHARED if rule.lenient else Fault.OWNER
        yield Exposed(path, fault, says, f"chown {user_name(uid)} {quote(str(path))}")
