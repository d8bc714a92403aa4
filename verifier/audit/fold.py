"""What only the reader of a whole log sees, entry by entry, and the sessions that its entries make.

Entries of sessions are looked at here as far as their session, time and secrets go; the session's judge parses them
strictly. So no entry is parsed in full twice, and a false one is found there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from verifier import entries, rules
from verifier.audit.accounts import Accounts
from verifier.audit.sessions import Job, Stated, parse
from verifier.audit.state import Found, State
from verifier.audit.witnessing import Witnessing
from verifier.drand import ChainInfo
from verifier.encoding import MAX_INTEGER, lp, parse_any_json
from verifier.errors import VerifierError

_WHOLE: Final = frozenset({"log", "chain", "seal", "round"})
_OF_SESSIONS: Final = frozenset({"contribution", "close", "call", "draw", "reveal", "void"})
_LEAST_ENTROPY: Final = 16
"""Bytes from which on nobody gives the same entropy twice by chance."""


@dataclass(slots=True)
class Open:
    """A session that entries of this segment belong to. new: (index, entry) of those; named: if the seal is of them."""

    index: int
    host: str
    ended: str | None
    new: list[tuple[int, bytes]] = field(default_factory=list)
    named: Named | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """What a seal names of chains. rounds: (chain, round) that its session waits for, without those of calls.

    lock: the one of these that a timelock names.
    """

    chain: bytes
    live: bool
    rounds: tuple[tuple[bytes, int], ...]
    after: Stated
    lock: tuple[bytes, int] | None

    @classmethod
    def of(cls, seal: entries.Seal) -> Named:
        after = seal.after
        lock = (seal.timelock.chain, seal.timelock.round) if seal.timelock is not None else None
        own = (seal.chain, seal.round) if seal.round is not None else None
        rounds = tuple(one for one in (own, lock) if one is not None)
        stated = (seal.chain, after.round, after.signature, after.previous_signature or b"")
        return cls(seal.chain, seal.profile == "live", rounds, stated, lock)

    @classmethod
    def read(cls, data: bytes) -> Named:
        """Of a seal's entry."""
        seal = parse(data)
        assert isinstance(seal, entries.Seal)
        return cls.of(seal)


class Fold:
    """Takes the entries of a log in order, segment by segment. What it finds gathers in `found`."""

    def __init__(self, state: State, origin: str, chains: Mapping[bytes, ChainInfo], witnessing: Witnessing) -> None:
        self._state: Final = state
        self._origin: Final = origin
        self._chains: Final = chains
        self._witnessing: Final = witnessing
        self.accounts: Final = Accounts(state)
        self.found: list[Found] = []
        self.ended: list[tuple[bytes, int]] = []
        self.stated: dict[Stated, None] = {}
        self._sessions: dict[bytes, Open] = {}
        self.time: int = state.get("time") or 0
        self._clock: int = state.get("clock") or 0
        self._newest: dict[bytes, int] = {bytes.fromhex(k): v for k, v in (state.get("newest") or {}).items()}
        rows = state.db.execute("SELECT chain FROM chains")
        self._named: set[bytes] = {bytes(chain) for (chain,) in rows}

    def take(self, index: int, data: bytes, leaf: bytes) -> None:
        """Take the next entry; `leaf` is its hash."""
        try:
            fields = parse_any_json(data)
            kind = fields["type"]
            if kind not in _OF_SESSIONS:
                entry = parse(data)
                time = entry.time
            else:
                time, session = fields["time"], bytes.fromhex(fields["session"])
                self._of_session(index, kind, session, fields, data)
        except (VerifierError, ValueError, LookupError, TypeError) as error:
            self.found.append(Found("log", "3", f"no entry of the protocol: {error}", index))
            return
        if (index == 0) != (kind == "log"):
            self.found.append(Found("log", "3.6", "the first entry, and no other, is of type log", index))
        if kind in _WHOLE:
            self._whole(index, entry, data, leaf)
        if type(time) is int and 0 <= time <= MAX_INTEGER:
            self._times(index, time, leaf if kind == "seal" else None)

    def taken_found(self) -> list[Found]:
        """What was found since this was asked last."""
        found, self.found = self.found, []
        return found

    def save(self) -> None:
        """Write what the segment left behind, for the state's commit."""
        db = self._state.db
        for session, opened in self._sessions.items():
            if opened.ended is None and opened.new:
                db.executemany("INSERT INTO pending VALUES (?, ?, ?)", [(session, *event) for event in opened.new])
        self.accounts.save()
        self._sessions.clear()
        self._state.put("time", self.time)
        self._state.put("clock", self._clock)
        self._state.put("newest", {chain.hex(): number for chain, number in self._newest.items()})

    # --- one entry ---------------------------------------------------------------------------------------------

    def _times(self, index: int, time: int, leaf: bytes | None) -> None:
        session = leaf.hex() if leaf is not None else None
        if time < self.time:
            self.found.append(Found("log", "6.2", "earlier than the entry before it", index, session))
        self.time = max(self.time, time)
        if time < self._clock - rules.CLOCK_SLACK:
            text = "earlier than a round whose signature stands at or below it"
            self.found.append(Found("unpredictable", "6.10", text, index, session))

    def _whole(self, index: int, entry: entries.Entry, data: bytes, leaf: bytes) -> None:
        self._clock = max(self._clock, rules.signature_time(entry, self._chains))
        match entry:
            case entries.Log() if entry.origin != self._origin:
                self.found.append(Found("log", "3.6", f"names another log, {entry.origin}", index))
            case entries.Chain():
                self._chain(index, entry)
            case entries.Round():
                self._signed(index, entry.chain, entry.round, entry.signature, entry.previous_signature)
                self._round(index, entry, data)
            case entries.Seal():
                after = entry.after
                self._signed(index, entry.chain, after.round, after.signature, after.previous_signature)
                self._seal(index, entry, data, leaf)

    def _signed(self, index: int, chain: bytes, number: int, signature: bytes, previous: bytes | None) -> None:
        if chain in self._chains:
            self.stated[chain, number, signature, previous or b""] = None
        if number > self._newest.get(chain, 0):
            self._newest[chain] = number
            self._state.db.execute("INSERT INTO newest VALUES (?, ?, ?)", [chain, index, number])

    def _chain(self, index: int, entry: entries.Chain) -> None:
        pinned = self._chains.get(entry.hash)
        if entry.hash in self._named:
            self.found.append(Found("log", "3.6", f"the chain {entry.hash.hex()} once more", index))
            return
        self._named.add(entry.hash)
        self._state.db.execute("INSERT INTO chains VALUES (?, ?)", [entry.hash, json.dumps(dict(entry.info))])
        if pinned is not None and dict(entry.info) != pinned.as_dict():
            self.found.append(Found("round", "2.5", "says otherwise about the chain than the pinned info", index))

    def _round(self, index: int, entry: entries.Round, data: bytes) -> None:
        db = self._state.db
        before = db.execute(
            "SELECT i, entry FROM rounds WHERE chain = ? AND round = ? ORDER BY i", [entry.chain, entry.round]
        ).fetchone()
        db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", [entry.chain, entry.round, index, data])
        if before is not None:
            text = f"a second entry of round {entry.round}, after entry {before[0]}"
            self.found.append(Found("sole", "6.8", text, index))
            if parse(before[1]).signature != entry.signature:  # type: ignore[union-attr]
                text += " with another signature: the chain is broken, or one of the two is forged"
                self.found.append(Found("round", "6.8", text, index))

    def _seal(self, index: int, seal: entries.Seal, data: bytes, leaf: bytes) -> None:
        named = [seal.chain] + ([seal.timelock.chain] if seal.timelock is not None else [])
        for chain in named:
            if chain not in self._named:
                text = f"names a chain before the log does, {chain.hex()}"
                self.found.append(Found("log", "3.6", text, index, leaf.hex(), seal.host))
        if self._open(leaf) is not None:
            self.found.append(Found("sole", "6.1", "the same seal once more", index, leaf.hex(), seal.host))
            return
        self.found += self.accounts.sealed(index, leaf, seal)
        self._use(seal.commitment, "the commitment", index, leaf, seal.host)
        pinned = self._chains.get(seal.chain)
        overdue = seal.reveal_by + (rules.wait(pinned) if pinned is not None else 600_000)
        row = (leaf, index, seal.host, seal.label, overdue)
        self._state.db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, NULL)", row)
        self._sessions[leaf] = Open(index, seal.host, None, [(index, data)], Named.of(seal))

    def _of_session(self, index: int, kind: str, session: bytes, fields: Mapping[str, Any], data: bytes) -> None:
        opened = self._open(session)
        if opened is None:
            self.found.append(Found("log", "6.1", f"a {kind} before its session's seal", index, session.hex()))
            return
        if opened.ended is not None:
            self.found.append(
                Found("sole", "6.1", f"a {kind} after the session's end", index, session.hex(), opened.host)
            )
            return
        opened.new.append((index, data))
        seed = fields.get("seed")
        if isinstance(seed, str):
            self._use(bytes.fromhex(seed), "a seed or link", index, session, opened.host)
        given = [fields] if kind == "contribution" else fields.get("contributions") if kind == "call" else None
        for one in given if isinstance(given, list) else ():
            self._contributed(index, one, session, opened.host)
        if kind in {"reveal", "void"}:
            account = self.accounts.of(opened.host)
            opened.ended = "revealed" if kind == "reveal" else str(fields["reason"])
            if kind == "reveal":
                account.revealed += 1
            else:
                account.void[opened.ended] = account.void.get(opened.ended, 0) + 1
            self._state.db.execute("UPDATE sessions SET ended = ? WHERE session = ?", [opened.ended, session])
            self.ended.append((session, index))

    def _contributed(self, index: int, one: Mapping[str, Any], session: bytes, host: str) -> None:
        entropy, participant = bytes.fromhex(one["entropy"]), str(one["participant"])
        if len(entropy) < _LEAST_ENTROPY:
            return
        value = hashlib.sha256(lp(host.encode()) + lp(participant.encode()) + lp(entropy)).digest()
        before = self._first(value, session, index)
        if before is not None:
            self.accounts.of(host).contributions_used_twice += 1
            text = f"{participant!r} contributes the same entropy as in entry {before}"
            self.found.append(Found("host", "4.4", text, index, session.hex(), host, grave=False))

    def _use(self, value: bytes, what: str, index: int, session: bytes, host: str) -> None:
        """4.1: what one session commits to or reveals, no other does."""
        before = self._first(value, session, index)
        if before is not None:
            text = f"{what} is one that another session had, in entry {before}"
            self.found.append(Found("seed", "4.1", text, index, session.hex(), host))

    def _first(self, value: bytes, session: bytes, index: int) -> int | None:
        """The entry of another session that had the value first, None when there is none."""
        db = self._state.db
        if db.execute("INSERT OR IGNORE INTO used VALUES (?, ?, ?)", [value, session, index]).rowcount:
            return None
        owner, before = db.execute("SELECT session, i FROM used WHERE value = ?", [value]).fetchone()
        return int(before) if owner != session else None

    def _open(self, session: bytes) -> Open | None:
        opened = self._sessions.get(session)
        if opened is None:
            row = self._state.db.execute("SELECT i, host, ended FROM sessions WHERE session = ?", [session]).fetchone()
            if row is None:
                return None
            opened = self._sessions[session] = Open(*row)
        return opened

    # --- jobs --------------------------------------------------------------------------------------------------

    def jobs(self) -> Iterator[Job]:
        """The sessions that ended since this was asked last, ready to be judged, before `save`."""
        db = self._state.db
        for session, end in self.ended:
            opened = self._sessions[session]
            events = opened.new
            if opened.new[0][0] != opened.index:
                events = self._state.waiting(session) + opened.new
                db.execute("DELETE FROM pending WHERE session = ?", [session])
            named = opened.named or Named.read(events[0][1])
            if named.lock is not None and named.lock[0] in self._chains and opening(self._state, named.lock) is None:
                db.execute("INSERT OR IGNORE INTO locks VALUES (?, ?, ?)", [*named.lock, session])
                db.executemany("INSERT INTO pending VALUES (?, ?, ?)", [(session, *event) for event in events])
            yield job_of(self._state, self._witnessing, session, opened.host, events, end, named)
        self.ended.clear()

    def unlocked(self, verified: Iterable[tuple[bytes, int]]) -> Iterator[Job]:
        """The sessions that ended before their timelock's round came, which now is among these (chain, round)."""
        db = self._state.db
        for lock in verified:
            for (session,) in db.execute("SELECT session FROM locks WHERE chain = ? AND round = ?", lock).fetchall():
                rows = self._state.waiting(session)
                host = db.execute("SELECT host FROM sessions WHERE session = ?", [session]).fetchone()[0]
                db.execute("DELETE FROM pending WHERE session = ?", [session])
                yield job_of(self._state, self._witnessing, session, host, rows, rows[-1][0])
            db.execute("DELETE FROM locks WHERE chain = ? AND round = ?", lock)


def job_of(
    state: State,
    witnessing: Witnessing,
    session: bytes,
    host: str,
    own: list[tuple[int, bytes]],
    end: int,
    named: Named | None = None,
) -> Job:
    """The job of a session by its own (index, entry) pairs, the first its seal; end: the last index that it may use.

    named: what its seal names, where that is known already.
    """
    named = named or Named.read(own[0][1])
    used = set(named.rounds)
    if named.live:
        called = (parse_any_json(data) for _, data in own[1:] if b'"type":"call"' in data)
        used |= {(named.chain, call["round"]) for call in called if _is_round(call.get("round"))}
    stated = {named.after}
    rounds: list[tuple[int, bytes]] = []
    for chain, number in used:
        found = state.db.execute("SELECT i, entry FROM rounds WHERE chain = ? AND round = ?", [chain, number])
        for index, data in found.fetchall():
            entry = parse(data)
            assert isinstance(entry, entries.Round)
            state.compare(index, data)
            rounds.append((index, data))
            stated.add((chain, number, entry.signature, entry.previous_signature or b""))
    below = "SELECT max(i) FROM newest WHERE chain = ? AND i <= ?"
    first = state.db.execute(below, [named.chain, own[0][0]]).fetchone()[0] or 0
    known = state.db.execute(
        "SELECT i, round FROM newest WHERE chain = ? AND i >= ? AND i <= ? ORDER BY i", [named.chain, first, end]
    ).fetchall()
    events = tuple(sorted([*own, *rounds]))
    lock = opening(state, named.lock) if named.lock is not None else None
    return Job(session, host, named.chain, events, tuple(known), _verified(state, stated), witnessing.seen(own), lock)


def opening(state: State, lock: tuple[bytes, int]) -> Stated | None:
    """The signature that opens timelocks of a (chain, round), once the log has one that is true."""
    query = "SELECT signature, previous FROM stated WHERE chain = ? AND round = ? AND error IS NULL"
    row = state.db.execute(query, lock).fetchone()
    return None if row is None else (*lock, *row)


def _is_round(value: object) -> bool:
    return type(value) is int and 0 < value <= MAX_INTEGER


def _verified(state: State, stated: set[Stated]) -> dict[Stated, str | None]:
    """Why each is false, None where it is true; those of chains that are not pinned are left out."""
    query = "SELECT error FROM stated WHERE chain = ? AND round = ? AND signature = ? AND previous = ?"
    rows = ((one, state.db.execute(query, one).fetchone()) for one in stated)
    return {one: row[0] for one, row in rows if row is not None}
