"""A small log in the making, for tests: it makes documents from entries, also from such that break a rule.

Times are seconds after quicknet's round 1000 (`at(6.5)` is ms since the epoch); recorded rounds 1000 to 1005 stand in
the vectors. Every method that appends a leaf takes `changes`: fields to set, or to leave out (DROP), whatever follows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from verifier import merkle
from verifier.bls.verify import best_backend
from verifier.drand import ChainInfo
from verifier.draws import Dealer, parse_recipe
from verifier.encoding import encode_base64, encode_json
from verifier.fetch import pinned_chains
from verifier.note import Checkpoint, Cosigner, SigningKey
from verifier.seeds import Stream, binding, contribution_message, seed_chain, session_digest
from verifier.timelock import seal_timelock
from verifier.transcript import document_bytes, encode_transcript

VECTORS = Path(__file__).parent / "vectors"
ORIGIN = "log.example/test"
DROP: Any = object()

LOG_KEY = SigningKey(b"\x01" * 32, ORIGIN)
WITNESSES = {
    name: Cosigner(bytes([number]) * 32, f"{name}.example") for number, name in enumerate(("w1", "w2", "w3"), 2)
}
POLICY = (
    f"log {LOG_KEY.vkey}\n"
    + "".join(f"witness {name} {key.vkey}\n" for name, key in WITNESSES.items())
    + "group two 2 w1 w2 w3\nquorum two\n"
)
PLAYER_KEYS = {name: Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b".")) for name in ("white", "black")}
TURN = {"kind": "dice", "count": 2, "sides": 6}
OPENING = TURN | {"reroll_ties": True}
HAND = {"kind": "deal", "size": 52, "count": 5}


def _recorded() -> dict[tuple[str, int], dict[str, str]]:
    records = json.loads((VECTORS / "drand-rounds.json").read_text())["rounds"]
    return {
        (record["chain_hash"], record["round"]): {
            name: record[name] for name in ("signature", "previous_signature") if record.get(name)
        }
        for record in records
    }


ROUNDS = _recorded()
QUICKNET = pinned_chains()["quicknet"]


def at(seconds: float) -> int:
    """Milliseconds since the epoch of a moment so many seconds after quicknet's round 1000."""
    return QUICKNET.time(1000) + round(1000 * seconds)


def public_key(name: str) -> str:
    return PLAYER_KEYS[name].public_key().public_bytes_raw().hex()


def sealed(seed: bytes, number: int, chain: ChainInfo = QUICKNET) -> dict[str, Any]:
    """The `timelock` of a seal: `seed` for a round of a chain."""
    ciphertext = seal_timelock(chain, number, seed, now=0, backend=best_backend())
    return {"chain": chain.hash.hex(), "round": number, "ciphertext": encode_base64(ciphertext)}


def changed(entry: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**entry, **changes}.items() if value is not DROP}


class Story:
    """One session in a log. Leaves 0 and 1 are the log's and the chain's own; `shown` are the transcript's indices."""

    def __init__(self, chain: str = "quicknet", links: int = 1) -> None:
        self.chain = pinned_chains()[chain]
        self.links = seed_chain(hashlib.sha256(b"a secret for tests").digest(), links)
        self.leaves: list[bytes] = []
        self.shown: list[int] = []
        self.contributions: list[tuple[str, bytes]] = []
        self.calls: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}
        self.dealer = Dealer()
        self.session = ""
        self.entry: dict[str, Any] = {}
        self.add({"v": 1, "type": "log", "time": 0, "origin": ORIGIN}, shown=False)
        self.add({"v": 1, "type": "chain", "time": at(0), "info": self.chain.as_dict()}, shown=False)

    # --- leaves --------------------------------------------------------------------------------------------------

    def add(self, entry: Mapping[str, Any] | bytes, *, shown: bool = True) -> int:
        """Append a leaf as it is; it is one of the transcript's events if `shown`."""
        self.leaves.append(entry if isinstance(entry, bytes) else encode_json(entry))
        if shown:
            self.shown.append(len(self.leaves) - 1)
        return len(self.leaves) - 1

    def round_fields(self, number: int) -> dict[str, Any]:
        return {"round": number} | ROUNDS[self.chain.hash.hex(), number]

    def seal(self, **changes: Any) -> Self:
        """A match for round 1005 with two unsigned players; `profile="live"` makes the other profile's default."""
        live = changes.get("profile") == "live"
        entry = {
            "v": 1, "type": "seal", "time": at(1.5 if live else 6), "log": ORIGIN, "host": "club", "host_seq": 1,
            "label": "table 4", "replaces": None, "profile": "match", "custody": "beacon",
            "commitment": self.links[0].hex(), "links": len(self.links) - 1, "chain": self.chain.hash.hex(),
            "close_at": at(2 if live else 9), "reveal_by": at(610 if live else 615),
            "participants": [{"id": "white"}, {"id": "black"}], "open": False, "min_contributions": 0,
            "recipes": {"turn": TURN, "opening": OPENING, "hand": HAND}, "plan": None, "attachments": [],
            "after": self.round_fields(1000), "sandbox": False,
        }  # fmt: skip
        entry |= {"lead": 2000} if live else {"round": 1005}
        self.entry = changed(entry, changes)
        index = self.add(self.entry)
        self.session = merkle.leaf_hash(self.leaves[index]).hex()
        return self

    def signature(
        self, participant: str, entropy: bytes, k: int = 0, recipe: str = "", n: int = 0, purpose: str = ""
    ) -> str:
        """The signature of 4.4 by the participant's test key."""
        message = contribution_message(bytes.fromhex(self.session), k, recipe, n, purpose, participant, entropy)
        return PLAYER_KEYS[participant].sign(message).hex()

    def contribute(
        self, participant: str, seconds: float, entropy: bytes = b"", *, counted: bool = True, **changes: Any
    ) -> Self:
        entropy = entropy or participant.encode()
        entry = {
            "v": 1, "type": "contribution", "time": at(seconds), "session": self.session, "participant": participant,
            "entropy": entropy.hex(),
        }  # fmt: skip
        self.add(changed(entry, changes))
        if counted:
            self.contributions.append((participant, entropy))
        return self

    def digest(self) -> bytes:
        return session_digest(bytes.fromhex(self.session), self.contributions)

    def close(self, seconds: float, **changes: Any) -> Self:
        entry = {
            "v": 1, "type": "close", "time": at(seconds), "session": self.session,
            "contributions": len(self.contributions), "digest": self.digest().hex(),
        }  # fmt: skip
        self.add(changed(entry, changes))
        return self

    def round(self, number: int, seconds: float, /, **changes: Any) -> Self:
        entry = {"v": 1, "type": "round", "time": at(seconds), "chain": self.chain.hash.hex()}
        self.add(changed(entry | self.round_fields(number), changes))
        return self

    def _outcome(self, k: int, called: Iterable[tuple[str, bytes]], number: int, recipe: str, n: int) -> Any:
        signature = bytes.fromhex(ROUNDS[self.chain.hash.hex(), number]["signature"])
        bound = binding(self.digest(), k, called, number, hashlib.sha256(signature).digest())
        stream = Stream(self.links[k or 1], bound, recipe, n)
        return self.dealer.draw(recipe, parse_recipe(self.entry["recipes"][recipe]), stream)

    def draw(self, recipe: str, seconds: float, /, count: int = 1, purpose: str = "", **changes: Any) -> Self:
        """The next `count` draws of a match's recipe."""
        first = self.counts.get(recipe, 0) + 1
        self.counts[recipe] = first + count - 1
        number = self.entry["round"]
        entry = {
            "v": 1, "type": "draw", "time": at(seconds), "session": self.session, "recipe": recipe, "n": first,
            "purpose": purpose, "outcomes": [self._outcome(0, [], number, recipe, first + i) for i in range(count)],
        }  # fmt: skip
        self.add(changed(entry, changes))
        return self

    def skip_to(self, recipe: str, n: int, seconds: float, outcomes: list[Any] | None = None) -> Self:
        """The draw of a match with a number of its own, of a deck that may have no cards left."""
        if outcomes is None:
            self.counts[recipe] = n - 1
            return self.draw(recipe, seconds)
        entry = {
            "v": 1, "type": "draw", "time": at(seconds), "session": self.session, "recipe": recipe, "n": n, "purpose": "",
            "outcomes": outcomes,
        }  # fmt: skip
        self.add(entry)
        return self

    def call(
        self, recipe: str, seconds: float, /, contributed: Mapping[str, bytes] | None = None, **changes: Any
    ) -> Self:
        """Ask for the next draw of a live session; `contributed` is entropy by participant, unsigned."""
        k, n = len(self.calls) + 1, self.counts.get(recipe, 0) + 1
        self.counts[recipe] = n
        items = sorted((contributed or {}).items(), key=lambda item: item[0].encode())
        entry = {
            "v": 1, "type": "call", "time": at(seconds), "session": self.session, "draw": k, "recipe": recipe, "n": n,
            "purpose": f"for {k}", "round": self.chain.first_at(at(seconds) + self.entry["lead"]),
            "contributions": [{"participant": name, "entropy": entropy.hex()} for name, entropy in items],
        }  # fmt: skip
        self.calls.append(changed(entry, changes))
        self.add(self.calls[-1])
        return self

    def answer(self, k: int, seconds: float, /, **changes: Any) -> Self:
        """The draw of call k."""
        call = self.calls[k - 1]
        called = [(item["participant"], bytes.fromhex(item["entropy"])) for item in call["contributions"]]
        outcome = self._outcome(k, called, call["round"], call["recipe"], call["n"])
        entry = {
            "v": 1, "type": "draw", "time": at(seconds), "session": self.session, "draw": k, "recipe": call["recipe"],
            "n": call["n"], "purpose": call["purpose"], "seed": self.links[k].hex(), "outcomes": [outcome],
        }  # fmt: skip
        self.add(changed(entry, changes))
        return self

    def reveal(self, seconds: float, **changes: Any) -> Self:
        k = len(self.calls) if self.entry["profile"] == "live" else 1
        entry = {
            "v": 1, "type": "reveal", "time": at(seconds), "session": self.session, "by": "service",
            "seed": self.links[k].hex() if k else None,
            "draws": {name: self.counts.get(name, 0) for name in self.entry["recipes"]},
        }  # fmt: skip
        self.add(changed(entry, changes))
        return self

    def void(self, reason: str, seconds: float, /, **changes: Any) -> Self:
        entry = {"v": 1, "type": "void", "time": at(seconds), "session": self.session, "reason": reason, "seed": None}
        self.add(changed(entry, changes))
        return self

    # --- documents -----------------------------------------------------------------------------------------------

    def hashes(self, size: int | None = None) -> list[bytes]:
        return [merkle.leaf_hash(leaf) for leaf in self.leaves[:size]]

    def checkpoint(
        self, size: int | None = None, seen: Mapping[str, float] | None = None, key: SigningKey = LOG_KEY
    ) -> str:
        """A signed checkpoint; `seen`: the witnesses that cosign it, with their times in seconds after round 1000."""
        hashes = self.hashes(size)
        text = Checkpoint(ORIGIN, len(hashes), merkle.tree_root(hashes)).encode()
        lines = [key.sign(text)]
        lines += [WITNESSES[name].cosign(text, at(seconds) // 1000) for name, seconds in (seen or {}).items()]
        return text + "\n" + "".join(lines)

    def evidence(self, size: int, seen: Mapping[str, float], *indices: int) -> dict[str, Any]:
        """A smaller checkpoint that witnesses saw."""
        hashes = self.hashes()
        return {
            "checkpoint": self.checkpoint(size, seen),
            "consistency": _base64(merkle.prove_consistency(hashes, size)),
            "proofs": {str(i): _base64(merkle.prove_inclusion(hashes[:size], i)) for i in indices},
        }

    def document(
        self,
        indices: Iterable[int] | None = None,
        evidence: Iterable[Mapping[str, Any]] = (),
        seen: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """The transcript of the shown leaves, or of those of the given indices."""
        hashes = self.hashes()
        events = [
            (index, self.leaves[index], merkle.prove_inclusion(hashes, index))
            for index in (self.shown if indices is None else indices)
        ]
        vkey = str(LOG_KEY.vkey)
        return encode_transcript(ORIGIN, vkey, self.chain.as_dict(), events, self.checkpoint(seen=seen), list(evidence))

    def all_from_seal(self) -> range:
        """The indices of every leaf from the first shown one on, foreign ones too."""
        return range(self.shown[0], len(self.leaves))


def _base64(hashes: Iterable[bytes]) -> list[str]:
    return [encode_base64(item) for item in hashes]


def match(**seal: Any) -> Story:
    """An honest match, up to its last draw."""
    story = Story().seal(**seal).contribute("white", 6.5).contribute("black", 6.501).close(6.6)
    return (
        story.round(1005, 15.9).draw("opening", 15.95, purpose="who starts").draw("turn", 75, count=2).draw("hand", 80)
    )


def live(links: int = 8, **seal: Any) -> Story:
    """An honest live session with three drawn calls, two of them on one round."""
    story = Story(links=links).seal(profile="live", **seal)
    story.contribute("white", 1.6).contribute("black", 1.61).close(1.65)
    story.call("turn", 1.8, {"white": b"w", "black": b"b"}).call("hand", 1.8)
    story.round(1002, 6.8).answer(1, 6.81).answer(2, 6.81)
    return story.call("hand", 6.9).round(1003, 9.8).answer(3, 9.81)


def raffle(**seal: Any) -> Story:
    """An honest match that takes no contributions and draws by plan."""
    plain = {"close_at": None, "participants": [], "plan": {"turn": 2}}
    return Story().seal(**plain | seal).round(1005, 15.9).draw("turn", 15.95, count=2)


def data(document: Mapping[str, Any]) -> bytes:
    return document_bytes(document)
