"""A whole beacon in order, as `beacon doctor` finds it, that a test then breaks: data directory, relays, witnesses, machine."""

import contextlib
import json
import re
import shutil
from dataclasses import replace

from beacon.datadir import initialise, pinned_chain
from beacon.doctor.examine import examine
from beacon.doctor.machine import MIB, Disk, Machine
from beacon.keys.log import log_signer
from beacon.log.log import Log
from beacon.settings import load_settings
from tests.log_support import contribution
from tests.lying_relay import LyingRelay
from tests.round_support import QUICKNET, FakeClock, at
from tests.witness_support import asking, policy_of, serving, witness
from verifier import merkle
from verifier.note import Checkpoint, SigningKey
from verifier.tlog_proof import add_checkpoint_request

NOW = 72800
LOG_AGE = 600_000
HEALTHY = Machine(
    uid=None,
    disk=lambda _: Disk(50_000 * MIB, 1_000_000, read_only=False),
    filesystem=lambda _: "ext4",
    synchronised=lambda: True,
    memory=lambda: 4_000 * MIB,
    files=lambda: 65_536,
    native=lambda: True,
    sqlite=lambda: (3, 45, 0),
)


class World:
    """path: the data directory; relays, witnesses: two each; machine: to be replaced. clock: the doctor's."""

    def __init__(self, folder, clock):
        self.folder, self.path, self.clock = folder, folder / "data", clock
        self.machine = replace(HEALTHY, uid=lambda: self.path.stat().st_uid)
        self.relays, self.witnesses, self.urls = [], [], []
        self.stack = contextlib.AsyncExitStack()

    @property
    def settings(self):
        return load_settings(self.path)

    @property
    def signer(self):
        return log_signer(self.settings)

    def set(self, key, value, section=None):
        """Set a key of beacon.toml, of the first table of that name."""
        file = self.path / "beacon.toml"
        head, mark, tail = (
            ("", "", file.read_text()) if section is None else file.read_text().partition(f"[{section}]\n")
        )
        tail, count = re.subn(rf"(?m)^(?:# )?{key} = .*$", lambda _: f"{key} = {json.dumps(value)}", tail, count=1)
        assert count == 1, (section, key)
        file.write_text(head + mark + tail)

    def add_chain(self, name, **more):
        with (self.path / "beacon.toml").open("a") as file:
            file.write(f"\n[[chains]]\nname = {json.dumps(name)}\nrelays = {json.dumps([self.relays[0].url])}\n")
            file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in more.items())

    def set_policy(self, *urls, **options):
        (self.path / "witnesses.policy").write_text(policy_of(*urls, **options))

    def open_log(self, clock=None):
        settings = self.settings
        return Log.open(settings.log_db, self.signer, clock or self.clock, mark=settings.log_mark)

    async def append(self, count=1, age=0):
        """Entries of `age` ms ago, each with its checkpoint."""
        log = self.open_log(FakeClock(self.clock.now() - age))
        try:
            for _ in range(count):
                await log.append(lambda time: [contribution(time, "white")])
        finally:
            log.close()

    async def cosign(self):
        """Have the newest checkpoint cosigned by all, and keep that."""
        log = self.open_log()
        try:
            async with asking(log, self.clock, policy_of(*self.urls)) as asked:
                assert all(one.lag == 0 for one in asked.report())
        finally:
            log.close()

    async def cosign_elsewhere(self, number, size):
        """A witness cosigns a history of this size that the log's key signs, and that is not the log's."""
        root = merkle.tree_root([merkle.leaf_hash(b"other %d" % n) for n in range(size)])
        text = Checkpoint(self.signer.name, size, root).encode()
        made = self.witnesses[number]
        reply = await made.add_checkpoint(add_checkpoint_request(0, [], f"{text}\n{self.signer.sign(text)}").encode())
        assert reply.status == 200, reply

    async def examine(self):
        return await examine(self.path, self.clock, self.machine)


def make_template(folder):
    """The data directory of a log of some entries, ten minutes old."""
    clock = FakeClock(QUICKNET.time(NOW) - LOG_AGE)
    initialise(folder, "beacon.example/fair", [pinned_chain("quicknet", ("http://127.0.0.1:1",))], clock)


@contextlib.asynccontextmanager
async def world(template, folder):
    """Everything in order."""
    shutil.copytree(template, folder / "data")
    made = World(folder, at(NOW))
    async with made.stack:
        for _ in range(2):
            made.relays.append(await made.stack.enter_async_context(LyingRelay([QUICKNET], clock=at(NOW))))
        made.set("relays", [relay.url for relay in made.relays], "[chains]")
        made.set("port", 0, "listen")
        made.set("policy", "witnesses.policy", "witnesses")
        for number in (1, 2):
            seed = bytes([0x30 + number]) * 32
            path, name = folder / f"w{number}.db", f"w{number}.example"
            one = made.stack.enter_context(witness(path, made.clock, made.signer.vkey, seed=seed, name=name))
            made.witnesses.append(one)
            server = await made.stack.enter_async_context(serving(one))
            made.urls.append(str(server.make_url("")).rstrip("/"))
        made.set_policy(*made.urls)
        await made.append(3, age=LOG_AGE)
        await made.cosign()
        yield made


def other_key():
    return SigningKey(b"\x55" * 32, "beacon.example/fair")
