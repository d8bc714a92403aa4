"""Bad input and abuse over HTTP: one row for each refusal, with its code. Nothing that is refused leaves a trace.

`ELSEWHERE` names the codes that need a fault, a broken chain or a full house, and where they are tested.
"""

import os
from pathlib import Path

import pytest

from beacon.errors import PROBLEMS
from beacon.sessions import draws as drawing
from beacon.sessions import rules
from tests.round_support import QUICKNET
from tests.session_support import ALICE, BOB, FIRST, PLAYERS, RECIPES, service
from tests.test_live import LIVE, reach
from tests.web_support import headers, web_of
from verifier import entries
from verifier.seeds import seed_chain, sha256

HOUR = 3_600_000
KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
ZERO = "00" * 32
SEAL = {"recipes": RECIPES, "participants": PLAYERS}
BARE = {"recipes": RECIPES, "participants": []}

ELSEWHERE = {
    "chain-broken": "test_drand_failures",
    "chain-retired": "test_sessions_rules",
    "draw-after-reveal-by": "test_sessions",
    "call-after-reveal-by": "test_live",
    "forbidden": "test_access",
    "internal": "test_web",
    "method-not-allowed": "test_web",
    "no-verified-round": "test_sessions",
    "outcome-unknown": "test_web",
    "rate-limited": "test_access",
    "request-timeout": "test_web",
    "round-unknown": "test_chain_routes",
    "rounds-damaged": "test_stored_rounds",
    "sandbox-only-chain": "test_sessions_real",
    "too-many-listeners": "test_waiting",
    "too-many-waiting": "test_waiting",
    "too-many-webhooks": "test_webhooks",
    "unavailable": "test_web",
    "webhook-exists": "test_webhooks",
    "webhook-unknown": "test_webhooks",
    "webhook-url-invalid": "test_webhooks",
    "write-failed": "test_web",
}


class World:
    """A client, and sessions in every state as they are needed."""

    def __init__(self, made, client, monkeypatch):
        self.made, self.client, self.patch = made, client, monkeypatch
        self.now = made.clock.now()

    async def post(self, path, body, *, host=ALICE, **more):
        self.size = self.made.log.latest().size
        sent = ({} if host is None else headers(host)) | more
        return await self.client.post(path, json=body, headers=sent)

    async def seal(self, **fields):
        return await self.post("/v1/sessions", SEAL | fields)

    async def sealed(self, **fields):
        return (await self.made.seal(**fields)).session

    async def anchored(self, **fields):
        session = await self.sealed(**{"participants": []} | fields)
        await reach(self.made, (await self.made.sessions.view(session))["round"])
        return session

    async def called(self, **fields):
        session = await self.sealed(**LIVE | fields)
        call = (await self.made.draw(session)).call
        return session, call

    async def on(self, session, what, body=None, **more):
        return await self.post(f"/v1/sessions/{session.hex()}/{what}", body or {}, **more)

    async def contribute(self, session, participant="white", entropy="01", **fields):
        return await self.on(session, "contributions", {"participant": participant, "entropy": entropy} | fields)

    async def draw(self, session, recipe="turn", **fields):
        return await self.on(session, "draws", {"recipe": recipe} | fields)


async def entry_too_long(w):
    recipes = {f"w{i}": {"kind": "weighted", "weights": [2**40] * 120, "count": 1} for i in range(64)}
    return await w.seal(recipes=recipes)


async def clock_unsure(w):
    w.made.clock.time += 60_000
    return await w.seal()


async def key_reused(w):
    key = {"Idempotency-Key": "k"}
    assert (await w.post("/v1/sessions", BARE, **key)).status == 201
    return await w.post("/v1/sessions", BARE | {"label": "other"}, **key)


async def ended(w):
    session = await w.anchored()
    await w.made.sessions.reveal(ALICE, session)
    return await w.draw(session)


async def voided(w):
    session = await w.sealed()
    await w.made.sessions.void(ALICE, session)
    return await w.contribute(session)


async def closed(w):
    session = await w.sealed(participants=[{"id": "white"}])
    await w.made.contribute(session, "white")
    return await w.contribute(session, entropy="02")


async def too_late(w):
    session = await w.sealed(round=FIRST + 12, close_at=QUICKNET.time(FIRST + 11))
    await reach(w.made, FIRST + 10)
    w.made.clock.time = QUICKNET.time(FIRST + 11) - 900
    await w.made.rounds.arrive(FIRST + 11)
    return await w.contribute(session)


async def contributed_twice(w):
    session = await w.sealed()
    await w.made.contribute(session, "white")
    return await w.contribute(session, entropy="02")


async def too_many(w):
    w.patch.setattr(entries, "MAX_CONTRIBUTIONS", 1)
    session = await w.sealed(participants=[], open=True)
    await w.made.contribute(session, "a")
    return await w.contribute(session, "b")


async def never_closed(w):
    session = await w.sealed(min_contributions=0)
    number = (await w.made.sessions.view(session))["round"]
    w.made.clock.time = QUICKNET.time(number) + 500
    await w.made.rounds.arrive(number)
    return await w.draw(session)


async def full(w):
    session = await w.anchored()
    w.patch.setattr(drawing, "MAX_SIZE", 0)
    return await w.draw(session)


async def end_of_deck(w):
    session = await w.anchored()
    return await w.draw(session, "deck", count=4)


async def planned(w):
    session = await w.sealed(participants=[], plan={"turn": 1})
    return await w.draw(session)


async def used_up(w):
    session, _ = await w.called(links=1)
    return await w.draw(session)


async def too_many_calls(w):
    w.patch.setattr(rules, "MAX_PENDING", 1)
    session, _ = await w.called()
    return await w.draw(session)


async def held(w, *, weak=False):
    seed = bytes(32) if weak else os.urandom(32)
    return await w.anchored(custody="host", commitment=sha256(seed).hex()), seed


async def outcomes_missing(w):
    session, _ = await held(w)
    return await w.draw(session)


async def outcome_invalid(w):
    session, _ = await held(w)
    return await w.draw(session, outcomes=[[1, 2, 3]])


async def seed_missing(w):
    session, _ = await held(w)
    return await w.on(session, "reveal")


async def seed_wrong(w):
    session, _ = await held(w)
    return await w.on(session, "reveal", {"seed": ZERO})


async def seed_weak(w):
    session, seed = await held(w, weak=True)
    return await w.on(session, "reveal", {"seed": seed.hex()})


async def outcome_wrong(w):
    links = seed_chain(os.urandom(32), 8)
    session, call = await w.called(custody="host", commitment=links[0].hex())
    await reach(w.made, call.round)
    return await w.on(session, "links", {"draw": 1, "link": links[1].hex(), "outcome": [9, 9]})


async def not_drawn_yet(w):
    session, _ = await w.called()
    return await w.on(session, "reveal")


async def round_exists(w):
    session = await w.anchored()
    return await w.on(session, "void", {"reason": "host"})


async def seed_gone(w):
    session = await w.anchored()
    w.made.seeds.kept.clear()
    return await w.draw(session)


async def call_before_close(w):
    return await w.draw(await w.sealed(**LIVE | {"participants": PLAYERS}))


async def reveal_before_close(w):
    return await w.on(await w.sealed(**LIVE | {"participants": PLAYERS}), "reveal")


ROWS = [
    # The request itself
    ("invalid-request", lambda w: w.seal(colour="red")),
    ("invalid-request", lambda w: w.seal(open=1)),
    ("invalid-request", lambda w: w.post("/v1/sessions", [1])),
    ("forbidden-character", lambda w: w.seal(label="a\u202eb")),
    ("idempotency-key-invalid", lambda w: w.post("/v1/sessions", BARE, **{"Idempotency-Key": "k" * 256})),
    ("idempotency-key-reused", key_reused),
    ("unauthorized", lambda w: w.post("/v1/sessions", BARE, host=None)),
    ("not-found", lambda w: w.post("/v1/nothing", {})),
    ("body-too-large", lambda w: w.seal(label="x" * 300_000)),
    ("unsupported-media-type", lambda w: w.post("/v1/sessions", BARE, **{"Content-Type": "text/plain"})),
    ("clock-unsure", clock_unsure),
    ("chain-unknown", lambda w: w.seal(chain="nowhere")),
    # Seals
    ("seal-round-too-early", lambda w: w.seal(round=FIRST + 1)),
    ("seal-round-too-late", lambda w: w.seal(round=2**53 - 1)),
    ("seal-close-too-late", lambda w: w.seal(close_at=w.now + HOUR)),
    ("seal-close-in-past", lambda w: w.seal(close_at=w.now)),
    ("seal-reveal-by-too-early", lambda w: w.seal(reveal_by=w.now + 600_000)),
    ("seal-reveal-by-too-late", lambda w: w.seal(reveal_by=w.now + 401 * 24 * HOUR)),
    ("seal-contributions-mismatch", lambda w: w.seal(close_at=None)),
    ("seal-replaces-unknown", lambda w: w.seal(replaces=ZERO)),
    ("seal-recipe-invalid", lambda w: w.seal(recipes={"turn": {"kind": "coin"}})),
    ("seal-participant-invalid", lambda w: w.seal(participants=[{"id": "a"}, {"id": "a"}])),
    ("seal-participant-invalid", lambda w: w.seal(participants=[{"id": "a" * 129}])),
    ("seal-key-invalid", lambda w: w.seal(participants=[{"id": "a", "key": ZERO}])),
    ("seal-attachment-invalid", lambda w: w.seal(attachments=[{"name": "", "sha256": ZERO}])),
    ("seal-profile-invalid", lambda w: w.seal(profile="live", round=FIRST + 20)),
    ("seal-commitment-invalid", lambda w: w.seal(custody="host")),
    ("seal-plan-invalid", lambda w: w.seal(plan={"coin": 1})),
    ("seal-timelock-invalid", lambda w: w.seal(timelock={"round": FIRST + 20, "ciphertext": "YWdl"})),
    ("label-invalid", lambda w: w.seal(label="x" * 257)),
    ("entry-too-long", entry_too_long),
    # Whose, and in which state
    ("session-unknown", lambda w: w.draw(bytes(32))),
    ("session-ended", ended),
    ("session-void", voided),
    # Contributions
    ("contributions-closed", closed),
    ("contribution-too-late", too_late),
    ("already-contributed", contributed_twice),
    ("too-many-contributions", too_many),
    # Draws, calls and ends
    ("not-closed", never_closed),
    ("session-full", full),
    ("draw-past-end-of-deck", end_of_deck),
    ("planned", planned),
    ("call-before-close", call_before_close),
    ("links-used-up", used_up),
    ("too-many-calls", too_many_calls),
    ("outcomes-missing", outcomes_missing),
    ("outcome-invalid", outcome_invalid),
    ("outcome-wrong", outcome_wrong),
    ("seed-missing", seed_missing),
    ("seed-wrong", seed_wrong),
    ("seed-weak", seed_weak),
    ("reveal-before-draws", not_drawn_yet),
    ("reveal-before-close", reveal_before_close),
    ("void-too-late", round_exists),
    ("seed-unavailable", seed_gone),
]

ON_A_SEALED_ONE = [
    ("not-your-session", lambda w, s: w.on(s, "draws", {"recipe": "turn"}, host=BOB)),
    ("not-a-participant", lambda w, s: w.contribute(s, "grey")),
    ("entropy-invalid", lambda w, s: w.contribute(s, entropy="0G")),
    ("entropy-invalid", lambda w, s: w.contribute(s, entropy="00" * 257)),
    ("signature-not-expected", lambda w, s: w.contribute(s, signature="00" * 64)),
    ("unauthorized", lambda w, s: w.on(s, "contributions", {"participant": "white", "entropy": "01"}, host=None)),
    ("unknown-recipe", lambda w, s: w.draw(s, "coin")),
    ("purpose-invalid", lambda w, s: w.draw(s, purpose="x" * 257)),
    ("draw-count", lambda w, s: w.draw(s, count=1001)),
    ("draw-before-round", lambda w, s: w.draw(s)),
    ("not-live", lambda w, s: w.draw(s, draw=1)),
    ("not-your-seed", lambda w, s: w.draw(s, outcomes=[[1, 1]])),
    ("reveal-before-round", lambda w, s: w.on(s, "reveal")),
]

OTHERS = [
    ("no-contributions-taken", BARE, lambda w, s: w.contribute(s)),
    ("signature-missing", {"participants": [{"id": "white", "key": KEY}]}, lambda w, s: w.contribute(s)),
    (
        "signature-invalid",
        {"participants": [{"id": "white", "key": KEY}]},
        lambda w, s: w.contribute(s, signature="00" * 64),
    ),
    ("call-number", LIVE, lambda w, s: w.draw(s, draw=2)),
]


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with service(tmp_path) as made, web_of(made) as client:
        yield World(made, client, monkeypatch)


async def refused(world, code, awaitable):
    response = await awaitable
    document = await response.json()
    assert document["code"] == code, document
    problem = PROBLEMS[code]
    assert response.status == document["status"] == problem.status
    assert response.content_type == "application/problem+json"
    assert (document.get("rule"), document["retryable"], document["next"]) == (
        problem.rule,
        problem.retryable,
        problem.next,
    )
    assert document["request_id"] == response.headers["X-Request-Id"]
    if problem.retryable and problem.status != 408:
        assert int(response.headers["Retry-After"]) > 0
    assert world.made.log.latest().size == world.size, "a refusal left a trace"


@pytest.mark.parametrize(("code", "ask"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
async def test_what_is_refused(world, code, ask):
    await refused(world, code, ask(world))


@pytest.mark.parametrize(("code", "ask"), ON_A_SEALED_ONE, ids=lambda value: value if isinstance(value, str) else "")
async def test_what_is_refused_of_a_sealed_session(world, code, ask):
    await refused(world, code, ask(world, await world.sealed()))


@pytest.mark.parametrize(("code", "fields", "ask"), OTHERS, ids=lambda value: value if isinstance(value, str) else "")
async def test_what_is_refused_of_other_sessions(world, code, fields, ask):
    await refused(world, code, ask(world, await world.sealed(**fields)))


async def test_the_ledger_of_nobody(world):
    world.size = world.made.log.latest().size
    await refused(world, "host-unknown", world.client.get("/v1/hosts/nobody"))


def test_every_refusal_has_its_row():
    rows = {row[0] for row in (*ROWS, *ON_A_SEALED_ONE, *OTHERS)} | {"host-unknown"}
    assert rows | set(ELSEWHERE) >= set(PROBLEMS)
    assert not rows & set(ELSEWHERE)
    for code, name in ELSEWHERE.items():
        assert f'"{code}"' in Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"), code


async def live_of_its_own(w):
    return await w.called(custody="host", commitment=seed_chain(os.urandom(32), 8)[0].hex())


async def called_and_in(w):
    session, call = await live_of_its_own(w)
    await reach(w.made, call.round)
    return session


async def revealed(w):
    session = await w.anchored()
    await w.made.sessions.reveal(ALICE, session)
    return session


async def nobodys(_w):
    return bytes(32)


async def of_bob(w):
    return (await w.made.seal(BOB)).session


STATES = {
    "unknown": nobodys,
    "another host's": of_bob,
    "sealed": lambda w: w.sealed(),
    "closed": lambda w: w.sealed(participants=[]),
    "anchored": lambda w: w.anchored(),
    "planned": lambda w: w.sealed(participants=[], plan={"turn": 1}),
    "revealed": revealed,
    "open": lambda w: w.sealed(participants=[], open=True),
    "live": lambda w: w.sealed(**LIVE | {"participants": PLAYERS}),
    "called": lambda w: first_of(w.called()),
    "called, of a host's seed": lambda w: first_of(live_of_its_own(w)),
    "called and in": called_and_in,
    "anchored, of a host's seed": lambda w: first_of(held(w)),
}
WRITES = [
    ("joins", {"participants": ["white"]}),
    ("contributions", {"participant": "white", "entropy": "01"}),
    ("draws", {"recipe": "turn"}),
    ("draws", {"recipe": "turn", "outcomes": [[1, 1]]}),
    ("draws", {"recipe": "turn", "draw": 1, "n": 1, "contributions": [{"participant": "x", "entropy": "01"}]}),
    ("links", {"draw": 1, "link": ZERO}),
    ("links", {"draw": 2, "link": ZERO}),
    ("void", {"reason": "host"}),
    ("reveal", {"seed": ZERO}),
    ("reveal", {}),
]


async def first_of(awaitable):
    return (await awaitable)[0]


@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("state", STATES)
async def test_each_write_in_each_state_is_answered_as_described(world, state, unsure):
    """`web_of` holds the answers to the API's description: no code that an operation does not list."""
    session = await STATES[state](world)
    if unsure:
        world.made.clock.time += 60_000
    for _ in range(2):
        for what, body in WRITES:
            assert (await world.on(session, what, body)).status < 500 or unsure
