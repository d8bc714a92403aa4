"""Brings one witness the checkpoints that it is asked to cosign, and keeps what it signs.

What it has seen is what the log holds of its cosignatures; when it knows better (409), it is asked once more from where
it says it is. One that does not say where it is (an empty 409) is looked for among the checkpoints that were published
since: a cosignature whose answer was lost, perhaps before a restart, or a checkpoint that others brought it. A failure
is followed by a growing pause, and then by the newest checkpoint there is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from beacon.log import cosignatures, reads
from beacon.log.cosignatures import Cosigned
from beacon.log.log import Log
from beacon.log.reads import SignedCheckpoint
from beacon.witness.client import Answer, Client, Result
from beacon.witness.configured import Configured
from verifier.note import Note
from verifier.tlog_proof import add_checkpoint_request

FIRST_PAUSE: Final = 0.5
MAX_PAUSE: Final = 60.0
MAX_GUESSES: Final = 8
"""Sizes at which a witness that does not say where it is, is looked for in a row; after a pause the next ones."""


@dataclass(slots=True)
class Standing:
    """How a witness is doing. size: the largest that it has cosigned, 0 for none; results: answers since the start.

    behind_since: ms; when the first checkpoint was published that it has not cosigned, None while there is none.
    last: what came of the last request, and detail: more of it, for the operator. seen: the largest size of which it
    said that it has seen it. time: of its newest cosignature, POSIX seconds. forked: it has another tree of a size that
    we have. retry_after: seconds that it asked for with its last answer.
    """

    size: int = 0
    seen: int = 0
    time: int | None = None
    behind_since: int | None = None
    last: Result | None = None
    detail: str = ""
    failures_in_a_row: int = 0
    retry_after: int = 0
    forked: bool = False
    results: Counter[Result] = field(default_factory=Counter)


class Courier:
    """Asks one witness, one request at a time."""

    def __init__(self, witness: Configured, log: Log, client: Client, size: int) -> None:
        """size: the largest that it is known to have cosigned."""
        self.witness: Final = witness
        self.standing: Final = Standing(size=size, seen=size)
        self._log: Final = log
        self._client: Final = client
        self._old = size
        self._unanswered: int | None = None
        self._guessed: int | None = None

    async def ask(self, checkpoint: SignedCheckpoint) -> Cosigned | None:
        """Have a checkpoint cosigned, if the witness will, and keep that durably: `standing` says what came of it.

        At most two requests, or MAX_GUESSES + 3 where it does not say where it is. Raises the store's errors.
        """
        answer = await self._post(checkpoint, min(self._old, checkpoint.size))
        if answer.result is Result.CONFLICT:
            if answer.size is None:
                answer = await self._search(checkpoint, answer)
            elif (old := self._elsewhere(answer.size, checkpoint)) is not None:
                answer = await self._post(checkpoint, old)
        refused = answer.result is Result.CONFLICT and answer.size == self._old
        self.standing.forked = refused or answer.result is Result.UNPROVEN
        if answer.result is Result.CONFLICT and answer.size is not None:
            self._old = answer.size
        return await self._take(checkpoint, answer)

    async def look(self, checkpoint: SignedCheckpoint, origin: str) -> None:
        """Compare a checkpoint with what the witness shows, where it refuses the key: `standing` says what came of it.

        A witness that has dropped a key which the log retired tells an older copy, with that key, by nothing else.
        """
        shown = await self._client.newest(self.witness.url, origin, self.witness.key)
        if shown is None:
            return
        self.standing.seen = max(self.standing.seen, shown.size)
        if 0 < shown.size <= checkpoint.size:
            self.standing.forked = await self._log.read(lambda db: reads.root_at(db, shown.size)) != shown.root

    def pause(self) -> float:
        """Seconds to leave the witness alone after a failure; 0 after none."""
        failures, asked = self.standing.failures_in_a_row, float(self.standing.retry_after)
        return max(asked, min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))) if failures else 0.0

    def _elsewhere(self, size: int, checkpoint: SignedCheckpoint) -> int | None:
        """Where to ask from again: at what it says."""
        self.standing.seen = max(self.standing.seen, size)
        return size if size <= checkpoint.size and size != self._old else None

    async def _search(self, checkpoint: SignedCheckpoint, answer: Answer) -> Answer:
        """Look for a witness that does not say where it is; what comes of the last request."""
        tried = self._old
        for old in await self._guesses(checkpoint):
            if old == tried:
                continue
            answer = await self._post(checkpoint, old)
            if answer.result is not Result.CONFLICT:
                break
            if answer.size is not None:
                elsewhere = self._elsewhere(answer.size, checkpoint)
                return answer if elsewhere is None else await self._post(checkpoint, elsewhere)
        return answer

    async def _guesses(self, checkpoint: SignedCheckpoint) -> list[int]:
        """Where a lost answer would have put it, then the sizes published since its last cosignature, newest first.

        Those below the last guess, once there was one; 0 comes last, and then the newest again.
        """
        known = self.standing.size
        first = [self._unanswered] if self._unanswered is not None else []
        below = checkpoint.size + 1 if self._guessed is None else self._guessed
        sizes = await self._log.read(lambda db: reads.checkpoint_sizes(db, known, below, MAX_GUESSES))
        last = [known, 0] if len(sizes) < MAX_GUESSES else []
        self._guessed = None if last else sizes[-1]
        return list(dict.fromkeys([*first, *sizes, *last]))

    async def _post(self, checkpoint: SignedCheckpoint, old: int) -> Answer:
        proof = await self._log.consistency_proof(old, checkpoint.size) if old else []
        body = add_checkpoint_request(old, proof, checkpoint.note)
        self._old = old
        answer = await self._client.add_checkpoint(
            self.witness.url, body, Note.parse(checkpoint.note).text, self.witness.key
        )
        if answer.result in {Result.TIMEOUT, Result.UNREACHABLE, Result.FAILED, Result.INVALID}:
            self._unanswered = checkpoint.size
        standing = self.standing
        standing.results[answer.result] += 1
        standing.last, standing.detail, standing.retry_after = answer.result, answer.detail, answer.retry_after
        return answer

    async def _take(self, checkpoint: SignedCheckpoint, answer: Answer) -> Cosigned | None:
        standing = self.standing
        if answer.result is not Result.COSIGNED:
            standing.failures_in_a_row += 1
            return None
        cosigned = Cosigned(checkpoint.size, self.witness.key, answer.signature)
        await self._log.writer.run(lambda db: cosignatures.add(db, cosigned))
        self._old, self._unanswered, self._guessed = checkpoint.size, None, None
        standing.failures_in_a_row = 0
        standing.size = max(standing.size, checkpoint.size)
        standing.seen = max(standing.seen, checkpoint.size)
        standing.time = cosigned.time
        return cosigned
