"""What hosts ask for, and what a write gives back: the bodies of the API's writes, as strict models.

They check shape, bounds and characters (sections 2.1 and 3 of the protocol); whatever depends on the log, the clock or
the chain is decided by the rules at the moment of the write. A violation of a protocol rule carries that rule's code of
beacon.errors as its error type; everything else is `invalid-request`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from verifier.encoding import MAX_INTEGER, check_string, parse_hex
from verifier.errors import FormatError

MAX_PARTICIPANTS: Final = 200
MAX_ATTACHMENTS: Final = 16
MAX_RECIPES: Final = 64
MAX_ENTROPY_BYTES: Final = 256
MAX_DRAWS_AT_ONCE: Final = 1_000
MAX_TEXT_BYTES: Final = 256
MAX_NAME_BYTES: Final = 128


def refusal(code: str, message: str) -> PydanticCustomError:
    """A validation error that the API answers with `code`, a key of beacon.errors.PROBLEMS."""
    # pydantic types both parameters as literals to help translators; ours are built from constants all the same.
    return PydanticCustomError(code, "{message}", {"message": message})  # type: ignore[arg-type,unused-ignore]


def _characters(text: str) -> str:
    try:
        return check_string(text)
    except FormatError as error:
        raise refusal("forbidden-character", error.message) from error


def _bounded(code: str, minimum: int, maximum: int) -> AfterValidator:
    def check(text: str) -> str:
        size = len(_characters(text).encode())
        if not minimum <= size <= maximum:
            raise refusal(code, f"{minimum} to {maximum} bytes of UTF-8 are due, here are {size}")
        return text

    return AfterValidator(check)


def _hex(minimum: int, maximum: int, code: str) -> tuple[BeforeValidator, WithJsonSchema]:
    def parse(value: object) -> bytes:
        try:
            data = parse_hex(value)
        except FormatError as error:
            raise refusal(code, error.message) from error
        if not minimum <= len(data) <= maximum:
            due = f"{minimum}" if minimum == maximum else f"{minimum} to {maximum}"
            raise refusal(code, f"{due} bytes of hex are due, here are {len(data)}")
        return data

    schema = {
        "type": "string",
        "pattern": "^([0-9a-f]{2})+$",
        "minLength": 2 * minimum,
        "maxLength": 2 * maximum,
    }
    return BeforeValidator(parse), WithJsonSchema(schema)


Label = Annotated[str, _bounded("label-invalid", 0, MAX_TEXT_BYTES)]
Purpose = Annotated[str, _bounded("purpose-invalid", 0, MAX_TEXT_BYTES)]
ParticipantId = Annotated[str, _bounded("seal-participant-invalid", 1, MAX_NAME_BYTES)]
AttachmentName = Annotated[str, _bounded("seal-attachment-invalid", 1, MAX_NAME_BYTES)]
Name = Annotated[str, _bounded("invalid-request", 1, MAX_NAME_BYTES)]
PublicKey = Annotated[bytes, *_hex(32, 32, "seal-key-invalid")]
Digest = Annotated[bytes, *_hex(32, 32, "seal-attachment-invalid")]
SessionId = Annotated[bytes, *_hex(32, 32, "seal-replaces-unknown")]
Entropy = Annotated[bytes, *_hex(1, MAX_ENTROPY_BYTES, "entropy-invalid")]
Signature = Annotated[bytes, *_hex(64, 64, "signature-invalid")]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class Request(BaseModel):
    """Strict: no conversion of types, no unknown fields, and no input values in error messages."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class ParticipantRequest(Request):
    """One listed participant. id: 1-128 bytes, public for ever. key: Ed25519, 32 bytes in hex; then it must sign."""

    id: ParticipantId
    key: PublicKey | None = None


class AttachmentRequest(Request):
    """A file that stays with the host: its name, 1-128 bytes, and the SHA-256 of its bytes in hex."""

    name: AttachmentName
    sha256: Digest


class SealRequest(Request):
    """POST /v1/sessions. Times are milliseconds since the epoch. At most one of `round` and `round_at`.

    chain: name or chain hash, the service's default chain if absent. round_at: the first round at or after that time.
    close_at: null takes no contributions; if absent the service chooses, see `close_at_given`.
    min_contributions: if absent, every listed participant; 0 for an open session. Fewer at the close void the session.
    """

    label: Label = ""
    chain: Name | None = None
    round: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    round_at: Milliseconds | None = None
    close_at: Milliseconds | None = None
    reveal_by: Milliseconds | None = None
    participants: list[ParticipantRequest] = []
    open: bool = False
    min_contributions: Annotated[int, Field(ge=0, le=10_000)] | None = None
    recipes: dict[str, dict[str, Any]]
    attachments: list[AttachmentRequest] = []
    replaces: SessionId | None = None

    @property
    def close_at_given(self) -> bool:
        """Whether the request says when contributions close, be it `null`."""
        return "close_at" in self.model_fields_set

    @model_validator(mode="before")
    @classmethod
    def _bound_lists(cls, data: Any) -> Any:
        if isinstance(data, dict):
            _at_most(data, "participants", MAX_PARTICIPANTS, "seal-participant-invalid")
            _at_most(data, "attachments", MAX_ATTACHMENTS, "seal-attachment-invalid")
            _at_most(data, "recipes", MAX_RECIPES, "seal-recipe-invalid")
        return data

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.round is not None and self.round_at is not None:
            raise refusal("invalid-request", "`round` and `round_at` exclude each other")
        if not self.recipes:
            raise refusal("seal-recipe-invalid", "a seal names at least one recipe")
        _unique([participant.id for participant in self.participants], "seal-participant-invalid", "participant id")
        keys = [participant.key for participant in self.participants if participant.key is not None]
        _unique(keys, "seal-participant-invalid", "participant key")
        _unique([attachment.name for attachment in self.attachments], "seal-attachment-invalid", "attachment name")
        return self


class ContributionRequest(Request):
    """POST /v1/sessions/{id}/contributions. entropy: 1-256 bytes in hex. signature: Ed25519 by rule 4.4, in hex."""

    participant: Annotated[str, _bounded("not-a-participant", 1, MAX_NAME_BYTES)]
    entropy: Entropy
    signature: Signature | None = None


class DrawRequest(Request):
    """POST /v1/sessions/{id}/draws. count: how many consecutive draws of the recipe, 1-1,000."""

    recipe: Annotated[str, _bounded("unknown-recipe", 1, MAX_NAME_BYTES)]
    count: int = 1
    purpose: Purpose = ""

    @model_validator(mode="after")
    def _bound_count(self) -> Self:
        if not 1 <= self.count <= MAX_DRAWS_AT_ONCE:
            raise refusal("draw-count", f"1 to {MAX_DRAWS_AT_ONCE} draws at once, not {self.count}")
        return self


class RevealRequest(Request):
    """POST /v1/sessions/{id}/reveal. The body is empty or `{}`."""


class VoidRequest(Request):
    """POST /v1/sessions/{id}/void. The reason is written out, since a void cannot be taken back."""

    reason: Literal["host"]


@dataclass(frozen=True, slots=True)
class Written:
    """What a durable write gives back.

    session: 32 bytes. state: the JSON of `GET /v1/sessions/{id}` after the write. receipts: one document of the
    transcript's format for each entry, in log order: first what was asked for, then the close that a contribution
    brought about. outcomes, first_n: of draws only; the outcome of each draw and the number n of the first.
    """

    session: bytes
    state: dict[str, Any]
    receipts: list[dict[str, Any]]
    outcomes: list[Any] | None = None
    first_n: int | None = None


def _at_most(data: dict[str, Any], field: str, maximum: int, code: str) -> None:
    value = data.get(field)
    if isinstance(value, list | tuple | dict) and len(value) > maximum:
        raise refusal(code, f"`{field}` holds at most {maximum}, here are {len(value)}")


def _unique(values: list[Any], code: str, what: str) -> None:
    if len(set(values)) != len(values):
        raise refusal(code, f"the same {what} twice")
