"""A witness of our own (C2SP tlog-witness): the published vectors over HTTP, every refusal, forks, crashes, limits."""

import asyncio
import hashlib
import json
import random
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.store.witness_schema import WITNESS_SCHEMA
from beacon.store.writer import Writer
from beacon.witness import directory as places
from tests.fault_support import outlived
from tests.process_support import run
from tests.process_support import serving as process
from tests.round_support import FakeClock
from tests.witness_child import STEPS, sign_until_told
from tests.witness_support import LOG, Tree, serving, witness
from verifier.errors import FormatError
from verifier.note import Checkpoint, Cosigner, Note, SigningKey, VerifierKey, open_note
from verifier.tlog_proof import add_checkpoint_request
from verifier.tlog_witness import MAX_REQUEST, AddCheckpoint

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())
NOW = 1_800_000_000
KEY = Cosigner(b"\x31" * 32, "w1.example").vkey


@pytest.fixture
def clock():
    return FakeClock(1_000 * NOW)


@pytest.fixture
def made(tmp_path, clock):
    with witness(tmp_path / "witness.db", clock, LOG.vkey) as found:
        yield found


async def statuses(made, *bodies):
    return [(await made.add_checkpoint(body)).status for body in bodies]


@pytest.mark.parametrize("case", VECTORS["witness_add_checkpoint"], ids=lambda case: case["id"])
async def test_the_published_sequences_of_requests(case, tmp_path, clock):
    key = VerifierKey.parse(case["input"]["log_vkey"])
    assert key.name == case["input"]["log_origin"]
    with witness(tmp_path / "witness.db", clock, key) as found:
        async with serving(found) as server, aiohttp.ClientSession() as client:
            for step in case["expect"]["steps"]:
                body = step["request_body"].encode()
                async with client.post(server.make_url("/add-checkpoint"), data=body) as answer:
                    text = await answer.text()
                    assert answer.status in [step["status"], *step.get("also_acceptable", [])], (step["name"], text)
                    if "response_body" in step:
                        assert text == step["response_body"]
                    if "content_type" in step:
                        assert answer.headers["Content-Type"] == step["content_type"]
                    if answer.status == 200:
                        note = body.decode().split("\n\n", 1)[1]
                        assert open_note(note + text, [KEY]).verified[0].timestamp == NOW


def of_the_cases():
    tree = Tree()
    empty = Checkpoint(LOG.name, 0, b"\x01" * 32).encode()
    return {
        "64-proof-lines": ([], b"old 1\n" + b"%s\n" % (b"A" * 43 + b"=") * 64 + b"\n" + tree.note(3).encode()),
        "old-greater-than-size": ([], tree.request(0, 3).replace(b"old 0", b"old 5")),
        "old0-with-proof": ([], b"old 0\n" + b"A" * 43 + b"=\n\n" + tree.note(3).encode()),
        "size0-nonempty-root": ([], add_checkpoint_request(0, [], f"{empty}\n{LOG.sign(empty)}").encode()),
        "trusted-key-bad-signature": ([], tree.request(0, 3, tree.note(3).replace("\n3\n", "\n4\n"))),
    }


@pytest.mark.parametrize("case", VECTORS["witness_status"], ids=lambda case: case["id"])
async def test_the_published_statuses(case, made):
    before, body = of_the_cases()[case["input"]["case"]]
    assert await statuses(made, *before, body) == [200] * len(before) + [case["expect"]["status"]]


async def test_what_continues_is_cosigned_and_nothing_else(made, clock):
    tree, other = Tree(), Tree(branch=b"x")
    assert await statuses(made, tree.request(0, 5), tree.request(5, 9), tree.request(9, 9)) == [200, 200, 200]
    assert await statuses(made, tree.request(5, 12)) == [409]
    assert await statuses(made, tree.request(0, 12)) == [409]
    assert await statuses(made, other.request(9, 12), other.request(9, 9)) == [422, 422]
    assert await statuses(made, tree.request(9, 12).replace(b"old 9\n", b"old 9\n" + b"A" * 43 + b"=\n")) == [422]
    assert await statuses(made, tree.request(9, 300)) == [200]
    clock.advance(7_000)
    reply = await made.add_checkpoint(tree.request(300, 300))
    assert open_note(tree.note(300) + reply.body, [KEY]).verified[0].timestamp == NOW + 7


async def test_two_logs_are_two_states(tmp_path, clock):
    second = SigningKey(b"\x08" * 32, "other.example/log")
    with witness(tmp_path / "witness.db", clock, LOG.vkey, second.vkey) as made:
        assert (
            await statuses(made, Tree().request(0, 5), Tree(second).request(0, 9), Tree(second).request(9, 10))
            == [200] * 3
        )
        assert await statuses(made, Tree().request(5, 6)) == [200]
        # a key signs for its own log alone
        text = Tree().text(8)
        body = Tree().request(6, 8, f"{text}\n{second.sign(text)}")
        assert await statuses(made, body) == [403]


async def test_a_clock_that_went_back_signs_nothing(made, clock):
    tree = Tree()
    assert await statuses(made, tree.request(0, 5)) == [200]
    clock.advance(-5_000)
    reply = await made.add_checkpoint(tree.request(5, 6))
    assert (reply.status, reply.retry_after) == (503, 5)
    clock.advance(5_000)
    assert await statuses(made, tree.request(5, 6)) == [200]


async def test_both_checkpoints_of_a_fork_are_kept(made, tmp_path):
    tree, other = Tree(), Tree(branch=b"x", common=3)
    assert await statuses(made, tree.request(0, 8)) == [200]
    for _ in range(2):
        assert await statuses(made, other.request(8, 8), other.request(0, 8), other.request(8, 11)) == [422, 409, 422]
    with closing(sqlite3.connect(tmp_path / "witness.db")) as db:
        found = places.forks(db)
    assert [(fork.kind, fork.origin, fork.old) for fork in found] == [("fork", LOG.name, 8), ("unproven", LOG.name, 8)]
    for fork, size in zip(found, (8, 11), strict=True):
        ours = open_note(fork.ours, [LOG.vkey, KEY])
        theirs = open_note(fork.theirs, [LOG.vkey])
        assert len(ours.verified) == 2
        assert (ours.text, theirs.text) == (tree.text(8), other.text(size))


async def test_a_stranger_cannot_fill_up_the_evidence(made, tmp_path, monkeypatch):
    monkeypatch.setattr("beacon.witness.witness.MAX_FORKS", 3)
    assert await statuses(made, Tree().request(0, 8)) == [200]
    for number in range(6):
        assert await statuses(made, Tree(branch=b"%d" % number).request(8, 8)) == [422]
    with closing(sqlite3.connect(tmp_path / "witness.db")) as db:
        assert len(places.forks(db)) == 3


async def test_of_requests_at_once_one_history_is_signed(made):
    """The race of the specification: each is checked and recorded in one step."""
    trees = [Tree(branch=b"%d" % number, common=4) for number in range(4)]
    assert await statuses(made, trees[0].request(0, 4)) == [200]
    bodies = [tree.request(4, size) for tree in trees for size in range(5, 15)]
    random.Random(7).shuffle(bodies)
    replies = await asyncio.gather(*(made.add_checkpoint(body) for body in bodies))
    signed = [reply for reply in replies if reply.status == 200]
    assert len(signed) == 1
    assert {reply.status for reply in replies} <= {200, 409}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.booleans()), max_size=25))
def test_whatever_is_asked_one_history_is_signed(asked):
    """Requests of three histories that part at 4: from where the witness is, or from where it is not."""
    trees = [Tree(branch=b"%d" % number, common=4) for number in range(3)]

    async def ask(folder):
        signed, size = [], 0
        with witness(Path(folder) / "witness.db", FakeClock(1_000 * NOW), LOG.vkey) as made:
            for branch, wanted, right in asked:
                old = size if right else 5
                if wanted < max(old, 1):
                    continue
                tree = trees[branch]
                reply = await made.add_checkpoint(tree.request(old, wanted))
                if reply.status == 200:
                    assert old == size <= wanted
                    signed.append((branch, wanted))
                    size = wanted
        return signed

    with tempfile.TemporaryDirectory() as folder:
        signed = asyncio.run(ask(folder))
    beyond = {branch for branch, size in signed if size > 4}
    assert len(beyond) <= 1


@pytest.mark.parametrize("step", STEPS)
async def test_a_witness_killed_at_any_moment_never_signs_two_roots_for_a_size(step, tmp_path):
    """It is killed between signing and answering too; the next one is offered another history, and keeps to the first."""
    path = tmp_path / "witness.db"
    done, end = await asyncio.to_thread(outlived, sign_until_told, path, branch=b"", kill_at=step)
    assert end == 9
    seen = dict(done)
    for branch in (b"x", b"", b"y"):
        more, end = await asyncio.to_thread(outlived, sign_until_told, path, branch=branch, kill_at=None)
        assert end == "done"
        for size, root in more.items():
            assert seen.setdefault(size, root) == root
    assert len(seen) > 3
    assert len({len(root) for root in seen.values()}) == 1


def test_what_was_cosigned_only_grows(tmp_path):
    path = tmp_path / "witness.db"
    writer = Writer(path, WITNESS_SCHEMA)
    writer.submit(
        lambda db: db.execute("INSERT INTO states VALUES ('o', 5, zeroblob(32), 'n', 'l', 7)").rowcount
    ).result()
    writer.submit(lambda db: db.execute("INSERT INTO identity VALUES (1, 'k')").rowcount).result()
    writer.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE states SET size = 6, root = randomblob(32)")
        for statement in (
            "UPDATE states SET size = 5",
            "UPDATE states SET root = zeroblob(32)",
            "UPDATE states SET time = 6",
            "UPDATE states SET origin = 'p'",
            "DELETE FROM states",
            "INSERT OR REPLACE INTO states VALUES ('o', 1, zeroblob(32), 'n', 'l', 7)",
            "INSERT OR REPLACE INTO identity VALUES (1, 'other')",
            "UPDATE identity SET vkey = 'other'",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(statement)


MALFORMED = {
    "nothing": b"",
    "no empty line": b"old 0\n",
    "no old": Tree().request(0, 3).removeprefix(b"old 0\n"),
    "old with a zero": Tree().request(0, 3).replace(b"old 0", b"old 00"),
    "old with a sign": Tree().request(0, 3).replace(b"old 0", b"old +0"),
    "old above all": Tree().request(0, 3).replace(b"old 0", b"old 9223372036854775808"),
    "a carriage return": Tree().request(0, 3).replace(b"old 0\n", b"old 0\r\n"),
    "base64 without padding": Tree().request(1, 3).replace(b"=\n", b"\n", 1),
    "a short hash": b"old 1\nAAAA\n\n" + Tree().note(3).encode(),
    "no UTF-8": Tree().request(0, 3) + b"\xff\n",
    "no signature": b"old 0\n\n" + Tree().text(3).encode(),
    "no newline at the end": Tree().request(0, 3).removesuffix(b"\n"),
    "a size that is none": Tree().request(0, 3).replace(b"\n3\n", b"\nthree\n"),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_malformed_is_refused(made, body):
    assert await statuses(made, body) == [400]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300) | st.text(alphabet="old 0123\n=A\u2014", max_size=200).map(str.encode))
def test_a_request_is_canonical_or_refused(body):
    try:
        request = AddCheckpoint.parse(body)
    except FormatError:
        return
    assert add_checkpoint_request(request.old, request.proof, request.text).encode() == body


async def test_sizes_and_rates_are_limited(made):
    tree = Tree()
    async with serving(made, per_minute=3) as server, aiohttp.ClientSession() as client:
        url = server.make_url("/add-checkpoint")

        async def post(body):
            async with client.post(url, data=body) as answer:
                return answer.status, answer.headers.get("Retry-After")

        assert (await post(b"old 0\n" + b"A" * MAX_REQUEST))[0] == 413
        assert (await post(tree.request(0, 3)))[0] == 200
        assert (await post(tree.request(3, 4)))[0] == 200
        status, wait = await post(tree.request(4, 5))
        assert status == 429
        assert int(wait) > 0


async def test_what_was_cosigned_last_can_be_read(made):
    tree = Tree()
    path = f"/{hashlib.sha256(LOG.name.encode()).hexdigest()}/checkpoint"
    async with serving(made) as server, aiohttp.ClientSession() as client:
        async with client.get(server.make_url(path)) as answer:
            assert answer.status == 404
        assert await statuses(made, tree.request(0, 3), tree.request(3, 7)) == [200, 200]
        async with client.get(server.make_url(path)) as answer:
            note = await answer.text()
    assert Checkpoint.parse(Note.parse(note).text).size == 7
    assert len(open_note(note, [LOG.vkey, KEY]).verified) == 2


async def test_the_commands(tmp_path):
    folder = tmp_path / "w1"
    code, output, errors = await run("beacon", "witness", "init", folder, "--name", "w1.example", "--log", LOG.vkey)
    assert code == 0, errors
    key = VerifierKey.parse(output.strip())
    assert (folder / "witness.vkey").read_text() == output
    assert [oct((folder / name).stat().st_mode & 0o777) for name in ("witness.key", "witness.db")] == ["0o600"] * 2
    second = SigningKey(b"\x08" * 32, "other.example/log")
    async with (
        process("beacon", "witness", "serve", "--dir", folder, "--port", 0) as server,
        aiohttp.ClientSession() as client,
    ):

        async def post(body):
            async with client.post(f"{server.url}/add-checkpoint", data=body) as answer:
                return answer.status, await answer.text()

        status, line = await post(Tree().request(0, 3))
        assert status == 200
        open_note(Tree().note(3) + line, [key])
        assert (await post(Tree(second).request(0, 3)))[0] == 404
        published = tmp_path / "log.vkey"
        published.write_text(f"{second.vkey}\n")
        code, output, errors = await run("beacon", "witness", "add-log", published, "--dir", folder)
        assert (code, output) == (0, f"witnesses {second.name}\n"), errors
        code, output, errors = await run("beacon", "witness", "add-log", second.vkey, "--dir", folder)
        assert (code, output) == (0, f"witnessed already: {second.name}\n"), errors
        assert (await post(Tree(second).request(0, 3)))[0] == 200
        assert (await post(Tree(branch=b"x").request(3, 3)))[0] == 422
        code, _, errors = await run("beacon", "witness", "serve", "--dir", folder, "--port", 0)
        assert code == 2
        assert "is the service running" in errors
    code, output, _ = await run("beacon", "witness", "list", "--dir", folder, "--json")
    assert [(log["origin"], log["size"], log["forks"]) for log in json.loads(output)["logs"]] == [
        (LOG.name, 3, 1), (second.name, 3, 0)]  # fmt: skip
    code, output, _ = await run("beacon", "witness", "forks", "--dir", folder)
    assert code == 0
    assert Tree(branch=b"x").note(3) in output
    assert (await run("beacon", "witness", "init", folder, "--name", "w1.example"))[0] == 2


WRONG = {
    "no directory": (["list"], "cannot be opened|unable to open"),
    "a vkey that is none": (["add-log", "x"], "Invalid value"),
    "a proxy that is no network": (["serve", "--trusted-proxies", "x"], "trusted_proxies"),
    "an address that is none": (["serve", "--host", ""], "host"),
    "no witness": (["serve"], "witness.db is missing"),
}


@pytest.mark.parametrize(("words", "reason"), WRONG.values(), ids=WRONG.keys())
async def test_wrong_usage_is_one_line(words, reason, tmp_path):
    code, _, errors = await run("beacon", "witness", *words, "--dir", tmp_path / "none")
    assert code in (1, 2)
    assert "Traceback" not in errors
    assert re.search(reason, errors), errors


def test_a_witness_without_its_memory_or_with_another_key_does_not_start(tmp_path, clock):
    places.make(tmp_path / "w", "w.example")
    places.make(tmp_path / "v", "v.example")
    (tmp_path / "w" / "witness.key").rename(tmp_path / "w.key")
    (tmp_path / "v" / "witness.key").rename(tmp_path / "w" / "witness.key")
    with (
        pytest.raises(places.ConfigurationError, match="is not the key"),
        places.opened(tmp_path / "w", clock, exclusive=True),
    ):
        pass
    (tmp_path / "w" / "witness.db").unlink()
    with (
        pytest.raises(places.ConfigurationError, match="would sign twice"),
        places.opened(tmp_path / "w", clock, exclusive=True),
    ):
        pass
    with pytest.raises(places.ConfigurationError, match="cannot be named"):
        places.make(tmp_path / "u", "a b")
    assert not (tmp_path / "u").exists()
