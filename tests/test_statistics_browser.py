"""The statistics' pages in a real browser: dice that roll by keyboard, colours of both schemes, nothing that loads or breaks."""

from __future__ import annotations

import re
from itertools import cycle, islice

import pytest
import pytest_asyncio

from tests.browser_support import chromium, overflow, tab
from tests.session_support import service
from tests.test_pages_browser import FAINT, SMALL
from tests.test_statistics_pages import play
from tests.web_support import web_of
from verifier.statistics import odds

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = ("/statistics", "/statistics?rolls=1000", "/roll", "/thirty-six", "/thirty-six?distance=24")

# Bytes 252 to 255 are thrown away; the others are a die modulo six.
BYTES = [255, 0, 7, 252, 254, 5, 11, 253, 3, 9]
ROLLS = [(1, 2), (6, 6), (4, 4)]
GIVEN = """
let place = 0;
const given = %s;
crypto.getRandomValues = (into) => into.map((_, at) => { into[at] = given[place++ %% given.length]; });
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome():
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    async with service(tmp_path_factory.mktemp("log")) as running, web_of(running) as client:
        await play(running, 100)
        yield client


def base(client) -> str:
    return str(client.make_url("/"))


async def number(page, name: str) -> float:
    return float((await page.inner_text(f"#{name}")).replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_fit_a_phone_and_break_nothing(chrome, client, scheme) -> None:
    for path in PATHS:
        async with tab(chrome, base(client), color_scheme=scheme) as page:
            await page.goto(base(client) + path[1:])
            if path == "/roll":
                await page.click("#many")
            assert await overflow(page) == 0, path
            assert await page.evaluate(FAINT) == [], path
            assert await page.evaluate(SMALL) == [], path


async def test_drawings_have_the_colours_of_the_scheme(chrome, client) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        async with tab(chrome, base(client), color_scheme=scheme) as page:
            await page.goto(f"{base(client)}statistics")
            style = "getComputedStyle(document.querySelector('svg.chart %s')).%s"
            fills = [await page.evaluate(style % what) for what in (("rect[fill*=more]", "fill"), ("text", "fill"))]
            variable = await page.evaluate(
                "getComputedStyle(document.documentElement).getPropertyValue('--more').trim()"
            )
            red, green, blue = (int(variable[at : at + 2], 16) for at in (1, 3, 5))
            assert fills[0] == f"rgb({red}, {green}, {blue})"
            seen[scheme] = fills
    assert seen["light"] != seen["dark"]


async def test_a_drawing_is_one_picture_with_a_name(chrome, client) -> None:
    async with tab(chrome, base(client)) as page:
        await page.goto(f"{base(client)}statistics")
        picture = page.get_by_role("img", name="Two dice: the 36 ordered pairs")
        assert await picture.count() == 1


async def test_dice_roll_as_the_bytes_say(chrome, client) -> None:
    async with tab(chrome, base(client)) as page:
        await page.add_init_script(GIVEN % BYTES)
        await page.goto(f"{base(client)}roll")
        assert await page.inner_text("#said") == "Not rolled yet"
        for times, (first, second) in enumerate(ROLLS, 1):
            await page.get_by_role("button", name="Roll", exact=True).click()
            assert await page.inner_text("#said") == f"{first} and {second}"
            assert await page.locator("#first .shown").count() == first
            assert await page.locator("#second .shown").count() == second
            assert await number(page, "rolls") == times
        assert [await number(page, f"face-{face}") for face in range(1, 7)] == [1, 1, 0, 2, 0, 2]
        assert (await number(page, "doubles"), await number(page, "longest")) == (2, 2)
        for roll in ROLLS:
            assert await number(page, f"pair-{roll[0]}-{roll[1]}") == 1
        assert await page.inner_text("#odds") == f"{100 * odds.streak(3, 2, 1 / 6):.2f} %"


async def test_everything_works_by_keyboard(chrome, client) -> None:
    async with tab(chrome, base(client)) as page:
        await page.goto(f"{base(client)}roll")
        await page.keyboard.press("r")
        assert await number(page, "rolls") == 0
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.id") == "once":
                break
        await page.keyboard.press("Enter")
        await page.keyboard.press("Space")
        await page.keyboard.press("r")
        assert await number(page, "rolls") == 3
        await page.keyboard.press("Control+g")
        assert await number(page, "rolls") == 3
        await page.keyboard.press("G")
        assert await number(page, "rolls") == 53
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await number(page, "rolls") == 0
        assert await page.inner_text("#said") == "Not rolled yet"


async def test_counts_grow_beside_what_is_due(chrome, client) -> None:
    async with tab(chrome, base(client)) as page:
        await page.goto(f"{base(client)}roll")
        await page.get_by_role("button", name="Roll 3,600").click()
        await page.get_by_role("button", name="Roll 3,600").click()
        assert await number(page, "rolls") == 7_200
        pairs = [await number(page, f"pair-{first}-{second}") for first in range(1, 7) for second in range(1, 7)]
        faces = [await number(page, f"face-{face}") for face in range(1, 7)]
        assert (sum(pairs), sum(faces)) == (7_200, 14_400)
        assert all(pairs)
        assert sum(pairs[::7]) == await number(page, "doubles")
        assert faces[0] == sum(pairs[:6]) + sum(pairs[::6])
        assert await number(page, "doubles-due") == 1_200
        due = await page.locator("[data-due]").all_inner_texts()
        assert due == [*["2,400"] * 6, "200"]
        bars = await page.eval_on_selector_all(".filled", "all => all.map(one => one.getBoundingClientRect().width)")
        assert max(bars) == pytest.approx(bars[faces.index(max(faces))])
        assert min(bars) > 0
        assert await overflow(page) == 0
        told = float((await page.inner_text("#odds")).removesuffix(" %"))
        longest = int(await number(page, "longest"))
        assert told == pytest.approx(100 * odds.streak(7_200, longest, 1 / 6), abs=0.006)


async def test_whole_games_of_given_bytes(chrome, client) -> None:
    async with tab(chrome, base(client)) as page:
        await page.add_init_script(GIVEN % BYTES)
        await page.goto(f"{base(client)}roll")
        await page.get_by_role("button", name="Roll a game of 50").click()
        rolls = list(islice(cycle(ROLLS), 50))
        assert await page.inner_text("#said") == f"50 rolls, the last: {rolls[-1][0]} and {rolls[-1][1]}"
        for roll in ROLLS:
            assert await number(page, f"pair-{roll[0]}-{roll[1]}") == rolls.count(roll)


async def test_without_scripts_the_page_says_so(chrome, client) -> None:
    async with tab(chrome, base(client), java_script_enabled=False) as page:
        await page.goto(f"{base(client)}roll")
        assert not await page.is_visible("#once")
        assert "scripts are switched off" in await page.inner_text("main")


async def test_a_distance_is_asked_for_by_keyboard(chrome, client) -> None:
    async with tab(chrome, base(client)) as page:
        await page.goto(f"{base(client)}thirty-six")
        await page.focus("#distance")
        await page.keyboard.press("Control+a")
        await page.keyboard.type("12")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/thirty-six?distance=12")
        assert re.search(r"3 of 36\s+rolls reach it", await page.inner_text("main"))
