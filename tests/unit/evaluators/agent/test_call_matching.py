"""Calls found by key: the same as comparing each with each, and without doing so."""

import gc
import sys
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import EvalTestCase, ToolCall
from dokimos.evaluators import ArgumentMatcher, ToolCorrectness, ToolEfficiency, ToolTrajectory
from dokimos.evaluators._agent.argument_values import same_value, value_key
from dokimos.evaluators._agent.call_matching import CallMatcher, in_order, pairs
from dokimos.evaluators._bipartite import maximum_matching

NAN = float("nan")
leaves = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, NAN, -NAN, "", "a", "A", "a ", "1"])
odd = st.sampled_from([Decimal("0.1"), Decimal(1), 0.1])
values = st.recursive(
    leaves | odd,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=4,
)
arguments = st.dictionaries(st.sampled_from(["x", "y"]), values, max_size=2)
calls = st.lists(
    st.builds(ToolCall, st.sampled_from(["a", "b"]), arguments)
    | st.sampled_from(
        [ToolCall("a"), ToolCall("a", {"x": 1}), ToolCall("b", {"x": "a"}), ToolCall.of_text("a", "{")]
    ),
    max_size=7,
)
matchers = st.sampled_from(
    [
        CallMatcher(),
        CallMatcher(ArgumentMatcher("exact")),
        CallMatcher(ArgumentMatcher("exact", trim_strings=True, ignore_case=True)),
        CallMatcher(ArgumentMatcher("subset")),
        CallMatcher(ArgumentMatcher("ignore")),
        CallMatcher(None, {"a": ArgumentMatcher("ignore"), "b": lambda expected, actual: True}),
        CallMatcher(ArgumentMatcher(arguments={"x": {"not": {"equals": 1}}})),
    ]
)


@given(values, values, st.sampled_from([None, str.casefold]))
def test_values_have_one_key_exactly_where_they_are_the_same(left, right, normalise):
    try:
        keys = value_key(left, normalise), value_key(right, normalise)
    except TypeError:
        assert "Decimal" in f"{left!r}{right!r}"
        return
    assert (keys[0] == keys[1]) is same_value(left, right, normalise)


def longest(expected, actual, matcher):
    table = [[0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    for row, column in product(range(len(expected)), range(len(actual))):
        fits = matcher(expected[row], actual[column])
        table[row + 1][column + 1] = (
            table[row][column] + 1 if fits else max(table[row][column + 1], table[row + 1][column])
        )
    return table[-1][-1]


@given(calls, calls, matchers)
def test_the_longest_common_subsequence_is_that_of_comparing_each_with_each(expected, actual, matcher):
    assert in_order(expected, actual, matcher) == longest(expected, actual, matcher)


@given(calls, calls, matchers, st.sampled_from([1, 5]))
def test_as_many_pairs_are_found_as_by_comparing_each_with_each(expected, actual, matcher, times):
    expected, actual = expected * times, actual * times

    found = pairs(expected, actual, matcher)

    best = maximum_matching(
        range(len(expected)),
        lambda row: [column for column, call in enumerate(actual) if matcher(expected[row], call)],
    )
    assert len(found) == len(set(found.values())) == len(best)
    assert all(matcher(expected[row], actual[column]) for row, column in found.items())


@given(
    calls, st.sampled_from([ArgumentMatcher(), ArgumentMatcher(ignore_case=True), ArgumentMatcher("ignore")])
)
def test_what_repeats_is_what_matches_an_earlier_call(made, matcher):
    distinct = []
    for call in made:
        if call.invalid_arguments is not None:
            repeats = any(call.name == other.name and other.invalid_arguments == "{" for other in distinct)
        else:
            repeats = any(
                call.name == other.name
                and other.invalid_arguments is None
                and matcher(other.arguments, call.arguments)
                for other in distinct
            )
        if not repeats:
            distinct.append(call)

    result = ToolEfficiency(arguments=matcher).evaluate(EvalTestCase({}, {"toolCalls": made}))

    assert result.metadata["distinctCalls"] == len(distinct)


def steps(work):
    """Count calls of functions, ours and built-in ones: a measure of work that no clock disturbs."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # what ends objects that other tests have left is not this work
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def failing(number):
    """Make a case of `number` calls of one tool, of which every second is not the expected one."""
    expected = [ToolCall("search", {"page": page, "sort": ["a", {"b": 1}]}) for page in range(number)]
    actual = [ToolCall("search", {"page": page * 2, "sort": ["a", {"b": 1}]}) for page in range(number)]
    return EvalTestCase({}, {"toolCalls": actual[::-1]}, expected_outputs={"toolCalls": expected})


@pytest.mark.parametrize(
    "evaluator",
    [
        *(ToolTrajectory(mode=mode) for mode in ("strict", "in_order", "any_order", "subset", "recall")),
        ToolTrajectory(mode="any_order", arguments={"ignore_case": True}),
        ToolCorrectness(match="names_and_args"),
        ToolCorrectness(match="names_and_order"),
        ToolEfficiency(),
    ],
    ids=lambda evaluator: f"{evaluator.name} {getattr(evaluator, 'mode', '')}",
)
def test_twice_the_calls_are_about_twice_the_work(evaluator):
    evaluator.evaluate(failing(20))
    short, long = (steps(lambda n=number: evaluator.evaluate(failing(n))) for number in (100, 400))

    assert long < 5 * short
