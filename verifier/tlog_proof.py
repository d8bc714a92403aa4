"""The proof that an entry is in a log, as one text file, `.tlog-proof` (C2SP tlog-proof), and the same lines on the
way to a witness (C2SP tlog-witness).

    c2sp.org/tlog-proof@v1
    extra <base64>                      optional, not authenticated by anything
    index <decimal>
    <base64 hash>                       none or more: the inclusion proof, from the leaf's sibling up
    <empty line>
    <checkpoint, a signed note, as it is>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from verifier.encoding import encode_base64, parse_base64, parse_decimal
from verifier.errors import Code, FormatError, VerificationError
from verifier.merkle import HASH_BYTES, verify_inclusion
from verifier.note import MAX_NOTE_BYTES, Checkpoint, open_note
from verifier.policy import Policy

MAX_PROOF_CHARACTERS: Final = 2 * MAX_NOTE_BYTES
MAX_HASHES: Final = 63

_HEADER: Final = "c2sp.org/tlog-proof@v1"
_EXTRA: Final = "extra "
_INDEX: Final = "index "


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A parsed proof that nobody has verified.

    index: 0 to 2**63 - 1; hashes: at most 63 of 32 bytes; checkpoint: the text of the note, ending in a newline;
    extra: one byte or more, or None.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: str
    extra: bytes | None = None

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Parse the file. What the checkpoint holds is left to `open_note`. Raises FormatError(TLOG_PROOF)."""
        head, _, checkpoint = _decode(text).partition("\n\n")
        lines = head.split("\n")
        if lines.pop(0) != _HEADER:
            raise FormatError(Code.TLOG_PROOF, f"the first line is not {_HEADER}")
        extra = None
        if lines and lines[0].startswith(_EXTRA):
            extra = _part("extra", lines.pop(0).removeprefix(_EXTRA))
        if not lines or not lines[0].startswith(_INDEX):
            raise FormatError(Code.TLOG_PROOF, "no index line")
        try:
            index = parse_decimal(lines.pop(0).removeprefix(_INDEX))
        except FormatError as error:
            raise FormatError(Code.TLOG_PROOF, f"the index: {error.message}") from error
        proof = cls(index, tuple(_part("a hash", line, HASH_BYTES) for line in lines), checkpoint, extra)
        proof.encode()
        return proof

    def encode(self) -> str:
        """Return the file. Raises FormatError(TLOG_PROOF) when a field is not what the format can hold."""
        if self.extra == b"":
            raise FormatError(Code.TLOG_PROOF, "an extra line holds at least one byte")
        if not self.checkpoint.endswith("\n") or self.checkpoint.startswith("\n"):
            raise FormatError(Code.TLOG_PROOF, "no empty line and then a checkpoint that ends in a newline")
        extra = "" if self.extra is None else f"{_EXTRA}{encode_base64(self.extra)}\n"
        return f"{_HEADER}\n{extra}{_INDEX}{self.index}\n{_proof_lines(self.hashes)}\n{self.checkpoint}"


def verify(proof: TlogProof, leaf_hash: bytes, policy: Policy) -> Checkpoint:
    """Check that the leaf (32 bytes) is in a tree that one of the policy's logs signed and its quorum cosigned.

    The log's key bears the origin's name. Returns the verified checkpoint.
    Raises FormatError(NOTE, CHECKPOINT), VerificationError(SIGNATURE, INCLUSION).
    """
    note = open_note(proof.checkpoint, {*policy.logs, *policy.witnesses.values()})
    checkpoint = Checkpoint.parse(note.text)
    keys = [verified.key for verified in note.verified]
    if not any(key in policy.logs and key.name == checkpoint.origin for key in keys):
        raise VerificationError(Code.SIGNATURE, "no log of the policy signed the checkpoint")
    if not policy.satisfied(policy.names_of(keys)):
        raise VerificationError(Code.SIGNATURE, "the cosignatures do not satisfy the quorum")
    verify_inclusion(leaf_hash, proof.index, checkpoint.size, proof.hashes, checkpoint.root)
    return checkpoint


def add_checkpoint_request(old_size: int, proof: Sequence[bytes], checkpoint: str) -> str:
    """Write the body of a witness's add-checkpoint: old size, consistency proof, signed checkpoint (C2SP tlog-witness).

    proof: at most 63 hashes of 32 bytes, none when old_size is 0. Raises FormatError(TLOG_PROOF).
    """
    if old_size < 0 or (old_size == 0 and proof):
        raise FormatError(Code.TLOG_PROOF, "no consistency proof starts at size 0")
    return f"old {old_size}\n{_proof_lines(proof)}\n{checkpoint}"


def _proof_lines(hashes: Sequence[bytes]) -> str:
    if len(hashes) > MAX_HASHES or any(len(item) != HASH_BYTES for item in hashes):
        raise FormatError(Code.TLOG_PROOF, f"a proof is at most {MAX_HASHES} hashes of {HASH_BYTES} bytes")
    return "".join(encode_base64(item) + "\n" for item in hashes)


def _part(what: str, encoded: str, length: int | None = None) -> bytes:
    try:
        return parse_base64(encoded, length)
    except FormatError as error:
        raise FormatError(Code.TLOG_PROOF, f"{what}: {error.message}") from error


def _decode(text: str | bytes) -> str:
    if len(text) > MAX_PROOF_CHARACTERS:
        raise FormatError(Code.TLOG_PROOF, f"a proof has at most {MAX_PROOF_CHARACTERS} characters")
    try:
        return text.decode() if isinstance(text, bytes) else text.encode().decode()
    except UnicodeError as error:
        raise FormatError(Code.TLOG_PROOF, "a proof is UTF-8") from error
