"""Every single change to a good transcript, put into the browser verifier's file in a real Chromium: both say the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import builder, web_verifier
from tests.browser_support import chromium
from tests.page_support import READ, build_page, opened, trust
from tests.test_web_verifier import GOOD, changes_of
from verifier.check import check
from verifier.errors import FormatError

BATCH = 100
EACH = f"""async (documents) => {{
    const read = {READ}, result = document.getElementById("result"), said = [];
    for (const text of documents) {{
        const before = result.dataset.answer;
        const answered = new Promise((done) => {{
            const look = new MutationObserver(() => {{
                if (result.dataset.answer !== before && !result.hasAttribute("aria-busy")) {{
                    look.disconnect();
                    done();
                }}
            }});
            look.observe(result, {{ attributes: true }});
        }});
        document.getElementById("start-over")?.click();
        document.getElementById("pasted").value = text;
        document.getElementById("check-pasted").click();
        await answered;
        said.push(read());
    }}
    return said;
}}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_page(tmp_path_factory.mktemp("page"))


def codes_of_python(document: bytes) -> dict[str, Any]:
    """What of a verdict has to be equal: the exit, the states of the claims, the rules that do not hold; or the code."""
    try:
        verdict = check(document, web_verifier.TRUST, web_verifier.verify_round)
    except FormatError as error:
        return {"exit": 3, "code": error.code, "states": {}, "broken": set()}
    return {
        "exit": verdict.exit,
        "code": None,
        "states": {claim.name: claim.state for claim in verdict.claims},
        "broken": {(claim.name, finding.rule) for claim in verdict.claims for finding in claim.findings},
    }


def codes_shown(answer: Mapping[str, Any]) -> dict[str, Any]:
    broken = {(claim, rule) for claim, rule, _ in answer["findings"]}
    return {"exit": answer["exit"], "code": answer["code"], "states": answer["claims"], "broken": broken}


@pytest.mark.parametrize("name", ["match", "live"])
async def test_every_single_change(file: Path, name: str) -> None:
    cases = dict(changes_of(GOOD[name]()))
    documents = [text.decode("utf-8", "surrogatepass") for text in cases.values()]
    said: list[Mapping[str, Any]] = []
    async with chromium() as browser, opened(browser, file) as page:
        await trust(page, key=web_verifier.VKEY, policy=builder.POLICY, chains=tuple(web_verifier.OPTIONS["chains"]))
        for start in range(0, len(documents), BATCH):
            said += await page.evaluate(EACH, documents[start : start + BATCH])
    found = dict(zip(cases, map(codes_shown, said), strict=True))
    expected = {case: codes_of_python(document) for case, document in cases.items()}
    assert {case: (found[case], expected[case]) for case in cases if found[case] != expected[case]} == {}
    assert {answer["exit"] for answer in found.values()} == {0, 1, 2, 3}
