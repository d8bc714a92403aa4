"""Asking the policy's witnesses what they have seen of a log, and telling them what it shows here (C2SP tlog-witness).

    GET  <witness>/<SHA-256 of the origin, hex>/checkpoint    the newest checkpoint that it cosigned; not every witness
    POST <witness>/add-checkpoint                             old size, consistency proof, the log's checkpoint

A witness is believed in nothing but signatures. A checkpoint that the log signed for it and that does not agree with
what was read here is evidence, kept as any other fork. What a witness only says is a note. A request takes at most
SECONDS, all of them together ALL_SECONDS; none is led elsewhere, and none goes without https but to the own machine.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from verifier.audit.run import Audit
from verifier.audit.sources import Source, check_signature
from verifier.audit.state import Found
from verifier.connection import UNREACHABLE, Answer, exchange
from verifier.encoding import Json, parse_decimal
from verifier.errors import FormatError, VerifierError
from verifier.note import MAX_SIGNATURES, Note, Signature, open_note
from verifier.tlog_proof import add_checkpoint_request
from verifier.transcript import SignedCheckpoint

SECONDS: Final = 10.0
ALL_SECONDS: Final = 60.0
MAX_ANSWER: Final = 64 * 1024
MAX_WITNESSES: Final = 32
PATIENCE: Final = 24 * 3600
"""Seconds that a mirror or a cache may be behind what a witness has seen, before that is a finding."""
MAX_URL: Final = 300


class Result(StrEnum):
    """What came of a witness."""

    COSIGNED = "cosigned"
    """It has cosigned the checkpoint that was audited, now or before."""
    AGREES = "agrees"
    """It has cosigned a smaller checkpoint, which the log continues."""
    AHEAD = "ahead"
    """It has cosigned a larger checkpoint, which the log does not show here."""
    FORKED = "forked"
    """It has cosigned a checkpoint of another history."""
    REFUSED = "refused"
    """It takes no checkpoint of this log, or not this one, and shows none."""
    UNREACHABLE = "unreachable"
    NOT_ASKED = "not asked"
    """It has no address, or none that is asked, or the time was over."""


Exchange = Callable[[str, bytes | None, float], Answer]
"""(address, what is posted, seconds) -> the answer of any status. Raises what UNREACHABLE names."""


def ask(url: str, post: bytes | None, seconds: float) -> Answer:
    """Over the network."""
    return exchange(url, limit=MAX_ANSWER, idle=seconds, total=seconds, post=post, redirects=False)


@dataclass(slots=True)
class Gossip:
    """A round of asking, after an audit of `source`. again: reads the log's newest checkpoint anew."""

    audit: Audit
    source: Source
    again: Callable[[], Source]
    ask: Exchange = ask
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    results: dict[str, Result] = field(default_factory=dict)
    _ends: float = 0.0
    _ahead: dict[str, SignedCheckpoint] = field(default_factory=dict)
    _said: dict[str, int] = field(default_factory=dict)

    def run(self) -> dict[str, Result]:
        """Ask every witness that has an address, keep what comes of it, and commit. Raises nothing for what they do."""
        policy = self.audit.trust.policy
        if policy is None or self.audit.trust.log_key is None or self.source.tree.size == 0:
            return {}
        self._ends = self.clock() + ALL_SECONDS
        for number, name in enumerate(policy.witnesses):
            url = policy.witness_urls.get(name)
            if url is None or number >= MAX_WITNESSES or self.clock() >= self._ends or not may_be_asked(url):
                self.results[name] = Result.NOT_ASKED
                continue
            try:
                self.results[name] = self._witness(name, url.rstrip("/"))
            except UNREACHABLE:
                self.results[name] = Result.UNREACHABLE
        source = self._again() if self._ahead or self._said else None
        self._judge_said(source)
        self._judge_ahead(source)
        told: Json = {name: result.value for name, result in self.results.items()}
        self.audit.state.put("gossip", told)
        self.audit.state.commit()
        return self.results

    def _asked(self, url: str, post: bytes | None = None) -> Answer:
        left = self._ends - self.clock()
        if left <= 0:
            raise TimeoutError
        return self.ask(url, post, min(SECONDS, left))

    def _witness(self, name: str, url: str) -> Result:
        shown = self._shown(url)
        if shown is not None:
            result = self._compare(name, shown)
            if result is not Result.AGREES:
                return result
        told = self._tell(name, url, shown.checkpoint.size if shown is not None else 0)
        return told or (Result.AGREES if shown is not None else Result.REFUSED)

    def _shown(self, url: str) -> SignedCheckpoint | None:
        """What the witness shows of the log, as far as the log and witnesses signed it; None where it shows nothing."""
        origin, key = self.source.signed.checkpoint.origin, self.audit.trust.log_key
        answer = self._asked(f"{url}/{hashlib.sha256(origin.encode()).hexdigest()}/checkpoint")
        if answer.status != 200 or len(answer.body) > MAX_ANSWER:
            return None
        try:
            shown = SignedCheckpoint.parse(answer.body.decode())
            check_signature(shown, key)
        except (UnicodeDecodeError, VerifierError):
            return None
        return self._without_false_lines(shown)

    def _without_false_lines(self, shown: SignedCheckpoint) -> SignedCheckpoint:
        """Whoever is on the way to a witness can make a false line of it: that says nothing of the log."""
        policy, false = self.audit.trust.policy, set()
        assert policy is not None
        for key in policy.witnesses.values():
            try:
                open_note(shown.note, [key])
            except VerifierError:
                false.add((key.name, key.key_id))
        lines = tuple(line for line in shown.note.signatures if (line.name, line.key_id) not in false)
        return SignedCheckpoint(Note(shown.note.text, lines), shown.checkpoint)

    def _compare(self, name: str, shown: SignedCheckpoint) -> Result:
        size = self.source.tree.size
        if shown.checkpoint.size > size:
            self._ahead[name] = shown
            return Result.AHEAD
        if not self.audit.witnessed(self.source, [shown]):
            return Result.FORKED
        return Result.COSIGNED if self._has_cosigned(name) else Result.AGREES

    def _has_cosigned(self, name: str) -> bool:
        return any(seen.witness == name for seen in self.audit.witnessing.at(self.source.tree.size))

    def _tell(self, name: str, url: str, old: int) -> Result | None:
        """Have the witness cosign what was audited, asked at most twice; None where it does not."""
        answer = self._post(url, old)
        if answer.status == 409:
            size = _size(answer.body)
            if size is not None and size > self.source.tree.size:
                self._said[name] = size
                return Result.AHEAD
            if size is None or size == old:
                return None
            answer = self._post(url, size)
        if answer.status == 422:
            text = f"the witness {name} does not take it that this log continues what it cosigned, and shows no other"
            self.audit.keep([Found("log", "7.2", text, grave=False)])
        return Result.COSIGNED if answer.status == 200 and self._take(name, answer.body) else None

    def _post(self, url: str, old: int) -> Answer:
        tree = self.source.tree
        proof = tree.consistency(old) if old else []
        body = add_checkpoint_request(old, proof, self.source.signed.note.encode())
        return self._asked(f"{url}/add-checkpoint", body.encode())

    def _take(self, name: str, body: bytes) -> bool:
        """Keep a cosignature of the audited checkpoint, if these are lines that hold one."""
        policy, note = self.audit.trust.policy, self.source.signed.note
        assert policy is not None
        key = policy.witnesses[name]
        try:
            lines = body.decode()
            if len(body) > MAX_ANSWER or not lines.endswith("\n") or lines.count("\n") > MAX_SIGNATURES:
                return False
            parsed = [Signature.parse(line) for line in lines[:-1].split("\n")]
        except (UnicodeDecodeError, VerifierError):
            return False
        own = tuple(line for line in parsed if (line.name, line.key_id) == (key.name, key.key_id))
        if not own:
            return False
        signed = SignedCheckpoint(Note(note.text, own), self.source.signed.checkpoint)
        for _ in self.audit.witnessing.take(signed):
            return False
        return self._has_cosigned(name)

    # --- checkpoints larger than what the log shows ------------------------------------------------------------

    def _judge_said(self, source: Source | None) -> None:
        """What a witness only says it has seen: a note where the log, looked at again, does not show so much.

        source: the log as it is now; None where it cannot be read, and then nobody knows what it shows.
        """
        for name, size in self._said.items():
            if source is not None and source.tree.size < size:
                text = f"the witness {name} says that it has seen {size} entries; the log shows {source.tree.size}"
                self.audit.keep([Found("log", "7.2", text, grave=False)])

    def _judge_ahead(self, source: Source | None) -> None:
        """A log publishes a checkpoint before a witness sees it: look again, then wait, then it is a finding."""
        first = dict(self.audit.state.get("ahead") or {})
        kept: dict[str, Json] = {}
        for name, shown in self._ahead.items():
            size = shown.checkpoint.size
            if source is not None and source.tree.size >= size:
                agrees = self.audit.witnessed(source, [shown])
                self.results[name] = Result.AGREES if agrees else Result.FORKED
                continue
            since = first.get(name, int(self.now()))
            kept[name] = since
            withheld = self.now() - since > PATIENCE
            if source is None and not withheld:
                continue
            least = (source or self.source).tree.size
            text = f"the witness {name} has the log's checkpoint of {size} entries; it shows {least}"
            text += ", for more than a day" * withheld
            self.audit.keep([Found("log", "7.2", text, grave=withheld)])
        self.audit.state.put("ahead", kept)

    def _again(self) -> Source | None:
        try:
            source = self.again()
            source.check(self.audit.trust.log_key)
        except VerifierError:
            return None
        return source if source.signed.checkpoint.origin == self.source.signed.checkpoint.origin else None


def may_be_asked(url: str) -> bool:
    """Whether a witness may be at this address: https, or http at the own machine; with nothing behind but a path."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or any(sign in url for sign in " \\?#@"):
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or port == 0 or parts.scheme not in {"https", "http"}:
        return False
    try:
        address = ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return parts.scheme == "https" or host == "localhost"
    if address.is_loopback:
        return True
    return parts.scheme == "https" and not (address.is_link_local or address.is_multicast or address.is_unspecified)


def _size(body: bytes) -> int | None:
    try:
        return parse_decimal(body.decode("ascii").removesuffix("\n"))
    except (UnicodeDecodeError, FormatError):
        return None
