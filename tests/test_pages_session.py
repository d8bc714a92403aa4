"""The page of a session, in every state that one can be in."""

import asyncio
import hashlib
import hmac
import re
from dataclasses import replace
from functools import partial

import pytest

from beacon.sessions.story import PAGE_ENTRIES, story
from beacon.web.pages.chain_view import ChainView, chain_view
from beacon.web.pages.keeping import AT_ONCE, Made
from beacon.web.pages.outcomes import card, is_costly, outcome_of
from beacon.web.pages.rendering import environment, moment
from beacon.web.pages.session_view import facts, session_view
from beacon.web.services import SERVICES
from tests import page_worlds
from tests.page_worlds import HOSTILE, LATE, ORDINARY, RIGHT_TO_LEFT, reach
from tests.pages_support import BROWSER, get_page, parse
from tests.round_support import QUICKNET
from tests.session_support import ALICE, service
from tests.web_support import web_of
from verifier.draws import parse_recipe

WORLDS = ORDINARY | LATE
STATES = {
    "contributed": "sealed",
    "open_to_all": "sealed",
    "live_sealed": "closed",
    "live_called": "called",
    "live_drawn": "drawing",
    "live_revealed": "revealed",
    "claimed": "drawing",
    "false_claim": "revealed",
    "sandbox": "sealed",
    "hostile": "revealed",
    "planned": "revealed",
}


@pytest.fixture
async def world(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        yield running, client


async def shown(world, name, **fields):
    running, client = world
    session = await WORLDS[name](running, **fields)
    return session, await get_page(client, f"/s/{session.hex()}")


def phases(page):
    """The time line as (heading, progress)."""
    line = page.classed("timeline")[0]
    items = [one for one in line.children if not isinstance(one, str)]
    return [(next(one.all("h3")).text, one.attributes["class"]) for one in items]


def scripts(page):
    """The names of the script files, in their order."""
    return [one.attributes["src"].rpartition("/")[2] for one in page.all("script")]


@pytest.mark.parametrize("name", WORLDS)
async def test_each_state_has_its_page(world, name):
    running, _ = world
    session, page = await shown(world, name)
    state = await running.state(session)
    expected = "void" if name.startswith("void_") else STATES.get(name, name)
    assert state == expected
    words = {"sealed": "Open for contributions", "closed": "Waiting", "anchored": "Round is in", "called": "A draw waits",
             "drawing": "In play", "revealed": "Revealed", "void": "Void"}  # fmt: skip
    assert page.by_id("state").text == words[state]
    assert session.hex()[:4] in page.one("h1").text
    assert "the word of the operator of" in page.text
    assert not re.search(r"proven fair|\bfair\b(?!-beacon)", page.text, re.IGNORECASE)
    assert scripts(page) == ["join.js", *([] if state in {"revealed", "void"} else ["session.js"])]
    assert "hidden" in page.by_id("join").attributes
    assert len(list(page.all("noscript"))) == (state == "sealed")


async def test_the_time_line_says_how_far_a_session_is(world):
    running, client = world
    session, page = await shown(world, "contributed")
    first = phases(page)
    assert [progress for _, progress in first] == ["done", "now", "ahead", "ahead", "ahead"]
    assert [name for name, _ in first][:2] == ["Sealed", "Contributions"]
    await running.contribute(session, "black")
    page = await get_page(client, f"/s/{session.hex()}")
    assert [progress for _, progress in phases(page)] == ["done", "done", "now", "ahead", "ahead"]
    await reach(running, (await running.sessions.view(session))["round"])
    page = await get_page(client, f"/s/{session.hex()}")
    assert [progress for _, progress in phases(page)] == ["done", "done", "done", "now", "ahead"]
    await running.sessions.reveal(ALICE, session)
    page = await get_page(client, f"/s/{session.hex()}")
    assert [progress for _, progress in phases(page)] == ["done"] * 5


async def test_a_live_session_that_waits_for_its_first_call_says_so(world):
    _, page = await shown(world, "live_sealed")
    assert "Ready for the first draw." in page.by_id("standing").text


async def test_who_contributed_to_a_call_stands_beside_its_draw(world):
    running, client = world
    session = await page_worlds.live_sealed(running, participants=[{"id": "<i>white"}], close_at=None)
    given = [{"participant": "<i>white", "entropy": "ab"}]
    called = await running.draw(session, "turn", contributions=given)
    await reach(running, called.call.round)
    page = await get_page(client, f"/s/{session.hex()}")
    (added,) = page.classed("added")
    assert added.one("bdi").text == "<i>white"
    assert len(list(redone(page))) == 5
    assert "The log says the same." in page.text


async def test_a_timelock_says_from_when_anyone_can_open_the_seed(world):
    running, client = world
    session = await page_worlds.sealed(running, timelock=True)
    lock = (await running.sessions.state(session)).seal.timelock
    page = await get_page(client, f"/s/{session.hex()}")
    assert f"round {lock.round:,}, {moment(QUICKNET.time(lock.round))}" in page.text
    _, page = await shown(world, "sealed", timelock=False)
    assert "Anyone can open the seed" not in page.text


async def test_a_seed_that_its_timelock_opened_says_so(world):
    running, _ = world
    session = await page_worlds.revealed(running)
    state = await running.sessions.state(session)
    state = replace(state, end=replace(state.end, by="timelock"))
    view = session_view(state, await running.waiting.story(session, None), ChainView("00", "x", "main", QUICKNET))
    values = facts(view) | {"vkey": "k", "vkeys": ("k",), "origin": "o", "path": "/"}
    assert (
        "The seed was opened with its timelock."
        in parse(environment().get_template("session.html").render(values)).text
    )


async def test_a_void_session_says_why_and_what_was_skipped(world):
    _, page = await shown(world, "void_host")
    assert [progress for _, progress in phases(page)] == ["done", "skipped", "skipped", "skipped", "done failed"]
    assert "The host gave it up before the round" in page.text
    assert "They were never closed" in page.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("void_missed_close", "Contributions were not closed in time"),
        ("void_below_minimum", "Too few contributed"),
        ("void_no_round", "operator's word"),
        ("void_missed_reveal", "The verifier fails such a session"),
    ],
)
async def test_each_reason_of_a_void_has_its_words(world, name, said):
    _, page = await shown(world, name)
    assert said in page.text


async def test_outcomes_are_pictures_with_words(world):
    running, _ = world
    session, page = await shown(world, "revealed")
    state = await running.sessions.state(session)
    rows = {next(one.all("code")).text: one for one in page.classed("draws")[0].children if not isinstance(one, str)}
    assert set(rows) == set(state.seal.recipes)
    assert len(rows["turn"].classed("die")) == 2
    assert re.search(r"[1-6], [1-6]", rows["turn"].classed("hidden-text")[0].text)
    assert len(rows["cards"].classed("playing")) == 5
    assert re.match(r"\w+ of (clubs|diamonds|hearts|spades), ", rows["cards"].classed("hidden-text")[0].text)
    assert len(rows["d20"].classed("chip")) == 3
    assert len(rows["order"].classed("chip")) == 8
    assert re.fullmatch(r"\s*[0-9a-f]{48}\s*", rows["raw"].classed("outcome")[0].text)


def test_numbers_are_pictures_only_where_they_are_of_that_kind():
    dice, deck = parse_recipe(page_worlds.DICE), parse_recipe({"kind": "shuffle", "size": 52})
    assert outcome_of(dice, [6, 1]).dice == (6, 1)
    assert outcome_of(dice, [7, 1]).numbers == ("7", "1")
    assert [one.number for one in outcome_of(deck, [51, 0]).cards] == [51, 0]
    assert outcome_of(deck, [52]).kind == "numbers"
    assert (card(0).rank, card(0).suit, card(51).rank, card(51).suit) == ("A", "clubs", "K", "spades")
    many = outcome_of(parse_recipe({"kind": "shuffle", "size": 10_000}), list(range(10_000)))
    assert (len(many.numbers), many.more) == (60, 9_940)
    assert outcome_of(parse_recipe({"kind": "bytes", "count": 1_024}), "ab" * 1_024).more == 960
    assert outcome_of(dice, None).numbers == ()
    assert is_costly(parse_recipe({"kind": "shuffle", "size": 10_000}), 1)
    assert is_costly(parse_recipe({"kind": "deal", "size": 10_000, "count": 10}), 101)
    assert not is_costly(dice, 2**32 - 1)
    assert not is_costly(parse_recipe({"kind": "bytes", "count": 1_024}), 1)


# --- by hand ---------------------------------------------------------------------------------------------------------

PIPE = re.compile(r"printf %s ([0-9a-f]*) \| xxd -r -p \| (.+)")


def redone(page):
    """What each command line of the page gives, beside what the page says."""
    for item in page.by_id("by-hand").one("ol").children:
        lines = [] if isinstance(item, str) else list(item.all("pre"))
        if lines:
            data, command = PIPE.fullmatch(lines[0].text).groups()
            told = item.classed("result")[0].one("code").text
            yield bytes.fromhex(data), command, told


@pytest.mark.parametrize("name", ["revealed", "live_drawn", "live_revealed", "false_claim", "hostile", "planned"])
async def test_the_steps_by_hand_give_what_they_say(world, name):
    _, page = await shown(world, name)
    steps = list(redone(page))
    assert len(steps) == 5
    for data, command, told in steps[:4]:
        assert command == "sha256sum"
        assert hashlib.sha256(data).hexdigest() == told
    data, command, told = steps[4]
    assert data[:32].hex() == steps[3][2]
    assert steps[3][0].endswith(bytes.fromhex(steps[1][2]))
    key = command.removeprefix("openssl dgst -sha256 -mac HMAC -macopt hexkey:")
    assert bytes.fromhex(key) == steps[0][0]
    assert hmac.digest(bytes.fromhex(key), data, "sha256").hex() == told
    assert ("The log says something else" in page.text) == (name == "false_claim")
    assert ("The log says the same" in page.text) == (name != "false_claim")


@pytest.mark.parametrize("name", ["sealed", "anchored", "drawing", "live_called"])
async def test_no_page_shows_a_seed_that_is_not_public(world, name):
    running, _ = world
    session, page = await shown(world, name)
    state = await running.sessions.state(session)
    custody, commitment = running.context.custody, state.seal.commitment
    if state.live:
        links = await custody.chain(commitment, state.seal.links)
        assert links.link(1).hex() in page.text
        assert links.link(4).hex() not in page.text
    else:
        assert (await custody.open(commitment)).hex() not in page.text
        assert "Once a seed is public" in page.text


# --- marks -----------------------------------------------------------------------------------------------------------


async def test_sandbox_sessions_and_other_networks_are_marked(world):
    running, client = world
    _, page = await shown(world, "sandbox")
    assert "A test, not a game." in page.text
    assert "--sandbox" in page.text
    assert "Not a public random network" not in page.text
    session = await page_worlds.sealed(running)
    state = await running.sessions.state(session)
    services = client.app[SERVICES]
    assert chain_view(services, state.seal.chain).kind == "main"
    own = chain_view(services, bytes(32))
    assert (own.kind, own.info, own.time(1)) == ("own", None, None)


async def test_a_private_network_is_marked(world, monkeypatch):
    monkeypatch.setattr("beacon.web.pages.chain_view.pinned_chains", dict)
    _, page = await shown(world, "sealed")
    assert "Not a public random network." in page.text
    assert "--chain chain.json" in page.text


async def test_a_test_network_of_drand_is_marked(world, monkeypatch):
    monkeypatch.setattr("beacon.web.pages.chain_view.main_chains", dict)
    _, page = await shown(world, "sealed")
    assert "A test network of drand." in page.text


async def test_a_hosts_claim_is_called_one(world):
    _, page = await shown(world, "claimed")
    assert "the host's own word" in page.text


async def test_a_session_that_re_runs_another_says_so_first(world):
    running, client = world
    first = await page_worlds.void_host(running)
    session = await page_worlds.sealed(running, replaces=first.hex())
    page = await get_page(client, f"/s/{session.hex()}")
    assert any(one.attributes["href"] == f"/s/{first.hex()}" for one in page.all("a"))


# --- hostile and long ------------------------------------------------------------------------------------------------


async def test_what_others_wrote_is_text_on_its_own(world):
    _, page = await shown(world, "hostile")
    assert scripts(page) == ["join.js"]
    isolated = [one.text for one in page.all("bdi")]
    assert HOSTILE in isolated
    assert RIGHT_TO_LEFT in isolated
    assert HOSTILE[:128] in isolated
    assert "{{7*7}}" in "".join(isolated)
    assert "49" not in "".join(isolated)
    assert all("onerror" not in one.attributes for one in page.all())
    for part in ("hacked", "\u05d0"):
        around = [one for one in page.all() if any(isinstance(text, str) and part in text for text in one.children)]
        assert {one.tag for one in around} == {"bdi"}


async def test_a_long_session_has_pages(world):
    running, client = world
    session = await page_worlds.anchored(running)
    for _ in range(PAGE_ENTRIES + 5):
        await running.draw(session, "turn")
    path = f"/s/{session.hex()}"
    newest = await get_page(client, path)
    assert len(newest.classed("draws")[0].classed("outcome")) == PAGE_ENTRIES
    (earlier,) = (one for one in newest.all("a") if one.text == "Earlier entries")
    older = await get_page(client, earlier.attributes["href"])
    assert len(older.classed("draws")[0].classed("outcome")) == 5
    assert len(older.classed("people")[0].classed("who")) == 2
    assert scripts(older) == ["join.js"]
    assert [one.text for one in older.all("a") if one.attributes["href"] == path] == ["Newest entries"]


async def test_a_page_reads_a_bounded_part_of_big_entries(world):
    running, _ = world
    session = await page_worlds.anchored(running, recipes={"order": {"kind": "shuffle", "size": 10_000}})
    for _ in range(8):
        await running.draw(session, "order")
    parts, before = [], None
    while before is not None or not parts:
        part = await running.log.read(lambda db, before=before: story(db, session, before))
        parts.insert(0, part)
        before = part.earlier
    assert len(parts) > 1
    assert [part.later for part in parts] == [True] * (len(parts) - 1) + [False]
    indices = [event.index for part in parts for event in part.events]
    state = await running.sessions.state(session)
    assert indices == sorted(set(indices))
    assert (indices[0], indices[-1]) == (state.index, state.last_index)
    assert len(indices) == 1 + 2 + 1 + 1 + 8


async def test_many_numbers_are_cut_and_said_so(world):
    running, client = world
    session = await page_worlds.anchored(running, recipes={"dice": {"kind": "dice", "count": 60, "sides": 6}})
    await running.draw(session, "dice", count=100)
    page = await get_page(client, f"/s/{session.hex()}")
    assert 0 < len(page.classed("die")) < 4_000
    assert "More was drawn than fits here" in page.text


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["0", "ab" * 32, "AB" * 32, "ab" * 33])
async def test_an_unknown_session_is_said_to_be_unknown(world, name):
    _, client = world
    page = await get_page(client, f"/s/{name}", 404)
    assert page.one("h1").text == "No such session"
    async with client.get(f"/s/{name}") as answer:
        assert (await answer.json())["code"] == "session-unknown"


@pytest.mark.parametrize("query", ["?before=x", "?before=1&before=2", "?other=1", "?before=-1"])
async def test_queries_that_mean_nothing_are_refused(world, query):
    running, client = world
    session = await page_worlds.sealed(running)
    page = await get_page(client, f"/s/{session.hex()}{query}", 400)
    assert page.one("h1").text == "That address makes no sense"


async def test_a_page_before_everything_is_empty_and_no_failure(world):
    running, client = world
    session = await page_worlds.sealed(running)
    await get_page(client, f"/s/{session.hex()}?before=0")
    await get_page(client, f"/s/{session.hex()}?before=9007199254740991")


async def test_a_session_that_changed_has_another_tag(world):
    running, client = world
    session = await page_worlds.contributed(running)
    async with client.get(f"/s/{session.hex()}", headers=BROWSER) as answer:
        tag = answer.headers["ETag"]
    async with client.get(f"/s/{session.hex()}", headers={**BROWSER, "If-None-Match": tag}) as answer:
        assert answer.status == 304
    await running.contribute(session, "black")
    async with client.get(f"/s/{session.hex()}", headers={**BROWSER, "If-None-Match": tag}) as answer:
        assert answer.status == 200


# --- many readers ----------------------------------------------------------------------------------------------------


async def test_who_ask_at_once_get_a_page_that_is_made_once(world, monkeypatch):
    running, client = world
    session = await page_worlds.contributed(running)
    made = []
    monkeypatch.setattr(
        "beacon.web.pages.session_routes.session_view", lambda *given: made.append(given) or session_view(*given)
    )
    path = f"/s/{session.hex()}"
    first = await asyncio.gather(*(get_page(client, path) for _ in range(10)))
    assert len(made) == 1
    assert {one.by_id("state").text for one in first} == {"Open for contributions"}
    await running.contribute(session, "black")
    assert (await get_page(client, path)).by_id("state").text == "Waiting"
    await get_page(client, f"{path}?before=5")
    assert len(made) == 3


async def test_a_page_that_failed_is_made_again():
    made, fails = Made(limit=2), [True]

    async def make():
        await asyncio.sleep(0)
        if fails:
            raise ValueError(fails.pop())
        return b"page"

    with pytest.raises(ValueError, match="True"):
        await made.get("a", make)
    assert await made.get("a", make) == b"page"
    for key in "bcd":
        await made.get(key, make)
    assert list(made._tasks) == ["c", "d"]


async def test_a_few_pages_are_made_at_once_and_the_others_wait():
    made, go, making = Made(), asyncio.Event(), []

    async def make(number):
        making.append(number)
        await go.wait()
        return b"%d" % number

    asked = [asyncio.ensure_future(made.get(number, partial(make, number))) for number in range(AT_ONCE + 3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert making == list(range(AT_ONCE))
    go.set()
    assert await asyncio.gather(*asked) == [b"%d" % number for number in range(AT_ONCE + 3)]


async def test_a_reader_who_leaves_does_not_take_the_page_from_the_others():
    made, go = Made(), asyncio.Event()

    async def make():
        await go.wait()
        return b"page"

    first, second = (asyncio.create_task(made.get("a", make)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second == b"page"
