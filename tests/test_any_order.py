"""Any order of commands, with clocks that jump, retries, restarts and several callers at once.

After every step: what was refused has left no trace in the log, and what was acknowledged is still there. At the end the
whole log is verified, and so is every transcript: a service that keeps the rules can only be found honest.
"""

import asyncio
import json
import os
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from beacon.errors import ApiError
from beacon.sessions.book import Book, load
from beacon.sessions.context import Key
from tests.log_support import verify_whole
from tests.round_support import QUICKNET
from tests.session_support import ALICE, BOB, FIRST, LAST, PLAYERS, contribution, service
from verifier.check import Trust, check
from verifier.drand import VerifiedRound
from verifier.note import SigningKey
from verifier.seeds import seed_chain
from verifier.transcript import parse_transcript
from verifier.verdict import State

HOSTS = st.sampled_from([ALICE, ALICE, ALICE, ALICE, BOB])
RECIPES = st.sampled_from(["turn", "deck", "deck", "opening", "coin"])
PICK = st.integers(0, 3)
KEYS = st.sampled_from([None, None, "a", "b"])
SEALS = st.sampled_from(
    [
        {},
        {"participants": []},
        {"participants": [], "open": True, "min_contributions": 2},
        {"participants": [], "plan": {"turn": 3, "deck": 2}},
        {"profile": "live", "links": 5, "participants": []},
        {"profile": "live", "links": 70},
        {"profile": "live", "links": 3, "participants": [], "custody": "host"},
        {"profile": "live", "links": 9, "participants": []},
        {"participants": [], "custody": "host"},
        {"participants": [], "round": FIRST + 3},
    ]
)


class AnyOrder(RuleBasedStateMachine):
    """One service on one log; the sessions that were sealed, the links of those whose host holds the seed."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.sessions, self.links, self.acknowledged = [], {}, {}
        self.number = FIRST
        self.run(self.open())

    def run(self, awaitable):
        return self.runner.run(awaitable)

    async def open(self, **kept):
        self.stack = AsyncExitStack()
        self.made = await self.stack.enter_async_context(service(self.path, **kept))

    @initialize()
    def begin(self):
        self.attempt(ALICE, None, lambda key: self.made.seal(participants=[], key=key))

    # What is asked

    def attempt(self, host, name, command):
        """Ask once; with a key, ask again at once and get the same. What is refused leaves no trace."""
        key = None if name is None else Key.of(host.name, name, "any", repr(self.asking).encode())

        async def act(used):
            return [await command(used)]

        async def ask():
            before = self.made.log.latest().size
            try:
                written = await self.made.answers.once(key, act)
            except ApiError:
                assert self.made.log.latest().size == before, "a refusal left a trace"
                return None
            if key is not None:
                assert await self.made.answers.once(key, act) == written
            return written[0]

        written = self.run(ask())
        for receipt in [] if written is None else written.receipts:
            (event,) = parse_transcript(json.dumps(receipt).encode()).events
            self.acknowledged[event.index] = event.data
            if event.entry.type == "seal" and written.session not in self.sessions:
                self.sessions.append(written.session)
        return written

    asking = None

    def session(self, pick):
        return self.sessions[-1 - pick % len(self.sessions)]

    @rule(host=HOSTS, fields=SEALS, name=KEYS)
    def seal(self, host, fields, name):
        self.asking = ("seal", len(self.acknowledged))
        links = None
        if fields.get("custody") == "host":
            links = seed_chain(os.urandom(32), fields.get("links", 1))
            fields = fields | {"commitment": links[0].hex()}
        fields = {"participants": PLAYERS} | fields
        written = self.attempt(
            host, name and f"seal {name} {len(self.acknowledged)}", lambda key: self.made.seal(host, key=key, **fields)
        )
        if written is not None and links is not None:
            self.links[written.session] = links

    @rule(
        host=HOSTS,
        pick=PICK,
        who=st.sampled_from(["white", "black", "white", "black", "grey"]),
        entropy=st.binary(min_size=1, max_size=3),
    )
    def contribute(self, host, pick, who, entropy):
        said = contribution(who, entropy)
        self.attempt(host, None, lambda key: self.made.sessions.contribute(host, self.session(pick), said, key))

    @rule(host=HOSTS, pick=PICK, recipe=RECIPES, count=st.sampled_from([1, 1, 3]), name=KEYS)
    def draw(self, host, pick, recipe, count, name):
        session = self.session(pick)
        self.asking = ("draw", session, recipe, count, len(self.acknowledged))
        name = name and f"draw {name} {len(self.acknowledged)}"
        self.attempt(host, name, lambda key: self.made.draw(session, recipe, count, host=host, key=key))

    @rule(pick=PICK, recipe=RECIPES, seal=SEALS)
    def play_on(self, pick, recipe, seal):
        """What hosts mostly do: one thing after the other on one session."""
        if self.made.book.get(self.session(pick)) is None:
            self.seal(ALICE, seal, None)
            pick = 0
        self.everyone_contributes(pick)
        self.draw(ALICE, pick, recipe, 1, None)
        self.a_sessions_round_arrives(pick)
        state = self.made.book.get(self.session(pick))
        if state is not None and state.pending:
            self.hand_in(ALICE, pick, state.pending[0].call.draw)
        self.draw(ALICE, pick, recipe, 1, None)

    @rule(host=HOSTS, pick=PICK, k=st.integers(1, 3))
    def hand_in(self, host, pick, k):
        session = self.session(pick)
        link = self.links.get(session, [bytes(32)] * 4)
        self.attempt(host, None, lambda _key: self.made.hand_in(session, k, link[min(k, len(link) - 1)], host=host))

    @rule(host=HOSTS, pick=PICK)
    def reveal(self, host, pick):
        session = self.session(pick)
        seed = self.links[session][1] if len(self.links.get(session, ())) == 2 else None
        self.attempt(host, None, lambda key: self.made.sessions.reveal(host, session, seed, key))

    @rule(pick=PICK)
    def everyone_contributes(self, pick):
        for who in ("white", "black"):
            said = contribution(who, b"\x07")
            self.attempt(
                ALICE, None, lambda key, said=said: self.made.sessions.contribute(ALICE, self.session(pick), said, key)
            )

    @rule(host=HOSTS, pick=PICK)
    def void(self, host, pick):
        self.attempt(host, None, lambda key: self.made.sessions.void(host, self.session(pick), key))

    @rule(pick=PICK, times=st.integers(2, 5))
    def at_once(self, pick, times):
        """Several callers draw from one session: what is acknowledged has numbers of its own."""
        session = self.session(pick)

        async def all_of():
            draws = (self.made.draw(session, host=host) for host in (ALICE, BOB) for _ in range(times))
            return await asyncio.gather(*draws, return_exceptions=True)

        answers = [answer for answer in self.run(all_of()) if not isinstance(answer, ApiError)]
        assert not [answer for answer in answers if isinstance(answer, BaseException)]
        numbers = [answer.call.draw if answer.call else answer.first_n for answer in answers]
        assert len(set(numbers)) == len(numbers)

    # What happens

    @rule(rounds=st.integers(1, 3))
    def rounds_arrive(self, rounds):
        self.reach(self.number + rounds)

    @rule(pick=PICK)
    def a_sessions_round_arrives(self, pick):
        state = self.made.book.get(self.session(pick))
        if state is not None and state.waits_for:
            self.reach(min(number for _, number in state.waits_for))

    def reach(self, number):
        while self.number < min(number, LAST):
            self.number += 1
            self.run(self.made.reach(self.number))

    @rule(leap=st.sampled_from([-60_000, -2_000, 900, 4_000, 30_000]))
    def clock_leaps_and_comes_back(self, leap):
        before = self.made.clock.time
        self.made.clock.time += leap
        self.run(self.made.keeper.tick())
        self.attempt(ALICE, None, lambda key: self.made.seal(participants=[], key=key))
        self.attempt(ALICE, None, lambda key: self.made.draw(self.session(0), key=key))
        self.made.clock.time = before

    @rule()
    def restart(self):
        kept = {"clock": self.made.clock, "rounds": self.made.rounds, "seeds": self.made.seeds}
        self.run(self.stack.aclose())
        self.run(self.open(**kept))
        self.run(self.made.keeper.tick())

    # What holds

    @invariant()
    def states_are_those_of_the_log(self):
        async def compare():
            for session in self.sessions:
                state = self.made.book.get(session)
                if state is not None:
                    read = await self.made.transcripts.read(lambda db, session=session: load(db, session))
                    assert read == state
                    assert (read.contributions, read.drawn, read.called, read.dealt) == (
                        state.contributions,
                        state.drawn,
                        state.called,
                        state.dealt,
                    )

        self.run(compare())

    def teardown(self):
        async def transcripts():
            return [await self.made.sessions.transcript(session) for session in self.sessions]

        trust = Trust(log_key=self.made.vkey, chains={QUICKNET.hash: QUICKNET})
        for document in self.run(transcripts()):
            failed = [
                claim.as_dict() for claim in check(document, trust, verify=taken).claims if claim.state is State.FAILED
            ]
            assert not failed
        origin = self.made.vkey.name
        self.run(self.stack.aclose())
        self.runner.close()
        verify_whole(self.path / "log.db", self.acknowledged, SigningKey(bytes(32), origin), Book)
        self.folder.cleanup()


def taken(chain, stated, **_options):
    """The rounds are recorded ones, which other tests verify."""
    return VerifiedRound(chain, stated.round, stated.signature, stated.previous_signature)


AnyOrder.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyOrder = AnyOrder.TestCase
