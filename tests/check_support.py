"""What the tests of `check` share: trust, cached pairings, and findings as a set."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tests import builder
from verifier import drand
from verifier.check import Trust, check
from verifier.policy import Policy
from verifier.verdict import Verdict

TRUST = Trust(builder.LOG_KEY.vkey, {builder.QUICKNET.hash: builder.QUICKNET})
WITNESSED = replace(TRUST, policy=Policy.parse(builder.POLICY))


@cache
def _outcome(chain, stated):
    try:
        return drand.verify_round(chain, stated), None
    except drand.VerifierError as error:
        return None, error


def cached_verify_round(chain, stated):
    """`drand.verify_round`, each distinct round once."""
    verified, error = _outcome(chain, stated)
    if error is not None:
        raise error
    return verified


def verdict(document: dict[str, Any] | builder.Story, trust: Trust = TRUST) -> Verdict:
    if isinstance(document, builder.Story):
        document = document.document()
    return check(builder.data(document), trust, cached_verify_round)


def broken(result: Verdict) -> set[tuple[str, str]]:
    """(claim, rule) of every finding; each is of the claim under which it stands."""
    for claim in result.claims:
        assert (claim.state == "FAILED") == bool(claim.findings)
        assert all(finding.claim == claim.name for finding in claim.findings)
    return {(str(claim.name), finding.rule) for claim in result.claims for finding in claim.findings}
