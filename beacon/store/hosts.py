"""Who may write: game servers and their bearer tokens, in private.db. A token is stored as its SHA-256 only.

A token holds 32 random bytes, so its hash can neither be guessed nor inverted, and needs no salt. Hosts and tokens may
be changed by a second process beside the service; a revocation there counts here within CACHE_MS.

What a token may do is its scopes: `seal` seals sessions and changes webhooks, `draw` does all else to sessions that are
sealed, `read` reads the host's own lists and settings.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.store.errors import HostExists, HostUnknown, NameRefused, TokenUnknown
from beacon.store.reader import Reader
from beacon.store.writer import Writer

TOKEN_PREFIX: Final = "fb_"  # noqa: S105 - not a token
TOKEN_BYTES: Final = 32
CACHE_MS: Final = 250
MAX_NOTE: Final = 100

Scope: TypeAlias = Literal["seal", "draw", "read"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}", re.ASCII)
_TOKEN: Final = re.compile(r"fb_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Host:
    """A game server. Sessions of a sandbox host are tests, not games."""

    name: str
    sandbox: bool


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token that is valid gives: its host, its scopes, and its id (the first 8 hex digits of its hash)."""

    host: Host
    scopes: frozenset[Scope]
    token: str


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What is known of a token. id: as in Grant; note: the operator's; times in ms, None where it is not so."""

    id: str
    scopes: tuple[Scope, ...]
    note: str
    created: int
    expires: int | None
    revoked: int | None

    def state(self, now: int) -> str:
        """valid, expired or revoked. now: ms."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.expires is None or now < self.expires else "expired"


@dataclass(frozen=True, slots=True)
class HostInfo:
    """A host and all its tokens, oldest first. created: ms."""

    name: str
    sandbox: bool
    created: int
    tokens: tuple[TokenInfo, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    grant: Grant
    expires: int | None
    read_at: int


class HostStore:
    """Hosts and tokens. What the coroutines return from is durable; each may raise the writer's errors."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer: Final = writer
        self._reader: Final = reader
        self._clock: Final = clock
        self._cache: Final[dict[bytes, _Known]] = {}

    async def add(
        self,
        name: str,
        *,
        sandbox: bool,
        scopes: Collection[Scope] = SCOPES,
        note: str = "",
        lifetime: int | None = None,
    ) -> str:
        """Make a token, and the host if there is none of this name. The token is returned here and never again.

        lifetime: ms until it expires, or None. Raises NameRefused (rule 3.5, or the note), HostExists when the host has
        another sandbox flag.
        """
        if not _NAME.fullmatch(name):
            raise NameRefused("a host's name is a letter, then up to 63 letters, digits, dots, underscores and hyphens")
        _check_note(note)
        token, written = _new_token(), _written(scopes)

        def job(db: Database) -> None:
            now = self._clock.now()
            host = db.execute("SELECT sandbox FROM hosts WHERE name = ?", [name]).fetchone()
            if host is None:
                db.execute("INSERT INTO hosts (name, sandbox, created) VALUES (?, ?, ?)", [name, int(sandbox), now])
            elif bool(host[0]) != sandbox:
                kind, advice = (
                    ("a sandbox host", "add --sandbox") if host[0] else ("not a sandbox host", "leave --sandbox out")
                )
                raise HostExists(f"{name} is {kind}, for ever: {advice}, or take another name")
            expires = None if lifetime is None else now + lifetime
            db.execute(_INSERT, [_digest(token), name, written, note, now, expires])

        await self._writer.run(job)
        return token

    async def rotate(self, name: str, token_id: str, *, grace: int, lifetime: int | None = None) -> str:
        """Make a token that may do what another one may, under its note; the other expires in `grace` ms at the latest.

        lifetime: ms until the new one expires; None: as long as the other was made to live.
        Raises HostUnknown, and TokenUnknown unless the host has one valid token of this id.
        """
        token = _new_token()

        def job(db: Database) -> None:
            _require_host(db, name)
            now = self._clock.now()
            found = db.execute(
                """SELECT hash, scopes, note, created, expires FROM tokens WHERE host = ?
                AND lower(substr(hex(hash), 1, 8)) = ? AND revoked IS NULL AND coalesce(expires > ?, true)""",
                [name, token_id, now],
            ).fetchall()
            if len(found) != 1:
                raise TokenUnknown(f"{name} has no valid token {token_id}: `beacon hosts list` shows the ids")
            ((digest, scopes, note, created, expires),) = found
            lives = lifetime if lifetime is not None or expires is None else expires - created
            new_expires = None if lives is None else now + lives
            db.execute(_INSERT, [_digest(token), name, scopes, note, now, new_expires])
            last = now + grace if expires is None else min(expires, now + grace)
            db.execute("UPDATE tokens SET expires = ? WHERE hash = ?", [last, digest])

        try:
            await self._writer.run(job)
        finally:
            self._cache.clear()
        return token

    async def authenticate(self, token: str) -> Grant | None:
        """Give what a token gives that is neither unknown, expired nor revoked; else None."""
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
        return known.grant if known.expires is None or now < known.expires else None

    async def revoke(self, name: str, token_id: str | None = None) -> int:
        """Revoke a host's tokens: all that are not revoked, or the one of this id. Gives how many that were.

        Raises HostUnknown.
        """

        def job(db: Database) -> int:
            _require_host(db, name)
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


_INSERT: Final = "INSERT INTO tokens (hash, host, scopes, note, created, expires) VALUES (?, ?, ?, ?, ?, ?)"


def _find(db: Database, digest: bytes, now: int) -> _Known | None:
    row = db.execute(
        """SELECT hash, name, sandbox, scopes, expires FROM tokens JOIN hosts ON hosts.name = tokens.host
        WHERE hash = ? AND revoked IS NULL""",
        [digest],
    ).fetchone()
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    host = Host(row[1], bool(row[2]))
    return _Known(Grant(host, frozenset(_read(row[3])), digest.hex()[:8]), row[4], now)


def _list(db: Database) -> list[HostInfo]:
    tokens: dict[str, list[TokenInfo]] = {}
    query = """SELECT host, lower(substr(hex(hash), 1, 8)), scopes, note, created, expires, revoked FROM tokens
    ORDER BY created, hash"""
    for host, name, scopes, *fields in db.execute(query).fetchall():
        tokens.setdefault(host, []).append(TokenInfo(name, _read(scopes), *fields))
    hosts = db.execute("SELECT name, sandbox, created FROM hosts ORDER BY name").fetchall()
    return [HostInfo(name, bool(sandbox), created, tuple(tokens.get(name, ()))) for name, sandbox, created in hosts]


def _require_host(db: Database, name: str) -> None:
    if db.execute("SELECT 1 FROM hosts WHERE name = ?", [name]).fetchone() is None:
        raise HostUnknown(f"there is no host {name}")


def _check_note(note: str) -> None:
    if len(note) > MAX_NOTE or not note.isprintable():
        raise NameRefused(f"a token's note has at most {MAX_NOTE} characters, all of them printable")


def _written(scopes: Collection[Scope]) -> str:
    return " ".join(scope for scope in SCOPES if scope in scopes)


def _read(text: str) -> tuple[Scope, ...]:
    return tuple(scope for scope in SCOPES if scope in text.split())


def _new_token() -> str:
    return TOKEN_PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).rstrip(b"=").decode("ascii")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii")).digest()
