"""Documents from the log: receipts of one entry, transcripts of one session (PROTOCOL.md, 7.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from sqlite_utils import Database

from beacon.log import cosignatures, reads
from beacon.log.log import Log
from beacon.log.reads import SignedCheckpoint
from beacon.log.sequencer import Appended
from beacon.sessions import evidence
from beacon.sessions.book import chain_info, session_events
from beacon.store.reader import Reader
from verifier.entries import Seal, parse_entry
from verifier.tlog_proof import TlogProof
from verifier.transcript import document_bytes, encode_transcript

T = TypeVar("T")


class Transcripts:
    """Makes documents of the log; long ones on a reader of their own."""

    def __init__(self, log: Log, origin: str) -> None:
        self._log: Final = log
        self._reader: Final = Reader(log.path, 1)
        self._origin: Final = origin
        self._vkey: Final = log.vkey

    def first_receipt(self, appended: Appended, info: Mapping[str, Any]) -> dict[str, Any]:
        """As `receipt`, of an entry that comes with its proof."""
        event = (appended.index, appended.entry, appended.proof)
        return encode_transcript(self._origin, self._vkey, info, [event], appended.checkpoint.note)

    async def receipt(self, index: int, entry: bytes, info: Mapping[str, Any]) -> dict[str, Any]:
        """The receipt of a durable entry: the entry, its proof, the newest checkpoint. info: its session's chain."""
        proof, checkpoint = await self._log.receipt_proof(index)
        return encode_transcript(self._origin, self._vkey, info, [(index, entry, proof)], checkpoint.note)

    async def tlog_proof(self, index: int, entry: bytes) -> str:
        """The receipt of a durable entry as a C2SP tlog-proof with the entry in `extra`.

        Under the checkpoint that most witnesses cosigned, of those that cover it; in a log without any, the newest.
        """
        latest, least = self._log.latest(), self._log.least

        def read(db: Database) -> str:
            size = cosignatures.best_covering(db, max(index, least - 1), latest.size) or latest.size
            (hashes,) = reads.inclusion_proofs(db, [index], size)
            note = reads.signed_note(db, size) + "".join(item.line for item in cosignatures.of(db, size))
            return TlogProof(index, tuple(hashes), note, entry).encode()

        return await self._reader.run(read)

    async def transcript(self, session: bytes) -> bytes | None:
        """The document of a session (32 bytes), ended or not, under the newest checkpoint; None when there is none."""
        checkpoint = self._log.latest()
        return await self._reader.run(lambda db: self._transcript(db, session, checkpoint))

    async def read(self, query: Callable[[Database], T]) -> T:
        """Run a query on this reader: what may be long must not hold up rounds and deadlines."""
        return await self._reader.run(query)

    def close(self) -> None:
        """Close the reader. Again is no error."""
        self._reader.close()

    def _transcript(self, db: Database, session: bytes, checkpoint: SignedCheckpoint) -> bytes | None:
        shown = [(index, entry) for index, entry in session_events(db, session) if index < checkpoint.size]
        if not shown:
            return None
        seal = parse_entry(shown[0][1])
        assert isinstance(seal, Seal)
        info = chain_info(db, seal.chain)
        assert info is not None
        proofs = reads.inclusion_proofs(db, [index for index, _ in shown], checkpoint.size)
        events = [(index, entry, proof) for (index, entry), proof in zip(shown, proofs, strict=True)]
        seen = evidence.evidence(db, evidence.anchors(shown), shown[-1][0], checkpoint)
        note = evidence.cosigned(db, checkpoint)
        return document_bytes(encode_transcript(self._origin, self._vkey, info, events, note, seen))
