"""The pages of the log, of hosts and of rounds."""

import hashlib
import re

import pytest

from beacon.rounds.health import RelayHealth
from beacon.rounds.rounds import TROUBLES
from beacon.web.pages.log_view import PAGE
from beacon.web.pages.texts import texts
from beacon.web.services import SERVICES
from beacon.witness.courier import Standing
from beacon.witness.witnesses import Nobody, Witnessed
from tests import page_worlds
from tests.page_worlds import HOSTILE, reach
from tests.pages_support import BROWSER, get_page, parse
from tests.session_support import ALICE, BOB, service
from tests.web_support import web_of
from verifier import web as verifier_web
from verifier.note import Cosigner, Note
from verifier.transcript import parse_transcript

NONE = "\N{EN DASH}"


@pytest.fixture
async def world(tmp_path):
    async with service(tmp_path) as running, web_of(running) as client:
        yield running, client


def rows(page, number=0):
    """The cells' texts of a table's rows."""
    table = page.classed("table")[number]
    return [
        [cell.text.strip() for cell in row.children if not isinstance(cell, str)]
        for row in table.one("tbody").all("tr")
    ]


def links(page):
    return {one.text.strip(): one.attributes["href"] for one in page.all("a")}


# --- the log ---------------------------------------------------------------------------------------------------------


async def test_the_log_shows_its_checkpoint_and_its_entries_newest_first(world):
    running, client = world
    session = await page_worlds.revealed(running)
    page = await get_page(client, "/log")
    latest = running.log.latest()
    assert page.classed("figure")[0].text == str(latest.size)
    assert page.one("pre").text == latest.note
    assert str(running.vkey) in page.text
    assert "The log has no witnesses." in page.text
    listed = rows(page)
    assert [int(row[0]) for row in listed] == list(range(latest.size))[::-1]
    assert listed[-1][1] == "The log begins"
    assert {row[1] for row in listed} == {
        "The log begins", "A random network", "Seal", "Contribution", "Contributions closed", "Round", "Draw",
        "Seed revealed",
    }  # fmt: skip
    found = [one.attributes["href"] for one in page.all("a")]
    assert f"/s/{session.hex()}" in found
    assert "/hosts/alice" in found


async def test_the_log_has_pages_that_meet_without_gap(world):
    running, client = world
    session = await page_worlds.anchored(running)
    for _ in range(2 * PAGE):
        await running.draw(session, "turn")
    seen, path = [], "/log"
    while path:
        page = await get_page(client, path)
        seen += [int(row[0]) for row in rows(page)]
        path = links(page).get("Older")
    assert seen == list(range(running.log.latest().size))[::-1]
    page = await get_page(client, f"/log?before={PAGE}")
    assert "Older" not in links(page)
    assert links(page)["Newer"] == f"/log?before={2 * PAGE}#entries"


@pytest.mark.parametrize("query", ["?before=x", "?before=-1", "?before=1&before=2", "?after=1"])
async def test_the_log_refuses_queries_that_mean_nothing(world, query):
    _, client = world
    await get_page(client, f"/log{query}", 400)


@pytest.mark.parametrize("before", [0, 1, 2**53 - 1])
async def test_the_log_has_an_end_on_both_sides(world, before):
    _, client = world
    await get_page(client, f"/log?before={before}")


async def test_each_entry_has_a_page_with_its_exact_text_and_hash(world):
    running, client = world
    session = await page_worlds.hostile(running)
    page = await get_page(client, f"/s/{session.hex()}")
    leading = {one.attributes["href"] for one in page.classed("entry")}
    assert len(leading) == 9
    for path in leading | {"/log?entry=0", "/log?entry=1"}:
        page = await get_page(client, path)
        index = int(path.partition("=")[2])
        data = await running.log.entry(index)
        assert page.classed("raw")[0].text == data.decode()
        leaf = hashlib.sha256(b"\0" + data).hexdigest()
        assert page.classed("facts")[0].one("code").text == leaf
        command = [one.text for one in page.all("pre")][1:]
        assert command == [f"printf %s 00{data.hex()} | xxd -r -p | sha256sum"]
        assert f"Entry {index} of the log" in page.one("h1").text
        around = [one for one in page.all() if any(isinstance(text, str) and "hacked" in text for text in one.children)]
        assert {one.tag for one in around} <= {"code"}
    page = await get_page(client, f"/log?entry={(await running.sessions.state(session)).index}")
    assert page.classed("facts")[0].one("code").text == session.hex()


async def test_a_long_entry_is_shown_without_a_command(world):
    running, client = world
    session = await page_worlds.anchored(running, recipes={"order": {"kind": "shuffle", "size": 10_000}})
    await running.draw(session, "order")
    page = await get_page(client, f"/log?entry={running.log.latest().size - 1}")
    assert len(page.one("pre").text) > 40_000
    assert not list(page.all("details"))


async def test_the_receipt_of_an_entry_can_be_kept(world):
    running, client = world
    session = await page_worlds.revealed(running)
    index = (await running.sessions.state(session)).close_index
    page = await get_page(client, f"/log?entry={index}")
    async with client.get(links(page)["download the receipt"]) as answer:
        receipt = parse_transcript(await answer.read())
    assert [event.index for event in receipt.events] == [index]


async def test_there_is_no_entry_beyond_the_end(world):
    running, client = world
    await get_page(client, f"/log?entry={running.log.latest().size - 1}")
    await get_page(client, f"/log?entry={running.log.latest().size}", 404)
    await get_page(client, "/log?entry=x", 400)


async def test_every_type_of_entry_has_its_name():
    known = {name.removeprefix("entry.") for name in texts().texts if name.startswith("entry.")}
    assert known == {"log", "chain", "seal", "contribution", "close", "round", "call", "draw", "reveal", "void"}


class Asked(Nobody):
    """Witnesses of a log that stand as the test says."""

    def __init__(self, log, *report):
        self.log, self.reported, self.cosigned = log, report, None

    def note(self, checkpoint):
        cosigner = Cosigner(bytes(32), "witness.example")
        return checkpoint.note + cosigner.cosign(Note.parse(checkpoint.note).text, 1_700_000_000)

    def newest(self):
        return self.cosigned

    def report(self):
        return self.reported


async def test_witnesses_are_shown_with_what_they_have_seen(tmp_path):
    async with service(tmp_path) as running:
        await page_worlds.revealed(running)
        latest = running.log.latest()
        asked = Asked(
            running.log,
            Witnessed("<b>north", Standing(size=latest.size), 0, 0, disagrees=False),
            Witnessed("south", Standing(size=latest.size - 3), 3, 5_000, disagrees=False),
            Witnessed("west", Standing(), latest.size, 5_000, disagrees=True),
        )
        async with web_of(running, witnesses=asked) as client:
            page = await get_page(client, "/log")
            assert page.one("pre").text == asked.note(latest)
            assert "witness.example" in page.one("pre").text
            assert "Not enough of them have signed" in page.text
            assert rows(page) == [
                ["<b>north", f"{latest.size}", "up to date"],
                ["south", f"{latest.size - 3}", "3 entries behind"],
                ["west", "0", "Has seen another history of this log"],
            ]
            asked.cosigned = asked.note(latest)
            page = await get_page(client, "/log")
            assert f"Newest checkpoint that enough of them signed: {latest.size} entries" in page.text


# --- hosts -----------------------------------------------------------------------------------------------------------


async def test_a_ledger_counts_ends_gaps_labels_and_re_runs(world):
    running, client = world
    first = await page_worlds.void_host(running)
    await page_worlds.revealed(running)
    again = await page_worlds.sealed(running, label="other", replaces=first.hex())
    page = await get_page(client, "/hosts/alice")
    assert [one.text for one in page.classed("figure")] == ["3", "1", "1", "1"]
    assert "without a gap" in page.text
    assert "“table 4”: 2 sessions" in page.text
    assert "The host gave it up before the round" in page.text
    assert "One session re-runs another" in page.text
    listed = rows(page)
    assert [row[0] for row in listed] == ["3", "2", "1"]
    assert [row[2] for row in listed] == ["Open for contributions", "Revealed", "Void"]
    assert {f"/s/{first.hex()}", f"/s/{again.hex()}"} <= {one.attributes["href"] for one in page.all("a")}


async def test_gaps_and_tests_are_said(world, monkeypatch):
    running, client = world
    await page_worlds.sandbox(running)
    page = await get_page(client, "/hosts/tester")
    assert "A test, not a game." in page.text
    shown = await running.sessions.ledger("tester")
    shown["numbers_gapless"] = False
    page = await get_page(client, "/hosts/tester")
    assert "There are gaps" in page.text
    assert "without a gap" not in page.text.replace("Numbers without gaps", "")


async def test_a_ledger_has_pages(world):
    running, client = world
    for _ in range(52):
        await running.seal()
    page = await get_page(client, "/hosts/alice")
    assert [row[0] for row in rows(page)] == [str(number) for number in range(52, 2, -1)]
    page = await get_page(client, links(page)["Earlier sessions"])
    assert [row[0] for row in rows(page)] == ["2", "1"]
    assert "Earlier sessions" not in links(page)
    assert links(page)["Newest sessions"] == "/hosts/alice#sessions"


async def test_labels_on_a_ledger_are_text_on_their_own(world):
    running, client = world
    for _ in range(2):
        await running.seal(label=HOSTILE)
    page = await get_page(client, "/hosts/alice")
    around = [one for one in page.all() if any(isinstance(text, str) and "hacked" in text for text in one.children)]
    assert len(around) == 3
    assert {one.tag for one in around} == {"bdi"}


@pytest.mark.parametrize("name", ["nobody", "Alice", "%3Cscript%3E", "a" * 300])
async def test_an_unknown_host_is_said_to_be_unknown(world, name):
    _, client = world
    page = await get_page(client, f"/hosts/{name}", 404)
    assert page.one("h1").text == "No such host"


async def test_one_hosts_sessions_are_not_on_anothers_ledger(world):
    running, client = world
    await running.seal(host=BOB)
    await running.seal(host=ALICE)
    assert len(rows(await get_page(client, "/hosts/bob"))) == 1


@pytest.mark.parametrize("query", ["?before=0", "?before=x", "?limit=3"])
async def test_a_ledger_refuses_queries_that_mean_nothing(world, query):
    running, client = world
    await running.seal()
    await get_page(client, f"/hosts/alice{query}", 400)


# --- rounds ----------------------------------------------------------------------------------------------------------


async def test_rounds_show_the_chain_its_health_and_what_sessions_used(world):
    running, client = world
    session = await page_worlds.anchored(running)
    number = (await running.sessions.view(session))["round"]
    running.rounds.relays = (
        RelayHealth("https://relay.example/secret-path", answered=3, last_round=number, latency=12),
        RelayHealth("https://slow.example", failures_in_a_row=4),
        RelayHealth("https://new.example"),
    )
    page = await get_page(client, "/rounds")
    assert "In order" in page.text
    assert page.classed("figure")[0].text == f"{number:,}"
    assert rows(page) == [
        ["https://relay.example", f"{number:,}", "12 ms", "answers"],
        ["https://slow.example", NONE, NONE, "failed 4 times in a row"],
        ["https://new.example", NONE, NONE, "not asked yet"],
    ]
    assert "secret-path" not in page.text
    ((shown, _, randomness, _),) = rows(page, 1)
    assert shown == f"{number:,}"
    assert re.fullmatch(r"[0-9a-f]{8}…[0-9a-f]{8}", randomness)


async def test_a_session_leads_to_its_chain(world):
    running, client = world
    session = await page_worlds.sealed(running)
    page = await get_page(client, f"/s/{session.hex()}")
    address, _, place = links(page)["real"].partition("#")
    assert (await get_page(client, address)).by_id(place).tag == "h2"


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_every_trouble_of_a_chain_has_its_words(world, monkeypatch, trouble):
    running, client = world
    monkeypatch.setattr(running.rounds, "trouble", lambda _hash: trouble)
    running.rounds.evidence = (7, 9)
    page = await get_page(client, "/rounds")
    assert texts().text(f"rounds.trouble.{trouble}") in page.text
    assert "differently: 7, 9." in page.text


async def test_a_service_that_knows_no_round_yet_says_so(world):
    running, client = world
    running.rounds.known.clear()
    page = await get_page(client, "/rounds")
    assert "No round verified yet" in page.text
    assert "No session has used a round yet." in page.text
    assert client.app[SERVICES].chains


async def test_a_private_chain_is_marked_on_the_rounds_too(world, monkeypatch):
    _, client = world
    monkeypatch.setattr("beacon.web.pages.chain_view.pinned_chains", dict)
    assert "Not a public random network." in (await get_page(client, "/rounds")).text


async def test_reach_of_rounds_does_not_depend_on_the_order(world):
    running, client = world
    first = await page_worlds.anchored(running)
    second = await page_worlds.anchored(running)
    numbers = [(await running.sessions.view(one))["round"] for one in (first, second)]
    await reach(running, max(numbers))
    assert [row[0] for row in rows(await get_page(client, "/rounds"))] == [f"{n:,}" for n in sorted(numbers)[::-1]]


# --- all of it -------------------------------------------------------------------------------------------------------


async def test_every_link_of_every_page_leads_somewhere(world, monkeypatch):
    running, client = world
    monkeypatch.setattr(verifier_web, "page", lambda: verifier_web.SLOT)
    sessions = [await make(running) for make in page_worlds.ORDINARY.values()]
    waiting = ["/", *(f"/s/{session.hex()}" for session in sessions)]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        async with client.get(path, headers=BROWSER) as answer:
            assert answer.status == 200, path
            text = await answer.text() if answer.content_type == "text/html" else ""
        if not text or path == "/docs" or "verify" in path:
            continue
        page = parse(text)
        for element in page.all():
            found = element.attributes.get("href") or element.attributes.get("src") or ""
            address, _, place = found.partition("#")
            if place and address in {"", path}:
                page.by_id(place)
            if address and address not in seen:
                seen.add(address)
                waiting.append(address)
    assert {"/log", "/rounds", "/verify", "/statistics", "/roll", "/thirty-six", "/docs", "/hosts/alice"} <= seen
