"""Known answers of drand: chain infos, published rounds, and signatures that must be refused.

Each `run_` function returns None when the case passed, else what was wrong; KeyError when the case asks for something
that is not understood here (another scheme, a chain that is not given).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from verifier.bls.verify import REFERENCE, Backend
from verifier.drand import SCHEMES, ChainInfo, Round, parse_chain_info, parse_relay_info, verify_round, verify_under_key
from verifier.encoding import parse_hex
from verifier.errors import VerifierError


def run_chain(case: Mapping[str, Any]) -> str | None:
    """A chain info in its v1 and v2 shapes: both must be accepted, agree, and be refused with another hash or key."""
    v1, v2 = case["v1"], case["v2"]
    SCHEMES[v2["scheme"]]
    try:
        first, second = parse_relay_info(v1), parse_relay_info(v2)
        own = parse_chain_info(second.as_dict())
    except VerifierError as error:
        return f"refused: {error}"
    if not first == second == own:
        return "the v1 and v2 shapes do not give the same chain"
    if first.hash.hex() != v1["hash"]:
        return "another chain hash"
    for name, value in (("period", v2["period"] + 1), ("genesis_time", v2["genesis_time"] + 1), ("beacon_id", "x")):
        if _accepted({**v2, name: value}):
            return f"accepted with another {name}"
    return None


def run_round(record: Mapping[str, Any], chains: Mapping[str, ChainInfo], backend: Backend = REFERENCE) -> str | None:
    """A published round. chains: by chain hash in hex. A record without chain hash brings its own public key."""
    scheme = SCHEMES[record["scheme"]]
    chain = None if record["chain_hash"] is None else chains[record["chain_hash"]]
    try:
        stated = _stated(record)
        if chain is None:
            verify_under_key(scheme, parse_hex(record["public_key"], scheme.key_bytes), stated, backend)
            randomness = hashlib.sha256(stated.signature).digest()
        elif chain.scheme != scheme:
            return "the chain has another scheme"
        else:
            randomness = verify_round(chain, stated, backend).randomness
    except VerifierError as error:
        return f"refused: {error}"
    if record["randomness"] is not None and record["randomness"] != randomness.hex():
        return "another randomness"
    return None


def run_negative(case: Mapping[str, Any], chains: Mapping[str, ChainInfo], backend: Backend = REFERENCE) -> str | None:
    """A signature that must be refused. scheme_override: verify as if the chain had that scheme."""
    chain = chains[case["chain_hash"]]
    if "scheme_override" in case:
        chain = replace(chain, scheme=SCHEMES[case["scheme_override"]])
    try:
        verify_round(chain, _stated(case), backend)
    except VerifierError:
        return None
    return "accepted"


def _stated(record: Mapping[str, Any]) -> Round:
    previous = record.get("previous_signature")
    return Round(
        round=record["round"],
        signature=parse_hex(record["signature"]),
        previous_signature=None if previous is None else parse_hex(previous),
    )


def _accepted(info: Mapping[str, Any]) -> bool:
    try:
        parse_relay_info(info)
    except VerifierError:
        return False
    return True
