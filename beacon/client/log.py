"""The log as the SDK sees it: receipts checked with the pinned keys, checkpoints that never go back, files of both.

Every receipt shows two roots beside its checkpoint's own: those of the trees that end before and behind its entry,
since the left siblings of an inclusion proof are the whole tree before the entry (RFC 6962, 2.1.1). So without asking
anybody, trees of the same size are compared that different answers were about.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from verifier import entries
from verifier.drand import ChainInfo
from verifier.encoding import Json
from verifier.errors import VerifierError
from verifier.evidence import LogClaim
from verifier.log_keys import LogTrust, require_signed
from verifier.merkle import node_hash
from verifier.note import Checkpoint
from verifier.session import collect
from verifier.transcript import Event, SignedCheckpoint, Transcript, document_bytes, parse_transcript
from verifier.verdict import State

MAX_ROOTS: Final = 10_000
CHECKPOINT_FILE: Final = "checkpoint"


class Dishonest(Exception):  # noqa: N818 - it says what the service is
    """The service, or whoever answers in its place, said what cannot be so. Never retry; keep `document`.

    what: in a sentence. document: the receipt or transcript that shows it, exact bytes, where there is one.
    """

    def __init__(self, what: str, document: bytes | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.document = document


@dataclass(frozen=True, slots=True)
class Receipt:
    """An entry that is in the log, by its signed checkpoint.

    chain: the hash of its session's chain, one of the pinned ones, 32 bytes. received: when it was here, in ms of the
    caller's clock. document: what `verifier receipt` reads.
    """

    event: Event
    received: int
    document: bytes = field(repr=False)
    chain: bytes = field(repr=False)
    signed: SignedCheckpoint = field(repr=False)

    @property
    def index(self) -> int:
        """Its place in the log."""
        return self.event.index

    @property
    def entry(self) -> entries.Entry:
        """What it says."""
        return self.event.entry


def open_receipt(document: Json, key: LogTrust, chains: Mapping[bytes, ChainInfo], received: int) -> Receipt:
    """Check a receipt: signed by the log's key, the entry in the tree, the chain a pinned one. Takes milliseconds.

    Raises Dishonest, also for a chain that is not among `chains`: nothing could be verified of it.
    """
    if not isinstance(document, dict):
        raise Dishonest("there is no receipt where one is due")
    data = document_bytes(document)
    transcript = open_document(data, key, chains)
    if len(transcript.events) != 1:
        raise Dishonest("a receipt has one event", data)
    chain = bytes.fromhex(str(transcript.info["hash"]))
    return Receipt(transcript.events[0], received, data, chain, transcript.signed)


def open_document(data: bytes, key: LogTrust, chains: Mapping[bytes, ChainInfo]) -> Transcript:
    """A receipt or transcript whose entries are in the log under its signed checkpoint. Raises as `open_receipt`."""
    try:
        transcript = parse_transcript(data)
        claim = LogClaim(transcript, collect(transcript), key, None).claim()
    except VerifierError as error:
        raise Dishonest(f"not a document of the protocol: {error.message}", data) from error
    if claim.state != State.PROVEN:
        raise Dishonest(f"not in the log: {claim.text}", data)
    named = bytes.fromhex(str(transcript.info["hash"]))
    if named not in chains:
        raise Dishonest(f"the session is bound to a chain that is not pinned here (`chains`): {named.hex()}", data)
    if transcript.info != chains[named].as_dict():
        raise Dishonest("the document's chain is not the one that is pinned under this hash", data)
    return transcript


def prefix_roots(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> dict[int, bytes]:
    """The roots of the trees of the first `index` and `index` + 1 leaves, by size, that an inclusion proof implies."""
    left, node, last = [], index, size - 1
    for sibling in proof:
        if node & 1 or node == last:
            left.append(sibling)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        node, last = node >> 1, last >> 1
    before, behind = None, leaf
    for sibling in left:
        before = sibling if before is None else node_hash(sibling, before)
        behind = node_hash(sibling, behind)
    return {index + 1: behind} | ({} if before is None else {index: before})


class LogView:
    """What was seen of one log: the largest checkpoint, and the newest 10,000 roots by the size of their trees."""

    def __init__(self, key: LogTrust) -> None:
        self.key: Final = key
        self.largest: SignedCheckpoint | None = None
        self._roots: Final[OrderedDict[int, bytes]] = OrderedDict()

    @property
    def size(self) -> int:
        """How many entries the log is known to have: no later answer may show fewer."""
        return 0 if self.largest is None else self.largest.checkpoint.size

    def restore(self, note: bytes) -> None:
        """Start from a checkpoint that was kept. Raises Dishonest unless the log's key has signed it."""
        try:
            signed = SignedCheckpoint.parse(note.decode())
            require_signed(signed.note, signed.checkpoint, self.key)
        except (VerifierError, UnicodeDecodeError) as error:
            raise Dishonest("the checkpoint that was kept is not signed by this log's key", note) from error
        self.admit(signed, 0, {}, note)

    def see(self, receipt: Receipt, floor: int) -> None:
        """Take note of a receipt's checkpoint and of the roots that it implies. Raises as `admit`."""
        event, size = receipt.event, receipt.signed.checkpoint.size
        implied = prefix_roots(event.leaf, event.index, size, event.proof)
        self.admit(receipt.signed, floor, implied, receipt.document)

    def admit(self, signed: SignedCheckpoint, floor: int, implied: Mapping[int, bytes], document: bytes) -> None:
        """Take note of a checkpoint. floor: the size that was known when the answer was asked for.

        Raises Dishonest for a smaller one, or another root of the same size.
        """
        checkpoint: Checkpoint = signed.checkpoint
        if checkpoint.size < floor:
            text = f"the log has gone back: a checkpoint of {checkpoint.size} entries, after one of {floor}"
            raise Dishonest(text, document)
        for size, root in [(checkpoint.size, checkpoint.root), *implied.items()]:
            if self._roots.setdefault(size, root) != root:
                raise Dishonest(f"the log has two histories: two roots of {size} entries", document)
        if self.largest is None or checkpoint.size > self.size:
            self.largest = signed
        while len(self._roots) > MAX_ROOTS:
            self._roots.popitem(last=False)


class Shelf:
    """A folder: the largest checkpoint, and a folder for each session with its receipts, one file each. Blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder

    def keep(self, session: str, receipt: Receipt) -> None:
        """Keep a receipt, durably, as `SESSION/INDEX-TYPE.json`."""
        name = f"{receipt.index:012}-{receipt.entry.type}.json"
        _write(self._folder / session / name, receipt.document)

    def keep_checkpoint(self, signed: SignedCheckpoint) -> None:
        """Keep the largest checkpoint."""
        _write(self._folder / CHECKPOINT_FILE, signed.note.encode().encode())

    def checkpoint(self) -> bytes | None:
        """The checkpoint that was kept, or None."""
        with suppress(FileNotFoundError):
            return (self._folder / CHECKPOINT_FILE).read_bytes()
        return None

    def receipts(self, session: str) -> list[tuple[int, bytes]]:
        """The receipts of a session, in log order, and when they were kept, in ms."""
        paths = sorted((self._folder / session).glob("*.json"))
        return [(path.stat().st_mtime_ns // 1_000_000, path.read_bytes()) for path in paths]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{id(data)}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
