"""What `score` returned or raised where that is not one score: several of them, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dokimos._core.eval_result import join_parts
from dokimos._core.results import ErrorKind, EvalResult, Score
from dokimos._core.score_range import USUAL_RANGE
from dokimos._core.text import error_text
from dokimos.errors import (
    BudgetExceededError,
    EndpointDownError,
    EvaluationError,
    JudgeReplyError,
    UnusableOutputError,
)
from dokimos.evaluators._keyed_scores import check_keys, check_not_nested, missing_key
from dokimos.evaluators._run_imports import is_cancellation
from dokimos.evaluators._thread_advice import thread_advice

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator


def several_results(evaluator: Evaluator, scores: Mapping[str, Any]) -> EvalResult:
    """Return a result with one part for each score, first those that have thresholds of their own.

    Raises:
        EvaluationError: where the evaluator gives one score, or the mapping is none of scores.
    """
    if not evaluator.gives_several:
        raise EvaluationError(f"{evaluator.name} must return one score, not a mapping of several.")
    check_keys(evaluator.name, scores)
    # The order of the thresholds, so that the parts of all cases are in one order.
    keys = dict.fromkeys([*(evaluator.thresholds or ()), *scores])
    parts = (_part_result(evaluator, str(key), scores) for key in keys)
    return join_parts(evaluator.name, [part for part in parts if part is not None])


def _part_result(evaluator: Evaluator, key: str, scores: Mapping[str, Any]) -> EvalResult | None:
    """Return the result of one of several scores, None where it is missing and nobody asked for it."""
    if key not in scores:
        is_needed = evaluator.threshold_of(key) is not None
        return _error_part(evaluator, missing_key(key, scores), key) if is_needed else None
    value = scores[key]
    if value is None:
        return EvalResult(
            evaluator.result_name(key),
            threshold=evaluator.threshold_of(key),
            skipped="The evaluator gave no score for this case.",
            part_of=evaluator.name,
        )
    try:
        check_not_nested(value)
        return evaluator.one_result(value, key)
    except EvaluationError as error:
        return _error_part(evaluator, error, key)


def failure_result(evaluator: Evaluator, error: BaseException) -> EvalResult | None:
    """Return the result of an async `score` that raised; None where that ends the run or the item."""
    if isinstance(error, UnusableOutputError):
        return unusable_result(evaluator, error)
    if isinstance(error, BudgetExceededError | KeyboardInterrupt | GeneratorExit) or is_cancellation(error):
        return None
    return error_result(evaluator, error)  # whatever it derives from


def unusable_result(evaluator: Evaluator, fault: UnusableOutputError) -> EvalResult:
    """Return what an output that cannot be judged gets: the worst score, under each key that is known."""
    worst = worst_score(evaluator, str(fault))
    if evaluator.thresholds:
        return several_results(evaluator, dict.fromkeys(evaluator.thresholds, worst))
    return evaluator.one_result(worst)


def worst_score(evaluator: Evaluator, reason: str = "") -> Score:
    """Return the worst score that an evaluator may give."""
    low, high = evaluator.own_range or USUAL_RANGE
    return Score(high if evaluator.lower_is_better else low, reason)


def error_result(evaluator: Evaluator, error: BaseException) -> EvalResult:
    """Return an error in place of the score, or of each score that is known to have a threshold."""
    if evaluator.thresholds:
        parts = [_error_part(evaluator, error, key) for key in evaluator.thresholds]
        return join_parts(evaluator.name, parts)
    return _error_part(evaluator, error, None)


def _error_part(evaluator: Evaluator, error: BaseException, key: str | None) -> EvalResult:
    from dokimos._core.tracebacks import describe_exception  # only where something failed

    threshold = evaluator.threshold_of(key)
    text, advice = error_text(error), thread_advice(error)
    return EvalResult(
        evaluator.result_name(key),
        threshold=threshold,
        error=text.rstrip(".") + advice if advice else text,
        fail_on_error=evaluator.fail_on_error,
        error_kind=_kind_of(error),
        decides=True if threshold is None and key is None and evaluator.gives_verdicts else None,
        score_range=evaluator.own_range,
        error_detail=describe_exception(error),
        part_of=None if key is None else evaluator.name,
    )


def _kind_of(error: BaseException) -> ErrorKind | None:
    if isinstance(error, JudgeReplyError):
        return error.kind
    down = EndpointDownError.find_in_chain(error)
    return None if down is None else down.kind
