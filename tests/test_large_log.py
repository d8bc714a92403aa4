"""A log that is ten times as large costs no more: neither to open, nor to write to, nor to give account of a host.

Counted are the steps of SQLite's virtual machine, which depend on what is read and on nothing else. How long it takes
with a million sessions, `tests.bench.bench_large` measures.
"""

import sqlite3
from contextlib import closing

import pytest

from beacon.keys.log import log_signer
from beacon.log.fsck import check
from beacon.log.log import Log
from beacon.sessions import ledger
from beacon.sessions.book import Book
from beacon.sessions.ledger import Asked
from beacon.settings import load_settings
from beacon.store.schema import open_readonly
from tests.large_log import ENTRIES, fill, host_of
from tests.process_support import make_data
from tests.round_support import QUICKNET, FakeClock

FEW, MANY, OPEN = 100, 1_000, 10
SLACK = 1.2
"""A B-tree has a level more here and there."""


class Steps:
    """Connects, and counts the steps of the virtual machine."""

    def __init__(self):
        self.count = 0

    def __call__(self, name):
        connection = sqlite3.connect(name)
        self.watch(connection)
        return connection

    def watch(self, connection):
        connection.set_progress_handler(self._step, 1)

    def _step(self):
        self.count += 1
        return 0

    def taken(self):
        count, self.count = self.count, 0
        return count


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    for sessions in (FEW, MANY):
        made[sessions] = tmp_path_factory.mktemp("large") / "data"
        make_data(made[sessions], "beacon.example/large", "http://127.0.0.1:1", FakeClock(QUICKNET.time(900)))
        rounds = -(-sessions // -(-sessions // (71_000 // 3)))
        assert fill(made[sessions], sessions, OPEN) == ENTRIES * sessions + rounds + 2 + OPEN
    return made


def test_what_the_bulk_inserts_make_is_a_log(folders):
    settings = load_settings(folders[FEW])
    report = check(settings.log_db, log_signer(settings).vkey, [Book()], rounds=False)
    assert report.ok, report.findings
    assert report.derived_checked
    with closing(open_readonly(settings.private_db)) as db:
        assert db.execute("SELECT count(*) FROM seeds").fetchone()[0] == FEW + OPEN


def opened(folder):
    """Steps of opening a log with its book, and of appending a session's first entries to it."""
    settings, steps, book = load_settings(folder), Steps(), Book()
    clock = FakeClock(QUICKNET.time(80_000))
    log = Log.open(settings.log_db, log_signer(settings), clock, [book], mark=settings.log_mark, connector=steps)
    opening = steps.taken()
    assert len(book.all_open()) == OPEN
    seal = log.reader.submit(lambda db: db.execute("SELECT entry FROM entries ORDER BY i DESC LIMIT 1").fetchone()[0])

    def build(time):
        entry = seal.result().replace(b'"label":"table ', b'"label":"further ')
        number = book.next_sequence(host_of(1))
        start, end = entry.index(b'"time":') + 7, entry.index(b',"log"')
        entry = entry[:start] + str(time).encode() + entry[end:]
        start, end = entry.index(b'"host":"'), entry.index(b',"label"')
        return [entry[:start] + f'"host":"{host_of(1)}","host_seq":{number}'.encode() + entry[end:]]

    log.writer.submit(log._appending(build), plain=True).result()
    log.close()
    return opening, steps.taken()


def test_neither_opening_nor_appending_costs_more(folders):
    few, many = opened(folders[FEW]), opened(folders[MANY])
    assert many[0] < SLACK * few[0]
    assert many[1] < SLACK * few[1]


def test_no_account_of_a_host_costs_more(folders):
    def asked(folder):
        steps, found = Steps(), []
        with closing(open_readonly(folder / "log.db")) as db:
            steps.watch(db.conn)
            for query in (
                lambda: ledger.ledger(db, host_of(1)),
                lambda: ledger.page(db, Asked(host_of(1)), lambda _: None),
                lambda: ledger.page(db, Asked(host_of(1), state="revealed"), lambda _: None),
                lambda: ledger.page(db, Asked(host_of(1), label="table 7"), lambda _: None),
            ):
                assert query()
                found.append(steps.taken())
        return found

    few, many = asked(folders[FEW]), asked(folders[MANY])
    assert all(more < SLACK * less for less, more in zip(few, many, strict=True)), (few, many)
