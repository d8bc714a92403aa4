"""One error family. Codes are stable: they are printed, tested and cited, and never renamed."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """What was wrong, for machines. Each code names one format or one kind of proof."""

    HEX = "hex"
    BASE64 = "base64"
    DECIMAL = "decimal"
    JSON = "json"
    STRING = "string"
    ENTRY = "entry"
    RECIPE = "recipe"
    DOCUMENT = "document"
    VKEY = "vkey"
    NOTE = "note"
    CHECKPOINT = "checkpoint"
    COSIGNATURE = "cosignature"
    TLOG_PROOF = "tlog-proof"
    TILE = "tile"
    POLICY = "policy"
    CHAIN_INFO = "chain-info"
    SCHEME = "scheme"
    ROUND = "round"
    POINT = "point"
    AGE = "age"
    TIMELOCK = "timelock"
    VECTORS = "vectors"
    RECORD = "record"
    OPTION = "option"
    USAGE = "usage"

    SIGNATURE = "signature"
    INCLUSION = "inclusion"
    CONSISTENCY = "consistency"
    ROUND_SIGNATURE = "round-signature"
    DECRYPTION = "decryption"
    DRAW_PAST_END = "draw-past-end"


class VerifierError(Exception):
    """Base of every error that this package raises on purpose. `code` is stable, the message is for people."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(code, message)  # what pickle makes it of again, for other processes
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class FormatError(VerifierError):
    """The input is not in the one canonical form that its format allows."""


class VerificationError(VerifierError):
    """The input is well formed, and what it claims is not so."""
