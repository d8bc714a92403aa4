"""The pages of the statistics: what they say, of whom, how far the count is, and that nothing hostile runs."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from beacon.log.reads import entries
from beacon.web.pages import counting
from beacon.web.pages.counting import COUNTING, Asked, Counting
from beacon.web.pages.statistics_routes import MOST_GAMES, MOST_ROLLS
from tests import page_worlds
from tests.pages_support import BROWSER, get_page
from tests.session_support import ALICE, BOB, Host, service
from tests.web_support import web_of
from verifier.statistics import shots
from verifier.statistics.shots import Reach

ROOT = Path(__file__).parents[1]
ALL = Asked(None, tests=False)
DICE = {"turn": {"kind": "dice", "count": 2, "sides": 6}}
SANDBOX = Host("tests", sandbox=True)


@pytest.fixture
async def running(tmp_path):
    async with service(tmp_path) as running:
        yield running


@pytest.fixture
async def client(running):
    async with web_of(running) as client:
        yield client


async def play(running, rolls, host=ALICE, **fields):
    """A match with so many rolls of two dice."""
    number = page_worlds.soon(running)
    seal = {"recipes": DICE, "participants": [], "open": True, "round": number} | fields
    session = (await running.seal(host, **seal)).session
    await page_worlds.reach(running, number)
    await running.draw(session, "turn", count=rolls, host=host)
    return session


def shown(page, name):
    """The number of that description."""
    (found,) = [one for one in page.all("div") if [term.text for term in one.all("dt")] == [name]]
    return found.one("dd").text


# --- the log's dice ---------------------------------------------------------------------------------------------------


async def test_an_empty_log_has_the_odds_alone(client) -> None:
    page = await get_page(client, "/statistics")
    assert page.one("h1").text == "What the dice showed"
    assert shown(page, "Rolls of dice") == "0"
    assert "No dice have been rolled here yet." in page.text
    for text in ("98.95 %", "44.78 %", "8.67 %", "83.68 %", "28.28 %", "cannot exclude chosen seeds"):
        assert text in page.text
    assert [svg.attributes["class"] for svg in page.all("svg")] == ["chart"]


async def test_all_hosts_one_host_and_tests(running, client) -> None:
    await play(running, 36)
    await play(running, 10, BOB)
    await play(running, 5, SANDBOX)
    whole = await get_page(client, "/statistics")
    assert (shown(whole, "Rolls of dice"), shown(whole, "Sessions")) == ("46", "2")
    assert "Counted: all" in whole.text
    assert len(list(whole.all("svg"))) == 4
    assert "92 dice" in whole.text
    bob = await get_page(client, "/statistics?host=bob")
    assert (shown(bob, "Rolls of dice"), shown(bob, "Sessions")) == ("10", "1")
    assert "The host bob" in [heading.text for heading in bob.all("h2")]
    assert bob.by_id("host").attributes["value"] == "bob"
    tests = await get_page(client, "/statistics?tests")
    assert shown(tests, "Rolls of dice") == "5"
    assert "Test sessions, not games." in tests.text
    assert [link.attributes["href"] for link in tests.all("a") if link.text == "Count the games instead"] == [
        "/statistics"
    ]
    assert [link.attributes["href"] for link in whole.all("a") if "test sessions" in link.text] == ["/statistics?tests"]
    assert shown(await get_page(client, "/statistics?host=nobody"), "Rolls of dice") == "0"


async def test_a_hosts_page_leads_to_its_dice(running, client) -> None:
    await play(running, 4, BOB)
    await play(running, 5, SANDBOX)
    for host, rolls in (("bob", "4"), ("tests", "5")):
        page = await get_page(client, f"/hosts/{host}")
        (link,) = [one for one in page.all("a") if one.text == "What this host's dice showed"]
        dice = await get_page(client, link.attributes["href"])
        assert shown(dice, "Rolls of dice") == rolls


async def test_the_verifier_counts_the_same_over_the_tiles(running, client) -> None:
    await play(running, 300)
    page = await get_page(client, "/statistics")
    command = [sys.executable, "-m", "verifier", "statistics", str(client.make_url("/")), "--json"]
    command += ["--log-key", str(running.vkey)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    said = json.loads(output)
    assert f"{said['source']['rolls']:,}" == shown(page, "Rolls of dice") == "300"
    assert [figure["result"] for figure in said["figures"]] == [
        next(section.all("p")).text
        for section in page.all("section")
        if section.attributes["aria-labelledby"] in {figure["name"] for figure in said["figures"]}
    ]


async def test_new_rolls_are_counted_without_counting_again(running, client, monkeypatch) -> None:
    await play(running, 3)
    assert shown(await get_page(client, "/statistics"), "Rolls of dice") == "3"
    read: list[tuple[int, int]] = []
    monkeypatch.setattr(
        counting, "entries", lambda db, first, end: (read.append((first, end)), entries(db, first, end))[1]
    )
    before = running.log.latest().size
    await get_page(client, "/statistics")
    assert read == []
    await play(running, 4)
    assert shown(await get_page(client, "/statistics"), "Rolls of dice") == "7"
    assert read == [(before, running.log.latest().size)]


async def test_figures_are_made_once_for_a_size_and_kept_within_limits(running, monkeypatch) -> None:
    await play(running, 3)
    made = Counting()
    drawn: list[Asked] = []
    plain = made._drawn
    monkeypatch.setattr(made, "_drawn", lambda asked: (drawn.append(asked), plain(asked))[1])
    first, again = [await made.counted(running.log, ALL) for _ in range(2)]
    assert first == again
    assert drawn == [ALL]
    for place in range(counting.MAX_KEPT + 5):
        await made.counted(running.log, Asked(f"h{place}", tests=False))
    assert len(made._kept) == counting.MAX_KEPT
    assert (await made.counted(running.log, ALL)).counts.rolls == 3
    assert drawn.count(ALL) == 2


async def test_a_long_log_is_counted_in_pieces_and_the_page_says_how_far(running, client, monkeypatch) -> None:
    for _ in range(4):
        await play(running, 2)
    size = running.log.latest().size
    monkeypatch.setattr(counting, "AT_ONCE", 3)
    monkeypatch.setattr(counting, "PATIENCE", 0)
    gate, waits = asyncio.Event(), asyncio.Event()
    count, taken = client.app[COUNTING], []
    read = running.log.read

    async def slow(query):
        if len(taken) == 2:
            waits.set()
            await gate.wait()
        taken.append(len(found := await read(query)))
        return found

    monkeypatch.setattr(running.log, "read", slow)
    await get_page(client, "/statistics")
    await waits.wait()
    page = await get_page(client, "/statistics")
    assert f"Counted so far: the first 6 of the log's {size} entries." in page.text
    async with client.get("/healthz") as answer:
        assert answer.status == 200
    gate.set()
    await count._task
    page = await get_page(client, "/statistics")
    assert shown(page, "Rolls of dice") == "8"
    assert max(taken) == 3
    assert sum(taken) == size


async def test_readers_at_once_count_once(running, client, monkeypatch) -> None:
    await play(running, 20)
    read: list[int] = []
    monkeypatch.setattr(counting, "entries", lambda db, first, end: (read.append(first), entries(db, first, end))[1])
    pages = await asyncio.gather(*(get_page(client, f"/statistics?rolls={rolls}") for rolls in range(1, 9)))
    assert {shown(page, "Rolls of dice") for page in pages} == {"20"}
    assert read == [0]


async def test_a_count_that_is_stopped_goes_no_further(running, monkeypatch) -> None:
    await play(running, 2)
    monkeypatch.setattr(counting, "PATIENCE", 0)
    made, gate = Counting(), asyncio.Event()

    async def never(_query):
        await gate.wait()

    monkeypatch.setattr(running.log, "read", never)
    counted = await made.counted(running.log, ALL)
    assert counted.entries == 0
    await made.stop()
    assert made._task is not None
    assert made._task.cancelled()
    await Counting().stop()


async def counted_after(running, monkeypatch):
    """What a service that has just started counts, and where it began to read."""
    read: list[int] = []
    monkeypatch.setattr(counting, "entries", lambda db, first, end: (read.append(first), entries(db, first, end))[1])
    made = Counting()
    found = await made.counted(running.log, ALL)
    await made.stop()
    return found.counts.rolls, read


async def test_a_restart_goes_on_from_where_the_count_was(running, monkeypatch) -> None:
    await play(running, 3)
    size = running.log.latest().size
    assert await counted_after(running, monkeypatch) == (3, [0])
    assert await counted_after(running, monkeypatch) == (3, [])
    await play(running, 4)
    assert await counted_after(running, monkeypatch) == (7, [size])


async def test_a_count_is_written_down_on_the_way(running, monkeypatch) -> None:
    await play(running, 3)
    monkeypatch.setattr(counting, "AT_ONCE", 2)
    monkeypatch.setattr(counting, "SAVED_EVERY", 4)
    await Counting().counted(running.log, ALL)
    rolls, read = await counted_after(running, monkeypatch)
    assert rolls == 3
    assert all(first >= 4 for first in read)


def other_root(text):
    return json.dumps(json.loads(text) | {"root": "00" * 32})


def longer(text):
    kept = json.loads(text)
    kept["counts"]["totals"][0] += 1_000
    return json.dumps(kept)


def fewer_faces(text):
    kept = json.loads(text)
    kept["counts"]["groups"][0][1][3][0][2].pop()
    return json.dumps(kept)


@pytest.mark.parametrize(
    "change",
    [
        other_root,
        longer,
        fewer_faces,
        lambda text: text[: len(text) // 2],
        lambda _: "[]",
        lambda _: "null",
        lambda _: "[" * 100_000,
        lambda text: text.replace("counts/v1", "counts/v2"),
        lambda text: text.replace('"open"', '"closed"'),
    ],
)
async def test_a_count_of_another_log_or_none_is_not_taken(running, monkeypatch, change) -> None:
    await play(running, 3)
    await counted_after(running, monkeypatch)
    file = running.log.path.with_name(counting.FILE)
    file.write_text(change(file.read_text()))
    assert await counted_after(running, monkeypatch) == (3, [0])


async def test_a_count_that_cannot_be_written_down_is_counted_again(running, monkeypatch) -> None:
    await play(running, 3)
    running.log.path.with_name(f"{counting.FILE}.new").mkdir()
    assert await counted_after(running, monkeypatch) == (3, [0])
    assert await counted_after(running, monkeypatch) == (3, [0])


async def test_a_damaged_log_is_an_error_and_no_count(running, client, monkeypatch) -> None:
    await play(running, 2)
    good = counting.entries
    monkeypatch.setattr(counting, "entries", lambda *_: (_ for _ in ()).throw(ValueError("secret text")))
    page = await get_page(client, "/statistics", 500)
    assert "secret text" not in page.text
    monkeypatch.setattr(counting, "entries", good)
    assert shown(await get_page(client, "/statistics"), "Rolls of dice") == "2"


async def test_the_length_of_a_game_is_the_readers(client) -> None:
    page = await get_page(client, "/statistics?rolls=100&games=3")
    assert "Streaks of doubles in 100 rolls of two dice" in page.text
    assert (page.by_id("rolls").attributes["value"], page.by_id("games").attributes["value"]) == ("100", "3")
    await get_page(client, f"/statistics?rolls={MOST_ROLLS}&games={MOST_GAMES}&host=")


@pytest.mark.parametrize(
    "query",
    [
        "rolls=0",
        f"rolls={MOST_ROLLS + 1}",
        "rolls=-1",
        "rolls=1_0",
        "rolls=x",
        "games=0",
        f"games={MOST_GAMES + 1}",
        "rolls=٣",
    ],
)
async def test_numbers_that_are_none(client, query: str) -> None:
    await get_page(client, f"/statistics?{query}", 400)
    if query.startswith("rolls"):
        await get_page(client, f"/thirty-six?{query.replace('rolls', 'distance')}", 400)


async def test_nothing_hostile_runs(running, client) -> None:
    label, host = page_worlds.HOSTILE, '"><script>alert(1)</script>'
    await play(running, 2, label=label)
    async with client.get("/statistics", params={"host": host}, headers=BROWSER) as answer:
        text = await answer.text()
    assert "<script" not in text
    page = await get_page(client, "/statistics?host=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.by_id("host").attributes["value"] == host
    assert label not in (await get_page(client, "/statistics")).text


async def test_drawings_take_their_colours_from_the_pages_style(client) -> None:
    async with client.get("/statistics", headers=BROWSER) as answer:
        text = await answer.text()
    async with client.get(re.search(r'href="(/static/[^"]+pages.css)"', text)[1]) as answer:
        style = await answer.text()
    for name in ("--more", "--less"):
        assert style.count(f"{name}:") == 2
        assert f"var({name}, " in text


# --- the thirty-six rolls ---------------------------------------------------------------------------------------------

# Rolls out of 36 that hit a blot, no point blocked: the table of every backgammon primer.
HITS = {
    1: 11,
    2: 12,
    3: 14,
    4: 15,
    5: 15,
    6: 17,
    7: 6,
    8: 6,
    9: 5,
    10: 3,
    11: 2,
    12: 3,
    15: 1,
    16: 1,
    18: 1,
    20: 1,
    24: 1,
}


@pytest.mark.parametrize("distance", range(1, 25))
def test_the_shots_of_the_primers(distance: int) -> None:
    direct, combined = shots.shots(distance)
    assert direct + combined == HITS.get(distance, 0)
    assert direct == (11 if distance <= 6 else 0)
    rows = shots.grid(distance)
    assert sum(row.count(Reach.DIRECT) for row in rows) == direct
    assert all(rows[i][j] == rows[j][i] for i in range(6) for j in range(6))


@pytest.mark.parametrize(
    ("distance", "roll", "reach"),
    [
        (6, (6, 1), Reach.DIRECT), (6, (5, 1), Reach.COMBINED), (6, (2, 2), Reach.COMBINED), (6, (3, 3), Reach.COMBINED),
        (6, (1, 1), Reach.NONE), (4, (1, 1), Reach.COMBINED), (5, (1, 1), Reach.NONE), (12, (3, 3), Reach.COMBINED),
        (12, (6, 6), Reach.COMBINED), (12, (4, 4), Reach.COMBINED), (12, (6, 5), Reach.NONE), (24, (6, 6), Reach.COMBINED),
    ],
)  # fmt: skip
def test_single_rolls(distance: int, roll: tuple[int, int], reach: Reach) -> None:
    assert shots.reach(distance, *roll) == reach


async def test_the_page_of_a_distance(client) -> None:
    page = await get_page(client, "/thirty-six?distance=12")
    assert "3 of 36 rolls reach it, 8.3 %: 0 with one die, 3 with several moves together." in page.text
    assert "12 points away" in page.text
    default = await get_page(client, "/thirty-six")
    assert "17 of 36 rolls reach it, 47.2 %: 11 with one die, 6 with several moves together." in default.text
    assert len([cell for cell in default.all("td") if cell.attributes.get("class") == "direct"]) == 11
    assert len([cell for cell in default.all("td") if cell.attributes.get("class") == "combined"]) == 6
    assert "1 point away" in (await get_page(client, "/thirty-six?distance=1")).text
    await get_page(client, "/thirty-six?distance=25", 400)


async def test_dice_to_roll_oneself(client) -> None:
    page = await get_page(client, "/roll")
    assert "the beacon has no part in it" in page.text
    assert "hidden" in page.by_id("dice").attributes
    assert len(list(page.by_id("first").all("circle"))) == 7
    assert [button.text for button in page.all("button")] == ["Roll", "Roll a game of 50", "Roll 3,600", "Start over"]
