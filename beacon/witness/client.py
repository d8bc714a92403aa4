"""One request to a witness: add-checkpoint (C2SP tlog-witness), within its time, and not a byte more than it needs.

Whatever the other side does becomes an answer; a witness is believed in nothing but what its key signed, and in a size
only so far as to ask again.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import aiohttp
from aiohttp import hdrs

from beacon.rounds.resolver import AddressRefused, RelayResolver
from verifier.encoding import parse_decimal
from verifier.errors import FormatError, VerifierError
from verifier.note import MAX_SIGNATURES, Checkpoint, Note, Signature, VerifierKey, open_note

MAX_ANSWER: Final = 64 * 1024
MAX_RETRY_AFTER: Final = 60
_TIMESTAMP: Final = 8


class Result(StrEnum):
    """What came of a request."""

    COSIGNED = "cosigned"
    CONFLICT = "conflict"
    """409: it is at another size."""
    UNPROVEN = "unproven"
    """422: it does not take the proof."""
    REFUSED = "refused"
    """Any other 4xx: it does not know the log, or its key."""
    BUSY = "busy"
    """429."""
    FAILED = "failed"
    """5xx, or a status that the protocol does not have."""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    INVALID = "invalid"
    """200 without a valid cosignature of this checkpoint by this witness, or too long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """result, and with it: signature (COSIGNED: the time, 8 bytes, and what signs it), size (CONFLICT: what it says,
    None where it says nothing that is one), retry_after (seconds, 0 where none are asked for), detail (for the log).
    """

    result: Result
    detail: str = ""
    signature: bytes = b""
    size: int | None = None
    retry_after: int = 0


class Client:
    """Asks witnesses. Made and closed on the event loop."""

    def __init__(self, seconds: float) -> None:
        """seconds: of one request, from the connection to the last byte."""
        self._client: Final = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=seconds),
            connector=aiohttp.TCPConnector(resolver=RelayResolver()),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={hdrs.USER_AGENT: "fair-beacon", hdrs.ACCEPT_ENCODING: "identity"},
        )

    async def add_checkpoint(self, url: str, body: str, text: str, key: VerifierKey) -> Answer:
        """POST a request's body. text: the checkpoint's; key: the witness's. Never raises for what the witness does."""
        try:
            headers = {hdrs.CONTENT_TYPE: "text/plain; charset=utf-8"}
            async with self._client.post(
                f"{url}/add-checkpoint", data=body.encode(), headers=headers, allow_redirects=False
            ) as response:
                return await _read(response, text, key)
        except TimeoutError:
            return Answer(Result.TIMEOUT)
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            refused = isinstance(error, AddressRefused) or isinstance(error.__cause__, AddressRefused)
            return Answer(Result.UNREACHABLE, "address refused" if refused else type(error).__name__)

    async def newest(self, url: str, origin: str, key: VerifierKey) -> Checkpoint | None:
        """The newest checkpoint of a log that a witness shows with its cosignature, whichever key of the log signed it.

        None for anything else: not every witness has this resource. key: the witness's. Never raises for what it does.
        """
        address = f"{url}/{hashlib.sha256(origin.encode()).hexdigest()}/checkpoint"
        try:
            async with self._client.get(address, allow_redirects=False) as response:
                body = await response.content.read(MAX_ANSWER) if response.status == 200 else b""
                while len(body) < MAX_ANSWER and (chunk := await response.content.read(MAX_ANSWER - len(body))):
                    body += chunk
            note = Note.parse(body.decode())
            open_note(note, [key])
            checkpoint = Checkpoint.parse(note.text)
        except (TimeoutError, aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError, VerifierError):
            return None
        return checkpoint if checkpoint.origin == origin else None

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()


async def _read(response: aiohttp.ClientResponse, text: str, key: VerifierKey) -> Answer:
    body = bytearray()
    while chunk := await response.content.read(MAX_ANSWER):
        body += chunk
        if len(body) > MAX_ANSWER:
            response.close()
            return Answer(Result.INVALID, f"more than {MAX_ANSWER} bytes, status {response.status}")
    status, detail = response.status, f"status {response.status}"
    match status:
        case 200:
            return judge(bytes(body), text, key)
        case 409:
            return Answer(Result.CONFLICT, detail, size=_size(bytes(body)))
        case 422:
            return Answer(Result.UNPROVEN, detail)
        case 429:
            return Answer(Result.BUSY, detail, retry_after=_retry_after(response))
        case _ if 400 <= status < 500:
            return Answer(Result.REFUSED, detail)
        case _:
            return Answer(Result.FAILED, detail, retry_after=_retry_after(response))


def judge(body: bytes, text: str, key: VerifierKey) -> Answer:
    """What a 200 is worth: COSIGNED only if a line of this witness signs this text, and none of its lines is false."""
    try:
        lines = body.decode()
        if not lines.endswith("\n") or lines.count("\n") > MAX_SIGNATURES:
            return Answer(Result.INVALID, "not the lines of signatures")
        note = Note(text, tuple(Signature.parse(line) for line in lines[:-1].split("\n")))
        open_note(note, [key])
    except (UnicodeDecodeError, VerifierError) as error:
        return Answer(Result.INVALID, str(error))
    signature = next(one.signature for one in note.signatures if (one.name, one.key_id) == (key.name, key.key_id))
    if not int.from_bytes(signature[:_TIMESTAMP], "big"):
        return Answer(Result.INVALID, "a cosignature without a time")
    return Answer(Result.COSIGNED, signature=signature)


def _size(body: bytes) -> int | None:
    try:
        return parse_decimal(body.decode("ascii").removesuffix("\n"))
    except (UnicodeDecodeError, FormatError):
        return None


def _retry_after(response: aiohttp.ClientResponse) -> int:
    asked = response.headers.get(hdrs.RETRY_AFTER, "")
    return min(int(asked), MAX_RETRY_AFTER) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
