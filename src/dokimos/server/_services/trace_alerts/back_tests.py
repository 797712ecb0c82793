"""What an alert would have made of the traces that are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos.server._services.trace_alerts.alert_config import (
    STEPS,
    AlertConfig,
    AlertKind,
    Direction,
    Window,
)
from dokimos.server._services.trace_alerts.alert_progress import make_watch
from dokimos.server._services.trace_alerts.change_watch import ChangeWatch
from dokimos.server._services.trace_alerts.observations import Fired, Observation
from dokimos.stats import ChanceAlerts, chance_alerts

MAX_OBSERVATIONS: Final = 100_000
MAX_FIRINGS: Final = 20
_DRAWN: Final = 2_000_000
"""Values that are drawn in all, to say how often chance would have fired."""
_MOST_RESAMPLES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """What an alert would have done."""

    status: str
    firings: list[dict[str, Any]] = field(default_factory=list)
    """What it would have fired on, the first ones."""
    firing_count: int = 0
    by_chance: ChanceAlerts | None = None
    """Of a threshold: how often it would have fired if nothing had changed; None where that is not known."""


def run_back_test(
    config: AlertConfig, observations: Sequence[Observation], *, until: int, per_year: float
) -> BackTest:
    """Return what an alert would have made of observations.

    A change alert is taken to have been acknowledged each time, so that it watched on against its reference.
    """
    watch = make_watch(config, None, per_year)
    firings: list[dict[str, Any]] = []
    count = 0
    for observation in observations:
        fired = [event for event in watch.add(observation) if isinstance(event, Fired)]
        firings += [event.evidence for event in fired][: MAX_FIRINGS - len(firings)]
        count += len(fired)
        if fired and isinstance(watch, ChangeWatch):
            watch.restart()
    last = [event.evidence for event in watch.look(until) if isinstance(event, Fired)]
    firings += last[: MAX_FIRINGS - len(firings)]
    by_chance = None if config.kind is AlertKind.CHANGE else count_by_chance(config, observations, until)
    return BackTest(status=watch.status, firings=firings, firing_count=count + len(last), by_chance=by_chance)


def count_by_chance(
    config: AlertConfig, observations: Sequence[Observation], until: int
) -> ChanceAlerts | None:
    """Return how often a threshold would have fired if nothing had changed in the time of the observations.

    None without any, or where they were sampled with several probabilities: then they cannot be
    drawn as if each were like any other.
    """
    assert config.window is not None, "a threshold has a window"
    assert config.limit is not None, "a threshold has a limit"
    if not observations or len({each.weight for each in observations}) > 1:
        return None
    values = [each.value for each in observations]
    counts = _count_by_step(observations, config.window, until) if config.window.minutes else None
    size = config.window.traces or STEPS
    return chance_alerts(
        values,
        window=size,
        threshold=config.limit,
        alternative="less" if config.direction is Direction.DROP else "greater",
        counts=counts,
        resamples=max(2, min(_MOST_RESAMPLES, _DRAWN // max(len(values), len(counts or ()), 1))),
    )


def _count_by_step(observations: Sequence[Observation], window: Window, until: int) -> list[int]:
    """Return how many observations each step of a window of minutes has, up to the last that is over."""
    first = observations[0].at // window.step
    counts = [0] * (max(until, observations[-1].at) // window.step - first + 1)
    for each in observations:
        counts[each.at // window.step - first] += 1
    return counts
