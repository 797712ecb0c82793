"""What a change detector says when it raises an alarm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dokimos.stats._paired_estimates import Estimate

Direction = Literal["less", "greater"]
"""Whether a mean dropped or rose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAlarm:
    """A change of a mean: how sure it is, since when it seems to be there, and how large it seems to be.

    When the change came and how large it is are descriptions: they are read off the very observations that
    raised the alarm, so the change is rather exaggerated, and the intervals do not know that their ends were
    chosen. `ChangeDetector.mean_since_alarm` is not affected.
    """

    direction: Direction
    evidence: float
    """The evidence when the alarm was raised, at least `needed`."""
    needed: float
    """The evidence that raises an alarm: the days of a year for each false alarm that it may have."""
    n: int
    """The number of the observation that raised it; the first one ever added is 1."""
    at: float
    """When that was added, in seconds since 1970; with `observations_per_day` since the first one, by its
    count."""
    since_n: int
    """The number of the first observation after the change, as estimated."""
    since_at: float
    """When that was added."""
    reference: float
    """The mean as it should be, or that of the baseline."""
    before: Estimate | None
    """The mean from the start or restart until `since_n`, with a 95 % interval; None for fewer than two
    observations."""
    after: Estimate | None
    """The mean from `since_n` on, with a 95 % interval; None for fewer than two observations."""

    def to_dict(self) -> dict[str, Any]:
        """Return the alarm as values of JSON."""
        return {
            "direction": self.direction,
            "evidence": self.evidence,
            "needed": self.needed,
            "n": self.n,
            "at": self.at,
            "since_n": self.since_n,
            "since_at": self.since_at,
            "reference": self.reference,
            "before": _to_dict(self.before),
            "after": _to_dict(self.after),
        }


def _to_dict(estimate: Estimate | None) -> dict[str, float] | None:
    if estimate is None:
        return None
    return {
        "value": estimate.value,
        "standard_error": estimate.standard_error,
        "low": estimate.interval.low,
        "high": estimate.interval.high,
    }
