"""Match sessions from the seal to the verdict, and every refusal on the way: one row per rule."""

import asyncio
import json
import os
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from structlog.testing import capture_logs

from beacon.errors import ApiError
from beacon.sessions import draws
from beacon.sessions.custody import Custody
from beacon.store.errors import LogDamaged
from tests.round_support import QUICKNET
from tests.session_support import ALICE, BOB, FIRST, PLAYERS, Host, service
from verifier.check import Trust, check
from verifier.draws import draw, parse_recipe
from verifier.encoding import encode_json
from verifier.seeds import Stream, contribution_message
from verifier.transcript import parse_transcript


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as made:
        yield made


async def anchored(made, **fields):
    """A session whose players have contributed and whose round is in; and the round's number."""
    written = await made.seal(**fields)
    number = written.state["round"]
    for player in written.state["participants"]:
        await made.contribute(written.session, player["id"])
    await made.reach(number)
    return written.session, number


async def refused(code, awaitable, rule=None):
    with pytest.raises(ApiError) as caught:
        await awaitable
    assert caught.value.code == code, caught.value
    if rule is not None:
        assert caught.value.problem.rule == rule
    return caught.value


async def test_a_whole_match(running):
    written = await running.seal(label="table 4")
    session = written.session
    assert written.state["state"] == "sealed"
    assert written.state["round"] == QUICKNET.first_at(running.clock.now() + 30_000)
    assert written.state["close_at"] == written.state["round_time"] - 10_000

    white = await running.contribute(session, "white", b"\x01\x02")
    assert white.state["state"] == "sealed"
    black = await running.contribute(session, "black", b"\x03")
    assert black.state["state"] == "closed"
    assert [parse_transcript(json.dumps(r).encode()).events[0].entry.type for r in black.receipts] == [
        "contribution",
        "close",
    ]

    await running.reach(written.state["round"])
    assert await running.state(session) == "anchored"
    opening = await running.draw(session, "opening", purpose="opening")
    assert opening.first_n == 1
    assert await running.state(session) == "drawing"
    turns = await running.draw(session, "turn", 3)
    assert (turns.first_n, len(turns.outcomes)) == (1, 3)
    assert (await running.draw(session, "turn")).first_n == 4

    revealed = await running.sessions.reveal(ALICE, session)
    assert revealed.state["state"] == "revealed"
    verdict = await running.verdict(session)
    assert verdict.exit == 0, [claim.as_dict() for claim in verdict.claims]
    assert len(verdict.session["outcomes"]) == 5


async def test_a_match_without_contributions_is_anchored_by_its_seal(running):
    session, _ = await anchored(running, participants=[])
    await running.draw(session)
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


async def test_every_kind_of_recipe_is_drawn_and_verifies(running):
    recipes = {
        "dice": {"kind": "dice", "count": 5, "sides": 20},
        "keccak": {"kind": "dice", "count": 40, "sides": 6, "mapping": "keccak"},
        "integers": {"kind": "integers", "min": -5, "max": 70000, "count": 6},
        "shuffle": {"kind": "shuffle", "size": 52},
        "sample": {"kind": "sample", "size": 1000000, "count": 5},
        "deal": {"kind": "deal", "size": 52, "count": 5},
        "weighted": {"kind": "weighted", "weights": [1, 0, 10], "count": 8},
        "bytes": {"kind": "bytes", "count": 40},
    }
    session, _ = await anchored(running, recipes=recipes)
    for name in recipes:
        assert (await running.draw(session, name, 2)).first_n == 1
        assert (await running.draw(session, name)).first_n == 3
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


async def test_signed_contributions_are_proven(running):
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    written = await running.seal(participants=[{"id": "white", "key": public}])
    message = contribution_message(written.session, 0, "", 0, "", "white", b"\x07")
    await refused("signature-missing", running.contribute(written.session, "white", b"\x07"), "6.4")
    bad = running.contribute(written.session, "white", b"\x08", key.sign(message))
    await refused("signature-invalid", bad, "4.4")
    await running.contribute(written.session, "white", b"\x07", key.sign(message))
    await running.reach(written.state["round"])
    await running.draw(written.session)
    await running.sessions.reveal(ALICE, written.session)
    assert (await running.verdict(written.session))["contributions"].state == "PROVEN"


async def test_numbers_of_hosts_have_no_gaps_and_chains_are_logged_once(running):
    for _ in range(2):
        assert (await running.seal()).state["host_seq"] in {1, 2}
    assert (await running.seal(BOB)).state["host_seq"] == 1
    with pytest.raises(ApiError):
        await running.seal(round=FIRST + 1)
    assert (await running.seal()).state["host_seq"] == 3
    entries = [await running.log.entry(index) for index in range(running.log.latest().size)]
    assert [json.loads(entry)["type"] for entry in entries] == ["log", "chain", *["seal"] * 4]


async def test_a_rerun_names_the_session_it_replaces(running):
    first = await running.seal()
    again = await running.seal(replaces=first.session.hex())
    assert again.state["replaces"] == first.session.hex()
    await refused("seal-replaces-unknown", running.seal(BOB, replaces=first.session.hex()), "6.1")
    await refused("seal-replaces-unknown", running.seal(replaces="00" * 32), "6.1")


HOUR = 3_600_000
LATE_CLOSE = {"round": FIRST + 11, "close_at": QUICKNET.time(FIRST + 11) - 3_000}
SEALS = [
    ("seal-round-too-early", "6.3", lambda now: {"round": FIRST + 2}),
    ("seal-round-too-early", "6.3", lambda now: {"round_at": now}),
    ("seal-round-too-early", "6.3", lambda now: {"round": 1}),
    ("seal-round-too-late", "6.3", lambda now: {"round": 2**53 - 1}),
    ("seal-close-in-past", "6.3", lambda now: {"close_at": now}),
    ("seal-close-in-past", "6.3", lambda now: {"close_at": 0}),
    ("seal-close-too-late", "6.3", lambda now: {"close_at": now + HOUR}),
    ("seal-reveal-by-too-early", "6.3", lambda now: {"reveal_by": now + 600_000}),
    ("seal-reveal-by-too-late", "6.3", lambda now: {"reveal_by": now + 400 * 24 * HOUR + 1}),
    ("seal-contributions-mismatch", "6.4", lambda now: {"close_at": None}),
    ("seal-contributions-mismatch", "6.4", lambda now: {"close_at": now + 5000, "participants": []}),
    ("seal-contributions-mismatch", "6.4", lambda now: {"min_contributions": 3}),
    ("seal-contributions-mismatch", "6.4", lambda now: {"participants": [], "min_contributions": 1}),
    ("seal-recipe-invalid", "5", lambda now: {"recipes": {"turn": {"kind": "dice", "count": 2, "sides": 1}}}),
    ("seal-recipe-invalid", "5", lambda now: {"recipes": {"turn": {"kind": "coin"}}}),
    ("seal-recipe-invalid", "5", lambda now: {"recipes": {"1turn": {"kind": "bytes", "count": 1}}}),
    ("seal-key-invalid", "2.7", lambda now: {"participants": [{"id": "white", "key": "00" * 32}]}),
    ("chain-unknown", None, lambda now: {"chain": "default"}),
    ("entry-too-long", "3.1", lambda now: {"recipes": {
        f"w{i}": {"kind": "weighted", "weights": [2**40] * 300, "count": 1} for i in range(64)}}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "rule", "fields"), SEALS)
async def test_seals_that_are_refused(running, code, rule, fields):
    size, kept = running.log.latest().size, dict(running.seeds.kept)
    await refused(code, running.seal(**fields(running.clock.now())), rule)
    assert running.log.latest().size == size
    assert running.seeds.kept == kept


async def test_a_request_says_where_the_earliest_round_is(running):
    error = await refused("seal-round-too-early", running.seal(round=FIRST + 1))
    await running.seal(round=error.extra["earliest_round"], close_at=running.clock.now() + 1000)


async def test_contributions_that_are_refused(running):
    session = (await running.seal(participants=[*PLAYERS, {"id": "late"}])).session
    await running.contribute(session, "white")
    await refused("already-contributed", running.contribute(session, "white", b"\x12"), "6.1")
    await refused("already-contributed", running.contribute(session, "white", signature=bytes(64)), "6.1")
    await refused("not-a-participant", running.contribute(session, "grey"), "6.4")
    await refused("signature-not-expected", running.contribute(session, "black", signature=bytes(64)), "3.6")
    await refused("not-your-session", running.contribute(session, "black", host=BOB))
    await refused("session-unknown", running.contribute(bytes(32), "black"))
    bare = (await running.seal(participants=[])).session
    await refused("no-contributions-taken", running.contribute(bare, "white"), "6.4")


async def test_contributions_end_with_close_at(running):
    written = await running.seal(**LATE_CLOSE)
    await running.contribute(written.session, "white")
    running.clock.time = written.state["close_at"]
    await running.rounds.arrive(written.state["round"] - 2)
    await running.contribute(written.session, "black", b"\x05")
    other = (await running.seal(close_at=running.clock.now() + 1_000, min_contributions=0)).session
    running.clock.advance(1_001)
    await refused("contributions-closed", running.contribute(other, "white"), "6.4")
    await running.keeper.tick()
    await refused("contributions-closed", running.contribute(other, "white"), "6.4")
    assert await running.state(other) == "closed"


async def test_no_contribution_once_the_chain_is_one_round_away_whatever_the_clock_says(running):
    written = await running.seal(**LATE_CLOSE)
    running.clock.time = written.state["close_at"]
    await running.rounds.arrive(written.state["round"] - 1)
    await refused("contribution-too-late", running.contribute(written.session, "white"), "6.11")


async def test_the_service_closes_by_itself_with_whoever_came(running):
    written = await running.seal(min_contributions=1, **LATE_CLOSE)
    await running.contribute(written.session, "white")
    running.clock.time = written.state["close_at"]
    await running.rounds.arrive(written.state["round"] - 1)
    await running.keeper.tick()
    assert await running.state(written.session) == "sealed"
    running.clock.advance(1)
    await running.keeper.tick()
    assert await running.state(written.session) == "closed"
    await running.reach(written.state["round"])
    await running.draw(written.session)
    await running.sessions.reveal(ALICE, written.session)
    assert (await running.verdict(written.session)).exit == 0


async def test_too_few_contributions_void_the_session(running):
    written = await running.seal(min_contributions=2, **LATE_CLOSE)
    await running.contribute(written.session, "white")
    running.clock.time = written.state["close_at"] + 1
    await running.rounds.arrive(written.state["round"] - 1)
    await running.keeper.tick()
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == ("void", "below-minimum")
    await refused("session-void", running.draw(written.session), "6.1")
    verdict = await running.verdict(written.session)
    assert verdict.exit == 2
    assert verdict["custody"].state != "FAILED"
    assert verdict["seed"].state == "PROVEN"


async def test_a_close_that_was_missed_voids_the_session(running):
    written = await running.seal()
    await running.reach(written.state["round"])
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == ("void", "missed-close")
    assert (await running.verdict(written.session))["custody"].state != "FAILED"


async def test_draws_and_reveals_wait_for_the_round(running):
    written = await running.seal()
    for player in ("white", "black"):
        await running.contribute(written.session, player)
    error = await refused("draw-before-round", running.draw(written.session), "6.7")
    assert error.retry_after == pytest.approx((written.state["round_time"] - running.clock.now()) / 1000, abs=1)
    await refused("reveal-before-round", running.sessions.reveal(ALICE, written.session), "6.7")
    running.clock.time = written.state["round_time"] + 5_000
    await refused("draw-before-round", running.draw(written.session), "6.7")


async def test_draws_that_are_refused(running):
    session, _ = await anchored(running)
    await refused("unknown-recipe", running.draw(session, "coin"), "3.6")
    await refused("entry-too-long", running.draw(session, "shuffle", 2), "3.1")
    await running.draw(session, "deck", 3)
    await refused("draw-past-end-of-deck", running.draw(session, "deck"), "5.2")
    await refused("not-your-session", running.draw(session, host=BOB))
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await refused("draw-after-reveal-by", running.draw(session), "6.3")


async def test_the_service_reveals_by_itself_at_the_deadline(running):
    session, _ = await anchored(running)
    await running.draw(session, "turn", 2)
    running.clock.time = (await running.sessions.view(session))["reveal_by"] - 1
    await running.keeper.tick()
    assert await running.state(session) == "drawing"
    running.clock.advance(1)
    await running.keeper.tick()
    assert await running.state(session) == "revealed"
    assert (await running.verdict(session)).exit == 0


async def test_without_the_round_the_session_is_void_at_its_deadline(running):
    written = await running.seal(participants=[])
    running.clock.time = written.state["reveal_by"]
    await running.keeper.tick()
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == ("void", "no-round")
    verdict = await running.verdict(written.session)
    assert (verdict.exit, verdict["custody"].state) == (2, "TRUSTED")


async def test_no_void_for_a_round_that_exists_though_it_is_not_logged(running):
    written = await running.seal(participants=[])
    running.rounds.listeners.clear()
    await running.rounds.arrive(written.state["round"] + 1)
    running.clock.time = written.state["reveal_by"]
    await running.keeper.tick()
    assert await running.state(written.session) == "closed"


async def test_a_lost_seed_ends_in_a_missed_reveal_and_never_in_a_made_up_one(running):
    session, _ = await anchored(running, timelock=False)
    running.seeds.kept.clear()
    await refused("seed-unavailable", running.draw(session), "6.12")
    running.clock.time = (await running.sessions.view(session))["reveal_by"]
    await running.keeper.tick()
    view = await running.sessions.view(session)
    assert (view["state"], view["reason"], view["seed"]) == ("void", "missed-reveal", None)
    assert (await running.verdict(session)).exit == 1


async def test_a_seed_that_was_swapped_or_altered_is_not_used(running):
    session, _ = await anchored(running)
    other = await running.seal()
    a, b = (await running.sessions.view(session))["commitment"], other.state["commitment"]
    running.seeds.kept[bytes.fromhex(a)] = running.seeds.kept[bytes.fromhex(b)]
    await refused("seed-unavailable", running.draw(session), "6.12")


async def test_a_swapped_seed_of_a_live_session_opens_nothing(running):
    """Nor one that is asked for with another number of links; both after a restart, when no chain is remembered."""
    first, second = [await Custody(bytes(range(32)), running.seeds).make(8) for _ in range(2)]
    running.seeds.keep([first, second])
    custody = Custody(bytes(range(32)), running.seeds)
    assert (await custody.chain(second.commitment, 8)).commitment == second.commitment
    await refused("seed-unavailable", custody.chain(first.commitment, 7))
    running.seeds.kept[first.commitment] = second
    await refused("seed-unavailable", custody.chain(first.commitment, 8))


async def test_hosts_void_only_before_the_round(running):
    written = await running.seal()
    voided = await running.sessions.void(ALICE, written.session)
    assert voided.state["reason"] == "host"
    assert (await running.verdict(written.session))["custody"].state == "TRUSTED"
    await refused("session-void", running.sessions.void(ALICE, written.session), "6.1")
    session, _ = await anchored(running)
    await refused("void-too-late", running.sessions.void(ALICE, session), "6.12")


async def test_no_void_once_a_later_round_is_known_though_the_clock_is_behind(running):
    written = await running.seal(participants=[])
    running.clock.time = written.state["round_time"] - 500
    running.rounds.listeners.clear()
    await running.rounds.arrive(written.state["round"])
    await refused("void-too-late", running.sessions.void(ALICE, written.session), "6.12")


async def test_nothing_follows_the_end(running):
    session, _ = await anchored(running)
    await running.sessions.reveal(ALICE, session)
    size = running.log.latest().size
    for command in (
        running.draw(session),
        running.contribute(session, "white", b"\x12"),
        running.sessions.reveal(ALICE, session),
        running.sessions.void(ALICE, session),
    ):
        await refused("session-ended", command, "6.1")
    assert running.log.latest().size == size


@pytest.mark.parametrize(("drift", "refuses"), [(-1_501, True), (-1_499, False), (18_499, False), (18_501, True)])
async def test_an_unsure_clock_stops_seals_contributions_closes_and_voids(running, drift, refuses):
    written = await running.seal(participants=[*PLAYERS, {"id": "third"}])
    quick = await running.seal(close_at=running.clock.now() + 100, min_contributions=0)
    running.clock.advance(drift)
    commands = {
        "seal": lambda: running.seal(),
        "contribute": lambda: running.contribute(written.session, "white"),
        "void": lambda: running.sessions.void(ALICE, written.session),
    }
    size = running.log.latest().size
    for command in commands.values():
        if refuses:
            await refused("clock-unsure", command(), "6.11")
        else:
            await command()
    await running.keeper.tick()
    closed = drift > 0 and not refuses
    assert running.log.latest().size == size + (0 if refuses else 3) + closed
    assert await running.state(quick.session) == ("closed" if closed else "sealed")


async def test_a_clock_behind_the_chain_is_refused_though_the_log_is_ahead(running):
    running.clock.time = QUICKNET.time(FIRST) - 1_001
    await refused("clock-unsure", running.seal(), "6.11")


async def test_before_any_round_is_verified_nothing_is_sealed(running):
    running.rounds.known.clear()
    await refused("no-verified-round", running.seal(), "6.11")
    await running.rounds.arrive(FIRST)
    running.rounds.broken = True
    await refused("chain-broken", running.seal(), "6.8")


async def test_a_round_that_would_be_early_waits(running):
    session = (await running.seal(participants=[])).session
    number = (await running.sessions.view(session))["round"]
    running.clock.time = QUICKNET.time(number) - 1_001
    with pytest.raises(Exception, match="falls due"):
        await running.rounds.arrive(number)
    assert await running.state(session) == "closed"
    running.clock.advance(1)
    await running.rounds.arrive(number)
    assert await running.state(session) == "anchored"


async def test_one_round_entry_serves_every_session_and_is_logged_once(running):
    written = [await running.seal(participants=[], round=FIRST + 10) for _ in range(5)]
    await running.reach(FIRST + 10)
    await running.rounds.arrive(FIRST + 10)
    assert len({item.session for item in written}) == 5
    entries = [json.loads(await running.log.entry(index)) for index in range(running.log.latest().size)]
    assert sum(entry["type"] == "round" for entry in entries) == 1
    for item in written:
        assert await running.state(item.session) == "anchored"


async def test_receipts_verify_and_stay_true_in_the_transcript(running):
    written = await running.seal()
    receipts = [*written.receipts, *(await running.contribute(written.session, "white", b"\xaa")).receipts]
    receipts += (await running.contribute(written.session, "black", b"\xbb")).receipts
    shown = {
        event.index: event.data for event in parse_transcript(await running.sessions.transcript(written.session)).events
    }
    for document in receipts:
        (event,) = parse_transcript(json.dumps(document).encode()).events
        assert shown[event.index] == event.data


async def test_a_sandbox_host_seals_sandbox_sessions(running):
    assert (await running.seal(Host("carol", sandbox=True))).state["sandbox"] is True
    assert (await running.seal()).state["sandbox"] is False


@pytest.mark.parametrize(
    "fields",
    [{"recipes": {}}, {"label": "x" * 257}, {"participants": [{"id": "a"}, {"id": "a"}]}, {"plan": {}}, {"round": 0}],
)
async def test_malformed_requests_never_reach_the_rules(running, fields):
    with pytest.raises(ValidationError):
        await running.seal(**fields)


@pytest.mark.parametrize("moment", ["sealed", "closed", "anchored", "drawing", "revealed"])
async def test_a_restart_goes_on_from_the_log(tmp_path, moment):
    async with service(tmp_path) as before:
        written = await before.seal()
        session, number = written.session, written.state["round"]
        if moment != "sealed":
            for player in ("white", "black"):
                await before.contribute(session, player)
        if moment in {"anchored", "drawing", "revealed"}:
            await before.reach(number)
        if moment in {"drawing", "revealed"}:
            await before.draw(session, "deck", 2)
        if moment == "revealed":
            await before.sessions.reveal(ALICE, session)
        seen = await before.sessions.view(session)
        assert seen["state"] == moment
    async with service(tmp_path, seeds=before.seeds, clock=before.clock, rounds=before.rounds) as after:
        assert await after.sessions.view(session) == seen
        if moment == "sealed":
            for player in ("white", "black"):
                await after.contribute(session, player)
        if moment in {"sealed", "closed"}:
            assert after.rounds.wanted == {number}
            await after.reach(number)
        if moment != "revealed":
            drawn = await after.draw(session, "deck")
            assert drawn.first_n == (3 if moment == "drawing" else 1)
            await after.sessions.reveal(ALICE, session)
        assert (await after.seal()).state["host_seq"] == 2
        assert (await after.verdict(session)).exit == 0


async def test_a_deadline_that_passed_while_the_service_was_down_is_kept_at_the_start(tmp_path):
    async with service(tmp_path) as before:
        session, _ = await anchored(before)
        await before.draw(session)
        before.clock.time = (await before.sessions.view(session))["reveal_by"] + 10 * HOUR
    async with service(tmp_path, seeds=before.seeds, clock=before.clock, rounds=before.rounds) as after:
        await after.keeper.tick()
        assert await after.state(session) == "drawing"
        after.clock.advance(20_000)
        await after.keeper.tick()
        assert await after.state(session) == "revealed"
        verdict = await after.verdict(session)
        assert verdict.exit == 0
        assert any("Late" in remark for remark in verdict.remarks)


async def test_many_draws_leave_one_deadline(running):
    session, _ = await anchored(running)
    for _ in range(30):
        await running.draw(session)
        await running.keeper.tick()
    assert sum(name == session for _, name in running.keeper._deadlines) <= 3
    assert running.keeper._next == {session: (await running.sessions.view(session))["reveal_by"]}
    await running.sessions.reveal(ALICE, session)
    await running.keeper.tick()
    assert running.keeper._next == {}


async def test_an_open_session_shows_how_many_contributed_and_not_what(running):
    players = [{"id": f"p{number}"} for number in range(200)]
    session = (await running.seal(participants=players)).session
    for player in players[:3]:
        await running.contribute(session, player["id"], b"\x99")
    view = await running.sessions.view(session)
    assert (view["contributions"], view["contributed"]) == (3, ["p0", "p1", "p2"])
    assert "99" not in json.dumps(view["contributed"])


async def test_a_contribution_whose_answer_was_lost_is_answered_again(running):
    session = (await running.seal()).session
    first = await running.contribute(session, "white", b"\x01")
    last = await running.contribute(session, "black", b"\x02")
    size = running.log.latest().size
    entries_of = lambda written: [receipt["events"][0]["entry"] for receipt in written.receipts]  # noqa: E731
    for _ in range(2):
        assert entries_of(await running.contribute(session, "white", b"\x01")) == entries_of(first)
        assert entries_of(await running.contribute(session, "black", b"\x02")) == entries_of(last)
        await running.reach((await running.sessions.view(session))["round"])
    await refused("not-your-session", running.contribute(session, "white", b"\x01", host=BOB))
    assert running.log.latest().size == size + 1


async def test_every_listed_participant_is_due_unless_the_host_says_otherwise(running):
    assert (await running.seal()).state["min_contributions"] == 2
    assert (await running.seal(min_contributions=0)).state["min_contributions"] == 0
    assert (await running.seal(open=True)).state["min_contributions"] == 0
    assert (await running.seal(participants=[])).state["min_contributions"] == 0


async def test_a_deck_says_how_many_cards_it_has_left(running):
    session, _ = await anchored(running)
    await running.draw(session, "deck")
    error = await refused("draw-past-end-of-deck", running.draw(session, "deck", 3))
    assert "10 that has 7 left" in error.detail
    assert (await running.draw(session, "deck", 2)).first_n == 2


async def test_heavy_draws_are_made_beside_the_writer_and_keep_their_order(running):
    recipes = {"ties": {"kind": "dice", "count": 200, "sides": 4000, "reroll_ties": True}}
    recipes |= {"deck": {"kind": "deal", "size": 10000, "count": 100}, "turn": {"kind": "dice", "count": 2, "sides": 6}}
    session, _ = await anchored(running, recipes=recipes)
    answers = await asyncio.gather(
        *(running.draw(session, "ties", 5) for _ in range(3)),
        *(running.draw(session, "deck", 10) for _ in range(3)),
        *(running.draw(session, "turn") for _ in range(5)),
    )
    assert sorted(answer.first_n for answer in answers[:3]) == [1, 6, 11]
    assert sorted(answer.first_n for answer in answers[3:6]) == [1, 11, 21]
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


@pytest.mark.parametrize(
    ("code", "recipe", "count"),
    [
        ("entry-too-long", {"kind": "dice", "count": 1000, "sides": 99900, "reroll_ties": True}, 32),
        ("draw-count", {"kind": "dice", "count": 1000, "sides": 99900, "reroll_ties": True}, 9),
        ("entry-too-long", {"kind": "shuffle", "size": 10000}, 2),
        ("entry-too-long", {"kind": "bytes", "count": 1024}, 40),
    ],
)
async def test_draws_that_are_too_much_at_once_are_refused_before_they_are_made(running, code, recipe, count):
    session, _ = await anchored(running, recipes={"much": recipe})
    running.worker.run = None
    error = await refused(code, running.draw(session, "much", count))
    assert 1 <= error.extra["most"] < count


@pytest.mark.parametrize(
    "recipe",
    [
        {"kind": "dice", "count": 7, "sides": 10},
        {"kind": "integers", "min": -(2**53) + 1, "max": 2**53 - 1, "count": 50},
        {"kind": "integers", "min": -5, "max": 3, "count": 9},
        {"kind": "shuffle", "size": 100},
        {"kind": "sample", "size": 2**32, "count": 40},
        {"kind": "deal", "size": 5000, "count": 40},
        {"kind": "weighted", "weights": [0, 0, 1], "count": 30},
        {"kind": "bytes", "count": 33},
    ],
)
def test_the_most_that_an_outcome_takes_is_never_too_little(recipe):
    parsed = parse_recipe(recipe)
    for n in range(1, 40):
        outcome = draw(parsed, Stream(bytes(32), bytes(32), "r", n))
        assert len(encode_json([outcome])) - 1 <= draws._most_bytes(parsed)


async def test_receipts_can_be_had_again(running):
    session, _ = await anchored(running)
    await running.draw(session)
    view = await running.sessions.view(session)
    shown = parse_transcript(await running.sessions.transcript(session)).events
    assert view["close_index"] in {event.index for event in shown}
    for event in shown:
        document = await running.sessions.receipt(session, event.index)
        (again,) = parse_transcript(json.dumps(document).encode()).events
        assert again.data == event.data
        assert check(json.dumps(document).encode(), Trust(log_key=running.vkey))["log"].state == "PROVEN"
    await refused("not-found", running.sessions.receipt(session, 0))
    await refused("session-unknown", running.sessions.receipt(bytes(32), 1))


async def test_nothing_is_drawn_or_revealed_while_contributions_were_never_closed(running):
    written = await running.seal()
    running.clock.time = QUICKNET.time(written.state["round"]) + 500
    await running.rounds.arrive(written.state["round"])
    assert await running.state(written.session) == "sealed"
    await refused("not-closed", running.draw(written.session), "6.4")
    await refused("not-closed", running.sessions.reveal(ALICE, written.session), "6.4")
    await running.keeper.tick()
    view = await running.sessions.view(written.session)
    assert (view["state"], view["reason"]) == ("void", "missed-close")
    assert (await running.verdict(written.session)).exit == 2


async def test_a_session_is_full_before_its_transcript_is_too_large(running, monkeypatch):
    session, _ = await anchored(running)
    empty = running.book.get(session).size
    await running.draw(session, "shuffle")
    full = running.book.get(session).size
    document = await running.sessions.transcript(session)
    assert len(document) < full
    monkeypatch.setattr(draws, "MAX_SIZE", full + 2 * 65_535 - 1)
    error = await refused("session-full", running.draw(session), "7.2")
    assert str(full) in error.detail
    assert full - empty > 48_000
    await running.sessions.reveal(ALICE, session)
    assert (await running.verdict(session)).exit == 0


async def test_an_entry_that_was_altered_on_disk_is_not_used(running):
    session, _ = await anchored(running)
    index = (await running.sessions.view(session))["close_index"]

    def alter(db):
        db.execute("DROP TRIGGER entries_no_update")
        db.execute("UPDATE entries SET entry = CAST(replace(entry, '11', '22') AS BLOB) WHERE i = ?", [index - 1])

    await running.log.writer.run(alter)
    with pytest.raises(LogDamaged):
        await running.sessions.transcript(session)


async def test_many_sessions_of_one_round_are_all_closed_in_time(running):
    sessions = [(await running.seal(min_contributions=0)).session for _ in range(40)]
    close_at = (await running.sessions.view(sessions[0]))["close_at"]
    running.clock.time = close_at + 1
    await running.rounds.arrive(QUICKNET.current(close_at))
    running.seeds.kept.clear()
    while await running.keeper.tick():
        pass
    assert {await running.state(session) for session in sessions} == {"closed"}


async def test_another_master_key_is_noticed(running):
    assert await Custody(bytes(range(32)), running.seeds).owns()
    assert await Custody(bytes(range(32)), running.seeds).owns()
    assert not await Custody(bytes(32), running.seeds).owns()


async def test_looking_at_ended_sessions_takes_nothing_from_rounds_and_deadlines(running, monkeypatch):
    session, _ = await anchored(running)
    await running.sessions.reveal(ALICE, session)
    shared, own = running.log.reader.run, running.transcripts.read
    reads = []

    async def count(query):
        reads.append(query)
        return await own(query)

    async def refuse(_query):
        raise AssertionError("the reader that rounds share")

    monkeypatch.setattr(running.log.reader, "run", refuse)
    monkeypatch.setattr(running.transcripts, "read", count)
    running.context._ended.clear()
    for _ in range(5):
        assert await running.state(session) == "revealed"
    assert len(reads) == 1
    await running.sessions.transcript(session)
    monkeypatch.setattr(running.log.reader, "run", shared)


async def test_an_unsure_clock_is_said_once_however_many_deadlines_wait(running):
    for _ in range(5):
        await running.seal(close_at=running.clock.now() + 100, min_contributions=0)
    running.clock.advance(18_600)
    with capture_logs() as lines:
        for _ in range(4):
            await running.keeper.tick()
            running.clock.advance(600)
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["deadlines wait"]
        await running.rounds.arrive(FIRST + 6)
        await running.keeper.tick()
        running.clock.advance(600)
        await running.keeper.tick()
    assert {state.name for state in running.book.all_open()} == {"closed"}


async def test_a_disk_that_takes_nothing_is_said_once_however_many_deadlines_wait(running, monkeypatch):
    for _ in range(5):
        await running.seal(close_at=running.clock.now() + 100, min_contributions=0)
    running.clock.advance(200)
    with monkeypatch.context() as full, capture_logs() as lines:
        full.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096))
        for _ in range(4):
            await running.keeper.tick()
            running.clock.advance(600)
    assert [(line["event"], line["log_level"]) for line in lines] == [("deadlines wait", "warning")]
    assert lines[0]["reason"].startswith("write-failed: nothing was written: ")
    await running.keeper.tick()
    assert {state.name for state in running.book.all_open()} == {"closed"}
