"""Tools that a turn expects, and what it says about their arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.agent import ToolCall
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.suites._argument_matchers import build_argument_check
from dokimos.suites._schema import Turn
from dokimos.suites._tools import ToolsCalled

CALLS = (
    ToolCall("mcp__sums__subtract", {"a": 60.94, "b": "25.14"}),
    ToolCall("lookup", {"city": "Paris", "limit": None}),
    ToolCall("lookup", {"city": "Rome"}),
)


def result(expected, forbidden=(), calls=CALLS):
    turn = Turn.model_validate({"input": "x", "expected_tools": expected, "forbidden_tools": list(forbidden)})
    evaluator = ToolsCalled.of(turn.expected_tools, turn.forbidden_tools)
    return evaluator.evaluate(EvalTestCase({}, {"output": "", "toolCalls": list(calls)}))


@pytest.mark.parametrize(
    "expected",
    [
        ["subtract"],
        ["subtract", "subtract", "lookup"],
        [{"name": "lookup", "count": 2}],
        [{"name": "lookup", "args": {"city": "Rome"}}],
        [{"name": "lookup", "args": {"limit": None}}],
        [{"name": "subtract", "args": {"a": {"fuzzy": "60.94"}, "b": {"fuzzy": "25.140"}}}],
        [{"name": "lookup", "max_count": 2}],
        {"tools": ["subtract", "lookup"], "exact": True},
        {"tools": ["subtract", {"name": "lookup", "args": {"city": "Rome"}}], "ordered": True},
        [{"name": "mcp__sums__subtract", "match": "exact"}],
    ],
)
def test_calls_as_expected_pass(expected):
    assert result(expected).success is True


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (["divide"], "divide was not called"),
        (["Subtract"], "Subtract was not called"),
        ([{"name": "lookup", "count": 3}], "2 times, not 3"),
        ([{"name": "lookup", "args": {"city": "Oslo"}}], "city is 'Paris', expected 'Oslo'"),
        ([{"name": "lookup", "args": {"country": None}}], "country is missing"),
        ([{"name": "lookup", "max_count": 1}], "2 times, at most 1 allowed"),
        ([{"name": "subtract", "match": "exact"}], "subtract was not called"),
        ({"tools": ["subtract"], "exact": True}, "'lookup', 'lookup' was called, which is not expected"),
        ({"exact": True}, "which is not expected"),
        ({"tools": ["lookup", "subtract"], "ordered": True}, "subtract was not called in its place"),
    ],
)
def test_calls_that_differ_fail_with_the_difference(expected, reason):
    found = result(expected)

    assert found.success is False
    assert reason in found.reason


def test_an_optional_argument_may_be_left_out_or_has_one_of_its_values():
    expected = [{"name": "lookup", "args": {"unit": {"optional": {"one_of": ["km", "mi"]}}}}]
    turn = Turn.model_validate({"input": "x", "expected_tools": expected})
    evaluator = ToolsCalled.of(turn.expected_tools, [])

    def found(arguments):
        return evaluator.evaluate(EvalTestCase({}, {"toolCalls": [ToolCall("lookup", arguments)]}))

    assert found({"city": "Paris"}).success is found({"unit": "mi"}).success is True
    assert found({"unit": "m"}).success is found({"unit": None}).success is False
    assert found({"unit": "m"}).reason.endswith("unit is 'm', expected one of 'km', 'mi' or nothing.")


def test_a_map_that_was_meant_as_a_value_is_told_about_literal():
    turn = Turn.model_validate(
        {"input": "x", "expected_tools": [{"name": "lookup", "args": {"w": {"one_of": [1, 2]}}}]}
    )

    found = ToolsCalled.of(turn.expected_tools, []).evaluate(
        EvalTestCase({}, {"toolCalls": [ToolCall("lookup", {"w": {"one_of": [1, 2]}})]})
    )

    assert found.reason.endswith(
        "expected one of 1, 2; a value that looks like a matcher goes under literal."
    )


def test_a_forbidden_tool_must_not_be_called():
    assert result([], ["lookup"]).success is False
    assert result([], ["delete"]).success is True


def test_an_empty_list_expects_nothing():
    turn = Turn.model_validate({"input": "x", "expected_tools": []})

    assert ToolsCalled.of(turn.expected_tools, []) is None


@pytest.mark.parametrize(
    ("wanted", "actual", "fits"),
    [
        (1, 1.0, True),
        (1, True, False),
        ("1", 1, False),
        (None, None, True),
        ([1, 2], [1, 2.0], True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"fuzzy": "Hello, World"}, "hello   world", True),
        ({"fuzzy": "206 588"}, 206588, True),
        ({"fuzzy": "14.14%"}, 0.1414, True),
        ({"fuzzy": "007"}, 7, True),
        ({"fuzzy": "$5"}, 5, False),
        ({"fuzzy": "nan"}, float("nan"), False),
        ({"fuzzy": "inf"}, float("inf"), True),
        ({"regex": r"\d+"}, 42, True),
        ({"regex": r"\d"}, 42, False),
        ({"regex": "True"}, True, True),
        ({"contains": "ris"}, "Paris", True),
        ({"range": [1, 7]}, 7, True),
        ({"range": [1, 7]}, 8, False),
        ({"not": {"regex": "P.*"}}, "Paris", False),
        ({"not": "Oslo"}, "Paris", True),
        ({"literal": {"regex": "x"}}, {"regex": "x"}, True),
        ({"literal": {"regex": "x"}}, "x", False),
        ({"one_of": ["km", "mi"]}, "mi", True),
        ({"one_of": ["km", "mi"]}, '"mi"', False),
        ({"one_of": [1, None]}, 1.0, True),
        ({"one_of": [1, None]}, None, True),
        ({"one_of": [1, None]}, True, False),
        ({"one_of": [1, "2"]}, 2, False),
        ({"one_of": [{"fuzzy": "60.94"}, "none"]}, "60.940", True),
        ({"one_of": [{"fuzzy": "60.94"}, "none"]}, "None", False),
        ({"one_of": [{"literal": {"one_of": [1]}}]}, {"one_of": [1]}, True),
        ({"not": {"one_of": ["km", "mi"]}}, "mi", False),
        ({"not": {"one_of": ["km", "mi"]}}, "m", True),
        ({"optional": {"one_of": ["km"]}}, "km", True),
        ({"optional": {"one_of": ["km"]}}, "", False),
        ({"optional": {"regex": "k."}}, "km", True),
        ({"optional": True}, {"optional": True}, True),
        ({"optional": True}, True, False),
        ({"optional": {"one_of": ["x"], "note": 1}}, {"optional": {"one_of": ["x"], "note": 1}}, True),
        ({"one_of": ["x"], "note": 1}, {"one_of": ["x"], "note": 1}, True),
        ({"who": {"one_of": ["Ann", "Anna"]}}, {"who": "Anna"}, True),
        ({"who": "Ann", "age": {"optional": {"one_of": [7]}}}, {"who": "Ann"}, True),
        ({"who": "Ann", "age": {"optional": {"one_of": [7]}}}, {"who": "Ann", "age": 8}, False),
        ([{"one_of": [1, 2]}, 3], [2, 3], True),
    ],
)
def test_an_argument_is_compared_as_the_suite_says(wanted, actual, fits):
    assert build_argument_check(wanted)(actual) is fits


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"fuzzy": 60.94}, "fuzzy takes a text"),
        ({"regex": "("}, "not a regular expression"),
        ({"regex": 3}, "regex takes a pattern"),
        ({"fuzzy": "a", "regex": "b"}, "a matcher has one key"),
        ({"regex": "a", "other": 1}, "a matcher has one key"),
        ({"range": "1-7"}, "range"),
        (
            {"one_of": []},
            "one_of takes a list .*, not \\[\\]; a value that looks like a matcher goes under literal",
        ),
        ({"one_of": "km"}, "one_of takes a list"),
        ({"one_of": [{"one_of": []}]}, "one_of takes a list"),
        ({"one_of": [{"regex": "("}]}, "not a regular expression"),
        ({"one_of": [{"optional": {"one_of": [1]}}]}, "optional goes around one_of"),
        ({"optional": {"one_of": "km"}}, "one_of takes a list"),
        ({"optional": {"fuzzy": 3}}, "fuzzy takes a text"),
        ({"a": [{"one_of": 5}]}, r"the value.a\[0\]: .one_of. takes a list"),
    ],
)
def test_a_matcher_that_cannot_work_is_refused(wanted, message):
    with pytest.raises(ConfigurationError, match=message):
        build_argument_check(wanted)


def test_a_wrong_matcher_is_told_with_its_path_and_case(folder):
    with pytest.raises(ConfigurationError) as error:
        folder.suite(
            """
            test_cases:
              - name: sums
                turns:
                  - input: a
                    expected_tools: [other, {name: x, args: {k: {regex: "("}}}]
            """
        )

    assert "test_cases[0].turns[0].expected_tools[1].args.k" in str(error.value)
    assert "(case 'sums')" in str(error.value)


@given(st.recursive(st.one_of(st.text(), st.integers(), st.none(), st.booleans()), st.lists, max_leaves=5))
def test_every_value_is_what_it_literally_is(value):
    assert build_argument_check({"literal": value})(value) is True
    assert build_argument_check({"not": {"literal": value}})(value) is False


UNKNOWN = ToolCall("lookup", metadata={"unknownArguments": True})


@pytest.mark.parametrize(
    "expected",
    [
        [{"name": "lookup", "args": {"city": "Rome"}}],
        {"tools": [{"name": "lookup", "args": {"city": "Rome"}}], "exact": True},
    ],
)
def test_expected_arguments_that_were_not_recorded_are_an_error(expected):
    told = result(expected, calls=(UNKNOWN,))

    assert told.score is None
    assert told.fail_on_error
    assert "The arguments of the call of 'lookup' were not recorded" in told.error


def test_the_name_of_a_call_without_recorded_arguments_is_enough():
    assert result(["lookup"], calls=(UNKNOWN,)).success is True
    assert result([{"name": "subtract", "args": {"a": 1}}], calls=(UNKNOWN,)).success is False
