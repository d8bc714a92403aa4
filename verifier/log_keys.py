"""The keys of a log, and the checkpoints that each of them signs: a log may change its key (PROTOCOL.md, 7.4).

    <vkey>              signs the checkpoints of all sizes
    <vkey> 1-4711       signed those of 1 to 4711 entries and signs none any more: a key that was retired
    <vkey> 4000-        signs those of 4000 entries and more

One key a line. A checkpoint that only a key signed whose sizes it is not of is not the log's: somebody else has that
key, if the sizes are right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self, TypeAlias

from verifier.encoding import parse_decimal
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.note import ED25519, Checkpoint, Note, VerifierKey, open_note

MAX_KEYS: Final = 100
_RANGE: Final = re.compile(r"([0-9]+)-([0-9]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogKey:
    """A key that signs checkpoints of `first` to `last` entries, both included; None: it goes on."""

    key: VerifierKey
    first: int = 0
    last: int | None = None

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse one line. Raises FormatError(VKEY)."""
        vkey, _, rest = line.partition(" ")
        sizes = rest.strip(" ")
        key = VerifierKey.parse(vkey)
        if not sizes:
            return cls(key)
        found = _RANGE.fullmatch(sizes)
        if found is None:
            raise FormatError(Code.VKEY, "behind a log's key stand the sizes that it signs, as 1-4711 and 4711- are")
        first, last = parse_decimal(found[1]), parse_decimal(found[2]) if found[2] else None
        if last is not None and last < first:
            raise FormatError(Code.VKEY, f"no size is from {first} to {last}")
        return cls(key, first, last)

    def covers(self, size: int) -> bool:
        """Whether checkpoints of this size are the key's to sign."""
        return self.first <= size and (self.last is None or size <= self.last)

    def __str__(self) -> str:
        if not self.first and self.last is None:
            return str(self.key)
        return f"{self.key} {self.first}-{'' if self.last is None else self.last}"


@dataclass(frozen=True, slots=True)
class LogKeys:
    """What a verifier was given of logs' keys, one or more."""

    keys: tuple[LogKey, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse lines, of which empty ones say nothing. Raises FormatError(VKEY)."""
        lines = [line for line in text.split("\n") if line.strip()]
        if not 1 <= len(lines) <= MAX_KEYS:
            raise FormatError(Code.VKEY, f"1 to {MAX_KEYS} keys are due")
        return cls(tuple(LogKey.parse(line.strip()) for line in lines))

    def of(self, origin: str) -> tuple[LogKey, ...]:
        """The keys of one log."""
        return tuple(one for one in self.keys if one.key.name == origin)

    def __str__(self) -> str:
        return "\n".join(map(str, self.keys))


LogTrust: TypeAlias = VerifierKey | LogKeys
"""A log's key as a verifier was given it: one for all sizes, or several."""


class Signed(Enum):
    """What the lines of a checkpoint say of a log's keys."""

    YES = "signed"
    NO = "not signed by the log's key"
    OTHER = "no signature of a key that was given"
    FALSE = "a line of the log's key does not verify"
    BEYOND = "signed by a key of the log whose sizes do not include it: somebody else has that key, or they are wrong"


def as_keys(trust: LogTrust) -> LogKeys:
    """The keys of either form. Raises FormatError(VKEY) for one that no log signs with."""
    keys = LogKeys((LogKey(trust),)) if isinstance(trust, VerifierKey) else trust
    for one in keys.keys:
        if one.key.type != ED25519:
            raise FormatError(Code.VKEY, f"a log signs with Ed25519 (type 1); {one.key.name} is of another type")
    return keys


def name_of(trust: LogTrust) -> str:
    """The name of the first key: the origin of its log."""
    return as_keys(trust).keys[0].key.name


def signed_by(note: Note, size: int, keys: Sequence[LogKey]) -> Signed:
    """Whether one of the keys signed a checkpoint of this size, and no line of one whose size it is is false."""
    due = list(dict.fromkeys(one.key for one in keys if one.covers(size)))
    if _has_line(note, due):
        return Signed.YES if _opens(note, due) else Signed.FALSE
    if any(_opens(note, [one.key]) for one in keys if not one.covers(size)):
        return Signed.BEYOND
    names = {one.key.name for one in keys}
    return Signed.OTHER if any(line.name in names for line in note.signatures) else Signed.NO


def require_signed(note: Note, checkpoint: Checkpoint, trust: LogTrust) -> None:
    """Raise VerificationError(SIGNATURE) unless it is a checkpoint of the keys' log, of a size that is its signer's."""
    keys = as_keys(trust)
    own = keys.of(checkpoint.origin)
    if not own:
        raise VerificationError(Code.SIGNATURE, f"the key is that of another log, {keys.keys[0].key.name}")
    found = signed_by(note, checkpoint.size, own)
    if found is not Signed.YES:
        raise VerificationError(Code.SIGNATURE, f"the checkpoint of {checkpoint.size} entries: {found.value}")


def _has_line(note: Note, keys: Sequence[VerifierKey]) -> bool:
    lines = {(line.name, line.key_id) for line in note.signatures}
    return any((key.name, key.key_id) in lines for key in keys)


def _opens(note: Note, keys: Sequence[VerifierKey]) -> bool:
    try:
        open_note(note, keys)
    except VerifierError:
        return False
    return True
