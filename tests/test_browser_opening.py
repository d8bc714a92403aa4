"""A sealed seed is opened in the browser verifier: in Chromium, from the disk, with the network cut."""

import json

import pytest
import pytest_asyncio

from tests import builder
from tests.browser_support import chromium, overflow
from tests.page_support import answered, answers, build_page, opened, paste, shown, trust
from tests.test_custody import LOCKS, NUMBER, SEED, opening
from tests.test_opening import locked
from tests.test_web_verifier_opening import INFO, R1005, SIGNATURE, falsified, live, undrawn

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = str(builder.LOG_KEY.vkey)
#: What a relay answers when it is asked for the timelock's round.
ANSWER = json.dumps({"round": NUMBER, "randomness": "00" * 32, "signature": SIGNATURE})


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return build_page(tmp_path_factory.mktemp("page"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome():
    async with chromium() as browser:
        yield browser


async def show(page, story, key=KEY):
    """Give a document whose timelock is on a network of its own."""
    await trust(page, key=key)
    await page.evaluate("info => { document.getElementById('own-chain').value = info; }", INFO)
    await paste(page, builder.data(story.document()).decode())


async def open_seed(page):
    """Press the button; exit code, sentence, and for each draw what it is and whether it is as published."""
    await page.click("#open-seed")
    await page.wait_for_selector("#opened .headline")
    return await page.evaluate(
        """() => {
            const opened = document.getElementById("opened");
            const rows = [...opened.querySelectorAll("[data-draw]")].map((row) => {
                const faces = [...row.querySelectorAll(".die")].map((die) => Number(die.getAttribute("aria-label")));
                return [row.dataset.draw, [faces.length > 0 ? faces : row.cells[1].textContent, row.cells[2].textContent]];
            });
            const exit = opened.querySelector("[data-exit]")?.dataset.exit;
            return { exit: exit ?? null, text: opened.textContent, rows: Object.fromEntries(rows) };
        }"""
    )


def drawn(story, *recipes):
    """What an honest operator would have published, as the page shows it."""
    honest = story.round(1005, 15.9)
    for recipe, count in recipes:
        honest.draw(recipe, 16, count=count)
    entries = [json.loads(event["entry"]) for event in honest.document()["events"][-len(recipes) :]]
    return {
        f"{entry['recipe']} {n}": outcome if entry["recipe"] != "hand" else ", ".join(map(str, outcome))
        for entry in entries
        for n, outcome in enumerate(entry["outcomes"], entry["n"])
    }


async def test_a_game_is_finished_without_its_operator(chrome, file):
    """Nothing was drawn before the operator vanished, and the round itself is not in the log."""
    story = undrawn()
    async with opened(chrome, file) as page:
        await show(page, story, key="")
        assert await page.inner_text("#opening .copyable .code") == f"/{LOCKS.chain.hash.hex()}/public/{NUMBER}"
        await page.fill("#round-signature", f"  {ANSWER}\n")
        before = await answers(page)
        await page.click("#trust-key")
        await answered(page, before)
        assert await page.input_value("#round-signature") == f"  {ANSWER}\n"
        assert (await shown(page))["claims"]["custody"] == "TRUSTED"
        await page.fill("#opening [data-recipe=turn]", "3")
        await page.fill("#opening [data-recipe=hand]", "2")
        found = await open_seed(page)
        assert (found["exit"], SEED.hex() in found["text"]) == ("2", True)
        assert "round 1005 is not known: give its signature" in found["rows"]["turn 1"][0]
        await page.fill("#signature-of-1005", R1005)
        found = await open_seed(page)
        assert found["exit"] == "0"
        honest = drawn(story, ("turn", 3), ("hand", 2))
        assert found["rows"] == {name: [outcome, "never"] for name, outcome in honest.items()}
        assert await overflow(page) == 0


async def test_published_draws_are_compared(chrome, file):
    async with opened(chrome, file) as page:
        await show(page, locked())
        await page.fill("#round-signature", SIGNATURE.upper())
        await page.fill("#opening [data-recipe=turn]", "4")
        found = await open_seed(page)
        assert found["exit"] == "0"
        assert {name: row[1] for name, row in found["rows"].items()} == {
            "turn 1": "the same", "turn 2": "the same", "turn 3": "never", "turn 4": "never",
            "opening 1": "the same", "hand 1": "the same",
        }  # fmt: skip
        await page.click("#start-over")
        await show(page, falsified())
        assert await page.input_value("#round-signature") == ""
        await page.fill("#round-signature", SIGNATURE)
        found = await open_seed(page)
        assert (found["exit"], found["rows"]["turn 1"][1]) == ("1", "[6,6]")


async def test_a_live_session_and_a_round_that_is_shown(chrome, file):
    async with opened(chrome, file) as page:
        await show(page, opening(live().round(1003, 9.8)))
        assert await page.locator("#round-signature, [data-recipe]").count() == 0
        found = await open_seed(page)
        assert (found["exit"], list(found["rows"])) == ("0", ["turn 1", "hand 1", "hand 2"])
        assert [row[1] for row in found["rows"].values()] == ["the same", "the same", "never"]


@pytest.mark.parametrize(
    ("seed", "signature", "code", "text"),
    [
        (SEED, LOCKS.sign(1).hex(), "1", "the chain did not sign this"),
        (SEED, "ab", "1", "has 48 bytes"),
        (SEED, "", "2", "NOT OPENED"),
        (SEED, "<b>", None, "hex"),
        (bytes(32), SIGNATURE, "1", "does not open the commitment"),
    ],
)
async def test_what_does_not_open(chrome, file, seed, signature, code, text):
    async with opened(chrome, file) as page:
        await show(page, locked(seed))
        await page.fill("#round-signature", signature)
        found = await open_seed(page)
        assert (found["exit"], found["rows"], text in found["text"]) == (code, {}, True), found


async def test_nothing_is_offered_where_there_is_nothing_to_open(chrome, file):
    async with opened(chrome, file) as page:
        for story in (builder.match(), opening(locked()).reveal(640), opening(locked(bytes(32)))):
            await show(page, story)
            assert await page.locator("#opening").count() == 0
            await page.click("#start-over")


async def test_it_works_without_a_mouse_and_every_field_has_a_name(chrome, file):
    async with opened(chrome, file) as page:
        await show(page, undrawn())
        await page.focus("#round-signature")
        await page.keyboard.insert_text(SIGNATURE)
        for _ in range(5):
            await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.id") == "open-seed"
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#opened .headline")
        nameless = await page.evaluate(
            "() => [...document.querySelectorAll('#opening input, #opening textarea')].filter((one) => !one.labels.length).length"
        )
        assert nameless == 0
