"""The body of add-checkpoint, as a witness reads it (C2SP tlog-witness): parse means canonical.

old <size>
<base64 hash>                       none to 63: the consistency proof
<empty line>
<checkpoint, a signed note>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from verifier.encoding import parse_base64, parse_decimal
from verifier.errors import Code, FormatError
from verifier.merkle import HASH_BYTES
from verifier.note import Checkpoint, Note
from verifier.tlog_proof import MAX_HASHES

MAX_REQUEST: Final = 64 * 1024
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
