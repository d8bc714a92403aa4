"""log.db: the public database. Anyone may be handed the file and check it.

    entries      i = the leaf's index; entry = its exact bytes
    hashes       i; nodes = leaf(entry i), then the root of every larger perfect subtree that leaf i completes, smallest
                 first, 32 bytes each. So the root of the leaves [m·2^L, (m+1)·2^L) stands in row (m+1)·2^L - 1 at 32·L.
    checkpoints  size = number of leaves; note = the signed checkpoint; time = that of the newest entry, in ms
    rounds       drand rounds that were verified before they were stored, one per (chain, round)
    round_evidence  a second valid signature of a stored round: proof of a broken chain
    witnesses    vkey = the public key of a witness that cosigned a checkpoint; id counts from 1
    cosignatures size = of the checkpoint; witness = its id; signature = POSIX seconds (8 bytes) and what signs them
                 with the checkpoint (C2SP tlog-cosignature): what stands behind the key id in its line

    log_keys     vkey = a key of the log; first = the size from which it signs; signature = its own of that
                 checkpoint, NULL of the first key. No rows while the log has had one key; id counts from 1
    log_key_ends id = of a key that signs no more; last = the newest size that it signed

These only ever grow: triggers forbid update, delete and gaps (INSERT OR REPLACE included), and a checkpoint that does
not cover exactly the entries that are there. Whoever can write the file can drop a trigger; the checkpoints' signatures
and fsck are what that person has to beat. The tables of DERIVED are an index over the entries, and can be rebuilt;
those of the ledger follow from `sessions` by triggers, so that no account of a host needs all of its sessions read.
"""

from __future__ import annotations

from typing import Final

from sqlite_utils import Database, Migrations

from beacon.store.schema import Schema

APPLICATION_ID: Final = 0x66626C67  # "fblg"

ENTRIES: Final = (
    """CREATE TABLE entries (i INTEGER PRIMARY KEY, entry BLOB NOT NULL CHECK (length(entry) BETWEEN 2 AND 65535))
    STRICT""",
    """CREATE TRIGGER entries_in_order BEFORE INSERT ON entries
    WHEN NEW.i IS NOT (SELECT coalesce(max(i) + 1, 0) FROM entries)
    BEGIN SELECT RAISE(ABORT, 'entries are appended without gaps'); END""",
)

HASHES: Final = (
    """CREATE TABLE hashes (i INTEGER PRIMARY KEY, nodes BLOB NOT NULL
    CHECK (length(nodes) % 32 = 0 AND (1 << (length(nodes) / 32 - 1)) = ((i + 1) & -(i + 1)))) STRICT""",
    """CREATE TRIGGER hashes_in_order BEFORE INSERT ON hashes
    WHEN NEW.i IS NOT (SELECT coalesce(max(i) + 1, 0) FROM hashes)
    BEGIN SELECT RAISE(ABORT, 'hashes are appended without gaps'); END""",
)

CHECKPOINTS: Final = (
    """CREATE TABLE checkpoints (size INTEGER PRIMARY KEY CHECK (size > 0), note TEXT NOT NULL, time INTEGER NOT NULL)
    STRICT""",
    """CREATE TRIGGER checkpoints_in_order BEFORE INSERT ON checkpoints
    WHEN NEW.size <= (SELECT coalesce(max(size), 0) FROM checkpoints)
    OR NEW.size IS NOT (SELECT max(i) + 1 FROM entries)
    OR NEW.size IS NOT (SELECT max(i) + 1 FROM hashes)
    BEGIN SELECT RAISE(ABORT, 'a checkpoint covers all entries, and more than the one before'); END""",
)

ROUNDS: Final = (
    """CREATE TABLE rounds (chain BLOB NOT NULL CHECK (length(chain) = 32), round INTEGER NOT NULL CHECK (round > 0),
    signature BLOB NOT NULL, previous_signature BLOB, PRIMARY KEY (chain, round)) STRICT, WITHOUT ROWID""",
    """CREATE TRIGGER rounds_once BEFORE INSERT ON rounds
    WHEN EXISTS (SELECT 1 FROM rounds WHERE chain = NEW.chain AND round = NEW.round)
    BEGIN SELECT RAISE(ABORT, 'a round is never replaced'); END""",
    """CREATE TABLE round_evidence (chain BLOB NOT NULL CHECK (length(chain) = 32), round INTEGER NOT NULL
    CHECK (round > 0), signature BLOB NOT NULL, previous_signature BLOB, time INTEGER NOT NULL,
    PRIMARY KEY (chain, round, signature)) STRICT, WITHOUT ROWID""",
    """CREATE TRIGGER round_evidence_once BEFORE INSERT ON round_evidence
    WHEN EXISTS (SELECT 1 FROM round_evidence
                 WHERE chain = NEW.chain AND round = NEW.round AND signature = NEW.signature)
    BEGIN SELECT RAISE(ABORT, 'evidence is never replaced'); END""",
)

COSIGNATURES: Final = (
    "CREATE TABLE witnesses (id INTEGER PRIMARY KEY, vkey TEXT NOT NULL) STRICT",
    """CREATE TRIGGER witnesses_once BEFORE INSERT ON witnesses
    WHEN NEW.id IS NOT (SELECT coalesce(max(id), 0) + 1 FROM witnesses)
    OR EXISTS (SELECT 1 FROM witnesses WHERE vkey = NEW.vkey)
    BEGIN SELECT RAISE(ABORT, 'a witness stands there once, and they are numbered without gaps'); END""",
    """CREATE TABLE cosignatures (size INTEGER NOT NULL, witness INTEGER NOT NULL, signature BLOB NOT NULL
    CHECK (length(signature) > 8), PRIMARY KEY (size, witness)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX cosignatures_by_witness ON cosignatures (witness, size)",
    """CREATE TRIGGER cosignatures_once BEFORE INSERT ON cosignatures
    WHEN EXISTS (SELECT 1 FROM cosignatures WHERE size = NEW.size AND witness = NEW.witness)
    OR NOT EXISTS (SELECT 1 FROM checkpoints WHERE size = NEW.size)
    OR NOT EXISTS (SELECT 1 FROM witnesses WHERE id = NEW.witness)
    BEGIN SELECT RAISE(ABORT, 'a witness cosigns a checkpoint that is there, and its first cosignature stays'); END""",
)

LOG_KEYS: Final = (
    """CREATE TABLE log_keys (id INTEGER PRIMARY KEY, vkey TEXT NOT NULL, first INTEGER NOT NULL CHECK (first > 0),
    signature BLOB CHECK ((signature IS NULL) = (id = 1) AND (signature IS NULL OR length(signature) = 64))) STRICT""",
    """CREATE TRIGGER log_keys_once BEFORE INSERT ON log_keys
    WHEN NEW.id IS NOT (SELECT coalesce(max(id), 0) + 1 FROM log_keys)
    OR EXISTS (SELECT 1 FROM log_keys WHERE vkey = NEW.vkey)
    OR (NEW.id > 1 AND NEW.first IS NOT (SELECT max(size) FROM checkpoints))
    BEGIN SELECT RAISE(ABORT, 'a key stands there once, and begins with the newest checkpoint'); END""",
    "CREATE TABLE log_key_ends (id INTEGER PRIMARY KEY, last INTEGER NOT NULL) STRICT",
    """CREATE TRIGGER log_key_ends_once BEFORE INSERT ON log_key_ends
    WHEN EXISTS (SELECT 1 FROM log_key_ends WHERE id = NEW.id)
    OR NEW.last IS NOT (SELECT max(size) FROM checkpoints)
    OR NOT EXISTS (SELECT 1 FROM log_keys WHERE id = NEW.id)
    OR NOT EXISTS (SELECT 1 FROM log_keys WHERE id <> NEW.id AND id NOT IN (SELECT id FROM log_key_ends))
    BEGIN SELECT RAISE(ABORT, 'a key ends once, with the newest checkpoint, and never the last of them'); END""",
)

_INDEX: Final = {
    "sessions": (
        """CREATE TABLE sessions (session BLOB PRIMARY KEY CHECK (length(session) = 32), seal_index INTEGER NOT NULL,
        host TEXT NOT NULL, host_seq INTEGER NOT NULL, label TEXT NOT NULL, chain BLOB NOT NULL, time INTEGER NOT NULL,
        profile TEXT NOT NULL, custody TEXT NOT NULL, sandbox INTEGER NOT NULL, replaces BLOB, end_index INTEGER,
        end_time INTEGER, ended TEXT) STRICT, WITHOUT ROWID""",
        "CREATE UNIQUE INDEX sessions_by_seal ON sessions (seal_index)",
        "CREATE INDEX sessions_by_host ON sessions (host, host_seq)",
        "CREATE INDEX sessions_by_label ON sessions (host, label, host_seq)",
        "CREATE INDEX sessions_by_end ON sessions (host, ended, host_seq)",
        "CREATE INDEX sessions_without_end ON sessions (seal_index) WHERE end_index IS NULL",
    ),
    "session_entries": (
        """CREATE TABLE session_entries (session BLOB NOT NULL, i INTEGER NOT NULL, PRIMARY KEY (session, i))
        STRICT, WITHOUT ROWID""",
        "CREATE INDEX session_entries_by_index ON session_entries (i)",
    ),
    "round_entries": (
        """CREATE TABLE round_entries (chain BLOB NOT NULL, round INTEGER NOT NULL, i INTEGER NOT NULL,
        PRIMARY KEY (chain, round)) STRICT, WITHOUT ROWID""",
    ),
    "openings": (
        """CREATE TABLE openings (value BLOB PRIMARY KEY CHECK (length(value) = 32)) STRICT, WITHOUT ROWID""",
    ),
    "chain_entries": ("CREATE TABLE chain_entries (chain BLOB PRIMARY KEY, i INTEGER NOT NULL) STRICT, WITHOUT ROWID",),
}

_LEDGER: Final = {
    "ledger": (
        """CREATE TABLE ledger (host TEXT PRIMARY KEY, sandbox INTEGER NOT NULL, sealed INTEGER NOT NULL,
        gapless INTEGER NOT NULL, last_seq INTEGER NOT NULL, first_time INTEGER NOT NULL, last_time INTEGER NOT NULL,
        replaced INTEGER NOT NULL, labels_twice INTEGER NOT NULL) STRICT, WITHOUT ROWID""",
        """CREATE TRIGGER ledger_of_seals AFTER INSERT ON sessions BEGIN
        INSERT INTO ledger VALUES (NEW.host, NEW.sandbox, 1, NEW.host_seq = 1, NEW.host_seq, NEW.time, NEW.time,
        NEW.replaces IS NOT NULL, 0) ON CONFLICT (host) DO UPDATE SET sealed = sealed + 1,
        gapless = gapless AND NEW.host_seq = last_seq + 1, last_seq = max(last_seq, NEW.host_seq),
        last_time = NEW.time, replaced = replaced + (NEW.replaces IS NOT NULL);
        INSERT INTO labels_twice SELECT NEW.host, NEW.label, 2, NEW.seal_index WHERE NEW.label <> '' AND EXISTS
        (SELECT 1 FROM sessions WHERE host = NEW.host AND label = NEW.label AND session <> NEW.session)
        ON CONFLICT (host, label) DO UPDATE SET sessions = sessions + 1, seal_index = NEW.seal_index; END""",
        "CREATE INDEX sessions_replaced ON sessions (host, host_seq) WHERE replaces IS NOT NULL",
    ),
    "ledger_ends": (
        """CREATE TABLE ledger_ends (host TEXT NOT NULL, ended TEXT NOT NULL, sessions INTEGER NOT NULL,
        PRIMARY KEY (host, ended)) STRICT, WITHOUT ROWID""",
        """CREATE TRIGGER ledger_of_ends AFTER UPDATE OF ended ON sessions WHEN NEW.ended IS NOT NULL BEGIN
        INSERT INTO ledger_ends VALUES (NEW.host, NEW.ended, 1)
        ON CONFLICT (host, ended) DO UPDATE SET sessions = sessions + 1; END""",
    ),
    "labels_twice": (
        """CREATE TABLE labels_twice (host TEXT NOT NULL, label TEXT NOT NULL, sessions INTEGER NOT NULL,
        seal_index INTEGER NOT NULL, PRIMARY KEY (host, label)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX labels_twice_by_seal ON labels_twice (host, seal_index)",
        """CREATE TRIGGER ledger_of_labels AFTER INSERT ON labels_twice BEGIN
        UPDATE ledger SET labels_twice = labels_twice + 1 WHERE host = NEW.host; END""",
    ),
}
DERIVED: Final = {**_INDEX, **_LEDGER}

FILL_LEDGER: Final = (
    """INSERT INTO ledger SELECT host, max(sandbox), count(*), min(host_seq = number), max(host_seq), min(time),
    max(time), count(replaces), 0 FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY seal_index) AS number
    FROM sessions) GROUP BY host""",
    """INSERT INTO ledger_ends SELECT host, ended, count(*) FROM sessions WHERE ended IS NOT NULL
    GROUP BY host, ended""",
    """INSERT INTO labels_twice SELECT host, label, count(*), max(seal_index) FROM sessions WHERE label <> ''
    GROUP BY host, label HAVING count(*) > 1""",
)
"""What the triggers would have made of the sessions that are there, once the tables are."""

_WITH_TREE: Final = ("entries", "hashes", "checkpoints", "rounds", "round_evidence")
_WITH_WITNESSES: Final = ("witnesses", "cosignatures")
_WITH_KEYS: Final = ("log_keys", "log_key_ends")
APPEND_ONLY: Final = (*_WITH_TREE, *_WITH_WITNESSES, *_WITH_KEYS)

migrations = Migrations("fair-beacon-log")


def immutable(table: str) -> tuple[str, ...]:
    """Give the triggers that forbid UPDATE and DELETE on a table."""
    return tuple(
        f"""CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}
    BEGIN SELECT RAISE(ABORT, '{table} only grow'); END"""
        for verb in ("UPDATE", "DELETE")
    )


@migrations()
def m001_log(db: Database) -> None:
    """Create everything of the first version."""
    for group in (ENTRIES, HASHES, CHECKPOINTS, ROUNDS, *map(immutable, _WITH_TREE), *_INDEX.values()):
        for statement in group:
            db.execute(statement)


@migrations()
def m002_cosignatures(db: Database) -> None:
    """Add what witnesses say."""
    for group in (COSIGNATURES, *map(immutable, _WITH_WITNESSES)):
        for statement in group:
            db.execute(statement)


@migrations()
def m003_ledger(db: Database) -> None:
    """Add what is counted of each host."""
    for group in (*_LEDGER.values(), FILL_LEDGER):
        for statement in group:
            db.execute(statement)


@migrations()
def m004_log_keys(db: Database) -> None:
    """Add which keys the log has had."""
    for group in (LOG_KEYS, *map(immutable, _WITH_KEYS)):
        for statement in group:
            db.execute(statement)


LOG_SCHEMA: Final = Schema("log database", APPLICATION_ID, 0o644, migrations)
