"""Known answers of timelocks: tlock files with the round that opens them, and files of other forms, to be refused.

Each `run_` function returns None when the case passed, else what was wrong; KeyError when the case asks for something
that is not understood here (another scheme, a chain that is not given).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifier.age import parse_age
from verifier.bls.verify import REFERENCE, Backend
from verifier.drand import SCHEMES, ChainInfo, Round, VerifiedRound, verify_round
from verifier.encoding import encode_base64, parse_base64, parse_hex
from verifier.errors import VerifierError
from verifier.timelock import Ciphertext, file_key_of, open_timelock, parse_timelock


def run_tlock(case: Mapping[str, Any], chains: Mapping[str, ChainInfo], backend: Backend = REFERENCE) -> str | None:
    """A file that its round opens to the plaintext stated, or must not open. Without a signature it is only parsed."""
    chain, expect = chains[case["chain_hash"]], case["expect"]
    if chain.scheme != SCHEMES[case["scheme"]]:
        return "the chain has another scheme"
    if expect not in {"decrypts", "rejected", "signature not known here"}:
        raise KeyError(expect)
    try:
        ciphertext = parse_timelock(parse_base64(case["age_file_base64"]), chain)
        if case["signature"] is None:
            return None if ciphertext.round == case["round"] else f"it is to round {ciphertext.round}"
        verified = verify_round(chain, Round(case["round"], parse_hex(case["signature"])), backend)
    except VerifierError as error:
        return None if expect == "rejected" else f"refused: {error}"
    return _opened(case, ciphertext, verified, backend)


def _opened(case: Mapping[str, Any], ciphertext: Ciphertext, verified: VerifiedRound, backend: Backend) -> str | None:
    try:
        file_key, plaintext = file_key_of(ciphertext, verified, backend), open_timelock(ciphertext, verified, backend)
    except VerifierError as error:
        return None if case["expect"] == "rejected" else f"refused: {error}"
    if case["expect"] == "rejected":
        return "it opens"
    if case["file_key"] not in {None, file_key.hex()}:
        return f"the file key is {file_key.hex()}"
    return None if encode_base64(plaintext) == case["plaintext_base64"] else "another plaintext"


def run_other_format(case: Mapping[str, Any]) -> str | None:
    """The ciphertext of another system: it must not be taken for a timelock."""
    try:
        parse_age(parse_hex(case["ciphertext_hex"]))
    except VerifierError:
        return None
    return "taken for an age file"
