"""private.db: what the operator keeps. Hosts, tokens as hashes, seeds encrypted under a key that is not in here,
and which entries answered which request.

A seed is durable here before its seal is public, so a crash leaves at worst a seed that nobody refers to.
"""

from __future__ import annotations

from typing import Final

from sqlite_utils import Database, Migrations

from beacon.store.schema import Schema

APPLICATION_ID: Final = 0x66627076  # "fbpv"

HOSTS: Final = (
    """CREATE TABLE hosts (name TEXT PRIMARY KEY, sandbox INTEGER NOT NULL CHECK (sandbox IN (0, 1)),
    created INTEGER NOT NULL) STRICT""",
    """CREATE TABLE tokens (hash BLOB PRIMARY KEY CHECK (length(hash) = 32), host TEXT NOT NULL REFERENCES hosts (name),
    scopes TEXT NOT NULL CHECK (length(scopes) > 0), note TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER,
    revoked INTEGER) STRICT""",
    "CREATE INDEX tokens_by_host ON tokens (host)",
)

SEEDS: Final = (
    """CREATE TABLE seeds (commitment BLOB PRIMARY KEY CHECK (length(commitment) = 32), nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL, created INTEGER NOT NULL) STRICT""",
    """CREATE TRIGGER seeds_once BEFORE INSERT ON seeds
    WHEN EXISTS (SELECT 1 FROM seeds WHERE commitment = NEW.commitment)
    BEGIN SELECT RAISE(ABORT, 'a seed is never replaced'); END""",
    """CREATE TRIGGER seeds_no_delete BEFORE DELETE ON seeds
    BEGIN SELECT RAISE(ABORT, 'a seed is never deleted'); END""",
    """CREATE TRIGGER seeds_keep_commitment BEFORE UPDATE OF commitment, created ON seeds
    BEGIN SELECT RAISE(ABORT, 'a seed keeps its commitment'); END""",
)

ANSWERS: Final = (
    """CREATE TABLE answers (key BLOB PRIMARY KEY CHECK (length(key) = 32), request BLOB NOT NULL
    CHECK (length(request) = 32), first INTEGER NOT NULL, count INTEGER NOT NULL, leaf BLOB NOT NULL
    CHECK (length(leaf) = 32), created INTEGER NOT NULL) STRICT, WITHOUT ROWID""",
)

WEBHOOKS: Final = (
    """CREATE TABLE webhooks (id TEXT PRIMARY KEY, host TEXT NOT NULL REFERENCES hosts (name), url TEXT NOT NULL,
    types TEXT NOT NULL, created INTEGER NOT NULL, position INTEGER NOT NULL, failing_since INTEGER, disabled INTEGER,
    nonce BLOB NOT NULL, ciphertext BLOB NOT NULL, old_nonce BLOB, old_ciphertext BLOB, old_until INTEGER,
    UNIQUE (host, url)) STRICT""",
    """CREATE TABLE webhook_deliveries (webhook TEXT NOT NULL REFERENCES webhooks (id), i INTEGER NOT NULL,
    session BLOB NOT NULL, type TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('delivered', 'retrying', 'failed')),
    attempts INTEGER NOT NULL, first INTEGER, last INTEGER NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (webhook, i))
    STRICT, WITHOUT ROWID""",
)

WEBHOOK_ANSWERS: Final = """CREATE TABLE webhook_answers (key BLOB PRIMARY KEY CHECK (length(key) = 32),
    request BLOB NOT NULL CHECK (length(request) = 32), nonce BLOB NOT NULL, ciphertext BLOB NOT NULL,
    created INTEGER NOT NULL) STRICT, WITHOUT ROWID"""

JOIN_KEYS: Final = """CREATE TABLE join_keys (id INTEGER PRIMARY KEY, nonce BLOB NOT NULL, ciphertext BLOB NOT NULL,
    until INTEGER NOT NULL) STRICT"""

migrations = Migrations("fair-beacon-private")


@migrations()
def m001_private(db: Database) -> None:
    """Create everything of the first version."""
    for statement in (*HOSTS, *SEEDS, *ANSWERS, *WEBHOOKS):
        db.execute(statement)


@migrations()
def m002_webhook_answers(db: Database) -> None:
    """Keep what the writes of webhooks were answered."""
    db.execute(WEBHOOK_ANSWERS)


@migrations()
def m003_join_keys(db: Database) -> None:
    """Keep what join tokens were made with under earlier master keys, until so many ms."""
    db.execute(JOIN_KEYS)


PRIVATE_SCHEMA: Final = Schema("private database", APPLICATION_ID, 0o600, migrations)
