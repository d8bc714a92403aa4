"""The README's sandbox, as a newcomer types it: its commands in a shell, in an empty folder, in two terminals."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys

import aiohttp

from tests.process_support import ROOT, Api

README = (ROOT / "README.md").read_text(encoding="utf-8")
HERE = "http://127.0.0.1:8080"
ACTIVATE = ". .venv/bin/activate\n"


def commands(name):
    """The commands of a block, without the activation of an environment that stands for the one of this test."""
    found = re.search(rf"<!-- commands: {name} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found, name
    assert found[1].startswith(ACTIVATE)
    return found[1].removeprefix(ACTIVATE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def environment(folder):
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@contextlib.asynccontextmanager
async def terminal(folder, script):
    """A shell that runs a script in the folder while the block runs; what it says until it listens, and its URL."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", script, cwd=folder, env=environment(folder), start_new_session=True,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        said = []
        async with asyncio.timeout(60):
            while not said or not said[-1].startswith("listening on "):
                line = await process.stdout.readline()
                assert line, said
                said.append(line.decode().strip())
        yield said, said[-1].split()[-1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)


def host_program(name, url):
    """A program of the README, for the service at this URL."""
    found = re.search(rf"<!-- program: {name} -->\n```python\n(.*?)```", README, re.DOTALL)
    assert found, name
    assert HERE in found[1]
    return found[1].replace(HERE, url)


async def test_the_sandbox_of_the_readme_seals(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for name in ("beacon", "verifier"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {name} "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("BEACON_LISTEN__PORT", "0")
    port = free_port()
    devnet, sandbox = (commands(name).replace("8081", port) for name in ("devnet", "sandbox"))
    async with terminal(tmp_path, devnet) as (first, _):
        network = json.loads((tmp_path / "devnet.json").read_text())["hash"]
        assert network in first[0]
        async with terminal(tmp_path, sandbox) as (said, url), aiohttp.ClientSession() as client:
            (token,) = (line for line in said if line.startswith("fb_"))
            api = Api(client, url, token)
            await api.ready()
            body = re.search(r"<!-- body: seal -->.*? -d '(.*?)'\n```", README, re.DOTALL)
            sealed = await api.post("/v1/sessions", json.loads(body[1]))
            assert sealed["state"] == "sealed"
            assert " -o seal.json " in body[0]
            (tmp_path / "seal.json").write_text(json.dumps(sealed))
            await asyncio.gather(
                the_rest_of_the_match(tmp_path, commands("match").replace(HERE, url), token),
                a_host_of_its_own(tmp_path, host_program("host", url), token),
            )
    async with terminal(tmp_path, devnet) as (again, _):
        assert network in again[0]


async def the_rest_of_the_match(folder, script, token):
    """What the README's host types after the seal, in a third terminal, down to the verifier's answers."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", script, cwd=folder, env=environment(folder) | {"TOKEN": token},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(120):
        output, errors = await process.communicate()
    assert process.returncode == 0, output.decode() + errors.decode()
    assert "A test, not a game: Fair if" in output.decode()
    assert "PRESENT: the contribution" in output.decode()


async def a_host_of_its_own(folder, text, token):
    """The host of the README plays, and keeps what it was given."""
    (folder / "host.py").write_text(text)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "host.py", cwd=folder, env=os.environ | {"TOKEN": token, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    dice, headline = output.decode().splitlines()
    assert len(json.loads(dice)) == 2
    assert headline.startswith("A test, not a game: Fair if")
    kinds = sorted(path.stem.partition("-")[2] for path in (folder / "receipts").rglob("*.json"))
    assert kinds == ["call", "draw", "reveal", "seal"]
