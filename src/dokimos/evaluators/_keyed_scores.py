"""The keys of evaluators that give several scores at once, and the thresholds of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dokimos._core.checks import is_number
from dokimos._core.score_range import ScoreRange, describe_range
from dokimos._core.text import quote
from dokimos.errors import ConfigurationError, EvaluationError

Thresholds = Mapping[str, float | None]


def check_thresholds(name: str, thresholds: object, score_range: ScoreRange) -> dict[str, float | None]:
    """Return the thresholds of several scores as a dict of their own. Raises `ConfigurationError`."""
    if not isinstance(thresholds, Mapping) or not thresholds:
        raise ConfigurationError(
            f"{name}: thresholds must be a mapping of the keys of scores to numbers or None, such as "
            f'{{"grounded": 0.8}}, not {quote(thresholds)}.'
        )
    low, high = score_range
    for key, threshold in thresholds.items():
        problem = _key_problem(key)
        if problem:
            raise ConfigurationError(f"{name}: the key {key!r:.80} in thresholds {problem}.")
        if threshold is not None and not (is_number(threshold) and low <= threshold <= high):
            where = describe_range(score_range)
            raise ConfigurationError(
                f"{name}: the threshold of {key!r:.80} must be in {where}, not {threshold!r:.80}."
            )
    return dict(thresholds)


def check_keys(name: str, scores: Mapping[Any, Any]) -> None:
    """Raise `EvaluationError` unless there are scores, each under a key that can be part of a name."""
    if not scores:
        raise EvaluationError(
            f"{name} returned an empty mapping. Return at least one score; None under a key says that it "
            "does not apply to this case."
        )
    # {"score": 1, "reason": "..."} is how other libraries return one score: advise instead of two results.
    if "score" in scores and any(isinstance(value, str) for value in scores.values()):
        raise EvaluationError(
            f"{name} returned a mapping of one score and texts. Return Score(0.5, 'why') instead of a map; "
            "a mapping is for several scores, each under its key."
        )
    for key in scores:
        problem = _key_problem(key)
        if problem:
            raise EvaluationError(f"The key {key!r:.80} of a score of {name} {problem}.")


def check_not_nested(value: object) -> None:
    """Raise `EvaluationError` for a mapping under a key of several scores."""
    if isinstance(value, Mapping):
        raise EvaluationError(
            "Scores cannot be nested: this key holds another mapping. Return one mapping of keys to scores, "
            "with keys such as 'style_tone'."
        )


def missing_key(key: str, scores: Mapping[str, Any]) -> EvaluationError:
    """Return the error of a score that has a threshold and was not given."""
    keys = ", ".join(map(repr, scores))
    return EvaluationError(
        f"There is no score {key!r}, which has a threshold; the scores are {keys}. "
        "Return None under this key where it does not apply."
    )


def _key_problem(key: object) -> str:
    """Say what is wrong with a key as the end of a sentence; "" where nothing is."""
    if not isinstance(key, str):
        return f"is {type(key).__name__}, not text"
    if not key.strip():
        return "is empty"
    return "must not have a dot: results are called evaluator.key" if "." in key else ""
