"""A threshold alert as it goes from observation to observation: the mean of a window against a limit."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from dokimos.server._services.trace_alerts.alert_config import STEPS, AlertConfig, Direction
from dokimos.server._services.trace_alerts.observations import AlertEvent, Ended, Fired, Observation

_DUST: Final = 1e-9


class ThresholdWatch:
    """Compares the mean of a window with a limit.

    A window of traces is looked at after each of them, once there are as many. One of minutes is looked at
    when a twelfth of it is over, by the times of the traces; one without traces leaves the alert as it is.

    Args:
        config: What is watched.
        state: As `state` returned it; None at the beginning.
    """

    def __init__(self, config: AlertConfig, state: Mapping[str, Any] | None) -> None:
        assert config.window is not None, "a threshold has a window"
        assert config.limit is not None, "a threshold has a limit"
        self._config = config
        self._limit = config.limit
        self._step = config.window.step
        self._size = config.window.traces or STEPS
        stored = state or {"window": [], "step": None, "looked": 0, "firing": False, "value": None}
        # Of each trace, or of each step: the number of observations, of weighted values, and of weights.
        self._window: deque[list[float]] = deque(stored["window"], self._size)
        # Of each of these, how many values are lower bounds; an earlier version does not keep it.
        self._lower_bounds: deque[int] = deque(
            stored.get("lowerBounds") or [0] * len(self._window), self._size
        )
        self._current: int | None = stored["step"]
        self._is_firing: bool = stored["firing"]
        self._value: float | None = stored["value"]
        self._looked: int = stored["looked"]
        """Steps that are over since the beginning: no window is looked at before it is full."""

    @property
    def status(self) -> str:
        """`WATCHING` or `FIRING`."""
        return "FIRING" if self._is_firing else "WATCHING"

    def state(self) -> dict[str, Any]:
        """Return it as values of JSON, from which it goes on exactly where it was."""
        return {
            "window": list(self._window),
            "lowerBounds": list(self._lower_bounds),
            "step": self._current,
            "looked": self._looked,
            "firing": self._is_firing,
            "value": self._value,
        }

    def add(self, observation: Observation) -> list[AlertEvent]:
        """Add an observation; return what follows from it, in its order."""
        weighted = [1.0, observation.value * observation.weight, observation.weight]
        if not self._step:
            self._window.append(weighted)
            self._lower_bounds.append(int(observation.is_lower_bound))
            return self._judge(observation.at) if len(self._window) == self._size else []
        events = self.look(observation.at)
        if self._current is None:
            self._current = observation.at // self._step
            self._begin_step()
        total = self._window[-1]
        self._window[-1] = [old + new for old, new in zip(total, weighted, strict=True)]
        self._lower_bounds[-1] += observation.is_lower_bound
        return events

    def look(self, until: int) -> list[AlertEvent]:
        """Look at the windows that ended before some time, until which nothing else came."""
        if not self._step or self._current is None:
            return []
        events: list[AlertEvent] = []
        target = until // self._step
        # After a whole window without traces, further ones change nothing.
        for _ in range(min(target - self._current, self._size + 1)):
            self._current += 1
            self._looked = min(self._looked + 1, self._size)
            if self._looked == self._size:
                events += self._judge(self._current * self._step)
            self._begin_step()
        self._current = max(self._current, target)
        return events

    def restart(self) -> None:
        """Go on as it is: a threshold looks at each window anew."""

    def describe(self) -> dict[str, Any]:
        """Return what it knows, in the units of the alert."""
        return {"value": self._value, "lowerBoundCount": sum(self._lower_bounds)}

    def _begin_step(self) -> None:
        self._window.append([0.0, 0.0, 0.0])
        self._lower_bounds.append(0)

    def _judge(self, at: int) -> list[AlertEvent]:
        count, total, weight = (math.fsum(each) for each in zip(*self._window, strict=True))
        if weight <= 0:
            return []
        self._value = total / weight
        sign = 1 if self._config.direction is Direction.DROP else -1
        was_firing = self._is_firing
        # The limit itself is kept, whatever the sums were rounded to.
        self._is_firing = sign * (self._value - self._limit) < -_DUST * max(1.0, abs(self._limit))
        if was_firing == self._is_firing:
            return []
        if was_firing:
            return [Ended(at)]
        evidence = {
            "firedAt": at,
            "direction": str(self._config.direction),
            "value": self._value,
            "limit": self._limit,
            "observations": int(count),
            "lowerBoundCount": sum(self._lower_bounds),
        }
        return [Fired(evidence)]
