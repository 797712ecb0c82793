"""The range that the scores of an evaluator lie in: 0..1 unless it declares another.

A range of None stands for the usual one, so that files and values say nothing where there is nothing to say.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

from dokimos._core.checks import is_number
from dokimos.errors import ConfigurationError

ScoreRange: TypeAlias = tuple[float, float]
"""The lowest and the highest score that can occur."""

USUAL_RANGE: Final[ScoreRange] = (0.0, 1.0)


def check_score_range(owner: str, value: Any) -> ScoreRange | None:
    """Return a declared range, None where it is the usual one. Raises `ConfigurationError`."""
    if value == USUAL_RANGE:
        return None
    if not is_score_range(value):
        raise ConfigurationError(
            f"{owner}: score_range must be two finite numbers, the lowest and the highest score, such as "
            f"(1, 5), not {value!r:.80}."
        )
    score_range = (float(value[0]), float(value[1]))
    return None if score_range == USUAL_RANGE else score_range


def is_score_range(value: object) -> bool:
    """Say whether these are a lower and a higher number with a finite distance."""
    if not isinstance(value, tuple | list) or len(value) != 2 or not all(map(is_number, value)):
        return False
    try:
        low, high = map(float, value)
    except OverflowError:
        return False
    return low < high and math.isfinite(high - low)


def width_of(score_range: ScoreRange | None) -> float:
    """Return the distance from the lowest to the highest score."""
    return 1.0 if score_range is None else score_range[1] - score_range[0]


def share_of(score: float, score_range: ScoreRange | None) -> float:
    """Return where a score lies in its range: 0.0 at the low end, 1.0 at the high end."""
    return score if score_range is None else (score - score_range[0]) / width_of(score_range)


def describe_range(score_range: ScoreRange | None) -> str:
    """Write a range as `1..5`."""
    low, high = score_range or USUAL_RANGE
    return f"{low:g}..{high:g}"
