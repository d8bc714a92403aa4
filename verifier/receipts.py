"""Is my own entry, with my own bytes, in that transcript? (PROTOCOL.md, 7.2; section 1: what no transcript shows.)

A receipt is a document of one event, or a C2SP tlog-proof whose `extra` is the entry. Whoever holds it asks whether a
transcript has that very entry at that very index, or nothing, or something else in its place. The service's whole
answer, which has receipts in its fields, is taken as a receipt too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from verifier import entries
from verifier.encoding import Json, parse_document_json
from verifier.errors import Code, FormatError, VerifierError
from verifier.evidence import LogClaim
from verifier.log_keys import LogTrust
from verifier.session import Session, collect
from verifier.tlog_proof import TlogProof
from verifier.transcript import Event, SignedCheckpoint, Transcript, document_bytes, parse_transcript
from verifier.verdict import Claim, Exit, State

TLOG_PROOF: Final = b"c2sp.org/tlog-proof@"


class Found(StrEnum):
    """Where the receipt's entry is."""

    PRESENT = "present"
    ABSENT = "absent"
    REPLACED = "replaced"
    NOT_COVERED = "not covered"
    NOT_COUNTED = "not counted"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receipt shows, what the transcript has, and both logs' claims under the key that was given.

    `field`: where in the service's answer the receipt stood, if such an answer was given.
    """

    found: Found
    text: str
    exit: Exit
    index: int
    type: str
    receipt_log: Claim
    transcript_log: Claim
    field: str | None = None

    @property
    def headline(self) -> str:
        """The answer in one line, which never says more than the log's signature carries."""
        failed = [
            f"the {what} is false: {log.text}"
            for what, log in (("receipt", self.receipt_log), ("transcript", self.transcript_log))
            if log.state == State.FAILED
        ]
        if failed:
            return f"FAILED: {'; '.join(failed)}. As it stands, {self.found}: {self.text}."
        if State.UNKNOWN in {self.receipt_log.state, self.transcript_log.state}:
            text = "NOT VERIFIED: the log's signature was not checked, since no --log-key was given"
            return f"{text}. As it stands, {self.found}: {self.text}."
        return f"{self.found.upper()}: {self.text}."

    def as_dict(self) -> dict[str, Json]:
        return {
            "headline": self.headline,
            "field": self.field,
            "found": self.found,
            "text": self.text,
            "exit": int(self.exit),
            "entry": {"index": self.index, "type": self.type},
            "receipt_log": self.receipt_log.as_dict(),
            "transcript_log": self.transcript_log.as_dict(),
        }


def compare(receipt: bytes, transcript: bytes, log_key: LogTrust | None) -> Answer:
    """Look up the receipt's entry in the transcript. Raises FormatError for unusable input.

    Exit: 0 present; 1 absent, replaced, there but not counted, or one of the two documents is false; 2 when the
    transcript ends before the receipt's entry, or without the log's key, which alone says that the two files are true.
    """
    whole = _parse(transcript, "the transcript", parse_document)
    field, receipt = _chosen(receipt)
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
    elif any(log.state == State.UNKNOWN for log in logs):
        code = Exit.UNDECIDED
    return Answer(found, text, code, event.index, event.entry.type, logs[0], logs[1], field)


def answered(data: bytes) -> list[tuple[str, bytes]]:
    """The documents in the service's answer to a write, each with the field where it stands; none in anything else."""
    try:
        value = parse_document_json(data)
    except FormatError:
        return []
    if "format" in value:
        return []
    found = [(name, value.get(name)) for name in ("receipt", "close_receipt")]
    listed = value.get("receipts")
    if isinstance(listed, list):
        found += [(f"receipts[{number}]", item) for number, item in enumerate(listed)]
    return [(name, document_bytes(item)) for name, item in found if isinstance(item, dict) and "format" in item]


def parse_document(data: bytes) -> Transcript:
    """`parse_transcript` that tells the service's whole answer from a document that is damaged."""
    try:
        return parse_transcript(data)
    except FormatError as error:
        whole = explain_answer(data)
        raise whole if whole is not None else error from error


def explain_answer(data: bytes) -> FormatError | None:
    """The error for the service's answer where a document is due; None if it is something else."""
    fields = [name for name, _ in answered(data)]
    if not fields:
        return None
    text = f"this is the service's answer; give the object in its `{fields[0]}` field"
    return FormatError(Code.DOCUMENT, text + (f" (or in {', '.join(fields[1:])})" if len(fields) > 1 else ""))


def _chosen(data: bytes) -> tuple[str | None, bytes]:
    """(field, receipt) of the service's answer: its one document, or the first contribution; else (None, data)."""
    documents = answered(data)
    if len(documents) <= 1:
        return documents[0] if documents else (None, data)
    for field, document in documents:
        with suppress(VerifierError):
            if isinstance(parse_transcript(document).events[0].entry, entries.Contribution):
                return field, document
    fields = ", ".join(field for field, _ in documents)
    text = "this is the service's answer with several receipts, none of a contribution; give one of them alone"
    raise FormatError(Code.DOCUMENT, f"the receipt: {text} ({fields})")


def _parse(data: bytes, what: str, parse: Callable[[bytes], Transcript]) -> Transcript:
    try:
        return parse(data)
    except FormatError as error:
        raise FormatError(error.code, f"{what}: {error.message}") from error


def _parse_receipt(data: bytes, whole: Transcript) -> Transcript:
    """A tlog-proof names neither chain nor log key, and nothing is asked of them: the transcript's stand in."""
    if not data.startswith(TLOG_PROOF):
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
    own, shown = _session_of(event), _session_of(whole.seal or whole.events[0])
    if own is not None and shown is not None and own != shown:
        text = f"{what} belongs to another session: it is of session {own.hex()}, the transcript of {shown.hex()}"
        return Found.ABSENT, text
    same = next((other for other in whole.events if other.index == event.index), None)
    if same is not None and same.data == event.data:
        reason = _not_counted(event, whole)
        if reason is not None:
            return Found.NOT_COUNTED, f"{what} is in the log, but does not count: {reason}"
        return Found.PRESENT, f"{what} is in the transcript, byte for byte"
    if same is not None:
        return (
            Found.REPLACED,
            f"{what} is not there: the transcript has another entry at that index, a {same.entry.type}",
        )
    for other in whole.events:
        if _place(other) is not None and _place(other) == _place(event):
            change = "with the same bytes" if other.data == event.data else "with other bytes"
            return Found.REPLACED, f"{what} is not there: in its place stands entry {other.index}, {change}"
    if event.index >= whole.signed.checkpoint.size:
        return Found.NOT_COVERED, f"{what} is newer than the transcript, whose checkpoint covers fewer entries"
    return Found.ABSENT, f"{what} is not in the transcript"


def _not_counted(event: Event, whole: Transcript) -> str | None:
    """Why the session of the transcript takes no notice of one of its leaves (6.1, 6.5, 6.8); None if it does."""
    session = collect(whole)
    if session is None or event.index in _counted(session):
        return None
    if _session_of(event) is None:
        return "the session does not use it"
    if session.end is not None and event.index > session.end.index:
        return "it was logged after the session's end"
    if event.index < session.seal.index:
        return "it stands before the session's seal"
    first = next((other for other in whole.events if _place(other) == _place(event)), event)
    if first.index != event.index:
        whose = " of the same participant" if isinstance(event.entry, entries.Contribution) else ""
        return f"it is a second one{whose}, after entry {first.index}"
    if isinstance(event.entry, entries.Contribution):
        return "it was logged after the close"
    return "what it says was taken before"


def _counted(session: Session) -> set[int]:
    """The log indices of the entries that a session is made of."""
    single = (session.seal, session.close, session.reveal, session.void)
    several = (session.contributions, session.calls.values(), session.draws, session.rounds.values())
    return {one.index for one in single if one is not None} | {one.index for many in several for one in many}


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
