"""A whole log read from its database and from its tiles, and every way in which it can be false."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log_support import SIGNER, forge, make_log, signed, tamper
from verifier import fetch, merkle, whole_log
from verifier.errors import Code, FormatError, VerificationError
from verifier.note import SigningKey
from verifier.tiles import encode_bundle, parse_tile_path

LIKE_A_LOG = (
    f"CREATE TABLE checkpoints (size, note); PRAGMA application_id = {whole_log.APPLICATION_ID}; "
    "INSERT INTO checkpoints VALUES (1, 'note')"
)
OTHER = SigningKey(b"\x09" * 32, "log.example/other").vkey


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=70))
def test_the_frontier_has_the_root_of_every_size(leaves: list[bytes]) -> None:
    frontier = merkle.Frontier()
    assert frontier.root() == merkle.EMPTY_ROOT
    for size, leaf in enumerate(leaves, 1):
        frontier.append(leaf)
        assert (frontier.size, frontier.root()) == (size, merkle.tree_root(leaves[:size]))
        assert len(frontier._roots) == size.bit_count()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    path = tmp_path_factory.mktemp("log") / "log.db"
    make_log(path, (300, 211, 1))
    with closing(sqlite3.connect(path)) as db:
        return path, [entry for (entry,) in db.execute("SELECT entry FROM entries ORDER BY i")]


@pytest.fixture
def path(made: tuple[Path, list[bytes]], tmp_path: Path) -> Path:
    copy = tmp_path / "log.db"
    with closing(sqlite3.connect(made[0])) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def read_all(path: Path, key=SIGNER.vkey) -> list[bytes]:
    with whole_log.of_database(path) as log:
        entries = list(log.entries())
        log.check(key)
    return entries


def test_a_database_gives_all_its_entries(path: Path, made) -> None:
    assert read_all(path) == read_all(path, None) == made[1]
    assert len(made[1]) == 513
    assert whole_log.is_database(path)
    assert not whole_log.is_database(path.with_name("absent"))
    assert not whole_log.is_database(Path(__file__))


def test_a_database_that_nobody_may_write_beside_is_read(path: Path, made) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert read_all(path) == made[1]
    finally:
        path.parent.chmod(0o755)


def test_entries_beyond_the_newest_checkpoint_are_not_read(path: Path, made) -> None:
    tamper(path, ("INSERT INTO entries VALUES (?, ?)", (513, b'{"v":1}')))
    assert read_all(path) == made[1]


@pytest.mark.parametrize(
    "statement",
    [
        ("UPDATE entries SET entry = ? WHERE i = 300", (b'{"v":1}',)),
        ("UPDATE entries SET entry = (SELECT entry FROM entries WHERE i = 7) WHERE i = 8",),
    ],
)
def test_a_changed_entry_is_not_what_the_checkpoint_covers(path: Path, statement) -> None:
    tamper(path, statement if len(statement) > 1 else statement[0])
    with pytest.raises(VerificationError, match="checkpoint covers") as caught:
        read_all(path, None)
    assert caught.value.code == Code.INCLUSION


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE i = 300",
        "DELETE FROM entries WHERE i >= 512",
        "UPDATE entries SET i = 600 WHERE i = 5",
    ],
)
def test_a_missing_or_overlong_entry_is_told(path: Path, statement: str) -> None:
    tamper(path, *statement.split("; "))
    with pytest.raises(FormatError, match="not all there"):
        read_all(path)


def test_a_log_is_its_keys_alone(path: Path) -> None:
    with pytest.raises(VerificationError, match="another log"):
        read_all(path, OTHER)
    with pytest.raises(VerificationError, match="no signature of a key that was given"):
        read_all(path, SigningKey(b"\x09" * 32, SIGNER.name).vkey)


def test_a_log_that_is_not_read_to_its_end_is_not_checked(path: Path) -> None:
    with whole_log.of_database(path) as log:
        next(log.entries())
        with pytest.raises(VerificationError, match="checkpoint covers"):
            log.check(SIGNER.vkey)


def test_a_checkpoint_that_says_more_than_there_is(path: Path) -> None:
    note = signed(10**12, b"\x01" * 32)
    tamper(path, ("INSERT INTO checkpoints VALUES (?, ?, ?)", (10**12, note, 1)))
    with pytest.raises(FormatError, match="not all there"):
        read_all(path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(4000)), "cannot read"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"tablecheck", b"table\xc4heck")), "cannot read"),
        (lambda path: _database(path, "CREATE TABLE t (a)"), "not that of a log"),
        (lambda path: tamper(path, "PRAGMA application_id = 7"), "not that of a log"),
        (lambda path: tamper(path, "DELETE FROM checkpoints"), "no checkpoint"),
        (lambda path: tamper(path, "UPDATE checkpoints SET note = printf('%.*c', 2000000, 'x')"), "too big"),
        (
            lambda path: _database(path, "CREATE VIEW entries AS SELECT 0 AS i, x'7b7d' AS entry", LIKE_A_LOG),
            "not that of a log",
        ),
    ],
)
def test_what_is_no_log_is_refused(path: Path, make: Callable[[Path], object], why: str) -> None:
    make(path)
    with pytest.raises(FormatError, match=why):
        read_all(path)


def _database(path: Path, *statements: str) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(";".join(statements))


def test_an_entry_that_is_no_blob_is_none(path: Path, made) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'entries'")
        db.commit()
    tamper(path, ("UPDATE entries SET entry = ? WHERE i = 3", ('{"v":1}',)))
    with pytest.raises(FormatError, match="not all there"):
        read_all(path)


# --- tiles ------------------------------------------------------------------------------------------------------------


class Relay:
    """Answers as a service does; `say` puts another answer in the place of one."""

    def __init__(self, entries: list[bytes]) -> None:
        self.entries = entries
        root = merkle.tree_root([merkle.leaf_hash(entry) for entry in entries])
        self.note = signed(len(entries), root)
        self.asked: list[str] = []
        self.say: dict[str, bytes] = {}

    def download(self, url: str, limit: int) -> bytes:
        path = url.removeprefix("https://beacon.example/log/")
        self.asked.append(path)
        if path in self.say:
            return self.say[path]
        if path == "checkpoint":
            return self.note.encode()
        tile = parse_tile_path(path)
        data = encode_bundle(self.entries[tile.index * 256 :][: tile.width])
        assert len(data) <= limit
        return data


def test_tiles_give_all_entries(made) -> None:
    relay = Relay(made[1])
    log = whole_log.of_tiles("https://beacon.example/log/", relay.download)
    assert list(log.entries()) == made[1]
    log.check(SIGNER.vkey)
    assert relay.asked == ["checkpoint", "tile/entries/000", "tile/entries/001", "tile/entries/002.p/1"]


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("checkpoint", b"\xff", "no checkpoint"),
        ("checkpoint", b"hello", "a note is"),
        ("tile/entries/001", b"\x00", "ends inside"),
        ("tile/entries/001", encode_bundle([b"{}"] * 255), "not all there"),
        ("tile/entries/002.p/1", encode_bundle([b"{}"] * 2), "not all there"),
        ("tile/entries/000", encode_bundle([b"{}"] * 256), "checkpoint covers"),
    ],
)
def test_a_lying_relay_is_found_out(made, path: str, data: bytes, why: str) -> None:
    relay = Relay(made[1])
    relay.say[path] = data
    with pytest.raises((FormatError, VerificationError), match=why):
        _read_tiles(relay)


def _read_tiles(relay: Relay) -> None:
    log = whole_log.of_tiles("https://beacon.example/log", relay.download)
    list(log.entries())
    log.check(None)


def test_a_forged_log_verifies_under_its_own_key_alone(path: Path, made) -> None:
    forge(path, made[1][:20], 5)
    assert read_all(path) == made[1][:20]
    with pytest.raises(VerificationError):
        read_all(path, OTHER)


# --- download ---------------------------------------------------------------------------------------------------------


@contextmanager
def server(answers: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def test_a_download_is_limited() -> None:
    with server(lambda handler: answer(handler, 200, b"x" * 100)) as base:
        assert fetch.download(f"{base}/a", 100) == b"x" * 100
        with pytest.raises(FormatError, match="more than 99 bytes"):
            fetch.download(f"{base}/a", 99)


def test_a_download_waits_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(fetch.time, "sleep", waited.append)
    answers = iter(
        [(429, {"Retry_After": "7"}), (503, {"Retry_After": "9999"}), (503, {"Retry_After": "soon"}), (200, {})]
    )

    def respond(handler: BaseHTTPRequestHandler) -> None:
        status, headers = next(answers)
        answer(handler, status, b"at last", **headers)

    with server(respond) as base:
        assert fetch.download(base) == b"at last"
    assert waited == [7, 60, 1]


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (500, 1), (503, 5)])
def test_a_download_gives_up(monkeypatch: pytest.MonkeyPatch, status: int, tries: int) -> None:
    monkeypatch.setattr(fetch.time, "sleep", lambda _: None)
    asked: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        answer(handler, status)

    with server(respond) as base, pytest.raises(FormatError, match=f"answers {status}"):
        fetch.download(f"{base}/x")
    assert asked == ["/x"] * tries


def test_a_redirect_is_followed_at_the_same_host_alone() -> None:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/here":
            answer(handler, 200, b"found")
        elif handler.path == "/away":
            answer(handler, 302, Location="http://localhost:9/here")
        else:
            answer(handler, 302, Location="/here")

    with server(respond) as base:
        assert fetch.download(f"{base}/moved") == b"found"
        with pytest.raises(FormatError, match="another host"):
            fetch.download(f"{base}/away")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a/b", "log.db", "http://127.0.0.1:1/x", "http://[", "https://"]
)
def test_what_cannot_be_downloaded(url: str) -> None:
    with pytest.raises(FormatError) as caught:
        fetch.download(url)
    assert caught.value.code == Code.USAGE
