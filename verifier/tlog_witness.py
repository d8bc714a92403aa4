"""What a witness answers to add-checkpoint, from the request and what it cosigned last (C2SP tlog-witness).

The decision alone: whoever is a witness keeps the state, cosigns, and makes all of it one step. A request's body:

old <size>
<base64 hash>                       none to 63: the consistency proof
<empty line>
<checkpoint, a signed note>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from verifier.encoding import parse_base64, parse_decimal
from verifier.errors import Code, FormatError, VerificationError
from verifier.merkle import EMPTY_ROOT, HASH_BYTES, verify_consistency
from verifier.note import Checkpoint, Note, VerifierKey, open_note
from verifier.tlog_proof import MAX_HASHES

MAX_REQUEST: Final = 64 * 1024
SIZE_TYPE: Final = "text/x.tlog.size"
TEXT: Final = "text/plain; charset=utf-8"
UNPROVEN: Final = 422
"""The status where the proof does not lead from the last checkpoint to the new one."""
_OLD: Final = "old "


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request that nobody has verified. old: the size that the proof starts from; text: the note as it came."""

    old: int
    proof: tuple[bytes, ...]
    text: str
    note: Note
    checkpoint: Checkpoint

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse a body. Raises FormatError."""
        if len(body) > MAX_REQUEST:
            raise FormatError(Code.TLOG_PROOF, f"a request has at most {MAX_REQUEST} bytes")
        try:
            head, separator, text = body.decode().partition("\n\n")
        except UnicodeDecodeError as error:
            raise FormatError(Code.TLOG_PROOF, "a request is UTF-8") from error
        first, *lines = head.split("\n")
        if not separator or not first.startswith(_OLD):
            raise FormatError(Code.TLOG_PROOF, "a request is an old size, a proof, an empty line and a checkpoint")
        if len(lines) > MAX_HASHES:
            raise FormatError(Code.TLOG_PROOF, f"a proof has at most {MAX_HASHES} hashes")
        old = parse_decimal(first.removeprefix(_OLD))
        note = Note.parse(text)
        proof = tuple(parse_base64(line, HASH_BYTES) for line in lines)
        return cls(old, proof, text, note, Checkpoint.parse(note.text))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without a cosignature: HTTP status and body."""

    status: int
    body: str
    content_type: str = TEXT


def read(body: bytes) -> AddCheckpoint | Refusal:
    """The request of a body, or why it is none: 400."""
    try:
        return AddCheckpoint.parse(body)
    except FormatError as error:
        return Refusal(400, f"{error.message}\n")


def unsigned(request: AddCheckpoint, keys: Sequence[VerifierKey]) -> Refusal | None:
    """Why a request is none of a log with these keys, whatever was cosigned before: 404, 403 or 400."""
    if not keys:
        return Refusal(404, "this witness does not know the log\n")
    try:
        open_note(request.note, keys)
    except VerificationError as error:
        return Refusal(403, f"{error.message}\n")
    if request.old > request.checkpoint.size:
        return Refusal(400, "the old size is above the checkpoint's\n")
    return None


def inconsistent(request: AddCheckpoint, size: int, root: bytes) -> Refusal | None:
    """Why a log's request does not continue what was cosigned last: 409 (with that size) or 422.

    size, root: of the last one; 0 and EMPTY_ROOT where there is none.
    """
    if request.old != size:
        return Refusal(409, f"{size}\n", SIZE_TYPE)
    checkpoint = request.checkpoint
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        return Refusal(UNPROVEN, "a tree of size 0 has the root of nothing\n")
    if size == 0:
        return Refusal(UNPROVEN, "no proof starts at size 0\n") if request.proof else None
    try:
        verify_consistency(size, checkpoint.size, request.proof, root, checkpoint.root)
    except VerificationError as error:
        return Refusal(UNPROVEN, f"{error.message}\n")
    return None
