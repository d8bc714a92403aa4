"""What a store refuses or fails with. `code` is stable; where the API passes an error on, it is the API's own code."""

# ruff: noqa: N818 - an error is named by what happened

from __future__ import annotations

from typing import ClassVar


class StoreError(Exception):
    """Base of all of them."""

    code: ClassVar[str] = "store"


class AlreadyOpen(StoreError):
    """Another process, or this one, has the database open for writing."""

    code = "already-open"


class SchemaRefused(StoreError):
    """The file is not the database it should be: another application's, a newer version's, or altered by hand."""

    code = "schema-refused"


class SchemaNewer(SchemaRefused):
    """The file was made, or brought up to date, by a newer version. There is no way back for it: run that version."""

    code = "schema-newer"


class SchemaOlder(SchemaRefused):
    """The file is of an older version, and what would bring it up to date may not write here."""

    code = "schema-older"


class CannotOpen(StoreError):
    """The file cannot be opened or read: permissions, a lock, the disk. What it holds may be in order."""

    code = "cannot-open"


class DatabaseDamaged(StoreError):
    """What the file holds cannot be read as the database that it should be."""

    code = "database-damaged"


class LogDamaged(DatabaseDamaged):
    """The log does not agree with itself: entries, hashes, checkpoints or the key. It is not opened."""

    code = "log-damaged"


class LogBehind(StoreError):
    """The log lacks what was acknowledged, or nothing can tell whether it does: an older copy. It is not opened."""

    code = "log-behind"


class EntryRefused(StoreError):
    """An entry that the log cannot hold: not canonical, too long, or with another time than it was given."""

    code = "entry-refused"


class WriteFailed(StoreError):
    """Nothing was written, and it may be tried again."""

    code = "write-failed"


class OutcomeUnknown(StoreError):
    """A commit was asked for and nobody can say whether it happened. The writer has stopped; opening again decides."""

    code = "outcome-unknown"


class WriterStopped(StoreError):
    """The writer takes nothing: it stopped after a fatal error, or it was closed. Nothing was written."""

    code = "unavailable"


class SeedExists(StoreError):
    """A seed is already kept under this commitment."""

    code = "seed-exists"


class HostUnknown(StoreError):
    """There is no host of this name."""

    code = "host-unknown"


class TokenUnknown(StoreError):
    """The host has no valid token of this id."""

    code = "token-unknown"


class HostExists(StoreError):
    """There is a host of this name with another sandbox flag."""

    code = "host-exists"


class NameRefused(StoreError):
    """Not a name that a host can have (rule 3.5)."""

    code = "name-refused"


class WebhookExists(StoreError):
    """The host has a webhook with this URL."""

    code = "webhook-exists"


class WebhookLimit(StoreError):
    """The host has as many webhooks as it may have."""

    code = "too-many-webhooks"
