"""What the API answers with, as models: for the description of the API, and for the tests that hold answers to it.

Answers are made elsewhere, as plain dictionaries. Members may be added to an answer, so clients ignore what they do not
know; the tests take none that is not here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from beacon.errors import PROBLEMS
from beacon.rounds.rounds import TROUBLES
from beacon.sessions.ledger import OPEN
from beacon.sessions.recipe_models import Recipes
from beacon.sessions.requests import Outcome
from beacon.witness.client import Result
from verifier.transcript import FORMAT

Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Hex = Annotated[str, Field(pattern="^([0-9a-f]{2})+$")]
Base64 = Annotated[str, Field(pattern="^[A-Za-z0-9+/]+={0,2}$")]
JoinToken = Annotated[str, Field(pattern="^fbj_[A-Za-z0-9_-]{43}$")]
JoinLink = Annotated[
    str, Field(pattern="^/s/[0-9a-f]{64}#join=fbj_[A-Za-z0-9_-]{43}&participant=([A-Za-z0-9._~-]|%[0-9A-F]{2})+$")
]
Time = Annotated[int, Field(ge=0, description="Milliseconds since the epoch.")]
Index = Annotated[int, Field(ge=0, description="Index of an entry of the log.")]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
StateName = Literal["sealed", "closed", "anchored", "called", "drawing", "revealed", "void"]
VoidReason = Literal["host", "below-minimum", "missed-close", "no-round", "missed-reveal"]
EntryType = Literal["seal", "contribution", "close", "round", "call", "draw", "reveal", "void"]
Trouble = Annotated[str, Field(json_schema_extra={"enum": list(TROUBLES)})] | None


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def absent() -> Any:
    """A member that is left out where there is nothing to say; it is never null."""
    return Field(default=None, json_schema_extra=_no_default)


class Participant(BaseModel):
    """A listed participant, and the Ed25519 key with which it has to sign, if any."""

    id: str
    key: Hash | SkipJsonSchema[None] = absent()


class Attachment(BaseModel):
    """A file that stays with the host, and the SHA-256 of its bytes."""

    name: str
    sha256: Hash


class Pending(BaseModel):
    """A call that waits for its round, or for its draw."""

    index: Index
    draw: Positive
    recipe: str
    n: Positive
    purpose: str
    round: Positive
    round_time: Time | None
    round_index: Index | None


class Timelock(BaseModel):
    """The round that a session's seed is sealed to; its ciphertext is in the seal. round_index: once it is logged."""

    chain: Hash
    round: Positive
    round_time: Time | None
    round_index: Index | None


class Session(BaseModel):
    """A session as the log has it: its terms, its state and what was done in it. Ids and labels are public for ever.

    round, round_time: of a match. links, lead: of a live session (links of a match: 1). contributed: the ids, 200 at
    the most. called: how many calls each recipe had, null in a match; drawn: how many draws. seed: once it is public.
    """

    session: Hash
    state: StateName
    index: Index
    time: Time
    host: str
    host_seq: Positive
    label: str
    replaces: Hash | None
    profile: Literal["match", "live"]
    custody: Literal["beacon", "host"]
    sandbox: bool
    commitment: Hash
    chain: Hash
    round: Positive | None
    round_time: Time | None
    links: Positive
    lead: Positive | None
    close_at: Time | None
    reveal_by: Time
    timelock: Timelock | None
    participants: list[Participant]
    open: bool
    min_contributions: Count
    plan: dict[str, Positive] | None
    recipes: Recipes
    attachments: list[Attachment]
    contributions: Count
    contributed: list[str]
    close_index: Index | None
    round_index: Index | None
    calls: Count
    pending: list[Pending]
    called: dict[str, Count] | None
    drawn: dict[str, Count]
    end_index: Index | None
    last_index: Index
    reason: VoidReason | None
    seed: Hash | None


class ChainInfo(BaseModel):
    """What defines a drand chain (PROTOCOL.md, 3.6)."""

    public_key: Hex
    period: Positive
    genesis_time: Annotated[int, Field(ge=0, description="Seconds since the epoch.")]
    hash: Hash
    genesis_seed: Hash
    scheme: str
    beacon_id: str


class Event(BaseModel):
    """One entry of the log: its exact text, and its inclusion proof (RFC 6962) in the document's checkpoint."""

    index: Index
    entry: str
    proof: list[Base64]


class Evidence(BaseModel):
    """A checkpoint that witnesses have cosigned, and proofs that tie it to the document's."""

    checkpoint: str
    consistency: list[Base64]
    proofs: dict[str, list[Base64]]


class Document(BaseModel):
    """A transcript, or a receipt, which has one event (PROTOCOL.md, 7.2): what `verifier check` takes."""

    format: Literal[FORMAT]  # type: ignore[valid-type]
    origin: str
    log_key: str
    chain: ChainInfo
    events: Annotated[list[Event], Field(min_length=1)]
    checkpoint: str
    evidence: list[Evidence]


class Receipted(Session):
    """The session after the write, and the receipt of its entry."""

    receipt: Document


class Contributed(Receipted):
    """The session after the contribution. close_receipt: of the close, where this was the last that was due."""

    close_receipt: Document | SkipJsonSchema[None] = absent()


class Call(BaseModel):
    """Which draw was called, and the round that it waits for."""

    draw: Positive
    recipe: str
    n: Positive
    round: Positive


class Drawn(Session):
    """The session after the write. A match: `outcomes`, and the number `n` of the first; a live session: its `call`,
    and once it is drawn the outcome as well. receipts: one for each entry.
    """

    receipts: Annotated[list[Document], Field(min_length=1)]
    call: Call | SkipJsonSchema[None] = absent()
    outcomes: Annotated[list[Outcome], Field(min_length=1)] | SkipJsonSchema[None] = absent()
    n: Positive | SkipJsonSchema[None] = absent()


class BatchSealed(BaseModel):
    """What each seal gave, in the order of the request."""

    sessions: list[Receipted]


class BatchDrawn(BaseModel):
    """What each draw or call gave, in the order of the request."""

    draws: list[Drawn]


class JoinTokens(BaseModel):
    """A token for each participant, with which it contributes once without the host's.

    links: relative to the service, of the session's page, which contributes with the token behind their `#`.
    """

    session: Hash
    tokens: dict[str, JoinToken]
    links: dict[str, JoinLink]


class ListedSession(BaseModel):
    """A session in a list. reason: why it is void."""

    session: Hash
    state: Literal[*OPEN, "open", "revealed", "void"]  # type: ignore[valid-type]
    reason: VoidReason | None
    index: Index
    time: Time
    host: str
    host_seq: Positive
    label: str
    profile: Literal["match", "live"]
    custody: Literal["beacon", "host"]
    sandbox: bool
    chain: Hash
    replaces: Hash | None
    end_index: Index | None
    end_time: Time | None


class SessionPage(BaseModel):
    """A page of the host's sessions, newest first. cursor: of the next page, null at the end."""

    sessions: list[ListedSession]
    has_more: bool
    cursor: str | None


class LabelTwice(BaseModel):
    """A label of several sessions."""

    label: str
    sessions: Annotated[int, Field(ge=2)]


class LabelsTwice(BaseModel):
    """How many labels were used more than once, and the newest 50 of them."""

    count: Count
    newest: list[LabelTwice]


class Replacement(BaseModel):
    """A session, and the one that it re-runs."""

    session: Hash
    replaces: Hash


class Replaced(BaseModel):
    """How many sessions re-run others, and the newest 50 of them."""

    count: Count
    newest: list[Replacement]


class Ledger(BaseModel):
    """The public account of a host: what it sealed, and how that ended."""

    host: str
    sandbox: bool
    sealed: Positive
    open: Count
    revealed: Count
    void: Count
    void_by_reason: dict[VoidReason, Positive]
    numbers_gapless: bool
    last_host_seq: Positive
    first_time: Time
    last_time: Time
    labels_used_twice: LabelsTwice
    replaced: Replaced


class Webhook(BaseModel):
    """A webhook, without its secrets. types: of events, empty for all. position: the log index up to which all is
    through. disabled: when the receiver answered 410.
    """

    id: str
    url: str
    types: list[str]
    created: Time
    position: Index
    failing_since: Time | None
    disabled: Time | None
    old_secret_until: Time | None


class WebhookWithSecret(Webhook):
    """A webhook and its new secret, which nothing shows again."""

    secret: Annotated[str, Field(pattern="^whsec_[A-Za-z0-9+/]{43}=$")]


class Webhooks(BaseModel):
    """The host's webhooks, oldest first."""

    webhooks: list[Webhook]


class Delivery(BaseModel):
    """One entry on its way to a webhook. first_attempt: null where it was given up unattempted."""

    webhook_id: str
    index: Index
    session: Hash
    type: str
    status: Literal["delivered", "retrying", "failed"]
    attempts: Count
    first_attempt: Time | None
    time: Time
    outcome: str


class Deliveries(BaseModel):
    """A page of deliveries, newest first. next: for `before` of the next page, null at the end."""

    deliveries: list[Delivery]
    has_more: bool
    next: Index | None


class StreamedEntry(BaseModel):
    """The `data` of an event of a stream: the entry's text and the state after it; of an `end`, the state alone."""

    index: Index | SkipJsonSchema[None] = absent()
    type: EntryType | SkipJsonSchema[None] = absent()
    state: StateName
    entry: str | SkipJsonSchema[None] = absent()


class Sent(BaseModel):
    """What an event says: its session, the state after it, and the exact text of the log's entry."""

    session: Hash
    index: Index
    state: StateName
    entry: str


class WebhookEvent(BaseModel):
    """What is sent to a webhook."""

    type: Annotated[str, Field(pattern="^session\\.(seal|contribution|close|call|draw|reveal|void)$")]
    timestamp: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    data: Sent


class Relay(BaseModel):
    """What one relay did. Times are milliseconds since the epoch; of its URL only what names it."""

    relay: str
    latency_ms: Count | None
    expected_ms: int
    last_success: Time | None
    last_round: Positive | None
    last_failure: Time | None
    last_failure_reason: str | None
    failures_in_a_row: Count
    answered: Count
    beaten: Count
    refused: dict[str, Count]


class Chain(BaseModel):
    """A chain that the service follows. trouble: the code with which a seal on it would be refused now, or null."""

    name: str
    hash: Hash
    default: bool
    sandbox_only: bool
    last_round: Positive | None
    newest_round: Positive | None
    newest_round_time: Time | None
    expected_round: Count
    stale: bool
    trouble: Trouble
    waiting_for: Count
    overdue: Count
    signed_twice: list[Positive]
    relays: list[Relay]
    info: ChainInfo


class Chains(BaseModel):
    """Every chain that the service follows."""

    chains: list[Chain]


class Round(BaseModel):
    """A round whose signature was verified here. previous_signature: on chained schemes."""

    chain: Hash
    round: Positive
    time: Time
    randomness: Hash
    signature: Hex
    previous_signature: Hex | SkipJsonSchema[None] = absent()


class Health(BaseModel):
    """stopped: why the databases take no more writes, null while they do."""

    healthy: bool
    stopped: str | None


class FailingRelay(BaseModel):
    """A relay whose last answer was a failure."""

    relay: str
    reason: str | None
    time: Time | None
    in_a_row: Positive


class ChainReport(BaseModel):
    """What stands in the way of seals on a chain, null where nothing does."""

    trouble: Trouble
    detail: str | None
    failing_relays: list[FailingRelay]


class WitnessReport(BaseModel):
    """How the log stands with a witness. size, time: of its newest cosignature (POSIX seconds). lag: entries that it
    has not cosigned; behind_ms: for how long one of them has been public. disagrees: it has seen another log.
    """

    size: Count
    time: Annotated[int, Field(ge=0)] | None
    lag: Count
    behind_ms: Count
    disagrees: bool
    last: Annotated[str, Field(json_schema_extra={"enum": [*Result]})] | None
    failures_in_a_row: Count


class Readiness(BaseModel):
    """Whether sessions can be sealed on the default chain now. stopped: why only a restart helps; writes: why the
    databases take none now, or are slow, while the service goes on. witnesses: where any are asked; seals do not wait.
    """

    ready: bool
    stopped: str | None
    writes: str | None
    chains: dict[str, ChainReport]
    witnesses: dict[str, WitnessReport] | SkipJsonSchema[None] = absent()


class ProblemRow(BaseModel):
    """What is the same in every problem of a code. rule: of PROTOCOL.md. next: what to do."""

    type: Annotated[str, Field(pattern="^/problems/[a-z-]+$", json_schema_extra={"format": "uri-reference"})]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    code: Annotated[str, Field(json_schema_extra={"enum": sorted(PROBLEMS)})]
    rule: str | None
    retryable: bool
    next: str


class Refused(BaseModel):
    """What is wrong at a place in the body. path: a JSON pointer (RFC 6901)."""

    path: str
    message: str


class Problem(ProblemRow):
    """A refusal (RFC 9457). `retryable`: the same request, unchanged, may succeed later, and nothing was written.

    detail: what was wrong with this request. errors: each place in the body that is refused. item: which one of a
    batch, from 0. Other codes bring members of their own, such as `earliest_round`, `next_n` or `limit_bytes`.
    """

    detail: str
    request_id: str
    errors: list[Refused] | SkipJsonSchema[None] = absent()
    item: Count | SkipJsonSchema[None] = absent()
