"""Witnesses for tests: a real one in this process, over HTTP, that can be told to misbehave; and logs to be witnessed."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from beacon.settings import WitnessSettings
from beacon.store.reader import Reader
from beacon.store.witness_schema import WITNESS_SCHEMA
from beacon.store.writer import Writer
from beacon.web.witness_routes import build_witness
from beacon.witness.configured import load_policy
from beacon.witness.witness import Witness
from beacon.witness.witnesses import Witnesses
from verifier import merkle
from verifier.note import Checkpoint, Cosigner, SigningKey, VerifierKey
from verifier.tlog_proof import add_checkpoint_request

LOG = SigningKey(b"\x07" * 32, "log.example/fair")


class Tree:
    """A log in memory: leaves 0, 1, 2 ... of a branch, and its signed checkpoints."""

    def __init__(self, signer=LOG, branch=b"", common=0):
        self.signer = signer
        self.leaf = lambda n: merkle.leaf_hash((b"" if n < common else branch) + b"%d" % n)

    def leaves(self, size):
        return [self.leaf(n) for n in range(size)]

    def text(self, size):
        return Checkpoint(self.signer.name, size, merkle.tree_root(self.leaves(size))).encode()

    def note(self, size):
        text = self.text(size)
        return f"{text}\n{self.signer.sign(text)}"

    def request(self, old, size, note=None):
        proof = merkle.prove_consistency(self.leaves(size), old) if old else []
        return add_checkpoint_request(old, proof, note or self.note(size)).encode()


@contextlib.contextmanager
def witness(path: Path, clock, *vkeys, seed=b"\x31" * 32, name="w1.example", **options):
    """A witness of these logs on a database of its own."""
    writer = Writer(path, WITNESS_SCHEMA, **options)
    reader = Reader(path)
    try:
        for key in vkeys:
            row = (key.name, str(key))
            writer.submit(
                lambda db, row=row: db.execute("INSERT OR IGNORE INTO logs VALUES (?, ?, 0)", row).rowcount
            ).result()
        yield Witness(Cosigner(seed, name), writer, reader, clock)
    finally:
        writer.close()
        reader.close()


@contextlib.asynccontextmanager
async def serving(made, *, per_minute=0):
    """A witness over HTTP: its test server."""
    server = TestServer(build_witness(made, per_minute))
    await server.start_server()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def answering(handler, shows=None):
    """Anything that listens for add-checkpoint: its URL. handler: takes the request, gives the response.

    shows: the same for what was cosigned last.
    """
    app = web.Application()
    app.router.add_post("/add-checkpoint", handler)
    if shows is not None:
        app.router.add_get("/{origin_hash}/checkpoint", shows)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def asking(log, clock, policy, **options):
    """The service's side, over a log: started with what it needs, stopped at the end. policy: text."""
    settings = WitnessSettings(policy=Path("witnesses.policy"), **{"every_ms": 50, "timeout_ms": 1_000} | options)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "witnesses.policy"
        file.write_text(policy)
        asked = load_policy(file, VerifierKey.parse(log.vkey))
    witnesses = Witnesses(asked, log, clock, settings)
    await witnesses.start()
    try:
        yield witnesses
    finally:
        await witnesses.stop()


def policy_of(*urls, quorum=None, seeds=(b"\x31", b"\x32", b"\x33", b"\x34")):
    """A policy of witnesses w1, w2 ... at these URLs, whose quorum is all of them or so many."""
    lines = [f"witness w{n} {key_of(n, seeds)} {url}\n" for n, url in enumerate(urls, 1)]
    names = " ".join(f"w{n}" for n in range(1, len(urls) + 1))
    return "".join([*lines, f"group all {quorum or 'all'} {names}\n", "quorum all\n"])


def key_of(number, seeds=(b"\x31", b"\x32", b"\x33", b"\x34")):
    """The public key of witness w1, w2 ..."""
    return Cosigner(seeds[number - 1] * 32, f"w{number}.example").vkey


@contextlib.asynccontextmanager
async def several(folder, clock, vkey, count=2):
    """So many real witnesses of a log over HTTP: each one and its URL."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for number in range(1, count + 1):
            path, seed = Path(folder) / f"w{number}.db", bytes([0x30 + number]) * 32
            made = stack.enter_context(witness(path, clock, vkey, seed=seed, name=f"w{number}.example"))
            server = await stack.enter_async_context(serving(made))
            found.append((made, str(server.make_url("")).rstrip("/")))
        yield found


async def until(condition, seconds=20):
    """Wait for what happens on its own."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
