"""Beginning an async evaluation where it is asked for, with no coroutine of ours unless it waits.

A part of `Evaluator`, whose private methods it calls, in a module that loads asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dokimos._core.eval_result import with_cost
from dokimos._runtime.eager_gather import Begun, begin
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._outcomes import failure_result
from dokimos.evaluators._prepared_scoring import CheckedParts, find_lasting_parts, prepare_result
from dokimos.judges._run_scope import counting_usage, get_usage, set_usage

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult
    from dokimos._core.test_case import EvalTestCase

CaseCopier: TypeAlias = Callable[[], "EvalTestCase"]
"""Gives copies of a case, for evaluators of users."""
Beginning: TypeAlias = Callable[
    [Context, "EvalTestCase", CaseCopier, CheckedParts], "EvalResult | Awaitable[EvalResult]"
]
"""Begins to score a case in the context that it is called in; gives the result if that does not wait."""

_evaluate_async: Final = Evaluator.evaluate_async


def prepare_beginning(evaluator: Evaluator, limit: float | None) -> Beginning:
    """Return what scores many cases as `evaluate_async` of an async evaluator does, in the current task.

    It is called in a context of its own, a new one for each case, takes a set as a `Scorer` does, and raises
    whatever `evaluate_async` raises before it waits. `limit` is the run's time limit for evaluators.
    """
    is_limited = limit is not None and evaluator.is_bounded
    if is_limited or type(evaluator).evaluate_async is not _evaluate_async:
        return lambda context, case, copy_case, checked: begin(evaluator.evaluate_async(case))
    return _prepare_score(evaluator)


def _prepare_score(evaluator: Evaluator) -> Beginning:
    score, prepare_case, gets_copies = evaluator.score, evaluator._prepare_case, evaluator.gets_copies
    make_result, required = prepare_result(evaluator), find_lasting_parts(evaluator)

    def begin_score(
        context: Context, case: EvalTestCase, copy_case: CaseCopier, checked: CheckedParts
    ) -> EvalResult | Awaitable[EvalResult]:
        usage = counting_usage()
        usage.outer = get_usage()
        set_usage(usage)
        try:
            if required not in checked:
                case = prepare_case(case, copy_case)
                if required is not None:
                    checked.add(required)
            elif gets_copies:
                case = copy_case()
            outcome: Any = score(case)
            call = outcome if type(outcome) is CoroutineType else _await(outcome)
            try:
                waits_for = call.send(None)
            except StopIteration as end:
                outcome = end.value
            else:
                return _finish_score(evaluator, Begun(call, context, waits_for), usage)
            result = make_result(outcome)
        except BaseException as error:
            failure = failure_result(evaluator, error)
            if failure is None:
                usage.count_outside()
                raise
            result = failure
        if usage.calls:
            usage.count_outside()
            with_cost(result, usage.metrics)
        return result

    return begin_score


async def _finish_score(evaluator: Evaluator, score: Begun[Any], usage: counting_usage) -> EvalResult:
    """Wait for the score of an evaluator, and make its result."""
    try:
        outcome = await score
        result = score.context.run(evaluator._result, outcome)
    except BaseException as error:
        failure = failure_result(evaluator, error)
        if failure is None:
            raise
        result = failure
    finally:
        usage.count_outside()
    return with_cost(result, usage.metrics)


async def _await(score: Awaitable[Any]) -> Any:
    """Make a coroutine of what may also be a future, or be none of these."""
    return await score
