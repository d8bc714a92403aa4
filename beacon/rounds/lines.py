"""Rounds as JSON lines: what is exported, imported, recorded, replayed, and handed to a running service.

    {"chain":"<hash>","round":1000,"signature":"<hex>","previous_signature":"<hex>"}

`previous_signature` exactly on chained schemes, for round 1 the genesis seed. What drand's own API answers is taken
too: `chain` may be missing where the caller names one, `randomness` may be there if it is the hash of the signature,
and `previous_signature` may be missing in round 1. A line is what somebody says until its round is verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Final

from verifier.drand import ChainInfo, Round, VerifiedRound
from verifier.encoding import Json, encode_json, parse_document_json, parse_hex
from verifier.errors import VerifierError

MAX_LINE: Final = 2_048
_FIELDS: Final = frozenset({"chain", "round", "signature", "previous_signature", "randomness"})


class LineRefused(Exception):  # noqa: N818 - named by what happened
    """A line that is no round of a chain that is known here. number: of the line, from 1."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


def encode_line(chain: ChainInfo, stated: Round | VerifiedRound) -> bytes:
    """One line, with its newline."""
    fields: dict[str, Json] = {
        "chain": chain.hash.hex(),
        "round": stated.round,
        "signature": stated.signature.hex(),
    }
    if stated.previous_signature is not None:
        fields["previous_signature"] = stated.previous_signature.hex()
    return encode_json(fields) + b"\n"


def parse_line(
    data: bytes, chains: Mapping[bytes, ChainInfo], default: ChainInfo | None = None, number: int = 1
) -> tuple[ChainInfo, Round]:
    """One line, without or with its newline. default: the chain of lines that name none. Raises LineRefused."""
    try:
        fields = parse_document_json(data)
        unknown = set(fields) - _FIELDS
        if unknown:
            raise LineRefused(number, f"unknown field {min(unknown)!r}")
        chain = _chain(fields, chains, default, number)
        return chain, _round(fields, chain, number)
    except VerifierError as error:
        raise LineRefused(number, error.message) from error


def read_lines(
    file: IO[bytes], chains: Mapping[bytes, ChainInfo], default: ChainInfo | None = None
) -> Iterator[tuple[ChainInfo, Round]]:
    """Every round of a file, one by one; empty lines are passed over. Raises LineRefused at the first bad line."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise LineRefused(number, f"more than {MAX_LINE} bytes")
        if line.strip():
            yield parse_line(line, chains, default, number)


def known(chains: Iterable[ChainInfo]) -> dict[bytes, ChainInfo]:
    """The chains by their hashes."""
    return {chain.hash: chain for chain in chains}


def _chain(
    fields: Mapping[str, Json], chains: Mapping[bytes, ChainInfo], default: ChainInfo | None, number: int
) -> ChainInfo:
    if "chain" not in fields:
        if default is None:
            raise LineRefused(number, "no chain")
        return default
    chain = chains.get(parse_hex(fields["chain"], 32))
    if chain is None:
        raise LineRefused(number, "a round of a chain that is not known here")
    return chain


def _round(fields: Mapping[str, Json], chain: ChainInfo, number: int) -> Round:
    stated = fields.get("round")
    if type(stated) is not int or not 1 <= stated <= chain.final_round:
        raise LineRefused(number, f"rounds of this chain are 1 to {chain.final_round}")
    signature = parse_hex(fields.get("signature"), chain.scheme.signature_bytes)
    if fields.get("randomness") not in (None, hashlib.sha256(signature).hexdigest()):
        raise LineRefused(number, "the randomness is not the hash of the signature")
    previous = fields.get("previous_signature")
    previous = None if previous == "" else previous
    if not chain.scheme.chained:
        if previous is not None:
            raise LineRefused(number, f"{chain.scheme.name} has no previous signature")
        return Round(stated, signature)
    if stated == 1:
        if previous not in (None, chain.genesis_seed.hex()):
            raise LineRefused(number, "the previous signature of round 1 is the genesis seed")
        return Round(stated, signature, chain.genesis_seed)
    return Round(stated, signature, parse_hex(previous, chain.scheme.signature_bytes))
