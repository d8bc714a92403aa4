"""The SDK's requests: retried where that is safe, and with one name however often they are sent."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from verifier.encoding import encode_json

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 20.0
MAX_RETRY_AFTER: Final = 120.0
SILENCE: Final = 40.0
"""Seconds without a heartbeat after which a stream is taken for broken."""
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
NO_CONTENT: Final = 204
MULTIPLE_CHOICES: Final = 300


class BeaconError(Exception):
    """The service refused. code: stable; next: what to do; retryable: whether the same request may succeed later."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status: Final = status
        self.code: Final = str(problem.get("code", "unknown"))
        self.detail: Final = str(problem.get("detail", problem.get("title", "")))
        self.next: Final = str(problem.get("next", ""))
        self.retryable: Final = bool(problem.get("retryable", status >= 500))
        self.request_id: Final = problem.get("request_id")
        self.problem: Final = dict(problem)
        super().__init__(f"{self.code}: {self.detail} {self.next}".strip())


class Unreachable(Exception):  # noqa: N818 - it says of the service what it is
    """No answer came, however often it was asked. What was asked for may have been done."""


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

    @property
    def safe(self) -> bool:
        """Whether it can be sent again without doing a thing twice."""
        return self.method == "GET" or IDEMPOTENCY_KEY in self.headers


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
        self._http = ClientSession()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, wait: float = 0) -> dict[str, Any]:
        """Read a document. wait: seconds that the service is asked to hold the answer."""
        return (await self._send(_Request("GET", path, query=query or {}, wait=wait)))[0]

    async def text(self, path: str) -> bytes:
        """Read the exact bytes of a document."""
        return (await self._send(_Request("GET", path)))[1]

    async def post(
        self, path: str, body: Mapping[str, Any], *, key: str | None = None, token: str | None = None, wait: float = 0
    ) -> dict[str, Any]:
        """Write. key: the Idempotency-Key, the same for every attempt; token: in the place of the host's."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers[IDEMPOTENCY_KEY] = key
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return (await self._send(_Request("POST", path, encode_json(dict(body)), headers, wait=wait)))[0]

    async def events(self, path: str, after: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """A stream of Server-Sent Events from above log index `after` to its end: (type, data).

        A stream that breaks is taken up again where it was; so is one that the service ends early, until it says `end`.
        Raises BeaconError, and Unreachable when no attempt in a row brings anything.
        """
        failed = 0
        while failed < self._attempts:
            if failed:
                await asyncio.sleep(_delay(failed, Unreachable()))
            failed += 1
            try:
                async for kind, data in self._stream(path, after):
                    if kind == "end":
                        return
                    failed, after = 0, int(data["index"])
                    yield kind, data
            except BeaconError as error:
                if not error.retryable:
                    raise
            except (ClientError, TimeoutError, OSError):
                continue
        raise Unreachable(f"{path}: no events in {self._attempts} attempts")

    async def _stream(self, path: str, after: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        http = self._open()
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after >= 0 else {})
        timeout = ClientTimeout(total=None, sock_read=SILENCE)
        async with http.get(self._url + path, headers=headers, timeout=timeout, allow_redirects=False) as response:
            if response.status == NO_CONTENT:
                yield "end", {}
                return
            if response.status >= MULTIPLE_CHOICES:
                raise BeaconError(response.status, await _problem(response))
            kind = ""
            async for raw in response.content:
                name, _, value = raw.decode().rstrip("\r\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)
                elif name == "" and kind == "end":
                    yield "end", {}

    def _open(self) -> ClientSession:
        if self._http is None:
            raise RuntimeError("use `async with Beacon(...) as beacon:`")
        return self._http

    async def _send(self, request: _Request) -> tuple[dict[str, Any], bytes]:
        last: Exception = Unreachable("the service was not asked")
        for attempt in range(self._attempts):
            if attempt:
                await asyncio.sleep(_delay(attempt, last))
            try:
                return await self._once(request)
            except BeaconError as error:
                if not (error.retryable and request.safe):
                    raise
                last = error
            except (ClientError, TimeoutError, OSError) as error:
                if not request.safe:
                    raise Unreachable(f"{request}: no answer") from error
                last = error
        if isinstance(last, BeaconError):
            raise last
        raise Unreachable(f"{request}: no answer in {self._attempts} attempts") from last

    async def _once(self, request: _Request) -> tuple[dict[str, Any], bytes]:
        http = self._open()
        headers = dict(request.headers)
        if self._token is not None:
            headers.setdefault("Authorization", f"Bearer {self._token}")
        async with http.request(
            request.method,
            self._url + request.path,
            data=request.body,
            headers=headers,
            params={**request.query, "wait": str(int(request.wait))} if request.wait else request.query,
            timeout=ClientTimeout(total=self._seconds + request.wait),
            allow_redirects=False,
        ) as response:
            if response.status >= MULTIPLE_CHOICES:
                raise BeaconError(response.status, await _problem(response))
            data = await response.read()
            try:
                document = json.loads(data)
            except ValueError:
                document = None
            if not isinstance(document, dict):
                raise BeaconError(response.status, {"detail": "an answer that is no JSON object", "retryable": False})
            return document, data


async def _problem(response: ClientResponse) -> dict[str, Any]:
    """What a refusal says; an answer of something in between, which is no problem document, says its status."""
    try:
        said = await response.json(content_type=None)
    except ValueError:
        said = None
    problem = said if isinstance(said, dict) else {"detail": f"an answer with status {response.status}"}
    retry_after = response.headers.get("Retry-After")
    return problem | ({} if retry_after is None else {"retry_after": retry_after})


def _delay(attempt: int, last: Exception) -> float:
    """Seconds before the next attempt: what the service asks for, else twice as long each time; jittered."""
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2**attempt)
    asked = str(last.problem.get("retry_after", "")) if isinstance(last, BeaconError) else ""
    if asked.isdecimal():
        return min(float(asked), MAX_RETRY_AFTER) + random.uniform(0, FIRST_DELAY)  # noqa: S311 - jitter
    return random.uniform(longest / 2, longest)  # noqa: S311 - jitter
