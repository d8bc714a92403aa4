"""The SDK's requests: one name however often they are sent, so that any of them can be sent again.

A request is repeated after a lost connection, a timeout, an answer of a gateway, or a refusal that is `retryable`;
never sooner than `Retry-After` says, never for longer than PATIENCE, and never after anything else.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    StreamReader,
    TCPConnector,
)

from verifier.encoding import MAX_DOCUMENT_BYTES, encode_json, parse_any_json, parse_decimal, parse_document_json
from verifier.errors import FormatError

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 20.0
PATIENCE: Final = 120.0
"""Seconds after which a request is not sent again."""
SILENCE: Final = 40.0
"""Seconds without a heartbeat after which a stream is taken for broken."""
STEADY: Final = 5.0
"""Seconds after which a stream that was heard of and then ends was none that failed."""
HEARTBEAT: Final = ""
MAX_EVENT_BYTES: Final = 1024 * 1024
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
NO_CONTENT: Final = 204
MULTIPLE_CHOICES: Final = 300
_GATEWAY: Final = frozenset({429, 502, 503, 504})
_LOST: Final = (ClientError, TimeoutError, OSError)


class BeaconError(Exception):
    """The service refused. code: stable; next: what to do; retryable: whether the same request may succeed later.

    status: of HTTP; idempotency_key: of a write, which is never done twice under it.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status: Final = status
        self.code: Final = str(problem.get("code", "unknown"))
        self.detail: Final = str(problem.get("detail", problem.get("title", "")))
        self.next: Final = str(problem.get("next", ""))
        self.retryable: Final = problem.get("retryable") is True
        self.request_id: Final = problem.get("request_id")
        self.problem: Final = dict(problem)
        self.idempotency_key: str | None = None
        super().__init__(f"{self.code}: {self.detail} {self.next}".strip())


class Unreachable(BeaconError):  # noqa: N818 - it says of the service what it is
    """No answer came, however often it was asked: status 0. What was asked for may have been done."""

    def __init__(self, detail: str, *, retryable: bool = True) -> None:
        super().__init__(0, {"code": "unreachable", "detail": detail, "retryable": retryable})


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent, once or again. wait: seconds that the service is asked to hold the answer."""

    method: str
    path: str
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """Sends JSON and gets JSON. The token is in no repr."""

    def __init__(self, url: str, token: str | None, *, seconds: float, attempts: int) -> None:
        """seconds: that one attempt may take, besides what it is asked to wait; attempts: at most, 1 or more."""
        self._url: Final = url.rstrip("/")
        self._token: Final = token
        self._seconds: Final = seconds
        self._attempts: Final = attempts
        self._http: ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = ClientSession(connector=TCPConnector(limit=0))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, wait: float = 0) -> dict[str, Any]:
        """Read a document. wait: seconds that the service is asked to hold the answer."""
        return _document(await self._send(_Request("GET", path, query=query or {}, wait=wait)))

    async def text(self, path: str) -> bytes:
        """Read the exact bytes of a document."""
        return await self._send(_Request("GET", path))

    async def post(
        self, path: str, body: Mapping[str, Any], *, key: str | None = None, token: str | None = None, wait: float = 0
    ) -> dict[str, Any]:
        """Write. key: the Idempotency-Key, the same for every attempt; token: in the place of the host's."""
        key = key or new_key()
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: key}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            return _document(await self._send(_Request("POST", path, encode_json(dict(body)), headers, wait=wait)))
        except BeaconError as error:
            error.idempotency_key = key
            raise

    async def events(self, path: str, after: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """A stream of Server-Sent Events from above log index `after` to its end: (type, data).

        A stream that breaks is taken up again where it was; so is one that the service ends early, until it says `end`.
        Raises BeaconError, and Unreachable when as many attempts in a row as there may be bring nothing.
        """
        failed = 0
        while True:
            began = heard = time.monotonic()
            last: BeaconError = Unreachable(f"{path}: the stream ended before the session")
            try:
                async for kind, data in self._stream(path, after):
                    heard = time.monotonic()
                    if kind == HEARTBEAT:
                        continue
                    failed = 0
                    if kind == "end":
                        return
                    index = data.get("index")
                    if type(index) is not int:
                        raise _unreadable("an event without its index")
                    if index > after:
                        after = index
                        yield kind, data
            except BeaconError as error:
                last = error
            except _LOST as error:
                last = Unreachable(f"{path}: {type(error).__name__}")
            failed = 1 if heard - began > STEADY else failed + 1
            if not last.retryable or failed >= self._attempts:
                raise last
            await asyncio.sleep(_delay(failed, last))

    async def _stream(self, path: str, after: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after >= 0 else {})
        timeout = ClientTimeout(total=None, sock_connect=self._seconds, sock_read=SILENCE)
        async with self._open().get(
            self._url + path, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            if response.status == NO_CONTENT:
                yield "end", {}
                return
            if response.status >= MULTIPLE_CHOICES:
                raise BeaconError(response.status, _problem(response, await _read(response)))
            async for block in _blocks(response.content):
                fields = {name: value for name, _, value in (line.partition(": ") for line in block)}
                if "event" in fields:
                    yield fields["event"], _document(fields.get("data", "").encode())
                else:
                    yield HEARTBEAT, {}

    def _open(self) -> ClientSession:
        if self._http is None:
            raise RuntimeError("use `async with Beacon(...) as beacon:`")
        return self._http

    async def _send(self, request: _Request) -> bytes:
        until, failed = time.monotonic() + PATIENCE, 0
        while True:
            try:
                return await self._once(request)
            except BeaconError as error:
                last = error
            except _LOST as error:
                text = f"{request}: no answer ({type(error).__name__})"
                last = Unreachable(text, retryable=not isinstance(error, ClientSSLError))
            failed += 1
            pause = _delay(failed, last)
            if not last.retryable or failed >= self._attempts or time.monotonic() + pause > until:
                raise last
            await asyncio.sleep(pause)

    async def _once(self, request: _Request) -> bytes:
        headers = dict(request.headers)
        if self._token is not None:
            headers.setdefault("Authorization", f"Bearer {self._token}")
        async with self._open().request(
            request.method,
            self._url + request.path,
            data=request.body,
            headers=headers,
            params={**request.query, "wait": str(int(request.wait))} if request.wait else request.query,
            timeout=ClientTimeout(total=self._seconds + request.wait),
            allow_redirects=False,
        ) as response:
            data = await _read(response)
            if response.status >= MULTIPLE_CHOICES:
                raise BeaconError(response.status, _problem(response, data))
            return data


def new_key() -> str:
    """A fresh idempotency key."""
    return secrets.token_hex(16)


def _document(data: bytes) -> dict[str, Any]:
    try:
        return parse_document_json(data)
    except FormatError as error:
        raise _unreadable(f"not an answer of this service: {error.message}") from error


def _unreadable(detail: str) -> BeaconError:
    return BeaconError(0, {"code": "unreadable", "detail": detail})


async def _read(response: ClientResponse) -> bytes:
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) > MAX_DOCUMENT_BYTES:
            raise _unreadable("longer than any answer of this service")
    return bytes(found)


async def _blocks(content: StreamReader) -> AsyncIterator[list[str]]:
    """The lines of each event (HTML Living Standard, 9.2.6, as this service writes them: lines end in U+000A)."""
    rest = b""
    async for part in content.iter_any():
        *whole, rest = (rest + part).split(b"\n\n")
        if len(rest) > MAX_EVENT_BYTES:
            raise _unreadable("an event longer than any of this service")
        for block in whole:
            yield block.decode("utf-8", "replace").split("\n")


def _problem(response: ClientResponse, body: bytes) -> dict[str, Any]:
    """What a refusal says; an answer of something in between, which is no problem document, says its status."""
    try:
        said = parse_any_json(body)
    except FormatError:
        said = None
    retry_after = response.headers.get("Retry-After")
    more = {} if retry_after is None else {"retry_after": retry_after}
    if not isinstance(said, dict) or "code" not in said:
        detail = f"an answer with status {response.status}"
        return {"code": "unreadable", "detail": detail, "retryable": response.status in _GATEWAY} | more
    return said | more


def _delay(failed: int, last: BeaconError) -> float:
    """Seconds before the next attempt: what the service asks for, and twice as long each time; jittered."""
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2.0**failed)
    try:
        asked = float(parse_decimal(str(last.problem.get("retry_after", "0"))))
    except FormatError:
        asked = 0.0
    return asked + random.uniform(longest / 2, longest)  # noqa: S311 - jitter
