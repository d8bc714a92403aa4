"""age v1 files with one recipient stanza, in binary (C2SP age, https://c2sp.org/age).

    age-encryption.org/v1
    -> TYPE ARGUMENT ...
    BODY                      base64 without padding, 64 columns; the last line is shorter, and may be empty
    --- MAC                   HMAC-SHA-256 of all up to and with the three hyphens, base64 without padding
    NONCE CHUNK ...           16 bytes, then ChaCha20-Poly1305 of 64 KiB each, the last one shorter or as long

Parse means canonical: what `parse_age` takes, `AgeFile.encode` gives again. A file key has 16 bytes.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from verifier.errors import Code, FormatError, VerificationError

FILE_KEY_BYTES: Final = 16
NONCE_BYTES: Final = 16
_INTRODUCTION: Final = b"age-encryption.org/v1\n"
_COLUMNS: Final = 64
_CHUNK: Final = 64 * 1024
_TAG: Final = 16
_HEADER: Final = re.compile(
    rb"age-encryption\.org/v1\n"
    rb"-> (?P<arguments>[!-~]+(?: [!-~]+)*)\n"
    rb"(?P<body>(?:[A-Za-z0-9+/]{64}\n)*[A-Za-z0-9+/]{0,63}\n)"
    rb"--- (?P<mac>[A-Za-z0-9+/]{43})\n"
)


@dataclass(frozen=True, slots=True)
class Stanza:
    """To whom the file key is wrapped. arguments: the type first, at least one; body: any bytes."""

    arguments: tuple[str, ...]
    body: bytes

    def encode(self) -> bytes:
        text = _unpadded(self.body)
        lines = [text[start : start + _COLUMNS] for start in range(0, len(text), _COLUMNS)]
        if not lines or len(lines[-1]) == _COLUMNS:
            lines.append("")
        return "\n".join(["-> " + " ".join(self.arguments), *lines, ""]).encode("ascii")


@dataclass(frozen=True, slots=True)
class AgeFile:
    """mac: 32 bytes; nonce: 16 bytes; chunks: the encrypted payload, 16 bytes at least."""

    stanza: Stanza
    mac: bytes
    nonce: bytes
    chunks: bytes

    def encode(self) -> bytes:
        return _header(self.stanza) + f" {_unpadded(self.mac)}\n".encode("ascii") + self.nonce + self.chunks


def parse_age(data: bytes) -> AgeFile:
    """A binary age file with exactly one stanza. Raises FormatError(AGE)."""
    found = _HEADER.match(data)
    if found is None:
        raise FormatError(Code.AGE, "not the header of a binary age v1 file with one stanza")
    body, mac = _decode(found["body"].replace(b"\n", b"")), _decode(found["mac"])
    rest = data[found.end() :]
    if len(rest) < NONCE_BYTES + _TAG:
        raise FormatError(Code.AGE, "the payload of the age file is cut off")
    stanza = Stanza(tuple(found["arguments"].decode("ascii").split(" ")), body)
    parsed = AgeFile(stanza, mac, rest[:NONCE_BYTES], rest[NONCE_BYTES:])
    if parsed.encode() != data:
        raise FormatError(Code.AGE, "the age file is not in its one canonical form")
    return parsed


def seal_age(stanza: Stanza, file_key: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """The file. file_key: 16 bytes that `stanza` wraps; nonce: 16 fresh random bytes."""
    cipher = ChaCha20Poly1305(_derive(file_key, nonce, b"payload"))
    pieces = [plaintext[start : start + _CHUNK] for start in range(0, len(plaintext), _CHUNK)] or [b""]
    numbered = zip(_counters(len(pieces)), pieces, strict=True)
    chunks = b"".join(cipher.encrypt(counter, piece, None) for counter, piece in numbered)
    return AgeFile(stanza, _mac(stanza, file_key), nonce, chunks).encode()


def open_age(file: AgeFile, file_key: bytes) -> bytes:
    """The plaintext under the file key, 16 bytes. Raises VerificationError(DECRYPTION) if anything was altered."""
    if not hmac.compare_digest(_mac(file.stanza, file_key), file.mac):
        raise VerificationError(Code.DECRYPTION, "the header of the age file is not authentic")
    cipher = ChaCha20Poly1305(_derive(file_key, file.nonce, b"payload"))
    size = _CHUNK + _TAG
    pieces = [file.chunks[start : start + size] for start in range(0, len(file.chunks), size)]
    try:
        opened = [
            cipher.decrypt(counter, piece, None) for counter, piece in zip(_counters(len(pieces)), pieces, strict=True)
        ]
    except InvalidTag as error:
        raise VerificationError(Code.DECRYPTION, "the payload of the age file is not authentic") from error
    if len(opened) > 1 and not opened[-1]:
        raise VerificationError(Code.DECRYPTION, "the payload of the age file ends with an empty chunk")
    return b"".join(opened)


def _header(stanza: Stanza) -> bytes:
    """All that the MAC covers."""
    return _INTRODUCTION + stanza.encode() + b"---"


def _mac(stanza: Stanza, file_key: bytes) -> bytes:
    return hmac.digest(_derive(file_key, b"", b"header"), _header(stanza), "sha256")


def _derive(file_key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt, info).derive(file_key)


def _counters(count: int) -> Iterator[bytes]:
    """The nonce of each chunk: 11 bytes of its number, and whether it is the last."""
    for number in range(count):
        yield number.to_bytes(11, "big") + bytes([number == count - 1])


def _unpadded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii").rstrip("=")


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise FormatError(Code.AGE, "base64 of an impossible length in the age header") from error
