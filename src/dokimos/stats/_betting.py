"""Players who bet that a mean is not where it should be: what a bet pays, and who has how much.

In a fair game nobody gets rich: the chance that the mean capital of players who start with 1 ever reaches
1/alpha is at most alpha (J. Ville, 1939). A player who bets a share b of the capital on higher values
multiplies it by 1 + b (x/m - 1), where x is the observation and m the target on a scale of 0..1; on lower
values, with 1 - x and 1 - m (I. Waudby-Smith, A. Ramdas, Estimating Means of Bounded Random Variables by
Betting, 2024).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

Alternative = Literal["two-sided", "less", "greater"]
"""Which means are evidence against the target: any other, lower ones, or higher ones."""

# Below 1: whoever stakes everything on one observation can end with nothing, and would stay there.
SHARES: Final = tuple(0.96 / 2**halvings for halvings in range(10))
"""Shares of the capital that the players on one side bet. One is within a factor of 1.4 of the best."""
_LARGEST_LOG: Final = math.log(1e308)
# From here on a float cannot hold every whole number, and the stored counts are floats in some JSON readers.
_LARGEST_COUNT: Final = 2**53
# At an end of the range a payoff would divide by zero.
_NEAREST_TO_AN_END: Final = 1e-9
_DUST: Final = 1e-9
"""So much of the range a mean may lie outside of it, by rounding."""


@dataclass(frozen=True)
class Game:
    """The hypothesis that is bet against. Raises `ValueError` or `TypeError` where a setting is of no use."""

    target: float
    low: float
    high: float
    alternative: Alternative
    tolerance: float
    largest_weight: float

    def __post_init__(self) -> None:
        for name in ("target", "low", "high", "tolerance", "largest_weight"):
            object.__setattr__(self, name, finite(name, getattr(self, name)))
        if self.alternative not in get_args(Alternative):
            choices = ", ".join(get_args(Alternative))
            raise ValueError(f"alternative must be one of {choices}, not {self.alternative!r:.80}.")
        if not 0 < self.high - self.low < math.inf:
            raise ValueError(f"high ({self.high}) must be greater than low ({self.low}), by a finite amount.")
        if self.tolerance < 0:
            raise ValueError(f"tolerance must be 0 or more, not {self.tolerance}.")
        if self.largest_weight <= 0:
            raise ValueError(f"largest_weight must be greater than 0, not {self.largest_weight}.")
        if not all(_NEAREST_TO_AN_END <= bound <= 1 - _NEAREST_TO_AN_END for bound in self.bounds):
            raise ValueError(
                f"target ({self.target}) must lie between low ({self.low}) and high ({self.high}), at "
                f"neither end, and so must the target with its tolerance ({self.tolerance})."
            )

    @cached_property
    def sides(self) -> tuple[Literal["less", "greater"], ...]:
        return ("greater", "less") if self.alternative == "two-sided" else (self.alternative,)

    @cached_property
    def bounds(self) -> tuple[float, ...]:
        """The mean that the players of each side bet against, as they see it: a share of the range."""
        span = self.high - self.low
        seen = {
            "greater": (self.target + self.tolerance - self.low) / span,
            "less": (self.high - self.target + self.tolerance) / span,
        }
        return tuple(seen[side] for side in self.sides)

    def log_payoffs(self, value: float, weight: float) -> list[float]:
        """Return by what logarithm one observation changes the capital of each player."""
        stake = self.stake(weight)
        payoffs: list[float] = []
        for share, bound in zip(self._shares(value), self.bounds, strict=True):
            # With a stake of at most 1 a payoff cannot fall below 0. A weight above 1 could make it negative,
            # and capital would no longer be evidence; so weights are divided by the largest one that can
            # occur.
            gain = stake * (share / bound - 1)
            payoffs += [math.log1p(bet * gain) for bet in SHARES]
        return payoffs

    def log_payoffs_of_mean(self, mean: float, n: int, weight: float) -> list[float]:
        """Return by what logarithm `n` observations of this mean change each capital at least.

        A payoff's logarithm is concave in the observation. Among all values of one mean it is therefore least
        for values at the two ends of the range, where verdicts always are.
        """
        stake = self.stake(weight)
        payoffs: list[float] = []
        for share, bound in zip(self._shares(mean), self.bounds, strict=True):
            # As if a share of the n values were at the top of the range and the rest at the bottom.
            best = stake * (1 / bound - 1)
            payoffs += [
                n * (share * math.log1p(bet * best) + (1 - share) * math.log1p(-bet * stake))
                for bet in SHARES
            ]
        return payoffs

    def clip(self, value: float) -> float:
        """Return a value that may be outside of the range by rounding. Raises `TypeError` or `ValueError`."""
        number = finite("An observation", value)
        span = self.high - self.low
        if not self.low - _DUST * span <= number <= self.high + _DUST * span:
            raise ValueError(f"An observation must be in {self.low}..{self.high}, not {number}.")
        return min(max(number, self.low), self.high)

    def _shares(self, value: float) -> tuple[float, ...]:
        """Return a value as the players of each side see it: a share of the range from their end."""
        number, span = self.clip(value), self.high - self.low
        return tuple(
            (number - self.low) / span if side == "greater" else (self.high - number) / span
            for side in self.sides
        )

    def stake(self, weight: float) -> float:
        """Return a weight as a share of the largest one. Raises `TypeError` or `ValueError`."""
        number = finite("A weight", weight)
        if not 0 <= number <= self.largest_weight:
            raise ValueError(f"A weight must be in 0..{self.largest_weight} (largest_weight), not {number}.")
        return number / self.largest_weight


class Players:
    """The players of a game, with their capital in logarithms, so that nothing overflows."""

    def __init__(self, game: Game, *, log_capital: float) -> None:
        self.game = game
        self.n = 0
        self.log_peak = 0.0
        """The largest mean capital so far, but at least 1."""
        self.log_capital = [log_capital] * (len(game.sides) * len(SHARES))

    def join(self) -> None:
        """Give each player a capital of 1 on top of what is there."""
        self.log_capital = [_log_sum((capital, 0.0)) for capital in self.log_capital]

    def play(self, payoffs: list[float], n: int) -> None:
        """Settle the bets on `n` observations."""
        self.log_capital = [capital + won for capital, won in zip(self.log_capital, payoffs, strict=True)]
        self.n += n
        self.log_peak = max(self.log_peak, self.log_mean)

    @property
    def log_mean(self) -> float:
        return _log_sum(self.log_capital) - math.log(len(self.log_capital))

    @property
    def richer_side(self) -> Literal["less", "greater"]:
        """Return the side whose players have more: where the mean seems to have gone."""
        starts = range(0, len(self.log_capital), len(SHARES))
        by_side = {
            side: self.log_capital[start : start + len(SHARES)]
            for side, start in zip(self.game.sides, starts, strict=True)
        }
        return max(by_side, key=lambda side: _log_sum(by_side[side]))


def power(log: float) -> float:
    """Return a capital from its logarithm; infinity where no float is as large."""
    return math.exp(log) if log < _LARGEST_LOG else math.inf


def reciprocal(log: float) -> float:
    """Return one over a capital, from its logarithm; never 0."""
    return math.exp(-min(log, _LARGEST_LOG))


def finite(name: str, number: object) -> float:
    """Return a number as a float. Raises `TypeError` or `ValueError` if it is not a number, or not finite."""
    if not hasattr(number, "__float__"):  # numpy's truth values, and numbers of other libraries, have it
        raise TypeError(f"{name} must be a number, not {number!r:.80}.")
    try:
        value = float(number)
    except TypeError:
        raise TypeError(f"{name} must be a number, not {number!r:.80}.") from None
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value}.")
    return value


def count(name: str, number: object) -> int:
    """Return a whole number of 0 or more that a float holds. Raises `TypeError` or `ValueError`."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {number!r:.80}.")
    whole = operator.index(number)
    if not 0 <= whole <= _LARGEST_COUNT:
        raise ValueError(f"{name} must be in 0..{_LARGEST_COUNT}, not {whole!r:.80}.")
    return whole


def _log_sum(logs: list[float] | tuple[float, ...]) -> float:
    """Return the logarithm of a sum, from the logarithms of what is added."""
    largest = max(logs)
    if largest == -math.inf:
        return largest
    # The largest is taken out first, so that no power overflows (log-sum-exp).
    return largest + math.log(sum([math.exp(log - largest) for log in logs]))
