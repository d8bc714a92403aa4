"""What the HTTP layer stands on: the interfaces that it calls, gathered in one container."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiohttp import web

from beacon.log.log import Log
from beacon.rounds.rounds import ChainStatus
from beacon.sessions.context import Key
from beacon.sessions.ledger import Asked
from beacon.sessions.requests import ContributionRequest, DrawRequest, LinkRequest, SealRequest, Written
from beacon.sessions.state import SessionState
from beacon.sessions.waiting import Waiting
from beacon.settings import Settings
from beacon.webhooks.webhooks import Webhooks
from beacon.witness.witnesses import Nobody, Published
from verifier.drand import ChainInfo, VerifiedRound


class Host(Protocol):
    """A game server that may write. `sandbox` hosts play tests, not games."""

    @property
    def name(self) -> str: ...
    @property
    def sandbox(self) -> bool: ...


class Grant(Protocol):
    """What a token gives. scopes: of seal, draw and read; token: the id that `beacon hosts list` shows."""

    @property
    def host(self) -> Host: ...
    @property
    def scopes(self) -> Collection[str]: ...
    @property
    def token(self) -> str: ...


class Hosts(Protocol):
    """Who holds a token."""

    async def authenticate(self, token: str) -> Grant | None:
        """What a token gives that is neither unknown, expired nor revoked."""
        ...


class Sessions(Protocol):
    """The commands and views of sessions. `session` is 32 bytes. Each raises ApiError, and the store's errors."""

    async def seal(self, host: Host, request: SealRequest, key: Key | None = None) -> Written: ...
    async def seals(self, host: Host, requests: Sequence[SealRequest], key: Key | None = None) -> list[Written]: ...
    async def draws(
        self, host: Host, requests: Sequence[tuple[bytes, DrawRequest]], key: Key | None = None
    ) -> list[Written]: ...
    async def contribute(
        self,
        host: Host | None,
        session: bytes,
        request: ContributionRequest,
        key: Key | None = None,
        *,
        join: str | None = None,
    ) -> Written: ...
    async def join_tokens(self, host: Host, session: bytes, participants: Sequence[str]) -> dict[str, str]: ...
    async def page(self, asked: Asked) -> dict[str, Any]: ...
    async def ledger(self, host: str) -> dict[str, Any]: ...
    async def draw(self, host: Host, session: bytes, request: DrawRequest, key: Key | None = None) -> Written: ...
    async def hand_in(self, host: Host, session: bytes, request: LinkRequest, key: Key | None = None) -> Written: ...
    async def reveal(
        self, host: Host, session: bytes, seed: bytes | None = None, key: Key | None = None
    ) -> Written: ...
    async def void(self, host: Host, session: bytes, key: Key | None = None) -> Written: ...
    async def state(self, session: bytes) -> SessionState: ...
    async def view(self, session: bytes) -> dict[str, Any]: ...
    async def receipt(self, session: bytes, index: int) -> dict[str, Any]: ...
    async def tlog_proof(self, session: bytes, index: int) -> str: ...
    async def transcript(self, session: bytes) -> bytes: ...


class Answers(Protocol):
    """Gives the first answer of a request with an idempotency key again, or lets it act."""

    async def once(
        self, key: Key | None, act: Callable[[Key | None], Awaitable[Sequence[Written]]]
    ) -> Sequence[Written]: ...


class Rounds(Protocol):
    """The chains that the service follows."""

    def trouble(self, chain_hash: bytes) -> str | None:
        """The code of beacon.errors with which a seal on the chain would be refused now (6.8, 6.11), or None."""
        ...

    def newest(self, chain_hash: bytes) -> VerifiedRound | None: ...
    async def get(self, chain_hash: bytes, round_number: int) -> VerifiedRound | None: ...

    async def wait(self, chain_hash: bytes, round_number: int | None, seconds: float) -> VerifiedRound | None:
        """The round, or the one that is newest next for None, if it comes in time; None also when too many wait."""
        ...

    def release(self) -> None:
        """Let go everybody who waits."""
        ...

    def status(self, chain_hash: bytes, not_before: int = 0) -> ChainStatus:
        """not_before: the least time that an entry can take (ms)."""
        ...


@dataclass(frozen=True, slots=True)
class Chain:
    """One followed chain, as the settings name it."""

    name: str
    info: ChainInfo
    sandbox_only: bool


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that a request may need.

    vkey: the log's public key. stopped: why the service cannot go on writing, None while it can; trouble: why writes
    fail or wait now, though it goes on. witnesses: what they cosigned.
    """

    sessions: Sessions
    waiting: Waiting
    answers: Answers
    log: Log
    vkey: str
    rounds: Rounds
    hosts: Hosts
    webhooks: Webhooks
    chains: tuple[Chain, ...]
    settings: Settings
    stopped: Callable[[], str | None]
    trouble: Callable[[], str | None] = lambda: None
    witnesses: Published = field(default_factory=Nobody)

    def status(self, chain: Chain) -> ChainStatus:
        """What is known of a chain now; its trouble is judged by the clock and by the log's own time (6.2)."""
        return self.rounds.status(chain.info.hash, self.log.latest().time)


SERVICES = web.AppKey("services", Services)
GRANT: Final = web.RequestKey("grant", Grant)
REQUEST_ID = web.RequestKey("request_id", str)
