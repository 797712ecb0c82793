"""Levels that a result is asked to reach."""

import pytest

from dokimos.core.example import Example
from dokimos.core.provenance import EvaluatorInfo
from dokimos.core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.errors import ConfigurationError
from dokimos.experiment.wanted import Wanted, parse_wanted


def test_wanted_levels_are_shares_percentages_or_named():
    assert parse_wanted(["0.9", "90%", "F1 Score=0.8", "a=b=0.5"]) == [
        Wanted(0.9),
        Wanted(0.9),
        Wanted(0.8, "F1 Score"),
        Wanted(0.5, "a=b"),
    ]


@pytest.mark.parametrize("spec", ["", "x", "1.5", "-0.1", "nan", "Name="])
def test_a_level_that_is_no_share_is_refused(spec):
    with pytest.raises(ConfigurationError, match="fail-under"):
        parse_wanted([spec])


def scored(*scores: float, direction: str = "higher_is_better") -> ExperimentResult:
    items = tuple(
        ItemResult(i, Example.of("q"), eval_results=(EvalResult.of("E", score, 0.5),))
        for i, score in enumerate(scores)
    )
    info = EvaluatorInfo(name="E", direction=direction)
    return ExperimentResult(runs=(RunResult(item_results=items),), evaluators=(info,))


def test_a_level_reached_is_no_miss_and_one_missed_names_both_numbers():
    result = scored(1.0, 0.0)
    assert Wanted(0.5).miss(result) is None
    assert Wanted(0.6).miss(result) == "pass rate 50.0 % is below 60.0 %"
    assert Wanted(0.6, "E").miss(result) == "E 0.5000 is below 0.6"


def test_where_lower_is_better_the_level_is_a_ceiling():
    result = scored(1.0, 0.0, direction="lower_is_better")
    assert Wanted(0.6, "E").miss(result) is None
    assert Wanted(0.4, "E").miss(result) == "E 0.5000 is above 0.4"


def test_what_cannot_be_compared_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="there are: E"):
        Wanted(0.5, "F").miss(scored(1.0))
    with pytest.raises(ConfigurationError, match="nothing was judged"):
        Wanted(0.5).miss(ExperimentResult())
