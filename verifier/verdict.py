"""The verdict: a list of claims, never one green tick (PROTOCOL.md, section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from verifier.encoding import Json

UNKNOWABLE: Final = (
    "No file can show: whether a contribution that was sent was left out (only its sender's receipt or "
    "signature can), whether this was the session agreed on before the round, whether the game used every draw in "
    "order, who stands behind a key."
)


class State(StrEnum):
    """What is known of a claim."""

    PROVEN = "PROVEN"
    TRUSTED = "TRUSTED"
    UNKNOWN = "UNKNOWN"
    FAILED = "FAILED"


class Exit(IntEnum):
    """Exit codes of `verifier check`."""

    FAIR = 0
    FAILED = 1
    UNDECIDED = 2
    UNUSABLE = 3


class ClaimName(StrEnum):
    """The claims, in the order in which a verdict lists them."""

    LOG = "log"
    ROUND = "round"
    UNPREDICTABLE = "unpredictable"
    SEED = "seed"
    OUTCOMES = "outcomes"
    COMPLETE = "complete"
    SOLE = "sole"
    CONTRIBUTIONS = "contributions"
    CUSTODY = "custody"
    ATTACHMENTS = "attachments"
    WITNESSED = "witnessed"


NEEDED: Final = (ClaimName.LOG, ClaimName.ROUND, ClaimName.SEED, ClaimName.OUTCOMES, ClaimName.COMPLETE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that does not hold: the claim that fails, the rule's number, what was found and at which log index."""

    claim: ClaimName
    rule: str
    text: str
    index: int | None = None

    def as_dict(self) -> dict[str, Json]:
        return {"rule": self.rule, "text": self.text, "index": self.index}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim's state and the sentence that says why; `findings` are there exactly when it FAILED."""

    name: ClaimName
    state: State
    text: str
    findings: tuple[Finding, ...] = ()

    @classmethod
    def failed(cls, name: ClaimName, findings: Iterable[Finding]) -> Claim:
        """The FAILED claim of one finding at least; its text is the first one's."""
        listed = tuple(findings)
        first = listed[0]
        where = f" (entry {first.index})" if first.index is not None else ""
        more = f", and {len(listed) - 1} more" if len(listed) > 1 else ""
        return cls(name, State.FAILED, f"{first.text}{where}, rule {first.rule}{more}", listed)

    def as_dict(self) -> dict[str, Json]:
        findings: list[Json] = [finding.as_dict() for finding in self.findings]
        return {"claim": self.name, "state": self.state, "text": self.text, "findings": findings}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole answer: one sentence, the exit code, every claim, remarks that fail nothing, what the session was."""

    headline: str
    exit: Exit
    claims: tuple[Claim, ...]
    remarks: tuple[str, ...] = ()
    session: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __getitem__(self, name: str) -> Claim:
        return next(claim for claim in self.claims if claim.name == name)

    def as_dict(self) -> dict[str, Json]:
        return {
            "headline": self.headline,
            "exit": int(self.exit),
            "claims": [claim.as_dict() for claim in self.claims],
            "remarks": list(self.remarks),
            "unknowable": UNKNOWABLE,
            "session": dict(self.session),
        }
