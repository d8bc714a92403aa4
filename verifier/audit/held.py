"""Receipts that somebody holds, against the log that was audited: each is a promise that the log signed."""

from __future__ import annotations

from collections.abc import Iterator

from verifier.audit.run import Audit, named_key
from verifier.audit.sources import Source
from verifier.audit.state import Found
from verifier.entries import parse_entry
from verifier.errors import Code, FormatError
from verifier.evidence import LogClaim
from verifier.receipts import TLOG_PROOF, answered, parse_document
from verifier.tlog_proof import TlogProof
from verifier.transcript import Event, SignedCheckpoint, Transcript
from verifier.verdict import State


def compare(audit: Audit, source: Source, name: str, data: bytes) -> None:
    """Compare a receipt, or each receipt of the service's answer, with the log of `source`, which was audited.

    One whose checkpoint the log continues is in the log. One that it does not continue is evidence of two histories.
    Raises FormatError(USAGE) for what is no true receipt of this log, or where the log's key was not given.
    """
    for transcript in _receipts(audit, data):
        claim = LogClaim(transcript, None, audit.trust.log_key, audit.trust.policy).claim()
        if claim.state != State.PROVEN:
            raise FormatError(Code.USAGE, f"{name} is no receipt to hold against the log: {claim.text}")
        _compare(audit, source, name, transcript)
    audit.state.commit()


def _compare(audit: Audit, source: Source, name: str, receipt: Transcript) -> None:
    if receipt.origin != source.signed.checkpoint.origin:
        raise FormatError(Code.USAGE, f"{name} is a receipt of another log, {receipt.origin}")
    event, size = receipt.events[0], receipt.signed.checkpoint.size
    what = f"the {event.entry.type} of the receipt {name}, entry {event.index}"
    if size > source.tree.size:
        text = f"{what}, is under a checkpoint of {size} entries, and the log shows {source.tree.size}"
        audit.keep([Found("log", "7.2", text, event.index)])
    else:
        audit.agrees(receipt.signed, source, f"{what}, is not in this log: ")


def _receipts(audit: Audit, data: bytes) -> Iterator[Transcript]:
    for document in [found for _, found in answered(data)] or [data]:
        receipt = _of_proof(audit, document) if document.startswith(TLOG_PROOF) else parse_document(document)
        if len(receipt.events) != 1:
            raise FormatError(Code.DOCUMENT, "a receipt has exactly one event")
        yield receipt


def _of_proof(audit: Audit, data: bytes) -> Transcript:
    proof = TlogProof.parse(data)
    if proof.extra is None or audit.trust.log_key is None:
        raise FormatError(Code.USAGE, "a tlog-proof needs its extra line with the entry, and --log-key")
    event = Event(proof.index, proof.extra, parse_entry(proof.extra), proof.hashes)
    signed = SignedCheckpoint.parse(proof.checkpoint)
    return Transcript(signed.checkpoint.origin, named_key(audit.trust), {}, (event,), signed=signed)
