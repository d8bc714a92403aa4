"""`verifier open`: the seed from the timelock's round, and every draw, from a transcript or from players' receipts."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from tests import builder
from tests.builder import LOG_KEY, QUICKNET, ROUNDS, Story, at
from tests.test_custody import LOCKS, NUMBER, SEED, opening
from verifier.cli import main

SIGNATURE = LOCKS.sign(NUMBER).hex()
R1005 = ROUNDS[QUICKNET.hash.hex(), 1005]["signature"]


@pytest.fixture
def write(tmp_path):
    (tmp_path / "locks.json").write_text(json.dumps(LOCKS.chain.as_dict()))

    def write(name, document):
        path = tmp_path / name
        path.write_bytes(builder.data(document.document() if isinstance(document, Story) else document))
        return str(path)

    return write


def run(folder, *arguments, key=True):
    options = ["--chain", "quicknet", "--chain", str(folder / "locks.json"), "--json"]
    options += ["--log-key", str(LOG_KEY.vkey)] if key else []
    result = CliRunner().invoke(main, ["open", *arguments, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.output


def locked(seed=SEED, **seal):
    return builder.match(timelock=builder.sealed(seed, NUMBER, LOCKS.chain), **seal)


def test_a_match_is_finished_without_anybody(write, tmp_path):
    story = locked()
    path = write("t.json", story)
    code, answer = run(tmp_path, path, "--round-signature", SIGNATURE, "--draws", "turn=4")
    assert (code, answer["exit"], answer["seed"]) == (0, 0, SEED.hex())
    drawn = {(row["recipe"], row["n"]): row for row in answer["draws"]}
    assert set(drawn) == {("turn", 1), ("turn", 2), ("turn", 3), ("turn", 4), ("opening", 1), ("hand", 1)}
    assert [drawn["turn", n]["same"] for n in (1, 2, 3, 4)] == [True, True, None, None]
    more = story.draw("turn", 90, count=2).document()
    honest = [json.loads(event["entry"]) for event in more["events"]][-1]["outcomes"]
    assert [drawn["turn", n]["outcome"] for n in (3, 4)] == honest
    assert drawn["opening", 1]["purpose"] == "who starts"


def test_the_timelocks_round_may_stand_in_the_transcript(write, tmp_path):
    assert run(tmp_path, write("t.json", opening(locked())))[0] == 0


def test_a_published_draw_that_differs_is_found(write, tmp_path):
    made = Story().seal(timelock=builder.sealed(SEED, NUMBER, LOCKS.chain)).close(6.6).round(1005, 15.9)
    path = write("t.json", made.draw("turn", 16, outcomes=[[6, 6]]))
    code, answer = run(tmp_path, path, "--round-signature", SIGNATURE)
    [row] = answer["draws"]
    assert (code, row["same"], row["transcript"]) == (1, False, [6, 6])
    result = CliRunner().invoke(main, ["open", path, "--chain", "quicknet", "--chain", str(tmp_path / "locks.json"),
                                       "--round-signature", SIGNATURE])  # fmt: skip
    assert "BUT PUBLISHED AS [6,6]" in result.output
    assert "NOT VERIFIED" in result.output


@pytest.mark.parametrize("answered", [0, 3])
def test_a_live_session_is_finished_as_far_as_it_was_called(write, tmp_path, answered):
    story = Story(links=8)
    story.seal(profile="live", timelock=builder.sealed(story.links[8], NUMBER, LOCKS.chain))
    story.contribute("white", 1.6).close(1.65)
    story.call("turn", 1.8, {"white": b"w"}).call("hand", 1.8).round(1002, 6.8)
    if answered:
        story.answer(1, 6.81).answer(2, 6.81)
    story.call("hand", 6.9).round(1003, 9.8)
    if answered:
        story.answer(3, 9.81)
    code, answer = run(tmp_path, write("t.json", story), "--round-signature", SIGNATURE)
    assert code == 0
    assert [(row["recipe"], row["draw"], row["same"]) for row in answer["draws"]] == [
        ("turn", 1, True if answered else None),
        ("hand", 2, True if answered else None),
        ("hand", 3, True if answered else None),
    ]
    assert len(answer["draws"][2]["outcome"]) == 5
    assert not set(answer["draws"][1]["outcome"]) & set(answer["draws"][2]["outcome"])


def receipts(story):
    """Each entry as its own document, as the service's answers have them."""
    return {index: story.document([index]) for index in story.shown}


def test_receipts_of_several_players_are_enough(write, tmp_path):
    whole = locked()
    paths = {index: write(f"{index}.json", one) for index, one in receipts(whole).items()}
    seal, white, black, close = list(paths.values())[:4]
    rounds = ["--round-signature", SIGNATURE, "--round-signature", f"1005={R1005}"]
    code, answer = run(tmp_path, black, close, seal, white, *rounds, "--draws", "turn=2")
    assert code == 0
    published = [json.loads(event["entry"]) for event in whole.document()["events"] if '"turn"' in event["entry"]][-1]
    assert [row["outcome"] for row in answer["draws"] if row["recipe"] == "turn"] == published["outcomes"]
    code, answer = run(tmp_path, close, seal, white, *rounds, "--draws", "turn=2")
    assert code == 2
    assert "contributions are not among the documents: the close counts 2" in answer["draws"][0]["why"]
    code, answer = run(tmp_path, seal, white, black, *rounds, "--draws", "turn=2")
    assert (code, answer["draws"][0]["outcome"]) == (2, None)
    assert "the close of the contributions" in answer["draws"][0]["why"]
    code, answer = run(tmp_path, seal, white, black, close, *rounds[:2], "--draws", "turn=2")
    assert (code, answer["seed"]) == (2, SEED.hex())
    assert "round 1005 is not known" in answer["draws"][0]["why"]
    assert "the seal is in none" in run(tmp_path, close, white, *rounds)[1]


def test_two_histories_are_found(write, tmp_path):
    one, other = locked(), locked(label="table 5")
    code, answer = run(tmp_path, write("a.json", one), write("b.json", other), "--round-signature", SIGNATURE)
    assert (code, "two histories" in answer["headline"]) == (1, True)


def test_a_seed_that_was_not_sealed(write, tmp_path):
    code, answer = run(tmp_path, write("t.json", locked(bytes(32))), "--round-signature", SIGNATURE)
    assert (code, "does not open the commitment" in answer["headline"]) == (1, True)


@pytest.mark.parametrize("ciphertext", ["", "YWdl", "not base64", builder.sealed(SEED, NUMBER)["ciphertext"]])
def test_a_ciphertext_that_is_none(write, tmp_path, ciphertext):
    lock = builder.sealed(SEED, NUMBER, LOCKS.chain) | {"ciphertext": ciphertext}
    code, answer = run(tmp_path, write("t.json", builder.match(timelock=lock)), "--round-signature", SIGNATURE)
    assert (code, "the timelock does not open" in answer["headline"]) == (1, True)


def test_before_the_round_it_says_what_to_get(write, tmp_path):
    code, answer = run(tmp_path, write("t.json", locked()))
    assert code == 2, answer
    assert f"/{LOCKS.chain.hash.hex()}/public/{NUMBER}" in answer["headline"]


@pytest.mark.parametrize("signature", [LOCKS.sign(1).hex(), "00" * 48, "ab"])
def test_a_false_signature_opens_nothing(write, tmp_path, signature):
    code, answer = run(tmp_path, write("t.json", locked()), "--round-signature", signature)
    assert (code, answer["headline"].startswith("FAILED: ")) == (1, True)


def test_a_false_document_opens_nothing(write, tmp_path):
    document = locked().document()
    document["events"][0]["proof"][0] = document["events"][1]["proof"][1]
    code, answer = run(tmp_path, write("t.json", document), "--round-signature", SIGNATURE)
    assert (code, "not in the log" in answer["headline"]) == (1, True)


def test_without_the_logs_key_nothing_is_decided(write, tmp_path):
    assert run(tmp_path, write("t.json", locked()), "--round-signature", SIGNATURE, key=False)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--round-signature", "xyz"], "hexadecimal"),
        (["--round-signature", f"9={SIGNATURE}"], "does not use round 9"),
        (["--round-signature", SIGNATURE, "--round-signature", "00"], "two signatures"),
        (["--round-signature", SIGNATURE, "--draws", "turns=4"], "no recipe 'turns'"),
        (["--round-signature", SIGNATURE, "--draws", "turn=10000000"], "--draws"),
        (["--round-signature", SIGNATURE, "--draws", "turn=10000"], "at most 10000 draws"),
    ],
)
def test_unusable_options(write, tmp_path, arguments, text):
    code, output = run(tmp_path, write("t.json", locked()), *arguments)
    assert (code, text in output) == (3, True), output


def test_a_session_without_a_timelock(write, tmp_path):
    code, output = run(tmp_path, write("t.json", builder.match()))
    assert (code, "carries no timelock" in output) == (3, True)


def test_a_deck_cannot_be_followed_past_a_missing_draw(write, tmp_path):
    story = Story(links=8)
    story.seal(
        profile="live", close_at=None, participants=[], timelock=builder.sealed(story.links[8], NUMBER, LOCKS.chain)
    )
    story.call("hand", 1.8).call("hand", 6.9).round(1003, 9.8)
    code, answer = run(tmp_path, write("t.json", story), "--round-signature", SIGNATURE)
    assert code == 2
    assert "round 1002" in answer["draws"][0]["why"]
    assert "the deck cannot be followed" in answer["draws"][1]["why"]


def test_documents_of_two_sessions(write, tmp_path):
    one, shifted = locked(), Story()
    shifted.add(json.loads(shifted.leaves[1]) | {"time": at(1)}, shown=False)
    shifted.seal(label="another", timelock=builder.sealed(SEED, NUMBER, LOCKS.chain))
    paths = [write("a.json", one.document([one.shown[0]])), write("b.json", shifted)]
    code, output = run(tmp_path, *paths, "--round-signature", SIGNATURE)
    assert (code, "documents of several sessions" in output) == (3, True), output


@contextlib.contextmanager
def relay(answers):
    """A relay on loopback that has these answers by path, and 425 else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = answers.get(self.path)
            self.send_response(425 if body is None else 200)
            self.end_headers()
            self.wfile.write(b"" if body is None else body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_relay_has_what_is_missing(write, tmp_path):
    own = f"/{LOCKS.chain.hash.hex()}/public/{NUMBER}"
    drand = f"/{QUICKNET.hash.hex()}/public/1005"
    answers = {own: json.dumps({"round": NUMBER, "signature": SIGNATURE}).encode()}
    whole = locked()
    paths = [write(f"{index}.json", one) for index, one in receipts(whole).items()][:4]
    with relay(answers) as url:
        code, answer = run(tmp_path, *paths, "--relay", url, "--draws", "turn=1")
        assert (code, answer["seed"]) == (2, SEED.hex())
        assert "round 1005 is not known" in answer["draws"][0]["why"]
        answers[drand] = json.dumps({"round": 1005, "signature": R1005, "randomness": "00"}).encode()
        code, answer = run(tmp_path, *paths, "--relay", url, "--draws", "turn=1")
        assert (code, answer["draws"][0]["why"]) == (0, "")
        answers[own] = json.dumps({"round": NUMBER, "signature": LOCKS.sign(1).hex()}).encode()
        code, answer = run(tmp_path, *paths, "--relay", url)
        assert (code, answer["headline"].startswith("FAILED: ")) == (1, True), "a relay is not believed"


@pytest.mark.parametrize("body", [None, b"", b"[]", b"{}", b'{"signature":1}', b"x" * 20_000])
def test_a_relay_without_the_round_says_so(write, tmp_path, body):
    answers = {} if body is None else {f"/{LOCKS.chain.hash.hex()}/public/{NUMBER}": body}
    with relay(answers) as url:
        code, answer = run(tmp_path, write("t.json", locked()), "--relay", url)
    assert (code, "The relay: " in answer["headline"]) == (2, True), answer
