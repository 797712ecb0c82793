"""How the evidence of an alert went, in so few points that they are kept with its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MAX_POINTS: Final = 200
"""Two of them become one when there are more: each stands for twice as many observations from then on."""
_MOST: Final = 1e300
"""JSON has no infinity."""


class EvidencePoint(NamedTuple):
    """The greatest evidence of some observations that followed each other; of those that fire, the first."""

    at: int
    """When it was so, in microseconds since 1970."""
    evidence: float
    needed: float
    is_firing: bool


class EvidenceHistory:
    """The evidence after each observation since the beginning, in at most `MAX_POINTS` points.

    What it keeps depends on the observations alone, not on the parts in which they come: an alert that was
    stopped and continued has the same history as one that was not.

    Args:
        state: As `state` returned it; None at the beginning, and for what an earlier version stored.
    """

    def __init__(self, state: Mapping[str, Any] | None) -> None:
        stored = state or {"each": 1, "last": 0, "points": []}
        self._each: int = stored["each"]
        """Observations of a point."""
        self._last: int = stored["last"]
        """Observations of the last point until now."""
        self._points = [
            EvidencePoint(at, value, needed, bool(f)) for at, value, needed, f in stored["points"]
        ]

    @property
    def points(self) -> tuple[EvidencePoint, ...]:
        """The points, the oldest first."""
        return tuple(self._points)

    def state(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "each": self._each,
            "last": self._last,
            "points": [[*point[:3], int(point.is_firing)] for point in self._points],
        }

    def add(self, at: int, evidence: float, needed: float, *, is_firing: bool) -> None:
        """Add what the evidence is after an observation."""
        point = EvidencePoint(at, _shorten(evidence), _shorten(needed), is_firing)
        if self._points and self._last < self._each:
            self._points[-1] = _merge(self._points[-1], point)
            self._last += 1
            return
        self._points.append(point)
        self._last = 1
        if len(self._points) > MAX_POINTS:
            self._halve()

    def _halve(self) -> None:
        pairs = range(0, len(self._points), 2)
        is_odd = len(self._points) % 2
        self._last = self._last if is_odd else self._each + self._last
        self._points = [
            self._points[first]
            if first + 1 == len(self._points)
            else _merge(*self._points[first : first + 2])
            for first in pairs
        ]
        self._each *= 2


def _merge(first: EvidencePoint, second: EvidencePoint) -> EvidencePoint:
    """The one of two that says more: where it begins to fire, else the greater evidence, else the later."""
    if first.is_firing or second.is_firing:
        return first if first.is_firing else second
    return first if first.evidence > second.evidence else second


def _shorten(value: float) -> float:
    """Six digits are enough for a picture, and are stored again with each step of the alert."""
    return float(f"{min(value, _MOST):.6g}")
