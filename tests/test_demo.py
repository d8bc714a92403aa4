"""The README's first command, whole: real processes, the real verifier, three attempts to cheat."""

import asyncio
import json
import os
import re
import sys

import pytest

from tests.process_support import ROOT, run
from verifier.check import Trust, check
from verifier.fetch import load_chain
from verifier.note import VerifierKey
from verifier.policy import Policy


async def test_the_demo_ends_in_a_fair_verdict_and_catches_every_change(tmp_path):
    out = tmp_path / "kept"
    code, output, errors = await run("beacon", "demo", "--out", out)
    assert code == 0, output + errors
    assert "Traceback" not in output + errors
    for step in ("devnet", "witnesses", "sealed", "closed", "round", "opening", "turns", "revealed", "PRESENT"):
        assert step in output
    assert output.count("(exit 1)") == 3
    wide = [line for line in output.splitlines() if len(line) > 80 and str(tmp_path) not in line]
    assert wide == []
    assert "A test, not a game" in output

    chain, vkey = load_chain(str(out / "chain.json")), VerifierKey.parse((out / "log.vkey").read_text().strip())
    assert chain.beacon_id == "devnet"
    policy = Policy.parse((out / "witnesses.policy").read_bytes())
    trust = Trust(log_key=vkey, chains={chain.hash: chain}, policy=policy, sandbox=True)
    verdict = check((out / "transcript.json").read_bytes(), trust)
    assert verdict.exit == 0
    assert len(verdict.session["outcomes"]) == 21
    states = {claim.name: claim.state for claim in verdict.claims}
    assert {name for name, state in states.items() if state != "PROVEN"} == {"custody", "attachments"}
    assert len(policy.witnesses) == 2
    assert "east, west saw" in verdict["unpredictable"].text
    receipts = sorted((out / "receipts").iterdir())
    names = [path.name.split("-", 1)[1].removesuffix(".json") for path in receipts]
    assert names[:5] == ["seal", "contribution-white", "contribution-black", "close", "draw-opening"]
    assert names[-1] == "reveal"
    assert len(names) == 26
    assert (out / "verdict.txt").read_text().startswith("A test, not a game: Proven fair.")
    for path in receipts:  # a receipt comes before any witness has seen it
        assert check(path.read_bytes(), trust)["log"].state == "PROVEN"
    assert json.loads((out / "chain.json").read_text()) == chain.as_dict()


async def test_the_operator_vanishes_and_the_result_does_not(tmp_path):
    out = tmp_path / "kept"
    code, output, errors = await run("beacon", "demo", "--vanish", "--out", out)
    assert code == 0, output + errors
    assert "its database, keys and seeds are deleted" in " ".join(output.split())
    assert (output.count("as published"), output.count("never published")) == (9, 12)
    assert [line for line in output.splitlines() if len(line) > 80 and str(tmp_path) not in line] == []
    assert re.search(r"opens to the seed that was sealed:\s+[0-9a-f]{64}\b", output)
    assert "show whether a contribution was left out; `verifier check` says the rest." in " ".join(output.split())
    assert len(list((out / "receipts").iterdir())) == 13
    assert not (out / "transcript.json").exists()


async def test_the_demo_overwrites_nothing(tmp_path):
    (tmp_path / "mine").write_text("precious")
    code, _, errors = await run("beacon", "demo", "--out", tmp_path)
    assert code == 2
    assert "not empty" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


async def test_the_demo_explains_itself():
    code, output, _ = await run("beacon", "demo", "--help")
    assert code == 0
    assert "--out" in output


async def test_a_demo_that_is_told_to_stop_stops_what_it_started(tmp_path):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "beacon", "demo", "--out", tmp_path / "kept",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path), "BEACON_FOO": "not for the demo's service"},
    )  # fmt: skip
    output = b""
    async with asyncio.timeout(60):
        while b"service" not in output:
            output += await process.stdout.readline()
    process.terminate()
    await asyncio.wait_for(process.wait(), 60)
    assert process.returncode == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("beacon-demo-")]
    for url in re.findall(rb"http://127\.0\.0\.1:(\d+)", output):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(url))
