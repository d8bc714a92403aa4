"""A small log with a projection of its own, and the check of a whole log by two independent ways."""

import sqlite3
import threading
from contextlib import closing, contextmanager

from beacon.log.fsck import check
from beacon.log.log import Log
from beacon.log.tree import Edge
from verifier import merkle
from verifier.encoding import encode_json, parse_canonical_json
from verifier.note import Checkpoint, SigningKey, open_note

ORIGIN = "log.example/test"
SIGNER = SigningKey(bytes(range(32)), ORIGIN)
START = 1_764_000_000_000
SESSION = "5e" * 32


class Clock:
    """Stands where it is put."""

    def __init__(self, now=START):
        self.time = now

    def now(self):
        return self.time


class Index:
    """Finds the entries of each session, in memory and in `session_entries`. Refuses a participant named `poison`."""

    def __init__(self):
        self.durable = {}
        self.staged = []
        self.calls = []

    def opened(self, db):
        self.calls.append("opened")
        self.durable = dict(db.execute("SELECT i, hex(session) FROM session_entries").fetchall())

    def applied(self, db, index, entry, leaf_hash):
        assert leaf_hash == merkle.leaf_hash(entry)
        fields = parse_canonical_json(entry)
        if fields.get("participant") == "poison":
            raise ValueError("a projection with a fault")
        if "session" in fields:
            db.execute("INSERT INTO session_entries VALUES (?, ?)", [bytes.fromhex(fields["session"]), index])
            self.staged.append(index)

    def before_commit(self, db):
        pass

    def committed(self):
        self.calls.append("committed")
        self.durable |= dict.fromkeys(self.staged, SESSION.upper())
        self.staged = []

    def rolled_back(self):
        self.calls.append("rolled back")
        self.staged = []


def contribution(time, name, *, size=32):
    """The bytes of a valid entry."""
    fields = {"v": 1, "type": "contribution", "time": time, "session": SESSION, "participant": name}
    return encode_json(fields | {"entropy": "ab" * size})


def contributions(*names):
    """A build of one entry for each name."""
    return lambda time: [contribution(time, name) for name in names]


def mark_of(path):
    return path.with_suffix(".mark")


def open_log(path, *, clock=None, projections=None, signer=SIGNER, **options):
    """Open a log under its mark, unless `mark` says otherwise."""
    options = {"mark": mark_of(path)} | options
    return Log.open(path, signer, clock or Clock(), [Index()] if projections is None else projections, **options)


@contextmanager
def held(writer):
    """Keep the writer busy with a commit of its own, so that what is asked for meanwhile comes into one commit."""
    begun, gate = threading.Event(), threading.Event()
    holding = writer.submit(lambda db: (begun.set(), gate.wait(30)))
    assert begun.wait(30)
    try:
        yield
    finally:
        gate.set()
        assert holding.result(30)


def append(log, *names):
    """Append and wait, from a thread."""
    return log.writer.submit(log._appending(contributions(*names)), plain=True).result(30)


def make_log(path, batches=(1,)):
    """A closed log with a first entry and then one commit for each number. Gives {index: entry} of all."""
    log = open_log(path)
    done = {}
    for batch, count in enumerate(batches):
        for entry in append(log, *(f"{batch}-{number}" for number in range(count))):
            done[entry.index] = entry.entry
    log.close()
    return done


def tamper(path, *statements):
    """Change the file as its owner could: triggers are dropped and put back. A statement is SQL, or SQL and values."""
    with closing(sqlite3.connect(path)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(*statement if isinstance(statement, tuple) else (statement,))
        for _, sql in triggers:
            db.execute(sql)
        db.commit()


def signed(size, root, *, origin=ORIGIN, extensions=()):
    """A checkpoint under the log's own key."""
    text = Checkpoint(origin, size, root, extensions).encode()
    return f"{text}\n{SIGNER.sign(text)}"


def forge(path, entries, time):
    """Put these entries in place of all others, with hashes and one checkpoint that fit: what only the log's owner can."""
    edge = Edge()
    rows = [(index, edge.append(merkle.leaf_hash(entry))) for index, entry in enumerate(entries)]
    tamper(
        path,
        *(f"DELETE FROM {table}" for table in ("entries", "hashes", "checkpoints", "session_entries")),
        *(("INSERT INTO entries VALUES (?, ?)", row) for row in enumerate(entries)),
        *(("INSERT INTO hashes VALUES (?, ?)", row) for row in rows),
        ("INSERT INTO checkpoints VALUES (?, ?, ?)", (len(entries), signed(len(entries), edge.root()), time)),
    )


def first_leaf(time, origin=ORIGIN):
    """The bytes of a log's first entry."""
    return encode_json({"v": 1, "type": "log", "time": time, "origin": origin})


def verify_whole(path, acknowledged=None, signer=SIGNER, projection=Index):
    """Check everything twice: by fsck, and from the entries and the newest checkpoint alone. Gives all entries."""
    report = check(path, signer.vkey, [projection()])
    assert report.ok, [str(finding) for finding in report.findings]
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT i, entry FROM entries ORDER BY i").fetchall()
        notes = db.execute("SELECT size, note FROM checkpoints ORDER BY size").fetchall()
    assert [row[0] for row in rows] == list(range(len(rows)))
    entries = [row[1] for row in rows]
    leaves = [merkle.leaf_hash(entry) for entry in entries]
    for size, note in notes[-3:]:
        checkpoint = Checkpoint.parse(open_note(note, [signer.vkey]).text)
        assert (checkpoint.origin, checkpoint.size) == (signer.name, size)
        assert checkpoint.root == merkle.tree_root(leaves[:size])
    assert (notes[-1][0] if notes else 0) == len(entries) == report.size
    for index, entry in (acknowledged or {}).items():
        assert entries[index] == entry
    return entries
