"""The README's way from nothing to a witnessed service, as an operator types it: its steps in a shell, one after the other.

The relays and the witnesses are this test's, by configuration alone: variables of the environment, and the policy file.
"""

import asyncio
import contextlib
import json
import re
import sys

import aiohttp

from tests.process_support import Api, run, serving
from tests.test_readme_sandbox import HERE, README, environment, free_port, terminal
from verifier.note import Checkpoint, Note, VerifierKey, open_note

PLACE = "DATA=/var/lib/beacon\n"
WARNED = {5}
"""Steps that may end with a warning: on a machine like this one, whose clock nothing keeps right, they do."""


SEAL = {"label": "first", "recipes": {"d6": {"kind": "dice", "count": 1, "sides": 6}}}


def steps():
    """Number -> what is typed, with the place of the data directory left to the environment."""
    found = re.search(r"<!-- commands: operate -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found
    assert found[1].startswith(PLACE)
    parts = re.split(r"(?m)^# (\d+)\. .*\n", found[1].removeprefix(PLACE))
    assert parts[0].strip() == ""
    return {int(number): text.strip() for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_there_are_fewer_than_ten_steps():
    assert list(steps()) == list(range(1, len(steps()) + 1))
    assert len(steps()) < 10
    assert steps()[1].endswith(" && pip install '.[service,fast]'")  # what runs the tests is installed


@contextlib.asynccontextmanager
async def a_witness(folder, name):
    """A witness of somebody else's, that runs and knows no log yet: its line of a policy but for the name."""
    code, vkey, errors = await run("beacon", "witness", "init", folder, "--name", name)
    assert code == 0, errors
    async with serving("beacon", "witness", "serve", "--dir", folder, "--port", "0") as server:
        yield f"{vkey.strip()} {server.url}"


async def witnessed(client, url):
    async with client.get(f"{url}/log/witnessed") as answer:
        return answer.status == 200


async def typed(folder, step, data, allowed=(0,)):
    """What the lines of a step print, one after the other; they end with one of these exit codes."""
    said = []
    for line in step.replace("/media", str(folder)).splitlines():
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", line, cwd=folder, env=environment(folder) | {"DATA": str(data)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(120):
            output, errors = (part.decode() for part in await process.communicate())
        assert process.returncode in allowed, output + errors
        said.append(output)
    return said


async def test_the_steps_of_the_readme_lead_to_a_witnessed_service(tmp_path, monkeypatch):
    for folder in ("bin", "log-key", "master-key"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "beacon").write_text(f'#!/bin/sh\nexec {sys.executable} -m beacon "$@"\n')
    (tmp_path / "bin" / "beacon").chmod(0o755)
    data, port, said, todo = tmp_path / "data", free_port(), {}, steps()
    async with contextlib.AsyncExitStack() as stack:
        relay = await stack.enter_async_context(
            serving("beacon", "devnet", "--port", "0", "--period", "1", "--out", tmp_path / "chain.json")
        )
        chain = {"name": "devnet", "file": str(tmp_path / "chain.json"), "relays": [relay.url, f"{relay.url}/"]}
        monkeypatch.setenv("BEACON_CHAINS", json.dumps([chain]))
        monkeypatch.setenv("BEACON_DEFAULT_CHAIN", "devnet")
        monkeypatch.setenv("BEACON_LISTEN__PORT", port)
        lines = [
            await stack.enter_async_context(a_witness(tmp_path / name, f"{name}.example"))
            for name in ("north", "south")
        ]
        (tmp_path / "witnesses.policy").write_text(
            f"witness north {lines[0]}\nwitness south {lines[1]}\ngroup both all north south\nquorum both\n"
        )
        for number in range(2, 7):
            said[number] = await typed(tmp_path, todo[number], data, (0, 1) if number in WARNED else (0,))
            if number == 4:
                (vkey,) = said[4]
                for name in ("north", "south"):
                    place = tmp_path / name
                    code, _, errors = await run("beacon", "witness", "add-log", vkey.strip(), "--dir", place)
                    assert code == 0, errors
        assert (tmp_path / "log-key" / "log.key").stat().st_mode & 0o777 == 0o600
        assert [output.strip().endswith(", 0 fail") for output in said[5]] == [True, True], said[5]
        assert "WARN witness" not in said[5][1]
        (token,) = re.findall(r"^fb_\S+", said[6][0], re.MULTILINE)
        async with terminal(tmp_path, f"DATA={data}; exec {todo[7]}") as (_, url), aiohttp.ClientSession() as client:
            api = Api(client, url, token)
            await api.ready()
            await api.until(lambda: witnessed(client, url))
            ready, note = await typed(tmp_path, todo[8].replace(HERE, url), data)
            await api.post("/v1/sessions", SEAL)
            _, doctor = await typed(tmp_path, todo[5], data, (0, 1))
    assert json.loads(ready)["ready"]
    assert {name for name, one in json.loads(ready)["witnesses"].items() if one["size"] > 0} == {"north", "south"}
    keys = [VerifierKey.parse(vkey.strip()), *(VerifierKey.parse(line.split()[0]) for line in lines)]
    opened = open_note(Note.parse(note), keys)
    assert len(opened.verified) == 3
    assert Checkpoint.parse(opened.text).origin == "beacon.example/fair"
    assert "runs and can seal" in doctor
    assert "FAIL" not in doctor
