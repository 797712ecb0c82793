"""Metrics in the text format of Prometheus, with those of the process; imported when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from dokimos._version import __version__
from dokimos.server._services.metrics import BOUNDS, Counter, Gauge, Histogram, Metrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS: Final = (*map(str, BOUNDS), "+Inf")


def format_metrics(metrics: Metrics) -> bytes:
    """Return metrics as text."""
    # A registry of its own: that of the package is the whole process's, with whatever others put there.
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(_MetricsCollector(metrics))
    text: bytes = generate_latest(registry)
    return text


class _MetricsCollector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("dokimos_build", "The version of the server.", {"version": __version__})
        for histogram in self._metrics.histograms:
            yield _histogram(histogram)
        for counter in self._metrics.counters:
            yield _counter(counter)
        for gauge in self._metrics.gauges:
            yield _gauge(gauge)


def _histogram(histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    for labels, series in histogram.series.items():
        buckets = list(zip(_BOUNDS, map(float, accumulate(series.buckets)), strict=True))
        family.add_metric(labels, buckets, sum_value=series.seconds)
    return family


def _counter(counter: Counter) -> Metric:
    family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
    for labels, number in counter.series.items():
        family.add_metric(labels, number)
    return family


def _gauge(gauge: Gauge) -> Metric:
    # By its name, what is watched may also be a number that only grows.
    kind = CounterMetricFamily if gauge.name.endswith("_total") else GaugeMetricFamily
    family = kind(gauge.name, gauge.help, labels=gauge.labels)
    for labels, number in gauge.read().items():
        family.add_metric(labels, number)
    return family
