"""The SDK: what a game server imports.

    async with Beacon("https://beacon.example", token, log_key="beacon.example/fair+...") as beacon:
        session = await beacon.seal(recipes={"turn": {"kind": "dice", "count": 2, "sides": 6}}, profile="live")
        roll = await session.roll("turn", purpose="white 1")      # verified here, not believed

Every write has an idempotency key, so that a lost answer never becomes a second thing. Every receipt is checked under
the pinned log key as it arrives, every live draw recomputed as it falls; what does not hold is raised as Dishonest.
With `receipts` a folder keeps each receipt as a file that `verifier receipt` and `verifier check` read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.client_checks import Dishonest, LiveDraws, Receipts
from beacon.client_connection import Connection
from beacon.client_http import BeaconError, Transport, Unreachable
from verifier import entries
from verifier.check import Trust, check
from verifier.drand import ChainInfo, Round
from verifier.draws import parse_recipe
from verifier.encoding import lp
from verifier.fetch import main_chains
from verifier.note import VerifierKey
from verifier.seeds import SEED_BYTES, contribution_message, seed_chain
from verifier.session import collect
from verifier.transcript import Event
from verifier.verdict import Verdict

__all__ = [
    "Beacon",
    "BeaconError",
    "Dishonest",
    "Roll",
    "Session",
    "Unreachable",
    "make_chain",
    "pseudonym",
    "sign_contribution",
]

MAX_WAIT: Final = 30


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


class Beacon:
    """A connection to one service, trusted for nothing but being reachable."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        log_key: str,
        chains: Sequence[ChainInfo] | None = None,
        receipts: Path | None = None,
        seconds: float = 20,
        attempts: int = 6,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """log_key: the log's C2SP verifier key, as `beacon init` prints it. chains: the drand chains that are taken,
        the pinned main networks if None. clock: ms since the epoch. Raises FormatError for a bad key.
        """
        known = main_chains().values() if chains is None else chains
        self._connection: Final = Connection(
            Transport(url, token, seconds=seconds, attempts=attempts),
            Receipts(VerifierKey.parse(log_key)),
            {chain.hash: chain for chain in known},
            receipts,
            clock,
        )

    async def __aenter__(self) -> Self:
        await self._connection.transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.transport.__aexit__(kind, error, trace)

    async def seal(self, *, recipes: Mapping[str, Any], key: str | None = None, **terms: Any) -> Session:
        """Seal a session. terms: the other fields of the request. key: an idempotency key of your own."""
        answer = await self._connection.transport.post(
            "/v1/sessions", {"recipes": dict(recipes), **terms}, key=key or _key()
        )
        asked = {"label": terms.get("label", ""), "recipes": {name: parse_recipe(r) for name, r in recipes.items()}}
        for name in ("profile", "custody", "links", "lead", "round", "close_at", "reveal_by", "open", "plan"):
            if terms.get(name) is not None:
                asked[name] = terms[name]
        for name in ("commitment", "replaces"):
            if terms.get(name) is not None:
                asked[name] = bytes.fromhex(terms[name])
        if "participants" in terms:
            asked["participants"] = tuple(
                entries.Participant(item["id"], bytes.fromhex(item["key"]) if "key" in item else None)
                for item in terms["participants"]
            )
        event = await self._connection.receipt(
            answer["receipt"], entries.Seal, log=self._connection.checks.log_key.name, **asked
        )
        if event.leaf.hex() != answer["session"]:
            raise Dishonest("the session is not named by its seal", answer["receipt"])
        return Session(self._connection, event.leaf, cast(entries.Seal, event.entry))

    async def session(self, session: str) -> Session:
        """Take up a session that was sealed before: its seal's receipt is fetched, and checked like any."""
        state = await self._connection.transport.get(f"/v1/sessions/{session}")
        connection = self._connection
        event = await connection.receipt(await connection.fetched(session, state["index"]), entries.Seal)
        if event.leaf.hex() != session:
            raise Dishonest("the session is not named by its seal")
        found = Session(self._connection, event.leaf, cast(entries.Seal, event.entry))
        await found.catch_up()
        return found

    async def sessions(self, **query: str) -> AsyncIterator[dict[str, Any]]:
        """The host's own sessions, newest first, over all pages. query: `state`, `label`."""
        cursor: dict[str, str] = {}
        while True:
            page = await self._connection.transport.get("/v1/sessions", query | cursor)
            for item in page["sessions"]:
                yield item
            if not page["has_more"]:
                return
            cursor = {"cursor": page["cursor"]}

    async def ledger(self, host: str) -> dict[str, Any]:
        """The public ledger of a host."""
        return await self._connection.transport.get(f"/v1/hosts/{host}")


class Session:
    """One session. id: 64 hex digits; seal: the log entry that names it."""

    def __init__(self, connection: Connection, leaf: bytes, seal: entries.Seal) -> None:
        self.id: Final = leaf.hex()
        self.seal: Final = seal
        self._leaf: Final = leaf
        self._connection: Final = connection
        self._path: Final = f"/v1/sessions/{self.id}"
        self._draws: Final = LiveDraws(leaf, seal)
        self._rolling: Final = asyncio.Lock()

    async def state(self, *, after: int | None = None, wait: float = 0) -> dict[str, Any]:
        """What the service says of the session, held for `wait` seconds until an entry above index `after` is there."""
        query = {} if after is None else {"after": str(after)}
        return await self._connection.transport.get(self._path, query, wait=min(wait, MAX_WAIT))

    async def events(self, after: int = -1) -> AsyncIterator[dict[str, Any]]:
        """Each entry of the session, and each round it uses, above a log index, as it comes: `index`, `type`, `state`
        and `entry`. Ends with the session. A stream that breaks is taken up again without gap or repeat.
        """
        async for _, data in self._connection.transport.events(f"{self._path}/events", after):
            yield data

    async def until(self, *states: str) -> dict[str, Any]:
        """Wait until the session is in one of these states, or has ended, by its events."""
        wanted = {*states, "revealed", "void"}
        shown = await self.state()
        if shown["state"] not in wanted:
            async for event in self.events(shown["last_index"]):
                if event["state"] in wanted:
                    break
            shown = await self.state()
        return shown

    async def contribute(
        self, participant: str, entropy: bytes, *, signature: bytes | None = None, join: str | None = None
    ) -> Event:
        """Add a participant's entropy (1-256 bytes); the receipt is that participant's to keep. join: its own token."""
        said = {"participant": participant, "entropy": entropy.hex()}
        if signature is not None:
            said["signature"] = signature.hex()
        post = self._connection.transport.post
        answer = await post(f"{self._path}/contributions", said, key=_key(), token=join)
        asked = {"participant": participant, "entropy": entropy, "signature": signature}
        event = await self._receipt(answer["receipt"], entries.Contribution, **asked)
        if "close_receipt" in answer:
            await self._closed(answer["close_receipt"])
        return event

    async def join_tokens(self, *participants: str) -> dict[str, str]:
        """A token for each participant to contribute with by itself."""
        body = {"participants": list(participants)}
        answer = await self._connection.transport.post(f"{self._path}/joins", body)
        return dict(answer["tokens"])

    async def roll(
        self,
        recipe: str,
        *,
        purpose: str = "",
        count: int = 1,
        contributions: Sequence[Mapping[str, str]] = (),
        **said: Any,
    ) -> Any:
        """Draw, whatever the profile: a Roll (live, or one draw of a match), or a list of `count` (match).

        In a live session this calls, waits for the round, and verifies the draw. contributions: for this call alone,
        `{"participant", "entropy", "signature"?}` in hex; said: `n` and `draw`, as the participants signed them.
        """
        body: dict[str, Any] = {"recipe": recipe, "purpose": purpose, **said}
        if self.seal.profile == "match":
            return await self._roll_match(body, count)
        async with self._rolling:
            return await self._roll_live(body | {"contributions": [dict(item) for item in contributions]}, said)

    async def hand_in(self, k: int, link: bytes) -> Any:
        """Custody `host`, live: link k (32 bytes) of your chain, once its round is in. Gives the outcome."""
        answer = await self._connection.transport.post(
            f"{self._path}/links", {"draw": k, "link": link.hex()}, key=_key()
        )
        await self._receipt(answer["receipts"][0], entries.Draw, draw=k, seed=link)
        return answer["outcomes"][0]

    async def reveal(self, seed: bytes | None = None) -> dict[str, Any]:
        """End the session. seed: of a match whose host holds it, 32 bytes."""
        body = {} if seed is None else {"seed": seed.hex()}
        answer = await self._connection.transport.post(f"{self._path}/reveal", body, key=_key())
        await self._receipt(answer["receipt"], entries.Reveal)
        return answer

    async def void(self) -> dict[str, Any]:
        """Give the session up before its round exists, or its first call."""
        answer = await self._connection.transport.post(f"{self._path}/void", {"reason": "host"}, key=_key())
        await self._receipt(answer["receipt"], entries.Void, reason="host")
        return answer

    async def transcript(self) -> bytes:
        """The document that anyone can check."""
        return await self._connection.transport.text(f"{self._path}/transcript")

    async def verify(self, *, sandbox: bool = False) -> Verdict:
        """The verifier's verdict on the transcript, under the pinned log key and chains."""
        trust = Trust(log_key=self._connection.checks.log_key, chains=self._connection.chains, sandbox=sandbox)
        return await asyncio.to_thread(check, await self.transcript(), trust)

    async def catch_up(self) -> None:
        """Learn how far a live session has come, after a restart of this process; each draw is verified again."""
        if self.seal.profile != "live":
            return
        connection = self._connection
        session = collect(await asyncio.to_thread(connection.checks.document, await self.transcript()))
        if session is None or session.seal.leaf != self._leaf:
            raise Dishonest("the transcript is of another session")
        if session.close is not None:
            if session.close.entry.digest != session.digest():
                raise Dishonest("the close's digest is not that of the contributions")
            self._draws.digest = session.digest()
        logged = {number: event.entry for (_, number), event in session.rounds.items()}
        stated = [Round(one.round, one.signature, one.previous_signature) for one in logged.values()]
        verified = {one.round: one for one in await connection.verified(self.seal.chain, stated)}
        for drawn in session.draws:
            call = session.call_of(drawn.entry.draw)
            if call is None or call.entry.round not in verified:
                raise Dishonest(f"draw {drawn.entry.draw} has no call, or no round")
            self._draws.check(call.entry, drawn.entry, verified[call.entry.round])

    async def _roll_match(self, body: dict[str, Any], count: int) -> Any:
        answer = await self._connection.transport.post(f"{self._path}/draws", body | {"count": count}, key=_key())
        event = await self._receipt(
            answer["receipts"][0], entries.Draw, recipe=body["recipe"], purpose=body["purpose"], n=answer["n"]
        )
        drawn = cast(entries.Draw, event.entry)
        if list(drawn.outcomes) != answer["outcomes"] or len(drawn.outcomes) != count:
            raise Dishonest("the answer has other outcomes than the log", answer["receipts"][0])
        rolls = [Roll(drawn.recipe, n, outcome) for n, outcome in enumerate(drawn.outcomes, drawn.n)]
        return rolls[0] if count == 1 else rolls

    async def _roll_live(self, body: dict[str, Any], said: dict[str, Any]) -> Roll:
        connection, key = self._connection, _key()
        await self._know_digest()
        answer = await connection.transport.post(f"{self._path}/draws", body, key=key)
        asked = {"recipe": body["recipe"], "purpose": body["purpose"], **said}
        asked["contributions"] = _sorted_contributions(body["contributions"])
        event = await self._receipt(answer["receipts"][0], entries.Call, **asked)
        call = cast(entries.Call, event.entry)
        in_time = connection.clock() < connection.chain(self.seal.chain).time(call.round)
        while "outcomes" not in answer:
            answer = await connection.transport.post(f"{self._path}/draws", body, key=key, wait=MAX_WAIT)
            if answer["state"] == "void":
                raise BeaconError(409, {"code": "session-void", "detail": f"void: {answer['reason']}"})
        drawn = cast(entries.Draw, (await self._receipt(answer["receipts"][1], entries.Draw)).entry)
        outcome = self._draws.check(call, drawn, await connection.round(self.seal.chain, call.round))
        if answer["outcomes"] != [outcome]:
            raise Dishonest("the answer has another outcome than the log", answer["receipts"][1])
        return Roll(call.recipe, call.n, outcome, call.draw, call.round, in_time)

    async def _know_digest(self) -> None:
        """S stands in the close, which may have come about by another's contribution, or by its deadline."""
        if self._draws.digest is None:
            shown = await self.until("closed", "called", "drawing")
            if shown["close_index"] is None:
                raise BeaconError(409, {"code": "session-void", "detail": f"void: {shown['reason']}"})
            await self._closed(await self._connection.fetched(self.id, shown["close_index"]))

    async def _closed(self, document: Mapping[str, Any]) -> None:
        event = await self._receipt(document, entries.Close)
        self._draws.digest = cast(entries.Close, event.entry).digest

    async def _receipt(self, document: Mapping[str, Any], kind: type[entries.SessionEntry], **says: Any) -> Event:
        return await self._connection.receipt(document, kind, session=self._leaf, **says)


def _sorted_contributions(items: Sequence[Mapping[str, str]]) -> tuple[entries.CallContribution, ...]:
    """As the call's entry has them (2.8)."""
    parsed = [
        entries.CallContribution(
            item["participant"],
            bytes.fromhex(item["entropy"]),
            bytes.fromhex(item["signature"]) if "signature" in item else None,
        )
        for item in items
    ]
    return tuple(sorted(parsed, key=lambda item: item.participant.encode("utf-8")))


def pseudonym(secret: bytes, user_id: str) -> str:
    """A participant id for a public log that is for ever: HMAC-SHA256 of your own user id, 32 hex digits.

    secret: 32 bytes or more that stay with you; without it nobody can try user ids out.
    """
    if len(secret) < SEED_BYTES:
        raise ValueError(f"a secret of {SEED_BYTES} bytes or more is due")
    return hmac.digest(secret, b"fair-beacon/pseudonym" + lp(user_id.encode()), hashlib.sha256).hex()[:32]


def sign_contribution(
    key: Ed25519PrivateKey,
    session: str,
    participant: str,
    entropy: bytes,
    *,
    draw: int = 0,
    recipe: str = "",
    n: int = 0,
    purpose: str = "",
) -> bytes:
    """A participant's signature (64 bytes) by rule 4.4; for a call it names the draw, the recipe, n and the purpose."""
    leaf = bytes.fromhex(session)
    return key.sign(contribution_message(leaf, draw, recipe, n, purpose, participant, entropy))


def make_chain(links: int = 1) -> list[bytes]:
    """A seed of your own, for custody `host`: [s_0, ... s_N] from the system's randomness; s_0 is the commitment."""
    return seed_chain(os.urandom(SEED_BYTES), links)


def _key() -> str:
    return str(uuid.uuid4())
