"""What `beacon check-config` and `beacon doctor` find: a level, a stable code, an explanation, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Level(StrEnum):
    """FAIL: the service does not start, cannot seal, or lies open. WARN: it works, and may not tomorrow."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. about: a file, a key of the settings, a URL, a name. fix: a command, if one helps.

    What is in order has the name of what was looked at as its code, and no fix.
    """

    code: str
    level: Level
    about: str
    says: str
    fix: str = ""


WARN, FAIL = Level.WARN, Level.FAIL
KNOWN: Final[Mapping[str, tuple[Level, str]]] = {
    # settings
    "settings-invalid": (FAIL, "A key or variable is unknown, missing or wrong, or two contradict each other."),
    "chain-invalid": (FAIL, "A chain is none of the pinned ones and has no usable file, or stands there twice."),
    "policy-invalid": (FAIL, "The witnesses' policy cannot be used."),
    "ports-equal": (FAIL, "The API and the metrics would listen on one address and port."),
    "witnesses-none": (WARN, "No witness is configured: order and time of the log rest on the operator's word."),
    "witnesses-no-room": (WARN, "Witnesses get less time than asking them may take."),
    "chain-for-tests": (WARN, "Hosts that are no sandbox may use a chain that somebody knows in advance."),
    "default-chain-sandbox": (WARN, "The default chain is for sandbox hosts only, so others must name one."),
    "relay-single": (WARN, "A chain has one relay."),
    "relay-plain": (WARN, "A relay is asked without TLS. Rounds are verified all the same."),
    "listen-open": (WARN, "The API listens beyond this machine, and no reverse proxy with TLS is known to it."),
    "metrics-open": (WARN, "The metrics, which ask for no password, listen beyond this machine."),
    "webhooks-http": (WARN, "Webhooks may go without TLS."),
    # files and keys
    "file-missing": (FAIL, "A key or a database is not there."),
    "file-readable": (FAIL, "A secret is readable by others."),
    "file-writable": (FAIL, "Others can write to a file or the directory."),
    "file-shared": (WARN, "A group or another user can change the settings or what they name."),
    "file-owner": (FAIL, "A file is another user's than the data directory."),
    "user-other": (WARN, "This is not the user whose the data directory is: the service would not start as this one."),
    "log-key-unusable": (FAIL, "log.key is no key file."),
    "log-key-other": (FAIL, "log.key or the origin is not the one that log.db was signed with."),
    "log-vkey-other": (WARN, "log.vkey, from which the log's key is published, is not that of log.key."),
    "master-key-unusable": (FAIL, "master.key is no key file."),
    "master-key-other": (FAIL, "The seeds in private.db are under another master key."),
    # the log
    "database-unusable": (FAIL, "A database cannot be opened, is of another kind, or was made by a newer version."),
    "log-damaged": (FAIL, "The end of the log does not agree with itself or with its signed checkpoint."),
    "log-behind": (FAIL, "The log lacks what log.mark says was acknowledged, or the mark is lost."),
    "log-ahead": (FAIL, "The newest entry is of a time that has not come."),
    # clock and rounds
    "clock-behind": (FAIL, "This machine's clock is slow: rounds are there that it does not expect yet."),
    "clock-ahead": (FAIL, "This machine's clock is fast."),
    "clock-off": (WARN, "This machine's clock differs from the relays' by seconds."),
    "clock-unsynchronised": (WARN, "Nothing keeps this machine's clock right."),
    "chain-without-rounds": (
        FAIL,
        "No relay of a chain gives a round that verifies and tells the time: nothing can be sealed.",
    ),
    "chain-retired": (WARN, "A chain has had its last round."),
    "relay-unusable": (WARN, "A relay cannot be reached, or answers with no round."),
    "relay-late": (WARN, "A relay has only older rounds."),
    "relay-other-chain": (FAIL, "A relay serves another chain under this one's name."),
    "relay-lies": (FAIL, "A relay gives rounds that do not verify."),
    # disk
    "disk-full": (FAIL, "The disk is all but full."),
    "disk-low": (WARN, "The disk has little room: a copy of the log needs as much again."),
    "disk-read-only": (FAIL, "The data directory cannot be written to."),
    "wal-large": (WARN, "A write-ahead log has grown: something holds an old view of the database open."),
    "filesystem-network": (FAIL, "The databases are on a network file system, which does not lock as SQLite needs it."),
    "filesystem-volatile": (WARN, "The data directory is on a file system that is lost with the machine or container."),
    # witnesses
    "witness-unreachable": (WARN, "A witness does not answer."),
    "witness-unknown-log": (WARN, "A witness does not know this log, or its key."),
    "witness-other-key": (FAIL, "A witness signs with another key than the policy says."),
    "witness-ahead": (FAIL, "A witness has seen more of the log than there is: log.db is an older copy."),
    "witness-disagrees": (FAIL, "A witness has seen another history of this log."),
    "witness-behind": (WARN, "A witness has not cosigned for more than a minute."),
    "quorum-missing": (WARN, "The witnesses that answer do not make the policy's quorum."),
    # machine and service
    "sqlite-old": (FAIL, "SQLite is older than the databases need."),
    "backend-slow": (WARN, "There is no native pairing: verifying many rounds is a hundred times slower."),
    "files-limit": (WARN, "The process may open fewer files than the settings let clients wait."),
    "memory-low": (WARN, "Little memory is free."),
    "port-taken": (FAIL, "Something else than this directory's service answers at its address."),
    "service-stopped": (FAIL, "The service runs and takes no more writes."),
    "service-not-ready": (WARN, "The service runs and cannot seal now."),
}
"""Code -> level and meaning. Codes are added to and never renamed."""


def found(code: str, about: object, says: str, fix: str) -> Finding:
    """A finding of KNOWN."""
    return Finding(code, KNOWN[code][0], str(about), says, fix)


def fine(check: str, about: object, says: str) -> Finding:
    """Something that was looked at and is in order."""
    return Finding(check, Level.OK, str(about), says)


def worst(findings: Iterable[Finding]) -> Level:
    """The worst level there is; OK for none."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)


def as_dict(finding: Finding) -> dict[str, Any]:
    """For `--json`."""
    return {
        "code": finding.code,
        "level": finding.level.value,
        "about": finding.about,
        "says": finding.says,
        "fix": finding.fix or None,
    }
