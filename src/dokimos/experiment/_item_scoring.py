"""Scoring one item with its evaluators."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.container_copy import copy_containers
from dokimos._core.eval_result import flatten, with_cost
from dokimos._core.results import EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tracebacks import describe_exception
from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.eager_gather import Begun, gather_outcomes
from dokimos.errors import EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._eager_evaluation import IS_SCORED, PreparedEvaluator, prepare_evaluator, score_each
from dokimos.evaluators._prepared_scoring import CheckedParts, Scorer, prepare_scorer
from dokimos.experiment._experiment import check_evaluators, looks_like_evaluator
from dokimos.experiment._item_errors import CHOICE, describe_error
from dokimos.experiment._run_writer import ResultSink
from dokimos.experiment._task_calls import count_cancellations, is_cancelled_from_outside
from dokimos.judges._run_scope import counting_usage, current_scope, sharing_within_item

MOST_PREPARED: Final = 256
"""Prepared evaluators to keep: a function may make new ones for each example."""

if TYPE_CHECKING:
    from dokimos._core.example import Example
    from dokimos.experiment._experiment import EvaluatorSource


def choose_evaluators(source: EvaluatorSource, example: Example) -> tuple[Evaluator, ...]:
    """Return the evaluators of an example.

    Raises:
        EvaluationError: when a function that chooses them fails.
        ConfigurationError: when what it chose is not evaluators, or two share a name.
    """
    if not callable(source):
        return tuple(source)
    try:
        chosen: Any = source(copy_containers(example))
        evaluators = (chosen,) if looks_like_evaluator(chosen) else tuple(chosen)
    except Exception as error:
        raise EvaluationError(describe_error(error)) from error
    check_evaluators(evaluators)
    return evaluators


def build_choice_error(error: EvaluationError, sink: ResultSink | None = None) -> tuple[EvalResult, ...]:
    """Return the errored result of an item whose evaluators could not be chosen."""
    detail = describe_exception(error if error.__cause__ is None else error.__cause__)
    results = (EvalResult(CHOICE, error=str(error), error_detail=detail),)
    if sink is not None:
        sink(results)
    return results


async def evaluate_all(
    evaluators: Sequence[Evaluator],
    case: EvalTestCase,
    sink: ResultSink | None = None,
    prepared: Sequence[PreparedEvaluator] | None = None,
) -> tuple[EvalResult, ...]:
    """Score a case with all evaluators; async ones run concurrently, and results keep the declared order.

    An evaluator that gives several scores has a result for each. `sink`, where given, receives results as
    soon as they are there, those of one evaluator together, and those of evaluators that did not wait before
    anything waits. `prepared` is what `PreparedEvaluators` found for these evaluators.

    Raises:
        BudgetExceededError: when one of them may not ask its judge; the others are waited for first.
    """
    if all_inline(evaluators):
        return evaluate_inline(evaluators, case, sink)
    recorder = None if sink is None else _Recorder(sink, evaluators)
    with sharing_within_item():
        if len(evaluators) == 1:
            call = evaluators[0].evaluate_async(case)
            result = await _finish(evaluators[0], call, recorder, count_cancellations())
            return with_parts((result,), evaluators)
        if prepared is not None or _are_async(evaluators):
            return with_parts(await _score_async(evaluators, case, recorder, prepared), evaluators)
        groups = _groups(evaluators)
        if len(groups) == 1:
            return with_parts(await _score_together(groups[0], case, recorder), evaluators)
        outcomes = await _score_groups(groups, case, recorder)
    result_of: dict[int, EvalResult] = {}
    for group, outcome in zip(groups, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        results = [outcome] if isinstance(outcome, EvalResult) else outcome
        result_of |= zip(map(id, group), results, strict=True)
    return with_parts([result_of[id(evaluator)] for evaluator in evaluators], evaluators)


class _Recorder:
    """Hands results to a sink: until it is told to write, those of one evaluator after another together."""

    def __init__(self, sink: ResultSink, evaluators: Sequence[Evaluator]) -> None:
        self._sink = sink
        self._evaluators = evaluators
        self._held: list[EvalResult] | None = None

    def __enter__(self) -> None:
        self._held = []

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def release(self) -> None:
        """Write the results that are held, and from now on each one as it comes."""
        held, self._held = self._held, None
        self.write(held or ())

    def add(self, result: EvalResult) -> None:
        """Take the result of an evaluator on the event loop."""
        if self._held is None:
            self.write((result,))
        else:
            self._held.append(result)

    def write(self, results: Sequence[EvalResult]) -> None:
        """Write results at once, from any thread; does nothing if there are none."""
        if results:
            self._sink(with_parts(results, self._evaluators))


def with_parts(results: Sequence[EvalResult], evaluators: Sequence[Evaluator]) -> tuple[EvalResult, ...]:
    """Return several scores of one evaluator as separate results, whose names no evaluator has."""
    if not any([result.parts for result in results]):
        return tuple(results)
    names = frozenset(evaluator.name for evaluator in evaluators)
    return flatten(_without_clash(result, names) for result in results)


def _without_clash(result: EvalResult, names: frozenset[str]) -> EvalResult:
    taken = [part.name for part in result.parts if part.name in names]
    if not taken:
        return result
    problem = f"One of its scores would be called {taken[0]!r}, as another evaluator is; rename one of them."
    return EvalResult(result.name, error=problem, metrics=result.metrics)


class PreparedEvaluators:
    """The async evaluators of a repeat, with what no case changes.

    A function that chooses evaluators mostly chooses the same ones again.
    """

    def __init__(self, limit: float | None) -> None:
        """Take the run's time limit for evaluators."""
        self._limit = limit
        self._known: dict[int, PreparedEvaluator] = {}
        """By the identity of the evaluator, which is kept with it so that no other one can have the same."""

    def find(self, evaluators: Sequence[Evaluator]) -> list[PreparedEvaluator] | None:
        """Return the evaluators prepared, None unless all are async."""
        if not _are_async(evaluators):
            return None
        prepared = []
        for evaluator in evaluators:
            known = self._known.get(id(evaluator))
            if known is None:
                if len(self._known) >= MOST_PREPARED:
                    self._known.clear()
                known = self._known[id(evaluator)] = prepare_evaluator(evaluator, self._limit)
            prepared.append(known)
        return prepared


def _are_async(evaluators: Sequence[Evaluator]) -> bool:
    return all([evaluator.is_async for evaluator in evaluators])


async def _score_async(
    evaluators: Sequence[Evaluator],
    case: EvalTestCase,
    recorder: _Recorder | None,
    prepared: Sequence[PreparedEvaluator] | None,
) -> list[EvalResult]:
    """Score a case with async evaluators.

    For those that do not wait, no more is done than to call them, which takes half the time that
    `gather_outcomes` does (the row "async, own" of `benchmarks/scoring.py`).
    """
    if prepared is None:
        limit = current_scope().evaluator_timeout
        prepared = [prepare_evaluator(evaluator, limit) for evaluator in evaluators]
    results: list[EvalResult] = []
    errors: list[BaseException] = []
    cancellations = count_cancellations()
    try:
        begun = _begin_each(prepared, case, results, errors, cancellations)
    finally:
        if recorder is not None:
            recorder.write(results)
    if begun is not None:
        place = len(results) + len(errors)
        first = _finish(evaluators[place], begun, recorder, cancellations)
        later = (_evaluate_one(evaluator, case, recorder) for evaluator in evaluators[place + 1 :])
        for outcome in await gather_outcomes(chain((first,), later)):
            if isinstance(outcome, BaseException):
                errors.append(outcome)
            else:
                results.append(outcome)
    if errors:
        raise errors[0]
    return results


def _begin_each(
    evaluators: Sequence[PreparedEvaluator],
    case: EvalTestCase,
    results: list[EvalResult],
    errors: list[BaseException],
    cancellations: int,
) -> Begun[EvalResult] | None:
    """Begin evaluators one after another, and append what each comes to, until one waits; return that one."""
    remaining = iter(evaluators)
    waiting: list[bool] = []
    while (count := len(evaluators) - len(results) - len(errors)) > 0:
        scoring: Any = score_each(remaining, case, results, waiting)
        score_next = scoring.send
        try:
            for _ in range(count):
                context = copy_context()
                waits_for = context.run(score_next, None)
                if waits_for is not IS_SCORED:
                    waiting.append(True)
                    return Begun(scoring, context, waits_for)
        except (KeyboardInterrupt, SystemExit):
            raise  # perhaps between two evaluators, or after the last one
        except BaseException as error:
            evaluator = evaluators[len(results) + len(errors)].evaluator
            outcome = _build_outcome(evaluator, error, cancellations)
            if isinstance(outcome, EvalResult):
                results.append(outcome)
            else:
                errors.append(outcome)
    return None


def _build_outcome(
    evaluator: Evaluator, error: BaseException, cancellations: int
) -> EvalResult | BaseException:
    """Return what an evaluator that raised before it waited comes to; raises what ends the item at once."""
    if isinstance(error, asyncio.CancelledError):
        if is_cancelled_from_outside(cancellations):
            raise error
        return _build_cancellation_error(evaluator, error)
    return error


def _groups(evaluators: Sequence[Evaluator]) -> list[list[Evaluator]]:
    """Group the evaluators that share one call in a thread; each other evaluator is its own group."""
    together: list[Evaluator] = []
    groups = [together]
    bounded = current_scope().evaluator_timeout is not None
    for evaluator in evaluators:
        # Each in a call of its own: a shared thread could not be left behind for one that takes too long.
        if evaluator.is_async or evaluator.serial or bounded or not evaluator.blocking:
            groups.append([evaluator])
        else:
            together.append(evaluator)
    return groups if together else groups[1:]


async def _score_groups(
    groups: Sequence[Sequence[Evaluator]], case: EvalTestCase, recorder: _Recorder | None
) -> list[EvalResult | list[EvalResult] | BaseException]:
    calls: Iterator[Coroutine[Any, Any, EvalResult | list[EvalResult]]] = (
        _evaluate_one(group[0], case, recorder) if len(group) == 1 else _score_together(group, case, recorder)
        for group in groups
    )
    # All are waited for, also where one may not ask its judge: what the others paid for belongs in the
    # journal.
    if recorder is None:
        return await gather_outcomes(calls)
    with recorder:
        return await gather_outcomes(calls, before_waiting=recorder.release)


async def _score_together(
    evaluators: Sequence[Evaluator], case: EvalTestCase, recorder: _Recorder | None
) -> list[EvalResult]:
    """Score a case with sync evaluators that share one call in a thread."""
    sink = None if recorder is None else recorder.write
    threads, ended = current_scope().threads, threading.Event()
    try:
        async with nullcontext() if threads is None else threads.place():
            return await call_in_thread(_evaluate_each, evaluators, case, sink, ended)
    finally:
        ended.set()


def _evaluate_each(
    evaluators: Sequence[Evaluator],
    case: EvalTestCase,
    sink: Callable[[Sequence[EvalResult]], None] | None,
    ended: threading.Event,
) -> list[EvalResult]:
    """Score a case with sync evaluators, one after another, until nobody waits for the results."""
    results = []
    for evaluator in evaluators:
        if ended.is_set():
            break
        with counting_usage() as usage:
            result = evaluator.evaluate(case)
        result = with_cost(result, usage.metrics)
        if sink is not None:
            sink((result,))
        results.append(result)
    return results


def all_inline(evaluators: Sequence[Evaluator]) -> bool:
    """Say whether no evaluator is async or blocking."""
    return not any(evaluator.is_async or evaluator.blocking for evaluator in evaluators)


def evaluate_inline(
    evaluators: Sequence[Evaluator], case: EvalTestCase, sink: ResultSink | None
) -> tuple[EvalResult, ...]:
    """Score a case with evaluators that are neither async nor blocking."""
    results = with_parts([evaluator.evaluate(case) for evaluator in evaluators], evaluators)
    if sink is not None and results:
        sink(results)
    return results


def prepare_scorers(evaluators: Sequence[Evaluator], limit: float | None) -> tuple[Scorer, ...] | None:
    """Return what scores with each evaluator, for evaluators of many cases; None unless all are inline.

    `limit` is the run's time limit for evaluators.
    """
    if not all_inline(evaluators):
        return None
    return tuple([prepare_scorer(evaluator, limit) for evaluator in evaluators])


def score_inline(
    scorers: Sequence[Scorer], evaluators: Sequence[Evaluator], case: EvalTestCase
) -> tuple[EvalResult, ...]:
    """Do what `evaluate_inline` does, with the scorer of each evaluator."""
    checked: CheckedParts = set()
    results = tuple([score(case, checked) for score in scorers])
    for result in results:
        if result.parts:
            return with_parts(results, evaluators)
    return results


async def score_with(evaluator: Evaluator, case: EvalTestCase) -> EvalResult:
    """Score a case with one evaluator; its several scores are in the `parts` of the result."""
    return await _evaluate_one(evaluator, case, None)


async def _evaluate_one(evaluator: Evaluator, case: EvalTestCase, recorder: _Recorder | None) -> EvalResult:
    return await _finish(evaluator, evaluator.evaluate_async(case), recorder, count_cancellations())


async def _finish(
    evaluator: Evaluator, call: Awaitable[EvalResult], recorder: _Recorder | None, cancellations: int
) -> EvalResult:
    """Await the result of an evaluator, and hand it to the recorder.

    `cancellations` is the count before the evaluator was begun: it may cancel the task before it waits.
    """
    try:
        result = await call
    except asyncio.CancelledError as error:
        if is_cancelled_from_outside(cancellations):
            raise
        result = _build_cancellation_error(evaluator, error)
    if recorder is not None:
        recorder.add(result)
    return result


def _build_cancellation_error(evaluator: Evaluator, error: asyncio.CancelledError) -> EvalResult:
    """Return the error of an evaluator that raised CancelledError by itself.

    Clients of models do that for their own timeouts.
    """
    return EvalResult(
        evaluator.name,
        threshold=evaluator.threshold,
        error=describe_error(error),
        error_detail=describe_exception(error),
        fail_on_error=evaluator.fail_on_error,
        decides=True if evaluator.threshold is None and evaluator.gives_verdicts else None,
    )
