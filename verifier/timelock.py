"""tlock: what a drand round opens (PROTOCOL.md 7.3; N. Gailly, K. Melissaris, Y. Romailler, ePrint 2023/189).

Identity-based encryption (Boneh, Franklin, with the transform of Fujisaki and Okamoto) of an age file key to a round:
its identity is what the chain's key will sign for that round, so that the signature is the identity's private key.
Interoperable with drand's own tools. With P the generator of the key's group, of order q:

    sigma   16 random bytes                    r = H3(sigma, M), 1 <= r < q; M is the file key, 16 bytes
    Qid     hash-to-curve of the round's message under the scheme's tag
    U       r*P, compressed                    V = sigma xor H2(e(Qid, key)^r)            W = M xor H4(sigma)

The age stanza is `tlock ROUND CHAIN_HASH`, its body U || V || W: 128 bytes on chains with keys in G2, else 80. Whoever
has the signature S computes e(S, U) = e(Qid, key)^r, then sigma and M, and must check that r*P is U.
Chained schemes cannot carry it, since what they will sign is not known; BN254 has no form of it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from verifier.age import FILE_KEY_BYTES, NONCE_BYTES, Stanza, open_age, parse_age, seal_age
from verifier.bls.groups import Group
from verifier.bls.verify import REFERENCE, Backend, decode_key
from verifier.drand import ChainInfo, Scheme, VerifiedRound
from verifier.encoding import parse_decimal
from verifier.errors import Code, FormatError, VerificationError

SIGMA_BYTES: Final = 16
_ORDER: Final = int("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001", 16)
_GROUPS: Final = frozenset({Group.BLS12_381_G1, Group.BLS12_381_G2})
_HASH: Final = re.compile("[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ciphertext:
    """A tlock file that is well formed for its chain. chain: its hash, 32 bytes; point: U; masked: V and W, 16 each."""

    chain: bytes
    round: int
    point: bytes
    masked_sigma: bytes
    masked_key: bytes
    data: bytes


def can_carry(scheme: Scheme) -> bool:
    """Whether a chain of this scheme can carry timelocks: BLS12-381, unchained."""
    return scheme.group in _GROUPS and not scheme.chained


def parse_timelock(data: bytes, chain: ChainInfo) -> Ciphertext:
    """A binary age file with the one stanza `tlock`, for a round of `chain`, be it beyond a retired chain's last.

    U is decoded when it is opened. Raises FormatError(AGE or TIMELOCK).
    """
    _require(chain)
    file = parse_age(data)
    kind, *arguments = file.stanza.arguments
    if kind != "tlock" or len(arguments) != 2 or not _HASH.fullmatch(arguments[1]):
        raise FormatError(Code.TIMELOCK, "the stanza is not `tlock`, a round and a chain hash")
    if bytes.fromhex(arguments[1]) != chain.hash:
        raise FormatError(Code.TIMELOCK, "the timelock is for another chain")
    number = parse_decimal(arguments[0])
    if number < 1:
        raise FormatError(Code.TIMELOCK, "the first round is 1")
    body, size = file.stanza.body, chain.scheme.key_bytes
    if len(body) != size + SIGMA_BYTES + FILE_KEY_BYTES:
        raise FormatError(Code.TIMELOCK, f"a timelock of this chain has {size + 32} bytes, this one {len(body)}")
    return Ciphertext(chain.hash, number, body[:size], body[size : size + 16], body[size + 16 :], data)


def check_point(ciphertext: Ciphertext, chain: ChainInfo, backend: Backend = REFERENCE) -> None:
    """FormatError(POINT) unless U is a canonical point of prime order; nobody can say more before the round."""
    backend.decode_point(chain.scheme.group.partner, ciphertext.point)


def open_timelock(ciphertext: Ciphertext, verified: VerifiedRound, backend: Backend = REFERENCE) -> bytes:
    """The plaintext, with the round that it was sealed to. A worker's time: one pairing and one multiplication.

    Raises FormatError(TIMELOCK) for another round, FormatError(POINT) if U is no canonical point of prime order,
    VerificationError(DECRYPTION) if it does not open or was altered.
    """
    return open_age(parse_age(ciphertext.data), file_key_of(ciphertext, verified, backend))


def file_key_of(ciphertext: Ciphertext, verified: VerifiedRound, backend: Backend = REFERENCE) -> bytes:
    """The age file key, 16 bytes; errors as `open_timelock`."""
    chain = verified.chain
    if (chain.hash, verified.round) != (ciphertext.chain, ciphertext.round):
        raise FormatError(Code.TIMELOCK, f"the timelock is to round {ciphertext.round}: this is another round or chain")
    group = chain.scheme.group
    point = backend.decode_point(group.partner, ciphertext.point)
    shared = backend.pairing(group, backend.decode_point(group, verified.signature), point)
    sigma = _xor(ciphertext.masked_sigma, _h2(shared))
    file_key = _xor(ciphertext.masked_key, _h4(sigma))
    expected = _multiple(backend, group.partner, backend.generator(group.partner), _h3(sigma, file_key))
    if backend.encode_point(group.partner, expected) != ciphertext.point:
        raise VerificationError(Code.DECRYPTION, "the timelock does not open: U is not the multiple that it must be")
    return file_key


def seal_timelock(
    chain: ChainInfo, round_number: int, plaintext: bytes, *, now: int, backend: Backend = REFERENCE
) -> bytes:
    """The age file that round `round_number` of `chain` opens. A worker's time: one pairing and two multiplications.

    now: ms since the epoch. Raises FormatError(TIMELOCK) for a chain that can carry none, and for a round that is not
    in the future. Not constant-time: whoever can measure its time can also read its memory.
    """
    _require(chain)
    if not chain.current(now) < round_number <= chain.final_round:
        raise FormatError(Code.TIMELOCK, "the round of a timelock is a future one of its chain")
    group, scheme = chain.scheme.group.partner, chain.scheme
    file_key, sigma = secrets.token_bytes(FILE_KEY_BYTES), secrets.token_bytes(SIGMA_BYTES)
    factor = _h3(sigma, file_key)
    point = _multiple(backend, group, backend.generator(group), factor)
    identity = backend.hash_to_curve(scheme.group, scheme.dst, scheme.message(round_number, None))
    key = decode_key(backend, group, chain.public_key)
    if scheme.group is Group.BLS12_381_G1:  # the side where a multiple costs less
        identity = _multiple(backend, scheme.group, identity, factor)
    else:
        key = _multiple(backend, group, key, factor)
    shared = backend.pairing(scheme.group, identity, key)
    body = backend.encode_point(group, point) + _xor(sigma, _h2(shared)) + _xor(file_key, _h4(sigma))
    stanza = Stanza(("tlock", str(round_number), chain.hash.hex()), body)
    return seal_age(stanza, file_key, secrets.token_bytes(NONCE_BYTES), plaintext)


def _require(chain: ChainInfo) -> None:
    if not can_carry(chain.scheme):
        raise FormatError(Code.TIMELOCK, f"chains of {chain.scheme.name} cannot carry a timelock")


def _multiple(backend: Backend, group: Group, point: Any, factor: int) -> Any:
    return backend.sum_products(group, [point], [factor])


def _h2(shared: bytes) -> bytes:
    return hashlib.sha256(b"IBE-H2" + shared).digest()[:SIGMA_BYTES]


def _h3(sigma: bytes, file_key: bytes) -> int:
    seed = hashlib.sha256(b"IBE-H3" + sigma + file_key).digest()
    for number in range(1, 65_536):
        digest = hashlib.sha256(number.to_bytes(2, "little") + seed).digest()
        factor = int.from_bytes(bytes([digest[0] >> 1]) + digest[1:], "big")
        if 0 < factor < _ORDER:
            return factor
    raise VerificationError(Code.DECRYPTION, "no multiple is found")


def _h4(sigma: bytes) -> bytes:
    return hashlib.sha256(b"IBE-H4" + sigma).digest()[:FILE_KEY_BYTES]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
