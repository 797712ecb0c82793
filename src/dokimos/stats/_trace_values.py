"""How what an application did becomes observations that a sequential test may take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dokimos.stats._betting import finite


@dataclass(frozen=True, slots=True)
class WeightedValue:
    """One observation with its weight, as `ChangeDetector.add` takes it."""

    value: float
    weight: float


def merge_trace(
    values: Sequence[float], *, probability: float = 1.0, per: Literal["trace", "score"] = "trace"
) -> WeightedValue:
    """Return the scores of one trace as one observation: their mean, with a weight.

    The scores of a trace depend on each other, so twenty of one trace say less than twenty of twenty. A test
    that took them one by one would raise far more false alarms than its setting. As one observation for each
    trace they cannot. Use it for sessions in the same way if their traces depend on each other.

    Args:
        values: The scores of the trace, one or more.
        probability: The chance with which the trace was sampled, above 0 and at most 1.
        per: What has the same weight in the mean: each "trace", or each "score". With "score" the
            `largest_weight` of the test must be the largest number of scores of a trace, over the smallest
            probability.

    Raises:
        ValueError: There are no values, one is not finite, or the probability is out of its range.
        TypeError: One of them is not a number.

    Example:
        >>> merge_trace([1.0, 0.0, 1.0, 1.0], probability=0.25)
        WeightedValue(value=0.75, weight=4.0)
        >>> merge_trace([1.0, 0.0, 1.0, 1.0], probability=0.25, per="score")
        WeightedValue(value=0.75, weight=16.0)
    """
    if not values:
        raise ValueError("A trace without scores is not an observation.")
    chance = finite("probability", probability)
    if not 0 < chance <= 1:
        raise ValueError(f"probability must be greater than 0 and at most 1, not {probability}.")
    if per not in ("trace", "score"):
        raise ValueError(f"per must be 'trace' or 'score', not {per!r:.80}.")
    numbers = [finite("A score", value) for value in values]
    mean = math.fsum(numbers) / len(numbers)
    return WeightedValue(mean, (len(numbers) if per == "score" else 1) / chance)


def squash(value: float, *, middle: float) -> float:
    """Return a value of 0 or more without an upper bound, such as a latency or a cost, as one in 0..1.

    It is value / (value + middle): 0 for nothing, one half for `middle`, and close to 1 for ten times that or
    more. So a single trace of an hour is no more than one that was slow. Choose a usual value as the middle.
    A detector then watches the mean of the squashed values, which rises when values rise; `unsquash` turns
    such a mean into a typical value, which is not the arithmetic mean. To watch how many are too slow
    instead, add whether each is over the limit.

    Args:
        value: The value, 0 or more; infinity is 1.
        middle: The value that becomes one half, above 0, in the same units.

    Raises:
        ValueError: A number is out of its range, or NaN.

    Example:
        >>> squash(2.0, middle=2.0), squash(18.0, middle=2.0)
        (0.5, 0.9)
        >>> unsquash(0.9, middle=2.0)
        18.0
    """
    if not value >= 0:
        raise ValueError(f"A value must be 0 or more, not {value}.")
    _check_middle(middle)
    return 1.0 if value == math.inf else value / (value + middle)


def unsquash(share: float, *, middle: float) -> float:
    """Return the value whose `squash` is `share`, in 0..1; infinity for 1.

    Raises:
        ValueError: A number is out of its range, or NaN.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be in 0..1, not {share}.")
    _check_middle(middle)
    # Rounded to 12 digits: 0.9 would give 18.000000000000004.
    return math.inf if share == 1 else float(f"{middle * share / (1 - share):.12g}")


def split_false_alarms(per_year: float, importance: Mapping[str, float]) -> dict[str, float]:
    """Return the `false_alarms_per_year` of each of several detectors that share a number of them.

    Each has its part by its importance. Expected numbers add up, so all together raise at most `per_year`
    false alarms, however they depend on each other. When rules come or go, split again and call
    `ChangeDetector.set_false_alarms_per_year`.

    Args:
        per_year: How many false alarms all of them may raise in a year, above 0.
        importance: The weight of each, above 0; equal weights for equal parts.

    Raises:
        ValueError: A number is not above 0, or not finite.

    Example:
        >>> split_false_alarms(1.0, {"tone": 1, "errors": 2, "latency": 1})
        {'tone': 0.25, 'errors': 0.5, 'latency': 0.25}
    """
    for name, weight in (("per_year", per_year), *importance.items()):
        if not 0 < weight < math.inf:
            raise ValueError(f"{name} must be greater than 0 and finite, not {weight}.")
    total = math.fsum(importance.values())
    return {name: per_year * weight / total for name, weight in importance.items()}


def _check_middle(middle: float) -> None:
    if not 0 < middle < math.inf:
        raise ValueError(f"middle must be greater than 0 and finite, not {middle}.")
