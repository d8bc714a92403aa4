"""The book: every open session's state in memory, and the derived tables that find the others.

A projection of the log. It lives on the writer's thread: `applied` stages, `committed` publishes, `rolled_back`
forgets. Commands are decided there too, on what is staged (`staged`); everybody else reads what is durable (`get`).
Ended sessions leave memory: `load` folds them from the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from sqlite_utils import Database

from beacon.log import reads, wire
from beacon.sessions.state import LoggedRound, RoundKey, SessionState, anchored, fold, grown, lock_of, sealed
from beacon.sessions.trail import own_entries, round_index
from beacon.store.rows import insert_rows
from verifier import entries
from verifier.encoding import Json
from verifier.entries import parse_entry

_SESSIONS: Final = """sessions (session, seal_index, host, host_seq, label, chain, time, profile, custody, sandbox,
    replaces)"""


class Book:
    """Open sessions by their names (32 bytes)."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[list[SessionState]], None]] = []
        self._open: dict[bytes, SessionState] = {}
        self._waiting: dict[RoundKey, set[bytes]] = {}
        self._sequences: dict[str, int] = {}
        self._chains: set[bytes] = set()
        self._db: Database | None = None
        self._staged: dict[bytes, SessionState] = {}
        self._staged_sequences: dict[str, int] = {}
        self._staged_chains: set[bytes] = set()
        self._staged_rounds: dict[RoundKey, LoggedRound] = {}
        self._staged_openings: set[bytes] = set()
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._ends: list[tuple[int, int, str, bytes]] = []

    # --- any thread: what is durable ---------------------------------------------------------------------------

    def listen(self, listener: Callable[[list[SessionState]], None]) -> None:
        """Have `listener` called on the writer's thread after each commit, with the sessions that it touched."""
        self._listeners.append(listener)

    def get(self, session: bytes) -> SessionState | None:
        """The durable state of an open session; None for one that has ended, or was never sealed."""
        return self._open.get(session)

    def all_open(self) -> list[SessionState]:
        """Every open session."""
        return list(self._open.values())

    def waits(self, key: RoundKey) -> bool:
        """Whether an open session needs this round and its entry is not in the log."""
        return key in self._waiting

    # --- writer's thread: what a command is decided on ----------------------------------------------------------

    def staged(self, session: bytes) -> SessionState | None:
        """The state after everything that was applied, durable or not; the ended ones of this batch included."""
        return self._staged.get(session) or self._open.get(session)

    def next_sequence(self, host: str) -> int:
        """The host_seq of the host's next seal: 1, 2, 3, ... (3.6)."""
        return self._staged_sequences.get(host, self._sequences.get(host, 0)) + 1

    def has_commitment(self, commitment: bytes) -> bool:
        """Whether the log shows this value (32 bytes) as a commitment, seed or link already (4.1)."""
        assert self._db is not None
        query = "SELECT 1 FROM openings WHERE value = ?"
        if commitment in self._staged_openings:
            return True
        return self._db.conn.execute(query, (commitment,)).fetchone() is not None

    def knows_chain(self, chain: bytes) -> bool:
        """Whether the chain's info is in the log."""
        return chain in self._chains or chain in self._staged_chains

    def has_round(self, key: RoundKey) -> bool:
        """Whether the round's entry is in the log already, or nobody needs it."""
        return key in self._staged_rounds or not self.waits(key)

    # --- the projection -----------------------------------------------------------------------------------------

    def opened(self, db: Database) -> None:
        """Load the open sessions, the hosts' numbers and the chains."""
        self._db = db
        self._sequences = dict(db.conn.execute("SELECT host, last_seq FROM ledger").fetchall())
        self._chains = {row[0] for row in db.conn.execute("SELECT chain FROM chain_entries").fetchall()}
        names = db.conn.execute("SELECT session FROM sessions WHERE end_index IS NULL ORDER BY seal_index").fetchall()
        for (name,) in names:
            state = load(db, name)
            assert state is not None
            self._publish(state)

    def applied(self, _db: Database, index: int, entry: bytes, leaf_hash: bytes) -> None:
        parsed = wire.parse(entry)
        match parsed:
            case entries.Seal():
                self._seal(index, leaf_hash, parsed)
            case entries.Chain():
                self._insert("chain_entries (chain, i)", parsed.hash, index)
                self._staged_chains.add(parsed.hash)
            case entries.Round():
                self._round(index, parsed)
            case entries.Log():
                pass
            case _:
                self._session_entry(index, parsed, len(entry))

    def before_commit(self, db: Database) -> None:
        for target, rows in self._rows.items():
            insert_rows(db, target, rows)
        openings = [(value,) for value in self._staged_openings]
        insert_rows(db, "openings (value)", openings, verb="INSERT OR IGNORE")
        db.conn.executemany("UPDATE sessions SET end_index = ?, end_time = ?, ended = ? WHERE session = ?", self._ends)

    def committed(self) -> None:
        touched = list(self._staged.values())
        for state in touched:
            self._publish(state)
        self._sequences.update(self._staged_sequences)
        self._chains |= self._staged_chains
        self.rolled_back()
        for listener in self._listeners:
            listener(touched)

    def rolled_back(self) -> None:
        self._staged = {}
        self._staged_sequences = {}
        self._staged_chains = set()
        self._staged_rounds = {}
        self._staged_openings = set()
        self._rows = {}
        self._ends = []

    def _insert(self, target: str, *row: Any) -> None:
        self._rows.setdefault(target, []).append(row)

    def _seal(self, index: int, leaf: bytes, seal: entries.Seal) -> None:
        who = (seal.host, seal.host_seq, seal.label)
        how = (seal.time, seal.profile, seal.custody, int(seal.sandbox), seal.replaces)
        self._insert(_SESSIONS, leaf, index, *who, seal.chain, *how)
        self._insert("session_entries (session, i)", leaf, index)
        self._staged_openings.add(seal.commitment)
        self._staged[leaf] = sealed(index, leaf, seal)
        self._staged_sequences[seal.host] = seal.host_seq

    def _round(self, index: int, entry: entries.Round) -> None:
        key = (entry.chain, entry.round)
        self._insert("round_entries (chain, round, i)", *key, index)
        logged = LoggedRound(index, entry.time, entry.signature)
        self._staged_rounds[key] = logged
        staged = [name for name, state in self._staged.items() if key in state.logs]
        for name in {*self._waiting.get(key, ()), *staged}:
            state = self.staged(name)
            if state is not None and key in state.logs:
                self._staged[name] = anchored(state, key, logged)

    def _session_entry(self, index: int, entry: entries.SessionEntry, size: int) -> None:
        state = self.staged(entry.session)
        assert state is not None, "an entry of no open session"
        state = grown(fold(state, index, entry), size)
        self._insert("session_entries (session, i)", entry.session, index)
        if isinstance(entry, entries.Draw | entries.Reveal | entries.Void) and entry.seed is not None:
            self._staged_openings.add(entry.seed)
        if state.end is not None:
            ended = state.end.reason if isinstance(state.end, entries.Void) else "revealed"
            self._ends.append((index, state.end.time, ended, entry.session))
        self._staged[entry.session] = state

    def _publish(self, state: SessionState) -> None:
        before = self._open.get(state.session)
        waited, waits = before.logs if before else frozenset[RoundKey](), state.logs
        for key in waits - waited:
            self._waiting.setdefault(key, set()).add(state.session)
        for key in waited - waits:
            names = self._waiting[key]
            names.discard(state.session)
            if not names:
                del self._waiting[key]
        if state.end is None:
            self._open[state.session] = state
        else:
            self._open.pop(state.session, None)


def load(db: Database, session: bytes, end: int | None = None) -> SessionState | None:
    """Fold any session from the log, ended or not; None when the log has none of that name (32 bytes).

    end: fold only entries below this index.
    """
    state = None
    size = 0
    contributed: dict[str, bytes] = {}
    for index, data in session_events(db, session):
        if end is not None and index >= end:
            break
        entry = parse_entry(data)
        if isinstance(entry, entries.Seal):
            state = sealed(index, session, entry)
            continue
        assert state is not None
        if not isinstance(entry, entries.Round):
            size = grown(replace(state, size=size), len(data)).size
        if isinstance(entry, entries.Contribution):
            contributed[entry.participant] = entry.entropy
            state = replace(state, last_index=index)
        elif isinstance(entry, entries.Round):
            state = anchored(state, (entry.chain, entry.round), LoggedRound(index, entry.time, entry.signature))
        else:
            assert not isinstance(entry, entries.Log | entries.Chain)
            state = fold(state, index, entry)
    return None if state is None else replace(state, contributions=contributed, size=size)


def as_of(db: Database, state: SessionState, end: int) -> SessionState:
    """A session as the entries below log index `end`, which is above its seal, left it. state: as further ones did.

    While contributions are all that it has had, and after their close, none of them is read again.
    """
    query = "SELECT count(*), max(i) FROM session_entries WHERE session = ? AND i < ?"
    count, last = db.conn.execute(query, (state.session, end)).fetchone()
    if state.end is None and last <= state.last_index < end:
        return state
    closed = state.close_index is not None and state.close_index < end
    contributed = count - 1 - closed
    over = state.end_index is not None and state.end_index < end
    if over or contributed > len(state.contributions) or (closed and contributed != len(state.contributions)):
        earlier = load(db, state.session, end)
        assert earlier is not None
        return earlier
    logged, unlocked = (one if one is not None and one.index < end else None for one in (state.round, state.unlocked))
    return replace(
        sealed(state.index, state.session, state.seal),
        contributions=dict(islice(state.contributions.items(), contributed)),
        close=state.close if closed else None,
        close_index=state.close_index if closed else None,
        round=logged,
        unlocked=unlocked,
        last_index=max([last, *(one.index for one in (logged, unlocked) if one is not None)]),
    )


def session_events(db: Database, session: bytes) -> Iterator[tuple[int, bytes]]:
    """(index, bytes) of a session's entries and of the `round` entries that it uses, in log order."""
    rows = list(own_entries(db, session, -1))
    if not rows:
        return iter(())
    seal = parse_entry(rows[0][1])
    assert isinstance(seal, entries.Seal)
    for key in sorted(_rounds_used(seal, rows)):
        found = round_index(db, *key)
        if found is not None:
            rows.append((found, reads.entry(db, found)))
    return iter(sorted(rows))


def _rounds_used(seal: entries.Seal, rows: list[tuple[int, bytes]]) -> set[RoundKey]:
    lock = lock_of(seal)
    used = set() if lock is None else {lock}
    if seal.round is not None:
        return used | {(seal.chain, seal.round)}
    parsed = (parse_entry(data) for _, data in rows)
    return used | {(seal.chain, entry.round) for entry in parsed if isinstance(entry, entries.Call)}


def chain_info(db: Database, chain: bytes) -> dict[str, Json] | None:
    """The info of a chain as the log has it (its seven fields); None before it is there."""
    row = db.conn.execute("SELECT i FROM chain_entries WHERE chain = ?", (chain,)).fetchone()
    if row is None:
        return None
    entry = parse_entry(reads.entry(db, row[0]))
    assert isinstance(entry, entries.Chain)
    return dict(entry.info)
