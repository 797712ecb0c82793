import pytest

from dokimos import EvalTestCase, ToolCall
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ToolCorrectness


def calls(text):
    return [ToolCall(word[0], {"n": int(word[1:])} if word[1:] else {}) for word in text.split()]


def evaluate(match, actual, expected, **options):
    outputs = EvalTestCase({}, {"toolCalls": calls(actual)}, expected_outputs={"toolCalls": calls(expected)})
    return ToolCorrectness(match=match, **options).evaluate(outputs)


@pytest.mark.parametrize(
    ("match", "actual", "expected", "score"),
    [
        ("names_only", "", "", 1),
        ("names_only", "a", "", 0),
        ("names_only", "", "a", 0),
        ("names_only", "a a b", "b a", 1),
        ("names_only", "a c", "a b", 0.5),
        ("names_only", "a b", "a", 2 / 3),
        ("names_and_order", "", "", 1),
        ("names_and_order", "a b", "a b", 1),
        ("names_and_order", "b a", "a b", 0.5),
        ("names_and_order", "a b a", "a b", 2 / 3),
        ("names_and_order", "a", "", 0),
        ("names_and_args", "", "", 1),
        ("names_and_args", "a1 b2", "b2 a1", 1),
        ("names_and_args", "a1 b3", "b2 a1", 0.5),
        ("names_and_args", "a1 a1", "a1", 2 / 3),
        ("names_and_args", "a1", "", 0),
        ("names_and_args", "a1", "a", 1),
    ],
)
def test_each_match(match, actual, expected, score):
    assert evaluate(match, actual, expected).score == pytest.approx(score)


def test_names_only_says_which_tools_differ():
    result = evaluate("names_only", "a c", "a b")
    assert result.metadata == {"correctTools": ["a"], "redundantTools": ["c"], "missingTools": ["b"]}
    assert result.reason == "The agent does not call 'b' and calls 'c', which is not expected."


def test_names_and_order_says_so_where_only_the_order_differs():
    result = evaluate("names_and_order", "b a", "a b")
    assert result.metadata == {"lcsLength": 1, "redundantTools": [], "missingTools": []}
    assert result.reason == (
        "The order or number of the calls differs: 1 of 2 calls in common order; called 'b', 'a', expected "
        "'a', 'b'."
    )


def test_names_and_args_counts_the_matches():
    result = evaluate("names_and_args", "a1 b1", "a1 b2")
    assert result.metadata == {"matchedCount": 1}
    assert result.reason == "The agent calls 'b' with other arguments than expected; b: n is 1, expected 2."


def test_names_and_args_tells_other_arguments_from_other_tools():
    result = evaluate("names_and_args", "a1 c1", "a2 b1")
    assert result.reason.startswith(
        "The agent calls 'a' with other arguments than expected and does not call 'b' and calls 'c', which "
        "is not expected with these arguments"
    )


def test_names_and_args_takes_matchers():
    assert evaluate("names_and_args", "a1", "a2").score == 0
    assert evaluate("names_and_args", "a1", "a2", arguments="ignore").score == 1
    assert evaluate("names_and_args", "a1", "a", arguments="exact").score == 0
    assert evaluate("names_and_args", "a1 b1", "a2 b1", tool_arguments={"a": "ignore"}).score == 1


def test_the_defaults():
    evaluator = ToolCorrectness()
    assert (evaluator.name, evaluator.match, evaluator.threshold) == ("Tool Correctness", "names_only", 1.0)


@pytest.mark.parametrize("options", [{"match": "names"}, {"arguments": 5}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigurationError):
        ToolCorrectness(**options)
