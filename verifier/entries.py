"""The log's entries, parsed strictly and built (PROTOCOL.md, section 3).

`parse_entry` reads the exact bytes of a leaf; `encode_entry` gives bytes that parse to the same entry. What one entry
alone can show to be wrong is refused here; what needs other entries is for check.py and for the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from verifier import draws, ed25519
from verifier.encoding import MAX_ENTRY_BYTES, Json, encode_json, parse_canonical_json, parse_hex
from verifier.errors import Code, FormatError
from verifier.fields import (
    Fields,
    boolean,
    entropy,
    hex_bytes,
    identifier,
    integer,
    list_of,
    map_of,
    one_of,
    or_null,
    refuse,
    text,
)

VERSION: Final = 1
HASH_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
MAX_PARTICIPANTS: Final = 200
MAX_CONTRIBUTIONS: Final = 10_000
MAX_CALL_CONTRIBUTIONS: Final = 64
MAX_LINKS: Final = 65_536
MAX_OUTCOMES: Final = 1_000
MIN_LEAD, MAX_LEAD = 2_000, 600_000
KEY_BYTES: Final[Mapping[str, int]] = {
    "bls-unchained-g1-rfc9380": 96,
    "bls-unchained-on-g1": 96,
    "pedersen-bls-unchained": 48,
    "pedersen-bls-chained": 48,
    "bls-bn254-unchained-on-g1": 128,
}


@dataclass(frozen=True, slots=True)
class Log:
    """The first leaf."""

    type: ClassVar[str] = "log"
    time: int
    origin: str


@dataclass(frozen=True, slots=True)
class Chain:
    """A drand chain's info, once, before the first seal or timelock that names it."""

    type: ClassVar[str] = "chain"
    time: int
    info: Mapping[str, Json] = field(hash=False)

    @property
    def hash(self) -> bytes:
        return bytes.fromhex(str(self.info["hash"]))


@dataclass(frozen=True, slots=True)
class Participant:
    """One who may contribute; with a key (32 bytes, Ed25519) it signs."""

    id: str
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that stays with the host, by its SHA-256 (32 bytes)."""

    name: str
    sha256: bytes


@dataclass(frozen=True, slots=True)
class After:
    """The newest round verified when the seal was made."""

    round: int
    signature: bytes
    previous_signature: bytes | None = None


@dataclass(frozen=True, slots=True)
class Timelock:
    """The seed's ciphertext (base64 of an age file) for a later round."""

    chain: bytes
    round: int
    ciphertext: str


@dataclass(frozen=True, slots=True)
class Seal:
    """What is promised: the commitment, the round, who may contribute, what can be drawn."""

    type: ClassVar[str] = "seal"
    time: int
    log: str
    host: str
    host_seq: int
    label: str
    replaces: bytes | None
    profile: Literal["match", "live"]
    custody: Literal["beacon", "host"]
    commitment: bytes
    links: int
    chain: bytes
    round: int | None
    lead: int | None
    close_at: int | None
    reveal_by: int
    participants: tuple[Participant, ...]
    open: bool
    min_contributions: int
    recipes: Mapping[str, draws.Recipe] = field(hash=False)
    plan: Mapping[str, int] | None = field(hash=False)
    attachments: tuple[Attachment, ...]
    after: After
    timelock: Timelock | None
    sandbox: bool


@dataclass(frozen=True, slots=True)
class Contribution:
    """A participant's entropy (1-256 bytes), signed exactly when the seal lists a key."""

    type: ClassVar[str] = "contribution"
    time: int
    session: bytes
    participant: str
    entropy: bytes
    signature: bytes | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """The end of the contributions: how many, and S (32 bytes)."""

    type: ClassVar[str] = "close"
    time: int
    session: bytes
    contributions: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Round:
    """A drand round, for every session that waits for it."""

    type: ClassVar[str] = "round"
    time: int
    chain: bytes
    round: int
    signature: bytes
    previous_signature: bytes | None = None


@dataclass(frozen=True, slots=True)
class CallContribution:
    """A participant's entropy for one live draw."""

    participant: str
    entropy: bytes
    signature: bytes | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Live: draw k is asked for, of a round that does not exist yet."""

    type: ClassVar[str] = "call"
    time: int
    session: bytes
    draw: int
    recipe: str
    n: int
    purpose: str
    round: int
    contributions: tuple[CallContribution, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """Outcomes of one recipe, numbers n, n+1, ...; live: exactly one, with its k and its seed link (32 bytes)."""

    type: ClassVar[str] = "draw"
    time: int
    session: bytes
    recipe: str
    n: int
    purpose: str
    outcomes: tuple[Json, ...] = field(hash=False)
    draw: int | None = None
    seed: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reveal:
    """The end of a session: the seed, and how many draws of each recipe there were."""

    type: ClassVar[str] = "reveal"
    time: int
    session: bytes
    by: Literal["service", "host", "timelock"]
    seed: bytes | None
    draws: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Void:
    """The other end of a session, for one of the reasons of 6.12."""

    type: ClassVar[str] = "void"
    time: int
    session: bytes
    reason: str
    seed: bytes | None


Entry: TypeAlias = Log | Chain | Seal | Contribution | Close | Round | Call | Draw | Reveal | Void
SessionEntry: TypeAlias = Contribution | Close | Call | Draw | Reveal | Void


def parse_entry(data: bytes) -> Entry:
    """The entry whose exact bytes are `data`. Raises FormatError (rules 3.1-3.6)."""
    fields = Fields(parse_canonical_json(data))
    version = fields.take("v", integer())
    if version != VERSION:
        raise FormatError(Code.ENTRY, f"an entry of version {version}; this program knows version {VERSION} alone")
    kind = fields.take("type", text(1, 16))
    if kind not in _PARSERS:
        raise FormatError(Code.ENTRY, f"unknown type {kind!r}")
    entry = _PARSERS[kind](fields)
    fields.end()
    return entry


def encode_entry(entry: Entry) -> bytes:
    """The canonical bytes of an entry, at most 65,535 (FormatError(ENTRY)); whether valid, `parse_entry` says."""
    fields = {"v": VERSION, "type": entry.type, "time": entry.time}
    for name in entry.__dataclass_fields__:
        value = getattr(entry, name)
        if name == "time" or (value is None and (entry.type, name) not in _NULLABLE):
            continue
        if name == "recipes":
            fields[name] = {key: draws.encode_recipe(recipe) for key, recipe in value.items()}
        else:
            fields[name] = _plain(value)
    data = encode_json(fields)
    if len(data) > MAX_ENTRY_BYTES:
        raise FormatError(Code.ENTRY, f"an entry has at most {MAX_ENTRY_BYTES} bytes, this one {len(data)}")
    return data


_NULLABLE: Final = frozenset(
    {("seal", "replaces"), ("seal", "close_at"), ("seal", "plan"), ("reveal", "seed"), ("void", "seed")}
)


def _plain(value: Any) -> Json:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        items = ((name, getattr(value, name)) for name in value.__dataclass_fields__)
        return {name: _plain(item) for name, item in items if item is not None}
    return {key: _plain(item) for key, item in value.items()}


_time = integer()
_round = integer(1)
_number = integer(1, draws.MAX_N)
_hash = hex_bytes(HASH_BYTES)
_signature = hex_bytes(SIGNATURE_BYTES)
_participant_id = text(1, 128)
_purpose = text(0, 256)
_any_text = text(0, MAX_ENTRY_BYTES)


def _participant_key(value: Json) -> bytes:
    key = _hash(value)
    ed25519.check_public_key(key)
    return key


def _participant(value: Json) -> Participant:
    fields = Fields(value)
    participant = Participant(fields.take("id", _participant_id), fields.optional("key", _participant_key))
    fields.end()
    return participant


def _attachment(value: Json) -> Attachment:
    fields = Fields(value)
    attachment = Attachment(fields.take("name", _participant_id), fields.take("sha256", _hash))
    fields.end()
    return attachment


def _after(value: Json) -> After:
    fields = Fields(value)
    after = After(
        fields.take("round", _round),
        fields.take("signature", parse_hex),
        fields.optional("previous_signature", parse_hex),
    )
    fields.end()
    return after


def _timelock(value: Json) -> Timelock:
    fields = Fields(value)
    timelock = Timelock(fields.take("chain", _hash), fields.take("round", _round), fields.take("ciphertext", _any_text))
    fields.end()
    return timelock


def _call_contribution(value: Json) -> CallContribution:
    fields = Fields(value)
    contribution = CallContribution(
        fields.take("participant", _participant_id),
        fields.take("entropy", entropy),
        fields.optional("signature", _signature),
    )
    fields.end()
    return contribution


def parse_info(value: Json) -> dict[str, Json]:
    """A chain's seven fields as an entry or a document has them (3.6); whether they hash to `hash` is not asked here.

    Raises FormatError (2.1: a value of another length than its type, 3.3).
    """
    fields = Fields(value)
    info: dict[str, Json] = {
        "hash": fields.take("hash", _hash).hex(),
        "public_key": fields.take("public_key", parse_hex).hex(),
        "period": fields.take("period", integer(1, 2**32 - 1)),
        "genesis_time": fields.take("genesis_time", integer()),
        "genesis_seed": fields.take("genesis_seed", _hash).hex(),
        "scheme": fields.take("scheme", _any_text),
        "beacon_id": fields.take("beacon_id", text(1, MAX_ENTRY_BYTES)),
    }
    fields.end()
    length = KEY_BYTES.get(str(info["scheme"]))
    refuse(length is not None and len(str(info["public_key"])) != 2 * length, f"public_key: {length} bytes are due")
    return info


def _outcome(value: Json) -> Json:
    """Its shape is section 5's business (it fails the claim `outcomes`), but no null and no field of no table (3.3)."""
    refuse(value is None or isinstance(value, dict), "null or an object in an outcome")
    for item in value if isinstance(value, list) else ():
        _outcome(item)
    return value


def _parse_log(fields: Fields) -> Log:
    return Log(fields.take("time", _time), fields.take("origin", _any_text))


def _parse_chain(fields: Fields) -> Chain:
    return Chain(fields.take("time", _time), fields.take("info", parse_info))


def _parse_seal(fields: Fields) -> Seal:
    profile = fields.take("profile", one_of("match", "live"))
    live = profile == "live"
    seal = Seal(
        time=fields.take("time", _time),
        log=fields.take("log", _any_text),
        host=fields.take("host", identifier),
        host_seq=fields.take("host_seq", integer(1)),
        label=fields.take("label", _purpose),
        replaces=fields.take("replaces", or_null(_hash)),
        profile=profile,
        custody=fields.take("custody", one_of("beacon", "host")),
        commitment=fields.take("commitment", _hash),
        links=fields.take("links", integer(1, MAX_LINKS if live else 1)),
        chain=fields.take("chain", _hash),
        round=None if live else fields.take("round", _round),
        lead=fields.take("lead", integer(MIN_LEAD, MAX_LEAD)) if live else None,
        close_at=fields.take("close_at", or_null(_time)),
        reveal_by=fields.take("reveal_by", _time),
        participants=fields.take("participants", list_of(_participant, 0, MAX_PARTICIPANTS)),
        open=fields.take("open", boolean),
        min_contributions=fields.take("min_contributions", integer()),
        recipes=fields.take("recipes", map_of(draws.parse_recipe, 1, 64)),
        plan=fields.take("plan", or_null(map_of(integer(1, MAX_OUTCOMES), 1, 64))),
        attachments=fields.take("attachments", list_of(_attachment, 0, 16)),
        after=fields.take("after", _after),
        timelock=fields.optional("timelock", _timelock),
        sandbox=fields.take("sandbox", boolean),
    )
    _check_seal(seal)
    return seal


def _check_seal(seal: Seal) -> None:
    ids = [participant.id for participant in seal.participants]
    keys = [participant.key for participant in seal.participants if participant.key is not None]
    names = [attachment.name for attachment in seal.attachments]
    refuse(len(set(ids)) < len(ids), "a participant's id is there twice")
    refuse(len(set(keys)) < len(keys), "a participant's key is there twice")
    refuse(len(set(names)) < len(names), "an attachment's name is there twice")
    refuse(not seal.open and seal.min_contributions > len(ids), "min_contributions is above the number of participants")
    if seal.plan is not None:
        refuse(seal.profile != "match", "only a match has a plan")
        refuse(sum(seal.plan.values()) > MAX_OUTCOMES, "a plan has at most 1,000 draws")
        for name, count in seal.plan.items():
            recipe = seal.recipes.get(name)
            refuse(recipe is None, "the plan names no recipe of the seal")
            past_end = isinstance(recipe, draws.Deal) and count * recipe.count > recipe.size
            refuse(past_end, "the plan deals past the end of its deck")


def _parse_contribution(fields: Fields) -> Contribution:
    return Contribution(
        fields.take("time", _time),
        fields.take("session", _hash),
        fields.take("participant", _participant_id),
        fields.take("entropy", entropy),
        fields.optional("signature", _signature),
    )


def _parse_close(fields: Fields) -> Close:
    return Close(
        fields.take("time", _time),
        fields.take("session", _hash),
        fields.take("contributions", integer()),
        fields.take("digest", _hash),
    )


def _parse_round(fields: Fields) -> Round:
    return Round(
        fields.take("time", _time),
        fields.take("chain", _hash),
        fields.take("round", _round),
        fields.take("signature", parse_hex),
        fields.optional("previous_signature", parse_hex),
    )


def _parse_call(fields: Fields) -> Call:
    call = Call(
        fields.take("time", _time),
        fields.take("session", _hash),
        fields.take("draw", _number),
        fields.take("recipe", identifier),
        fields.take("n", _number),
        fields.take("purpose", _purpose),
        fields.take("round", _round),
        fields.take("contributions", list_of(_call_contribution, 0, MAX_CALL_CONTRIBUTIONS)),
    )
    ids = [contribution.participant.encode("utf-8") for contribution in call.contributions]
    refuse(ids != sorted(ids), "the contributions are not sorted by participant")
    return call


def _parse_draw(fields: Fields) -> Draw:
    draw = Draw(
        time=fields.take("time", _time),
        session=fields.take("session", _hash),
        recipe=fields.take("recipe", identifier),
        n=fields.take("n", _number),
        purpose=fields.take("purpose", _purpose),
        outcomes=fields.take("outcomes", list_of(_outcome, 1, MAX_OUTCOMES)),
        draw=fields.optional("draw", _number),
        seed=fields.optional("seed", _hash),
    )
    refuse((draw.draw is None) != (draw.seed is None), "draw and seed stand together, or neither")
    refuse(draw.draw is not None and len(draw.outcomes) != 1, "a live draw has one outcome")
    refuse(draw.n + len(draw.outcomes) - 1 > draws.MAX_N, "n is above 2^32 - 1")
    return draw


def _parse_reveal(fields: Fields) -> Reveal:
    return Reveal(
        fields.take("time", _time),
        fields.take("session", _hash),
        fields.take("by", one_of("service", "host", "timelock")),
        fields.take("seed", or_null(_hash)),
        fields.take("draws", map_of(integer(), 1, 64)),
    )


def _parse_void(fields: Fields) -> Void:
    return Void(
        fields.take("time", _time),
        fields.take("session", _hash),
        fields.take("reason", _any_text),
        fields.take("seed", or_null(_hash)),
    )


_PARSERS: Final[Mapping[str, Callable[[Fields], Entry]]] = {
    "log": _parse_log,
    "chain": _parse_chain,
    "seal": _parse_seal,
    "contribution": _parse_contribution,
    "close": _parse_close,
    "round": _parse_round,
    "call": _parse_call,
    "draw": _parse_draw,
    "reveal": _parse_reveal,
    "void": _parse_void,
}
