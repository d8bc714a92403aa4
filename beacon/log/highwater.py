"""The high-water mark: the newest checkpoint that may have been acknowledged, kept beside the log and not in it.

An older copy of log.db, or one without its WAL, is a whole log that agrees with itself; going on from it would sign a
second history. So a log that does not contain its mark is not opened.

    commit n returned    mark n is written, on a thread of its own, while batch n + 1 is made
    before COMMIT n + 1  mark n is durable, or the batch is undone (WriteFailed)

So a mark is never ahead of what was durable, and of the commits that were acknowledged at most the newest one is beyond
it, at whatever moment the process or the machine stops; after `close`, none. A mark is the signed checkpoint itself.
What it cannot show is an older copy of the log and of the mark together: that takes somebody who kept a checkpoint or a
receipt, or a witness.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from sqlite_utils import Database

from beacon.log import keys, reads
from beacon.log.reads import SignedCheckpoint
from beacon.log.recovery import open_checkpoint, recover
from beacon.store.errors import LogBehind, LogDamaged, WriteFailed
from beacon.store.lock import FileLock
from beacon.store.mark import SLOTS, MarkFile
from beacon.store.schema import DAMAGE, open_readonly, reading
from verifier.errors import VerifierError
from verifier.log_keys import LogTrust, Signed, as_keys, name_of, signed_by
from verifier.note import Checkpoint, Note

ADVICE: Final = (
    "Going on from here would sign a second history. Put the newest log.db back, together with its log.db-wal. If what "
    "is missing is lost for good, this log has ended: begin another one, under another origin"
)


class Mark(NamedTuple):
    """A state of the log that was durable once. root: 32 bytes; slot: where in the file it stands."""

    size: int
    root: bytes
    note: str
    slot: int


class HighWater:
    """The mark of one log that is open for writing. step: told the name of each step of a write."""

    def __init__(self, path: Path, step: Callable[[str], None]) -> None:
        """Nothing is read or made yet."""
        self._file: Final = MarkFile(path)
        self._step: Final = step
        self._slot = 0
        self._target: SignedCheckpoint | None = None
        self._writing: Future[None] | None = None
        self._pool: Final = ThreadPoolExecutor(1, thread_name_prefix=f"mark {path.name}")

    def check(self, db: Database, size: int, trust: LogTrust) -> None:
        """As `compare`, and go on from the mark that is there."""
        found = compare(db, size, self._file.path, trust)
        self._slot = 0 if found is None else found.slot

    def begin(self, checkpoint: SignedCheckpoint) -> None:
        """Begin to write a state that is durable; wait with `settle`. The one before must be settled."""
        self._target = checkpoint
        self._writing = self._pool.submit(self._write, checkpoint)

    def settle(self) -> None:
        """Wait until the mark is durable; if it could not be written, try again once. Raises WriteFailed."""
        if self._writing is None or self._target is None:
            return
        try:
            self._writing.result()
        except WriteFailed:
            self._write(self._target)
        self._writing = None

    def close(self) -> None:
        """Wait for what is being written and close the file. Again is no error."""
        self._pool.shutdown(wait=True)
        self._file.close()

    def _write(self, checkpoint: SignedCheckpoint) -> None:
        self._step("mark-begun")
        self._file.write((self._slot + 1) % SLOTS, checkpoint.note.encode())
        self._slot = (self._slot + 1) % SLOTS
        self._step("marked")


def newest(path: Path, trust: LogTrust) -> Mark | None:
    """Read the mark of the log that these keys sign; None when there is no file, or nothing in it.

    Raises CannotOpen, and LogBehind when what it holds is no checkpoint of this log, or one of a key that a newer copy
    of the log has and this one has not, or has as retired before.
    """
    slots = MarkFile(path).read()
    if slots is None or not any(slots):
        return None
    marks = [mark for slot, text in enumerate(slots) if (mark := _parse(text, slot, trust)) is not None]
    beyond = max((_beyond(text, trust) for text in slots), default=0)
    if marks and beyond > max(marks).size:
        raise LogBehind(
            f"{path} says that {beyond} entries were acknowledged, under a key of {name_of(trust)} that does not sign "
            f"so many here: this is an older copy, from before the log changed its key. {ADVICE}"
        )
    if not marks:
        raise LogBehind(
            f"{path} holds no checkpoint that {name_of(trust)} signed, so nobody can say whether this is the newest "
            "log. Put the right file back; if there is none and log.db is surely the newest there was, delete it and "
            "run `beacon log mark`"
        )
    return max(marks)


def compare(db: Database, size: int, path: Path, trust: LogTrust) -> Mark | None:
    """Raise LogBehind unless the log of this size holds what its mark says; one of a single entry needs no mark."""
    found = newest(path, keys.trusted(db, trust))
    if found is None:
        if size > 1:
            raise LogBehind(
                f"{path} is missing, so nobody can say whether this is the newest log. Put it back; if it is lost and "
                "log.db is surely the newest there was, `beacon log mark` makes it anew"
            )
        return None
    if size < found.size:
        raise LogBehind(
            f"the log has size {size}, and size {found.size} was acknowledged ({path}): this is an older copy, or its "
            f"WAL is lost. {ADVICE}"
        )
    if reads.root_at(db, found.size) != found.root:
        raise LogBehind(
            f"the log's first {found.size} entries are not those that were acknowledged ({path}): this is another "
            f"history. {ADVICE}"
        )
    return found


def complaint(path: Path, mark: Path, trust: LogTrust) -> str | None:
    """Why the service would not start from the log at `path` because of its mark, or None. Beside the service, too.

    What is wrong with the log itself is no business of this. Raises CannotOpen.
    """
    try:
        with closing(open_readonly(path)) as db:
            (size,) = db.execute("SELECT coalesce(max(size), 0) FROM checkpoints").fetchone()
            compare(db, size, mark, trust)
    except LogBehind as error:
        return str(error)
    except (LogDamaged, *DAMAGE):
        return None
    return None


def make(path: Path, mark: Path, trust: LogTrust) -> int:
    """Make a mark that was lost from the log as it stands; gives the log's size.

    Raises LogBehind when there is a mark, AlreadyOpen while a service runs, CannotOpen, DatabaseDamaged, WriteFailed.
    """
    lock, file = FileLock(path), MarkFile(mark)
    try:
        with reading(path), closing(open_readonly(path)) as db:
            if (found := newest(mark, keys.trusted(db, trust))) is not None:
                raise LogBehind(f"{mark} is there and says size {found.size}; it is only made where there is none")
            checkpoint = recover(db, trust).checkpoint
        if checkpoint is None:
            raise LogDamaged(f"{path} has no checkpoint")
        file.write(0, checkpoint.note.encode())
    finally:
        file.close()
        lock.release()
    return checkpoint.size


def _beyond(text: bytes, trust: LogTrust) -> int:
    """The size that a slot states in the log's name without a line of a key for it; 0 for anything else."""
    try:
        note = Note.parse(text.decode())
        checkpoint = Checkpoint.parse(note.text)
    except (UnicodeDecodeError, VerifierError):
        return 0
    found = signed_by(note, checkpoint.size, as_keys(trust).of(checkpoint.origin))
    return checkpoint.size if found in {Signed.OTHER, Signed.BEYOND} else 0


def _parse(text: bytes, slot: int, trust: LogTrust) -> Mark | None:
    try:
        note = text.decode()
        size = Checkpoint.parse(Note.parse(note).text).size
        return Mark(size, open_checkpoint(note, size, trust), note, slot)
    except (UnicodeDecodeError, VerifierError, LogDamaged):
        return None
