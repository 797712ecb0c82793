"""Beginning an async evaluation where it is asked for, with no coroutine of ours unless it waits.

A part of `Evaluator`, whose private methods it calls, in a module that loads asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.eval_result import with_cost
from dokimos._runtime.eager_gather import Begun, begin
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._outcomes import failure_result
from dokimos.judges._run_scope import count_usage, counting_usage

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult
    from dokimos._core.test_case import EvalTestCase

_evaluate_async: Final = Evaluator.evaluate_async


def begin_evaluation(
    evaluator: Evaluator, case: EvalTestCase, copy_case: Callable[[], EvalTestCase], limit: float | None
) -> EvalResult | Awaitable[EvalResult]:
    """Begin what `evaluate_async` of an async evaluator does, in the current task and a context of its own.

    Return its result if it does not wait. `copy_case` gives copies of the case, for evaluators of users, and
    `limit` is the run's time limit for evaluators.

    Raises:
        BaseException: whatever `evaluate_async` raises before it waits.
    """
    is_limited = limit is not None and evaluator.is_bounded
    if is_limited or type(evaluator).evaluate_async is not _evaluate_async:
        return begin(evaluator.evaluate_async(case))
    context = copy_context()
    return context.run(_begin_score, context, evaluator, case, copy_case)


def _begin_score(
    context: Context, evaluator: Evaluator, case: EvalTestCase, copy_case: Callable[[], EvalTestCase]
) -> EvalResult | Awaitable[EvalResult]:
    """Call `score` in the current context."""
    usage = count_usage()
    try:
        outcome: Any = evaluator.score(evaluator._prepare_case(case, copy_case))
        call = outcome if type(outcome) is CoroutineType else _await(outcome)
        try:
            waits_for = call.send(None)
        except StopIteration as end:
            outcome = end.value
        else:
            return _finish_score(evaluator, Begun(call, context, waits_for), usage)
        result = evaluator._result(outcome)
    except BaseException as error:
        failure = failure_result(evaluator, error)
        if failure is None:
            usage.count_outside()
            raise
        result = failure
    usage.count_outside()
    return with_cost(result, usage.metrics)


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
