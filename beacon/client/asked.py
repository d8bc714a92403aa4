"""What is asked for, the bodies of requests, and whether an entry says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypeAlias, TypedDict

from beacon.client.log import Dishonest, Receipt
from verifier import entries
from verifier.drand import ChainInfo
from verifier.draws import Outcome, parse_recipe
from verifier.encoding import encode_json, parse_canonical_json


class Participant(TypedDict, total=False):
    """Who may contribute. key: Ed25519, 32 bytes in hex, where it signs for itself."""

    id: Required[str]
    key: str


class Attachment(TypedDict):
    """A file that stays with the host. sha256: 32 bytes in hex."""

    name: str
    sha256: str


class CallContribution(TypedDict, total=False):
    """A participant's entropy for one call, 1-256 bytes in hex, and its signature, 64."""

    participant: Required[str]
    entropy: Required[str]
    signature: str


class TimelockTerms(TypedDict):
    """A host's own seed, sealed to a round (`lock_seed`). chain: 32 bytes in hex; ciphertext: base64."""

    chain: str
    round: int
    ciphertext: str


class SealTerms(TypedDict, total=False):
    """POST /v1/sessions. Times are ms since the epoch; what is absent the service chooses.

    recipes: by name, as the README lists them. commitment, replaces, chain: 32 bytes in hex. close_at: None takes no
    contributions. round_at: the first round at or after that time, in place of `round`. timelock: whether the service
    seals its seed to a later round too, or the host's own, sealed.
    """

    recipes: Required[Mapping[str, Mapping[str, Any]]]
    label: str
    profile: Literal["match", "live"]
    custody: Literal["beacon", "host"]
    commitment: str
    links: int
    lead: int
    chain: str
    round: int
    round_at: int
    close_at: int | None
    reveal_by: int
    participants: Sequence[Participant]
    open: bool
    min_contributions: int
    plan: Mapping[str, int]
    attachments: Sequence[Attachment]
    replaces: str
    timelock: bool | TimelockTerms


class Said(TypedDict, total=False):
    """What else is said of a draw or a call.

    n, draw: the numbers that it is taken for, as the participants signed them. contributions: of a call alone.
    outcomes: of a match whose host holds the seed, one for each draw (`Session.claims`).
    """

    purpose: str
    n: int
    draw: int
    contributions: Sequence[CallContribution]
    outcomes: Sequence[Outcome]


class DrawTerms(Said, total=False):
    """POST /v1/sessions/{id}/draws: draws of a match, 1 if there is no `count`, or a call of a live session."""

    recipe: Required[str]
    count: int


Check: TypeAlias = Callable[[Receipt], None]
"""Raises Dishonest, with the receipt."""


def of(kind: Any, **due: Any) -> Check:
    """The check that an entry is of a kind, and has these fields."""

    def check(receipt: Receipt) -> None:
        _said(receipt, kind)
        for name, value in due.items():
            _require(getattr(receipt.entry, name) == value, receipt, name)

    return check


def contribution(asked: Mapping[str, Any]) -> Check:
    """The check of a contribution."""

    def check(receipt: Receipt) -> None:
        said = _said(receipt, entries.Contribution)
        for name in ("participant", "entropy", "signature"):
            _require(said.get(name) == asked.get(name), receipt, name)

    return check


def call(asked: Mapping[str, Any]) -> Check:
    """The check of a call."""

    def check(receipt: Receipt) -> None:
        said = _said(receipt, entries.Call)
        _given(said, asked, receipt, "recipe", "purpose", "n", "draw")
        sent = map(_without_none, asked.get("contributions", ()))
        due = sorted(sent, key=lambda item: str(item["participant"]).encode())
        _require(_same(said["contributions"], due), receipt, "contributions")

    return check


def draw(asked: Mapping[str, Any]) -> Check:
    """The check of a match's draw."""

    def check(receipt: Receipt) -> None:
        said = _said(receipt, entries.Draw)
        _given(said, asked, receipt, "recipe", "purpose", "n", "outcomes")
        count = asked.get("count", len(asked.get("outcomes") or [None]))
        _require(len(said["outcomes"]) == count, receipt, "count")

    return check


def seal(asked: Mapping[str, Any], chain: ChainInfo) -> Check:
    """The check of a seal.

    What the service chooses where nothing is asked (the round, the deadlines, links and lead) is for the rules; which
    chain a name means is for whoever pins one chain alone.
    """
    given = {name: value for name, value in asked.items() if value is not None or name == "close_at"}
    participants = [_without_none(item) for item in given.get("participants", [])]
    none_due = given.get("open") or given.get("close_at", 0) is None
    due: dict[str, Any] = {
        "label": "",
        "replaces": None,
        "profile": "match",
        "custody": "beacon",
        "open": False,
        "min_contributions": 0 if none_due else len(participants),
        "plan": None,
        "attachments": [],
        **given,
        "participants": participants,
    }
    if "round_at" in due:
        due["round"] = chain.first_at(due.pop("round_at"))
    if len(due.get("chain", "")) != len(chain.hash.hex()):
        due.pop("chain", None)
    recipes = {name: parse_recipe(recipe) for name, recipe in due.pop("recipes").items()}
    lock = due.pop("timelock", False if due["custody"] == "host" else None)

    def check(receipt: Receipt) -> None:
        said = _said(receipt, entries.Seal)
        _require({name: parse_recipe(one) for name, one in said["recipes"].items()} == recipes, receipt, "recipes")
        for name, value in due.items():
            _require(_same(said.get(name), value), receipt, name)
        if lock is not None:
            sealed = said.get("timelock")
            _require(sealed is not None if lock is True else _same(sealed, lock or None), receipt, "timelock")

    return check


def _said(receipt: Receipt, kind: Any) -> dict[str, Any]:
    if not isinstance(receipt.entry, kind):
        raise Dishonest(f"the receipt is of a {receipt.entry.type}", receipt.document)
    return parse_canonical_json(receipt.event.data)


def _given(said: Mapping[str, Any], asked: Mapping[str, Any], receipt: Receipt, *names: str) -> None:
    due = {"purpose": "", **_without_none(asked)}
    for name in names:
        if name in due:
            _require(_same(said.get(name), due[name]), receipt, name)


def _require(condition: bool, receipt: Receipt, name: str) -> None:
    if not condition:
        text = f"the `{name}` of the {receipt.entry.type} is not what was asked for"
        raise Dishonest(text, receipt.document)


def _without_none(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; the order of an object's fields means nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return encode_json([one]) == encode_json([other])
