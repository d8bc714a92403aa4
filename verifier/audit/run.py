"""One audit: from the state that was kept to the newest checkpoint, segment by segment.

What is found is kept in the state, so an audit that finds nothing new still says what was found before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from verifier import merkle
from verifier.audit.dice import Dice
from verifier.audit.fold import Fold, job_of
from verifier.audit.forks import Fork
from verifier.audit.judges import Judging, judges
from verifier.audit.sessions import Judged, Known, Stated, judge
from verifier.audit.sources import Source, check_signature
from verifier.audit.state import Found, State, StateError
from verifier.audit.witnessing import Witnessing
from verifier.bls.verify import best_backend
from verifier.check import Trust
from verifier.drand import Round, VerifiedRound, verify_rounds
from verifier.errors import Code, FormatError, VerifierError
from verifier.log_keys import LogTrust, as_keys
from verifier.merkle import Frontier
from verifier.note import ED25519, VerifierKey
from verifier.tiles import TILE_WIDTH
from verifier.transcript import SignedCheckpoint
from verifier.verdict import Exit

SEGMENT: Final = 16 * TILE_WIDTH
SEGMENT_BYTES: Final = 16 << 20
MANY: Final = 20_000
"""Entries from which on other processes are worth their start."""
AHEAD: Final = 1
"""Segments that are taken up while other processes judge the sessions of the one before."""
KEPT_AT_LEAST: Final = 8
"""Segments after which the state is committed, at the latest."""
_STAND_IN: Final = VerifierKey.of("no.key/given", ED25519, b"\x00" * 32)

Progress = Callable[[int, int], None]
Tell = Callable[[Found], None]


@dataclass(slots=True)
class Audit:
    """How to audit: what is trusted, where evidence goes, in how many processes.

    progress: called with (entries done, of all); tell: with each finding, as soon as it is kept.
    """

    state: State
    trust: Trust
    evidence: Path | None = None
    processes: int = 1
    progress: Progress = field(default=lambda *_: None)
    tell: Tell = field(default=lambda _: None)
    witnessing: Witnessing = field(init=False)

    def __post_init__(self) -> None:
        self.witnessing = Witnessing(self.state, self.trust.policy)

    def run(self, source: Source) -> bool:
        """Audit up to the source's checkpoint; whether the log is the one that was seen before, grown.

        Raises VerificationError where the log does not stand by its own tiles, FormatError for a state of another log.
        """
        source.check(self.trust.log_key)
        if not self._goes_on(source):
            return False
        try:
            self.witnessed(source, source.cosigned(self.state.get("cosigned") or 0))
            self.witnessed(source, [source.signed])
            with self._judging(source) as (judging, ahead):
                _Pass(self, source, judging, ahead).run()
        except BaseException:
            self.state.rollback()
            raise
        return True

    def compare(self, other: Source) -> None:
        """Compare the checkpoint that another vantage point shows with the newest that was audited."""
        self._same_log(other.signed)
        other.check(self.trust.log_key)
        self._agree(other, rollback=False)

    def witnessed(self, source: Source, shown: Iterable[SignedCheckpoint]) -> bool:
        """Keep what the policy's witnesses say of checkpoints that the log signed, and the evidence where one forks.

        Whether none of them does.
        """
        key, newest = self.trust.log_key, self.state.get("cosigned") or 0
        agreed = True
        if key is None or self.trust.policy is None:
            return agreed
        for signed in shown:
            checkpoint = signed.checkpoint
            if checkpoint.size > source.tree.size or not _is_of(signed, key):
                continue
            if not self.agrees(signed, source, ""):
                agreed = False
                continue
            self.keep(self.witnessing.take(signed))
            newest = max(newest, checkpoint.size)
        self.state.put("cosigned", newest)
        return agreed

    def exit(self) -> Exit:
        """1: something grave was found. 2: no key was given, or a session could not be decided. 0: neither."""
        if self.state.grave():
            return Exit.FAILED
        undecided = self.trust.log_key is None or self.state.get("undecided")
        return Exit.UNDECIDED if undecided else Exit.FAIR

    def keep(self, found: Iterable[Found]) -> None:
        for one in self.state.add(found):
            self.tell(one)

    # --- consistency -------------------------------------------------------------------------------------------

    def _same_log(self, signed: SignedCheckpoint) -> None:
        kept = self.state.get("checkpoint")
        origin = SignedCheckpoint.parse(kept).checkpoint.origin if kept is not None else self.state.get("origin")
        if origin != self.state.get("origin"):
            raise StateError("its checkpoint is of another log than it says")
        if origin is not None and signed.checkpoint.origin != origin:
            raise FormatError(Code.USAGE, f"the state is that of another log, {origin}")

    def _goes_on(self, source: Source) -> bool:
        """Whether the log is the one that was seen before, grown. Keeps the evidence where it is not.

        Raises StateError where it is, and the leaves that were kept are not its own: each was authenticated.
        """
        signed = source.signed
        self._same_log(signed)
        if not self._agree(source, rollback=True):
            return False
        done = self._done()
        if source.tree.root_at(done) != self._own_root(done):
            raise StateError(f"its first {done} leaves are not those that were authenticated")
        self.state.put("origin", signed.checkpoint.origin)
        self.state.put("checkpoint", signed.note.encode())
        self.state.commit()
        return True

    def _done(self) -> int:
        """How many entries were audited. Raises StateError for more than the newest checkpoint covers."""
        done, kept = self.state.get("size") or 0, self.state.get("checkpoint")
        most = SignedCheckpoint.parse(kept).checkpoint.size if kept is not None else 0
        if type(done) is not int or not 0 <= done <= most:
            raise StateError("it says that more entries were audited than its checkpoint covers")
        return done

    def _agree(self, source: Source, *, rollback: bool) -> bool:
        kept = self.state.get("checkpoint")
        if kept is None:
            return True
        seen, shown = SignedCheckpoint.parse(kept), source.signed
        fork = self._fork(seen, source)
        if fork is not None:
            self._forked(fork)
        elif rollback and shown.checkpoint.size < seen.checkpoint.size:
            sizes = f"{shown.checkpoint.size} entries, having shown {seen.checkpoint.size}"
            text = f"the log has gone back: it shows {sizes}: it was rolled back, or an old copy is served"
            self.keep([Found("log", "7.2", text, None)])
        else:
            return True
        self.state.commit()
        return False

    def _fork(self, seen: SignedCheckpoint, source: Source) -> Fork | None:
        """The evidence that two checkpoints do not agree, None where they do, or cannot be compared yet."""
        shown, tree = source.signed, source.tree
        old, new = seen.checkpoint, shown.checkpoint
        if old.size <= new.size:
            root = tree.root_at(old.size)
            proof = tree.consistency(old.size) if 0 < old.size < new.size else []
            return Fork(seen, shown, root, proof) if root != old.root else None
        done = self.state.get("size") or 0
        if new.size > done or new.size == 0:
            return None
        root = self._own_root(new.size)
        if root == new.root:
            return None
        if done < old.size:
            text = f"the checkpoint of {new.size} is not of the log that was audited"
            self.keep([Found("log", "7.2", text, None)])
            return None
        return Fork(shown, seen, root, merkle.prove_consistency(list(self.state.leaves(old.size)), new.size))

    def agrees(self, signed: SignedCheckpoint, source: Source, about: str) -> bool:
        """Whether the source continues an older checkpoint that the log signed; the evidence is kept where not."""
        fork = self._fork(signed, source)
        if fork is not None:
            self._forked(fork, about)
        return fork is None

    def _forked(self, fork: Fork, about: str = "") -> None:
        older, newer = fork.older.checkpoint.size, fork.newer.checkpoint.size
        text = f"{about}two histories: the checkpoints of {older} and of {newer} entries, both signed, do not agree"
        if self.evidence is not None:
            path = fork.write(self.evidence)
            text += f"; evidence: {path.name}, for `verifier fork`"
        self.keep([Found("log", "7.2", text, None)])

    def _own_root(self, size: int) -> bytes:
        frontier = Frontier()
        for leaf in self.state.leaves(size):
            frontier.append(leaf)
        return frontier.root()

    # --- processes ---------------------------------------------------------------------------------------------

    @contextmanager
    def _judging(self, source: Source) -> Iterator[tuple[Judging, int]]:
        """Gives what judges jobs, here or in other processes, and how many segments it may be behind."""
        infos = {hash_: chain.as_dict() for hash_, chain in self.trust.chains.items()}
        known = Known(self.trust, source.signed, named_key(self.trust), infos)
        if self.processes <= 1 or source.tree.size - (self.state.get("size") or 0) < MANY:
            yield lambda jobs: iter([judge(known, job) for job in jobs]), 0
            return
        with judges(known, self.processes) as judging:
            yield judging, AHEAD


def _is_of(signed: SignedCheckpoint, key: LogTrust) -> bool:
    try:
        check_signature(signed, key)
    except VerifierError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Segment:
    """Entries that were taken up: where they end, what was found of rounds and entries, and what comes of sessions.

    unlocked: what comes of those that had ended before their timelock's round came.
    """

    end: int
    rounds: list[Found]
    unlocked: Iterator[Judged]
    judged: Iterator[Judged]
    found: list[Found]


class _Pass:
    """The entries from where the state ends to where the checkpoint does.

    ahead: how many segments may be taken up before the sessions of an earlier one are judged. The state is committed
    only where no session is left to be judged.
    """

    def __init__(self, audit: Audit, source: Source, judging: Judging, ahead: int) -> None:
        self._audit: Final = audit
        self._state: Final = audit.state
        self._tree: Final = source.tree
        self._judging: Final = judging
        self._ahead: Final = ahead
        self._fold: Final = Fold(audit.state, source.signed.checkpoint.origin, audit.trust.chains, audit.witnessing)
        self._dice: Final = Dice(audit.state)
        self._waiting: Final[deque[_Segment]] = deque()

    def run(self) -> None:
        size, done, unkept = self._tree.size, self._state.get("size") or 0, 0
        self._audit.progress(done, size)
        while done < size:
            self._waiting.append(self._segment(done))
            done, unkept = self._waiting[-1].end, unkept + 1
            last = done == size or not self._ahead or unkept == KEPT_AT_LEAST
            self._conclude(0 if last else self._ahead)
            if last:
                self._commit(done)
                unkept = 0
            self._audit.progress(done, size)
        self._judge_open(self._state.get("judged") or 0)

    def _segment(self, first: int) -> _Segment:
        index, held = first, 0
        hashes: list[bytes] = []
        while index < self._tree.size and index - first < SEGMENT and held < SEGMENT_BYTES:
            data, leaves = self._tree.hashed_bundle(index // TILE_WIDTH)
            place = index % TILE_WIDTH
            for entry, leaf in zip(data[place:], leaves[place:], strict=True):
                self._fold.take(index, entry, leaf)
                index, held = index + 1, held + len(entry)
            hashes += leaves[place:]
        rounds, verified = self._verify_rounds()
        unlocked = self._judging(self._fold.unlocked(verified))
        judged = self._judging(self._fold.jobs())
        self._fold.save()
        self._state.add_leaves(first, hashes)
        return _Segment(index, rounds, unlocked, judged, self._fold.taken_found())

    def _conclude(self, ahead: int) -> None:
        """Take in what came of the sessions of all segments but the newest `ahead`."""
        while len(self._waiting) > ahead:
            segment = self._waiting.popleft()
            self._audit.keep(segment.rounds)
            for one in segment.unlocked:
                self._audit.keep(one.found)
            self._take(segment.judged)
            self._audit.keep(segment.found)

    def _commit(self, size: int) -> None:
        self._fold.accounts.save()
        self._dice.save()
        self._state.put("size", size)
        self._state.commit()

    def _take(self, judged: Iterable[Judged]) -> None:
        totals: dict[str, Any] = self._state.get("totals") or {"ended": 0, "fair": 0, "proven": 0}
        for one in judged:
            self._audit.keep(one.found)
            totals["ended"] += 1
            totals["fair"] += one.fair
            totals["proven"] += one.proven
            if one.undecided is not None:
                self._state.put("undecided", (self._state.get("undecided") or 0) + 1)
                self._state.put("why", one.undecided)
            if one.late:
                self._fold.accounts.of(one.host).late += 1
            if one.counts is not None:
                self._dice.add(one.host, one.counts, sandbox=one.sandbox)
        self._state.put("totals", totals)

    def _judge_open(self, start: int) -> None:
        """Judge what is open and has grown, as far as it goes."""
        db, end = self._state.db, self._tree.size
        grown = db.execute(
            "SELECT DISTINCT session FROM pending JOIN sessions USING (session) WHERE pending.i >= ? AND ended IS NULL",
            [start],
        ).fetchall()
        for (session,) in grown:
            host = db.execute("SELECT host FROM sessions WHERE session = ?", [session]).fetchone()[0]
            own = self._state.waiting(session)
            for judged in self._judging([job_of(self._state, self._audit.witnessing, session, host, own, end)]):
                self._audit.keep(judged.found)
        self._state.put("judged", end)
        self._state.commit()

    def _verify_rounds(self) -> tuple[list[Found], list[tuple[bytes, int]]]:
        """Verify what the segment states of rounds and was not verified before: two pairings for each chain.

        Gives what is false, and the (chain, round) of what is true.
        """
        db = self._state.db
        found: list[Found] = []
        verified: list[tuple[bytes, int]] = []
        query = "SELECT 1 FROM stated WHERE chain = ? AND round = ? AND signature = ? AND previous = ?"
        new: dict[bytes, list[Stated]] = {}
        for one in self._fold.stated:
            if db.execute(query, one).fetchone() is None:
                new.setdefault(one[0], []).append(one)
        self._fold.stated.clear()
        for name, several in new.items():
            rounds = [Round(number, signature, previous or None) for _, number, signature, previous in several]
            answers = verify_rounds(self._audit.trust.chains[name], rounds, best_backend())
            for one, answer in zip(several, answers, strict=True):
                error = None if isinstance(answer, VerifiedRound) else f"{answer.code}: {answer.message}"
                db.execute("INSERT INTO stated VALUES (?, ?, ?, ?, ?)", [*one, error])
                if error is None:
                    verified.append((name, one[1]))
                else:
                    rule = "2.6" if error.startswith(Code.POINT) else "2.5"
                    found.append(Found("round", rule, f"round {one[1]} is false: {error}", None))
        return found, verified


def named_key(trust: Trust) -> VerifierKey:
    """The key that transcripts of the audit's own making name: one that was given, or a stand-in."""
    return _STAND_IN if trust.log_key is None else as_keys(trust.log_key).keys[-1].key
