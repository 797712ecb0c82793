from __future__ import annotations

from typing import Any

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._set_match import SetMatch


def result(actual: Any, expected: Any, **options: Any):
    return SetMatch(**options).evaluate(EvalTestCase.of("q", actual, expected))


@pytest.mark.parametrize(
    ("actual", "expected", "options", "score"),
    [
        (["a", "b"], ["b", "a"], {}, 1.0),
        (["a", "a"], ["a"], {}, 1.0),
        (["a"], ["a", "b", "c"], {}, 0.5),
        (["a", "b", "c"], ["c", "d", "e"], {}, 1 / 3),
        (["x"], ["a"], {}, 0.0),
        ([], ["a"], {}, 0.0),
        ([], [], {}, 1.0),
        ({"a", "b"}, ("a", "b"), {}, 1.0),
        ([True], [1], {}, 0.0),
        ([1.0], [1], {}, 1.0),
        ([{"id": 1, "n": 2}], [{"n": 2, "id": 1.0}], {}, 1.0),
        ('["a", "b"]', ["a", "b"], {}, 1.0),
        ("a, b,,", ["b", "a"], {"separator": ","}, 1.0),
        ("A\nß", "a\nSS", {"separator": "\n", "ignore_case": True}, 1.0),
        ([float("nan")], [float("nan")], {}, 1.0),
    ],
)
def test_the_score_is_the_f1_of_the_distinct_elements(actual, expected, options, score):
    assert result(actual, expected, **options).score == pytest.approx(score)


def test_the_reason_names_what_is_missing_and_what_is_too_much():
    reason = result(["a", "x"], ["a", "b"]).reason
    assert reason == "The output lacks 1 of 2 expected elements ('b') and has 1 that is not expected ('x')."


def test_an_output_that_is_no_list_scores_0_and_an_expected_one_is_an_error():
    found = result("a, b", ["a"])
    assert (found.score, found.error) == (0.0, None)
    assert "name the separator" in found.reason
    assert "The expected 'output' is not a list" in (result(["a"], {"a": 1}).error or "")


def test_the_keys_can_be_chosen_and_what_is_absent_is_an_error():
    evaluator = SetMatch(output_key="labels", expected_key="tags")
    case = EvalTestCase({}, {"labels": ["a"]}, expected_outputs={"tags": ["a"]})
    assert evaluator.evaluate(case).score == 1.0
    assert "'labels' in the outputs" in (evaluator.evaluate(EvalTestCase()).error or "")


def test_an_empty_separator_is_refused():
    with pytest.raises(ConfigurationError, match="separator"):
        SetMatch(separator="")
