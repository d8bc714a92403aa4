"""One session of a host: what it writes, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from beacon.client_checks import Dishonest, Receipt
from beacon.client_connection import Connection
from beacon.client_facts import check_call, check_contribution, check_draw
from beacon.client_http import BeaconError, new_key
from beacon.client_record import ENDED, MAX_WAIT, Record, is_a
from verifier import entries
from verifier.draws import Outcome, redraw
from verifier.encoding import Json
from verifier.errors import VerifierError
from verifier.seeds import binding, sha256

Check = Callable[[entries.Entry], object]


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
    key: str = field(repr=False)

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
        receipt = await self._take(
            answer.get("receipt"), received, 0, check=lambda entry: check_contribution(entry, said)
        )
        if "close_receipt" in answer:
            await self._take(answer["close_receipt"], received, 0, check=is_a(entries.Close))
        return receipt

    async def join_tokens(self, *participants: str) -> dict[str, str]:
        """A token for each participant to contribute with by itself."""
        _, _, answer = await self._post("joins", {"participants": list(participants)}, new_key())
        tokens = answer.get("tokens")
        if not isinstance(tokens, dict) or set(tokens) != set(participants):
            raise BeaconError(0, {"code": "unreadable", "detail": "not the tokens that were asked for"})
        return {name: str(token) for name, token in tokens.items()}

    async def roll(
        self,
        recipe: str,
        *,
        purpose: str = "",
        count: int = 1,
        contributions: Sequence[Mapping[str, str]] = (),
        key: str | None = None,
        **said: Any,
    ) -> Any:
        """Draw, whatever the profile: a Roll (live, or one draw of a match), or a list of `count` (match).

        In a live session this calls, waits for the round, and verifies the draw. contributions: for this call alone,
        `{"participant", "entropy", "signature"?}` in hex; said: `n` and `draw`, as the participants signed them, or a
        host's own `outcomes` (`claims`). key: an idempotency key of your own.
        """
        if self.seal.profile == "match":
            rolls = await self._roll_match({"recipe": recipe, "purpose": purpose, "count": count, **said}, key)
            return rolls[0] if count == 1 else rolls
        return await (await self.call(recipe, purpose=purpose, contributions=contributions, key=key, **said)).drawn()

    async def call(
        self,
        recipe: str,
        *,
        purpose: str = "",
        contributions: Sequence[Mapping[str, str]] = (),
        key: str | None = None,
        **said: Any,
    ) -> Call:
        """Live: call the next draw. It returns once the call is in the log, with its receipt; then await `drawn()`."""
        body: dict[str, Any] = {"recipe": recipe, "purpose": purpose, **said}
        body |= {"contributions": [dict(item) for item in contributions]} if contributions else {}
        if self.seal.close_at is not None and self._facts.close is None:
            await self._closed()
        name = key or new_key()
        floor, received, answer = await self._post("draws", body, name)
        receipt = await self._take(
            _one(answer, 0), received, floor, new=key is None, check=lambda entry: check_call(entry, body)
        )
        entry = receipt.entry
        assert isinstance(entry, entries.Call)
        shown = {"draw": entry.draw, "recipe": entry.recipe, "n": entry.n, "round": entry.round}
        _agrees(answer.get("call"), shown, receipt)
        due = self.chain.time(entry.round)
        in_time = received < due
        if not in_time and entry.draw not in self.unproven:
            self.unproven.append(entry.draw)
        return Call(self, entry, due, in_time, receipt, body, name)

    async def next_call(self, recipe: str) -> tuple[int, int]:
        """(draw, n) of the next call of a recipe, for signatures: by the service, which refuses other numbers."""
        shown = await self.state()
        calls, called = shown.get("calls"), shown.get("called")
        n = called.get(recipe) if isinstance(called, dict) else None
        if type(calls) is not int or type(n) is not int:
            raise BeaconError(0, {"code": "unreadable", "detail": f"the session has no calls of {recipe}"})
        return calls + 1, n + 1

    async def drawn(self, call: Call) -> Roll:
        """As `Call.drawn`: the same request once more, which is answered with the draw."""
        while True:
            began = time.monotonic()
            _, received, answer = await self._post("draws", call.request, call.key, wait=MAX_WAIT)
            await self._take(_one(answer, 0), received, 0, check=is_a(entries.Call))
            if "outcomes" in answer:
                receipt = await self._take(_one(answer, 1), received, 0, check=_draw_of(call.entry.draw, None))
                (roll,) = _rolls(receipt, answer)
                return Roll(roll.recipe, roll.n, roll.outcome, call.entry.draw, call.entry.round, call.in_time)
            if answer.get("state") in ENDED:
                detail = f"{answer['state']}: {answer.get('reason')}"
                raise BeaconError(409, {"code": "session-void", "detail": detail})
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))

    async def claims(self, recipe: str, seed: bytes, *, count: int = 1) -> list[Outcome]:
        """Custody `host`, match: what your seed (32 bytes) gives for the next draws, for `roll(..., outcomes=...)`."""
        number, rule = self.seal.round, self.seal.recipes[recipe]
        assert number is not None, "a match has a round"
        found = await self._connection.round(self.chain, number)
        if self._facts.digest is None:
            await self.verify()
        digest, first = self._facts.digest, self._facts.next_n(recipe)
        if digest is None:
            raise BeaconError(409, {"code": "not-closed", "detail": "the contributions are not closed"})
        bound = binding(digest, 0, (), number, sha256(found.signature))

        def work() -> list[Outcome]:
            return [redraw(seed, bound, recipe, rule, n)[0] for n in range(first, first + count)]

        try:
            return await asyncio.to_thread(work)
        except VerifierError as error:
            raise BeaconError(409, {"code": "draw-past-end-of-deck", "detail": error.message}) from error

    async def hand_in(self, k: int, link: bytes) -> Any:
        """Custody `host`, live: link k (32 bytes) of your chain, once its round is in. Gives the outcome, recomputed.

        It waits for the round, and may be asked again: the same link is the same request.
        """
        call = self._facts.calls.get(k)
        if call is not None:
            await self._connection.round(self.chain, call.round)
        body = {"draw": k, "link": link.hex()}
        _, received, answer = await self._post("links", body, f"link-{self.id}-{k}")
        receipt = await self._take(_one(answer, 0), received, 0, check=_draw_of(k, link))
        return _rolls(receipt, answer)[0].outcome

    async def reveal(self, seed: bytes | None = None) -> dict[str, Any]:
        """End the session. seed: of a match whose host holds it, 32 bytes."""
        return await self._end("reveal", {} if seed is None else {"seed": seed.hex()}, is_a(entries.Reveal))

    async def void(self) -> dict[str, Any]:
        """Give the session up before its round exists, or its first call."""
        return await self._end("void", {"reason": "host"}, _void_of_host)

    async def _roll_match(self, body: Mapping[str, Any], key: str | None) -> list[Roll]:
        floor, received, answer = await self._post("draws", body, key or new_key())
        receipt = await self._take(
            _one(answer, 0), received, floor, new=key is None, check=lambda entry: check_draw(entry, body)
        )
        return _rolls(receipt, answer)

    async def _closed(self) -> None:
        """S stands in the close, which may have come about by another's contribution, or by its deadline."""
        shown = await self.until("closed", "called", "drawing")
        if self._facts.close is None:
            raise BeaconError(409, {"code": "session-void", "detail": f"{shown['state']}: {shown.get('reason')}"})

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


def _draw_of(k: int, link: bytes | None) -> Check:
    def check(entry: entries.Entry) -> None:
        if not isinstance(entry, entries.Draw) or entry.draw != k or link not in {None, entry.seed}:
            raise Dishonest(f"the receipt is not that of draw {k}")

    return check


def _void_of_host(entry: entries.Entry) -> None:
    if not isinstance(entry, entries.Void) or entry.reason != "host":
        raise Dishonest("the receipt is not that of the host's void")


def _rolls(receipt: Receipt, answer: Mapping[str, Any]) -> list[Roll]:
    """The draws of a receipt, with which the answer's own words have to agree."""
    entry = receipt.entry
    assert isinstance(entry, entries.Draw)
    _agrees(answer, {"outcomes": list(entry.outcomes), "n": entry.n}, receipt)
    return [Roll(entry.recipe, n, outcome, entry.draw) for n, outcome in enumerate(entry.outcomes, entry.n)]


def _agrees(said: Any, due: Mapping[str, Any], receipt: Receipt) -> None:
    if not isinstance(said, dict) or any(said.get(name, receipt) != value for name, value in due.items()):
        raise Dishonest("the answer says something else than its receipt", receipt.document)


def _one(answer: Mapping[str, Any], place: int) -> Json:
    receipts = answer.get("receipts")
    return receipts[place] if isinstance(receipts, list) and len(receipts) > place else None
