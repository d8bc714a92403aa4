"""What the sessions of one service share: the connection, the view of its log, the trusted chains, their rounds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from beacon.client_checks import Dishonest, LogView, Receipt, Shelf, open_document, open_receipt
from beacon.client_http import BeaconError, Transport
from verifier.bls.verify import best_backend
from verifier.check import Trust, check
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round
from verifier.encoding import Json, parse_hex
from verifier.errors import FormatError, VerifierError
from verifier.note import VerifierKey
from verifier.transcript import Transcript
from verifier.verdict import Verdict

MAX_ROUNDS: Final = 1_024
ROUND_SECONDS: Final = 60
"""How long the service holds a request for a round that is not in yet."""


class Connection:
    """One service. Pairings, signatures and files are in threads, never on the event loop."""

    def __init__(
        self,
        transport: Transport,
        key: VerifierKey,
        chains: Mapping[bytes, ChainInfo],
        *,
        folder: Path | None,
        clock: Callable[[], int],
    ) -> None:
        self.transport: Final = transport
        self.log: Final = LogView(key)
        self.chains: Final = chains
        self.clock: Final = clock
        self.shelf: Final = None if folder is None else Shelf(folder)
        self._kept = 0
        self._rounds: Final[OrderedDict[tuple[bytes, int], VerifiedRound]] = OrderedDict()
        self._asking: Final[dict[tuple[bytes, int], asyncio.Lock]] = {}
        self._keeping: Final = asyncio.Lock()

    async def start(self) -> None:
        """Go on from the checkpoint on the shelf."""
        note = None if self.shelf is None else await asyncio.to_thread(self.shelf.checkpoint)
        if note is not None:
            self.log.restore(note)
            self._kept = self.log.size

    async def receipt(self, document: Json, received: int, floor: int, *, new: bool = False) -> Receipt:
        """A receipt of an answer that was asked for when the log had `floor` entries. new: its entry is none of them.

        Others may be older than that, checkpoint and all: a receipt has the first checkpoint that covers its entry.
        Raises Dishonest.
        """
        receipt = await asyncio.to_thread(open_receipt, document, self.log.key, self.chains, received)
        if new and receipt.index < floor:
            text = f"entry {receipt.index} is no answer to a new request: the log had {floor} entries before it"
            raise Dishonest(text, receipt.document)
        self.log.see(receipt, floor if new else 0)
        return receipt

    async def keep(self, session: str, receipt: Receipt) -> None:
        """Put a receipt on the shelf, and the largest checkpoint."""
        if self.shelf is None:
            return
        await asyncio.to_thread(self.shelf.keep, session, receipt)
        async with self._keeping:
            largest = self.log.largest
            if largest is not None and largest.checkpoint.size > self._kept:
                await asyncio.to_thread(self.shelf.keep_checkpoint, largest)
                self._kept = largest.checkpoint.size

    async def document(self, data: bytes, floor: int, *, sandbox: bool) -> tuple[Transcript, Verdict]:
        """A transcript and what the verifier says of it. Raises Dishonest where it is not in the log."""

        def work() -> tuple[Transcript, Verdict]:
            return open_document(data, self.log.key, self.chains), self.verdict(data, sandbox=sandbox)

        transcript, verdict = await asyncio.to_thread(work)
        self.log.admit(transcript.signed, floor, {}, data)
        return transcript, verdict

    def verdict(self, document: bytes, *, sandbox: bool = False) -> Verdict:
        """What the verifier says of a document with the pinned keys, in as long as that takes. Raises Dishonest."""
        trust = Trust(log_key=self.log.key, chains=self.chains, sandbox=sandbox)
        try:
            return check(document, trust, lambda chain, stated: verify_round(chain, stated, best_backend()))
        except FormatError as error:
            raise Dishonest(f"not a document of the protocol: {error.message}", document) from error

    async def round(self, chain: ChainInfo, number: int) -> VerifiedRound:
        """A round, once it is there, verified under the pinned chain. Raises Dishonest."""
        name = (chain.hash, number)
        lock = self._asking.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                return self._rounds.get(name) or await self.verified(chain, await self._stated(chain, number))
        finally:
            if self._asking.get(name) is lock:
                del self._asking[name]

    async def verified(self, chain: ChainInfo, stated: Round) -> VerifiedRound:
        """A stated round, verified and remembered. Raises Dishonest."""
        known = self._rounds.get((chain.hash, stated.round))
        if known is not None and known.signature == stated.signature:
            return known
        try:
            found = await asyncio.to_thread(verify_round, chain, stated, best_backend())
        except VerifierError as error:
            raise Dishonest(f"round {stated.round} is not the chain's: {error.message}") from error
        if known is not None:
            raise Dishonest(f"round {stated.round} has two signatures: the chain is broken")
        self._rounds[chain.hash, stated.round] = found
        while len(self._rounds) > MAX_ROUNDS:
            self._rounds.popitem(last=False)
        return found

    async def _stated(self, chain: ChainInfo, number: int) -> Round:
        path = f"/v1/chains/{chain.hash.hex()}/rounds/{number}"
        while True:
            early = (chain.time(number) - self.clock()) / 1000 - ROUND_SECONDS / 2
            if early > 0:
                await asyncio.sleep(min(early, ROUND_SECONDS))
                continue
            try:
                return _round(await self.transport.get(path, wait=ROUND_SECONDS), number)
            except BeaconError as error:
                if error.code != "round-unknown":
                    raise


def _round(document: Mapping[str, Any], number: int) -> Round:
    try:
        previous = document.get("previous_signature")
        found = Round(
            document.get("round", 0),
            parse_hex(document.get("signature")),
            None if previous is None else parse_hex(previous),
        )
    except FormatError as error:
        raise Dishonest(f"round {number} is not a round: {error.message}") from error
    if found.round != number:
        raise Dishonest(f"round {found.round} was answered where {number} was asked for")
    return found
