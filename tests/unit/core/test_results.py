import copy
import pickle
from dataclasses import replace

import pytest

from dokimos import CallMetrics, EvalResult, Example, ExperimentResult, ItemResult, RunResult, Score
from dokimos._core.item_result import names_of_results
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import RunStatus
from dokimos._core.summary import Tally


def item(*results, index=0, error=None, metrics=None, **example):
    return ItemResult(
        index, Example.of("q", "a", **example), eval_results=results, error=error, metrics=metrics
    )


def result_of(*runs, **fields):
    return ExperimentResult(
        runs=[RunResult(index=i, item_results=run) for i, run in enumerate(runs)], **fields
    )


PASSED = EvalResult.passed("A")
FAILED = EvalResult.failed("A")
INFORMED = EvalResult("A", 0.4)
ERRORED = EvalResult("A", error="ValueError: no")
WARNED = EvalResult("A", error="ValueError: no", fail_on_error=False)
SKIPPED = EvalResult("A", skipped="no context")


@pytest.mark.parametrize(
    ("score", "threshold", "success"),
    [(0.5, None, True), (0.49, None, False), (0.7, 0.7, True), (0.69, 0.7, False), (0.0, 0.0, True)],
)
def test_success_is_decided_by_the_threshold_or_one_half(score, threshold, success):
    result = EvalResult.of("A", score, threshold, "because")

    assert result.success is success
    assert result.threshold == threshold
    assert result.reason == "because"


def test_a_verdict_can_be_forced_whatever_the_score():
    assert EvalResult.passed("A", 0.1).success is True
    assert EvalResult.failed("A", 0.9).success is False


@pytest.mark.parametrize("score", [-0.1, 1.01, float("nan"), float("inf")])
def test_a_score_outside_of_its_range_is_refused(score):
    with pytest.raises(ValueError, match=r"The score of 'A' must be in 0\.\.1"):
        EvalResult("A", score)


@pytest.mark.parametrize(
    ("results", "success", "errored"),
    [
        ([], None, False),
        ([INFORMED], None, False),
        ([SKIPPED], None, False),
        ([WARNED], False, True),
        ([WARNED, INFORMED], None, False),
        ([PASSED], True, False),
        ([PASSED, INFORMED, SKIPPED, WARNED], True, False),
        ([PASSED, FAILED], False, False),
        ([PASSED, ERRORED], False, True),
        ([ERRORED], False, True),
    ],
)
def test_an_item_succeeds_if_all_that_judged_it_are_content(results, success, errored):
    found = item(*results)

    assert found.success is success
    assert found.errored is errored


def test_a_failed_task_fails_the_item():
    found = item(error="TimeoutError: 30s")

    assert found.success is False
    assert found.errored


def test_errors_that_do_not_fail_are_warnings():
    assert item(WARNED, ERRORED, PASSED).warnings == ("A: ValueError: no",)


def test_an_item_is_known_by_its_id_or_else_its_position():
    assert item(id="x", index=3).key == "x"
    assert item(index=3).key == "item-3"


def test_the_result_of_one_evaluator():
    assert item(PASSED).result("A") is PASSED
    assert item(PASSED).result("B") is None


def test_an_item_gives_its_case_back():
    found = ItemResult(0, Example.of("q", "a", id="1"), actual_outputs={"output": 3}, metrics=CallMetrics(1))

    case = found.to_test_case(run_index=1)

    assert (case.input, case.actual_output, case.expected_output) == ("q", "3", "a")
    assert (case.metrics, case.run_index, case.id) == (CallMetrics(1), 1, "1")
    assert found.actual_output == "3"


def test_the_counts_of_a_run_keep_errors_apart():
    run = RunResult(item_results=[item(PASSED), item(FAILED), item(ERRORED), item(INFORMED), item(error="x")])

    assert (run.total_count, run.pass_count, run.fail_count, run.error_count) == (5, 1, 3, 2)
    assert run.pass_rate == 1 / 4


def test_nothing_judged_is_no_pass_rate():
    run = RunResult(item_results=[item(INFORMED), item(SKIPPED)])

    assert run.pass_rate is None
    assert result_of([item(INFORMED)]).pass_rate is None
    assert ExperimentResult().pass_rate is None


def test_errors_and_skips_are_left_out_of_the_average():
    run = RunResult(item_results=[item(EvalResult("A", 0.5)), item(ERRORED), item(SKIPPED), item(WARNED)])

    assert run.average_score("A") == 0.5
    assert RunResult(item_results=[item(ERRORED)]).average_score("A") is None
    assert run.average_score("unknown") is None


def test_the_numbers_of_several_runs_are_means_over_them():
    result = result_of(
        [item(EvalResult.of("A", 1.0)), item(EvalResult.of("A", 0.5))],
        [item(EvalResult.of("A", 0.0)), item(EvalResult.of("A", 0.5))],
    )

    assert result.run_count == 2
    assert result.total_count == 2
    assert (result.pass_count, result.fail_count) == (1.5, 0.5)
    assert result.pass_rate == 0.75
    assert result.average_score("A") == 0.5
    assert result.score_std_dev("A") == pytest.approx(0.353553390593)
    assert len(result.item_results) == 4


def test_one_run_has_whole_counts_and_no_spread():
    result = result_of([item(PASSED), item(FAILED)])

    assert (result.pass_count, type(result.pass_count)) == (1, int)
    assert result.score_std_dev("A") == 0.0


def test_a_run_without_a_score_is_left_out_of_the_mean():
    result = result_of([item(EvalResult("A", 0.5))], [item(ERRORED)])

    assert result.average_score("A") == 0.5
    assert result.score_std_dev("A") == 0.0
    assert result.average_score("B") is None


def test_evaluators_come_in_declared_order_then_as_seen():
    results = [EvalResult("C", 1), EvalResult("A", 1), EvalResult("B", 1)]

    declared = result_of([item(*results)], evaluators=(EvaluatorInfo(name="B"), EvaluatorInfo(name="unused")))

    assert declared.evaluator_names == ("B", "C", "A")


def test_a_result_can_be_split_by_metadata():
    result = result_of([item(PASSED, topic="geo"), item(FAILED, topic=["geo", "art"]), item(FAILED)])

    parts = result.by("topic")

    assert {tag: part.total_count for tag, part in parts.items()} == {"geo": 2, "art": 1, "": 1}
    assert parts["geo"].pass_rate == 0.5
    assert parts["art"].pass_rate == 0.0


def test_tags_that_are_no_text_are_compared_in_their_text_form():
    assert set(result_of([item(PASSED, n=1), item(PASSED, n={"a": 1})]).by("n")) == {"1", '{"a":1}'}


def test_a_result_without_items_says_why_it_cannot_be_split():
    kept = RunResult(item_results=[item(PASSED)])
    without = ExperimentResult(runs=[RunResult(summary=kept.summary)])

    assert without.pass_rate == 1.0
    for question in (lambda: without.by("topic"), without.to_rows, lambda: without.filter(bool)):
        with pytest.raises(ValueError, match="keep_results=False"):
            question()


def test_filtering_counts_anew_and_keeps_the_rest():
    result = result_of([item(PASSED), item(FAILED)], name="x", warnings=("w",))

    only_passed = result.filter(lambda found: bool(found.success))

    assert (only_passed.total_count, only_passed.pass_rate) == (1, 1.0)
    assert (only_passed.name, only_passed.warnings) == ("x", ("w",))
    assert result.total_count == 2


def test_rows_are_flat_and_have_a_column_for_each_evaluator():
    metrics = CallMetrics(1, 2, cost_usd=0.25, latency_ms=3)
    result = result_of([item(PASSED, id="1", metrics=metrics), item(EvalResult("B", 0.5), error="x")])

    first, second = result.to_rows()

    assert first == {
        "id": "1", "input": "q", "expected": "a", "A": 1.0, "B": None, "passed": True, "error": None,
        "latency_ms": 3, "tokens_in": 1, "tokens_out": 2, "cost_usd": 0.25,
    }  # fmt: skip
    assert (second["error"], second["A"], second["B"]) == ("x", None, 0.5)


def test_the_status_may_be_given_as_text():
    assert ExperimentResult(status="stopped").status is RunStatus.STOPPED
    with pytest.raises(ValueError, match="not a valid RunStatus"):
        ExperimentResult(status="fine")


def test_a_score_may_be_made_of_a_number_and_a_reason():
    assert Score(1.0, "No tool calls") == Score(1.0, reason="No tool calls", metadata={})


def test_a_summary_that_is_given_is_not_computed():
    summary = Tally.of([item(PASSED)] * 3).summary()

    assert RunResult(summary=summary).total_count == 3


def test_the_summary_of_items_is_computed_once_when_it_is_first_asked_for():
    item = ItemResult(0, Example.of("q"), eval_results=(EvalResult("Match", 1.0, success=True),))
    run = RunResult(item_results=(item,))

    assert list(names_of_results(run)) == ["Match"]
    assert "summary" not in vars(run)
    assert run.summary is run.summary
    assert (run.total_count, run.pass_count) == (1, 1)
    assert list(names_of_results(run)) == ["Match"]


@pytest.mark.parametrize("is_computed", [True, False])
def test_a_repeat_is_copied_compared_and_pickled_whether_its_summary_is_computed_or_not(is_computed):
    item = ItemResult(0, Example.of("q"), eval_results=(EvalResult("Match", 1.0, success=True),))
    run, twin = RunResult(item_results=(item,)), RunResult(item_results=(item,))
    if is_computed:
        assert run.summary.passed == 1

    assert run == twin
    assert pickle.loads(pickle.dumps(run)) == twin
    assert copy.copy(run).summary == twin.summary
    assert replace(run, item_results=()).summary.passed == 1, "the totals of a run without its items stay"
    assert repr(run) == repr(twin)
