"""Hosts' webhooks: what hosts do with them, and one courier for each while the service runs."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from beacon.clock import Clock
from beacon.errors import ApiError
from beacon.log.log import Log
from beacon.sessions.context import Key
from beacon.sessions.state import SessionState
from beacon.settings import WebhookSettings
from beacon.store.errors import WebhookExists, WebhookLimit
from beacon.store.reader import Reader
from beacon.store.webhooks import MAX_ENDPOINTS, Answered, Delivery, Endpoint, WebhookStore
from beacon.webhooks import outbox
from beacon.webhooks.addresses import check_url
from beacon.webhooks.courier import WINDOW, Courier
from beacon.webhooks.outbox import Item
from beacon.webhooks.sender import Sender
from beacon.webhooks.signing import Vault, answer_place, make_secret, show_secret
from verifier.encoding import encode_json, parse_document_json

Document: TypeAlias = dict[str, Any]
Keep: TypeAlias = Callable[[Document], Answered | None]
"""What is to be kept of an answer, in the transaction of the write that it is for."""


class LogOutbox:
    """What endpoints are to get, read from the log on a thread of its own."""

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._reader: Final = Reader(log.path, 1)

    async def following(self, endpoint: Endpoint, position: int, most: int) -> tuple[int, list[Item]]:
        """The next things above `position`, and how far that is (`beacon.webhooks.outbox.following`)."""
        size = self._log.latest().size
        if position >= size - 1:
            return position, []
        host, types = endpoint.host, endpoint.types
        return await self._reader.run(lambda db: outbox.following(db, host, types, position, size, most))

    def close(self) -> None:
        """Close the reader. Again is no error."""
        self._reader.close()


class Webhooks:
    """Between `start` and `stop`, on one event loop. `told` is the book's listener, for the writer's thread.

    A write with an idempotency key is done once, and has its first answer for ever, secret and all: answers are kept
    encrypted. Raises ApiError(idempotency-key-reused) for another request with the same key.
    """

    def __init__(
        self, log: Log, store: WebhookStore, master_key: bytes, clock: Clock, settings: WebhookSettings
    ) -> None:
        self._log: Final = log
        self._store: Final = store
        self._vault: Final = Vault(master_key)
        self._clock: Final = clock
        self._settings: Final = settings
        self._networks: Final = tuple(ipaddress.ip_network(part) for part in settings.allow_networks.split())
        self._couriers: Final[dict[str, tuple[Courier, asyncio.Task[None]]]] = {}
        self._hosts: frozenset[str] = frozenset()
        self._outbox: LogOutbox | None = None
        self._sender: Sender | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn: Final = asyncio.Lock()

    async def start(self) -> None:
        """Go on where the last stop or crash left every endpoint."""
        self._loop = asyncio.get_running_loop()
        self._outbox = LogOutbox(self._log)
        self._sender = Sender(self._networks, self._settings.timeout_ms / 1000, MAX_ENDPOINTS * WINDOW)
        for endpoint in await self._store.all():
            self._serve(endpoint)

    async def stop(self) -> None:
        """End the couriers, their requests and connections. What they had not recorded is delivered again."""
        self._loop = None
        tasks = [task for _, task in self._couriers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._couriers.clear()
        if self._sender is not None:
            await self._sender.close()
        if self._outbox is not None:
            await asyncio.to_thread(self._outbox.close)

    def told(self, states: Sequence[SessionState]) -> None:
        """These sessions have new durable entries: wake the couriers of their hosts. Any thread."""
        loop, known = self._loop, self._hosts
        hosts = {state.seal.host for state in states if state.seal.host in known} if known else ()
        if hosts and loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self._wake, hosts)

    async def add(self, host: str, url: str, types: Sequence[str], key: Key | None = None) -> Document:
        """A new endpoint, told of everything from now on; with its `secret`, which is shown here only.

        Raises ApiError(webhook-url-invalid, webhook-exists, too-many-webhooks).
        """
        return await self._once(key, lambda keep: self._add(host, url, types, keep))

    async def _add(self, host: str, url: str, types: Sequence[str], keep: Keep) -> Document:
        check_url(url, self._networks, http=self._settings.allow_http)
        name, secret = f"wh_{secrets.token_hex(12)}", make_secret()
        endpoint = Endpoint(
            id=name,
            host=host,
            url=url,
            types=tuple(sorted(set(types))),
            created=self._clock.now(),
            position=self._log.latest().size - 1,
            failing_since=None,
            disabled=None,
            secret=self._vault.encrypt(name, secret),
            old=None,
            old_until=None,
        )
        answer = endpoint.facts() | {"secret": show_secret(secret)}
        try:
            await self._store.add(endpoint, self._settings.per_host, keep(answer))
        except WebhookExists as error:
            raise ApiError("webhook-exists", str(error)) from error
        except WebhookLimit as error:
            raise ApiError("too-many-webhooks", str(error)) from error
        self._serve(endpoint)
        return answer

    async def all(self, host: str) -> list[Endpoint]:
        """A host's endpoints, oldest first."""
        return await self._store.all(host)

    async def get(self, host: str, name: str) -> Endpoint:
        """A host's endpoint. Raises ApiError(webhook-unknown)."""
        endpoint = await self._store.get(host, name)
        if endpoint is None:
            raise ApiError("webhook-unknown", "the host has no webhook of this id")
        return endpoint

    async def delete(self, host: str, name: str, key: Key | None = None) -> None:
        """Send nothing more to an endpoint and forget it. Raises ApiError(webhook-unknown)."""
        await self._once(key, lambda keep: self._delete(host, name, keep))

    async def _delete(self, host: str, name: str, keep: Keep) -> Document:
        await self.get(host, name)
        await self._store.delete(name, keep({}))
        served = self._couriers.pop(name, None)
        if served is not None:
            served[1].cancel()
            await asyncio.wait({served[1]})
        self._note_hosts()
        return {}

    async def rotate(self, host: str, name: str, overlap: int, key: Key | None = None) -> Document:
        """A new `secret`, shown here only; the one before signs besides for `overlap` seconds.

        Raises ApiError(webhook-unknown).
        """
        return await self._once(key, lambda keep: self._rotate(host, name, overlap, keep))

    async def _rotate(self, host: str, name: str, overlap: int, keep: Keep) -> Document:
        before, secret = await self.get(host, name), make_secret()
        until, made = self._clock.now() + 1_000 * overlap, self._vault.encrypt(name, secret)
        after = replace(before, secret=made, old=before.secret, old_until=until)
        answer = after.facts() | {"secret": show_secret(secret)}
        await self._store.rotate(name, made, until, keep(answer))
        if name in self._couriers:
            courier = self._couriers[name][0]
            courier.endpoint = replace(courier.endpoint, secret=made, old=before.secret, old_until=until)
        return answer

    async def deliveries(self, host: str, name: str, before: int | None, most: int) -> list[Delivery]:
        """The newest deliveries below log index `before`, newest first. Raises ApiError(webhook-unknown)."""
        await self.get(host, name)
        return await self._store.deliveries(name, before, most)

    async def _once(self, key: Key | None, act: Callable[[Keep], Awaitable[Document]]) -> Document:
        """What `act` gives, or gave when the request was first made."""
        if key is None:
            return await act(lambda _answer: None)
        name, fingerprint, place = key.name, key.fingerprint, answer_place(key.name)

        def keep(answer: Document) -> Answered:
            return Answered(name, fingerprint, self._vault.encrypt(place, encode_json(answer)))

        async with self._turn:
            kept = await self._store.answer(name)
            if kept is None:
                return await act(keep)
        if not hmac.compare_digest(kept.request, fingerprint):
            raise ApiError("idempotency-key-reused", "the key was used for another request")
        text = self._vault.decrypt(place, kept.answer)
        if text is None:
            raise ApiError("internal", "the answer that was kept cannot be opened")
        answer = parse_document_json(text)
        assert isinstance(answer, dict)
        return answer

    def _serve(self, endpoint: Endpoint) -> None:
        if endpoint.disabled is not None or self._outbox is None or self._sender is None:
            return
        courier = Courier(
            endpoint,
            self._outbox,
            self._store,
            self._sender,
            self._vault,
            self._clock,
            retry_ms=self._settings.retry_ms,
            jitter=random.random,
            sleep=_sleep,
        )
        self._couriers[endpoint.id] = (courier, asyncio.create_task(courier.run()))
        self._note_hosts()

    def _note_hosts(self) -> None:
        self._hosts = frozenset(courier.endpoint.host for courier, _ in self._couriers.values())

    def _wake(self, hosts: set[str]) -> None:
        for courier, _ in self._couriers.values():
            if courier.endpoint.host in hosts:
                courier.wake()


async def _sleep(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
