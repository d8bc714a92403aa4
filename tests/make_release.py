"""Makes what a released version leaves behind, to be read by every later one: `python -m tests.make_release FOLDER`.

Sessions of each profile and each end, of two hosts, on a devnet and on recorded quicknet rounds, with two witnesses;
some are left unfinished. Every transcript and receipt is kept as the service handed it out.
"""

import asyncio
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.client.keys import lock_seed, sign_contribution
from tests.process_support import run
from tests.round_support import QUICKNET
from tests.world_support import LeapingClock, add_hosts, make_world, running, until
from verifier.draws import draw, parse_recipe
from verifier.seeds import Stream, binding, seed_chain, session_digest

ORIGIN = "beacon.example/release"
START = QUICKNET.time(72_760)
DICE = {"kind": "dice", "count": 2, "sides": 6}
RECIPES = {"opening": DICE | {"reroll_ties": True}, "turn": DICE, "hand": {"kind": "deal", "size": 52, "count": 5}}
PLAYERS = [{"id": "white"}, {"id": "black"}]
HOURS = 3_600_000


class Maker:
    """Plays sessions and keeps what is handed out. folder: transcripts/, receipts.jsonl."""

    def __init__(self, world, folder):
        self.world, self.folder, self.host = world, folder, world.host("alice")
        self.names = {}

    async def seal(self, name, host=None, **body):
        body = {"recipes": RECIPES, "label": name, "timelock": False} | body
        sealed = await (host or self.host).post("/v1/sessions", body)
        self.names[name] = sealed["session"]
        await self.receipt(name, sealed)
        return sealed["session"]

    async def receipt(self, name, answer):
        """Keep the receipts of an answer, each as a .tlog-proof too: a line of JSON."""
        for receipt in answer.get("receipts") or [answer["receipt"]]:
            index = receipt["events"][0]["index"]
            proof = await self.world.get(f"/v1/sessions/{self.names[name]}/receipts/{index}/tlog-proof")
            line = {"session": name, "index": index, "receipt": receipt, "tlog_proof": proof.decode()}
            with (self.folder / "receipts.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")

    async def post(self, name, what, body=None, expect=201, host=None):
        answer = await (host or self.host).post(f"/v1/sessions/{self.names[name]}/{what}", body, expect)
        await self.receipt(name, answer)
        return answer

    async def both_contribute(self, name):
        for player in ("white", "black"):
            entropy = hashlib.sha256(f"{player} of {name}".encode()).hexdigest()
            await self.post(name, "contributions", {"participant": player, "entropy": entropy})

    async def keep(self, name):
        path = self.folder / "transcripts" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(await self.world.transcript(self.names[name]))

    async def draw_and_reveal(self, name, host=None):
        session = self.names[name]
        await self.world.reach(session, "anchored")
        for recipe, count in (("opening", 1), ("turn", 3), ("hand", 2)):
            await self.post(
                name, "draws", {"recipe": recipe, "count": count, "purpose": f"{recipe} of {name}"}, host=host
            )
        await self.post(name, "reveal", host=host)
        await self.keep(name)

    # one session each

    async def match(self):
        """On real quicknet rounds."""
        name, chain = "match-quicknet", "quicknet"
        await self.seal(name, chain=chain, participants=PLAYERS, attachments=[{"name": "rules", "sha256": "ab" * 32}])
        await self.both_contribute(name)
        await self.draw_and_reveal(name)

    async def match_timelocked(self):
        """The timelock's round comes after the reveal."""
        await self.seal("match-timelock", participants=PLAYERS, timelock=True)
        await self.both_contribute("match-timelock")
        await self.draw_and_reveal("match-timelock")

    async def signed(self):
        """Participants that sign, in a live session with contributions to its calls."""
        name = "live-signed"
        keys = {
            name: Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
            for name in ("white", "black")
        }
        players = [{"id": who, "key": key.public_key().public_bytes_raw().hex()} for who, key in keys.items()]
        session = await self.seal(name, profile="live", links=8, participants=players, timelock=True)
        for who, key in keys.items():
            signature = sign_contribution(key, session, who, b"\1\2").hex()
            await self.post(name, "contributions", {"participant": who, "entropy": "0102", "signature": signature})
        for number in (1, 2):
            given = []
            for who, key in keys.items():
                terms = {"draw": number, "recipe": "turn", "n": number, "purpose": f"roll {number}"}
                signature = sign_contribution(key, session, who, b"\3", **terms).hex()
                given.append({"participant": who, "entropy": "03", "signature": signature})
            await self.post(name, "draws", terms | {"contributions": given})
            await self.world.reach(session, "drawing")
        await self.post(name, "reveal")
        await self.keep(name)

    async def live_of_the_host(self):
        name, chain = "live-host", seed_chain(hashlib.sha256(b"the host's").digest(), 4)
        session = await self.seal(
            name, profile="live", links=4, custody="host", commitment=chain[0].hex(), participants=[]
        )
        await self.post(name, "draws", {"recipe": "hand"})

        async def logged():
            return (await self.world.view(session))["pending"][0]["round_index"]

        await until(logged)
        await self.post(name, "links", {"draw": 1, "link": chain[1].hex()})
        await self.post(name, "reveal")
        await self.keep(name)

    async def match_of_the_host(self):
        name, seed = "match-host", hashlib.sha256(b"another of the host's").digest()
        commitment = seed_chain(seed, 1)[0].hex()
        session = await self.seal(name, custody="host", commitment=commitment, participants=[], close_at=None)
        shown = await self.world.reach(session, "anchored")
        stated = json.loads(await self.world.get(f"/v1/chains/{shown['chain']}/rounds/{shown['round']}"))
        randomness = hashlib.sha256(bytes.fromhex(stated["signature"])).digest()
        key = binding(session_digest(bytes.fromhex(session), []), 0, [], shown["round"], randomness)
        outcome = draw(parse_recipe(DICE), Stream(seed, key, "turn", 1))
        await self.post(name, "draws", {"recipe": "turn", "outcomes": [outcome]})
        await self.post(name, "reveal", {"seed": seed.hex()})
        await self.keep(name)

    async def raffle(self):
        """A plan, open to anybody."""
        name = "raffle"
        recipes = {"prizes": {"kind": "deal", "size": 20, "count": 2}, "raw": {"kind": "bytes", "count": 8}}
        session = await self.seal(name, recipes=recipes, plan={"prizes": 3, "raw": 1}, open=True, participants=[])
        body = {"participant": "a stranger", "entropy": "ff"}
        await self.post(name, "contributions", body)
        await self.world.reach(session, "revealed")
        await self.keep(name)

    async def sandbox(self):
        tester = self.world.host("tester")
        await self.seal("sandbox", host=tester, participants=[], close_at=None)
        await self.draw_and_reveal("sandbox", host=tester)

    async def given_up(self):
        await self.seal("void-host", participants=PLAYERS)
        await self.post("void-host", "contributions", {"participant": "white", "entropy": "77"})
        await self.post("void-host", "void", {"reason": "host"})
        await self.keep("void-host")
        await self.seal("re-run", participants=PLAYERS, replaces=self.names["void-host"])
        await self.both_contribute("re-run")
        await self.draw_and_reveal("re-run")

    async def below_minimum(self):
        session = await self.seal("void-below-minimum", participants=PLAYERS)
        await self.world.reach(session, "void")
        await self.keep("void-below-minimum")

    async def begin_what_waits(self):
        """Sealed now, ended after the leap, or never in this version."""
        now, clock = self.world.clock.now(), self.world.clock
        seed = hashlib.sha256(b"a host that vanishes").digest()
        commitment = seed_chain(seed, 1)[0].hex()
        due = now + 1_200_000
        common = {"custody": "host", "commitment": commitment, "participants": [], "close_at": None, "reveal_by": due}
        lock = lock_seed(seed, self.world.network.chain, due + 30_000, now=clock.now())
        await self.seal("timelock-opened", **common, plan={"turn": 2}, timelock=lock)
        lost = seed_chain(hashlib.sha256(b"lost").digest(), 1)[0].hex()
        await self.seal("void-missed-reveal", **common | {"commitment": lost})
        for name in ("timelock-opened", "void-missed-reveal"):
            await self.world.reach(self.names[name], "anchored")

    async def leave_open(self):
        """What the next version takes over: sealed, closed with its seed kept, live with a chain half used, locked."""
        later = {"reveal_by": self.world.clock.now() + 48 * HOURS}
        await self.seal("open-anchored", participants=PLAYERS, **later, timelock=True)
        await self.both_contribute("open-anchored")
        await self.world.reach(self.names["open-anchored"], "anchored")
        await self.post("open-anchored", "draws", {"recipe": "opening"})
        await self.seal("open-live", profile="live", links=16, participants=[], **later)
        await self.post("open-live", "draws", {"recipe": "turn"})
        await self.world.reach(self.names["open-live"], "drawing")
        round_at = self.world.clock.now() + 24 * HOURS
        await self.seal("open-sealed", participants=PLAYERS, round_at=round_at)
        await self.post("open-sealed", "contributions", {"participant": "white", "entropy": "78"})
        for name in ("open-anchored", "open-live", "open-sealed"):
            await self.keep(name)


async def audit(world):
    """What an auditor of this version keeps."""
    data = world.folder / "data"
    code, output, errors = await run(
        "verifier", "audit", str(world.client.make_url("")).rstrip("/"), "--log-key", data / "log.vkey",
        "--chain", data / "chain-devnet.json", "--chain", "quicknet", "--policy", data / "witnesses.policy",
        "--state", world.folder / "audit",
    )  # fmt: skip
    findings = [line for line in output.splitlines() if line.startswith(("FINDING", "note"))]
    assert (code, len(findings)) == (1, 1), output + errors
    assert "the seed was never revealed" in findings[0]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


async def make(folder):
    with tempfile.TemporaryDirectory() as made:
        work = Path(made) / "world"
        clock = LeapingClock(START)
        make_world(work, ORIGIN, START - 600_000, clock)
        await asyncio.to_thread(add_hosts, work, "alice", "tester")
        async with running(work, clock, quicknet=True) as world:
            maker = Maker(world, work)
            await asyncio.gather(
                maker.match(), maker.match_timelocked(), maker.signed(), maker.live_of_the_host(), maker.match_of_the_host(),
                maker.raffle(), maker.sandbox(), maker.given_up(), maker.below_minimum(), maker.begin_what_waits(),
            )  # fmt: skip
            hook = {"url": "http://127.0.0.1:1/hook", "types": ["session.reveal"]}
            async with world.client.post("/v1/webhooks", json=hook, headers=maker.host.headers) as answer:
                webhook = await answer.json()
                assert answer.status == 201, webhook
            await world.leap(1_300_000)
            await world.reach(maker.names["timelock-opened"], "revealed")
            await world.reach(maker.names["void-missed-reveal"], "void")
            for name in ("timelock-opened", "void-missed-reveal", "match-timelock"):
                await maker.keep(name)
            await maker.leave_open()
            await maker.keep("live-signed")
            await asyncio.sleep(2)
            checkpoint = await world.get("/log/witnessed")
            await audit(world)
        write(work / "sessions.json", maker.names)
        (work / "checkpoint").write_bytes(checkpoint)
        write(work / "made.json", {"ended": clock.now(), "webhook": webhook})
        for leftover in [*work.rglob("*.lock"), *work.glob("data/spool*")]:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        assert not list(work.rglob("*-wal"))
        shutil.copytree(work, folder)
    print(f"{folder}: {len(maker.names)} sessions")


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
