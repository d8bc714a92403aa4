"""The browser verifier for tests: built from its sources, opened in Chromium from the disk with the network cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.browser_support import tab
from tests.node_support import unavailable
from tests.outside_tools import need_node, need_npm
from verifier import web
from verifier.web.build import BuildError, build

CORPUS = ("vectors/scenarios.json", "scenarios/faults.json")


def build_page(folder: Path) -> Path:
    """The HTML file, made anew."""
    need_node()
    need_npm()
    try:
        return build(folder / web.FILE_NAME)
    except BuildError as error:
        unavailable(f"the browser verifier could not be built: {error}")
        raise


@asynccontextmanager
async def opened(browser: Any, file: Path, init: str = "", **options: Any) -> AsyncIterator[Any]:
    """The file in a tab without network; whatever it asks for, but for itself and its own Worker, fails the test.

    init: a script that runs before the file's own.
    """
    own = (file.as_uri(), "blob:null/", "data:image/svg")
    async with tab(browser, own, offline=True, **options) as page:
        page.on("dialog", lambda dialog: dialog.dismiss())
        if init:
            await page.add_init_script(init)
        await page.goto(file.as_uri())
        await page.wait_for_selector("#apply", state="attached")
        await page.wait_for_selector(".options fieldset input", state="attached")
        yield page


async def trust(
    page: Any, *, key: str = "", policy: str = "", chains: tuple[str, ...] = (), sandbox: bool = False
) -> None:
    """Fill in what is trusted; nothing is checked by that. chains: names of pinned ones, by default the main ones."""
    await page.evaluate(
        """([key, policy, chains, sandbox]) => {
            document.getElementById("log-key").value = key;
            document.getElementById("policy").value = policy;
            document.getElementById("sandbox").checked = sandbox;
            for (const box of document.querySelectorAll(".options fieldset input")) {
                box.checked = chains.length === 0 ? box.defaultChecked : chains.includes(box.value);
            }
        }""",
        [key, policy, list(chains), sandbox],
    )


async def paste(page: Any, text: str) -> None:
    """Give a document by the field for pasted text, and wait for the answer."""
    before = await answers(page)
    await page.evaluate(
        """text => {
            document.getElementById("paste").click();
            document.getElementById("pasted").value = text;
            document.getElementById("check-pasted").click();
        }""",
        text,
    )
    await answered(page, before)


async def answers(page: Any) -> int:
    """How many verdicts the page has shown."""
    return int(await page.get_attribute("#result", "data-answer") or 0)


async def answered(page: Any, before: int) -> None:
    await page.wait_for_function(
        "before => Number(document.getElementById('result').dataset.answer ?? 0) > before"
        " && !document.getElementById('result').hasAttribute('aria-busy')",
        arg=before,
        timeout=60_000,
    )


OPEN = """async () => {
    for (;;) {
        const closed = [...document.querySelectorAll("details:not([open])")];
        if (closed.length === 0) {
            return;
        }
        const toggled = closed.map((part) => new Promise((done) => part.addEventListener("toggle", done, { once: true })));
        for (const part of closed) {
            part.open = true;
        }
        await Promise.all(toggled);
    }
}"""


async def open_everything(page: Any) -> None:
    """Open every part of the page that opens, and what is in it, the steps of the check too."""
    await page.evaluate(OPEN)
    await page.wait_for_selector(".steps")
    await page.evaluate(OPEN)


READ = """() => {
    const result = document.getElementById("result");
    const claims = [...result.querySelectorAll(".claim")];
    return {
        exit: Number(result.dataset.exit),
        code: result.querySelector("[data-code]")?.dataset.code ?? null,
        headline: document.getElementById("headline")?.textContent ?? "",
        claims: Object.fromEntries(claims.map((claim) => [claim.dataset.claim, claim.dataset.state])),
        findings: claims.flatMap((claim) => [...claim.querySelectorAll(".findings li")].map(
            (item) => [claim.dataset.claim, item.dataset.rule, item.dataset.index === "null" ? null : Number(item.dataset.index)])),
    };
}"""


async def shown(page: Any) -> Mapping[str, Any]:
    """The verdict that the page shows: exit, code, headline, claims, findings."""
    answer: Mapping[str, Any] = await page.evaluate(READ)
    return answer
