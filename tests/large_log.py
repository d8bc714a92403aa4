"""A data directory with as many sessions as one likes, made by bulk inserts: minutes for ten million entries.

The tree, the checkpoints, the derived tables, the seeds and the mark are as the service writes them (`beacon log check
--no-rounds` passes), each session is a match of ten entries of the right form and order, and its reveal opens its
commitment. Its dice are not those that the seed gives, and the rounds' signatures are random: no game was played.
"""

import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import count, islice

from beacon.keys.log import log_signer
from beacon.log import highwater
from beacon.log.tree import Edge
from beacon.settings import load_settings
from beacon.store.log_schema import FILL_LEDGER, LOG_SCHEMA
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.schema import open_writable
from tests.round_support import QUICKNET
from verifier.encoding import encode_json
from verifier.note import Checkpoint

ENTRIES = 10
"""Of a session: seal, two contributions, close, five draws, reveal."""
DRAWS = 5
FIRST_ROUND, LAST_ROUND = 1_000, 72_000
"""The rounds that sessions use, so that all of it is in the past at the recorded rounds of the tests."""
APART = 3
CHECKPOINT_EVERY = 64
HOSTS = 16
"""host-0 has half of the sessions, the others share the rest."""
PAGES = 262_144

_CHAIN = QUICKNET.hash.hex()
_RECIPES = '"recipes":{"turn":{"kind":"dice","count":2,"sides":6}},"plan":null,"attachments":[]'
_BULK = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    f"PRAGMA cache_size = -{PAGES * 4}",
    "PRAGMA temp_store = MEMORY",
)


def fill(folder, sessions, still_open=0):
    """Fill a data directory on quicknet that was just made (`process_support.make_data`). Gives the log's size.

    still_open: sessions besides, of hosts that keep their seeds themselves, which wait for a round of years to come.
    """
    settings = load_settings(folder)
    with closing(sqlite3.connect(settings.log_db)) as db:
        later = _without_order(db)
        writer = _Entries(db, log_signer(settings))
        made = list(_play(writer, settings.origin, sessions))
        made += _seal_only(writer, settings.origin, still_open, made)
        writer.checkpoint()
        _derive(db, made, writer)
        for sql in later:
            db.execute(sql)
        db.commit()
    _keep_seeds(settings.private_db, made)
    for path, schema in ((settings.log_db, LOG_SCHEMA), (settings.private_db, PRIVATE_SCHEMA)):
        open_writable(path, schema).close()
    settings.log_mark.unlink()
    return highwater.make(settings.log_db, settings.log_mark, log_signer(settings).vkey)


def host_of(number):
    """The host of a session."""
    return f"host-{0 if number % 2 else number // 2 % HOSTS}"


class _Entries:
    """Appends entries, their hashes and now and then a checkpoint."""

    def __init__(self, db, signer):
        self.db, self.signer = db, signer
        self.rounds, self.chain_index = [], None
        (first,) = db.execute("SELECT entry FROM entries").fetchone()
        self.time = json.loads(first)["time"]
        self.edge, self.size, self.waiting = Edge(), 0, []
        self.edge.append(hashlib.sha256(b"\0" + first).digest())
        self.size = 1

    def append(self, text):
        """The leaf hash of an entry (32 bytes)."""
        data = text.encode()
        leaf = hashlib.sha256(b"\0" + data).digest()
        self.waiting.append((self.size, data, self.edge.append(leaf)))
        self.size += 1
        if len(self.waiting) >= CHECKPOINT_EVERY:
            self.checkpoint()
        return leaf

    def checkpoint(self):
        if not self.waiting:
            return
        self.db.executemany("INSERT INTO entries VALUES (?, ?)", [(i, data) for i, data, _ in self.waiting])
        self.db.executemany("INSERT INTO hashes VALUES (?, ?)", [(i, nodes) for i, _, nodes in self.waiting])
        text = Checkpoint(self.signer.name, self.size, self.edge.root()).encode()
        note = f"{text}\n{self.signer.sign(text)}"
        self.db.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", (self.size, note, self.time))
        self.waiting = []


class _Session:
    """What the derived tables and private.db need of a session. places: the log indices of its entries."""

    __slots__ = ("commitment", "end", "host", "label", "name", "places", "seed", "sequence", "time")

    def __init__(self, number, sequence, time):
        self.seed = hashlib.sha256(b"seed %d" % number).digest()
        self.commitment = hashlib.sha256(self.seed).digest()
        self.host, self.sequence, self.label = host_of(number), sequence, f"table {number}"
        self.time, self.end, self.places = time, None, []

    def seal(self, origin, custody, number, close_at, reveal_by, players):
        latest = QUICKNET.current(self.time)
        return (
            f'{{"v":1,"type":"seal","time":{self.time},"log":"{origin}","host":"{self.host}","host_seq":{self.sequence}'
            f',"label":"{self.label}","replaces":null,"profile":"match","custody":"{custody}"'
            f',"commitment":"{self.commitment.hex()}","links":1,"chain":"{_CHAIN}","round":{number}'
            f',"close_at":{close_at},"reveal_by":{reveal_by},"participants":{players},"open":false'
            f',"min_contributions":{2 if players != "[]" else 0},{_RECIPES}'
            f',"after":{{"round":{latest},"signature":"{_signature(latest)}"}},"sandbox":false}}'
        )


def _play(log, origin, sessions):
    """Seal, play and reveal them, those of one round together."""
    log.time = QUICKNET.time(FIRST_ROUND - 10)
    info = encode_json(QUICKNET.as_dict()).decode()
    log.chain_index = log.size
    log.append(f'{{"v":1,"type":"chain","time":{log.time},"info":{info}}}')
    sequences, numbers = Counter(), iter(range(sessions))
    together = -(-sessions // ((LAST_ROUND - FIRST_ROUND) // APART))
    for round_number in count(FIRST_ROUND, APART):
        part = list(islice(numbers, together))
        if not part:
            return
        yield from _round_of(log, origin, round_number, part, sequences)


def _round_of(log, origin, round_number, numbers, sequences):
    at = QUICKNET.time(round_number)
    log.time = at - 9_000
    made = []
    for number in numbers:
        sequences[host_of(number)] += 1
        session = _Session(number, sequences[host_of(number)], log.time)
        players = '[{"id":"white"},{"id":"black"}]'
        session.places.append(log.size)
        session.name = log.append(session.seal(origin, "beacon", round_number, at - 4_000, at + 86_400_000, players))
        made.append((session, f'"session":"{session.name.hex()}"'))
    for session, name in made:
        for player, byte in (("white", 1), ("black", 2)):
            session.places.append(log.size)
            said = f'"participant":"{player}","entropy":"{session.seed[byte]:02x}"'
            log.append(f'{{"v":1,"type":"contribution","time":{log.time},{name},{said}}}')
    for session, name in made:
        session.places.append(log.size)
        log.append(f'{{"v":1,"type":"close","time":{log.time},{name},"contributions":2,"digest":"{_CHAIN}"}}')
    log.time = at
    log.rounds.append((QUICKNET.hash, round_number, log.size))
    signed = f'"chain":"{_CHAIN}","round":{round_number},"signature":"{_signature(round_number)}"'
    log.append(f'{{"v":1,"type":"round","time":{at},{signed}}}')
    for session, name in made:
        for n in range(1, DRAWS + 1):
            session.places.append(log.size)
            dice = f'"n":{n},"purpose":"","outcomes":[[{session.seed[n] % 6 + 1},{session.seed[-n] % 6 + 1}]]'
            log.append(f'{{"v":1,"type":"draw","time":{at},{name},"recipe":"turn",{dice}}}')
    for session, name in made:
        session.places.append(log.size)
        session.end = (log.size, at)
        shown = f'"by":"service","seed":"{session.seed.hex()}","draws":{{"turn":{DRAWS}}}'
        log.append(f'{{"v":1,"type":"reveal","time":{at},{name},{shown}}}')
        yield session


def _seal_only(log, origin, sessions, before):
    sequences = Counter(session.host for session in before)
    log.time = QUICKNET.time(LAST_ROUND + 100)
    distant = LAST_ROUND + 3_000_000
    made = []
    for number in range(len(before), len(before) + sessions):
        sequences[host_of(number)] += 1
        session = _Session(number, sequences[host_of(number)], log.time)
        session.places.append(log.size)
        reveal_by = QUICKNET.time(distant) + 86_400_000
        session.name = log.append(session.seal(origin, "host", distant, "null", reveal_by, "[]"))
        made.append(session)
    return made


def _derive(db, made, log):
    made.sort(key=lambda session: session.name)
    db.executemany(
        f"INSERT INTO sessions VALUES ({','.join('?' * 14)})",
        (
            (
                one.name, one.places[0], one.host, one.sequence, one.label, QUICKNET.hash, one.time, "match",
                "host" if one.end is None else "beacon", 0, None, *(one.end or (None, None)),
                None if one.end is None else "revealed",
            )
            for one in made
        ),
    )  # fmt: skip
    rows = ((one.name, place) for one in made for place in one.places)
    db.executemany("INSERT INTO session_entries VALUES (?, ?)", rows)
    shown = sorted({one.commitment for one in made} | {one.seed for one in made if one.end is not None})
    db.executemany("INSERT INTO openings VALUES (?)", ((value,) for value in shown))
    db.executemany("INSERT INTO round_entries VALUES (?, ?, ?)", log.rounds)
    db.execute("INSERT INTO chain_entries VALUES (?, ?)", (QUICKNET.hash, log.chain_index))
    for sql in FILL_LEDGER:
        db.execute(sql)


def _keep_seeds(path, made):
    made.sort(key=lambda session: session.commitment)
    with closing(sqlite3.connect(path)) as db:
        later = _without_order(db)
        db.executemany(
            "INSERT INTO seeds VALUES (?, ?, ?, ?)",
            ((one.commitment, one.seed[:12], one.seed + one.seed[:16], one.time) for one in made),
        )
        for sql in later:
            db.execute(sql)
        db.commit()


def _without_order(db):
    """Drop what each insert would pay for; gives the statements that make it anew."""
    for statement in _BULK:
        db.execute(statement).fetchall()
    found = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql != ''")
    found = found.fetchall()
    for kind, name, _ in found:
        db.execute(f"DROP {kind} {name}")
    return [sql for _, _, sql in found]


def _signature(number):
    return hashlib.sha384(b"round %d" % number).hexdigest()
