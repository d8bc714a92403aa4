"""The service itself as Prometheus metrics: requests, writes, sessions, entries. Counters begin at the start."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from aiohttp import hdrs, web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from beacon.metrics import SECONDS, CommitTimer, Histogram
from beacon.sessions.state import SessionState
from beacon.sessions.tally import Tally
from beacon.store.writer import Writer

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

_METHODS: Final = hdrs.METH_ALL - {hdrs.METH_CONNECT}


class Requests:
    """Requests by method, route and status, and how long they took. Of the event loop alone."""

    def __init__(self) -> None:
        self.statuses: Final[Counter[tuple[str, str, int]]] = Counter()
        self.seconds: Final[dict[tuple[str, str], Histogram]] = {}

    def add(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request. route: as it is declared; None for an address or a request that is none."""
        place = (method if method in _METHODS else "other", route or "none")
        self.statuses[*place, status] += 1
        histogram = self.seconds.get(place)
        if histogram is None:
            histogram = self.seconds[place] = Histogram(SECONDS)
        histogram.observe(seconds)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a service measures.

    writers: each database's, by name, and what times its commits. directory: that of the databases.
    """

    writers: Mapping[str, tuple[Writer, CommitTimer]]
    open_sessions: Callable[[], Iterable[SessionState]]
    tally: Tally
    settled: Histogram
    log_size: Callable[[], int]
    directory: Path


REQUESTS: Final = web.AppKey("requests", Requests)
MEASURED: Final = web.AppKey("measured", Measured)


class RequestCollector(Collector):
    """The metrics of requests."""

    def __init__(self, requests: Requests, listeners: Callable[[], int]) -> None:
        """listeners: how many event streams and waiting reads are open."""
        self._requests = requests
        self._listeners = listeners

    def collect(self) -> Iterator[Family]:
        """Every family, with what it is now."""
        total = CounterMetricFamily(
            "beacon_requests", "Requests that were answered", labels=("method", "route", "status")
        )
        for (method, route, status), count in self._requests.statuses.items():
            total.add_metric((method, route, str(status)), count)
        yield total
        seconds = HistogramMetricFamily(
            "beacon_request_seconds",
            "How long requests took until they were answered; those that wait for something as long as they waited",
            labels=("method", "route"),
        )
        for place, histogram in self._requests.seconds.items():
            seconds.add_metric(place, histogram.buckets(), histogram.sum)
        yield seconds
        listeners = GaugeMetricFamily("beacon_listeners", "Event streams and waiting reads that are open")
        listeners.add_metric((), self._listeners())
        yield listeners


class ServiceCollector(Collector):
    """The metrics of writes, sessions and entries. No samples before the service has started."""

    def __init__(self, measured: Callable[[], Measured | None]) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Family]:
        """Every family, with what it is now. Walks through all open sessions."""
        waiting = GaugeMetricFamily(
            "beacon_writes_waiting", "Writes in the queue of a database's one writer", labels=("database",)
        )
        commits = HistogramMetricFamily(
            "beacon_commit_seconds",
            "How long transactions took, from their begin until they were durable",
            labels=("database",),
        )
        sessions = GaugeMetricFamily(
            "beacon_sessions", "Open sessions: those that are neither revealed nor void", labels=("profile", "state")
        )
        logged = CounterMetricFamily("beacon_entries", "Entries that were logged, by type", labels=("type",))
        voids = CounterMetricFamily("beacon_voids", "Sessions that became void, by the reason", labels=("reason",))
        size = GaugeMetricFamily("beacon_log_size", "Entries in the log")
        settled = HistogramMetricFamily(
            "beacon_settled_draws", "How many draws of live sessions the service made at a time, mostly for one round"
        )
        free = GaugeMetricFamily("beacon_disk_free_bytes", "Bytes that the databases' disk has room for still")
        total = GaugeMetricFamily("beacon_disk_bytes", "Bytes that the databases' disk holds in all")
        measured = self._measured()
        if measured is not None:
            for name, (writer, timer) in measured.writers.items():
                waiting.add_metric((name,), writer.waiting)
                commits.add_metric((name,), timer.seconds.buckets(), timer.seconds.sum)
            for place, count in Counter((one.seal.profile, one.name) for one in measured.open_sessions()).items():
                sessions.add_metric(place, count)
            _add(logged, measured.tally.entries)
            _add(voids, measured.tally.voids)
            size.add_metric((), measured.log_size())
            disk = shutil.disk_usage(measured.directory)
            free.add_metric((), disk.free)
            total.add_metric((), disk.total)
            settled.add_metric((), measured.settled.buckets(), measured.settled.sum)
        yield from (waiting, commits, sessions, logged, voids, size, settled, free, total)


def _add(family: CounterMetricFamily, counted: Counter[str]) -> None:
    for name, count in sorted(counted.copy().items()):
        family.add_metric((name,), count)
