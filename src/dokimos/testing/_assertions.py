"""Assertions on cases and results that report all failures at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dokimos._core.error_detail import append_place
from dokimos._core.eval_result import group_by_evaluator
from dokimos._core.number_format import to_single_line
from dokimos._core.outcome import find_culprits
from dokimos._core.results import EvalResult, ExperimentResult
from dokimos._core.score_range import describe_range
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.errors import ConfigurationError, EvalAssertionError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._evaluator_advice import suggest_evaluator
from dokimos.experiment._item_scoring import evaluate_all, evaluate_inline
from dokimos.experiment._required_levels import RequiredLevel, compare
from dokimos.judges._run_scope import current_scope, enter_scope
from dokimos.testing._module_cassettes import current_cassette
from dokimos.testing._recorder import current_recorder

LONGEST_ERROR: Final = 80


def assert_eval(case: EvalTestCase, *evaluators: Evaluator | Iterable[Evaluator]) -> tuple[EvalResult, ...]:
    """Score a case with all evaluators, given one by one or as a list, and return the results.

    Works in sync and async tests. Under the pytest plugin, the case and its results are recorded.

    Raises:
        EvalAssertionError: for evaluators that fail or error, with score, threshold and reason. An error of
            an evaluator that only warns counts too if no evaluator gives a verdict.
        ConfigurationError: if there is no evaluator, if an argument is not an evaluator, or if no evaluator
            has a threshold to assert.

    Example:
        >>> (result,) = assert_eval(EvalTestCase.of("Capital of Italy?", "Rome", "Rome"), ExactMatch())
        >>> result.success
        True
    """
    # pytest then shows the line of the test, and not this one.
    __tracebackhide__ = True
    chosen = _flatten(evaluators)
    results = _evaluate(chosen, _check_case(case))
    recorder = current_recorder()
    if recorder is not None:
        recorder.case(case, results, chosen)
    culprits = find_culprits(None, results)
    if culprits:
        lower = {one.name for one in chosen if one.lower_is_better}
        summaries = [
            _summarize_failure(result, lower_is_better=result.evaluator in lower) for result in culprits
        ]
        message = "\n".join(map(_describe_failure, culprits))
        raise EvalAssertionError(
            escape_control_characters(message), escape_control_characters("; ".join(summaries))
        )
    # A test that can never fail is worse than none, so an assertion without any verdict is an error.
    if all(result.success is None for result in results):
        raise ConfigurationError(_explain_no_verdict(results))
    return results


def assert_scores(
    result: ExperimentResult, scores: Mapping[str, float] | None = None, *, pass_rate: float | None = None
) -> None:
    """Assert that a result reaches mean scores (`{"Faithfulness": 0.8}`) and a pass rate.

    Levels are in 0..1, or in the score range that the evaluator declares. For an evaluator for which lower is
    better, the level is the highest mean that is allowed.

    Raises:
        EvalAssertionError: naming every level that is missed.
        ConfigurationError: if no level is given, or if there is nothing to compare with.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> assert_scores(result, {"Exact Match": 0.9}, pass_rate=0.9)
    """
    __tracebackhide__ = True
    levels = [RequiredLevel(level, name) for name, level in (scores or {}).items()]
    if pass_rate is not None:
        levels.insert(0, RequiredLevel(pass_rate))
    if not levels:
        raise ConfigurationError("assert_scores() needs scores to reach, pass_rate=..., or both.")
    for one in levels:
        low, high = (0.0, 1.0) if one.evaluator is None else result.score_range_of(one.evaluator)
        if not low <= one.level <= high:
            where = describe_range((low, high))
            raise ConfigurationError(f"assert_scores(): a level must be in {where}, not {one.level!r}.")
    misses, problems = compare(levels, result)
    if problems:
        raise ConfigurationError("; ".join([*problems, *misses]))
    if misses:
        raise EvalAssertionError(
            escape_control_characters("\n".join(misses)), escape_control_characters("; ".join(misses))
        )


def _check_case(case: EvalTestCase) -> EvalTestCase:
    if not isinstance(case, EvalTestCase):
        raise ConfigurationError(
            f"assert_eval() takes an EvalTestCase, not {type(case).__name__}; "
            "example.to_test_case(output) makes one."
        )
    return case


def _flatten(evaluators: Sequence[Evaluator | Iterable[Evaluator]]) -> list[Evaluator]:
    flat: list[Evaluator] = []
    for given in evaluators:
        flat += given if isinstance(given, Iterable) else [given]
    for one in flat:
        if not isinstance(one, Evaluator):
            hint = suggest_evaluator(one)
            raise ConfigurationError(f"assert_eval() takes evaluators, not {one!r:.80}{hint}.")
    if not flat:
        raise ConfigurationError("assert_eval() needs at least one evaluator.")
    return flat


def _evaluate(evaluators: Sequence[Evaluator], case: EvalTestCase) -> tuple[EvalResult, ...]:
    """Score one case: sync evaluators in this thread, where the fixtures live, async ones on a loop."""
    async_evaluators = [evaluator for evaluator in evaluators if evaluator.is_async]
    if not async_evaluators:
        return evaluate_inline(evaluators, case, None)
    from dokimos._runtime.concurrency import run_sync

    cassette = current_cassette()
    cassettes = () if cassette is None else (cassette,)

    async def main() -> tuple[EvalResult, ...]:
        scope = current_scope()
        enter_scope(replace(scope, call_stores=(*cassettes, *scope.call_stores)))
        return await evaluate_all(async_evaluators, case)

    sync_evaluators = [evaluator for evaluator in evaluators if not evaluator.is_async]
    by_evaluator = group_by_evaluator((*run_sync(main()), *evaluate_inline(sync_evaluators, case, None)))
    # In the order in which they were given, whichever ran on the loop.
    names = dict.fromkeys(evaluator.name for evaluator in evaluators)
    return tuple(result for name in names for result in by_evaluator[name])


def _explain_no_verdict(results: Sequence[EvalResult]) -> str:
    names = ", ".join(dict.fromkeys(repr(result.name) for result in results))
    if any(result.threshold is not None for result in results):
        return (
            f"assert_eval() has nothing to assert: {names} gave no score that has a threshold for this case."
        )
    return (
        f"assert_eval() has nothing to assert: {names} gave no verdict. Give a threshold, such as "
        "threshold=0.5; evaluator.evaluate(case) returns a score without asserting it."
    )


def _summarize_failure(result: EvalResult, *, lower_is_better: bool) -> str:
    """Return how a result fails as a formula: `Exact Match 0.00 < 1.00`."""
    if result.error is not None:
        return f"{result.name} errored: {to_single_line(result.problem, LONGEST_ERROR)}"
    if result.score is None or result.threshold is None:
        return f"{result.name} failed"
    sign = ">" if lower_is_better else "<"
    return f"{result.name} {result.score:.2f} {sign} {result.threshold:.2f}"


def _describe_failure(result: EvalResult) -> str:
    if result.error is not None:
        return f"Evaluation {result.name!r} errored: {append_place(result.problem, result.error_detail)}"
    threshold = "" if result.threshold is None else f" (threshold={result.threshold:.2f})"
    score = "none" if result.score is None else f"{result.score:.2f}"
    reason = f"\n  Reason: {result.reason}" if result.reason else ""
    return f"Evaluation {result.name!r} failed: score={score}{threshold}{reason}"
