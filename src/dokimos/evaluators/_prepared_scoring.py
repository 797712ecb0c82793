"""Scoring many cases with one evaluator: what no case changes is looked up once for all of them.

A part of `Evaluator`, whose methods it calls wherever a case or a score is not the usual one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from dokimos._core.fast_constructor import positional_factory
from dokimos._core.results import EvalResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import BudgetExceededError, UnusableOutputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._case_parts import SECTIONS
from dokimos.evaluators._outcomes import error_result, unusable_result

CheckedParts: TypeAlias = set[tuple[str, ...] | None]
"""What evaluators of one case have required, and were found to be there."""
Scorer: TypeAlias = Callable[[EvalTestCase, CheckedParts], EvalResult]

_LASTING: Final = frozenset(("input", "actual_output", "expected_output", "metrics", *SECTIONS))
"""Parts that are looked up, not parsed: where a case has them once, it has them for each evaluator."""

_new_result: Final = positional_factory(
    EvalResult, "name", "score", "threshold", "success", "reason", "metadata", "fail_on_error",
    is_checked=False,
)  # fmt: skip


def prepare_scorer(evaluator: Evaluator, limit: float | None = None) -> Scorer:
    """Return what `evaluator.evaluate` is, for an evaluator that is neither async nor blocking.

    It takes a set with each case, empty for the first evaluator, so that what several of them require is
    looked for once. `limit` is the run's time limit for evaluators.
    """
    # The watch of the event loop knows the calls that the limit is for by the file of `Evaluator`.
    if limit is not None or type(evaluator).evaluate is not Evaluator.evaluate:
        return lambda case, checked: evaluator.evaluate(case)
    score, prepare_case = evaluator.score, evaluator._prepare_case
    make_result, required = prepare_result(evaluator), find_lasting_parts(evaluator)
    if evaluator.gets_copies:
        required = None

    def score_case(case: EvalTestCase, checked: CheckedParts) -> EvalResult:
        try:
            if required not in checked:
                case = prepare_case(case)
                if required is not None:
                    checked.add(required)
            return make_result(score(case))
        except UnusableOutputError as fault:
            return unusable_result(evaluator, fault)
        except (BudgetExceededError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # failures of test frameworks derive from it
            return error_result(evaluator, error)

    return score_case


def find_lasting_parts(evaluator: Evaluator) -> tuple[str, ...] | None:
    """Return the parts that an evaluator requires if one look at a case is enough, None where it is not.

    It is not for an evaluator that is given something else than the case or a copy of it.
    """
    if evaluator.response_path is not None:
        return None
    required = evaluator.requires if evaluator.evaluation_params is None else evaluator.evaluation_params
    return tuple(required) if _LASTING.issuperset(required) else None


def prepare_result(evaluator: Evaluator) -> Callable[[Any], EvalResult]:
    """Return what `evaluator._result` is: the usual score becomes a result without a call for each part."""
    kind, make_any = type(evaluator), evaluator._result
    is_usual = kind._result is Evaluator._result and kind.one_result is Evaluator.one_result
    if not is_usual or evaluator.thresholds is not None or evaluator.own_range is not None:
        return make_any
    name, threshold, lower_is_better = evaluator.name, evaluator.threshold, evaluator.lower_is_better
    fail_on_error, may_be_kept = evaluator.fail_on_error, evaluator.gets_copies

    def make_result(outcome: Any) -> EvalResult:
        metadata: Mapping[str, Any] = {}
        if type(outcome) is float:
            value, reason = outcome, ""
        elif type(outcome) is Score and outcome.label is None:
            value, reason = outcome.value, outcome.reason
            if type(reason) is not str or type(value) is not float or type(outcome.metadata) is not dict:
                return make_any(outcome)
            if outcome.metadata:
                if may_be_kept:
                    return make_any(outcome)
                metadata = outcome.metadata
        else:
            return make_any(outcome)
        if not 0.0 <= value <= 1.0:
            return make_any(outcome)
        success: bool | None = None
        if threshold is not None:
            success = value <= threshold if lower_is_better else value >= threshold
        return _new_result(name, value, threshold, success, reason, metadata, fail_on_error)

    return make_result
