"""What the sessions of one service share: the connection, the view of its log, the trusted chains, their rounds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from beacon.client.log import Dishonest, LogView, Receipt, Shelf, open_document, open_receipt
from beacon.client.transport import BeaconError, Transport
from verifier import entries
from verifier.bls.verify import best_backend
from verifier.check import Trust, check
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round, verify_rounds
from verifier.encoding import Json, parse_hex
from verifier.errors import FormatError
from verifier.log_keys import LogTrust
from verifier.transcript import Event, Transcript
from verifier.verdict import Verdict

MAX_ROUNDS: Final = entries.MAX_LINKS
ROUND_SECONDS: Final = 60
"""How long the service holds a request for a round that is not in yet."""


class Connection:
    """One service. Pairings, signatures and files are in threads, never on the event loop."""

    def __init__(
        self,
        transport: Transport,
        key: LogTrust,
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
        transcript = await asyncio.to_thread(open_document, data, self.log.key, self.chains)
        self.log.admit(transcript.signed, floor, {}, data)
        return transcript, await self.verdict(data, transcript.events, sandbox=sandbox)

    async def verdict(self, document: bytes, events: Sequence[Event], *, sandbox: bool = False) -> Verdict:
        """What the verifier says of a document with the pinned keys; the rounds in its events are verified together.

        Raises Dishonest, also for a round that is not its chain's.
        """
        for chain, stated in _rounds_of(events).items():
            if chain in self.chains:
                await self.verified(self.chains[chain], stated, document)
        trust = Trust(log_key=self.log.key, chains=self.chains, sandbox=sandbox)
        try:
            return await asyncio.to_thread(check, document, trust, self._verify)
        except FormatError as error:
            raise Dishonest(f"not a document of the protocol: {error.message}", document) from error

    async def round(self, chain: ChainInfo, number: int) -> VerifiedRound:
        """A round, once it is there, verified under the pinned chain. Raises Dishonest."""
        name = (chain.hash, number)
        lock = self._asking.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                known = self._rounds.get(name)
                if known is None:
                    (known,) = await self.verified(chain, [await self._stated(chain, number)])
                return known
        finally:
            if self._asking.get(name) is lock:
                del self._asking[name]

    async def verified(
        self, chain: ChainInfo, stated: Sequence[Round], document: bytes | None = None
    ) -> list[VerifiedRound]:
        """Rounds, verified together on the best backend, and remembered. Raises Dishonest, with the document."""
        found = {one: self._rounds[chain.hash, one.round] for one in stated if self._has(chain, one)}
        new = [one for one in dict.fromkeys(stated) if one not in found]
        checked = await asyncio.to_thread(verify_rounds, chain, new, best_backend()) if new else []
        for one, outcome in zip(new, checked, strict=True):
            if not isinstance(outcome, VerifiedRound):
                text = f"round {one.round} is not the chain's: {outcome.message}"
                raise Dishonest(text, document) from outcome
            if self._rounds.setdefault((chain.hash, one.round), outcome).signature != one.signature:
                raise Dishonest(f"round {one.round} has two signatures: the chain is broken", document)
            found[one] = outcome
        while len(self._rounds) > MAX_ROUNDS:
            self._rounds.popitem(last=False)
        return [found[one] for one in stated]

    def _has(self, chain: ChainInfo, stated: Round) -> VerifiedRound | None:
        known = self._rounds.get((chain.hash, stated.round))
        said = (stated.signature, stated.previous_signature)
        return known if known is not None and (known.signature, known.previous_signature) == said else None

    def _verify(self, chain: ChainInfo, stated: Round) -> VerifiedRound:
        return self._has(chain, stated) or verify_round(chain, stated, best_backend())

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


def _rounds_of(events: Sequence[Event]) -> dict[bytes, list[Round]]:
    """What the events state of rounds, by chain."""
    stated: dict[bytes, list[Round]] = {}
    for event in events:
        entry = event.entry
        if isinstance(entry, entries.Round):
            found = Round(entry.round, entry.signature, entry.previous_signature)
            stated.setdefault(entry.chain, []).append(found)
        elif isinstance(entry, entries.Seal):
            after = entry.after
            found = Round(after.round, after.signature, after.previous_signature)
            stated.setdefault(entry.chain, []).append(found)
    return stated


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
