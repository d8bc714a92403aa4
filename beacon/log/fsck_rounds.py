"""Whether the rounds in a log file are the chains': those of `round` entries, of seals' `after`, and of the table.

Each distinct one is verified once, together with others, under the chain infos that the log itself holds. What they
are collected in is the scratch database, so that memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from verifier import entries
from verifier.bls.verify import best_backend
from verifier.drand import ChainInfo, Round, VerifiedRound, parse_chain_info, verify_rounds
from verifier.errors import VerifierError
from verifier.fetch import pinned_chains

Add = Callable[[str, int | None, str], None]
Progress = Callable[[int, int], None]

BATCH: Final = 512

_PLACES: Final = {"entry": "its round", "after": "the round that it comes after,"}
_STATED: Final = """CREATE TABLE main.stated
    (chain BLOB, round INTEGER, signature BLOB, previous BLOB, place TEXT, i INTEGER)"""
_TABLES: Final = (
    """INSERT INTO main.stated
    SELECT chain, round, signature, previous_signature, 'round', NULL FROM log.rounds""",
    """INSERT INTO main.stated
    SELECT chain, round, signature, previous_signature, 'evidence', NULL FROM log.round_evidence""",
    "CREATE INDEX main.stated_by_round ON stated (chain, round, signature, previous, place, i)",
)
_OTHERWISE: Final = """SELECT s.place, s.i, s.round FROM main.stated AS s
    JOIN log.rounds AS r ON r.chain = s.chain AND r.round = s.round
    WHERE s.place IN ('entry', 'after') AND (r.signature IS NOT s.signature OR r.previous_signature IS NOT s.previous)
    ORDER BY s.i"""
_WHERE: Final = """SELECT place, i FROM main.stated
    WHERE chain = ? AND round = ? AND signature = ? AND previous IS ? ORDER BY i"""


@dataclass(slots=True)
class RoundCounts:
    """Distinct (chain, round, signature): those that verify, and those of which it was not asked.

    foreign: those of the latter that are stored, of chains whose info is neither in the log nor in the software.
    """

    verified: int = 0
    unverified: int = 0
    foreign: int = 0


class RoundsCheck:
    """`see` is told of every entry in order; `run` judges what they state, and the tables beside them.

    db: a scratch database with the log attached as `log`, inside a transaction. add: takes a finding: where, index (of
    an entry, or the number of a stored round), message.
    """

    def __init__(self, db: Database, add: Add) -> None:
        self._db: Final = db
        self._add: Final = add
        self._pinned: Final = {chain.hash: chain for chain in pinned_chains().values()}
        self._logged: Final[dict[bytes, ChainInfo]] = {}
        db.execute(_STATED)

    def see(self, index: int, entry: entries.Entry) -> None:
        """Note what an entry states of chains and rounds."""
        match entry:
            case entries.Chain():
                self._see_chain(index, entry)
            case entries.Round():
                self._state(index, entry.chain, entry, "entry")
            case entries.Seal():
                self._state(index, entry.chain, entry.after, "after")
            case _:
                pass

    def run(self, progress: Progress, *, verify: bool) -> RoundCounts:
        """Compare and verify. progress: (distinct rounds done, in all). verify: False compares only, and is quick."""
        for statement in _TABLES:
            self._db.execute(statement)
        for place, index, number in self._db.execute(_OTHERWISE).fetchall():
            self._add("entry", index, f"{_PLACES[place]} {number} is not what the table of rounds has")
        chains = [row[0] for row in self._db.execute("SELECT DISTINCT chain FROM main.stated").fetchall()]
        totals = {chain: self._count(chain) for chain in chains}
        counts, done = RoundCounts(), 0
        for chain, total in totals.items():
            info = self._logged.get(chain)
            if info is None:
                self._report_unknown(chain)
                info = self._pinned.get(chain)
            if info is None or not verify:
                counts.unverified += total
                counts.foreign += total if info is None else 0
            else:
                for size, good in self._verify(info):
                    done += size
                    counts.verified += good
                    progress(done, sum(totals.values()))
        return counts

    def _see_chain(self, index: int, entry: entries.Chain) -> None:
        try:
            info = parse_chain_info(dict(entry.info))
        except VerifierError as error:
            self._add("entry", index, str(error))
            return
        pinned = self._pinned.get(info.hash, info)
        if pinned.scheme != info.scheme:
            self._add("entry", index, f"says {info.scheme.name} of a chain whose scheme is {pinned.scheme.name}")
        self._logged[info.hash] = pinned

    def _state(self, index: int, chain: bytes, stated: entries.Round | entries.After, place: str) -> None:
        row = (chain, stated.round, stated.signature, stated.previous_signature, place, index)
        self._db.execute("INSERT INTO main.stated VALUES (?, ?, ?, ?, ?, ?)", row)

    def _count(self, chain: bytes) -> int:
        query = "SELECT count(*) FROM (SELECT DISTINCT round, signature, previous FROM main.stated WHERE chain = ?)"
        return int(self._db.execute(query, [chain]).fetchone()[0])

    def _report_unknown(self, chain: bytes) -> None:
        query = "SELECT place, i, round FROM main.stated WHERE chain = ? AND i IS NOT NULL ORDER BY i"
        for place, index, number in self._db.execute(query, [chain]).fetchall():
            self._add("entry", index, f"{_PLACES[place]} {number} is of a chain whose info is not in the log")

    def _verify(self, chain: ChainInfo) -> Iterator[tuple[int, int]]:
        """Verify what is stated of one chain; gives, for each batch, how many there were and how many are good."""
        query = "SELECT DISTINCT round, signature, previous FROM main.stated WHERE chain = ? ORDER BY round, signature"
        rows = self._db.execute(query, [chain.hash])
        backend = best_backend()
        while batch := [Round(*row) for row in rows.fetchmany(BATCH)]:
            outcomes = verify_rounds(chain, batch, backend)
            for stated, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, VerifierError):
                    self._report(chain, stated, outcome)
            yield len(batch), sum(isinstance(outcome, VerifiedRound) for outcome in outcomes)

    def _report(self, chain: ChainInfo, stated: Round, error: VerifierError) -> None:
        values = [chain.hash, stated.round, stated.signature, stated.previous_signature]
        for place, index in self._db.execute(_WHERE, values).fetchall():
            if index is None:
                self._add(place, stated.round, f"stored for {chain.beacon_id}, does not verify: {error}")
            else:
                self._add("entry", index, f"{_PLACES[place]} {stated.round} does not verify: {error}")
