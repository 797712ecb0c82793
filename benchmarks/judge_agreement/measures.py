"""How far scores agree with labels, and whether one judge agrees further than another on the same cases.

Each input has a good and a bad output, so labels are balanced. Where an arm has no score, its verdict counts
as wrong, and its order with any other case as undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, pvariance
from typing import Final

from dokimos.stats._agreement import cohen_kappa
from dokimos.stats._intervals import Interval, wilson_interval
from dokimos.stats._paired_estimates import constant_interval, paired_rate_interval
from dokimos.stats._student_t import t_quantile

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """What one arm says of the good and of the bad output for one input; None where it says nothing."""

    good: float | None
    bad: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with its interval at 95 %."""

    value: float
    interval: Interval


def auc(pairs: Sequence[Pair]) -> Measured:
    """Return how often a good output scores above a bad one, ties being half, with Newcombe's interval.

    The interval is method 5 of R. G. Newcombe, "Confidence intervals for an effect size measure based on
    the Mann-Whitney statistic" (2006): all values that the figure is not too far from, by the variance of
    J. A. Hanley and B. J. McNeil (1982). It keeps a width where all are in order.
    """
    value = _auc(pairs)
    return Measured(value, _newcombe(value, len(pairs)))


def kappa(pairs: Sequence[Pair], threshold: float) -> Measured:
    """Return Cohen's kappa of verdicts at a threshold and labels, with an interval.

    With as many good cases as bad ones, kappa is twice the share of right verdicts, less 1, whatever the
    judge does; so its interval is Wilson's of that share, stretched likewise.
    """
    right = sum(map(sum, _right(pairs, threshold)))
    n = 2 * len(pairs)
    share = wilson_interval(right, n, confidence=CONFIDENCE)
    labels = [True, False] * len(pairs)
    verdicts = [label == it for it, label in zip(_flat(_right(pairs, threshold)), labels, strict=True)]
    value = cohen_kappa(verdicts, labels, categories=(False, True))
    assert value is not None
    return Measured(value, Interval(2 * share.low - 1, 2 * share.high - 1))


def auc_difference(ours: Sequence[Pair], theirs: Sequence[Pair]) -> Measured:
    """Return our AUC less theirs, with an interval from leaving out each input in turn.

    The standard error is the jackknife's over inputs (J. W. Tukey, 1958), which knows that both outputs of an
    input belong together; the interval is Student's t.
    """
    apart = [
        [a - b for a, b in zip(mine, other, strict=True)]
        for mine, other in zip(_wins(ours), _wins(theirs), strict=True)
    ]
    n, value = len(apart), _mean_of(apart, range(len(apart)))
    without = [_mean_of(apart, [i for i in range(n) if i != out]) for out in range(n)]
    error = math.sqrt((n - 1) * pvariance(without))
    if error == 0:
        return Measured(value, constant_interval(value, n, (-1.0, 1.0), confidence=CONFIDENCE))
    half = t_quantile((1 + CONFIDENCE) / 2, n - 1) * error
    return Measured(value, Interval(value - half, value + half))


def kappa_difference(ours: Sequence[Pair], theirs: Sequence[Pair], *, at: tuple[float, float]) -> Measured:
    """Return our kappa less theirs: twice the change of the right verdicts, with Tango's interval."""
    mine, other = _flat(_right(ours, at[0])), _flat(_right(theirs, at[1]))
    better = sum(a and not b for a, b in zip(mine, other, strict=True))
    worse = sum(b and not a for a, b in zip(mine, other, strict=True))
    n = len(mine)
    change = paired_rate_interval(worse, better, n, confidence=CONFIDENCE)
    return Measured(2 * (better - worse) / n, Interval(2 * change.low, 2 * change.high))


def _auc(pairs: Sequence[Pair]) -> float:
    return _mean_of(_wins(pairs), range(len(pairs)))


def _wins(pairs: Sequence[Pair]) -> list[list[float]]:
    """Return for the good output of each input how it does against the bad output of each input."""
    return [[_win(mine.good, other.bad) for other in pairs] for mine in pairs]


def _win(good: float | None, bad: float | None) -> float:
    if good is None or bad is None or good == bad:
        return 0.5
    return float(good > bad)


def _mean_of(wins: Sequence[Sequence[float]], drawn: Sequence[int]) -> float:
    """Return the mean over all good and bad outputs of the inputs drawn."""
    return math.fsum(sum(map(wins[i].__getitem__, drawn)) for i in drawn) / len(drawn) ** 2


def _right(pairs: Sequence[Pair], threshold: float) -> list[tuple[bool, bool]]:
    return [
        (
            pair.good is not None and pair.good >= threshold,
            pair.bad is not None and pair.bad < threshold,
        )
        for pair in pairs
    ]


def _flat(right: Sequence[tuple[bool, bool]]) -> list[bool]:
    return [it for both in right for it in both]


def _newcombe(value: float, n: int) -> Interval:
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

    def too_far(other: float) -> bool:
        of_good, of_bad = (1 - other) / (2 - other), other / (1 + other)
        variance = other * (1 - other) * (1 + (n - 1) * (of_good + of_bad)) / (n * n)
        return abs(value - other) > z * math.sqrt(variance)

    return Interval(_edge(value, 0.0, too_far), _edge(value, 1.0, too_far))


def _edge(inside: float, outside: float, too_far: object) -> float:
    assert callable(too_far)
    if inside == outside:
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if too_far(middle) else (middle, outside)
    return inside
