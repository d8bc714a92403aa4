"""The procedure: a document's bytes and what the verifier trusts go in, a Verdict comes out (PROTOCOL.md, 7 and 8).

No key is taken from the document (7.4). The claims are worked out one by one; a claim FAILS by the
findings of its rules, and otherwise is PROVEN, TRUSTED (whom) or UNKNOWN (what is missing).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from verifier import entries, headline, rules, voids
from verifier.bls.verify import REFERENCE, Backend
from verifier.custody import Custody
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round
from verifier.encoding import Json, encode_json
from verifier.errors import Code, FormatError, VerificationError
from verifier.evidence import LogClaim, LogView, ReadLog, Witnesses
from verifier.log_keys import LogTrust
from verifier.outcomes import Outcomes, Seeds, facts, unseen
from verifier.policy import Policy
from verifier.session import Session, collect
from verifier.transcript import Transcript, parse_transcript, rounds_used
from verifier.verdict import Claim, ClaimName, Finding, State, Verdict

MAX_LISTED: Final = 8
MAX_FALSE_ROUNDS: Final = 20
_UNTIED: Final = frozenset({"2.3", "7.2", "7.4"})
Verify: TypeAlias = Callable[[ChainInfo, Round], VerifiedRound]


@dataclass(frozen=True, slots=True)
class Trust:
    """What the verifier was given: log keys, pinned chains by hash, witness policy, attachments' SHA-256 by name."""

    log_key: LogTrust | None = None
    chains: Mapping[bytes, ChainInfo] = field(default_factory=dict, hash=False)
    policy: Policy | None = None
    attachments: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    sandbox: bool = False
    require_proven: bool = False


def check(document: bytes, trust: Trust, verify: Verify = verify_round) -> Verdict:
    """The verdict on a transcript or receipt. Raises FormatError for unusable input (exit 3).

    `verify` is what rounds are verified with: `drand.verify_round`, or what answers and raises as it does.
    """
    transcript = parse_transcript(document)
    session = collect(transcript)
    if session is None:
        log = LogClaim(transcript, None, trust.log_key, trust.policy)
        return headline.receipt(log.claim(), transcript)
    return _Check(transcript, session, trust, verify).verdict()


def check_read(read: ReadLog, trust: Trust, verify: Verify, backend: Backend = REFERENCE) -> Verdict:
    """The verdict on a session of a log that was read whole: its transcript, without proofs, is of the reader's making.

    The events are those of `Transcript`, checked in no other way. backend: what a timelock is opened with.
    """
    return _Check(read.transcript, read.session, trust, verify, read, backend).verdict()


class _Check:
    """One session's check. Every method named after a claim returns that claim."""

    def __init__(
        self,
        transcript: Transcript,
        session: Session,
        trust: Trust,
        verify: Verify,
        read: ReadLog | None = None,
        backend: Backend = REFERENCE,
    ) -> None:
        self.transcript = transcript
        self.session = session
        self.trust = trust
        self.verify_round = verify
        self.seal = session.seal.entry
        self.chain = trust.chains.get(self.seal.chain)
        self.findings: list[Finding] = [finding for finding in session.findings if finding.claim != ClaimName.LOG]
        self.read = read
        self.log: LogView = read or LogClaim(transcript, session, trust.log_key, trust.policy)
        self.backend = backend
        self.remarks: list[str] = list(rules.remarks(session, self.chain))
        self.outcomes = Outcomes(session)
        self.absent: list[str] = []
        self.verified: dict[tuple[bytes, int], VerifiedRound] = {}
        self.unchecked = 0

    def verdict(self) -> Verdict:
        log = self.log.claim()
        self.witnesses = Witnesses(self.trust.policy, self.log.sound, self.transcript)
        if self.read is None:
            self.witnesses.read()
        elif self.log.sound:
            self.witnesses.take(self.read.seen)
        self.findings += self.witnesses.findings
        self._apply_rules()
        claims = (
            log,
            self._round_claim(log),
            self._claim(ClaimName.UNPREDICTABLE, lambda: self._unpredictable(log)),
            self._claim(ClaimName.SEED, self._seed),
            self._claim(ClaimName.OUTCOMES, self._outcomes),
            self._claim(ClaimName.COMPLETE, self._complete),
            self._claim(ClaimName.SOLE, lambda: self._sole(log)),
            self._claim(ClaimName.CONTRIBUTIONS, self._contributions),
            self._claim(ClaimName.CUSTODY, self._custody),
            self._claim(ClaimName.ATTACHMENTS, self._attachments),
            self._claim(ClaimName.WITNESSED, lambda: self._witnessed(log)),
        )
        return headline.conclude(
            self.session,
            claims,
            self.remarks,
            self.outcomes.rows,
            unseen=unseen(self.session),
            facts={"absent": [*self.absent], **facts(self.session)},
            sandbox_asked=self.trust.sandbox,
            require_proven=self.trust.require_proven,
        )

    def _apply_rules(self) -> None:
        session, events, chain = self.session, self.transcript.events, self.chain
        known = self.read.known if self.read is not None else tuple(rules.signatures(events, self.seal.chain))
        self.findings += rules.retired(session, self.trust.chains)
        self.findings += rules.log_clock(events, self.trust.chains)
        self.findings += rules.draw_times(session)
        self.findings += rules.contributions(session)
        self.findings += rules.close_times(session, chain)
        self.findings += rules.live_draws(session)
        self.findings += rules.anchored_before(session, known)
        self.findings += rules.complete(session)
        self.findings += rules.seal_times(session, chain)
        self.findings += rules.calls(session, chain)
        self.findings += voids.void(session, known, chain)
        timelock_chain = self.trust.chains.get(self.seal.timelock.chain) if self.seal.timelock else None
        if timelock_chain is not None:
            self.findings += rules.timelock(session, timelock_chain)

    def _claim(self, name: ClaimName, work_out: Callable[[], tuple[State, str]]) -> Claim:
        state, text = work_out()
        findings = [finding for finding in self.findings if finding.claim == name]
        return Claim.failed(name, findings) if findings else Claim(name, state, text)

    def _fail(self, claim: ClaimName, rule: str, text: str, index: int | None = None) -> None:
        self.findings.append(Finding(claim, rule, text, index))

    # --- round -------------------------------------------------------------------------------------------------

    def _round_claim(self, log: Claim) -> Claim:
        claim = self._claim(ClaimName.ROUND, lambda: self._round(log))
        if claim.state != State.FAILED or not self.unchecked:
            return claim
        return replace(claim, text=f"{claim.text}, and {self.unchecked} more not checked")

    def _round(self, log: Claim) -> tuple[State, str]:
        if self.chain is not None and self.read is None and not _same_info(self.transcript.info, self.chain):
            self._fail(ClaimName.ROUND, "2.5", "the document's chain is not the pinned one")
        self._verify_all(self._stated_rounds(), log)
        if self.chain is None:
            return State.UNKNOWN, f"the drand chain {self.seal.chain.hex()[:16]}... was not given (--chain)"
        if self.unchecked:
            return State.UNKNOWN, f"{self.unchecked} rounds were not checked, since the log does not vouch for them"
        needed = self._needed_rounds()
        missing = [number for number in needed if self.session.round_of(number) is None]
        if missing:
            return State.UNKNOWN, f"round {missing[0]} is not in the document"
        if not needed:
            return State.UNKNOWN, "no round is due yet"
        text = f"{len(needed)} round{'s' * (len(needed) > 1)} of {self.chain.beacon_id} under the pinned key"
        return State.PROVEN, text

    def _stated_rounds(self) -> list[tuple[Round, ChainInfo, int]]:
        """(round, its chain, log index) of the seal's `after`, then of every shown round that the session uses.

        Those of chains that were not given are left out.
        """
        after, found = self.seal.after, []
        if self.chain is not None:
            stated = Round(after.round, after.signature, after.previous_signature)
            found.append((stated, self.chain, self.session.seal.index))
        for name, number in sorted(rounds_used(self.transcript)):
            trusted, event = self.trust.chains.get(name), self.session.rounds.get((name, number))
            if trusted is not None and event is not None:
                entry = event.entry
                found.append((Round(entry.round, entry.signature, entry.previous_signature), trusted, event.index))
        return found

    def _verify_all(self, stated: Sequence[tuple[Round, ChainInfo, int]], log: Claim) -> None:
        """Verify the rounds, each a third of a second, but no further where the answer is no already.

        That is after MAX_FALSE_ROUNDS false ones, or before the first of so many rounds if the log's signature or an
        inclusion proof fails: anybody can write such a document. `unchecked` is how many are left.
        """
        many = len(stated) > MAX_FALSE_ROUNDS
        if many and any(finding.rule in _UNTIED for finding in log.findings):
            self.unchecked = len(stated)
            return
        false = 0
        for done, one in enumerate(stated):
            if false == MAX_FALSE_ROUNDS:
                self.unchecked = len(stated) - done
                return
            false += not self._verify(*one)

    def _needed_rounds(self) -> list[int]:
        if self.seal.round is not None:
            return [self.seal.round]
        return sorted({call.entry.round for call in self.session.calls.values()})

    def _verify(self, stated: Round, chain: ChainInfo, index: int) -> bool:
        try:
            self.verified[chain.hash, stated.round] = self.verify_round(chain, stated)
        except VerificationError as error:
            self._fail(ClaimName.ROUND, "2.5", f"round {stated.round}: {error.message}", index)
        except FormatError as error:
            rule = "2.6" if error.code == Code.POINT else "2.5"
            self._fail(ClaimName.ROUND, rule, f"round {stated.round}: {error.message}", index)
        else:
            return True
        return False

    # --- unpredictable -----------------------------------------------------------------------------------------

    def _unpredictable(self, log: Claim) -> tuple[State, str]:
        chain = self.chain
        if chain is None:
            return State.UNKNOWN, "without the chain nobody can say when a round came"
        anchors = [(index, number, chain.time(number)) for index, number in self._anchors()]
        if not anchors:
            return State.UNKNOWN, "nothing is pinned yet"
        seen = self.witnesses.before(((index, due) for index, _, due in anchors), self.trust.chains)
        proven = log.state == State.PROVEN
        late = [
            (index, number)
            for index, number, due in anchors
            if not proven or not self.witnesses.satisfied_by(seen[index, due])
        ]
        what = "each call" if self.session.live else "what the outcomes rest on"
        names = sorted({name for index, _, due in anchors for name in seen[index, due]})
        if not late:
            times = ", ".join(str(max(seen[index, due].values())) for index, _, due in anchors[:MAX_LISTED])
            more = ", ..." if len(anchors) > MAX_LISTED else ""
            return State.PROVEN, f"{', '.join(names)} saw {what} before its round (at {times}{more}, s since 1970)"
        listed = ", ".join(f"entry {index} before round {number}" for index, number in late[:MAX_LISTED])
        more = f" and {len(late) - MAX_LISTED} more" if len(late) > MAX_LISTED else ""
        text = f"{what} was pinned before its round by the operator's clock alone; no quorum of witnesses saw"
        return State.TRUSTED, f"{text} {listed}{more}"

    def _anchors(self) -> list[tuple[int, int]]:
        """What must have been seen before its round: of a void match the void, which is an anchor of its own (7.1)."""
        anchors = rules.anchors(self.session)
        return anchors if self.session.live else anchors[-1:]

    # --- seed and outcomes -------------------------------------------------------------------------------------

    def _seed(self) -> tuple[State, str]:
        seeds = Seeds(self.session)
        answer = seeds.claim()
        self.findings += seeds.findings
        return answer

    def _outcomes(self) -> tuple[State, str]:
        answer = self.outcomes.claim()
        self.findings += self.outcomes.findings
        return answer

    # --- complete, sole, contributions, custody ----------------------------------------------------------------

    def _complete(self) -> tuple[State, str]:
        if self.session.end is None:
            return State.UNKNOWN, "the session is still open"
        drawn = bool(self.session.draws) or self.session.reveal is not None
        if drawn and any(self.session.round_of(number) is None for number in self._needed_rounds()):
            return State.UNKNOWN, "a round that the draws rest on is not in the document"
        return State.PROVEN, "numbers without gaps, counts and digest agree, nothing after the end"

    def _sole(self, log: Claim) -> tuple[State, str]:
        end, whole = self.session.end, self.read is not None or self.transcript.consecutive
        if end is not None and whole and log.state == State.PROVEN and self.witnesses.covers(end.index):
            return State.PROVEN, "every leaf from the seal to the end was read, under a witnessed checkpoint"
        text = "the operator says that its log holds nothing else of this session; a document proves it only with every"
        return State.TRUSTED, f"{text} leaf from the seal to the end under a checkpoint that your witnesses cosigned"

    def _contributions(self) -> tuple[State, str]:
        items: list[entries.Contribution | entries.CallContribution] = [
            event.entry for event in self.session.contributions
        ]
        items += [item for call in self.session.calls.values() for item in call.entry.contributions]
        relayed = sorted({item.participant for item in items if item.signature is None})
        signed = sorted({item.participant for item in items if item.signature is not None})
        self._note_absent({*relayed, *signed})
        absent = f"listed but absent: {_names(self.absent)}" if self.absent else ""
        others = f"; {absent}" if absent else ""
        if relayed:
            text = f"the host {self.seal.host} relayed {_names(relayed)}"
            return State.TRUSTED, text + (f"; {_names(signed)} signed" if signed else "") + others
        if signed:
            return State.PROVEN, f"{_names(signed)} signed{others}"
        if self.seal.close_at is not None and self.session.close is None and self.session.end is None:
            return State.UNKNOWN, "contributions are not closed yet"
        return State.PROVEN, "no participant took part" + (f" ({absent})" if absent else "")

    def _note_absent(self, present: set[str]) -> None:
        """Who was listed and did not contribute, once nobody can any more; what cannot be told apart is a remark."""
        seal, session = self.seal, self.session
        if (session.close is None and session.end is None) or (seal.close_at is None and not session.live):
            return
        self.absent = [participant.id for participant in seal.participants if participant.id not in present]
        if self.absent or (seal.close_at is not None and not present):
            self.remarks.append(
                "Who is absent may have sent a contribution: a host that withholds contributions looks the same. "
                f"min_contributions of the seal was {seal.min_contributions}."
            )

    def _custody(self) -> tuple[State, str]:
        lock = self.seal.timelock
        verified = self.verified.get((lock.chain, lock.round)) if lock is not None else None
        if verified is None and self.read is not None:
            verified = self.read.opening
        custody = Custody(self.session, self.trust.chains, verified, self.backend)
        answer = custody.claim()
        self.findings += custody.findings
        self.remarks += custody.remarks
        return answer

    # --- attachments, witnessed --------------------------------------------------------------------------------

    def _attachments(self) -> tuple[State, str]:
        sealed = {attachment.name: attachment.sha256 for attachment in self.seal.attachments}
        for name, digest in self.trust.attachments.items():
            if name not in sealed:
                self._fail(ClaimName.ATTACHMENTS, "3.6", f"{name!r} is not sealed in this session")
            elif sealed[name] != digest:
                self._fail(ClaimName.ATTACHMENTS, "3.6", f"{name!r} is not the file that was sealed")
        if not sealed:
            return State.UNKNOWN, "no attachment is sealed"
        missing = [name for name in sealed if name not in self.trust.attachments]
        if missing:
            return State.UNKNOWN, f"{_names(missing)} was not given (--attachment NAME=FILE)"
        return State.PROVEN, f"{_names(list(sealed))} as sealed"

    def _witnessed(self, log: Claim) -> tuple[State, str]:
        if self.trust.policy is None:
            return State.UNKNOWN, "no witness policy was given (--policy)"
        last = self.transcript.events[-1].index
        names = self.witnesses.covering(last)
        if self.witnesses.covers(last) and log.state == State.PROVEN:
            return State.PROVEN, f"{', '.join(sorted(names))} cosigned a checkpoint that covers every entry shown"
        return State.TRUSTED, "the operator alone: no quorum of the policy's witnesses cosigned what is shown"


def _same_info(info: Mapping[str, Json], chain: ChainInfo) -> bool:
    return encode_json(dict(sorted(info.items()))) == encode_json(dict(sorted(chain.as_dict().items())))


def _names(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
