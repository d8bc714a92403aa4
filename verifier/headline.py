"""From claims to one sentence and an exit code (PROTOCOL.md, section 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verifier import entries
from verifier.encoding import Json
from verifier.rules import drawn_counts
from verifier.session import Session
from verifier.transcript import Transcript
from verifier.verdict import NEEDED, Claim, ClaimName, Exit, State, Verdict


def conclude(
    session: Session,
    claims: Sequence[Claim],
    remarks: Sequence[str],
    outcomes: Sequence[dict[str, Json]],
    *,
    unseen: Sequence[dict[str, Json]] = (),
    facts: Mapping[str, Json],
    sandbox_asked: bool,
    require_proven: bool,
) -> Verdict:
    """The verdict on a session whose claims are known. facts: what its `session` says beside the seal and the draws."""
    seal = session.seal.entry
    code, sentence = _decide(session, claims)
    if seal.sandbox:
        sentence = f"A test, not a game: {sentence}"
        if code == Exit.FAIR and not sandbox_asked:
            code = Exit.UNDECIDED
            sentence += " (exit 0 only with --sandbox)"
    if require_proven and code == Exit.FAIR and not proven(claims):
        code = Exit.UNDECIDED
        sentence += " That is less than the proof that --require asks for."
    if seal.replaces is not None:
        sentence = f"Re-run of {seal.replaces.hex()}: {sentence}"
    shown: dict[str, Json] = {
        "session": session.seal.leaf.hex(),
        "host": seal.host,
        "host_seq": seal.host_seq,
        "label": seal.label,
        "profile": seal.profile,
        "custody": seal.custody,
        "sandbox": seal.sandbox,
        "replaces": seal.replaces.hex() if seal.replaces is not None else None,
        **facts,
        "draws": dict(drawn_counts(session)),
        "outcomes": list(outcomes),
        "would_have_been": list(unseen),
    }
    return Verdict(sentence, code, tuple(claims), tuple(remarks), shown)


def receipt(log: Claim, transcript: Transcript) -> Verdict:
    """The verdict on a receipt without its seal: only the log can be asked about."""
    event = transcript.events[0]
    claims = [log]
    text = "a receipt shows one entry; the transcript shows the session"
    claims += [Claim(name, State.UNKNOWN, text) for name in ClaimName if name != ClaimName.LOG]
    known = {
        State.PROVEN: f"A receipt: the {event.entry.type} is entry {event.index} of the log {transcript.origin}.",
        State.UNKNOWN: "A receipt, but the log's key was not given, so nothing is decided.",
    }
    code = Exit.FAILED if log.state == State.FAILED else Exit.UNDECIDED
    return Verdict(known.get(log.state, f"A false receipt: {log.text}."), code, tuple(claims))


def _decide(session: Session, claims: Sequence[Claim]) -> tuple[Exit, str]:
    failed = [claim for claim in claims if claim.state == State.FAILED]
    if failed:
        first = failed[0]
        others = f" ({', '.join(claim.name for claim in failed[1:])} failed too)" if len(failed) > 1 else ""
        return Exit.FAILED, f"Not fair as it stands: {first.name} failed: {first.text}{others}."
    void = session.void
    if void is not None and void.entry.reason == "missed-reveal":
        return Exit.FAILED, "Not fair as it stands: the seed was never revealed, and the session was given up."
    if void is not None:
        return Exit.UNDECIDED, f"No result: the session is void ({void.entry.reason})."
    if session.end is None:
        return Exit.UNDECIDED, "Not decided: the session is still open."
    missing = [claim for claim in claims if claim.name in NEEDED and claim.state != State.PROVEN]
    if missing:
        return Exit.UNDECIDED, f"Not decided: {missing[0].name}: {missing[0].text}."
    if proven(claims):
        return Exit.FAIR, "Proven fair."
    return Exit.FAIR, f"Fair if {_trusted(session.seal.entry, claims)}."


def proven(claims: Sequence[Claim]) -> bool:
    """Whether nobody has to be believed about the order of events, nor about what the log holds of the session."""
    states = {claim.name: claim.state for claim in claims}
    return states[ClaimName.UNPREDICTABLE] == states[ClaimName.SOLE] == State.PROVEN


def _trusted(seal: entries.Seal, claims: Sequence[Claim]) -> str:
    states = {claim.name: claim.state for claim in claims}
    about = []
    if states[ClaimName.UNPREDICTABLE] != State.PROVEN:
        about.append("its clock (that everything was fixed before the round)")
    if states[ClaimName.SOLE] != State.PROVEN:
        about.append("its log (that it holds nothing else of this session)")
    sentence = f"the operator of {seal.log} is honest about {' and '.join(about)}"
    if states[ClaimName.CONTRIBUTIONS] == State.TRUSTED:
        sentence += f" and the host {seal.host} about what the players contributed"
    return sentence
