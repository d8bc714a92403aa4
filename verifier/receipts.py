"""Is my own entry, with my own bytes, in that transcript? (PROTOCOL.md, 7.2; section 1: what no transcript shows.)

A receipt is a document of one event, or a C2SP tlog-proof whose `extra` is the entry. Whoever holds it asks whether a
transcript has that very entry at that very index, or nothing, or something else in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from verifier import entries
from verifier.encoding import Json
from verifier.errors import Code, FormatError
from verifier.evidence import LogClaim
from verifier.note import VerifierKey
from verifier.session import collect
from verifier.tlog_proof import TlogProof
from verifier.transcript import Event, SignedCheckpoint, Transcript, parse_transcript
from verifier.verdict import Claim, Exit, State

_TLOG_PROOF: Final = b"c2sp.org/tlog-proof@"


class Found(StrEnum):
    """Where the receipt's entry is."""

    PRESENT = "present"
    ABSENT = "absent"
    REPLACED = "replaced"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receipt shows, what the transcript has, and both logs' claims under the key that was given."""

    found: Found
    text: str
    exit: Exit
    index: int
    type: str
    receipt_log: Claim
    transcript_log: Claim

    def as_dict(self) -> dict[str, Json]:
        return {
            "found": self.found,
            "text": self.text,
            "exit": int(self.exit),
            "entry": {"index": self.index, "type": self.type},
            "receipt_log": self.receipt_log.as_dict(),
            "transcript_log": self.transcript_log.as_dict(),
        }


def compare(receipt: bytes, transcript: bytes, log_key: VerifierKey | None) -> Answer:
    """Look up the receipt's entry in the transcript. Raises FormatError for unusable input.

    Exit: 0 present; 1 absent, replaced, or one of the two documents is false under the key; 2 when the transcript ends
    before the receipt's entry, or when it is missed but no key says that the receipt is true.
    """
    whole = _parse(transcript, "the transcript", parse_transcript)
    mine = _parse(receipt, "the receipt", lambda data: _parse_receipt(data, whole))
    event = mine.events[0]
    logs = [LogClaim(document, collect(document), log_key, None).claim() for document in (mine, whole)]
    found, text = _look(event, mine, whole)
    if any(other.index == event.index and other.data != event.data for other in whole.events) and all(
        log.state == State.PROVEN for log in logs
    ):
        text += "; the log signed both: it has shown two histories, and the two files prove it"
    code = {Found.PRESENT: Exit.FAIR, Found.NOT_COVERED: Exit.UNDECIDED}.get(found, Exit.FAILED)
    if any(log.state == State.FAILED for log in logs):
        code = Exit.FAILED
    elif code == Exit.FAILED and log_key is None:
        code = Exit.UNDECIDED
        text += "; without the log's key (--log-key) nothing says that the receipt is true"
    return Answer(found, text, code, event.index, event.entry.type, logs[0], logs[1])


def _parse(data: bytes, what: str, parse: Callable[[bytes], Transcript]) -> Transcript:
    try:
        return parse(data)
    except FormatError as error:
        raise FormatError(error.code, f"{what}: {error.message}") from error


def _parse_receipt(data: bytes, whole: Transcript) -> Transcript:
    """A tlog-proof names neither chain nor log key, and nothing is asked of them: the transcript's stand in."""
    if not data.startswith(_TLOG_PROOF):
        receipt = parse_transcript(data)
        if len(receipt.events) != 1:
            raise FormatError(Code.DOCUMENT, "a receipt has exactly one event")
        return receipt
    proof = TlogProof.parse(data)
    if proof.extra is None:
        raise FormatError(Code.TLOG_PROOF, "no extra line with the entry")
    event = Event(proof.index, proof.extra, entries.parse_entry(proof.extra), proof.hashes)
    signed = SignedCheckpoint.parse(proof.checkpoint)
    return Transcript(signed.checkpoint.origin, whole.log_key, whole.info, (event,), signed=signed)


def _look(event: Event, mine: Transcript, whole: Transcript) -> tuple[Found, str]:
    what = f"the {event.entry.type} of entry {event.index}"
    if mine.origin != whole.origin:
        return Found.ABSENT, f"{what} is of the log {mine.origin}, the transcript of {whole.origin}"
    at_index = {other.index: other for other in whole.events}
    same = at_index.get(event.index)
    if same is not None and same.data == event.data:
        return Found.PRESENT, f"{what} is in the transcript, byte for byte"
    if same is not None:
        return (
            Found.REPLACED,
            f"{what} is not there: the transcript has another entry at that index, a {same.entry.type}",
        )
    session, shown = _session_of(event), whole.seal
    if session is not None and shown is not None and session != shown.leaf:
        return Found.ABSENT, f"{what} is of session {session.hex()}, the transcript of {shown.leaf.hex()}"
    for other in whole.events:
        if _place(other) is not None and _place(other) == _place(event):
            change = "with the same bytes" if other.data == event.data else "with other bytes"
            return Found.REPLACED, f"{what} is not there: in its place stands entry {other.index}, {change}"
    if event.index >= whole.signed.checkpoint.size:
        return Found.NOT_COVERED, f"{what} is newer than the transcript, whose checkpoint covers fewer entries"
    return Found.ABSENT, f"{what} is not in the transcript"


def _session_of(event: Event) -> bytes | None:
    if isinstance(event.entry, entries.Seal):
        return event.leaf
    return event.entry.session if isinstance(event.entry, entries.SessionEntry) else None


def _place(event: Event) -> tuple[object, ...] | None:
    """What an entry is the only one of (6.1, 6.8); None where it is no session's."""
    match event.entry:
        case entries.Seal():
            return ("seal", event.leaf)
        case entries.Contribution(session=session, participant=participant):
            return ("contribution", session, participant)
        case entries.Close(session=session):
            return ("close", session)
        case entries.Call(session=session, draw=k):
            return ("call", session, k)
        case entries.Draw(session=session, draw=None, recipe=recipe, n=n):
            return ("draw", session, recipe, n)
        case entries.Draw(session=session, draw=k):
            return ("draw", session, k)
        case entries.Reveal(session=session) | entries.Void(session=session):
            return ("end", session)
        case entries.Round(chain=chain, round=number):
            return ("round", chain, number)
        case _:
            return None
