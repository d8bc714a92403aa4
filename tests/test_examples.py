"""The examples against the real service and a devnet, each in a process of its own."""

import asyncio
import json
import re

import pytest

from tests.process_support import add_host, run, serving

EXAMPLES = (["raffle"], ["backgammon"], ["backgammon", "--mode", "match"])


@pytest.fixture
async def sandbox(tmp_path):
    """What the examples are told, and a running service."""
    info, data = tmp_path / "devnet.json", tmp_path / "data"
    devnet = serving("beacon", "devnet", "--port", "0", "--out", info)
    async with devnet as network:
        options = ("--chain-file", info, "--relay", network.url, "--json")
        code, output, errors = await run("beacon", "init", data, "--origin", "localhost/examples", *options)
        assert code == 0, errors
        config = data / "beacon.toml"
        config.write_text(re.sub(r"(?m)^port = \d+$", "port = 0", config.read_text()))
        token = tmp_path / "token"
        token.write_text(await add_host(data, "alice", "--sandbox"))
        async with serving("beacon", "serve", "--dir", data) as server:
            assert json.loads(output)["vkey"] == (data / "log.vkey").read_text().strip()
            key = ("--log-key", data / "log.vkey")
            given = ("--url", server.url, "--token-file", token, *key, "--chain", info, "--sandbox")
            yield (*given, "--receipts", tmp_path / "receipts"), tmp_path


async def test_the_examples_play_and_are_proven(sandbox):
    given, folder = sandbox
    played = await asyncio.gather(*(run(f"beacon.examples.{name}", *given, *more) for name, *more in EXAMPLES))
    for code, output, errors in played:
        assert code == 0, output + errors
        assert "verdict: " in output
    raffle, *tables = (output for _, output, _ in played)
    assert re.search(r"^3\. ticket \d+$", raffle, re.MULTILINE)
    for table in tables:
        assert len(re.findall(r"^\d\. (?:white|black): [1-6]-[1-6]$", table, re.MULTILINE)) == 3
    kept = [path.stem.partition("-")[2] for path in (folder / "receipts").rglob("*.json")]
    assert (kept.count("seal"), kept.count("contribution"), kept.count("call")) == (3, 4, 4)


@pytest.mark.parametrize("key", ["nothing/log.vkey", "localhost/examples+7687b2bf"])
async def test_a_key_that_is_none_is_refused_in_a_sentence(tmp_path, key):
    (tmp_path / "token").write_text("fb_x")
    given = ("--url", "http://127.0.0.1:1", "--token-file", tmp_path / "token", "--log-key", key)
    code, output, errors = await run("beacon.examples.raffle", *given)
    assert (code, output) == (1, "")
    assert errors.startswith("Error: ")
    assert "Traceback" not in errors
