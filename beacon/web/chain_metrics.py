"""The chains and their relays as Prometheus metrics: the numbers of /v1/chains, read when they are asked for.

Names end in their unit, times are seconds since the epoch. What has not happened yet has no sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from beacon.relay_urls import public_name
from beacon.rounds.health import RelayHealth
from beacon.rounds.refusals import Reason
from beacon.rounds.rounds import TROUBLES, ChainStatus

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily
Statuses: TypeAlias = Callable[[], Iterable[tuple[str, ChainStatus]]]
Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float | None]]


@dataclass(frozen=True)
class _Metric:
    """One family. `samples`: the values of its labels beside chain and relay, and the number; None for no sample."""

    name: str
    meaning: str
    counts: bool = False
    labels: tuple[str, ...] = ()

    def family(self, *labels: str) -> Family:
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        return kind(self.name, self.meaning, labels=(*labels, *self.labels))


@dataclass(frozen=True)
class _OfChain(_Metric):
    samples: Callable[[ChainStatus], Samples] = lambda _: ()


@dataclass(frozen=True)
class _OfRelay(_Metric):
    samples: Callable[[RelayHealth], Samples] = lambda _: ()


def _one(value: float | None) -> Samples:
    return [((), value)]


def _seconds(milliseconds: float | None) -> Samples:
    return _one(None if milliseconds is None else milliseconds / 1_000)


_CHAIN: Final = (
    _OfChain(
        "beacon_chain_newest_round",
        "Number of the newest round that was verified",
        samples=lambda status: _one(status.newest.round if status.newest else None),
    ),
    _OfChain(
        "beacon_chain_newest_round_time_seconds",
        "When the newest round fell due",
        samples=lambda status: _seconds(status.newest.time if status.newest else None),
    ),
    _OfChain(
        "beacon_chain_expected_round",
        "Number of the round that is current by the service's clock",
        samples=lambda status: _one(status.expected),
    ),
    _OfChain(
        "beacon_chain_stale",
        "1 while the newest round is too old to tell the time by",
        samples=lambda status: _one(status.stale),
    ),
    _OfChain(
        "beacon_chain_trouble",
        "1 for the error code with which seals are refused now, 0 for the others",
        labels=("code",),
        samples=lambda status: [((code,), status.trouble == code) for code in TROUBLES],
    ),
    _OfChain(
        "beacon_chain_rounds_waited_for",
        "Rounds that sessions wait for",
        samples=lambda status: _one(len(status.wanted)),
    ),
    _OfChain(
        "beacon_chain_rounds_overdue",
        "Those of them whose time has come",
        samples=lambda status: _one(status.overdue),
    ),
    _OfChain(
        "beacon_chain_rounds_signed_twice",
        "Rounds with two valid signatures: the chain is broken",
        samples=lambda status: _one(len(status.evidence)),
    ),
)
_RELAY: Final = (
    _OfRelay(
        "beacon_relay_answers",
        "Answers that were verified, since the start",
        counts=True,
        samples=lambda health: _one(health.answered),
    ),
    _OfRelay(
        "beacon_relay_beaten",
        "How often another relay was faster, since the start",
        counts=True,
        samples=lambda health: _one(health.beaten),
    ),
    _OfRelay(
        "beacon_relay_refusals",
        "Answers that were refused, or did not come, since the start",
        counts=True,
        labels=("reason",),
        samples=lambda health: [((str(reason),), health.refused[reason]) for reason in Reason],
    ),
    _OfRelay(
        "beacon_relay_failures_in_a_row",
        "Refusals since the last answer that was verified",
        samples=lambda health: _one(health.failures_in_a_row),
    ),
    _OfRelay(
        "beacon_relay_latency_seconds",
        "What the last good answer took",
        samples=lambda health: _seconds(health.latency),
    ),
    _OfRelay(
        "beacon_relay_cost_seconds",
        "What an answer is expected to take, its failures priced in; the cheapest relay is asked first",
        samples=lambda health: _seconds(health.cost),
    ),
    _OfRelay(
        "beacon_relay_last_round",
        "Highest round that it gave",
        samples=lambda health: _one(health.last_round),
    ),
    _OfRelay(
        "beacon_relay_last_success_time_seconds",
        "When its last answer was verified",
        samples=lambda health: _seconds(health.last_answer),
    ),
    _OfRelay(
        "beacon_relay_last_failure_time_seconds",
        "When it was refused last",
        samples=lambda health: _seconds(health.last_failure),
    ),
)


class ChainCollector(Collector):
    """The metrics of every chain and of each of its relays."""

    def __init__(self, statuses: Statuses) -> None:
        """statuses: each chain's name and how it stands now."""
        self._statuses = statuses

    def collect(self) -> Iterator[Family]:
        """Every family, in the same order each time, with what it is now."""
        statuses = list(self._statuses())
        for of_chain in _CHAIN:
            family = of_chain.family("chain")
            for chain, status in statuses:
                _add(family, (chain,), of_chain.samples(status))
            yield family
        for of_relay in _RELAY:
            family = of_relay.family("chain", "relay")
            for chain, status in statuses:
                for relay, health in _named(status.relays):
                    _add(family, (chain, relay), of_relay.samples(health))
            yield family


def _add(family: Family, labels: tuple[str, ...], samples: Samples) -> None:
    for more, value in samples:
        if value is not None:
            family.add_metric((*labels, *more), value)


def _named(relays: Iterable[RelayHealth]) -> Iterator[tuple[str, RelayHealth]]:
    """Each relay by what of its URL may be shown; those that share it are numbered, in an order that stays."""
    seen: Counter[str] = Counter()
    for health in sorted(relays, key=lambda one: one.url):
        name = public_name(health.url)
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})", health
