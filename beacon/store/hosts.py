"""Who may write: game servers and their bearer tokens, in private.db. A token is stored as its SHA-256 only.

A token holds 32 random bytes, so its hash can neither be guessed nor inverted, and needs no salt. Hosts and tokens may
be changed by a second process beside the service; a revocation there counts here within CACHE_MS.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.errors import HostExists, HostUnknown, NameRefused
from beacon.store.reader import Reader
from beacon.store.writer import Writer

TOKEN_PREFIX: Final = "fb_"  # noqa: S105 - not a token
TOKEN_BYTES: Final = 32
CACHE_MS: Final = 250

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}", re.ASCII)
_TOKEN: Final = re.compile(r"fb_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Host:
    """A game server. Sessions of a sandbox host are tests, not games."""

    name: str
    sandbox: bool


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What is known of a token. id: the first 8 hex digits of its hash; times in ms, None where it is not so."""

    id: str
    created: int
    expires: int | None
    revoked: int | None


@dataclass(frozen=True, slots=True)
class HostInfo:
    """A host and all its tokens, oldest first. created: ms."""

    name: str
    sandbox: bool
    created: int
    tokens: tuple[TokenInfo, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    host: Host
    expires: int | None
    read_at: int


class HostStore:
    """Hosts and tokens. What the coroutines return from is durable; each may raise the writer's errors."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock
        self._cache: Final[dict[bytes, _Known]] = {}

    async def add(self, name: str, *, sandbox: bool, expires: int | None = None) -> str:
        """Make a token, and the host if there is none of this name. The token is returned here and never again.

        expires: ms, or None. Raises NameRefused (rule 3.5), HostExists when the host has another sandbox flag.
        """
        if not _NAME.fullmatch(name):
            raise NameRefused("a host's name is a letter, then up to 63 letters, digits, dots, underscores and hyphens")
        token = TOKEN_PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).rstrip(b"=").decode("ascii")
        digest = _digest(token)

        def job(db: Database) -> None:
            now = self._clock.now()
            host = db.execute("SELECT sandbox FROM hosts WHERE name = ?", [name]).fetchone()
            if host is None:
                db.execute("INSERT INTO hosts (name, sandbox, created) VALUES (?, ?, ?)", [name, int(sandbox), now])
            elif bool(host[0]) != sandbox:
                raise HostExists(f"{name} is {'a sandbox host' if host[0] else 'not a sandbox host'}, for ever")
            db.execute(
                "INSERT INTO tokens (hash, host, created, expires) VALUES (?, ?, ?, ?)", [digest, name, now, expires]
            )

        await self._writer.run(job)
        return token

    async def authenticate(self, token: str) -> Host | None:
        """Give the host of a token that is neither unknown, expired nor revoked; else None."""
        if not _TOKEN.fullmatch(token):
            return None
        digest, now = _digest(token), self._clock.now()
        known = self._cache.get(digest)
        if known is None or not known.read_at <= now < known.read_at + CACHE_MS:
            self._cache.pop(digest, None)
            known = await self._reader.run(lambda db: _find(db, digest, now))
            if known is None:
                return None
            self._cache[digest] = known
        return known.host if known.expires is None or now < known.expires else None

    async def revoke(self, name: str, token_id: str | None = None) -> int:
        """Revoke a host's tokens: all that are not revoked, or the one of this id. Gives how many that were.

        Raises HostUnknown.
        """

        def job(db: Database) -> int:
            if db.execute("SELECT 1 FROM hosts WHERE name = ?", [name]).fetchone() is None:
                raise HostUnknown(f"there is no host {name}")
            return db.execute(
                """UPDATE tokens SET revoked = ? WHERE host = ? AND revoked IS NULL
                AND coalesce(lower(substr(hex(hash), 1, 8)) = ?, true)""",
                [self._clock.now(), name, token_id],
            ).rowcount

        try:
            return await self._writer.run(job)
        finally:
            self._cache.clear()

    async def list(self) -> list[HostInfo]:
        """Give all hosts by name."""
        return await self._reader.run(_list)


def _find(db: Database, digest: bytes, now: int) -> _Known | None:
    row = db.execute(
        """SELECT hash, name, sandbox, expires FROM tokens JOIN hosts ON hosts.name = tokens.host
        WHERE hash = ? AND revoked IS NULL""",
        [digest],
    ).fetchone()
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    return _Known(Host(row[1], bool(row[2])), row[3], now)


def _list(db: Database) -> list[HostInfo]:
    tokens: dict[str, list[TokenInfo]] = {}
    for host, *fields in db.execute(
        "SELECT host, lower(substr(hex(hash), 1, 8)), created, expires, revoked FROM tokens ORDER BY created, hash"
    ).fetchall():
        tokens.setdefault(host, []).append(TokenInfo(*fields))
    hosts = db.execute("SELECT name, sandbox, created FROM hosts ORDER BY name").fetchall()
    return [HostInfo(name, bool(sandbox), created, tuple(tokens.get(name, ()))) for name, sandbox, created in hosts]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii")).digest()
