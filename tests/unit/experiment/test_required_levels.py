"""Levels that a result is asked to reach."""

import pytest

from dokimos._core.example import Example
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.errors import ConfigurationError
from dokimos.experiment._required_levels import RequiredLevel, parse_levels


def test_wanted_levels_are_shares_percentages_or_named():
    assert parse_levels(["0.9", "90%", "F1 Score=0.8", "a=b=0.5"]) == [
        RequiredLevel(0.9),
        RequiredLevel(0.9),
        RequiredLevel(0.8, "F1 Score"),
        RequiredLevel(0.5, "a=b"),
    ]


@pytest.mark.parametrize("spec", ["", "x", "1.5", "-0.1", "nan", "Name="])
def test_a_level_that_is_no_share_is_refused(spec):
    with pytest.raises(ConfigurationError, match="fail-under"):
        parse_levels([spec])


def result_of(*scores: float, direction: str = "higher_is_better") -> ExperimentResult:
    items = tuple(
        ItemResult(i, Example.of("q"), eval_results=(EvalResult.of("E", score, 0.5),))
        for i, score in enumerate(scores)
    )
    info = EvaluatorInfo(name="E", direction=direction)
    return ExperimentResult(runs=(RunResult(item_results=items),), evaluators=(info,))


def test_a_level_reached_is_no_miss_and_one_missed_names_both_numbers():
    result = result_of(1.0, 0.0)
    assert RequiredLevel(0.5).explain_miss(result) is None
    assert RequiredLevel(0.6).explain_miss(result) == "pass rate 50.0 % is below 60.0 %"
    assert RequiredLevel(0.6, "E").explain_miss(result) == "E 0.5000 is below 0.6"


def test_where_lower_is_better_the_level_is_a_ceiling():
    result = result_of(1.0, 0.0, direction="lower_is_better")
    assert RequiredLevel(0.6, "E").explain_miss(result) is None
    assert RequiredLevel(0.4, "E").explain_miss(result) == "E 0.5000 is above 0.4"


def test_what_cannot_be_compared_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="there are: E"):
        RequiredLevel(0.5, "F").explain_miss(result_of(1.0))
    with pytest.raises(ConfigurationError, match="nothing was judged"):
        RequiredLevel(0.5).explain_miss(ExperimentResult())


@pytest.mark.parametrize(
    ("scores", "level", "text"),
    [
        ([1.0] * 6999 + [0.0] * 3001, 0.7, "pass rate 69.99 % is below 70.0 %"),
        ([1.0] * 9 + [0.0], 0.9995, "pass rate 90.00 % is below 99.95 %"),
    ],
)
def test_a_rate_just_below_its_level_is_written_so_that_they_differ(scores, level, text):
    told = RequiredLevel(level).explain_miss(result_of(*scores))
    assert told is not None
    assert told.replace("70.00", "70.0") == text


def test_a_mean_just_below_its_level_is_written_so_that_they_differ():
    assert RequiredLevel(0.7, "E").explain_miss(result_of(0.7, 0.6999999)) == "E 0.69999995 is below 0.7"


@pytest.mark.parametrize(("spec", "level"), [("0.7%", 0.007), ("29 %", 0.29), ("57%", 0.57), (" 0.9 ", 0.9)])
def test_a_percentage_is_the_share_that_it_says(spec, level):
    assert parse_levels([spec]) == [RequiredLevel(level)]


@pytest.mark.parametrize("spec", ["1e999999999%", "sNaN", "-0.0001", "101%", "inf", "%"])
def test_odd_levels_are_refused(spec):
    with pytest.raises(ConfigurationError, match="must be a share"):
        parse_levels([spec])


def beside_errors(*scores: float, errors: int, direction: str = "higher_is_better") -> ExperimentResult:
    judged = result_of(*scores, direction=direction)
    failed = EvalResult("E", error="down", threshold=0.5, fail_on_error=False)
    items = tuple(ItemResult(len(scores) + n, Example.of("q"), eval_results=(failed,)) for n in range(errors))
    runs = (RunResult(item_results=(*judged.item_results, *items)),)
    return ExperimentResult(runs=runs, evaluators=judged.evaluators)


def test_a_level_is_reached_only_where_it_is_whatever_the_errors_had_given():
    result = beside_errors(*[0.95] * 8, errors=2)

    assert RequiredLevel(0.76, "E").explain_miss(result) is None
    assert RequiredLevel(0.8).explain_miss(result) is None
    assert RequiredLevel(0.9, "E").explain_miss(result) == (
        "E 0.95 over 8 judged; 0.76 if the 2 errored had failed, which is below 0.9"
    )
    assert RequiredLevel(0.9).explain_miss(result) == (
        "pass rate 100.0 % over 8 judged; 80.0 % if the 2 errored had failed, which is below 90.0 %"
    )


def test_where_lower_is_better_an_error_counts_as_one():
    result = beside_errors(0.0, 0.0, 0.0, errors=1, direction="lower_is_better")

    assert RequiredLevel(0.25, "E").explain_miss(result) is None
    assert RequiredLevel(0.2, "E").explain_miss(result) == (
        "E 0.00 over 3 judged; 0.25 if the 1 errored had failed, which is above 0.2"
    )


def test_a_task_without_outputs_counts_for_every_evaluator():
    judged = result_of(1.0)
    down = ItemResult(1, Example.of("q"), error="ConnectionError: down")
    result = ExperimentResult(runs=(RunResult(item_results=(*judged.item_results, down)),))

    assert RequiredLevel(0.5, "E").explain_miss(result) is None
    assert "0.50 if the 1 errored had failed" in (RequiredLevel(0.6, "E").explain_miss(result) or "")


def test_where_all_errored_a_level_is_missed_and_not_a_mistake():
    result = beside_errors(errors=2)

    assert RequiredLevel(0.5, "E").explain_miss(result) == "E: nothing was scored, 2 errored"
    assert RequiredLevel(0.5).explain_miss(result) == "pass rate: nothing was judged, 2 errored"
