"""What the SDK takes nobody's word for: receipts, and each live draw as it falls.

A receipt must be of the pinned log, prove its entry, and say what was asked; two checkpoints of one size must have one
root. A live draw must be of its call, open the sealed chain, rest on a round that verifies, and follow from all three.
Whatever does not is raised as Dishonest, with the document that shows it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from verifier import entries
from verifier.drand import VerifiedRound
from verifier.draws import Deal, Deck, draw
from verifier.encoding import Json
from verifier.errors import VerifierError
from verifier.evidence import LogClaim
from verifier.note import VerifierKey
from verifier.seeds import Stream, binding, opens, session_digest
from verifier.session import collect
from verifier.transcript import Event, Transcript, document_bytes, parse_transcript
from verifier.verdict import State

SIZES_KEPT: Final = 1_024


class Dishonest(Exception):  # noqa: N818 - it names who, not what
    """The service, or whoever answers in its name, said what is not so. document: what shows it, as it came."""

    def __init__(self, reason: str, document: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.document: Final = document


class Receipts:
    """Checks receipts of one log, under its pinned key."""

    def __init__(self, log_key: VerifierKey) -> None:
        self.log_key: Final = log_key
        self._roots: Final[OrderedDict[int, bytes]] = OrderedDict()

    def document(self, data: bytes) -> Transcript:
        """A receipt or transcript whose every entry is in the pinned log. Blocks, a long transcript for long.

        Raises Dishonest.
        """
        try:
            transcript = parse_transcript(data)
            claim = LogClaim(transcript, collect(transcript), self.log_key, None).claim()
        except VerifierError as error:
            raise Dishonest(f"the document proves nothing: {error.message}") from error
        if claim.state is not State.PROVEN:
            raise Dishonest(f"the document proves nothing: {claim.text}")
        checkpoint = transcript.signed.checkpoint
        if self._roots.setdefault(checkpoint.size, checkpoint.root) != checkpoint.root:
            raise Dishonest(f"the log has shown two trees of {checkpoint.size} entries")
        while len(self._roots) > SIZES_KEPT:
            self._roots.popitem(last=False)
        return transcript

    def check(self, document: Mapping[str, Json], kind: type[entries.Entry], **says: Any) -> Event:
        """The one event of a receipt. kind, says: what its entry must be, and what its fields must say.

        Raises Dishonest.
        """
        try:
            events = self.document(document_bytes(document)).events
        except Dishonest as error:
            raise Dishonest(str(error), document) from error
        if len(events) != 1:
            raise Dishonest("a receipt has one event", document)
        (event,) = events
        if not isinstance(event.entry, kind):
            raise Dishonest(f"the receipt is of a {event.entry.type}", document)
        for name, value in says.items():
            if getattr(event.entry, name) != value:
                raise Dishonest(f"the receipt's {event.entry.type} has another `{name}` than was asked for", document)
        return event


class LiveDraws:
    """Follows the draws of one live session in order, as long as the caller gives it each one."""

    def __init__(self, session: bytes, seal: entries.Seal) -> None:
        """session: 32 bytes, the leaf hash of the seal."""
        self._session: Final = session
        self._seal: Final = seal
        self._drawn = 0
        self._link = seal.commitment
        self._dealt: Final[dict[str, tuple[int, ...]]] = {}
        self.digest: bytes | None = session_digest(session, ()) if seal.close_at is None else None
        """S, 32 bytes, once contributions are closed."""

    def check(self, call: entries.Call, drawn: entries.Draw, verified: VerifiedRound) -> Any:
        """The outcome of a call's draw, which must be the next. Raises Dishonest."""
        name, recipe = call.recipe, self._seal.recipes[call.recipe]
        asked = (call.draw, call.recipe, call.n, call.purpose)
        if (drawn.draw, drawn.recipe, drawn.n, drawn.purpose) != asked or drawn.seed is None:
            raise Dishonest(f"draw {drawn.draw} is not what call {call.draw} asked for")
        if (verified.chain.hash, verified.round) != (self._seal.chain, call.round):
            raise Dishonest(f"round {verified.round} is not the one that call {call.draw} names")
        if call.draw <= self._drawn or not opens(drawn.seed, call.draw - self._drawn, self._link):
            raise Dishonest(f"the seed of draw {call.draw} is not link {call.draw} of the sealed chain")
        if self.digest is None:
            raise Dishonest("a draw before the contributions were closed")
        contributions = [(item.participant, item.entropy) for item in call.contributions]
        bound = binding(self.digest, call.draw, contributions, call.round, verified.randomness)
        deck = Deck(recipe.size, self._dealt.get(name, ())) if isinstance(recipe, Deal) else None
        outcome = draw(recipe, Stream(drawn.seed, bound, name, call.n), deck)
        if list(drawn.outcomes) != [outcome]:
            raise Dishonest(f"draw {call.draw} should be {outcome}, the service says {drawn.outcomes[0]}")
        if deck is not None:
            self._dealt[name] = (*self._dealt.get(name, ()), *outcome)
        self._drawn, self._link = call.draw, drawn.seed
        return outcome
