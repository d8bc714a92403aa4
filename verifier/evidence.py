"""What the log and its witnesses prove: signatures, inclusion, consistency, order, and who saw what when (7.1, 7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from verifier import merkle, rules
from verifier.drand import ChainInfo
from verifier.errors import VerifierError
from verifier.note import COSIGNATURE_V1, VerifierKey, open_note
from verifier.policy import Policy
from verifier.session import Session
from verifier.transcript import SignedCheckpoint, Transcript
from verifier.verdict import Claim, ClaimName, Finding, State


@dataclass(slots=True)
class LogClaim:
    """The claim `log`, and the checkpoints that hold: signed by the log's key and consistent with each other."""

    transcript: Transcript
    session: Session | None
    log_key: VerifierKey | None
    policy: Policy | None
    findings: list[Finding] = field(default_factory=list)
    sound: list[SignedCheckpoint] = field(default_factory=list)

    def key(self) -> VerifierKey | None:
        """The log's key as the verifier was given it, by hand or in its policy."""
        if self.log_key is not None or self.policy is None:
            return self.log_key
        return next((key for key in self.policy.logs if key.name == self.transcript.origin), None)

    def claim(self) -> Claim:
        transcript, main = self.transcript, self.transcript.signed
        self.findings += rules.log_order(transcript.events)
        if self.session is not None:
            self.findings += [finding for finding in self.session.findings if finding.claim == ClaimName.LOG]
            if self.session.seal.entry.log != transcript.origin:
                self._broken("3.6", "sealed in another log", self.session.seal.index)
        if main.checkpoint.origin != transcript.origin:
            self._broken("7.2", "the checkpoint is of another origin")
        for event in transcript.events:
            self._included(event.leaf, event.index, event.proof, main)
        key = self.key()
        if key is not None:
            self._signed(key)
        if self.findings:
            return Claim.failed(ClaimName.LOG, self.findings)
        if key is None:
            return Claim(ClaimName.LOG, State.UNKNOWN, "the log's key was not given (--log-key)")
        text = f"{len(transcript.events)} entries are in the log {transcript.origin} under its signed checkpoint"
        return Claim(ClaimName.LOG, State.PROVEN, f"{text} of {main.checkpoint.size}")

    def _signed(self, key: VerifierKey) -> None:
        main = self.transcript.signed
        if str(self.transcript.log_key) != str(key):
            self._broken("7.4", "the document names another log key than the verifier was given")
        if not self._opens(main, key):
            self._broken("7.2", "the checkpoint is not signed by the log's key")
            return
        self.sound.append(main)
        leaves = {event.index: event.leaf for event in self.transcript.events}
        for item in self.transcript.evidence:
            older, newer = sorted((item.signed, main), key=lambda signed: signed.checkpoint.size)
            before = len(self.findings)
            if item.signed.checkpoint.origin != self.transcript.origin or not self._opens(item.signed, key):
                self._broken("7.2", "a checkpoint in the evidence is not signed by the log's key")
            try:
                merkle.verify_consistency(
                    older.checkpoint.size,
                    newer.checkpoint.size,
                    item.consistency,
                    older.checkpoint.root,
                    newer.checkpoint.root,
                )
            except VerifierError as error:
                self._broken("7.2", f"a checkpoint in the evidence does not agree with the document's: {error.message}")
            for index, proof in item.proofs.items():
                self._included(leaves[index], index, proof, item.signed)
            if len(self.findings) == before:
                self.sound.append(item.signed)

    def _opens(self, signed: SignedCheckpoint, key: VerifierKey) -> bool:
        try:
            open_note(signed.note, [key])
        except VerifierError:
            return False
        return True

    def _included(self, leaf: bytes, index: int, proof: Iterable[bytes], signed: SignedCheckpoint) -> None:
        checkpoint = signed.checkpoint
        try:
            merkle.verify_inclusion(leaf, index, checkpoint.size, tuple(proof), checkpoint.root)
        except VerifierError as error:
            self._broken("2.3", f"not in the log under the checkpoint of {checkpoint.size}: {error.message}", index)

    def _broken(self, rule: str, text: str, index: int | None = None) -> None:
        self.findings.append(Finding(ClaimName.LOG, rule, text, index))


@dataclass(slots=True)
class Witnesses:
    """Which witnesses of the policy saw which checkpoint, and when."""

    policy: Policy | None
    sound: list[SignedCheckpoint]
    transcript: Transcript
    findings: list[Finding] = field(default_factory=list)
    seen: list[tuple[SignedCheckpoint, str, int]] = field(default_factory=list)
    newest: dict[int, int] = field(default_factory=dict)

    def read(self) -> None:
        """Verify every line of a witness of the policy; only cosignature/v1 counts (7.1)."""
        if self.policy is None:
            return
        for signed in self.sound:
            for name, key in self.policy.witnesses.items():
                if not any((line.name, line.key_id) == (key.name, key.key_id) for line in signed.note.signatures):
                    continue
                try:
                    verified = open_note(signed.note, [key]).verified
                except VerifierError as error:
                    text = f"the cosignature of {name} is not valid: {error.message}"
                    self.findings.append(Finding(ClaimName.WITNESSED, "7.1", text))
                    continue
                if key.type == COSIGNATURE_V1:
                    times = [item.timestamp for item in verified if item.timestamp]
                    self.seen += [(signed, name, time) for time in times]

    def satisfied_by(self, names: set[str]) -> bool:
        """Whether these witnesses are a quorum; the policy `quorum none` proves nothing about anybody."""
        return self.policy is not None and bool(names) and self.policy.satisfied(names)

    def covering(self, index: int) -> set[str]:
        """The witnesses that cosigned a checkpoint which covers the leaf at index."""
        return {name for signed, name, _ in self.seen if signed.checkpoint.size > index}

    def before(self, index: int, deadline: int, chains: Mapping[bytes, ChainInfo]) -> dict[str, int]:
        """Witnesses that saw the anchor at index before deadline (ms), with their smallest usable times in s (7.1)."""
        first: dict[str, int] = {}
        for signed, name, time in self.seen:
            size = signed.checkpoint.size
            if size not in self.newest:
                below = (event.entry for event in self.transcript.events if event.index < size)
                self.newest[size] = max((rules.signature_time(entry, chains) for entry in below), default=0)
            if size > index and 1000 * time >= self.newest[size]:
                first[name] = min(time, first.get(name, time))
        return {name: time for name, time in first.items() if 1000 * time < deadline}
