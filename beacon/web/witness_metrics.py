"""The log's witnesses as Prometheus metrics, read when they are asked for. Counters begin at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from beacon.witness.client import Result
from beacon.witness.witnesses import Witnessed

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily


class WitnessCollector(Collector):
    """The metrics of each witness."""

    def __init__(self, report: Callable[[], Sequence[Witnessed]]) -> None:
        self._report = report

    def collect(self) -> Iterator[Family]:
        """Every family, with what it is now."""
        entries = GaugeMetricFamily(
            "beacon_witness_lag_entries", "Entries of the log that the witness has not cosigned", labels=("witness",)
        )
        seconds = GaugeMetricFamily(
            "beacon_witness_lag_seconds",
            "For how long a checkpoint has been public that the witness has not cosigned; 0 while there is none",
            labels=("witness",),
        )
        requests = CounterMetricFamily(
            "beacon_witness_requests", "Requests for cosignatures, by what came of them", labels=("witness", "result")
        )
        conflict = GaugeMetricFamily(
            "beacon_witness_disagrees",
            "1 where the witness has seen more of the log than there is, or another history",
            labels=("witness",),
        )
        for one in self._report():
            entries.add_metric((one.name,), one.lag)
            seconds.add_metric((one.name,), one.behind_ms / 1_000)
            for result in Result:
                requests.add_metric((one.name, str(result)), one.standing.results[result])
            conflict.add_metric((one.name,), one.disagrees)
        yield from (entries, seconds, requests, conflict)
