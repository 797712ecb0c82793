"""Assertions on cases and results, which report everything that fails at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dokimos.core.error_detail import with_place
from dokimos.core.eval_result import by_evaluator
from dokimos.core.figures import one_line
from dokimos.core.outcome import find_culprits
from dokimos.core.results import EvalResult, ExperimentResult
from dokimos.core.score_range import describe_range
from dokimos.core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, EvalAssertionError
from dokimos.evaluators.base import Evaluator, evaluator_instead
from dokimos.experiment.item_scoring import evaluate_all, evaluate_inline
from dokimos.experiment.required_levels import RequiredLevel, compare
from dokimos.judges.run_scope import current_scope, enter_scope
from dokimos.runtime.terminal_text import escape_control_characters
from dokimos.testing.cassettes import current_cassette
from dokimos.testing.recorder import current_recorder

LONGEST_ERROR: Final = 80


def assert_eval(case: EvalTestCase, *evaluators: Evaluator | Iterable[Evaluator]) -> tuple[EvalResult, ...]:
    """Score a case by all evaluators, given one by one or as a list, and return the results.

    Works in sync and async tests. Under the pytest plugin, the case and its results are recorded.

    Raises:
        EvalAssertionError: naming every evaluator that fails or errors, with score, threshold and reason. An
            error that is only to warn is one too where no verdict stands beside it.
        ConfigurationError: when there is no evaluator, when something else was given, or when no evaluator
            has a threshold to assert.

    Example:
        >>> (result,) = assert_eval(EvalTestCase.of("Capital of Italy?", "Rome", "Rome"), ExactMatch())
        >>> result.success
        True
    """
    __tracebackhide__ = True
    chosen = _flat(evaluators)
    results = _evaluated(chosen, _checked(case))
    recorder = current_recorder()
    if recorder is not None:
        recorder.case(case, results, chosen)
    culprits = find_culprits(None, results)
    if culprits:
        lower = {one.name for one in chosen if one.lower_is_better}
        in_short = [_in_short(result, lower_is_better=result.evaluator in lower) for result in culprits]
        told = "\n".join(map(_described, culprits))
        raise EvalAssertionError(
            escape_control_characters(told), escape_control_characters("; ".join(in_short))
        )
    if all(result.success is None for result in results):
        raise ConfigurationError(_nothing_asserted(results))
    return results


def assert_scores(
    result: ExperimentResult, scores: Mapping[str, float] | None = None, *, pass_rate: float | None = None
) -> None:
    """Check that a result reaches mean scores (`{"Faithfulness": 0.8}`) and a pass rate.

    Levels are in 0..1, or in the range of scores that the evaluator declares. For an evaluator whose scores
    are to be kept low, the level is the highest mean allowed.

    Raises:
        EvalAssertionError: naming everything that falls short.
        ConfigurationError: when nothing is asked for, or there is nothing to compare with.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> assert_scores(result, {"Exact Match": 0.9}, pass_rate=0.9)
    """
    __tracebackhide__ = True
    wanted = [RequiredLevel(level, name) for name, level in (scores or {}).items()]
    if pass_rate is not None:
        wanted.insert(0, RequiredLevel(pass_rate))
    if not wanted:
        raise ConfigurationError("assert_scores() needs scores to reach, pass_rate=..., or both.")
    for one in wanted:
        low, high = (0.0, 1.0) if one.evaluator is None else result.score_range_of(one.evaluator)
        if not low <= one.level <= high:
            where = describe_range((low, high))
            raise ConfigurationError(f"assert_scores(): a level must be in {where}, not {one.level!r}.")
    misses, problems = compare(wanted, result)
    if problems:
        raise ConfigurationError("; ".join([*problems, *misses]))
    if misses:
        raise EvalAssertionError(
            escape_control_characters("\n".join(misses)), escape_control_characters("; ".join(misses))
        )


def _checked(case: EvalTestCase) -> EvalTestCase:
    if not isinstance(case, EvalTestCase):
        raise ConfigurationError(
            f"assert_eval() takes an EvalTestCase, not {type(case).__name__}; "
            "example.to_test_case(output) makes one."
        )
    return case


def _flat(evaluators: Sequence[Evaluator | Iterable[Evaluator]]) -> list[Evaluator]:
    found: list[Evaluator] = []
    for given in evaluators:
        found += given if isinstance(given, Iterable) else [given]
    for one in found:
        if not isinstance(one, Evaluator):
            hint = evaluator_instead(one)
            raise ConfigurationError(f"assert_eval() takes evaluators, not {one!r:.80}{hint}.")
    if not found:
        raise ConfigurationError("assert_eval() needs at least one evaluator.")
    return found


def _evaluated(evaluators: Sequence[Evaluator], case: EvalTestCase) -> tuple[EvalResult, ...]:
    """Score one case: sync evaluators here, where the test's fixtures were made, async ones on a loop."""
    waiting = [evaluator for evaluator in evaluators if evaluator.is_async]
    if not waiting:
        return evaluate_inline(evaluators, case, None)
    from dokimos.runtime.concurrency import run_sync

    cassette = current_cassette()
    known = () if cassette is None else (cassette,)

    async def main() -> tuple[EvalResult, ...]:
        scope = current_scope()
        enter_scope(replace(scope, call_stores=(*known, *scope.call_stores)))
        return await evaluate_all(waiting, case)

    here = [evaluator for evaluator in evaluators if not evaluator.is_async]
    found = by_evaluator((*run_sync(main()), *evaluate_inline(here, case, None)))
    names = dict.fromkeys(evaluator.name for evaluator in evaluators)
    return tuple(result for name in names for result in found[name])


def _nothing_asserted(results: Sequence[EvalResult]) -> str:
    names = ", ".join(dict.fromkeys(repr(result.name) for result in results))
    return (
        f"assert_eval() has nothing to assert: {names} gave no verdict. Give a threshold, such as "
        "threshold=0.5; evaluator.evaluate(case) returns a score without asserting it."
    )


def _in_short(result: EvalResult, *, lower_is_better: bool) -> str:
    """Say how a result fails as a formula: `Exact Match 0.00 < 1.00`."""
    if result.error is not None:
        return f"{result.name} errored: {one_line(result.problem, LONGEST_ERROR)}"
    if result.score is None or result.threshold is None:
        return f"{result.name} failed"
    sign = ">" if lower_is_better else "<"
    return f"{result.name} {result.score:.2f} {sign} {result.threshold:.2f}"


def _described(result: EvalResult) -> str:
    if result.error is not None:
        return f"Evaluation {result.name!r} errored: {with_place(result.problem, result.error_detail)}"
    threshold = "" if result.threshold is None else f" (threshold={result.threshold:.2f})"
    score = "none" if result.score is None else f"{result.score:.2f}"
    reason = f"\n  Reason: {result.reason}" if result.reason else ""
    return f"Evaluation {result.name!r} failed: score={score}{threshold}{reason}"
