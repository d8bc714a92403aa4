"""What has to agree at the end: the log with every receipt and stream, and the checks of operator and auditor."""

import asyncio
import json
import re
from collections import Counter

import aiohttp

from tests.process_support import run
from tests.soak.finale import Whole, ended
from verifier.merkle import Frontier, leaf_hash
from verifier.note import VerifierKey
from verifier.receipts import Found, compare

OWN_SEED = {"revealed by host", "revealed by service", "revealed by timelock", "void: missed-reveal"}
DUE = {"beacon": {"revealed by service"}, "host": OWN_SEED}
EARLY = {"void: host", "void: below-minimum", "void: missed-close"}
KILLED = re.compile("resource_tracker")
"""What Python's own tracker says of a process that was killed."""
UNREACHABLE = 3
ATTEMPTS = 20
FACES = "faces-2d6"
TRUSTED = ("--log-key", "--chain", "--policy")


def kinds(told):
    """The types of a session's entries."""
    return {entry["type"] for _, entry in told}


class Judge:
    """Finds what does not agree, as failures in the ledger; `results` gets the numbers."""

    def __init__(self, world, ledger, results):
        self.world, self.ledger, self.results = world, ledger, results
        self._looking = asyncio.Lock()
        given = (world.vkey, world.folder / "chain.json", world.policy)
        self.trusted = [part for pair in zip(TRUSTED, given, strict=True) for part in pair]

    async def audit(self, state="audit"):
        """`verifier audit` of the running service; its lines."""
        options = ("--state", self.world.folder / state, *self.trusted, "--json")
        return self._lines("verifier audit", await run("verifier", "audit", self.world.url, *options))

    async def in_the_middle(self):
        """What auditors and operators do while all goes on: each comes again where the service is down."""
        async with self._looking:
            await self._look()

    async def _look(self):
        for name, act in (("audit", self._audited), ("snapshot", self._snapshot), ("log check", self._checked)):
            for _ in range(ATTEMPTS):
                if await act():
                    self.ledger.counts[f"{name} in the middle"] += 1
                    break
                await asyncio.sleep(2)
            else:
                self.ledger.fail(f"no {name} came through in the middle")

    async def _audited(self):
        options = ("--state", self.world.folder / "audit", *self.trusted, "--json")
        done = await run("verifier", "audit", self.world.url, *options)
        if done[0] == UNREACHABLE:
            return False
        self._lines("verifier audit in the middle", done)
        return True

    async def _snapshot(self):
        """The log as a database file, as anybody may have it."""
        file = self.world.folder / "snapshot.db"
        try:
            async with self.world.client.get(f"{self.world.url}/log/log.db") as answer:
                if answer.status != 200:
                    return False
                file.write_bytes(await answer.read())
        except (aiohttp.ClientError, TimeoutError):
            return False
        self._lines("verifier check-db of a snapshot", await run("verifier", "check-db", file, *self.trusted, "--json"))
        return True

    async def _checked(self):
        """The operator's own check, beside the service, which may be killed meanwhile."""
        code, output, errors = await run("beacon", "log", "check", "--dir", self.world.data, "--json")
        if code != 0:
            self.ledger.fail(f"beacon log check in the middle: exit {code}: {output[-500:]}{errors[-500:]}")
        return True

    def _lines(self, name, done):
        """What an auditor said. Nothing grave but what a host itself has done: never revealed the seed that it held."""
        code, output, errors = done
        lines = [json.loads(line) for line in output.splitlines()]
        grave = [line for line in lines if line["kind"] == "finding"]
        if [line for line in grave if (line["claim"], line["rule"]) != ("custody", "6.12")] or code != bool(grave):
            self.ledger.fail(f"{name}: exit {code}: {grave[:3] or errors[-500:]}")
        self.results[f"findings of {name}"] = len(grave)
        self._given_up = {line["session"] for line in grave}
        return lines

    async def while_it_runs(self):
        """The auditor, who comes a second time here, and one who comes now; the hosts' ledgers; receipts as files."""
        lines = await self.audit()
        if [line for line in await self.audit("fresh") if line["kind"] == "host"] != [
            line for line in lines if line["kind"] == "host"
        ]:
            self.ledger.fail("an audit that went on and one from the beginning tell different ledgers")
        (told,) = (line for line in lines if line["kind"] == "summary")
        self.results["audit"] = told
        noted = [line for line in lines if line["kind"] == "note"]
        if noted or told["open"] or told["overdue"] or told["failed"] or not told["quorum"]:
            self.ledger.fail(f"verifier audit: {told} {noted[:3]}")
        for line in lines:
            if line["kind"] == "host":
                await self._compare_ledgers(line)
        await self._receipts()
        await self._count()

    async def _compare_ledgers(self, audited):
        async with self.world.client.get(f"{self.world.url}/v1/hosts/{audited['host']}") as answer:
            told = await answer.json()
        pairs = [(told[name], audited[name]) for name in ("sealed", "revealed")]
        pairs += [(told["void_by_reason"], audited["void"]), (told["open"], 0), (told["numbers_gapless"], True)]
        if any(one != other for one, other in pairs):
            self.ledger.fail(f"the ledger of {audited['host']} and the auditor's differ: {told}, {audited}")

    async def _count(self):
        """`verifier statistics` of the running service: how often each face came."""
        options = ("--log-key", self.world.vkey, "--sandbox", "--json")
        code, output, errors = await run("verifier", "statistics", self.world.url, *options)
        figures = json.loads(output)["figures"] if code == 0 else []
        self.results["faces of two dice"] = next((one["counts"] for one in figures if one["name"] == FACES), None)
        if code != 0:
            self.ledger.fail(f"verifier statistics: exit {code}: {errors[-500:]}")

    async def _receipts(self):
        """A sample of the receipts that were handed out, each with its session's transcript of now."""
        key = VerifierKey.parse(self.world.vkey)
        for session, receipt in self.ledger.receipts:
            async with self.world.client.get(f"{self.world.url}/v1/sessions/{session}/transcript") as answer:
                transcript = await answer.read()
            found = compare(receipt, transcript, key)
            self.results["receipts compared"] = self.results.get("receipts compared", 0) + 1
            if found.found != Found.PRESENT or found.exit != 0:
                self.ledger.fail(f"a receipt of session {session}: {found.headline}")

    async def afterwards(self):
        """The service has ended: `beacon log check`, `verifier check-db`, and all that was written down."""
        code, output, errors = await run("beacon", "log", "check", "--dir", self.world.data, "--json")
        self.results["log check"] = json.loads(output) if output else None
        if code != 0 or self.results["log check"]["findings"]:
            self.ledger.fail(f"beacon log check: exit {code}: {output[-500:]}{errors[-500:]}")
        done = await run("verifier", "check-db", self.world.data / "log.db", *self.trusted, "--json")
        *_, told = self._lines("verifier check-db", done)
        self.results["sessions whose order the witnesses prove"] = told["proven"]
        whole = Whole(self.world.data / "log.db")
        self.results["entries"] = len(whole.entries)
        self._entries(whole)
        self._ends(whole)
        self._streams(whole)
        self._webhooks(whole)
        self._faces(whole)
        self._logs()

    def _faces(self, whole):
        """How often each face came, counted here."""
        draws = [entry for told in whole.sessions.values() for _, entry in told if entry["type"] == "draw"]
        faces = Counter(die for draw in draws if draw["recipe"] == "turn" for roll in draw["outcomes"] for die in roll)
        if self.results["faces of two dice"] != [faces[face] for face in range(1, 7)]:
            self.ledger.fail(f"verifier statistics counts {self.results['faces of two dice']}, the log has {faces}")

    def _entries(self, whole):
        """Every entry that was acknowledged stands where its receipt says, and every checkpoint shown is this log's."""
        frontier, heads = Frontier(), self.ledger.heads
        for index, entry in enumerate(whole.entries):
            leaf = leaf_hash(entry)
            if self.ledger.entries.get(index, leaf) != leaf:
                self.ledger.fail(f"entry {index} is not the one that was acknowledged")
            frontier.append(leaf)
            if heads.get(frontier.size, root := frontier.root()) != root:
                self.ledger.fail(f"a checkpoint of size {frontier.size} was shown that is of another log")
        beyond = [n for n in (*self.ledger.entries, *(size - 1 for size in heads)) if n >= len(whole.entries)]
        if beyond:
            self.ledger.fail(f"entries were acknowledged, or shown, that are not in the log: {sorted(beyond)[:5]}")
        unknown = [session for session in self.ledger.seals if session not in whole.sessions]
        if unknown:
            self.ledger.fail(f"sessions were acknowledged that are not in the log: {unknown[:5]}")

    def _ends(self, whole):
        """Every session ended in one of the ways that the protocol has for it."""
        ends = Counter()
        for session, told in whole.sessions.items():
            end, seal = ended(told), told[0][1]
            ends[end or "open"] += 1
            if end not in DUE[seal["custody"]] | EARLY:
                self.ledger.fail(f"session {session} ended in: {end}")
        missed = {session for session, told in whole.sessions.items() if ended(told) == "void: missed-reveal"}
        if missed != self._given_up:
            self.ledger.fail(f"the auditor does not name the sessions that were given up: {missed ^ self._given_up}")
        drawn = sum("draw" in kinds(told) and "reveal" in kinds(told) for told in whole.sessions.values())
        if self.results["audit"]["fair"] != drawn:
            self.ledger.fail(
                f"{drawn} sessions drew and revealed; fair by the auditor: {self.results['audit']['fair']}"
            )
        self.results["ends"] = dict(sorted(ends.items()))
        self.results["sessions"] = len(whole.sessions)

    def _streams(self, whole):
        """An event stream that was read to its end brought every entry of its session once, in order."""
        for session, seen in self.ledger.watched:
            told = [(index, whole.entries[index].decode()) for index, _ in whole.sessions[session]]
            own = [(index, entry) for index, entry in seen if json.loads(entry)["type"] != "round"]
            if own != told or [index for index, _ in seen] != sorted({index for index, _ in seen}):
                self.ledger.fail(
                    f"the event stream of {session} brought {[i for i, _ in seen]}, not {[i for i, _ in told]}"
                )
            if any(whole.entries[index].decode() != entry for index, entry in seen):
                self.ledger.fail(f"the event stream of {session} brought what the log has not")

    def _webhooks(self, whole):
        for host, taken in self.ledger.delivered.items():
            for index, (name, entry) in taken.items():
                if whole.entries[index].decode() != entry:
                    self.ledger.fail(f"webhook {name} of {host} brought what the log has not")

    def _logs(self):
        """What the service wrote: no secret of anybody, and no fault of its own."""
        text = self.world.service.log.read_text(errors="replace")
        master = (self.world.data / "master.key").read_text().strip()
        secrets = {*self.world.tokens.values(), *self.ledger.secrets, master}
        if any(secret in text for secret in secrets):
            self.ledger.fail("the service's log holds a secret")
        faults = Counter()
        for line in text.splitlines():
            if KILLED.search(line):
                continue
            told = json.loads(line) if line.startswith("{") else {"event": line[:200], "exception": line}
            if "exception" in told or told.get("level") == "critical":
                faults[f"{told.get('event')}: {str(told.get('exception', '')).strip()[-300:]}"] += 1
        self.results["faults in the service's log"] = dict(faults.most_common(20))
        for fault, count in faults.most_common(5):
            self.ledger.fail(f"{count} times in the service's log: {fault}")
