"""Webhook endpoints and their deliveries, in private.db. What is to be delivered is in the log; here is how far it is.

position: the log index up to which everything of the host's sessions was delivered or given up. Secrets are encrypted
before they come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.errors import WebhookExists, WebhookLimit
from beacon.store.reader import Reader
from beacon.store.writer import Writer

KEPT_DELIVERIES: Final = 1_000
"""The newest deliveries of each endpoint that stay listed."""

MAX_ENDPOINTS: Final = 125
"""All hosts' together: so many can be sent to at once without one waiting for another."""

Status: TypeAlias = Literal["delivered", "retrying", "failed"]


class Encrypted(NamedTuple):
    """A secret under the master key."""

    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a host wants to be told. types: empty for all. Times are ms; position: a log index.

    failing_since: the first failure after the last success; disabled: when the receiver said that it is gone (410).
    old: the secret before the last rotation, in force until old_until.
    """

    id: str
    host: str
    url: str
    types: tuple[str, ...]
    created: int
    position: int
    failing_since: int | None
    disabled: int | None
    secret: Encrypted
    old: Encrypted | None
    old_until: int | None

    def facts(self) -> dict[str, Any]:
        """All but the secrets, as the API and `beacon hosts webhooks` show it."""
        return {
            "id": self.id,
            "url": self.url,
            "types": list(self.types),
            "created": self.created,
            "position": self.position,
            "failing_since": self.failing_since,
            "disabled": self.disabled,
            "old_secret_until": self.old_until,
        }


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry on its way to an endpoint. index: of the log; first, last: times of attempts, ms.

    attempts, first: 0 and None where it was given up unattempted. outcome: what the last attempt came to.
    """

    index: int
    session: bytes
    type: str
    status: Status
    attempts: int
    first: int | None
    last: int
    outcome: str


class WebhookStore:
    """What the coroutines return from is durable; each write may raise the writer's errors."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock

    async def add(self, endpoint: Endpoint, limit: int) -> None:
        """Keep a new endpoint. Raises WebhookExists (the host has one with this URL), WebhookLimit."""

        def job(db: Database) -> None:
            query = "SELECT count(*), coalesce(sum(url = ?), 0) FROM webhooks WHERE host = ?"
            count, same = db.conn.execute(query, (endpoint.url, endpoint.host)).fetchone()
            if same:
                raise WebhookExists("the host has a webhook with this URL")
            (total,) = db.conn.execute("SELECT count(*) FROM webhooks").fetchone()
            if count >= limit or total >= MAX_ENDPOINTS:
                raise WebhookLimit(f"a host has at most {limit} webhooks, the service {MAX_ENDPOINTS}")
            db.conn.execute(
                """INSERT INTO webhooks (id, host, url, types, created, position, nonce, ciphertext)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    endpoint.id,
                    endpoint.host,
                    endpoint.url,
                    " ".join(endpoint.types),
                    endpoint.created,
                    endpoint.position,
                    *endpoint.secret,
                ),
            )

        await self._writer.run(job)

    async def all(self, host: str | None = None) -> list[Endpoint]:
        """Give the endpoints of a host, or everybody's, oldest first."""
        where = "" if host is None else "WHERE host = ?"
        given = () if host is None else (host,)
        return await self._reader.run(lambda db: _endpoints(db, f"{where} ORDER BY created, id", given))

    async def get(self, host: str, name: str) -> Endpoint | None:
        """Give an endpoint of a host's by its id."""
        found = await self._reader.run(lambda db: _endpoints(db, "WHERE host = ? AND id = ?", (host, name)))
        return found[0] if found else None

    async def has(self, name: str) -> bool:
        """Whether there is an endpoint of this id, whoever's it is."""
        query = "SELECT 1 FROM webhooks WHERE id = ?"
        return await self._reader.run(lambda db: db.conn.execute(query, (name,)).fetchone()) is not None

    async def delete(self, name: str) -> None:
        """Forget an endpoint and its deliveries. One that is not there is no error."""

        def job(db: Database) -> None:
            db.conn.execute("DELETE FROM webhook_deliveries WHERE webhook = ?", (name,))
            db.conn.execute("DELETE FROM webhooks WHERE id = ?", (name,))

        await self._writer.run(job)

    async def rotate(self, name: str, secret: Encrypted, old_until: int) -> None:
        """Put a new secret in force; the one before stays until `old_until` (ms)."""
        query = """UPDATE webhooks SET old_nonce = nonce, old_ciphertext = ciphertext, old_until = ?, nonce = ?,
            ciphertext = ? WHERE id = ?"""
        await self._writer.run(lambda db: db.conn.execute(query, (old_until, *secret, name)).rowcount)

    async def disable(self, name: str) -> None:
        """Deliver nothing to an endpoint any more."""
        query, now = "UPDATE webhooks SET disabled = ? WHERE id = ?", self._clock.now()
        await self._writer.run(lambda db: db.conn.execute(query, (now, name)).rowcount)

    async def record(self, name: str, position: int, failing_since: int | None, deliveries: Sequence[Delivery]) -> None:
        """Take over what came of some deliveries, and how far the endpoint is now. Old secrets and rows go."""
        now = self._clock.now()

        def job(db: Database) -> None:
            changed = db.conn.execute(
                "UPDATE webhooks SET position = ?, failing_since = ? WHERE id = ?", (position, failing_since, name)
            ).rowcount
            if not changed:
                return
            db.conn.execute(
                """UPDATE webhooks SET old_nonce = NULL, old_ciphertext = NULL, old_until = NULL
                WHERE id = ? AND old_until <= ?""",
                (name, now),
            )
            db.conn.executemany(
                "INSERT OR REPLACE INTO webhook_deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (name, one.index, one.session, one.type, one.status, one.attempts, one.first, one.last, one.outcome)
                    for one in deliveries
                ],
            )
            db.conn.execute(
                """DELETE FROM webhook_deliveries WHERE webhook = ?1 AND i <= ?3 AND i <=
                (SELECT i FROM webhook_deliveries WHERE webhook = ?1 ORDER BY i DESC LIMIT 1 OFFSET ?2)""",
                (name, KEPT_DELIVERIES, position),
            )

        await self._writer.run(job)

    async def ahead(self, name: str) -> dict[int, Delivery]:
        """Give the deliveries above the endpoint's position, by log index: under way, or through before others."""
        query = "WHERE webhook = ?1 AND i > (SELECT position FROM webhooks WHERE id = ?1)"
        return {one.index: one for one in await self._reader.run(lambda db: _deliveries(db, query, (name,)))}

    async def deliveries(self, name: str, before: int | None, limit: int) -> list[Delivery]:
        """Give deliveries with an index below `before`, the newest first."""
        query = "WHERE webhook = ? AND i < coalesce(?, i + 1) ORDER BY i DESC LIMIT ?"
        return await self._reader.run(lambda db: _deliveries(db, query, (name, before, limit)))


def _endpoints(db: Database, where: str, given: tuple[Any, ...]) -> list[Endpoint]:
    rows = db.conn.execute(
        f"""SELECT id, host, url, types, created, position, failing_since, disabled, nonce, ciphertext, old_nonce,
        old_ciphertext, old_until FROM webhooks {where}""",  # noqa: S608 - words of ours
        given,
    ).fetchall()
    return [_endpoint(row) for row in rows]


def _endpoint(row: Any) -> Endpoint:
    name, host, url, types, created, position, failing, disabled, nonce, ciphertext, old_nonce, old, until = row
    before = None if old is None else Encrypted(old_nonce, old)
    return Endpoint(
        name,
        host,
        url,
        tuple(types.split()),
        created,
        position,
        failing,
        disabled,
        Encrypted(nonce, ciphertext),
        before,
        until,
    )


def _deliveries(db: Database, where: str, given: tuple[Any, ...]) -> list[Delivery]:
    query = f"SELECT i, session, type, status, attempts, first, last, outcome FROM webhook_deliveries {where}"  # noqa: S608
    return [Delivery(*row) for row in db.conn.execute(query, given).fetchall()]
