"""Many change detectors at once, in arrays: one observation of each at a time.

`ChangeDetector` takes microseconds for an observation, and rare false alarms need a billion of them. The bets
and the clock are those of the library; only the sums are done in arrays. tests/unit/stats compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dokimos.stats._betting import SHARES
from dokimos.stats._change_players import Bar
from dokimos.stats._joining import SECONDS_PER_DAY, JoiningClock

Floats = NDArray[np.float64]
_BETS = np.array(SHARES)


class ManyDetectors:
    """One-sided detectors of drops, each with its own bars, that share a clock."""

    def __init__(self, bars: Sequence[Sequence[Bar]], *, per_year: float) -> None:
        self._inverses = np.array([[1 / max(bar.share, 1e-9) for bar in its] for its in bars])
        self._factors = np.array([[bar.factor for bar in its] for its in bars])
        self._capital = np.zeros((*self._inverses.shape, len(SHARES)))
        self._clock = JoiningClock(per_year, None)

    def add(self, values: Floats, time: float) -> NDArray[np.bool_]:
        """Add one observation to each, and return which raise an alarm; those start again."""
        each = self._clock.join(time) / len(SHARES)
        gains = (1 - values)[:, None] * self._inverses - 1
        self._capital += each
        self._capital *= 1 + gains[:, :, None] * _BETS
        alarms = ((self._capital.sum(axis=2) * self._factors) >= 1).all(axis=1)
        if alarms.any():
            self._capital[alarms] = 0
        return alarms

    def add_day(self, values: Floats, day: int) -> NDArray[np.int64]:
        """Add the observations of a day, a row for each detector, and return how many alarms each raises."""
        count = values.shape[1]
        times = (day + np.arange(count) / count) * SECONDS_PER_DAY
        return sum(
            (self.add(values[:, place], time).astype(np.int64) for place, time in enumerate(times)),
            start=np.zeros(len(values), dtype=np.int64),
        )
