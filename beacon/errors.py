"""Every error that the API answers with: one table, one exception.

A code is stable: it is documented, tested and never renamed. A problem that comes from a rule of the protocol names the
rule (verifier/PROTOCOL.md). `retryable` means that the same request, unchanged, may succeed later; nothing was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Problem:
    """One row: HTTP status, title, the rule it enforces (or None), whether to retry, and what the caller does next."""

    status: int
    title: str
    rule: str | None
    retryable: bool
    next: str


_READ_SESSION = "Read the session: its state says what it still takes."

PROBLEMS: Final[Mapping[str, Problem]] = MappingProxyType(
    {
        # The request itself
        "invalid-request": Problem(
            400,
            "The request is not what this operation takes",
            None,
            False,
            "Correct what `detail` and `errors` name.",
        ),
        "forbidden-character": Problem(
            400,
            "A string holds a character that no entry may hold",
            "3.4",
            False,
            "Take control and direction characters, byte order marks and unpaired surrogates out of the strings.",
        ),
        "idempotency-key-invalid": Problem(
            400,
            "The idempotency key cannot be one",
            None,
            False,
            "Send one `Idempotency-Key` of 1 to 255 printable ASCII characters without spaces, for example a UUID.",
        ),
        "idempotency-key-reused": Problem(
            409,
            "The idempotency key was used for another request",
            None,
            False,
            "Use a new key for a new request; the same key gives the first answer only to the same request.",
        ),
        "unauthorized": Problem(
            401,
            "A write needs a host's token",
            None,
            False,
            "Send `Authorization: Bearer TOKEN` with a token of `beacon hosts add` that is not revoked.",
        ),
        "forbidden": Problem(
            403,
            "This token may not do that",
            None,
            False,
            "Use a token that has the scope that `scope` names; the operator makes one with `beacon hosts add`.",
        ),
        "not-found": Problem(
            404, "There is nothing at this address", None, False, "Check the path; addresses have one spelling."
        ),
        "method-not-allowed": Problem(
            405,
            "This address does not take this method",
            None,
            False,
            "Use one of the methods that the `Allow` header lists.",
        ),
        "request-timeout": Problem(
            408, "The request's body did not arrive in time", None, True, "Send the whole request again."
        ),
        "body-too-large": Problem(
            413, "The request's body is too large", None, False, "Send less; `limit_bytes` is the most it may be."
        ),
        "unsupported-media-type": Problem(
            415,
            "The request's body is not plain JSON",
            None,
            False,
            "Send `Content-Type: application/json` in UTF-8, without a content encoding.",
        ),
        # The service
        "internal": Problem(
            500,
            "The service failed",
            None,
            False,
            "Read the session before you repeat a write. Give the operator the `request_id`.",
        ),
        "write-failed": Problem(
            503, "Nothing was written", None, True, "Send the same request again after `Retry-After` seconds."
        ),
        "outcome-unknown": Problem(
            503,
            "Whether this was written is not known",
            None,
            False,
            "Read the session after the service is back, before you repeat the request.",
        ),
        "unavailable": Problem(
            503,
            "The service takes no writes",
            None,
            True,
            "Nothing was written. Send the same request again later; the operator has to restart the service.",
        ),
        "too-many-waiting": Problem(
            503,
            "Too many wait for sessions to change",
            None,
            True,
            "Send the same request again after `Retry-After` seconds, or without `wait`.",
        ),
        "too-many-listeners": Problem(
            429,
            "Too many event streams and waiting reads are open",
            None,
            True,
            "Close some, or connect again after `Retry-After` seconds.",
        ),
        "rate-limited": Problem(
            429,
            "Too many requests",
            None,
            True,
            "Send the same request again after `Retry-After` seconds; the `RateLimit` header says what is left.",
        ),
        # Webhooks
        "webhook-unknown": Problem(
            404, "This host has no such webhook", None, False, "Use an `id` that `GET /v1/webhooks` lists."
        ),
        "webhook-url-invalid": Problem(
            422,
            "Nothing can be sent to that URL",
            None,
            False,
            "Give an https URL of a host on the public internet; the operator may allow others.",
        ),
        "webhook-exists": Problem(
            409,
            "This host has a webhook with this URL already",
            None,
            False,
            "Use it: `GET /v1/webhooks` lists it, and rotating its secret shows a new one.",
        ),
        "too-many-webhooks": Problem(
            409, "There are as many webhooks as there may be", None, False, "Delete one that is not needed."
        ),
        # Chains and rounds
        "chain-unknown": Problem(
            404, "This service does not follow that chain", None, False, "Use a chain of `GET /v1/chains`."
        ),
        "chain-retired": Problem(
            422,
            "The chain ends before that round",
            "2.5",
            False,
            "Use a chain of `GET /v1/chains` that is still running.",
        ),
        "round-unknown": Problem(
            404,
            "That round has not been verified here",
            None,
            True,
            "Ask again after the round's time; only rounds that sessions use are kept.",
        ),
        "clock-unsure": Problem(
            503,
            "The service's clock and the chain disagree",
            "6.11",
            True,
            "Send the same request again after `Retry-After` seconds; the operator checks the clock and the relays.",
        ),
        "no-verified-round": Problem(
            503,
            "No round of the chain has been verified yet",
            "6.11",
            True,
            "Send the same request again after `Retry-After` seconds.",
        ),
        "chain-broken": Problem(
            503,
            "The chain has signed one round twice, differently",
            "6.8",
            False,
            "Do not use this chain. Use another of `GET /v1/chains`.",
        ),
        "rounds-damaged": Problem(
            503,
            "A round of the chain in the service's database does not verify",
            None,
            False,
            "Use another chain of `GET /v1/chains`. The operator runs `beacon log check`, and restores log.db.",
        ),
        "sandbox-only-chain": Problem(
            403,
            "Only sandbox hosts may use this chain",
            None,
            False,
            "Use another chain of `GET /v1/chains`, or a token of a sandbox host.",
        ),
        # Seals
        "seal-round-too-early": Problem(
            422,
            "The round is too near: somebody may know it already",
            "6.3",
            False,
            "Name a round at least 2 periods from now and 2 above the newest; `earliest_round` says which.",
        ),
        "seal-round-too-late": Problem(
            422, "The round's time is beyond what a log can hold", "6.3", False, "Name an earlier round."
        ),
        "seal-close-too-late": Problem(
            422,
            "Contributions would close too near the round",
            "6.3",
            False,
            "Set `close_at` at least 1 period before the round's time, or name a later round.",
        ),
        "seal-close-in-past": Problem(
            422, "Contributions would close before the seal", "6.3", False, "Set `close_at` in the future."
        ),
        "seal-reveal-by-too-early": Problem(
            422,
            "The deadline of the reveal is too near the round",
            "6.3",
            False,
            "Set `reveal_by` at least 10 periods and 10 minutes after the round's time.",
        ),
        "seal-reveal-by-too-late": Problem(
            422, "The deadline of the reveal is too far", "6.3", False, "Set `reveal_by` within 400 days."
        ),
        "seal-contributions-mismatch": Problem(
            422,
            "The terms of the contributions contradict each other",
            "6.4",
            False,
            "With `close_at`: list participants or set `open`; without it: `min_contributions` is 0. "
            "The minimum is not above the number of participants unless the session is open.",
        ),
        "seal-replaces-unknown": Problem(
            422,
            "`replaces` names no earlier session of this host",
            "6.1",
            False,
            "Name an earlier session of your own, or leave `replaces` out.",
        ),
        "seal-recipe-invalid": Problem(
            422,
            "A recipe is not one of the protocol's",
            "5",
            False,
            "Correct the recipe that `detail` names: its kind, fields and bounds are in section 5.",
        ),
        "seal-participant-invalid": Problem(
            422,
            "A participant cannot be listed like that",
            "3.5",
            False,
            "Ids have 1 to 128 bytes; ids and keys are unique; at most 200 participants.",
        ),
        "seal-key-invalid": Problem(
            422,
            "A participant's key is not an Ed25519 key of prime order",
            "2.7",
            False,
            "List the 32 bytes of a canonical Ed25519 public key in hex, or no key.",
        ),
        "seal-attachment-invalid": Problem(
            422,
            "An attachment cannot be listed like that",
            "3.6",
            False,
            "At most 16 attachments, each with a unique name of 1 to 128 bytes and the SHA-256 of its bytes in hex.",
        ),
        "seal-profile-invalid": Problem(
            422,
            "The seal asks for what its profile does not have",
            "3.6",
            False,
            "`round`, `round_at` and `plan` are for matches; `lead` and more than one of `links` for live sessions.",
        ),
        "seal-commitment-invalid": Problem(
            422,
            "The commitment is missing, out of place, or not new",
            "4.1",
            False,
            "With custody `host` send the commitment to a fresh random seed, 32 bytes in hex; else send none.",
        ),
        "seal-timelock-invalid": Problem(
            422,
            "The timelock cannot be, or is not the session's",
            "7.3",
            False,
            "Seal the seed to a round from reveal_by on, of a chain that can carry it, or leave `timelock` out.",
        ),
        "seal-plan-invalid": Problem(
            422,
            "The plan asks for what cannot be drawn",
            "3.6",
            False,
            "A plan has 1 to 1,000 draws of recipes of the seal, a deal's within its deck.",
        ),
        "label-invalid": Problem(422, "The label is too long", "3.5", False, "A label has at most 256 bytes of UTF-8."),
        "entry-too-long": Problem(
            422,
            "The log entry would be too long",
            "3.1",
            False,
            "An entry has at most 65,535 bytes: shorten names and lists, or ask for fewer outcomes at once.",
        ),
        # Sessions
        "session-unknown": Problem(
            404,
            "The log has no such session",
            None,
            False,
            "A session is named by the 64 hex digits that its seal gave.",
        ),
        "host-unknown": Problem(
            404, "The log has no session of such a host", None, False, "Check the name; it stands in each seal."
        ),
        "not-your-session": Problem(
            403, "The session belongs to another host", None, False, "Use the token of the host that sealed it."
        ),
        "session-ended": Problem(409, "The session has been revealed", "6.1", False, "Read its transcript."),
        "session-void": Problem(
            409, "The session is void", "6.1", False, "Seal a new one; `replaces` says what it stands for."
        ),
        # Contributions
        "no-contributions-taken": Problem(
            409, "The session takes no contributions", "6.4", False, "Seal with `close_at` to take contributions."
        ),
        "contributions-closed": Problem(
            409, "The session's contributions are closed", "6.4", False, "The session goes on without this one."
        ),
        "contribution-too-late": Problem(
            409,
            "It is too late for a contribution: the chain is one round from the session's",
            "6.11",
            False,
            "The session goes on without this one.",
        ),
        "not-a-participant": Problem(
            422,
            "The session does not list this participant",
            "6.4",
            False,
            "Use an id exactly as the seal lists it; only open sessions take others.",
        ),
        "already-contributed": Problem(
            409,
            "This participant has contributed already",
            "6.1",
            False,
            "The first contribution counts; read the session to see it.",
        ),
        "entropy-invalid": Problem(
            422, "The entropy is not 1 to 256 bytes of hex", "3.6", False, "Send 1 to 256 bytes in lower-case hex."
        ),
        "signature-missing": Problem(
            422,
            "This participant's contribution must be signed",
            "6.4",
            False,
            "Sign with the key that the seal lists for the participant (rule 4.4).",
        ),
        "signature-not-expected": Problem(
            422,
            "This participant has no key, so there is nothing to check a signature with",
            "3.6",
            False,
            "Leave `signature` out.",
        ),
        "signature-invalid": Problem(
            422,
            "The signature is not the participant's over this contribution",
            "4.4",
            False,
            "Sign this session, participant and entropy, exactly as rule 4.4 says.",
        ),
        "too-many-contributions": Problem(
            409, "The session has all the contributions that it can take", "6.4", False, _READ_SESSION
        ),
        # Draws and ends
        "unknown-recipe": Problem(
            422, "The seal has no such recipe", "3.6", False, "Use a recipe that the seal names."
        ),
        "purpose-invalid": Problem(
            422, "The purpose is too long", "3.5", False, "A purpose has at most 256 bytes of UTF-8."
        ),
        "draw-count": Problem(
            422, "That many draws cannot be made at once", "3.6", False, "Ask for 1 to 1,000 draws at once."
        ),
        "planned": Problem(
            409,
            "The seal's plan says what is drawn",
            "6.7",
            False,
            "Wait: the service draws the plan and reveals the seed by itself once the round is in.",
        ),
        "not-live": Problem(
            422,
            "Only a live session takes that",
            "3.6",
            False,
            "Leave `contributions` and `draw` out: a match takes contributions before its round.",
        ),
        "call-number": Problem(
            409,
            "Another draw is the next one",
            "6.6",
            False,
            "Read the session: `next_draw` and `next_n` say which numbers are due. Signatures name them.",
        ),
        "call-before-close": Problem(
            409,
            "The first call comes after the close, and the session still takes contributions",
            "6.5",
            True,
            "Send the same request again after `Retry-After` seconds, or once every participant has contributed.",
        ),
        "call-after-reveal-by": Problem(
            409,
            "The call's round would come at or after the session's deadline",
            "6.3",
            False,
            "The service reveals the session by itself; seal a new one.",
        ),
        "links-used-up": Problem(
            409, "The session has no links left", "6.6", False, "Reveal it, and go on in a new session."
        ),
        "too-many-calls": Problem(
            429,
            "Too many calls of the session wait for their rounds",
            None,
            True,
            "Send the same request again after `Retry-After` seconds.",
        ),
        "not-your-seed": Problem(
            422,
            "That is for whoever holds the session's seed",
            "3.6",
            False,
            "Leave it out. Hosts send outcomes, links and seeds only where the seal's custody is `host`.",
        ),
        "outcomes-missing": Problem(
            422,
            "The host holds the seed, so it says what was drawn",
            "3.6",
            False,
            "Send `outcomes`, one for each draw; they are your claim until the seed is revealed.",
        ),
        "outcome-invalid": Problem(
            422, "That is no outcome of this recipe", "5.3", False, "Send what the recipe gives from your seed."
        ),
        "outcome-wrong": Problem(
            422,
            "The link gives another outcome",
            "5",
            False,
            "Nothing was written. Compare your computation with `outcome`; `verifier draw` shows each step.",
        ),
        "seed-missing": Problem(
            422, "The host holds the seed, and has to reveal it", "4.1", False, "Send `seed`, 32 bytes in hex."
        ),
        "seed-wrong": Problem(
            422,
            "That does not open what was sealed",
            "4.1",
            False,
            "Send the 32 bytes, in hex, whose hash is the commitment; for a link, the hash is the link before it.",
        ),
        "seed-weak": Problem(
            422,
            "The seed is no random number",
            None,
            False,
            "It cannot be revealed; the session ends in `missed-reveal`. Make seeds from the system's randomness.",
        ),
        "draw-before-round": Problem(
            409,
            "The session's round is not in yet",
            "6.7",
            True,
            "Send the same request again after `Retry-After` seconds.",
        ),
        "not-closed": Problem(
            409,
            "The contributions were never closed",
            "6.4",
            False,
            "The service ends the session as void (`missed-close`); seal a new one.",
        ),
        "session-full": Problem(
            409,
            "The session's transcript has reached its size limit",
            "7.2",
            False,
            "Reveal the session and go on in a new one; a transcript has at most 64 MiB.",
        ),
        "draw-past-end-of-deck": Problem(
            409, "The deck has not that many cards left", "5.2", False, "Ask for fewer, or deal from another recipe."
        ),
        "draw-after-reveal-by": Problem(
            409, "The deadline of the session has passed", "6.3", False, "The service reveals the session by itself."
        ),
        "reveal-before-round": Problem(
            409,
            "The session's round is not in yet",
            "6.7",
            True,
            "Send the same request again after `Retry-After` seconds.",
        ),
        "reveal-before-draws": Problem(
            409,
            "A call waits for its draw",
            "6.7",
            True,
            "Send the same request again after `Retry-After` seconds.",
        ),
        "reveal-before-close": Problem(
            409,
            "The session still takes contributions",
            "6.4",
            True,
            "Send the same request again after `Retry-After` seconds, or void the session.",
        ),
        "void-too-late": Problem(
            409,
            "The round exists, or a call was made: the session can only be revealed",
            "6.12",
            False,
            "Reveal it, or wait for the service to do so.",
        ),
        "seed-unavailable": Problem(
            503,
            "The service cannot open the session's seed",
            "6.12",
            False,
            "The operator restores the private database or the master key; else the session ends in `missed-reveal`.",
        ),
    }
)


class ApiError(Exception):
    """A refusal that the caller sees. `code` is a key of PROBLEMS; `detail` says what was wrong with this request.

    extra: further members of the problem document. retry_after: whole seconds for the `Retry-After` header.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        extra: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.problem: Final = PROBLEMS[code]
        self.code: Final = code
        self.detail: Final = detail
        self.extra: Final = dict(extra or {})
        self.retry_after: Final = retry_after
