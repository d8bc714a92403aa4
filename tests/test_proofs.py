"""Receipts as C2SP tlog-proofs, as the service gives them and `verifier proof` reads them."""

import json

import pytest
from click.testing import CliRunner

from tests.session_support import service
from tests.test_witnessed_sessions import VKEY, play, trusted
from tests.web_support import web_of
from tests.witness_support import asking, policy_of, several
from verifier.cli import main
from verifier.encoding import encode_base64
from verifier.tlog_proof import TlogProof


async def fetched(client, session, index):
    answer = await client.get(f"/v1/sessions/{session.hex()}/receipts/{index}/tlog-proof")
    assert answer.status == 200
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{index}.tlog-proof"'
    return await answer.text()


def run(path, *options):
    result = CliRunner().invoke(main, ["proof", str(path), *map(str, options), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.output


@pytest.fixture
async def proof(tmp_path):
    """The file of a session's seal in a log that nobody witnesses."""
    async with service(tmp_path) as running, web_of(running) as client:
        sealed = await running.seal()
        path = tmp_path / "seal.tlog-proof"
        path.write_text(await fetched(client, sealed.session, sealed.state["index"]))
        missing = await client.get(f"/v1/sessions/{sealed.session.hex()}/receipts/999/tlog-proof")
        assert (missing.status, (await missing.json())["code"]) == (404, "not-found")
    return path


async def test_the_logs_key_is_enough(proof):
    code, answer = run(proof, "--log-key", VKEY)
    assert (code, answer["valid"], answer["witnesses"]) == (0, True, [])
    assert json.loads(answer["entry"])["type"] == "seal"
    assert TlogProof.parse(proof.read_bytes()).encode() == proof.read_text()
    text = CliRunner().invoke(main, ["proof", str(proof), "--log-key", str(VKEY)]).output
    assert text.startswith(f"PROVEN: entry {answer['index']} is in the log {answer['origin']}")


async def test_a_quorum_that_nobody_met_and_keys_of_others(proof, tmp_path):
    policy = tmp_path / "policy"
    policy.write_bytes(f"log {VKEY}\n".encode() + trusted("w1").encode())
    code, answer = run(proof, "--policy", policy)
    assert (code, answer["valid"]) == (1, False)
    assert "quorum" in answer["error"]
    other = str(VKEY).split("+")[0] + "+" + "+".join(str(trusted("w1").witnesses["w1"]).split("+")[1:])
    assert run(proof, "--log-key", other)[0] == 3  # a witness's key


async def test_any_change_is_found(proof):
    parsed = TlogProof.parse(proof.read_bytes())
    for changed in (
        TlogProof(parsed.index + 1, parsed.hashes, parsed.checkpoint, parsed.extra),
        TlogProof(parsed.index, parsed.hashes[:-1], parsed.checkpoint, parsed.extra),
        TlogProof(parsed.index, parsed.hashes, parsed.checkpoint, parsed.extra + b" "),
        TlogProof(parsed.index, parsed.hashes, parsed.checkpoint.replace("\n", "0\n", 2), parsed.extra),
    ):
        proof.write_text(changed.encode())
        code, answer = run(proof, "--log-key", VKEY)
        assert (code, answer["valid"]) == (1, False)


async def test_the_entry_may_stand_beside_it(proof, tmp_path):
    parsed, entry = TlogProof.parse(proof.read_bytes()), tmp_path / "entry"
    proof.write_text(TlogProof(parsed.index, parsed.hashes, parsed.checkpoint).encode())
    entry.write_bytes(parsed.extra)
    code, output = run(proof, "--log-key", VKEY)
    assert (code, "--entry" in output) == (3, True)
    assert run(proof, "--log-key", VKEY, "--entry", entry)[0] == 0
    entry.write_bytes(b"\xff\x1b[2J")
    assert run(proof, "--log-key", VKEY, "--entry", entry)[0] == 1


@pytest.mark.parametrize("text", ["", "c2sp.org/tlog-proof@v1\n", f"extra {encode_base64(b'x')}\n", "\x00"])
async def test_what_is_no_proof(tmp_path, text):
    path = tmp_path / "no.tlog-proof"
    path.write_text(text)
    assert run(path, "--log-key", VKEY)[0] == 3
    assert run(path)[0] == 3


async def test_it_stands_under_the_checkpoint_that_most_witnesses_cosigned(tmp_path):
    async with (
        service(tmp_path) as running,
        several(tmp_path, running.clock, VKEY, 3) as found,
        asking(running.log, running.clock, policy_of(*(url for _, url in found), quorum=2)) as asked,
        web_of(running, witnesses=asked) as client,
    ):
        session = await play(running, asked)
        view = await running.sessions.view(session)
        path, policy = tmp_path / "end.tlog-proof", tmp_path / "policy"
        path.write_text(await fetched(client, session, view["end_index"]))
        policy.write_bytes(f"log {VKEY}\n".encode() + trusted("w1", "w2").encode())
        code, answer = run(path, "--policy", policy)
        assert (code, answer["valid"], answer["witnesses"]) == (0, True, ["w1", "w2"])
