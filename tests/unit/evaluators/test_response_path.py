from __future__ import annotations

from typing import Any

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._numeric import Numeric
from dokimos.evaluators._text import ExactMatch

ORDER = """
{"order": {"items": [{"price": 60.0}, {"price": 5}], "paid": true, "note": null, "a-b": "x"},
 "grid": [[1, 2]]}
"""


def result(output: Any, path: str, expected: str = "x"):
    return ExactMatch(response_path=path).evaluate(EvalTestCase.of("q", output, expected))


@pytest.mark.parametrize(
    ("path", "leaf"),
    [
        ("order.items[0].price", "60.0"),
        ("order.items[1].price", "5"),
        ("order.paid", "True"),
        ("order.note", "None"),
        ("order.a-b", "x"),
        ("grid[0][1]", "2"),
    ],
)
def test_a_leaf_is_scored_in_the_text_form_of_python(path, leaf):
    assert result(ORDER, path, leaf).score == 1.0


@pytest.mark.parametrize(
    ("output", "leaf"),
    [('{"a": 1e3}', "1000.0"), ('{"a": 0.1000}', "0.1"), ('{"a": 1, "a": 2}', "2"), ({"a": 7}, "7")],
)
def test_numbers_duplicates_and_structured_outputs(output, leaf):
    assert result(output, "a", leaf).score == 1.0


@pytest.mark.parametrize(
    ("output", "path", "why"),
    [
        ("no JSON " + "x" * 200, "a", "The output is not JSON"),
        ('```json\n{"a": 1}\n```', "a", "not JSON"),
        ('{"b": 1, "c": 2}', "a", "its keys are: b, c"),
        ('{"a": [1]}', "a[3]", "has 1 element,"),
        ('{"a": 1}', "a.b", "has a number at 'a'"),
        ('{"a": {"b": 1}}', "a[0]", "not a list"),
        ('{"a": {"b": 1}}', "a", "has an object at 'a', not a single value"),
        ('{"a": [1]}', "a", "a list at 'a'"),
        ("[1]", "a", "a list at its top level"),
    ],
)
def test_an_output_without_such_a_leaf_scores_0_with_the_reason(output, path, why):
    found = result(output, path)
    assert (found.score, found.success, found.error) == (0.0, False, None)
    assert why in found.reason


@pytest.mark.parametrize("path", ["", ".", "a.", "[0]", "a[-1]", "a[x]", "$.a", "a b", "a['b']", "a\n", "é"])
def test_a_wrong_path_is_refused_at_once(path):
    with pytest.raises(ConfigurationError, match="response_path"):
        ExactMatch(response_path=path)


def test_any_evaluator_takes_a_path():
    case = EvalTestCase.of("q", ORDER, "60")
    assert Numeric(response_path="order.items[0].price").evaluate(case).score == 1.0
