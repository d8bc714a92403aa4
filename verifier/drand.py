"""drand chains and rounds (PROTOCOL.md 2.4-2.6): schemes, chain infos, round <-> time, verification of rounds.

A `Round` is what somebody says; a `VerifiedRound` is what the chain's key signed. Only `verify_round` and
`verify_rounds` lead from one to the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from verifier.bls.errors import PointError, PointFault
from verifier.bls.groups import Group
from verifier.bls.verify import REFERENCE, Backend, verify, verify_many
from verifier.encoding import MAX_INTEGER, check_string, parse_hex, u32, u64
from verifier.errors import Code, FormatError, VerifierError
from verifier.keccak import keccak256

_TAG_G1: Final = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
_TAG_G2: Final = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"
_TAG_BN254: Final = b"BLS_SIG_BN254G1_XMD:KECCAK-256_SVDW_RO_NUL_"
_HASH_BYTES: Final = 32
_MAX_PERIOD: Final = 2**32 - 1
_MAX_SECONDS: Final = MAX_INTEGER // 1000
_INFO_FIELDS: Final = frozenset(
    {"hash", "public_key", "period", "genesis_time", "genesis_seed", "scheme", "beacon_id"},
)


def sha_256(data: bytes) -> bytes:
    """32 bytes."""
    return hashlib.sha256(data).digest()


@dataclass(frozen=True)
class Scheme:
    """One row of the table in 2.5. `group` is the signature's; the key is in its partner."""

    name: str
    group: Group
    dst: bytes
    chained: bool
    digest: Callable[[bytes], bytes] = field(default=sha_256, repr=False)

    @property
    def signature_bytes(self) -> int:
        return self.group.point_bytes

    @property
    def key_bytes(self) -> int:
        return self.group.partner.point_bytes

    def message(self, round_number: int, previous_signature: bytes | None) -> bytes:
        """The 32 bytes that are signed. previous_signature: on chained schemes; for round 1 the genesis seed."""
        previous = previous_signature if self.chained and previous_signature is not None else b""
        return self.digest(previous + u64(round_number))


SCHEMES: Final[Mapping[str, Scheme]] = {
    scheme.name: scheme
    for scheme in (
        Scheme("bls-unchained-g1-rfc9380", Group.BLS12_381_G1, _TAG_G1, chained=False),
        Scheme("bls-unchained-on-g1", Group.BLS12_381_G1, _TAG_G2, chained=False),
        Scheme("pedersen-bls-unchained", Group.BLS12_381_G2, _TAG_G2, chained=False),
        Scheme("pedersen-bls-chained", Group.BLS12_381_G2, _TAG_G2, chained=True),
        Scheme("bls-bn254-unchained-on-g1", Group.BN254_G1, _TAG_BN254, chained=False, digest=keccak256),
    )
}


@dataclass(frozen=True)
class ChainInfo:
    """A drand chain. It cannot be made unless the other fields hash to `hash` (FormatError(CHAIN_INFO)).

    hash, genesis_seed: 32 bytes; public_key: scheme.key_bytes; period, genesis_time: seconds;
    beacon_id: "default", never empty. The hash does not cover the scheme: whoever trusts a chain pins both.
    last_round: where a retired chain ended; no round beyond it is accepted.
    """

    hash: bytes
    public_key: bytes
    period: int
    genesis_time: int
    genesis_seed: bytes
    scheme: Scheme
    beacon_id: str
    last_round: int | None = None

    def __post_init__(self) -> None:
        _check_number(self.period, "period", 1, _MAX_PERIOD)
        _check_number(self.genesis_time, "genesis_time", 0, _MAX_SECONDS)
        if len(self.public_key) != self.scheme.key_bytes:
            raise FormatError(Code.CHAIN_INFO, f"a key of {self.scheme.name} has {self.scheme.key_bytes} bytes")
        if len(self.genesis_seed) != _HASH_BYTES:
            raise FormatError(Code.CHAIN_INFO, f"a genesis seed has {_HASH_BYTES} bytes")
        if not self.beacon_id:
            raise FormatError(Code.CHAIN_INFO, "an empty beacon id")
        if self.last_round is not None:
            _check_number(self.last_round, "last_round", 1, MAX_INTEGER)
        if self.hash != self._computed_hash():
            raise FormatError(Code.CHAIN_INFO, "the chain info does not hash to its chain hash")

    def _computed_hash(self) -> bytes:
        name = b"" if self.beacon_id == "default" else self.beacon_id.encode("utf-8")
        head = u32(self.period) + u64(self.genesis_time)
        return hashlib.sha256(head + self.public_key + self.genesis_seed + name).digest()

    @property
    def final_round(self) -> int:
        """The last round that may be named: the end of a retired chain, else the last whose time is within 2^53 - 1."""
        latest = (_MAX_SECONDS - self.genesis_time) // self.period + 1
        return latest if self.last_round is None else min(self.last_round, latest)

    def time(self, round_number: int) -> int:
        """When a round falls due, in ms since the epoch (2.4)."""
        return 1000 * (self.genesis_time + (round_number - 1) * self.period)

    def current(self, time_ms: int) -> int:
        """The round that fell due last at a time in ms; 0 before genesis (2.4)."""
        if time_ms < 1000 * self.genesis_time:
            return 0
        return (time_ms // 1000 - self.genesis_time) // self.period + 1

    def first_at(self, time_ms: int) -> int:
        """The first round with time(R) >= time_ms (6.6)."""
        round_number = self.current(time_ms)
        return round_number if round_number > 0 and self.time(round_number) == time_ms else round_number + 1

    def as_dict(self) -> dict[str, Any]:
        """The `info` of a `chain` entry: exactly the seven fields of 3.6."""
        return {
            "hash": self.hash.hex(),
            "public_key": self.public_key.hex(),
            "period": self.period,
            "genesis_time": self.genesis_time,
            "genesis_seed": self.genesis_seed.hex(),
            "scheme": self.scheme.name,
            "beacon_id": self.beacon_id,
        }


@dataclass(frozen=True)
class Round:
    """A round as somebody states it, not verified.

    previous_signature: exactly on chained schemes; for round 1 the genesis seed.
    """

    round: int
    signature: bytes
    previous_signature: bytes | None = None


@dataclass(frozen=True)
class VerifiedRound:
    """A round that was verified under the key of `chain`: made by `verify_round` and `verify_rounds`."""

    chain: ChainInfo = field(repr=False)
    round: int
    signature: bytes
    previous_signature: bytes | None = None

    @property
    def randomness(self) -> bytes:
        """32 bytes, always computed from the signature, never read (2.4)."""
        return hashlib.sha256(self.signature).digest()

    @property
    def time(self) -> int:
        """When this round fell due, in ms since the epoch."""
        return self.chain.time(self.round)


def verify_round(chain: ChainInfo, stated: Round, backend: Backend = REFERENCE) -> VerifiedRound:
    """Verify a round under the chain's key.

    Raises FormatError(ROUND) for a round number or previous signature that cannot be of this chain, FormatError(POINT)
    for a signature that is no canonical point of prime order (2.6), VerificationError(ROUND_SIGNATURE) when it is not
    the chain's. The same on every backend (`verifier.bls.verify.best_backend`).
    """
    _check_form(chain, stated)
    verify_under_key(chain.scheme, chain.public_key, stated, backend)
    return VerifiedRound(chain, stated.round, stated.signature, stated.previous_signature)


def verify_rounds(
    chain: ChainInfo,
    stated: Sequence[Round],
    backend: Backend = REFERENCE,
) -> list[VerifiedRound | VerifierError]:
    """Verify many rounds of one chain, two pairings in all: for each, in order, what `verify_round` returns or raises.

    A bad round costs some log2(len(stated)) pairings more, and touches no other's answer.
    """
    errors = [_form_error(chain, one) for one in stated]
    well_formed = [position for position, error in enumerate(errors) if error is None]
    found = _signature_errors(chain, [stated[position] for position in well_formed], backend)
    for position, error in zip(well_formed, found, strict=True):
        errors[position] = error
    return [
        VerifiedRound(chain, one.round, one.signature, one.previous_signature) if error is None else error
        for one, error in zip(stated, errors, strict=True)
    ]


def verify_under_key(scheme: Scheme, public_key: bytes, stated: Round, backend: Backend = REFERENCE) -> None:
    """Verify the signature of a round under a bare public key; errors POINT and ROUND_SIGNATURE as `verify_round`."""
    message = scheme.message(stated.round, stated.previous_signature)
    verify(backend, scheme.group, scheme.dst, public_key, message, stated.signature)


def parse_scheme(name: object) -> Scheme:
    """The scheme of that name; FormatError(SCHEME) for any other."""
    if not isinstance(name, str) or name not in SCHEMES:
        raise FormatError(Code.SCHEME, "not a drand scheme that is supported here")
    return SCHEMES[name]


def parse_chain_info(value: object) -> ChainInfo:
    """A chain info of exactly the seven fields of 3.6; FormatError(CHAIN_INFO or SCHEME) if it has another hash."""
    info = _object(value)
    if set(info) != _INFO_FIELDS:
        raise FormatError(Code.CHAIN_INFO, f"a chain info has exactly the fields {', '.join(sorted(_INFO_FIELDS))}")
    return _chain_info(info, info["beacon_id"], None)


def parse_pinned_chain(value: object) -> ChainInfo:
    """A chain info of this project's configuration: the seven fields, and `last_round` where the chain is retired."""
    info = dict(_object(value))
    retired = "last_round" in info
    last_round = info.pop("last_round", None)
    pinned = parse_chain_info(info)
    if not retired:
        return pinned
    _check_number(last_round, "last_round", 1, MAX_INTEGER)
    return _chain_info(info, pinned.beacon_id, last_round)


def parse_relay_info(value: object) -> ChainInfo:
    """What a drand relay serves as chain info, v1 (`/info`) or v2 (`/v2/chains/{hash}/info`).

    Fields beside those of that API are ignored. The scheme in it is the relay's word.
    Raises FormatError(CHAIN_INFO or SCHEME).
    """
    info = _object(value)
    if "chain_hash" in info:
        named = {**info, "hash": info["chain_hash"]}
        return _chain_info(named, info.get("beacon_id") or "default", None)
    metadata = info.get("metadata")
    beacon_id = metadata.get("beaconID") if isinstance(metadata, dict) else None
    named = {**info, "genesis_seed": info.get("groupHash"), "scheme": info.get("schemeID")}
    return _chain_info(named, beacon_id or "default", None)


def parse_any_info(value: object) -> ChainInfo:
    """A chain info in this project's form (pinned or not), or as a drand relay serves it."""
    info = _object(value)
    if "chain_hash" in info or "groupHash" in info:
        return parse_relay_info(info)
    return parse_pinned_chain(info)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(Code.CHAIN_INFO, "a chain info is a JSON object")
    return value


def _chain_info(info: Mapping[str, Any], beacon_id: object, last_round: int | None) -> ChainInfo:
    scheme = parse_scheme(info.get("scheme"))
    if not isinstance(beacon_id, str):
        raise FormatError(Code.CHAIN_INFO, "a beacon id is a string")
    try:
        return ChainInfo(
            hash=parse_hex(info.get("hash"), _HASH_BYTES),
            public_key=parse_hex(info.get("public_key"), scheme.key_bytes),
            period=_check_number(info.get("period"), "period", 1, _MAX_PERIOD),
            genesis_time=_check_number(info.get("genesis_time"), "genesis_time", 0, _MAX_SECONDS),
            genesis_seed=parse_hex(info.get("genesis_seed"), _HASH_BYTES),
            scheme=scheme,
            beacon_id=check_string(beacon_id),
            last_round=last_round,
        )
    except VerifierError as error:
        raise FormatError(Code.CHAIN_INFO, error.message) from error


def _check_number(value: object, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FormatError(Code.CHAIN_INFO, f"{name} is an integer from {least} to {most}")
    return value


def _check_form(chain: ChainInfo, stated: Round) -> None:
    if type(stated.round) is not int or not 1 <= stated.round <= chain.final_round:
        raise FormatError(Code.ROUND, f"rounds of this chain are 1 to {chain.final_round}")
    if len(stated.signature) != chain.scheme.signature_bytes:
        message = f"a signature of {chain.scheme.name} has {chain.scheme.signature_bytes} bytes"
        raise PointError(PointFault.LENGTH, message)
    previous = stated.previous_signature
    if not chain.scheme.chained:
        if previous is not None:
            raise FormatError(Code.ROUND, f"{chain.scheme.name} has no previous signature")
    elif previous is None:
        raise FormatError(Code.ROUND, f"{chain.scheme.name} needs the previous signature")
    elif stated.round == 1:
        if previous != chain.genesis_seed:
            raise FormatError(Code.ROUND, "the previous signature of round 1 is the genesis seed")
    elif len(previous) != chain.scheme.signature_bytes:
        raise FormatError(Code.ROUND, f"a previous signature has {chain.scheme.signature_bytes} bytes")


def _form_error(chain: ChainInfo, stated: Round) -> VerifierError | None:
    try:
        _check_form(chain, stated)
    except VerifierError as error:
        return error
    return None


def _signature_errors(chain: ChainInfo, stated: Sequence[Round], backend: Backend) -> Sequence[VerifierError | None]:
    scheme = chain.scheme
    signed = [(scheme.message(one.round, one.previous_signature), one.signature) for one in stated]
    try:
        return verify_many(backend, scheme.group, scheme.dst, chain.public_key, signed)
    except PointError as error:
        return [error] * len(signed)
