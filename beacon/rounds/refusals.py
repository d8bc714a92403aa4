"""Why what a relay answered is not a round. Nothing of a refused answer is ever used."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Stable names, for logs, health and tests."""

    NOT_YET = "not-yet"
    CACHED_NOT_YET = "cached-not-yet"
    UNREACHABLE = "unreachable"
    ADDRESS = "address"
    TLS = "tls"
    TIMEOUT = "timeout"
    STATUS = "status"
    REDIRECT = "redirect"
    HTTP = "http"
    CONTENT_TYPE = "content-type"
    TOO_LARGE = "too-large"
    TRUNCATED = "truncated"
    JSON = "json"
    FIELDS = "fields"
    WRONG_CHAIN = "wrong-chain"
    WRONG_ROUND = "wrong-round"
    FUTURE_ROUND = "future-round"
    FORGED_RANDOMNESS = "forged-randomness"
    ENCODING = "signature-encoding"
    IDENTITY = "signature-identity"
    SUBGROUP = "signature-subgroup"
    SIGNATURE = "signature-invalid"


WAITING: Final = frozenset({Reason.NOT_YET, Reason.CACHED_NOT_YET})
"""The relay has not got the round: no fault of its own."""

LIES: Final = frozenset(
    {
        Reason.FIELDS,
        Reason.WRONG_CHAIN,
        Reason.WRONG_ROUND,
        Reason.FUTURE_ROUND,
        Reason.FORGED_RANDOMNESS,
        Reason.ENCODING,
        Reason.IDENTITY,
        Reason.SUBGROUP,
        Reason.SIGNATURE,
    }
)
"""What no honest drand relay answers."""


class Refusal(Exception):  # noqa: N818 - named by what happened
    """An answer, or the lack of one, that is not the round that was asked for."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class TellAgain(Exception):  # noqa: N818 - it says what to do
    """What a listener raises that cannot take a round yet, though nothing is wrong: it is told of it again."""
