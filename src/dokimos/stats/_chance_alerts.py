"""How often an alert with a fixed threshold fires although nothing changed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

_DUST: Final = 1e-9
RESAMPLES: Final = 100


@dataclass(frozen=True, slots=True)
class ChanceAlerts:
    """How many alerts chance alone is expected to raise over the observations given."""

    expected: float
    """The expected number of times that the alert begins to fire."""
    standard_error: float
    """How uncertain that is, as it was simulated; 0 where it is exact."""
    is_exact: bool


def chance_alerts(
    values: Sequence[float],
    *,
    window: int,
    threshold: float,
    alternative: Literal["less", "greater"] = "less",
    counts: Sequence[int] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ChanceAlerts:
    """Return how often a threshold on a rolling mean would have fired if nothing had changed.

    The alert looks at the mean of the last `window` observations after each of them, and fires when that gets
    below the threshold; it fires again once it was back. Had nothing changed, the values would have come
    in any order; so they are drawn at random, with replacement, and the alerts counted. For verdicts nothing
    is drawn: the number is computed, see `chance_alerts_of_rate`. It is a mean: single periods have more or
    fewer, so somewhat more alerts than this do not show that anything has changed.

    If the values have a true change in them, a part of it is taken for chance. Use those of a quiet time.

    Args:
        values: What was observed, such as the scores of 30 days, one for each trace.
        window: How many observations the mean is of, or with `counts` how many looks.
        threshold: Where the alert fires, in units of the values.
        alternative: Whether it fires for a mean "less" or "greater" than the threshold.
        counts: For an alert that looks at a span of time, such as each minute at the last hour: how many of
            the values came between two looks, for all looks in order. None for a look at each value.
            A window without values keeps the alert as it is.
        resamples: How often the values are drawn.
        seed: Of the drawing.

    Raises:
        ValueError: There are no values, the window or `resamples` is below 1, or `counts` do not add up to
            the number of values.

    Example:
        >>> month = [n % 10 != 0 for n in range(15_000)]  # 90 % of 500 a day pass
        >>> round(chance_alerts(month, window=100, threshold=0.85).expected)
        41
    """
    _check(values, window, resamples, counts)
    if counts is None and set(values) <= {0, 1}:
        rate = math.fsum(values) / len(values)
        expected = chance_alerts_of_rate(
            rate, len(values), window=window, threshold=threshold, alternative=alternative
        )
        return ChanceAlerts(expected, 0.0, is_exact=True)
    sign = 1 if alternative == "less" else -1
    signed = [sign * (value - threshold) for value in values]
    return _draw_alerts(signed, window, counts, resamples, seed)


def chance_alerts_of_rate(
    rate: float,
    n: int,
    *,
    window: int,
    threshold: float,
    alternative: Literal["less", "greater"] = "less",
) -> float:
    """Return how often a threshold on a rolling pass rate is expected to fire in `n` independent verdicts.

    It is exact: either the first full window fires, or a verdict that passed leaves a window that was just at
    the threshold and one that failed comes in. The expected number of the latter is a binomial probability
    for each verdict.

    Args:
        rate: The true pass rate, 0..1.
        n: How many verdicts there are, one after the other.
        window: How many of them the pass rate is of.
        threshold: The pass rate below which ("less") or above which ("greater") the alert fires.
        alternative: On which side it fires.

    Raises:
        ValueError: The rate is out of its range, or the window is below 1.

    Example:
        >>> chance_alerts_of_rate(0.5, 2, window=1, threshold=0.5)  # fails first, or passes and then fails
        0.75
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be in 0..1, not {rate}.")
    if window < 1:
        raise ValueError(f"window must be 1 or more, not {window}.")
    if n < window:
        return 0.0
    if alternative == "greater":
        rate, threshold = 1 - rate, 1 - threshold
    # The fewest passes of a window that does not fire.
    fewest = max(0, min(window + 1, math.ceil(threshold * window - _DUST)))
    first = math.fsum(_binomial(k, window, rate) for k in range(fewest))
    crossing = rate * (1 - rate) * _binomial(fewest - 1, window - 1, rate)
    return min(1.0, first) + (n - window) * crossing


def _check(values: Sequence[float], window: int, resamples: int, counts: Sequence[int] | None) -> None:
    if not values:
        raise ValueError("Without values there is nothing to draw from.")
    for name, number in (("window", window), ("resamples", resamples)):
        if number < 1:
            raise ValueError(f"{name} must be 1 or more, not {number}.")
    if counts is not None and (sum(counts) != len(values) or min(counts) < 0):
        raise ValueError(f"counts add up to {sum(counts)}; they must to the {len(values)} values.")


def _draw_alerts(
    signed: Sequence[float], window: int, counts: Sequence[int] | None, resamples: int, seed: int
) -> ChanceAlerts:
    draw = random.Random(seed)
    found = [_count_alerts(draw.choices(signed, k=len(signed)), window, counts) for _ in range(resamples)]
    mean = math.fsum(found) / resamples
    squares = math.fsum((one - mean) ** 2 for one in found)
    error = math.sqrt(squares / (resamples - 1) / resamples) if resamples > 1 else math.inf
    return ChanceAlerts(mean, error, is_exact=False)


def _count_alerts(signed: Sequence[float], window: int, counts: Sequence[int] | None) -> int:
    """Count how often the mean of a window gets below 0."""
    sums = list(accumulate(signed, initial=0.0))
    ends = list(range(len(sums))) if counts is None else list(accumulate(counts, initial=0))
    alerts, is_firing = 0, False
    for begin, end in zip(ends, ends[window:], strict=False):
        if begin == end:
            continue
        # A sum of as many values as there are, so rounding is far below this.
        is_below = sums[end] - sums[begin] < -_DUST
        alerts += is_below and not is_firing
        is_firing = is_below
    return alerts


def _binomial(k: int, n: int, rate: float) -> float:
    if not 0 <= k <= n:
        return 0.0
    if rate in (0.0, 1.0):
        return float(k == n * rate)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(rate) + (n - k) * math.log1p(-rate))
