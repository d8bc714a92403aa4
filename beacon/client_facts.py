"""What the SDK knows of one session, entry by entry, and what no honest service could have logged of it.

`Facts` is a fold over verified receipts in any order. What only the whole session shows is left to `verifier.check`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, Final

from beacon.client_checks import Dishonest, Receipt
from verifier import ed25519, entries
from verifier.drand import ChainInfo
from verifier.draws import Deal, Deck, Outcome, draw, fits, parse_recipe
from verifier.encoding import Json, encode_json
from verifier.errors import VerifierError
from verifier.seeds import SEED_BYTES, Stream, binding, contribution_message, opens, session_digest, sha256
from verifier.transcript import Event


class Facts:
    """One session. Everything is checked before anything is taken; `take` may use milliseconds of CPU."""

    def __init__(self, session: bytes, index: int, seal: entries.Seal, chain: ChainInfo) -> None:
        """session: the seal's leaf hash, 32 bytes; index: the seal's."""
        self.session: Final = session
        self.index: Final = index
        self.seal: Final = seal
        self.chain: Final = chain
        self.leaves: Final[dict[int, bytes]] = {index: session}
        self.contributions: Final[dict[str, entries.Contribution]] = {}
        self.close: entries.Close | None = None
        self.close_index: int | None = None
        self.calls: Final[dict[int, entries.Call]] = {}
        self.drawn: Final[dict[tuple[str, int], Json]] = {}
        self.links: Final[dict[int, bytes]] = {0: seal.commitment}
        self.end: entries.Reveal | entries.Void | None = None
        self.end_index: int | None = None
        self._times: Final[list[tuple[int, int]]] = [(index, seal.time)]

    @property
    def live(self) -> bool:
        return self.seal.profile == "live"

    @property
    def digest(self) -> bytes | None:
        """S, 32 bytes; None while the contributions are open, or not all of them are known here."""
        if self.seal.close_at is None:
            return session_digest(self.session, ())
        if self.close is None or len(self.contributions) < self.close.contributions:
            return None
        return self.close.digest

    @property
    def next_draw(self) -> int:
        """The k of the next call, as far as it is known here."""
        return max(self.calls, default=0) + 1

    def next_n(self, recipe: str) -> int:
        """The n of the next draw or call of a recipe, as far as it is known here."""
        called = [call.n for call in self.calls.values() if call.recipe == recipe]
        return max([*called, *(n for name, n in self.drawn if name == recipe)], default=0) + 1

    def uses(self, number: int) -> bool:
        """Whether the session uses a round of its chain, as far as it is known here."""
        return number == self.seal.round or any(call.round == number for call in self.calls.values())

    def take(self, found: Receipt | Event) -> None:
        """Take one of the session's entries; again is no error. Raises Dishonest."""
        document = found.document if isinstance(found, Receipt) else None
        try:
            self._take(found.index, found.leaf, found.entry)
        except Dishonest as error:
            raise Dishonest(f"entry {found.index}: {error.what}", document) from error

    def _take(self, index: int, leaf: bytes, entry: entries.Entry) -> None:
        if index in self.leaves:
            _require(self.leaves[index] == leaf, "the log has shown another entry at this index")
            return
        if not isinstance(entry, entries.SessionEntry) or entry.session != self.session:
            raise Dishonest("an entry of another session")
        self._check_place(index, entry)
        match entry:
            case entries.Contribution():
                self._contribution(index, entry)
            case entries.Close():
                self._close(index, entry)
            case entries.Call():
                self._call(index, entry)
            case entries.Draw():
                self._draw(entry)
            case entries.Reveal():
                self._reveal(entry)
                self.end, self.end_index = entry, index
            case entries.Void():
                self._void(entry)
                self.end, self.end_index = entry, index
        self.leaves[index] = leaf
        insort(self._times, (index, entry.time))

    def _check_place(self, index: int, entry: entries.SessionEntry) -> None:
        _require(index > self.index, "before the seal")
        place = bisect_left(self._times, (index, 0))
        _require(entry.time >= self._times[place - 1][1], "its time is before that of an earlier entry")
        if place < len(self._times):
            _require(entry.time <= self._times[place][1], "its time is after that of a later entry")
        _require(self.end_index is None or index < self.end_index, "after the session's end")
        if isinstance(entry, entries.Reveal | entries.Void):
            _require(place == len(self._times), "an end before other entries")

    def _contribution(self, index: int, entry: entries.Contribution) -> None:
        seal = self.seal
        if seal.close_at is None:
            raise Dishonest("a contribution to a session that takes none")
        _require(entry.participant not in self.contributions, f"a second contribution of {entry.participant!r}")
        _require(entry.time <= seal.close_at, "a contribution after the deadline")
        _require(self.close_index is None or index < self.close_index, "a contribution after the close")
        self._contributor(entry, 0, "", 0, "")
        self.contributions[entry.participant] = entry
        try:
            self._check_digest()
        except Dishonest:
            del self.contributions[entry.participant]
            raise

    def _contributor(
        self, item: entries.Contribution | entries.CallContribution, k: int, recipe: str, n: int, purpose: str
    ) -> None:
        listed = {participant.id: participant.key for participant in self.seal.participants}
        _require(self.seal.open or item.participant in listed, f"{item.participant!r} is no participant")
        key = listed.get(item.participant)
        _require((key is None) == (item.signature is None), f"the signature of {item.participant!r} is out of place")
        if key is not None and item.signature is not None:
            message = contribution_message(self.session, k, recipe, n, purpose, item.participant, item.entropy)
            try:
                ed25519.verify(key, message, item.signature)
            except VerifierError as error:
                raise Dishonest(f"the signature of {item.participant!r} is false") from error

    def _close(self, index: int, entry: entries.Close) -> None:
        _require(self.seal.close_at is not None and self.close is None, "a close too many")
        _require(entry.contributions >= len(self.contributions), "fewer contributions than there are receipts of")
        _require(entry.contributions >= self.seal.min_contributions, "fewer contributions than the seal asks for")
        most = entries.MAX_CONTRIBUTIONS if self.seal.open else len(self.seal.participants)
        _require(entry.contributions <= most, "more contributions than there can be")
        if self.seal.round is not None:
            _require(entry.time < self.chain.time(self.seal.round), "a close at or after its round's time")
        self.close, self.close_index = entry, index
        try:
            self._check_digest()
        except Dishonest:
            self.close, self.close_index = None, None
            raise

    def _check_digest(self) -> None:
        if self.close is None or len(self.contributions) < self.close.contributions:
            return
        pairs = [(item.participant, item.entropy) for item in self.contributions.values()]
        _require(len(pairs) == self.close.contributions, "more contributions than the close says")
        digest = session_digest(self.session, pairs)
        _require(digest == self.close.digest, "the close's digest is not that of the contributions")

    def _call(self, index: int, entry: entries.Call) -> None:
        seal, k = self.seal, entry.draw
        if not self.live or seal.lead is None:
            raise Dishonest("a call in a match")
        _require(k <= seal.links and k not in self.calls, f"no call {k} is due")
        _require(entry.recipe in seal.recipes, "a recipe that the seal does not have")
        _require(self.close_index is None or index > self.close_index, "a call before the close")
        _require(entry.round == self.chain.first_at(entry.time + seal.lead), "not the round that is due (6.6)")
        _require(self.chain.time(entry.round) < seal.reveal_by, "a round at or after `reveal_by` (6.3)")
        same = sorted(
            [*((call.draw, call.n) for call in self.calls.values() if call.recipe == entry.recipe), (k, entry.n)]
        )
        numbers = [n for _, n in same]
        _require(numbers == sorted(set(numbers)) and entry.n <= k, "the calls' numbers are not in order")
        if all(earlier in self.calls for earlier in range(1, k)):
            _require(entry.n == 1 + sum(call < k for call, _ in same), "a number is left out or used twice")
        for item in entry.contributions:
            self._contributor(item, k, entry.recipe, entry.n, entry.purpose)
        self.calls[k] = entry

    def _draw(self, entry: entries.Draw) -> None:
        _require(self.live == (entry.draw is not None), "a draw of the other profile")
        recipe = self.seal.recipes.get(entry.recipe)
        if recipe is None:
            raise Dishonest("a recipe that the seal does not have")
        numbers = range(entry.n, entry.n + len(entry.outcomes))
        _require(not any((entry.recipe, n) in self.drawn for n in numbers), "a number that was drawn already")
        _require(all(fits(recipe, outcome) for outcome in entry.outcomes), "that is no outcome of its recipe")
        if entry.draw is not None and entry.seed is not None:
            self._check_call(entry, entry.draw)
            self._link(entry.draw, entry.seed)
        for n, outcome in zip(numbers, entry.outcomes, strict=True):
            self.drawn[entry.recipe, n] = outcome

    def _check_call(self, entry: entries.Draw, k: int) -> None:
        call = self.calls.get(k)
        if call is not None:
            said = (entry.recipe, entry.n, entry.purpose) == (call.recipe, call.n, call.purpose)
            _require(said, f"the draw is not what call {k} asked for (6.6)")

    def _link(self, k: int, link: bytes) -> None:
        """4.1, against the nearest link on both sides."""
        below = max(known for known in self.links if known <= k)
        above = min((known for known in self.links if known >= k), default=None)
        _require(
            k <= self.seal.links and opens(link, k - below, self.links[below]), f"link {k} is not of the sealed chain"
        )
        if above is not None:
            _require(opens(self.links[above], above - k, link), f"link {k} is not of the sealed chain")
        self.links[k] = link

    def _reveal(self, entry: entries.Reveal) -> None:
        counts = dict.fromkeys(self.seal.recipes, 0)
        for name, n in self.drawn:
            counts[name] = max(counts[name], n)
        _require(entry.draws.keys() == counts.keys(), "the reveal does not count the seal's recipes")
        _require(
            all(entry.draws[name] >= n for name, n in counts.items()), "the reveal counts fewer draws than there are"
        )
        calls = sum(entry.draws.values()) if self.live else 1
        if entry.seed is not None:
            self._link(calls, entry.seed)
        _require(entry.seed is not None or calls == 0, "revealed without a seed")

    def _void(self, entry: entries.Void) -> None:
        if entry.seed is not None and not self.live:
            self._link(1, entry.seed)

    def outcome_of(self, entry: entries.Draw, signature: bytes) -> Outcome | None:
        """The outcome of a live draw, from its link and its round's verified signature; None: not enough is known."""
        call = self.calls.get(entry.draw or 0)
        if call is None or entry.seed is None:
            return None
        pairs = [(item.participant, item.entropy) for item in call.contributions]
        return self.outcome(entry.seed, call.draw, pairs, call.round, signature, call.recipe, call.n)

    def outcome(
        self,
        seed: bytes,
        k: int,
        contributions: Sequence[tuple[str, bytes]],
        number: int,
        signature: bytes,
        name: str,
        n: int,
    ) -> Outcome | None:
        """The outcome of (recipe, n) by sections 4 and 5; None where S or the cards dealt before are not known."""
        recipe, digest = self.seal.recipes[name], self.digest
        if digest is None or len(seed) != SEED_BYTES:
            return None
        deck = None
        if isinstance(recipe, Deal):
            dealt = [self.drawn.get((name, earlier)) for earlier in range(1, n)]
            if not all(isinstance(cards, list) for cards in dealt):
                return None
            deck = Deck(recipe.size, [card for cards in dealt if isinstance(cards, list) for card in cards])  # type: ignore[misc]
        stream = Stream(seed, binding(digest, k, contributions, number, sha256(signature)), name, n)
        try:
            return draw(recipe, stream, deck)
        except VerifierError as error:
            raise Dishonest(error.message) from error


def check_seal(seal: entries.Seal, asked: Mapping[str, Any], chain: ChainInfo) -> None:
    """Whether a seal says what was asked for, the body of a request. Raises Dishonest.

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
    if len(due.get("chain", "")) != len(seal.chain.hex()):
        due.pop("chain", None)
    recipes = {name: parse_recipe(recipe) for name, recipe in due.pop("recipes").items()}
    _require(recipes == dict(seal.recipes), "the seal's `recipes` are not what was asked for")
    said = _seal_json(seal)
    for name, value in due.items():
        _require(_same(said.get(name), value), f"the seal's `{name}` is not what was asked for")


def check_contribution(entry: entries.Entry, asked: Mapping[str, Any]) -> None:
    """Whether a contribution's entry says what was sent, the body of a request. Raises Dishonest."""
    if not isinstance(entry, entries.Contribution):
        raise Dishonest(f"the receipt is of a {entry.type}")
    _require(_same(_contributed(entry), dict(asked)), "the contribution is not the one that was sent")


def check_draw(entry: entries.Entry, asked: Mapping[str, Any]) -> None:
    """Whether a match's draw says what was asked for, the body of a request. Raises Dishonest."""
    if not isinstance(entry, entries.Draw):
        raise Dishonest(f"the receipt is of a {entry.type}")
    _says(entry, asked, "recipe", "purpose", "n")
    _require(len(entry.outcomes) == asked.get("count", 1), "not as many draws as were asked for")
    if "outcomes" in asked:
        _require(_same(list(entry.outcomes), asked["outcomes"]), "the outcomes are not those that were sent")


def check_call(entry: entries.Entry, asked: Mapping[str, Any]) -> None:
    """Whether a call says what was asked for, the body of a request. Raises Dishonest."""
    if not isinstance(entry, entries.Call):
        raise Dishonest(f"the receipt is of a {entry.type}")
    _says(entry, asked, "recipe", "purpose", "n", "draw")
    sent = sorted(
        map(_without_none, asked.get("contributions", [])), key=lambda item: str(item["participant"]).encode()
    )
    said = [_contributed(item) for item in entry.contributions]
    _require(_same(said, sent), "the call's contributions are not those that were sent")


def _says(entry: entries.Entry, asked: Mapping[str, Any], *names: str) -> None:
    for name in names:
        due = asked.get(name)
        _require(
            due is None or getattr(entry, name) == due, f"the {entry.type} has another `{name}` than was asked for"
        )


def _contributed(item: entries.Contribution | entries.CallContribution) -> dict[str, str]:
    said = {"participant": item.participant, "entropy": item.entropy.hex()}
    return said if item.signature is None else {**said, "signature": item.signature.hex()}


def _without_none(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


def _seal_json(seal: entries.Seal) -> dict[str, Any]:
    said: dict[str, Any] = {name: getattr(seal, name) for name in seal.__dataclass_fields__}
    return said | {
        "replaces": None if seal.replaces is None else seal.replaces.hex(),
        "commitment": seal.commitment.hex(),
        "chain": seal.chain.hex(),
        "plan": None if seal.plan is None else dict(seal.plan),
        "participants": [
            {"id": item.id} | ({} if item.key is None else {"key": item.key.hex()}) for item in seal.participants
        ],
        "attachments": [{"name": item.name, "sha256": item.sha256.hex()} for item in seal.attachments],
    }


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; the order of an object's fields means nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    return encode_json([one]) == encode_json([other])


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Dishonest(what)
