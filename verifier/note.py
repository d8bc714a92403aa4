"""Signed notes, checkpoints and cosignatures (C2SP signed-note, tlog-checkpoint, tlog-cosignature).

    note         text, ends in a newline
                 <empty line>
                 — <key name> <base64( key id (4 bytes) || signature )>      one to 100 of these lines
    vkey         <key name>+<key id, 8 hex digits>+<base64( type (1 byte) || public key )>
    checkpoint   <origin> / <size> / <base64 root> / extension lines, each ending in a newline

UTF-8 with no control character but the newline; parse means canonical: what is parsed encodes to the same bytes.
A `Note` is unverified; only `open_note` returns a `VerifiedNote`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from verifier import ed25519
from verifier.encoding import encode_base64, parse_base64, parse_decimal, parse_hex, u64
from verifier.errors import Code, FormatError, VerificationError, VerifierError

try:
    from cryptography.hazmat.primitives.asymmetric import mldsa
except ImportError:  # an older cryptography: ML-DSA lines are then ignored as of unknown keys
    mldsa = None  # type: ignore[assignment]

ED25519: Final = 0x01
ECDSA: Final = 0x02
COSIGNATURE_V1: Final = 0x04
TREE_HEAD: Final = 0x05
ML_DSA_44: Final = 0x06

MAX_NOTE_BYTES: Final = 1_000_000
MAX_SIGNATURES: Final = 100
MAX_TIMESTAMP: Final = 2**63 - 1
KEY_ID_BYTES: Final = 4
ROOT_BYTES: Final = 32
SEED_BYTES: Final = 32
MAX_NAME_IN_SUBTREE: Final = 255

_LINE_START: Final = "\u2014 "
_KEY_LENGTHS: Final = {ED25519: 32, COSIGNATURE_V1: 32, ML_DSA_44: 1312}
_SIGNATURE_LENGTHS: Final = {COSIGNATURE_V1: 64, ML_DSA_44: 2420}
_CURVES: Final = {"secp256r1", "secp384r1", "secp521r1"}
_KEY_PARTS: Final = 3
_CHECKPOINT_LINES: Final = 3
_PRIVATE_PREFIX: Final = "PRIVATE+KEY+"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """Whom a signature line is checked against: `<name>+<key id>+<base64(type || public key)>`.

    key_id: 4 bytes; public_key: 32 bytes for types 0x01 and 0x04, 1,312 for 0x06, DER for 0x02 and 0x05.
    Signatures of types 0x02 and 0x05 are never checked: their lines are ignored as lines of unknown keys are.
    """

    name: str
    key_id: bytes
    type: int
    public_key: bytes

    @classmethod
    def of(cls, name: str, key_type: int, public_key: bytes) -> Self:
        """Make the key with the id that follows from its name, type and public key. Raises FormatError(VKEY)."""
        _check_name(name)
        _check_material(key_type, public_key)
        return cls(name, key_id(name, key_type, public_key), key_type, public_key)

    @classmethod
    def parse(cls, vkey: str) -> Self:
        """Parse a vkey. Raises FormatError(VKEY)."""
        parts = vkey.split("+", 2)
        if len(parts) != _KEY_PARTS:
            raise FormatError(Code.VKEY, "a verifier key has three parts joined by +")
        name, identifier, encoded = parts
        declared = _field(Code.VKEY, "the key id", lambda: parse_hex(identifier, KEY_ID_BYTES))
        material = _field(Code.VKEY, "the key", lambda: parse_base64(encoded))
        if not material:
            raise FormatError(Code.VKEY, "the key is empty")
        key = cls.of(name, material[0], material[1:])
        if key.key_id != declared:
            raise FormatError(Code.VKEY, "the key id does not match the name and the key")
        return key

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(bytes([self.type]) + self.public_key)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line. key_id: 4 bytes; signature: 1 byte or more, as the type of the key has it."""

    name: str
    key_id: bytes
    signature: bytes

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse one line without its newline. Raises FormatError(NOTE)."""
        if not line.startswith(_LINE_START):
            raise FormatError(Code.NOTE, "a signature line starts with an em dash and a space")
        name, space, encoded = line.removeprefix(_LINE_START).partition(" ")
        if not space or not _is_name(name):
            raise FormatError(Code.NOTE, "a signature line holds a key name, a space and base64")
        data = _field(Code.NOTE, "a signature", lambda: parse_base64(encoded))
        if len(data) <= KEY_ID_BYTES:
            raise FormatError(Code.NOTE, "a signature of no bytes")
        return cls(name, data[:KEY_ID_BYTES], data[KEY_ID_BYTES:])

    def encode(self) -> str:
        """Return the line with its newline."""
        return f"{_LINE_START}{self.name} {encode_base64(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed note that nobody has verified. text ends in a newline."""

    text: str
    signatures: tuple[Signature, ...]

    @classmethod
    def parse(cls, note: str | bytes) -> Self:
        """Parse a note of at most 1,000,000 bytes with 1 to 100 signatures. Raises FormatError(NOTE)."""
        whole = _check_text(note)
        if len(whole.encode()) > MAX_NOTE_BYTES:
            raise FormatError(Code.NOTE, f"a note has at most {MAX_NOTE_BYTES} bytes")
        head, separator, tail = whole.rpartition("\n\n")
        if not separator:
            raise FormatError(Code.NOTE, "a note is a text, an empty line and signature lines")
        if not tail.endswith("\n"):
            raise FormatError(Code.NOTE, "the last line of a note does not end in a newline")
        lines = tail[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise FormatError(Code.NOTE, f"a note has at most {MAX_SIGNATURES} signatures")
        return cls(head + "\n", tuple(Signature.parse(line) for line in lines))

    def encode(self) -> str:
        """Return the note as it was parsed."""
        return self.text + "\n" + "".join(signature.encode() for signature in self.signatures)


@dataclass(frozen=True, slots=True)
class Verified:
    """A key whose signature on the note is good. timestamp: POSIX seconds of a cosignature, None for a plain one."""

    key: VerifierKey
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class VerifiedNote:
    """The text of a note and the known keys that signed it, in the order of their lines; at least one."""

    text: str
    verified: tuple[Verified, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The text of a checkpoint (C2SP tlog-checkpoint). root: 32 bytes; 0 <= size < 2**63; extensions: usually none."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a note, signatures not included. Raises FormatError(CHECKPOINT)."""
        _field(Code.CHECKPOINT, "the checkpoint", lambda: _check_text(text))
        if not text.endswith("\n"):
            raise FormatError(Code.CHECKPOINT, "a checkpoint ends in a newline")
        lines = text[:-1].split("\n")
        if len(lines) < _CHECKPOINT_LINES:
            raise FormatError(Code.CHECKPOINT, "a checkpoint has three lines at least")
        if not all(lines):
            raise FormatError(Code.CHECKPOINT, "a checkpoint has no empty line")
        size = _field(Code.CHECKPOINT, "the size", lambda: parse_decimal(lines[1]))
        root = _field(Code.CHECKPOINT, "the root", lambda: parse_base64(lines[2], ROOT_BYTES))
        return cls(lines[0], size, root, tuple(lines[3:]))

    def encode(self) -> str:
        """Return the text, to be signed as it is."""
        lines = (self.origin, str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(line + "\n" for line in lines)


def open_note(note: Note | str | bytes, keys: Iterable[VerifierKey]) -> VerifiedNote:
    """Verify a note by the keys its reader trusts (C2SP signed-note).

    Lines of unknown keys are ignored, whatever they hold. A bad line of a known key refuses the whole note, and so does
    a note without a line of a known key. A line that stands twice counts once.
    Raises FormatError(NOTE) for a malformed note, VerificationError(SIGNATURE) for the rest.
    """
    parsed = note if isinstance(note, Note) else Note.parse(note)
    known: dict[tuple[str, bytes], list[VerifierKey]] = {}
    for key in keys:
        if key.type in {ED25519, COSIGNATURE_V1} or (key.type == ML_DSA_44 and mldsa is not None):
            known.setdefault((key.name, key.key_id), []).append(key)
    verified = []
    for signature in dict.fromkeys(parsed.signatures):
        candidates = known.get((signature.name, signature.key_id), [])
        if len(candidates) > 1:
            raise VerificationError(Code.SIGNATURE, "two of the known keys share their name and id")
        verified += [_verify_line(key, parsed.text, signature.signature) for key in candidates]
    if not verified:
        raise VerificationError(Code.SIGNATURE, "no signature of a known key")
    return VerifiedNote(parsed.text, tuple(verified))


def key_id(name: str, key_type: int, public_key: bytes) -> bytes:
    """4 bytes: the id of a key, as each type defines it (C2SP signed-note, tlog-cosignature, static-ct-api)."""
    if key_type == ECDSA:
        return hashlib.sha256(public_key).digest()[:KEY_ID_BYTES]
    material = hashlib.sha256(public_key).digest() if key_type == TREE_HEAD else public_key
    return hashlib.sha256(name.encode() + b"\n" + bytes([key_type]) + material).digest()[:KEY_ID_BYTES]


def cosignature_message(timestamp: int, body: str) -> bytes:
    """Give the bytes an Ed25519 cosigner signs (C2SP tlog-cosignature). timestamp: POSIX seconds; body: checkpoint."""
    return f"cosignature/v1\ntime {_check_timestamp(timestamp)}\n{body}".encode()


def subtree_message(cosigner: str, timestamp: int, origin: str, start: int, end: int, root: bytes) -> bytes:
    """Give the bytes an ML-DSA-44 cosigner signs (C2SP tlog-cosignature): names of 1-255 bytes, root 32 bytes.

    A checkpoint is the subtree from 0 to its size; timestamp is 0 unless start is 0. Raises FormatError(COSIGNATURE).
    """
    names = [cosigner.encode(), origin.encode()]
    if not all(1 <= len(name) <= MAX_NAME_IN_SUBTREE for name in names):
        raise FormatError(Code.COSIGNATURE, "a name in a subtree cosignature has 1 to 255 bytes")
    if not 0 <= start <= end < 2**64 or len(root) != ROOT_BYTES:
        raise FormatError(Code.COSIGNATURE, "not a subtree")
    if start and timestamp:
        raise FormatError(Code.COSIGNATURE, "only a whole tree is cosigned with a time")
    prefixed = [bytes([len(name)]) + name for name in names]
    return b"".join(
        (b"subtree/v1\n\0", prefixed[0], u64(_check_timestamp(timestamp)), prefixed[1], u64(start), u64(end), root)
    )


def parse_cosignature(signature: bytes, key_type: int = COSIGNATURE_V1) -> tuple[int, bytes]:
    """Split a timestamped signature: POSIX seconds, 64 (ML-DSA-44: 2,420) bytes. Raises FormatError(COSIGNATURE)."""
    if len(signature) != 8 + _SIGNATURE_LENGTHS[key_type]:
        raise FormatError(Code.COSIGNATURE, "not the length of a timestamped signature")
    return _check_timestamp(int.from_bytes(signature[:8], "big")), signature[8:]


class _PrivateKey:
    """An Ed25519 key with a name. Its seed is in no repr, message or pickle."""

    __slots__ = ("_private", "vkey")

    _type: int

    def __init__(self, seed: bytes, name: str) -> None:
        if len(seed) != SEED_BYTES:
            raise FormatError(Code.VKEY, f"an Ed25519 seed has {SEED_BYTES} bytes")
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.vkey = VerifierKey.of(name, self._type, self._private.public_key().public_bytes_raw())

    @property
    def name(self) -> str:
        return self.vkey.name

    def _line(self, signature: bytes) -> str:
        return Signature(self.vkey.name, self.vkey.key_id, signature).encode()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vkey.name}+{self.vkey.key_id.hex()})"

    def __reduce__(self) -> str:
        raise TypeError("a signing key is not pickled")


class SigningKey(_PrivateKey):
    """A key that signs notes as type 0x01: `SigningKey(seed, name)`, a seed of 32 bytes; `.vkey`, `.name`."""

    __slots__ = ()

    _type = ED25519

    @classmethod
    def parse(cls, skey: str) -> Self:
        """Read `PRIVATE+KEY+<name>+<key id>+<base64(0x01 || seed)>`, Go's form. Raises FormatError(VKEY)."""
        parts = skey.removeprefix(_PRIVATE_PREFIX).split("+", 2)
        if not skey.startswith(_PRIVATE_PREFIX) or len(parts) != _KEY_PARTS:
            raise FormatError(Code.VKEY, "not the private key of a note")
        name, identifier, encoded = parts
        declared = _field(Code.VKEY, "the key id", lambda: parse_hex(identifier, KEY_ID_BYTES))
        material = _field(Code.VKEY, "the private key", lambda: parse_base64(encoded, 1 + SEED_BYTES))
        key = cls(material[1:], name)
        if material[0] != ED25519 or key.vkey.key_id != declared:
            raise FormatError(Code.VKEY, "the key id does not match the name and the private key")
        return key

    def encode(self) -> str:
        """Return the secret form that `parse` reads."""
        material = bytes([ED25519]) + self._private.private_bytes_raw()
        return f"{_PRIVATE_PREFIX}{self.vkey.name}+{self.vkey.key_id.hex()}+{encode_base64(material)}"

    def sign(self, text: str) -> str:
        """Return the signature line, newline included, over a text that ends in one. Raises FormatError(NOTE)."""
        if not _check_text(text).endswith("\n"):
            raise FormatError(Code.NOTE, "the text of a note ends in a newline")
        return self._line(self._private.sign(text.encode()))


class Cosigner(_PrivateKey):
    """A key that cosigns checkpoints as type 0x04: `Cosigner(seed, name)`; `.vkey`, `.name`."""

    __slots__ = ()

    _type = COSIGNATURE_V1

    def cosign(self, checkpoint_text: str, timestamp: int) -> str:
        """Return the signature line, newline included. timestamp: POSIX seconds.

        Raises FormatError(CHECKPOINT) or FormatError(COSIGNATURE).
        """
        Checkpoint.parse(checkpoint_text)
        message = cosignature_message(timestamp, checkpoint_text)
        return self._line(u64(timestamp) + self._private.sign(message))


def _verify_line(key: VerifierKey, text: str, signature: bytes) -> Verified:
    try:
        if key.type == ED25519:
            ed25519.verify(key.public_key, text.encode(), signature)
            return Verified(key, None)
        checkpoint = Checkpoint.parse(text)
        timestamp, rest = parse_cosignature(signature, key.type)
        if key.type == COSIGNATURE_V1:
            ed25519.verify(key.public_key, cosignature_message(timestamp, text), rest)
        else:
            message = subtree_message(key.name, timestamp, checkpoint.origin, 0, checkpoint.size, checkpoint.root)
            mldsa.MLDSA44PublicKey.from_public_bytes(key.public_key).verify(rest, message)
    except (VerifierError, InvalidSignature, UnsupportedAlgorithm) as error:
        who = f"{key.name}+{key.key_id.hex()}"
        raise VerificationError(Code.SIGNATURE, f"the signature of the known key {who} does not verify") from error
    return Verified(key, timestamp)


def _check_text(note: str | bytes) -> str:
    try:
        text = note.decode() if isinstance(note, bytes) else note.encode().decode()
    except UnicodeError as error:
        raise FormatError(Code.NOTE, "a note is UTF-8") from error
    if any(character < " " and character != "\n" for character in set(text)):
        raise FormatError(Code.NOTE, "a note holds no control character but the newline")
    return text


def _is_name(name: str) -> bool:
    return bool(name) and not any(character.isspace() or character < " " or character == "+" for character in name)


def _check_name(name: str) -> None:
    _field(Code.VKEY, "the key name", lambda: _check_text(name))
    if not _is_name(name):
        raise FormatError(Code.VKEY, "a key name is not empty and holds no space, + or control character")


def _check_material(key_type: int, public_key: bytes) -> None:
    if key_type in _KEY_LENGTHS:
        if len(public_key) != _KEY_LENGTHS[key_type]:
            raise FormatError(Code.VKEY, f"a key of type {key_type} has {_KEY_LENGTHS[key_type]} bytes")
    elif key_type in {ECDSA, TREE_HEAD}:
        _check_der(key_type, public_key)
    else:
        raise FormatError(Code.VKEY, f"unknown key type {key_type}")


def _check_der(key_type: int, public_key: bytes) -> None:
    try:
        key = load_der_public_key(public_key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FormatError(Code.VKEY, "not a public key in DER") from error
    is_ecdsa = isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES
    is_rsa = isinstance(key, rsa.RSAPublicKey) and key_type == TREE_HEAD
    if not (is_ecdsa or is_rsa) or key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != public_key:
        raise FormatError(Code.VKEY, "not a key of that type in canonical DER")


def _check_timestamp(timestamp: int) -> int:
    if not 0 <= timestamp <= MAX_TIMESTAMP:
        raise FormatError(Code.COSIGNATURE, "a timestamp is 0 to 2^63 - 1 seconds")
    return timestamp


def _field(code: Code, what: str, parse: Callable[[], T]) -> T:
    """Run the parser of one part, and say of which format the part was when it refuses."""
    try:
        return parse()
    except FormatError as error:
        raise FormatError(code, f"{what}: {error.message}") from error
