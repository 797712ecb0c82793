"""What the server counts about itself: plain numbers, changed in the event loop, read when somebody asks.

The hot path adds to a number in a dictionary, without a lock and without a library; `/metrics` alone imports
what writes them in the format of Prometheus (`dokimos.server._api.prometheus_text`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

Labels = tuple[str, ...]
"""The values of the labels of a metric, in the order of their names. Few: each combination is a series."""
BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets of a histogram, in seconds."""


@dataclass(slots=True)
class Distribution:
    """How many durations there were of each size, and their sum."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Histogram:
    """Durations by labels."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name: Final = name
        self.help: Final = help
        self.labels: Final = labels
        self.series: Final[dict[Labels, Distribution]] = {}

    def add(self, labels: Labels, seconds: float) -> None:
        """Count a duration."""
        series = self.series.get(labels)
        if series is None:
            series = self.series[labels] = Distribution()
        series.add(seconds)


class Counter:
    """Numbers that only grow, by labels."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name: Final = name
        self.help: Final = help
        self.labels: Final = labels
        self.series: Final[dict[Labels, float]] = {} if labels else {(): 0.0}

    def add(self, labels: Labels = (), number: float = 1) -> None:
        """Count something."""
        self.series[labels] = self.series.get(labels, 0.0) + number


@dataclass(frozen=True, slots=True)
class Gauge:
    """What a number is at the moment, by labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[], Mapping[Labels, float]]


class Metrics:
    """The metrics of a server."""

    def __init__(self) -> None:
        self.requests: Final = Histogram(
            "dokimos_http_request_duration_seconds",
            "Requests that were answered, by route, method and class of status.",
            ("route", "method", "status"),
        )
        self.database: Final = Histogram(
            "dokimos_database_duration_seconds",
            "Transactions, from when they were asked for until they were read or on disk.",
            ("operation",),
        )
        self.comparisons: Final = Histogram(
            "dokimos_comparison_duration_seconds", "Comparisons of two runs that were computed."
        )
        self.items: Final = Counter("dokimos_items_total", "Items of runs that were stored.")
        self.batches: Final = Counter("dokimos_item_batches_total", "Batches of items that were stored.")
        self.database_failures: Final = Counter(
            "dokimos_database_failures_total",
            "Transactions that the database could not do: away, full, too busy or too slow.",
            ("operation",),
        )
        self.gauges: Final[list[Gauge]] = []
        self._counters: Final[dict[str, Counter]] = {
            counter.name: counter for counter in (self.items, self.batches, self.database_failures)
        }

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """All histograms."""
        return self.requests, self.database, self.comparisons

    @property
    def counters(self) -> list[Counter]:
        """All counters."""
        return list(self._counters.values())

    def counter(self, name: str, help: str, labels: tuple[str, ...] = ()) -> Counter:
        """Return the counter of a name, made where there is none.

        Args:
            name: With `dokimos_` before it and `_total` behind it.
            help: What is counted.
            labels: The names of its labels; each has few values.
        """
        known = self._counters.get(name)
        if known is None:
            known = self._counters[name] = Counter(name, help, labels)
        return known

    def watch(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Show what a function returns when metrics are read; it must be quick and not wait."""
        self.gauges.append(Gauge(name, help, (), lambda: {(): read()}))

    def watch_each(self, name: str, help: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Show several numbers, told apart by the values of a label."""
        self.gauges.append(
            Gauge(name, help, (label,), lambda: {(key,): value for key, value in read().items()})
        )
