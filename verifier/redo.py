"""One draw made again so that people can follow it byte by byte (PROTOCOL.md, sections 4 and 5).

Nothing is decided here about the log, the round's signature or the seal's commitment: that is what `check` is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from verifier import entries
from verifier.draws import Deal, Deck, Dice, Outcome, Recipe, draw
from verifier.encoding import Json, encode_json
from verifier.errors import Code, FormatError, VerificationError
from verifier.keccak import keccak256
from verifier.outcomes import Keys, keys, revealed
from verifier.seeds import Stream, rejection_limit, seed_chain
from verifier.session import Logged, Session, collect
from verifier.transcript import Transcript
from verifier.verdict import Exit

MAX_STEPS: Final = 40
KECCAK_LIMIT: Final = 252
WORD_BYTES: Final = 32

KeysOf = Callable[[int], tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Step:
    """One number taken for uniform(n): `data` at the offset `at`, its `value`, and what came of it (5.1).

    Numbers from `limit` on are rejected: `result` is None. Of dice, `result` is the die; `tied`: it was rolled again.
    """

    at: int
    data: bytes
    n: int
    limit: int
    result: int | None
    tied: bool = False

    @property
    def value(self) -> int:
        return int.from_bytes(self.data, "big")

    @property
    def kept(self) -> bool:
        return self.result is not None and not self.tied

    def as_dict(self) -> dict[str, Json]:
        return {
            "at": self.at,
            "bytes": self.data.hex(),
            "value": self.value,
            "n": self.n,
            "limit": self.limit,
            "kept": self.kept,
            "result": self.result,
        }

    def line(self, *, die: bool) -> str:
        """The step in words."""
        end = self.at + len(self.data) - 1
        where = f"byte {self.at}" if end == self.at else f"bytes {self.at}-{end}"
        text = f"{where:<8} {self.data.hex()} = {self.value}: "
        if self.result is None:
            return f"{text}rejected, not below {self.limit}"
        text += f"kept, {self.value} mod {self.n}{' + 1' * die} = {self.result}"
        return f"{text}; then rolled again, since two dice were equal" if self.tied else text


class Traced(Stream):
    """A stream that notes each number that `uniform` takes from it."""

    def __init__(self, seed: bytes, binding: bytes, recipe: str, n: int) -> None:
        super().__init__(seed, binding, recipe, n)
        self.steps: list[Step] = []
        self._n = 0

    def take(self, count: int) -> bytes:
        at = self._position
        data = super().take(count)
        if self._n:
            limit = rejection_limit(count, self._n)
            value = int.from_bytes(data, "big")
            self.steps.append(Step(at, data, self._n, limit, value % self._n if value < limit else None))
        return data

    def uniform(self, n: int) -> int:
        self._n = n
        return super().uniform(n)


@dataclass(frozen=True, slots=True)
class Redone:
    """A draw made again: its stream's blocks, 32 bytes each, the numbers taken from them, the outcome.

    `words` are those that the on-chain mapping hashed on from the first one: its bytes are counted through them all.
    """

    recipe: str
    n: int
    outcome: Outcome
    word: bytes
    blocks: tuple[bytes, ...]
    words: tuple[bytes, ...]
    steps: tuple[Step, ...]
    dice: bool

    @property
    def value(self) -> Json:
        """The outcome as JSON."""
        return list(self.outcome) if isinstance(self.outcome, list) else self.outcome

    def as_dict(self) -> dict[str, Json]:
        return {
            "recipe": self.recipe,
            "n": self.n,
            "word": self.word.hex(),
            "blocks": [block.hex() for block in self.blocks],
            "words": [word.hex() for word in self.words],
            "steps": [step.as_dict() for step in self.steps],
            "outcome": self.value,
        }

    def lines(self) -> Iterator[str]:
        """The stream and its use; the outcome is the caller's to print."""
        yield f"word     {self.word.hex()}"
        yield from (f"block_{j:<3}{block.hex()}" for j, block in enumerate(self.blocks))
        yield from (f"word_{j:<4}{word.hex()}  (Keccak-256 of the one before)" for j, word in enumerate(self.words, 1))
        yield from (step.line(die=self.dice) for step in self.steps[:MAX_STEPS])
        if len(self.steps) > MAX_STEPS:
            yield f"and {len(self.steps) - MAX_STEPS} more numbers (--json has all)"


def redo(keys_of: KeysOf, name: str, recipe: Recipe, n: int) -> Redone:
    """Make draw n again. keys_of(n): (s_k, B), 32 bytes each; a deal asks for those of its earlier draws too.

    Raises VerificationError(DRAW_PAST_END), and whatever keys_of raises.
    """
    deck = Deck(recipe.size) if isinstance(recipe, Deal) else None
    for earlier in range(1, n) if deck is not None else ():
        draw(recipe, Stream(*keys_of(earlier), name, earlier), deck)
    stream = Traced(*keys_of(n), name, n)
    outcome = draw(recipe, stream, deck)
    blocks, words, steps = tuple(stream.blocks), list[bytes](), stream.steps
    if isinstance(recipe, Dice):
        steps = list(_keccak(stream.word, recipe.count, words) if recipe.mapping else _dice(steps, recipe))
    return Redone(name, n, outcome, stream.word, blocks, tuple(words), tuple(steps), isinstance(recipe, Dice))


def _dice(steps: list[Step], recipe: Dice) -> Iterator[Step]:
    """The steps with dice for results, and with every roll but the last one marked where ties are rolled again."""
    kept = sum(step.result is not None for step in steps)
    seen = 0
    for step in steps:
        if step.result is None:
            yield step
            continue
        yield replace(step, result=step.result + 1, tied=seen < kept - recipe.count)
        seen += 1


def _keccak(word: bytes, count: int, words: list[bytes]) -> Iterator[Step]:
    """The bytes that the on-chain mapping uses (5.2); the words that it hashes on to are added to `words`."""
    at = kept = 0
    while kept < count:
        if at and at % WORD_BYTES == 0:
            word = keccak256(word)
            words.append(word)
        byte = word[at % WORD_BYTES]
        die = byte % 6 + 1 if byte < KECCAK_LIMIT else None
        kept += die is not None
        yield Step(at, bytes([byte]), 6, KECCAK_LIMIT, die)
        at += 1


# --- from a transcript -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """One draw of a transcript: what it is keyed with, the draw made again if that can be, what the transcript says.

    k: 0 in a match. digest: S, 32 bytes, once contributions are closed. `same` is None where there is nothing to
    compare; `why` says then what is missing, or why the draw that the transcript claims cannot be.
    """

    recipe: str
    n: int
    k: int
    digest: bytes | None
    keys: Keys
    redone: Redone | None
    claimed: Json
    same: bool | None
    why: str

    @property
    def exit(self) -> Exit:
        return {True: Exit.FAIR, False: Exit.FAILED, None: Exit.UNDECIDED}[self.same]

    def as_dict(self) -> dict[str, Json]:
        made: dict[str, Json] = {"recipe": self.recipe, "n": self.n}
        if self.redone is not None:
            made = self.redone.as_dict()
        return {
            **made,
            "draw": self.k or None,
            **self.keys.as_dict(),
            "session_digest": self.digest.hex() if self.digest is not None else None,
            "transcript": self.claimed,
            "same": self.same,
            "why": self.why,
            "exit": int(self.exit),
        }

    def lines(self) -> Iterator[str]:
        """The outcome and whether the transcript says the same, then what it was made of."""
        yield f"{self.recipe} {self.n}: {_text(self.redone.value) if self.redone is not None else self.why}"
        if self.same:
            yield "The transcript says the same."
        elif self.claimed is not None:
            yield f"The transcript says {_text(self.claimed)}."
        elif self.redone is not None:
            yield f"Nothing to compare: {self.why}."
        given = self.keys.as_dict()
        yield f"seed     {given['seed'] or 'not shown yet'}  (s_{self.k or 1})"
        yield f"S        {self.digest.hex() if self.digest is not None else 'not known before the close'}"
        yield f"B        {given['binding'] or 'not known before the round'}"
        yield from self.redone.lines() if self.redone is not None else ()
        yield "This says nothing about the log, the round's signature or the commitment: `verifier check` does."


def _text(value: Json) -> str:
    return encode_json([value]).decode("utf-8")[1:-1]


class _Missing(Exception):  # noqa: N818 - no error: the document does not show it yet
    """What a draw rests on is not in the document; the message says what."""


class _Keyring:
    """The keys of every draw of a session, as far as the document shows them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._calls: dict[tuple[str, int], Logged[entries.Call]] = {}
        for call in session.calls.values():
            self._calls.setdefault((call.entry.recipe, call.entry.n), call)
        last = revealed(session)
        links = seed_chain(last, len(session.calls)) if last is not None and session.live else []
        self._seeds: dict[int, bytes | None] = dict(enumerate(links))
        self._seeds |= {draw.entry.draw: draw.entry.seed for draw in session.draws if draw.entry.draw is not None}

    def of(self, name: str, n: int) -> tuple[int, Keys]:
        """(k, keys) of draw n of a recipe; k = 0 in a match. Raises _Missing where it was never called."""
        if not self.session.live:
            return 0, keys(self.session, None, revealed(self.session))
        call = self._calls.get((name, n))
        if call is None:
            raise _Missing(f"the transcript has no call of {name} {n}")
        return call.entry.draw, keys(self.session, call, self._seeds.get(call.entry.draw))

    def both(self, name: str, n: int) -> tuple[bytes, bytes]:
        """(s_k, B). Raises _Missing where one of them is not shown."""
        _, key = self.of(name, n)
        if key.seed is None:
            raise _Missing(f"the seed of {name} {n} has not been revealed")
        if key.binding is None:
            raise _Missing(f"the round of {name} {n} is not in the transcript")
        return key.seed, key.binding


def compare(transcript: Transcript, name: str, n: int) -> Compared:
    """Make draw n of a recipe again with what a transcript shows, and compare (match and live).

    Raises FormatError for a receipt of another entry, for a recipe that the seal does not have, and for a deal past its
    deck's end that the transcript does not claim either.
    """
    session = collect(transcript)
    if session is None:
        raise FormatError(Code.DOCUMENT, "a receipt shows one entry; give the session's transcript")
    recipe = session.seal.entry.recipes.get(name)
    if recipe is None:
        known = ", ".join(session.seal.entry.recipes)
        raise FormatError(Code.USAGE, f"--recipe: the seal has no recipe {name!r}; it has {known}")
    claimed, ring = _claimed(session, name, n), _Keyring(session)
    k, shown, redone, why = 0, Keys(None, None), None, ""
    same: bool | None = None
    try:
        k, shown = ring.of(name, n)
        redone = redo(lambda number: ring.both(name, number), name, recipe, n)
    except _Missing as missing:
        why = str(missing)
    except VerificationError as error:
        if claimed is None:
            raise FormatError(Code.USAGE, f"--n: {error.message}") from error
        same, why = False, f"there is no such draw: {error.message}"
    else:
        if claimed is None:
            why = f"the transcript has no draw {name} {n}"
        else:
            same = encode_json([redone.value]) == encode_json([claimed])
    final = session.seal.entry.close_at is None or session.close is not None
    digest = session.digest() if final else None
    return Compared(name, n, k, digest, shown, redone, claimed, same, why)


def _claimed(session: Session, name: str, n: int) -> Json:
    """The outcome that the transcript gives; None if it has no such draw."""
    for logged in session.draws:
        entry = logged.entry
        if entry.recipe == name and 0 <= n - entry.n < len(entry.outcomes):
            return entry.outcomes[n - entry.n]
    return None
