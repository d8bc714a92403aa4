"""What hosts ask for, and what a write gives back: the bodies of the API's writes, as strict models.

They check shape, bounds and characters (sections 2.1 and 3 of the protocol); whatever depends on the log, the clock or
the chain is decided by the rules at the moment of the write. A violation of a protocol rule carries that rule's code of
beacon.errors as its error type; everything else is `invalid-request`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from beacon.sessions.recipe_models import RecipeName, Recipes, ShownAs
from verifier.draws import MAX_N
from verifier.encoding import MAX_INTEGER, check_string, parse_hex
from verifier.entries import MAX_CALL_CONTRIBUTIONS, MAX_LEAD, MAX_LINKS, MAX_OUTCOMES, MAX_PARTICIPANTS, MIN_LEAD, Call
from verifier.errors import FormatError

MAX_ATTACHMENTS: Final = 16
MAX_RECIPES: Final = 64
MAX_ENTROPY_BYTES: Final = 256
DEFAULT_LINKS: Final = 1_024
MAX_BATCH: Final = 100
MAX_CIPHERTEXT: Final = 4_096
MAX_TEXT_BYTES: Final = 256
MAX_NAME_BYTES: Final = 128
CHARACTERS: Final = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]*$"
"""Rule 3.4 as a regular expression of ECMA-262, for descriptions; lengths there count characters, here UTF-8 bytes."""


def refusal(code: str, message: str) -> PydanticCustomError:
    """A validation error that the API answers with `code`, a key of beacon.errors.PROBLEMS."""
    # pydantic types both parameters as literals to help translators; ours are built from constants all the same.
    return PydanticCustomError(code, "{message}", {"message": message})  # type: ignore[arg-type,unused-ignore]


def _characters(text: str) -> str:
    try:
        return check_string(text)
    except FormatError as error:
        raise refusal("forbidden-character", error.message) from error


def _bounded(code: str, minimum: int, maximum: int) -> tuple[AfterValidator, WithJsonSchema]:
    def check(text: str) -> str:
        size = len(_characters(text).encode())
        if not minimum <= size <= maximum:
            raise refusal(code, f"{minimum} to {maximum} bytes of UTF-8 are due, here are {size}")
        return text

    schema: dict[str, Any] = {"type": "string", "pattern": CHARACTERS, "maxLength": maximum}
    return AfterValidator(check), WithJsonSchema(schema | ({"minLength": minimum} if minimum else {}))


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


Label = Annotated[str, *_bounded("label-invalid", 0, MAX_TEXT_BYTES)]
Purpose = Annotated[str, *_bounded("purpose-invalid", 0, MAX_TEXT_BYTES)]
ParticipantId = Annotated[str, *_bounded("seal-participant-invalid", 1, MAX_NAME_BYTES)]
AttachmentName = Annotated[str, *_bounded("seal-attachment-invalid", 1, MAX_NAME_BYTES)]
Name = Annotated[str, *_bounded("invalid-request", 1, MAX_NAME_BYTES)]
PublicKey = Annotated[bytes, *_hex(32, 32, "seal-key-invalid")]
Digest = Annotated[bytes, *_hex(32, 32, "seal-attachment-invalid")]
SessionId = Annotated[bytes, *_hex(32, 32, "seal-replaces-unknown")]
SessionName = Annotated[bytes, *_hex(32, 32, "session-unknown")]
Entropy = Annotated[bytes, *_hex(1, MAX_ENTROPY_BYTES, "entropy-invalid")]
Signature = Annotated[bytes, *_hex(64, 64, "signature-invalid")]
Commitment = Annotated[bytes, *_hex(32, 32, "seal-commitment-invalid")]
Seed = Annotated[bytes, *_hex(32, 32, "seed-wrong")]
DrawNumber = Annotated[int, Field(ge=1, le=MAX_N)]
Card = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Outcome = Annotated[list[Card], Field(max_length=10_000)] | Annotated[str, Field(pattern="^([0-9a-f]{2}){1,1024}$")]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Plan = Annotated[dict[RecipeName, Annotated[int, Field(ge=1, le=MAX_OUTCOMES)]], Field(min_length=1)]


def _items(maximum: int, minimum: int = 0) -> Any:
    """The bounds of a list whose refusal has a code of its own, as JSON schema shows them."""
    bounds: JsonDict = {"maxItems": maximum}
    return Field(json_schema_extra=bounds | ({"minItems": minimum} if minimum else {}))


class Request(BaseModel):
    """Strict: no conversion of types, no unknown fields, and no input values in error messages."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, ser_json_bytes="base64"
    )


class ParticipantRequest(Request):
    """One listed participant. id: 1-128 bytes, public for ever. key: Ed25519, 32 bytes in hex; then it must sign."""

    id: ParticipantId
    key: PublicKey | None = None


class AttachmentRequest(Request):
    """A file that stays with the host: its name, 1-128 bytes, and the SHA-256 of its bytes in hex."""

    name: AttachmentName
    sha256: Digest


class TimelockRequest(Request):
    """The host's seed, s_N, sealed to a drand round: rule 7.3.

    chain: name or chain hash, the session's if absent. round: due at or after `reveal_by`, by at most 31 days.
    ciphertext: a binary age file with one `tlock` stanza, in padded base64.
    """

    chain: Name | None = None
    round: Annotated[int, Field(ge=1, le=MAX_INTEGER)]
    ciphertext: Annotated[str, Field(min_length=1, max_length=MAX_CIPHERTEXT)]


class SealRequest(Request):
    """POST /v1/sessions. Times are milliseconds since the epoch. At most one of `round` and `round_at`.

    profile: `match` draws everything from one round; `live` has a round for each draw, called before it exists.
    custody: who holds the seed; with `host` the request brings its `commitment` (32 bytes in hex).
    links: live, how many draws there can be. lead: live, the ms between a call and its round. plan: match, exactly
    these draws are made when the round is in, and the seed is revealed, without another request.
    chain: name or chain hash, the service's default chain if absent. round_at: the first round at or after that time.
    close_at: null takes no contributions; if absent the service chooses, see `close_at_given`.
    min_contributions: if absent, every listed participant; 0 for an open session. Fewer at the close void the session.
    timelock: whether the seed is sealed to a round after `reveal_by` too, so that then anybody can open it; if absent,
    where the service holds the seed and the chain can. A host that holds the seed sends the sealed one.
    """

    label: Label = ""
    profile: Literal["match", "live"] = "match"
    custody: Literal["beacon", "host"] = "beacon"
    commitment: Commitment | None = None
    links: Annotated[int, Field(ge=1, le=MAX_LINKS)] | None = None
    lead: Annotated[int, Field(ge=MIN_LEAD, le=MAX_LEAD)] | None = None
    chain: Name | None = None
    round: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    round_at: Milliseconds | None = None
    close_at: Milliseconds | None = None
    reveal_by: Milliseconds | None = None
    participants: Annotated[list[ParticipantRequest], _items(MAX_PARTICIPANTS)] = []
    open: bool = False
    min_contributions: Annotated[int, Field(ge=0, le=10_000)] | None = None
    recipes: Annotated[dict[str, dict[str, Any]], ShownAs(Recipes)]
    plan: Annotated[dict[str, Annotated[int, Field(ge=1, le=MAX_OUTCOMES)]] | None, ShownAs(Plan | None)] = None
    attachments: Annotated[list[AttachmentRequest], _items(MAX_ATTACHMENTS)] = []
    replaces: SessionId | None = None
    timelock: bool | TimelockRequest | None = None

    @property
    def links_or_default(self) -> int:
        """How many links the seed's chain has: 1 in a match."""
        return self.links if self.links is not None else 1 if self.profile == "match" else DEFAULT_LINKS

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
        live = self.profile == "live"
        if live and (self.round is not None or self.round_at is not None or self.plan is not None):
            raise refusal("seal-profile-invalid", "a live session has no `round`, `round_at` or `plan`")
        if not live and (self.lead is not None or self.links not in {None, 1}):
            raise refusal("seal-profile-invalid", "`lead` and more than one of `links` are for live sessions")
        if (self.custody == "host") != (self.commitment is not None):
            raise refusal("seal-commitment-invalid", "with custody `host`, and only then, the request has `commitment`")
        if self.custody == "host" and self.timelock is True:
            raise refusal("seal-timelock-invalid", "the host holds the seed: `timelock` is what it sealed")
        if self.custody == "beacon" and isinstance(self.timelock, TimelockRequest):
            raise refusal("seal-timelock-invalid", "the service holds the seed: `timelock` is true or false")
        if self.plan is not None and not 0 < sum(self.plan.values()) <= MAX_OUTCOMES:
            raise refusal("seal-plan-invalid", f"a plan has 1 to {MAX_OUTCOMES} draws")
        if not self.recipes:
            raise refusal("seal-recipe-invalid", "a seal names at least one recipe")
        _unique([participant.id for participant in self.participants], "seal-participant-invalid", "participant id")
        keys = [participant.key for participant in self.participants if participant.key is not None]
        _unique(keys, "seal-participant-invalid", "participant key")
        _unique([attachment.name for attachment in self.attachments], "seal-attachment-invalid", "attachment name")
        return self


class ContributionRequest(Request):
    """POST /v1/sessions/{id}/contributions. entropy: 1-256 bytes in hex. signature: Ed25519 by rule 4.4, in hex."""

    participant: Annotated[str, *_bounded("not-a-participant", 1, MAX_NAME_BYTES)]
    entropy: Entropy
    signature: Signature | None = None


class CallContributionRequest(Request):
    """One participant's entropy for a call. signature: Ed25519 by rule 4.4 over the call's `draw`, `n` and purpose."""

    participant: Annotated[str, *_bounded("not-a-participant", 1, MAX_NAME_BYTES)]
    entropy: Entropy
    signature: Signature | None = None


class DrawRequest(Request):
    """POST /v1/sessions/{id}/draws. A match is drawn, a live session is called.

    count: how many consecutive draws of the recipe, 1-1,000; live: 1. n: the number that the first is taken for, and
    draw: the k that the call is taken for; another one is refused. contributions: live, for this call alone.
    outcomes: what the host drew from the seed that it holds (custody `host`, match), one for each draw.
    """

    recipe: Annotated[str, *_bounded("unknown-recipe", 1, MAX_NAME_BYTES)]
    count: Annotated[int, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_OUTCOMES})] = 1
    purpose: Purpose = ""
    n: DrawNumber | None = None
    draw: DrawNumber | None = None
    contributions: Annotated[list[CallContributionRequest], _items(MAX_CALL_CONTRIBUTIONS)] = []
    outcomes: Annotated[list[Outcome], _items(MAX_OUTCOMES, 1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _bound_lists(cls, data: Any) -> Any:
        if isinstance(data, dict):
            _at_most(data, "contributions", MAX_CALL_CONTRIBUTIONS, "too-many-contributions")
            _at_most(data, "outcomes", MAX_OUTCOMES, "draw-count")
        return data

    @model_validator(mode="after")
    def _bound_count(self) -> Self:
        if self.outcomes is not None and self.count not in {1, len(self.outcomes)}:
            raise refusal("draw-count", f"`count` is {self.count}, here are {len(self.outcomes)} outcomes")
        if not 1 <= self.count <= MAX_OUTCOMES or self.outcomes == []:
            raise refusal("draw-count", f"1 to {MAX_OUTCOMES} draws at once, not {self.count}")
        return self


class BatchSealRequest(Request):
    """POST /v1/batch/seals: 1 to 100 seals, all or none."""

    sessions: Annotated[list[SealRequest], Field(min_length=1, max_length=MAX_BATCH)]


class SessionDrawRequest(DrawRequest):
    """One of a batch of draws: of which session."""

    session: SessionName


class BatchDrawRequest(Request):
    """POST /v1/batch/draws: 1 to 100 draws or calls, all or none."""

    draws: Annotated[list[SessionDrawRequest], Field(min_length=1, max_length=MAX_BATCH)]


class LinkRequest(Request):
    """POST /v1/sessions/{id}/links: link `draw` (s_k, 32 bytes in hex) of the chain that the host holds.

    outcome: what the host takes for the outcome; refused if the link gives another.
    """

    draw: DrawNumber
    link: Seed
    outcome: Outcome | None = None


class JoinRequest(Request):
    """POST /v1/sessions/{id}/joins: whom the host lets contribute by themselves, 1 to 200."""

    participants: Annotated[list[ParticipantId], Field(min_length=1, max_length=MAX_PARTICIPANTS)]


class RevealRequest(Request):
    """POST /v1/sessions/{id}/reveal. seed: of a match whose host holds it, 32 bytes in hex; else nothing."""

    seed: Seed | None = None


class VoidRequest(Request):
    """POST /v1/sessions/{id}/void. The reason is written out, since a void cannot be taken back."""

    reason: Literal["host"]


@dataclass(frozen=True, slots=True)
class Written:
    """What a durable write gives back.

    session: 32 bytes. state: the JSON of `GET /v1/sessions/{id}` after the write. receipts: one document of the
    transcript's format for each entry, in log order: first what was asked for, then the close that a contribution
    brought about. outcomes, first_n: of draws only; the outcome of each draw and the number n of the first. call: what
    was called, of live sessions.
    """

    session: bytes
    state: dict[str, Any]
    receipts: list[dict[str, Any]]
    outcomes: list[Any] | None = None
    first_n: int | None = None
    call: Call | None = None


def _at_most(data: dict[str, Any], field: str, maximum: int, code: str) -> None:
    value = data.get(field)
    if isinstance(value, list | tuple | dict) and len(value) > maximum:
        raise refusal(code, f"`{field}` holds at most {maximum}, here are {len(value)}")


def _unique(values: list[Any], code: str, what: str) -> None:
    if len(set(values)) != len(values):
        raise refusal(code, f"the same {what} twice")
