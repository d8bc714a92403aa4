"""The browser verifier's one file in a real Chromium, opened from the disk with the network cut."""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner

from tests import builder, page_worlds
from tests.browser_support import chromium, overflow, tab
from tests.check_support import cached_verify_round
from tests.page_support import CORPUS, answered, answers, build_page, open_everything, opened, paste, shown, trust
from tests.session_support import service
from tests.web_support import web_of
from verifier import cli, web
from verifier.check import check
from verifier.cli import main

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = str(builder.LOG_KEY.vkey)
ROOT = Path(__file__).parent
SCENARIOS = [
    scenario for file in CORPUS for scenario in json.loads((ROOT / file).read_text(encoding="utf-8"))["scenarios"]
]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return build_page(tmp_path_factory.mktemp("page"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chrome():
    async with chromium() as browser:
        yield browser


def match() -> builder.Story:
    return builder.match(label="final").reveal(90)


def text(story: builder.Story, *indices: int) -> str:
    return builder.data(story.document(indices or None)).decode()


def upload(name: str, content: str | bytes) -> dict[str, Any]:
    data = content.encode() if isinstance(content, str) else content
    return {"name": name, "mimeType": "application/json", "buffer": data}


async def give(page, *files: dict[str, Any]) -> None:
    before = await answers(page)
    await page.set_input_files("#file", list(files))
    await answered(page, before)


# --- the same verdicts ---------------------------------------------------------------------------------------------------


def by_command_line(scenario: dict[str, Any], document: str, tmp_path: Path) -> dict[str, Any]:
    """The codes of what `verifier check --json` says, in the form of `shown`."""
    given = scenario["given"]
    transcript, policy = tmp_path / "document.json", tmp_path / "policy"
    transcript.write_bytes(document.encode("utf-8", "surrogatepass"))
    arguments = ["check", str(transcript), "--json", "--chain", given["chain"]]
    if given["log_key"] is not None:
        arguments += ["--log-key", given["log_key"]]
    if given["policy"] is not None:
        policy.write_text(given["policy"], encoding="utf-8")
        arguments += ["--policy", str(policy)]
    result = CliRunner().invoke(main, [*arguments, *(["--sandbox"] if given["sandbox"] else [])])
    if result.exit_code == 3:
        code = re.match(r"unusable input: ([a-z-]+): ", result.stderr)
        assert code, result.stderr
        return {"exit": 3, "code": code[1], "claims": {}, "findings": []}
    answer = json.loads(result.stdout)
    return {
        "exit": answer["exit"],
        "code": None,
        "claims": {claim["claim"]: claim["state"] for claim in answer["claims"]},
        "findings": [
            [claim["claim"], finding["rule"], finding["index"]]
            for claim in answer["claims"]
            for finding in claim["findings"]
        ],
    }


async def test_the_corpus_has_the_verdicts_of_the_command_line(chrome, file, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(cli, "check_document", partial(check, verify=cached_verify_round))
    exits = set()
    async with opened(chrome, file) as page:
        for scenario in SCENARIOS:
            given = scenario["given"]
            document = scenario.get("document_text") or json.dumps(scenario["document"])
            chains = (given["chain"],)
            await trust(
                page, key=given["log_key"] or "", policy=given["policy"] or "", chains=chains, sandbox=given["sandbox"]
            )
            await paste(page, document)
            expected = by_command_line(scenario, document, tmp_path)
            found = {name: value for name, value in (await shown(page)).items() if name in expected}
            assert found == expected, scenario["name"]
            exits.add(expected["exit"])
            await page.click("#start-over")
    assert exits == {0, 1, 2, 3}


# --- without the network, without a mouse, on a phone --------------------------------------------------------------------


async def test_a_changed_script_does_not_run(chrome, file, tmp_path) -> None:
    html = file.read_text(encoding="utf-8")
    changed = tmp_path / "changed.html"
    changed.write_text(html.replace('<script id="program">', '<script id="program">;', 1), encoding="utf-8")
    context = await chrome.new_context(offline=True)
    try:
        page = await context.new_page()
        await page.goto(changed.as_uri())
        assert await page.inner_text("#app") == ""
        await page.goto(file.as_uri())
        assert "fair-beacon" in await page.inner_text("#app")
    finally:
        await context.close()


async def test_by_keyboard_alone(chrome, file) -> None:
    async with opened(chrome, file) as page:
        await tab_to(page, "#paste")
        await page.keyboard.press("Enter")
        assert await focused(page, "#pasted")
        await page.keyboard.insert_text(text(match()))
        before = await answers(page)
        await tab_to(page, "#check-pasted")
        await page.keyboard.press("Enter")
        await answered(page, before)
        assert await focused(page, "#headline")
        assert (await shown(page))["exit"] == 2
        await tab_to(page, "#trust-key")
        before = await answers(page)
        await page.keyboard.press("Enter")
        await answered(page, before)
        assert (await shown(page))["exit"] == 0
        await tab_to(page, "#editor > summary")
        await page.keyboard.press("Enter")
        await tab_to(page, ".leaf[data-path=origin] .value")
        await page.keyboard.press("End")
        await page.keyboard.insert_text("/other")
        before = await answers(page)
        await page.keyboard.press("Tab")
        await answered(page, before)
        assert (await shown(page))["claims"]["log"] == "FAILED"


async def focused(page, selector: str) -> bool:
    return await page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector)


async def tab_to(page, selector: str) -> None:
    for _ in range(80):
        if await focused(page, selector):
            return
        await page.keyboard.press("Tab")
    pytest.fail(f"Tab never leads to {selector}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone_with_everything_open(chrome, file, scheme) -> None:
    async with opened(chrome, file, color_scheme=scheme) as page:
        assert await overflow(page) == 0
        await trust(page, key=KEY)
        await paste(page, text(match()))
        await open_everything(page)
        assert await page.locator(".leaf").count() > 50
        assert await overflow(page) == 0


async def test_every_field_and_button_has_a_name(chrome, file) -> None:
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(match()))
        await open_everything(page)
        nameless = await page.evaluate(
            """() => [...document.querySelectorAll("input, textarea, select, button")]
                .filter((field) => field.id !== "file" && !field.textContent.trim() && !field.labels?.length
                    && !field.getAttribute("aria-label"))
                .map((field) => field.outerHTML.slice(0, 200))"""
        )
        assert nameless == []
        repeated = await page.evaluate(
            "() => [...document.querySelectorAll('[id]')].map(({ id }) => id).filter((id, at, all) => all.indexOf(id) !== at)"
        )
        assert repeated == []


# --- what comes in -------------------------------------------------------------------------------------------------------

DROP = """([target, files]) => {
    const data = new DataTransfer();
    for (const [name, content] of files) {
        data.items.add(new File([content], name));
    }
    const node = document.querySelector(target);
    node.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
    return node.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
PASTE = """(content) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", content);
    document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
}"""


async def test_a_transcript_and_a_receipt_dropped_together(chrome, file) -> None:
    story = match()
    mine = story.shown[1]
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        before = await answers(page)
        taken = await page.evaluate(
            DROP, ["main", [["mine.json", text(story, mine)], ["transcript.json", text(story)]]]
        )
        assert taken is False
        await answered(page, before)
        assert (await shown(page))["exit"] == 0
        assert await page.get_attribute(".receipt", "data-found") == "present"
        # another player's transcript of the same log, from which my entry was taken out
        without = text(story, *(index for index in story.shown if index != mine))
        before = await answers(page)
        await page.evaluate(DROP, ["body", [["other.json", without]]])
        await answered(page, before)
        assert await page.get_attribute(".receipt", "data-found") == "absent"
        assert (await shown(page))["exit"] == 1


async def test_a_receipt_alone_asks_for_the_transcript(chrome, file) -> None:
    story = match()
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(story, story.shown[1]))
        answer = await shown(page)
        assert (answer["exit"], answer["claims"]["log"]) == (2, "PROVEN")
        assert "Drop the transcript here too" in await page.inner_text("#result")
        # a session of which only the seal exists has the same form, and is a session all the same
        await page.click("#start-over")
        await paste(page, text(builder.Story().seal()))
        assert (await shown(page))["headline"] == "Not decided: the session is still open."
        assert "Drop the transcript here too" not in await page.inner_text("#result")


async def test_text_pasted_anywhere(chrome, file) -> None:
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        before = await answers(page)
        await page.evaluate(PASTE, text(match()))
        await answered(page, before)
        assert (await shown(page))["exit"] == 0


async def test_the_page_comes_with_a_session_in_it(chrome, file, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(web, "page", file.read_bytes)
    hostile = builder.match(label="</script><script>window.ran = true</script>").reveal(90)
    given = tmp_path / "given.html"
    given.write_bytes(web.page_with(builder.data(hostile.document())))
    async with opened(chrome, given) as page:
        await answered(page, 0)
        assert (await shown(page))["exit"] == 2
        before = await answers(page)
        await page.click("#trust-key")
        await answered(page, before)
        assert (await shown(page))["exit"] == 0
        assert await page.evaluate("window.ran") is None
        # a saved page tells its own hash, and that of the file without a session, which is the same for everybody
        await page.set_input_files("#file", str(given))
        assert hashlib.sha256(given.read_bytes()).hexdigest() in await page.inner_text("#file-hash")
        assert hashlib.sha256(file.read_bytes()).hexdigest() in await page.inner_text("#plain-hash")


async def test_as_the_service_serves_it_with_a_session_of_every_recipe(chrome, file, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(web, "page", file.read_bytes)
    async with service(tmp_path) as running, web_of(running) as client:
        session = await page_worlds.revealed(running)
        base = str(client.make_url("/"))
        async with tab(chrome, (base, "blob:", "data:image/svg")) as page:
            await page.goto(f"{base}s/{session.hex()}/verify.html")
            await answered(page, 0)
            assert (await shown(page))["exit"] == 2
            before = await answers(page)
            await page.click("#trust-key")
            await answered(page, before)
            answer = await shown(page)
            assert (answer["exit"], answer["claims"]["outcomes"], answer["claims"]["round"]) == (0, "PROVEN", "PROVEN")
            assert len(page.workers) == 1
            assert await overflow(page) == 0


async def test_what_is_no_document_is_said(chrome, file) -> None:
    async with opened(chrome, file) as page:
        for content in (b"\xff\xfe", b"{", b"[1]", b'{"system": "none"}', b"<html>"):
            await give(page, upload("x", content))
            assert (await shown(page))["exit"] == 3


# --- hostile and large ---------------------------------------------------------------------------------------------------

MARKUP = '<img src="x" onerror="window.ran = true"><script>window.ran = true</script>'
UNSEEN = "abc\u200b\u202egnp.exe\u2066"


async def test_markup_in_a_document_is_text(chrome, file) -> None:
    participants = [{"id": MARKUP[:100]}, {"id": "<b>black</b>"}]
    story = builder.Story().seal(label=MARKUP, participants=participants)
    story.contribute(participants[0]["id"], 6.5).contribute("<b>black</b>", 6.501).close(6.6)
    story.round(1005, 15.9).draw("turn", 16, purpose=f"{MARKUP} {'long ' * 30}").reveal(90)
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await give(page, upload(f"{MARKUP}.json", text(story)))
        assert (await shown(page))["exit"] == 0
        await open_everything(page)
        whole = await page.inner_text("#app")
        assert whole.count(MARKUP) >= 3
        assert "<b>black</b>" in whole
        assert await page.evaluate("document.querySelectorAll('img, b, #app script').length") == 0
        assert await page.evaluate("window.ran") is None
        assert await overflow(page) == 0


async def test_what_cannot_be_seen_is_named(chrome, file) -> None:
    story = builder.match(label="team\u200bA\u00adB").reveal(90)
    refused = builder.match(label=UNSEEN).reveal(90)
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(story))
        assert (await shown(page))["exit"] == 0
        await page.click(".verdict summary >> text=The session")
        assert "teamU+200BAU+00ADB" in await page.inner_text(".facts")
        await page.click("#editor > summary")
        await page.click(".event >> nth=0")
        assert await page.input_value(".event .leaf[data-path$='.label'] .value") == '"team\\u200bA\\u00adB"'
        await paste(page, text(refused))
        assert (await shown(page))["exit"] == 3
        await page.click("#editor > summary")
        assert not re.search("[\u200b\u202e\u2066]", await page.inner_text("body"))


def large() -> builder.Story:
    """Some 5 MB: six hundred players, and draws of two hundred numbers, thirty in an entry."""
    numbers = {"kind": "integers", "min": 10**9, "max": 2 * 10**9, "count": 200}
    story = builder.Story().seal(participants=[], open=True, recipes={"numbers": numbers})
    for number in range(600):
        story.contribute(f"player-{number}", 6.5)
    story.close(9.1).round(1005, 15.9)
    for _ in range(75):
        story.draw("numbers", 16, count=29, purpose="")
    return story.reveal(90)


async def test_a_large_transcript(chrome, file) -> None:
    document = text(large())
    assert len(document) > 5_000_000
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        heard = await page.evaluate_handle(
            """() => {
                const heard = { turns: 0, said: new Set() };
                setInterval(() => {
                    const bar = document.querySelector(".progress:not([hidden])");
                    if (bar !== null) {
                        heard.turns += 1;
                        heard.said.add(bar.textContent);
                    }
                }, 5);
                return heard;
            }"""
        )
        await give(page, upload("large.json", document))
        assert (await shown(page))["exit"] == 0
        turns, said = await heard.evaluate("heard => [heard.turns, heard.said.size]")
        assert turns > 5  # the page went on while it was checked
        assert said > 1
        assert await page.locator(".drawn tbody tr").count() < 20
        await page.click("#editor > summary")
        await page.wait_for_selector(".event")
        assert await page.locator(".event").count() == 100
        assert await page.locator(".leaf").count() < 50
        await page.click("#steps > summary")
        await page.wait_for_selector(".steps")
        assert await page.locator(".step").count() == 50


async def test_a_check_can_be_stopped_and_begun_again(chrome, file) -> None:
    # The one thing that does not happen by itself here is the answer of the Worker.
    await_worker = "Worker.prototype.postMessage = function (message) { window.kept = [this, message]; };"
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(match()))
        await page.evaluate(f"() => {{ window.post = Worker.prototype.postMessage; {await_worker} }}")
        await page.evaluate("document.getElementById('sandbox').click()")
        await page.click("#stop")
        assert "Stopped." in await page.inner_text("#result")
        await page.evaluate("() => { Worker.prototype.postMessage = window.post; }")
        before = await answers(page)
        await page.evaluate("document.getElementById('sandbox').click()")
        await answered(page, before)
        assert (await shown(page))["exit"] == 0


@pytest.mark.parametrize("how", ["delete window.Worker", "window.Worker = class { constructor() { throw Error(); } }"])
async def test_without_a_worker_it_checks_in_the_page(chrome, file, how) -> None:
    async with opened(chrome, file, init=how) as page:
        await trust(page, key=KEY)
        await paste(page, text(match()))
        assert (await shown(page))["exit"] == 0
        assert page.workers == []


# --- changing values -----------------------------------------------------------------------------------------------------


async def open_entry(page, index: int) -> None:
    await page.locator(".event", has_text=f"Entry {index}:").locator("summary").first.click()


async def change(page, path: str, value: str) -> None:
    before = await answers(page)
    field = page.locator(f'.leaf[data-path="{path}"] .value')
    await field.fill(value)
    await field.blur()
    await answered(page, before)


async def test_a_changed_value_flips_the_verdict_and_comes_back(chrome, file) -> None:
    story = match()
    draw = story.shown[5]
    die = json.loads(story.leaves[draw])["outcomes"][0][0]
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(story))
        await page.click("#editor > summary")
        await open_entry(page, draw)
        await page.locator(".event", has_text=f"Entry {draw}:").get_by_text("outcomes", exact=True).click()
        await page.locator(".event", has_text=f"Entry {draw}:").get_by_text("2 items").click()
        path = f"entry {draw}.outcomes[0][0]"
        await change(page, path, str(die % 6 + 1))
        answer = await shown(page)
        assert (answer["exit"], answer["claims"]["log"], answer["claims"]["outcomes"]) == (1, "FAILED", "FAILED")
        assert ["outcomes", "5.2", draw] in answer["findings"]
        assert "was proven" in await page.inner_text(".claim[data-claim=outcomes]")
        assert "changed copy" in await page.inner_text("#result")
        assert "outcomes" in await page.inner_text(".changes")
        before = await answers(page)
        await page.click(".changes >> text=Undo")
        await answered(page, before)
        assert (await shown(page))["exit"] == 0
        assert "changed copy" not in await page.inner_text("#result")


async def test_an_entry_can_be_taken_out_and_all_is_reset(chrome, file) -> None:
    story = match()
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(story))
        await page.click("#editor > summary")
        await open_entry(page, story.shown[2])
        before = await answers(page)
        await page.click("text=Remove this entry")
        await answered(page, before)
        failed = (await shown(page))["claims"]
        assert failed["complete"] == "FAILED"
        assert failed["log"] == "PROVEN"
        await change(page, "origin", "elsewhere.example")
        assert (await shown(page))["claims"]["log"] == "FAILED"
        assert "2 changes" in await page.inner_text(".changes")
        before = await answers(page)
        await page.click("text=Reset all")
        await answered(page, before)
        assert (await shown(page))["exit"] == 0
        assert await page.input_value('.leaf[data-path="origin"] .value') == builder.ORIGIN


async def test_a_value_that_breaks_the_form_is_no_verdict(chrome, file) -> None:
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(match()))
        await page.click("#editor > summary")
        await change(page, "format", "fair-beacon/transcript/v2")
        assert (await shown(page))["code"] == "document"
        await change(page, "format", "fair-beacon/transcript/v1")
        assert (await shown(page))["exit"] == 0


async def test_a_finding_leads_to_its_entry_and_a_step_shows_its_bytes(chrome, file) -> None:
    story = match()
    draw = story.shown[5]
    document = story.document()
    entry = json.loads(document["events"][5]["entry"])
    entry["outcomes"][0][0] = entry["outcomes"][0][0] % 6 + 1
    document["events"][5]["entry"] = json.dumps(entry, separators=(",", ":"))
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, builder.data(document).decode())
        await page.locator(".findings button").first.click()
        assert await page.evaluate("document.activeElement.closest('.leaf').dataset.path") == f"entry {draw}.v"
        await page.click("#steps > summary")
        await page.select_option("#steps select", "outcomes")
        await page.locator(".step", has=page.locator(".sign.ok-false")).first.locator("summary").click()
        await page.wait_for_selector(".step[open] .operation")
        step = await page.inner_text(".step[open]")
        assert "HMAC" in step
        assert builder.match().links[1].hex() in step


# --- trust, and other systems --------------------------------------------------------------------------------------------


async def test_what_is_trusted_decides(chrome, file) -> None:
    story = match()
    witnessed = builder.data(
        story.document(story.all_from_seal(), [story.evidence(6, {"w1": 8, "w2": 8}, 5)], {"w1": 95, "w2": 95})
    )
    async with opened(chrome, file) as page:
        await trust(page, key=KEY, policy=builder.POLICY)
        await paste(page, witnessed.decode())
        answer = await shown(page)
        assert answer["headline"] == "Proven fair."
        await trust(page, key=KEY)
        before = await answers(page)
        await page.evaluate("document.getElementById('proven').click()")
        await answered(page, before)
        assert (await shown(page))["exit"] == 2
        await trust(page, key=KEY, policy=builder.POLICY, chains=("fastnet",))
        before = await answers(page)
        await page.evaluate("document.getElementById('apply').click()")
        await answered(page, before)
        assert (await shown(page))["claims"]["round"] == "UNKNOWN"


async def test_a_test_session_on_a_network_of_its_own(chrome, file) -> None:
    async with opened(chrome, file) as page:
        await trust(page, key=KEY, chains=("fastnet",))
        await paste(page, text(builder.match(sandbox=True).reveal(90)))
        answer = await shown(page)
        assert (answer["exit"], answer["claims"]["round"]) == (2, "UNKNOWN")
        before = await answers(page)
        await page.click("#trust-chain")
        await answered(page, before)
        answer = await shown(page)
        assert (answer["exit"], answer["claims"]["round"]) == (0, "PROVEN")
        assert answer["headline"].startswith("A test, not a game")
        # a game has no such button: its network is one of drand's, or there is no proof
        await page.click("#start-over")
        await page.evaluate("() => { document.getElementById('own-chain').value = ''; }")
        await paste(page, text(match()))
        assert (await shown(page))["claims"]["round"] == "UNKNOWN"
        assert await page.locator("#trust-chain").count() == 0


async def test_a_sealed_file_is_compared(chrome, file, tmp_path) -> None:
    rules = b"the rules"
    attached = [{"name": "rules <i>", "sha256": hashlib.sha256(rules).hexdigest()}]
    async with opened(chrome, file) as page:
        await trust(page, key=KEY)
        await paste(page, text(builder.match(attachments=attached).reveal(90)))
        assert (await shown(page))["claims"]["attachments"] == "UNKNOWN"
        for content, state in ((b"other", "FAILED"), (rules, "PROVEN")):
            before = await answers(page)
            await page.set_input_files(".files input", upload("any", content))
            await answered(page, before)
            assert (await shown(page))["claims"]["attachments"] == state


async def test_records_of_other_systems(chrome, file) -> None:
    async with opened(chrome, file) as page:
        await page.click("#systems > summary")
        names = await page.eval_on_selector_all("#system option", "options => options.map(({ value }) => value)")
        assert len(names) >= 10
        for name in names:
            await page.select_option("#system", name)
            await page.click("#example")
            await page.click("#replay")
            await page.wait_for_selector(".replayed[data-ok=true]")
        record = json.loads(await page.evaluate("document.getElementById('record').value"))
        await page.fill("#record", json.dumps({**record, "<b>": 1}))
        await page.click("#replay")
        await page.wait_for_selector(".replayed[data-ok=null]")
        cube = {"system": "cube", "seed": "cube-dice-example", "rolls": [[1, 4], [4, 3]]}
        await page.set_input_files("#file", upload("cube.json", json.dumps(cube)))
        await page.wait_for_selector(".replayed[data-ok=false]")
        assert await page.locator(".rows .differs").count() == 1
        assert await overflow(page) == 0
