"""Whole logs for auditors' tests: leaves under the log's own key, as tiles at an address and as an audit of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.builder import LOG_KEY, ORIGIN, QUICKNET, Story
from verifier import merkle
from verifier.audit.keeping import opened
from verifier.audit.run import Audit
from verifier.audit.sources import Source, of_address
from verifier.audit.state import Found
from verifier.check import Trust
from verifier.errors import Code, FormatError
from verifier.note import Checkpoint, SigningKey
from verifier.seeds import seed_chain
from verifier.tiles import ENTRIES, TILE_WIDTH, encode_bundle, parse_tile_path
from verifier.verdict import Exit

TRUST = Trust(log_key=LOG_KEY.vkey, chains={QUICKNET.hash: QUICKNET}, sandbox=True)
URL = "https://log.example"


def signed(leaves: list[bytes], key: SigningKey = LOG_KEY) -> str:
    """A checkpoint of these leaves, under the log's own key."""
    root = merkle.tree_root([merkle.leaf_hash(leaf) for leaf in leaves])
    text = Checkpoint(ORIGIN, len(leaves), root).encode()
    return f"{text}\n{key.sign(text)}"


def resource(leaves: list[bytes], path: str) -> bytes | None:
    """What an honest server answers below /log/."""
    if path == "checkpoint":
        return signed(leaves).encode()
    try:
        tile = parse_tile_path(path)
    except FormatError:
        return None
    first, level = tile.index * TILE_WIDTH, max(tile.level, 0)
    if first + tile.width > len(leaves) >> (8 * level):
        return None
    if tile.level == ENTRIES:
        return encode_bundle(leaves[first : first + tile.width])
    span = TILE_WIDTH**level
    hashes = [merkle.leaf_hash(leaf) for leaf in leaves[first * span : (first + tile.width) * span]]
    return b"".join(merkle.tree_root(hashes[at : at + span]) for at in range(0, len(hashes), span))


def downloading(leaves: list[bytes]) -> Callable[[str, int], bytes]:
    """A `fetch.download` of a log that has these leaves."""

    def download(url: str, limit: int) -> bytes:
        data = resource(leaves, url.removeprefix(f"{URL}/log/"))
        if data is None:
            raise FormatError(Code.USAGE, f"{url} answers 404")
        assert len(data) <= limit
        return data

    return download


def source_of(leaves: list[bytes]) -> Source:
    return of_address(URL, downloading(leaves))


def audited(
    leaves: list[bytes], state: Path | None = None, *, trust: Trust = TRUST, others: Iterable[list[bytes]] = ()
) -> tuple[Exit, list[Found]]:
    """Audit a log once; gives the exit code and everything that the state holds afterwards."""
    with opened(state) as kept:
        audit = Audit(kept, trust, state)
        audit.run(source_of(leaves))
        for other in others:
            audit.compare(source_of(other))
        return audit.exit(), list(kept.found())


def graves(found: Iterable[Found]) -> set[tuple[str, str]]:
    """(claim, rule) of what is grave."""
    return {(one.claim, one.rule) for one in found if one.grave}


class Log(Story):
    """A log of several sessions: `next_session` begins another, with secrets and a host_seq of its own."""

    def next_session(self, number: int, links: int = 1) -> Log:
        self.links = seed_chain(hashlib.sha256(b"secret %d" % number).digest(), links)
        self.contributions, self.calls, self.counts = [], [], {}
        self.dealer = type(self.dealer)()
        return self

    def sealed(self, number: int, **changes: object) -> Log:
        self.next_session(number)
        self.seal(**{"host_seq": number, "label": f"table {number}", **changes})
        return self

    def kept(self) -> tuple[Any, ...]:
        """What `resume` goes on with."""
        return self.session, self.entry, self.links, self.contributions, self.counts, self.dealer

    def resume(self, kept: tuple[Any, ...]) -> Log:
        self.session, self.entry, self.links, self.contributions, self.counts, self.dealer = kept
        return self

    def contributed(self) -> Log:
        self.contribute("white", 6.5, b"white's own bytes %d" % self.entry["host_seq"])
        self.contribute("black", 6.5, b"black's own bytes %d" % self.entry["host_seq"])
        return self


def honest(sessions: int = 2) -> Log:
    """A log of matches one after the other, each sealed, closed and, after the round, drawn and revealed."""
    log = Log()
    kept = [log.sealed(number).kept() for number in range(1, sessions + 1)]
    for one in kept:
        log.resume(one).contributed()
    for one in kept:
        log.resume(one).close(6.6)
    log.round(1005, 15.9)
    for one in kept:
        log.resume(one).draw("turn", 16).draw("hand", 16).reveal(16)
    return log


@contextmanager
def served(leaves: list[bytes]) -> Iterator[str]:
    """The log at an address; the list may grow or change meanwhile."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = resource(leaves, self.path.removeprefix("/log/"))
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
