"""The processes of a soak: devnet, two witnesses, the service, each on a port that it keeps over restarts."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import aiohttp

from beacon.clock import SystemClock
from beacon.store.hosts import HostStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from tests.process_support import ROOT, run
from tests.soak.proxies import Receiver, Relay, WitnessDoor, listening
from verifier.fetch import load_chain

ORIGIN = "localhost/soak"
WITNESSES = ("east", "west")
START = 120
PERIOD = 2


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Program:
    """One of our programs, which listens on a port: started, killed, and seen where it ends by itself."""

    def __init__(self, name, command, log, ledger):
        self.name, self.command, self.log, self.ledger = name, command, log, ledger
        self.process, self.wanted = None, False
        self.starts, self.seconds = 0, []

    async def start(self, offset=0):
        began = time.monotonic()
        module = ("beacon",) if offset == 0 else ("tests.soak.shifted", str(offset))
        environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("BEACON_")}
        with self.log.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *module, *map(str, self.command),
                stdout=asyncio.subprocess.PIPE, stderr=errors, cwd=ROOT, env=environment,
            )  # fmt: skip
        async with asyncio.timeout(START):
            line = await self.process.stdout.readline()
            while line and b"listening on" not in line:
                line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended before it listened: {self.tail()}")
        self.wanted = True
        self.starts += 1
        self.seconds.append(time.monotonic() - began)

    async def end(self, number=signal.SIGKILL):
        """Kill it, or ask it to end; gone when this returns."""
        self.wanted = False
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)
            try:
                await asyncio.wait_for(self.process.wait(), START)
            except TimeoutError:
                self.ledger.fail(f"{self.name} did not end within {START} s of being asked to")
                self.process.kill()
                await self.process.wait()
            if number != signal.SIGKILL and self.process.returncode != 0:
                self.ledger.fail(f"{self.name} ended with {self.process.returncode} when asked to: {self.tail()}")

    def look(self):
        """Whether it has ended though nobody asked it to, which is a failure."""
        if self.wanted and self.process.returncode is not None:
            self.wanted = False
            self.ledger.fail(f"{self.name} ended by itself with {self.process.returncode}: {self.tail()}")
            return True
        return False

    def memory(self):
        """MiB that it has had at the most since it was started (VmHWM), 0 where nobody says so."""
        try:
            with Path(f"/proc/{self.process.pid}/status").open() as file:
                return max((int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")), default=0)
        except OSError:
            return 0

    def tail(self):
        return self.log.read_text(errors="replace")[-1500:]


class World:
    """All of them. offset: ms by which every clock is ahead; url: the service's; relays, doors: by name."""

    def __init__(self, folder, ledger):
        self.folder, self.ledger, self.offset = folder, ledger, 0
        self.data = folder / "data"
        ports = {name: free_port() for name in ("service", "devnet", *WITNESSES)}
        self.url, self.devnet_url = (f"http://127.0.0.1:{ports[name]}" for name in ("service", "devnet"))
        state = ("--state", folder / "devnet.json", "--out", folder / "chain.json")
        self.devnet = self._program("devnet", "devnet", "--port", ports["devnet"], "--period", PERIOD, *state)
        self.service = self._program("service", "serve", "--dir", self.data)
        self.witnesses = {
            name: self._program(name, "witness", "serve", "--dir", folder / name, "--port", ports[name], "--rate", "0")
            for name in WITNESSES
        }
        self.ports, self.tokens = ports, {}

    def _program(self, name, *command):
        return Program(name, command, self.folder / f"{name}.log", self.ledger)

    def now(self):
        """ms since the epoch, by everybody's clock."""
        return SystemClock().now() + self.offset

    @contextlib.asynccontextmanager
    async def running(self, hosts):
        """Everything, with its hosts made; nothing of it is left when this ends."""
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(aiohttp.ClientSession())
            self.client = client
            stack.push_async_callback(self._end)
            await self.devnet.start()
            self.chain = load_chain(str(self.folder / "chain.json"))
            self.relays, urls = {}, [self.devnet_url]
            for name in ("north", "south"):
                self.relays[name] = Relay(self.devnet_url, client)
                urls.append(await stack.enter_async_context(listening(self.relays[name].handle)))
            await self._make(urls)
            self.receiver = Receiver(self.ledger)
            self.hooks = await stack.enter_async_context(listening(self.receiver.handle))
            self.doors, lines = {}, []
            for name in WITNESSES:
                code, output, errors = await run(
                    "beacon", "witness", "init", self.folder / name, "--name", f"{name}.example", "--log", self.vkey
                )
                assert code == 0, errors
                self.doors[name] = WitnessDoor(f"http://127.0.0.1:{self.ports[name]}", client)
                url = await stack.enter_async_context(listening(self.doors[name].handle))
                lines.append(f"witness {name} {output.strip()} {url}\n")
                await self.witnesses[name].start()
            self._configure(lines)
            self.tokens = await asyncio.to_thread(self._hosts, hosts)
            await self.service.start()
            yield self

    async def _make(self, relays):
        options = [part for url in relays for part in ("--relay", url)]
        chain = ("--chain-file", self.folder / "chain.json")
        code, output, errors = await run("beacon", "init", self.data, "--origin", ORIGIN, *chain, *options, "--json")
        assert code == 0, errors
        self.vkey = json.loads(output)["vkey"]
        self.policy = self.folder / "witnesses.policy"

    def _configure(self, witnesses):
        self.policy.write_text("".join([*witnesses, f"group both all {' '.join(WITNESSES)}\n", "quorum both\n"]))
        file = self.data / "beacon.toml"
        text = file.read_text()
        changes = {
            "port = 8080": f"port = {self.ports['service']}",
            "address_per_minute = .*": "address_per_minute = 600000",
            "listeners_per_address = .*": "listeners_per_address = 2000",
            "allow_http = false": "allow_http = true",
            'allow_networks = ""': 'allow_networks = "127.0.0.0/8"',
            "round_lead_ms = .*": "round_lead_ms = 10000",
            "# policy = .*": f"policy = {json.dumps(str(self.policy))}",
        }
        for line, value in changes.items():
            text, count = re.subn(rf"(?m)^{line}$", lambda _, value=value: value, text)
            assert count == 1, line
        file.write_text(text)

    def _hosts(self, names):
        """A token for each host of this name, as `beacon hosts add --sandbox` makes it."""
        with ExitStack() as stack:
            writer = Writer(self.data / "private.db", PRIVATE_SCHEMA)
            stack.callback(writer.close)
            reader = Reader(self.data / "private.db")
            stack.callback(reader.close)
            store = HostStore(writer, reader, SystemClock())

            async def make():
                return {name: await store.add(name, sandbox=True) for name in names}

            return asyncio.run(make())

    async def restart(self, number=signal.SIGKILL):
        """The service once more, after kill -9 or SIGTERM."""
        await self.service.end(number)
        await self.service.start(self.offset)

    async def ahead(self, milliseconds):
        """Set every clock ahead, as if nothing had run for so long."""
        self.offset += milliseconds
        await self.service.end(signal.SIGTERM)
        await asyncio.gather(*map(self._again, (self.devnet, *self.witnesses.values())))
        await self.service.start(self.offset)

    async def _again(self, program):
        await program.end(signal.SIGTERM)
        await program.start(self.offset)

    async def order(self, **orders):
        """Tell the devnet how to behave."""
        async with self.client.post(f"{self.devnet_url}/devnet", json=orders) as answer:
            assert answer.status == 200, await answer.text()

    async def _end(self):
        for program in (self.service, *self.witnesses.values(), self.devnet):
            await program.end()
