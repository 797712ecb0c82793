"""Scoring with async evaluators one after another, with no coroutine of ours for each, until one waits.

A part of `Evaluator`, whose private methods it calls, in a module that loads asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dokimos._core.container_copy import copy_repeatedly
from dokimos._core.eval_result import with_cost
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._outcomes import failure_result
from dokimos.evaluators._prepared_scoring import CheckedParts, find_lasting_parts, prepare_result
from dokimos.judges._run_scope import counting_usage, get_usage, set_usage

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult
    from dokimos._core.test_case import EvalTestCase

IS_SCORED: Final = object()
"""What `score_each` yields where an evaluator has not waited."""

_evaluate_async: Final = Evaluator.evaluate_async


class PreparedEvaluator(NamedTuple):
    """An async evaluator with what no case changes."""

    evaluator: Evaluator
    score: Callable[[EvalTestCase], Any]
    make_result: Callable[[Any], EvalResult] | None
    """None where only its `evaluate_async` can say what a case comes to."""
    required: tuple[str, ...] | None
    gets_copies: bool


def prepare_evaluator(evaluator: Evaluator, limit: float | None) -> PreparedEvaluator:
    """Look up what `score_each` needs of an evaluator; `limit` is the run's time limit for evaluators."""
    is_limited = limit is not None and evaluator.is_bounded
    make_result = None
    if not is_limited and type(evaluator).evaluate_async is _evaluate_async:
        make_result = prepare_result(evaluator)
    return PreparedEvaluator(
        evaluator, evaluator.score, make_result, find_lasting_parts(evaluator), evaluator.gets_copies
    )


@coroutine
def score_each(
    evaluators: Iterable[PreparedEvaluator], case: EvalTestCase, results: list[Any], waiting: list[Any]
) -> Generator[object, Any, EvalResult]:
    """Score a case with evaluators as `evaluate_async` does, and append the result of each.

    It is resumed once for each evaluator, in a context of its own, a new one for each, in the current task.
    It yields `IS_SCORED`, or else what the evaluator waits for; then something has to be put into `waiting`,
    and it goes on as a coroutine that returns the result of that one evaluator. It raises what
    `evaluate_async` raises, and ends so.

    It is a generator, which takes the result of a coroutine that it delegates to as it is. Who calls `send`
    gets it in an exception, which takes 0.15 us more for a score (`benchmarks/scoring.py`).
    """
    copy_case, outer = copy_repeatedly(case), get_usage()
    checked: CheckedParts = set()
    for evaluator, score, make_result, required, gets_copies in evaluators:
        if make_result is None:
            result: EvalResult = yield from evaluator.evaluate_async(case)
        else:
            usage = counting_usage()
            if outer is not None:
                usage.outer = outer
            set_usage(usage)
            try:
                if required not in checked:
                    seen = evaluator._prepare_case(case, copy_case)
                    if required is not None:
                        checked.add(required)
                else:
                    seen = copy_case() if gets_copies else case
                call = score(seen)
                result = make_result((yield from call if type(call) is CoroutineType else _await(call)))
            except BaseException as error:
                failure = failure_result(evaluator, error)
                if failure is None:
                    usage.count_outside()
                    raise
                result = failure
            if usage.calls:
                usage.count_outside()
                with_cost(result, usage.metrics)
        if waiting:
            return result
        results.append(result)
        yield IS_SCORED
    raise AssertionError("It was resumed more often than there are evaluators.")


async def _await(score: Awaitable[Any]) -> Any:
    """Make a coroutine of what may also be a future, or be none of these."""
    return await score
