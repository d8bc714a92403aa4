"""Transcripts and receipts: the document's form (PROTOCOL.md, 7.2). Nothing in it is verified here.

{"format": "fair-beacon/transcript/v1", "origin": ..., "log_key": <vkey>, "chain": {...info...},
 "events": [{"index": 17, "entry": "<exact entry text>", "proof": ["<base64 hash>", ...]}, ...],
 "checkpoint": "<signed note>",
 "evidence": [{"checkpoint": "<cosigned note>", "consistency": [...], "proofs": {"17": [...]}}, ...]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar

from verifier import entries
from verifier.encoding import (
    MAX_INTEGER,
    Json,
    check_string,
    encode_base64,
    encode_json,
    parse_base64,
    parse_decimal,
    parse_document_json,
)
from verifier.errors import Code, FormatError, VerifierError
from verifier.merkle import leaf_hash
from verifier.note import Checkpoint, Note, VerifierKey

T = TypeVar("T")

FORMAT: Final = "fair-beacon/transcript/v1"
HASH_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Event:
    """One leaf: its log index, the exact bytes, what they say, and its inclusion proof in the document's checkpoint."""

    index: int
    data: bytes
    entry: entries.Entry
    proof: tuple[bytes, ...]

    @property
    def leaf(self) -> bytes:
        """The leaf hash, 32 bytes; of a seal it names the session (3.6)."""
        return leaf_hash(self.data)


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint and the note that carries its signatures, none of them verified."""

    note: Note
    checkpoint: Checkpoint

    @classmethod
    def parse(cls, text: str) -> SignedCheckpoint:
        """Parse a signed note whose text is a checkpoint without extension lines. Raises FormatError."""
        note = Note.parse(text)
        checkpoint = Checkpoint.parse(note.text)
        if checkpoint.extensions:
            raise FormatError(Code.CHECKPOINT, "checkpoints have no extension lines")
        return cls(note, checkpoint)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A checkpoint that witnesses saw, and how it hangs together with the document's."""

    signed: SignedCheckpoint
    consistency: tuple[bytes, ...]
    proofs: Mapping[int, tuple[bytes, ...]] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A document as it stands. `info` is the chain's as the document has it; a verifier uses its own."""

    origin: str
    log_key: VerifierKey
    info: Mapping[str, Json] = field(hash=False)
    events: tuple[Event, ...] = ()
    signed: SignedCheckpoint = field(kw_only=True)
    evidence: tuple[Evidence, ...] = ()

    @property
    def consecutive(self) -> bool:
        """Whether the events are all the leaves from the first to the last."""
        return self.events[-1].index - self.events[0].index == len(self.events) - 1

    @property
    def seal(self) -> Event | None:
        """The first seal, which names the document's session; None in the receipt of another entry."""
        return next((event for event in self.events if isinstance(event.entry, entries.Seal)), None)


def parse_transcript(data: bytes) -> Transcript:
    """The transcript or receipt of a document (at most 64 MiB). Raises FormatError (7.2, section 3)."""
    document = parse_document_json(data)
    if "format" in document and document["format"] != FORMAT:
        raise FormatError(Code.DOCUMENT, f"not a document of the format {FORMAT}, which this program knows alone")
    _exactly(document, {"format", "origin", "log_key", "chain", "events", "checkpoint", "evidence"})
    transcript = Transcript(
        origin=_text(document["origin"]),
        log_key=VerifierKey.parse(_text(document["log_key"])),
        info=_info(document["chain"]),
        events=_list(document["events"], _event),
        signed=SignedCheckpoint.parse(_note(document["checkpoint"])),
        evidence=_list(document["evidence"], _evidence),
    )
    _check_events(transcript)
    return transcript


def encode_transcript(
    origin: str,
    log_key: str,
    info: Mapping[str, Json],
    events: Sequence[tuple[int, bytes, Sequence[bytes]]],
    checkpoint: str,
    evidence: Sequence[Mapping[str, Json]] = (),
) -> dict[str, Json]:
    """The document of (index, entry bytes, proof) triples under a signed checkpoint. A receipt has one triple."""
    return {
        "format": FORMAT,
        "origin": origin,
        "log_key": log_key,
        "chain": dict(info),
        "events": [
            {"index": index, "entry": entry.decode("utf-8"), "proof": [encode_base64(node) for node in proof]}
            for index, entry, proof in events
        ],
        "checkpoint": checkpoint,
        "evidence": [dict(item) for item in evidence],
    }


def document_bytes(document: Mapping[str, Json]) -> bytes:
    """The UTF-8 text of a document, compact, with a final newline."""
    return encode_json(document) + b"\n"


def _exactly(value: Mapping[str, Json], names: set[str]) -> None:
    if value.keys() != names:
        wrong = min(names ^ value.keys())
        verb = "is missing" if wrong in names else "is unknown"
        raise FormatError(Code.DOCUMENT, f"the field {wrong!r} {verb}")


def _object(value: Json, names: set[str]) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise FormatError(Code.DOCUMENT, "an object is due here")
    _exactly(value, names)
    return value


def _note(value: Json) -> str:
    if not isinstance(value, str):
        raise FormatError(Code.DOCUMENT, "a string is due here")
    return value


def _text(value: Json) -> str:
    return check_string(_note(value))


def _list(value: Json, parse: Callable[[Json], T]) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise FormatError(Code.DOCUMENT, "a list is due here")
    return tuple(parse(item) for item in value)


def _hash(value: Json) -> bytes:
    return parse_base64(value, HASH_BYTES)


def _proof(value: Json) -> tuple[bytes, ...]:
    return _list(value, _hash)


def _info(value: Json) -> dict[str, Json]:
    try:
        info = entries.parse_info(value)
        for name in ("scheme", "beacon_id"):
            _text(info[name])
    except FormatError as error:
        raise FormatError(error.code, f"chain: {error.message}") from error
    return info


def _event(value: Json) -> Event:
    event = _object(value, {"index", "entry", "proof"})
    index = event["index"]
    if type(index) is not int or not 0 <= index <= MAX_INTEGER:
        raise FormatError(Code.DOCUMENT, "an event's index is an integer from 0")
    data = _text(event["entry"]).encode("utf-8")
    try:
        entry = entries.parse_entry(data)
    except VerifierError as error:
        raise FormatError(error.code, f"entry {index}: {error.message}") from error
    return Event(index, data, entry, _proof(event["proof"]))


def _evidence(value: Json) -> Evidence:
    item = _object(value, {"checkpoint", "consistency", "proofs"})
    proofs = item["proofs"]
    if not isinstance(proofs, dict):
        raise FormatError(Code.DOCUMENT, "proofs is an object")
    return Evidence(
        SignedCheckpoint.parse(_note(item["checkpoint"])),
        _proof(item["consistency"]),
        {parse_decimal(index, MAX_INTEGER): _proof(proof) for index, proof in proofs.items()},
    )


def _check_events(transcript: Transcript) -> None:
    events = transcript.events
    if not events:
        raise FormatError(Code.DOCUMENT, "a document has one event at least")
    indices = [event.index for event in events]
    if any(later <= earlier for earlier, later in pairwise(indices)):
        raise FormatError(Code.DOCUMENT, "the events' indices do not increase")
    shown = set(indices)
    if any(index not in shown for item in transcript.evidence for index in item.proofs):
        raise FormatError(Code.DOCUMENT, "evidence for an event that is not shown")
    if len(events) == 1:
        return
    seal = transcript.seal
    if seal is None:
        raise FormatError(Code.DOCUMENT, "no seal among several events")
    if not transcript.consecutive:
        session, used = seal.leaf, rounds_used(transcript)
        if any(event.leaf != session and not _belongs(event.entry, session, used) for event in events):
            raise FormatError(Code.DOCUMENT, "a leaf of another session among events that are not consecutive")
    elif events[0] is not seal:
        raise FormatError(Code.DOCUMENT, "consecutive events start with the session's seal")


def rounds_used(transcript: Transcript) -> set[tuple[bytes, int]]:
    """The (chain hash, round) pairs that the document's session waits for: R, each call's R_k, the timelock's."""
    event = transcript.seal
    if event is None:
        return set()
    seal = event.entry
    assert isinstance(seal, entries.Seal)
    session = event.leaf
    used = {(seal.chain, seal.round)} if seal.round is not None else set()
    if seal.timelock is not None:
        used.add((seal.timelock.chain, seal.timelock.round))
    for other in transcript.events:
        if isinstance(other.entry, entries.Call) and other.entry.session == session:
            used.add((seal.chain, other.entry.round))
    return used


def _belongs(entry: entries.Entry, session: bytes, used: set[tuple[bytes, int]]) -> bool:
    """Whether an entry is one of the session's own (beside its seal), or a round that it uses."""
    if isinstance(entry, entries.Round):
        return (entry.chain, entry.round) in used
    return isinstance(entry, entries.SessionEntry) and entry.session == session
