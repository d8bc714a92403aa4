"""One session as a document has it, and the checks of `standalone` that need no clock: standard library alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from verifier.standalone_tools import (
    LARGEST,
    SCHEMES,
    Key,
    Note,
    Stream,
    Unusable,
    contribution_list,
    draw,
    ed25519,
    included,
    leaf_hash,
    lp,
    parse_entry,
    parse_json,
    sha256,
    signed_round,
    u32,
    unbase64,
    unhex,
)

CLAIMS = ("log", "round", "unpredictable", "seed", "outcomes", "complete", "sole", "contributions", "custody")


class Session:
    """The document's session, and what is found against it: `findings` and `unknown` by claim."""

    def __init__(self, document: str, chains: dict[str, Any]) -> None:
        self.document = parse_json(document)
        names = {"format", "origin", "log_key", "chain", "events", "checkpoint", "evidence"}
        if set(self.document) != names or self.document["format"] != "fair-beacon/transcript/v1":
            raise Unusable("not a document of the format fair-beacon/transcript/v1")
        if any(set(event) != {"index", "entry", "proof"} for event in self.document["events"]):
            raise Unusable("an event with other fields than index, entry and proof")
        self.events = [
            (event["index"], event["entry"], parse_entry(event["entry"])) for event in self.document["events"]
        ]
        indices = [index for index, _, _ in self.events]
        if indices != sorted(set(indices)) or not all(type(index) is int and index >= 0 for index in indices):
            raise Unusable("the events' indices do not increase")
        seals = [event for event in self.events if event[2]["type"] == "seal"]
        if not seals:
            raise Unusable("there is no seal: a receipt of one entry is no session")
        self.index, text, self.seal = seals[0]
        self.leaf = leaf_hash(text)
        self.live = self.seal["profile"] == "live"
        self.chain = chains.get(self.seal["chain"])
        self.findings: dict[str, list[str]] = {claim: [] for claim in CLAIMS}
        self.unknown: dict[str, str] = {}
        if self.document["chain"].get("scheme") in SCHEMES:
            unhex(self.document["chain"]["public_key"], 144 - SCHEMES[self.document["chain"]["scheme"]][0])
        mine = [entry for _, _, entry in self.events if entry.get("session") == self.leaf.hex()]
        self.needed = {self.seal["round"]} if not self.live else {one["round"] for one in mine if one["type"] == "call"}
        self.check_leaves(indices[-1] - indices[0] == len(indices) - 1)
        self.contributions: list[Any] = []
        self.calls: list[Any] = []
        self.draws: list[Any] = []
        self.rounds: dict[Any, Any] = {}
        self.close: Any = None
        self.end: Any = None
        for index, entry_text, entry in self.events:
            self.take(index, entry_text == text and index != self.index, entry)
        listed = contribution_list([entry for _, entry in self.contributions])
        self.digest = sha256(lp(b"fair-beacon/v1/session") + self.leaf + listed)

    def fail(self, claim: str, rule: str, text: str) -> None:
        self.findings[claim].append(f"{text} ({rule})")

    def check_leaves(self, consecutive: bool) -> None:
        """Foreign leaves stand only among consecutive ones, which begin with the seal (7.2)."""
        used = {(self.seal["chain"], number) for number in self.needed}
        if "timelock" in self.seal:
            used.add((self.seal["timelock"]["chain"], self.seal["timelock"]["round"]))
        foreign = [
            index
            for index, text, entry in self.events
            if leaf_hash(text) != self.leaf
            and entry.get("session") != self.leaf.hex()
            and (entry["type"] != "round" or (entry["chain"], entry["round"]) not in used)
        ]
        if self.events[0][0] != self.index if consecutive else foreign:
            raise Unusable("leaves of others, or before the seal, among those of the session")

    def take(self, index: int, again: bool, entry: dict[str, Any]) -> None:
        """Sort one entry in; the first of each is the valid one (6.1)."""
        kind = entry["type"]
        if again:
            self.fail("sole", "6.1", "the same seal once more")
        if kind == "round" and entry["chain"] == self.seal["chain"] and entry["round"] in self.needed:
            if entry["round"] in self.rounds:
                self.fail("sole", "6.8", f"a second entry of round {entry['round']}")
                self.fail("round", "6.8", f"a second entry of round {entry['round']}")
            self.rounds.setdefault(entry["round"], (index, entry))
        if entry.get("session") != self.leaf.hex():
            return
        if (kind == "call" or (kind == "draw" and "draw" in entry)) != (kind in {"call", "draw"} and self.live):
            raise Unusable(f"a {kind} that the profile {self.seal['profile']} does not have")
        if index < self.index:
            self.fail("log", "6.1", f"a {kind} stands before its seal")
        if self.end is not None:
            self.fail("sole", "6.1", f"a {kind} after the session's end")
            self.fail("complete", "6.1", f"a {kind} after the session's end")
        elif kind in {"reveal", "void"}:
            self.end = (index, entry)
        elif kind == "close":
            self.fail("sole", "6.1", "a second close") if self.close else setattr(self, "close", (index, entry))
        else:
            self.take_one(index, entry, kind)

    def take_one(self, index: int, entry: dict[str, Any], kind: str) -> None:
        def names(of: dict[str, Any]) -> set[Any]:
            if kind == "contribution":
                return {of["participant"]}
            if self.live:
                return {of["draw"]}
            return {(of["recipe"], of["n"] + i) for i in range(len(of["outcomes"]))}

        taken = {"contribution": self.contributions, "call": self.calls, "draw": self.draws}[kind]
        if any(names(entry) & names(other) for _, other in taken):
            self.fail("sole", "6.1", f"a second {kind} of {min(map(str, names(entry)))}")
        elif kind == "contribution" and self.close:
            self.fail("unpredictable", "6.5", "a contribution after the close")
        else:
            taken.append((index, entry))

    # --- log and round ---------------------------------------------------------------------------------------------

    def check_log(self, keys: list[Key]) -> None:
        note, own = Note(self.document["checkpoint"]), Key(self.document["log_key"])
        origin = self.document["origin"]
        if {note.origin, own.name, self.seal["log"]} != {origin}:
            self.fail("log", "7.2", "document, checkpoint, key and seal do not name one log")
        for (index, text, _), event in zip(self.events, self.document["events"]):  # noqa: B905 - one list of the other
            proof = [unbase64(node) for node in event["proof"]]
            if not included(leaf_hash(text), index, note.size, proof, note.root):
                self.fail("log", "2.3", f"entry {index} is not in the tree of the checkpoint")
        if keys and own.text not in [key.text for key in keys]:
            self.fail("log", "7.4", "the document names another log key than the one given")
        if not note.signed_by(keys or [own]):
            self.fail("log", "7.2", f"the checkpoint of {note.size} entries is not signed by a key of the log for it")
        if any(later[2]["time"] < earlier[2]["time"] for earlier, later in self.pairs()):
            self.fail("log", "6.2", "an entry is earlier than the one before it")
        if not keys:
            self.unknown["log"] = f"no key was given; this document names {own.text}: compare it with yours, --log-key"

    def pairs(self) -> Any:
        return zip(self.events, self.events[1:])  # noqa: B905 - one list is the other

    def check_rounds(self) -> None:
        info = self.chain
        if info is None:
            self.unknown["round"] = f"the drand chain {self.seal['chain'][:16]}... is not built in (--chain)"
            return
        if self.document["chain"] != {name: info[name] for name in info if name != "last_round"}:
            self.fail("round", "2.5", "the document's chain is not the pinned one")
        needed = self.needed
        stated = [self.seal["after"], *(self.rounds[number][1] for number in sorted(needed & self.rounds.keys()))]
        if max(needed | {0}) > info.get("last_round", LARGEST):
            self.fail("round", "2.5", "a round beyond the retired chain's last one")
        answers = [signed_round(info, entry) for entry in stated]
        if False in answers:
            self.fail("round", "2.5", f"round {stated[answers.index(False)]['round']} is not signed by the chain")
        elif None in answers:
            why = "py-ecc is not installed" if info["scheme"] in SCHEMES else f"{info['scheme']} is not done here"
            self.unknown["round"] = f"the pairing was NOT done ({why}): whether drand signed the rounds is not known"
        elif needed - self.rounds.keys() or len(stated) == 1:
            self.unknown["round"] = "a round is not in the document"

    # --- seed and outcomes -----------------------------------------------------------------------------------------

    def check_seed(self) -> None:
        known, link = 0, unhex(self.seal["commitment"], 32)
        shown = [(entry["draw"], entry["seed"]) for _, entry in self.draws if self.live]
        if self.end is not None and self.end[1]["seed"] is not None:
            shown.append((len(self.calls) if self.live else 1, self.end[1]["seed"]))
        for k, text in sorted(shown):
            seed = unhex(text, 32)
            opened = seed
            for _ in range(min(k - known, 65_536)):
                opened = sha256(opened)
            if opened != link or not max(known, 1) <= k <= 65_536:
                self.fail(
                    "seed",
                    "4.1",
                    f"the seed of draw {k} does not open the commitment"
                    if self.live
                    else "the seed does not open the commitment",
                )
                return
            known, link = k, seed
        if (
            self.end is not None
            and self.end[1]["type"] == "reveal"
            and self.end[1]["seed"] is None
            and (self.calls or not self.live)
        ):
            self.fail("seed", "4.1", "revealed without a seed")
        if not shown:
            self.unknown["seed"] = "no seed has been shown"

    def binding(self, k: int, called: list[Any], number: int) -> bytes | None:
        """B (4.1); None while the round is not shown."""
        if number not in self.rounds:
            return None
        randomness = sha256(unhex(self.rounds[number][1]["signature"]))
        head = lp(b"fair-beacon/v1/binding") + self.digest + u32(k) + contribution_list(called)
        return sha256(head + number.to_bytes(8, "big") + randomness)

    def check_outcomes(self) -> list[str]:
        """Every draw again; the lines that show them."""
        lines: list[str] = []
        decks: dict[str, Any] = {}
        lost: set[str] = set()  # deals that cannot be followed any more
        calls = {call["draw"]: call for _, call in self.calls}
        for _, entry in self.draws:
            call = calls.get(entry.get("draw"), {"draw": 0, "contributions": [], "round": self.seal.get("round")})
            seed = entry["seed"] if self.live else self.end[1]["seed"] if self.end else None
            binding = self.binding(call["draw"], call["contributions"], call["round"])
            recipe, name = self.seal["recipes"].get(entry["recipe"]), entry["recipe"]
            if seed is None or binding is None:
                self.unknown["outcomes"] = "the seed or a round that the draws rest on has not been shown"
                lost.add(name)
                continue
            for n, claimed in enumerate(entry["outcomes"], entry["n"]):
                if name in lost and recipe and recipe["kind"] == "deal":
                    break
                found = None if recipe is None else draw(recipe, Stream(unhex(seed, 32), binding, name, n), decks, name)
                lines.append(f"{name} {n}: {found}")
                lost |= {name} if found is None else set()
                if found is None or repr(found) != repr(claimed):
                    self.fail("outcomes", "5.2", f"{name} {n} is {found}, the document says {claimed}")
        if not self.draws:
            self.unknown["outcomes"] = "nothing was drawn"
        return lines

    # --- counts, contributions -------------------------------------------------------------------------------------

    def check_complete(self) -> None:
        following: Counter[str] = Counter()
        for _, entry in self.calls or self.draws:
            if entry["n"] != following[entry["recipe"]] + 1:
                self.fail("complete", "6.7", f"{entry['recipe']}: number {entry['n']} does not follow")
            following[entry["recipe"]] = entry["n"] + len(entry.get("outcomes", "1")) - 1
        drawn = Counter(dict.fromkeys(self.seal["recipes"], 0))
        rounds: dict[Any, int] = {call["draw"]: call["round"] for _, call in self.calls}
        for index, entry in self.draws:
            drawn[entry["recipe"]] += len(entry["outcomes"])
            if self.rounds.get(rounds.get(entry.get("draw"), self.seal.get("round")), (0,))[0] > index:
                self.fail("complete", "6.7", "drawn before its round")
        if self.close and self.close[1]["contributions"] != len(self.contributions):
            self.fail("complete", "3.6", "the close counts other contributions than are shown")
        if self.close and self.close[1]["digest"] != self.digest.hex():
            self.fail("complete", "4.1", "the close's digest is not that of the contributions")
        if self.seal["plan"] is not None:
            self.check_plan(self.seal["plan"], drawn)
        if self.end is None:
            self.unknown["complete"] = "the session is still open"
        elif self.end[1]["type"] == "reveal":
            self.check_reveal(self.end[0], self.end[1], drawn)

    def check_plan(self, plan: dict[str, int], drawn: Counter[str]) -> None:
        if set(drawn) - set(plan) - {name for name in drawn if not drawn[name]} or any(
            entry["purpose"] for _, entry in self.draws
        ):
            self.fail("complete", "6.7", "a draw that is not in the plan, or with a purpose")
        revealed = self.end is not None and self.end[1]["type"] == "reveal"
        if any(drawn[name] > count or (revealed and drawn[name] < count) for name, count in plan.items()):
            self.fail("complete", "6.7", f"the plan says {plan}, drawn are {dict(drawn)}")

    def check_reveal(self, index: int, reveal: dict[str, Any], drawn: Counter[str]) -> None:
        if reveal["draws"] != {name: drawn[name] for name in self.seal["recipes"]}:
            self.fail("complete", "3.6", "the reveal's counts are not those of the draws")
        if self.rounds.get(self.seal.get("round"), (0,))[0] > index:
            self.fail("complete", "6.7", "revealed before the round")
        if {call["draw"] for _, call in self.calls} - {entry.get("draw") for _, entry in self.draws}:
            self.fail("complete", "6.7", "a call was never drawn")
        if self.live and reveal["by"] != "service":
            self.fail("complete", "6.7", "a live session is revealed by the service")

    def check_contributions(self) -> None:
        seal, taken = self.seal, self.seal["close_at"] is not None
        if not taken and (self.contributions or self.close or seal["min_contributions"]):
            self.fail("contributions", "6.4", "contributions or a close, though the seal takes none")
        if taken and not seal["participants"] and not seal["open"]:
            self.fail("contributions", "6.4", "contributions are taken, but from nobody")
        revealed = self.end is not None and self.end[1]["type"] == "reveal"
        if taken and not self.close and (self.calls or self.draws or revealed):
            self.fail("contributions", "6.4", "called, drawn or revealed without a close")
        for _, entry in self.contributions:
            if taken and entry["time"] > seal["close_at"]:
                self.fail("contributions", "6.4", "a contribution after close_at")
            self.check_contributor(entry, 0, "", 0, "")
        for _, call in self.calls:
            if len({item["participant"] for item in call["contributions"]}) < len(call["contributions"]):
                self.fail("sole", "6.1", "one participant contributes twice to one call")
            for item in call["contributions"]:
                self.check_contributor(item, call["draw"], call["recipe"], call["n"], call["purpose"])

    def check_contributor(self, item: dict[str, Any], k: int, recipe: str, n: int, purpose: str) -> None:
        keys = {participant["id"]: participant.get("key") for participant in self.seal["participants"]}
        who = item["participant"]
        if who not in keys and not self.seal["open"]:
            self.fail("contributions", "6.4", f"{who!r} is not a participant")
        key = keys.get(who)
        if (key is None) != ("signature" not in item):
            self.fail("contributions", "6.4", f"{who!r}: a signature is due exactly when the seal lists a key")
        elif key is not None:
            entropy = lp(who.encode("utf-8")) + lp(unhex(item["entropy"]))
            of = lp(recipe.encode("utf-8")) + u32(n) + lp(purpose.encode("utf-8"))
            message = lp(b"fair-beacon/v1/contribution") + self.leaf + u32(k) + of + entropy
            if not ed25519(unhex(key, 32), message, unhex(item["signature"], 64)):
                self.fail("contributions", "4.4", f"the signature of {who!r} does not cover this contribution")
