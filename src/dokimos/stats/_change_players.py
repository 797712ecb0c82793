"""Players who bet that a mean has moved to one side of where it was, and may join at any observation.

`betting` says what a bet pays. Here the capital is not a logarithm: players join all the time, so it never
vanishes, and an alarm ends the game long before a float overflows. That makes an observation ten times
cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dokimos.stats._betting import SHARES
from dokimos.stats._weighted_mean import NO_SUMS, WeightedSums

_NOTHING: Final = 1e-9
"""A gain that only rounding makes."""
_NEAREST_TO_AN_END: Final = 1e-9
_MOST_REMEMBERED: Final = 64
_MOST_CAPITAL: Final = 1e200
"""Far beyond any alarm. Capital that is cut here is less evidence, so what is promised holds."""


class Bar(NamedTuple):
    """A mean that players bet against, and what their capital counts."""

    share: float
    """The mean as a share of the range, seen from the side that is bet on."""
    factor: float
    """By what their capital is multiplied: 1 for a mean that is known, else how unlikely the baseline makes a
    mean that is still further from the side that is bet on."""


class Start(NamedTuple):
    """The first observation of a stretch, and what had been added before it."""

    n: int
    at: float
    sums: WeightedSums


class Side:
    """The players on one side. There is an alarm when their capital at each bar reaches 1."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        self.bars = tuple(bars)
        self._inverses = [1 / max(bar.share, _NEAREST_TO_AN_END) for bar in bars]
        self._factors = [bar.factor for bar in bars]
        self.capital = [[0.0] * len(SHARES) for _ in bars]
        """Of all who joined so far, by bar and bet (A. N. Shiryaev, S. W. Roberts)."""
        # Verdicts have two payoffs, and most scores few.
        self._payoffs: dict[tuple[float, float], list[list[float]]] = {}
        self._alarms = [0.0] * len(self.bars)
        self.recent = [1.0] * len(SHARES)
        """What a stake of 1 has become since the best moment to join, by bet (CUSUM; E. S. Page, 1954)."""
        self.starts = [Start(0, 0.0, NO_SUMS)] * len(SHARES)
        """When that moment was."""

    def play(self, share: float, stake: float, joining: float, here: Start) -> float:
        """Let players join, settle their bets on one observation, and return the evidence.

        Args:
            share: The observation as a share of the range, seen from this side.
            stake: Its weight over the largest possible one.
            joining: What those who join now bring, in alarms.
            here: The observation, and what had been added before it.
        """
        each = joining / len(SHARES)
        payoffs = self._payoffs.get((share, stake)) or self._compute_payoffs(share, stake)
        for place, payoff in enumerate(payoffs):
            if payoff:
                self.capital[place] = capital = [
                    (owned + each) * won for owned, won in zip(self.capital[place], payoff, strict=True)
                ]
                total = sum(capital)
                if total > _MOST_CAPITAL:
                    self.capital[place] = [min(owned, _MOST_CAPITAL) for owned in capital]
                self._alarms[place] = total * self._factors[place]
        self._play_recent(payoffs[0], here)
        return min(self._alarms)

    def _compute_payoffs(self, share: float, stake: float) -> list[list[float]]:
        """Return by what an observation multiplies each capital, by bar; nothing for a value at the bar."""
        # With a stake of at most 1 a payoff cannot fall below 0.
        gains = [stake * (share * inverse - 1) for inverse in self._inverses]
        # If players joined at a value that pays nothing, the evidence would grow with every observation of a
        # system that never varies, up to an alarm.
        payoffs = [[1 + bet * gain for bet in SHARES] if abs(gain) > _NOTHING else [] for gain in gains]
        if len(self._payoffs) < _MOST_REMEMBERED:
            self._payoffs[share, stake] = payoffs
        return payoffs

    def _play_recent(self, payoff: Sequence[float], here: Start) -> None:
        recent = self.recent
        for place, won in enumerate(payoff):
            owned = recent[place]
            if owned <= 1:
                owned = 1.0
                self.starts[place] = here
            owned *= won
            recent[place] = owned if owned < _MOST_CAPITAL else _MOST_CAPITAL

    @property
    def evidence(self) -> float:
        """The capital at the poorest bar, in alarms: 1 or more is an alarm."""
        return min(self._alarms)

    def restore(self, capital: list[list[float]], recent: list[float], starts: list[Start]) -> None:
        """Give the players what they had."""
        self.capital, self.recent, self.starts = capital, recent, starts
        self._alarms = [sum(its) * factor for its, factor in zip(capital, self._factors, strict=True)]

    @property
    def start(self) -> Start:
        """Since when the mean seems to have moved: where the bet that paid best began."""
        return self.starts[self.recent.index(max(self.recent))]
