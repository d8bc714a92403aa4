"""The SDK: what a game server imports.

    async with Beacon("https://beacon.example", token, log_key="beacon.example/fair+...") as beacon:
        session = await beacon.seal(recipes={"turn": {"kind": "dice", "count": 2, "sides": 6}}, profile="live")
        roll = await session.roll("turn", purpose="white 1")      # verified here, not believed

Every write has an idempotency key, so that a lost answer never becomes a second thing. Every receipt is checked under
the pinned log key as it arrives, every live draw recomputed as it falls; what does not hold is raised as Dishonest.
With `receipts` a folder keeps each receipt as a file that `verifier receipt` and `verifier check` read, and the largest
checkpoint, behind which the log can never go back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, Unpack

from beacon.client import asked
from beacon.client.asked import CallContribution, DrawTerms, Participant, SealTerms, TimelockTerms
from beacon.client.connection import Connection
from beacon.client.keys import lock_seed, make_chain, pseudonym, sign_contribution
from beacon.client.log import Dishonest, Receipt
from beacon.client.session import Call, Roll, Session
from beacon.client.transport import BeaconError, Transport, Unreachable, new_key
from verifier import entries
from verifier.drand import ChainInfo
from verifier.encoding import parse_document_json
from verifier.fetch import load_chain, main_chains
from verifier.log_keys import LogKeys
from verifier.verdict import State

__all__ = [
    "Beacon",
    "BeaconError",
    "Call",
    "CallContribution",
    "Dishonest",
    "DrawTerms",
    "Participant",
    "Receipt",
    "Roll",
    "SealTerms",
    "Session",
    "TimelockTerms",
    "Unreachable",
    "load_chain",
    "lock_seed",
    "make_chain",
    "pseudonym",
    "sign_contribution",
]


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
        host: str | None = None,
        sandbox: bool | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """log_key: the log's C2SP verifier key, as `beacon init` prints it; of a log that changes its key all of them,
        a line each, as log.vkey has them. chains: the drand chains that are taken, of files with `load_chain`; the
        pinned main networks if None. host, sandbox: the name that its seals must bear, and whether they must be marked
        as tests, where given. clock: ms since the epoch. Raises FormatError for a bad key.
        """
        known = main_chains().values() if chains is None else chains
        self._connection: Final = Connection(
            Transport(url, token, seconds=seconds, attempts=attempts),
            LogKeys.parse(log_key),
            {chain.hash: chain for chain in known},
            folder=receipts,
            clock=clock,
        )
        self._host: Final = host
        self._sandbox: Final = sandbox
        self._seals: Final[dict[str, tuple[int, int]]] = {}

    async def __aenter__(self) -> Self:
        await self._connection.start()
        await self._connection.transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.transport.__aexit__(kind, error, trace)

    async def seal(self, *, key: str | None = None, **terms: Unpack[SealTerms]) -> Session:
        """Seal a session: in the log, as it was asked for, and against no rule, or this raises.

        key: an idempotency key of your own.
        """
        connection, floor = self._connection, self._connection.log.size
        answer = await connection.transport.post("/v1/sessions", terms, key=key or new_key())
        return await self._sealed(answer, connection.clock(), floor, terms, new=key is None)

    async def seal_all(self, terms: Sequence[SealTerms], *, key: str | None = None) -> list[Session]:
        """Seal up to 100 sessions, all or none, in order."""
        floor = self._connection.log.size
        items, received = await self._batch("seals", "sessions", terms, key)
        return [
            await self._sealed(item, received, floor, one, new=key is None)
            for item, one in zip(items, terms, strict=True)
        ]

    async def draw_all(
        self, draws: Sequence[tuple[Session, DrawTerms]], *, key: str | None = None
    ) -> list[Call | list[Roll]]:
        """Draw from, or call, up to 100 sessions, all or none, in order: a list of rolls of each match, a Call else."""
        for session, _ in draws:
            await session.ready()
        floor = self._connection.log.size
        bodies = [{"session": session.id, **terms} for session, terms in draws]
        items, received = await self._batch("draws", "draws", bodies, key)
        return [
            await session.answered(item, received, floor, terms, None, new=key is None)
            for item, (session, terms) in zip(items, draws, strict=True)
        ]

    async def session(self, session: str) -> Session:
        """Take up a session that was sealed before: what was kept of it, and what the log has, all verified."""
        connection, shelf = self._connection, self._connection.shelf
        kept = [] if shelf is None else await asyncio.to_thread(shelf.receipts, session)
        if kept:
            received, data = kept[0]
            receipt = await connection.receipt(parse_document_json(data), received, 0)
        else:
            index = (await connection.transport.get(f"/v1/sessions/{session}")).get("index")
            document = await connection.transport.get(f"/v1/sessions/{session}/receipts/{index}")
            receipt = await connection.receipt(document, connection.clock(), 0)
        _seal(receipt, session)
        await connection.keep(session, receipt)
        found = Session(connection, receipt)
        await found.restore(kept)
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
            cursor = {"cursor": str(page["cursor"])}

    async def ledger(self, host: str) -> dict[str, Any]:
        """The public ledger of a host."""
        return await self._connection.transport.get(f"/v1/hosts/{host}")

    async def _batch(
        self, what: str, name: str, bodies: Sequence[Mapping[str, Any]], key: str | None
    ) -> tuple[list[Any], int]:
        """The answers to a batch, one for each of the bodies, and when they came."""
        answer = await self._connection.transport.post(f"/v1/batch/{what}", {name: list(bodies)}, key=key or new_key())
        items, received = answer.get(name), self._connection.clock()
        if not isinstance(items, list) or len(items) != len(bodies):
            raise Dishonest("not as many answers as were asked for")
        return items, received

    async def _sealed(self, said: Any, received: int, floor: int, terms: Mapping[str, Any], *, new: bool) -> Session:
        connection, answer = self._connection, said if isinstance(said, dict) else {}
        receipt = await connection.receipt(answer.get("receipt"), received, floor, new=new)
        seal = _seal(receipt, str(answer.get("session")))
        asked.seal(terms, connection.chains[seal.chain])(receipt)
        self._check_host(receipt, seal)
        verdict = await connection.verdict(receipt.document, [receipt.event])
        for claim in verdict.claims:
            if claim.state == State.FAILED:
                raise Dishonest(f"the seal breaks a rule: {claim.text}", receipt.document)
        await connection.keep(receipt.event.leaf.hex(), receipt)
        return Session(connection, receipt)

    def _check_host(self, receipt: Receipt, seal: entries.Seal) -> None:
        if self._host is not None and seal.host != self._host:
            raise Dishonest(f"sealed for the host {seal.host}, not for {self._host}", receipt.document)
        if self._sandbox not in {None, seal.sandbox}:
            text = "sealed as a test" if seal.sandbox else "sealed as a game, not as a test"
            raise Dishonest(text, receipt.document)
        last_index, last_number = self._seals.get(seal.host, (-1, 0))
        if receipt.index > last_index:
            if seal.host_seq <= last_number:
                text = f"the host's seal {seal.host_seq} comes after its seal {last_number}"
                raise Dishonest(text, receipt.document)
            self._seals[seal.host] = receipt.index, seal.host_seq


def _seal(receipt: Receipt, session: str) -> entries.Seal:
    seal = receipt.entry
    if not isinstance(seal, entries.Seal):
        raise Dishonest(f"the receipt is of a {seal.type}", receipt.document)
    if receipt.event.leaf.hex() != session:
        raise Dishonest("the session is not named by its seal", receipt.document)
    if seal.chain != receipt.chain:
        raise Dishonest("the receipt names another chain than the seal", receipt.document)
    return seal
