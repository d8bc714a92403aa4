"""What the log and its witnesses prove: signatures, inclusion, consistency, order, and who saw what when (7.1, 7.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from verifier import merkle, rules
from verifier.drand import ChainInfo, VerifiedRound
from verifier.errors import VerifierError
from verifier.log_keys import LogKey, LogTrust, Signed, as_keys, signed_by
from verifier.note import COSIGNATURE_V1, ED25519, open_note
from verifier.policy import Policy
from verifier.session import Session
from verifier.transcript import Evidence, SignedCheckpoint, Transcript
from verifier.verdict import Claim, ClaimName, Finding, State


class LogView(Protocol):
    """The claim `log`, the findings against it, and the checkpoints that hold."""

    findings: list[Finding]
    sound: list[SignedCheckpoint]

    def claim(self) -> Claim: ...


@dataclass(slots=True)
class ReadLog:
    """The claim `log` of who has read a log whole and compared each leaf with its checkpoint.

    known: the (index, round) of the signatures of the session's chain up to its last entry, as of `rules.signatures`;
    those that no newer round stands before. vouched: whether the log's key signed the checkpoint. seen: what witnesses
    of the policy are known to have seen of this log. opening: the timelock's round, wherever the log has its signature.
    """

    transcript: Transcript
    session: Session
    vouched: bool
    known: tuple[tuple[int, int], ...]
    seen: tuple[Sighting, ...] = ()
    opening: VerifiedRound | None = None
    findings: list[Finding] = field(default_factory=list)
    sound: list[SignedCheckpoint] = field(default_factory=list)

    def claim(self) -> Claim:
        self.findings += rules.log_order(self.transcript.events)
        self.findings += [finding for finding in self.session.findings if finding.claim == ClaimName.LOG]
        if self.session.seal.entry.log != self.transcript.origin:
            text = "sealed in another log"
            self.findings.append(Finding(ClaimName.LOG, "3.6", text, self.session.seal.index))
        if self.findings:
            return Claim.failed(ClaimName.LOG, self.findings)
        if not self.vouched:
            return Claim(ClaimName.LOG, State.UNKNOWN, "the log's key was not given (--log-key)")
        self.sound.append(self.transcript.signed)
        return Claim(ClaimName.LOG, State.PROVEN, f"every leaf of the log {self.transcript.origin} was read")


@dataclass(slots=True)
class LogClaim:
    """The claim `log`, and the checkpoints that hold: signed by the log's key and consistent with each other."""

    transcript: Transcript
    session: Session | None
    log_key: LogTrust | None
    policy: Policy | None
    findings: list[Finding] = field(default_factory=list)
    sound: list[SignedCheckpoint] = field(default_factory=list)
    unvouched: int = 0

    def keys(self) -> tuple[LogKey, ...]:
        """The log's keys as the verifier was given them, by hand or in its policy (7.4), of type 0x01 in any case.

        Those of the document's origin; if all are of other logs, these.
        """
        if self.log_key is not None:
            given = as_keys(self.log_key)
            return given.of(self.transcript.origin) or given.keys
        logs = self.policy.logs if self.policy is not None else ()
        return tuple(LogKey(key) for key in logs if (key.name, key.type) == (self.transcript.origin, ED25519))

    def claim(self) -> Claim:
        transcript, main = self.transcript, self.transcript.signed
        self.findings += rules.log_order(transcript.events)
        if self.session is not None:
            self.findings += [finding for finding in self.session.findings if finding.claim == ClaimName.LOG]
            if self.session.seal.entry.log != transcript.origin:
                self._broken("3.6", "sealed in another log", self.session.seal.index)
        if main.checkpoint.origin != transcript.origin:
            self._broken("7.2", "the checkpoint is of another origin")
        leaves = {event.index: event.leaf for event in transcript.events}
        for event in transcript.events:
            self._included(leaves[event.index], event.index, event.proof, main)
        agreeing = [item.signed for item in transcript.evidence if self._agrees(item, leaves)]
        keys = self.keys()
        if keys:
            self._signed(keys, agreeing)
        if self.findings:
            return Claim.failed(ClaimName.LOG, self.findings)
        if not keys:
            return Claim(ClaimName.LOG, State.UNKNOWN, "the log's key was not given (--log-key)")
        if self.unvouched:
            text = "a checkpoint in the evidence is signed by a key in the log's name that was not given (--log-key)"
            return Claim(ClaimName.LOG, State.UNKNOWN, text)
        count = len(transcript.events)
        text = f"{count} entr{'y is' if count == 1 else 'ies are'} in the log {transcript.origin}"
        return Claim(ClaimName.LOG, State.PROVEN, f"{text} under its signed checkpoint of {main.checkpoint.size}")

    def _agrees(self, item: Evidence, leaves: Mapping[int, bytes]) -> bool:
        """Whether an evidence's checkpoint is of this log, consistent with the document's, and holds what it says."""
        before = len(self.findings)
        if item.signed.checkpoint.origin != self.transcript.origin:
            self._broken("7.2", "a checkpoint in the evidence is of another origin")
        older, newer = sorted((item.signed.checkpoint, self.transcript.signed.checkpoint), key=lambda one: one.size)
        try:
            merkle.verify_consistency(older.size, newer.size, item.consistency, older.root, newer.root)
        except VerifierError as error:
            self._broken("7.2", f"a checkpoint in the evidence does not agree with the document's: {error.message}")
        for index, proof in item.proofs.items():
            self._included(leaves[index], index, proof, item.signed)
        return len(self.findings) == before

    def _signed(self, keys: Sequence[LogKey], agreeing: Iterable[SignedCheckpoint]) -> None:
        if all(one.key != self.transcript.log_key for one in keys):
            self._broken("7.4", "the document names another log key than the verifier was given")
        if keys[0].key.name != self.transcript.origin:
            self._broken("7.4", f"the key that the verifier was given is that of another log, {keys[0].key.name}")
        if self._holds(keys, self.transcript.signed, "the checkpoint") is Signed.OTHER:
            self._broken("7.2", "the checkpoint is not signed by the log's key")
        for signed in agreeing:
            self.unvouched += self._holds(keys, signed, "a checkpoint in the evidence") is Signed.OTHER

    def _holds(self, keys: Sequence[LogKey], signed: SignedCheckpoint, what: str) -> Signed:
        """Whether a checkpoint counts; a finding where it does not, except for a key that was not given."""
        found = signed_by(signed.note, signed.checkpoint.size, keys)
        if found is Signed.YES:
            self.sound.append(signed)
        elif found is Signed.BEYOND:
            self._broken("7.4", f"{what} of {signed.checkpoint.size} entries is {found.value}")
        elif found is not Signed.OTHER:
            self._broken("7.2", f"{what} is not signed by the log's key")
        return found

    def _included(self, leaf: bytes, index: int, proof: Sequence[bytes], signed: SignedCheckpoint) -> None:
        checkpoint = signed.checkpoint
        try:
            merkle.verify_inclusion(leaf, index, checkpoint.size, proof, checkpoint.root)
        except VerifierError as error:
            self._broken("2.3", f"not in the log under the checkpoint of {checkpoint.size}: {error.message}", index)

    def _broken(self, rule: str, text: str, index: int | None = None) -> None:
        self.findings.append(Finding(ClaimName.LOG, rule, text, index))


@dataclass(frozen=True, slots=True)
class Sighting:
    """A witness of the policy cosigned a checkpoint of `size`. time: POSIX seconds, as the witness says."""

    size: int
    witness: str
    time: int
    key_type: int


@dataclass(slots=True)
class Witnesses:
    """Which witnesses of the policy saw which checkpoint, and when."""

    policy: Policy | None
    sound: list[SignedCheckpoint]
    transcript: Transcript
    findings: list[Finding] = field(default_factory=list)
    seen: list[Sighting] = field(default_factory=list)
    quorum_size: int = 0

    def read(self) -> None:
        """Verify every line of a witness of the policy on the checkpoints that hold."""
        if self.policy is None:
            return
        known = {(key.name, key.key_id): (name, key) for name, key in self.policy.witnesses.items()}
        for signed in self.sound:
            names = set()
            size = signed.checkpoint.size
            for line in dict.fromkeys((line.name, line.key_id) for line in signed.note.signatures):
                if line not in known:
                    continue
                name, key = known[line]
                try:
                    verified = open_note(signed.note, [key]).verified
                except VerifierError as error:
                    text = f"the cosignature of {name} is not valid: {error.message}"
                    self.findings.append(Finding(ClaimName.WITNESSED, "7.1", text))
                    continue
                names.add(name)
                self.seen += [Sighting(size, name, item.timestamp or 0, key.type) for item in verified]
            if self.satisfied_by(names):
                self.quorum_size = max(self.quorum_size, size)

    def take(self, seen: Iterable[Sighting]) -> None:
        """Take what was verified of this log before, instead of `read`."""
        names: dict[int, set[str]] = {}
        for sighting in seen:
            self.seen.append(sighting)
            names.setdefault(sighting.size, set()).add(sighting.witness)
        self.quorum_size = max((size for size, found in names.items() if self.satisfied_by(found)), default=0)

    def satisfied_by(self, names: Iterable[str]) -> bool:
        """Whether these witnesses are a quorum; the policy `quorum none` proves nothing about anybody."""
        found = set(names)
        return self.policy is not None and bool(found) and self.policy.satisfied(found)

    def covers(self, index: int) -> bool:
        """Whether one checkpoint that covers the leaf at index has the cosignatures of a quorum."""
        return self.quorum_size > index

    def covering(self, index: int) -> set[str]:
        """The witnesses that cosigned a checkpoint which covers the leaf at index."""
        return {sighting.witness for sighting in self.seen if sighting.size > index}

    def before(
        self, anchors: Iterable[tuple[int, int]], chains: Mapping[bytes, ChainInfo]
    ) -> dict[tuple[int, int], dict[str, int]]:
        """For each anchor, an (index, deadline in ms): the witnesses that saw it before, with their times in s (7.1).

        Of each witness its smallest usable time counts: of cosignature/v1, not 0, and not before a round whose
        signature is in an entry below that checkpoint's size.
        """
        usable = self._usable(chains)
        first: dict[str, int] = {}
        result = {}
        for index, deadline in sorted(set(anchors), reverse=True):
            while usable and usable[-1].size > index:
                sighting = usable.pop()
                first[sighting.witness] = min(sighting.time, first.get(sighting.witness, sighting.time))
            result[index, deadline] = {name: time for name, time in first.items() if 1000 * time < deadline}
        return result

    def _usable(self, chains: Mapping[bytes, ChainInfo]) -> list[Sighting]:
        """Sorted by size. `newest[i]` is when the newest round fell due whose signature is in the first i events."""
        events = self.transcript.events
        indices = [event.index for event in events]
        newest = list(accumulate((rules.signature_time(event.entry, chains) for event in events), max, initial=0))
        usable = [
            sighting
            for sighting in self.seen
            if sighting.key_type == COSIGNATURE_V1
            and sighting.time
            and 1000 * sighting.time >= newest[bisect_left(indices, sighting.size)]
        ]
        return sorted(usable, key=lambda sighting: sighting.size)
