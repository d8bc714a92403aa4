"""The service's own metrics: what is counted, how, and that it is told to Prometheus alone."""

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from beacon.app import create_app
from beacon.clock import SystemClock
from beacon.datadir import initialise, pinned_chain
from beacon.metrics import CommitTimer, Histogram
from beacon.sessions.tally import Tally
from beacon.settings import MetricsSettings, Settings, load_settings
from beacon.store.hosts import Host
from beacon.web.application import build_web
from beacon.web.measured import MEASURED, REQUESTS, Measured, Requests
from beacon.web.metrics_routes import build_metrics
from beacon.web.server import listening, serve
from beacon.web.services import SERVICES
from tests.session_support import ALICE, service

REFERENCE = (Path(__file__).parent.parent / "beacon" / "REFERENCE.md").read_text(encoding="utf-8")


async def scrape(url):
    async with aiohttp.ClientSession() as client, client.get(f"{url}/metrics") as answer:
        assert answer.status == 200
        text = await answer.text()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


# --- what counts ------------------------------------------------------------------------------------------------


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 1.5, 10.0, 11.0):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2), ("10.0", 4), ("+Inf", 5)]
    assert histogram.sum == 24


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0, 100), unique=True).map(sorted))
def test_a_histogram_is_what_its_values_say(values, bounds):
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    expected = [sum(value <= bound for value in values) for bound in bounds] + [len(values)]
    assert [count for _, count in histogram.buckets()] == expected


def test_a_commit_is_timed_from_its_begin_until_it_is_durable():
    times = iter([10.0, 10.25, 20.0])
    timer = CommitTimer(lambda: next(times))
    for name in ("begun", "jobs-done", "before-commit", "committed", "delivered", "begun"):
        timer.step(name)
    assert timer.seconds.sum == 0.25
    assert timer.seconds.buckets()[-1] == ("+Inf", 1)


def test_methods_that_clients_invent_are_one():
    requests = Requests()
    for method in ("GET", "BREW", "WHEN", "CONNECT"):
        requests.add(method, None, 405, 0.0)
    assert requests.statuses == {("GET", "none", 405): 1, ("other", "none", 405): 3}
    assert len(requests.seconds) == 2


async def test_what_was_rolled_back_is_not_counted(tmp_path):
    tally = Tally()
    async with service(tmp_path) as running:
        await running.seal()
        entry = await running.log.reader.run(
            lambda db: db.execute("SELECT entry FROM entries ORDER BY i DESC LIMIT 1").fetchone()[0]
        )
    tally.applied(None, 1, entry, b"")
    assert not tally.entries
    tally.rolled_back()
    tally.committed()
    assert not tally.entries
    tally.applied(None, 1, entry, b"")
    tally.committed()
    assert tally.entries == {"seal": 1}


# --- the whole service ------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path):
    folder = tmp_path / "data"
    initialise(folder, "beacon.example/metrics", [pinned_chain("quicknet", ("http://127.0.0.1:9",))], SystemClock())
    return load_settings(folder)


async def test_the_service_measures_itself(settings):
    app = create_app(settings, SystemClock())
    async with (
        listening(app, "127.0.0.1", 0, 0) as url,
        listening(build_metrics(app), "127.0.0.1", 0, 0) as metrics_url,
        aiohttp.ClientSession() as client,
    ):
        token = await app[SERVICES].hosts.add("alice", sandbox=False)
        assert (await app[SERVICES].hosts.authenticate(token)).host == Host("alice", sandbox=False)
        for path, status in (("/healthz", 200), ("/healthz", 200), ("/v1/hosts/nobody", 404), ("/nowhere", 404)):
            async with client.get(f"{url}{path}") as answer:
                assert answer.status == status
        found = await scrape(metrics_url)
        async with client.get(f"{url}/metrics") as answer:
            assert answer.status == 404
    assert found["beacon_requests_total", "GET", "/healthz", "200"] == 2
    assert found["beacon_requests_total", "GET", "/v1/hosts/{host}", "404"] == 1
    assert found["beacon_requests_total", "GET", "none", "404"] == 1
    assert found["beacon_request_seconds_count", "GET", "/healthz"] == 2
    assert found["beacon_writes_waiting", "log"] == 0
    assert found["beacon_writes_waiting", "private"] == 0
    assert found["beacon_commit_seconds_count", "private"] >= 1
    assert found["beacon_commit_seconds_sum", "private"] > 0
    assert found["beacon_log_size",] == 1
    assert found["beacon_listeners",] == 0
    assert 0 < found["beacon_disk_free_bytes",] <= found["beacon_disk_bytes",]
    assert found["beacon_chain_trouble", "quicknet", "no-verified-round"] == 1
    assert not [name for name, *_ in found if name.endswith("_created")]


async def test_sessions_entries_and_voids_are_counted(tmp_path):
    async with service(tmp_path) as running:
        app = build_web(Settings(origin="o.example"))
        app[MEASURED] = Measured({}, running.book.all_open, running.tally, running.context.settled, lambda: 7, tmp_path)
        for _ in range(3):
            written = await running.seal()
        await running.sessions.void(ALICE, written.session)
        for _ in range(2):
            live = await running.seal(profile="live", participants=[], links=4)
            called = await running.draw(live.session)
        await running.reach(called.call.round)
        async with listening(build_metrics(app), "127.0.0.1", 0, 0) as url:
            found = await scrape(url)
    assert found["beacon_entries_total", "seal"] == 5
    assert found["beacon_entries_total", "void"] == 1
    assert found["beacon_voids_total", "host"] == 1
    assert found["beacon_voids_total", "missed-reveal"] == found["beacon_voids_total", "no-round"] == 0
    assert found["beacon_entries_total", "draw"] == 2
    assert found["beacon_sessions", "match", "sealed"] == 2
    assert found["beacon_sessions", "live", "drawing"] == 2
    assert found["beacon_log_size",] == 7
    assert (found["beacon_settled_draws_count",], found["beacon_settled_draws_sum",]) == (1, 2)


async def test_every_sample_is_in_the_reference(settings):
    app = create_app(settings, SystemClock())
    async with listening(app, "127.0.0.1", 0, 0), listening(build_metrics(app), "127.0.0.1", 0, 0) as url:
        await scrape(url)
        found = await scrape(url)
    names = {re.sub("_(bucket|sum|count)$", "", name) for name, *_ in found}
    assert len(names) > 15
    assert not [name for name in names if f"| `{name}` |" not in REFERENCE]


@pytest.mark.parametrize("port", [None, 0])
async def test_metrics_listen_apart_or_not_at_all(settings, port, monkeypatch):
    listened = []

    def watching(app, *rest):
        listened.append((MEASURED in app, REQUESTS in app))
        return listening(app, *rest)

    monkeypatch.setattr("beacon.web.server.listening", watching)
    url = asyncio.get_running_loop().create_future()
    app = create_app(settings, SystemClock())
    running = asyncio.create_task(
        serve(app, settings.listen.model_copy(update={"port": 0}), url.set_result, MetricsSettings(port=port))
    )
    await url
    app[SERVICES].log.writer.stop("enough")
    assert await running == "enough"
    assert len(listened) == (1 if port is None else 2)
