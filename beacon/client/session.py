"""One session of a host: what it writes, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Unpack, overload

from beacon.client import asked
from beacon.client.asked import Check, Said
from beacon.client.connection import Connection
from beacon.client.log import Dishonest, Receipt
from beacon.client.record import ENDED, MAX_WAIT, Record
from beacon.client.transport import BeaconError, new_key
from verifier import entries
from verifier.draws import Outcome
from verifier.encoding import Json
from verifier.errors import VerifierError


@dataclass(frozen=True, slots=True)
class Roll:
    """One draw. draw: k of a live session, None in a match.

    in_time: whether the call's receipt was here before its round's time, by this machine's clock (rule 7.1): only then
    does it prove to its holder, whatever the log's operator says, that the call came first. None in a match.
    """

    recipe: str
    n: int
    outcome: Any
    draw: int | None = None
    round: int | None = None
    in_time: bool | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A live call that is in the log, for a round that nobody knew. round_time: ms; in_time: as of a Roll."""

    session: Session = field(repr=False)
    entry: entries.Call
    round_time: int
    in_time: bool
    receipt: Receipt = field(repr=False)
    request: Mapping[str, Any] = field(repr=False)
    key: str | None = field(repr=False)

    async def drawn(self) -> Roll:
        """The draw, once its round is in: recomputed here before it is returned. Cancel it freely, and ask again."""
        return await self.session.drawn(self)


class Session(Record):
    """One session. id: 64 hex digits; seal: the log entry that names it. Its methods may run at the same time.

    unproven: the k of the calls whose receipts were not here before their rounds' time (rule 7.1).
    """

    def __init__(self, connection: Connection, receipt: Receipt) -> None:
        super().__init__(connection, receipt)
        self.unproven: Final[list[int]] = []

    async def contribute(
        self, participant: str, entropy: bytes, *, signature: bytes | None = None, join: str | None = None
    ) -> Receipt:
        """Add a participant's entropy (1-256 bytes); the receipt is that participant's to keep. join: its own token."""
        said = {"participant": participant, "entropy": entropy.hex()}
        if signature is not None:
            said["signature"] = signature.hex()
        _, received, answer = await self._post("contributions", said, new_key(), token=join)
        receipt = await self._take(answer.get("receipt"), received, 0, check=asked.contribution(said))
        if "close_receipt" in answer:
            await self._take(answer["close_receipt"], received, 0, check=asked.of(entries.Close))
        return receipt

    async def join_tokens(self, *participants: str) -> dict[str, str]:
        """A token for each participant to contribute with by itself."""
        _, _, answer = await self._post("joins", {"participants": list(participants)}, new_key())
        tokens = answer.get("tokens")
        if not isinstance(tokens, dict) or set(tokens) != set(participants):
            raise BeaconError(0, {"code": "unreadable", "detail": "not the tokens that were asked for"})
        return {name: str(token) for name, token in tokens.items()}

    @overload
    async def roll(self, recipe: str, *, key: str | None = None, **said: Unpack[Said]) -> Roll: ...

    @overload
    async def roll(self, recipe: str, *, count: int, key: str | None = None, **said: Unpack[Said]) -> list[Roll]: ...

    async def roll(
        self, recipe: str, *, count: int | None = None, key: str | None = None, **said: Unpack[Said]
    ) -> Roll | list[Roll]:
        """Draw, whatever the profile; in a match also `count` draws at once, then as a list.

        In a live session this calls, waits for the round, and verifies the draw. key: an idempotency key of your own.
        """
        if self.seal.profile == "live":
            if count is not None:
                raise ValueError("a live session is called draw by draw")
            return await (await self.call(recipe, key=key, **said)).drawn()
        if count is None and len(said.get("outcomes", ())) > 1:
            raise ValueError("several outcomes are for a `count` of draws")
        found = await self._ask({"recipe": recipe, "count": 1 if count is None else count, **said}, key)
        assert isinstance(found, list)
        return found[0] if count is None else found

    async def call(self, recipe: str, *, key: str | None = None, **said: Unpack[Said]) -> Call:
        """Live: call the next draw. It returns once the call is in the log, with its receipt; then await `drawn()`."""
        await self.ready()
        found = await self._ask({"recipe": recipe, **said}, key)
        assert isinstance(found, Call)
        return found

    async def ready(self) -> None:
        """Wait until a live session takes calls: S stands in the close, by the last contribution or the deadline."""
        if self.seal.profile == "match" or self.seal.close_at is None or self._known.session.close is not None:
            return
        shown = await self.until("closed", "called", "drawing")
        if self._known.session.close is None:
            raise _ended(shown)

    async def answered(
        self, said: Any, received: int, floor: int, body: Mapping[str, Any], key: str | None, *, new: bool
    ) -> Call | list[Roll]:
        """What the answer to a draw or a call holds, verified. key: of the request for this session alone."""
        answer = said if isinstance(said, dict) else {}
        if answer.get("session") != self.id:
            raise Dishonest("the answer is about another session")
        check = asked.call(body) if self.seal.profile == "live" else asked.draw(body)
        receipt = await self._take(_one(answer, 0), received, floor, new=new, check=check)
        entry = receipt.entry
        if not isinstance(entry, entries.Call):
            return _rolls(receipt, answer)
        shown = {"draw": entry.draw, "recipe": entry.recipe, "n": entry.n, "round": entry.round}
        _agrees(answer.get("call"), shown, receipt)
        due = self.chain.time(entry.round)
        in_time = received < due
        if not in_time and entry.draw not in self.unproven:
            self.unproven.append(entry.draw)
        return Call(self, entry, due, in_time, receipt, body, key)

    async def next_call(self, recipe: str) -> tuple[int, int]:
        """(draw, n) of the next call of a recipe, for signatures: by the service, which refuses other numbers."""
        shown = await self.state()
        calls, called = shown.get("calls"), shown.get("called")
        n = called.get(recipe) if isinstance(called, dict) else None
        if type(calls) is not int or type(n) is not int:
            raise BeaconError(0, {"code": "unreadable", "detail": f"the session has no calls of {recipe}"})
        return calls + 1, n + 1

    async def drawn(self, call: Call) -> Roll:
        """As `Call.drawn`: the same request once more, which is answered with the draw; of a batch, by its events."""
        k = call.entry.draw
        if call.key is None:
            async for event in self.events(call.receipt.index):
                entry = self._known.events[event["index"]].entry if event["type"] == "draw" else None
                if isinstance(entry, entries.Draw) and entry.draw == k:
                    return Roll(entry.recipe, entry.n, entry.outcomes[0], k, call.entry.round, call.in_time)
            raise _ended(await self.state())
        while True:
            began = time.monotonic()
            _, received, answer = await self._post("draws", call.request, call.key, wait=MAX_WAIT)
            await self._take(_one(answer, 0), received, 0, check=asked.of(entries.Call, draw=k))
            if "outcomes" in answer:
                check = asked.of(entries.Draw, draw=k)
                (roll,) = _rolls(await self._take(_one(answer, 1), received, 0, check=check), answer)
                return replace(roll, round=call.entry.round, in_time=call.in_time)
            if answer.get("state") in ENDED:
                raise _ended(answer)
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))

    async def claims(self, recipe: str, seed: bytes, *, count: int = 1) -> list[Outcome]:
        """Custody `host`, match: what your seed (32 bytes) gives for the next draws, for `roll(..., outcomes=...)`."""
        number = self.seal.round
        assert number is not None, "a match has a round"
        found = await self._connection.round(self.chain, number)
        if self._known.digest is None:
            await self.verify()
        try:
            outcomes = await asyncio.to_thread(self._known.next_outcomes, recipe, seed, found, count)
        except VerifierError as error:
            raise BeaconError(409, {"code": "draw-past-end-of-deck", "detail": error.message}) from error
        if outcomes is None:
            raise BeaconError(409, {"code": "not-closed", "detail": "the contributions are not closed"})
        return outcomes

    async def hand_in(self, k: int, link: bytes) -> Any:
        """Custody `host`, live: link k (32 bytes) of your chain, once its round is in. Gives the outcome, recomputed.

        It waits for the round, and may be asked again: the same link is the same request.
        """
        call = self._known.session.call_of(k)
        if call is not None:
            await self._connection.round(self.chain, call.entry.round)
        body = {"draw": k, "link": link.hex()}
        _, received, answer = await self._post("links", body, f"link-{self.id}-{k}")
        receipt = await self._take(_one(answer, 0), received, 0, check=asked.of(entries.Draw, draw=k, seed=link))
        return _rolls(receipt, answer)[0].outcome

    async def reveal(self, seed: bytes | None = None) -> dict[str, Any]:
        """End the session. seed: of a match whose host holds it, 32 bytes."""
        return await self._end("reveal", {} if seed is None else {"seed": seed.hex()}, asked.of(entries.Reveal))

    async def void(self) -> dict[str, Any]:
        """Give the session up before its round exists, or its first call."""
        return await self._end("void", {"reason": "host"}, asked.of(entries.Void, reason="host"))

    async def _ask(self, body: Mapping[str, Any], key: str | None) -> Call | list[Roll]:
        name = key or new_key()
        floor, received, answer = await self._post("draws", body, name)
        return await self.answered(answer, received, floor, body, name, new=key is None)

    async def _end(self, what: str, body: Mapping[str, Any], check: Check) -> dict[str, Any]:
        floor, received, answer = await self._post(what, body, new_key())
        await self._take(answer.get("receipt"), received, floor, new=True, check=check)
        return answer

    async def _post(
        self, what: str, body: Mapping[str, Any], key: str, *, token: str | None = None, wait: float = 0
    ) -> tuple[int, int, dict[str, Any]]:
        """The size that the log was known to have before, when the answer came (ms), and the answer."""
        floor = self._connection.log.size
        answer = await self._connection.transport.post(f"{self._path}/{what}", body, key=key, token=token, wait=wait)
        received = self._connection.clock()
        if answer.get("session") != self.id:
            raise Dishonest("the answer is about another session")
        return floor, received, answer


def _rolls(receipt: Receipt, answer: Mapping[str, Any]) -> list[Roll]:
    """The draws of a receipt, with which the answer's own words have to agree."""
    entry = receipt.entry
    assert isinstance(entry, entries.Draw)
    _agrees(answer, {"outcomes": list(entry.outcomes), "n": entry.n}, receipt)
    return [Roll(entry.recipe, n, outcome, entry.draw) for n, outcome in enumerate(entry.outcomes, entry.n)]


def _agrees(said: Any, due: Mapping[str, Any], receipt: Receipt) -> None:
    if not isinstance(said, dict) or any(said.get(name, receipt) != value for name, value in due.items()):
        raise Dishonest("the answer says something else than its receipt", receipt.document)


def _ended(shown: Mapping[str, Any]) -> BeaconError:
    return BeaconError(409, {"code": "session-void", "detail": f"{shown.get('state')}: {shown.get('reason')}"})


def _one(answer: Mapping[str, Any], place: int) -> Json:
    receipts = answer.get("receipts")
    return receipts[place] if isinstance(receipts, list) and len(receipts) > place else None
