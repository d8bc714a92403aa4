"""One session of a log that was read whole, judged by the verifier's own procedure, in any process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from verifier import entries
from verifier.audit.state import Found
from verifier.bls.verify import best_backend
from verifier.check import Trust, check_read
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round
from verifier.encoding import Json
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.evidence import ReadLog, Sighting
from verifier.headline import proven
from verifier.note import VerifierKey
from verifier.session import collect
from verifier.statistics.counts import Counts, of_session
from verifier.transcript import Event, SignedCheckpoint, Transcript
from verifier.verdict import Exit, State, Verdict

_SHARED: Final = (b'"type":"seal"', b'"type":"round"')
_CACHED: Final = 1_024
_CACHED_BYTES: Final = 4_096
_cached: Final = lru_cache(maxsize=_CACHED)(entries.parse_entry)


def parse(data: bytes) -> entries.Entry:
    """The entry of these exact bytes. Seals and rounds, which are asked for several times, are kept for a while."""
    shared = len(data) <= _CACHED_BYTES and any(kind in data for kind in _SHARED)
    return _cached(data) if shared else entries.parse_entry(data)


Stated: TypeAlias = tuple[bytes, int, bytes, bytes]
"""(chain hash, round, signature, previous signature or b"")."""


@dataclass(frozen=True, slots=True)
class Known:
    """What all sessions of one audit have in common. vkey: the log's key, or a stand-in where none was given."""

    trust: Trust
    signed: SignedCheckpoint
    vkey: VerifierKey
    infos: Mapping[bytes, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class Job:
    """A session to judge. events: (index, entry) of its own entries, in log order, and of the rounds that it uses.

    known, seen: as of evidence.ReadLog. rounds: why a stated round is false, None where it is true.
    lock: the signature of the timelock's round, where the log has one that is true.
    """

    session: bytes
    host: str
    chain: bytes
    events: tuple[tuple[int, bytes], ...]
    known: tuple[tuple[int, int], ...]
    rounds: Mapping[Stated, str | None]
    seen: tuple[Sighting, ...] = ()
    lock: Stated | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What a session showed. late, fair: of its verdict; proven: fair, and nobody's word is needed for its order.

    undecided: why an ended one could not be decided; counts: what its dice showed; None where it cannot be read.
    """

    host: str
    found: list[Found] = field(default_factory=list)
    late: bool = False
    fair: bool = False
    proven: bool = False
    undecided: str | None = None
    counts: Counts | None = None
    sandbox: bool = False


def judge(known: Known, job: Job) -> Judged:
    """Judge one session. Raises nothing for what its entries hold, StateError where they are not the session's."""
    session = job.session.hex()
    judged: list[Found] = []
    events = []
    for index, data in job.events:
        try:
            events.append(Event(index, data, parse(data), ()))
        except VerifierError as error:
            judged.append(Found("log", "3", str(error), index, session, job.host))
    signed = known.signed
    info = known.infos.get(job.chain, {})
    transcript = Transcript(signed.checkpoint.origin, known.vkey, info, tuple(events), signed=signed)
    try:
        read = collect(transcript)
        assert read is not None
        log = ReadLog(
            transcript, read, known.trust.log_key is not None, job.known, job.seen, _opening(known.trust, job)
        )
        verdict = check_read(log, known.trust, _verifying(job.rounds), best_backend())
    except FormatError as error:
        return Judged(job.host, [*judged, Found("log", "3", str(error), events[0].index, session, job.host)])
    judged += _found(verdict, session, job.host, read.seal.index)
    late = [remark for remark in verdict.remarks if remark.startswith("Late:")]
    judged += [
        Found("host", "6.3", remark, read.seal.index, session, job.host, grave=False) for remark in dict.fromkeys(late)
    ]
    ended = read.reveal is not None
    undecided = verdict.headline if ended and verdict.exit == Exit.UNDECIDED else None
    fair = verdict.exit == Exit.FAIR
    seal = read.seal.entry
    counts = of_session(seal.recipes, (draw.entry for draw in read.draws))
    return Judged(job.host, judged, bool(late), fair, fair and proven(verdict.claims), undecided, counts, seal.sandbox)


def _opening(trust: Trust, job: Job) -> VerifiedRound | None:
    if job.lock is None:
        return None
    chain, number, signature, previous = job.lock
    return VerifiedRound(trust.chains[chain], number, signature, previous or None) if chain in trust.chains else None


def _found(verdict: Verdict, session: str, host: str, index: int) -> list[Found]:
    failed = [claim for claim in verdict.claims if claim.state == State.FAILED]
    if not failed and verdict.exit == Exit.FAILED:
        return [Found("custody", "6.12", "given up: the seed was never revealed", index, session, host)]
    return [
        Found(claim.name, finding.rule, finding.text, finding.index, session, host)
        for claim in failed
        for finding in claim.findings
    ]


def _verifying(rounds: Mapping[Stated, str | None]) -> Callable[[ChainInfo, Round], VerifiedRound]:
    def verify(chain: ChainInfo, stated: Round) -> VerifiedRound:
        key = (chain.hash, stated.round, stated.signature, stated.previous_signature or b"")
        if key not in rounds:
            return verify_round(chain, stated, best_backend())
        error = rounds[key]
        if error is None:
            return VerifiedRound(chain, stated.round, stated.signature, stated.previous_signature)
        code, _, message = error.partition(": ")
        raise (VerificationError if code == Code.ROUND_SIGNATURE else FormatError)(Code(code), message)

    return verify
