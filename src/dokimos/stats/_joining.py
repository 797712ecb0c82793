"""How much the players of a change detector may bring in, and when.

What they bring in a day is the false alarms of a day. They join at each observation, so that a change is
found as soon at noon as in the morning, but a day must not bring more than its share, however many
observations it will have. So the i-th one of a day brings n / ((n + i)(n + i + 1)) of it, where n is how many
a day usually has: summed over any number of observations that is below 1, and about even over the first n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

from dokimos.stats import _e_process_state as e_process_state
from dokimos.stats._betting import finite

DAYS_PER_YEAR: Final = 365.25
SECONDS_PER_DAY: Final = 86_400.0
_MOST_PER_YEAR: Final = 365.0
# What a day is taken to have before the first one is over. Too many or too few costs little.
_USUAL: Final = 30.0
_REMEMBERED_DAYS: Final = 7
_FARTHEST: Final = 1e15
"""Seconds, thirty million years: from there on a float does not hold a second."""


class JoiningClock:
    """Counts the observations of a day and says what each of them brings."""

    def __init__(self, per_year: float, observations_per_day: float | None) -> None:
        self.set_per_year(per_year)
        self._per_day = observations_per_day
        if observations_per_day is not None:
            self._per_day = finite("observations_per_day", observations_per_day)
            if self._per_day <= 0:
                raise ValueError(f"observations_per_day must be greater than 0, not {observations_per_day}.")
        self._time = -math.inf
        self._day_end = -math.inf
        self._count = 0
        self._days = 0
        self._usual = _USUAL

    def set_per_year(self, per_year: float) -> None:
        """Set how many false alarms a year may have. Raises `ValueError` or `TypeError`."""
        number = finite("false_alarms_per_year", per_year)
        if not 0 < number <= _MOST_PER_YEAR:
            raise ValueError(
                "false_alarms_per_year must be greater than 0 and at most "
                f"{_MOST_PER_YEAR:.0f}, not {number}."
            )
        self.per_year = number
        self._daily = number / DAYS_PER_YEAR

    def read(self, at: float | None, n: int) -> float:
        """Return the time of the observation after `n` others. Raises `ValueError` or `TypeError`."""
        if self._per_day is not None:
            return n * SECONDS_PER_DAY / self._per_day
        if at is None:
            raise ValueError(
                "An observation needs its time (at), or the detector observations_per_day: false alarms are "
                "counted by the year."
            )
        time = finite("at", at)
        if abs(time) > _FARTHEST:
            raise ValueError(f"at must be a time in seconds, not {time}.")
        return max(time, self._time)

    def join(self, time: float) -> float:
        """Return what an observation at this time brings, in alarms."""
        self._time = time
        if time >= self._day_end:
            self._begin_day(time)
        place = self._usual + self._count
        self._count += 1
        return self._daily * self._usual / (place * (place + 1))

    def _begin_day(self, time: float) -> None:
        if self._count:
            self._days += 1
            # Only what was known before the day began, so nobody can bring more on days that look bad.
            self._usual += (self._count - self._usual) / min(self._days, _REMEMBERED_DAYS)
        self._count = 0
        self._day_end = (math.floor(time / SECONDS_PER_DAY) + 1) * SECONDS_PER_DAY

    def state(self) -> dict[str, Any]:
        """Return the clock as values of JSON."""
        return {
            "false_alarms_per_year": self.per_year,
            "observations_per_day": self._per_day,
            "time": None if self._time == -math.inf else self._time,
            "today": self._count,
            "days": self._days,
            "usual": self._usual,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the clock that had this state. Raises `ValueError`."""
        per_day = state["observations_per_day"]
        clock = cls(
            e_process_state.number(state, "false_alarms_per_year"),
            None if per_day is None else e_process_state.number(state, "observations_per_day"),
        )
        if state["time"] is not None:
            clock._time = e_process_state.number(state, "time")
            clock._day_end = (math.floor(clock._time / SECONDS_PER_DAY) + 1) * SECONDS_PER_DAY
        clock._count = e_process_state.whole(state, "today")
        clock._days = e_process_state.whole(state, "days")
        clock._usual = e_process_state.number(state, "usual")
        if clock._usual <= 0:
            raise ValueError(f"The state is damaged: usual must be greater than 0, not {clock._usual}.")
        return clock


CLOCK_MEMBERS: Final = tuple(JoiningClock(1.0, None).state())
