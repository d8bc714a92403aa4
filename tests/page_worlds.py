"""Sessions in every state that a page shows. Each function brings one there, and gives its name (32 bytes)."""

from beacon.web.pages.outcomes import DECK
from tests.round_support import QUICKNET
from tests.session_support import ALICE, FIRST, Host, Service
from verifier.draws import draw as outcome
from verifier.draws import parse_recipe
from verifier.seeds import Stream, binding, session_digest, sha256

TESTER = Host("tester", sandbox=True)
SEED, OTHER_SEED = sha256(b"the seed of a host"), sha256(b"another")
HOSTILE = '</script><script>document.title="hacked"</script>"><img src=x onerror=\'document.title="hacked"\'>{{7*7}}'
RIGHT_TO_LEFT = "\u200f\u05d0\u05d1\u05d2 <b>" + "\u0627" * 40 + "x" * 90
NEAR = FIRST + 6
DICE = {"kind": "dice", "count": 2, "sides": 6}
RECIPES = {
    "opening": DICE | {"reroll_ties": True},
    "turn": DICE,
    "d20": {"kind": "dice", "count": 3, "sides": 20},
    "cards": {"kind": "deal", "size": DECK, "count": 5},
    "number": {"kind": "integers", "min": 1, "max": 1_000_000, "count": 2},
    "order": {"kind": "shuffle", "size": 8},
    "three": {"kind": "sample", "size": 1_000, "count": 3},
    "wheel": {"kind": "weighted", "weights": [1, 0, 10], "count": 4},
    "raw": {"kind": "bytes", "count": 24},
    "chain": DICE | {"mapping": "keccak"},
}


async def reach(running: Service, number):
    """Bring in every round up to this one, so that the clock stays sure."""
    while running.rounds.newest(QUICKNET.hash).round < number:
        await running.reach(running.rounds.newest(QUICKNET.hash).round + 1)


def soon(running):
    return running.rounds.newest(QUICKNET.hash).round + 6


async def sealed(running, **fields):
    seal = {"recipes": RECIPES, "round": soon(running), "label": "table 4"} | fields
    return (await running.seal(**seal)).session


async def contributed(running, **fields):
    session = await sealed(running, **fields)
    await running.contribute(session, "white", bytes(range(16)))
    return session


async def closed(running, **fields):
    session = await contributed(running, **fields)
    await running.contribute(session, "black", bytes(range(16, 32)))
    return session


async def anchored(running, **fields):
    session = await closed(running, **fields)
    await reach(running, (await running.sessions.view(session))["round"])
    return session


async def drawing(running, **fields):
    session = await anchored(running, **fields)
    await running.draw(session, "opening", purpose="who begins")
    for number, player in enumerate(("white", "black") * 3, 2):
        await running.draw(session, "turn", purpose=f"{player} {number // 2}")
    for name in ("d20", "cards", "cards", "number", "order", "three", "wheel", "raw", "chain"):
        await running.draw(session, name)
    return session


async def revealed(running, **fields):
    session = await drawing(running, **fields)
    await running.sessions.reveal(ALICE, session)
    return session


async def void_host(running, **fields):
    session = await contributed(running, **fields)
    await running.sessions.void(ALICE, session)
    return session


async def void_missed_close(running):
    session = await contributed(running)
    await running.reach((await running.sessions.view(session))["round"])
    return session


async def void_below_minimum(running):
    close_at = running.clock.now() + 5_000
    session = await contributed(running, close_at=close_at)
    running.clock.time = close_at + 1
    await running.rounds.arrive(QUICKNET.current(running.clock.time))
    await running.keeper.tick()
    return session


async def void_no_round(running):
    session = await closed(running)
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await running.keeper.tick()
    return session


async def void_missed_reveal(running):
    session = await anchored(running, timelock=False)
    running.seeds.kept.clear()
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await running.keeper.tick()
    return session


async def open_to_all(running):
    session = await sealed(running, open=True, participants=[], min_contributions=0, label="")
    await running.contribute(session, "a stranger")
    return session


LIVE = {"profile": "live", "links": 64, "participants": [], "round": None}


async def live_sealed(running, **fields):
    return (await running.seal(**({"recipes": RECIPES, "label": "live table"} | LIVE | fields))).session


async def live_called(running, **fields):
    session = await live_drawn(running, **fields)
    await running.draw(session, "turn", purpose="white 7")
    return session


async def live_drawn(running, **fields):
    session = await live_sealed(running, **fields)
    for name in ("opening", "turn", "cards"):
        called = await running.draw(session, name, purpose="white 1")
        await reach(running, called.call.round)
    return session


async def live_revealed(running, **fields):
    session = await live_drawn(running, **fields)
    await running.sessions.reveal(ALICE, session)
    return session


async def claimed(running):
    """The host holds the seed, and has drawn."""
    session = await anchored(running, custody="host", commitment=sha256(SEED).hex(), recipes={"turn": DICE})
    await running.draw(session, "turn", outcomes=[await _outcome(running, session, SEED)])
    return session


async def false_claim(running):
    """The host drew what its seed does not give, and revealed it."""
    session = await anchored(running, custody="host", commitment=sha256(OTHER_SEED).hex(), recipes={"turn": DICE})
    first, second = await _outcome(running, session, OTHER_SEED)
    await running.draw(session, "turn", outcomes=[[first % 6 + 1, second]])
    await running.sessions.reveal(ALICE, session, OTHER_SEED)
    return session


async def _outcome(running, session, seed):
    state = await running.sessions.state(session)
    digest = session_digest(session, state.contributions.items())
    bound = binding(digest, 0, (), state.seal.round, sha256(state.round.signature))
    return outcome(parse_recipe(DICE), Stream(seed, bound, "turn", 1))


async def sandbox(running):
    return await sealed(running, host=TESTER)


async def hostile(running):
    names = [HOSTILE[:128], RIGHT_TO_LEFT[:60], "white"]
    recipes = {"turn": DICE}
    session = await sealed(
        running,
        label=(HOSTILE + RIGHT_TO_LEFT)[:150],
        participants=[{"id": name} for name in names],
        recipes=recipes,
        attachments=[{"name": HOSTILE[:128], "sha256": "00" * 32}],
    )
    for name in names:
        await running.contribute(session, name)
    await reach(running, (await running.sessions.view(session))["round"])
    await running.draw(session, "turn", purpose=HOSTILE)
    await running.draw(session, "turn", purpose=RIGHT_TO_LEFT)
    await running.sessions.reveal(ALICE, session)
    return session


async def planned(running):
    session = await sealed(running, participants=[], recipes={"winners": RECIPES["three"]}, plan={"winners": 4})
    await reach(running, (await running.sessions.view(session))["round"])
    return session


ORDINARY = {
    one.__name__: one
    for one in (
        sealed, contributed, closed, anchored, drawing, revealed, void_host, open_to_all, live_sealed, live_called,
        live_drawn, live_revealed, claimed, false_claim, sandbox, hostile, planned,
    )
}  # fmt: skip
LATE = {one.__name__: one for one in (void_missed_close, void_below_minimum, void_no_round, void_missed_reveal)}
"""Those that move the clock by themselves, and so for all other sessions."""
