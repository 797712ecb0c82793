"""What comes in a day, on what machines, and the loads that have a name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, Literal, TypeAlias

from dokimos.errors import ConfigurationError

Store: TypeAlias = Literal["sqlite", "postgresql", "clickhouse"]
"""Where things are; with ClickHouse it has the spans, and a PostgreSQL beside it all else."""
SECONDS_PER_DAY: Final = 86_400
HOURS_PER_DAY: Final = 24
_MOST_COUNT: Final = 1e15
_MOST_BYTES: Final = 1e9
_MOST_DAYS: Final = 36_500
_MOST_PRICE: Final = 1e6
_MOST: Final = {
    "peak": 1440, "peak_hours": HOURS_PER_DAY, "run_days": _MOST_DAYS, "trace_days": _MOST_DAYS,
    "item_bytes": _MOST_BYTES, "span_bytes": _MOST_BYTES, "judge_seconds": SECONDS_PER_DAY,
    "judge_usd_in": _MOST_PRICE, "judge_usd_out": _MOST_PRICE,
}  # fmt: skip
"""The largest values that are accepted; of counts it is `_MOST_COUNT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What comes in a day, how large it is, and how long it stays."""

    runs: float = 0
    """Runs of a day."""
    items: float = 0
    """Items of all runs of a day together."""
    judge_calls: float = 0
    """Calls of judges that the runs of a day make."""
    spans: float = 0
    """Spans of production traces of a day."""
    peak: float = 10.0
    """How many times the mean rate of the day comes at its peak."""
    peak_hours: float = 1.0
    """How long the peak lasts."""
    run_days: float = 365.0
    """Days that runs are kept."""
    trace_days: float = 30.0
    """Days that traces are kept; 30 is what the server does by default."""
    item_bytes: float = 2000.0
    """The texts of an item: inputs, outputs, reasons of scores."""
    span_bytes: float = 1800.0
    """A span as protobuf; 1.8 KB are those of the benchmarks, with prompts and replies."""
    judge_seconds: float = 2.0
    """How long a call of a judge takes."""
    judge_tokens_in: float = 1000.0
    judge_tokens_out: float = 100.0
    judge_usd_in: float | None = None
    """Dollars for a million input tokens; None where the price is not known."""
    judge_usd_out: float | None = None
    judge_calls_per_minute: float | None = None
    """What the provider admits; None where that is not known."""

    def __post_init__(self) -> None:
        _check_ranges({each.name: getattr(self, each.name) for each in fields(self)}, _MOST)
        if self.peak < 1:
            raise ConfigurationError(f"peak must be at least 1, the mean of the day, not {self.peak:g}.")
        if self.judge_calls_per_minute == 0:
            raise ConfigurationError("judge_calls_per_minute must be over 0.")
        if self.peak * self.peak_hours > HOURS_PER_DAY:
            raise ConfigurationError(
                f"peak ({self.peak:g}) times peak_hours ({self.peak_hours:g}) must be at most 24: "
                "no more can come at the peak than comes in the day."
            )

    @property
    def is_empty(self) -> bool:
        return not (self.runs or self.items or self.judge_calls or self.spans)

    def multiply(self, factor: float) -> Load:
        """Return a load of the same kind of which so many times as much comes."""
        names = ("runs", "items", "judge_calls", "spans")
        return replace(self, **{name: factor * getattr(self, name) for name in names})

    def at_peak(self, count: float) -> float:
        """Return how many of a day's come in a second of the peak."""
        return count / SECONDS_PER_DAY * self.peak

    @property
    def items_per_run(self) -> float:
        return self.items / self.runs if self.runs else 0.0

    @property
    def judge_usd(self) -> float | None:
        """What the judges of a day cost; None where a price is not known."""
        if not self.judge_calls:
            return 0.0
        if self.judge_usd_in is None or self.judge_usd_out is None:
            return None
        tokens = self.judge_tokens_in * self.judge_usd_in + self.judge_tokens_out * self.judge_usd_out
        return self.judge_calls * tokens / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The kind of machine that there is, or that can be rented."""

    cores: int = 4
    memory_gib: float = 16.0
    disk_gb: float = 500.0
    usd_per_hour: float | None = None
    comparison_memory_mib: float = 2048.0
    """The setting `DOKIMOS_COMPARISON_MEMORY_MIB` of the server."""

    def __post_init__(self) -> None:
        _check_ranges({each.name: getattr(self, each.name) for each in fields(self)}, {})
        for name in ("cores", "memory_gib", "disk_gb", "comparison_memory_mib"):
            if not getattr(self, name):
                raise ConfigurationError(f"{name} must be over 0.")


def _check_ranges(values: Mapping[str, float | None], most: Mapping[str, float]) -> None:
    for name, value in values.items():
        high = most.get(name, _MOST_COUNT)
        if value is not None and not (math.isfinite(value) and 0 <= value <= high):
            raise ConfigurationError(f"{name} must be a number from 0 to {high:,.15g}, not {value!r:.80}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A load with a name, and machines that go with it. Both are assumptions to start from."""

    load: Load
    machine: Machine


PRESETS: Final = {
    "laptop": Preset(
        load=Load(runs=10, items=1_000, judge_calls=2_000, spans=20_000, peak=20),
        machine=Machine(cores=8, memory_gib=16, disk_gb=256),
    ),
    "team": Preset(
        load=Load(runs=50, items=10_000, judge_calls=30_000, spans=1e6, peak=10),
        machine=Machine(cores=4, memory_gib=16, disk_gb=500),
    ),
    "company": Preset(
        load=Load(runs=1_000, items=500_000, judge_calls=1_500_000, spans=100e6, peak=5),
        machine=Machine(cores=16, memory_gib=64, disk_gb=16_000),
    ),
    "internet": Preset(
        load=Load(runs=20_000, items=10e6, judge_calls=30e6, spans=10e9, peak=3),
        machine=Machine(cores=32, memory_gib=128, disk_gb=30_000),
    ),
}
"""Loads to start from; no measurement is behind them."""
