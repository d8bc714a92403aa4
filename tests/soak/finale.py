"""The end of a soak: everything works again, time passes until every session has ended, and all is told to all."""

import asyncio
import json
import sqlite3
import time
from contextlib import closing

STEP = 300_000
"""ms by which the clocks are set ahead at a time: less than the grace after which a reveal is late."""
AFTER = 30_000
PATIENCE = 240.0


class Whole:
    """The log as log.db has it: entries, the bytes of each; sessions: id -> its (index, entry parsed), in order."""

    def __init__(self, path):
        with closing(sqlite3.connect(path)) as db:
            self.entries = [row[0] for row in db.execute("SELECT entry FROM entries ORDER BY i")]
            found = db.execute("SELECT lower(hex(substr(nodes, 1, 32))) FROM hashes ORDER BY i").fetchall()
        self.sessions, self.rounds = {}, {}
        for index, (entry, (leaf,)) in enumerate(zip(self.entries, found, strict=False)):
            parsed = json.loads(entry)
            if parsed["type"] == "round":
                self.rounds[parsed["round"]] = index
            elif parsed["type"] == "seal":
                self.sessions[leaf] = [(index, parsed)]
            elif "session" in parsed:
                self.sessions[parsed["session"]].append((index, parsed))

    def open(self):
        """The sessions that have not ended: their deadlines, in ms."""
        return [told[0][1]["reveal_by"] for told in self.sessions.values() if ended(told) is None]


def ended(told):
    """How a session has ended, in a word or two, or None."""
    last = told[-1][1]
    if last["type"] == "reveal":
        return f"revealed by {last['by']}"
    return f"void: {last['reason']}" if last["type"] == "void" else None


async def until(condition, seconds=PATIENCE):
    """Whether `condition`, a coroutine function, holds within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await condition():
            return True
        await asyncio.sleep(0.3)
    return False


class Finale:
    """Brings a world to its end. Whatever does not come about in time is a failure in the ledger."""

    def __init__(self, world, ledger, say):
        self.world, self.ledger, self.say = world, ledger, say

    async def run(self):
        await self.ready()
        whole = await self._whole()
        left = whole.open()
        self.say(f"{len(whole.entries):,} entries, {len(left)} sessions open: time passes until all have ended")
        self.ledger.counts["sessions left open by their hosts"] = len(left)
        last = max(left, default=0) + AFTER
        while left and self.world.now() < last:
            await self.world.ahead(min(STEP, max(1_000, last - self.world.now())))
            self.ledger.counts["leaps in time"] += 1
            await self.ready()
            await until(self._none_due)
            left = (await self._whole()).open()
        if not await until(self._all_ended):
            self.ledger.fail(f"{len((await self._whole()).open())} sessions have not ended after their deadlines")
        if not await until(self._all_delivered):
            self.ledger.fail(f"webhooks were not delivered: {await self._undelivered()}")
        if not await until(self._all_cosigned):
            self.ledger.fail("the witnesses did not cosign the newest checkpoint")

    async def ready(self):
        """Wait until sessions can be sealed."""

        async def look():
            async with self.world.client.get(f"{self.world.url}/readyz") as answer:
                return answer.status == 200

        if not await until(look):
            self.ledger.fail("the service was not ready though nothing fails")

    async def _whole(self):
        return await asyncio.to_thread(Whole, self.world.data / "log.db")

    async def _none_due(self):
        """No session is open whose deadline and what follows it is over."""
        whole = await self._whole()
        return all(reveal_by > self.world.now() - AFTER // 3 for reveal_by in whole.open())

    async def _all_ended(self):
        return not (await self._whole()).open()

    async def _undelivered(self):
        """Of each host with a webhook how many entries of its sessions have not come."""
        whole, taken = await self._whole(), self.ledger.delivered
        due = dict.fromkeys(taken, 0)
        for told in whole.sessions.values():
            host = told[0][1]["host"]
            if host in taken:
                due[host] += sum(index not in taken[host] for index, _ in told)
        return {host: count for host, count in due.items() if count}

    async def _all_delivered(self):
        return not await self._undelivered()

    async def _all_cosigned(self):
        async with self.world.client.get(f"{self.world.url}/readyz") as answer:
            found = (await answer.json())["witnesses"]
        return all(one["lag"] == 0 for one in found.values())
