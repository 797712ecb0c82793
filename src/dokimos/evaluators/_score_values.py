"""Check what `score` returns, and suggest what to return instead of anything else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dokimos._core.plain_number import plain_number
from dokimos._core.results import EvalResult, Score
from dokimos.errors import EvaluationError


def check_explanation(name: str, score: Score) -> None:
    """Refuse what could not be read back later: a run must not become unreadable by one wrong reason."""
    if not isinstance(score.reason, str):
        raise EvaluationError(f"{name} gave a reason that is {type(score.reason).__name__}, not text.")
    if not isinstance(score.metadata, Mapping):
        raise EvaluationError(f"{name} gave metadata that is {type(score.metadata).__name__}, not a mapping.")
    label: Any = score.label
    if label is not None and not (isinstance(label, str) and label.strip()):
        raise EvaluationError(f"{name} gave the label {label!r:.80}; a label is text, such as 'refusal'.")


def number_of(name: str, outcome: object) -> bool | int | float:
    """Return what `score` returned as a number or a boolean of Python.

    Raises:
        EvaluationError: for anything else, saying what to write instead.
    """
    try:
        number = plain_number(outcome)
        if number is not None:
            float(number)  # raises `OverflowError` for a whole number of 400 digits
            return number
    except OverflowError:
        raise EvaluationError(f"{name} gave a score that is too large for a float.") from None
    if isinstance(outcome, EvalResult):
        raise EvaluationError(f"{name} must return a Score, not an EvalResult{suggest_score(outcome)}.")
    raise EvaluationError(
        f"{name} must return a Score, a number or a bool (or a mapping of keys to these), not "
        f"{type(outcome).__name__} ({outcome!r:.80}).{suggest_label(outcome)}"
    )


def is_number_like(outcome: object) -> bool:
    """Return whether this is a number or a boolean, of Python or of another library, however large."""
    try:
        return plain_number(outcome) is not None
    except OverflowError:
        return True


def outside(name: str, value: object, number: float, score_range: str) -> EvaluationError:
    """Return the error of a score that is not in the range; NaN is in none."""
    cause = " NaN comes of 0/0, or of the mean of no values." if math.isnan(number) else ""
    return EvaluationError(f"{name} gave a score of {value!r:.80}, which is not in {score_range}.{cause}")


def suggest_label(outcome: object) -> str:
    """Return the line to write in the place of one that returns a text, "" for anything else."""
    if not isinstance(outcome, str):
        return ""
    return f" A label accompanies a number: Score(1.0, label={outcome!r:.40})."


def suggest_score(result: EvalResult) -> str:
    """Return the line to write in the place of one that returns an `EvalResult`."""
    if result.score is None:
        return ": its name and threshold are the evaluator's; write: return Score(value, reason)"
    metadata = ", metadata=..." if result.metadata else ""
    line = f"return Score({result.score!r}, {result.reason!r:.80}{metadata})"
    return f": its name and threshold are the evaluator's; write: {line}"
