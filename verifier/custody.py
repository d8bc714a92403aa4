"""The claim `custody`: who could know or refuse what, and whether a timelock opens (PROTOCOL.md 6.12, 7.3, 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from verifier.bls.verify import REFERENCE, Backend
from verifier.drand import ChainInfo, VerifiedRound
from verifier.draws import alike
from verifier.encoding import parse_base64
from verifier.entries import Seal, Timelock
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.seeds import SEED_BYTES, opens
from verifier.session import Session
from verifier.timelock import Ciphertext, can_carry, open_timelock, parse_timelock
from verifier.verdict import ClaimName, Finding, State

_THRESHOLD: Final = "that nobody opened it before rests on drand's threshold not colluding early"


def parse_lock(lock: Timelock, chain: ChainInfo) -> Ciphertext:
    """The ciphertext of a seal's timelock, for the round and chain that the seal names (7.3). Raises FormatError."""
    ciphertext = parse_timelock(parse_base64(lock.ciphertext), chain)
    if ciphertext.round != lock.round:
        raise FormatError(Code.TIMELOCK, f"the ciphertext is to round {ciphertext.round}, the seal says {lock.round}")
    return ciphertext


def open_lock(seal: Seal, verified: VerifiedRound, backend: Backend = REFERENCE) -> bytes:
    """The last link s_N, 32 bytes, of a seal with a timelock, by its round. A worker's time.

    Raises FormatError for a ciphertext that is none or is to another round, VerificationError(DECRYPTION) if it does
    not open, or not to the seal's commitment.
    """
    assert seal.timelock is not None
    seed = open_timelock(parse_lock(seal.timelock, verified.chain), verified, backend)
    if len(seed) != SEED_BYTES or not opens(seed, seal.links, seal.commitment):
        raise VerificationError(Code.DECRYPTION, "what the timelock holds does not open the commitment")
    return seed


@dataclass(slots=True)
class Custody:
    """chains: the pinned ones by hash; verified: the timelock's round, once it is shown and verified."""

    session: Session
    chains: Mapping[bytes, ChainInfo]
    verified: VerifiedRound | None
    backend: Backend = REFERENCE
    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def claim(self) -> tuple[State, str]:
        seal = self.session.seal.entry
        if not self.session.live and seal.plan is None:
            self.remarks += [
                f"Recipes {' and '.join(names)} have the same distribution: who knows the seed may choose between them."
                for names in alike(seal.recipes)
            ]
        if seal.timelock is None:
            return State.TRUSTED, self._held(", and refuse to reveal")
        return self._locked(seal, seal.timelock)

    def _locked(self, seal: Seal, lock: Timelock) -> tuple[State, str]:
        refuse, chain = ", and refuse to reveal", self.chains.get(lock.chain)
        sealed = f"the seed is sealed to round {lock.round}"
        if chain is None:
            return State.UNKNOWN, f"{self._held(refuse)}; {sealed} of a drand chain that was not given (--chain)"
        if not can_carry(chain.scheme):
            self._fail("7.3", f"a chain of {chain.scheme.name} cannot carry a timelock", self.session.seal.index)
            return State.UNKNOWN, sealed
        try:
            parse_lock(lock, chain)
            if self.verified is None:
                text = "not yet; whoever has the round's signature can open it"
                return State.TRUSTED, f"{self._held(refuse)}; {sealed}: {text}"
            open_lock(seal, self.verified, self.backend)
        except VerifierError as error:
            self._fail("7.3", f"{sealed}, and does not open: {error.message}", self.session.seal.index)
            return State.UNKNOWN, sealed
        void = self.session.void
        if void is not None and void.entry.reason == "missed-reveal":
            self._fail("6.12", "void for 'missed-reveal' though the timelock opens to the commitment", void.index)
        return State.TRUSTED, f"{self._held('')}; {sealed}: opens, so nobody can keep the result back; {_THRESHOLD}"

    def _held(self, refuse: str) -> str:
        """Who held the seed, and what that allowed. refuse: how the sentence on a match ends."""
        seal, void = self.session.seal.entry, self.session.void
        holder = f"the host {seal.host}" if seal.custody == "host" else "the operator"
        if void is not None:
            return f"void ({void.entry.reason}): {self._gave_up(void.entry.reason, holder)}"
        if self.session.live:
            return f"{holder} could refuse a draw, but know none before its round"
        return f"{holder} held the seed: it could know every draw from the round on{refuse}"

    def _gave_up(self, reason: str, holder: str) -> str:
        """Whose decision or failure a void was, and what that party is trusted about (6.12)."""
        seal = self.session.seal.entry
        host, due = f"the host {seal.host}", "the first call" if self.session.live else "the round"
        match reason:
            case "host":
                return f"{host} gave the session up by its own decision, before {due}"
            case "below-minimum":
                count, least = len(self.session.contributions), seal.min_contributions
                text = f"{count} of at least {least} contributions came"
                return f"{text}; the operator and {host} are trusted that they kept none back"
            case "missed-close":
                return f"the operator is trusted that it could not close the contributions before {due}"
            case "no-round":
                return "the operator is trusted that it could not have the round at the time"
            case "missed-reveal":
                return f"{holder} held the seed and did not reveal it, though what it needed had come"
            case _:
                return f"{holder} ended the session without a result"

    def _fail(self, rule: str, text: str, index: int) -> None:
        self.findings.append(Finding(ClaimName.CUSTODY, rule, text, index))
