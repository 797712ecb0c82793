"""A change alert as it goes from observation to observation: it learns a baseline, watches, and fires."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from dokimos.server._services.trace_alerts.alert_config import (
    MAX_BASELINE,
    MIN_BASELINE,
    AlertConfig,
    Direction,
)
from dokimos.server._services.trace_alerts.evidence_history import EvidenceHistory, EvidencePoint
from dokimos.server._services.trace_alerts.observations import AlertEvent, Fired, Observation
from dokimos.stats import ChangeDetector, squash
from dokimos.stats._change_alarm import ChangeAlarm
from dokimos.stats._change_detector import ChangeSettings
from dokimos.stats._paired_estimates import Estimate

_ALTERNATIVES: Final[Mapping[Direction, Any]] = {
    Direction.DROP: "less",
    Direction.RISE: "greater",
    Direction.BOTH: "two-sided",
}
_MICROSECONDS: Final = 1e6


class ChangeWatch:
    """Finds a change of a mean in observations that are added in their order, in however many parts.

    Args:
        config: What is watched.
        state: As `state` returned it; None at the beginning.
        per_year: How many false alarms it may have in a year, from here on.
    """

    def __init__(self, config: AlertConfig, state: Mapping[str, Any] | None, per_year: float) -> None:
        self._config = config
        self._per_year = per_year
        stored = state or {"learned": [], "detector": None, "middle": 1.0}
        self._learned: list[list[float]] = stored["learned"]
        self._middle: float = stored["middle"]
        self._history = EvidenceHistory(stored.get("history"))
        self._lower_bounds: int = stored.get("lowerBounds", 0)
        """Observations whose values are lower bounds, those of the baseline included."""
        self._detector: ChangeDetector | None = None
        if stored["detector"] is not None:
            self._detector = ChangeDetector.from_state(stored["detector"])
            self._detector.set_false_alarms_per_year(per_year)
        elif config.reference is not None:
            self._begin(config.reference)

    @property
    def status(self) -> str:
        """`LEARNING`, `WATCHING` or `FIRING`."""
        if self._detector is None:
            return "LEARNING"
        return "WATCHING" if self._detector.alarm is None else "FIRING"

    def state(self) -> dict[str, Any]:
        """Return it as values of JSON, from which it goes on exactly where it was."""
        return {
            "learned": self._learned,
            "middle": self._middle,
            "detector": None if self._detector is None else self._detector.state(),
            "history": self._history.state(),
            "lowerBounds": self._lower_bounds,
        }

    @property
    def history(self) -> tuple[EvidencePoint, ...]:
        """How the evidence went since the watch began, the oldest first."""
        return self._history.points

    def add(self, observation: Observation) -> list[AlertEvent]:
        """Add an observation; return what follows from it."""
        self._lower_bounds += observation.is_lower_bound
        if self._detector is None and not self._learn(observation):
            return []
        assert self._detector is not None
        value = self._config.scale(observation.value, self._middle)
        detector = self._detector
        alarm = detector.add(value, self._weigh(observation), at=observation.at / _MICROSECONDS)
        is_firing = detector.alarm is not None
        self._history.add(observation.at, detector.evidence, detector.needed, is_firing=is_firing)
        return [] if alarm is None else [Fired(self._describe_alarm(alarm))]

    def look(self, until: int) -> list[AlertEvent]:
        """Note that nothing else came until some time, which changes nothing here."""
        return []

    def restart(self) -> None:
        """Watch for a change anew, against the same reference."""
        if self._detector is not None:
            self._detector.restart()

    def describe(self) -> dict[str, Any]:
        """Return what it knows, in the units of the alert."""
        detector = self._detector
        if detector is None:
            return {"learnedCount": len(self._learned), "lowerBoundCount": self._lower_bounds}
        return {
            "lowerBoundCount": self._lower_bounds,
            "reference": self._config.unscale(detector.reference, self._middle),
            "evidence": detector.evidence,
            "needed": detector.needed,
            "mean": self._describe_estimate(detector.mean),
            "meanSinceFiring": self._describe_estimate(detector.mean_since_alarm),
        }

    def _learn(self, observation: Observation) -> bool:
        """Take an observation into the baseline; return False, or True where that was complete before it."""
        baseline = self._config.baseline
        assert baseline is not None, "an alert without a reference has a baseline"
        count = len(self._learned)
        if baseline.to_at is not None and observation.at >= baseline.to_at and count >= MIN_BASELINE:
            self._freeze()
            return True
        self._learned.append([observation.value, self._weigh(observation)])
        if count + 1 >= (baseline.count or MAX_BASELINE):
            self._freeze()
        return False

    def _freeze(self) -> None:
        values, weights = zip(*self._learned, strict=True)
        if self._config.is_squashed:
            above = [value for value in values if value > 0]
            self._middle = median(above) if above else 1.0
        self._detector = ChangeDetector.from_baseline(
            [self._config.scale(value, self._middle) for value in values],
            self._low,
            self._high,
            weights=weights,
            **self._settings,
        )
        self._learned = []

    def _begin(self, reference: float) -> None:
        if self._config.is_squashed:
            self._middle = reference
        scaled = self._config.scale(reference, self._middle)
        self._detector = ChangeDetector(scaled, self._low, self._high, **self._settings)

    @property
    def _low(self) -> float:
        return 0.0 if self._config.is_squashed else self._config.low

    @property
    def _high(self) -> float:
        return 1.0 if self._config.is_squashed else self._config.high

    @property
    def _settings(self) -> ChangeSettings:
        tolerance = self._config.tolerance
        if self._config.is_squashed:
            tolerance = squash(self._middle + tolerance, middle=self._middle) - 0.5
        return ChangeSettings(
            false_alarms_per_year=self._per_year,
            alternative=_ALTERNATIVES[self._config.direction],
            tolerance=tolerance,
            largest_weight=self._config.largest_weight,
        )

    def _weigh(self, observation: Observation) -> float:
        # A rule that was changed to sample less would have weights that the detector cannot take.
        return min(observation.weight, self._config.largest_weight)

    def _describe_alarm(self, alarm: ChangeAlarm) -> dict[str, Any]:
        return {
            "firedAt": round(alarm.at * _MICROSECONDS),
            "since": round(alarm.since_at * _MICROSECONDS),
            "direction": "DROP" if alarm.direction == "less" else "RISE",
            "reference": self._config.unscale(alarm.reference, self._middle),
            "before": self._describe_estimate(alarm.before),
            "after": self._describe_estimate(alarm.after),
            "observations": alarm.n,
            "lowerBoundCount": self._lower_bounds,
            "sinceObservation": alarm.since_n,
            "evidence": alarm.evidence,
            "needed": alarm.needed,
            "falseAlarmsPerYear": self._per_year,
        }

    def _describe_estimate(self, estimate: Estimate | None) -> dict[str, float | None] | None:
        if estimate is None:
            return None
        named = {
            "value": estimate.value,
            "low": estimate.interval.low,
            "high": estimate.interval.high,
        }
        scaled = {name: self._config.unscale(value, self._middle) for name, value in named.items()}
        return {name: value if math.isfinite(value) else None for name, value in scaled.items()}
