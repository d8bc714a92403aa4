"""The pages in a real Chromium: on a phone and a desk, light and dark, by keyboard, without script, and live."""

import asyncio
from email.utils import formatdate

import pytest
import pytest_asyncio

from tests import page_worlds
from tests.browser_support import chromium, overflow, tab
from tests.page_support import build_page, shown
from tests.page_worlds import HOSTILE, LATE, ORDINARY, reach
from tests.session_support import ALICE, service
from tests.web_support import web_of
from verifier import web as verifier_web

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1_200, "height": 800}
LOOKS = [
    {"viewport": PHONE, "color_scheme": "light"},
    {"viewport": PHONE, "color_scheme": "dark"},
    {"viewport": DESK, "color_scheme": "light"},
    {"viewport": DESK, "color_scheme": "dark", "reduced_motion": "reduce"},
]

FAINT = """() => {
  const seen = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = seen(getComputedStyle(one).backgroundColor);
      if (colour.a === 1) return colour;
      if (colour.a > 0) throw new Error("a background that lets others through");
    }
    throw new Error("nothing behind the text");
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement, style = getComputedStyle(one);
    if (!walker.currentNode.data.trim() || !one.checkVisibility() || one.closest("svg, .hidden-text, .skip")) continue;
    const [a, b] = [light(seen(style.color)), light(behind(one))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), big = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (big ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return found;
}"""
"""Texts whose contrast is below that of WCAG 2.2, AA (1.4.3)."""

SMALL = """() => [...document.querySelectorAll("a, button, summary, input")].filter((one) => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility() && box.height < 20 && getComputedStyle(one).display !== "inline";
}).map((one) => one.outerHTML.slice(0, 80))"""
"""Targets that a finger misses, but for links in a line of text (WCAG 2.2, 2.5.8)."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome():
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def world(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        yield running, str(client.make_url("")).rstrip("/")


async def followed(running, by):
    """Wait until as many streams follow sessions."""
    async with asyncio.timeout(20):
        while len(running.changes) != by:  # noqa: ASYNC110 - streams come and go without telling
            await asyncio.sleep(0.01)


async def look_at(page, where):
    assert await overflow(page) == 0, where
    assert await page.evaluate(FAINT) == [], where
    assert await page.evaluate(SMALL) == [], where
    assert "hacked" not in await page.title()
    broken = "[...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)"
    assert await page.evaluate(broken) == [], where


async def test_every_page_fits_and_can_be_read(chrome, world):
    running, base = world
    sessions = {name: (await make(running)).hex() for name, make in ORDINARY.items()}
    paths = ["/", "/log", "/rounds", "/hosts/alice", *(f"/s/{session}" for session in sessions.values())]
    for look in LOOKS:
        async with tab(chrome, base, **look) as page:
            for path in paths:
                answer = await page.goto(base + path)
                assert answer.status == 200
                await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
                await look_at(page, (path, look))


@pytest.mark.parametrize("path", ["/thirty-six", "/thirty-six?distance=11", "/roll"])
async def test_no_table_of_chances_is_scrolled_sideways_on_a_phone(chrome, world, path):
    _, base = world
    async with tab(chrome, base, viewport=PHONE) as page:
        await page.goto(base + path)
        await look_at(page, path)
        hidden = "[...document.querySelectorAll('.table')].map((one) => one.scrollWidth - one.clientWidth)"
        assert not any(await page.evaluate(hidden))


@pytest.mark.parametrize("name", LATE)
async def test_void_sessions_fit_too(chrome, world, name):
    running, base = world
    session = await LATE[name](running)
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await look_at(page, name)


async def test_by_keyboard_everything_is_reached_and_seen(chrome, world):
    running, base = world
    session = await page_worlds.revealed(running)
    focused = """() => {
      const one = document.activeElement, style = getComputedStyle(one);
      const box = one.getBoundingClientRect();
      return { name: one.innerText || one.id, tag: one.tagName, outline: style.outlineStyle !== "none",
        inside: box.left >= 0 && box.right <= innerWidth + 1 && box.width > 0 };
    }"""
    for path in ("/", f"/s/{session.hex()}", "/log", "/hosts/alice", "/rounds"):
        async with tab(chrome, base) as page:
            await page.goto(base + path)
            await page.keyboard.press("Tab")
            first = await page.evaluate(focused)
            assert first["name"] == "Skip to the content"
            assert await page.locator(".skip").evaluate("(one) => one.getBoundingClientRect().top >= 0 || 'moving'")
            await page.keyboard.press("Enter")
            assert await page.evaluate("document.activeElement.id") == "main"
            expected = await page.evaluate(
                "[...document.querySelectorAll('main a, main button, main input, main summary, main [tabindex=\"0\"]')]"
                ".filter((one) => one.checkVisibility()).length"
            )
            for _ in range(expected):
                await page.keyboard.press("Tab")
                at = await page.evaluate(focused)
                assert at["outline"], at
                assert at["inside"], at
            assert await page.evaluate("!!document.activeElement.closest('main')")
            await page.keyboard.press("Tab")
            assert await page.evaluate("!!document.activeElement.closest('footer')")


async def test_steps_by_hand_open_by_keyboard(chrome, world):
    running, base = world
    session = await page_worlds.revealed(running)
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await page.locator("summary").focus()
        await page.keyboard.press("Enter")
        assert await page.get_by_text("The seed is the sealed one").is_visible()


async def test_a_session_goes_on_before_the_readers_eyes(chrome, world):
    running, base = world
    session = await page_worlds.sealed(running)
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await page.evaluate("window.same = true")
        state = page.locator("#state")
        assert await state.inner_text() == "Open for contributions"
        await followed(running, 1)
        await running.contribute(session, "white")
        await page.locator(".people bdi", has_text="white").wait_for()
        await page.locator(".people a").focus()
        await running.contribute(session, "black")
        await state.filter(has_text="Waiting").wait_for()
        assert await page.evaluate("document.activeElement.className") == "entry"
        assert "Nothing can be added any more." in await page.get_by_role("status").inner_text()
        await reach(running, (await running.sessions.view(session))["round"])
        await state.filter(has_text="Round is in").wait_for()
        await running.draw(session, "turn", purpose=HOSTILE)
        await page.locator(".draws .die").nth(1).wait_for()
        await running.sessions.reveal(ALICE, session)
        await state.filter(has_text="Revealed").wait_for()
        assert await page.evaluate("window.same")
        assert await page.title() != "hacked"
        await followed(running, 0)


async def test_a_page_follows_over_a_stream_that_broke(chrome, world):
    running, base = world
    session = await page_worlds.live_sealed(running)
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await followed(running, 1)
        (watch,) = running.changes._watches[session]
        watch.end()
        await running.draw(session, "turn")
        await page.locator(".draws .waiting").wait_for()


async def test_a_tab_that_nobody_sees_holds_no_stream_and_catches_up(chrome, world):
    running, base = world
    session = await page_worlds.sealed(running)
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await followed(running, 1)
        hide = """(hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        await page.evaluate(hide, True)
        await followed(running, 0)
        await running.contribute(session, "white")
        await running.contribute(session, "black")
        await page.evaluate(hide, False)
        await page.locator("#state", has_text="Waiting").wait_for()


async def test_steps_that_were_open_stay_open(chrome, world):
    running, base = world
    session = await page_worlds.live_drawn(running)
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await page.locator("summary").click()
        await followed(running, 1)
        await running.draw(session, "d20")
        await page.locator(".draws .waiting").wait_for()
        assert await page.locator("#by-hand").evaluate("(one) => one.open")


@pytest.mark.parametrize("wrong", [0, 3_600_000])
async def test_time_is_counted_down_by_the_services_clock(chrome, world, wrong):
    running, base = world
    session = await page_worlds.closed(running)
    due = (await running.sessions.view(session))["round_time"]
    now = due // 1_000 * 1_000 - 75_000
    async with tab(chrome, base) as page:
        date = formatdate(now / 1_000, usegmt=True)
        await page.route("**/healthz", lambda route: route.fulfill(body="{}", headers={"Date": date}))
        await page.clock.install(time=(now + wrong) / 1_000)
        await page.clock.pause_at((now + wrong) / 1_000 + 1)
        await page.goto(f"{base}/s/{session.hex()}")
        await page.locator(".countdown", has_text="in 01:1").first.wait_for()
        await page.clock.run_for(30_000)
        await page.locator(".countdown", has_text="in 00:4").first.wait_for()
        await page.clock.run_for(60_000)
        await page.locator(".countdown", has_text="now").first.wait_for()


async def test_all_of_it_is_there_without_script(chrome, world):
    running, base = world
    session = await page_worlds.live_called(running)
    async with tab(chrome, base, java_script_enabled=False) as page:
        await page.goto(base + "/")
        await page.get_by_label("Look up a session").fill(session.hex())
        await page.get_by_role("button", name="Open").click()
        assert page.url == f"{base}/s/{session.hex()}"
        assert await page.get_by_text("Load this page again").is_visible()
        assert await page.locator(".draws > li").count() == 4
        assert await page.locator(".countdown:visible").count() == 0
        await page.get_by_role("link", name="alice").first.click()
        assert page.url == f"{base}/hosts/alice"


async def test_nothing_moves_for_who_asked_for_that(chrome, world):
    running, base = world
    session = await page_worlds.sealed(running)
    for motion, moving in (("reduce", 0), ("no-preference", 1)):
        async with tab(chrome, base, reduced_motion=motion) as page:
            await page.goto(f"{base}/s/{session.hex()}")
            assert await page.evaluate("document.getAnimations().length") == moving


async def test_what_others_wrote_does_not_run_or_reach_beyond_its_place(chrome, world):
    running, base = world
    session = await page_worlds.hostile(running)
    async with tab(chrome, base) as page:
        for path in (f"/s/{session.hex()}", "/hosts/alice", "/log"):
            await page.goto(base + path)
            assert await overflow(page) == 0
            assert "hacked" not in await page.title()
            assert await page.locator("script:not([src]), img[src='x']").count() == 0


# --- the verifier, as it is served --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return build_page(tmp_path_factory.mktemp("page")).read_bytes()


@pytest.mark.parametrize(("name", "code"), [("revealed", 0), ("hostile", 0), ("false_claim", 1), ("live_called", 2)])
async def test_a_sessions_own_file_checks_it_where_it_is_served(chrome, world, file, monkeypatch, name, code):
    running, base = world
    monkeypatch.setattr(verifier_web, "page", lambda: file)
    session = await ORDINARY[name](running)
    async with tab(chrome, (base, f"blob:{base}")) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        await page.get_by_role("link", name="Open it here").click()
        await page.wait_for_selector("#result[data-answer]")
        await page.get_by_role("button", name="I compared it").click()
        await page.wait_for_function(
            "code => Number(document.getElementById('result').dataset.exit) === code", arg=code, timeout=60_000
        )
        answer = await shown(page)
        assert answer["exit"] == code == (await running.verdict(session)).exit
        assert "hacked" not in await page.title()
        assert await overflow(page) == 0


async def test_the_verifier_that_is_kept_is_the_one_that_is_served(chrome, world, file, monkeypatch):
    _, base = world
    monkeypatch.setattr(verifier_web, "page", lambda: file)
    async with tab(chrome, (base, f"blob:{base}")) as page:
        await page.goto(f"{base}/")
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download it").click()
        kept = await (await download.value).path()
        assert kept.read_bytes() == file
        assert (await download.value).suggested_filename == "fair-beacon-verifier.html"
        await page.get_by_role("link", name="Open the verifier").click()
        await page.wait_for_selector("#apply", state="attached")
