"""Brings one endpoint what the log holds for it: in order while all goes well, each delivery at least once.

    open      read from the log and not through: at most OPEN; each has its own time of the next attempt
    through   delivered or given up, above the position because something before is still open
    position  everything up to it is through: where a restart reads on, with what the store knows of what is above

While attempts fail, one at a time is made, with growing pauses, so that a receiver that is down is not stormed and a
single delivery that it refuses keeps no other waiting. What is recorded is recorded after the attempt: after a crash
it is made again, under the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from beacon.clock import Clock
from beacon.store.webhooks import Delivery, Endpoint, Status, WebhookStore
from beacon.webhooks import signing
from beacon.webhooks.outbox import Item
from beacon.webhooks.sender import Outcome

OPEN: Final = 64
WINDOW: Final = 8
AHEAD: Final = 10_000
"""So many later deliveries may get through before one that keeps failing is given up."""
FIRST_PAUSE_MS: Final = 2_000
MAX_PAUSE_MS: Final = 3_600_000
UNSAVED: Final = 100_000
FAULT_SECONDS: Final = 5.0

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Outbox(Protocol):
    """What is to be delivered next (`beacon.webhooks.outbox.following`)."""

    async def following(self, endpoint: Endpoint, position: int, most: int) -> tuple[int, list[Item]]: ...


class Sends(Protocol):
    """What makes one attempt."""

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Outcome: ...


@dataclass(slots=True)
class Open:
    """A delivery that is not through. due: when it may be attempted, ms; first: when it was first attempted."""

    item: Item
    due: int = 0
    attempts: int = 0
    first: int | None = None


class Courier:
    """Serves one endpoint. `run` until it is cancelled; `wake` when the log has more."""

    def __init__(
        self,
        endpoint: Endpoint,
        outbox: Outbox,
        store: WebhookStore,
        sender: Sends,
        vault: signing.Vault,
        clock: Clock,
        *,
        retry_ms: int,
        jitter: Callable[[], float],
        sleep: Callable[[asyncio.Event, float], Awaitable[None]],
    ) -> None:
        """jitter: 0 to 1, how much of a pause is random. sleep: until the event is set, or so many seconds."""
        self.endpoint = endpoint
        self._outbox: Final = outbox
        self._store: Final = store
        self._sender: Final = sender
        self._vault: Final = vault
        self._clock: Final = clock
        self._retry_ms: Final = retry_ms
        self._jitter: Final = jitter
        self._sleep: Final = sleep
        self._woken: Final = asyncio.Event()
        self._open: Final[dict[int, Open]] = {}
        self._through: Final[set[int]] = set()
        self._known: dict[int, Delivery] = {}
        self._read = endpoint.position
        self._saved = endpoint.position
        self._failing_since = endpoint.failing_since
        self._failures = 0
        self._resume = 0

    def wake(self) -> None:
        """The log has more, or something else has changed."""
        self._woken.set()

    async def run(self) -> None:
        """Deliver for ever, or until the receiver is gone. Faults, of a database or of ours, are waited out."""
        began = False
        while self.endpoint.disabled is None:
            try:
                if not began:
                    self._known = await self._store.ahead(self.endpoint.id)
                    began = True
                await self.step()
            except Exception:  # noqa: BLE001 - tried again; nothing that is not recorded counts as delivered
                _log.exception("webhooks wait", webhook=self.endpoint.id)
                await asyncio.sleep(FAULT_SECONDS)

    async def step(self) -> None:
        """Read what there is, attempt what is due, and record what came of it; or wait for one of them."""
        self._woken.clear()
        more, recorded = await self._fill(), list[Delivery]()
        ready = self._ready()
        if ready and not await self._store.has(self.endpoint.id):
            _log.warning("a webhook was deleted", webhook=self.endpoint.id, host=self.endpoint.host)
            self.endpoint = replace(self.endpoint, disabled=self._clock.now())
            return
        results = await asyncio.gather(*(self._attempt(one) for one in ready))
        for one, outcome in zip(ready, results, strict=True):
            recorded.append(self._judge(one, outcome))
        recorded += self._give_up()
        self._through.intersection_update([index for index in self._through if index > self._position])
        if recorded or self._position - self._saved >= UNSAVED:
            await self._store.record(self.endpoint.id, self._position, self._failing_since, recorded)
            self._saved = self._position
        if any(outcome.gone for outcome in results):
            _log.warning("a webhook's receiver is gone", webhook=self.endpoint.id, host=self.endpoint.host)
            await self._store.disable(self.endpoint.id)
            self.endpoint = replace(self.endpoint, disabled=self._clock.now())
        elif not (more or ready or recorded):
            await self._sleep(self._woken, self._idle_seconds())

    @property
    def _position(self) -> int:
        return min(self._open) - 1 if self._open else self._read

    async def _fill(self) -> bool:
        """Whether the log had more than was read before."""
        if len(self._open) >= OPEN:
            return False
        before = self._read
        self._read, items = await self._outbox.following(self.endpoint, before, OPEN - len(self._open))
        for item in items:
            known = self._known.pop(item.index, None)
            if known is not None and known.status != "retrying":
                self._through.add(item.index)
            elif known is not None:
                self._open[item.index] = Open(item, 0, known.attempts, known.first)
            else:
                self._open[item.index] = Open(item)
        return self._read > before

    def _ready(self) -> list[Open]:
        """What may be attempted now: the least attempted first; while attempts fail, one after a pause."""
        now = self._clock.now()
        if now < self._resume:
            return []
        due = [one for one in self._open.values() if one.due <= now]
        due.sort(key=lambda one: (one.attempts, one.item.index))
        return due[: 1 if self._failures else WINDOW]

    async def _attempt(self, one: Open) -> Outcome:
        endpoint, now = self.endpoint, self._clock.now()
        kept = [endpoint.secret]
        if endpoint.old is not None and endpoint.old_until is not None and now < endpoint.old_until:
            kept.append(endpoint.old)
        secrets = [secret for item in kept if (secret := self._vault.decrypt(endpoint.id, item)) is not None]
        if not secrets:
            return Outcome(delivered=False, text="secret-unavailable")
        name = signing.message_id(endpoint.id, one.item.index)
        headers = signing.headers(name, now // 1000, one.item.body, secrets)
        return await self._sender.send(endpoint.url, one.item.body, headers)

    def _judge(self, one: Open, outcome: Outcome) -> Delivery:
        now = self._clock.now()
        one.attempts += 1
        one.first = now if one.first is None else one.first
        if outcome.delivered:
            self._failures, self._failing_since, self._resume = 0, None, 0
            return self._close(one, "delivered", outcome.text)
        self._failures += 1
        self._failing_since = now if self._failing_since is None else self._failing_since
        one.due = now + max(self._pause(one.attempts), 1_000 * outcome.retry_after)
        self._resume = now + max(self._pause(self._failures), 1_000 * outcome.retry_after)
        crowded = len(self._through) >= AHEAD and one.item.index == self._position + 1
        if now - one.first >= self._retry_ms or crowded:
            return self._close(one, "failed", outcome.text)
        return self._delivery(one, "retrying", outcome.text)

    def _give_up(self) -> list[Delivery]:
        """What has waited so long behind a receiver that has failed all that time."""
        now = self._clock.now()
        if self._failing_since is None or now - self._failing_since < self._retry_ms:
            return []
        late = [one for one in self._open.values() if now - one.item.time >= self._retry_ms]
        return [self._close(one, "failed", "receiver-down") for one in late]

    def _close(self, one: Open, status: Status, text: str) -> Delivery:
        del self._open[one.item.index]
        self._through.add(one.item.index)
        return self._delivery(one, status, text)

    def _delivery(self, one: Open, status: Status, text: str) -> Delivery:
        item = one.item
        return Delivery(item.index, item.session, item.type, status, one.attempts, one.first, self._clock.now(), text)

    def _pause(self, failures: int) -> int:
        """Milliseconds: doubling from 2 s to an hour; half of it, and a random part of the other half."""
        whole = min(FIRST_PAUSE_MS << min(failures - 1, 20), MAX_PAUSE_MS)
        return int(whole * (0.5 + 0.5 * self._jitter()))

    def _idle_seconds(self) -> float:
        """Until something is due; an hour where nothing is open."""
        if not self._open:
            return MAX_PAUSE_MS / 1000
        due = max(min(one.due for one in self._open.values()), self._resume)
        return max(due - self._clock.now(), 1) / 1000
