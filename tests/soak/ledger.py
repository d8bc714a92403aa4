"""What the service acknowledged, and what was seen to be wrong. Of entries only their leaf hashes are kept."""

import base64
import random
import time
from collections import Counter

from verifier.encoding import encode_json, parse_canonical_json
from verifier.merkle import leaf_hash

SAMPLE = 200
WHOLE = ("checkpoint", "proof", "evidence", "consistency", "proofs")


class Ledger:
    """entries: log index -> leaf hash of an acknowledged entry; heads: size -> root of every checkpoint that was shown;
    kinds, refused, counts: how many of what; watched: what event streams brought; failures: in words.
    """

    def __init__(self, seed):
        self.entries, self.heads = {}, {}
        self.kinds, self.refused, self.counts = Counter(), Counter(), Counter()
        self.seals, self.watched, self.failures = {}, [], []
        self.delivered, self.secrets = {}, set()
        self.receipts = []
        self._random = random.Random(f"{seed}/sample")

    def fail(self, text):
        self.counts["failures"] += 1
        self.failures.append(f"{time.strftime('%H:%M:%S')} {text}")

    def refuse(self, error):
        self.refused[error.code] += 1

    def answer(self, answer):
        """Take down every receipt in an answer, the session where it is of a seal, and the secrets."""
        self.secrets.update(answer.get("tokens", {}).values())
        if "secret" in answer:
            self.secrets.add(answer["secret"])
        for receipt in receipts_of(answer):
            self.head(receipt["checkpoint"])
            for event in receipt["events"]:
                self._entry(event["index"], event["entry"], receipt)

    def head(self, note):
        """A checkpoint that was shown: no other of its size has another root."""
        _, size, root = note.split("\n", 3)[:3]
        if self.heads.setdefault(int(size), base64.b64decode(root)) != base64.b64decode(root):
            self.fail(f"two checkpoints of size {size} have different roots")

    def _entry(self, index, text, receipt):
        leaf = leaf_hash(text.encode())
        if index not in self.entries:
            entry = parse_canonical_json(text.encode())
            self.kinds[entry["type"]] += 1
            self._keep(entry, leaf, receipt)
        if self.entries.setdefault(index, leaf) != leaf:
            self.fail(f"two receipts of entry {index} are of different entries")

    def _keep(self, entry, leaf, receipt):
        if entry["type"] == "seal":
            self.seals[leaf.hex()] = entry
        kept = (entry.get("session", leaf.hex()), encode_json(receipt))
        place = self._random.randrange(len(self.entries) + 1)
        if len(receipt["events"]) > 1:
            return
        if len(self.receipts) < SAMPLE:
            self.receipts.append(kept)
        elif place < SAMPLE:
            self.receipts[place] = kept


def receipts_of(answer):
    """Every document of the transcript's format in an answer of the service."""
    if isinstance(answer, list):
        for item in answer:
            yield from receipts_of(item)
    elif isinstance(answer, dict):
        if "events" in answer and "checkpoint" in answer:
            yield answer
            return
        for value in answer.values():
            yield from receipts_of(value)


def essence(answer):
    """What must be the same in every answer to one request. The proofs of receipts may be in later checkpoints.

    Of a call it is what was called: its draw comes with a later answer. Of a webhook, its id and its secret.
    """
    if "secret" in answer:
        return {"id": answer["id"], "secret": answer["secret"]}
    if "call" in answer:
        return {"session": answer["session"], "call": answer["call"], "receipt": _bare(answer["receipts"][0])}
    if "draws" in answer:
        return [essence(item) for item in answer["draws"]]
    return _bare(answer)


def _bare(value):
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, dict):
        return {name: _bare(item) for name, item in value.items() if name not in WHOLE}
    return value
