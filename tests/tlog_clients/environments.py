"""Environments for third-party programs of the C2SP formats: from PyPI, pinned, each in one of its own."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tlog_clients.interpreter import find

SOURCE = Path(__file__).parent
NEWER = "3.12"


def unavailable(client, why, what):
    """CI installs what this needs, so there a lack of it is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{why}; in CI {client} has to {what}")
    pytest.skip(f"{why}: {client} from PyPI did NOT {what}")


def python_for(client, version, what):
    """The one that .ci/run found or installed for the clients that need more than the tests do, or any that will do."""
    given = os.environ.get("TLOG_CLIENTS_PYTHON")
    if given and version == NEWER:
        return given
    found = find(version)
    if found is None:
        pytest.skip(f"no Python {version} on this machine: {client} from PyPI did NOT {what}")
    return found


def installed(folder, client, python, what):
    """The environment of a client, made once for its requirements and this Python."""
    requirements = SOURCE / f"{client}.txt"
    wanted = f"{python}\n{requirements.read_text()}"
    environment, done = folder / client, folder / f"{client}.done"
    if done.exists() and done.read_text() == wanted and (environment / "bin" / "python").exists():
        return environment
    shutil.rmtree(environment, ignore_errors=True)
    done.unlink(missing_ok=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", "--only-binary", ":all:", "-r", requirements]
    for command in ([python, "-m", "venv", environment], pip):
        try:
            made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            unavailable(client, f"{client} was not installed within five minutes", what)
        if made.returncode != 0:
            unavailable(client, f"{client} could not be installed ({made.stderr.strip().splitlines()[-1:]})", what)
    done.write_text(wanted)
    return environment


class Client:
    """One client in its own environment, in a process of its own."""

    def __init__(self, name, environment):
        self.name, self.environment = name, environment

    def surroundings(self):
        found = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        found.pop("PYTHONPATH", None)
        return found

    async def call(self, program, *arguments, given=b""):
        """Exit code and standard output of one of the environment's programs."""
        process = await asyncio.create_subprocess_exec(
            self.environment / "bin" / program, *map(str, arguments), env=self.surroundings(),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(240):
            output, errors = await process.communicate(given)
        return process.returncode, output, errors.decode()

    async def script(self, name, jobs):
        """What a script beside this file makes of a list of jobs, each in JSON."""
        code, output, errors = await self.call("python", SOURCE / name, given=json.dumps(jobs).encode())
        assert code == 0, errors
        return json.loads(output)

    async def read(self, vkey, *urls, old=None):
        """What the client makes of whole logs: of each the size, root and entries' hashes, or why it refused."""
        jobs = [{"url": url, "vkey": vkey, "old": old} for url in urls]
        return await self.script(f"read_{self.name.replace('-', '_')}.py", jobs)
