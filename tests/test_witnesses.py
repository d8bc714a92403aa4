"""Asking witnesses: what they sign is stored and published, what they do wrong costs nothing but their cosignature."""

import asyncio
import contextlib
import shutil
import sqlite3
from contextlib import closing

import pytest
from aiohttp import web

from beacon.log import cosignatures
from beacon.log.fsck import check
from beacon.settings import ConfigurationError
from beacon.store.errors import LogBehind
from beacon.witness.client import MAX_ANSWER, Result
from beacon.witness.configured import load_policy
from beacon.witness.directory import add_log, drop_key
from tests.log_support import SIGNER, START, Clock, Index, contributions, mark_of, open_log, tamper
from tests.witness_support import answering, asking, key_of, policy_of, several, until
from verifier.note import Checkpoint, Cosigner, Note, Signature, SigningKey, open_note
from verifier.tlog_proof import add_checkpoint_request
from verifier.tlog_witness import AddCheckpoint

W1 = Cosigner(b"\x31" * 32, "w1.example")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    log = open_log(path)
    yield log
    log.close()


def signers(note, *numbers):
    """Who of the log and of these witnesses signed a note, and that nobody's line is false."""
    opened = open_note(note, [SIGNER.vkey, *(key_of(number) for number in numbers)])
    return [verified.key.name for verified in opened.verified]


async def grow(log, *names):
    await log.append(contributions(*names))


async def test_every_witness_cosigns_what_is_published(log, path, tmp_path):
    async with (
        several(tmp_path, Clock(), SIGNER.vkey) as found,
        asking(log, Clock(), policy_of(*(url for _, url in found))) as asked,
    ):
        for number in range(5):
            await grow(log, f"a{number}", f"b{number}")
            size = log.latest().size
            assert await asked.covered(size - 1, 20)
            note = asked.note(log.latest())
            assert signers(note, 1, 2) == [SIGNER.name, "w1.example", "w2.example"]
            assert asked.newest() == note
            assert note.startswith(log.latest().note)
        assert [(one.name, one.lag, one.behind_ms) for one in asked.report()] == [("w1", 0, 0), ("w2", 0, 0)]
    stored = await log.read(lambda db: cosignatures.of(db, log.latest().size))
    assert {(item.witness, item.time) for item in stored} == {(key_of(1), START // 1000), (key_of(2), START // 1000)}
    report = check(path, SIGNER.vkey, [Index()])
    assert report.ok
    assert report.cosignatures == 12


async def test_a_quorum_is_counted_on_one_checkpoint(log, tmp_path):
    gate = asyncio.Event()

    async def waits(request):
        await gate.wait()
        return web.Response(status=500)

    async with several(tmp_path, Clock(), SIGNER.vkey) as found, answering(waits) as slow:
        gate.set()
        urls = (found[0][1], found[1][1], slow)
        async with asking(log, Clock(), policy_of(*urls, quorum=2)) as asked:
            await grow(log, "a")
            assert await asked.covered(1, 20)
        async with asking(log, Clock(), policy_of(*urls)) as asked:
            assert not await asked.covered(1, 0.2)
            assert asked.newest() is None


async def test_it_goes_on_from_what_is_stored(log, tmp_path):
    """After a restart each witness is asked from the size that it cosigned last, and what was public still is."""
    asked_from = []

    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as [(made, _)]:

        async def passes_on(request):
            body = await request.read()
            asked_from.append(AddCheckpoint.parse(body).old)
            reply = await made.add_checkpoint(body)
            return web.Response(
                status=reply.status, body=reply.body.encode(), headers={"Content-Type": reply.content_type}
            )

        async with answering(passes_on) as url:
            async with asking(log, Clock(), policy_of(url)) as asked:
                await grow(log, "a", "b")
                assert await asked.covered(2, 20)
            assert asked_from == [0, 1]
            async with asking(log, Clock(), policy_of(url)) as asked:
                assert signers(asked.note(log.latest()), 1) == [SIGNER.name, "w1.example"]
                assert asked.newest() == asked.note(log.latest())
            assert asked_from == [0, 1, 3]


def line_over(text, *, seed=b"\x31", name="w1.example", time=7):
    return Cosigner(seed * 32, name).cosign(text, time).encode()


def other_root(note):
    checkpoint = Checkpoint.parse(note.text)
    return Checkpoint(checkpoint.origin, checkpoint.size, b"\x05" * 32).encode()


def wrong_signature(note):
    line = bytearray(line_over(note.text))
    line[-20] ^= 1
    return bytes(line)


def long_line(size):
    return Signature("other.example", b"1234", bytes(size)).encode().encode()


LIES = {
    "a false signature": (wrong_signature, Result.INVALID),
    "another witness's": (lambda note: line_over(note.text, seed=b"\x44", name="other.example"), Result.INVALID),
    "another key of its name": (lambda note: line_over(note.text, seed=b"\x44"), Result.INVALID),
    "of another root": (lambda note: line_over(other_root(note)), Result.INVALID),
    "the log's own line": (lambda note: note.signatures[0].encode().encode(), Result.INVALID),
    "no time": (lambda note: line_over(note.text, time=0), Result.INVALID),
    "a right and a false line": (lambda note: line_over(note.text) + wrong_signature(note), Result.INVALID),
    "no newline": (lambda note: line_over(note.text)[:-1], Result.INVALID),
    "nothing": (lambda note: b"", Result.INVALID),
    "no text": (lambda note: b"\xff\xfe\n", Result.INVALID),
    "too many lines": (lambda note: line_over(note.text, seed=b"\x44", name="x") * 101, Result.INVALID),
    "too much": (lambda note: line_over(note.text) + long_line(MAX_ANSWER), Result.INVALID),
    "a redirect": (lambda note: web.Response(status=302, headers={"Location": "/elsewhere"}), Result.FAILED),
    "another address": (lambda note: web.Response(status=404), Result.REFUSED),
    "not now": (lambda note: web.Response(status=429, headers={"Retry-After": "1"}), Result.BUSY),
    "a fault": (lambda note: web.Response(status=500), Result.FAILED),
    "a status that is none": (lambda note: web.Response(status=299), Result.FAILED),
}


@pytest.mark.parametrize(("lie", "result"), LIES.values(), ids=LIES.keys())
async def test_a_witness_that_does_wrong_costs_its_own_cosignature_alone(lie, result, log, path, tmp_path):
    async def lies(request):
        said = lie(AddCheckpoint.parse(await request.read()).note)
        return said if isinstance(said, web.Response) else web.Response(body=said)

    async with (
        several(tmp_path, Clock(), SIGNER.vkey) as found,
        answering(lies) as url,
        asking(log, Clock(), policy_of(url, found[1][1], quorum=1)) as asked,
    ):
        await grow(log, "a")
        await until(lambda: "w2.example" in asked.note(log.latest()))
        liar = asked.report()[0]
        assert signers(asked.note(log.latest()), 1, 2) == [SIGNER.name, "w2.example"]
        assert liar.standing.last is result
        assert liar.lag == 2
        assert liar.standing.results[result] >= 1
    report = check(path, SIGNER.vkey, [Index()])
    assert report.ok
    assert report.cosignatures == 2


async def test_a_witness_that_hangs_holds_up_neither_publication_nor_the_others(log, tmp_path):
    asked_now, gate = asyncio.Event(), asyncio.Event()

    async def hangs(request):
        asked_now.set()
        await gate.wait()
        return web.Response(status=500)

    async with (
        several(tmp_path, Clock(), SIGNER.vkey) as found,
        answering(hangs) as url,
        asking(log, Clock(), policy_of(url, found[1][1], quorum=1), timeout_ms=100) as asked,
    ):
        asked_now.clear()
        await grow(log, "a")
        await asked_now.wait()
        for name in "bcd":
            await grow(log, name)
            await until(lambda: "w2.example" in asked.note(log.latest()))
        await until(lambda: asked.report()[0].standing.results[Result.TIMEOUT] >= 2)
        assert asked.report()[0].behind_ms == 0  # the clock stands still
        assert asked.report()[0].lag == 5
        gate.set()


async def test_one_that_is_away_is_asked_again_for_the_newest(log, tmp_path):
    up = False
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as [(made, _)]:

        async def sometimes(request):
            if not up:
                return web.Response(status=503)
            reply = await made.add_checkpoint(await request.read())
            return web.Response(status=reply.status, body=reply.body.encode())

        async with answering(sometimes) as url, asking(log, Clock(), policy_of(url)) as asked:
            await grow(log, "a")
            await grow(log, "b")
            await until(lambda: asked.report()[0].standing.results[Result.FAILED] >= 2)
            up = True
            assert await asked.covered(2, 20)
            assert asked.report()[0].standing.failures_in_a_row == 0


@pytest.mark.parametrize("silent", [False, True], ids=["409 says where it is", "409 says nothing"])
async def test_an_answer_that_was_lost_is_asked_for_again(silent, log, tmp_path):
    """The witness has signed, and the log does not know: it learns it from a 409, or has to think of it itself."""
    lose = True
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as [(made, _)]:

        async def loses(request):
            nonlocal lose
            reply = await made.add_checkpoint(await request.read())
            if lose and reply.status == 200:
                lose = False
                request.transport.close()
            body = b"" if silent and reply.status == 409 else reply.body.encode()
            return web.Response(status=reply.status, body=body, headers={"Content-Type": reply.content_type})

        async with answering(loses) as url, asking(log, Clock(), policy_of(url)) as asked:
            assert not lose
            await grow(log, "a")
            assert await asked.covered(1, 20)
            results = asked.report()[0].standing.results
            assert results[Result.UNREACHABLE] == 1
            assert results[Result.CONFLICT] == 1


@pytest.mark.parametrize("since", [0, 1, 30])
async def test_a_witness_that_never_says_where_it_is_is_found_after_a_restart(since, log, tmp_path):
    """It cosigned, the answer was lost, and the log started anew; its 409 is empty. So many checkpoints came since."""
    lost, guesses = [], []
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as [(made, _)]:

        async def loses(request):
            body = await request.read()
            guesses.append(AddCheckpoint.parse(body).old)
            reply = await made.add_checkpoint(body)
            if reply.status == 200 and lost == [False]:
                lost[:] = [True]
                request.transport.close()
            body = b"" if reply.status == 409 else reply.body.encode()
            return web.Response(status=reply.status, body=body, headers={"Content-Type": reply.content_type})

        async with answering(loses) as url:
            async with asking(log, Clock(), policy_of(url)) as asked:
                await grow(log, "before")
                assert await asked.covered(log.latest().size - 1, 20)
            await grow(log, "a")
            lost.append(False)
            async with asking(log, Clock(), policy_of(url)):
                assert lost == [True]
            for number in range(since):
                await grow(log, f"b{number}")
            guesses.clear()
            async with asking(log, Clock(), policy_of(url)) as asked:
                await grow(log, "c")
                assert await asked.covered(log.latest().size - 1, 20)
                standing = asked.report()[0].standing
                assert (standing.forked, standing.failures_in_a_row) == (False, 0)
    assert 0 not in guesses


async def test_checkpoints_that_others_brought_it_are_no_trouble(log, tmp_path):
    """Whoever has a checkpoint may give it to a witness, so it may be further than the log knows."""
    async with (
        several(tmp_path, Clock(), SIGNER.vkey, 1) as [(made, url)],
        asking(log, Clock(), policy_of(url)) as asked,
    ):
        for name in "abc":
            await grow(log, name)
            latest = log.latest()
            old = int((await made.add_checkpoint(f"old {latest.size}\n\n{latest.note}".encode())).body)
            if old < latest.size:
                proof = await log.consistency_proof(old, latest.size)
                await made.add_checkpoint(add_checkpoint_request(old, proof, latest.note).encode())
            assert await asked.covered(latest.size - 1, 20)


# --- the start ------------------------------------------------------------------------------------------------------


async def seen(path, found, *batches):
    """Let witnesses see a log that grows; it is closed in the end."""
    log = open_log(path)
    try:
        async with asking(log, Clock(), policy_of(*(url for _, url in found))) as asked:
            for number, count in enumerate(batches):
                await grow(log, *(f"{number}-{n}" for n in range(count)))
                assert await asked.covered(log.latest().size - 1, 20)
    finally:
        log.close()


async def refused(path, found, match, *, before=()):
    log = open_log(path)
    try:
        for name in before:
            await grow(log, name)
        with pytest.raises(LogBehind, match=match):
            async with asking(log, Clock(), policy_of(*(url for _, url in found))):
                pass
    finally:
        log.close()


async def test_an_older_copy_of_the_log_with_its_mark_does_not_start(path, tmp_path):
    """Log and mark are both old, so only the witness knows."""
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as found:
        await seen(path, found, 3)
        shutil.copytree(path.parent, tmp_path / "older", ignore=shutil.ignore_patterns("w1*", "older"))
        await seen(path, found, 4)
        older = tmp_path / "older" / path.name
        assert mark_of(older).exists()
        await refused(older, found, "has size 4, and the witness w1 has seen size 8 of it: this is an older copy")
        # nor when it was continued meanwhile, to the same size, or beyond
        await refused(older, found, "has seen another history", before=("x", "y", "z", "v"))
        await refused(older, found, "has seen another history", before=("u",))
        await seen(path, found, 1)


async def test_an_older_copy_with_a_key_that_the_witness_has_dropped_does_not_start(path, tmp_path):
    """It takes no checkpoint of that key any more, so that it is asked what it has cosigned."""
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as found:
        await seen(path, found, 2)
        shutil.copytree(path.parent, tmp_path / "older", ignore=shutil.ignore_patterns("w1*", "older"))
        await seen(path, found, 3)
        other = SigningKey(b"\x09" * 32, SIGNER.name)
        add_log(found[0][0]._writer, other.vkey, other.name, Clock())
        drop_key(found[0][0]._writer, SIGNER.vkey)
        older = tmp_path / "older" / path.name
        await refused(older, found, "has size 3, and the witness w1 has seen size 6 of it: this is an older copy")
        await refused(older, found, "has seen another history", before=("x", "y", "z", "v"))
        log = open_log(path)
        try:
            async with asking(log, Clock(), policy_of(found[0][1])) as asked:
                assert (asked.report()[0].standing.last, asked.report()[0].disagrees) == (Result.REFUSED, False)
        finally:
            log.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"x" * (2 * MAX_ANSWER),
        b"other\n9\n" + b"A" * 43 + b"=\n\n\xe2\x80\x94 w1.example AAAA\n",
        "unsigned",
        "elsewhere",
    ],
)
async def test_what_one_that_refuses_shows_counts_only_with_its_cosignature(body, log):
    async def shows(_request):
        text = Checkpoint("elsewhere" if body == "elsewhere" else SIGNER.name, 9, b"\1" * 32).encode()
        line = SIGNER.sign(text) if body == "unsigned" else W1.cosign(text, START // 1000)
        return web.Response(body=body if isinstance(body, bytes) else f"{text}\n{line}".encode())

    async def no(_request):
        return web.Response(status=403)

    async with answering(no, shows) as url, asking(log, Clock(), policy_of(url)) as asked:
        assert asked.report()[0].standing.last is Result.REFUSED
        assert not asked.report()[0].disagrees


async def test_a_log_of_another_history_is_told_from_a_lie_in_a_409(path, tmp_path):
    """Before it stops, a size that the witness claims is asked for with a proof."""
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as found:
        await seen(path, found, 3)
        with closing(sqlite3.connect(path)) as db:
            forget = [
                sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE name = 'cosignatures_no_delete'")
            ]
            db.execute("DROP TRIGGER cosignatures_no_delete")
            db.execute("DELETE FROM cosignatures")
            db.execute(forget[0])
            db.commit()
        await seen(path, found, 2)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (409, "99\n", Result.CONFLICT),
        (422, "", Result.UNPROVEN),
        (503, "", Result.FAILED),
    ],
    ids=["has seen more", "takes no proof", "is busy"],
)
async def test_one_that_disagrees_while_the_service_runs_is_reported(status, body, says, log):
    """What `beacon_witness_disagrees` and /readyz say; whoever is only busy does not disagree."""
    now = {"status": 503}

    async def answers(request):
        return web.Response(**now)

    async with answering(answers) as url, asking(log, Clock(), policy_of(url)) as asked:
        assert not asked.report()[0].disagrees
        now |= {"status": status, "text": body, "content_type": "text/x.tlog.size"}
        await grow(log, "a", "b")
        await until(lambda: asked.report()[0].standing.results[says] > (says is Result.FAILED))
        assert asked.report()[0].disagrees is (status == 422 or body == "99\n")


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503, 409])
async def test_one_that_does_not_cosign_does_not_stop_the_start(status, log):
    async def no(request):
        return web.Response(status=status)

    async with answering(no) as url, asking(log, Clock(), policy_of(url)) as asked:
        assert asked.report()[0].lag == 1
        await grow(log, "a")


async def test_one_that_cannot_be_reached_does_not_stop_the_start(log):
    async with asking(log, Clock(), policy_of("http://127.0.0.1:9")) as asked:
        assert asked.report()[0].standing.last is Result.UNREACHABLE
        await grow(log, "a")
        assert log.latest().size == 2


# --- the file -------------------------------------------------------------------------------------------------------

TAMPERED = {
    "a signature changed": (
        "UPDATE cosignatures SET signature = zeroblob(72) WHERE size = 2", "cosignature 2: is not what w1.example signed"),
    "moved to another checkpoint": (
        "UPDATE cosignatures SET size = 3 WHERE size = 2 AND witness = 1", "cosignature 3: is not what"),
    "of a checkpoint that is not there": ("UPDATE cosignatures SET size = 9 WHERE size = 3", "cosignature 9: of no checkpoint"),
    "of nobody": ("UPDATE cosignatures SET witness = 7 WHERE size = 3", "cosignature 3: of no witness: 7"),
    "another key": ("UPDATE witnesses SET vkey = 'w'", "cosignature: witness 1 has no key"),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "finding"), TAMPERED.values(), ids=TAMPERED.keys())
async def test_every_damage_to_cosignatures_is_found(statement, finding, path, tmp_path):
    async with several(tmp_path, Clock(), SIGNER.vkey, 1) as found:
        await seen(path, found, 1)
        log = open_log(path)
        async with asking(log, Clock(), policy_of(found[0][1])) as asked:
            await grow(log, "b")
            assert await asked.covered(2, 20)
        log.close()
    if "SET size = 3" in statement:
        tamper(path, "DELETE FROM cosignatures WHERE size = 3")
    tamper(path, statement)
    report = check(path, SIGNER.vkey, [Index()])
    assert any(str(one).startswith(finding) for one in report.findings), report.findings


# --- settings -------------------------------------------------------------------------------------------------------

GOOD = policy_of("https://w1.example/prefix/")
POLICIES = {
    "no policy": ("nonsense\n", "line 1"),
    "no witness": ("quorum none\n", "1 to 32 witnesses are due, here are 0"),
    "no URL": (f"witness w1 {key_of(1)}\nquorum w1\n", "w1 has no URL"),
    "a URL that is none": (f"witness w1 {key_of(1)} ftp://w1.example\nquorum w1\n", "w1: a witness's URL begins with"),
    "a password in the URL": (f"witness w1 {key_of(1)} https://a:b@w1.example\nquorum w1\n", "no user name"),
    "another log": (f"log {SigningKey(bytes(32), 'o.example').vkey}\n{GOOD}", "names other logs"),
    "a name that is not text": (
        b"witness w\xff1 %b https://w1.example\nquorum none\n" % str(key_of(1)).encode(), "not printable"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), POLICIES.values(), ids=POLICIES.keys())
def test_a_policy_that_cannot_be_used_is_refused_at_the_start(text, reason, tmp_path):
    file = tmp_path / "p"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=reason):
        load_policy(file, SIGNER.vkey)


def test_a_policy_that_names_this_log_too_is_taken(tmp_path):
    file = tmp_path / "p"
    file.write_text(f"log {SIGNER.vkey} https://log.example\n{GOOD}")
    asked = load_policy(file, SIGNER.vkey)
    assert [(one.name, one.key, one.url) for one in asked.witnesses] == [("w1", key_of(1), "https://w1.example/prefix")]
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_policy(tmp_path / "none", SIGNER.vkey)


def test_of_two_cosignatures_the_first_stays(path):
    log = open_log(path)
    note = Note.parse(log.latest().note)
    lines = [Note.parse(log.latest().note + W1.cosign(note.text, time)).signatures[-1] for time in (5, 9)]
    with contextlib.closing(log):
        for line, new in zip(lines, (True, False), strict=True):
            item = cosignatures.Cosigned(1, W1.vkey, line.signature)
            assert log.writer.submit(lambda db, item=item: cosignatures.add(db, item)).result(30) is new
        found = log.reader.submit(lambda db: cosignatures.of(db, 1)).result(30)
    assert [item.time for item in found] == [5]
