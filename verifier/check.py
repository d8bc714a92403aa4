"""The procedure: a document's bytes and what the verifier trusts go in, a Verdict comes out (PROTOCOL.md, 7 and 8).

No key is taken from the document (7.4). The claims are worked out one by one; a claim FAILS by the
findings of its rules, and otherwise is PROVEN, TRUSTED (whom) or UNKNOWN (what is missing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from verifier import entries, headline, rules
from verifier.drand import ChainInfo, Round, verify_round
from verifier.draws import Dealer, Outcome
from verifier.encoding import Json, encode_json
from verifier.errors import FormatError, VerificationError
from verifier.evidence import LogClaim, Witnesses
from verifier.note import VerifierKey
from verifier.policy import Policy
from verifier.seeds import Stream, binding, opens, session_digest, sha256
from verifier.session import Logged, Session, collect
from verifier.transcript import Transcript, parse_transcript, rounds_used
from verifier.verdict import Claim, ClaimName, Finding, State, Verdict


@dataclass(frozen=True, slots=True)
class Trust:
    """What the verifier was given: log key, pinned chains by hash, witness policy, attachments' SHA-256 by name."""

    log_key: VerifierKey | None = None
    chains: Mapping[bytes, ChainInfo] = field(default_factory=dict, hash=False)
    policy: Policy | None = None
    attachments: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    sandbox: bool = False
    require_proven: bool = False


def check(document: bytes, trust: Trust) -> Verdict:
    """The verdict on a transcript or receipt. Raises FormatError for unusable input (exit 3)."""
    transcript = parse_transcript(document)
    session = collect(transcript)
    if session is None:
        log = LogClaim(transcript, None, trust.log_key, trust.policy)
        return headline.receipt(log.claim(), transcript)
    return _Check(transcript, session, trust).verdict()


class _Check:
    """One session's check. Every method named after a claim returns that claim."""

    def __init__(self, transcript: Transcript, session: Session, trust: Trust) -> None:
        self.transcript = transcript
        self.session = session
        self.trust = trust
        self.seal = session.seal.entry
        self.chain = trust.chains.get(self.seal.chain)
        self.findings: list[Finding] = [finding for finding in session.findings if finding.claim != ClaimName.LOG]
        self.log = LogClaim(transcript, session, trust.log_key, trust.policy)
        self.remarks: list[str] = list(rules.remarks(session, self.chain)) if self.chain is not None else []
        self.outcomes: list[dict[str, Json]] = []

    def verdict(self) -> Verdict:
        log = self.log.claim()
        self.witnesses = Witnesses(self.trust.policy, self.log.sound, self.transcript)
        self.witnesses.read()
        self.findings += self.witnesses.findings
        self._apply_rules()
        claims = (
            log,
            self._claim(ClaimName.ROUND, self._round),
            self._claim(ClaimName.UNPREDICTABLE, lambda: self._unpredictable(log)),
            self._claim(ClaimName.SEED, self._seed),
            self._claim(ClaimName.OUTCOMES, self._outcomes),
            self._claim(ClaimName.COMPLETE, self._complete),
            self._claim(ClaimName.SOLE, self._sole),
            self._claim(ClaimName.CONTRIBUTIONS, self._contributions),
            self._claim(ClaimName.CUSTODY, self._custody),
            self._claim(ClaimName.ATTACHMENTS, self._attachments),
            self._claim(ClaimName.WITNESSED, self._witnessed),
        )
        return headline.conclude(
            self.session,
            claims,
            self.remarks,
            self.outcomes,
            sandbox_asked=self.trust.sandbox,
            require_proven=self.trust.require_proven,
        )

    def _apply_rules(self) -> None:
        session, events, chain = self.session, self.transcript.events, self.chain
        self.findings += rules.retired(session, self.trust.chains)
        self.findings += rules.log_clock(events, self.trust.chains)
        self.findings += rules.draw_times(session)
        self.findings += rules.contributions(session)
        self.findings += rules.close_times(session, chain)
        self.findings += rules.live_draws(session)
        self.findings += rules.anchors(session, events)
        self.findings += rules.complete(session)
        if chain is not None:
            self.findings += rules.seal_times(session, chain)
            self.findings += rules.calls(session, chain)
            self.findings += rules.void(session, events, chain)
        timelock_chain = self.trust.chains.get(self.seal.timelock.chain) if self.seal.timelock else None
        if timelock_chain is not None:
            self.findings += rules.timelock_times(session, timelock_chain)

    def _claim(self, name: ClaimName, work_out: Callable[[], tuple[State, str]]) -> Claim:
        state, text = work_out()
        findings = [finding for finding in self.findings if finding.claim == name]
        return Claim.failed(name, findings) if findings else Claim(name, state, text)

    def _fail(self, claim: ClaimName, rule: str, text: str, index: int | None = None) -> None:
        self.findings.append(Finding(claim, rule, text, index))

    # --- round -------------------------------------------------------------------------------------------------

    def _round(self) -> tuple[State, str]:
        if self.chain is None:
            return State.UNKNOWN, f"the drand chain {self.seal.chain.hex()[:16]}... was not given (--chain)"
        if encode_json(dict(sorted(self.transcript.info.items()))) != encode_json(
            dict(sorted(self.chain.as_dict().items()))
        ):
            self._fail(ClaimName.ROUND, "2.5", "the document's chain is not the pinned one")
        after = self.seal.after
        self._verify(Round(after.round, after.signature, after.previous_signature), self.chain, self.session.seal.index)
        checked = 0
        for name, number in sorted(rounds_used(self.transcript)):
            chain, event = self.trust.chains.get(name), self.session.rounds.get((name, number))
            if chain is None or event is None:
                continue
            entry = event.entry
            self._verify(Round(entry.round, entry.signature, entry.previous_signature), chain, event.index)
            checked += name == self.seal.chain
        missing = [number for number in self._needed_rounds() if self.session.round_of(number) is None]
        if missing:
            return State.UNKNOWN, f"round {missing[0]} is not in the document"
        if not checked:
            return State.UNKNOWN, "no round is due yet"
        text = f"{checked} round{'s' * (checked > 1)} of {self.chain.beacon_id} under the pinned key"
        return State.PROVEN, text

    def _needed_rounds(self) -> list[int]:
        if self.seal.round is not None:
            return [self.seal.round]
        return sorted({call.entry.round for call in self.session.calls.values()})

    def _verify(self, stated: Round, chain: ChainInfo, index: int) -> None:
        try:
            verify_round(chain, stated)
        except VerificationError as error:
            self._fail(ClaimName.ROUND, "2.5", f"round {stated.round}: {error.message}", index)
        except FormatError as error:
            self._fail(ClaimName.ROUND, "2.6", f"round {stated.round}: {error.message}", index)

    # --- unpredictable -----------------------------------------------------------------------------------------

    def _unpredictable(self, log: Claim) -> tuple[State, str]:
        anchors = self._anchors()
        if self.chain is None:
            return State.UNKNOWN, "without the chain nobody can say when a round came"
        if not anchors:
            return State.UNKNOWN, "nothing is pinned yet"
        witnesses: set[str] = set()
        early: list[int] = []
        for index, number in anchors:
            seen = self.witnesses.before(index, self.chain.time(number), self.trust.chains)
            if log.state != State.PROVEN or not self.witnesses.satisfied_by(set(seen)):
                text = "by the operator's clock it was all pinned before the round; no quorum of witnesses"
                return State.TRUSTED, f"{text} saw entry {index} before round {number}"
            witnesses |= seen.keys()
            early.append(max(seen.values()))
        text = f"{', '.join(sorted(witnesses))} saw what the outcomes rest on before the round"
        return State.PROVEN, f"{text} (at {', '.join(str(time) for time in early)}, seconds since 1970)"

    def _anchors(self) -> list[tuple[int, int]]:
        if self.session.live:
            return [(call.index, call.entry.round) for call in self.session.calls.values()]
        anchor: Logged[entries.Entry] | None = self.session.anchor
        void = self.session.void
        if void is not None and void.entry.reason in {"host", "below-minimum"}:
            anchor = void
        return [(anchor.index, self.seal.round)] if anchor is not None and self.seal.round is not None else []

    # --- seed and outcomes -------------------------------------------------------------------------------------

    def _seed(self) -> tuple[State, str]:
        session, shown = self.session, 0
        known, link = 0, self.seal.commitment
        for draw in sorted(session.draws, key=lambda draw: draw.entry.draw or 0):
            if draw.entry.seed is None or draw.entry.draw is None:
                continue
            shown += 1
            if draw.entry.draw <= entries.MAX_LINKS and opens(draw.entry.seed, draw.entry.draw - known, link):
                known, link = draw.entry.draw, draw.entry.seed
            else:
                text = f"link {draw.entry.draw} is not of the sealed chain"
                self._fail(ClaimName.SEED, "4.1", text, draw.index)
        links = len(session.calls) if session.live else 1
        end = session.end
        if end is not None:
            seed = end.entry.seed
            if seed is not None:
                shown += 1
                if not known <= links <= entries.MAX_LINKS or links == 0 or not opens(seed, links - known, link):
                    self._fail(ClaimName.SEED, "4.1", "the seed does not open the commitment", end.index)
            elif session.reveal is not None and links > 0:
                self._fail(ClaimName.SEED, "4.1", "revealed without a seed", end.index)
        if not shown:
            return State.UNKNOWN, "no seed has been shown"
        return State.PROVEN, "what was revealed opens the commitment of the seal"

    def _outcomes(self) -> tuple[State, str]:
        session = self.session
        if not session.draws:
            return State.UNKNOWN, "nothing was drawn"
        missing = None
        dealer, drawn = Dealer(), 0
        for draw in session.draws:
            call = session.call_of(draw.entry.draw)
            event = session.round_of(self.seal.round if call is None else call.entry.round)
            seed = draw.entry.seed if session.live else session.end.entry.seed if session.end is not None else None
            if event is None or seed is None or (session.live and call is None):
                missing = "the seed" if seed is None else "a round"
                continue
            bound = self._binding(call, event)
            for n, claimed in enumerate(draw.entry.outcomes, draw.entry.n):
                self._redraw(dealer, draw, n, claimed, Stream(seed, bound, draw.entry.recipe, n))
                drawn += 1
        if missing is not None:
            return State.UNKNOWN, f"{missing} that the draws rest on has not been shown"
        return (
            State.PROVEN,
            f"{drawn} draw{'s' * (drawn != 1)} recomputed from the seed, the round and the contributions",
        )

    def _binding(self, call: Logged[entries.Call] | None, event: Logged[entries.Round]) -> bytes:
        contributed = [(item.entry.participant, item.entry.entropy) for item in self.session.contributions]
        digest = session_digest(self.session.seal.leaf, contributed)
        items = call.entry.contributions if call is not None else ()
        called = [(item.participant, item.entropy) for item in items]
        k = call.entry.draw if call is not None else 0
        return binding(digest, k, called, event.entry.round, sha256(event.entry.signature))

    def _redraw(self, dealer: Dealer, draw: Logged[entries.Draw], n: int, claimed: Json, stream: Stream) -> None:
        name = draw.entry.recipe
        recipe = self.seal.recipes.get(name)
        if recipe is None:
            self._fail(ClaimName.OUTCOMES, "5.2", f"{name} is no recipe of the seal", draw.index)
            return
        try:
            outcome: Outcome = dealer.draw(name, recipe, stream)
        except VerificationError as error:
            self._fail(ClaimName.OUTCOMES, "5.2", f"{name} {n}: {error.message}", draw.index)
            return
        row: dict[str, Json] = {"recipe": name, "n": n, "purpose": draw.entry.purpose, "outcome": claimed}
        self.outcomes.append(row)
        if encode_json([outcome]) != encode_json([claimed]):
            text = f"{name} {n} is {_short(outcome)}, the transcript says {_short(claimed)}"
            self._fail(ClaimName.OUTCOMES, "5.2", text, draw.index)

    # --- complete, sole, contributions, custody ----------------------------------------------------------------

    def _complete(self) -> tuple[State, str]:
        if self.session.end is None:
            return State.UNKNOWN, "the session is still open"
        if any(self.session.round_of(number) is None for number in self._needed_rounds()) and self.session.draws:
            return State.UNKNOWN, "a round that the draws rest on is not in the document"
        return State.PROVEN, "numbers without gaps, counts and digest agree, nothing after the end"

    def _sole(self) -> tuple[State, str]:
        end = self.session.end
        if end is not None and self.transcript.consecutive and self._quorum_covers(end.index):
            return State.PROVEN, "every leaf from the seal to the end was read, under a witnessed checkpoint"
        text = "the operator says that its log holds nothing else of this session (an audit of the log proves it)"
        return State.TRUSTED, text

    def _quorum_covers(self, index: int) -> bool:
        return self.witnesses.satisfied_by(self.witnesses.covering(index))

    def _contributions(self) -> tuple[State, str]:
        items: list[entries.Contribution | entries.CallContribution] = [
            event.entry for event in self.session.contributions
        ]
        items += [item for call in self.session.calls.values() for item in call.entry.contributions]
        relayed = sorted({item.participant for item in items if item.signature is None})
        signed = sorted({item.participant for item in items if item.signature is not None})
        if relayed:
            text = f"the host {self.seal.host} relayed {_names(relayed)}"
            return State.TRUSTED, text + (f"; {_names(signed)} signed" if signed else "")
        if signed:
            return State.PROVEN, f"{_names(signed)} signed"
        if self.seal.close_at is not None and self.session.close is None and self.session.end is None:
            return State.UNKNOWN, "contributions are not closed yet"
        return State.PROVEN, "no participant took part"

    def _custody(self) -> tuple[State, str]:
        holder = f"the host {self.seal.host}" if self.seal.custody == "host" else "the operator"
        alike = rules_alike(self.seal)
        self.remarks += [
            f"Recipes {a} and {b} have the same distribution: who knows the seed may choose." for a, b in alike
        ]
        if self.seal.timelock is not None:
            text = f"sealed by timelock to round {self.seal.timelock.round}; this verifier does not open timelocks yet"
            return State.UNKNOWN, text
        void = self.session.void
        if void is not None:
            return State.TRUSTED, f"void ({void.entry.reason}): {holder} is trusted that it could not be finished"
        if self.session.live:
            return State.TRUSTED, f"{holder} could refuse a draw, but know none before its round"
        text = f"{holder} held the seed: it could know every draw from the round on, and refuse to reveal"
        return State.TRUSTED, text

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

    def _witnessed(self) -> tuple[State, str]:
        if self.trust.policy is None:
            return State.UNKNOWN, "no witness policy was given (--policy)"
        last = self.transcript.events[-1].index
        names = self.witnesses.covering(last)
        if self._quorum_covers(last):
            return State.PROVEN, f"{', '.join(sorted(names))} cosigned a checkpoint that covers every entry shown"
        return State.TRUSTED, "the operator alone: no quorum of the policy's witnesses cosigned what is shown"


def rules_alike(seal: entries.Seal) -> Iterator[tuple[str, str]]:
    """Pairs of recipe names of equal distribution (section 8, `custody`)."""
    names = list(seal.recipes)
    for position, name in enumerate(names):
        for other in names[position + 1 :]:
            if seal.recipes[name] == seal.recipes[other]:
                yield name, other


def _names(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _short(outcome: Json | Outcome) -> str:
    text = encode_json([outcome]).decode()[1:-1]
    return text if len(text) <= 60 else text[:57] + "..."
