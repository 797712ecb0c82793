"""What an alert on traces watches, and when it fires."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from dokimos.stats import squash, unsquash

MIN_BASELINE: Final = 30
"""Observations that a baseline has at least."""
MAX_BASELINE: Final = 10_000


class AlertKind(StrEnum):
    """How it is decided that an alert fires."""

    CHANGE = "CHANGE"
    """The mean is not what it was, or should be: with a number of false alarms in a year."""
    THRESHOLD = "THRESHOLD"
    """The mean of a window is beyond a limit."""


class Metric(StrEnum):
    """What is watched."""

    SCORE = "SCORE"
    PASS_RATE = "PASS_RATE"
    ERROR_RATE = "ERROR_RATE"
    LATENCY = "LATENCY"
    COST = "COST"

    @property
    def is_of_rule(self) -> bool:
        """Whether a rule gives its values, rather than the traces themselves."""
        return self in (Metric.SCORE, Metric.PASS_RATE)

    @property
    def is_unbounded(self) -> bool:
        """Whether its values have no largest one."""
        return self in (Metric.LATENCY, Metric.COST)


class Direction(StrEnum):
    """Which changes count."""

    DROP = "DROP"
    RISE = "RISE"
    BOTH = "BOTH"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """Which traces are watched; None says nothing."""

    model: str | None = None
    root_name: str | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Of which observations the reference is the mean: so many, or those of a period."""

    count: int | None = None
    from_at: int | None = None
    """In microseconds since 1970, as `to_at`."""
    to_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Of which observations the mean is held against a limit: the last ones, or those of the last minutes."""

    traces: int | None = None
    minutes: int | None = None

    @property
    def step(self) -> int:
        """Microseconds between two looks at a window of minutes, of which it has `STEPS`."""
        return (self.minutes or 0) * 60_000_000 // STEPS


STEPS: Final = 12
"""How often the window of an alert that looks back some minutes is looked at, within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertConfig:
    """What an alert watches, and when it fires."""

    kind: AlertKind
    metric: Metric
    direction: Direction
    rule_id: str | None = None
    filter: AlertFilter = AlertFilter()
    over: float | None = None
    """Of latency and cost: the share of traces above this is watched, not the value itself."""
    reference: float | None = None
    tolerance: float = 0.0
    baseline: Baseline | None = None
    limit: float | None = None
    window: Window | None = None
    low: float = 0.0
    """The smallest value that can occur, except for latency and cost; `high` is the largest."""
    high: float = 1.0
    largest_weight: float = 1.0
    """One over the smallest probability with which the rule samples."""

    @property
    def is_squashed(self) -> bool:
        """Whether a detector, which needs bounds, sees values through `squash`."""
        return self.kind is AlertKind.CHANGE and self.metric.is_unbounded and self.over is None

    def take_scale(self, other: AlertConfig) -> AlertConfig:
        """Return it with the scale of another one: what follows from a rule, and nobody asks for."""
        return replace(self, low=other.low, high=other.high, largest_weight=other.largest_weight)

    def dump(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def load(cls, text: str) -> AlertConfig:
        """Read what `dump` wrote."""
        stored: dict[str, Any] = json.loads(text)
        baseline, window = stored.pop("baseline"), stored.pop("window")
        return cls(
            kind=AlertKind(stored.pop("kind")),
            metric=Metric(stored.pop("metric")),
            direction=Direction(stored.pop("direction")),
            filter=AlertFilter(**stored.pop("filter")),
            baseline=None if baseline is None else Baseline(**baseline),
            window=None if window is None else Window(**window),
            **stored,
        )

    def scale(self, value: float, middle: float) -> float:
        """Return a value as the detector sees it."""
        return squash(value, middle=middle) if self.is_squashed else min(max(value, self.low), self.high)

    def unscale(self, value: float, middle: float) -> float:
        """Return what the detector says of a mean in the units of the alert."""
        return unsquash(min(max(value, 0.0), 1.0), middle=middle) if self.is_squashed else value
