"""Two checkpoints of one log that do not agree, as a file that a stranger can check with the log's key alone.

    {"format": "fair-beacon/fork/v1", "older": <signed note>, "newer": <signed note>,
     "prefix_root": <base64>, "consistency": [<base64>, ...]}

prefix_root is the root that the newer tree has at the older one's size: `consistency` proves it (RFC 9162, 2.1.4.2).
The log signed another root for that size, so it has shown two histories.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from verifier import merkle
from verifier.audit.sources import check_signature
from verifier.encoding import encode_base64, encode_json, parse_base64, parse_document_json
from verifier.errors import Code, FormatError, VerificationError
from verifier.log_keys import LogTrust
from verifier.transcript import SignedCheckpoint

FORMAT: Final = "fair-beacon/fork/v1"
_FIELDS: Final = {"format", "older", "newer", "prefix_root", "consistency"}


@dataclass(frozen=True, slots=True)
class Fork:
    """The evidence. older.size <= newer.size; hashes of 32 bytes."""

    older: SignedCheckpoint
    newer: SignedCheckpoint
    prefix_root: bytes
    consistency: Sequence[bytes]

    @classmethod
    def parse(cls, data: bytes) -> Fork:
        """Raises FormatError."""
        document = parse_document_json(data)
        if document.get("format") != FORMAT or document.keys() != _FIELDS:
            raise FormatError(Code.DOCUMENT, f"not a document of the format {FORMAT}")
        older, newer, proof = document["older"], document["newer"], document["consistency"]
        if not isinstance(older, str) or not isinstance(newer, str) or not isinstance(proof, list):
            raise FormatError(Code.DOCUMENT, "older and newer are signed notes, consistency is a list")
        hashes = [parse_base64(item, merkle.HASH_BYTES) for item in proof]
        root = parse_base64(document["prefix_root"], merkle.HASH_BYTES)
        return cls(SignedCheckpoint.parse(older), SignedCheckpoint.parse(newer), root, hashes)

    def encode(self) -> bytes:
        document = {
            "format": FORMAT,
            "older": self.older.note.encode(),
            "newer": self.newer.note.encode(),
            "prefix_root": encode_base64(self.prefix_root),
            "consistency": [encode_base64(item) for item in self.consistency],
        }
        return encode_json(document) + b"\n"

    def check(self, key: LogTrust | None) -> None:
        """Raises VerificationError unless the log signed two histories; without a key: unless they differ."""
        older, newer = self.older.checkpoint, self.newer.checkpoint
        if older.origin != newer.origin:
            raise VerificationError(Code.CONSISTENCY, "the two checkpoints are of different logs")
        for signed in (self.older, self.newer):
            check_signature(signed, key)
        merkle.verify_consistency(older.size, newer.size, self.consistency, self.prefix_root, newer.root)
        if self.prefix_root == older.root:
            raise VerificationError(Code.CONSISTENCY, "the two checkpoints agree")

    def write(self, directory: Path) -> Path:
        """Keep it in a directory, under a name of its own; once, whoever sees it how often."""
        data = self.encode()
        sizes = f"{self.older.checkpoint.size}-{self.newer.checkpoint.size}"
        path = directory / f"fork-{sizes}-{hashlib.sha256(data).hexdigest()[:12]}.json"
        if not path.exists():
            beside = path.with_suffix(".part")
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(path)
        return path
