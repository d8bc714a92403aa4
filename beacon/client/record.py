"""One session as it was verified: what is known of it, its document, its events, and waiting for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from beacon.client import asked
from beacon.client.asked import Check
from beacon.client.connection import Connection
from beacon.client.known import Known
from beacon.client.log import Dishonest, Receipt
from beacon.client.transport import BeaconError
from verifier import entries
from verifier.encoding import Json, encode_json, parse_document_json
from verifier.errors import VerifierError
from verifier.verdict import ClaimName, State, Verdict

MAX_WAIT: Final = 30
_ORDER: Final = ("sealed", "closed", "anchored", "called", "drawing")
ENDED: Final = frozenset({"revealed", "void"})


class Record:
    """What everybody may see of a session, verified as it comes.

    id: 64 hex digits. seal: what was sealed. receipt: the seal's. proven: whether a match's anchor was here before its
    round, by the caller's clock (rule 7.1); None while it is not in the log.
    """

    def __init__(self, connection: Connection, receipt: Receipt) -> None:
        seal = receipt.entry
        assert isinstance(seal, entries.Seal)
        self.id: Final = receipt.event.leaf.hex()
        self.seal: Final = seal
        self.receipt: Final = receipt
        self.chain: Final = connection.chains[seal.chain]
        self.proven: bool | None = None
        self._connection: Final = connection
        self._known: Final = Known(receipt.event, self.chain)
        self._taking: Final = asyncio.Lock()
        self._doubting: Final = asyncio.Lock()
        self._path: Final = f"/v1/sessions/{self.id}"
        if seal.close_at is None:
            self._anchored(receipt.received)

    async def state(self, *, after: int | None = None, wait: float = 0) -> dict[str, Any]:
        """What the service says of the session, held for `wait` seconds until an entry above index `after` is there."""
        query = {} if after is None else {"after": str(after)}
        return await self._connection.transport.get(self._path, query, wait=min(wait, MAX_WAIT))

    async def transcript(self) -> bytes:
        """The document that anyone can check, exact bytes."""
        return await self._connection.transport.text(f"{self._path}/transcript")

    async def verify(self, *, sandbox: bool = False) -> Verdict:
        """The verifier's verdict on the transcript, under the pinned log key and chains.

        Raises Dishonest if a claim that the service answers for FAILED, or an entry that there is a receipt of is not
        in the transcript. The outcomes of a match whose host holds the seed are the host's: look at the verdict.
        """
        known, floor = self._known.events, self._connection.log.size
        document = await self.transcript()
        received = self._connection.clock()
        transcript, verdict = await self._connection.document(document, floor, sandbox=sandbox)
        if transcript.events[0].leaf.hex() != self.id:
            raise Dishonest("the transcript is of another session", document)
        shown = {event.index: event.data for event in transcript.events}
        for index, event in known.items():
            if shown.get(index) != event.data:
                raise Dishonest(f"entry {index}, of which there is a receipt, is not in the transcript", document)
        hosts_own = self.seal.custody == "host" and self.seal.profile == "match"
        for claim in verdict.claims:
            if claim.state == State.FAILED and not (hosts_own and claim.name == ClaimName.OUTCOMES):
                raise Dishonest(f"{claim.name}: {claim.text}", document)
        drawn: Any = verdict.session["draws"]
        if self.seal.profile == "live" and any(drawn.values()) and verdict[ClaimName.OUTCOMES].state == State.UNKNOWN:
            raise Dishonest(f"a live draw that cannot be made again: {verdict[ClaimName.OUTCOMES].text}", document)
        async with self._taking:
            await asyncio.to_thread(self._known.learn, transcript.events)
        if self._known.session.close is not None:
            self._anchored(received)
        return verdict

    async def events(self, after: int = -1) -> AsyncIterator[dict[str, Any]]:
        """Each entry of the session, and each round it uses, above a log index, as it comes: `index`, `type`, `state`
        and `entry`. Ends with the session. A stream that breaks is taken up again without gap or repeat.

        Each is verified before it is yielded: entries by their receipts, which are kept, live draws and rounds anew.
        Of a timelock's round whose chain is not pinned here it is only verified that it is in the log.
        """
        async for _, data in self._connection.transport.events(f"{self._path}/events", after):
            index, entry = _event(data)
            await self._logged(index, entry, data["entry"].encode())
            yield data

    async def until(self, *states: str) -> dict[str, Any]:
        """Wait until the session is in one of these states, or past them, or has ended; what the service says then.

        What has closed or ended it, and a match's round, are verified.
        """
        last = max((_ORDER.index(state) for state in states if state in _ORDER), default=len(_ORDER))
        shown, began = await self.state(), time.monotonic()
        while not self._reached(shown, states, last):
            index = shown["last_index"]
            shown = await self.state(after=index, wait=MAX_WAIT)
            if shown["last_index"] == index:
                await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
            began = time.monotonic()
        await self._confirm(shown)
        return shown

    def _reached(self, shown: Mapping[str, Any], states: Sequence[str], last: int) -> bool:
        state, index = shown.get("state"), shown.get("last_index")
        if type(index) is not int or state not in {*_ORDER, *ENDED}:
            raise BeaconError(0, {"code": "unreadable", "detail": "not the state of a session"})
        return state in states or state in ENDED or _ORDER.index(state) > last

    async def restore(self, kept: Sequence[tuple[int, bytes]]) -> None:
        """Take the session's transcript, with all that was kept of it: (when, in ms; a receipt). Raises Dishonest."""
        receipts = [await self._connection.receipt(parse_document_json(data), received, 0) for received, data in kept]
        for receipt in receipts:
            if isinstance(receipt.entry, entries.Close):
                self._anchored(receipt.received)
        await self.verify()
        for receipt in receipts:
            if not self._known.has(receipt.event):
                text = f"entry {receipt.index}, of which a receipt was kept, is not in the transcript"
                raise Dishonest(text, receipt.document)

    async def _take(
        self,
        document: Json,
        received: int,
        floor: int,
        *,
        new: bool = False,
        check: Check,
    ) -> Receipt:
        """A receipt of an answer: verified, asked for, in accord with all the others, kept."""
        receipt = await self._connection.receipt(document, received, floor, new=new)
        check(receipt)
        if receipt.chain != self.seal.chain:
            raise Dishonest("the receipt names another chain than the seal", receipt.document)
        await self._fold(receipt)
        await self._connection.keep(self.id, receipt)
        return receipt

    async def _fold(self, receipt: Receipt) -> None:
        entry, event = receipt.entry, receipt.event
        if isinstance(entry, entries.Draw) and entry.draw is not None and event.index not in self._known.events:
            await self._recompute(receipt, entry)
        try:
            async with self._taking:
                doubts = await asyncio.to_thread(self._known.take, event)
        except Dishonest as error:
            raise Dishonest(error.what, receipt.document) from error
        if doubts:
            await self._decide(receipt)
        if isinstance(entry, entries.Close):
            self._anchored(receipt.received)

    async def _decide(self, receipt: Receipt) -> None:
        """Have the whole transcript decide, unless what was in doubt has been explained in the meantime."""
        async with self._doubting:
            async with self._taking:
                doubts = await asyncio.to_thread(lambda: list(self._known.against(receipt.event)))
            if not doubts:
                return
            try:
                await self.verify()
            except Dishonest as error:
                text = f"entry {receipt.index}: {doubts[0].text}; {error.what}"
                raise Dishonest(text, receipt.document) from error

    async def _recompute(self, receipt: Receipt, entry: entries.Draw) -> None:
        """Whether a live draw is what its call, its link and its round give. Raises Dishonest."""
        if self._known.session.call_of(entry.draw) is None:
            await self.verify()
        call = self._known.session.call_of(entry.draw)
        if call is None:
            raise Dishonest(f"draw {entry.draw} was never called", receipt.document)
        found = await self._connection.round(self.chain, call.entry.round)
        try:
            due = await asyncio.to_thread(self._known.outcome, entry, found)
        except VerifierError as error:
            raise Dishonest(f"draw {entry.draw}: {error.message}", receipt.document) from error
        if due is None:
            await self.verify()
            if not self._known.has(receipt.event):
                raise Dishonest("a draw is not in the transcript", receipt.document)
        elif encode_json([due]) != encode_json(list(entry.outcomes)):
            raise Dishonest(f"draw {entry.draw} is {due}, the service says {entry.outcomes[0]}", receipt.document)

    async def _logged(self, index: int, entry: entries.Entry, data: bytes) -> None:
        """An entry that a stream has shown: its receipt is fetched unless it was here before."""
        known = self._known.events.get(index)
        if known is not None and known.data == data:
            return
        receipt = await self._receipt(index, rounds=isinstance(entry, entries.Round))
        if receipt.event.data != data:
            raise Dishonest(f"entry {index} of the stream is not the one of its receipt", receipt.document)

    async def _receipt(self, index: int, *, rounds: bool = False) -> Receipt:
        """The receipt of one of the session's entries; rounds: of a round that it uses."""
        try:
            document = await self._connection.transport.get(f"{self._path}/receipts/{index}")
        except BeaconError as error:
            if error.code != "not-found":
                raise
            raise Dishonest(f"the service has no receipt of entry {index}, which it has shown") from error
        received = self._connection.clock()
        if rounds:
            receipt = await self._connection.receipt(document, received, 0)
            await self._round_logged(receipt)
        else:
            receipt = await self._take(document, received, 0, check=asked.of(entries.SessionEntry))
        if receipt.index != index:
            raise Dishonest(f"the receipt of entry {receipt.index} where that of {index} is due", receipt.document)
        return receipt

    async def _round_logged(self, receipt: Receipt) -> None:
        entry = receipt.entry
        if not isinstance(entry, entries.Round):
            raise Dishonest("the receipt is not that of a round", receipt.document)
        if not self._known.uses(entry.chain, entry.round):
            await self.verify()
        if not self._known.uses(entry.chain, entry.round):
            text = f"the session does not use round {entry.round} of the chain {entry.chain.hex()}"
            raise Dishonest(text, receipt.document)
        chain = self._connection.chains.get(entry.chain)
        if chain is None:
            # of a timelock to a chain that is not pinned here: nothing here rests on it
            return
        found = await self._connection.round(chain, entry.round)
        if found.signature != entry.signature:
            text = f"round {entry.round} stands in the log with another signature than the chain's"
            raise Dishonest(text, receipt.document)

    async def _confirm(self, view: Mapping[str, Any]) -> None:
        """Fetch the receipts of what has closed and ended the session, and its round, as far as they are not here."""
        for index in (view.get("close_index"), view.get("end_index")):
            if type(index) is int and index not in self._known.events:
                await self._receipt(index)
        if view.get("state") == "anchored" and self.seal.round is not None:
            await self._connection.round(self.chain, self.seal.round)

    def _anchored(self, received: int) -> None:
        if self.seal.round is not None and self.proven is None:
            self.proven = received < self.chain.time(self.seal.round)


def _event(data: Mapping[str, Any]) -> tuple[int, entries.Entry]:
    index, text = data.get("index"), data.get("entry")
    try:
        if type(index) is not int or not isinstance(text, str):
            raise Dishonest("an event without its entry")
        entry = entries.parse_entry(text.encode())
    except VerifierError as error:
        raise Dishonest(f"entry {index} of the stream is none: {error.message}") from error
    if data.get("type") != entry.type:
        raise Dishonest(f"an event says something else than its entry {index}")
    return index, entry
