"""Where an audited log comes from: the tiles at an address, or a database file. Both are read as one `Tree`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from verifier import whole_log
from verifier.audit.trees import Read, Tree
from verifier.encoding import MAX_INTEGER
from verifier.errors import Code, FormatError, VerifierError
from verifier.log_keys import LogTrust, require_signed
from verifier.merkle import HASH_BYTES, leaf_hash, tree_root
from verifier.tiles import ENTRIES, TILE_WIDTH, encode_bundle, parse_tile_path
from verifier.transcript import SignedCheckpoint

Download = Callable[[str, int], bytes]
Cosigned = Callable[[int], Iterable[SignedCheckpoint]]
"""(size) -> the larger checkpoints that the log shows with cosignatures, beside its newest; none of it is verified."""


@dataclass(frozen=True, slots=True)
class Source:
    """A log as somebody shows it now: its newest checkpoint, and the tree below it."""

    signed: SignedCheckpoint
    tree: Tree
    cosigned: Cosigned

    def check(self, key: LogTrust | None) -> None:
        """Verify the checkpoint's signature, if a key is given, and that the tiles lead to its root.

        Raises VerificationError(SIGNATURE, INCLUSION), FormatError(CHECKPOINT) for more entries than can be numbered.
        """
        check_signature(self.signed, key)
        if self.tree.size > MAX_INTEGER:
            raise FormatError(Code.CHECKPOINT, f"a log has at most {MAX_INTEGER} entries")
        self.tree.check()


def check_signature(signed: SignedCheckpoint, key: LogTrust | None) -> None:
    """Raises VerificationError(SIGNATURE) unless the checkpoint is of the keys' log and signed by one of them."""
    if key is not None:
        require_signed(signed.note, signed.checkpoint, key)


def log_prefix(url: str) -> str:
    """Where a log's tiles are, by the address of a service, of its log, or of the checkpoint."""
    base = url.rstrip("/").removesuffix("/checkpoint")
    return base if base.endswith("/log") else f"{base}/log"


def of_address(url: str, download: Download) -> Source:
    """The log at an address. Raises FormatError, and what download(address, limit) raises."""
    prefix = log_prefix(url)
    try:
        note = download(f"{prefix}/checkpoint", whole_log.MAX_CHECKPOINT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(Code.CHECKPOINT, f"{prefix}/checkpoint is no checkpoint") from error
    signed = SignedCheckpoint.parse(note)

    def cosigned(size: int) -> Iterator[SignedCheckpoint]:
        with suppress(VerifierError, UnicodeDecodeError):  # not every log has this resource, which tlog-tiles does not
            shown = SignedCheckpoint.parse(download(f"{prefix}/witnessed", whole_log.MAX_CHECKPOINT_BYTES).decode())
            if shown.checkpoint.size > size:
                yield shown

    return _source(signed, lambda path, limit: download(f"{prefix}/{path}", limit), cosigned)


@contextmanager
def of_database(path: Path | str) -> Iterator[Source]:
    """The log in a database file. Its stored hashes are not read: its entries are hashed, all of them, first."""
    with whole_log.of_database(path) as log:
        size = log.size
        subtrees = [
            tree_root([leaf_hash(entry) for entry in _all_there(log.batch, first, first + TILE_WIDTH)])
            for first in range(0, size - TILE_WIDTH + 1, TILE_WIDTH)
        ]
        yield _source(log.signed, _reader(log.batch, size, subtrees), log.cosigned)


def _source(signed: SignedCheckpoint, read: Read, cosigned: Cosigned) -> Source:
    return Source(signed, Tree(read, signed.checkpoint.size, signed.checkpoint.root), cosigned)


def _reader(batch: whole_log.Batch, size: int, subtrees: list[bytes]) -> Read:
    """Gives tiles of a tree whose entries are at hand. subtrees: the hashes of level 1, of 256 leaves each."""

    def read(path: str, _: int) -> bytes:
        tile = parse_tile_path(path)
        first = tile.index * TILE_WIDTH
        if tile.level <= 0:
            entries = _all_there(batch, first, first + tile.width)
            return encode_bundle(entries) if tile.level == ENTRIES else b"".join(map(leaf_hash, entries))
        hashes = subtrees
        for _level in range(1, tile.level):
            hashes = [
                tree_root(hashes[at : at + TILE_WIDTH]) for at in range(0, len(hashes) - TILE_WIDTH + 1, TILE_WIDTH)
            ]
        found = b"".join(hashes[first : first + tile.width])
        assert len(found) == tile.width * HASH_BYTES <= size * HASH_BYTES
        return found

    return read


def _all_there(batch: whole_log.Batch, first: int, end: int) -> list[bytes]:
    entries = batch(first, end)
    if len(entries) != end - first:
        raise FormatError(Code.DOCUMENT, f"the entries {first} to {end - 1} are not all there")
    return entries
