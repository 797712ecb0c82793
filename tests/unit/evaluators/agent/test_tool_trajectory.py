from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import EvalTestCase, ToolCall
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ArgumentMatcher, ToolCorrectness, ToolEfficiency, ToolTrajectory
from dokimos.evaluators.registry import build, schema

MODES = ("strict", "in_order", "any_order", "superset", "subset", "precision", "recall")


def calls(text):
    """`"a1 b"`: a call of a with {"n": 1}, and one of b."""
    return [ToolCall(word[0], {"n": int(word[1:])} if word[1:] else {}) for word in text.split()]


def case(actual, expected):
    return EvalTestCase({}, {"toolCalls": calls(actual)}, expected_outputs={"toolCalls": calls(expected)})


def score(mode, actual, expected, **options):
    return ToolTrajectory(mode=mode, **options).evaluate(case(actual, expected)).score


@pytest.mark.parametrize(
    ("actual", "expected", "scores"),
    [
        ("", "", (1, 1, 1, 1, 1, 1, 1)),
        ("a1", "", (0, 0, 0, 1, 0, 0, 0)),
        ("", "a1", (0, 0, 0, 0, 1, 0, 0)),
        ("a1 b1", "a1 b1", (1, 1, 1, 1, 1, 1, 1)),
        ("b1 a1", "a1 b1", (0, 0.5, 1, 1, 1, 1, 1)),
        ("a1 c1 b1", "a1 b1", (0, 2 / 3, 2 / 3, 1, 0, 2 / 3, 1)),
        ("a1", "a1 b1", (0, 0.5, 0.5, 0, 1, 1, 0.5)),
        ("a2", "a1", (0, 0, 0, 0, 0, 0, 0)),
        ("a1 a1", "a1", (0, 0.5, 0.5, 1, 0, 0.5, 1)),
        ("a1 b1 c1 d1", "d1 a1 b1", (0, 0.5, 0.75, 1, 0, 0.75, 1)),
    ],
)
def test_every_mode(actual, expected, scores):
    assert [score(mode, actual, expected) for mode in MODES] == pytest.approx(list(scores))
    assert score("expected_in_actual", actual, expected) == scores[3]
    assert score("actual_in_expected", actual, expected) == scores[4]


@pytest.mark.parametrize(
    ("expected", "actual", "expected_in_actual", "actual_in_expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, 1, 0),
        ({"a": 1, "b": 2}, {"a": 1}, 0, 1),
        ({"a": 1}, {"a": 1}, 1, 1),
        ({"a": 1}, {"b": 1}, 0, 0),
    ],
)
def test_a_word_says_the_same_of_calls_and_of_their_arguments(
    expected, actual, expected_in_actual, actual_in_expected
):
    scores = {"expected_in_actual": expected_in_actual, "actual_in_expected": actual_in_expected}
    older = {"expected_in_actual": "subset", "actual_in_expected": "superset"}
    one = EvalTestCase(
        {}, {"toolCalls": [ToolCall("f", actual)]}, expected_outputs={"toolCalls": [ToolCall("f", expected)]}
    )
    of_calls = EvalTestCase(
        {},
        {"toolCalls": [ToolCall(name, {"n": n}) for name, n in actual.items()]},
        expected_outputs={"toolCalls": [ToolCall(name, {"n": n}) for name, n in expected.items()]},
    )
    for word, value in scores.items():
        assert ToolTrajectory(mode=word).evaluate(of_calls).score == value
        for same in (word, older[word]):
            for form in (same, {"mode": same}, ArgumentMatcher(same)):
                assert ToolTrajectory(arguments=form).evaluate(one).score == value
                assert ToolTrajectory(tool_arguments={"f": form}).evaluate(one).score == value


def test_the_word_that_was_chosen_is_told_and_does_not_change_what_is_measured():
    new = {"mode": "expected_in_actual", "arguments": "expected_in_actual"}
    old = {"mode": "superset", "arguments": "subset"}
    results = [build("tool_trajectory", words) for words in (new, old)]
    parameters = [each.info().parameters for each in results]
    assert [(given["mode"], given["arguments"]) for given in parameters] == [
        tuple(new.values()),
        tuple(old.values()),
    ]
    assert results[0].info().fingerprint == results[1].info().fingerprint
    assert ToolTrajectory(**old).info().fingerprint != ToolTrajectory(mode="superset").info().fingerprint
    assert results[0].evaluate(case("a1", "a1")).metadata["matchMode"] == "EXPECTED_IN_ACTUAL"
    matchers = [ArgumentMatcher(word, ignore_case=True) for word in ("subset", "expected_in_actual")]
    assert matchers[0].identity == matchers[1].identity
    forms = ("actual_in_expected", {"mode": "superset", "ignore_case": True}, {"mode": "actual_in_expected"})
    prints = [ToolCorrectness(tool_arguments={"f": form}).info().fingerprint for form in forms]
    assert prints[1] != prints[2]
    assert prints[0] == ToolCorrectness(tool_arguments={"f": "superset"}).info().fingerprint
    assert (
        ToolEfficiency(arguments="subset").info().fingerprint
        == ToolEfficiency(arguments="expected_in_actual").info().fingerprint
        != ToolEfficiency().info().fingerprint
    )


def test_reasons_are_those_of_the_older_word():
    for word, older in (("expected_in_actual", "superset"), ("actual_in_expected", "subset")):
        for actual, expected in (("a1", "a1"), ("a1", "b1"), ("a1 b1", "b1 c1")):
            reasons = {ToolTrajectory(mode=w).evaluate(case(actual, expected)).reason for w in (word, older)}
            assert len(reasons) == 1


def test_a_wrong_word_is_answered_with_all_of_them():
    for wrong in ({"mode": "contains"}, {"arguments": "contains"}, {"arguments": {"mode": "contains"}}):
        with pytest.raises(ConfigurationError, match="'expected_in_actual', 'actual_in_expected'"):
            ToolTrajectory(**wrong)
    modes = schema("tool_trajectory")["properties"]
    assert {"expected_in_actual", "superset"} <= set(modes["mode"]["enum"])
    assert {"expected_in_actual", "subset"} <= set(modes["arguments"]["oneOf"][0]["enum"])


def test_the_default_is_in_order_and_must_be_full():
    evaluator = ToolTrajectory()
    assert (evaluator.mode, evaluator.threshold, evaluator.name) == ("in_order", 1.0, "Tool Trajectory")


def test_matching_is_the_best_there_is():
    """The first expected call would take the only partner of the second one."""
    actual = [ToolCall("a", {"n": 1}), ToolCall("a", {"n": 1, "m": 2})]
    expected = [ToolCall("a", {"n": 1}), ToolCall("a", {"n": 1, "m": 2})]
    for made in permutations(actual):
        outputs = EvalTestCase({}, {"toolCalls": made}, expected_outputs={"toolCalls": expected[::-1]})
        assert ToolTrajectory(mode="any_order", arguments="subset").evaluate(outputs).score == 1
        swapped = EvalTestCase({}, {"toolCalls": made}, expected_outputs={"toolCalls": expected})
        assert ToolTrajectory(mode="any_order", arguments="subset").evaluate(swapped).score == 1


@given(
    st.lists(st.integers(0, 3), max_size=4),
    st.lists(st.integers(0, 3), max_size=4),
    st.sets(st.tuples(*[st.integers(0, 3)] * 2)),
)
def test_pairs_are_as_many_as_any_assignment_finds(expected, actual, edges):
    shorter, longer, turned = (
        (expected, actual, False) if len(expected) <= len(actual) else (actual, expected, True)
    )
    best = max(
        sum(((b, a) if turned else (a, b)) in edges for a, b in zip(shorter, order, strict=False))
        for order in permutations(longer)
    )
    outputs = EvalTestCase(
        {},
        {"toolCalls": [ToolCall("t", {"n": n}) for n in actual]},
        expected_outputs={"toolCalls": [ToolCall("t", {"n": n}) for n in expected]},
    )
    evaluator = ToolTrajectory(mode="any_order", arguments=lambda e, a: (e["n"], a["n"]) in edges)
    assert evaluator.evaluate(outputs).metadata["matchedCount"] == best


def longest(expected, actual):
    if not expected or not actual:
        return 0
    if expected[0] == actual[0]:
        return 1 + longest(expected[1:], actual[1:])
    return max(longest(expected[1:], actual), longest(expected, actual[1:]))


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_in_order_counts_the_longest_common_subsequence(expected, actual):
    result = ToolTrajectory().evaluate(case(" ".join(actual), " ".join(expected)))
    assert result.metadata["matchedCount"] == longest(expected, actual)


class TestArguments:
    def test_an_expected_call_without_arguments_is_matched_by_its_name(self):
        assert score("strict", "a5", "a") == 1

    def test_unless_exact_is_asked_for(self):
        for exact in ("exact", ArgumentMatcher(), {"mode": "exact"}):
            assert score("strict", "a5", "a", arguments=exact) == 0
            assert score("strict", "a", "a", arguments=exact) == 1

    def test_numbers_compare_by_value(self):
        outputs = EvalTestCase(
            {},
            {"toolCalls": [{"name": "a", "arguments": '{"n": 1.0}'}]},
            expected_outputs={"toolCalls": calls("a1")},
        )
        assert ToolTrajectory().evaluate(outputs).score == 1

    def test_one_tool_can_have_a_matcher_of_its_own(self):
        options = {"tool_arguments": {"b": "ignore"}}
        assert score("strict", "a1 b2", "a1 b1", **options) == 1
        assert score("strict", "a2 b1", "a1 b1", **options) == 0

    def test_a_function_decides(self):
        assert score("strict", "a3", "a1", arguments=lambda e, a: a["n"] == e["n"] + 2) == 1

    @pytest.mark.parametrize(("arguments", "value"), [(None, 0), ("exact", 0), ("subset", 0), ("ignore", 1)])
    def test_arguments_that_are_no_json_match_only_where_none_are_compared(self, arguments, value):
        outputs = EvalTestCase(
            {},
            {"toolCalls": [{"name": "a", "arguments": "{n: 1"}]},
            expected_outputs={"toolCalls": calls("a1")},
        )
        assert ToolTrajectory(arguments=arguments).evaluate(outputs).score == value


class TestResult:
    def test_the_metadata_says_what_was_compared(self):
        result = ToolTrajectory().evaluate(case("a1 c1", "a1 b1"))
        assert result.metadata == {
            "matchMode": "IN_ORDER",
            "matchedCount": 1,
            "actualCount": 2,
            "expectedCount": 2,
            "actualTools": ["a", "c"],
            "expectedTools": ["a", "b"],
        }

    @pytest.mark.parametrize(
        ("mode", "actual", "expected", "reason"),
        [
            ("strict", "a1", "a1", "The calls are the 1 expected call."),
            ("superset", "a1 b1", "a1", "Every one of the 1 expected call was made."),
            ("subset", "", "a1", "Every call made was expected."),
            (
                "in_order",
                "a1 c1",
                "a1 b1",
                'The calls match 1 of 2 expected calls (2 calls made); not made: b({"n": 1}); not expected: '
                'c({"n": 1}).',
            ),
            (
                "strict",
                "b1 a1",
                "a1 b1",
                "The calls match 0 of 2 expected calls (2 calls made); the order differs: made 'b', 'a'.",
            ),
            ("recall", "", "a", "The calls match 0 of 1 expected call (0 calls made); not made: a()."),
            (
                "precision",
                "x y z v",
                "a",
                "The calls match 0 of 1 expected call (4 calls made); not expected: x(), y(), z() "
                "and 1 more.",
            ),
        ],
    )
    def test_the_reason_names_what_is_at_fault(self, mode, actual, expected, reason):
        assert ToolTrajectory(mode=mode).evaluate(case(actual, expected)).reason == reason

    @pytest.mark.parametrize(
        ("outputs", "expected", "message"),
        [
            ({}, {"toolCalls": []}, "requires the tool calls"),
            ({"toolCalls": []}, {}, "requires the expected tool calls"),
            (
                {"toolCalls": [{"name": "a"}, 5]},
                {"toolCalls": []},
                r"toolCalls[1] must be a ToolCall or a map",
            ),
            ({"toolCalls": "a"}, {"toolCalls": []}, "must be a list of tool calls"),
        ],
    )
    def test_calls_that_are_missing_or_unreadable_are_an_error(self, outputs, expected, message):
        result = ToolTrajectory().evaluate(EvalTestCase({}, outputs, expected_outputs=expected))
        assert result.score is None
        assert message in result.error

    def test_other_keys_can_be_named(self):
        evaluator = ToolTrajectory(tool_calls_key="made", expected_tool_calls_key="wanted")
        outputs = EvalTestCase({}, {"made": calls("a")}, expected_outputs={"wanted": calls("a")})
        assert evaluator.evaluate(outputs).score == 1
        assert "'wanted' in the expected outputs" in evaluator.evaluate(EvalTestCase({}, {"made": []})).error


class TestConfiguration:
    def test_it_is_built_from_data(self):
        evaluator = build(
            "tool_trajectory",
            {"mode": "any_order", "arguments": {"mode": "subset"}, "tool_arguments": {"a": "ignore"}},
        )
        assert evaluator.evaluate(case("a5 b1", "b1 a2")).score == 1

    @pytest.mark.parametrize(
        "options",
        [{"mode": "sorted"}, {"arguments": "exactly"}, {"tool_arguments": {"a": 5}},
         {"tool_arguments": ["a"]}, {"tool_calls_key": ""}],
    )  # fmt: skip
    def test_wrong_options_are_refused(self, options):
        with pytest.raises(ConfigurationError):
            ToolTrajectory(**options)

    def test_a_changed_matcher_changes_the_fingerprint(self):
        first, same, other = (
            ToolTrajectory(arguments=ArgumentMatcher("subset", arguments={"a": {"fuzzy": share}})).info()
            for share in (0.8, 0.8, 0.9)
        )
        assert first.fingerprint == same.fingerprint != other.fingerprint
