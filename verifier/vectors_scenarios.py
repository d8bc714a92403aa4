"""Known verdicts: whole documents, what the verifier was given, and the states and exit code that each must get.

`given` holds log_key (a vkey or null), chain (a pinned network's name), policy (a tlog-policy or null) and sandbox;
where they matter, also attachments (SHA-256 in hex by name) and require ("proven"). `expect` holds exit and claims;
claims that it does not name are not asserted. `document_text` stands where a document's spelling matters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from verifier.check import Trust, check
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round
from verifier.encoding import parse_hex
from verifier.errors import FormatError, VerifierError
from verifier.note import VerifierKey
from verifier.policy import Policy
from verifier.verdict import ClaimName, Exit, State

_FIELDS: Final = frozenset({"name", "rule", "given", "document", "document_text", "expect", "note"})
_GIVEN: Final = frozenset({"log_key", "chain", "policy", "sandbox", "attachments", "require"})


def run_scenario(scenario: Mapping[str, Any], chains: Mapping[str, ChainInfo]) -> str | None:
    """None when the verdict is the expected one, else how it differs. chains: by name.

    KeyError when something in it is not understood: another field, network, claim or state.
    """
    _known(scenario, _FIELDS)
    expect = scenario["expect"]
    _known(expect, frozenset({"exit", "claims"}))
    _known(expect["claims"], frozenset(ClaimName))
    _known(dict.fromkeys([*expect["claims"].values()]), frozenset(State))
    text = scenario["document_text"] if "document_text" in scenario else json.dumps(scenario["document"])
    trust = _trust(scenario["given"], chains)
    try:
        verdict = check(text.encode("utf-8", "surrogatepass"), trust, _verify)
    except FormatError as error:
        return None if expect["exit"] == Exit.UNUSABLE else f"refused: {error}"
    wrong = [f"exit {verdict.exit} instead of {expect['exit']}"] if verdict.exit != expect["exit"] else []
    for name, state in expect["claims"].items():
        claim = verdict[name]
        if claim.state != state:
            wrong.append(f"{name} is {claim.state} instead of {state} ({claim.text})")
    return "; ".join(wrong) or None


def _trust(given: Mapping[str, Any], chains: Mapping[str, ChainInfo]) -> Trust:
    _known(given, _GIVEN)
    if given.get("require") not in {None, "proven"}:
        raise KeyError(given["require"])
    chain = chains[given["chain"]]
    return Trust(
        log_key=VerifierKey.parse(given["log_key"]) if given["log_key"] is not None else None,
        chains={chain.hash: chain},
        policy=Policy.parse(given["policy"]) if given["policy"] is not None else None,
        attachments={name: parse_hex(digest, 32) for name, digest in given.get("attachments", {}).items()},
        sandbox=given["sandbox"],
        require_proven=given.get("require") == "proven",
    )


def _known(value: Mapping[str, Any], names: frozenset[str]) -> None:
    unknown = sorted(value.keys() - names)
    if unknown:
        raise KeyError(unknown[0])


def _verify(chain: ChainInfo, stated: Round) -> VerifiedRound:
    """Verify each distinct round of a file once in a process."""
    answer = _outcome(chain, stated)
    if isinstance(answer, VerifierError):
        raise answer
    return answer


@lru_cache(maxsize=1024)
def _outcome(chain: ChainInfo, stated: Round) -> VerifiedRound | VerifierError:
    try:
        return verify_round(chain, stated)
    except VerifierError as error:
        return error
