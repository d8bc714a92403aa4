"""Real processes: the service on a data directory, the command lines, and how to wait for them."""

import asyncio
import contextlib
import json
import re
import signal
import sys
import time
from pathlib import Path

import aiohttp

from beacon.datadir import initialise, pinned_chain
from tests import secret_watch

ROOT = Path(__file__).parent.parent


async def run(program, *arguments):
    """Exit code, standard output, standard error of `python -m program`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, *map(str, arguments),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    output, errors = await process.communicate()
    secret_watch.WATCH.text(f"what {program} wrote to standard error", errors.decode())
    return process.returncode, output.decode(), errors.decode()


def make_data(folder, origin, relay_url, clock):
    """A data directory on quicknet whose log begins at the clock's time, listening on a free port; the log's vkey."""
    vkey = initialise(folder, origin, [pinned_chain("quicknet", (relay_url,))], clock)
    config = folder / "beacon.toml"
    config.write_text(re.sub(r"(?m)^port = \d+$", "port = 0", config.read_text()))
    return vkey


async def add_host(folder, name, *options):
    code, output, errors = await run("beacon", "hosts", "add", name, "--dir", folder, *options, "--json")
    assert code == 0, errors
    token = json.loads(output)["token"]
    secret_watch.WATCH.secret("a host's token", token)
    return token


class Server:
    """A service process. `stop` asks it to end, `kill` does not ask."""

    def __init__(self, process, url):
        self.process, self.url = process, url

    async def stop(self):
        if self.process.returncode is None:
            self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), 30)

    async def kill(self):
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@contextlib.asynccontextmanager
async def serving(*command, log=None):
    """`python -m command...` while the block runs; it must print the URL that it listens on."""
    written = secret_watch.err_file() if log is None else Path(log)
    with written.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=stderr, cwd=ROOT
        )
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
            while line and b"listening on" not in line:
                line = await process.stdout.readline()
        assert line, "the process ended before it listened"
        yield Server(process, line.split()[-1].decode())
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 30)
        if process.returncode is None:
            process.kill()
            await process.wait()
        if log is None:
            secret_watch.ended(written)
        else:
            secret_watch.watch_file(written)


class Api:
    """The HTTP API of a server, as one host."""

    def __init__(self, client, url, token):
        self.client, self.url = client, url
        self.headers = {"Authorization": f"Bearer {token}"}

    async def post(self, path, body=None, expect=201):
        async with self.client.post(f"{self.url}{path}", json=body or {}, headers=self.headers) as answer:
            result = await answer.json()
            assert answer.status == expect, result
            return result

    async def get(self, path, expect=200):
        async with self.client.get(f"{self.url}{path}") as answer:
            body = await answer.read()
            assert answer.status == expect, body
            return body

    async def view(self, session):
        return json.loads(await self.get(f"/v1/sessions/{session}"))

    async def until(self, condition, seconds=60):
        """Poll `condition`, a coroutine function, until it holds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if await condition():
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it did not happen in time")

    async def ready(self):
        async def check():
            async with self.client.get(f"{self.url}/readyz") as answer:
                return answer.status == 200

        await self.until(check)

    async def reach(self, session, state):
        async def check():
            return (await self.view(session))["state"] == state

        await self.until(check)


@contextlib.asynccontextmanager
async def api(server, token):
    async with aiohttp.ClientSession() as client:
        yield Api(client, server.url, token)
