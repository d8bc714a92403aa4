"""Join links in a real Chromium: what stands behind the `#` is used once, and nowhere else than it should be."""

import hashlib
import json
import re

import pytest
import pytest_asyncio
from click.testing import CliRunner

from tests import page_worlds
from tests.browser_support import chromium, tab
from tests.page_worlds import HOSTILE, RIGHT_TO_LEFT
from tests.round_support import QUICKNET
from tests.session_support import ALICE, service
from tests.test_pages_browser import DESK, LOOKS, followed, look_at
from tests.web_support import headers, web_of
from verifier.cli import main

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
REFUSED = "/contributions"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome():
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def world(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        yield running, client, str(client.make_url("")).rstrip("/")


async def links(client, session, *names):
    """Where each participant is sent, and its token."""
    path = f"/v1/sessions/{session.hex()}/joins"
    async with client.post(path, json={"participants": names}, headers=headers()) as answer:
        given = await answer.json()
    return [(str(client.make_url("")).rstrip("/") + given["links"][name], given["tokens"][name]) for name in names]


async def contributions(running, session):
    state = await running.sessions.state(session)
    return {name: entropy.hex() for name, entropy in state.contributions.items()}


def shown_message(page):
    return page.locator("#join [data-said]:visible")


async def test_a_player_contributes_by_keyboard_and_keeps_a_receipt_that_can_be_checked(chrome, world, tmp_path):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, token),) = await links(client, session, "white")
    async with tab(chrome, (base, f"blob:{base}")) as page:
        asked = []
        page.on("request", lambda one: asked.append(one))
        await page.goto(link)
        form = page.get_by_role("group", name="You are asked to contribute as white")
        await form.wait_for()
        assert page.url == f"{base}/s/{session.hex()}"
        await look_at(page, "the form")
        own = page.get_by_label("Your random text")
        made = await own.input_value()
        assert re.fullmatch("[0-9a-f]{32}", made)
        assert await page.locator("[data-slot=sent]").inner_text() == made
        await page.locator("#main").focus()
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.id") == "join-own"
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.innerText") == "Contribute"
        assert token not in await page.content()
        await page.keyboard.press("Enter")
        await page.get_by_text("Your contribution is in the log").wait_for()
        assert await form.count() == 0
        await look_at(page, "the receipt")
        assert await page.evaluate("document.activeElement.innerText") == "Save the receipt"
        async with page.expect_download() as download:
            await page.keyboard.press("Enter")
        kept = await download.value
        receipt = tmp_path / "receipt.json"
        await kept.save_as(receipt)
        index = json.loads(receipt.read_bytes())["receipt"]["events"][0]["index"]
        assert kept.suggested_filename == f"receipt-{session.hex()[:8]}-{index}.json"
        assert await page.locator("#join-entry").get_attribute("href") == f"/log?entry={index}"
        assert token not in await page.content()
        headers_of = [(one.method, one.url, await one.all_headers()) for one in asked]
    assert await contributions(running, session) == {"white": made}
    carried = [(method, url) for method, url, sent in headers_of if any(token in value for value in sent.values())]
    assert carried == [("POST", f"{base}/v1/sessions/{session.hex()}/contributions")]
    assert not [one.url for one in asked if token in one.url or token in (one.post_data or "")]
    transcript = tmp_path / "transcript.json"
    transcript.write_bytes(await running.sessions.transcript(session))
    arguments = ["receipt", str(receipt), "--transcript", str(transcript), "--log-key", str(running.vkey)]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout.partition(":")[0]) == (0, "PRESENT"), result.output
    other = await page_worlds.contributed(running)
    transcript.write_bytes(await running.sessions.transcript(other))
    assert CliRunner().invoke(main, arguments).exit_code == 1


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("00fFaB", "00ffab"),
        ("abc", hashlib.sha256(b"abc").hexdigest()),
        ("grün 🎲 ", hashlib.sha256("grün 🎲 ".encode()).hexdigest()),
        ("ab" * 256, "ab" * 256),
        ("ab" * 257, hashlib.sha256(b"ab" * 257).hexdigest()),
    ],
)
async def test_what_the_player_types_is_hex_or_is_hashed(chrome, world, typed, sent):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "black")
    async with tab(chrome, base) as page:
        await page.goto(link)
        await page.get_by_label("Your random text").fill(typed)
        await page.locator("[data-slot=sent]", has_text=sent).wait_for()
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("Your contribution is in the log").wait_for()
    assert await contributions(running, session) == {"black": sent}


async def test_nothing_typed_is_not_sent_and_another_can_be_made(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base) as page:
        await page.goto(link)
        own = page.get_by_label("Your random text")
        await own.fill("")
        await page.get_by_role("button", name="Contribute").click()
        assert await own.evaluate("(one) => one.validity.valueMissing")
        seen = set()
        for _ in range(3):
            await page.get_by_role("button", name="Another random text").click()
            seen.add(await own.input_value())
        assert len(seen) == 3
        assert await page.locator("[data-slot=sent]").inner_text() == await own.input_value()
    assert await contributions(running, session) == {}


async def test_without_tls_the_page_sends_hex_alone(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base) as page:
        await page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
        await page.goto(link)
        own, button = page.get_by_label("Your random text"), page.get_by_role("button", name="Contribute")
        await own.fill("words")
        await button.click()
        assert await own.evaluate("(one) => one.validationMessage") == "Without https this page can send hex alone."
        await own.fill("0102")
        await button.click()
        await page.get_by_text("Your contribution is in the log").wait_for()
    assert await contributions(running, session) == {"white": "0102"}


async def test_the_form_stays_as_it_is_while_others_contribute(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base) as page:
        await page.goto(link)
        own = page.get_by_label("Your random text")
        await own.fill("in the middle of")
        await followed(running, 1)
        await running.contribute(session, "black")
        await page.locator(".people bdi", has_text="black").wait_for()
        assert await own.input_value() == "in the middle of"
        assert await page.evaluate("document.activeElement.id") == "join-own"


async def test_an_answer_that_was_lost_comes_again_and_the_contribution_counts_once(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base, failing=(REFUSED,)) as page:

        async def lose(route):
            await route.fetch()
            await route.abort()

        await page.goto(link)
        made = await page.get_by_label("Your random text").input_value()
        await page.route(f"**{REFUSED}", lose)
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("No answer came that can be read").wait_for()
        assert await contributions(running, session) == {"white": made}
        await page.unroute(f"**{REFUSED}")
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("Your contribution is in the log").wait_for()
    assert await contributions(running, session) == {"white": made}


async def test_a_refusal_says_what_the_service_says(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    (white, token), (black, _) = await links(client, session, "white", "black")
    async with tab(chrome, base, failing=(REFUSED,)) as page:
        await page.goto(white.replace(token, "fbj_" + "A" * 43))
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("The join token is not this participant's for this session.").wait_for()
        assert await page.locator("#join-form").is_hidden()
        await look_at(page, "refused")

        await page.goto(white)
        await page.get_by_role("button", name="Contribute").wait_for()
        await running.contribute(session, "white")
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("'white' has contributed already").wait_for()

        await page.goto(black)
        await page.get_by_role("button", name="Contribute").wait_for()
        running.clock.time = (await running.sessions.view(session))["close_at"] + 1
        await running.rounds.arrive(QUICKNET.current(running.clock.time))
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("close_at has passed").wait_for()
        assert await page.locator("#join-form").is_hidden()
    assert set(await contributions(running, session)) == {"white"}


async def test_a_retryable_refusal_leaves_the_form(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base, failing=(REFUSED,)) as page:
        await page.goto(link)
        await page.get_by_role("button", name="Contribute").wait_for()
        running.clock.time += 600_000
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("does not fit the service's clock").wait_for()
        running.clock.time -= 600_000
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("Your contribution is in the log").wait_for()
    assert set(await contributions(running, session)) == {"white"}


async def test_who_has_nothing_to_send_is_told_why(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running, participants=[{"id": "white", "key": KEY}, {"id": "black"}])
    (white, token), (black, _) = await links(client, session, "white", "black")
    over = {}
    for name in ("closed", "void_host", "live_sealed"):
        over[name] = await page_worlds.ORDINARY[name](running)
    await running.contribute(session, "black")
    page_of = f"{base}/s/{session.hex()}"
    cases = {
        white: "the program that you play with does that",
        black: "black has contributed already",
        f"{page_of}#join=": "cannot be used",
        f"{page_of}#join={token}": "cannot be used",
        f"{page_of}#join={token[:-1]}&participant=white": "cannot be used",
        f"{page_of}#join={token}&participant=grey": "cannot be used",
        f"{base}/s/{over['closed'].hex()}#join={token}&participant=white": "white has contributed already",
        f"{base}/s/{over['void_host'].hex()}#join={token}&participant=black": "too late",
    }
    async with tab(chrome, base) as page:
        for link, text in cases.items():
            await page.goto("about:blank")
            await page.goto(link)
            await shown_message(page).wait_for()
            assert text in (await shown_message(page).inner_text()).lower(), link
            assert "#" not in page.url
            assert await page.locator("#join-form").is_hidden()
            assert token not in await page.content()
            assert "grey" not in await page.content()
            await look_at(page, link)


async def test_a_session_that_cannot_be_read_is_said(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base, failing=(session.hex(),)) as page:
        await page.route(f"**/v1/sessions/{session.hex()}", lambda route: route.abort())
        await page.goto(link)
        await page.get_by_text("The session could not be asked for").wait_for()
        await page.unroute(f"**/v1/sessions/{session.hex()}")
        await page.evaluate("(link) => { location.href = link; }", link)
        await page.get_by_role("button", name="Contribute").wait_for()
        assert "#" not in page.url


async def test_a_link_that_is_opened_where_the_page_is_open_is_taken(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    (white, _), (black, token) = await links(client, session, "white", "black")
    async with tab(chrome, base) as page:
        await page.goto(f"{base}/s/{session.hex()}")
        assert await page.locator("#join").is_hidden()
        for link, name in ((white, "white"), (black, "black")):
            await page.goto(link)
            await page.get_by_role("group", name=f"You are asked to contribute as {name}").wait_for()
            assert page.url == f"{base}/s/{session.hex()}"
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("Your contribution is in the log").wait_for()
        await page.go_back()
        assert "#" not in page.url
        assert token not in page.url
    assert set(await contributions(running, session)) == {"black"}


async def test_names_of_others_are_text(chrome, world):
    running, client, base = world
    names = [HOSTILE[:128], RIGHT_TO_LEFT[:60], "a&join=b#c%20+d"]
    session = await page_worlds.sealed(running, participants=[{"id": name} for name in names])
    for look, name, (link, _) in zip(LOOKS, names, await links(client, session, *names), strict=False):
        async with tab(chrome, base, **look) as page:
            await page.goto(link)
            await page.get_by_role("button", name="Contribute").wait_for()
            assert await page.locator("legend bdi").evaluate("(one) => one.textContent") == name
            await look_at(page, name)
            await page.get_by_role("button", name="Contribute").click()
            await page.get_by_text("Your contribution is in the log").wait_for()
    assert set(await contributions(running, session)) == set(names)


async def test_the_last_contribution_closes_and_its_receipt_is_in_the_file_too(chrome, world):
    running, client, base = world
    session = await page_worlds.contributed(running)
    ((link, _),) = await links(client, session, "black")
    async with tab(chrome, (base, f"blob:{base}"), viewport=DESK) as page:
        await page.goto(link)
        await page.get_by_role("button", name="Contribute").click()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Save the receipt").click()
        kept = json.loads((await (await download.value).path()).read_bytes())
        await page.locator("#state", has_text="Waiting").wait_for()
        assert await page.get_by_role("link", name="Save the receipt").is_visible()
    view = await running.sessions.view(session)
    assert kept["close_receipt"]["events"][0]["index"] == view["close_index"]


async def test_without_script_the_page_says_what_a_link_needs(chrome, world):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, _),) = await links(client, session, "white")
    async with tab(chrome, base, java_script_enabled=False) as page:
        await page.goto(link)
        note = page.locator("noscript p")
        assert await note.is_visible()
        assert "that needs JavaScript" in await note.inner_text()
        assert await page.locator("#join").is_hidden()
        await page.goto(f"{base}/s/{(await page_worlds.revealed(running)).hex()}")
        assert await page.locator("noscript").count() == 0


async def test_no_log_line_has_the_token(chrome, world, capfd, caplog):
    running, client, base = world
    session = await page_worlds.sealed(running)
    ((link, token),) = await links(client, session, "white")
    async with tab(chrome, base, failing=(REFUSED,)) as page:
        await page.goto(link)
        await page.get_by_role("button", name="Contribute").wait_for()
        await running.sessions.void(ALICE, session)
        await page.get_by_role("button", name="Contribute").click()
        await page.get_by_text("The service says:").wait_for()
        assert "void" in await shown_message(page).inner_text()
    output = capfd.readouterr()
    assert token not in output.out + output.err + caplog.text
