"""What the command `beacon rounds` does, beside a running service or without one: fetch, verify, import, export.

Reads log.db, and writes it only when nobody else has it open, for as long as taking in the spool takes. Otherwise what
was verified waits in the spool for the service, which verifies it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beacon.clock import Clock
from beacon.memory import forget_oldest
from beacon.rounds.batching import REMEMBERED, BatchVerifier
from beacon.rounds.collect import Collected, Collector, Progress
from beacon.rounds.fetcher import Fetcher, Policy
from beacon.rounds.lines import LineRefused
from beacon.rounds.refusals import Refusal
from beacon.rounds.relays import Relay, open_session
from beacon.rounds.rounds import Followed
from beacon.rounds.spool import Spool
from beacon.rounds.store_protocol import Put
from beacon.rounds.stored import StoredRounds
from beacon.rounds.taking_in import take_in
from beacon.store.errors import AlreadyOpen, LogDamaged
from beacon.store.log_schema import LOG_SCHEMA
from beacon.store.reader import Reader
from beacon.store.rounds import RoundArchive, SqliteRounds
from beacon.store.writer import Writer
from verifier.drand import ChainInfo, Round, VerifiedRound

PAGE: Final = 512
PAGES_KEPT: Final = 16
MAX_NAMED: Final = 10
FOREVER_MS: Final = 10**12


@dataclass
class Checked:
    """What became of the stored rounds of one chain. bad: rounds that do not verify, and why; twice: evidence."""

    chain: ChainInfo
    rounds: int = 0
    bad: dict[int, str] = field(default_factory=dict)
    twice: list[int] = field(default_factory=list)


@dataclass
class Imported:
    """What became of a file of rounds. bad: (chain hash in hex, round, why). stopped: the line that was no round."""

    new: int = 0
    known: int = 0
    bad: list[tuple[str, int, str]] = field(default_factory=list)
    stopped: str | None = None


class Desk:
    """The rounds of one data directory, for a command. Between `open` and its end."""

    def __init__(
        self, chains: Mapping[str, Followed], log_db: Path, reader: Reader, spool: Spool, clock: Clock, policy: Policy
    ) -> None:
        self.chains: Final = chains
        self.archive: Final = RoundArchive(reader)
        self.spool: Final = spool
        self.clock: Final = clock
        self.policy: Final = policy
        self.twice: Final[set[tuple[str, int]]] = set()
        """Chain hash in hex and number of the rounds that turned out to be signed twice, differently."""
        self._log_db = log_db
        self._reader = reader
        self._verifier = BatchVerifier()
        self._collectors: dict[bytes, Collector] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls, chains: Mapping[str, Followed], log_db: Path, spool: Path, clock: Clock, policy: Policy | None = None
    ) -> AsyncIterator[Desk]:
        """chains: by the names of the settings."""
        policy = policy or Policy()
        reader = Reader(log_db)
        try:
            async with open_session() as session:
                desk = cls(chains, log_db, reader, Spool(spool), clock, policy)
                for followed in chains.values():
                    relays = [Relay(url, session, clock, policy.timeout) for url in followed.relays]
                    fetcher = Fetcher(followed.chain, relays, desk._verifier, clock, hedge=policy.hedge)
                    desk._collectors[followed.chain.hash] = Collector(
                        followed.chain, fetcher, desk.spool, clock, policy=policy
                    )
                yield desk
        finally:
            await asyncio.to_thread(reader.close)

    async def fetch(self, chain: ChainInfo, numbers: Sequence[int], progress: Progress) -> Collected:
        """One pass over rounds of a chain; what is stored is not asked for. They are in the spool afterwards."""
        known = await self.archive.known(chain.hash, numbers)
        found = await self._collectors[chain.hash].collect(numbers, known, progress)
        self.twice.update((chain.hash.hex(), number) for number in found.twice)
        return found

    async def absorb(self) -> bool:
        """Take the spool into log.db; whether that was done, rather than left to the service that has it open.

        Raises the writer's errors; LogDamaged, with the rest taken in, where a stored row in the way does not verify.
        """
        await asyncio.to_thread(self.spool.sweep)
        if not any(self.spool.files(followed.chain) for followed in self.chains.values()):
            return True
        try:
            writer = await asyncio.to_thread(Writer, self._log_db, LOG_SCHEMA)
        except AlreadyOpen:
            return False
        try:
            rounds = SqliteRounds(writer, self._reader, self.clock, Put)
            damaged = []
            for name, followed in self.chains.items():
                stored = StoredRounds(followed.chain, rounds, self._verifier)
                await take_in(self.spool, followed.chain, self._verifier, _Store(stored, self.twice), FOREVER_MS)
                damaged += [f"round {number} of {name}" for number in sorted(stored.damaged)]
            if damaged:
                raise LogDamaged(f"what log.db has as {', '.join(damaged[:MAX_NAMED])} does not verify")
        finally:
            await writer.aclose()
        return True

    async def verify(self, chain: ChainInfo, first: int, last: int, progress: Progress) -> Checked:
        """Verify again what is stored of a chain from `first` to `last`."""
        found, shown = Checked(chain), Collected(chain)
        while page := await self.archive.page(chain.hash, first, last, PAGE):
            for stated, outcome in zip(page, await self._verifier.verify_many(chain, page), strict=True):
                if isinstance(outcome, Refusal):
                    found.bad[stated.round] = str(outcome)
            found.rounds += len(page)
            first = page[-1].round + 1
            shown.known = found.rounds
            progress(shown)
        second = await self.archive.evidence(chain.hash)
        for outcome in await self._verifier.verify_many(chain, second):
            if isinstance(outcome, VerifiedRound):
                found.twice.append(outcome.round)
        return found

    async def take(self, lines: Iterable[tuple[ChainInfo, Round]], progress: Progress) -> Imported:
        """Verify rounds of a file and leave them in the spool, or in log.db as they become many.

        A line that is no round ends it; what came before is in.
        """
        found = Imported()
        waiting = {name.chain.hash: self.spool.rounds(name.chain) for name in self.chains.values()}
        rest, pages = iter(lines), 0
        while page := self._page(rest, found):
            for chain in dict.fromkeys(chain for chain, _ in page):
                stated = [one for named, one in page if named == chain]
                await self._take_page(chain, stated, waiting.setdefault(chain.hash, {}), found)
                progress(Collected(chain, fetched=found.new, known=found.known))
            pages += 1
            if pages % PAGES_KEPT == 0:
                await self.absorb()
        return found

    def _page(self, rest: Iterator[tuple[ChainInfo, Round]], found: Imported) -> list[tuple[ChainInfo, Round]]:
        page: dict[tuple[ChainInfo, Round], None] = {}
        try:
            for line in rest:
                page[line] = None
                if len(page) >= PAGE:
                    break
        except LineRefused as refused:
            found.stopped = str(refused)
        return list(page)

    async def _take_page(
        self, chain: ChainInfo, page: Sequence[Round], waiting: dict[int, Round], found: Imported
    ) -> None:
        stored = await self.archive.stored(chain.hash, [stated.round for stated in page])
        fresh = [stated for stated in page if stated not in (stored.get(stated.round), waiting.get(stated.round))]
        found.known += len(page) - len(fresh)
        valid = []
        for stated, outcome in zip(fresh, await self._verifier.verify_many(chain, fresh), strict=True):
            if isinstance(outcome, VerifiedRound):
                valid.append(outcome)
                waiting[stated.round] = stated
                forget_oldest(waiting, REMEMBERED)
            else:
                found.bad.append((chain.hash.hex(), stated.round, str(outcome)))
        found.new += len(valid)
        await asyncio.to_thread(self.spool.add, chain, valid)


class _Store:
    """Accepts rounds for a command: stored, or kept as evidence."""

    def __init__(self, rounds: StoredRounds, twice: set[tuple[str, int]]) -> None:
        self._rounds = rounds
        self._twice = twice

    async def accept(self, verified: VerifiedRound) -> bool:
        outcome = await self._rounds.put(verified)
        if outcome is Put.CONFLICT:
            await self._rounds.add_evidence(verified)
            self._twice.add((verified.chain.hash.hex(), verified.round))
        return outcome in (Put.NEW, Put.SAME)
