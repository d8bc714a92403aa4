"""One draw of a session in the steps that its reader can redo with any tool for SHA-256 (PROTOCOL.md, 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from beacon.sessions.state import SessionState
from beacon.web.pages.outcomes import Outcome, is_costly, outcome_of
from verifier import entries
from verifier.draws import Deal
from verifier.encoding import encode_json, lp, u32, u64
from verifier.errors import VerificationError
from verifier.redo import Step, redo
from verifier.seeds import binding, contribution_list, opens, session_digest, sha256

MAX_PREIMAGE: Final = 1_024
"""Bytes of what is hashed that are shown; of longer ones only the hash is."""
MAX_STEPS: Final = 12

Parsed: TypeAlias = tuple[int, entries.Entry]
"""A log index and the entry there."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """What is hashed, in hex or empty where it is too long, and its SHA-256 (or HMAC), in hex. size: its bytes."""

    text: str
    size: int
    hash: str

    @classmethod
    def of(cls, data: bytes, result: bytes) -> Hashed:
        return cls(data.hex() if len(data) <= MAX_PREIMAGE else "", len(data), result.hex())


@dataclass(frozen=True, slots=True)
class ByHand:
    """The steps to one draw. k: its number in a live session, 0 in a match.

    opens: whether the seed opens the commitment. more: how many numbers of the stream are not shown. same: whether the
    log says the same.
    """

    recipe: str
    n: int
    k: int
    purpose: str
    index: int
    seed: str
    commitment: str
    opens: bool
    round: int
    randomness: Hashed
    digest: Hashed
    binding: Hashed
    block: Hashed
    steps: tuple[Step, ...]
    more: int
    dice: bool
    outcome: Outcome
    logged: Outcome
    same: bool


@dataclass(frozen=True, slots=True)
class _Chosen:
    draw: entries.Draw
    index: int
    k: int
    called: tuple[tuple[str, bytes], ...]
    seed: bytes
    round: int
    signature: bytes


def by_hand(state: SessionState, events: Sequence[Parsed]) -> ByHand | None:
    """The first draw among the entries whose seed and round are known, made again; None where there is none."""
    for chosen in _candidates(state, events):
        recipe = state.seal.recipes[chosen.draw.recipe]
        if not is_costly(recipe, chosen.draw.n):
            return _made(state, chosen)
    return None


def _candidates(state: SessionState, parsed: Sequence[Parsed]) -> list[_Chosen]:
    draws = [(index, entry) for index, entry in parsed if isinstance(entry, entries.Draw)]
    if not state.live:
        seed, number = None if state.end is None else state.end.seed, state.seal.round
        if seed is None or state.round is None or number is None:
            return []
        return [_Chosen(draw, index, 0, (), seed, number, state.round.signature) for index, draw in draws]
    calls = {entry.draw: entry for _, entry in parsed if isinstance(entry, entries.Call)}
    all_rounds = (entry for _, entry in parsed if isinstance(entry, entries.Round))
    rounds = {entry.round: entry for entry in all_rounds if entry.chain == state.seal.chain}
    found = []
    for index, draw in draws:
        call = calls.get(draw.draw or 0)
        used = None if call is None else rounds.get(call.round)
        continued = draw.n > 1 and isinstance(state.seal.recipes[draw.recipe], Deal)
        if call is not None and used is not None and draw.seed is not None and not continued:
            called = tuple((one.participant, one.entropy) for one in call.contributions)
            found.append(_Chosen(draw, index, call.draw, called, draw.seed, call.round, used.signature))
    return found


def _made(state: SessionState, chosen: _Chosen) -> ByHand | None:
    draw, seed, contributions = chosen.draw, chosen.seed, state.contributions.items()
    recipe = state.seal.recipes[draw.recipe]
    digest, randomness = session_digest(state.session, contributions), sha256(chosen.signature)
    bound = binding(digest, chosen.k, chosen.called, chosen.round, randomness)
    try:
        redone = redo(lambda _n: (seed, bound), draw.recipe, recipe, draw.n)
    except VerificationError:
        return None
    session = lp(b"fair-beacon/v1/session") + state.session + contribution_list(contributions)
    called = digest + u32(chosen.k) + contribution_list(chosen.called)
    made = lp(b"fair-beacon/v1/binding") + called + u64(chosen.round) + randomness
    message = bound + lp(draw.recipe.encode()) + u32(draw.n) + u32(0)
    logged = draw.outcomes[0]
    return ByHand(
        recipe=draw.recipe,
        n=draw.n,
        k=chosen.k,
        purpose=draw.purpose,
        index=chosen.index,
        seed=seed.hex(),
        commitment=state.seal.commitment.hex(),
        opens=opens(seed, max(chosen.k, 1), state.seal.commitment),
        round=chosen.round,
        randomness=Hashed.of(chosen.signature, randomness),
        digest=Hashed.of(session, digest),
        binding=Hashed.of(made, bound),
        block=Hashed.of(message, redone.word),
        steps=redone.steps[:MAX_STEPS],
        more=max(0, len(redone.steps) - MAX_STEPS),
        dice=redone.dice,
        outcome=outcome_of(recipe, redone.value),
        logged=outcome_of(recipe, logged),
        same=encode_json([redone.value]) == encode_json([logged]),
    )
