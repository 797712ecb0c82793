"""Metrics that could not judge: too many errors, or no data on any case."""

import pytest

from dokimos._core.evaluator_summary import DISABLED, MOST_SKIP_REASONS, EvaluatorSummary
from dokimos._core.example import Example
from dokimos._core.metric_coverage import find_broken_metrics, find_skipped_metrics, is_allowed
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos._core.summary import RunSummary


def result_of(*items):
    found = (
        ItemResult(n, Example.of("q", "a"), eval_results=tuple(results)) for n, results in enumerate(items)
    )
    return ExperimentResult(runs=(RunResult(item_results=tuple(found)),))


def score(name="A", **fields):
    return EvalResult(name, 1.0, threshold=0.5, success=True, **fields)


def errored(error="down", name="A", threshold=0.5):
    return EvalResult(name, error=error, threshold=threshold, fail_on_error=False)


def skipped(reason, name="A"):
    return EvalResult(name, threshold=0.5, skipped=reason)


@pytest.mark.parametrize(
    ("errors", "scores", "skips", "broken"),
    [(1, 0, 0, False), (1, 1, 0, False), (2, 3, 0, False), (2, 2, 0, True), (2, 2, 5, True), (3, 0, 0, True)],
)
def test_half_of_the_cases_and_at_least_two_are_too_many(errors, scores, skips, broken):
    items = [[errored()]] * errors + [[score()]] * scores + [[skipped("no truth")]] * skips

    assert bool(find_broken_metrics(result_of(*items))) is broken


def test_the_sentence_names_the_commonest_cause():
    result = result_of([errored("b")], [errored("a")], [errored("b")], [score()])

    assert result.notices == ("A errored on 3 of 4 cases that it was meant for (75.0 %), mostly with: b",)


def test_a_metric_that_only_informs_is_not_missed():
    assert not find_broken_metrics(result_of(*[[errored(threshold=None)]] * 3))


def test_errors_of_a_bool_count_where_it_decided_before():
    yes = EvalResult("A", 1.0, success=True)

    assert find_broken_metrics(result_of([yes], [errored(threshold=None)], [errored(threshold=None)]))


def test_an_allowance_is_a_number_or_a_share():
    assert is_allowed(2, 10, 2)
    assert not is_allowed(3, 10, 2)
    assert is_allowed(3, 10, 0.3)
    assert not is_allowed(4, 10, 0.3)
    assert is_allowed(1, 1, 1.0)
    assert not find_broken_metrics(result_of([errored()], [errored()]), 2)


def test_a_metric_without_data_on_every_case_is_told_with_the_reason():
    result = result_of(
        [skipped("There is no ground truth."), score("B")], [skipped("There is no ground truth.")]
    )

    assert result.notices == (
        "A was skipped for all 2 cases that it was declared for: There is no ground truth.",
    )


def test_a_metric_that_is_disabled_or_was_applied_once_is_not_told():
    assert not find_skipped_metrics(result_of([skipped(DISABLED)], [skipped(DISABLED)]))
    assert not find_skipped_metrics(result_of([skipped("no truth")], [score()]))
    assert not find_skipped_metrics(result_of([skipped("no truth")], [errored()]))


def test_a_metric_without_data_is_told_also_where_no_items_were_kept():
    whole = result_of(
        [skipped("no truth")], [skipped(DISABLED)], [skipped("no truth")], [skipped("no context")]
    )
    [totals] = [run.summary for run in whole.runs]
    kept = ExperimentResult(runs=(RunResult(summary=totals), RunResult(index=1, summary=totals)))

    [metric] = find_skipped_metrics(kept)
    assert (metric.count, metric.reason) == (6, "no truth")
    assert totals.evaluators[0].skip_reasons == {"no truth": 2, "The metric is disabled.": 1, "no context": 1}


def test_of_totals_without_reasons_as_those_of_earlier_reports_nothing_is_told():
    totals = RunSummary(total=2, evaluators=(EvaluatorSummary(name="A", skipped=2),))
    assert ExperimentResult(runs=(RunResult(summary=totals),)).notices == ()


def test_of_many_reasons_some_are_counted_and_that_a_metric_is_disabled_in_any_case():
    reasons = [f"case {number} has no truth" for number in range(MOST_SKIP_REASONS + 9)]
    result = result_of(*([skipped(reason)] for reason in [*reasons, reasons[3], DISABLED]))

    [metric] = find_skipped_metrics(result)
    assert (metric.count, metric.reason) == (len(reasons) + 1, reasons[3])
    assert len(result.summary.evaluators[0].skip_reasons) == MOST_SKIP_REASONS + 1
